// Compiled twice, for machines with and without AVX2, to the same results: every shift is a sum of its own.
#include "blocks/windows.hpp"

#include "numeric/clones.hpp"

namespace maxmargin::blocks {
namespace {

// Passed by reference: functions that are always inlined have no calling convention to disagree about.
template <class Vector>
MAXMARGIN_INLINE void add_product(const Vector& value, const double* from, Vector& sum) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof v);
    sum += value * v;
}
template <class Vector>
MAXMARGIN_INLINE void add_to(const Vector& value, const Vector& factor, double* to) {
    Vector v;
    __builtin_memcpy(&v, to, sizeof v);
    v += value * factor;
    __builtin_memcpy(to, &v, sizeof v);
}

// Numbers of a window: Q quads, P pairs and S single ones. No wider than needed: a window that reaches into the next one
// would wait for what was just written there.
template <int Q, int P, int S>
struct Window {
    Quad quads[Q + 1];
    Pair pair;
    double single;

    MAXMARGIN_INLINE void set(const double* from) {
        for (int q = 0; q < Q; ++q) __builtin_memcpy(&quads[q], from + 4 * q, sizeof(Quad));
        if (P) __builtin_memcpy(&pair, from + 4 * Q, sizeof(Pair));
        if (S) single = from[4 * Q + 2 * P];
    }
    MAXMARGIN_INLINE void clear() {
        for (int q = 0; q < Q; ++q) quads[q] = Quad{0, 0, 0, 0};
        pair = Pair{0, 0};
        single = 0;
    }
    MAXMARGIN_INLINE void add(double value, const double* from) {
        for (int q = 0; q < Q; ++q) add_product(Quad{value, value, value, value}, from + 4 * q, quads[q]);
        if (P) add_product(Pair{value, value}, from + 4 * Q, pair);
        if (S) single += value * from[4 * Q + 2 * P];
    }
    MAXMARGIN_INLINE void add_to_dense(double value, double* to) const {
        for (int q = 0; q < Q; ++q) add_to(Quad{value, value, value, value}, quads[q], to + 4 * q);
        if (P) add_to(Pair{value, value}, pair, to + 4 * Q);
        if (S) to[4 * Q + 2 * P] += value * single;
    }
    MAXMARGIN_INLINE void store_sum(const Window& other, double* out) const {
        for (int q = 0; q < Q; ++q) {
            const Quad sum = quads[q] + other.quads[q];
            __builtin_memcpy(out + 4 * q, &sum, sizeof sum);
        }
        const Pair sum = pair + other.pair;
        if (P) __builtin_memcpy(out + 4 * Q, &sum, sizeof sum);
        if (S) out[4 * Q + 2 * P] = single + other.single;
    }
};

// Two sums for every shift: one would wait for itself.
template <int Q, int P, int S>
MAXMARGIN_INLINE void dot_some(const SparseView& x, const double* dense, double* out) {
    Window<Q, P, S> even, odd;
    even.clear();
    odd.clear();
    const std::int32_t* at = x.at;
    const double* values = x.values;
    const std::size_t count = x.count;
    dense += x.shift;
    std::size_t e = 0;
    for (; e + 2 <= count; e += 2) {
        even.add(values[e], dense + at[e]);
        odd.add(values[e + 1], dense + at[e + 1]);
    }
    if (e < count) even.add(values[e], dense + at[e]);
    even.store_sum(odd, out);
}

template <int Q, int P, int S>
MAXMARGIN_INLINE void add_some(const SparseView& x, const double* factor, double* dense) {
    Window<Q, P, S> factors;
    factors.set(factor);
    const std::int32_t* at = x.at;
    const double* values = x.values;
    const std::size_t count = x.count;
    dense += x.shift;
    for (std::size_t e = 0; e < count; ++e) factors.add_to_dense(values[e], dense + at[e]);
}

// Calls f(Q, P, S) for windows of at most 16 shifts until all are covered.
#define MAXMARGIN_FOR_WINDOWS(f)             \
    std::size_t k = 0;                       \
    for (; width - k > 16; k += 16) f(4, 0, 0); \
    switch (width - k) {                     \
        case 1: f(0, 0, 1); break;           \
        case 2: f(0, 1, 0); break;           \
        case 3: f(0, 1, 1); break;           \
        case 4: f(1, 0, 0); break;           \
        case 5: f(1, 0, 1); break;           \
        case 6: f(1, 1, 0); break;           \
        case 7: f(1, 1, 1); break;           \
        case 8: f(2, 0, 0); break;           \
        case 9: f(2, 0, 1); break;           \
        case 10: f(2, 1, 0); break;          \
        case 11: f(2, 1, 1); break;          \
        case 12: f(3, 0, 0); break;          \
        case 13: f(3, 0, 1); break;          \
        case 14: f(3, 1, 0); break;          \
        case 15: f(3, 1, 1); break;          \
        case 16: f(4, 0, 0); break;          \
    }

}  // namespace

MAXMARGIN_CLONES
void dot_window(const SparseView& x, const double* dense, std::size_t width, double* out) {
#define MAXMARGIN_DOT(Q, P, S) dot_some<Q, P, S>(x, dense + k, out + k)
    MAXMARGIN_FOR_WINDOWS(MAXMARGIN_DOT)
#undef MAXMARGIN_DOT
}

MAXMARGIN_CLONES
void add_window(const SparseView& x, const double* factor, std::size_t width, double* dense) {
#define MAXMARGIN_ADD(Q, P, S) add_some<Q, P, S>(x, factor + k, dense + k)
    MAXMARGIN_FOR_WINDOWS(MAXMARGIN_ADD)
#undef MAXMARGIN_ADD
}

}  // namespace maxmargin::blocks
