// Python face of the kernels on labelings: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/block_data.hpp"
#include "labeling/tree_dp.hpp"
#include "numeric/threads.hpp"
#include "python/arrays.hpp"
#include "sequences/count_dp.hpp"

using namespace maxmargin::structures;

namespace {

// A wrong shape would read foreign memory.
Forest forest_of(const Reals& unary, const Reals& pairwise) {
    if (unary.ndim() != 2 || unary.shape(1) == 0) throw nb::value_error("unary must be of shape (nodes, labels), with at least one label");
    const std::size_t n = unary.shape(1);
    const std::size_t d = pairwise.ndim();
    const bool square = (d == 2 || d == 3) && pairwise.shape(d - 2) == n && pairwise.shape(d - 1) == n;
    if (!square || (d == 3 && pairwise.shape(0) != unary.shape(0)))
        throw nb::value_error("pairwise must be of shape (labels, labels), or (nodes, labels, labels) with one table per node");
    return {unary.shape(0), n, nullptr, unary.data(), pairwise.data(), d == 2};
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

nb::tuple tree_marginals(const Reals& unary, const Reals& pairwise, const Int32s& parent, double temperature) {
    Forest forest = forest_of(unary, pairwise);
    const std::int64_t whole[] = {0, static_cast<std::int64_t>(forest.n_nodes)};
    check_forests(whole, 2, &parent, forest.n_nodes);
    forest.parent = parent.data();
    require(temperature >= 0 && !std::isinf(temperature), "temperature must be finite and not negative");
    const auto nodes = zeros<double>({forest.n_nodes, forest.n_labels});
    const auto edges = zeros<double>({forest.n_nodes, forest.n_labels, forest.n_labels});
    double total;
    {
        ScopedGilRelease unlocked;
        TreeSolver solver;
        total = solver.marginals(forest, temperature, nodes.data, edges.data);
    }
    return nb::make_tuple(nodes.array, edges.array, total);
}

// f(begin, end) for ranges of 0 .. count - 1, shared out among threads; every forest is a result of its own, so their number changes
// nothing.
template <class F>
void in_ranges(int n_threads, std::size_t count, const F& f) {
    const std::size_t pieces = n_threads > 1 ? std::min(count, 8 * static_cast<std::size_t>(n_threads)) : std::min<std::size_t>(count, 1);
    maxmargin::share_out(n_threads, pieces, [&](std::size_t k) { f(count * k / pieces, count * (k + 1) / pieces); });
}

nb::tuple forest_best_many(const Reals& unary, const Reals& pairwise, const Int64s& offsets, const std::optional<Int32s>& parent,
                           int n_threads) {
    Forest all = forest_of(unary, pairwise);
    check_forests(offsets.data(), offsets.size(), parent ? &*parent : nullptr, all.n_nodes);
    if (parent) all.parent = parent->data();
    const std::size_t count = offsets.size() - 1;
    const auto labels = zeros<std::int32_t>({all.n_nodes});
    const auto scores = zeros<double>({count});
    {
        ScopedGilRelease unlocked;
        in_ranges(n_threads, count, [&](std::size_t begin, std::size_t end) {
            TreeSolver solver;
            solver.start(all, 0);
            for (std::size_t q = begin; q < end; ++q)
                scores.data[q] = solver.best_again(part_of(all, offsets, q), labels.data + offsets.data()[q]);
        });
    }
    return nb::make_tuple(labels.array, scores.array);
}

// Logarithms of the marginals of the nodes of many forests, and of the sums over all labelings.
nb::tuple forest_marginals_many(const Reals& unary, const Reals& pairwise, const Int64s& offsets, const std::optional<Int32s>& parent,
                                double temperature, int n_threads) {
    Forest all = forest_of(unary, pairwise);
    check_forests(offsets.data(), offsets.size(), parent ? &*parent : nullptr, all.n_nodes);
    require(temperature >= 0 && !std::isinf(temperature), "temperature must be finite and not negative");
    if (parent) all.parent = parent->data();
    const std::size_t count = offsets.size() - 1, n = all.n_labels;
    const auto nodes = zeros<double>({all.n_nodes, n});
    const auto totals = zeros<double>({count});
    {
        ScopedGilRelease unlocked;
        in_ranges(n_threads, count, [&](std::size_t begin, std::size_t end) {
            TreeSolver solver;
            std::vector<double> edges;
            for (std::size_t q = begin; q < end; ++q) {
                const Forest part = part_of(all, offsets, q);
                if (edges.size() < part.n_nodes * n * n) edges.resize(part.n_nodes * n * n);
                totals.data[q] = solver.marginals(part, temperature, nodes.data + static_cast<std::size_t>(offsets.data()[q]) * n, edges.data());
            }
        });
    }
    return nb::make_tuple(nodes.array, totals.array);
}

// Scores of all labels of all rows, (rows, labels), by weights of shape (features, labels with padding).
nb::ndarray<nb::numpy, double> score_rows(const Features& features, const Reals& weights, std::size_t n_labels, int n_threads) {
    const std::size_t stride = stride_for(n_labels), n = features.rows.n_rows;
    require(n_labels >= 1 && weights.ndim() == 2 && weights.shape(0) == features.rows.n_columns && weights.shape(1) == stride,
            "weights must have a row for every feature, and an even number of columns unless there is one label");
    const auto scores = zeros<double>({n, n_labels});
    {
        ScopedGilRelease unlocked;
        in_ranges(n_threads, n, [&](std::size_t begin, std::size_t end) {
            std::vector<double> row(stride);
            for (std::size_t t = begin; t < end; ++t) {
                score_row(features.rows, t, weights.data(), stride, row.data());
                std::copy_n(row.data(), n_labels, scores.data + t * n_labels);
            }
        });
    }
    return scores.array;
}

// The best labeling of one forest for every number of wrong labels: scores (L + 1), minus infinity where there is none, and labels.
nb::tuple forest_best_by_count(const Reals& unary, const Reals& pairwise, const Int32s& truth, const std::optional<Int32s>& parent) {
    Forest forest = forest_of(unary, pairwise);
    const std::size_t L = forest.n_nodes, n = forest.n_labels;
    require(forest.shared, "pairwise must be of shape (labels, labels)");
    const std::int64_t whole[] = {0, static_cast<std::int64_t>(L)};
    check_forests(whole, 2, parent ? &*parent : nullptr, L);
    if (parent) forest.parent = parent->data();
    require(truth.size() == L, "truth must have one label for every node");
    const auto known = [&](std::int32_t k) { return k >= 0 && static_cast<std::size_t>(k) < n; };
    require(std::all_of(truth.data(), truth.data() + L, known), "truth must have labels between 0 and the number of labels less one");
    const auto scores = zeros<double>({L + 1});
    const auto labels = zeros<std::int32_t>({L + 1, L});
    {
        ScopedGilRelease unlocked;
        std::vector<double> turned(n * n);
        transpose(forest.pairwise, n, turned.data());
        CountSolver solver;
        solver.solve(forest, turned.data(), truth.data());
        for (std::size_t j = 0; j <= L; ++j) {
            scores.data[j] = solver.score(j);
            if (!std::isinf(scores.data[j])) solver.labels(j, labels.data + j * L);
        }
    }
    return nb::make_tuple(scores.array, labels.array);
}

}  // namespace

void bind_sequence_trees(nb::module_& m) {
    m.def("tree_marginals", &tree_marginals, "unary"_a.noconvert(), "pairwise"_a.noconvert(), "parent"_a.noconvert(), "temperature"_a);
    m.def("forest_best_many", &forest_best_many, "unary"_a.noconvert(), "pairwise"_a.noconvert(), "offsets"_a.noconvert(),
          "parent"_a.noconvert().none(), "n_threads"_a = 1);
    m.def("forest_marginals_many", &forest_marginals_many, "unary"_a.noconvert(), "pairwise"_a.noconvert(), "offsets"_a.noconvert(),
          "parent"_a.noconvert().none(), "temperature"_a, "n_threads"_a = 1);
    m.def("score_rows", &score_rows, "features"_a, "weights"_a.noconvert(), "n_labels"_a, "n_threads"_a = 1);
    m.def("forest_best_by_count", &forest_best_by_count, "unary"_a.noconvert(), "pairwise"_a.noconvert(), "truth"_a.noconvert(),
          "parent"_a.noconvert().none());
}
