// The points of blocks of labels: marginals of their parts, and changes of them.
//
// The point of a block is kept as the marginals of its nodes (L x K) and the summed marginals of its edges (the pairs of
// labels that occur, of K x K). Hinges and gaps are inner products of these with the scores that the oracle needs anyway,
// and the squared length of a step comes from the inner products of the nodes' features: the d weights are touched once
// for reading and once for writing, and only where the step is not zero. Nothing here knows how the best labels are found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/weights.hpp"
#include "sequences/labelings.hpp"

namespace maxmargin::blocks {

class PartMarginals {
  public:
    // A mixture of labelings has no negative mass. In a `scaled` one a labeling may count more than once and its truth less than
    // not at all; then only the sum of a node's masses is 1.
    explicit PartMarginals(const LabelingData& data, bool scaled = false)
        : data_(data), at_(data), least_(scaled ? -std::numeric_limits<double>::infinity() : 0) {
        const std::size_t K = data_.n_labels;
        mu_.resize(data_.x.n_rows * K);
        pairs_.resize(data_.n_blocks);
        find_leaves();
        compute_grams();
        scattered_.resize(K);
        coefficient_.resize(at_.stride);
        ends_.resize(2 * K);
        pair_change_.resize(K * K);
        pair_place_.assign(K * K, kUntouched);
        reset();
    }

    double* nodes(std::size_t i) { return mu_.data() + data_.first(i) * data_.n_labels; }
    bool is_leaf(std::size_t i, std::size_t t) const {
        return data_.parent ? leaf_[data_.first(i) + t] != 0 : t + 1 == data_.length(i);
    }
    // Whether the squared length of a change is known without the features.
    bool has_gram(std::size_t i) const { return gram_at_[i] != kNone; }
    const std::vector<std::uint32_t>& touched_pairs() const { return pair_touched_; }

    std::size_t n_bytes() const {
        std::size_t bytes = sizeof(double) * (mu_.size() + gram_.size()) + sizeof(std::uint32_t) * counts_.size();
        for (const auto& pairs : pairs_) bytes += sizeof pairs + pairs.capacity() * sizeof(PairMass);
        return bytes;
    }

    // All blocks at their truths.
    void reset() {
        std::fill(mu_.begin(), mu_.end(), 0.0);
        for (std::size_t i = 0; i < data_.n_blocks; ++i) {
            begin(i);
            add_labeling(i, data_.truth(i), 1);
            end(i);
        }
    }

    void shrink(double part) {
        for (double& mass : mu_) mass *= part;
        for (std::size_t i = 0; i < data_.n_blocks; ++i) {
            for (PairMass& p : pairs_[i]) p.mass *= part;
            clear_pairs();
            add_labeling(i, data_.truth(i), 1 - part);
            end(i);
        }
    }

    // The loss of block i, weighted by its point.
    double loss(std::size_t i) const {
        double total = 0;
        for (std::size_t t = data_.first(i); t < data_.first(i) + data_.length(i); ++t) {
            double wrong = 0;
            for (std::size_t k = 0; k < data_.n_labels; ++k)
                if (static_cast<std::int32_t>(k) != data_.y[t]) wrong += mu_[t * data_.n_labels + k];
            total += data_.cost[t] * wrong;
        }
        return total;
    }

    double score(std::size_t i, const double* scores, const double* table) const {
        const double* mu = mu_.data() + data_.first(i) * data_.n_labels;
        // Two sums that do not wait for each other.
        double even = 0, odd = 0;
        const std::size_t count = data_.length(i) * data_.n_labels;
        std::size_t e = 0;
        for (; e + 2 <= count; e += 2) even += mu[e] * scores[e], odd += mu[e + 1] * scores[e + 1];
        if (e < count) even += mu[e] * scores[e];
        double sum = 0;
        for (const PairMass& p : pairs_[i]) sum += p.mass * table[p.pair];
        return even + odd + sum;
    }

