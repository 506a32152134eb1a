// The most violating labeling of a block under a surrogate psi(h, g), by convex hull search over the decoder of labels.
//
// h is the score of a labeling less that of the truth, g its loss; both are sums over nodes and edges, so the decoder answers every
// question h + lambda g. Scores of nodes are formed once for a block, all questions share them. The labelings on which a search
// has ended are where the next search of the block begins.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sequences/count_dp.hpp"
#include "sequences/labelings.hpp"
#include "surrogates/hull_search.hpp"
#include "surrogates/psi.hpp"

namespace maxmargin::blocks {

// What a surrogate is of a labeling: psi, and for the micro F1 which label is none.
struct LabelSurrogate {
    surrogates::Bicriteria psi;
    std::int32_t outside = 0;
    // Whether a proof goes on where the hull ends: to the best labeling for every number of wrong ones.
    bool recover = true;
    bool is_f1() const { return psi.kind == surrogates::Kind::micro_f1; }
};

// A cut: psi of the labeling is at least a h + b, for all weights.
struct LabelCut {
    double a = 0, b = 0;
};

class LabelSearch {
  public:
    LabelSearch(const LabelingData& data, const LabelSurrogate& surrogate)
        : data_(data), surrogate_(surrogate), at_(data), decoder_(data) {
        std::size_t longest = 0;
        for (std::size_t i = 0; i < data_.n_blocks; ++i) longest = std::max(longest, data_.length(i));
        score_.resize(longest * data_.n_labels + at_.stride);
        asked_.resize(score_.size());
        warm_.resize(data_.n_blocks);
        leaf_.assign(data_.parent ? data_.x.n_rows : 0, 1);
        for (std::size_t i = 0; data_.parent && i < data_.n_blocks; ++i)
            data_.for_edges(i, [&](std::size_t p, std::size_t) { leaf_[data_.first(i) + p] = 0; });
    }

    const LabelSurrogate& surrogate() const { return surrogate_; }
    std::size_t queries() const { return queries_; }
    std::size_t searches() const { return searches_; }
    const double* scores() const { return score_.data(); }
    double truth_score() const { return truth_score_; }
    void table_moved(const double* table, std::size_t pair) { decoder_.table_moved(table, pair); }

    // Look at block i with weights in the order of LabelLayout, whose table the decoder knows: scores of labels without losses.
    void score(std::size_t i, const double* w) {
        const std::size_t K = data_.n_labels, L = data_.length(i), first = data_.first(i);
        table_ = w + at_.table;
        for (std::size_t t = 0; t < L; ++t) {
            double* row = score_.data() + t * K;
            score_row(data_.x, first + t, w, at_.stride, row);
            if (data_.is_root(i, t))
                for (std::size_t k = 0; k < K; ++k) row[k] += w[at_.root + k];
            if (data_.parent ? leaf_[first + t] != 0 : t + 1 == L)
                for (std::size_t k = 0; k < K; ++k) row[k] += w[at_.leaf + k];
        }
        truth_score_ = 0;
        truth_score_ = margin(i, data_.truth(i));
        truth_size_ = surrogate_.is_f1() ? size_of(i, data_.truth(i)) : 0;
    }

    // h of a labeling, after `score`.
    template <class AnyLabel>
    double margin(std::size_t i, const AnyLabel* labels) const {
        double sum = 0;
        const double* row = score_.data();
        const std::size_t L = data_.length(i);
        for (std::size_t t = 0; t < L; ++t, row += data_.n_labels) {
            sum += row[static_cast<std::size_t>(labels[t])];
            if (const std::int64_t p = data_.parent_of(i, t); p >= 0) sum += table_[data_.pair(labels[p], labels[t])];
        }
        return sum - truth_score_;
    }

    // g of a labeling: what its wrong labels cost. For the micro F1, the number of entries of one set that the other has not; where
    // both labels are entries, but different ones, that makes two (spec 11.3).
    template <class AnyLabel>
    double loss(std::size_t i, const AnyLabel* labels) const {
        double sum = 0;
        const std::int32_t* truth = data_.truth(i);
        const double* cost = data_.cost + data_.first(i);
        for (std::size_t t = 0; t < data_.length(i); ++t)
            if (const auto label = static_cast<std::int32_t>(labels[t]); label != truth[t])
                sum += surrogate_.is_f1() ? f1_cost(truth[t], label) : cost[t];
        return sum;
    }

    // The cut of a labeling, tangent where its margin is h.
    template <class AnyLabel>
    LabelCut cut(std::size_t i, const AnyLabel* labels, double h) const {
        const double g = loss(i, labels);
        if (g == 0) return {};
        if (surrogate_.is_f1()) {
            const double size = truth_size_ + size_of(i, labels);
            return {1 / size, g / size};
        }
        const auto [a, b] = surrogate_.psi.tangent(h, g);
        return {a, b};
    }

