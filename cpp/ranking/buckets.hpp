// The fastest exact method: never order what need not be ordered.
//
// The rank of a negative is monotone in (j, -s). A bucket of negatives whose first and last member would get the same
// rank is settled as a whole, unordered. A small sample says beforehand which buckets will be settled, so that a single
// pass over the scores counts the buckets, writes the gradient of the settled ones, sums the hinge and puts the few
// others aside. The exact counts then *prove* what the sample guessed (or, rarely, send us over the data once more), and
// only the negatives put aside are looked at again. Where the scores separate the classes, nearly all negatives lie
// below every positive: a filter pass keeps the rest, and one search certifies the filter.
// O(N + P log N) unless the scores are so concentrated that buckets cannot part them; then O(N log N) at worst.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ranking/bucket_map.hpp"
#include "ranking/merge.hpp"
#include "ranking/placement.hpp"
#include "ranking/search.hpp"
#include "ranking/settle.hpp"
#include "ranking/shard.hpp"

namespace maxmargin::ranking {

template <class T>
class BucketMethod {
  public:
    BucketMethod(const Search& search, const T* scores, const std::uint8_t* relevant, std::int64_t n,
                 const std::vector<std::int32_t>& positives, Placement<T>& placement, bool cleared, int n_threads)
        : search_(search), merge_(search), shard_(scores, n, positives, n_threads), scores_(scores), relevant_(relevant), n_(n), n_threads_(n_threads), placement_(placement), cleared_(cleared),
          settler_(search, placement), n_neg_(search.n_neg()), last_(merge_.last()) {}

    // Writes the gradient of all negatives; `cleared` says whether it comes in as zeros. False if a score is not finite or too large to
    // add up, the gradient is then unfinished, or if scores are `inseparable`.
    bool run() {
        if (n_neg_ <= kNoSample) {
            if (!keep_all()) return false;
            settler_.settle();
            return true;
        }
        if (!draw_sample()) return false;
        const std::vector<double>& coarse = sample_.coarse;
        if (coarse.front() == coarse.back() && shard_.all_equal(static_cast<T>(coarse.front()))) return constant_list(coarse.front());
        const auto coarse_size = static_cast<std::int64_t>(coarse.size());
        const std::int64_t live = merge_.first_dead(coarse, coarse_size);
        if (live * 8 < coarse_size) {
            bool finite = true;
            if (filter(live, finite)) return true;
            if (!finite) return false;
        }
        const Buckets buckets = merge_.choose_buckets(sample_, live);
        inseparable_ = !buckets.usable();
        if (inseparable_ || !bucket_pass(shard_, buckets, placement_.gradient())) return false;
        settler_.settle();
        return true;
    }

    // Scores too close together for buckets (a range of a few subnormals, say); nothing has been placed.
    bool inseparable() const { return inseparable_; }

  private:
    static constexpr std::int64_t kNoSample = 4096;
    // So many wait as one group; more of them are parted by buckets first, which threads can share.
    static constexpr std::int64_t kWaiting = 1 << 14;

    bool draw_sample() {
        sample_.scores.clear();
        if (!shard_.draw(std::clamp<std::int64_t>(n_neg_ / 64, 512, 16384), relevant_, sample_.scores)) return false;
        if (sample_.scores.empty()) {
            std::int64_t at = 0;
            while (at + 1 < n_ && relevant_[at]) ++at;  // bounded even if the caller changes the labels meanwhile
            sample_.scores.push_back(static_cast<double>(scores_[at]));
        }
        sample_.sort_part();
        return true;
    }

    void clear() {
        if (!cleared_) shard_.clear(placement_.gradient());
    }

    // All negatives equal (at w = 0, say): ranks are free inside a tie, so they are dealt out in input order. False if the score is
    // not finite or too large.
    bool constant_list(double score) {
        if (!fit(score)) return false;
        clear();
        std::vector<std::int64_t> ends = merge_.deal_ties(score, 0, n_neg_, 1, last_);
        for (std::int32_t r = 1; r <= last_; ++r) {
            std::int64_t& end = ends[static_cast<std::size_t>(r) - 1];
            placement_.add_count(r, end);
            placement_.add_sum(placement_.slope(r) * static_cast<double>(end) * (score - placement_.origin()));
            if (r > 1) end += ends[static_cast<std::size_t>(r) - 2];
        }
        T* gradient = placement_.gradient();
        std::int64_t j = 0;
        std::int32_t rank = 1;
        shard_.for_negatives([&](std::int64_t begin, std::int64_t end) {
            while (begin < end) {
                while (ends[static_cast<std::size_t>(rank) - 1] <= j) ++rank;
                const std::int64_t stop = std::min(end, begin + ends[static_cast<std::size_t>(rank) - 1] - j);
                // The others are zero already.
                if (rank < last_) std::fill(gradient + begin, gradient + stop, static_cast<T>(placement_.slope(rank)));
                j += stop - begin;
                begin = stop;
            }
        });
        return true;
    }