    // Inlined by force: gcc leaves out calls of functions that only fetch, as if they had no effect.
    [[gnu::always_inline]] inline void prefetch(std::size_t i) const {
        const std::size_t K = data_.n_labels;
        for (std::size_t e = 0; e < data_.length(i) * K; e += 8) __builtin_prefetch(mu_.data() + data_.first(i) * K + e);
        for (std::size_t e = 0; e < pairs_[i].size(); e += 4) __builtin_prefetch(pairs_[i].data() + e);
    }

    // ---- a point made anew -------------------------------------------------------------------------------------------------------

    // An average of labelings: begin, add them with their shares, end.
    void begin(std::size_t i) {
        std::fill(nodes(i), nodes(i) + data_.length(i) * data_.n_labels, 0.0);
        pairs_[i].clear();
        clear_pairs();
    }
    template <class AnyLabel>
    void add_labeling(std::size_t i, const AnyLabel* labels, double share) {
        double* mu = nodes(i);
        for (std::size_t t = 0; t < data_.length(i); ++t) mu[t * data_.n_labels + static_cast<std::size_t>(labels[t])] += share;
        data_.for_edges(i, [&](std::size_t p, std::size_t t) { touch(data_.pair(labels[p], labels[t])) += share; });
    }
    // Pairs from the marginals of the edges, L x K x K.
    void set_pairs(std::size_t i, const double* edges) {
        pairs_[i].clear();
        clear_pairs();
        add_edges(i, edges);
        end(i);
    }
    void end(std::size_t i) {
        move_pairs(i, 1);
        clear_pairs();
    }
    void normalise(std::size_t i) {
        for (std::size_t t = 0; t < data_.length(i); ++t) {
            double* mu = nodes(i) + t * data_.n_labels;
            double sum = 0;
            for (std::size_t k = 0; k < data_.n_labels; ++k) sum += mu[k];
            for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] /= sum;
        }
    }

    // The truth of a scaled point has what the others leave.
    void complete(std::size_t i) {
        for (std::size_t t = 0; t < data_.length(i); ++t) {
            double *mu = nodes(i) + t * data_.n_labels, others = 0;
            const auto own = static_cast<std::size_t>(data_.truth(i)[t]);
            for (std::size_t k = 0; k < data_.n_labels; ++k)
                if (k != own) others += mu[k];
            mu[own] = 1 - others;
        }
    }

    // ---- changes: for the nodes in rows_, and for the pairs in pair_touched_ ------------------------------------------------------

    // factor * (present point) + plus - minus, the latter two unless null.
    template <class AnyLabel>
    void set_change(std::size_t i, const AnyLabel* plus, const AnyLabel* minus, double factor) {
        const std::size_t K = data_.n_labels, L = data_.length(i);
        const double* mu = nodes(i);
        clear_change();
        for (std::size_t t = 0; t < L; ++t, mu += K) {
            const std::size_t up = plus ? static_cast<std::size_t>(plus[t]) : kNone, down = minus ? static_cast<std::size_t>(minus[t]) : kNone;
            if (factor == 0) {
                if (up != down) put(up, 1), put(down, -1);
            } else {
                // At a vertex that stays.
                if (mu[plus ? up : down] >= 1 - kNothing) continue;
                for (std::size_t k = 0; k < K; ++k) put(k, factor * mu[k] + (k == up) - (k == down));
            }
            end_row(t);
        }
        if (factor != 0)
            for (const PairMass& p : pairs_[i]) touch(p.pair) += factor * p.mass;
        data_.for_edges(i, [&](std::size_t p, std::size_t t) {
            if (plus) touch(data_.pair(plus[p], plus[t])) += 1;
            if (minus) touch(data_.pair(minus[p], minus[t])) -= 1;
        });
    }

