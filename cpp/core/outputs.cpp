#include "core/parts.hpp"

#include "numeric/clones.hpp"

namespace maxmargin::blocks {

namespace {

MAXMARGIN_INLINE void dot_window_body(const SparseView& x, const double* dense, std::size_t width, double* out) {
    const std::int32_t* at = x.at;
    const double* values = x.values;
    const std::size_t count = x.count;
    dense += x.shift;
    for_windows<16, 1>(width, [&](std::size_t k, auto W) __attribute__((always_inline)) {
        // Two sums for every shift: one would wait for itself.
        Window<W.value> even, odd;
        even.clear();
        odd.clear();
        std::size_t e = 0;
        for (; e + 2 <= count; e += 2) {
            even.add_product(values[e], dense + at[e] + k);
            odd.add_product(values[e + 1], dense + at[e + 1] + k);
        }
        if (e < count) even.add_product(values[e], dense + at[e] + k);
        even.add(odd);
        even.store(out + k);
    });
}

MAXMARGIN_INLINE void add_window_body(const SparseView& x, const double* factor, std::size_t width, double* dense) {
    const std::int32_t* at = x.at;
    const double* values = x.values;
    const std::size_t count = x.count;
    dense += x.shift;
    for_windows<16, 1>(width, [&](std::size_t k, auto W) __attribute__((always_inline)) {
        Window<W.value> factors;
        factors.load(factor + k);
        for (std::size_t e = 0; e < count; ++e) factors.add_product_to(values[e], dense + at[e] + k);
    });
}

}  // namespace

void dot_window(const SparseView& x, const double* dense, std::size_t width, double* out) {
    compiled_twice<&dot_window_body>(x, dense, width, out);
}
void add_window(const SparseView& x, const double* factor, std::size_t width, double* dense) {
    compiled_twice<&add_window_body>(x, factor, width, dense);
}

}  // namespace maxmargin::blocks
