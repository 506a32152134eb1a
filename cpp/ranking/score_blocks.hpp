// What is done to every score of a block of neighbours by itself: processors with wide registers do several at once. Results are
// the same bits on all of them.
#pragma once

#include <cstdint>

#include "ranking/bucket_map.hpp"

namespace maxmargin::ranking {

// The bucket of each score; whether all of them are `fit`.
template <class T>
bool number(const Buckets& buckets, const T* scores, std::int32_t size, std::int32_t* bucket);

// out[k] = factor * below[k]; the sum of that times (score - origin).
template <class T>
double write_slopes(const T* scores, const float* below, std::int32_t size, double factor, double origin, T* out);

// Are all scores `fit`?
template <class T>
bool all_fit(const T* scores, std::int64_t size);

// Bit w says whether one of the scores[64 w] .. scores[64 w + 63] is above a threshold, for up to 64 words. Clears `is_fit` if one of
// them is not `fit`.
template <class T>
std::uint64_t words_above(const T* scores, std::int32_t words, T threshold, bool& is_fit);

// to[k] = c * from[k]; of two, c * from[k] + d * other[k]; and c * from[k] added to it. What comes next is fetched meanwhile.
void set_product(double c, const double* from, std::int64_t size, double* to);
void set_products(double c, const double* from, double d, const double* other, std::int64_t size, double* to);
void add_product(double c, const double* from, std::int64_t size, double* to);

// The sum of a[k] * b[k], for few of them.
double dot_of_block(const double* a, const double* b, std::int64_t size);

}  // namespace maxmargin::ranking
