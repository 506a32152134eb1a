#include "numeric/recycled.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace maxmargin {

namespace {

// Shorter blocks come from the allocator, which keeps them itself.
constexpr std::size_t kLong = std::size_t{1} << 16;
// Blocks from the first size on are whole pages of the second, aligned: for shorter ones too much of the last page would be wasted.
// They are offered to the system, which interrupts all other threads, and is not worth it for shorter ones either.
constexpr std::size_t kPaged = std::size_t{6} << 20, kPage = std::size_t{1} << 21;
// Of all blocks at hand together: those that are offered, and those that are not.
constexpr std::size_t kMost = std::size_t{1} << 30, kMostShort = std::size_t{1} << 26;

struct Block {
    void* memory = nullptr;
    std::size_t bytes = 0;
};

#if defined(__linux__) && defined(MADV_FREE)
// Zeros, or nullptr.
void* fresh_pages(std::size_t bytes) {
    // One page more than is asked for: what lies before the first and behind the last page is given back.
    void* const found = mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return nullptr;
    const auto from = reinterpret_cast<std::uintptr_t>(found);
    const std::uintptr_t aligned = (from + kPage - 1) / kPage * kPage;
    if (aligned > from) munmap(found, aligned - from);
    if (aligned < from + kPage) munmap(reinterpret_cast<void*>(aligned + bytes), from + kPage - aligned);
    madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
    return reinterpret_cast<void*>(aligned);
}
void release_pages(const Block& block) { munmap(block.memory, block.bytes); }
// Whether the system knows how to take pages only if it needs them.
bool offer(const Block& block) { return madvise(block.memory, block.bytes, MADV_FREE) == 0; }
#else
void* fresh_pages(std::size_t bytes) { return std::calloc(bytes, 1); }
void release_pages(const Block& block) { std::free(block.memory); }
bool offer(const Block&) { return false; }
#endif

void release(const Block& block) {
    if (block.bytes < kPaged) std::free(block.memory);
    else release_pages(block);
}

// Who does not get the lock goes without: it may be held by a thread that is no more, in the child of a fork.
class Shelf {
  public:
    // The smallest block that will do, unless half of it would be wasted; one without memory if there is none.
    Block take(std::size_t bytes) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        Block* best = nullptr;
        if (lock)
            for (Block& block : blocks_)
                if (block.bytes >= bytes && block.bytes < 2 * bytes && (!best || block.bytes < best->bytes)) best = &block;
        return best ? std::exchange(*best, {}) : Block{};
    }

    void put(Block block) {
        {
            const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
            const bool is_short = block.bytes < kPaged;
            if (lock && block.bytes <= kMost && (is_short || offer(block))) {
                // The oldest are last, and go if there are too many of their kind.
                std::size_t all = block.bytes;
                std::rotate(blocks_.begin(), blocks_.end() - 1, blocks_.end());
                std::swap(blocks_[0], block);
                for (std::size_t k = 1; k < blocks_.size(); ++k)
                    if ((blocks_[k].bytes < kPaged) == is_short && (all += blocks_[k].bytes) > (is_short ? kMostShort : kMost))
                        release(std::exchange(blocks_[k], {}));
            }
        }
        release(block);
    }

    void clear() {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock) return;
        for (Block& block : blocks_) release(std::exchange(block, {}));
    }

  private:
    std::mutex mutex_;
    std::array<Block, 64> blocks_;
};

// It lives as long as the process: arrays may be let go at its very end.
Shelf& shelf() {
    static Shelf* const all = new Shelf;
    return *all;
}

}  // namespace

Recycled::Recycled(std::size_t bytes) : bytes_(std::max(bytes, std::size_t{1})) {
    if (bytes_ > SIZE_MAX - 2 * kPage) throw std::bad_alloc();
    if (bytes_ >= kPaged) bytes_ = (bytes_ + kPage - 1) / kPage * kPage;
    if (bytes_ >= kLong) {
        const Block found = shelf().take(bytes_);
        memory_ = found.memory;
        if (memory_) bytes_ = found.bytes;
    }
    if (!memory_) allocate();
    if (!memory_) shelf().clear(), allocate();
    if (!memory_) throw std::bad_alloc();
}

void Recycled::allocate() {
    cleared_ = bytes_ >= kPaged;
    memory_ = cleared_ ? fresh_pages(bytes_) : std::malloc(bytes_);
}

Recycled::~Recycled() {
    if (bytes_ < kLong) std::free(memory_);
    else shelf().put({memory_, bytes_});
}

}  // namespace maxmargin