    // Keep the negatives that are not surely below every positive. False if the certificate fails.
    bool filter(std::int64_t live, bool& finite) {
        const std::vector<double>& coarse = sample_.coarse;
        const auto coarse_size = static_cast<std::int64_t>(coarse.size());
        const auto margin = static_cast<std::int64_t>(5 * std::sqrt(static_cast<double>(live) + 1)) + 2;
        double floor = coarse[static_cast<std::size_t>(std::min(coarse_size - 1, live + margin))];
        std::vector<double> upper;
        for (const double score : sample_.scores)
            if (score > floor) upper.push_back(score);
        std::sort(upper.begin(), upper.end(), std::greater<>());
        const auto dead = static_cast<std::size_t>(merge_.first_dead(upper, static_cast<std::int64_t>(sample_.scores.size())));
        if (dead < upper.size()) floor = upper[dead];

        finite = shard_.keep_above(static_cast<T>(floor), aside_);
        if (!finite) return false;
        if (aside_.count < n_neg_ && search_.rank(aside_.count + 1, floor, 1, last_) != last_) return false;
        placement_.add_count(last_, n_neg_ - aside_.count);
        settle_kept(live);
        return true;
    }

    // The few above the floor wait as one group; if they are many, they are a list of their own.
    void settle_kept(std::int64_t live) {
        if (aside_.count > kWaiting) {
            const Buckets buckets = merge_.choose_buckets(sample_, live, aside_.count);
            if (buckets.usable()) return list_kept(buckets);
        }
        clear();
        std::swap(settler_.waiting.score, aside_.score);
        std::swap(settler_.waiting.index, aside_.index);
        settler_.waiting.groups.assign(1, {0, aside_.count, 0, 1, last_});
        settler_.settle();
    }
    void list_kept(const Buckets& buckets) {
        Members kept;
        std::swap(kept, aside_);
        const std::vector<std::int32_t> none;
        Buffer<double> slopes;
        slopes.grow(kept.count, 0);
        bucket_pass(Shard<double>(kept.score.data(), kept.count, none, n_threads_), buckets, slopes.data());
        std::int32_t* const index = kept.index.data();
        T* const gradient = placement_.gradient();
        // Zeros, and what is not zero while these are in the cache.
        shard_.for_rows([&](std::int64_t first, std::int64_t last) {
            if (!cleared_) std::fill(gradient + first, gradient + last, T{0});
            const auto end = std::lower_bound(index, index + kept.count, last) - index;
            for (auto k = std::lower_bound(index, index + end, first) - index; k < end; ++k) gradient[index[k]] = static_cast<T>(slopes[k]);
        });
        Waiting& waiting = settler_.waiting;
        const std::int64_t n_waiting = waiting.groups.empty() ? 0 : waiting.groups.back().end;
        for (std::int64_t k = 0; k < n_waiting; ++k) waiting.index[k] = index[waiting.index[k]];
        settler_.settle();
    }

    // Lists too short for a sample to pay: all negatives wait as one group.
    bool keep_all() {
        settler_.waiting.score.grow(n_neg_, 0);
        settler_.waiting.index.grow(n_neg_, 0);
        bool all_fit = true;
        std::int64_t kept = 0;
        shard_.for_negatives([&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                all_fit &= fit(static_cast<double>(scores_[i]));
                settler_.waiting.score[kept] = static_cast<double>(scores_[i]);
                settler_.waiting.index[kept++] = static_cast<std::int32_t>(i);
            }
        });
        settler_.waiting.groups.assign(1, {0, n_neg_, 0, 1, last_});
        return all_fit;
    }

