// Large arrays that are read at random: in pages of 2 MB the addresses are found in the processor's own tables.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace maxmargin {

// Ask for huge pages before the memory is first written to; only a wish, and only where it pays.
inline void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef __linux__
    constexpr std::size_t huge = std::size_t{1} << 21;
    if (bytes < 16 * huge) return;
    const auto from = (reinterpret_cast<std::uintptr_t>(memory) + huge - 1) / huge * huge;
    const auto to = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / huge * huge;
    if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#endif
}

}  // namespace maxmargin
