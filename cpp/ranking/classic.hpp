// The published procedures, kept as they were described: the quicksort-flavoured divide and conquer of Mohapatra et al.,
// a full sort followed by a monotone search, and the O(PN) scans of Yue et al. (AP) and Chakrabarti et al. (NDCG).
// Short lists are served by `sort`, everything is checked against them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ranking/placement.hpp"
#include "ranking/search.hpp"

namespace maxmargin::ranking {

struct Scored {
    double score;
    std::int32_t index;
};
inline bool better(const Scored& a, const Scored& b) { return a.score > b.score; }

// Descending order. Most lists are spread evenly enough that one deal into buckets nearly sorts them.
inline void sort_descending(Scored* items, std::int64_t count, std::vector<Scored>& spare) {
    constexpr std::int64_t most = 1024;
    double low = items[0].score, high = low;
    for (std::int64_t k = 1; k < count; ++k) {
        low = items[k].score < low ? items[k].score : low;
        high = items[k].score > high ? items[k].score : high;
    }
    if (low == high) return;
    const double scale = static_cast<double>(count - 1) / (high - low);
    if (count < 24 || count > most || !std::isfinite(scale)) {
        std::sort(items, items + count, better);
        return;
    }
    std::int32_t start[most + 1] = {};
    std::int16_t bucket[most];
    for (std::int64_t k = 0; k < count; ++k) bucket[k] = static_cast<std::int16_t>((high - items[k].score) * scale);
    for (std::int64_t k = 0; k < count; ++k) ++start[bucket[k] + 1];
    for (std::int64_t b = 0; b < count; ++b) start[b + 1] += start[b];
    spare.assign(items, items + count);
    for (std::int64_t k = 0; k < count; ++k) items[start[bucket[k]]++] = spare[static_cast<std::size_t>(k)];
    // Insertion, unless a bucket turns out crowded.
    std::int64_t moves = 16 * count;
    for (std::int64_t k = 1; k < count; ++k) {
        const Scored item = items[k];
        std::int64_t at = k;
        for (; at > 0 && items[at - 1].score < item.score; --at, --moves) items[at] = items[at - 1];
        items[at] = item;
        if (moves < 0) {
            std::sort(items, items + count, better);
            return;
        }
    }
}

// Algorithm 4: select the median negative, place it by a scan, recurse on both halves with tighter ranks.
// Returns the number of explicit searches. O(N log P + P log N).
template <class T>
std::int64_t by_quicksort(const Search& search, std::vector<Scored>& negatives, Placement<T>& placement) {
    struct Part {
        std::int64_t first, last;
        std::int32_t lo, hi;
    };
    std::int64_t searches = 0;
    std::vector<Part> parts{{0, static_cast<std::int64_t>(negatives.size()) - 1, 1, static_cast<std::int32_t>(search.n_pos() + 1)}};
    while (!parts.empty()) {
        const Part part = parts.back();
        parts.pop_back();
        if (part.first > part.last) continue;
        if (part.lo == part.hi) {
            for (std::int64_t k = part.first; k <= part.last; ++k) placement.place(negatives[k].index, negatives[k].score, part.lo);
            continue;
        }
        const std::int64_t middle = part.first + (part.last - part.first) / 2;
        std::nth_element(negatives.begin() + part.first, negatives.begin() + middle, negatives.begin() + part.last + 1, better);
        const Scored& median = negatives[middle];
        const std::int32_t rank = search.rank(middle + 1, median.score, part.lo, part.hi);
        ++searches;
        placement.place(median.index, median.score, rank);
        parts.push_back({part.first, middle - 1, part.lo, rank});
        parts.push_back({middle + 1, part.last, rank, part.hi});
    }
    return searches;
}

template <class T>
void by_sort(const Search& search, std::vector<Scored>& negatives, Placement<T>& placement, std::vector<std::int32_t>& ranks,
             std::vector<Scored>& spare) {
    const auto count = static_cast<std::int64_t>(negatives.size());
    const Scored* sorted = negatives.data();
    sort_descending(negatives.data(), count, spare);
    ranks.resize(negatives.size());
    search_monotone(search, count, [&](std::int64_t k) { return Query{sorted[k].score, k + 1, 0, 0, 0}; }, 1,
                    static_cast<std::int32_t>(search.n_pos() + 1), ranks.data());
    double part = 0;
    for (std::int64_t k = 0; k < count; ++k) {
        placement.place(sorted[k].index, sorted[k].score, ranks[static_cast<std::size_t>(k)], part);
        placement.hand_over(k, part);
    }
    placement.add_sum(part);
}

// Sort, then let every negative look at every rank.
template <class T>
void by_greedy(const Search& search, std::vector<Scored>& negatives, Placement<T>& placement) {
    std::sort(negatives.begin(), negatives.end(), better);
    for (std::size_t k = 0; k < negatives.size(); ++k)
        placement.place(negatives[k].index, negatives[k].score, search.scan(static_cast<std::int64_t>(k) + 1, negatives[k].score));
}

}  // namespace maxmargin::ranking
