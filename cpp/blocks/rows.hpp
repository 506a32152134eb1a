// Rows of a feature matrix, dense or CSR, and the two things block solvers do with them: score all labels of a row, and add
// multiples of a row to the weights of all labels.
//
// Weights of labels lie next to each other, w[feature][label], so both run over contiguous memory and every label is summed
// in the order of the features: results do not depend on the width of the machine's registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxmargin::blocks {

// Arrays stay the caller's.
struct Rows {
    const double* values;
    const std::int32_t* columns;  // null: every row has all columns
    const std::int64_t* begin;    // n_rows + 1 positions in values; null for dense rows
    std::size_t n_rows, n_columns;

    std::size_t first(std::size_t row) const { return begin ? static_cast<std::size_t>(begin[row]) : row * n_columns; }
    std::size_t size(std::size_t row) const { return begin ? static_cast<std::size_t>(begin[row + 1]) - first(row) : n_columns; }

    template <class F>
    void for_each(std::size_t row, const F& f) const {
        const std::size_t start = first(row), count = size(row);
        if (columns) {
            for (std::size_t e = start; e < start + count; ++e) f(static_cast<std::size_t>(columns[e]), values[e]);
        } else {
            for (std::size_t j = 0; j < count; ++j) f(j, values[start + j]);
        }
    }

    // Columns rise within a row.
    double dot(std::size_t a, std::size_t b) const {
        const double *x = values + first(a), *y = values + first(b);
        const std::size_t m = size(a), n = size(b);
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
};

// Two doubles that the compiler keeps in one register.
using Pair = double __attribute__((vector_size(16)));

// Labels per feature, with room for whole pairs.
inline std::size_t stride_for(std::size_t n_labels) { return n_labels == 1 ? 1 : (n_labels + 1) / 2 * 2; }

template <int W>
inline void score_pairs(const Rows& x, std::size_t row, const double* weights, std::size_t stride, double* out) {
    Pair sum[W];
    for (int w = 0; w < W; ++w) sum[w] = Pair{0, 0};
    x.for_each(row, [&](std::size_t j, double value) {
        const double* at = weights + j * stride;
        const Pair v = {value, value};
        for (int w = 0; w < W; ++w) {
            Pair entry;
            __builtin_memcpy(&entry, at + 2 * w, sizeof entry);
            sum[w] += v * entry;
        }
    });
    __builtin_memcpy(out, sum, sizeof sum);
}

// out[label] = weights[.][label] . x; writes `stride` numbers.
inline void score_row(const Rows& x, std::size_t row, const double* weights, std::size_t stride, double* out) {
    if (stride == 1) {
        double sum = 0;
        x.for_each(row, [&](std::size_t j, double value) { sum += value * weights[j]; });
        *out = sum;
        return;
    }
    std::size_t k = 0;
    for (; k + 24 <= stride; k += 24) score_pairs<12>(x, row, weights + k, stride, out + k);
    if (k + 16 <= stride) score_pairs<8>(x, row, weights + k, stride, out + k), k += 16;
    if (k + 10 <= stride) score_pairs<5>(x, row, weights + k, stride, out + k), k += 10;
    if (k + 8 <= stride) score_pairs<4>(x, row, weights + k, stride, out + k), k += 8;
    if (k + 4 <= stride) score_pairs<2>(x, row, weights + k, stride, out + k), k += 4;
    if (k + 2 <= stride) score_pairs<1>(x, row, weights + k, stride, out + k);
}

// weights[.][label] += coefficient[label] * x.
class OuterAdder {
  public:
    void add(const Rows& x, std::size_t row, const double* coefficient, std::size_t n_labels, std::size_t stride, double* weights) {
        labels_.clear();
        for (std::size_t k = 0; k < n_labels; ++k)
            if (coefficient[k] != 0) labels_.push_back({static_cast<std::uint32_t>(k), coefficient[k]});
        if (labels_.size() * 4 <= n_labels || n_labels < 4) {
            x.for_each(row, [&](std::size_t j, double value) {
                double* at = weights + j * stride;
                for (const Entry& e : labels_) at[e.label] += value * e.coefficient;
            });
        } else {
            x.for_each(row, [&](std::size_t j, double value) {
                double* at = weights + j * stride;
                for (std::size_t k = 0; k < n_labels; ++k) at[k] += value * coefficient[k];
            });
        }
    }

  private:
    struct Entry {
        std::uint32_t label;
        double coefficient;
    };
    std::vector<Entry> labels_;
};

}  // namespace maxmargin::blocks
