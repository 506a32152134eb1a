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
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "bucket_map.hpp"
#include "classic.hpp"
#include "placement.hpp"
#include "search.hpp"
#include "settle.hpp"

namespace maxmargin::ranking {

template <class T>
class BucketMethod {
  public:
    BucketMethod(const Search& search, const T* scores, const std::uint8_t* relevant, std::int64_t n,
                 const std::vector<std::int32_t>& positives, Placement<T>& placement)
        : search_(search), scores_(scores), relevant_(relevant), n_(n), positives_(positives), placement_(placement),
          settler_(search, placement), n_neg_(search.n_neg()), last_(static_cast<std::int32_t>(search.n_pos() + 1)) {}

    // False if a score is not finite or too large to add up, the gradient is then unfinished, or if scores are `inseparable`.
    bool run() {
        if (n_neg_ <= kNoSample) {
            if (!keep_all()) return false;
            settler_.settle();
            return true;
        }
        if (!draw_sample()) return false;
        if (coarse_.front() == coarse_.back()) {
            if (const std::optional<bool> done = constant_list()) return *done;
        }
        const auto coarse_size = static_cast<std::int64_t>(coarse_.size());
        const std::int64_t live = first_dead(coarse_, coarse_size);
        if (live * 8 < coarse_size) {
            bool finite = true;
            if (filter(live, finite)) {
                settler_.settle();
                return finite;
            }
            if (!finite) return false;
        }
        const Buckets buckets = choose_buckets(live);
        inseparable_ = !buckets.usable();
        if (inseparable_) return false;
        return buckets.curved() ? bucket_pass<true>(buckets) : bucket_pass<false>(buckets);
    }

    // Scores too close together for buckets (a range of a few subnormals, say); nothing has been placed.
    bool inseparable() const { return inseparable_; }

  private:
    static constexpr std::int64_t kNoSample = 4096;

    // A sample of the negatives, four neighbours (one cache line) at evenly spread places with a jitter; `coarse_` is a
    // sorted part of it. Whatever the sample says is proved later, so a bad one costs time only.
    bool draw_sample() {
        constexpr std::int64_t chunk = 4;
        const std::int64_t places = std::clamp<std::int64_t>(n_neg_ / 64, 512, 16384) / chunk;
        const double stride = static_cast<double>(n_ - chunk) / static_cast<double>(places);
        std::uint64_t state = 0x9E3779B97F4A7C15u;
        sample_.clear();
        sample_.reserve(static_cast<std::size_t>(places * chunk));
        double unfit = 0;
        for (std::int64_t k = 0; k < places; ++k) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const double jitter = static_cast<double>(state >> 40) * 0x1p-24;
            const auto from = static_cast<std::int64_t>((static_cast<double>(k) + jitter) * stride);
            for (std::int64_t at = from; at < from + chunk; ++at) {
                if (relevant_[at]) continue;
                const double score = static_cast<double>(scores_[at]);
                unfit += guard(score);
                sample_.push_back(score);
            }
        }
        if (sample_.empty()) {
            std::int64_t at = 0;
            while (at + 1 < n_ && relevant_[at]) ++at;  // bounded even if the caller changes the labels meanwhile
            sample_.push_back(static_cast<double>(scores_[at]));
        }
        if (!std::isfinite(unfit)) return false;
        const std::size_t step = std::max<std::size_t>(1, sample_.size() / 512) | 1;  // odd: not always the same neighbour
        coarse_.clear();
        for (std::size_t k = 0; k < sample_.size(); k += step) coarse_.push_back(sample_[k]);
        std::sort(coarse_.begin(), coarse_.end(), std::greater<>());
        return true;
    }

    // Call `visit(begin, end)` on every maximal run of negatives.
    template <class Visit>
    void for_negatives(const Visit& visit) const {
        std::int64_t begin = 0;
        for (const std::int32_t positive : positives_) {
            if (begin < positive) visit(begin, static_cast<std::int64_t>(positive));
            begin = positive + 1;
        }
        if (begin < n_) visit(begin, n_);
    }

