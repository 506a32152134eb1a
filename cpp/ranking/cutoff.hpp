// Losses with a cut-off: only the first k places count. A positive earns value(i, p) for standing at place p, being the i-th one,
// and nothing after place k; the loss is what the positives lack to the first places.
//
// Such a loss jumps at place k, so negatives cannot find their places alone. But nearly all of them need not choose. Let a_i be
// the number of negatives above the i-th positive, which stands at place i + a_i, and b_i the number of those scored above it.
// As i + a_i rises, the positives within the first k places are the first m, for some m. The others pay their full share, a
// constant, as long as they stay out: a_i >= k - m for i > m, which keeps the order with the first m too, for a_m <= k - m. What
// they add to the score is concave in a_i with its maximum at b_i, and b_i rises with i, so the best they can do is
// a_i = max(b_i, k - m), each on its own. So only the first m choose, among the first k - m negatives: for every m a dynamic program
// over at most min(P, k) positives and min(N, k) negatives has the best of it, and it is the same program for all of them.
// A negative j > k - m then stands below the first m positives and below all that are not scored below it. O(k^2) besides a
// pass over the scores, whatever the sign of the loss.
//
// If the loss is added, a_i >= b_i for all i: raising a_i to b_i takes nothing from the loss and adds to the score. Then positives
// with i + b_i > k are out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ranking/bucket_map.hpp"
#include "ranking/search.hpp"

namespace maxmargin::ranking {

enum class Counted { ndcg, ap, mrr, precision, recall };

// What the places are worth, before it is divided by what the best ranking of a list has; made once for all lists.
class Worth {
  public:
    Worth() = default;
    Worth(Counted what, std::int64_t at, std::int64_t longest) : what_(what), at_(at) {
        const Ndcg ndcg(1, 1);
        // A list that is not longer than the cut-off is not asked for any place.
        const auto known = static_cast<std::size_t>(std::min(at, longest));
        place_.resize(known + 2, 0.0);
        best_.resize(known + 1, 0.0);
        for (std::size_t p = 1; p <= known; ++p) {
            const auto place = static_cast<std::int64_t>(p);
            if (what == Counted::ndcg) place_[p] = ndcg.discount(place);
            else place_[p] = what == Counted::ap || what == Counted::mrr ? 1 / static_cast<double>(place) : 1;
            best_[p] = best_[p - 1] + place_[p];
        }
    }
    std::int64_t at() const { return at_; }
    // Nothing at the place after the last.
    const double* places() const { return place_.data(); }
    // Of the i-th positive; for average precision the precision there is i over the place.
    double factor(std::int64_t i) const { return what_ == Counted::ap ? static_cast<double>(i) : what_ == Counted::mrr ? i == 1 : 1; }
    double largest(std::int64_t n_pos) const {
        const std::int64_t found = std::min(n_pos, at_);
        switch (what_) {
            case Counted::ndcg: return best_[static_cast<std::size_t>(found)];
            case Counted::ap: return static_cast<double>(found);
            case Counted::mrr: return 1;
            case Counted::precision: return static_cast<double>(at_);
            default: return static_cast<double>(n_pos);
        }
    }

  private:
    Counted what_ = Counted::ndcg;
    std::int64_t at_ = 1;
    std::vector<double> place_, best_;
};

// The same for one list.
class FirstPlaces {
  public:
    FirstPlaces(const Worth& worth, std::int64_t n_pos, std::int64_t n_neg)
        : worth_(worth), half_pn_(0.5 * static_cast<double>(n_pos) * static_cast<double>(n_neg)), largest_(worth.largest(n_pos)) {}
    std::int64_t at() const { return worth_.at(); }
    double half_pn() const { return half_pn_; }
    // The value of place p for the i-th positive is factor(i) * places()[p], up to the place after the last that counts.
    double factor(std::int64_t i) const { return worth_.factor(i) / largest_; }
    const double* places() const { return worth_.places(); }

    double step(std::int64_t i, std::int64_t j) const { return half_pn_ * worth_.factor(i) * (at_place(i + j) - at_place(i + j - 1)) / largest_; }
    double loss(const std::int64_t* above, std::int64_t n_pos) const {
        double total = 0;
        for (std::int64_t i = 1; i <= std::min(n_pos, at()); ++i)
            if (above[i - 1] > 0) total += worth_.factor(i) * (at_place(i) - at_place(i + above[i - 1]));
        return total / largest_;
    }

