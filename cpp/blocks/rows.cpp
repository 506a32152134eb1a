// The two loops in which block solvers spend their time. Labels are taken 26 at a time, in registers from the first feature of
// a row to the last. Compiled twice, for machines with and without AVX2, to the same results: every label is a sum of its own.
#include "blocks/rows.hpp"

#include "numeric/clones.hpp"

namespace maxmargin::blocks {
namespace {

// Passed by reference: functions that are always inlined have no calling convention to disagree about.
template <class Vector>
MAXMARGIN_INLINE void load(const double* from, Vector& v) {
    __builtin_memcpy(&v, from, sizeof v);
}
template <class Vector>
MAXMARGIN_INLINE void store(double* to, const Vector& v) {
    __builtin_memcpy(to, &v, sizeof v);
}
// to += value * factor
template <class Vector>
MAXMARGIN_INLINE void add_to(double* to, const Vector& value, const Vector& factor) {
    Vector v;
    load(to, v);
    v += value * factor;
    store(to, v);
}
// sum += value * from
template <class Vector>
MAXMARGIN_INLINE void add_from(const double* from, const Vector& value, Vector& sum) {
    Vector v;
    load(from, v);
    sum += value * v;
}

// f(feature, value) for all entries of a row.
template <class F>
MAXMARGIN_INLINE void for_entries(const Rows& x, std::size_t row, const F& f) {
    const std::size_t count = x.size(row);
    const double* values = x.values + x.first(row);
    if (x.columns) {
        const std::int32_t* columns = x.columns + x.first(row);
        for (std::size_t e = 0; e < count; ++e) f(static_cast<std::size_t>(columns[e]), values[e]);
    } else {
        for (std::size_t j = 0; j < count; ++j) f(j, values[j]);
    }
}

// Q quads and P (0 or 1) pairs of labels.
template <int Q, int P>
MAXMARGIN_INLINE void score_some(const Rows& x, std::size_t row, const double* weights, std::size_t stride, double* out) {
    Quad sum[Q + 1];
    Pair rest = {0, 0};
    for (int q = 0; q < Q; ++q) sum[q] = Quad{0, 0, 0, 0};
    for_entries(x, row, [&](std::size_t j, double value) __attribute__((always_inline)) {
        const double* at = weights + j * stride;
        const Quad v = {value, value, value, value};
        for (int q = 0; q < Q; ++q) add_from(at + 4 * q, v, sum[q]);
        if (P) add_from(at + 4 * Q, Pair{value, value}, rest);
    });
    for (int q = 0; q < Q; ++q) store(out + 4 * q, sum[q]);
    if (P) store(out + 4 * Q, rest);
}

template <int Q, int P>
MAXMARGIN_INLINE void add_some(const Rows& x, std::size_t row, const double* coefficient, std::size_t stride, double* weights) {
    Quad c[Q + 1];
    Pair rest = {0, 0};
    for (int q = 0; q < Q; ++q) load(coefficient + 4 * q, c[q]);
    if (P) load(coefficient + 4 * Q, rest);
    for_entries(x, row, [&](std::size_t j, double value) __attribute__((always_inline)) {
        double* at = weights + j * stride;
        const Quad v = {value, value, value, value};
        for (int q = 0; q < Q; ++q) add_to(at + 4 * q, v, c[q]);
        if (P) add_to(at + 4 * Q, Pair{value, value}, rest);
    });
}

// Calls f<Q, P>(first label) until all labels, an even number, are covered.
#define MAXMARGIN_FOR_LABELS(f, stride)                                   \
    std::size_t k = 0;                                                    \
    for (; stride - k > 26; k += 24) f(6, 0);                             \
    switch ((stride - k) / 2) {                                           \
        case 1: f(0, 1); break;                                           \
        case 2: f(1, 0); break;                                           \
        case 3: f(1, 1); break;                                           \
        case 4: f(2, 0); break;                                           \
        case 5: f(2, 1); break;                                           \
        case 6: f(3, 0); break;                                           \
        case 7: f(3, 1); break;                                           \
        case 8: f(4, 0); break;                                           \
        case 9: f(4, 1); break;                                           \
        case 10: f(5, 0); break;                                          \
        case 11: f(5, 1); break;                                          \
        case 12: f(6, 0); break;                                          \
        case 13: f(6, 1); break;                                          \
    }

}  // namespace

MAXMARGIN_CLONES
void score_row(const Rows& x, std::size_t row, const double* weights, std::size_t stride, double* out) {
    if (stride == 1) {
        double sum = 0;
        for_entries(x, row, [&](std::size_t j, double value) __attribute__((always_inline)) { sum += value * weights[j]; });
        *out = sum;
        return;
    }
#define MAXMARGIN_SCORE(Q, P) score_some<Q, P>(x, row, weights + k, stride, out + k)
    MAXMARGIN_FOR_LABELS(MAXMARGIN_SCORE, stride)
#undef MAXMARGIN_SCORE
}

MAXMARGIN_CLONES
void add_row(const Rows& x, std::size_t row, const double* coefficient, std::size_t stride, double* weights) {
    std::size_t used = 0, labels[7];
    for (std::size_t k = 0; k < stride && used < 7; ++k)
        if (coefficient[k] != 0) labels[used++] = k;
    // Few labels: one by one. Two is the usual number, the truth and another.
    if (used == 1) {
        const std::size_t a = labels[0];
        const double c = coefficient[a];
        for_entries(x, row, [&](std::size_t j, double value) __attribute__((always_inline)) { weights[j * stride + a] += value * c; });
    } else if (used == 2) {
        const std::size_t a = labels[0], b = labels[1];
        const double c = coefficient[a], d = coefficient[b];
        for_entries(x, row, [&](std::size_t j, double value) __attribute__((always_inline)) {
            double* at = weights + j * stride;
            at[a] += value * c;
            at[b] += value * d;
        });
    } else if (used < 7 && used * 4 <= stride) {
        for_entries(x, row, [&](std::size_t j, double value) __attribute__((always_inline)) {
            double* at = weights + j * stride;
            for (std::size_t u = 0; u < used; ++u) at[labels[u]] += value * coefficient[labels[u]];
        });
    } else {
#define MAXMARGIN_ADD(Q, P) add_some<Q, P>(x, row, coefficient + k, stride, weights + k)
        MAXMARGIN_FOR_LABELS(MAXMARGIN_ADD, stride)
#undef MAXMARGIN_ADD
    }
}

}  // namespace maxmargin::blocks
