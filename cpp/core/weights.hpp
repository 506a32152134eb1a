// The weights of a block solver, perhaps within bounds, and steps along a direction.
//
// v = sum of the blocks' points; the primal weights are w = v or, within bounds, w = clip(v). Along a direction dv the dual
// objective is l - lambda w.v + lambda/2 |w|^2: quadratic without bounds, piecewise quadratic with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "numeric/huge_pages.hpp"

namespace maxmargin::blocks {

// How far to go, what the dual objective gains, and whether that is as far as possible.
struct Plan {
    double step = 0, gain = 0;
    bool full = false;
};

// Slope is that of the dual objective; `squared` is |dv|^2.
inline Plan plan_quadratic(double slope, double squared, double lambda, double largest) {
    if (!(slope > 0) || !(largest > 0)) return {};
    // Without curvature the dual rises for ever; no constant may be added to a denominator that can be of any size.
    const double step = squared < 1e-300 ? largest : std::min(largest, slope / (lambda * squared));
    return {step, step * (slope - 0.5 * lambda * step * squared), step == largest};
}

// A whole step, whatever it brings. Bounds on the weights can only make the gain larger.
inline Plan plan_full(double slope, double squared, double lambda) {
    const double step = 1.0 - 0x1p-52;
    return {step, step * slope - 0.5 * lambda * step * step * squared, true};
}

// Entries of a direction that are not zero.
class Direction {
  public:
    void resize(std::size_t size) { values_.resize(size), known_.resize(size); }
    void add(std::size_t at, double value) {
        if (!known_[at]) known_[at] = 1, touched_.push_back(static_cast<std::uint32_t>(at));
        values_[at] += value;
    }
    void clear() {
        for (const std::uint32_t at : touched_) values_[at] = 0, known_[at] = 0;
        touched_.clear();
    }
    double squared() const {
        double sum = 0;
        for (const std::uint32_t at : touched_) sum += values_[at] * values_[at];
        return sum;
    }
    double operator[](std::size_t at) const { return values_[at]; }
    const std::vector<std::uint32_t>& touched() const { return touched_; }

  private:
    std::vector<double> values_;
    std::vector<char> known_;
    std::vector<std::uint32_t> touched_;
};

class Weights {
  public:
    std::vector<double> v;

    void resize(std::size_t size) {
        std::vector<double>().swap(v);
        v.reserve(size);
        prefer_huge_pages(v.data(), size * sizeof(double));
        v.assign(size, 0.0);
    }
    // Bounds in the order of v; empty vectors for none.
    void set_bounds(std::vector<double> lower, std::vector<double> upper) {
        lower_ = std::move(lower);
        upper_ = std::move(upper);
        project();
    }
    bool bounded() const { return !lower_.empty(); }
    const double* data() const { return bounded() ? w_.data() : v.data(); }

    // What the weight of v[j] = x would be.
    double within(std::size_t j, double x) const { return bounded() ? clipped(j, x) : x; }

    // After v was changed as a whole.
    void project() {
        if (!bounded()) return w_.clear();
        w_.resize(v.size());
        for (std::size_t j = 0; j < v.size(); ++j) w_[j] = clipped(j, v[j]);
    }

    void move(const Direction& direction, double step) {
        for (const std::uint32_t j : direction.touched()) {
            v[j] += step * direction[j];
            if (bounded()) w_[j] = clipped(j, v[j]);
        }
    }

    // lambda w.v - lambda/2 |w|^2
    double penalty(double lambda) const {
        const double* w = data();
        double sum = 0;
        for (std::size_t j = 0; j < v.size(); ++j) sum += w[j] * (v[j] - 0.5 * w[j]);
        return lambda * sum;
    }
    double squared_norm() const {
        const double* w = data();
        double sum = 0;
        for (std::size_t j = 0; j < v.size(); ++j) sum += w[j] * w[j];
        return sum;
    }

    Plan plan(const Direction& direction, double slope, double lambda, double largest) const {
        const double squared = direction.squared();
        Plan plan = plan_quadratic(slope, squared, lambda, largest);
        if (!bounded() || plan.step == 0) return plan;
        // The step that would be exact without bounds cannot fail with them; the exact one is at least as long.
        if (!plan.full) plan = {exact_step(direction, slope, lambda, plan.step, largest), 0, false};
        plan.full = plan.step == largest;
        plan.gain = gain(direction, slope, lambda, plan.step);
        return plan;
    }

  private:
    double clipped(std::size_t j, double x) const { return std::min(std::max(x, lower_[j]), upper_[j]); }

    // The derivative of the dual along the direction falls and is piecewise linear: false position between a step at which
    // it is positive and one at which it is negative, halving the weight of an end that stays.
    double exact_step(const Direction& direction, double slope, double lambda, double low, double high) const {
        const auto derivative = [&](double at) {
            double bend = 0;
            for (const std::uint32_t j : direction.touched()) bend += direction[j] * (clipped(j, v[j] + at * direction[j]) - w_[j]);
            return slope - lambda * bend;
        };
        double at_low = derivative(low), at_high = derivative(high);
        if (at_low <= 0) return low;
        if (at_high >= 0) return high;
        for (int k = 0; k < 40; ++k) {
            const double middle = low + (high - low) * at_low / (at_low - at_high), value = derivative(middle);
            if (std::abs(value) <= 1e-9 * slope || high - low <= 1e-12 * high) return middle;
            if (value > 0) low = middle, at_low = value, at_high *= 0.5;
            else high = middle, at_high = value, at_low *= 0.5;
        }
        return low;
    }

    double gain(const Direction& direction, double slope, double lambda, double step) const {
        double bend = 0;
        for (const std::uint32_t j : direction.touched()) {
            const double moved = v[j] + step * direction[j], x = clipped(j, moved), w = w_[j];
            // What lambda (w.v - |w|^2/2) changes beyond its slope w.dv.
            bend += (x - w) * moved - 0.5 * (x - w) * (x + w);
        }
        return step * slope - lambda * bend;
    }

    std::vector<double> w_, lower_, upper_;
};

}  // namespace maxmargin::blocks
