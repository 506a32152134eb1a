// Functions compiled twice, for processors with and without AVX2; which one runs is decided when the library is loaded. Only for
// code whose results do not depend on the width of registers, such as sums for each of several neighbouring numbers: both forms
// give the same bits, which a test compares.
#pragma once

#include <cstddef>
#include <type_traits>

// What is compiled twice, and all that it calls, must become part of its two forms.
#define MAXMARGIN_INLINE inline __attribute__((always_inline))

namespace maxmargin {

// Whether the forms for AVX2 run: where the processor has it, unless the environment variable MAXMARGIN_CPU_CAPABILITY is "default".
extern const bool kUsesAvx2;

template <auto Body>
struct CompiledTwice;

template <class Result, class... Arguments, Result (*Body)(Arguments...)>
struct CompiledTwice<Body> {
#if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((noinline, target("avx2"))) static Result with_avx2(Arguments... arguments) { return Body(arguments...); }
    __attribute__((noinline)) static Result plain(Arguments... arguments) { return Body(arguments...); }
    static Result run(Arguments... arguments) { return kUsesAvx2 ? with_avx2(arguments...) : plain(arguments...); }
#else
    static Result run(Arguments... arguments) { return Body(arguments...); }
#endif
};

// The form of a MAXMARGIN_INLINE function that suits the processor.
template <auto Body>
inline constexpr auto compiled_twice = &CompiledTwice<Body>::run;

using Pair = double __attribute__((vector_size(16)));
using Quad = double __attribute__((vector_size(32)));

// Four neighbouring numbers.
MAXMARGIN_INLINE Quad quad_at(const double* from) {
    Quad v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}
MAXMARGIN_INLINE Quad quad_at(const float* from) {
    float __attribute__((vector_size(16))) v;
    __builtin_memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, Quad);
}

// W neighbouring numbers in registers: quads, and a pair and a single one for the rest. No wider than needed: one that reaches
// into the next would wait for what was just written there.
template <int W>
class Window {
  public:
    MAXMARGIN_INLINE void clear() {
        for (int q = 0; q < Q; ++q) quads_[q] = Quad{0, 0, 0, 0};
        pair_ = Pair{0, 0};
        single_ = 0;
    }
    MAXMARGIN_INLINE void load(const double* from) {
        for (int q = 0; q < Q; ++q) __builtin_memcpy(&quads_[q], from + 4 * q, sizeof(Quad));
        if (P) __builtin_memcpy(&pair_, from + 4 * Q, sizeof(Pair));
        if (S) single_ = from[W - 1];
    }
    MAXMARGIN_INLINE void store(double* to) const {
        for (int q = 0; q < Q; ++q) __builtin_memcpy(to + 4 * q, &quads_[q], sizeof(Quad));
        if (P) __builtin_memcpy(to + 4 * Q, &pair_, sizeof(Pair));
        if (S) to[W - 1] = single_;
    }
    MAXMARGIN_INLINE void add(const Window& other) {
        for (int q = 0; q < Q; ++q) quads_[q] += other.quads_[q];
        pair_ += other.pair_;
        single_ += other.single_;
    }
    // this += value * from, and to += value * this.
    MAXMARGIN_INLINE void add_product(double value, const double* from) {
        for (int q = 0; q < Q; ++q) add_one(quads_[q], Quad{value, value, value, value}, from + 4 * q);
        if (P) add_one(pair_, Pair{value, value}, from + 4 * Q);
        if (S) single_ += value * from[W - 1];
    }
    MAXMARGIN_INLINE void add_product_to(double value, double* to) const {
        for (int q = 0; q < Q; ++q) add_one_to(quads_[q], Quad{value, value, value, value}, to + 4 * q);
        if (P) add_one_to(pair_, Pair{value, value}, to + 4 * Q);
        if (S) to[W - 1] += value * single_;
    }

  private:
    static constexpr int Q = W / 4, P = W / 2 % 2, S = W % 2;
    // Passed by reference: functions that are always inlined have no calling convention to disagree about.
    template <class Vector>
    static MAXMARGIN_INLINE void add_one(Vector& sum, const Vector& value, const double* from) {
        Vector v;
        __builtin_memcpy(&v, from, sizeof v);
        sum += value * v;
    }
    template <class Vector>
    static MAXMARGIN_INLINE void add_one_to(const Vector& factor, const Vector& value, double* to) {
        Vector v;
        __builtin_memcpy(&v, to, sizeof v);
        v += value * factor;
        __builtin_memcpy(to, &v, sizeof v);
    }
    Quad quads_[Q + 1];
    Pair pair_;
    double single_;
};

template <int W, int Step, class F>
MAXMARGIN_INLINE void with_width(std::size_t width, const F& f) {
    if constexpr (W > 0) {
        if (width == W) f(std::integral_constant<int, W>());
        else with_width<W - Step, Step>(width, f);
    }
}

// Calls f(first, W) with W a constant, at most Most, until `width` numbers, a multiple of Step, are covered.
template <int Most, int Step, class F>
MAXMARGIN_INLINE void for_windows(std::size_t width, const F& f) {
    constexpr int kWhole = Most / 4 * 4;
    std::size_t k = 0;
    for (; width - k > Most; k += kWhole) f(k, std::integral_constant<int, kWhole>());
    with_width<Most, Step>(width - k, [&](auto W) __attribute__((always_inline)) { f(k, W); });
}

}  // namespace maxmargin
