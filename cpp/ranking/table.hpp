// The best ranking for every loss that is a sum over pairs, added or subtracted, by dynamic programming in O(PN).
//
// The other methods let every negative find its place alone. If differences fall from one negative to the next, or the
// loss is subtracted, such places would cross. Here the i-th positive chooses how many negatives stand above it,
// a_1 <= a_2 <= ... <= a_P, and earns 2/(PN) times the sum over j <= a_i of s_j - s+_i - scale * step(i, j).
// Takes PN bits, one for every (i, a): is `a` better for the first i positives than anything below it?
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "numeric/compensated_sum.hpp"
#include "numeric/threads.hpp"
#include "ranking/classic.hpp"
#include "ranking/placement.hpp"
#include "ranking/search.hpp"

namespace maxmargin::ranking {

// Pairs whose steps are asked for at a time, and from how many on threads pay.
inline constexpr std::int64_t kPairsAtOnce = 1 << 16, kPairsPerThread = 1 << 21;

// The most that the first i positives earn, the i-th below at most `a` negatives, and their share of the loss then, both times
// PN/2; after row i, which replaces that of i - 1.
struct TableRow {
    std::vector<double> best, loss;
};

// One row, from left to right. What is added up on the way is kept here, so that a row can be worked on in pieces.
class TableStep {
  public:
    TableStep(const Search& search, std::int64_t i, double origin, const std::vector<double>& sums, TableRow& row, std::uint64_t* bits)
        : scale_(search.loss_scale()), high_(search.positive(i) - origin), sums_(sums), row_(row), bits_(bits), leader_(row.best[0]),
          its_loss_(row.loss[0]) {
        bits[0] = 1;
    }
    // The negatives first .. last; `step` has those of all of them.
    void advance(std::int64_t first, std::int64_t last, const double* step) {
        for (std::int64_t j = first; j <= last; ++j) {
            const auto at = static_cast<std::size_t>(j);
            part_ += step[j - first];
            if (j % kTermsPerPart == 0) total_.add(part_), done_ = total_.value(), part_ = 0;
            const double gained = -(done_ + part_);
            const double value = row_.best[at] + (sums_[at] - static_cast<double>(j) * high_) + scale_ * gained;
            const bool improved = value > leader_;
            leader_ = improved ? value : leader_;
            its_loss_ = improved ? row_.loss[at] + gained : its_loss_;
            row_.best[at] = leader_;
            row_.loss[at] = its_loss_;
            bits_[j / 64] |= static_cast<std::uint64_t>(improved) << (j % 64);
        }
    }

