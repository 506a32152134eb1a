// Python face of the kernels on labelings: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/optional.h>

#include <cmath>
#include <optional>

#include "bindings/arrays.hpp"
#include "structures/tree_dp.hpp"

using namespace maxmargin::structures;

namespace {

// A wrong shape or parent here would read foreign memory, so these checks stay even though Python has made them.
Forest forest_of(const Reals& unary, const Reals& pairwise) {
    if (unary.ndim() != 2 || unary.shape(1) == 0) throw nb::value_error("unary must be of shape (nodes, labels), with at least one label");
    const std::size_t n = unary.shape(1);
    const std::size_t d = pairwise.ndim();
    const bool square = (d == 2 || d == 3) && pairwise.shape(d - 2) == n && pairwise.shape(d - 1) == n;
    if (!square || (d == 3 && pairwise.shape(0) != unary.shape(0)))
        throw nb::value_error("pairwise must be of shape (labels, labels), or (nodes, labels, labels) with one table per node");
    return {unary.shape(0), n, nullptr, unary.data(), pairwise.data(), d == 2};
}

Forest forest_of(const Reals& unary, const Reals& pairwise, const Int32s& parent) {
    Forest forest = forest_of(unary, pairwise);
    if (parent.size() != forest.n_nodes) throw nb::value_error("parent must have one entry for each row of unary");
    for (std::size_t t = 0; t < forest.n_nodes; ++t)
        if (parent.data()[t] < -1 || parent.data()[t] >= static_cast<std::int64_t>(t))
            throw nb::value_error("parent[t] must be -1 or less than t; number every node after its parent");
    forest.parent = parent.data();
    return forest;
}

void check_offsets(const Int64s& offsets, std::size_t n_nodes) {
    const std::size_t count = offsets.size();
    bool rising = count >= 1 && offsets.data()[0] == 0 && offsets.data()[count - 1] == static_cast<std::int64_t>(n_nodes);
    for (std::size_t q = 1; q < count && rising; ++q) rising = offsets.data()[q - 1] <= offsets.data()[q];
    if (!rising) throw nb::value_error("offsets must rise from 0 to the number of rows of unary");
}

// Parents are counted from the first node of their forest.
void check_parents_of_many(const Int32s& parent, const Int64s& offsets, std::size_t n_nodes) {
    if (parent.size() != n_nodes) throw nb::value_error("parent must have one entry for each row of unary");
    for (std::size_t q = 0; q + 1 < offsets.size(); ++q)
        for (std::int64_t t = offsets.data()[q]; t < offsets.data()[q + 1]; ++t)
            if (parent.data()[t] < -1 || parent.data()[t] >= t - offsets.data()[q])
                throw nb::value_error("every parent must be -1 or come before its child; number every node after its parent");
}

// Forest q of many laid end to end.
Forest part_of(const Forest& all, const Int64s& offsets, std::size_t q) {
    const auto begin = static_cast<std::size_t>(offsets.data()[q]);
    Forest part = all;
    part.n_nodes = static_cast<std::size_t>(offsets.data()[q + 1]) - begin;
    part.unary += begin * all.n_labels;
    if (all.parent) part.parent += begin;
    if (!all.shared) part.pairwise += begin * all.n_labels * all.n_labels;
    return part;
}

nb::tuple tree_best(const Reals& unary, const Reals& pairwise, const Int32s& parent) {
    const Forest forest = forest_of(unary, pairwise, parent);
    const auto labels = zeros<std::int32_t>({forest.n_nodes});
    double score;
    {
        nb::gil_scoped_release unlocked;
        TreeSolver solver;
        score = solver.best(forest, labels.data);
    }
    return nb::make_tuple(labels.array, score);
}

nb::tuple tree_marginals(const Reals& unary, const Reals& pairwise, const Int32s& parent, double temperature) {
    const Forest forest = forest_of(unary, pairwise, parent);
    if (!(temperature >= 0) || std::isinf(temperature)) throw nb::value_error("temperature must be finite and not negative");
    const auto nodes = zeros<double>({forest.n_nodes, forest.n_labels});
    const auto edges = zeros<double>({forest.n_nodes, forest.n_labels, forest.n_labels});
    double total;
    {
        nb::gil_scoped_release unlocked;
        TreeSolver solver;
        total = solver.marginals(forest, temperature, nodes.data, edges.data);
    }
    return nb::make_tuple(nodes.array, edges.array, total);
}

nb::tuple forest_best_many(const Reals& unary, const Reals& pairwise, const Int64s& offsets, const std::optional<Int32s>& parent) {
    Forest all = forest_of(unary, pairwise);
    check_offsets(offsets, all.n_nodes);
    if (parent) {
        check_parents_of_many(*parent, offsets, all.n_nodes);
        all.parent = parent->data();
    }
    const std::size_t count = offsets.size() - 1;
    const auto labels = zeros<std::int32_t>({all.n_nodes});
    const auto scores = zeros<double>({count});
    {
        nb::gil_scoped_release unlocked;
        TreeSolver solver;
        solver.start(all, 0);
        for (std::size_t q = 0; q < count; ++q)
            scores.data[q] = solver.best_again(part_of(all, offsets, q), labels.data + offsets.data()[q]);
    }
    return nb::make_tuple(labels.array, scores.array);
}

}  // namespace

void bind_structures(nb::module_& m) {
    m.def("tree_best", &tree_best, "unary"_a.noconvert(), "pairwise"_a.noconvert(), "parent"_a.noconvert());
    m.def("tree_marginals", &tree_marginals, "unary"_a.noconvert(), "pairwise"_a.noconvert(), "parent"_a.noconvert(), "temperature"_a);
    m.def("forest_best_many", &forest_best_many, "unary"_a.noconvert(), "pairwise"_a.noconvert(), "offsets"_a.noconvert(),
          "parent"_a.noconvert().none());
}
