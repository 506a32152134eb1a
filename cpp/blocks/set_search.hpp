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

#include "structures/label_sets.hpp"
#include "surrogates/bicriteria.hpp"
#include "surrogates/hull.hpp"

namespace maxmargin::blocks {

struct SetSurrogate {
    surrogates::Bicriteria psi;
    bool relaxed = false;    // halves of labels are outputs too
    bool hull_only = false;  // nothing is recovered from inside the hull
    bool is_margin() const { return psi.kind == surrogates::Kind::generalized && psi.alpha == 1 && psi.beta == 0; }
    bool is_f1() const { return psi.kind == surrogates::Kind::micro_f1; }
};

// A cut: psi of the set is at least a h + b, for all weights.
struct SetCut {
    double a = 0, b = 0;
};

class SetSearch {
  public:
    static constexpr std::size_t kNew = static_cast<std::size_t>(-1), kTruth = static_cast<std::size_t>(-2);

    SetSearch(std::shared_ptr<const structures::LabelGraph> graph, const SetSurrogate& surrogate)
        : graph_(std::move(graph)), decoder_(graph_), surrogate_(surrogate) {
        const std::size_t L = graph_->n_labels();
        unary_.resize(L);
        scaled_.resize(graph_->n_pairs());
        best_.resize(L);
        for (std::size_t g = 0; g <= 2 * L; ++g) {
            const auto t = surrogate_.psi.tangent(0, 0.5 * static_cast<double>(g));
            powers_.push_back({t.a, t.b});
        }
    }

    std::size_t queries() const { return queries_; }

    // A sample: scores of its labels and of pairs, and its true set. Arrays stay the caller's until the search is over.
    void begin(const double* scores, const double* pairs, const std::uint8_t* truth) {
        scores_ = scores, pairs_ = pairs, truth_ = truth;
        const std::size_t L = graph_->n_labels(), E = graph_->n_pairs();
        known_.clear();
        n_pool_ = 0;
        own_ = truth_size_ = 0;
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
    bool finite() const { return std::isfinite(scale_); }

    // An output that the caller knows; the first one has id 0.
    void suggest(double h, double g, double size) { known_.push_back({h, g, size}); }

    // What was found: psi there, what no output exceeds (infinite if that is not known), and who it is: a suggestion, the truth, or
    // the set in `set`.
    struct Violator {
        double h = 0, g = 0, size = 0, value = 0, bound = 0;
        std::size_t id = kTruth;
    };
    const double* set() const { return best_.data(); }

    // The tangent of psi at an output.
    SetCut cut(double h, double g, double size) const {
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
        const std::size_t L = graph_->n_labels();
        for (std::size_t c = 0; c < known_.size(); ++c) consider(known_[c].h, known_[c].g, known_[c].size, c);
        const bool loose = surrogate_.relaxed && !separate_ && !graph_->is_forest();
        if (surrogate_.is_margin()) {
            const double excess = ask(1, 1, 0);
            const Point p = take();
            const double most = p.h + p.g + excess;
            found_.bound = std::max(found_.value, most);
        } else if (surrogate_.is_f1()) {
            ascend(prove ? kMostProving : kMostStepping);
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
            if (prove && !surrogate_.hull_only && !loose && found_.bound > found_.value + kRounding * scale_ && (graph_->is_forest() || L <= kListed)) {
                if (graph_->is_forest()) frontier_.of_forest(*graph_, scores_, pairs_, truth_);
                else frontier_.of_few(*graph_, scores_, pairs_, truth_);
                take_frontier();
            }
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
    // Up to so many labels every set is looked at, and up to so many for a proof.
    static constexpr std::size_t kFew = 8, kListed = 14;
    static constexpr std::size_t kMostStepping = 20, kMostProving = 60;
    static constexpr double kRounding = 1e-10;

    struct Point {
        double h, g, size;
    };
    struct Line {
        double a, b, most;
    };

    double psi(double h, double g, double size) const {
        if (g <= 0) return 0;
        if (surrogate_.is_f1()) return (g + h) / (size + truth_size_);
        if (surrogate_.psi.kind != surrogates::Kind::generalized) return surrogate_.psi.value(h, g);
        // Losses are whole, or halves.
        const SetCut& power = powers_[static_cast<std::size_t>(2 * g + 0.5)];
        return power.a * h + power.b;
    }

    void consider(double h, double g, double size, std::size_t id, std::size_t from = 0) {
        const double value = psi(h, g, size);
        if (!(value > found_.value)) return;
        found_.value = value, found_.h = h, found_.g = g, found_.size = size, found_.id = id;
        from_ = from;
    }

    std::vector<double>& next_in_pool() {
        if (pool_.size() <= n_pool_) pool_.emplace_back(graph_->n_labels()), pool_points_.emplace_back();
        return pool_[n_pool_];
    }
    // The set that was written into the pool is an output from now on.
    Point take() {
        const std::vector<double>& y = pool_[n_pool_];
        Point p{graph_->worth(y.data(), scores_, pairs_) - own_, truth_size_, 0};
        for (std::size_t j = 0; j < y.size(); ++j) p.g += truth_[j] ? -y[j] : y[j], p.size += y[j];
        pool_points_[n_pool_] = p;
        consider(p.h, p.g, p.size, kNew, n_pool_);
        ++n_pool_;
        return p;
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

    // Ask for loss + margin error - psi * (sizes of both sets) with the largest psi so far, until that is 0.
    void ascend(std::size_t most) {
        for (std::size_t round = 0; round < most; ++round) {
            const double level = found_.value, excess = ask(1, 1, level);
            const Point p = take();
            const double above = p.h + p.g - level * (p.size + truth_size_) + excess;
            // No set is worth more than this at the level asked for, and sizes are one at least, or a half.
            const double least = std::max(truth_size_, surrogate_.relaxed ? 0.5 : 1.0);
            found_.bound = std::min(found_.bound, level + std::max(above, 0.0) / least);
            if (!(found_.value > level + kRounding * scale_)) break;
        }
        found_.bound = std::max(found_.bound, found_.value);
    }

    void on_hull(bool prove) {
        const std::size_t L = graph_->n_labels(), n_known = known_.size();
        hull_.clear();
        lines_.clear();
        hull_.add({0, 0, kTruth});
        for (std::size_t c = 0; c < n_known; ++c) hull_.add({known_[c].h, known_[c].g, c});
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
            double top = std::numeric_limits<double>::infinity();
            for (const Line& line : lines_)
                if (line.a > 0) top = std::min(top, (line.most - line.b * g) / line.a);
            bound = std::max(bound, psi(top, g, 0));
        }
        found_.bound = std::max(bound, found_.value);
    }

    std::shared_ptr<const structures::LabelGraph> graph_;
    structures::SetDecoder decoder_;
    structures::SetFrontier frontier_;
    SetSurrogate surrogate_;
    surrogates::UpperHull hull_;
    const double *scores_ = nullptr, *pairs_ = nullptr;
    const std::uint8_t* truth_ = nullptr;
    double own_ = 0, truth_size_ = 0, scale_ = 0, floor_ = 0;
    bool separate_ = false;
    Violator found_;
    std::size_t from_ = 0, n_pool_ = 0, queries_ = 0;
    std::vector<SetCut> powers_;  // tangents at losses 0, 1/2, 1, ... of what is affine
    std::vector<Point> known_, pool_points_;
    std::vector<std::vector<double>> pool_;  // sets met in the present search
    std::vector<Line> lines_;
    std::vector<double> unary_, scaled_, best_;
};

}  // namespace maxmargin::blocks
