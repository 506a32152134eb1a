#include "ranking/score_blocks.hpp"

#include <cstring>

#include "numeric/clones.hpp"

namespace maxmargin::ranking {

namespace {

// How far ahead numbers are asked for.
constexpr std::int64_t kFetched = 512;

using Bits64 = std::uint64_t __attribute__((vector_size(32)));
using Bits32 = std::uint32_t __attribute__((vector_size(32)));
using Octet = float __attribute__((vector_size(32)));

template <class T>
struct Lanes;
template <>
struct Lanes<double> {
    using Scores = Quad;
    using Bits = Bits64;
    using Word = std::uint64_t;
    static constexpr Word kSign = Word{1} << 63;
};
template <>
struct Lanes<float> {
    using Scores = Octet;
    using Bits = Bits32;
    using Word = std::uint32_t;
    static constexpr Word kSign = Word{1} << 31;
};

// The number without its sign, as an integer, is larger than this if it is too large, infinite or none.
template <class T>
typename Lanes<T>::Word largest_bits() {
    const T largest = sizeof(T) == sizeof(double) ? static_cast<T>(kLargestScore) : std::numeric_limits<T>::max();
    typename Lanes<T>::Word bits;
    std::memcpy(&bits, &largest, sizeof bits);
    return bits;
}

// Its first bit says that a score is not fit: integers, unlike sums, need not wait for each other.
template <class T>
class Unfit {
  public:
    using Word = typename Lanes<T>::Word;
    using Bits = typename Lanes<T>::Bits;
    static constexpr int kWidth = sizeof(Bits) / sizeof(T);

    MAXMARGIN_INLINE void look(const Bits& bits) { found_ |= (bits & ~Lanes<T>::kSign) + offset_; }
    MAXMARGIN_INLINE void look(const T* scores, std::int64_t size) {
        std::int64_t k = 0;
        for (; k + kWidth <= size; k += kWidth) {
            Bits bits;
            __builtin_memcpy(&bits, scores + k, sizeof bits);
            look(bits);
        }
        for (; k < size; ++k) {
            Word bits;
            __builtin_memcpy(&bits, scores + k, sizeof bits);
            rest_ |= (bits & ~Lanes<T>::kSign) + offset_;
        }
    }
    MAXMARGIN_INLINE bool any() const {
        Word all = rest_;
        for (int k = 0; k < kWidth; ++k) all |= found_[k];
        return all & Lanes<T>::kSign;
    }

