// What can be said of negatives from how many of them lie in which bucket, wherever they are: which buckets have one rank as a
// whole, between which ranks the members of the others lie, and which scores decide.
//
// The rank of a negative is monotone in (j, -s). The members of a bucket hold the positions after those of all better buckets, and
// counts of buckets are sums over the places where negatives are kept. So everything here is exact, whether these are one array
// or shards on many machines.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ranking/bucket_map.hpp"
#include "ranking/search.hpp"

namespace maxmargin::ranking {

// A rank per piece, bucket or point; in a plan 0 stands for a bucket that has to be opened.
using Ranks = std::vector<std::int32_t>;

// Negatives that still wait for their rank, grouped: a group holds the ranks first_rank + 1 .. first_rank + size.
struct Group {
    std::int64_t begin, end, first_rank;
    std::int32_t lo, hi;
    std::int64_t size() const { return end - begin; }
};

// Some negatives that are consecutive in the order by score: their exact positions, a bound of their scores on both sides,
// and the largest rank they can have.
struct Piece {
    std::int64_t first_rank, last_rank;
    double highest, lowest;
    std::int32_t hi;
};

// Scores above `high` take the lower of two ranks, scores at or below `low` the higher one.
struct Limits {
    double low, high;
};

// What members of a group can be: above `high` these have so many positives below them, at or below `low` those.
struct Side {
    Limits limits;
    float high_below, low_below;
};

class Merge {
  public:
    explicit Merge(const Search& search) : search_(search), n_neg_(search.n_neg()), last_(static_cast<std::int32_t>(search.n_pos() + 1)) {}

    // The rank of whoever is below all positives.
    std::int32_t last() const { return last_; }
    const Search& search() const { return search_; }

    // ---- what a sample says; all of it is proved later, so a bad sample costs time only -----------------------------------

    // `coarse` is a part of the sample, sorted with the best first.
    struct Sample {
        std::vector<double> scores, coarse;

        void sort_part() {
            const std::size_t step = std::max<std::size_t>(1, scores.size() / 512) | 1;  // odd: not always the same neighbour
            coarse.clear();
            for (std::size_t k = 0; k < scores.size(); k += step) coarse.push_back(scores[k]);
            std::sort(coarse.begin(), coarse.end(), std::greater<>());
        }
    };

    // The first k for which a negative of score sorted[k] (and all below) surely stays below every positive.
    std::int64_t first_dead(const std::vector<double>& sorted, std::int64_t sample_size) const {
        std::int64_t low = 0, high = static_cast<std::int64_t>(sorted.size());
        while (low < high) {
            const std::int64_t middle = low + (high - low) / 2;
            if (search_.rank(rank_at_least(middle, sample_size), sorted[static_cast<std::size_t>(middle)], 1, last_) == last_) high = middle;
            else low = middle + 1;
        }
        return low;
    }

    // `live`: how many of the coarse sample are not surely below every positive.
    Buckets choose_buckets(const Sample& sample, std::int64_t live) const { return choose_buckets(sample, live, n_neg_); }
    // For so many of the negatives. One in `tail_part` is in the first bucket, and the last, or beyond.
    Buckets choose_buckets(const Sample& sample, std::int64_t live, std::int64_t members, std::int64_t tail_part = 128) const {
        const auto size = static_cast<std::int64_t>(sample.coarse.size());
        const auto at = [&](std::int64_t k) { return sample.coarse[static_cast<std::size_t>(k)]; };
        const auto margin = static_cast<std::int64_t>(3 * std::sqrt(static_cast<double>(live) + 1)) + 2;
        const std::int64_t tail = size / tail_part;
        double top = std::min(search_.positive(1), at(tail)), bottom = at(std::min(size - 1 - tail, live + margin));
        // Nearly all negatives above every positive, or nearly all equal.
        if (!(bottom < top)) top = at(0), bottom = at(size - 1);
        std::int32_t count = 1024;
        const std::int64_t n_pos = search_.n_pos();
        // With many positives, several thresholds fall into a bucket; smaller ones then save more than they cost. In long lists they may
        // be smaller still, as long as their table stays in the nearest cache.
        const auto more = [&] {
            if (count < 64 * n_pos && count < 4096 && count * std::int64_t{128} < members) return true;
            return count < 16 * n_pos && count < 262144 && (count * std::int64_t{32} < members || (count < 4 * n_pos && count * std::int64_t{8} < members));
        };
        while (more()) count *= 2;
        const double quartiles = at(size / 4) - at(3 * size / 4);
        if (top - bottom > 8 * quartiles && quartiles > 0) return Buckets(top, bottom, count, at(size / 2), quartiles / 2);
        return Buckets(top, bottom, count);
    }

