#include "numeric/row_products.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "numeric/clones.hpp"
#include "numeric/threads.hpp"

namespace maxmargin::numeric {

namespace {

// Numbers below which a second thread costs more than it brings.
constexpr std::size_t kShared = std::size_t{1} << 19;

// Numbers in what memory hands out at a time.
template <class T>
constexpr std::size_t kLine = 64 / sizeof(T);

// Bytes of vectors, and how many of them, that are fetched from end to end; and of those that are all used if one in four has to be,
// or fewer.
constexpr std::size_t kShort = 4096, kSpan = 10, kNarrow = 1024;

// Sums of so many numbers fit into registers, with what is added to them.
constexpr int kRegisters = 16;

// In eight lanes, whatever the machine has.
template <class T>
MAXMARGIN_INLINE double dot(const T* x, const double* y, std::size_t n) {
    Quad even{0, 0, 0, 0}, odd{0, 0, 0, 0};
    std::size_t k = 0;
    for (; k + 8 <= n; k += 8) {
        even += quad_at(x + k) * quad_at(y + k);
        odd += quad_at(x + k + 4) * quad_at(y + k + 4);
    }
    if (k + 4 <= n) {
        even += quad_at(x + k) * quad_at(y + k);
        k += 4;
    }
    even += odd;
    double rest = 0;
    for (; k < n; ++k) rest += static_cast<double>(x[k]) * y[k];
    return ((even[0] + even[1]) + (even[2] + even[3])) + rest;
}

// The same for four short vectors, whose lanes are added up together: for a short one alone that takes longer than all else.
template <int N, class T>
MAXMARGIN_INLINE void dot_four(const T* x, std::ptrdiff_t stride, const double* y, double* out) {
    using Places = long long __attribute__((vector_size(32)));
    Quad lanes[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
        const T* own = x + r * stride;
        Quad even{0, 0, 0, 0}, odd{0, 0, 0, 0};
#pragma GCC unroll 4
        for (int q = 0; q + 8 <= N; q += 8) even += quad_at(own + q) * quad_at(y + q), odd += quad_at(own + q + 4) * quad_at(y + q + 4);
        if constexpr (N % 8 >= 4) even += quad_at(own + N / 8 * 8) * quad_at(y + N / 8 * 8);
        lanes[r] = even + odd;
    }
    Quad rest{0, 0, 0, 0};
#pragma GCC unroll 4
    for (int k = N / 4 * 4; k < N; ++k) {
        const Quad own{static_cast<double>(x[k]), static_cast<double>(x[stride + k]), static_cast<double>(x[2 * stride + k]),
                       static_cast<double>(x[3 * stride + k])};
        rest += own * y[k];
    }
    const Quad first = __builtin_shuffle(lanes[0], lanes[1], Places{0, 4, 2, 6}) + __builtin_shuffle(lanes[0], lanes[1], Places{1, 5, 3, 7});
    const Quad second = __builtin_shuffle(lanes[2], lanes[3], Places{0, 4, 2, 6}) + __builtin_shuffle(lanes[2], lanes[3], Places{1, 5, 3, 7});
    const Quad sums = (__builtin_shuffle(first, second, Places{0, 1, 4, 5}) + __builtin_shuffle(first, second, Places{2, 3, 6, 7})) + rest;
    __builtin_memcpy(out, &sums, sizeof sums);
}

// sum[k] += a[0] x[0][k] + a[1] x[1][k] + ...; every sum is one of its own, so the compiler may take several at a time. Meanwhile
// `fetch(k)` has what comes after brought near.
template <class T, class Fetch>
MAXMARGIN_INLINE void add_four(const double* a, const T* const* x, std::size_t n, double* __restrict sum, const Fetch& fetch) {
    const T *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    const double a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
    const auto add = [&](std::size_t k) __attribute__((always_inline)) {
        sum[k] += (a0 * static_cast<double>(x0[k]) + a1 * static_cast<double>(x1[k])) +
                  (a2 * static_cast<double>(x2[k]) + a3 * static_cast<double>(x3[k]));
    };
    std::size_t k = 0;
    for (; k + kLine<T> <= n; k += kLine<T>) {
        fetch(k);
        for (std::size_t j = k; j < k + kLine<T>; ++j) add(j);
    }
    for (; k < n; ++k) add(k);
}

// Two neighbouring numbers.
template <class T>
MAXMARGIN_INLINE Pair pair_at(const T* from) {
    return Pair{static_cast<double>(from[0]), static_cast<double>(from[1])};
}

// The same for short vectors one after the other, of which there are `count`: their sum stays in registers. How many were added up,
// a multiple of four.
template <int N, class T>
MAXMARGIN_INLINE std::size_t add_narrow(const double* a, const T* x, std::size_t count, double* __restrict sum) {
    constexpr int Q = N / 4, P = N / 2 % 2, S = N % 2;
    Quad quads[Q + 1];
    Pair pair{0, 0};
    double single = 0;
    for (int q = 0; q < Q; ++q) quads[q] = quad_at(sum + 4 * q);
    if constexpr (P) pair = pair_at(sum + 4 * Q);
    if constexpr (S) single = sum[N - 1];
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4, x += 4 * N) {
        const T *x0 = x, *x1 = x + N, *x2 = x + 2 * N, *x3 = x + 3 * N;
        const double a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q)
            quads[q] += (a0 * quad_at(x0 + 4 * q) + a1 * quad_at(x1 + 4 * q)) + (a2 * quad_at(x2 + 4 * q) + a3 * quad_at(x3 + 4 * q));
        if constexpr (P) pair += (a0 * pair_at(x0 + 4 * Q) + a1 * pair_at(x1 + 4 * Q)) + (a2 * pair_at(x2 + 4 * Q) + a3 * pair_at(x3 + 4 * Q));
        if constexpr (S)
            single += (a0 * static_cast<double>(x0[N - 1]) + a1 * static_cast<double>(x1[N - 1])) +
                      (a2 * static_cast<double>(x2[N - 1]) + a3 * static_cast<double>(x3[N - 1]));
    }
    for (int q = 0; q < Q; ++q) __builtin_memcpy(sum + 4 * q, &quads[q], sizeof(Quad));
    if constexpr (P) __builtin_memcpy(sum + 4 * Q, &pair, sizeof pair);
    if constexpr (S) sum[N - 1] = single;
    return k;
}

