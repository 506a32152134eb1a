// Passes over the negatives that lie in one place: on one machine all of a list, in a cluster those of a shard.
//
// Rows are worked through in sections, the same for every number of threads. Counts are integers, members that are put aside stay
// in the order of the rows, and what sections add to the hinge is added up in their order: results do not depend on the threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "bucket_map.hpp"
#include "merge.hpp"
#include "numeric/compensated_sum.hpp"
#include "numeric/threads.hpp"

namespace maxmargin::ranking {

// Negatives put aside: where they are, their scores, and the bucket or group they are in. Threads that count beside each other must
// not share a cache line.
struct alignas(64) Members {
    Buffer<std::int32_t> index, group;
    Buffer<double> score;
    std::int64_t count = 0;

    void reserve(std::int64_t more) {
        index.grow(count + more, count);
        score.grow(count + more, count);
        group.grow(count + more, count);
    }
    void discard() {
        index.discard(), score.discard(), group.discard();
        count = 0;
    }
};

// What is said of a group: how many were above the limit, how many are undecided, and between which scores these lie.
struct Standing {
    std::int64_t above = 0, undecided = 0;
    double lowest = std::numeric_limits<double>::infinity(), highest = -std::numeric_limits<double>::infinity();

    void add(const Standing& other) {
        above += other.above, undecided += other.undecided;
        lowest = std::min(lowest, other.lowest), highest = std::max(highest, other.highest);
    }
};

template <class T>
class Shard {
  public:
    // `positives`: rows that are none of the negatives, in ascending order; they live as long as the shard.
    Shard(const T* scores, std::int64_t n, const std::vector<std::int32_t>& positives, int n_threads)
        : scores_(scores), n_(n), positives_(positives), n_sections_((n + kSection - 1) / kSection),
          n_threads_(std::max(1, n_threads)),
          n_tasks_(tasks_for(n)) {}

    // Call `visit(begin, end)` on every maximal run of negatives among the rows first .. last - 1.
    template <class Visit>
    void for_negatives(std::int64_t first, std::int64_t last, const Visit& visit) const {
        auto next = first == 0 ? positives_.begin() : std::lower_bound(positives_.begin(), positives_.end(), first);
        for (; next != positives_.end() && *next < last; ++next) {
            if (first < *next) visit(first, static_cast<std::int64_t>(*next));
            first = *next + 1;
        }
        if (first < last) visit(first, last);
    }
    template <class Visit>
    void for_negatives(const Visit& visit) const {
        for_negatives(0, n_, visit);
    }

    // counts[b]: negatives in bucket b. False if a score is not finite or too large to be added up.
    bool count(const Buckets& buckets, std::vector<std::int64_t>& counts) const {
        return buckets.curved() ? count_pass<true>(buckets, counts) : count_pass<false>(buckets, counts);
    }

    // One pass: write `factor * below[bucket]` for every negative, add up that times (score - origin), put the members of buckets
    // with below = -0.0 aside. Besides, where `counts` are asked for, count every bucket and check the scores, as `count` does.
    bool write(const Buckets& buckets, const std::vector<float>& below, double factor, double origin, T* out, CompensatedSum& total, Members& open,
               std::vector<std::int64_t>* counts) const {
        if (buckets.curved()) return counts ? write_pass<true, true>(buckets, below, factor, origin, out, total, open, counts)
                                            : write_pass<true, false>(buckets, below, factor, origin, out, total, open, counts);
        return counts ? write_pass<false, true>(buckets, below, factor, origin, out, total, open, counts)
                      : write_pass<false, false>(buckets, below, factor, origin, out, total, open, counts);
    }