  private:
    double at_place(std::int64_t p) const { return p > at() ? 0 : places()[p]; }

    const Worth& worth_;  // lives longer
    double half_pn_, largest_;
};

// Decides about the first places once it has seen the best negatives; its answers are then looked up.
class CutoffSearch final : public Search {
  public:
    CutoffSearch(const double* positives, std::int64_t n_pos, std::int64_t n_neg, double loss_scale, const FirstPlaces& places)
        : Search(positives, n_pos, n_neg, loss_scale), places_(places), at_(places.at()), rows_(std::min(n_pos, at_)) {}

    std::int64_t negatives_needed() const override { return std::min(n_neg_, at_); }
    std::int64_t positives_needed() const override { return scale_ < 0 ? rows_ : 0; }

    void decide(const std::vector<double>& best, const std::vector<double>& beyond) override {
        const auto count = static_cast<std::int64_t>(best.size());
        count_above(best);
        // How many positives may stay: all but the last ones would have to be out if there are fewer negatives than places.
        const std::int64_t fewest = std::max<std::int64_t>(0, at_ - n_neg_);
        std::int64_t most = rows_;
        if (scale_ >= 0)
            for (most = 0; most < rows_ && most + 1 + scored_above(most + 1) <= at_;) ++most;
        const std::int64_t words = count / 64 + 1;
        improves_.assign(static_cast<std::size_t>(most * words), 0);
        // The first i positives, the i-th below at most `a` negatives: the most they earn, as a part of what they would by score.
        std::vector<double> earned(static_cast<std::size_t>(count) + 1, 0.0), cost(static_cast<std::size_t>(count) + 2);
        // With exactly m within: what the first m earn, and what it costs the m-th not to be one of them.
        std::vector<double> within(static_cast<std::size_t>(most) + 1, 0.0), leaving(static_cast<std::size_t>(most) + 1, 0.0);
        for (std::int64_t i = 1; i <= most; ++i) {
            const std::int64_t last = std::min(n_neg_, at_ - i), out = at_ - i + 1;
            costs(best, i, std::min(out, n_neg_), cost.data());
            if (out <= n_neg_ && scored_above(i) < out) leaving[static_cast<std::size_t>(i)] = cost[static_cast<std::size_t>(out)];
            const double more = beyond.empty() ? 0.0 : beyond[static_cast<std::size_t>(i - 1)];
            const double scale = scale_ * places_.half_pn() * places_.factor(i), *worth = places_.places() + i;
            std::uint64_t* bits = improves_.data() + (i - 1) * words;
            bits[0] = 1;
            double leader = earned[0] - cost[0];
            earned[0] = leader - more;
            for (std::int64_t a = 1; a <= last; ++a) {
                const auto at = static_cast<std::size_t>(a);
                const double value = earned[at] - cost[at] + scale * (worth[0] - worth[a]);
                const bool improved = value > leader;
                leader = improved ? value : leader;
                earned[at] = leader - more;
                bits[a / 64] |= static_cast<std::uint64_t>(improved) << (a % 64);
            }
            within[static_cast<std::size_t>(i)] = earned[static_cast<std::size_t>(last)];
        }
        choose(best, fewest, most, within, leaving);
        // Of equally good places each took the highest, given those below it.
        std::vector<std::int64_t> above(static_cast<std::size_t>(within_));
        std::int64_t a = std::min(n_neg_, at_ - within_);
        for (std::int64_t i = within_; i >= 1; --i) {
            const std::uint64_t* bits = improves_.data() + (i - 1) * words;
            while (!(bits[a / 64] >> (a % 64) & 1)) --a;
            above[static_cast<std::size_t>(i - 1)] = a;
        }
        ranks_.clear();
        std::int32_t rank = 1;
        for (std::int64_t j = 1; j <= std::min(n_neg_, at_ - within_); ++j) {
            while (rank <= within_ && above[static_cast<std::size_t>(rank - 1)] < j) ++rank;
            ranks_.push_back(rank);
        }
    }

