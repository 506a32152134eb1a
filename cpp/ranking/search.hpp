// The one question every ranking method asks: where does a negative go?
//
// Negatives are numbered j = 1..N by descending score, positives i = 1..P likewise. Placing the j-th negative
// (score s) below the first i-1 positives earns f_j(i), and
//
//     (PN/2) (f_j(i+1) - f_j(i)) = s+_i - s + step(i, j),      step(i, j) = (PN/2) (delta_j(i+1) - delta_j(i)),
//
// where delta is the loss's share of that negative (Mohapatra et al., CVPR 2018, section 3). The answer is the
// *largest* maximiser of f_j: it is monotone in (j, -s), which is what all divide-and-conquer methods live on, and it
// makes the solution unique in the presence of ties.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxmargin::ranking {

// Find the largest maximiser of f_j over the ranks lo..hi (1-based, inclusive) for a negative of score s.
struct Query {
    double s;
    std::int64_t j;
    std::int32_t lo, hi;
    std::int32_t rank;  // the answer
};

// A list's sorted positives together with a loss. `solve` answers a batch of queries, so that a loss written in Python
// is asked a dozen times per list instead of once per negative.
class Search {
  public:
    Search(const double* positives, std::int64_t n_pos, std::int64_t n_neg, double loss_scale)
        : positives_(positives), n_pos_(n_pos), n_neg_(n_neg), scale_(loss_scale) {}
    virtual ~Search() = default;

    virtual void solve(Query* queries, std::size_t count) const = 0;
    // The unscaled loss of a ranking, from the number of negatives above each positive (best positive first).
    virtual double loss(const std::int64_t* negatives_above) const = 0;
    // For i = lo of each query: the score at or below which the j-th negative prefers the rank i+1 to i, up to rounding.
    virtual void thresholds(const Query* queries, std::size_t count, double* scores) const = 0;
    // step(i, j) for i = first_i .. last_i and j = first_j .. last_j, row by row.
    virtual void steps(std::int64_t first_i, std::int64_t last_i, std::int64_t first_j, std::int64_t last_j, double* out) const = 0;
    // The plain procedure: every rank, each step computed from its definition.
    virtual std::int32_t scan(std::int64_t j, double s) const { return rank(j, s, 1, static_cast<std::int32_t>(n_pos_ + 1)); }
    // A loss with a cut-off answers only once it has seen the best negatives, `negatives_needed` of them in descending order, and
    // if it is subtracted, for the first `positives_needed` positives, by how much others that are scored above them exceed them.
    virtual std::int64_t negatives_needed() const { return 0; }
    virtual std::int64_t positives_needed() const { return 0; }
    virtual void decide(const std::vector<double>& /* best */, const std::vector<double>& /* beyond */) {}
    // True where a query is dear and batches are cheap: then trees are searched level by level.
    virtual bool prefers_batches() const { return false; }

    std::int32_t rank(std::int64_t j, double s, std::int32_t lo, std::int32_t hi) const {
        Query query{s, j, lo, hi, lo};
        if (lo < hi) solve(&query, 1);
        return query.rank;
    }

    std::int64_t n_pos() const { return n_pos_; }
    std::int64_t n_neg() const { return n_neg_; }
    double loss_scale() const { return scale_; }
    // Scores of the positives, best first; positive(i) is 1-based.
    double positive(std::int64_t i) const { return positives_[i - 1]; }

  protected:
    // `rank` becomes the last of the ranks first + 1 .. last that is at least as good as all before it. What is added up is how far
    // f_j(i+1) is ahead of the best so far: a huge early gain then swallows no later one.
    template <class Gain>
    static void scan_ranks(std::int32_t first, std::int32_t last, const Gain& gain, std::int32_t& rank) {
        double ahead = 0;
        for (std::int32_t i = first; i < last; ++i) {
            ahead += gain(i);
            if (ahead >= 0) ahead = 0, rank = i + 1;
        }
    }

    const double* positives_;
    std::int64_t n_pos_, n_neg_;
    double scale_;
};

