// Features of the arcs of sentences, from words and tags: keys of 64 bits, and a dictionary that numbers them.
//
// Templates are those of first-order parsers since McDonald: head and child by word and tag, with direction and distance, tags
// between them, tags beside them. A key is a hash of the template's number and of what it looked at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <unordered_map>
#include <vector>

namespace maxmargin::data {

// Hashes of words and tags of all sentences, one after the other.
struct Sentences {
    const std::uint64_t *words, *tags;
    const std::int64_t* offsets;
    std::size_t count;
};

inline std::uint64_t mixed(std::uint64_t x) {
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    return x;
}

inline std::uint64_t key_of(std::uint64_t template_number, std::initializer_list<std::uint64_t> seen) {
    std::uint64_t key = mixed(template_number + 0x51ed270b0903f1c5u);
    for (const std::uint64_t part : seen) key = mixed(key * 0xd6e8feb86659fd93u + part);
    return key;
}

class SentenceKeys {
  public:
    SentenceKeys(const Sentences& all, std::size_t q) {
        constexpr std::uint64_t kRoot = 0x726f6f74, kEdge = 0x65646765;
        const auto first = static_cast<std::size_t>(all.offsets[q]), last = static_cast<std::size_t>(all.offsets[q + 1]);
        n = last - first;
        words_ = {kRoot};
        tags_ = {kEdge, kRoot};
        words_.insert(words_.end(), all.words + first, all.words + last);
        tags_.insert(tags_.end(), all.tags + first, all.tags + last);
        tags_.push_back(kEdge);
    }

    // Calls add(h, m, keys of the arc) for all arcs, those of a head one after the other.
    template <class Add>
    void arcs(const Add& add) {
        for (std::size_t h = 0; h <= n; ++h)
            for (int direction : {-1, 1}) {
                between_.clear();
                for (auto m = static_cast<std::ptrdiff_t>(h) + direction; m >= 1 && m <= static_cast<std::ptrdiff_t>(n); m += direction) {
                    keys_.clear();
                    arc(h, static_cast<std::size_t>(m), direction > 0);
                    add(h, static_cast<std::size_t>(m), keys_);
                    const std::uint64_t tag = tag_of(m);
                    if (std::find(between_.begin(), between_.end(), tag) == between_.end()) between_.push_back(tag);
                }
            }
    }

    // Keys that labels of an arc depend on.
    const std::vector<std::uint64_t>& label_keys(std::size_t h, std::size_t m) {
        const std::uint64_t way = m > h, hp = tag_of(h), mp = tag_of(m), hw = words_[h], mw = words_[m];
        keys_ = {key_of(100, {hp, mp, way}), key_of(101, {mw, mp, hp, way}), key_of(102, {hw, mp, way}),
                 key_of(103, {mp, tag_of(m - 1), tag_of(m + 1)}), key_of(104, {hp, mp, way, bucket(h, m)}), key_of(105, {hw, mw})};
        return keys_;
    }

    std::size_t n;

  private:
    // Tags have an edge before the root and behind the last word.
    template <class Place>
    std::uint64_t tag_of(Place place) const { return tags_[static_cast<std::size_t>(place + 1)]; }
    static std::uint64_t bucket(std::size_t h, std::size_t m) {
        const std::size_t distance = h > m ? h - m : m - h;
        return distance <= 4 ? distance : distance <= 6 ? 5 : distance <= 10 ? 6 : distance <= 20 ? 7 : 8;
    }

    void arc(std::size_t h, std::size_t m, bool right) {
        const std::uint64_t hp = tag_of(h), mp = tag_of(m), hw = words_[h], mw = words_[m];
        // The root is on no side.
        const std::uint64_t way = h == 0 ? 2 : right, far = way * 16 + (h == 0 ? 0 : bucket(h, m));
        const std::uint64_t after_h = tag_of(h + 1), before_h = h == 0 ? 0 : tag_of(h - 1), after_m = tag_of(m + 1), before_m = tag_of(m - 1);
        const std::uint64_t pair = key_of(0, {hp, mp, way}), far_pair = key_of(1, {hp, mp, far});
        keys_.insert(keys_.end(), {
            pair, far_pair,
            key_of(2, {hw, mw, way}), key_of(3, {hw, mp, way}), key_of(4, {hp, mw, way}),
            key_of(5, {hw, far}), key_of(6, {mw, far}), key_of(7, {hp, far}), key_of(8, {mp, far}),
            key_of(9, {pair, after_h, before_m}), key_of(10, {pair, before_h, before_m}),
            key_of(11, {pair, after_h, after_m}), key_of(12, {pair, before_h, after_m}),
            key_of(13, {far_pair, after_h, before_m}), key_of(14, {far_pair, before_h, after_m}),
        });
        for (const std::uint64_t tag : between_) keys_.push_back(key_of(15, {pair, tag}));
    }

