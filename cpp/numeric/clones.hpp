// Functions compiled twice, for machines with and without AVX2; which one runs is decided when the library is loaded. Only for
// code whose results do not depend on the width of registers.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define MAXMARGIN_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define MAXMARGIN_CLONES
#endif

// What cloned functions call must become part of them.
#define MAXMARGIN_INLINE inline __attribute__((always_inline))

namespace maxmargin {

using Pair = double __attribute__((vector_size(16)));
using Quad = double __attribute__((vector_size(32)));

}  // namespace maxmargin
