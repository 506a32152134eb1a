// The most violating set of labels of one sample, for any surrogate psi(h, g) of margin error and Hamming loss.
//
// Margin rescaling asks for the best set once. Few labels are enumerated; labels without pairs are sorted by what they gain by being
// turned; for both the best set of every loss is known, so these are exact for every surrogate. Elsewhere the hull of the points (h, g)
// is searched (spec 10.2 with E15), and for the F1 of a set its special case, the ascent of Dinkelbach (spec 6.7). No output lies above
// a line that was asked for, and losses are whole numbers: that bounds what such a search may have missed. Where a bound is to be
// proved and leaves something open, forests are searched by a dynamic program with a counter and up to 14 labels enumerated.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "multilabel/label_sets.hpp"
#include "surrogates/hull_search.hpp"
#include "surrogates/psi.hpp"
#include "surrogates/set_pool.hpp"

namespace maxmargin::blocks {

class SetSearch : public SetPool {
  public:
    SetSearch(std::shared_ptr<const structures::LabelGraph> graph, const SetSurrogate& surrogate)
        : SetPool(graph->n_labels(), surrogate), graph_(std::move(graph)), decoder_(graph_) {
        const std::size_t L = graph_->n_labels();
        unary_.resize(L);
        scaled_.resize(graph_->n_pairs());
        for (std::size_t g = 0; g <= 2 * L; ++g) {
            const auto t = surrogate_.psi.tangent(0, 0.5 * static_cast<double>(g));
            powers_.push_back({t.a, t.b});
        }
    }

    // A sample: scores of its labels and of pairs, and its true set. Arrays stay the caller's until the search is over.
    void begin(const double* scores, const double* pairs, const std::uint8_t* truth) {
        scores_ = scores, pairs_ = pairs, truth_ = truth;
        const std::size_t L = graph_->n_labels(), E = graph_->n_pairs();
        begin_sample();
        own_ = 0;
        scale_ = 1 + static_cast<double>(L);
        separate_ = true;
        for (std::size_t j = 0; j < L; ++j) {
            scale_ += std::abs(scores[j]);
            if (truth[j]) own_ += scores[j], ++truth_size_;
        }
        for (std::size_t e = 0; e < E; ++e) {
            const auto [j, k] = graph_->pair(e);
            if (pairs[e] == 0) continue;
            separate_ = false;
            scale_ += std::abs(pairs[e]);
            if (truth[j] && truth[k]) own_ += pairs[e];
        }
    }

    // With few questions or, if what was found is to be proved, as many as it takes. What is not proved may miss a part of what it is
    // above `floor`.
    Violator find(bool prove, double floor = 0) {
        begin_search(floor, [&](const Point& p) { return psi(p.h, p.g, p.size); });
        const std::size_t L = graph_->n_labels();
        const bool loose = surrogate_.relaxed && !separate_ && !graph_->is_forest();
        if (surrogate_.is_margin()) {
            const double excess = ask(1, 1, 0);
            const Point p = take();
            const double most = p.h + p.g + excess;
            found_.bound = std::max(found_.value, most);
        } else if (surrogate_.is_f1()) {
            // Sizes are one at least, or a half.
            ascend(prove ? kMostProving : kMostStepping, std::max(truth_size_, surrogate_.relaxed ? 0.5 : 1.0), [&](double level) {
                const double excess = ask(1, 1, level);
                const Point p = take();
                return p.h + p.g - level * (p.size + truth_size_) + excess;
            });
        } else if (!surrogate_.hull_only && !loose && L <= kFew) {
            ++queries_;
            frontier_.of_few(*graph_, scores_, pairs_, truth_);
            take_frontier();
        } else if (!surrogate_.hull_only && separate_) {
            ++queries_;
            frontier_.of_separate(L, scores_, truth_);
            take_frontier();
        } else {
            on_hull(prove);
            if (prove && !surrogate_.hull_only && !loose && is_open() && (graph_->is_forest() || L <= kListed)) {
                if (graph_->is_forest()) frontier_.of_forest(*graph_, scores_, pairs_, truth_);
                else frontier_.of_few(*graph_, scores_, pairs_, truth_);
                take_frontier();
            }
        }
        return end_search();
    }

