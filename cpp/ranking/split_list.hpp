// One list whose negatives are scattered over shards: what a shard does, and what the client makes of the shards' answers.
//
// A client knows the positives' scores, chooses buckets, adds up the shards' counts and knows from these which buckets have one rank.
// Shards write that down and put the members of the other buckets aside, in groups. Where two ranks are in question limits decide
// nearly all of them; large groups with more ranks are split into finer buckets. What is left is sent, equal scores as one number,
// and the client finds the ranks. Nothing that travels is as long as a shard.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "numeric/compensated_sum.hpp"
#include "numeric/threads.hpp"
#include "ranking/bucket_map.hpp"
#include "ranking/combination.hpp"
#include "ranking/cutoff.hpp"
#include "ranking/merge.hpp"
#include "ranking/placement.hpp"
#include "ranking/score_blocks.hpp"
#include "ranking/search.hpp"
#include "ranking/shard.hpp"

namespace maxmargin::ranking {

// Undecided members: equal scores of a group are one entry. In the order of the groups, the best score first.
struct Entries {
    std::vector<std::int32_t> group;
    std::vector<double> score;
    std::vector<std::int64_t> count;

    void reserve(std::size_t size) { group.reserve(size), score.reserve(size), count.reserve(size); }
};

// The negatives of one list in a shard. `below` has the number of positives below each of them once all are placed.
class ListShard {
  public:
    ListShard(const double* scores, double* below, std::int64_t n, int n_threads) : scores_(scores), below_(below), n_(n), shard_(scores, n, none_, n_threads) {}

    // Scores that are made when they are first looked at, and kept in `room` if they will be needed again.
    ListShard(Combination made_of, double* room, double* below, std::int64_t n, int n_threads) : ListShard(room, below, n, n_threads) {
        made_of_ = std::move(made_of), room_ = room, n_threads_ = n_threads;
    }

    std::int64_t size() const { return n_; }

    // Have all of them the score of the first? Elsewhere the answer comes at once.
    bool all_equal() const {
        if (!room_) return n_ == 0 || shard_.all_equal(scores_[0]);
        double part[kPart];
        const double score = first();
        for (std::int64_t at = 0; at < n_; at += kPart) {
            const std::int64_t size = std::min(kPart, n_ - at);
            made_of_.make(at, size, part);
            for (std::int64_t k = 0; k < size; ++k)
                if (part[k] != score) return false;
        }
        return true;
    }
    // The score of the first, if there is one.
    double first() const {
        double score = 0;
        if (n_ > 0 && room_) made_of_.make(0, 1, &score);
        return n_ > 0 && !room_ ? scores_[0] : score;
    }
    // All scores; whether they are finite and can be added up.
    bool make() {
        return room_ ? made_of_.make_all(n_, n_threads_, std::exchange(room_, nullptr)) : all_fit(scores_, n_);
    }
    // Some of them, and whether these are finite.
    bool sample(std::int64_t size, std::vector<double>& found) { return n_ == 0 || whole().draw(std::min(size, n_), nullptr, found); }
    // The best ones, in no order.
    void best(std::int64_t count, std::vector<double>& found) {
        if (std::min(n_, count) > 0) whole(), best_negatives(scores_, n_, {}, std::min(n_, count), found);
    }
    // How many are in which bucket, and whether all scores are finite.
    bool count(const Buckets& buckets, std::vector<std::int64_t>& counts) {
        if (!room_) return shard_.count(buckets, counts);
        double* const room = std::exchange(room_, nullptr);
        return shard_.count(buckets, counts, [&](std::int64_t first, std::int64_t last, std::size_t) {
            made_of_.make(first, last - first, room + first);
            return static_cast<const double*>(room + first);
        });
    }

    // From where scores are counted, if that was not known before members were put aside.
    void count_from(double origin) { origin_ = origin; }

    // Where numbers of positives below are written to from now on.
    void write_to(double* below) { below_ = below; }

    // Keep those above a floor, as one group; all others are said to have no positive below them. `below` is that of the ones kept,
    // in their order. Their rows go to `rows`; whether all scores are finite.
    bool keep_above(double floor, std::vector<std::int32_t>& rows) {
        total_ = {}, origin_ = 0;
        aside_.count = 0;
        const bool is_fit = put_above(floor);
        rows.assign(aside_.index.data(), aside_.index.data() + aside_.count);
        for (std::int64_t k = 0; k < aside_.count; ++k) aside_.index[k] = static_cast<std::int32_t>(k), aside_.group[k] = 0;
        return is_fit;
    }