template <class T>
MAXMARGIN_INLINE void add_one(double a, const T* x, std::size_t n, double* __restrict sum) {
    for (std::size_t k = 0; k < n; ++k) sum[k] += a * static_cast<double>(x[k]);
}

// All of `count` vectors one after the other, times their factors.
template <class T>
MAXMARGIN_INLINE void add_neighbours(const T* first, const double* factors, std::size_t count, std::size_t n, double* sum) {
    std::size_t k = 0;
    with_width<kRegisters, 1>(n, [&](auto N) __attribute__((always_inline)) { k = add_narrow<N>(factors, first, count, sum); });
    for (; k + 4 <= count; k += 4) {
        const T *own = first + k * n, *next = own + 4 * n;
        const T* x[4] = {own, own + n, own + 2 * n, own + 3 * n};
        add_four(factors + k, x, n, sum, [=](std::size_t j) __attribute__((always_inline)) {
            for (std::size_t v = 0; v < 4; ++v) __builtin_prefetch(next + 4 * j + v * kLine<T>);
        });
    }
    for (; k < count; ++k) add_one(factors[k], first + k * n, n, sum);
}

// The vectors at `first + k * stride` for all k, at most kBlock, times their factors, four at a time; those whose factor is zero are
// left out if that saves time.
template <class T>
MAXMARGIN_INLINE void add_vectors(const T* first, std::ptrdiff_t stride, const double* factors, std::size_t count, std::size_t n,
                                  double* sum) {
    const bool in_one = stride == static_cast<std::ptrdiff_t>(n) && n * sizeof(T) <= kShort;
    if (in_one && n * sizeof(T) <= kNarrow) {
        std::size_t some = 0;
        for (std::size_t k = 0; k < count; ++k) some += factors[k] != 0;
        // Between gaps that nobody foresees memory takes longer than from end to end, all the more the shorter vectors are.
        if (some * kNarrow >= count * std::min(kNarrow / 4, n * sizeof(T))) return add_neighbours(first, factors, count, n, sum);
    }
    // Which factors are zero nobody can guess, so they are sorted out without a branch.
    double a[kBlock + 1];
    std::uint32_t at[kBlock + 1];
    std::size_t used = 0;
    for (std::size_t k = 0; k < count; ++k) {
        a[used] = factors[k];
        at[used] = static_cast<std::uint32_t>(k);
        used += factors[k] != 0;
    }
    const auto vector = [&](std::size_t k) __attribute__((always_inline)) { return first + static_cast<std::ptrdiff_t>(at[k]) * stride; };
    std::size_t k = 0;
    for (; k + 4 <= used; k += 4) {
        const T* x[4] = {vector(k), vector(k + 1), vector(k + 2), vector(k + 3)};
        // Of four vectors in turn processors do not see by themselves what is next. Memory likes best to be read from end to end,
        // so short gaps are read too; the next four are fetched each by itself where gaps or vectors are long.
        const std::size_t after = std::min(k + 4, used - 4), span = at[after + 3] - at[k + 3];
        if (span <= kSpan && in_one) {
            const T* next = vector(k + 3) + n;
            add_four(a + k, x, n, sum, [=](std::size_t j) __attribute__((always_inline)) {
                for (std::size_t v = 0; v < span; ++v) __builtin_prefetch(next + span * j + v * kLine<T>);
            });
        } else {
            const T* next[4] = {vector(after), vector(after + 1), vector(after + 2), vector(after + 3)};
            add_four(a + k, x, n, sum, [=](std::size_t j) __attribute__((always_inline)) {
                for (int v = 0; v < 4; ++v) __builtin_prefetch(next[v] + j);
            });
        }
    }
    for (; k < used; ++k) add_one(a[k], vector(k), n, sum);
}

