// Negatives that wait for their rank in groups, and how groups shrink: thresholds where two ranks are in question, finer
// buckets where a group is large, and at the end a sort of the few that remain.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bucket_map.hpp"
#include "classic.hpp"
#include "placement.hpp"
#include "search.hpp"

namespace maxmargin::ranking {

// Negatives that still wait for their rank, grouped: a group holds the ranks first_rank + 1 .. first_rank + size.
struct Group {
    std::int64_t begin, end, first_rank;
    std::int32_t lo, hi;
    std::int64_t size() const { return end - begin; }
};

struct Waiting {
    Buffer<double> score;
    Buffer<std::int32_t> index;
    std::vector<Group> groups;  // in rank order
};

template <class T>
class Settler {
  public:
    Settler(const Search& search, Placement<T>& placement)
        : search_(search), placement_(placement), last_(static_cast<std::int32_t>(search.n_pos() + 1)) {}

    Waiting waiting;

    // A rank per piece, bucket or point.
    using Ranks = std::vector<std::int32_t>;

    // Some negatives that are consecutive in the order by score: their exact positions, a bound of their scores on both sides,
    // and the largest rank they can have.
    struct Piece {
        std::int64_t first_rank, last_rank;
        double highest, lowest;
        std::int32_t hi;
    };

    // Between which ranks do the members of each piece lie? The lower bounds are one monotone search. The lower bound of
    // the piece after next is an upper bound too (neighbours overlap by rounding, hence not of the next), and only where
    // the two differ is it sharpened. `points[g]` pieces belong to group g; no groups: all pieces are one sequence.
    void bound_pieces(const std::vector<Piece>& pieces, const std::vector<std::int64_t>* points, Ranks& lower, Ranks& upper) const {
        const std::size_t count = pieces.size();
        lower.resize(count);
        upper.resize(count);
        const auto first = [&](std::int64_t k) {
            const Piece& piece = pieces[static_cast<std::size_t>(k)];
            return Query{piece.highest, piece.first_rank, 0, 0, 0};
        };
        if (points) search_groups(*points, first, lower);
        else search_monotone(search_, static_cast<std::int64_t>(count), first, 1, last_, lower.data());
        std::vector<Query> sharpen;
        for (std::size_t k = 0; k < count; ++k) {
            const Piece& piece = pieces[k];
            const bool bounded = k + 2 < count && pieces[k + 2].highest <= piece.lowest;
            upper[k] = bounded ? std::min(piece.hi, lower[k + 2]) : piece.hi;
            if (lower[k] < upper[k]) sharpen.push_back({piece.lowest, piece.last_rank, lower[k], upper[k], 0});
        }
        if (!sharpen.empty()) search_.solve(sharpen.data(), sharpen.size());
        std::size_t at = 0;
        for (std::size_t k = 0; k < count; ++k)
            if (lower[k] < upper[k]) upper[k] = sharpen[at++].rank;
    }

    // Between the ranks l and l+1 the sign of one step decides: a negative of rank j takes l+1 iff its score is at most
    // threshold(l, j), and thresholds rise with j. So, of negatives that hold known ranks, those above the threshold of
    // the last take l and those at or below the threshold of the first take l+1. Scores within rounding of a threshold
    // stay undecided; sorted, they are compared without this loss.
    struct Limits {
        double low, high;
    };
    // `ends` has two queries, first and last rank, for each pair of limits.
    std::vector<Limits> limits_between(const std::vector<Query>& ends) const {
        std::vector<double> thresholds(ends.size());
        if (!ends.empty()) search_.thresholds(ends.data(), ends.size(), thresholds.data());
        std::vector<Limits> limits;
        limits.reserve(ends.size() / 2);
        for (std::size_t k = 0; k < ends.size(); k += 2) {
            const double scale = std::max(std::fabs(thresholds[k + 1]), std::fabs(search_.positive(ends[k].lo)));
            const double rounding = 4 * std::numeric_limits<double>::epsilon() * scale;
            limits.push_back({thresholds[k] - rounding, thresholds[k + 1] + rounding});
        }
        return limits;
    }

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
        std::vector<Query> ends;
        for (int round = 0; round < 3; ++round) {
            ends.clear();
            for (const Group& group : waiting.groups)
                if (group.hi == group.lo + 1 && group.size() > 0) {
                    ends.push_back({0, group.first_rank + 1, group.lo, 0, 0});
                    ends.push_back({0, group.first_rank + group.size(), group.lo, 0, 0});
                }
            if (ends.empty()) break;
            const std::vector<Limits> limits = limits_between(ends);
            std::size_t next = 0;
            bool progress = false;
            for (Group& group : waiting.groups) {
                if (group.hi != group.lo + 1 || group.size() == 0) continue;
                const Limits limit = limits[next++];
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

    // The answers for points that belong to the groups in order, `points[g]` of them to group g. Each group's ranks are
    // bounded already; only where batches are dear is it better to search all of them as one sequence.
    template <class At>
    void search_groups(const std::vector<std::int64_t>& points, const At& at, Ranks& answers) const {
        if (search_.prefers_batches()) {
            search_monotone(search_, static_cast<std::int64_t>(answers.size()), at, 1, last_, answers.data());
            return;
        }
        std::int64_t begin = 0;
        for (std::size_t g = 0; g < points.size(); ++g) {
            const Group& group = waiting.groups[g];
            search_monotone(search_, points[g], [&](std::int64_t k) { return at(begin + k); }, group.lo, group.hi, answers.data() + begin);
            begin += points[g];
        }
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
        bound_pieces(pieces, &points, lower, upper);
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
        search_groups(points, [&](std::int64_t k) {
            return Query{sorted[static_cast<std::size_t>(k)].score, ranks[static_cast<std::size_t>(k)], 0, 0, 0};
        }, answers);
        double part = 0;
        for (std::size_t k = 0; k < sorted.size(); ++k) {
            placement_.place(sorted[k].index, sorted[k].score, answers[k], part);
            placement_.hand_over(static_cast<std::int64_t>(k), part);
        }
        placement_.add_sum(part);
    }

    const Search& search_;
    Placement<T>& placement_;
    std::int32_t last_;
    std::vector<double> score_copy_;
    std::vector<std::int32_t> index_copy_, bucket_;
};

}  // namespace maxmargin::ranking
