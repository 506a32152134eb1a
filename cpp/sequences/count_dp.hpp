// The best labelings of a forest with 0, 1, 2, ... wrong labels, by belief propagation with a counter (spec 7.4).
//
// Where all wrong labels of a block cost the same, this is the whole frontier of score and loss, so the most violating labeling under
// any surrogate that rises with the score: what a search along the convex hull misses below its edges is here. A chain of L nodes
// takes L/2 times the work of Viterbi.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "labeling/tree_dp.hpp"

namespace maxmargin::structures {

class CountSolver {
  public:
    // `turned` is the table of the forest with own labels in rows; the forest's is [parent's label][own label], one for all edges.
    void solve(const Forest& forest, const double* turned, const std::int32_t* truth) {
        const std::size_t n = forest.n_labels, L = forest.n_nodes;
        forest_ = forest;
        value_.resize(L);
        message_.resize(L);
        before_.resize(L);
        total_.assign(1, 0.0);
        for (std::size_t t = 0; t < L; ++t) {
            // No wrong label, or one.
            value_[t].assign(2 * n, kNever);
            for (std::size_t k = 0; k < n; ++k) value_[t][(k == static_cast<std::size_t>(truth[t]) ? 0 : n) + k] = forest.unary[t * n + k];
        }
        for (std::size_t t = L; t-- > 0;) {
            const std::int64_t p = forest.parent_of(t);
            const std::size_t counts = value_[t].size() / n;
            if (p < 0) {
                message_[t].resize(counts);
                for (std::size_t j = 0; j < counts; ++j)
                    message_[t][j] = largest_of(n, [&](std::size_t k) { return value_[t][j * n + k]; });
                merge(total_, message_[t], before_[t], 1);
            } else {
                message_[t].resize(counts * n);
                for (std::size_t j = 0; j < counts; ++j)
                    combine<MaxPlus>(turned, value_[t].data() + j * n, n, kNever, message_[t].data() + j * n);
                merge(value_[static_cast<std::size_t>(p)], message_[t], before_[t], n);
            }
        }
    }

    // Of the best labeling with j wrong labels, j = 0 .. L; minus infinity if there is none.
    double score(std::size_t j) const { return total_[j]; }

    void labels(std::size_t j, std::int32_t* out) {
        const std::size_t n = forest_.n_labels, L = forest_.n_nodes;
        left_.assign(L, 0);
        for (std::size_t t = 0; t < L; ++t) {
            const std::int64_t p = forest_.parent_of(t);
            const std::size_t width = p < 0 ? 1 : n, above = p < 0 ? 0 : static_cast<std::size_t>(out[p]);
            // Subtrees were merged from the last to the first, so the first is the last one that was.
            std::size_t& left = p < 0 ? j : left_[static_cast<std::size_t>(p)];
            const std::size_t own = share(t, left, width, above);
            left -= own;
            const double* v = value_[t].data() + own * n;
            const double* row = p < 0 ? nullptr : forest_.table(t) + above * n;
            out[t] = static_cast<std::int32_t>(first_largest(n, [&](std::size_t b) { return row ? v[b] + row[b] : v[b]; }));
            left_[t] = own;
        }
    }

  private:
    static constexpr double kNever = -std::numeric_limits<double>::infinity();

    // into[j][a] = the largest old into[j - i][a] + message[i][a]; the old one becomes `before`.
    static void merge(std::vector<double>& into, const std::vector<double>& message, std::vector<double>& before, std::size_t width) {
        before.swap(into);
        const std::size_t m = before.size() / width, k = message.size() / width;
        into.assign((m + k - 1) * width, kNever);
        for (std::size_t q = 0; q < m; ++q)
            for (std::size_t i = 0; i < k; ++i)
                for (std::size_t a = 0; a < width; ++a) {
                    const double sum = before[q * width + a] + message[i * width + a];
                    double& best = into[(q + i) * width + a];
                    if (sum > best) best = sum;
                }
    }

    // How many of j wrong labels are in the subtree of t, if its parent has the label `above`.
    std::size_t share(std::size_t t, std::size_t j, std::size_t width, std::size_t above) const {
        const std::size_t m = before_[t].size() / width, k = message_[t].size() / width;
        std::size_t best = 0;
        double highest = kNever;
        for (std::size_t i = 0; i < k && i <= j; ++i) {
            if (j - i >= m) continue;
            const double sum = before_[t][(j - i) * width + above] + message_[t][i * width + above];
            if (sum > highest) highest = sum, best = i;
        }
        return best;
    }

    Forest forest_{};
    std::vector<std::vector<double>> value_;    // of a node, [count][label], with its subtrees
    std::vector<std::vector<double>> message_;  // to its parent, [count][parent's label]; of a root, [count]
    std::vector<std::vector<double>> before_;   // of its parent before that
    std::vector<double> total_;
    std::vector<std::size_t> left_;
};

}  // namespace maxmargin::structures