template <class T>
MAXMARGIN_INLINE void dots(const T* first, std::ptrdiff_t stride, const double* y, std::size_t count, std::size_t n, double* out) {
    std::size_t k = 0;
    with_width<kRegisters, 1>(n, [&](auto N) __attribute__((always_inline)) {
        for (; k + 4 <= count; k += 4) dot_four<N>(first + static_cast<std::ptrdiff_t>(k) * stride, stride, y, out + k);
    });
    for (; k < count; ++k) out[k] = dot(first + static_cast<std::ptrdiff_t>(k) * stride, y, n);
}

template <class T>
constexpr auto dots_of = compiled_twice<&dots<T>>;
template <class T>
constexpr auto add_all = compiled_twice<&add_vectors<T>>;

// task(first row, rows) for all blocks.
template <class T, class Task>
void for_blocks(const DenseMatrix<T>& X, int n_threads, const Task& task) {
    const std::size_t most = std::max<std::size_t>(1, X.n_rows * X.n_columns / kShared);
    const int threads = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(std::max(1, n_threads)), most));
    share_out(threads, (X.n_rows + kBlock - 1) / kBlock,
              [&](std::size_t b) { task(b * kBlock, std::min(kBlock, X.n_rows - b * kBlock)); });
}

}  // namespace

template <class T>
void times_vector(const DenseMatrix<T>& X, const double* weights, int n_threads, double* out) {
    for_blocks(X, n_threads, [&](std::size_t first, std::size_t count) {
        const T* rows = X.data + static_cast<std::ptrdiff_t>(first) * X.row_stride;
        if (X.column_stride == 1) return dots_of<T>(rows, X.row_stride, weights, count, X.n_columns, out + first);
        std::fill_n(out + first, count, 0.0);
        for (std::size_t k = 0; k < X.n_columns; k += kBlock)
            add_all<T>(rows + static_cast<std::ptrdiff_t>(k) * X.column_stride, X.column_stride, weights + k,
                    std::min(kBlock, X.n_columns - k), count, out + first);
    });
}

template <class T>
void sum_of_rows(const DenseMatrix<T>& X, const double* coefficients, int n_threads, double* out) {
    std::fill_n(out, X.n_columns, 0.0);
    add_rows(X, coefficients, n_threads, out);
}

template <class T>
void add_rows(const DenseMatrix<T>& X, const double* coefficients, int n_threads, double* out) {
    const std::size_t d = X.n_columns, blocks = (X.n_rows + kBlock - 1) / kBlock;
    std::vector<double> sums(blocks * d, 0.0);
    for_blocks(X, n_threads, [&](std::size_t first, std::size_t count) {
        const T* rows = X.data + static_cast<std::ptrdiff_t>(first) * X.row_stride;
        double* sum = sums.data() + first / kBlock * d;
        if (X.column_stride == 1) add_all<T>(rows, X.row_stride, coefficients + first, count, d, sum);
        else dots_of<T>(rows, X.column_stride, coefficients + first, d, count, sum);
    });
    for (std::size_t b = 0; b < blocks; ++b)
        for (std::size_t k = 0; k < d; ++k) out[k] += sums[b * d + k];
}

template void times_vector<float>(const DenseMatrix<float>&, const double*, int, double*);
template void times_vector<double>(const DenseMatrix<double>&, const double*, int, double*);
template void sum_of_rows<float>(const DenseMatrix<float>&, const double*, int, double*);
template void sum_of_rows<double>(const DenseMatrix<double>&, const double*, int, double*);
template void add_rows<float>(const DenseMatrix<float>&, const double*, int, double*);
template void add_rows<double>(const DenseMatrix<double>&, const double*, int, double*);

}  // namespace maxmargin::numeric
