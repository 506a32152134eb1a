// The most violating closed set of one sample in a tree of labels, for any surrogate psi(h, g) of margin error and loss.
//
// Margin rescaling asks for the best set once. The F1 of a set is an ascent of Dinkelbach (spec 6.7). For all others the hull of the
// points (h, g) is searched (spec 10.2 with E15); where that leaves something open and a bound is to be proved, all sets near the last
// line that no other set beats in both h and g are listed, and the best of them is the best of all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "hierarchy/closed_sets.hpp"
#include "surrogates/hull_search.hpp"
#include "surrogates/set_pool.hpp"

namespace maxmargin::blocks {

class ClosedSetSearch : public SetPool {
  public:
    ClosedSetSearch(std::shared_ptr<const structures::LabelTree> tree, const SetSurrogate& surrogate)
        : SetPool(tree->size(), surrogate), tree_(std::move(tree)), signs_(tree_->size()), reward_(tree_->size()), ordered_(tree_->size()) {}

    // A sample: scores of its nodes and its true set, a closed one. There are no pairs. Arrays stay the caller's until the search is over.
    void begin(const double* scores, const double*, const std::uint8_t* truth) {
        scores_ = scores, truth_ = truth;
        begin_sample();
        scale_ = 1 + tree_->most_loss();
        for (std::size_t k = 0; k < tree_->size(); ++k) {
            scale_ += std::abs(scores[k]);
            signs_[k] = truth[k] ? -tree_->loss(k) : tree_->loss(k);
            if (truth[k] && k > 0) truth_size_ += tree_->loss(k);
        }
    }

    // The tangent of psi at an output.
    SetCut cut(double h, double g, double size) const { return surrogate_.is_margin() ? SetCut{1, g} : SetPool::cut(h, g, size); }

    // With few questions or, if what was found is to be proved, as many as it takes. What is not proved may miss a part of what it is
    // above `floor`.
    Violator find(bool prove, double floor = 0) {
        begin_search(floor, [&](const Point& p) { return psi(p); });
        if (surrogate_.is_margin()) {
            ask(1, 1, 0);
            const Point p = take();
            found_.bound = std::max(found_.value, p.h + p.g);
        } else if (surrogate_.is_f1()) {
            // The sizes of both add up to that of the truth at least.
            ascend(prove ? kMostProving : kMostStepping, truth_size_, [&](double level) {
                ask(1, 1, level);
                const Point p = take();
                return p.h + p.g - level * (p.size + truth_size_);
            });
        } else {
            on_hull(prove);
        }
        return end_search();
    }

  private:
    // So many whole losses are looked at, one by one.
    static constexpr double kMostLosses = 1 << 14;

    double psi(const Point& p) const {
        // What costs nothing may still outscore the truth, and margin rescaling minds that.
        if (surrogate_.is_margin()) return p.h + p.g;
        if (p.g <= 0) return 0;
        if (surrogate_.is_f1()) return (p.g + p.h) / (p.size + truth_size_);
        return surrogate_.psi.value(p.h, p.g);
    }
    // The set that was written into the pool is an output from now on. Sums over what differs: zero is zero.
    Point take() {
        const std::vector<double>& y = pool_[n_pool_];
        Point p{0, 0, 0};
        for (std::size_t k = 1; k < y.size(); ++k) {
            if (y[k] != 0) p.size += tree_->loss(k);
            if ((y[k] != 0) == (truth_[k] != 0)) continue;
            p.h += truth_[k] ? -scores_[k] : scores_[k];
            p.g += tree_->loss(k);
        }
        return put(p, psi(p));
    }

    // The best a * score + b * loss - c * size, written into the pool.
    void ask(double a, double b, double c) {
        ++queries_;
        for (std::size_t k = 0; k < reward_.size(); ++k) reward_[k] = a * scores_[k] + b * signs_[k] - c * tree_->loss(k);
        decoder_.best(*tree_, reward_.data(), next_in_pool().data());
    }
    // The largest loss, and the best score with it.
    void ask_for_loss() {
        ++queries_;
        for (std::size_t k = 0; k < ordered_.size(); ++k) ordered_[k] = {signs_[k], scores_[k]};
        ordered_decoder_.best(*tree_, ordered_.data(), next_in_pool().data());
    }

    void on_hull(bool prove) {
        const std::size_t n_known = known_.size();
        begin_hull();
        const auto hull = surrogates::hull_search(surrogate_.psi, hull_, scale_, prove ? kMostProving : kMostStepping, [&](double lambda) {
            const double a = std::isinf(lambda) ? 0 : lambda > 1 ? 1 / lambda : 1, b = std::min(lambda, 1.0);
            if (a > 0) ask(a, b, 0);
            else ask_for_loss();
            const Point p = take();
            lines_.push_back({a, b, a * p.h + b * p.g});
            return surrogates::Vertex{p.h, p.g, n_known + n_pool_};
        }, prove, floor_, surrogates::kEnough);
        if (!prove) return;
        found_.bound = std::max(found_.value, hull.bound);
        if (is_open() && tree_->has_whole_losses() && tree_->most_loss() <= kMostLosses) found_.bound = std::max(found_.value, bound_of_whole_losses());
        if (is_open() && !surrogate_.hull_only) list();
    }

    double bound_of_whole_losses() const {
        double bound = 0;
        for (double g = 1; g <= tree_->most_loss(); ++g) bound = std::max(bound, surrogate_.psi.value(most_error(g), g));
        return bound;
    }

    // List what is so near to the last line that it may be better than the best set known.
    void list() {
        const auto last = std::find_if(lines_.rbegin(), lines_.rend(), [](const Line& own) { return own.a > 0; });
        if (last == lines_.rend()) return;
        const Line& line = *last;
        const double lambda = line.b / line.a, most = line.most / line.a, rounding = kRounding * scale_ * (1 + lambda);
        // The largest psi of what is by some amount below the line; it falls with the amount.
        const auto top = [&](double lost) { return surrogate_.psi.edge_maximum(most - lost, lambda, 0, tree_->most_loss()); };
        double low = 0, high = rounding;
        for (int k = 0; k < 100 && top(high) > found_.value; ++k) low = high, high *= 8;
        // What is listed in vain costs less than a better limit.
        for (int k = 0; k < 5; ++k) {
            const double middle = 0.5 * (low + high);
            (top(middle) > found_.value ? low : high) = middle;
        }
        ++queries_;
        if (!front_.search(*tree_, scores_, signs_.data(), lambda, high + rounding)) return;
        double own = 0;
        for (std::size_t k = 0; k < tree_->size(); ++k)
            if (truth_[k]) own += scores_[k];
        std::size_t best = front_.size();
        double value = found_.value;
        for (std::size_t s = 0; s < front_.size(); ++s) {
            const Point p{front_.h(s) - own, front_.g(s) + truth_size_ + tree_->loss(0), 0};
            if (const double there = psi(p); there > value) value = there, best = s;
        }
        if (best < front_.size()) {
            front_.set(best, next_in_pool().data());
            take();
        }
        found_.bound = std::max(value, found_.value);
    }

    std::shared_ptr<const structures::LabelTree> tree_;
    structures::ClosedSetDecoder<double> decoder_;
    structures::ClosedSetDecoder<structures::Ordered> ordered_decoder_;
    structures::ClosedSetFront front_;
    const double* scores_ = nullptr;
    const std::uint8_t* truth_ = nullptr;
    std::vector<double> signs_, reward_;
    std::vector<structures::Ordered> ordered_;
};

}  // namespace maxmargin::blocks
