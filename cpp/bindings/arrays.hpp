// Arrays that come from Python, arrays for Python that are made here, and words that stand for choices.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace nb = nanobind;
using namespace nb::literals;

template <class T, class... Shape>
using Input = nb::ndarray<const T, Shape..., nb::c_contig, nb::device::cpu>;
template <class T>
using InputVector = Input<T, nb::ndim<1>>;
using Reals = Input<double>;
using Int32s = InputVector<std::int32_t>;
using Int64s = InputVector<std::int64_t>;

// Memory owned by the array it comes in.
template <class T>
struct Output {
    T* data;
    nb::ndarray<nb::numpy, T> array;
};

// Large blocks come straight from the system and cost nothing until written; in huge pages they cost a third (60 against 20 ms
// for 1e7 numbers). Smaller ones are recycled by the allocator.
template <class T>
Output<T> zeros(std::initializer_list<std::size_t> shape) {
    std::size_t bytes = sizeof(T);
    for (const std::size_t extent : shape) bytes *= extent;
    bytes = std::max(bytes, sizeof(T));
    void* memory = std::calloc(bytes, 1);
    if (!memory) throw std::bad_alloc();
#ifdef __linux__
    constexpr std::size_t huge = std::size_t{1} << 21;
    if (bytes >= 16 * huge) {
        const auto from = (reinterpret_cast<std::uintptr_t>(memory) + huge - 1) / huge * huge;
        const auto to = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / huge * huge;
        if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
    }
#endif
    nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
    return {static_cast<T*>(memory), nb::ndarray<nb::numpy, T>(memory, shape, owner)};
}

template <class T>
nb::ndarray<nb::numpy, T> array_of(std::vector<T> values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size()}, owner};
}

// What a word stands for.
template <class Choice>
Choice chosen(const std::string& word, const std::string& what, std::initializer_list<std::pair<const char*, Choice>> known) {
    for (const auto& [name, choice] : known)
        if (word == name) return choice;
    throw nb::value_error(("unknown " + what + " '" + word + "'").c_str());
}
