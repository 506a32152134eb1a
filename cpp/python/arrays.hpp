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
#include <type_traits>
#include <utility>
#include <vector>

#include "numeric/huge_pages.hpp"
#include "numeric/recycled.hpp"
#include "python/gil.hpp"

namespace nb = nanobind;
using namespace nb::literals;

template <class T, class... Shape>
using Input = nb::ndarray<const T, Shape..., nb::c_contig, nb::device::cpu>;
template <class T>
using InputVector = Input<T, nb::ndim<1>>;
using Reals = Input<double>;
using Int32s = InputVector<std::int32_t>;
using Int64s = InputVector<std::int64_t>;

// What a Python function returned, as an array of its type and layout. Python converts it where necessary: conversion by nanobind
// cannot be interrupted by the end of the interpreter (see gil.hpp).
template <class Array>
Array array_from(const nb::object& found) {
    Array array;
    if (nb::try_cast(found, array, false)) return array;
    static_assert(std::is_same_v<typename Array::Scalar, const double> || std::is_same_v<typename Array::Scalar, const std::int32_t>);
    const char* const type = std::is_same_v<typename Array::Scalar, const double> ? "float64" : "int32";
    const Reference numpy = object_from([] { return PyImport_ImportModule("numpy"); });
    if (!nb::ndarray_check(found) || !nb::try_cast(call_method(numpy, "ascontiguousarray", found, type), array, false))
        throw nb::type_error((std::string("a contiguous array of ") + type + " with the right number of axes is needed").c_str());
    return array;
}

inline void require(bool holds, const char* message) {
    if (!holds) throw nb::value_error(message);
}

// Blocks of nodes one after the other, and the parent of every node, counted within its block. A wrong one would read foreign
// memory, so these checks stay even though Python has made them.
inline void check_forests(const std::int64_t* begin, std::size_t count, const Int32s* parent, std::size_t n_nodes) {
    bool rising = count >= 1 && begin[0] == 0 && begin[count - 1] == static_cast<std::int64_t>(n_nodes);
    for (std::size_t q = 1; q < count && rising; ++q) rising = begin[q - 1] <= begin[q];
    require(rising, "offsets must rise from 0 to the number of nodes");
    if (!parent) return;
    require(parent->size() == n_nodes, "parent must have one entry for each row");
    for (std::size_t q = 0; q + 1 < count; ++q)
        for (std::int64_t t = begin[q]; t < begin[q + 1]; ++t)
            require(parent->data()[t] >= -1 && parent->data()[t] < t - begin[q],
                    "every parent must be -1 or come before its child; number every node after its parent");
}

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
    maxmargin::prefer_huge_pages(memory, bytes);
    nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
    return {static_cast<T*>(memory), nb::ndarray<nb::numpy, T>(memory, shape, owner)};
}

// Memory that is filled by whoever asks for it; `cleared` says whether it holds zeros.
template <class T>
Output<T> to_be_filled(std::size_t size, bool& cleared) {
    auto* const block = new maxmargin::Recycled(size * sizeof(T));
    nb::capsule owner(block, [](void* p) noexcept { delete static_cast<maxmargin::Recycled*>(p); });
    cleared = block->cleared();
    return {static_cast<T*>(block->data()), nb::ndarray<nb::numpy, T>(block->data(), {size}, owner)};
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
