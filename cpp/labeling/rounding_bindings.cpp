// Python face of roundings: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/string.h>

#include "labeling/roundings.hpp"
#include "python/arrays.hpp"

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
    ScopedGilRelease unlocked;
    return expected_energy(marginals.data(), unary.data(), pairs, static_cast<std::int64_t>(marginals.shape(0)), static_cast<int>(marginals.shape(1)), nullptr);
}

nb::tuple mean_energy_gradient(Table marginals, Table unary, Edges edges, Reals tables, Values weights) {
    const WeightedTables pairs = checked(marginals, unary, edges, tables, weights);
    const auto gradient = zeros<double>({marginals.shape(0), marginals.shape(1)});
    double value;
    {
        ScopedGilRelease unlocked;
        value = expected_energy(marginals.data(), unary.data(), pairs, static_cast<std::int64_t>(marginals.shape(0)), static_cast<int>(marginals.shape(1)), gradient.data);
    }
    return nb::make_tuple(value, gradient.array);
}

// A fractional labeling that is rounded many times.
class PyRounder {
  public:
    PyRounder(Table marginals) : n_nodes_(marginals.shape(0)), n_labels_(marginals.shape(1)), rounder_(marginals.data(), static_cast<std::int64_t>(n_nodes_), static_cast<int>(n_labels_)) {
        require(n_labels_ >= 1, "at least one label is needed");
    }

    nb::tuple energies(Table unary, Edges edges, Reals tables, Values weights, const std::string& method, int length, std::uint64_t seed, std::int64_t first, std::int64_t count,
                       int n_threads) const {
        require(unary.shape(0) == n_nodes_ && unary.shape(1) == n_labels_, "unary must have shape (nodes, labels)");
        const WeightedTables pairs = checked(unary, unary, edges, tables, weights);
        const Rounding word = named(method, length);
        require(count >= 1, "at least one draw is needed");
        const auto found = zeros<double>({static_cast<std::size_t>(count)});
        std::int64_t best;
        {
            ScopedGilRelease unlocked;
            best = rounder_.energies(unary.data(), pairs, word, length, seed, first, count, n_threads, found.data);
        }
        return nb::make_tuple(found.array, first + best);
    }
    nb::ndarray<nb::numpy, std::int32_t> labels(const std::string& method, int length, std::uint64_t seed, std::int64_t which) const {
        const Rounding word = named(method, length);
        std::vector<std::int32_t> found(n_nodes_), waiting;
        {
            ScopedGilRelease unlocked;
            rounder_.draw(word, length, seed, static_cast<std::uint64_t>(which), found.data(), waiting);
        }
        return array_of(std::move(found));
    }
    nb::ndarray<nb::numpy, std::int32_t> window(int first, int length, double r) const {
        require(length >= 1, "a window holds at least one label");
        std::vector<std::int32_t> found(n_nodes_);
        rounder_.window(first, length, r, found.data());
        return array_of(std::move(found));
    }

  private:
    static Rounding named(const std::string& method, int length) {
        require(length >= 1, "a window holds at least one label");
        return chosen<Rounding>(method, "rounding", {{"complete", Rounding::complete}, {"independent", Rounding::independent}, {"interval", Rounding::interval}});
    }
    std::size_t n_nodes_, n_labels_;
    Rounder rounder_;
};

}  // namespace

void bind_roundings(nb::module_& m) {
    m.def("mean_energy", &mean_energy, "marginals"_a.noconvert(), "unary"_a.noconvert(), "edges"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert());
    m.def("mean_energy_gradient", &mean_energy_gradient, "marginals"_a.noconvert(), "unary"_a.noconvert(), "edges"_a.noconvert(), "tables"_a.noconvert(),
          "weights"_a.noconvert());
    nb::class_<PyRounder>(m, "Rounder")
        .def(nb::init<Table>(), "marginals"_a.noconvert())
        .def("energies", &PyRounder::energies, "unary"_a.noconvert(), "edges"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert(), "method"_a, "length"_a, "seed"_a,
             "first"_a, "count"_a, "n_threads"_a)
        .def("labels", &PyRounder::labels, "method"_a, "length"_a, "seed"_a, "which"_a)
        .def("window", &PyRounder::window, "first"_a, "length"_a, "r"_a);
}