    // Buckets with one rank are written down; those with below = -0.0 are open, and become the groups, in their order. How many.
    std::size_t write(const Buckets& buckets, const std::vector<float>& below, double origin) {
        total_ = {}, origin_ = origin;
        aside_.count = 0;
        whole().write(buckets, below, 1.0, origin, below_, total_, aside_, nullptr);
        std::vector<std::int32_t> group_of(below.size(), 0);
        std::int32_t n_groups = 0;
        for (std::size_t b = 0; b < below.size(); ++b)
            if (std::signbit(below[b])) group_of[b] = n_groups++;
        for (std::int64_t k = 0; k < aside_.count; ++k) aside_.group[k] = group_of[static_cast<std::size_t>(aside_.group[k])];
        return static_cast<std::size_t>(n_groups);
    }
    // All of them are one group.
    void put_aside(double origin) {
        total_ = {}, origin_ = origin;
        aside_.count = 0;
        whole();
        aside_.reserve(n_);
        aside_.count = n_;
        for (std::int64_t k = 0; k < n_; ++k) aside_.index[k] = static_cast<std::int32_t>(k), aside_.score[k] = scores_[k], aside_.group[k] = 0;
    }

    // Place the members that the limits decide.
    std::vector<Standing> decide(const std::vector<Side>& sides) { return shard_.decide(aside_, sides, nullptr, 1.0, origin_, below_, total_); }

    // Split every group into buckets of its own; new groups are numbered by group, then bucket. How many each of them has.
    std::vector<std::int64_t> split(const std::vector<Buckets>& buckets) {
        std::vector<std::int32_t> first(buckets.size() + 1, 0);
        for (std::size_t g = 0; g < buckets.size(); ++g) first[g + 1] = first[g] + buckets[g].count();
        std::vector<std::int64_t> counts(static_cast<std::size_t>(first.back()), 0);
        for (std::int64_t k = 0; k < aside_.count; ++k) {
            const auto g = static_cast<std::size_t>(aside_.group[k]);
            const std::int32_t now = first[g] + (buckets[g].count() == 1 ? 0 : buckets[g].of(aside_.score[k]));
            aside_.group[k] = now;
            ++counts[static_cast<std::size_t>(now)];
        }
        return counts;
    }

    // Members go by group, score and row from here on.
    Entries undecided() {
        sort_aside();
        Entries entries;
        entries.reserve(static_cast<std::size_t>(aside_.count));
        for (std::int64_t k = 0; k < aside_.count; ++k) {
            const double score = aside_.score[k];
            const std::int32_t group = aside_.group[k];
            if (!entries.count.empty() && entries.group.back() == group && entries.score.back() == score) ++entries.count.back();
            else entries.group.push_back(group), entries.score.push_back(score), entries.count.push_back(1);
        }
        return entries;
    }

    // Place the undecided in their order: the next count[r] members have below[r] positives below them.
    void place(const double* below, const std::int64_t* count, std::size_t n_runs) {
        std::int64_t at = 0;
        double part = 0;
        for (std::size_t r = 0; r < n_runs; ++r)
            for (std::int64_t k = 0; k < count[r]; ++k, ++at) {
                if (at == aside_.count) throw std::invalid_argument("more members are placed than are undecided");
                hand_over(at, part);
                put(aside_.index[at], aside_.score[at], below[r], part);
            }
        if (at != aside_.count) throw std::invalid_argument("not all undecided members are placed");
        total_.add(part);
        aside_.discard();
    }

    // All negatives are equal and take their ranks in the order of the rows.
    void place_equal(const double* below, const std::int64_t* count, std::size_t n_runs, double origin) {
        total_ = {}, origin_ = origin;
        const double score = first();
        std::int64_t at = 0;
        for (std::size_t r = 0; r < n_runs; ++r) {
            if (at + count[r] > n_) throw std::invalid_argument("more negatives are placed than there are");
            std::fill(below_ + at, below_ + at + count[r], below[r]);
            if (count[r] > 0) total_.add(below[r] * static_cast<double>(count[r]) * (score - origin));
            at += count[r];
        }
        if (at != n_) throw std::invalid_argument("not all negatives are placed");
    }

    // Sum of the positives below each, times (score - origin).
    double total() const { return total_.value(); }

