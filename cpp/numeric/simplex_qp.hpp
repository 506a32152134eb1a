// The small dual problem of cutting planes: min 1/2 a'Ha - b'a subject to a >= 0, sum(a) = total. Variables of linear
// constraints on the weights stand beside the simplex: they are not in the sum.
//
// An active set: the variables that are not zero, the support, have a Cholesky factor of their part of H + shift ee',
// e being the variables in the sum, to which a variable is appended or from which one is taken in O(m^2). The shift changes the
// objective by a constant, since the sum is fixed, and makes the factor well conditioned where H alone is singular but the sum
// settles the rest. Cuts come one at a time and the last solution is a good start, so a solve changes the support a few times
// only. With features of any size the variables are of any size too, next to a total of one, so solutions are refined by
// their residuals.
//
// With numbers of twice the precision it also solves problems whose H is 1e12 times larger than b and more.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "numeric/double_double.hpp"

namespace maxmargin::numeric {

// What is as good as zero next to one, by the kind of number.
template <class Real>
struct Digits;
template <>
struct Digits<double> {
    static constexpr double nothing = 1e-14, ridge = 1e-13, rounding = 1e-15, refined = 1e-12;
};
template <>
struct Digits<DoubleDouble> {
    static constexpr double nothing = 1e-29, ridge = 1e-28, rounding = 1e-30, refined = 1e-26;
};

template <class Real>
class BasicSimplexQP {
  public:
    explicit BasicSimplexQP(Real total) : total_(total) {}

    std::size_t size() const { return linear_.size(); }
    Real total() const { return total_; }
    const std::vector<Real>& linear() const { return linear_; }
    const std::vector<Real>& solution() const { return solution_; }
    const std::vector<char>& in_sum() const { return in_sum_; }
    Real gram(std::size_t i, std::size_t j) const { return gram_[i * capacity_ + j]; }

    // One more variable: its row of H, its own entry last, and its entry of b. It starts at zero, the first one, which must be
    // in the sum, at the total.
    void add(const Real* products, Real linear, bool in_sum) {
        const std::size_t m = size();
        if (m == capacity_) grow(std::max<std::size_t>(16, 2 * capacity_));
        for (std::size_t k = 0; k <= m; ++k) gram_[m * capacity_ + k] = gram_[k * capacity_ + m] = products[k];
        linear_.push_back(linear);
        in_sum_.push_back(in_sum);
        solution_.push_back(m == 0 ? total_ : Real(0));
        if (m == 0) stale_ = true;
    }

    // Another linear term: the factor of the support still holds.
    void set_linear(const Real* values) { linear_.assign(values, values + size()); }

    // Another point to start from; not negative, and of the right sum.
    void set_solution(const Real* values) {
        solution_.assign(values, values + size());
        stale_ = true;
    }

    // The factor depends on the order in which its rows came: with it another one goes on to the same bits. None while stale.
    std::size_t factor_size() const { return stale_ ? 0 : support_.size(); }
    std::size_t support(std::size_t k) const { return support_[k]; }
    Real factor(std::size_t i, std::size_t j) const { return factor_[i * capacity_ + j]; }
    Real shift() const { return shift_; }

    // The factor of another one with the same variables and the same solution.
    void set_factor(const std::int64_t* support, const Real* rows, std::size_t count, Real shift) {
        shift_ = shift;
        ridge_ = Digits<Real>::ridge * shift;
        support_.clear();
        for (std::size_t i = 0; i < count; ++i) {
            std::copy_n(rows + i * count, i + 1, factor_.data() + i * capacity_);
            support_.push_back(static_cast<std::size_t>(support[i]));
        }
        stale_ = count == 0;
    }

    // Drop all variables but these, in ascending order; dropped ones must be zero.
    void keep(const std::int64_t* kept, std::size_t count) {
        std::vector<std::size_t> place(size(), 0);
        for (std::size_t i = 0; i < count; ++i) {
            const auto from = static_cast<std::size_t>(kept[i]);
            place[from] = i;
            for (std::size_t j = 0; j < count; ++j) gram_[i * capacity_ + j] = gram_[from * capacity_ + static_cast<std::size_t>(kept[j])];
            linear_[i] = linear_[from];
            in_sum_[i] = in_sum_[from];
            solution_[i] = solution_[from];
        }
        linear_.resize(count);
        in_sum_.resize(count);
        solution_.resize(count);
        for (std::size_t& k : support_) k = place[k];
    }

    // b'a - 1/2 a'Ha.
    Real value() const {
        Real linear = 0, quadratic = 0;
        for (std::size_t i = 0; i < size(); ++i) {
            if (solution_[i] == 0) continue;
            linear += linear_[i] * solution_[i];
            quadratic += solution_[i] * dot(gram_.data() + i * capacity_, solution_.data(), size());
        }
        return linear - 0.5 * quadratic;
    }

