// Scores to buckets, and the few tools that passes over scores share.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "numeric/recycled.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace maxmargin::ranking {

// Buckets between two scores, numbered from the best score down; the first and the last are open-ended. They are equally
// wide, or, for scores with heavy tails, equally wide after x -> x / (1 + |x|) around a centre. Every operation rounds
// monotonically, so the bucket number is monotone in the score, and the error made is a tiny part of a bucket.
class Buckets {
  public:
    Buckets(double top, double bottom, std::int32_t count) : Buckets(top, bottom, count, 0, 0) {}
    Buckets(double top, double bottom, std::int32_t count, double centre, double spread)
        : made_of_{top, bottom, static_cast<double>(count), centre, spread}, count_(count), last_(count - 1), centre_(spread > 0 ? centre : top), per_spread_(spread > 0 ? 1 / spread : 0),
          rounding_(8 * std::numeric_limits<double>::epsilon() * (std::fabs(top) + std::fabs(bottom))) {
        start_ = place(top);
        scale_ = (count - 2) / (place(bottom) - start_);
        width_ = 1 / scale_;
    }
    // Wide enough that, rounding included, no two buckets that are not neighbours overlap.
    bool usable() const {
        const double narrowest = curved() ? width_ / per_spread_ : width_;
        return std::isfinite(scale_) && scale_ > 0 && std::isfinite(narrowest) && 0.9 * narrowest > 2 * rounding_;
    }
    bool curved() const { return per_spread_ > 0; }
    // Top, bottom, count, centre and spread: all that others need to make the very same buckets.
    const std::array<double, 5>& made_of() const { return made_of_; }
    std::int32_t count() const { return count_; }

    template <bool Curved>
    std::int32_t of(double score) const {
        double t = (Curved ? bend(score) : centre_ - score) - start_;
        t = t * scale_ + 1.0;
        t = t > 0 ? t : 0;  // NaN goes to bucket 0; the pass that counts also reports that it met one
        t = t < last_ ? t : last_;
        return static_cast<std::int32_t>(t);
    }
    std::int32_t of(double score) const { return curved() ? of<true>(score) : of<false>(score); }

    // No member of bucket b lies above `highest(b)` or below `lowest(b)`.
    double highest(std::int32_t b) const { return b == 0 ? std::numeric_limits<double>::infinity() : score_at(b - 1 - 0.02) + rounding_; }
    double lowest(std::int32_t b) const { return b == count_ - 1 ? -std::numeric_limits<double>::infinity() : score_at(b + 0.02) - rounding_; }

  private:
    double bend(double score) const {
        const double x = (centre_ - score) * per_spread_;
        return std::copysign(1 - 1 / (1 + std::fabs(x)), x);
    }
    double place(double score) const { return curved() ? bend(score) : centre_ - score; }
    double score_at(double t) const {
        const double y = t * width_ + start_;
        if (!curved()) return centre_ - y;
        if (std::fabs(y) >= 1) return y > 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
        const double x = y / (1 - std::fabs(y)) / per_spread_;
        return centre_ - x;
    }

    std::array<double, 5> made_of_;
    std::int32_t count_;
    double last_, centre_, per_spread_, rounding_, start_, scale_, width_;
};

// Memory that is not cleared: most of it is written exactly once.
template <class T>
class Buffer {
  public:
    T* data() { return static_cast<T*>(memory_.data()); }
    T& operator[](std::int64_t k) { return data()[k]; }
    std::int64_t capacity() const { return capacity_; }
    void discard() { memory_ = {}, capacity_ = 0; }
    // Room for `size` entries, of which the first `keep` survive.
    void grow(std::int64_t size, std::int64_t keep) {
        if (size <= capacity_) return;
        size = std::max(size, 2 * capacity_);
        Recycled larger(static_cast<std::size_t>(size) * sizeof(T));
        if (keep > 0) std::memcpy(larger.data(), memory_.data(), static_cast<std::size_t>(keep) * sizeof(T));
        memory_ = std::move(larger);
        capacity_ = size;
    }

  private:
    Recycled memory_;
    std::int64_t capacity_ = 0;
};

// Scores that are finite, and so small that sums of many of them are.
inline constexpr double kLargestScore = 0x1p900;
inline bool fit(double score) { return std::fabs(score) <= kLargestScore; }

// Bit k says whether s[k] > threshold, for 64 scores.
template <class T>
std::uint64_t above_threshold(const T* s, T threshold) {
    std::uint64_t bits = 0;
#ifdef __SSE2__
    if constexpr (sizeof(T) == sizeof(double)) {
        const __m128d limit = _mm_set1_pd(threshold);
        for (int k = 0; k < 64; k += 2)
            bits |= static_cast<std::uint64_t>(_mm_movemask_pd(_mm_cmpgt_pd(_mm_loadu_pd(s + k), limit))) << k;
    } else {
        const __m128 limit = _mm_set1_ps(threshold);
        for (int k = 0; k < 64; k += 4)
            bits |= static_cast<std::uint64_t>(_mm_movemask_ps(_mm_cmpgt_ps(_mm_loadu_ps(s + k), limit))) << k;
    }
#else
    for (int k = 0; k < 64; ++k) bits |= static_cast<std::uint64_t>(s[k] > threshold) << k;
#endif
    return bits;
}

// The numbers first + k of all marks[k] whose sign bit is set, in their order; how many these are. There is room for four more.
inline std::int32_t put_marked(const float* marks, std::int32_t size, std::int32_t first, std::int32_t* numbers) {
    std::int32_t* next = numbers;
    std::int32_t k = 0;
#ifdef __SSE2__
    // Which of four neighbours are marked: all four places are written, and the next ones begin behind those that are.
    alignas(16) static constexpr std::int32_t kPlaces[16][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {2, 0, 0, 0}, {0, 2, 0, 0},
                                                                {1, 2, 0, 0}, {0, 1, 2, 0}, {3, 0, 0, 0}, {0, 3, 0, 0}, {1, 3, 0, 0}, {0, 1, 3, 0},
                                                                {2, 3, 0, 0}, {0, 2, 3, 0}, {1, 2, 3, 0}, {0, 1, 2, 3}};
    for (; k + 4 <= size; k += 4) {
        const int marked = _mm_movemask_ps(_mm_loadu_ps(marks + k));
        const __m128i places = _mm_load_si128(reinterpret_cast<const __m128i*>(kPlaces[marked]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(next), _mm_add_epi32(places, _mm_set1_epi32(first + k)));
        next += __builtin_popcount(static_cast<unsigned>(marked));
    }
#endif
    for (; k < size; ++k) {
        *next = first + k;
        next += std::signbit(marks[k]);
    }
    return static_cast<std::int32_t>(next - numbers);
}

}  // namespace maxmargin::ranking