    // factor * (present point) + plus - minus, where a labeling counts the given number of times and the truth what is left of 1,
    // so that the change of the truth is that of all others. Null if there is none.
    template <class AnyLabel>
    void set_scaled_change(std::size_t i, const AnyLabel* plus, double times_plus, const AnyLabel* minus, double times_minus, double factor) {
        const std::size_t K = data_.n_labels, L = data_.length(i);
        const double* mu = nodes(i);
        const std::int32_t* truth = data_.truth(i);
        clear_change();
        for (std::size_t t = 0; t < L; ++t, mu += K) {
            const auto own = static_cast<std::size_t>(truth[t]);
            const std::size_t up = plus ? static_cast<std::size_t>(plus[t]) : own, down = minus ? static_cast<std::size_t>(minus[t]) : own;
            double others = 0;
            if (factor == 0) {
                if (up == down) {
                    if (up != own) put(up, others = times_plus - times_minus);
                } else {
                    if (up != own) put(up, times_plus), others += times_plus;
                    if (down != own) put(down, -times_minus), others -= times_minus;
                }
            } else {
                for (std::size_t k = 0; k < K; ++k) {
                    if (k == own) continue;
                    const double change = factor * mu[k] + (k == up ? times_plus : 0) - (k == down ? times_minus : 0);
                    put(k, change);
                    others += change;
                }
            }
            put(own, -others);
            end_row(t);
        }
        if (factor != 0)
            for (const PairMass& p : pairs_[i]) touch(p.pair) += factor * p.mass;
        const double left = (plus ? 1 - times_plus : 0) - (minus ? 1 - times_minus : 0);
        data_.for_edges(i, [&](std::size_t p, std::size_t t) {
            if (plus) touch(data_.pair(plus[p], plus[t])) += times_plus;
            if (minus) touch(data_.pair(minus[p], minus[t])) -= times_minus;
            touch(data_.pair(truth[p], truth[t])) += left;
        });
    }

    // From the truth to the present point.
    void set_change_from_truth(std::size_t i) {
        const std::size_t K = data_.n_labels;
        const std::int32_t* truth = data_.truth(i);
        clear_change();
        for (std::size_t t = 0; t < data_.length(i); ++t) {
            const double* mu = nodes(i) + t * K;
            const auto own = static_cast<std::size_t>(truth[t]);
            // The truth loses what the others have; 1 less its own would cancel.
            double others = 0;
            for (std::size_t k = 0; k < K; ++k)
                if (k != own) others += mu[k], put(k, mu[k]);
            put(own, -others);
            end_row(t);
        }
        for (const PairMass& p : pairs_[i]) touch(p.pair) += p.mass;
        data_.for_edges(i, [&](std::size_t p, std::size_t t) { touch(data_.pair(truth[p], truth[t])) -= 1; });
    }

    // From the present point to other marginals of nodes (L x K) and edges (L x K x K).
    void set_change_to(std::size_t i, const double* other, const double* edges) {
        const std::size_t K = data_.n_labels;
        clear_change();
        for (std::size_t t = 0; t < data_.length(i); ++t) {
            for (std::size_t k = 0; k < K; ++k) put(k, other[t * K + k] - nodes(i)[t * K + k]);
            end_row(t);
        }
        for (const PairMass& p : pairs_[i]) touch(p.pair) -= p.mass;
        add_edges(i, edges);
    }

    // What the change adds to the average score.
    double rise(const double* scores, const double* table) const {
        double rise = 0;
        for (const Row& row : rows_)
            for (std::size_t e = row.begin; e < row.end; ++e) rise += changes_[e].value * scores[row.node * data_.n_labels + changes_[e].label];
        for (const std::uint32_t p : pair_touched_) rise += pair_change_[p] * table[p];
        return rise;
    }