    void solve() {
        using std::fabs;
        if (size() == 0) return;
        Real largest = 0, scale = Real(std::numeric_limits<double>::min());
        for (std::size_t k = 0; k < size(); ++k) {
            largest = std::max(largest, gram(k, k));
            scale = std::max(scale, fabs(linear_[k]));
        }
        // Also where the quadratic part is below the rounding of the linear one.
        if (largest * total_ <= Digits<Real>::nothing * scale) {
            std::fill(solution_.begin(), solution_.end(), Real(0));
            solution_[best_linear()] = total_;
            stale_ = true;
            return;
        }
        if (largest > 4 * shift_ || largest < 0.25 * shift_) stale_ = true;
        if (stale_) factorize(largest);
        Real best = Real(-kHuge);
        int stalled = 0;
        std::vector<Real> target, gradient;
        for (std::size_t round = 0; round < 50 * (size() + 1); ++round) {
            minimise_on_support(target);
            Real step = 1;
            std::size_t blocking = support_.size();
            for (std::size_t k = 0; k < support_.size(); ++k) {
                const Real now = solution_[support_[k]];
                if (target[k] >= now || target[k] >= 0) continue;
                const Real room = now / (now - target[k]);
                if (room < step) step = room, blocking = k;
            }
            for (std::size_t k = 0; k < support_.size(); ++k) {
                Real& now = solution_[support_[k]];
                now = step == 1 ? target[k] : std::max(Real(0), now + step * (target[k] - now));
            }
            if (blocking < support_.size()) {
                // It hit zero: leave it out and go on with the others.
                solution_[support_[blocking]] = 0;
                drop(blocking);
                if (support_.empty()) restart();
                continue;
            }
            slopes(gradient);
            // Of all variables that move the gradient, and with it its rounding.
            Real level = 0, moving = 0;
            for (const std::size_t k : support_) {
                if (in_sum_[k]) level += gradient[k] * solution_[k];
                if (gram(k, k) > 0) moving += solution_[k];
            }
            level /= total_;
            for (std::size_t k = 0; k < size(); ++k) gradient[k] -= in_sum_[k] * level;
            const auto entering = static_cast<std::size_t>(std::min_element(gradient.begin(), gradient.end()) - gradient.begin());
            const Real now = value();
            // Rounding may let the same few variables come and go.
            stalled = now > best ? 0 : stalled + 1;
            best = std::max(best, now);
            const Real rounding = Digits<Real>::rounding * (scale + largest * moving);
            const bool known = std::find(support_.begin(), support_.end(), entering) != support_.end();
            if (stalled > 3 || gradient[entering] >= -rounding || solution_[entering] > 0 || known) break;
            append(entering);
        }
        normalise();
    }

  private:
    // Larger than any number here.
    static constexpr double kHuge = 1e300;

