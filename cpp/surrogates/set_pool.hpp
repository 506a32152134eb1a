// What searches for the most violating set of one sample have in common: the sets met, those that the caller knows, and the best one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "surrogates/hull_search.hpp"
#include "surrogates/psi.hpp"

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

class SetPool {
  public:
    static constexpr std::size_t kNew = static_cast<std::size_t>(-1), kTruth = static_cast<std::size_t>(-2);

    // What was found: psi there, what no output exceeds (infinite if that is not known), and who it is: a suggestion, the truth, or
    // the set in `set`.
    struct Violator {
        double h = 0, g = 0, size = 0, value = 0, bound = 0;
        std::size_t id = kTruth;
    };

    std::size_t queries() const { return queries_; }
    bool finite() const { return std::isfinite(scale_); }
    // An output that the caller knows; the first one has id 0.
    void suggest(double h, double g, double size) { known_.push_back({h, g, size}); }
    const double* set() const { return best_.data(); }

    // The tangent of psi at an output.
    SetCut cut(double h, double g, double size) const {
        if (g <= 0) return {};
        if (surrogate_.is_f1()) return {1 / (size + truth_size_), g / (size + truth_size_)};
        const auto [a, b] = surrogate_.psi.tangent(h, g);
        return {a, b};
    }

  protected:
    static constexpr std::size_t kMostStepping = 20, kMostProving = 60;
    static constexpr double kRounding = 1e-10;

    struct Point {
        double h, g, size;
    };
    struct Line {
        double a, b, most;
    };

    SetPool(std::size_t n_labels, const SetSurrogate& surrogate) : surrogate_(surrogate), best_(n_labels) {}

    void begin_sample() {
        known_.clear();
        n_pool_ = 0;
        truth_size_ = 0;
    }
    // psi(point) of every output that is known is looked at.
    template <class Psi>
    void begin_search(double floor, const Psi& psi) {
        floor_ = floor;
        found_ = {};
        found_.size = truth_size_;
        found_.bound = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < known_.size(); ++c) consider(known_[c], psi(known_[c]), c);
    }
    Violator end_search() {
        // What rounding leaves open is none of the search's fault.
        if (!is_open()) found_.bound = found_.value;
        if (found_.id != kNew) return found_;
        const Point& p = pool_points_[from_];
        found_.h = p.h, found_.g = p.g, found_.size = p.size;
        std::copy(pool_[from_].begin(), pool_[from_].end(), best_.begin());
        return found_;
    }
    bool is_open() const { return found_.bound > found_.value + kRounding * scale_; }

    void consider(const Point& p, double value, std::size_t id, std::size_t from = 0) {
        if (!(value > found_.value)) return;
        found_.value = value, found_.h = p.h, found_.g = p.g, found_.size = p.size, found_.id = id;
        from_ = from;
    }
    std::vector<double>& next_in_pool() {
        if (pool_.size() <= n_pool_) pool_.emplace_back(best_.size()), pool_points_.emplace_back();
        return pool_[n_pool_];
    }
    // The set that was written into the pool is an output from now on.
    Point put(const Point& p, double value) {
        pool_points_[n_pool_] = p;
        consider(p, value, kNew, n_pool_);
        ++n_pool_;
        return p;
    }

    // The hull of the truth and of what is known, before any question.
    void begin_hull() {
        hull_.clear();
        lines_.clear();
        hull_.add({0, 0, kTruth});
        for (std::size_t c = 0; c < known_.size(); ++c) hull_.add({known_[c].h, known_[c].g, c});
    }
    // No output with this loss has a larger h: none lies above a line that was asked for.
    double most_error(double g) const {
        double top = std::numeric_limits<double>::infinity();
        for (const Line& line : lines_)
            if (line.a > 0) top = std::min(top, (line.most - line.b * g) / line.a);
        return top;
    }

    // The ascent of Dinkelbach for the F1 of a set: `ask(level)` takes the set with the largest loss + margin error - level * (sizes of
    // both sets), and returns how much that can be. With the largest psi so far as level, until that is 0. Both sizes are `least` in sum.
    template <class Ask>
    void ascend(std::size_t most, double least, const Ask& ask) {
        for (std::size_t round = 0; round < most; ++round) {
            const double level = found_.value, above = ask(level);
            if (least > 0) found_.bound = std::min(found_.bound, level + std::max(above, 0.0) / least);
            if (!(found_.value > level + kRounding * scale_)) break;
        }
        found_.bound = std::max(found_.bound, found_.value);
    }

    SetSurrogate surrogate_;
    surrogates::UpperHull hull_;
    double truth_size_ = 0, scale_ = 0, floor_ = 0;
    Violator found_;
    std::size_t from_ = 0, n_pool_ = 0, queries_ = 0;
    std::vector<Point> known_, pool_points_;
    std::vector<std::vector<double>> pool_;  // sets met in the present search
    std::vector<Line> lines_;
    std::vector<double> best_;
};

}  // namespace maxmargin::blocks