    // All negatives equal (at w = 0, say): ranks are free inside a tie, so they are dealt out in input order. Nothing if they are
    // not equal, false if the score is not finite or too large.
    std::optional<bool> constant_list() {
        const T value = static_cast<T>(coarse_.front());
        bool equal = true;
        for_negatives([&](std::int64_t begin, std::int64_t end) {
            if (!equal) return;
            for (std::int64_t k = begin; k < end && equal; k += 1024) {
                const std::int64_t stop = std::min(end, k + 1024);
                int differs = 0;
                for (std::int64_t i = k; i < stop; ++i) differs |= !(scores_[i] == value);
                equal = !differs;
            }
        });
        if (!equal) return std::nullopt;
        const auto score = static_cast<double>(value);
        if (!std::isfinite(guard(score))) return false;
        // The last position j of every rank, by bisection over j: P searches instead of N.
        std::vector<std::int64_t> ends(static_cast<std::size_t>(last_) + 1, 0);
        visit_monotone(search_, n_neg_, [&](std::int64_t k) { return Query{score, k + 1, 0, 0, 0}; }, 1, last_,
                       [&](std::int64_t first, std::int64_t last, std::int32_t r) { ends[static_cast<std::size_t>(r)] += last - first + 1; });
        std::int64_t j = 0;
        std::int32_t rank = 1;
        for (std::int32_t r = 1; r <= last_; ++r) {
            const std::int64_t count = ends[static_cast<std::size_t>(r)];
            placement_.add_count(r, count);
            placement_.add_sum(placement_.slope(r) * static_cast<double>(count) * (score - placement_.origin()));
            ends[static_cast<std::size_t>(r)] += ends[static_cast<std::size_t>(r) - 1];
        }
        T* gradient = placement_.gradient();
        for_negatives([&](std::int64_t begin, std::int64_t end) {
            while (begin < end) {
                while (ends[static_cast<std::size_t>(rank)] <= j) ++rank;
                const std::int64_t stop = std::min(end, begin + ends[static_cast<std::size_t>(rank)] - j);
                // The gradient starts out as zeros.
                if (rank < last_) std::fill(gradient + begin, gradient + stop, static_cast<T>(placement_.slope(rank)));
                j += stop - begin;
                begin = stop;
            }
        });
        return true;
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

    // Keep the negatives that are not surely below every positive. False if the certificate fails.
    bool filter(std::int64_t live, bool& finite) {
        const auto coarse_size = static_cast<std::int64_t>(coarse_.size());
        const auto margin = static_cast<std::int64_t>(5 * std::sqrt(static_cast<double>(live) + 1)) + 2;
        double floor = coarse_[static_cast<std::size_t>(std::min(coarse_size - 1, live + margin))];
        std::vector<double> upper;
        for (const double score : sample_)
            if (score > floor) upper.push_back(score);
        std::sort(upper.begin(), upper.end(), std::greater<>());
        const auto dead = static_cast<std::size_t>(first_dead(upper, static_cast<std::int64_t>(sample_.size())));
        if (dead < upper.size()) floor = upper[dead];
        const T threshold = static_cast<T>(floor);

        std::int64_t kept = 0;
        double unfit = 0;
        for_negatives([&](std::int64_t begin, std::int64_t end) { keep_above(begin, end, threshold, kept, unfit); });
        finite = std::isfinite(unfit);
        if (!finite) return false;
        if (kept < n_neg_ && search_.rank(kept + 1, floor, 1, last_) != last_) return false;
        placement_.add_count(last_, n_neg_ - kept);
        settler_.waiting.groups.assign(1, {0, kept, 0, 1, last_});
        return true;
    }

    // Lists too short for a sample to pay: all negatives wait as one group.
    bool keep_all() {
        settler_.waiting.score.grow(n_neg_, 0);
        settler_.waiting.index.grow(n_neg_, 0);
        double unfit = 0;
        std::int64_t kept = 0;
        for_negatives([&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                unfit += guard(static_cast<double>(scores_[i]));
                settler_.waiting.score[kept] = static_cast<double>(scores_[i]);
                settler_.waiting.index[kept++] = static_cast<std::int32_t>(i);
            }
        });
        settler_.waiting.groups.assign(1, {0, n_neg_, 0, 1, last_});
        return std::isfinite(unfit);
    }

