// Passes over the negatives that lie in one place: on one machine all of a list, in a cluster those of a shard.
//
// Rows are worked through in sections, the same for every number of threads. Counts are integers, members that are put aside stay
// in the order of the rows, and what sections add to the hinge is added up in their order: results do not depend on the threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "numeric/compensated_sum.hpp"
#include "numeric/threads.hpp"
#include "ranking/bucket_map.hpp"
#include "ranking/merge.hpp"
#include "ranking/score_blocks.hpp"

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

    // Where the scores of rows are: here, unless a source says where, `source(first row, last row, task)` for every section.
    auto in_place() const {
        return [this](std::int64_t first, std::int64_t, std::size_t) { return scores_ + first; };
    }
    std::size_t n_tasks() const { return static_cast<std::size_t>(n_tasks_); }

    // counts[b]: negatives in bucket b. False if a score is not finite or too large to be added up.
    bool count(const Buckets& buckets, std::vector<std::int64_t>& counts) const { return count(buckets, counts, in_place()); }
    template <class Source>
    bool count(const Buckets& buckets, std::vector<std::int64_t>& counts, const Source& source) const {
        const auto count = static_cast<std::size_t>(buckets.count());
        std::vector<std::vector<std::int32_t>> tallies(static_cast<std::size_t>(n_tasks_));
        std::atomic<bool> all_fit{true};
        for_sections([&](std::int64_t, std::int64_t first, std::int64_t last, std::size_t task) {
            if (tallies[task].empty()) tallies[task].assign(count, 0);
            std::int32_t* tally = tallies[task].data();
            const T* scores = source(first, last, task);
            bool is_fit = true;
            for_negatives(first, last, [&](std::int64_t begin, std::int64_t end) {
                std::int32_t bucket[kBlock];
                for (std::int64_t at = begin; at < end; at += kBlock) {
                    const auto size = static_cast<std::int32_t>(std::min(kBlock, end - at));
                    is_fit &= number(buckets, scores + (at - first), size, bucket);
                    for (std::int32_t k = 0; k < size; ++k) ++tally[bucket[k]];
                }
            });
            if (!is_fit) all_fit = false;
        });
        counts.assign(count, 0);
        for (const auto& tally : tallies)
            for (std::size_t b = 0; b < tally.size(); ++b) counts[b] += tally[b];
        return all_fit;
    }

    // One pass: write `factor * below[bucket]` for every negative, add up that times (score - origin), put the members of buckets
    // with below = -0.0 aside. Besides, where `counts` are asked for, count every bucket and check the scores, as `count` does.
    bool write(const Buckets& buckets, const std::vector<float>& below, double factor, double origin, T* out, CompensatedSum& total, Members& open,
               std::vector<std::int64_t>* counts) const {
        const std::size_t count = below.size();
        std::vector<std::vector<Cell>> cells(static_cast<std::size_t>(n_tasks_));
        std::vector<Members> parts(cells.size());
        std::atomic<bool> all_fit{true};
        std::vector<CompensatedSum> sums(static_cast<std::size_t>(n_sections_));
        for_sections([&](std::int64_t section, std::int64_t first, std::int64_t last, std::size_t task) {
            std::vector<Cell>& own = cells[task];
            if (parts[task].index.capacity() == 0) {
                // As many as are mostly put aside: growing means copying.
                parts[task].reserve(n_ / n_tasks_ / 16 + kBlock);
                if (counts) own.resize(count), std::transform(below.begin(), below.end(), own.begin(), cell_of);
            }
            CompensatedSum sum;
            bool is_fit = true;
            for_negatives(first, last, [&](std::int64_t begin, std::int64_t end) {
                if (counts) is_fit &= write_run(begin, end, buckets, Tally{own.data()}, factor, origin, out, sum, parts[task]);
                else is_fit &= write_run(begin, end, buckets, Plain{below.data()}, factor, origin, out, sum, parts[task]);
            });
            sums[static_cast<std::size_t>(section)] = sum;
            if (!is_fit) all_fit = false;
        });
        for (const CompensatedSum& sum : sums) total.add(sum);
        join(parts, open);
        if (!counts) return true;
        counts->assign(count, 0);
        for (const auto& own : cells)
            for (std::size_t b = 0; b < own.size(); ++b) (*counts)[b] += static_cast<std::int64_t>(own[b] >> 32);
        return all_fit;
    }

    // Write what is decided of members put aside, and keep the others, with the number of their side as group; `side_of` a group,
    // which is its own side if there is no such table.
    std::vector<Standing> decide(Members& members, const std::vector<Side>& sides, const std::int32_t* side_of, double factor, double origin, T* out,
                                 CompensatedSum& total) const {
        const std::int64_t n_sections = (members.count + kMembers - 1) / kMembers;
        const std::int64_t n_tasks = n_threads_ == 1 ? 1 : std::clamp<std::int64_t>(n_sections / 2, 1, 4 * n_threads_);
        std::vector<std::vector<Standing>> standing(static_cast<std::size_t>(n_tasks), std::vector<Standing>(sides.size()));
        const std::vector<Verdict> verdict = verdicts(sides, factor);
        std::vector<CompensatedSum> sums(static_cast<std::size_t>(n_sections));
        std::vector<std::int64_t> begins(standing.size()), ends(standing.size());
        share_out(static_cast<int>(n_threads_), standing.size(), [&](std::size_t t) {
            const auto which = static_cast<std::int64_t>(t);
            const std::int64_t first = which * n_sections / n_tasks;
            std::int64_t kept = begins[t] = first * kMembers;
            for (std::int64_t k = first; k < (which + 1) * n_sections / n_tasks; ++k)
                sums[static_cast<std::size_t>(k)] =
                    decide_section(members, k * kMembers, std::min(members.count, (k + 1) * kMembers), verdict, side_of, origin, out, standing[t], kept);
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
    bool keep_above(T threshold, Members& kept) const { return keep_above(threshold, kept, in_place()); }
    template <class Source>
    bool keep_above(T threshold, Members& kept, const Source& source) const {
        std::vector<Members> parts(static_cast<std::size_t>(n_tasks_));
        std::atomic<bool> all_fit{true};
        for_sections([&](std::int64_t, std::int64_t first, std::int64_t last, std::size_t task) {
            // As many as are mostly kept: growing means copying.
            if (parts[task].index.capacity() == 0) parts[task].reserve(n_ / n_tasks_ / 16);
            const T* scores = source(first, last, task);
            bool is_fit = true;
            for_negatives(first, last, [&](std::int64_t begin, std::int64_t end) { keep_run(scores, first, begin, end, threshold, parts[task], is_fit); });
            if (!is_fit) all_fit = false;
        });
        join(parts, kept);
        return all_fit;
    }

    // visit(first row, last row), for all rows in sections.
    template <class Visit>
    void for_rows(const Visit& visit) const {
        for_sections([&](std::int64_t, std::int64_t first, std::int64_t last, std::size_t) { visit(first, last); });
    }
    // Zeros for all rows.
    void clear(T* out) const {
        for_rows([&](std::int64_t first, std::int64_t last) { std::fill(out + first, out + last, T{0}); });
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
            for_negatives([&](std::int64_t begin, std::int64_t end) { sample.insert(sample.end(), scores_ + begin, scores_ + end); });
            return std::all_of(sample.begin(), sample.end(), fit);
        }
        const std::int64_t n_places = std::max<std::int64_t>(1, size / chunk);
        const double stride = static_cast<double>(n_ - chunk) / static_cast<double>(n_places);
        std::vector<std::int64_t> places(static_cast<std::size_t>(n_places));
        std::uint64_t state = 0x9E3779B97F4A7C15u;
        for (std::int64_t k = 0; k < n_places; ++k) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const double jitter = static_cast<double>(state >> 40) * 0x1p-24;
            places[static_cast<std::size_t>(k)] = static_cast<std::int64_t>((static_cast<double>(k) + jitter) * stride);
        }
        std::size_t drawn = sample.size();
        sample.resize(drawn + static_cast<std::size_t>(n_places * chunk));
        bool all_fit = true;
        for (std::size_t k = 0; k < places.size(); ++k) {
            // Every place is a miss; several are waited for at once.
            const std::int64_t ahead = places[std::min(k + 16, places.size() - 1)];
            __builtin_prefetch(scores_ + ahead);
            if (relevant) __builtin_prefetch(relevant + ahead);
            for (std::int64_t at = places[k]; at < places[k] + chunk; ++at) {
                const bool wanted = !(relevant && relevant[at]);
                const double score = static_cast<double>(scores_[at]);
                all_fit &= fit(score) || !wanted;
                sample[drawn] = score;
                drawn += wanted;
            }
        }
        sample.resize(drawn);
        return all_fit;
    }

  private:
    static constexpr std::int64_t kBlock = 256;
    static constexpr std::int64_t kSection = 1 << 15;
    // Scores of a cache line.
    static constexpr std::int32_t kLine = 64 / sizeof(T);
    // A section of members put aside, each of which takes longer.
    static constexpr std::int64_t kMembers = 1 << 12;
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

    // Limits, and what is written for scores above `high`, at or below `low`, and for now for those between.
    struct Verdict {
        double low, high, slope[3];
    };
    static std::vector<Verdict> verdicts(const std::vector<Side>& sides, double factor) {
        std::vector<Verdict> found;
        found.reserve(sides.size());
        // Nobody is on both sides, whatever the limits are: those of a shard come from elsewhere.
        for (const Side& side : sides)
            found.push_back({std::min(side.limits.low, side.limits.high), side.limits.high, {factor * static_cast<double>(side.high_below), factor * static_cast<double>(side.low_below), 0}});
        return found;
    }

    // One by one, those kept moved up to `kept`.
    static CompensatedSum decide_section(Members& members, std::int64_t begin, std::int64_t end, const std::vector<Verdict>& verdicts, const std::int32_t* side_of,
                                         double origin, T* out, std::vector<Standing>& standing, std::int64_t& kept) {
        CompensatedSum total;
        double part = 0;
        const std::int64_t first = kept;
        std::int32_t *indices = members.index.data(), *groups = members.group.data();
        double* scores = members.score.data();
        for (std::int64_t k = begin; k < end; ++k) {
            // Rows are far apart: processors do not guess the next one.
            if (k + 24 < end) __builtin_prefetch(out + indices[k + 24], 1);
            const std::int32_t index = indices[k], group = side_of ? side_of[groups[k]] : groups[k];
            const double score = scores[k];
            const Verdict& verdict = verdicts[static_cast<std::size_t>(group)];
            // No branches: neither which side it is nor whether it is undecided can be predicted.
            const int high = score > verdict.high, which = 2 - 2 * high - (score <= verdict.low);
            const double slope = verdict.slope[which];
            out[index] = static_cast<T>(slope);
            part += slope * (score - origin);
            if (k % kBlock == 0) total.add(part), part = 0;
            standing[static_cast<std::size_t>(group)].above += high;
            indices[kept] = index, scores[kept] = score, groups[kept] = group;
            kept += which >> 1;
        }
        for (std::int64_t k = first; k < kept; ++k) {
            const double score = members.score[k];
            Standing& own = standing[static_cast<std::size_t>(members.group[k])];
            ++own.undecided;
            own.lowest = score < own.lowest ? score : own.lowest;
            own.highest = score > own.highest ? score : own.highest;
        }
        total.add(part);
        return total;
    }

    void join(std::vector<Members>& parts, Members& all) const {
        if (parts.size() == 1) {
            std::swap(all, parts[0]);
            return;
        }
        std::vector<std::int64_t> begins;
        all.count = 0;
        for (const Members& part : parts) begins.push_back(std::exchange(all.count, all.count + part.count));
        const std::int64_t total = std::exchange(all.count, 0);
        all.reserve(total);
        all.count = total;
        share_out(total < kRowsPerTask ? 1 : static_cast<int>(n_threads_), parts.size(), [&](std::size_t k) {
            if (parts[k].count == 0) return;
            const auto size = static_cast<std::size_t>(parts[k].count);
            std::memcpy(all.index.data() + begins[k], parts[k].index.data(), size * sizeof(std::int32_t));
            std::memcpy(all.score.data() + begins[k], parts[k].score.data(), size * sizeof(double));
            std::memcpy(all.group.data() + begins[k], parts[k].group.data(), size * sizeof(std::int32_t));
        });
    }

    // Of a bucket: how many members it has, and, in the lower half, the bits of a float: the positives below its members; -0.0 marks
    // an open bucket: it adds nothing and shows by its sign.
    using Cell = std::uint64_t;
    static Cell cell_of(float below) {
        std::uint32_t bits;
        std::memcpy(&bits, &below, sizeof bits);
        return bits;
    }
    // Positives below the members of buckets, where members are counted. Stores are what takes time here: of a cell all at once, and
    // of two numbers together.
    struct Tally {
        Cell* cells;
        std::uint64_t look_up(std::int32_t bucket) const {
            const Cell found = cells[bucket];
            cells[bucket] = found + (Cell{1} << 32);
            return found & 0xFFFFFFFFu;
        }
        void look_up(const std::int32_t* bucket, std::int32_t size, float* below) const {
            std::int32_t k = 0;
            for (; k + 2 <= size; k += 2) {
                const std::uint64_t pair = look_up(bucket[k]) | look_up(bucket[k + 1]) << 32;
                std::memcpy(below + k, &pair, sizeof pair);
            }
            if (k < size) {
                const auto one = static_cast<std::uint32_t>(look_up(bucket[k]));
                std::memcpy(below + k, &one, sizeof one);
            }
        }
    };
    // And where they are not.
    struct Plain {
        const float* table;
        void look_up(const std::int32_t* bucket, std::int32_t size, float* below) const {
            for (std::int32_t k = 0; k < size; ++k) below[k] = table[bucket[k]];
        }
    };

    // Whether all scores are fit.
    template <class Table>
    bool write_run(std::int64_t begin, std::int64_t end, const Buckets& buckets, const Table& table, double factor, double origin, T* out, CompensatedSum& total,
                   Members& aside) const {
        std::int32_t bucket[kBlock];
        float below[kBlock];
        bool is_fit = true;
        for (std::int64_t at = begin; at < end; at += kBlock) {
            const auto size = static_cast<std::int32_t>(std::min(kBlock, end - at));
            const T* s = scores_ + at;
            is_fit &= number(buckets, s, size, bucket);
            aside.reserve(kBlock + 4);
            std::int32_t k = 0;
            // What comes next is fetched meanwhile.
            for (; k + kLine <= size; k += kLine) {
                __builtin_prefetch(s + kBlock + k, 0);
                __builtin_prefetch(out + at + kBlock + k, 1);
                table.look_up(bucket + k, kLine, below + k);
            }
            table.look_up(bucket + k, size - k, below + k);
            total.add(write_slopes(s, below, size, factor, origin, out + at));
            const std::int64_t open = aside.count + put_marked(below, size, static_cast<std::int32_t>(at), aside.index.data() + aside.count);
            // Their scores are still in the cache now; later each would cost a miss.
            for (; aside.count < open; ++aside.count) {
                const std::int64_t inside = aside.index[aside.count] - at;
                aside.score[aside.count] = static_cast<double>(s[inside]);
                aside.group[aside.count] = bucket[inside];
            }
        }
        return is_fit;
    }

    // Survivors are rare: few words of 64 scores have one, 64 comparisons make a word of bits, and only its set bits are visited.
    // Scores are those of the rows from `first` on.
    static void keep_run(const T* scores, std::int64_t first, std::int64_t begin, std::int64_t end, T threshold, Members& kept, bool& is_fit) {
        constexpr std::int64_t word = 64;
        std::int64_t i = begin - first;
        const auto keep = [&](std::int64_t at) {
            kept.score[kept.count] = static_cast<double>(scores[at]);
            kept.index[kept.count] = static_cast<std::int32_t>(first + at);
        };
        end -= first;
        for (std::int64_t words; (words = std::min(word, (end - i) / word)) > 0; i += words * word) {
            std::uint64_t some = words_above(scores + i, static_cast<std::int32_t>(words), threshold, is_fit);
            for (; some; some &= some - 1) {
                const std::int64_t from = i + word * __builtin_ctzll(some);
                kept.reserve(word);
                for (std::uint64_t bits = above_threshold(scores + from, threshold); bits; bits &= bits - 1, ++kept.count) keep(from + __builtin_ctzll(bits));
            }
        }
        kept.reserve(word);
        for (; i < end; ++i) {
            is_fit &= fit(static_cast<double>(scores[i]));
            keep(i);
            kept.count += scores[i] > threshold;
        }
    }

    const T* scores_;
    std::int64_t n_;
    const std::vector<std::int32_t>& positives_;
    std::int64_t n_sections_, n_threads_, n_tasks_;
};

}  // namespace maxmargin::ranking