  private:
    static constexpr std::int64_t kPart = 1024;

    // The shard, with all scores there.
    const Shard<double>& whole() {
        if (room_) make();
        return shard_;
    }

    // Scores are not kept where few of them are needed: to write them down would cost more than to make them.
    bool put_above(double floor) {
        if (!room_) return shard_.keep_above(floor, aside_);
        std::vector<std::vector<double>> parts(shard_.n_tasks());
        return shard_.keep_above(floor, aside_, [&](std::int64_t first, std::int64_t last, std::size_t task) {
            parts[task].resize(static_cast<std::size_t>(last - first));
            made_of_.make(first, last - first, parts[task].data());
            return static_cast<const double*>(parts[task].data());
        });
    }

    // By group first, which costs two walks; what is left to sort is short. Rows are in ascending order before.
    void sort_aside() {
        struct Member {
            double score;
            std::int32_t index;
        };
        std::int32_t n_groups = 0;
        for (std::int64_t k = 0; k < aside_.count; ++k) n_groups = std::max(n_groups, aside_.group[k] + 1);
        std::vector<std::size_t> ends(static_cast<std::size_t>(n_groups) + 1, 0);
        for (std::int64_t k = 0; k < aside_.count; ++k) ++ends[static_cast<std::size_t>(aside_.group[k]) + 1];
        std::partial_sum(ends.begin(), ends.end(), ends.begin());
        std::vector<Member> members(static_cast<std::size_t>(aside_.count));
        // Where a group ends is where the next begins: what was a beginning is an end afterwards.
        for (std::int64_t k = 0; k < aside_.count; ++k)
            members[ends[static_cast<std::size_t>(aside_.group[k])]++] = {aside_.score[k], aside_.index[k]};
        std::size_t begin = 0;
        for (std::int32_t g = 0; g < n_groups; ++g) {
            const std::size_t end = ends[static_cast<std::size_t>(g)];
            std::sort(members.begin() + static_cast<std::ptrdiff_t>(begin), members.begin() + static_cast<std::ptrdiff_t>(end),
                      [](const Member& a, const Member& b) { return a.score != b.score ? a.score > b.score : a.index < b.index; });
            for (std::size_t k = begin; k < end; ++k) {
                const auto at = static_cast<std::int64_t>(k);
                aside_.score[at] = members[k].score, aside_.index[at] = members[k].index, aside_.group[at] = g;
            }
            begin = end;
        }
    }

    void put(std::int32_t index, double score, double below, double& part) {
        below_[index] = below;
        part += below * (score - origin_);
    }
    void hand_over(std::int64_t k, double& part) {
        if (k % kTermsPerPart == 0) total_.add(part), part = 0;
    }

    const double* scores_;
    double* below_;
    std::int64_t n_;
    Combination made_of_{{}, {}};
    // Where scores go to, as long as they are not there.
    double* room_ = nullptr;
    int n_threads_ = 1;
    std::vector<std::int32_t> none_;
    Shard<double> shard_;
    Members aside_;
    CompensatedSum total_;
    double origin_ = 0;
};

// What the client knows of the list, from the first counts to the last rank.
class ListMerge {
  public:
    explicit ListMerge(const Search& search) : search_(search), merge_(search), takers_(static_cast<std::size_t>(search.n_pos()) + 2, 0) {}

    // Buckets for a sample of the negatives; not `usable` where scores are too close together.
    Buckets choose_buckets(std::vector<double> scores) const {
        Merge::Sample sample;
        sample.scores = std::move(scores);
        sample.sort_part();
        const auto size = static_cast<std::int64_t>(sample.coarse.size());
        // The first bucket has most of the ranks: small as it is, its members can be sent, and need not be split in two more rounds.
        return merge_.choose_buckets(sample, merge_.first_dead(sample.coarse, size), search_.n_neg(), 512);
    }

