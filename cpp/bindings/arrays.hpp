// Arrays for Python that are made here.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <new>

// Memory owned by the array it comes in.
template <class T>
struct Output {
    T* data;
    nanobind::ndarray<nanobind::numpy, T> array;
};
template <class T>
Output<T> zeros(std::initializer_list<std::size_t> shape) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    void* memory = std::calloc(std::max<std::size_t>(1, size), sizeof(T));
    if (!memory) throw std::bad_alloc();
    nanobind::capsule owner(memory, [](void* p) noexcept { std::free(p); });
    return {static_cast<T*>(memory), nanobind::ndarray<nanobind::numpy, T>(memory, shape, owner)};
}