    static Real dot(const Real* x, const Real* y, std::size_t n) {
        Real sums[4] = {};
        std::size_t k = 0;
        for (; k + 4 <= n; k += 4)
            for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += x[k + lane] * y[k + lane];
        for (; k < n; ++k) sums[0] += x[k] * y[k];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    void grow(std::size_t capacity) {
        const auto widen = [&](std::vector<Real>& square, std::size_t used) {
            std::vector<Real> wider(capacity * capacity, Real(0));
            for (std::size_t i = 0; i < used; ++i) std::copy_n(square.data() + i * capacity_, used, wider.data() + i * capacity);
            square.swap(wider);
        };
        widen(gram_, size());
        widen(factor_, support_.size());
        capacity_ = capacity;
    }

    std::size_t best_linear() const {
        std::size_t best = 0;
        for (std::size_t k = 1; k < size(); ++k)
            if (in_sum_[k] && linear_[k] > linear_[best]) best = k;
        return best;
    }

    void factorize(Real largest) {
        // The ridge is far below rounding of the result: duplicates of a cut would make the system singular.
        shift_ = largest;
        ridge_ = Digits<Real>::ridge * largest;
        support_.clear();
        for (std::size_t k = 0; k < size(); ++k)
            if (solution_[k] > 0) append(k);
        stale_ = false;
    }

    void restart() {
        const std::size_t best = best_linear();
        solution_[best] = total_;
        append(best);
    }

    Real shifted(std::size_t i, std::size_t j) const { return gram(i, j) + (in_sum_[i] && in_sum_[j] ? shift_ : Real(0)); }

    // One more row of the factor.
    void append(std::size_t variable) {
        const std::size_t m = support_.size();
        Real* row = factor_.data() + m * capacity_;
        for (std::size_t i = 0; i < m; ++i) {
            const Real* other = factor_.data() + i * capacity_;
            row[i] = (shifted(support_[i], variable) - dot(other, row, i)) / other[i];
        }
        row[m] = sqrt(std::max(ridge_, shifted(variable, variable) + ridge_ - dot(row, row, m)));
        support_.push_back(variable);
    }

    // One row less; rotations make the rest triangular again.
    void drop(std::size_t at) {
        const std::size_t m = support_.size() - 1;
        for (std::size_t i = at; i < m; ++i) std::copy_n(factor_.data() + (i + 1) * capacity_, i + 2, factor_.data() + i * capacity_);
        for (std::size_t k = at; k < m; ++k) {
            Real* row = factor_.data() + k * capacity_;
            const Real length = hypot(row[k], row[k + 1]);
            const Real c = row[k] / length, s = row[k + 1] / length;
            row[k] = length;
            for (std::size_t i = k + 1; i < m; ++i) {
                Real* other = factor_.data() + i * capacity_;
                const Real x = other[k], y = other[k + 1];
                other[k] = c * x + s * y;
                other[k + 1] = c * y - s * x;
            }
        }
        support_.erase(support_.begin() + static_cast<std::ptrdiff_t>(at));
    }

    // Two systems with the factor at once, in place.
    void apply_inverse(std::vector<Real>& x, std::vector<Real>& y) const {
        const std::size_t m = support_.size();
        for (std::size_t i = 0; i < m; ++i) {
            const Real* row = factor_.data() + i * capacity_;
            x[i] = (x[i] - dot(row, x.data(), i)) / row[i];
            y[i] = (y[i] - dot(row, y.data(), i)) / row[i];
        }
        for (std::size_t i = m; i-- > 0;) {
            const Real* row = factor_.data() + i * capacity_;
            const Real at_x = x[i] /= row[i], at_y = y[i] /= row[i];
            for (std::size_t k = 0; k < i; ++k) x[k] -= row[k] * at_x, y[k] -= row[k] * at_y;
        }
    }

    // The minimiser over the plane sum = total with only the support free, refined by its residual.
    void minimise_on_support(std::vector<Real>& target) const {
        const std::size_t m = support_.size();
        std::vector<Real> ones(m), residual(m);
        target.resize(m);
        // A constant more or less in the sum changes nothing but the multiplier; without it less is lost to rounding.
        Real level = 0;
        for (const std::size_t k : support_)
            if (in_sum_[k]) level = linear_[k];
        for (std::size_t k = 0; k < m; ++k) {
            ones[k] = in_sum_[support_[k]];
            target[k] = linear_[support_[k]] - ones[k] * level;
        }
        const auto sum_of = [&](const std::vector<Real>& values) {
            Real sum = 0;
            for (std::size_t k = 0; k < m; ++k) sum += in_sum_[support_[k]] * values[k];
            return sum;
        };
        apply_inverse(target, ones);
        const Real sum_ones = sum_of(ones);
        const auto onto_plane = [&](std::vector<Real>& values, Real sum) {
            const Real all = sum_of(values);
            const Real multiplier = (all - sum) / sum_ones;
            for (std::size_t k = 0; k < m; ++k) values[k] -= multiplier * ones[k];
        };
        onto_plane(target, total_);
        std::vector<Real> before = target, unused(m);
        Real last = Real(kHuge);
        for (int round = 0; round < 8; ++round) {
            Real size = 0, change = 0;
            for (std::size_t k = 0; k < m; ++k) {
                const std::size_t at = support_[k];
                residual[k] = linear_[at] - in_sum_[at] * level;
                for (std::size_t j = 0; j < m; ++j) residual[k] -= gram(at, support_[j]) * target[j];
            }
            std::fill(unused.begin(), unused.end(), Real(0));
            apply_inverse(residual, unused);
            onto_plane(residual, Real(0));
            for (std::size_t k = 0; k < m; ++k) {
                // The truth's variable is what is left of the sum.
                if (gram(support_[k], support_[k]) == 0) continue;
                size = std::max(size, fabs(target[k]));
                change = std::max(change, fabs(residual[k]));
            }
            // Where H is singular beyond what the sum settles, the ridge has chosen, and must not be taken back.
            if (change > 0.3 * last) return target.swap(before);
            before = target;
            for (std::size_t k = 0; k < m; ++k) target[k] += residual[k];
            if (change <= Digits<Real>::refined * size) return;
            last = change;
        }
    }

    void slopes(std::vector<Real>& gradient) const {
        gradient.assign(size(), Real(0));
        for (const std::size_t k : support_) {
            const Real* row = gram_.data() + k * capacity_;
            const Real weight = solution_[k];
            for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] += weight * row[j];
        }
        for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] -= linear_[j];
    }

    void normalise() {
        Real sum = 0;
        for (std::size_t k = 0; k < size(); ++k) {
            solution_[k] = std::max(Real(0), solution_[k]);
            sum += in_sum_[k] * solution_[k];
        }
        for (std::size_t k = 0; k < size(); ++k)
            if (in_sum_[k]) solution_[k] *= total_ / sum;
    }

    Real total_;
    std::size_t capacity_ = 0;
    std::vector<Real> gram_, factor_;  // rows of length capacity
    std::vector<Real> linear_, solution_;
    std::vector<char> in_sum_;
    std::vector<std::size_t> support_;  // in the order of the factor
    Real ridge_ = 0, shift_ = 0;
    bool stale_ = true;
};

using SimplexQP = BasicSimplexQP<double>;

}  // namespace maxmargin::numeric