    // Write what is decided of members put aside, and keep the others, with the number of their side as group; `side_of` a group,
    // which is its own side if there is no such table.
    std::vector<Standing> decide(Members& members, const std::vector<Side>& sides, const std::int32_t* side_of, double factor, double origin, T* out,
                                 CompensatedSum& total) const {
        const std::int64_t n_sections = (members.count + kSection - 1) / kSection;
        const std::int64_t n_tasks = tasks_for(members.count);
        std::vector<std::vector<Standing>> standing(static_cast<std::size_t>(n_tasks), std::vector<Standing>(sides.size()));
        std::vector<CompensatedSum> sums(static_cast<std::size_t>(n_sections));
        std::vector<std::int64_t> begins(standing.size()), ends(standing.size());
        share_out(static_cast<int>(n_threads_), standing.size(), [&](std::size_t t) {
            const auto which = static_cast<std::int64_t>(t);
            const std::int64_t first = which * n_sections / n_tasks;
            std::int64_t kept = begins[t] = first * kSection;
            for (std::int64_t k = first; k < (which + 1) * n_sections / n_tasks; ++k)
                sums[static_cast<std::size_t>(k)] =
                    decide_section(members, k * kSection, std::min(members.count, (k + 1) * kSection), sides, side_of, factor, origin, out, standing[t], kept);
            ends[t] = kept;
        });
        for (const CompensatedSum& sum : sums) total.add(sum);
        std::int64_t kept = ends[0];
        for (std::size_t t = 1; t < standing.size(); ++t) {
            const auto size = static_cast<std::size_t>(ends[t] - begins[t]);
            std::memmove(members.index.data() + kept, members.index.data() + begins[t], size * sizeof(std::int32_t));
            std::memmove(members.score.data() + kept, members.score.data() + begins[t], size * sizeof(double));
            std::memmove(members.group.data() + kept, members.group.data() + begins[t], size * sizeof(std::int32_t));
            kept += ends[t] - begins[t];
            for (std::size_t g = 0; g < sides.size(); ++g) standing[0][g].add(standing[t][g]);
        }
        members.count = kept;
        return standing[0];
    }

    // Put the negatives above a threshold aside. False if a score is not finite or too large to be added up.
    bool keep_above(T threshold, Members& kept) const {
        std::vector<Members> parts(static_cast<std::size_t>(n_tasks_));
        std::vector<double> unfit(parts.size(), 0.0);
        for_sections([&](std::int64_t, std::int64_t first, std::int64_t last, std::size_t task) {
            double bad = 0;
            for_negatives(first, last, [&](std::int64_t begin, std::int64_t end) { keep_run(begin, end, threshold, parts[task], bad); });
            unfit[task] += bad;
        });
        join(parts, kept);
        return fit(unfit);
    }

    // Are all negatives equal to this score?
    bool all_equal(T value) const {
        bool equal = true;
        for_negatives([&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = begin; k < end && equal; k += 1024) {
                const std::int64_t stop = std::min(end, k + 1024);
                int differs = 0;
                for (std::int64_t i = k; i < stop; ++i) differs |= !(scores_[i] == value);
                equal = !differs;
            }
        });
        return equal;
    }

