// Python face of roundings: arrays in, arrays out, interpreter lock released.
#include "bindings/arrays.hpp"
#include "labeling/roundings.hpp"

using namespace maxmargin::labeling;

namespace {

using Edges = Input<std::int32_t, nb::shape<-1, 2>>;
using Table = Input<double, nb::ndim<2>>;
using Values = InputVector<double>;

WeightedTables checked(const Table& marginals, const Table& unary, const Edges& edges, const Reals& tables, const Values& weights) {
    const std::size_t n = marginals.shape(0), L = marginals.shape(1), E = edges.shape(0);
    require(L >= 1 && unary.shape(0) == n && unary.shape(1) == L, "unary must have the shape of marginals, with at least one label");
    require(weights.size() == E, "weights must have one entry for each edge");
    const bool shared = tables.ndim() == 2;
    require((shared || (tables.ndim() == 3 && tables.shape(0) == E)) && tables.shape(tables.ndim() - 1) == L && tables.shape(tables.ndim() - 2) == L,
            "tables must have shape (labels, labels) or (edges, labels, labels)");
    for (std::size_t k = 0; k < edges.size(); ++k)
        require(edges.data()[k] >= 0 && static_cast<std::size_t>(edges.data()[k]) < n, "an edge leads to a node that does not exist");
    return {edges.data(), static_cast<std::int64_t>(E), shared, tables.data(), weights.data()};
}

double mean_energy(Table marginals, Table unary, Edges edges, Reals tables, Values weights) {
    const WeightedTables pairs = checked(marginals, unary, edges, tables, weights);
    nb::gil_scoped_release unlocked;
    return expected_energy(marginals.data(), unary.data(), pairs, static_cast<std::int64_t>(marginals.shape(0)), static_cast<int>(marginals.shape(1)), nullptr);
}

nb::tuple mean_energy_gradient(Table marginals, Table unary, Edges edges, Reals tables, Values weights) {
    const WeightedTables pairs = checked(marginals, unary, edges, tables, weights);
    const auto gradient = zeros<double>({marginals.shape(0), marginals.shape(1)});
    double value;
    {
        nb::gil_scoped_release unlocked;
        value = expected_energy(marginals.data(), unary.data(), pairs, static_cast<std::int64_t>(marginals.shape(0)), static_cast<int>(marginals.shape(1)), gradient.data);
    }
    return nb::make_tuple(value, gradient.array);
}

}  // namespace

void bind_roundings(nb::module_& m) {
    m.def("mean_energy", &mean_energy, "marginals"_a.noconvert(), "unary"_a.noconvert(), "edges"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert());
    m.def("mean_energy_gradient", &mean_energy_gradient, "marginals"_a.noconvert(), "unary"_a.noconvert(), "edges"_a.noconvert(), "tables"_a.noconvert(),
          "weights"_a.noconvert());
}
