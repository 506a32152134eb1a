// Rows of a feature matrix, dense or CSR, and the two things block solvers do with them: score all labels of a row, and add
// multiples of a row to the weights of all labels.
//
// Weights of labels lie next to each other, w[feature][label], so both run over contiguous memory and every label is summed
// in the order of the features: results do not depend on the width of the machine's registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/clones.hpp"

namespace maxmargin::blocks {

// Arrays stay the caller's.
struct Rows {
    const double* values;         // null: every entry of a sparse row is 1
    const std::int32_t* columns;  // null: every row has all columns
    const std::int64_t* begin;    // n_rows + 1 positions in values; null for dense rows
    std::size_t n_rows, n_columns;

    std::size_t first(std::size_t row) const { return begin ? static_cast<std::size_t>(begin[row]) : row * n_columns; }
    std::size_t size(std::size_t row) const { return begin ? static_cast<std::size_t>(begin[row + 1]) - first(row) : n_columns; }

    // f(column, value) for all entries of a row.
    template <class F>
    MAXMARGIN_INLINE void for_each(std::size_t row, const F& f) const {
        const std::size_t count = size(row);
        if (!values) {
            const std::int32_t* at = columns + first(row);
            for (std::size_t e = 0; e < count; ++e) f(static_cast<std::size_t>(at[e]), 1.0);
            return;
        }
        const double* own = values + first(row);
        if (columns) {
            const std::int32_t* at = columns + first(row);
            for (std::size_t e = 0; e < count; ++e) f(static_cast<std::size_t>(at[e]), own[e]);
        } else {
            for (std::size_t j = 0; j < count; ++j) f(j, own[j]);
        }
    }

    // Columns rise within a row.
    double dot(std::size_t a, std::size_t b) const {
        const std::size_t m = size(a), n = size(b);
        if (!values) return static_cast<double>(in_common(columns + first(a), m, columns + first(b), n));
        const double *x = values + first(a), *y = values + first(b);
        double sum = 0;
        if (!columns) {
            for (std::size_t j = 0; j < m; ++j) sum += x[j] * y[j];
            return sum;
        }
        const std::int32_t *p = columns + first(a), *q = columns + first(b);
        for (std::size_t i = 0, j = 0; i < m && j < n;) {
            if (p[i] == q[j]) sum += x[i++] * y[j++];
            else if (p[i] < q[j]) ++i;
            else ++j;
        }
        return sum;
    }

  private:
    // How many of m rising columns are among n others; without branches, which nobody could predict.
    static std::size_t in_common(const std::int32_t* p, std::size_t m, const std::int32_t* q, std::size_t n) {
        std::size_t count = 0;
        for (std::size_t i = 0, j = 0; i < m && j < n;) {
            const std::int32_t a = p[i], b = q[j];
            count += a == b;
            i += a <= b;
            j += b <= a;
        }
        return count;
    }
};

// Labels per feature, with room for whole pairs.
inline std::size_t stride_for(std::size_t n_labels) { return n_labels == 1 ? 1 : (n_labels + 1) / 2 * 2; }

// out[label] = weights[.][label] . x; writes `stride` numbers.
void score_row(const Rows& x, std::size_t row, const double* weights, std::size_t stride, double* out);

// weights[.][label] += coefficient[label] * x; reads `stride` coefficients.
void add_row(const Rows& x, std::size_t row, const double* coefficient, std::size_t stride, double* weights);

}  // namespace maxmargin::blocks