    // Which buckets have one rank, which members have to be put aside, and how many these are.
    struct Plan {
        std::vector<float> below;  // -0.0: open
        std::int64_t open = 0;
    };
    Plan plan(const Buckets& buckets, const std::vector<std::int64_t>& counts) {
        std::vector<std::int64_t> above(counts.size() + 1, 0);
        for (std::size_t b = 0; b < counts.size(); ++b) above[b + 1] = above[b] + counts[b];
        check_total(above.back());
        std::fill(takers_.begin(), takers_.end(), 0);
        const Ranks ranks = merge_.plan_from_counts(buckets, above, groups_);
        Plan plan{std::vector<float>(counts.size(), -0.0f), 0};
        float last = 0;
        for (std::size_t b = counts.size(); b-- > 0;) {
            if (ranks[b]) take(ranks[b], counts[b]), last = below(ranks[b]);
            // An empty bucket is like the next one: the fewer different numbers, the less is sent.
            if (ranks[b] || counts[b] == 0) plan.below[b] = last;
        }
        sizes_.clear();
        for (const Group& group : groups_) {
            sizes_.push_back(counts[static_cast<std::size_t>(group.begin)]);
            plan.open += sizes_.back();
        }
        return plan;
    }
    // Nothing is known: all negatives are one group.
    void all_in_one() {
        std::fill(takers_.begin(), takers_.end(), 0);
        groups_.assign(1, {0, 0, 0, 1, merge_.last()});
        sizes_.assign(1, search_.n_neg());
    }

    // So many negatives are above a floor. Whether that proves all others to be below every positive; if so, those are one group.
    bool keep_above(std::int64_t count, double floor) {
        if (count < search_.n_neg() && search_.rank(count + 1, floor, 1, merge_.last()) != merge_.last()) return false;
        std::fill(takers_.begin(), takers_.end(), 0);
        take(merge_.last(), search_.n_neg() - count);
        groups_.assign(1, {0, 0, 0, 1, merge_.last()});
        sizes_.assign(1, count);
        return true;
    }

    // Sides of all groups. Those that say nothing are alike, or like the one before: the fewer different ones, the less is sent.
    std::vector<Side> sides() const {
        std::vector<Side> sides = merge_.sides(groups_, sizes_);
        for (std::size_t g = 0; g < sides.size(); ++g) {
            if (sizes_[g] == 0) sides[g] = g > 0 ? sides[g - 1] : Side{};
            else if (std::isinf(sides[g].limits.low) && sides[g].limits.low < 0 && std::isinf(sides[g].limits.high) && sides[g].limits.high > 0)
                sides[g].low_below = sides[g].high_below = 0;
        }
        return sides;
    }

    // What all shards have decided.
    void decided(const std::vector<Standing>& standing) {
        if (standing.size() != groups_.size()) throw std::invalid_argument("shards answer for other groups");
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            const Standing& all = standing[g];
            const std::int64_t under = sizes_[g] - all.above - all.undecided;
            if (under < 0) throw std::runtime_error("shards count more members than a bucket has");
            take(groups_[g].lo, all.above), take(groups_[g].hi, under);
            groups_[g].first_rank += all.above;
            sizes_[g] = all.undecided;
        }
        ranges_ = standing;
    }