    // With k_b sampled scores above bucket b, its ranks are known up to five standard deviations.
    // Also says which part of the negatives the plan leaves open.
    Ranks plan_from_sample(const Buckets& buckets, const Sample& sample, double& open_part) const {
        const auto count = static_cast<std::size_t>(buckets.count());
        std::vector<std::int64_t> above(count + 1, 0);
        for (const double score : sample.scores) ++above[static_cast<std::size_t>(buckets.of(score)) + 1];
        for (std::size_t b = 0; b < count; ++b) above[b + 1] += above[b];
        const auto size = static_cast<std::int64_t>(sample.scores.size());
        Ranks lower(count), upper(count);
        search_monotone(search_, buckets.count(), [&](std::int64_t b) {
            return Query{buckets.highest(static_cast<std::int32_t>(b)), rank_at_least(above[static_cast<std::size_t>(b)], size), 0, 0, 0};
        }, 1, last_, lower.data());
        search_monotone(search_, buckets.count(), [&](std::int64_t b) {
            return Query{buckets.lowest(static_cast<std::int32_t>(b)), rank_at_most(above[static_cast<std::size_t>(b) + 1], size), 0, 0, 0};
        }, 1, last_, upper.data());
        std::int64_t open = 0;
        for (std::size_t b = 0; b < count; ++b)
            if (lower[b] != upper[b]) {
                lower[b] = 0;
                open += above[b + 1] - above[b];
            }
        open_part = static_cast<double>(open) / static_cast<double>(size);
        return lower;
    }

    // ---- what exact counts say: above[b] negatives lie in buckets before b -------------------------------------------------

    // The plan that exact counts give needs no proof. Groups come back with their bucket's number as `begin`.
    Ranks plan_from_counts(const Buckets& buckets, const std::vector<std::int64_t>& above, std::vector<Group>& opened) const {
        Ranks plan(static_cast<std::size_t>(buckets.count()), 0), lower, upper;
        std::vector<std::int32_t> filled;
        std::vector<Piece> pieces;
        for (std::int32_t b = 0; b < buckets.count(); ++b) {
            const std::int64_t before = above[static_cast<std::size_t>(b)], after = above[static_cast<std::size_t>(b) + 1];
            if (before == after) continue;
            filled.push_back(b);
            pieces.push_back({before + 1, after, buckets.highest(b), buckets.lowest(b), last_});
        }
        bound_pieces(pieces, nullptr, nullptr, lower, upper);
        opened.clear();
        for (std::size_t k = 0; k < filled.size(); ++k) {
            const auto b = static_cast<std::size_t>(filled[k]);
            if (lower[k] == upper[k]) plan[b] = lower[k];
            else opened.push_back({filled[k], filled[k] + 1, above[b], lower[k], upper[k]});
        }
        return plan;
    }

    // Is every settled bucket's rank right, and between which ranks do the open ones lie? Runs of buckets with one rank are proved
    // by their ends.
    bool prove(const Buckets& buckets, const Ranks& plan, const std::vector<std::int64_t>& above, std::vector<Group>& opened) const {
        struct Run {
            std::int32_t first, last, rank;
        };
        std::vector<Run> runs;
        for (std::int32_t b = 0; b < buckets.count(); ++b) {
            if (above[static_cast<std::size_t>(b)] == above[static_cast<std::size_t>(b) + 1]) continue;
            const std::int32_t rank = plan[static_cast<std::size_t>(b)];
            if (rank && !runs.empty() && runs.back().rank == rank) runs.back().last = b;
            else runs.push_back({b, b, rank});
        }
        Ranks first(runs.size()), last(runs.size());
        const auto count = static_cast<std::int64_t>(runs.size());
        search_monotone(search_, count, [&](std::int64_t k) {
            const std::int32_t b = runs[static_cast<std::size_t>(k)].first;
            return Query{buckets.highest(b), above[static_cast<std::size_t>(b)] + 1, 0, 0, 0};
        }, 1, last_, first.data());
        search_monotone(search_, count, [&](std::int64_t k) {
            const std::int32_t b = runs[static_cast<std::size_t>(k)].last;
            return Query{buckets.lowest(b), above[static_cast<std::size_t>(b) + 1], 0, 0, 0};
        }, 1, last_, last.data());
        for (std::size_t k = 0; k < runs.size(); ++k) {
            const Run& run = runs[k];
            if (run.rank && (first[k] != run.rank || last[k] != run.rank)) return false;
            if (!run.rank) opened.push_back({run.first, run.first + 1, above[static_cast<std::size_t>(run.first)], first[k], last[k]});
        }
        return true;
    }

