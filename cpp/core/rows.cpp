// The two loops in which block solvers spend their time. Labels are taken 26 at a time, in registers from the first feature of
// a row to the last. Compiled twice, for machines with and without AVX2, to the same results: every label is a sum of its own.
#include "core/rows.hpp"

namespace maxmargin::blocks {

namespace {

MAXMARGIN_INLINE void score_row_body(const Rows& x, std::size_t row, const double* weights, std::size_t stride, double* out) {
    if (stride == 1) {
        double sum = 0;
        x.for_each(row, [&](std::size_t j, double value) __attribute__((always_inline)) { sum += value * weights[j]; });
        *out = sum;
        return;
    }
    for_windows<26, 2>(stride, [&](std::size_t k, auto W) __attribute__((always_inline)) {
        const double* from = weights + k;
        Window<W.value> sum;
        sum.clear();
        x.for_each(row, [&](std::size_t j, double value) __attribute__((always_inline)) {
            sum.add_product(value, from + j * stride);
        });
        sum.store(out + k);
    });
}

MAXMARGIN_INLINE void add_row_body(const Rows& x, std::size_t row, const double* coefficient, std::size_t stride, double* weights) {
    std::size_t used = 0, labels[7];
    for (std::size_t k = 0; k < stride && used < 7; ++k)
        if (coefficient[k] != 0) labels[used++] = k;
    // Few labels: one by one. Two is the usual number, the truth and another.
    if (used == 1) {
        const std::size_t a = labels[0];
        const double c = coefficient[a];
        x.for_each(row, [&](std::size_t j, double value) __attribute__((always_inline)) { weights[j * stride + a] += value * c; });
    } else if (used == 2) {
        const std::size_t a = labels[0], b = labels[1];
        const double c = coefficient[a], d = coefficient[b];
        x.for_each(row, [&](std::size_t j, double value) __attribute__((always_inline)) {
            double* at = weights + j * stride;
            at[a] += value * c;
            at[b] += value * d;
        });
    } else if (used < 7 && used * 4 <= stride) {
        x.for_each(row, [&](std::size_t j, double value) __attribute__((always_inline)) {
            double* at = weights + j * stride;
            for (std::size_t u = 0; u < used; ++u) at[labels[u]] += value * coefficient[labels[u]];
        });
    } else {
        for_windows<26, 2>(stride, [&](std::size_t k, auto W) __attribute__((always_inline)) {
            double* to = weights + k;
            Window<W.value> factors;
            factors.load(coefficient + k);
            x.for_each(row, [&](std::size_t j, double value) __attribute__((always_inline)) {
                factors.add_product_to(value, to + j * stride);
            });
        });
    }
}

}  // namespace

void score_row(const Rows& x, std::size_t row, const double* weights, std::size_t stride, double* out) {
    compiled_twice<&score_row_body>(x, row, weights, stride, out);
}
void add_row(const Rows& x, std::size_t row, const double* coefficient, std::size_t stride, double* weights) {
    compiled_twice<&add_row_body>(x, row, coefficient, stride, weights);
}

}  // namespace maxmargin::blocks
