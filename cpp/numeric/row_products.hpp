// Products of a dense matrix with a vector from either side, for numbers of 32 or 64 bits: every product and every sum is made
// in doubles, and nothing is copied. Rows or columns must lie in one piece.
//
// Sums are made in blocks of rows, and blocks are added in their order: results depend neither on the number of threads nor
// on the width of the machine's registers.
#pragma once

#include <cstddef>

namespace maxmargin::numeric {

// Strides are counted in numbers; one of them is 1. The array stays the caller's.
template <class T>
struct DenseMatrix {
    const T* data;
    std::size_t n_rows, n_columns;
    std::ptrdiff_t row_stride, column_stride;
};

// out[row] = row . weights.
template <class T>
void times_vector(const DenseMatrix<T>& X, const double* weights, int n_threads, double* out);

// out[column] = sum over the rows of coefficient times row; rows whose coefficient is zero are not looked at, if rows lie in
// one piece.
template <class T>
void sum_of_rows(const DenseMatrix<T>& X, const double* coefficients, int n_threads, double* out);

// The same, added to what `out` holds. A matrix that comes in pieces of `kBlock` rows (the last may have fewer), each added to the
// sum of those before, has the sum of the whole, to the last bit.
template <class T>
void add_rows(const DenseMatrix<T>& X, const double* coefficients, int n_threads, double* out);

// Rows of a block: scores and coefficients of that many stay in the cache while columns pass by.
constexpr std::size_t kBlock = 2048;

}  // namespace maxmargin::numeric
