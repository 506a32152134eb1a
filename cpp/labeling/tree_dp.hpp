// Belief propagation on chains, trees and forests: the best labeling and the marginals of all labelings.
//
// A labeling y of L nodes with K labels scores  sum_t unary[t][y_t] + sum over non-roots t of pairwise_t[y_parent(t)][y_t].
// One pass from the leaves to the roots sends, from each node t to its parent, the message
//
//     m_t(a) = reduce over b of v_t(b) + pairwise_t[a][b],      v_t = unary[t] + messages of t's children.
//
// The temperature decides what reduce is: the maximum at 0 (Viterbi), tau log sum exp(. / tau) above. The way back, from the
// roots to the leaves, then reads off the best label of t given its parent's, or multiplies the parent's marginal by
//
//     p_t(b | a) = exp((v_t(b) + pairwise_t[a][b] - m_t(a)) / tau),
//
// whose logarithm is a difference of nearby numbers taken before anything large is added. So marginals are normalised to
// rounding for scores of any size (1e10 at temperature 1 included), no message is ever divided out, and nothing that is
// known only through a cancellation enters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "numeric/clones.hpp"

namespace maxmargin::structures {

// What to label. Arrays are row-major and stay the caller's.
struct Forest {
    std::size_t n_nodes, n_labels;
    const std::int32_t* parent;  // parent[t] < t, or -1 for a root; null for a chain, parent[t] = t - 1
    const double* unary;         // L x K
    const double* pairwise;      // [parent's label][own label]: K x K for all, or L x K x K, where a root's table is ignored
    bool shared;                 // which of the two

    std::int64_t parent_of(std::size_t t) const { return parent ? parent[t] : static_cast<std::int64_t>(t) - 1; }
    const double* table(std::size_t t) const { return shared ? pairwise : pairwise + t * n_labels * n_labels; }
};

struct MaxPlus {
    template <class X>
    static X step(X sum, X factor, X entry) {
        const X x = factor + entry;
        return x > sum ? x : sum;
    }
};
struct SumTimes {
    template <class X>
    static X step(X sum, X factor, X entry) {
        return sum + factor * entry;
    }
};

// W pairs of outputs of `combine`, in registers from the first row to the last; compilers do not find this by themselves.
template <class Semiring, int W>
inline void combine_block(const double* table, const double* factor, std::size_t n, double zero, double* out) {
    Pair sum[W];
    for (int w = 0; w < W; ++w) sum[w] = Pair{zero, zero};
    for (std::size_t r = 0; r < n; ++r, table += n) {
        const Pair x = {factor[r], factor[r]};
        for (int w = 0; w < W; ++w) {
            Pair entry;
            __builtin_memcpy(&entry, table + 2 * w, sizeof entry);
            sum[w] = Semiring::step(sum[w], x, entry);
        }
    }
    __builtin_memcpy(out, sum, sizeof sum);
}

// out[c] = the semiring's sum over rows r of factor[r] times table[r][c], n x n.
template <class Semiring>
inline void combine(const double* table, const double* factor, std::size_t n, double zero, double* out) {
    std::size_t c = 0;
    for (; c + 16 <= n; c += 16) combine_block<Semiring, 8>(table + c, factor, n, zero, out + c);
    if (c + 8 <= n) combine_block<Semiring, 4>(table + c, factor, n, zero, out + c), c += 8;
    if (c + 4 <= n) combine_block<Semiring, 2>(table + c, factor, n, zero, out + c), c += 4;
    if (c + 2 <= n) combine_block<Semiring, 1>(table + c, factor, n, zero, out + c), c += 2;
    if (c < n) {
        double sum = zero;
        for (std::size_t r = 0; r < n; ++r) sum = Semiring::step(sum, factor[r], table[r * n + c]);
        out[c] = sum;
    }
}

inline void transpose(const double* table, std::size_t n, double* out) {
    for (std::size_t r = 0; r < n; ++r)
        for (std::size_t c = 0; c < n; ++c) out[c * n + r] = table[r * n + c];
}

// The largest of n values.
template <class Value>
inline double largest_of(std::size_t n, const Value& value) {
    // Four at a time: the comparisons would otherwise wait for each other.
    double a = value(0), b = a, c = a, d = a;
    std::size_t k = 1;
    for (; k + 4 <= n; k += 4) {
        a = std::max(a, value(k));
        b = std::max(b, value(k + 1));
        c = std::max(c, value(k + 2));
        d = std::max(d, value(k + 3));
    }
    for (; k < n; ++k) a = std::max(a, value(k));
    return std::max(std::max(a, b), std::max(c, d));
}

// The lowest index of the largest.
template <class Value>
inline std::size_t first_largest(std::size_t n, const Value& value) {
    // Found in a second look: running along with the maximum, it would cost a mispredicted branch for every new record.
    const double largest = largest_of(n, value);
    std::size_t k = 0;
    while (k + 1 < n && value(k) != largest) ++k;
    return k;
}

// log sum exp of n values as a largest value and what the others add to it.
struct LogSum {
    double largest, rest;
};
template <class Value>
inline LogSum log_sum(std::size_t n, const Value& value) {
    LogSum result;
    result.largest = largest_of(n, value);
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) sum += std::exp(value(k) - result.largest);
    result.rest = std::log(sum);
    return result;
}