    void solve(Query* queries, std::size_t count) const override {
        for (std::size_t q = 0; q < count; ++q) {
            Query& query = queries[q];
            if (query.j <= static_cast<std::int64_t>(ranks_.size())) {
                query.rank = std::clamp(ranks_[static_cast<std::size_t>(query.j - 1)], query.lo, query.hi);
                continue;
            }
            // Below the positives that are within, and below those that are not scored below it.
            const std::int32_t from = std::clamp(static_cast<std::int32_t>(within_ + 1), query.lo, query.hi);
            const double* found = std::partition_point(positives_ + from - 1, positives_ + query.hi - 1, [&](double p) { return p >= query.s; });
            query.rank = static_cast<std::int32_t>(found - positives_) + 1;
        }
    }
    void thresholds(const Query* queries, std::size_t count, double* scores) const override {
        constexpr double always = 0x1p1000;  // far above all scores that can be added up, and still a number
        for (std::size_t q = 0; q < count; ++q) {
            const Query& query = queries[q];
            const bool decided = query.j <= static_cast<std::int64_t>(ranks_.size());
            if (decided) scores[q] = ranks_[static_cast<std::size_t>(query.j - 1)] > query.lo ? always : -always;
            else scores[q] = query.lo <= within_ ? always : positive(query.lo);
        }
    }
    void steps(std::int64_t first_i, std::int64_t last_i, std::int64_t first_j, std::int64_t last_j, double* out) const override {
        for (std::int64_t i = first_i; i <= last_i; ++i)
            for (std::int64_t j = first_j; j <= last_j; ++j) *out++ = places_.step(i, j);
    }
    double loss(const std::int64_t* above) const override { return places_.loss(above, n_pos_); }

  private:
    // Of the best negatives, how many are scored above a positive? For as many positives as are not below them all.
    void count_above(const std::vector<double>& best) {
        scored_above_.clear();
        const auto count = static_cast<std::int64_t>(best.size());
        for (std::int64_t i = 1, above = 0; i <= n_pos_; ++i) {
            while (above < count && best[static_cast<std::size_t>(above)] > positive(i)) ++above;
            if (above == count) break;
            scored_above_.push_back(above);
        }
        all_ = count;
    }
    std::int64_t scored_above(std::int64_t i) const {
        return i <= static_cast<std::int64_t>(scored_above_.size()) ? scored_above_[static_cast<std::size_t>(i - 1)] : all_;
    }

    // What it costs the i-th positive to stand below 0 .. last negatives, instead of those scored above it; all terms have the same
    // sign.
    void costs(const std::vector<double>& best, std::int64_t i, std::int64_t last, double* cost) const {
        const std::int64_t by_score = scored_above(i);
        const double own = positive(i);
        double sum = 0;
        if (by_score <= last) cost[by_score] = 0;
        for (std::int64_t j = by_score + 1; j <= last; ++j) cost[j] = sum += own - best[static_cast<std::size_t>(j - 1)];
        sum = 0;
        for (std::int64_t j = by_score; j >= 1; --j) {
            sum += best[static_cast<std::size_t>(j - 1)] - own;
            if (j - 1 <= last) cost[j - 1] = sum;
        }
    }

    // How many positives are within: the most of equally good numbers. `tail` is what those that are out give up, less what the
    // loss gains by them, compared with `most` within; the shares of those that can never be within are left out.
    void choose(const std::vector<double>& best, std::int64_t fewest, std::int64_t most, const std::vector<double>& within,
                const std::vector<double>& leaving) {
        const auto known = static_cast<std::int64_t>(scored_above_.size());
        const double origin = best.back();
        // Of the last ones on: a huge first positive must not swallow the others.
        std::vector<double> sums(static_cast<std::size_t>(known) + 1, 0.0);
        for (std::int64_t i = known; i >= 1; --i) sums[static_cast<std::size_t>(i - 1)] = sums[static_cast<std::size_t>(i)] + (positive(i) - origin);
        within_ = most;
        double leader = within[static_cast<std::size_t>(most)], tail = 0;
        for (std::int64_t m = most - 1; m >= fewest; --m) {
            // One more is out, and all that are out have one more negative above them, if they had fewer.
            const std::int64_t j = at_ - m;
            const auto fewer = std::lower_bound(scored_above_.begin(), scored_above_.end(), j) - scored_above_.begin();
            tail += leaving[static_cast<std::size_t>(m + 1)] - scale_ * places_.half_pn() * places_.factor(m + 1) * places_.places()[m + 1];
            if (fewer > m + 1)
                tail += sums[static_cast<std::size_t>(m + 1)] - sums[static_cast<std::size_t>(fewer)] -
                        static_cast<double>(fewer - m - 1) * (best[static_cast<std::size_t>(j - 1)] - origin);
            const double value = within[static_cast<std::size_t>(m)] - tail;
            if (value > leader) leader = value, within_ = m;
        }
    }