// log(1 + x) for 0 < x <= 1, by its series where five terms are exact in double precision.
inline double log1p_reciprocal(double k) {
    const double x = 1.0 / k;
    if (k < 512) return std::log1p(x);
    return x * (1 - x * (1.0 / 2 - x * (1.0 / 3 - x * (1.0 / 4 - x * (1.0 / 5 - x / 6)))));
}

// ---- built-in losses: each gives step(i, j) and the loss of a whole ranking ------------------------------------------

struct AveragePrecision {
    // For i <= j the steps fall with i, so f_j is concave there and bisection replaces the scan (section 3.4).
    static constexpr bool concave_up_to_j = true;
    double half_n;
    AveragePrecision(std::int64_t, std::int64_t n_neg) : half_n(0.5 * static_cast<double>(n_neg)) {}

    double step(std::int32_t i, std::int64_t j) const {
        const double position = static_cast<double>(i) + static_cast<double>(j);
        return -half_n * i / (position * (position - 1));
    }
    static double loss(const std::int64_t* above, std::int64_t n_pos) {
        double total = 0;
        for (std::int64_t i = 0; i < n_pos; ++i)
            total += static_cast<double>(above[i]) / static_cast<double>(i + 1 + above[i]);
        return total / static_cast<double>(n_pos);
    }
};

struct Ndcg {
    static constexpr bool concave_up_to_j = false;
    double factor;  // PN/2 over the ideal DCG
    const double *discounts, *drops;
    Ndcg(std::int64_t n_pos, std::int64_t n_neg)
        : factor(0.5 * static_cast<double>(n_pos) * static_cast<double>(n_neg)), discounts(tables().discount.data()), drops(tables().drop.data()) {
        factor /= ideal(n_pos);
    }

    static double plain_discount(double position) { return 1.0 / std::log2(1 + position); }
    // D(k) - D(k+1) without cancellation: (q / (a (a + q))) ln 2 with a = ln(k+1), q = ln((k+2)/(k+1)).
    static double plain_drop(double k) {
        const double a = std::log(k + 1), q = log1p_reciprocal(k + 1);
        return 0.6931471805599453 * q / (a * (a + q));
    }
    double discount(std::int64_t k) const { return k < kTable ? discounts[k] : plain_discount(static_cast<double>(k)); }
    double drop(std::int64_t k) const { return k < kTable ? drops[k] : plain_drop(static_cast<double>(k)); }
    double step(std::int32_t i, std::int64_t j) const { return -factor * drop(i + j - 1); }

    double ideal(std::int64_t n_pos) const {
        double total = 0;
        for (std::int64_t i = n_pos; i >= 1; --i) total += discount(i);
        return total;
    }
    double loss(const std::int64_t* above, std::int64_t n_pos) const {
        double total = 0;
        for (std::int64_t i = 1; i <= n_pos; ++i)
            if (above[i - 1] > 0) total += discount(i) - discount(i + above[i - 1]);
        return total / ideal(n_pos);
    }

  private:
    // The first positions are asked for again and again; made once per process.
    static constexpr std::int64_t kTable = 32768;
    struct Tables {
        std::vector<double> discount, drop;
    };
    static const Tables& tables() {
        static const Tables made = [] {
            Tables t;
            t.discount.assign(1, 0), t.drop.assign(1, 0);
            for (std::int64_t k = 1; k < kTable; ++k) {
                t.discount.push_back(plain_discount(static_cast<double>(k)));
                t.drop.push_back(plain_drop(static_cast<double>(k)));
            }
            return t;
        }();
        return made;
    }
};

struct Auc {
    static constexpr bool concave_up_to_j = false;
    std::int64_t n_neg;
    Auc(std::int64_t, std::int64_t n) : n_neg(n) {}
    double step(std::int32_t, std::int64_t) const { return -0.5; }
    double loss(const std::int64_t* above, std::int64_t n_pos) const {
        double total = 0;
        for (std::int64_t i = 0; i < n_pos; ++i) total += static_cast<double>(above[i]);
        return total / (static_cast<double>(n_pos) * static_cast<double>(n_neg));
    }
};

