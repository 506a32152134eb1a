// Sparse vectors times several neighbouring shifts of a dense one, and back: the rows of blocks/rows.hpp without a matrix.
#pragma once

#include <cstddef>

#include "blocks/outputs.hpp"

namespace maxmargin::blocks {

// out[k] = sum over the pairs of value * dense[index + shift + k], for k below `width`.
void dot_window(const SparseView& x, const double* dense, std::size_t width, double* out);

// dense[index + shift + k] += value * factor[k]
void add_window(const SparseView& x, const double* factor, std::size_t width, double* dense);

}  // namespace maxmargin::blocks