    struct Violator {
        double value, bound;  // psi of the labeling, and what no labeling exceeds; infinite if that is not known
    };

    // Candidates for the search to begin with: whatever labelings the caller knows, after `score`.
    template <class AnyLabel>
    void suggest(std::size_t i, const AnyLabel* labels) {
        if (pool_.size() <= n_pool_) pool_.emplace_back();
        pool_[n_pool_++].assign(labels, labels + data_.length(i));
    }

    // The best labeling found for block i, after `score`, written to `labels`; with at most `kMostStepping` questions to the
    // decoder or, if that is to be proved, as many as it takes.
    Violator find(std::size_t i, bool prove, std::int32_t* labels) {
        suggest(i, data_.truth(i));
        const std::size_t L = data_.length(i);
        for (std::size_t c = 0; c < warm_[i].size() / L; ++c) suggest(i, warm_[i].data() + c * L);
        ++searches_;
        const std::size_t most = prove ? kMostProving : kMostStepping;
        const Violator found = surrogate_.is_f1() ? find_f1(i, most, labels) : find_on_hull(i, most, prove && surrogate_.recover, labels);
        n_pool_ = 0;
        return found;
    }

    std::size_t n_bytes() const {
        std::size_t bytes = 0;
        for (const auto& labels : warm_) bytes += sizeof labels + labels.capacity() * sizeof(std::uint16_t);
        return bytes;
    }

  private:
    static constexpr std::size_t kMostStepping = 2, kMostProving = 1000;
    // Longer blocks do without labelings below the hull: the counter takes the square of their length.
    static constexpr std::size_t kLongestCounted = 256;

    double f1_cost(std::int32_t truth, std::int32_t label) const { return truth != surrogate_.outside && label != surrogate_.outside ? 2 : 1; }
    template <class AnyLabel>
    double size_of(std::size_t i, const AnyLabel* labels) const {
        std::size_t count = 0;
        for (std::size_t t = 0; t < data_.length(i); ++t) count += static_cast<std::int32_t>(labels[t]) != surrogate_.outside;
        return static_cast<double>(count);
    }

    Violator find_on_hull(std::size_t i, std::size_t most, bool recover, std::int32_t* labels) {
        const std::size_t L = data_.length(i), K = data_.n_labels;
        hull_.clear();
        // The best labeling need not be on the hull.
        std::size_t best = 0;
        double value = -std::numeric_limits<double>::infinity();
        const auto consider = [&](const surrogates::Vertex& y) {
            if (const double own = surrogate_.psi.value(y.h, y.g); own > value) value = own, best = y.id;
        };
        for (std::size_t c = 0; c < n_pool_; ++c) {
            const surrogates::Vertex known{margin(i, pool_[c].data()), loss(i, pool_[c].data()), c};
            consider(known);
            hull_.add(known);
        }
        const auto query = [&](double lambda) {
            for (std::size_t t = 0; t < L; ++t) {
                const double* row = score_.data() + t * K;
                double* out = asked_.data() + t * K;
                const double cost = data_.cost[data_.first(i) + t];
                const auto y = static_cast<std::size_t>(data_.truth(i)[t]);
                if (std::isinf(lambda)) {
                    // Wrong everywhere it costs anything, and among those labelings the best.
                    std::copy_n(row, K, out);
                    if (cost > 0 && K > 1) out[y] = -std::numeric_limits<double>::infinity();
                } else {
                    for (std::size_t k = 0; k < K; ++k) out[k] = row[k] + lambda * cost;
                    out[y] = row[y];
                }
            }
            const surrogates::Vertex found = ask(i);
            consider(found);
            return found;
        };
        auto found = surrogates::hull_search(surrogate_.psi, hull_, std::abs(truth_score_), most, query);
        queries_ += found.queries;
        if (recover && L <= kLongestCounted && found.bound > value + 1e-9 * std::abs(found.bound) && costs_alike(i)) {
            found.bound = std::min(found.bound, count(i, value, consider));
        }
        std::copy_n(pool_[best].begin(), L, labels);
        // The best one, and where the search has ended, with its neighbours.
        warm_[i].clear();
        const auto keep = [&](std::size_t id) {
            warm_[i].insert(warm_[i].end(), pool_[id].begin(), pool_[id].begin() + static_cast<std::ptrdiff_t>(L));
        };
        if (value > 0) keep(best);
        for (std::size_t t = found.at > 0 ? found.at - 1 : 0; t < std::min(hull_.size(), found.at + 2); ++t)
            if (hull_[t].g > 0 && hull_[t].id != best) keep(hull_[t].id);
        return {value, std::max(found.bound, value)};
    }

