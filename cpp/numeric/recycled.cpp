#include "numeric/recycled.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "numeric/huge_pages.hpp"

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace maxmargin {

namespace {

// The allocator gets blocks beyond the first from the system, if it has to, and beyond the second always.
constexpr std::size_t kLong = std::size_t{1} << 20, kLarge = std::size_t{1} << 25;
// Of all blocks at hand together.
constexpr std::size_t kMost = std::size_t{1} << 30;

#if defined(__linux__) && defined(MADV_FREE)
// Whether the system knows how to take pages only if it needs them.
bool offer(void* memory, std::size_t bytes) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto from = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
    const auto to = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page * page;
    return madvise(reinterpret_cast<void*>(from), to - from, MADV_FREE) == 0;
}
#else
bool offer(void*, std::size_t) { return false; }
#endif

struct Block {
    void* memory = nullptr;
    std::size_t bytes = 0;
};

// Who does not get the lock goes without: it may be held by a thread that is no more, in the child of a fork.
class Shelf {
  public:
    // A block of this size; nullptr if there is none.
    void* take(std::size_t bytes) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock) return nullptr;
        for (Block& block : blocks_)
            if (block.memory && block.bytes == bytes) return std::exchange(block, {}).memory;
        return nullptr;
    }

    void put(void* memory, std::size_t bytes) {
        {
            const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
            if (lock && bytes <= kMost && offer(memory, bytes)) {
                // The oldest are last.
                std::size_t all = bytes;
                std::rotate(blocks_.begin(), blocks_.end() - 1, blocks_.end());
                std::swap(blocks_[0].memory, memory);
                std::swap(blocks_[0].bytes, bytes);
                for (std::size_t k = 1; k < blocks_.size(); ++k)
                    if ((all += blocks_[k].bytes) > kMost) std::free(std::exchange(blocks_[k], {}).memory);
            }
        }
        std::free(memory);
    }

    void clear() {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock) return;
        for (Block& block : blocks_) std::free(std::exchange(block, {}).memory);
    }

  private:
    std::mutex mutex_;
    std::array<Block, 8> blocks_;
};

// It lives as long as the process: arrays may be let go at its very end.
Shelf& shelf() {
    static Shelf* const all = new Shelf;
    return *all;
}

}  // namespace

Recycled::Recycled(std::size_t bytes) : bytes_(std::max(bytes, std::size_t{1})) {
    if (bytes_ >= kLong) memory_ = shelf().take(bytes_);
    if (memory_) return;
    memory_ = allocated();
    if (!memory_) {
        shelf().clear();
        memory_ = allocated();
    }
    if (!memory_) throw std::bad_alloc();
}

Recycled::~Recycled() {
    if (bytes_ < kLong) std::free(memory_);
    else shelf().put(memory_, bytes_);
}

void* Recycled::allocated() {
    // Zeros that come with fresh pages cost nothing.
    cleared_ = bytes_ >= kLarge;
    if (!cleared_) return std::malloc(bytes_);
    void* const found = std::calloc(bytes_, 1);
    if (found) prefer_huge_pages(found, bytes_);
    return found;
}

}  // namespace maxmargin
