// Names of features and the columns they stand for: strings are numbered in the order in which they come.
//
// The bytes of all names lie in one place, and a table of slots (open addressing, linear probes) finds the number of a name. A slot
// holds 32 bits of the hash beside the number, so that a name that is not there costs one look at the table. Looking a name up has
// two halves, the hash and the probe, so that the caller can fetch the slots of a whole row before it needs the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace maxmargin::data {

class Vocabulary {
  public:
    static constexpr std::uint32_t kNone = 0xffffffffu;

    Vocabulary() : begin_(1, 0), slots_(kSmallest), mask_(kSmallest - 1) {}

    std::size_t size() const { return begin_.size() - 1; }
    std::string_view name(std::size_t k) const { return {bytes_.data() + begin_[k], static_cast<std::size_t>(begin_[k + 1] - begin_[k])}; }

    // Eight bytes at a time, each folded into the product of all before. The same on every machine of one byte order; nothing that
    // users see depends on it.
    static std::uint64_t hash(std::string_view name) {
        std::uint64_t h = 0x9e3779b97f4a7c15u ^ name.size();
        const char* at = name.data();
        std::size_t left = name.size();
        for (; left >= 8; at += 8, left -= 8) h = fold(h, word(at, 8));
        if (left) h = fold(h, word(at, left));
        return h ^ (h >> 29);
    }
    void prefetch(std::uint64_t hash) const { __builtin_prefetch(slots_.data() + (hash & mask_)); }

    // The number of a name, or kNone.
    std::uint32_t find(std::string_view name, std::uint64_t hash) const {
        const auto tag = static_cast<std::uint32_t>(hash >> 32);
        for (std::size_t s = hash & mask_;; s = (s + 1) & mask_) {
            const Slot& slot = slots_[s];
            if (slot.next == 0) return kNone;
            if (slot.tag == tag && this->name(slot.next - 1) == name) return slot.next - 1;
        }
    }
    // The number of a name that gets one if it has none.
    std::uint32_t insert(std::string_view name, std::uint64_t hash) {
        if (const std::uint32_t k = find(name, hash); k != kNone) return k;
        if (size() >= 0x7fffffffu) throw std::length_error("more than 2^31 - 1 names of features");
        bytes_.insert(bytes_.end(), name.begin(), name.end());
        begin_.push_back(bytes_.size());
        // At most two thirds of the slots are taken.
        if (3 * size() > 2 * slots_.size()) grow();
        else put(hash, static_cast<std::uint32_t>(size()));
        return static_cast<std::uint32_t>(size() - 1);
    }

  private:
    static constexpr std::size_t kSmallest = 64;
    // One more than the number of the name; 0 if the slot is free.
    struct Slot {
        std::uint32_t tag = 0, next = 0;
    };

    static std::uint64_t word(const char* at, std::size_t count) {
        std::uint64_t w = 0;
        std::memcpy(&w, at, count);
        return w;
    }
    static std::uint64_t fold(std::uint64_t h, std::uint64_t w) {
        __extension__ using Wide = unsigned __int128;
        const Wide product = static_cast<Wide>(h ^ w) * 0xd6e8feb86659fd93u;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64) ^ 0xa0761d6478bd642fu;
    }
    void put(std::uint64_t hash, std::uint32_t next) {
        std::size_t s = hash & mask_;
        while (slots_[s].next) s = (s + 1) & mask_;
        slots_[s] = {static_cast<std::uint32_t>(hash >> 32), next};
    }
    void grow() {
        const std::size_t wanted = 2 * slots_.size();
        slots_.assign(wanted, Slot{});
        mask_ = wanted - 1;
        for (std::size_t k = 0; k < size(); ++k) put(hash(name(k)), static_cast<std::uint32_t>(k + 1));
    }

    std::vector<char> bytes_;
    std::vector<std::uint64_t> begin_;  // of every name in bytes_, and the end of the last
    std::vector<Slot> slots_;
    std::size_t mask_;
};

}  // namespace maxmargin::data