  private:
    // Up to so many labels every set is looked at, and up to so many for a proof.
    static constexpr std::size_t kFew = 8, kListed = 14;

    double psi(double h, double g, double size) const {
        if (g <= 0) return 0;
        if (surrogate_.is_f1()) return (g + h) / (size + truth_size_);
        if (surrogate_.psi.kind != surrogates::Kind::generalized) return surrogate_.psi.value(h, g);
        // Losses are whole, or halves.
        const SetCut& power = powers_[static_cast<std::size_t>(2 * g + 0.5)];
        return power.a * h + power.b;
    }

    // The set that was written into the pool is an output from now on.
    Point take() {
        const std::vector<double>& y = pool_[n_pool_];
        Point p{graph_->worth(y.data(), scores_, pairs_) - own_, truth_size_, 0};
        for (std::size_t j = 0; j < y.size(); ++j) p.g += truth_[j] ? -y[j] : y[j], p.size += y[j];
        return put(p, psi(p.h, p.g, p.size));
    }

    // The best a * score + b * loss - c * size, written into the pool; returns how much more there may be.
    double ask(double a, double b, double c) {
        ++queries_;
        const std::size_t L = graph_->n_labels();
        std::vector<double>& y = next_in_pool();
        for (std::size_t j = 0; j < L; ++j) unary_[j] = a * scores_[j] + (truth_[j] ? -b : b) - c;
        const double* pairs = pairs_;
        if (a != 1) {
            for (std::size_t e = 0; e < scaled_.size(); ++e) scaled_[e] = a * pairs_[e];
            pairs = scaled_.data();
        }
        if (!surrogate_.relaxed) return decoder_.best(unary_.data(), pairs, y.data());
        decoder_.relaxed(unary_.data(), pairs, y.data());
        return 0;
    }

    // The best set of every loss is known.
    void take_frontier() {
        const std::size_t L = graph_->n_labels();
        std::size_t best = 0;
        double value = found_.value;
        for (std::size_t g = 1; g <= L; ++g)
            if (const double own = psi(frontier_.error(g), static_cast<double>(g), 0); own > value) value = own, best = g;
        if (best > 0) {
            frontier_.set(best, truth_, next_in_pool().data());
            take();
        }
        found_.bound = std::max(value, found_.value);
    }

    void on_hull(bool prove) {
        const std::size_t L = graph_->n_labels(), n_known = known_.size();
        begin_hull();
        // The opposite of the truth has the largest loss, and needs no question.
        std::vector<double>& opposite = next_in_pool();
        for (std::size_t j = 0; j < L; ++j) opposite[j] = 1 - truth_[j];
        const Point far = take();
        hull_.add({far.h, far.g, n_known});
        surrogates::hull_search(surrogate_.psi, hull_, scale_, prove ? kMostProving : kMostStepping, [&](double lambda) {
            const double a = lambda > 1 ? 1 / lambda : 1, b = std::min(lambda, 1.0), excess = ask(a, b, 0);
            const Point p = take();
            lines_.push_back({a, b, a * p.h + b * p.g + excess});
            return surrogates::Vertex{p.h, p.g, n_known + n_pool_};
        }, prove, floor_, surrogates::kEnough);
        if (!prove) return;
        const std::size_t parts = surrogate_.relaxed ? 2 : 1;
        double bound = 0;
        for (std::size_t k = 1; k <= parts * L; ++k) {
            const double g = static_cast<double>(k) / static_cast<double>(parts);
            bound = std::max(bound, psi(most_error(g), g, 0));
        }
        found_.bound = std::max(bound, found_.value);
    }

    std::shared_ptr<const structures::LabelGraph> graph_;
    structures::SetDecoder decoder_;
    structures::SetFrontier frontier_;
    const double *scores_ = nullptr, *pairs_ = nullptr;
    const std::uint8_t* truth_ = nullptr;
    double own_ = 0;
    bool separate_ = false;
    std::vector<SetCut> powers_;  // tangents at losses 0, 1/2, 1, ... of what is affine
    std::vector<double> unary_, scaled_;
};

}  // namespace maxmargin::blocks