    // Writes the gradient of the rows of a shard to `out`, but of those that wait for the settler. False if a score is not fit.
    template <class S>
    bool bucket_pass(const Shard<S>& shard, const Buckets& buckets, S* out) {
        std::vector<std::int64_t> counts, above;
        std::vector<Group> opened;
        Ranks plan;
        bool proved = false;
        double open_part = 1;
        // With so many positives the sample is known to be too coarse: its doubt about ranks moves the thresholds by
        // more than a bucket.
        if (20 * search_.n_pos() * search_.n_pos() <= n_neg_) plan = merge_.plan_from_sample(buckets, sample_, open_part);
        if (open_part <= 0.1) {
            const CompensatedSum before = placement_.total();
            if (!write(shard, buckets, plan, out, &counts)) return false;
            above = summed(counts);
            proved = merge_.prove(buckets, plan, above, opened);
            if (!proved) placement_.total() = before;
        } else {
            if (!shard.count(buckets, counts)) return false;
            above = summed(counts);
        }
        if (!proved) {
            plan = merge_.plan_from_counts(buckets, above, opened);
            write(shard, buckets, plan, out, nullptr);
        }
        for (std::size_t b = 0; b < plan.size(); ++b)
            if (plan[b]) placement_.add_count(plan[b], counts[b]);
        open_buckets(shard, buckets, counts, opened, out);
        return true;
    }

    // Write the gradient of the buckets that the plan settles, put the members of the others aside; count if asked to.
    template <class S>
    bool write(const Shard<S>& shard, const Buckets& buckets, const Ranks& plan, S* out, std::vector<std::int64_t>* counts) {
        std::vector<float> below;
        below.reserve(plan.size());
        for (const std::int32_t rank : plan) below.push_back(rank ? static_cast<float>(last_ - rank) : -0.0f);
        aside_.count = 0;
        return shard.write(buckets, below, placement_.unit(), placement_.origin(), out, placement_.total(), aside_, counts);
    }

    static std::vector<std::int64_t> summed(const std::vector<std::int64_t>& counts) {
        std::vector<std::int64_t> above(counts.size() + 1, 0);
        for (std::size_t b = 0; b < counts.size(); ++b) above[b + 1] = above[b] + counts[b];
        return above;
    }

    // Go once through the members of the open buckets. Where two ranks are in question a threshold decides nearly all of
    // them on the spot; the rest is collected bucket by bucket.
    template <class S>
    void open_buckets(const Shard<S>& shard, const Buckets& buckets, const std::vector<std::int64_t>& counts, const std::vector<Group>& opened, S* out) {
        std::vector<std::int32_t> side_of(static_cast<std::size_t>(buckets.count()), 0);
        std::vector<std::int64_t> sizes;
        for (const Group& bucket : opened) {
            side_of[static_cast<std::size_t>(bucket.begin)] = static_cast<std::int32_t>(sizes.size());
            sizes.push_back(counts[static_cast<std::size_t>(bucket.begin)]);
        }
        const std::vector<Side> sides = merge_.sides(opened, sizes);
        const std::vector<Standing> standing =
            shard.decide(aside_, sides, side_of.data(), placement_.unit(), placement_.origin(), out, placement_.total());

        settler_.waiting.groups.clear();
        std::vector<std::int64_t> fill(opened.size());
        std::int64_t total = 0;
        for (std::size_t k = 0; k < opened.size(); ++k) {
            const std::int64_t above = standing[k].above, left = standing[k].undecided;
            placement_.add_count(opened[k].lo, above);
            placement_.add_count(opened[k].hi, sizes[k] - above - left);
            fill[k] = total;
            if (left > 0) settler_.waiting.groups.push_back({total, total + left, opened[k].first_rank + above, opened[k].lo, opened[k].hi});
            total += left;
        }
        settler_.waiting.score.grow(total, 0);
        settler_.waiting.index.grow(total, 0);
        for (std::int64_t k = 0; k < aside_.count; ++k) {
            const std::int64_t slot = fill[static_cast<std::size_t>(aside_.group[k])]++;
            settler_.waiting.score[slot] = aside_.score[k];
            settler_.waiting.index[slot] = aside_.index[k];
        }
        aside_.discard();
    }

    const Search& search_;
    Merge merge_;
    Shard<T> shard_;
    const T* scores_;
    const std::uint8_t* relevant_;
    std::int64_t n_;
    int n_threads_;
    Placement<T>& placement_;
    bool cleared_;
    Settler<T> settler_;
    std::int64_t n_neg_;
    std::int32_t last_;
    Merge::Sample sample_;
    Members aside_;
    bool inseparable_ = false;
};

}  // namespace maxmargin::ranking