  private:
    double scale_, high_;
    const std::vector<double>& sums_;
    TableRow& row_;
    std::uint64_t* bits_;
    double leader_, its_loss_, done_ = 0, part_ = 0;
    CompensatedSum total_;
};

// Bands of rows are taken in turn by threads, and follow the one before them at a distance of one piece; that one has been taken
// earlier, so nobody waits for a band that nobody works on. Only for losses that any thread may ask.
template <class Begin>
void rows_by_threads(const Search& search, int n_threads, const Begin& begin_row) {
    const std::int64_t n_pos = search.n_pos(), n_neg = search.n_neg();
    const std::int64_t width = std::min(kPairsAtOnce, std::max<std::int64_t>(1024, n_neg / 16));
    const std::int64_t height = std::clamp<std::int64_t>(n_pos / (4 * n_threads), 1, 32);
    std::vector<std::atomic<std::int64_t>> done(static_cast<std::size_t>((n_pos + height - 1) / height));  // the last negative of every band
    for (auto& last : done) last = 0;
    share_out(n_threads, done.size(), [&](std::size_t k) {
        try {
            const std::int64_t top = static_cast<std::int64_t>(k) * height + 1, end = std::min(n_pos + 1, top + height);
            std::vector<double> steps(static_cast<std::size_t>(std::min(width, n_neg)));
            std::vector<TableStep> rows;
            for (std::int64_t i = top; i < end; ++i) rows.push_back(begin_row(i));
            for (std::int64_t first = 1; first <= n_neg; first += width) {
                const std::int64_t last = std::min(n_neg, first + width - 1);
                // The band before may be asleep on a busy machine; then this thread leaves it the core.
                for (int tries = 0; k > 0 && done[k - 1].load(std::memory_order_acquire) < last; ++tries)
                    if (tries > 32) std::this_thread::sleep_for(std::chrono::microseconds(20));
                    else std::this_thread::yield();
                for (std::int64_t i = top; i < end; ++i) {
                    search.steps(i, i, first, last, steps.data());
                    rows[static_cast<std::size_t>(i - top)].advance(first, last, steps.data());
                }
                done[k].store(last, std::memory_order_release);
            }
        } catch (...) {
            done[k] = n_neg;  // those that wait need not, nobody will see the table
            throw;
        }
    });
}

// Returns the loss of the ranking found, added up from its steps. Of equally good rankings it is the one with the
// positives as high as possible.
template <class T>
double by_table(const Search& search, std::vector<Scored>& negatives, Placement<T>& placement, int n_threads) {
    std::sort(negatives.begin(), negatives.end(), better);
    const std::int64_t n_pos = search.n_pos(), n_neg = search.n_neg();
    const auto at = [](std::int64_t k) { return static_cast<std::size_t>(k); };
    std::vector<double> sums(at(n_neg) + 1, 0.0);  // of the best a negatives
    CompensatedSum running;
    for (std::int64_t j = 1; j <= n_neg; ++j) {
        running.add(negatives[at(j - 1)].score - placement.origin());
        sums[at(j)] = running.value();
    }
    TableRow table{std::vector<double>(at(n_neg) + 1, 0.0), std::vector<double>(at(n_neg) + 1, 0.0)};
    const std::int64_t words = n_neg / 64 + 1;
    std::vector<std::uint64_t> improves(at(n_pos * words), 0);
    const auto begin_row = [&](std::int64_t i) { return TableStep(search, i, placement.origin(), sums, table, improves.data() + (i - 1) * words); };
    n_threads = static_cast<int>(std::min<std::int64_t>({n_threads, n_pos, n_pos * n_neg / kPairsPerThread, n_neg / 4096}));
    if (n_threads > 1 && !search.prefers_batches()) {
        rows_by_threads(search, n_threads, begin_row);
    } else {
        const std::int64_t columns = std::min(n_neg, kPairsAtOnce), rows = std::min(n_pos, kPairsAtOnce / columns);
        std::vector<double> steps(at(rows * columns));
        for (std::int64_t i = 1; i <= n_pos; ++i) {
            TableStep step = begin_row(i);
            const std::int64_t row = rows > 1 ? (i - 1) % rows : 0;
            if (rows > 1 && row == 0) search.steps(i, std::min(n_pos, i + rows - 1), 1, n_neg, steps.data());
            for (std::int64_t first = 1; first <= n_neg; first += columns) {
                const std::int64_t last = std::min(n_neg, first + columns - 1);
                if (rows == 1) search.steps(i, i, first, last, steps.data());
                step.advance(first, last, steps.data() + row * n_neg);
            }
        }
    }
    std::vector<std::int64_t> above(at(n_pos));
    std::int64_t a = n_neg;
    for (std::int64_t i = n_pos; i >= 1; --i) {
        const std::uint64_t* bits = improves.data() + (i - 1) * words;
        while (!(bits[a / 64] >> (a % 64) & 1)) --a;
        above[at(i - 1)] = a;
    }
    std::int32_t rank = 1;
    double part = 0;
    for (std::int64_t j = 1; j <= n_neg; ++j) {
        while (rank <= n_pos && above[at(rank - 1)] < j) ++rank;
        placement.place(negatives[at(j - 1)].index, negatives[at(j - 1)].score, rank, part);
        placement.hand_over(j, part);
    }
    placement.add_sum(part);
    return placement.unit() * table.loss.back();
}

}  // namespace maxmargin::ranking
