// Negatives that wait for their rank in groups, and how groups shrink: thresholds where two ranks are in question, finer
// buckets where a group is large, and at the end a sort of the few that remain.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ranking/bucket_map.hpp"
#include "ranking/classic.hpp"
#include "ranking/merge.hpp"
#include "ranking/placement.hpp"
#include "ranking/search.hpp"

namespace maxmargin::ranking {

struct Waiting {
    Buffer<double> score;
    Buffer<std::int32_t> index;
    std::vector<Group> groups;  // in rank order
};

template <class T>
class Settler {
  public:
    Settler(const Search& search, Placement<T>& placement)
        : merge_(search), placement_(placement) {}

    Waiting waiting;

    // Place everyone.
    void settle() {
        for (int round = 0; round < 6; ++round) {
            split_by_threshold();
            if (!split_by_buckets()) break;
        }
        split_by_threshold();
        sort_groups();
    }

  private:
    // Groups between two ranks shrink: deciding some narrows the positions, and so the limits, of the others.
    void split_by_threshold() {
        std::vector<std::int64_t> sizes;
        for (int round = 0; round < 3; ++round) {
            sizes.clear();
            for (const Group& group : waiting.groups) sizes.push_back(group.size());
            const std::vector<Limits> limits = merge_.limits(waiting.groups, sizes);
            bool progress = false;
            for (std::size_t g = 0; g < waiting.groups.size(); ++g) {
                Group& group = waiting.groups[g];
                if (group.hi != group.lo + 1 || group.size() == 0) continue;
                const Limits limit = limits[g];
                const std::int64_t before = group.size();
                std::int64_t open = group.begin, first_rank = group.first_rank;
                double part = 0;
                for (std::int64_t k = group.begin; k < group.end; ++k) {
                    const double score = waiting.score[k];
                    const std::int32_t index = waiting.index[k];
                    placement_.hand_over(k, part);
                    if (score > limit.high) {
                        placement_.place(index, score, group.lo, part);
                        ++first_rank;
                    } else if (score <= limit.low) {
                        placement_.place(index, score, group.hi, part);
                    } else {
                        waiting.score[open] = score;
                        waiting.index[open++] = index;
                    }
                }
                placement_.add_sum(part);
                group.end = open;
                group.first_rank = first_rank;
                progress |= group.size() < before;
            }
            if (!progress) break;
        }
        auto& groups = waiting.groups;
        groups.erase(std::remove_if(groups.begin(), groups.end(), [](const Group& g) { return g.size() == 0; }), groups.end());
    }

    // Cut large groups into finer buckets with exact counts. False if there was none to cut.
    bool split_by_buckets() {
        std::vector<Piece> pieces;
        std::vector<std::int64_t> begins, points(waiting.groups.size());
        pieces.reserve(1024), begins.reserve(1024);
        bool cut = false;
        for (std::size_t g = 0; g < waiting.groups.size(); ++g) {
            const std::size_t before = pieces.size();
            cut |= cut_group(waiting.groups[g], pieces, begins);
            points[g] = static_cast<std::int64_t>(pieces.size() - before);
        }
        if (!cut) return false;
        Ranks lower, upper;
        merge_.bound_pieces(pieces, &waiting.groups, &points, lower, upper);
        std::vector<Group> rest;
        for (std::size_t k = 0; k < pieces.size(); ++k) {
            const std::int64_t begin = begins[k], end = begin + pieces[k].last_rank - pieces[k].first_rank + 1;
            if (lower[k] < upper[k]) {
                rest.push_back({begin, end, pieces[k].first_rank - 1, lower[k], upper[k]});
                continue;
            }
            double part = 0;
            for (std::int64_t i = begin; i < end; ++i) {
                placement_.place(waiting.index[i], waiting.score[i], lower[k], part);
                placement_.hand_over(i, part);
            }
            placement_.add_sum(part);
        }
        waiting.groups.swap(rest);
        return !waiting.groups.empty();
    }