    // Survivors are rare: 64 comparisons make a word, and only its set bits are visited.
    void keep_above(std::int64_t begin, std::int64_t end, T threshold, std::int64_t& kept, double& unfit) {
        constexpr int word = 64;
        double lanes[4] = {};
        std::int64_t i = begin;
        for (; i + word <= end; i += word) {
            const T* s = scores_ + i;
            for (int k = 0; k < word; k += 4)
                for (int lane = 0; lane < 4; ++lane) lanes[lane] += guard(static_cast<double>(s[k + lane]));
            std::uint64_t bits = above_threshold(s, threshold);
            reserve_waiting(kept, word);
            for (; bits; bits &= bits - 1) {
                const int k = __builtin_ctzll(bits);
                settler_.waiting.score[kept] = static_cast<double>(s[k]);
                settler_.waiting.index[kept++] = static_cast<std::int32_t>(i + k);
            }
        }
        reserve_waiting(kept, word);
        for (; i < end; ++i) {
            unfit += guard(static_cast<double>(scores_[i]));
            settler_.waiting.score[kept] = static_cast<double>(scores_[i]);
            settler_.waiting.index[kept] = static_cast<std::int32_t>(i);
            kept += scores_[i] > threshold;
        }
        unfit += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    }

    void reserve_waiting(std::int64_t used, std::int64_t more) {
        if (used + more <= settler_.waiting.index.capacity()) return;
        settler_.waiting.score.grow(used + 4096, used);
        settler_.waiting.index.grow(used + 4096, used);
    }

    // Which rank a bucket gets as a whole, 0 if it has to be opened.
    using Plan = std::vector<std::int32_t>;