    // Squared length of the change in features, by the inner products of the nodes.
    double squared_change(std::size_t i) {
        return data_.x.values ? squared_change(i, gram_.data() + gram_at_[i]) : squared_change(i, counts_.data() + gram_at_[i]);
    }
    template <class Product>
    double squared_change(std::size_t i, const Product* gram) {
        const std::size_t K = data_.n_labels;
        std::fill(ends_.begin(), ends_.end(), 0.0);
        double sum = 0;
        for (std::size_t a = 0; a < rows_.size(); ++a) {
            const Row& row = rows_[a];
            const Product* products = gram + row.node * (row.node + 1) / 2;
            const bool root = data_.is_root(i, row.node), leaf = is_leaf(i, row.node);
            for (std::size_t e = row.begin; e < row.end; ++e) {
                const auto [value, k] = changes_[e];
                scattered_[k] = value;
                if (root) ends_[k] += value;
                if (leaf) ends_[K + k] += value;
            }
            for (std::size_t b = 0; b <= a; ++b) {
                double dot = 0;
                for (std::size_t e = rows_[b].begin; e < rows_[b].end; ++e) dot += changes_[e].value * scattered_[changes_[e].label];
                sum += (b == a ? 1 : 2) * static_cast<double>(products[rows_[b].node]) * dot;
            }
            for (std::size_t e = row.begin; e < row.end; ++e) scattered_[changes_[e].label] = 0;
        }
        for (const double e : ends_) sum += e * e;
        for (const std::uint32_t p : pair_touched_) sum += pair_change_[p] * pair_change_[p];
        return std::max(0.0, sum);
    }

    // The change times `scale` as a direction of the weights, and added to them.
    void describe(std::size_t i, double scale, Direction& direction) const {
        for (const Row& row : rows_) {
            const bool root = data_.is_root(i, row.node), leaf = is_leaf(i, row.node);
            for (std::size_t e = row.begin; e < row.end; ++e) {
                const std::size_t k = changes_[e].label;
                const double change = scale * changes_[e].value;
                data_.x.for_each(data_.first(i) + row.node, [&](std::size_t j, double value) { direction.add(j * at_.stride + k, change * value); });
                if (root) direction.add(at_.root + k, change);
                if (leaf) direction.add(at_.leaf + k, change);
            }
        }
        for (const std::uint32_t p : pair_touched_) direction.add(at_.table + p, scale * pair_change_[p]);
    }
    void add(std::size_t i, double scale, double* weights) {
        for (const Row& row : rows_) {
            const bool root = data_.is_root(i, row.node), leaf = is_leaf(i, row.node);
            for (std::size_t e = row.begin; e < row.end; ++e) {
                const std::size_t k = changes_[e].label;
                coefficient_[k] = scale * changes_[e].value;
                if (root) weights[at_.root + k] += coefficient_[k];
                if (leaf) weights[at_.leaf + k] += coefficient_[k];
            }
            add_row(data_.x, data_.first(i) + row.node, coefficient_.data(), at_.stride, weights);
            for (std::size_t e = row.begin; e < row.end; ++e) coefficient_[changes_[e].label] = 0;
        }
        for (const std::uint32_t p : pair_touched_) weights[at_.table + p] += scale * pair_change_[p];
    }

    void move(std::size_t i, double step) {
        double* const mu = nodes(i);
        for (const Row& row : rows_)
            for (std::size_t e = row.begin; e < row.end; ++e) {
                double& mass = mu[row.node * data_.n_labels + changes_[e].label];
                mass = std::max(least_, mass + step * changes_[e].value);
            }
        move_pairs(i, step);
    }
    void move_pairs(std::size_t i, double step) {
        auto& list = pairs_[i];
        for (std::size_t e = 0; e < list.size(); ++e) {
            const std::uint32_t p = list[e].pair;
            if (pair_place_[p] == kUntouched) continue;
            pair_place_[p] = static_cast<std::int32_t>(e);
            list[e].mass = std::max(least_, list[e].mass + step * pair_change_[p]);
        }
        for (const std::uint32_t p : pair_touched_)
            if (pair_place_[p] == kNew && pair_change_[p] > least_) list.push_back({step * pair_change_[p], p});
    }