// Works through forests one after the other and keeps its buffers: no allocation once they have grown.
class TreeSolver {
  public:
    // Choose the temperature and, if the forests to come share a table, look at it: n_labels and pairwise of `forest` are
    // used. The functions called `..._again` then take any number of forests with these labels and this table.
    void start(const Forest& forest, double temperature) {
        const std::size_t n = forest.n_labels;
        tau_ = temperature;
        per_tau_ = 1 / temperature;
        kept_turned_ = nullptr;
        turned_.resize(n * n);
        message_.resize(n);
        factor_.resize(n);
        if (!forest.shared) return;
        if (tau_ > 0) grow_tables(1, n);
        prepare(forest, 0);
    }

    // For labelings at temperature 0 whose table the caller keeps turned around, own labels in rows: nothing to look at, and
    // the table may change between calls.
    void start_turned(const double* turned, std::size_t n_labels) {
        tau_ = 0;
        message_.resize(n_labels);
        kept_turned_ = turned;
    }

    // The labeling of the largest score. Of equally good ones, the one with the lowest label at node 0, then at node 1,
    // and so on; equality is that of the rounded sums.
    double best_again(const Forest& forest, std::int32_t* labels) {
        const std::size_t n = forest.n_labels;
        const double score = collect(forest);
        for (std::size_t t = 0; t < forest.n_nodes; ++t) {
            // Instead of K back-pointers per node, the sums behind the one that matters are formed once more.
            const double* v = belief_.data() + t * n;
            const std::int64_t p = forest.parent_of(t);
            if (p < 0) {
                labels[t] = static_cast<std::int32_t>(first_largest(n, [&](std::size_t b) { return v[b]; }));
            } else {
                const double* row = forest.table(t) + static_cast<std::size_t>(labels[p]) * n;
                labels[t] = static_cast<std::int32_t>(first_largest(n, [&](std::size_t b) { return v[b] + row[b]; }));
            }
        }
        return score;
    }

    // Logarithms of the marginals of P(y) proportional to exp(score(y) / tau): nodes is L x K; edges is L x K x K,
    // [parent's label][own label], and a root's block is left alone. Returns tau log sum_y exp(score(y) / tau), which is in units of the
    // score and falls to the best score as tau goes to 0. At temperature 0 all probability is on the best labeling; above, logarithms
    // are finite as long as differences of scores over tau are.
    double marginals(const Forest& forest, double temperature, double* nodes, double* edges) {
        start(forest, temperature);
        if (tau_ == 0) return marginals_of_the_best(forest, nodes, edges);
        const double total = collect(forest);
        for (std::size_t t = 0; t < forest.n_nodes; ++t) distribute(forest, t, nodes, edges);
        return total;
    }

  private:
    // A sum of exponentials below this may owe digits to summands that underflowed; it is then formed anew with its own
    // largest summand as the unit. Above, what was lost is below rounding.
    static constexpr double kSmall = 1e-280;

    void grow_tables(std::size_t tables, std::size_t n) {
        if (exp_table_.size() < tables * n * n) exp_table_.resize(tables * n * n);
        if (row_largest_.size() < tables * n) row_largest_.resize(tables * n);
    }