struct ReciprocalRank {
    static constexpr bool concave_up_to_j = false;
    double half_pn;
    ReciprocalRank(std::int64_t n_pos, std::int64_t n_neg)
        : half_pn(0.5 * static_cast<double>(n_pos) * static_cast<double>(n_neg)) {}
    double step(std::int32_t i, std::int64_t j) const {
        return i == 1 ? -half_pn / (static_cast<double>(j) * (static_cast<double>(j) + 1)) : 0.0;
    }
    static double loss(const std::int64_t* above, std::int64_t) {
        return static_cast<double>(above[0]) / static_cast<double>(above[0] + 1);
    }
};

// Rank-biased precision: the discount (1 - p) p^(place - 1) falls and is convex.
struct Rbp {
    static constexpr bool concave_up_to_j = false;
    static constexpr std::int64_t kTable = 1024;
    double persistence, factor;  // PN/2 (1 - p)^2
    const std::vector<double>& powers;  // p^0, p^1, ...; lives longer
    Rbp(std::int64_t n_pos, std::int64_t n_neg, double p, const std::vector<double>& powers_of_p)
        : persistence(p), factor(0.5 * static_cast<double>(n_pos) * static_cast<double>(n_neg) * (1 - p) * (1 - p)), powers(powers_of_p) {}
    double power(std::int64_t k) const {
        return k < static_cast<std::int64_t>(powers.size()) ? powers[static_cast<std::size_t>(k)] : std::pow(persistence, static_cast<double>(k));
    }
    double step(std::int32_t i, std::int64_t j) const { return -factor * power(i + j - 2); }
    double loss(const std::int64_t* above, std::int64_t n_pos) const {
        const double rate = std::log(persistence);
        double total = 0;
        for (std::int64_t i = 0; i < n_pos; ++i) {
            const double here = power(i);
            if (here == 0) break;
            if (above[i] > 0) total -= here * std::expm1(static_cast<double>(above[i]) * rate);
        }
        return (1 - persistence) * total;
    }
};

// What precision and recall are where the first places hold the whole list.
struct Nothing {
    static constexpr bool concave_up_to_j = false;
    static double step(std::int32_t, std::int64_t) { return 0; }
    static double loss(const std::int64_t*, std::int64_t) { return 0; }
};

// A loss that keeps tables also knows how to do without; the classic procedures are timed as they were published.
template <class Loss>
double plain_step(const Loss& loss, std::int32_t i, std::int64_t j) {
    return loss.step(i, j);
}
inline double plain_step(const Ndcg& loss, std::int32_t i, std::int64_t j) {
    const double k = static_cast<double>(i) + static_cast<double>(j);
    return loss.factor * (Ndcg::plain_discount(k) - Ndcg::plain_discount(k - 1));
}

template <class Loss>
class LossSearch final : public Search {
  public:
    LossSearch(const double* positives, std::int64_t n_pos, std::int64_t n_neg, double loss_scale, const Loss& loss)
        : Search(positives, n_pos, n_neg, loss_scale), loss_(loss) {}

    void solve(Query* queries, std::size_t count) const override {
        for (std::size_t q = 0; q < count; ++q) answer(queries[q]);
    }
    double loss(const std::int64_t* above) const override { return loss_.loss(above, n_pos_); }
    void thresholds(const Query* queries, std::size_t count, double* scores) const override {
        for (std::size_t q = 0; q < count; ++q) scores[q] = positive(queries[q].lo) + scale_ * loss_.step(queries[q].lo, queries[q].j);
    }

    void steps(std::int64_t first_i, std::int64_t last_i, std::int64_t first_j, std::int64_t last_j, double* out) const override {
        for (std::int64_t i = first_i; i <= last_i; ++i)
            for (std::int64_t j = first_j; j <= last_j; ++j) *out++ = loss_.step(static_cast<std::int32_t>(i), j);
    }