    FirstPlaces places_;
    std::int64_t at_, rows_, all_ = 0, within_ = 0;
    std::vector<std::int64_t> scored_above_;
    std::vector<std::uint64_t> improves_;
    std::vector<std::int32_t> ranks_;  // of the first negatives; all others go by score
};

// The best negatives of a list in descending order: candidates above a rising threshold, thinned out when there are twice too
// many. O(n) in any order of the scores. What is not finite is found by the pass that follows.
template <class T>
void best_negatives(const T* scores, std::int64_t n, const std::vector<std::int32_t>& positives, std::int64_t count, std::vector<double>& best) {
    const auto room = static_cast<std::size_t>(2 * count + 64);
    best.clear();
    best.reserve(room + 64);
    T threshold = std::numeric_limits<T>::lowest();
    const auto thin_out = [&] {
        std::nth_element(best.begin(), best.begin() + (count - 1), best.end(), std::greater<>());
        best.resize(static_cast<std::size_t>(count));
        threshold = static_cast<T>(best.back());
    };
    std::size_t next = 0;
    std::int64_t i = 0;
    const auto visit = [&](std::int64_t end) {
        for (; i + 64 <= end; i += 64) {
            std::uint64_t bits = above_threshold(scores + i, threshold);
            if (bits == 0) continue;
            for (; bits; bits &= bits - 1) best.push_back(static_cast<double>(scores[i + __builtin_ctzll(bits)]));
            if (best.size() >= room) thin_out();
        }
        for (; i < end; ++i)
            if (scores[i] > threshold) best.push_back(static_cast<double>(scores[i]));
        if (best.size() >= room) thin_out();
    };
    for (; next < positives.size(); ++next) {
        visit(positives[next]);
        i = positives[next] + 1;
    }
    visit(n);
    if (static_cast<std::int64_t>(best.size()) > count) thin_out();
    // Those at the threshold, the lowest number at first, were not kept again.
    best.resize(static_cast<std::size_t>(count), static_cast<double>(threshold));
    std::sort(best.begin(), best.end(), std::greater<>());
}

// For the first `rows` positives: by how much the negatives that are scored above them, and are not among the best, exceed them in sum.
template <class T>
void sums_beyond(const T* scores, std::int64_t n, const std::vector<std::int32_t>& positives, const double* positive_scores, std::int64_t rows,
                 const std::vector<double>& best, std::vector<double>& beyond) {
    const double threshold = best.back(), lowest = positive_scores[rows - 1];
    auto tied = std::count(best.begin(), best.end(), threshold);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(rows), 0);
    beyond.assign(static_cast<std::size_t>(rows), 0.0);
    std::size_t next = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        if (next < positives.size() && positives[next] == i) {
            ++next;
            continue;
        }
        const auto score = static_cast<double>(scores[i]);
        if (!(score > lowest) || score > threshold || (score == threshold && tied-- > 0)) continue;
        const double* first = std::partition_point(positive_scores, positive_scores + rows - 1, [&](double p) { return p >= score; });
        beyond[static_cast<std::size_t>(first - positive_scores)] += score - *first;
        ++counts[static_cast<std::size_t>(first - positive_scores)];
    }
    for (std::int64_t i = 1; i < rows; ++i) {
        const auto at = static_cast<std::size_t>(i);
        beyond[at] += beyond[at - 1] + static_cast<double>(counts[at - 1]) * (positive_scores[i - 1] - positive_scores[i]);
        counts[at] += counts[at - 1];
    }
}

}  // namespace maxmargin::ranking