    bool costs_alike(std::size_t i) const {
        const double* cost = data_.cost + data_.first(i);
        return std::all_of(cost, cost + data_.length(i), [&](double c) { return c == cost[0]; });
    }

    // The largest psi of any labeling, by the best labeling of every number of wrong labels; it is considered if it exceeds `known`.
    template <class Consider>
    double count(std::size_t i, double known, const Consider& consider) {
        const std::size_t L = data_.length(i);
        const double cost = data_.cost[data_.first(i)];
        counter_.solve(decoder_.forest(i, score_.data(), table_), decoder_.turned(), data_.truth(i));
        double top = 0;
        std::size_t at = 0;
        for (std::size_t j = 1; j <= L; ++j) {
            const double value = surrogate_.psi.value(counter_.score(j) - truth_score_, static_cast<double>(j) * cost);
            if (value > top) top = value, at = j;
        }
        if (at > 0 && top > known) {
            const std::size_t id = n_pool_;
            if (pool_.size() <= n_pool_) pool_.emplace_back();
            pool_[n_pool_++].resize(L);
            counter_.labels(at, pool_[id].data());
            consider(surrogates::Vertex{margin(i, pool_[id].data()), loss(i, pool_[id].data()), id});
        }
        return top;
    }

    surrogates::Vertex ask(std::size_t i) {
        const std::size_t L = data_.length(i), id = n_pool_;
        if (pool_.size() <= n_pool_) pool_.emplace_back();
        pool_[n_pool_++].resize(L);
        decoder_.best(i, asked_.data(), table_, pool_[id].data());
        return {margin(i, pool_[id].data()), loss(i, pool_[id].data()), id};
    }

    // Micro F1 is a fraction of two sums: the largest is found where the best numerator - lambda denominator is zero (Dinkelbach,
    // spec 6.7), and it is always a labeling's.
    Violator find_f1(std::size_t i, std::size_t most, std::int32_t* labels) {
        const std::size_t L = data_.length(i), K = data_.n_labels;
        double best = 0;
        std::copy_n(data_.truth(i), L, labels);
        const auto value = [&](const std::int32_t* own, double h, double wrong) {
            return wrong == 0 ? 0 : (wrong + h) / (truth_size_ + size_of(i, own));
        };
        const auto consider = [&](std::size_t c, double h, double wrong) {
            const double found = value(pool_[c].data(), h, wrong);
            if (!(found > best)) return;
            best = found;
            std::copy_n(pool_[c].begin(), L, labels);
        };
        for (std::size_t c = 0; c < n_pool_; ++c) consider(c, margin(i, pool_[c].data()), loss(i, pool_[c].data()));
        double bound = std::numeric_limits<double>::infinity();
        for (std::size_t asked = 0; asked < most; ++asked) {
            const double lambda = best;
            for (std::size_t t = 0; t < L; ++t) {
                const std::int32_t y = data_.truth(i)[t];
                for (std::size_t k = 0; k < K; ++k) {
                    const auto label = static_cast<std::int32_t>(k);
                    asked_[t * K + k] = score_[t * K + k] + (label == y ? 0 : f1_cost(y, label)) - (label == surrogate_.outside ? 0 : lambda);
                }
            }
            ++queries_;
            const auto found = ask(i);
            consider(found.id, found.h, found.g);
            // All labelings have numerator <= lambda * denominator + excess, and a denominator of 1 at least where it matters.
            const double excess = found.h + found.g - lambda * (truth_size_ + size_of(i, pool_[found.id].data()));
            if (!(excess > 1e-12 * (1 + std::abs(truth_score_)))) {
                bound = std::max(best, lambda + std::max(0.0, excess));
                break;
            }
        }
        warm_[i].assign(labels, labels + L);
        return {best, bound};
    }

    const LabelingData data_;
    const LabelSurrogate surrogate_;
    const LabelLayout at_;
    LabelDecoder decoder_;
    std::vector<char> leaf_;  // of each node, unless all are chains
    const double* table_ = nullptr;
    std::vector<double> score_, asked_;
    double truth_score_ = 0, truth_size_ = 0;
    std::vector<std::vector<std::int32_t>> pool_;  // labelings met in the present search
    std::size_t n_pool_ = 0;
    surrogates::UpperHull hull_;
    structures::CountSolver counter_;
    std::vector<std::vector<std::uint16_t>> warm_;  // of each block, labelings one behind the other
    std::size_t queries_ = 0, searches_ = 0;
};

}  // namespace maxmargin::blocks