    std::int64_t undecided() const { return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}); }

    // Finer buckets for groups that are large; one bucket is all of a group. Empty if none is to be split.
    std::vector<Buckets> splits() {
        splits_.clear();
        bool any = false;
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            std::int32_t count = 16;
            while (count * std::int64_t{8} < sizes_[g] && count < 8192) count *= 2;
            const bool large = sizes_[g] > 48 && ranges_[g].lowest < ranges_[g].highest;
            const Buckets finer(large ? ranges_[g].highest : 1.0, large ? ranges_[g].lowest : 0.0, count);
            const bool cut = large && finer.usable();
            splits_.push_back(cut ? finer : Buckets(1.0, 0.0, 1));
            any |= cut;
        }
        if (!any) splits_.clear();
        return splits_;
    }
    // Groups anew, from how many members the buckets of `splits` have.
    void split(const std::vector<std::int64_t>& counts) {
        std::vector<Piece> pieces;
        std::vector<std::int64_t> points;
        std::size_t at = 0;
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            const Buckets& finer = splits_[g];
            const Standing& range = ranges_[g];
            std::int64_t position = groups_[g].first_rank;
            for (std::int32_t b = 0; b < finer.count(); ++b, ++at) {
                const std::int64_t members = counts.at(at);
                // Groups without members stay, so that shards and client number them alike.
                const bool whole = finer.count() == 1;
                pieces.push_back({position + 1, position + members, whole ? range.highest : std::min(range.highest, finer.highest(b)),
                                  whole ? range.lowest : std::max(range.lowest, finer.lowest(b)), groups_[g].hi});
                position += members;
            }
            if (position != groups_[g].first_rank + sizes_[g]) throw std::runtime_error("the parts of a bucket do not add up");
            points.push_back(finer.count());
        }
        bound_filled(pieces, points);
    }

    // The ranks of all that is undecided. Entries of all shards, `shard[e]` said by whom; those of a shard in its order. Runs of
    // (positives below, members), in the same order, for each shard.
    struct Runs {
        std::vector<double> below;
        std::vector<std::int64_t> count;
    };
    std::vector<Runs> rank(const Entries& entries, const std::vector<std::int32_t>& shard, std::int32_t n_shards) {
        const std::vector<Entry> order = merged(entries, shard);
        // Equal scores of all shards are one tie, in the order of the shards.
        struct Tie {
            std::size_t first, last;
            std::int64_t position, count;
        };
        std::vector<Tie> ties;
        ties.reserve(order.size());
        std::vector<std::int64_t> points(groups_.size(), 0), seen(groups_.size(), 0);
        for (std::size_t k = 0; k < order.size();) {
            const auto g = static_cast<std::size_t>(order[k].group);
            if (g >= groups_.size()) throw std::invalid_argument("shards answer for other groups");
            Tie tie{k, k, groups_[g].first_rank + seen[g], 0};
            for (; k < order.size() && order[k].group == order[tie.first].group && order[k].score == order[tie.first].score; ++k)
                tie.count += entries.count[order[k].at];
            tie.last = k;
            seen[g] += tie.count;
            ++points[g];
            ties.push_back(tie);
        }
        for (std::size_t g = 0; g < groups_.size(); ++g)
            if (seen[g] != sizes_[g]) throw std::runtime_error("the undecided members of a bucket do not add up");
        Ranks first(ties.size());
        merge_.search_groups(groups_, points, [&](std::int64_t k) {
            const Tie& tie = ties[static_cast<std::size_t>(k)];
            return Query{order[tie.first].score, tie.position + 1, 0, 0, 0};
        }, first);
        // The last of a tie has its own rank where there are several.
        Ranks last = first;
        std::vector<std::size_t> several;
        std::vector<Query> queries;
        for (std::size_t t = 0; t < ties.size(); ++t) {
            const Tie& tie = ties[t];
            const Entry& entry = order[tie.first];
            const std::int32_t hi = groups_[static_cast<std::size_t>(entry.group)].hi;
            // By rounding it may be above the bound already.
            if (tie.count == 1 || first[t] >= hi) continue;
            several.push_back(t);
            queries.push_back({entry.score, tie.position + tie.count, first[t], hi, 0});
        }
        if (!queries.empty()) search_.solve(queries.data(), queries.size());
        for (std::size_t k = 0; k < several.size(); ++k) last[several[k]] = queries[k].rank;
        // What is left to one shard of the order of all is its own order.
        std::vector<Runs> runs(static_cast<std::size_t>(n_shards));
        std::vector<std::int64_t> shares(1);
        for (std::size_t t = 0; t < ties.size(); ++t) {
            const Tie& tie = ties[t];
            shares[0] = tie.count;
            if (first[t] != last[t]) shares = merge_.deal_ties(order[tie.first].score, tie.position, tie.count, first[t], last[t]);
            std::int32_t rank = first[t];
            std::int64_t room = shares[0];
            take(rank, room);
            for (std::size_t k = tie.first; k < tie.last; ++k)
                for (std::int64_t wanted = entries.count[order[k].at]; wanted > 0;) {
                    while (room == 0) {
                        ++rank;
                        room = shares[static_cast<std::size_t>(rank - first[t])];
                        take(rank, room);
                    }
                    const std::int64_t given = std::min(room, wanted);
                    append(runs[static_cast<std::size_t>(shard[order[k].at])], merge_.last() - rank, given);
                    room -= given, wanted -= given;
                }
        }
        return runs;
    }

    // All negatives are equal; shard k has sizes[k] of them.
    std::vector<Runs> rank_equal(double score, const std::vector<std::int64_t>& sizes) {
        check_total(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
        std::fill(takers_.begin(), takers_.end(), 0);
        const std::vector<std::int64_t> shares = merge_.deal_ties(score, 0, search_.n_neg(), 1, merge_.last());
        for (std::size_t r = 0; r < shares.size(); ++r) take(static_cast<std::int32_t>(r) + 1, shares[r]);
        std::vector<Runs> runs(sizes.size());
        std::size_t rank = 0;
        std::int64_t room = shares[0];
        for (std::size_t k = 0; k < sizes.size(); ++k)
            for (std::int64_t wanted = sizes[k]; wanted > 0;) {
                while (room == 0) room = shares[++rank];
                const std::int64_t given = std::min(room, wanted);
                append(runs[k], merge_.last() - static_cast<std::int32_t>(rank) - 1, given);
                room -= given, wanted -= given;
            }
        return runs;
    }

    // Negatives above each positive, best first; fails if not every negative has a rank.
    std::vector<std::int64_t> negatives_above() const {
        std::vector<std::int64_t> above;
        std::int64_t seen = 0;
        for (std::int64_t i = 1; i <= search_.n_pos(); ++i) above.push_back(seen += takers_[static_cast<std::size_t>(i)]);
        check_total(seen + takers_.back());
        return above;
    }

  private:
    float below(std::int32_t rank) const { return static_cast<float>(merge_.last() - rank); }
    void take(std::int32_t rank, std::int64_t count) { takers_[static_cast<std::size_t>(rank)] += count; }
    void check_total(std::int64_t total) const {
        if (total != search_.n_neg()) throw std::runtime_error("the shards' counts do not add up to the number of negatives");
    }
    static void append(Runs& runs, std::int32_t below, std::int64_t count) {
        if (!runs.below.empty() && runs.below.back() == below) runs.count.back() += count;
        else runs.below.push_back(below), runs.count.push_back(count);
    }

    // Entries by group, score and shard. Those of a shard are in this order already, so that they need only be merged.
    struct Entry {
        double score;
        std::int32_t group;
        std::uint32_t at;
    };
    static std::vector<Entry> merged(const Entries& entries, const std::vector<std::int32_t>& shard) {
        const std::size_t size = entries.score.size();
        std::vector<Entry> order(size), other(size);
        std::vector<std::size_t> starts;
        for (std::size_t e = 0; e < size; ++e) {
            order[e] = {entries.score[e], entries.group[e], static_cast<std::uint32_t>(e)};
            if (e == 0 || shard[e] != shard[e - 1]) starts.push_back(e);
        }
        starts.push_back(size);
        const auto before = [](const Entry& a, const Entry& b) { return a.group != b.group ? a.group < b.group : a.score > b.score; };
        while (starts.size() > 2) {
            std::vector<std::size_t> longer;
            const auto at = [&](std::size_t k) { return order.cbegin() + static_cast<std::ptrdiff_t>(starts[std::min(k, starts.size() - 1)]); };
            for (std::size_t k = 0; k + 1 < starts.size(); k += 2) {
                longer.push_back(starts[k]);
                // Of equal ones those of the shard before come first.
                std::merge(at(k), at(k + 1), at(k + 1), at(k + 2), other.begin() + static_cast<std::ptrdiff_t>(starts[k]), before);
            }
            longer.push_back(size);
            starts.swap(longer);
            order.swap(other);
        }
        return order;
    }

    // The ranks of pieces become groups. Pieces without members are not asked about.
    void bound_filled(const std::vector<Piece>& pieces, const std::vector<std::int64_t>& points) {
        std::vector<Piece> filled;
        std::vector<std::int64_t> filled_points;
        std::size_t at = 0;
        for (const std::int64_t count : points) {
            std::int64_t own = 0;
            for (std::int64_t k = 0; k < count; ++k, ++at)
                if (pieces[at].last_rank >= pieces[at].first_rank) filled.push_back(pieces[at]), ++own;
            filled_points.push_back(own);
        }
        Ranks lower, upper;
        merge_.bound_pieces(filled, &groups_, &filled_points, lower, upper);
        std::vector<Group> groups;
        sizes_.clear();
        std::size_t next = 0;
        for (const Piece& piece : pieces) {
            const std::int64_t size = piece.last_rank - piece.first_rank + 1;
            const bool any = size > 0;
            groups.push_back({0, 0, piece.first_rank - 1, any ? lower[next] : 1, any ? upper[next] : 1});
            sizes_.push_back(size);
            next += any;
        }
        groups_.swap(groups);
    }

    const Search& search_;
    Merge merge_;
    std::vector<Group> groups_;
    std::vector<std::int64_t> sizes_, takers_;
    std::vector<Standing> ranges_;
    std::vector<Buckets> splits_;
};

}  // namespace maxmargin::ranking