    // Between which ranks do the members of each piece lie? The lower bounds are one monotone search. The lower bound of
    // the piece after next is an upper bound too (neighbours overlap by rounding, hence not of the next), and only where
    // the two differ is it sharpened. `points[g]` pieces belong to group g; no groups: all pieces are one sequence.
    void bound_pieces(const std::vector<Piece>& pieces, const std::vector<Group>* groups, const std::vector<std::int64_t>* points, Ranks& lower,
                      Ranks& upper) const {
        const std::size_t count = pieces.size();
        lower.resize(count);
        upper.resize(count);
        const auto first = [&](std::int64_t k) {
            const Piece& piece = pieces[static_cast<std::size_t>(k)];
            return Query{piece.highest, piece.first_rank, 0, 0, 0};
        };
        if (groups) search_groups(*groups, *points, first, lower);
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
    // stay undecided; sorted, they are compared without this loss. Where one rank is left all are low, where several are
    // none is decided.
    std::vector<Limits> limits(const std::vector<Group>& groups, const std::vector<std::int64_t>& sizes) const {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        std::vector<Query> ends;
        for (std::size_t g = 0; g < groups.size(); ++g)
            if (groups[g].hi == groups[g].lo + 1 && sizes[g] > 0) {
                ends.push_back({0, groups[g].first_rank + 1, groups[g].lo, 0, 0});
                ends.push_back({0, groups[g].first_rank + sizes[g], groups[g].lo, 0, 0});
            }
        std::vector<double> thresholds(ends.size());
        if (!ends.empty()) search_.thresholds(ends.data(), ends.size(), thresholds.data());
        std::vector<Limits> found;
        found.reserve(groups.size());
        std::size_t at = 0;
        for (std::size_t g = 0; g < groups.size(); ++g) {
            const Group& group = groups[g];
            if (group.hi != group.lo + 1 || sizes[g] == 0) {
                found.push_back({group.lo == group.hi ? infinity : -infinity, infinity});
                continue;
            }
            const double scale = std::max(std::fabs(thresholds[at + 1]), std::fabs(search_.positive(group.lo)));
            const double rounding = 4 * std::numeric_limits<double>::epsilon() * scale;
            // Thresholds of a loss written in Python may fall by more than that: what lies between them is undecided too.
            const auto ends = std::minmax({thresholds[at] - rounding, thresholds[at + 1] + rounding});
            found.push_back({ends.first, ends.second});
            at += 2;
        }
        return found;
    }

    // The same with how many positives are below those that are decided.
    std::vector<Side> sides(const std::vector<Group>& groups, const std::vector<std::int64_t>& sizes) const {
        const std::vector<Limits> decisive = limits(groups, sizes);
        std::vector<Side> sides;
        for (std::size_t g = 0; g < groups.size(); ++g)
            sides.push_back({decisive[g], static_cast<float>(last_ - groups[g].lo), static_cast<float>(last_ - groups[g].hi)});
        return sides;
    }

    // The answers for points that belong to the groups in order, `points[g]` of them to group g. Each group's ranks are
    // bounded already; only where batches are dear is it better to search all of them as one sequence.
    template <class At>
    void search_groups(const std::vector<Group>& groups, const std::vector<std::int64_t>& points, const At& at, Ranks& answers) const {
        if (search_.prefers_batches()) {
            search_monotone(search_, static_cast<std::int64_t>(answers.size()), at, 1, last_, answers.data());
            return;
        }
        std::int64_t begin = 0;
        for (std::size_t g = 0; g < points.size(); ++g) {
            search_monotone(search_, points[g], [&](std::int64_t k) { return at(begin + k); }, groups[g].lo, groups[g].hi, answers.data() + begin);
            begin += points[g];
        }
    }

    // Of `count` equal scores that hold the positions first_rank + 1 and on: how many take each of the ranks lo .. hi.
    // By bisection over the positions: as many searches as ranks, not as scores.
    std::vector<std::int64_t> deal_ties(double score, std::int64_t first_rank, std::int64_t count, std::int32_t lo, std::int32_t hi) const {
        std::vector<std::int64_t> takers(static_cast<std::size_t>(hi - lo) + 1, 0);
        visit_monotone(search_, count, [&](std::int64_t k) { return Query{score, first_rank + k + 1, 0, 0, 0}; }, lo, hi,
                       [&](std::int64_t first, std::int64_t last, std::int32_t rank) { takers[static_cast<std::size_t>(rank - lo)] += last - first + 1; });
        return takers;
    }

    // A rank that is almost surely not above the true rank of a score with k sampled scores above it.
    std::int64_t rank_at_least(std::int64_t k, std::int64_t sample_size) const {
        const double cautious = static_cast<double>(k) - 5 * std::sqrt(static_cast<double>(k) + 1) - 1;
        return 1 + static_cast<std::int64_t>(std::max(0.0, cautious) / static_cast<double>(sample_size) * static_cast<double>(n_neg_));
    }
    std::int64_t rank_at_most(std::int64_t k, std::int64_t sample_size) const {
        const double cautious = static_cast<double>(k) + 5 * std::sqrt(static_cast<double>(k) + 1) + 1;
        return std::min(n_neg_, 1 + static_cast<std::int64_t>(cautious / static_cast<double>(sample_size) * static_cast<double>(n_neg_)));
    }

  private:
    const Search& search_;
    std::int64_t n_neg_;
    std::int32_t last_;
};

}  // namespace maxmargin::ranking
