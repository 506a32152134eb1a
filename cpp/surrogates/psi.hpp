// Surrogates of two numbers: psi(h, g), where h is by how much an output outscores the truth and g is its loss.
//
// All of them rise with h and g and have convex sets {psi >= t}, t >= 0 (spec 6.3), and are convex in h, so that a tangent in h
// is a cut. The order of arguments is always (h, g), and h comes without the +1 of slack rescaling (spec E1, E2).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace maxmargin::surrogates {

enum class Kind {
    generalized,  // h g^beta + g^alpha: margin is (1, 0), slack (1, 1)
    logistic,     // g log(1 + e^h) / log(base); base 2 bounds the loss, base e does not (spec E31)
    probability,  // 2 g P(noise of variance tau g is below h), continued by its tangent above h = 0
    raw_probability,  // the same without the tangent: not convex in h, so what the tangents say are gradients and no cuts
    micro_f1      // (wrong + h) / (size + size of the truth)
};

// a h + b, the tangent of psi in h.
struct Tangent {
    double a, b;
};

class Bicriteria {
  public:
    Kind kind = Kind::generalized;
    // generalized: alpha and beta, with beta >= 0 and 0 <= alpha - beta <= 1 (spec E3 has the printed roles exchanged); logistic:
    // 1 / log(base); probability: tau.
    double alpha = 1, beta = 0;

    // Whether psi is a(g) h + b(g), so that an output has one cut for all weights.
    bool affine() const { return kind == Kind::generalized || kind == Kind::micro_f1; }

    double value(double h, double g) const {
        if (g <= 0) return 0;
        switch (kind) {
            case Kind::generalized: return h * power(g, beta) + power(g, alpha);
            case Kind::logistic: return g * alpha * log_one_plus_exp(h);
            default:
                if (h > 0 && kind != Kind::raw_probability) return g + h * slope_at_zero(g);
                return g * std::erfc(-h / std::sqrt(2 * alpha * g));
        }
    }

    // psi_h
    double derivative(double h, double g) const {
        if (g <= 0) return 0;
        switch (kind) {
            case Kind::generalized: return power(g, beta);
            case Kind::logistic: return g * alpha / (1 + std::exp(-h));
            default: return h > 0 && kind != Kind::raw_probability ? slope_at_zero(g) : slope_at_zero(g) * std::exp(-0.5 * h * h / (alpha * g));
        }
    }

    Tangent tangent(double h, double g) const {
        if (kind == Kind::generalized) return g > 0 ? Tangent{power(g, beta), power(g, alpha)} : Tangent{0, 0};
        const double a = derivative(h, g);
        return {a, value(h, g) - a * h};
    }

    // psi_g / psi_h: the factor of the loss at which a decoder's line touches the contour of psi in (h, g). Infinite at g = 0,
    // where only the loss can make psi grow.
    double lambda(double h, double g) const {
        if (g <= 0) return std::numeric_limits<double>::infinity();
        switch (kind) {
            case Kind::generalized: return std::max(0.0, beta * h / g + alpha * power(g, alpha - 1 - beta));
            case Kind::logistic:
                // log(1 + e^h) (1 + e^-h) tends to 1 from above as h falls; e^-h alone would overflow.
                return (h < -30 ? 1 : log_one_plus_exp(h) * (1 + std::exp(-h))) / g;
            default: {
                const double s = slope_at_zero(g);
                // Of the tangent g + h s: (1 + h s / (2 g)) / s.
                if (h > 0 && kind != Kind::raw_probability) return 1 / s + h / (2 * g);
                const double u = h / std::sqrt(alpha * g);
                return (2 * mills(u) - u) * std::sqrt(alpha / g) / 2;
            }
        }
    }

    // The largest psi on the line h + lambda g = k between two losses.
    double edge_maximum(double k, double lambda, double low, double high) const {
        if (low > high) std::swap(low, high);
        const auto at = [&](double g) { return value(k - lambda * g, g); };
        if (kind == Kind::generalized && alpha == 1 && beta == 1 && lambda > 0)
            return at(std::clamp((1 + k) / (2 * lambda), low, high));
        // It rises, then falls: the golden section.
        constexpr double kGolden = 0.6180339887498949;
        double left = high - kGolden * (high - low), right = low + kGolden * (high - low), at_left = at(left), at_right = at(right);
        double best = std::max({at(low), at(high), at_left, at_right});
        for (int step = 0; step < 48; ++step) {
            if (at_left < at_right) {
                low = left, left = right, at_left = at_right, right = low + kGolden * (high - low);
                best = std::max(best, at_right = at(right));
            } else {
                high = right, right = left, at_right = at_left, left = high - kGolden * (high - low);
                best = std::max(best, at_left = at(left));
            }
        }
        return best;
    }

  private:
    static double power(double g, double exponent) {
        if (exponent == 0) return 1;
        if (exponent == 1) return g;
        if (exponent == -1) return 1 / g;
        if (exponent == 0.5) return std::sqrt(g);
        return std::pow(g, exponent);
    }
    static double log_one_plus_exp(double h) { return h > 0 ? h + std::log1p(std::exp(-h)) : std::log1p(std::exp(h)); }
    // sqrt(g) if tau is 2/pi.
    double slope_at_zero(double g) const { return std::sqrt(g * 0.6366197723675814 / alpha); }

    // N(u) / n(u) of the normal distribution; infinite where u is so large that nothing but the loss counts.
    static double mills(double u) {
        const double x = -u;
        if (x < 4) return 0.5 * std::erfc(x * 0.7071067811865476) * 2.5066282746310002 * std::exp(0.5 * x * x);
        double fraction = x;
        for (int k = 40; k > 0; --k) fraction = x + k / fraction;
        return 1 / fraction;
    }
};

}  // namespace maxmargin::surrogates