    // Four neighbours (one cache line) at evenly spread places with a jitter, `size` in all, appended to the sample.
    bool draw(std::int64_t size, const std::uint8_t* relevant, std::vector<double>& sample) const {
        constexpr std::int64_t chunk = 4;
        if (n_ < chunk) {
            double unfit = 0;
            for_negatives([&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t at = begin; at < end; ++at) unfit += guard(static_cast<double>(scores_[at])), sample.push_back(static_cast<double>(scores_[at]));
            });
            return std::isfinite(unfit);
        }
        const std::int64_t places = std::max<std::int64_t>(1, size / chunk);
        const double stride = static_cast<double>(n_ - chunk) / static_cast<double>(places);
        std::uint64_t state = 0x9E3779B97F4A7C15u;
        sample.reserve(sample.size() + static_cast<std::size_t>(places * chunk));
        double unfit = 0;
        for (std::int64_t k = 0; k < places; ++k) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const double jitter = static_cast<double>(state >> 40) * 0x1p-24;
            const auto from = static_cast<std::int64_t>((static_cast<double>(k) + jitter) * stride);
            for (std::int64_t at = from; at < from + chunk; ++at) {
                if (relevant && relevant[at]) continue;
                const double score = static_cast<double>(scores_[at]);
                unfit += guard(score);
                sample.push_back(score);
            }
        }
        return std::isfinite(unfit);
    }

  private:
    static constexpr std::int64_t kBlock = 256;
    static constexpr std::int64_t kSection = 1 << 15;
    // Below that it costs more to share rows out than it brings.
    static constexpr std::int64_t kRowsPerTask = 1 << 16;

    // Several for each thread: on a busy machine one may come late, and finds something left to do.
    std::int64_t tasks_for(std::int64_t rows) const {
        return n_threads_ == 1 ? 1 : std::clamp<std::int64_t>(rows / kRowsPerTask, 1, 4 * n_threads_);
    }

    // task(section, first row, last row, number of the task), the sections of a task in their order.
    template <class Task>
    void for_sections(const Task& task) const {
        share_out(static_cast<int>(n_threads_), static_cast<std::size_t>(n_tasks_), [&](std::size_t t) {
            const auto which = static_cast<std::int64_t>(t);
            for (std::int64_t k = which * n_sections_ / n_tasks_; k < (which + 1) * n_sections_ / n_tasks_; ++k)
                task(k, k * kSection, std::min(n_, (k + 1) * kSection), t);
        });
    }

    // One by one, those kept moved up to `kept`.
    static CompensatedSum decide_section(Members& members, std::int64_t begin, std::int64_t end, const std::vector<Side>& sides, const std::int32_t* side_of,
                                         double factor, double origin, T* out, std::vector<Standing>& standing, std::int64_t& kept) {
        CompensatedSum total;
        double part = 0;
        for (std::int64_t k = begin; k < end; ++k) {
            const std::int32_t index = members.index[k], group = side_of ? side_of[members.group[k]] : members.group[k];
            const double score = members.score[k];
            const Side& side = sides[static_cast<std::size_t>(group)];
            Standing& own = standing[static_cast<std::size_t>(group)];
            // No branches but for the few undecided: which side it is cannot be predicted.
            const int high = score > side.limits.high, low = score <= side.limits.low, undecided = 1 - high - low;
            const float below[2] = {side.low_below, side.high_below};
            const double slope = factor * static_cast<double>(below[high]);
            out[index] = static_cast<T>(slope);
            part += (1 - undecided) * slope * (score - origin);
            if (k % kBlock == 0) total.add(part), part = 0;
            own.above += high;
            if (!undecided) continue;
            ++own.undecided;
            own.lowest = score < own.lowest ? score : own.lowest;
            own.highest = score > own.highest ? score : own.highest;
            members.index[kept] = index, members.score[kept] = score, members.group[kept] = group;
            ++kept;
        }
        total.add(part);
        return total;
    }

    static bool fit(const std::vector<double>& unfit) {
        double all = 0;
        for (const double part : unfit) all += part;
        return std::isfinite(all);
    }

    static void join(std::vector<Members>& parts, Members& all) {
        if (parts.size() == 1) {
            std::swap(all, parts[0]);
            return;
        }
        std::int64_t total = 0;
        for (const Members& part : parts) total += part.count;
        all.count = 0;
        all.reserve(total);
        for (Members& part : parts) {
            if (part.count == 0) continue;
            const auto size = static_cast<std::size_t>(part.count);
            std::memcpy(all.index.data() + all.count, part.index.data(), size * sizeof(std::int32_t));
            std::memcpy(all.score.data() + all.count, part.score.data(), size * sizeof(double));
            std::memcpy(all.group.data() + all.count, part.group.data(), size * sizeof(std::int32_t));
            all.count += part.count;
        }
    }

    // The bucket numbers of a block; they are computed apart from their use so that the compiler can vectorise this.
    template <bool Curved>
    static void number(const Buckets& buckets, const T* s, std::int32_t size, std::int32_t* bucket) {
        for (std::int32_t k = 0; k < size; ++k) bucket[k] = buckets.of<Curved>(static_cast<double>(s[k]));
    }

    template <bool Curved>
    bool count_pass(const Buckets& buckets, std::vector<std::int64_t>& counts) const {
        const auto count = static_cast<std::size_t>(buckets.count());
        std::vector<std::vector<std::int32_t>> tallies(static_cast<std::size_t>(n_tasks_));
        for (auto& tally : tallies) tally.assign(2 * count, 0);
        std::vector<double> unfit(tallies.size(), 0.0);
        for_sections([&](std::int64_t, std::int64_t first, std::int64_t last, std::size_t task) {
            std::int32_t* tally = tallies[task].data();
            double bad = 0;
            for_negatives(first, last, [&](std::int64_t begin, std::int64_t end) {
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
                    bad += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
                    // Two tables, so that equal neighbours do not wait for each other.
                    for (k = 0; k + 2 <= size; k += 2) {
                        ++tally[bucket[k]];
                        ++tally[count + static_cast<std::size_t>(bucket[k + 1])];
                    }
                    if (k < size) ++tally[bucket[k]];
                }
            });
            unfit[task] += bad;
        });
        counts.assign(count, 0);
        for (const auto& tally : tallies)
            for (std::size_t b = 0; b < count; ++b) counts[b] += tally[b] + tally[count + b];
        return fit(unfit);
    }

    struct Cell {
        float below;  // positives below its members; -0.0 marks an open bucket: it adds nothing and shows by its sign
        std::int32_t members;
    };

    template <bool Curved, bool Count>
    bool write_pass(const Buckets& buckets, const std::vector<float>& below, double factor, double origin, T* out, CompensatedSum& total, Members& open,
                    std::vector<std::int64_t>* counts) const {
        const auto count = static_cast<std::size_t>(buckets.count());
        std::vector<Cell> fresh(count);
        for (std::size_t b = 0; b < count; ++b) fresh[b] = {below[b], 0};
        std::vector<std::vector<Cell>> cells(static_cast<std::size_t>(n_tasks_), fresh);
        std::vector<Members> parts(cells.size());
        std::vector<double> unfit(cells.size(), 0.0);
        std::vector<CompensatedSum> sums(static_cast<std::size_t>(n_sections_));
        for_sections([&](std::int64_t section, std::int64_t first, std::int64_t last, std::size_t task) {
            CompensatedSum sum;
            double bad = 0;
            for_negatives(first, last, [&](std::int64_t begin, std::int64_t end) {
                write_run<Curved, Count>(begin, end, buckets, cells[task].data(), factor, origin, out, sum, parts[task], bad);
            });
            sums[static_cast<std::size_t>(section)] = sum;
            unfit[task] += bad;
        });
        for (const CompensatedSum& sum : sums) total.add(sum);
        join(parts, open);
        if (!Count) return true;
        counts->assign(count, 0);
        for (const auto& own : cells)
            for (std::size_t b = 0; b < count; ++b) (*counts)[b] += own[b].members;
        return fit(unfit);
    }

    template <bool Curved, bool Count>
    void write_run(std::int64_t begin, std::int64_t end, const Buckets& buckets, Cell* cells, double factor, double origin, T* out, CompensatedSum& total,
                   Members& aside, double& unfit) const {
        std::int32_t bucket[kBlock];
        for (std::int64_t at = begin; at < end; at += kBlock) {
            const auto size = static_cast<std::int32_t>(std::min(kBlock, end - at));
            const T* s = scores_ + at;
            T* g = out + at;
            number<Curved>(buckets, s, size, bucket);
            aside.reserve(kBlock);
            std::int32_t* open = aside.index.data() + aside.count;
            double sum[2] = {}, bad[2] = {};
            const auto handle = [&](std::int32_t k, int lane) {
                Cell& cell = cells[bucket[k]];
                if (Count) ++cell.members;
                const float below = cell.below;
                const double slope = factor * static_cast<double>(below), score = static_cast<double>(s[k]);
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
            for (; aside.index.data() + aside.count < open; ++aside.count) {
                const std::int64_t inside = aside.index[aside.count] - at;
                aside.score[aside.count] = static_cast<double>(s[inside]);
                aside.group[aside.count] = bucket[inside];
            }
            total.add(sum[0] + sum[1]);
            unfit += bad[0] + bad[1];
        }
    }

    // Survivors are rare: 64 comparisons make a word, and only its set bits are visited.
    void keep_run(std::int64_t begin, std::int64_t end, T threshold, Members& kept, double& unfit) const {
        constexpr int word = 64;
        double lanes[4] = {};
        std::int64_t i = begin;
        for (; i + word <= end; i += word) {
            const T* s = scores_ + i;
            for (int k = 0; k < word; k += 4)
                for (int lane = 0; lane < 4; ++lane) lanes[lane] += guard(static_cast<double>(s[k + lane]));
            std::uint64_t bits = above_threshold(s, threshold);
            if (!bits) continue;
            kept.reserve(word);
            for (; bits; bits &= bits - 1) {
                const int k = __builtin_ctzll(bits);
                kept.score[kept.count] = static_cast<double>(s[k]);
                kept.index[kept.count++] = static_cast<std::int32_t>(i + k);
            }
        }
        kept.reserve(word);
        for (; i < end; ++i) {
            unfit += guard(static_cast<double>(scores_[i]));
            kept.score[kept.count] = static_cast<double>(scores_[i]);
            kept.index[kept.count] = static_cast<std::int32_t>(i);
            kept.count += scores_[i] > threshold;
        }
        unfit += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    }

    const T* scores_;
    std::int64_t n_;
    const std::vector<std::int32_t>& positives_;
    std::int64_t n_sections_, n_threads_, n_tasks_;
};

}  // namespace maxmargin::ranking
