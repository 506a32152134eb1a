// Python face of moves of labelings with cliques: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/optional.h>

#include <optional>

#include "labeling/clique_moves.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::labeling;

namespace {

using Values = InputVector<double>;
using Table = Input<double, nb::ndim<2>>;
using Edges = Input<std::int32_t, nb::shape<-1, 2>>;
using Masks = Input<std::uint8_t, nb::ndim<2>>;

void check_numbers(const std::int32_t* values, std::size_t n, std::size_t end, const char* message) {
    for (std::size_t k = 0; k < n; ++k) require(values[k] >= 0 && static_cast<std::size_t>(values[k]) < end, message);
}

// Sizes and numbers are checked here though Python has made them: a wrong one would read foreign memory.
nb::tuple best_move(Table unary, Edges edges, Reals table, Values weights, Int64s offsets, Int32s nodes, Values some_move, Values some_stay,
                    std::optional<Table> label_stays, Int32s labels, Int32s proposal) {
    const std::size_t n = unary.shape(0), n_labels = unary.shape(1), n_edges = edges.shape(0), n_cliques = some_move.size();
    require(labels.size() == n && proposal.size() == n, "labels and proposal must have one entry for every row of unary");
    require(weights.size() == n_edges, "weights must have one entry for every edge");
    require(table.size() == n_labels * n_labels || table.size() == n_edges * n_labels * n_labels, "table must have shape (L, L) or (E, L, L)");
    require(offsets.size() == n_cliques + 1 && some_stay.size() == n_cliques, "offsets, some_move and some_stay must agree on the cliques");
    require(!label_stays || (label_stays->shape(0) == n_cliques && label_stays->shape(1) == n_labels), "label_stays must have shape (K, L)");
    check_forests(offsets.data(), offsets.size(), nullptr, nodes.size());
    const auto moved = zeros<std::uint8_t>({n});
    double change;
    {
        ScopedGilRelease unlocked;
        check_numbers(labels.data(), n, n_labels, "labels must be label numbers");
        check_numbers(proposal.data(), n, n_labels, "proposal must be label numbers");
        check_numbers(edges.data(), 2 * n_edges, n, "edges must be node numbers");
        check_numbers(nodes.data(), nodes.size(), n, "nodes must be node numbers");
        const auto count = static_cast<std::int64_t>(n_labels);
        CliqueMove move(static_cast<std::int64_t>(n), count, unary.data(), labels.data(), proposal.data());
        const bool own_tables = table.size() != n_labels * n_labels;
        move.add(PairTerms{edges.data(), static_cast<std::int64_t>(n_edges), table.data(), own_tables, weights.data(), count});
        move.add(SetTerms{offsets.data(), nodes.data(), static_cast<std::int64_t>(n_cliques), some_move.data(), some_stay.data(),
                          label_stays ? label_stays->data() : nullptr});
        change = move.solve(moved.data);
    }
    return nb::make_tuple(change, moved.array);
}

nb::ndarray<nb::numpy, double> savings_of_diameters(Table table, Masks present, std::int64_t alpha) {
    require(table.shape(0) == table.shape(1) && present.shape(1) == table.shape(0), "table must have shape (L, L), present (K, L)");
    require(alpha >= 0 && static_cast<std::size_t>(alpha) < table.shape(0), "alpha must be a label number");
    const auto savings = zeros<double>({present.shape(0), present.shape(1)});
    {
        ScopedGilRelease unlocked;
        diameter_savings(table.data(), static_cast<std::int64_t>(table.shape(0)), present.data(), static_cast<std::int64_t>(present.shape(0)), alpha, savings.data);
    }
    return savings.array;
}

}  // namespace

void bind_clique_moves(nb::module_& m) {
    m.def("best_clique_move", &best_move, "unary"_a.noconvert(), "edges"_a.noconvert(), "table"_a.noconvert(), "weights"_a.noconvert(),
          "offsets"_a.noconvert(), "nodes"_a.noconvert(), "some_move"_a.noconvert(), "some_stay"_a.noconvert(),
          "label_stays"_a.none().noconvert(), "labels"_a.noconvert(), "proposal"_a.noconvert());
    m.def("diameter_savings", &savings_of_diameters, "table"_a.noconvert(), "present"_a.noconvert(), "alpha"_a);
}