    std::vector<std::uint64_t> words_, tags_, between_, keys_;
};

// Numbers of keys; without any, every key has the number of its lowest bits.
class KeyNumbers {
  public:
    explicit KeyNumbers(unsigned bits) : mask_((std::uint64_t{1} << bits) - 1), hashed_(true) {}
    KeyNumbers(const std::uint64_t* keys, std::size_t count) {
        numbers_.reserve(2 * count);
        for (std::size_t k = 0; k < count; ++k) numbers_.emplace(keys[k], static_cast<std::int32_t>(k));
    }
    // -1 for a key that is not known.
    std::int32_t of(std::uint64_t key) const {
        if (hashed_) return static_cast<std::int32_t>(key >> 7 & mask_);
        const auto found = numbers_.find(key);
        return found == numbers_.end() ? -1 : found->second;
    }

  private:
    struct Same {
        std::size_t operator()(std::uint64_t key) const { return static_cast<std::size_t>(key); }
    };
    std::unordered_map<std::uint64_t, std::int32_t, Same> numbers_;
    std::uint64_t mask_ = 0;
    bool hashed_ = false;
};

struct NumberedRows {
    std::vector<std::int64_t> begin;
    std::vector<std::int32_t> at;
};

// Numbers of the features of all arcs, (n + 1)^2 rows for every sentence, and of those that labels depend on.
inline NumberedRows arc_rows(const Sentences& all, const KeyNumbers& numbers, bool for_labels) {
    NumberedRows rows;
    rows.begin = {0};
    std::vector<std::vector<std::int32_t>> own;
    for (std::size_t q = 0; q < all.count; ++q) {
        SentenceKeys keys(all, q);
        const std::size_t N = keys.n + 1;
        own.assign(N * N, {});
        const auto put = [&](std::size_t h, std::size_t m, const std::vector<std::uint64_t>& found) {
            for (const std::uint64_t key : found)
                if (const std::int32_t number = numbers.of(key); number >= 0) own[h * N + m].push_back(number);
        };
        if (!for_labels) {
            keys.arcs(put);
        } else {
            for (std::size_t h = 0; h < N; ++h)
                for (std::size_t m = 1; m < N; ++m)
                    if (h != m) put(h, m, keys.label_keys(h, m));
        }
        for (const auto& row : own) {
            rows.at.insert(rows.at.end(), row.begin(), row.end());
            rows.begin.push_back(static_cast<std::int64_t>(rows.at.size()));
        }
    }
    return rows;
}

// Keys of the arcs of given trees that occur at least `least` times, in rising order.
inline std::vector<std::uint64_t> keys_of_trees(const Sentences& all, const std::int32_t* heads, bool for_labels, std::size_t least) {
    std::vector<std::uint64_t> found;
    for (std::size_t q = 0; q < all.count; ++q) {
        SentenceKeys keys(all, q);
        const std::int32_t* own = heads + all.offsets[q];
        if (for_labels) {
            for (std::size_t m = 1; m <= keys.n; ++m)
                for (const std::uint64_t key : keys.label_keys(static_cast<std::size_t>(own[m - 1]), m)) found.push_back(key);
        } else {
            keys.arcs([&](std::size_t h, std::size_t m, const std::vector<std::uint64_t>& of_arc) {
                if (static_cast<std::size_t>(own[m - 1]) == h) found.insert(found.end(), of_arc.begin(), of_arc.end());
            });
        }
    }
    std::sort(found.begin(), found.end());
    std::vector<std::uint64_t> kept;
    for (std::size_t k = 0; k < found.size();) {
        std::size_t next = k;
        while (next < found.size() && found[next] == found[k]) ++next;
        if (next - k >= least) kept.push_back(found[k]);
        k = next;
    }
    return kept;
}

}  // namespace maxmargin::data