  private:
    struct Change {
        double value;
        std::uint32_t label;
    };
    // Changes begin to end - 1 are those of a node.
    struct Row {
        std::size_t node, begin, end;
    };
    struct PairMass {
        double mass;
        std::uint32_t pair;
    };
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    static constexpr std::int32_t kUntouched = -2, kNew = -1;
    // Blocks with more nodes do without the inner products of all pairs of nodes.
    static constexpr std::size_t kLongestGram = 128;
    // A row of a change below this is rounding.
    static constexpr double kNothing = 1e-13;

    void find_leaves() {
        if (!data_.parent) return;
        leaf_.assign(data_.x.n_rows, 1);
        for (std::size_t i = 0; i < data_.n_blocks; ++i)
            data_.for_edges(i, [&](std::size_t p, std::size_t) { leaf_[data_.first(i) + p] = 0; });
    }

    void compute_grams() {
        gram_at_.assign(data_.n_blocks, kNone);
        std::size_t size = 0;
        for (std::size_t i = 0; i < data_.n_blocks; ++i)
            if (const std::size_t L = data_.length(i); L <= kLongestGram) size += L * (L + 1) / 2;
        data_.x.values ? gram_.reserve(size) : counts_.reserve(size);
        size = 0;
        for (std::size_t i = 0; i < data_.n_blocks; ++i) {
            const std::size_t L = data_.length(i), first = data_.first(i);
            if (L > kLongestGram) continue;
            gram_at_[i] = size;
            size += L * (L + 1) / 2;
            for (std::size_t t = 0; t < L; ++t)
                for (std::size_t s = 0; s <= t; ++s) {
                    const double product = data_.x.dot(first + t, first + s);
                    if (data_.x.values) gram_.push_back(product);
                    else counts_.push_back(static_cast<std::uint32_t>(product));
                }
        }
    }

    void clear_pairs() {
        for (const std::uint32_t p : pair_touched_) pair_change_[p] = 0, pair_place_[p] = kUntouched;
        pair_touched_.clear();
    }
    double& touch(std::uint32_t pair) {
        if (pair_place_[pair] == kUntouched) pair_place_[pair] = kNew, pair_touched_.push_back(pair);
        return pair_change_[pair];
    }
    void clear_change() {
        rows_.clear();
        changes_.clear();
        clear_pairs();
    }
    void put(std::size_t label, double value) {
        if (value != 0) changes_.push_back({value, static_cast<std::uint32_t>(label)});
    }
    // What was put since the last row is the change of this node.
    void end_row(std::size_t node) {
        const std::size_t begin = rows_.empty() ? 0 : rows_.back().end;
        if (changes_.size() > begin) rows_.push_back({node, begin, changes_.size()});
    }
    void add_edges(std::size_t i, const double* edges) {
        const std::size_t KK = data_.n_labels * data_.n_labels;
        pair_sum_.assign(KK, 0.0);
        data_.for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = 0; e < KK; ++e) pair_sum_[e] += edges[t * KK + e];
        });
        for (std::size_t e = 0; e < KK; ++e)
            if (pair_sum_[e] != 0) touch(static_cast<std::uint32_t>(e)) += pair_sum_[e];
    }

    LabelingData data_;
    LabelLayout at_;
    double least_;                              // mass
    std::vector<double> mu_;                    // nodes x K
    std::vector<double> gram_;                  // lower triangles
    std::vector<std::uint32_t> counts_;         // the same of rows of ones
    std::vector<std::size_t> gram_at_;          // of each block
    std::vector<std::vector<PairMass>> pairs_;  // of each block
    std::vector<char> leaf_;                    // of each node, unless all are chains
    // The present change, and scratch.
    std::vector<Row> rows_;
    std::vector<Change> changes_;
    std::vector<double> pair_change_, pair_sum_, scattered_, coefficient_, ends_;
    std::vector<std::int32_t> pair_place_;
    std::vector<std::uint32_t> pair_touched_;
};

}  // namespace maxmargin::blocks
