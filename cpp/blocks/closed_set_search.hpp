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

#include "blocks/set_search.hpp"
#include "structures/closed_sets.hpp"
#include "surrogates/hull.hpp"

namespace maxmargin::blocks {

class ClosedSetSearch {
  public:
    static constexpr std::size_t kNew = SetSearch::kNew, kTruth = SetSearch::kTruth;
    using Violator = SetSearch::Violator;

    ClosedSetSearch(std::shared_ptr<const structures::LabelTree> tree, const SetSurrogate& surrogate)
        : tree_(std::move(tree)), surrogate_(surrogate), signs_(tree_->size()), reward_(tree_->size()), ordered_(tree_->size()), best_(tree_->size()) {}

    std::size_t queries() const { return queries_; }

    // A sample: scores of its nodes and its true set, a closed one. There are no pairs. Arrays stay the caller's until the search is over.
    void begin(const double* scores, const double*, const std::uint8_t* truth) {
        scores_ = scores, truth_ = truth;
        known_.clear();
        n_pool_ = 0;
        truth_size_ = 0;
        scale_ = 1 + tree_->most_loss();
        for (std::size_t k = 0; k < tree_->size(); ++k) {
            scale_ += std::abs(scores[k]);
            signs_[k] = truth[k] ? -tree_->loss(k) : tree_->loss(k);
            if (truth[k] && k > 0) truth_size_ += tree_->loss(k);
        }
    }
    bool finite() const { return std::isfinite(scale_); }

    // An output that the caller knows; the first one has id 0.
    void suggest(double h, double g, double size) { known_.push_back({h, g, size}); }
    const double* set() const { return best_.data(); }

    // The tangent of psi at an output.
    SetCut cut(double h, double g, double size) const {
        if (surrogate_.is_margin()) return {1, g};
        if (g <= 0) return {};
        if (surrogate_.is_f1()) return {1 / (size + truth_size_), g / (size + truth_size_)};
        const auto [a, b] = surrogate_.psi.tangent(h, g);
        return {a, b};
    }

    // With few questions or, if what was found is to be proved, as many as it takes. What is not proved may miss a part of what it is
    // above `floor`.
    Violator find(bool prove, double floor = 0) {
        floor_ = floor;
        found_ = {};
        found_.size = truth_size_;
        found_.bound = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < known_.size(); ++c) consider(known_[c], c);
        if (surrogate_.is_margin()) {
            ask(1, 1, 0);
            const Point p = take();
            found_.bound = std::max(found_.value, p.h + p.g);
        } else if (surrogate_.is_f1()) {
            ascend(prove ? kMostProving : kMostStepping);
        } else {
            on_hull(prove);
        }
        // What rounding leaves open is none of the search's fault.
        if (found_.bound <= found_.value + kRounding * scale_) found_.bound = found_.value;
        if (found_.id != kNew) return found_;
        const Point& p = pool_points_[from_];
        found_.h = p.h, found_.g = p.g, found_.size = p.size;
        std::copy(pool_[from_].begin(), pool_[from_].end(), best_.begin());
        return found_;
    }

  private:
    static constexpr std::size_t kMostStepping = 20, kMostProving = 60;
    static constexpr double kRounding = 1e-10;
    // So many whole losses are looked at, one by one.
    static constexpr double kMostLosses = 1 << 14;

    struct Point {
        double h, g, size;
    };
    struct Line {
        double a, b, most;
    };

    double psi(const Point& p) const {
        // What costs nothing may still outscore the truth, and margin rescaling minds that.
        if (surrogate_.is_margin()) return p.h + p.g;
        if (p.g <= 0) return 0;
        if (surrogate_.is_f1()) return (p.g + p.h) / (p.size + truth_size_);
        return surrogate_.psi.value(p.h, p.g);
    }
    void consider(const Point& p, std::size_t id, std::size_t from = 0) {
        const double value = psi(p);
        if (!(value > found_.value)) return;
        found_.value = value, found_.h = p.h, found_.g = p.g, found_.size = p.size, found_.id = id;
        from_ = from;
    }

    std::vector<double>& next_in_pool() {
        if (pool_.size() <= n_pool_) pool_.emplace_back(tree_->size()), pool_points_.emplace_back();
        return pool_[n_pool_];
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
        pool_points_[n_pool_] = p;
        consider(p, kNew, n_pool_);
        ++n_pool_;
        return p;
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

    // Ask for loss + margin error - psi * (sizes of both sets) with the largest psi so far, until that is 0.
    void ascend(std::size_t most) {
        for (std::size_t round = 0; round < most; ++round) {
            const double level = found_.value;
            ask(1, 1, level);
            const Point p = take();
            const double above = p.h + p.g - level * (p.size + truth_size_);
            // No set is worth more than this at the level asked for, and the sizes of both add up to that of the truth at least.
            if (truth_size_ > 0) found_.bound = std::min(found_.bound, level + std::max(above, 0.0) / truth_size_);
            if (!(found_.value > level + kRounding * scale_)) break;
        }
        found_.bound = std::max(found_.bound, found_.value);
    }

    void on_hull(bool prove) {
        const std::size_t n_known = known_.size();
        hull_.clear();
        lines_.clear();
        hull_.add({0, 0, kTruth});
        for (std::size_t c = 0; c < n_known; ++c) hull_.add({known_[c].h, known_[c].g, c});
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
    bool is_open() const { return found_.bound > found_.value + kRounding * scale_; }

    // No output lies above a line that was asked for.
    double bound_of_whole_losses() const {
        double bound = 0;
        for (double g = 1; g <= tree_->most_loss(); ++g) {
            double top = std::numeric_limits<double>::infinity();
            for (const Line& line : lines_)
                if (line.a > 0) top = std::min(top, (line.most - line.b * g) / line.a);
            bound = std::max(bound, surrogate_.psi.value(top, g));
        }
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
    SetSurrogate surrogate_;
    structures::ClosedSetDecoder<double> decoder_;
    structures::ClosedSetDecoder<structures::Ordered> ordered_decoder_;
    structures::ClosedSetFront front_;
    surrogates::UpperHull hull_;
    const double* scores_ = nullptr;
    const std::uint8_t* truth_ = nullptr;
    double truth_size_ = 0, scale_ = 0, floor_ = 0;
    Violator found_;
    std::size_t from_ = 0, n_pool_ = 0, queries_ = 0;
    std::vector<Point> known_, pool_points_;
    std::vector<std::vector<double>> pool_;  // sets met in the present search
    std::vector<Line> lines_;
    std::vector<double> signs_, reward_;
    std::vector<structures::Ordered> ordered_;
    std::vector<double> best_;
};

}  // namespace maxmargin::blocks