    std::int32_t scan(std::int64_t j, double s) const override {
        std::int32_t best = 1;
        scan_ranks(1, static_cast<std::int32_t>(n_pos_ + 1), [&](std::int32_t i) { return positive(i) - s + scale_ * plain_step(loss_, i, j); }, best);
        return best;
    }

  private:
    double gain(std::int32_t i, std::int64_t j, double s) const { return positive(i) - s + scale_ * loss_.step(i, j); }

    void answer(Query& q) const {
        std::int32_t start = q.lo;
        q.rank = q.lo;
        if constexpr (Loss::concave_up_to_j) {
            const auto concave = static_cast<std::int32_t>(std::min<std::int64_t>(q.hi, std::max<std::int64_t>(q.lo, q.j + 1)));
            std::int32_t low = q.lo, high = concave;
            while (low < high) {
                const std::int32_t middle = low + (high - low + 1) / 2;
                if (gain(middle - 1, q.j, q.s) >= 0) low = middle;
                else high = middle - 1;
            }
            q.rank = low;
            if (concave == q.hi) return;
            start = low;
        }
        scan_ranks(start, q.hi, [&](std::int32_t i) { return gain(i, q.j, q.s); }, q.rank);
    }

    Loss loss_;
};

// The answers along a sequence of points whose rank j never falls and whose score never rises; `at(k)` gives point k as
// a Query with j and s filled in, `take(first, last, rank)` gets the answer of a stretch of points. Halving the sequence, each
// answer bounds those on both sides (section 3.3.3).
template <class At, class Take>
void visit_monotone(const Search& search, std::int64_t count, const At& at, std::int32_t lo, std::int32_t hi, const Take& take) {
    struct Span {
        std::int64_t first, last;
        std::int32_t lo, hi;
    };
    if (count <= 0) return;
    if (!search.prefers_batches()) {
        Span stack[130];  // depth first: at most one waiting half per halving
        int depth = 0;
        stack[depth++] = {0, count - 1, lo, hi};
        while (depth > 0) {
            const Span span = stack[--depth];
            if (span.lo == span.hi) {
                take(span.first, span.last, span.lo);
                continue;
            }
            const std::int64_t middle = span.first + (span.last - span.first) / 2;
            Query query = at(middle);
            query.lo = span.lo, query.hi = span.hi;
            search.solve(&query, 1);
            take(middle, middle, query.rank);
            if (span.first < middle) stack[depth++] = {span.first, middle - 1, span.lo, query.rank};
            if (middle < span.last) stack[depth++] = {middle + 1, span.last, query.rank, span.hi};
        }
        return;
    }
    std::vector<Span> spans{{0, count - 1, lo, hi}}, next;
    std::vector<Query> queries;
    while (!spans.empty()) {
        queries.clear();
        next.clear();
        for (const Span& span : spans) {
            if (span.lo == span.hi) {
                take(span.first, span.last, span.lo);
                continue;
            }
            Query query = at(span.first + (span.last - span.first) / 2);
            query.lo = span.lo, query.hi = span.hi;
            queries.push_back(query);
            next.push_back(span);
        }
        spans.clear();
        if (queries.empty()) break;
        search.solve(queries.data(), queries.size());
        for (std::size_t k = 0; k < next.size(); ++k) {
            const Span& span = next[k];
            const std::int64_t middle = span.first + (span.last - span.first) / 2;
            const std::int32_t rank = queries[k].rank;
            take(middle, middle, rank);
            if (span.first < middle) spans.push_back({span.first, middle - 1, span.lo, rank});
            if (middle < span.last) spans.push_back({middle + 1, span.last, rank, span.hi});
        }
    }
}

// The same with an answer for every point.
template <class At>
void search_monotone(const Search& search, std::int64_t count, const At& at, std::int32_t lo, std::int32_t hi, std::int32_t* answers) {
    visit_monotone(search, count, at, lo, hi, [&](std::int64_t first, std::int64_t last, std::int32_t rank) {
        std::fill(answers + first, answers + last + 1, rank);
    });
}

}  // namespace maxmargin::ranking
