// Decimal text to the nearest floating-point number.
//
// Most numbers in data files are short: a whole number below 2^53 times or over a power of ten that a double holds exactly.
// One multiplication or division of exact numbers is correctly rounded (Clinger 1990); all others go to std::from_chars.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>
#include <type_traits>

namespace maxmargin::data {

enum class Parsed { number, not_a_number, too_large };

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

namespace detail {

constexpr double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// True if rounding this double to T gives what rounding the decimal number itself would have given.
template <class T>
bool survives(double value) {
    if constexpr (std::is_same_v<T, double>) {
        return true;
    } else {
        // The double may have been rounded onto the middle between two floats; which side it came from is then lost.
        // Below the normal range the middles lie elsewhere.
        std::uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        const std::uint64_t half = std::uint64_t{1} << 28;
        if ((bits & (2 * half - 1)) == half) return false;
        return value == 0 || (value >= std::numeric_limits<float>::min() && value <= std::numeric_limits<float>::max());
    }
}

// Power of ten of the first digit that is not zero, for text that is known to be a number.
inline std::int64_t leading_power(const char* text, const char* end, std::int64_t exponent) {
    std::int64_t before_point = 0, zeros = 0;
    bool point = false, significant = false;
    for (; text != end && *text != 'e' && *text != 'E'; ++text) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (!point) ++before_point;
        if (*text != '0') significant = true;
        if (!significant) ++zeros;
    }
    return before_point - 1 - zeros + exponent;
}

template <class T>
Parsed parse_long(const char* text, const char* end, std::int64_t exponent, T& value) {
    value = 0;
    const auto result = std::from_chars(text, end, value);
    if (result.ec == std::errc::invalid_argument || result.ptr != end) return Parsed::not_a_number;
    // Libraries differ in what they report for numbers out of range; the size of the number decides.
    if (result.ec == std::errc::result_out_of_range || std::isinf(value)) {
        if (leading_power(text, end, exponent) > 0) return Parsed::too_large;
        value = 0;
    }
    return Parsed::number;
}

}  // namespace detail

// Reads the number at p and moves p behind it. The text must be followed by a byte that no number contains.
// Infinities and NaN are no numbers here.
template <class T>
Parsed parse_decimal(const char*& p, T& value) {
    const char* q = p;
    const bool negative = *q == '-';
    if (negative || *q == '+') ++q;
    const char* const text = q;
    std::uint64_t mantissa = 0;  // wraps around for long numbers, which do not use it
    while (is_digit(*q)) mantissa = 10 * mantissa + static_cast<std::uint64_t>(*q++ - '0');
    std::int64_t digits = q - text, exponent = 0;
    if (*q == '.') {
        const char* const fraction = ++q;
        while (is_digit(*q)) mantissa = 10 * mantissa + static_cast<std::uint64_t>(*q++ - '0');
        exponent = fraction - q;
        digits -= exponent;
    }
    if (digits == 0) return Parsed::not_a_number;
    std::int64_t power = 0;
    if (*q == 'e' || *q == 'E') {
        ++q;
        const bool small = *q == '-';
        if (small || *q == '+') ++q;
        if (!is_digit(*q)) return Parsed::not_a_number;
        for (; is_digit(*q); ++q)
            if (power < 1'000'000'000) power = 10 * power + (*q - '0');
        if (small) power = -power;
    }
    exponent += power;
    constexpr std::uint64_t exact = std::uint64_t{1} << 53;
    if (digits <= 19 && mantissa <= exact && (mantissa == 0 || (exponent >= -22 && exponent <= 22))) {
        const auto whole = static_cast<double>(mantissa);
        const double number = mantissa == 0 ? 0.0
                              : exponent < 0 ? whole / detail::powers_of_ten[-exponent]
                                             : whole * detail::powers_of_ten[exponent];
        if (detail::survives<T>(number)) {
            value = static_cast<T>(negative ? -number : number);
            p = q;
            return Parsed::number;
        }
    }
    const Parsed outcome = detail::parse_long(text, q, power, value);
    if (outcome != Parsed::number) return outcome;
    if (negative) value = -value;
    p = q;
    return outcome;
}

}  // namespace maxmargin::data