    void grow(const Forest& forest) {
        const std::size_t size = forest.n_nodes * forest.n_labels;
        if (belief_.size() < size) belief_.resize(size);
        if (tau_ == 0) return;
        if (!forest.shared) grow_tables(forest.n_nodes, forest.n_labels);
        if (unit_.size() < size) unit_.resize(size), log_sum_.resize(size);
        if (largest_.size() < forest.n_nodes) largest_.resize(forest.n_nodes), careful_.resize(forest.n_nodes);
    }

    // The table of node t as `combine` wants it, own labels in rows; for sums, exp of it with each maximum over the own
    // label taken out. A message then costs K exponentials and a matrix-vector product.
    void prepare(const Forest& forest, std::size_t t) {
        const std::size_t n = forest.n_labels;
        const double* table = forest.table(t);
        if (tau_ == 0) return transpose(table, n, turned_.data());
        const std::size_t slot = forest.shared ? 0 : t;
        double* exps = exp_table_.data() + slot * n * n;
        double* largest = row_largest_.data() + slot * n;
        for (std::size_t a = 0; a < n; ++a) {
            const double* row = table + a * n;
            largest[a] = largest_of(n, [&](std::size_t b) { return row[b]; });
            for (std::size_t b = 0; b < n; ++b) exps[a * n + b] = std::exp((row[b] - largest[a]) * per_tau_);
        }
        transpose(exps, n, turned_.data());
    }

    // Leaves to roots. Leaves v_t in belief_ and returns the (soft) maximum over all labelings.
    double collect(const Forest& forest) {
        const std::size_t n = forest.n_labels;
        grow(forest);
        std::copy(forest.unary, forest.unary + forest.n_nodes * n, belief_.begin());
        double total = 0;
        for (std::size_t t = forest.n_nodes; t-- > 0;) {
            const double* v = belief_.data() + t * n;
            const std::int64_t p = forest.parent_of(t);
            if (p < 0) {
                total += soft_maximum(v, n);
                continue;
            }
            if (!forest.shared) prepare(forest, t);
            if (tau_ == 0) combine<MaxPlus>(kept_turned_ ? kept_turned_ : turned_.data(), v, n, -std::numeric_limits<double>::infinity(), message_.data());
            else total += send_sum(forest, t);
            double* receiver = belief_.data() + static_cast<std::size_t>(p) * n;
            for (std::size_t a = 0; a < n; ++a) receiver[a] += message_[a];
        }
        return total;
    }

    double soft_maximum(const double* v, std::size_t n) const {
        const double largest = largest_of(n, [&](std::size_t b) { return v[b]; });
        if (tau_ == 0) return largest;
        return largest + tau_ * log_sum(n, [&](std::size_t b) { return (v[b] - largest) * per_tau_; }).rest;
    }

    // Message at a positive temperature. With unit(a) the largest summand, or a bound on it, log_sum(a) is what remains:
    // m(a) = unit(a) + tau log_sum(a). The largest m(a) is returned instead of sent, so that messages do not grow along a
    // long chain and lose their last digits.
    double send_sum(const Forest& forest, std::size_t t) {
        const std::size_t n = forest.n_labels;
        const double* v = belief_.data() + t * n;
        const double* row_largest = row_largest_.data() + (forest.shared ? 0 : t) * n;
        double *unit = unit_.data() + t * n, *log_sums = log_sum_.data() + t * n;
        largest_[t] = largest_of(n, [&](std::size_t b) { return v[b]; });
        for (std::size_t b = 0; b < n; ++b) factor_[b] = std::exp((v[b] - largest_[t]) * per_tau_);
        combine<SumTimes>(turned_.data(), factor_.data(), n, 0, log_sums);
        careful_[t] = *std::min_element(log_sums, log_sums + n) < kSmall;
        for (std::size_t a = 0; a < n; ++a) {
            if (careful_[t]) {
                const double* row = forest.table(t) + a * n;
                unit[a] = largest_of(n, [&](std::size_t b) { return v[b] + row[b]; });
                log_sums[a] = log_sum(n, [&](std::size_t b) { return (v[b] + row[b] - unit[a]) * per_tau_; }).rest;
            } else {
                unit[a] = largest_[t] + row_largest[a];
                log_sums[a] = std::log(log_sums[a]);
            }
            message_[a] = unit[a] + tau_ * log_sums[a];
        }
        const double largest = largest_of(n, [&](std::size_t a) { return message_[a]; });
        for (std::size_t a = 0; a < n; ++a) message_[a] -= largest;
        return largest;
    }