  private:
    Word offset_ = Lanes<T>::kSign - 1 - largest_bits<T>(), rest_ = 0;
    Bits found_{};
};

template <class T>
MAXMARGIN_INLINE bool number_in(const Buckets& given, const T* scores, std::int32_t size, std::int32_t* bucket) {
    const Buckets buckets = given;  // nobody else's: it does not change while numbers are written
    if (buckets.curved())
        for (std::int32_t k = 0; k < size; ++k) bucket[k] = buckets.of<true>(static_cast<double>(scores[k]));
    else
        for (std::int32_t k = 0; k < size; ++k) bucket[k] = buckets.of<false>(static_cast<double>(scores[k]));
    Unfit<T> unfit;
    unfit.look(scores, size);
    return !unfit.any();
}

MAXMARGIN_INLINE void put(const Quad& v, double* to) { __builtin_memcpy(to, &v, sizeof v); }
MAXMARGIN_INLINE void put(const Quad& v, float* to) {
    const auto narrow = __builtin_convertvector(v, float __attribute__((vector_size(16))));
    __builtin_memcpy(to, &narrow, sizeof narrow);
}

template <class T>
MAXMARGIN_INLINE double slopes_in(const T* scores, const float* below, std::int32_t size, double factor, double origin, T* out) {
    const Quad factors{factor, factor, factor, factor}, origins{origin, origin, origin, origin};
    Quad even{}, odd{};
    std::int32_t k = 0;
    for (; k + 8 <= size; k += 8) {
        const Quad first = factors * quad_at(below + k), second = factors * quad_at(below + k + 4);
        put(first, out + k), put(second, out + k + 4);
        even += first * (quad_at(scores + k) - origins);
        odd += second * (quad_at(scores + k + 4) - origins);
    }
    double rest = 0;
    for (; k < size; ++k) {
        const double slope = factor * static_cast<double>(below[k]);
        out[k] = static_cast<T>(slope);
        rest += slope * (static_cast<double>(scores[k]) - origin);
    }
    even += odd;
    return ((even[0] + even[1]) + (even[2] + even[3])) + rest;
}

template <class T>
MAXMARGIN_INLINE bool fit_in(const T* scores, std::int64_t size) {
    Unfit<T> unfit;
    unfit.look(scores, size);
    return !unfit.any();
}

template <class T>
MAXMARGIN_INLINE std::uint64_t words_in(const T* scores, std::int32_t words, T threshold, bool& is_fit) {
    using Scores = typename Lanes<T>::Scores;
    using Bits = typename Lanes<T>::Bits;
    constexpr int kWidth = sizeof(Scores) / sizeof(T);
    const Scores limit = Scores{} + threshold;
    Unfit<T> unfit;
    std::uint64_t found = 0;
    for (std::int32_t w = 0; w < words; ++w, scores += 64) {
        Bits above{};
        for (int k = 0; k < 64; k += kWidth) {
            Scores v;
            __builtin_memcpy(&v, scores + k, sizeof v);
            above |= reinterpret_cast<Bits>(v > limit);
            unfit.look(reinterpret_cast<Bits>(v));
        }
        typename Lanes<T>::Word any = 0;
        for (int k = 0; k < kWidth; ++k) any |= above[k];
        found |= static_cast<std::uint64_t>(any != 0) << w;
    }
    is_fit &= !unfit.any();
    return found;
}

}  // namespace

template <class T>
bool number(const Buckets& buckets, const T* scores, std::int32_t size, std::int32_t* bucket) {
    return compiled_twice<&number_in<T>>(buckets, scores, size, bucket);
}
template <class T>
double write_slopes(const T* scores, const float* below, std::int32_t size, double factor, double origin, T* out) {
    return compiled_twice<&slopes_in<T>>(scores, below, size, factor, origin, out);
}
template <class T>
bool all_fit(const T* scores, std::int64_t size) {
    return compiled_twice<&fit_in<T>>(scores, size);
}
template <class T>
std::uint64_t words_above(const T* scores, std::int32_t words, T threshold, bool& is_fit) {
    return compiled_twice<&words_in<T>>(scores, words, threshold, is_fit);
}

template bool number(const Buckets&, const double*, std::int32_t, std::int32_t*);
template bool number(const Buckets&, const float*, std::int32_t, std::int32_t*);
template double write_slopes(const double*, const float*, std::int32_t, double, double, double*);
template double write_slopes(const float*, const float*, std::int32_t, double, double, float*);
template bool all_fit(const double*, std::int64_t);
template bool all_fit(const float*, std::int64_t);
template std::uint64_t words_above(const double*, std::int32_t, double, bool&);
template std::uint64_t words_above(const float*, std::int32_t, float, bool&);

namespace {

MAXMARGIN_INLINE void set_product_body(double c, const double* from, std::int64_t size, double* __restrict to) {
    for (std::int64_t k = 0; k < size; ++k) to[k] = c * from[k];
}
MAXMARGIN_INLINE void set_products_body(double c, const double* from, double d, const double* other, std::int64_t size, double* __restrict to) {
    std::int64_t k = 0;
    // Processors do not fetch beyond a page by themselves.
    for (; k + 8 <= size; k += 8) {
        __builtin_prefetch(from + k + kFetched), __builtin_prefetch(other + k + kFetched);
        for (std::int64_t j = k; j < k + 8; ++j) to[j] = c * from[j] + d * other[j];
    }
    for (; k < size; ++k) to[k] = c * from[k] + d * other[k];
}
MAXMARGIN_INLINE void add_product_body(double c, const double* from, std::int64_t size, double* __restrict to) {
    for (std::int64_t k = 0; k < size; ++k) to[k] += c * from[k];
}
MAXMARGIN_INLINE double dot_of_block_body(const double* a, const double* b, std::int64_t size) {
    Quad lanes{0, 0, 0, 0};
    std::int64_t k = 0;
    for (; k + 4 <= size; k += 4) lanes += quad_at(a + k) * quad_at(b + k);
    for (; k < size; ++k) lanes[0] += a[k] * b[k];
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

}  // namespace

void set_product(double c, const double* from, std::int64_t size, double* to) {
    compiled_twice<&set_product_body>(c, from, size, to);
}
void set_products(double c, const double* from, double d, const double* other, std::int64_t size, double* to) {
    compiled_twice<&set_products_body>(c, from, d, other, size, to);
}
void add_product(double c, const double* from, std::int64_t size, double* to) {
    compiled_twice<&add_product_body>(c, from, size, to);
}
double dot_of_block(const double* a, const double* b, std::int64_t size) { return compiled_twice<&dot_of_block_body>(a, b, size); }

}  // namespace maxmargin::ranking
