// Memory of long arrays, used again: fresh pages, which the system has to clear, cost more than what is computed into them.
//
// What is given back stays at hand, a few blocks at most, and the system is told that it may take the pages whenever somebody needs
// memory. Blocks that are not large come from the allocator, which does the same for them.
#pragma once

#include <cstddef>

namespace maxmargin {

class Recycled {
  public:
    explicit Recycled(std::size_t bytes);
    ~Recycled();
    Recycled(const Recycled&) = delete;
    Recycled& operator=(const Recycled&) = delete;

    void* data() const { return memory_; }
    // Whether it holds zeros: pages that are fresh do.
    bool cleared() const { return cleared_; }

  private:
    void* allocated();

    std::size_t bytes_;
    void* memory_ = nullptr;
    bool cleared_ = false;
};

}  // namespace maxmargin