    // With k_b sampled scores above bucket b, its ranks are known up to five standard deviations.
    // Also says which part of the negatives the plan leaves open.
    Plan plan_from_sample(const Buckets& buckets, double& open_part) const {
        const auto count = static_cast<std::size_t>(buckets.count());
        std::vector<std::int64_t> above(count + 1, 0);
        for (const double score : sample_) ++above[static_cast<std::size_t>(buckets.of(score)) + 1];
        for (std::size_t b = 0; b < count; ++b) above[b + 1] += above[b];
        const auto size = static_cast<std::int64_t>(sample_.size());
        Plan lower(count), upper(count);
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

    Buckets choose_buckets(std::int64_t live) const {
        const auto size = static_cast<std::int64_t>(coarse_.size());
        const auto at = [&](std::int64_t k) { return coarse_[static_cast<std::size_t>(k)]; };
        const auto margin = static_cast<std::int64_t>(3 * std::sqrt(static_cast<double>(live) + 1)) + 2;
        const std::int64_t tail = size / 128;
        double top = std::min(search_.positive(1), at(tail)), bottom = at(std::min(size - 1 - tail, live + margin));
        // Nearly all negatives above every positive, or nearly all equal.
        if (!(bottom < top)) top = at(0), bottom = at(size - 1);
        std::int32_t count = 1024;
        const std::int64_t n_pos = search_.n_pos();
        // With many positives, several thresholds fall into a bucket; smaller ones then save more than they cost.
        while (count < 16 * n_pos && count < 262144 && (count * std::int64_t{32} < n_neg_ || (count < 4 * n_pos && count * std::int64_t{8} < n_neg_)))
            count *= 2;
        const double quartiles = at(size / 4) - at(3 * size / 4);
        if (top - bottom > 8 * quartiles && quartiles > 0) return Buckets(top, bottom, count, at(size / 2), quartiles / 2);
        return Buckets(top, bottom, count);
    }

    template <bool Curved>
    bool bucket_pass(const Buckets& buckets) {
        std::vector<std::int64_t> above;
        std::vector<Group> opened;
        Plan plan;
        bool proved = false;
        double open_part = 1;
        // With so many positives the sample is known to be too coarse: its doubt about ranks moves the thresholds by
        // more than a bucket.
        if (20 * search_.n_pos() * search_.n_pos() <= n_neg_) plan = plan_from_sample(buckets, open_part);
        if (open_part <= 0.1) {
            if (!write_pass<Curved, true>(buckets, plan, above)) return false;
            proved = prove(buckets, plan, above, opened);
            if (!proved) placement_.forget();
        } else if (!count_pass<Curved>(buckets, above)) {
            return false;
        }
        if (!proved) {
            plan = plan_from_counts(buckets, above, opened);
            write_pass<Curved, false>(buckets, plan, above);
        }
        for (std::size_t b = 0; b < plan.size(); ++b)
            if (plan[b]) placement_.add_count(plan[b], above[b + 1] - above[b]);
        open_buckets(buckets, above, opened);
        settler_.settle();
        return true;
    }

    static constexpr std::int64_t kBlock = 256;

    // The bucket numbers of a block; they are computed apart from their use so that the compiler can vectorise this.
    template <bool Curved>
    static void number(const Buckets& buckets, const T* s, std::int32_t size, std::int32_t* bucket) {
        for (std::int32_t k = 0; k < size; ++k) bucket[k] = buckets.of<Curved>(static_cast<double>(s[k]));
    }

    template <bool Curved>
    bool count_pass(const Buckets& buckets, std::vector<std::int64_t>& above) {
        const auto count = static_cast<std::size_t>(buckets.count());
        std::vector<std::int32_t> tally(2 * count, 0);
        double unfit = 0;
        for_negatives([&](std::int64_t begin, std::int64_t end) {
            std::int32_t bucket[kBlock];
            for (std::int64_t at = begin; at < end; at += kBlock) {
                const auto size = static_cast<std::int32_t>(std::min(kBlock, end - at));
                const T* s = scores_ + at;
                number<Curved>(buckets, s, size, bucket);
                double lanes[4] = {};
                std::int32_t k = 0;
                for (; k + 4 <= size; k += 4)
                    for (int lane = 0; lane < 4; ++lane) lanes[lane] += guard(static_cast<double>(s[k + lane]));
                for (; k < size; ++k) lanes[0] += guard(static_cast<double>(s[k]));
                unfit += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
                // Two tables, so that equal neighbours do not wait for each other.
                for (k = 0; k + 2 <= size; k += 2) {
                    ++tally[static_cast<std::size_t>(bucket[k])];
                    ++tally[count + static_cast<std::size_t>(bucket[k + 1])];
                }
                if (k < size) ++tally[static_cast<std::size_t>(bucket[k])];
            }
        });
        if (!std::isfinite(unfit)) return false;
        above.assign(count + 1, 0);
        for (std::size_t b = 0; b < count; ++b) above[b + 1] = above[b] + tally[b] + tally[count + b];
        return true;
    }

    // One pass: count every bucket, write the gradient of those the plan settles, note the members of the others.
    struct Cell {
        float below;  // positives below its members; -0.0 marks an open bucket: it adds nothing and shows by its sign
        std::int32_t members;
    };

    // With `Count`, the cells are counted and the scores checked on the way; without, both has been done before.
    template <bool Curved, bool Count>
    bool write_pass(const Buckets& buckets, const Plan& plan, std::vector<std::int64_t>& above) {
        const auto count = static_cast<std::size_t>(buckets.count());
        std::vector<Cell> cells(count);
        for (std::size_t b = 0; b < count; ++b) cells[b] = {plan[b] ? static_cast<float>(last_ - plan[b]) : -0.0f, 0};
        n_open_ = 0;
        double unfit = 0;
        for_negatives([&](std::int64_t begin, std::int64_t end) { write_run<Curved, Count>(begin, end, buckets, cells.data(), unfit); });
        if (!Count) return true;
        if (!std::isfinite(unfit)) return false;
        above.assign(count + 1, 0);
        for (std::size_t b = 0; b < count; ++b) above[b + 1] = above[b] + cells[b].members;
        return true;
    }

    template <bool Curved, bool Count>
    void write_run(std::int64_t begin, std::int64_t end, const Buckets& buckets, Cell* cells, double& unfit) {
        std::int32_t bucket[kBlock];
        const double origin = placement_.origin(), unit = placement_.unit();
        T* gradient = placement_.gradient();
        for (std::int64_t at = begin; at < end; at += kBlock) {
            const auto size = static_cast<std::int32_t>(std::min(kBlock, end - at));
            const T* s = scores_ + at;
            T* g = gradient + at;
            number<Curved>(buckets, s, size, bucket);
            open_index_.grow(n_open_ + kBlock, n_open_);
            open_score_.grow(n_open_ + kBlock, n_open_);
            open_bucket_.grow(n_open_ + kBlock, n_open_);
            std::int32_t* open = open_index_.data() + n_open_;
            double sum[2] = {}, bad[2] = {};
            const auto handle = [&](std::int32_t k, int lane) {
                Cell& cell = cells[bucket[k]];
                if (Count) ++cell.members;
                const float below = cell.below;
                const double slope = unit * static_cast<double>(below), score = static_cast<double>(s[k]);
                g[k] = static_cast<T>(slope);
                sum[lane] += slope * (score - origin);
                if (Count) bad[lane] += guard(score);
                *open = static_cast<std::int32_t>(at) + k;
                std::uint32_t bits;
                std::memcpy(&bits, &below, sizeof bits);
                open += bits >> 31;
            };
            std::int32_t k = 0;
            for (; k + 2 <= size; k += 2) handle(k, 0), handle(k + 1, 1);
            if (k < size) handle(k, 0);
            // Their scores are still in the cache now; later each would cost a miss.
            for (; open_index_.data() + n_open_ < open; ++n_open_) {
                const std::int64_t inside = open_index_[n_open_] - at;
                open_score_[n_open_] = static_cast<double>(s[inside]);
                open_bucket_[n_open_] = bucket[inside];
            }
            placement_.add_sum(sum[0] + sum[1]);
            unfit += bad[0] + bad[1];
        }
    }

    // The plan that exact counts give needs no proof. Groups come back with their bucket's number as `begin`.
    Plan plan_from_counts(const Buckets& buckets, const std::vector<std::int64_t>& above, std::vector<Group>& opened) const {
        Plan plan(static_cast<std::size_t>(buckets.count()), 0), lower, upper;
        std::vector<std::int32_t> filled;
        std::vector<typename Settler<T>::Piece> pieces;
        for (std::int32_t b = 0; b < buckets.count(); ++b) {
            const std::int64_t before = above[static_cast<std::size_t>(b)], after = above[static_cast<std::size_t>(b) + 1];
            if (before == after) continue;
            filled.push_back(b);
            pieces.push_back({before + 1, after, buckets.highest(b), buckets.lowest(b), last_});
        }
        settler_.bound_pieces(pieces, nullptr, lower, upper);
        opened.clear();
        for (std::size_t k = 0; k < filled.size(); ++k) {
            const auto b = static_cast<std::size_t>(filled[k]);
            if (lower[k] == upper[k]) plan[b] = lower[k];
            else opened.push_back({filled[k], filled[k] + 1, above[b], lower[k], upper[k]});
        }
        return plan;
    }

    // With exact counts: is every settled bucket's rank right, and between which ranks do the open ones lie?
    // Runs of buckets with one rank are proved by their ends.
    bool prove(const Buckets& buckets, const Plan& plan, const std::vector<std::int64_t>& above, std::vector<Group>& opened) const {
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
        Plan first(runs.size()), last(runs.size());
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

    // Go once through the members of the open buckets. Where two ranks are in question a threshold decides nearly all of
    // them on the spot; the rest is collected bucket by bucket.
    void open_buckets(const Buckets& buckets, const std::vector<std::int64_t>& above, const std::vector<Group>& opened) {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        struct Side {
            typename Settler<T>::Limits limits;
            std::int32_t lo, hi;
            std::int64_t taken, left;
        };
        std::vector<std::int32_t> side_of(static_cast<std::size_t>(buckets.count()), 0);
        std::vector<Side> sides;
        std::vector<Query> ends;
        for (const Group& bucket : opened) {
            const auto b = static_cast<std::size_t>(bucket.begin);
            side_of[b] = static_cast<std::int32_t>(sides.size());
            // One rank: all are low. Several: none is decided.
            sides.push_back({{bucket.lo == bucket.hi ? infinity : -infinity, infinity}, bucket.lo, bucket.hi, 0, 0});
            if (bucket.hi == bucket.lo + 1) {
                ends.push_back({0, bucket.first_rank + 1, bucket.lo, 0, 0});
                ends.push_back({0, bucket.first_rank + above[b + 1] - above[b], bucket.lo, 0, 0});
            }
        }
        const std::vector<typename Settler<T>::Limits> limits = settler_.limits_between(ends);
        std::size_t next = 0;
        for (Side& side : sides)
            if (side.hi == side.lo + 1) side.limits = limits[next++];

        std::int64_t kept = 0;
        double part = 0;
        for (std::int64_t k = 0; k < n_open_; ++k) {
            const std::int32_t index = open_index_[k];
            const double score = open_score_[k];
            const std::int32_t bucket = open_bucket_[k];
            Side& side = sides[static_cast<std::size_t>(side_of[static_cast<std::size_t>(bucket)])];
            // No branches: which side it is cannot be predicted.
            const int high = score > side.limits.high, low = score <= side.limits.low, undecided = 1 - high - low;
            placement_.place_if(1 - undecided, index, score, side.hi - high, part);
            placement_.hand_over(k, part);
            side.taken += high;
            side.left += undecided;
            open_index_[kept] = index;
            open_score_[kept] = score;
            open_bucket_[kept] = bucket;
            kept += undecided;
        }
        placement_.add_sum(part);

        settler_.waiting.groups.clear();
        std::vector<std::int64_t> fill(sides.size());
        std::int64_t total = 0;
        for (std::size_t k = 0; k < sides.size(); ++k) {
            fill[k] = total;
            if (sides[k].left > 0)
                settler_.waiting.groups.push_back({total, total + sides[k].left, opened[k].first_rank + sides[k].taken, sides[k].lo, sides[k].hi});
            total += sides[k].left;
        }
        settler_.waiting.score.grow(total, 0);
        settler_.waiting.index.grow(total, 0);
        for (std::int64_t k = 0; k < kept; ++k) {
            const std::int64_t slot = fill[static_cast<std::size_t>(side_of[static_cast<std::size_t>(open_bucket_[k])])]++;
            settler_.waiting.score[slot] = open_score_[k];
            settler_.waiting.index[slot] = open_index_[k];
        }
        open_index_.discard();
        open_score_.discard();
        open_bucket_.discard();
    }

    const Search& search_;
    const T* scores_;
    const std::uint8_t* relevant_;
    std::int64_t n_;
    const std::vector<std::int32_t>& positives_;
    Placement<T>& placement_;
    Settler<T> settler_;
    std::int64_t n_neg_;
    std::int32_t last_;
    std::vector<double> sample_, coarse_;
    Buffer<std::int32_t> open_index_, open_bucket_;
    Buffer<double> open_score_;
    std::int64_t n_open_ = 0;
    bool inseparable_ = false;
};

}  // namespace maxmargin::ranking