    // The pieces of one group, with the place where each begins. False if it stays in one piece.
    bool cut_group(const Group& group, std::vector<Piece>& pieces, std::vector<std::int64_t>& begins) {
        const std::int64_t size = group.size();
        double* score = waiting.score.data() + group.begin;
        std::int32_t* index = waiting.index.data() + group.begin;
        double highest = score[0], lowest = score[0];
        for (std::int64_t k = 1; k < size; ++k) {
            highest = score[k] > highest ? score[k] : highest;
            lowest = score[k] < lowest ? score[k] : lowest;
        }
        const auto whole = [&] {
            pieces.push_back({group.first_rank + 1, group.first_rank + size, highest, lowest, group.hi});
            begins.push_back(group.begin);
            return false;
        };
        if (size <= 48 || lowest == highest) return whole();
        // A robust range: heavy tails stay together for the next round.
        double probe[64];
        for (std::int64_t k = 0; k < 64; ++k) probe[k] = score[k * size / 64];
        std::sort(probe, probe + 64);
        const double spread = probe[62] - probe[1];
        const double bottom = std::max(lowest, probe[1] - spread / 4), top = std::min(highest, probe[62] + spread / 4);
        std::int32_t count = 16;
        while (count * std::int64_t{8} < size && count < 8192) count *= 2;
        const Buckets buckets(top, bottom, count);
        if (!(bottom < top) || !buckets.usable()) return whole();

        score_copy_.assign(score, score + size);
        index_copy_.assign(index, index + size);
        bucket_.resize(static_cast<std::size_t>(size));
        for (std::size_t k = 0; k < bucket_.size(); ++k) bucket_[k] = buckets.of<false>(score_copy_[k]);
        std::vector<std::int64_t> start(static_cast<std::size_t>(count) + 1, 0);
        for (const std::int32_t b : bucket_) ++start[static_cast<std::size_t>(b) + 1];
        std::int64_t largest = 0;
        for (std::int32_t b = 0; b < count; ++b) {
            const auto at = static_cast<std::size_t>(b);
            const std::int64_t members = start[at + 1];
            start[at + 1] += start[at];
            if (members == 0) continue;
            largest = std::max(largest, members);
            const std::int64_t first_rank = group.first_rank + start[at];
            pieces.push_back({first_rank + 1, first_rank + members, std::min(highest, buckets.highest(b)), std::max(lowest, buckets.lowest(b)), group.hi});
            begins.push_back(group.begin + start[at]);
        }
        for (std::size_t k = 0; k < bucket_.size(); ++k) {
            const std::int64_t slot = start[static_cast<std::size_t>(bucket_[k])]++;
            score[slot] = score_copy_[k];
            index[slot] = index_copy_[k];
        }
        return largest < size;
    }

    void sort_groups() {
        std::vector<Scored> sorted, spare;
        std::vector<std::int64_t> ranks, points;
        for (const Group& group : waiting.groups) {
            points.push_back(group.size());
            const std::size_t from = sorted.size();
            for (std::int64_t k = group.begin; k < group.end; ++k) {
                sorted.push_back({waiting.score[k], waiting.index[k]});
                ranks.push_back(group.first_rank + 1 + k - group.begin);
            }
            sort_descending(sorted.data() + from, group.size(), spare);
        }
        Ranks answers(sorted.size());
        merge_.search_groups(waiting.groups, points, [&](std::int64_t k) {
            return Query{sorted[static_cast<std::size_t>(k)].score, ranks[static_cast<std::size_t>(k)], 0, 0, 0};
        }, answers);
        double part = 0;
        for (std::size_t k = 0; k < sorted.size(); ++k) {
            placement_.place(sorted[k].index, sorted[k].score, answers[k], part);
            placement_.hand_over(static_cast<std::int64_t>(k), part);
        }
        placement_.add_sum(part);
    }

    Merge merge_;
    Placement<T>& placement_;
    std::vector<double> score_copy_;
    std::vector<std::int32_t> index_copy_, bucket_;
};

}  // namespace maxmargin::ranking
