// The best ranking for every loss that is a sum over pairs, added or subtracted, by dynamic programming in O(PN).
//
// The other methods let every negative find its place alone. If differences fall from one negative to the next, or the
// loss is subtracted, such places would cross. Here the i-th positive chooses how many negatives stand above it,
// a_1 <= a_2 <= ... <= a_P, and earns 2/(PN) times the sum over j <= a_i of s_j - s+_i - scale * step(i, j).
// Takes PN bits, one for every (i, a): is `a` better for the first i positives than anything below it?
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "classic.hpp"
#include "numeric/compensated_sum.hpp"
#include "placement.hpp"
#include "search.hpp"

namespace maxmargin::ranking {

// Pairs whose steps are asked for at a time.
inline constexpr std::int64_t kPairsAtOnce = 1 << 16;

// Returns the loss of the ranking found, added up from its steps. Of equally good rankings it is the one with the
// positives as high as possible.
template <class T>
double by_table(const Search& search, std::vector<Scored>& negatives, Placement<T>& placement) {
    std::sort(negatives.begin(), negatives.end(), better);
    const std::int64_t n_pos = search.n_pos(), n_neg = search.n_neg();
    const auto at = [](std::int64_t k) { return static_cast<std::size_t>(k); };
    std::vector<double> sums(at(n_neg) + 1, 0.0);  // of the best a negatives
    CompensatedSum running;
    for (std::int64_t j = 1; j <= n_neg; ++j) {
        running.add(negatives[at(j - 1)].score - placement.origin());
        sums[at(j)] = running.value();
    }
    // The first i positives, the i-th below at most `a` negatives: the most they earn, and their share of the loss then, both
    // times PN/2.
    std::vector<double> best(at(n_neg) + 1, 0.0), loss(at(n_neg) + 1, 0.0);
    const std::int64_t words = n_neg / 64 + 1;
    std::vector<std::uint64_t> improves(at(n_pos * words), 0);
    const std::int64_t columns = std::min(n_neg, kPairsAtOnce), rows = std::min(n_pos, kPairsAtOnce / columns);
    std::vector<double> steps(at(rows * columns));
    for (std::int64_t i = 1; i <= n_pos; ++i) {
        const std::int64_t row = rows > 1 ? (i - 1) % rows : 0;
        if (rows > 1 && row == 0) search.steps(i, std::min(n_pos, i + rows - 1), 1, n_neg, steps.data());
        const double high = search.positive(i) - placement.origin();
        std::uint64_t* bits = improves.data() + (i - 1) * words;
        bits[0] = 1;
        double leader = best[0], its_loss = loss[0], done = 0, part = 0;
        CompensatedSum total;
        for (std::int64_t first = 1; first <= n_neg; first += columns) {
            const std::int64_t last = std::min(n_neg, first + columns - 1);
            if (rows == 1) search.steps(i, i, first, last, steps.data());
            const double* step = steps.data() + row * n_neg;
            for (std::int64_t j = first; j <= last; ++j) {
                part += step[j - first];
                if (j % kTermsPerPart == 0) total.add(part), done = total.value(), part = 0;
                const double gained = -(done + part);
                const double value = best[at(j)] + (sums[at(j)] - static_cast<double>(j) * high) + search.loss_scale() * gained;
                const bool improved = value > leader;
                leader = improved ? value : leader;
                its_loss = improved ? loss[at(j)] + gained : its_loss;
                best[at(j)] = leader;
                loss[at(j)] = its_loss;
                bits[j / 64] |= static_cast<std::uint64_t>(improved) << (j % 64);
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
    return placement.unit() * loss.back();
}

}  // namespace maxmargin::ranking
