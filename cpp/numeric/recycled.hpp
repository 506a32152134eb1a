// Memory of long arrays, used again: fresh pages, which the system has to clear, cost more than what is computed into them.
//
// What is given back stays at hand, a few blocks at most, and of large ones the system is told that it may take the pages whenever
// somebody needs memory. They lie in pages of 2 MB, where the system has them: to offer and to take back small ones costs as much as
// to fill them. Of shorter ones up to 64 MB stay with the process. Those below 64 kB come from the allocator, and go back to it.
#pragma once

#include <cstddef>
#include <utility>

namespace maxmargin {

class Recycled {
  public:
    Recycled() = default;
    explicit Recycled(std::size_t bytes);
    ~Recycled();
    Recycled(Recycled&& other) noexcept { swap(other); }
    Recycled& operator=(Recycled&& other) noexcept {
        Recycled taken(std::move(other));
        swap(taken);
        return *this;
    }

    void* data() const { return memory_; }
    // Whether it holds zeros: pages that are fresh do.
    bool cleared() const { return cleared_; }

  private:
    void allocate();
    void swap(Recycled& other) noexcept {
        std::swap(bytes_, other.bytes_), std::swap(memory_, other.memory_), std::swap(cleared_, other.cleared_);
    }

    std::size_t bytes_ = 0;
    void* memory_ = nullptr;
    bool cleared_ = false;
};

}  // namespace maxmargin
