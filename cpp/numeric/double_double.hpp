// Numbers of twice the precision, as sums of two doubles: about 32 digits, with the range of one. Sums and products of doubles are
// exact to the last of them (Dekker 1971; Knuth, "The Art of Computer Programming" 2, 4.2.2). Needs arithmetic as written: no
// -ffast-math.
#pragma once

#include <cmath>

namespace maxmargin::numeric {

struct DoubleDouble {
    double high = 0, low = 0;  // |low| is at most half a unit in the last place of high

    DoubleDouble() = default;
    DoubleDouble(double value) : high(value) {}  // NOLINT: as implicit as from float to double

    // Of any two doubles.
    static DoubleDouble sum(double a, double b) {
        const double s = a + b, added = s - a;
        return {s, (a - (s - added)) + (b - added)};
    }
    static DoubleDouble product(double a, double b) {
        const double p = a * b;
        double a1, a2, b1, b2;
        split(a, a1, a2);
        split(b, b1, b2);
        return {p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2};
    }

    DoubleDouble operator-() const { return {-high, -low}; }
    DoubleDouble& operator+=(const DoubleDouble& o) {
        DoubleDouble s = sum(high, o.high);
        const DoubleDouble t = sum(low, o.low);
        s = ordered(s.high, s.low + t.high);
        return *this = ordered(s.high, s.low + t.low);
    }
    DoubleDouble& operator-=(const DoubleDouble& o) { return *this += -o; }
    DoubleDouble& operator*=(const DoubleDouble& o) {
        const DoubleDouble p = product(high, o.high);
        return *this = ordered(p.high, p.low + (high * o.low + low * o.high));
    }
    DoubleDouble& operator/=(const DoubleDouble& o) {
        // Digit by digit, with digits of base 2^53.
        const double first = high / o.high;
        DoubleDouble rest = *this - DoubleDouble(first) * o;
        const double second = rest.high / o.high;
        rest -= DoubleDouble(second) * o;
        DoubleDouble quotient = ordered(first, second);
        return *this = quotient += DoubleDouble(rest.high / o.high);
    }
    friend DoubleDouble operator+(DoubleDouble a, const DoubleDouble& b) { return a += b; }
    friend DoubleDouble operator-(DoubleDouble a, const DoubleDouble& b) { return a -= b; }
    friend DoubleDouble operator*(DoubleDouble a, const DoubleDouble& b) { return a *= b; }
    friend DoubleDouble operator/(DoubleDouble a, const DoubleDouble& b) { return a /= b; }
    friend bool operator<(const DoubleDouble& a, const DoubleDouble& b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }
    friend bool operator>(const DoubleDouble& a, const DoubleDouble& b) { return b < a; }
    friend bool operator<=(const DoubleDouble& a, const DoubleDouble& b) { return !(b < a); }
    friend bool operator>=(const DoubleDouble& a, const DoubleDouble& b) { return !(a < b); }
    friend bool operator==(const DoubleDouble& a, const DoubleDouble& b) { return a.high == b.high && a.low == b.low; }
    friend DoubleDouble fabs(const DoubleDouble& a) { return a.high < 0 ? -a : a; }
    friend DoubleDouble sqrt(const DoubleDouble& a) {
        if (!(a.high > 0)) return {};
        // One step of Newton's method doubles the digits.
        const double root = std::sqrt(a.high);
        const DoubleDouble rest = a - product(root, root);
        return ordered(root, rest.high / (2 * root));
    }
    friend DoubleDouble hypot(const DoubleDouble& a, const DoubleDouble& b) { return sqrt(a * a + b * b); }

  private:
    DoubleDouble(double a, double b) : high(a), low(b) {}
    // Of two doubles whose first is the larger one.
    static DoubleDouble ordered(double a, double b) {
        const double s = a + b;
        return {s, b - (s - a)};
    }
    static void split(double a, double& head, double& tail) {
        const double t = 134217729.0 * a;  // 2^27 + 1
        head = t - (t - a);
        tail = a - head;
    }
};

}  // namespace maxmargin::numeric
