// Blocks of nodes with labels: what is given, where the weights of labels and pairs of labels lie, and who finds the best labels.
//
// A labeling is scored by parts: every node by its features and label, roots and leaves once more by their label, and every edge
// by the labels of its two ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/rows.hpp"
#include "labeling/tree_dp.hpp"

namespace maxmargin::blocks {

// A user's own search for the best labeling of a block, instead of Viterbi: writes the labels (n_nodes) with the largest sum of
// scores (n_nodes x n_labels) and, over the edges, of table[parent's label][own label], and returns 0 unless it failed.
// Documented in docs/native.md.
using DecoderFunction = std::int64_t (*)(const double* reals, const std::int64_t* integers, std::int64_t block, std::int64_t n_nodes,
                                         std::int64_t n_labels, const double* scores, const double* table, std::int32_t* labels);

// Arrays stay the caller's.
struct LabelingData {
    Rows x;                       // one row per node
    const std::int32_t* y;        // label of every node
    const double* cost;           // of a wrong label, for every node
    const std::int64_t* offsets;  // block i has the nodes offsets[i] to offsets[i + 1] - 1
    const std::int32_t* parent;   // for every node, counted within its block, -1 for a root; null if all blocks are chains
    std::size_t n_blocks, n_labels;
    DecoderFunction decoder = nullptr;  // the user's, with its data
    const double* reals = nullptr;
    const std::int64_t* integers = nullptr;

    std::size_t first(std::size_t i) const { return static_cast<std::size_t>(offsets[i]); }
    std::size_t length(std::size_t i) const { return static_cast<std::size_t>(offsets[i + 1]) - first(i); }
    const std::int32_t* truth(std::size_t i) const { return y + first(i); }
    std::int64_t parent_of(std::size_t i, std::size_t t) const {
        return parent ? parent[first(i) + t] : static_cast<std::int64_t>(t) - 1;
    }
    bool is_root(std::size_t i, std::size_t t) const { return parent_of(i, t) < 0; }
    // f(one end, other end), counted within the block
    template <class F>
    void for_edges(std::size_t i, const F& f) const {
        for (std::size_t t = 0; t < length(i); ++t)
            if (const std::int64_t p = parent_of(i, t); p >= 0) f(static_cast<std::size_t>(p), t);
    }
    template <class AnyLabel>
    std::uint32_t pair(AnyLabel one, AnyLabel other) const {
        return static_cast<std::uint32_t>(one) * static_cast<std::uint32_t>(n_labels) + static_cast<std::uint32_t>(other);
    }
};

// Places of the weights: [feature][label] with padding, roots, leaves, then the table of pairs. The user has [label][feature].
struct LabelLayout {
    std::size_t n_labels, n_inputs, stride, root, leaf, table;

    explicit LabelLayout(const LabelingData& data)
        : n_labels(data.n_labels), n_inputs(data.x.n_columns), stride(stride_for(n_labels)), root(n_inputs * stride), leaf(root + stride),
          table(leaf + stride) {}
    std::size_t size() const { return table + n_labels * n_labels; }
    std::size_t user_size() const { return n_labels * (n_inputs + 2 + n_labels); }

    // Most weights of many features are zero: what is there already is not written, and fresh pages that nobody writes to cost nothing.
    void exchange(const double* from, double* to, bool to_user) const {
        const auto copy = [&](std::size_t user, std::size_t own) {
            double& there = to_user ? to[user] : to[own];
            const double here = to_user ? from[own] : from[user];
            if (!(there == here)) there = here;
        };
        for (std::size_t k = 0; k < n_labels; ++k) {
            for (std::size_t j = 0; j < n_inputs; ++j) copy(k * n_inputs + j, j * stride + k);
            copy(n_labels * n_inputs + k, root + k);
            copy(n_labels * n_inputs + n_labels + k, leaf + k);
            for (std::size_t b = 0; b < n_labels; ++b) copy(n_labels * (n_inputs + 2) + k * n_labels + b, table + k * n_labels + b);
        }
    }
};

// Ask a user's decoder, and check what can be checked.
inline void decode(const LabelingData& data, std::size_t block, std::size_t n_nodes, const double* scores, const double* table,
                   std::int32_t* labels) {
    const auto K = static_cast<std::int64_t>(data.n_labels);
    std::fill(labels, labels + n_nodes, -1);
    const std::int64_t status = data.decoder(data.reals, data.integers, static_cast<std::int64_t>(block),
                                             static_cast<std::int64_t>(n_nodes), K, scores, table, labels);
    if (status != 0)
        throw std::invalid_argument("the decoder returned " + std::to_string(status) + " instead of 0, for block " + std::to_string(block));
    for (std::size_t t = 0; t < n_nodes; ++t)
        if (labels[t] < 0 || labels[t] >= K)
            throw std::invalid_argument("the decoder wrote the label " + std::to_string(labels[t]) + " at node " + std::to_string(t) +
                                        " of block " + std::to_string(block) + "; labels are 0 to " + std::to_string(K - 1));
}

// Finds the best labels of a block from scores of labels and a table of pairs: Viterbi on trees, or the user's function. Another
// search (a minimum cut, moves, messages) is another class with these two members.
class LabelDecoder {
  public:
    explicit LabelDecoder(const LabelingData& data) : data_(data), transposed_(data.n_labels * data.n_labels) {
        solver_.start_turned(transposed_.data(), data_.n_labels);
    }
    // Scratch holds pointers into itself, so a copy makes its own.
    LabelDecoder(const LabelDecoder& other) : data_(other.data_), transposed_(other.transposed_) {
        solver_.start_turned(transposed_.data(), data_.n_labels);
    }

    bool exact() const { return !data_.decoder; }
    // The entry of the table has changed.
    void table_moved(const double* table, std::size_t pair) {
        const std::size_t K = data_.n_labels;
        transposed_[pair % K * K + pair / K] = table[pair];
    }
    void best(std::size_t i, const double* scores, const double* table, std::int32_t* labels) {
        if (data_.decoder) decode(data_, i, data_.length(i), scores, table, labels);
        else solver_.best_again(forest(i, scores, table), labels);
    }
    // The table of pairs with own labels in rows.
    const double* turned() const { return transposed_.data(); }
    structures::Forest forest(std::size_t i, const double* scores, const double* table) const {
        return {data_.length(i), data_.n_labels, data_.parent ? data_.parent + data_.first(i) : nullptr, scores, table, true};
    }

  private:
    const LabelingData data_;
    std::vector<double> transposed_;  // the table of pairs with own labels in rows
    structures::TreeSolver solver_;
};

}  // namespace maxmargin::blocks
