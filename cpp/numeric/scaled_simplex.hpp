// The best point of a simplex some of whose corners count more than others:
//
//     max over p >= 0, sum p = 1   of   sum_k gain_k p_k - curvature / 2 * (sum_k (a_k p_k)^2 + (sum_k a_k p_k)^2)
//
// which is the dual of one sample with K labels under a surrogate a h + b: label k moves the weights of its own class by a_k
// and those of the true class by the opposite of all of them. Labels with a = 0, the truth among them, move nothing, and the best
// of these takes what the others leave.
//
// With the multiplier t of the sum and S = sum_k a_k p_k the conditions of the optimum are a_k p_k = max(0, v_k - S) for
// v_k = (gain_k - t) / (curvature a_k). Given t, S is the root of a decreasing convex function with K kinks; the mass of the
// labels that move falls with t, in pieces of straight lines. Newton steps find both roots to the last bit in a few rounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace maxmargin::numeric {

class ScaledSimplex {
  public:
    // `gain` and `factor` have n entries, at least one factor is zero; the point goes to `out`. `multiplier` and `sum` are where the
    // search begins: t and S of a point nearby, or anything.
    void solve(const double* gain, const double* factor, std::size_t n, double curvature, double multiplier, double sum, double* out) {
        std::size_t still = n;
        double top = -INFINITY;
        for (std::size_t k = 0; k < n; ++k) {
            out[k] = 0;
            if (factor[k] > 0) top = std::max(top, gain[k]);
            else if (still == n || gain[k] > gain[still]) still = k;
        }
        // Gains count from the largest one: where the curvature is tiny, a constant would swallow the distribution.
        label_.clear(), gain_.clear(), inverse_.clear();
        for (std::size_t k = 0; k < n; ++k)
            if (factor[k] > 0) label_.push_back(k), gain_.push_back(gain[k] - top), inverse_.push_back(1 / factor[k]);
        scale_ = 1 / curvature;
        double low = gain[still] - top, high = 0;
        if (label_.empty() || low >= high) {
            out[still] = 1;
            return;
        }
        // The mass is to be one, or less at the lowest multiplier: what does not move takes the rest then.
        sum_ = sum;
        const double least = low;
        bool enough = false;  // whether the mass at `low` is known to be more than one
        double at = std::min(std::max(multiplier - top, low), high);
        evaluate(at);
        for (int round = 0; round < 100 && std::fabs(mass_ - 1) > 1e-14 && !(mass_ < 1 && at == least); ++round) {
            if (mass_ > 1) low = at, enough = true;
            else high = at;
            double next = slope_ < 0 ? at + (mass_ - 1) / -slope_ : low;
            if (next <= low && !enough) next = low;
            else if (!(next > low && next < high)) next = 0.5 * (low + high);
            if (next == at) break;
            evaluate(at = next);
        }
        double total = 0;
        for (std::size_t j = 0; j < label_.size(); ++j) {
            const double own = inverse_[j] * (gain_[j] - at) * scale_ - sum_;
            if (own > 0) total += out[label_[j]] = own * inverse_[j];
        }
        if (total >= 1) {
            for (const std::size_t k : label_) out[k] /= total;
        } else out[still] = 1 - total;
    }

  private:
    // S, the mass of the labels that move, and its derivative, for a multiplier.
    void evaluate(double at) {
        // From below the root of a convex function Newton steps never pass it, from above they do once; they end when the labels
        // above S are as many as before, and thus the same.
        std::size_t last = label_.size() + 1;
        double fall = 0;
        for (;;) {
            double values = 0;
            std::size_t count = 0;
            fall = 0;
            for (std::size_t j = 0; j < label_.size(); ++j) {
                const double v = inverse_[j] * (gain_[j] - at) * scale_;
                if (v > sum_) values += v, fall += inverse_[j], ++count;
            }
            if (count == last) break;
            last = count;
            sum_ = values / static_cast<double>(count + 1);
        }
        const double sum_slope = -fall * scale_ / static_cast<double>(last + 1);
        mass_ = 0, slope_ = 0;
        for (std::size_t j = 0; j < label_.size(); ++j) {
            const double own = inverse_[j] * (gain_[j] - at) * scale_ - sum_;
            if (own > 0) mass_ += own * inverse_[j], slope_ += (-inverse_[j] * scale_ - sum_slope) * inverse_[j];
        }
    }

    std::vector<std::size_t> label_;
    std::vector<double> gain_, inverse_;
    double scale_ = 1, sum_ = 0, mass_ = 0, slope_ = 0;
};

}  // namespace maxmargin::numeric