    // Roots to leaves: log marginals of node t from those of its parent.
    void distribute(const Forest& forest, std::size_t t, double* nodes, double* edges) {
        const std::size_t n = forest.n_labels;
        const double* v = belief_.data() + t * n;
        double* own = nodes + t * n;
        const std::int64_t p = forest.parent_of(t);
        if (p < 0) {
            const double largest = largest_of(n, [&](std::size_t b) { return v[b]; });
            const double rest = log_sum(n, [&](std::size_t b) { return (v[b] - largest) * per_tau_; }).rest;
            for (std::size_t b = 0; b < n; ++b) own[b] = (v[b] - largest) * per_tau_ - rest;
            return;
        }
        const double* table = forest.table(t);
        const std::size_t slot = forest.shared ? 0 : t;
        const double *row_largest = row_largest_.data() + slot * n, *unit = unit_.data() + t * n;
        const bool careful = careful_[t];
        // log mu(parent = a) - log_sum(a); with it log mu(a, b) is `ratio(a) + log_summand(a, b)`.
        double* ratio = message_.data();
        for (std::size_t a = 0; a < n; ++a) ratio[a] = nodes[static_cast<std::size_t>(p) * n + a] - log_sum_[t * n + a];
        const auto log_summand = [&](std::size_t a, std::size_t b) {
            const double x = table[a * n + b];
            return careful ? (v[b] + x - unit[a]) * per_tau_ : (v[b] - largest_[t]) * per_tau_ + (x - row_largest[a]) * per_tau_;
        };
        const double largest = largest_of(n, [&](std::size_t a) { return ratio[a]; });
        if (!careful) {
            for (std::size_t a = 0; a < n; ++a) factor_[a] = std::exp(ratio[a] - largest);
            combine<SumTimes>(exp_table_.data() + slot * n * n, factor_.data(), n, 0, own);
        }
        for (std::size_t b = 0; b < n; ++b) {
            if (careful || own[b] < kSmall) {
                const LogSum sum = log_sum(n, [&](std::size_t a) { return ratio[a] + log_summand(a, b); });
                own[b] = sum.largest + sum.rest;
            } else {
                own[b] = (v[b] - largest_[t]) * per_tau_ + (largest + std::log(own[b]));
            }
        }
        double* block = edges + t * n * n;
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b < n; ++b) block[a * n + b] = ratio[a] + log_summand(a, b);
    }

    double marginals_of_the_best(const Forest& forest, double* nodes, double* edges) {
        const std::size_t n = forest.n_labels;
        constexpr double never = -std::numeric_limits<double>::infinity();
        labels_.resize(forest.n_nodes);
        const double score = best_again(forest, labels_.data());
        std::fill(nodes, nodes + forest.n_nodes * n, never);
        for (std::size_t t = 0; t < forest.n_nodes; ++t) {
            nodes[t * n + static_cast<std::size_t>(labels_[t])] = 0;
            const std::int64_t p = forest.parent_of(t);
            if (p < 0) continue;
            double* block = edges + t * n * n;
            std::fill(block, block + n * n, never);
            block[static_cast<std::size_t>(labels_[p]) * n + static_cast<std::size_t>(labels_[t])] = 0;
        }
        return score;
    }

    double tau_ = 0, per_tau_ = 0;
    const double* kept_turned_ = nullptr;               // the caller's, instead of turned_
    std::vector<double> belief_;                        // v_t, L x K
    std::vector<double> turned_, message_, factor_;     // scratch of one node
    std::vector<double> exp_table_, row_largest_;       // per table
    std::vector<double> unit_, log_sum_, largest_;      // of the messages, per node
    std::vector<char> careful_;                         // was the message formed anew?
    std::vector<std::int32_t> labels_;
};

}  // namespace maxmargin::structures
