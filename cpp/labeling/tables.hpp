// Tables of costs, one for every edge, in memory that fits into no cache: what all methods want to know of them, from one look; and
// what expansions read of them, in the order in which they do.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "numeric/huge_pages.hpp"

namespace maxmargin::labeling {

struct TableFacts {
    std::vector<double> least, most;  // of every edge
    std::vector<double> apart;        // least cost of two different labels; infinite if there is only one
    bool finite = true;
    bool zero_diagonals = true, symmetric = true;
    // If all tables are multiples of one of them, but for the rounding of a product: which one, and the factors; otherwise -1.
    std::int64_t shared = -1;
    std::vector<double> factors;
};

namespace detail {

// Four at once, as one minimum has to wait for the last.
inline void widen(const double* values, std::size_t n, double& least, double& most) {
    double low[4] = {least, least, least, least}, high[4] = {most, most, most, most};
    std::size_t k = 0;
    for (; k + 4 <= n; k += 4)
        for (std::size_t j = 0; j < 4; ++j) {
            low[j] = values[k + j] < low[j] ? values[k + j] : low[j];
            high[j] = values[k + j] > high[j] ? values[k + j] : high[j];
        }
    for (; k < n; ++k) low[0] = std::min(low[0], values[k]), high[0] = std::max(high[0], values[k]);
    least = std::min(std::min(low[0], low[1]), std::min(low[2], low[3]));
    most = std::max(std::max(high[0], high[1]), std::max(high[2], high[3]));
}

// Not a number, or infinite: what times zero is not zero.
inline bool all_finite(const double* values, std::size_t n) {
    double zero = 0;
    for (std::size_t k = 0; k < n; ++k) zero += values[k] * 0.0;
    return zero == 0;
}

// Both sides of an equation between products may have been rounded.
inline bool is_multiple(const double* values, double factor, const double* of, std::size_t n) {
    constexpr double kRounding = 2 * std::numeric_limits<double>::epsilon();
    int differs = 0;
    for (std::size_t k = 0; k < n; ++k) differs |= !(std::fabs(values[k] - factor * of[k]) <= kRounding * std::fabs(values[k]));
    return !differs;
}

}  // namespace detail

// Tables of shape (n_edges, n, n). Of costs that are not all finite nothing else is told.
inline TableFacts look_at_tables(const double* tables, std::size_t n_edges, std::size_t n) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    TableFacts facts;
    facts.least.resize(n_edges);
    facts.most.resize(n_edges);
    facts.apart.resize(n_edges);
    facts.factors.assign(n_edges, 0.0);
    const std::size_t size = n * n;
    bool multiples = true;
    std::size_t largest = 0;  // where the shared table is
    for (std::size_t e = 0; e < n_edges; ++e) {
        const double* table = tables + e * size;
        if (!detail::all_finite(table, size)) {
            facts.finite = false;
            return facts;
        }
        double apart = kInfinite, most = -kInfinite, least = kInfinite;
        // Between two entries of the diagonal.
        for (std::size_t a = 0; a + 1 < n; ++a) detail::widen(table + a * (n + 1) + 1, n, apart, most);
        for (std::size_t a = 0; a < n; ++a) {
            const double own = table[a * (n + 1)];
            least = std::min(least, own);
            most = std::max(most, own);
            facts.zero_diagonals = facts.zero_diagonals && own == 0;
        }
        least = std::min(least, apart);
        facts.least[e] = least;
        facts.most[e] = most;
        facts.apart[e] = apart;
        for (std::size_t a = 1; facts.symmetric && a < n; ++a)
            for (std::size_t b = 0; b < a; ++b) facts.symmetric = facts.symmetric && table[a * n + b] == table[b * n + a];
        if (!multiples || (least == 0 && most == 0)) continue;  // nothing is a multiple of everything
        if (facts.shared < 0) {
            facts.shared = static_cast<std::int64_t>(e);
            largest = static_cast<std::size_t>(std::max_element(table, table + size, [](double x, double y) { return std::fabs(x) < std::fabs(y); }) - table);
        }
        const double* shared = tables + static_cast<std::size_t>(facts.shared) * size;
        facts.factors[e] = table[largest] / shared[largest];
        multiples = detail::is_multiple(table, facts.factors[e], shared, size);
    }
    if (!multiples) facts.shared = -1;
    else if (facts.shared < 0 && n_edges > 0) facts.shared = 0;
    if (facts.shared < 0) facts.factors.clear();
    return facts;
}

// Costs of every edge (a, b) that has labels y_a, y_b if one end, the other or both take label l: weight times d(y_a, l), d(l, y_b),
// d(l, l). In the tables every one of them is a line of its own, far from the next. Those of the last move to l are kept side by side,
// and only blocks of edges some of whose labels have changed since then are read again: all of their edges, without a look at which,
// as the processor waits less for memory than for what it guessed wrong.
class CostsAround {
  public:
    using Costs = std::array<double, 4>;  // at 2 * (a takes l) + (b takes l)
    static constexpr std::int64_t kBlock = 32;  // edges
    static constexpr std::int64_t kAhead = 2 * kBlock;

    struct Tables {
        const double* tables = nullptr;
        const double* weights = nullptr;
        const std::int32_t* edges = nullptr;
        std::int64_t n_edges = 0;
        std::size_t n_labels = 0;
        bool zero_diagonals = false, symmetric = false;
    };

    CostsAround() = default;
    explicit CostsAround(const Tables& tables) : tables_(tables), seen_(tables.n_labels, 0) {}

    // Before a move to a label: what the labels are now. Then `read` every block, by the number of its first edge, and `fetch` after each
    // of its edges, then `done`; then `moved` if the move is made.
    void begin(std::int32_t label, const std::int32_t* labels, std::size_t n_nodes) {
        // But for the first time, and if another start was taken, they are what moves have made them.
        if (labels_.size() != n_nodes || !std::equal(labels_.begin(), labels_.end(), labels)) start_from(labels, n_nodes);
        label_ = label;
        costs_ = kept_.get() + static_cast<std::size_t>(label) * per_label();
        seen_of_label_ = seen_[static_cast<std::size_t>(label)];
    }
    void read(std::int64_t first) {
        const std::int64_t end = std::min(first + kBlock, tables_.n_edges);
        // The last edges, which make no whole block, are not worth a look at every edge whether it exists.
        const std::int64_t soon = first + kAhead;
        fetches_ = soon + kBlock <= tables_.n_edges && is_old(soon);
        if (!is_old(first)) return;
        if (tables_.zero_diagonals) tables_.symmetric ? read_block<true, true>(first, end) : read_block<true, false>(first, end);
        else tables_.symmetric ? read_block<false, true>(first, end) : read_block<false, false>(first, end);
    }
    // What will be read of the edge kAhead further on. One edge at a time: the processor waits for few lines of memory at once, and in the
    // meantime it has the costs of this edge to work on. In place: gcc drops calls of functions that do nothing else.
#if defined(__GNUC__)
    [[gnu::always_inline]]
#endif
    void fetch([[maybe_unused]] std::int64_t e) const {
#if defined(__GNUC__)
        if (!fetches_) return;
        e += kAhead;
        const auto [a, b] = ends(e);
        __builtin_prefetch(tables_.symmetric ? entry(e, label_, labels_[a]) : entry(e, labels_[a], label_));
        __builtin_prefetch(entry(e, label_, labels_[b]));
#endif
    }
    void done() { seen_[static_cast<std::size_t>(label_)] = time_; }
    bool zero_diagonals() const { return tables_.zero_diagonals; }
    template <bool zero_diagonals>
    Costs of(std::int64_t e) const {
        const double* at = costs_ + static_cast<std::size_t>(e) * (zero_diagonals ? 2 : 3);
        return {now_[static_cast<std::size_t>(e)], at[0], at[1], zero_diagonals ? 0.0 : at[2]};
    }
    // Costs of all edges after the move less those before, to be added to a sum, if the nodes take the label that `takes` has ones for.
    template <class Sum>
    void change(const std::uint8_t* takes, Sum& sum) {
        if (tables_.zero_diagonals) change_with<true>(takes, sum);
        else change_with<false>(takes, sum);
    }
    // That move is made.
    void moved(const std::uint8_t* takes) {
        ++time_;
        for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = takes[i] ? label_ : labels_[i];
        for (std::size_t k = 0; k < changes_.size(); ++k) changed_[k] = changes_[k] ? time_ : changed_[k];
        now_.swap(next_);
    }

    std::size_t n_bytes() const {
        std::size_t count = now_.capacity() + next_.capacity();
        for (const std::int32_t seen : seen_) count += seen > 0 ? per_label() : 0;
        return count * sizeof(double) + (labels_.capacity() + changed_.capacity()) * sizeof(std::int32_t) + changes_.capacity();
    }

  private:
    struct Free {
        void operator()(double* memory) const noexcept { std::free(memory); }
    };

    std::size_t per_label() const { return static_cast<std::size_t>(tables_.n_edges) * n_kept(); }
    std::size_t n_kept() const { return tables_.zero_diagonals ? 2 : 3; }
    std::pair<std::size_t, std::size_t> ends(std::int64_t e) const { return {static_cast<std::size_t>(tables_.edges[2 * e]), static_cast<std::size_t>(tables_.edges[2 * e + 1])}; }
    const double* entry(std::int64_t e, std::int32_t a, std::int32_t b) const {
        return tables_.tables + (static_cast<std::size_t>(e) * tables_.n_labels + static_cast<std::size_t>(a)) * tables_.n_labels + static_cast<std::size_t>(b);
    }
    double cost(std::int64_t e, std::int32_t a, std::int32_t b) const { return tables_.weights[e] * *entry(e, a, b); }

    void start_from(const std::int32_t* labels, std::size_t n_nodes) {
        labels_.assign(labels, labels + n_nodes);
        if (!kept_) {
            // Never more than the tables, and nothing until written: no zeros that all labels would have to wait for.
            const std::size_t bytes = std::max(tables_.n_labels * per_label(), std::size_t{1}) * sizeof(double);
            kept_.reset(static_cast<double*>(std::malloc(bytes)));
            if (!kept_) throw std::bad_alloc();
            prefer_huge_pages(kept_.get(), bytes);
        }
        now_.resize(static_cast<std::size_t>(tables_.n_edges));
        next_.resize(now_.size());
        for (std::int64_t e = 0; e < tables_.n_edges; ++e) {
            const auto [a, b] = ends(e);
#if defined(__GNUC__)
            if (e + kAhead < tables_.n_edges) __builtin_prefetch(entry(e + kAhead, labels_[ends(e + kAhead).first], labels_[ends(e + kAhead).second]));
#endif
            now_[static_cast<std::size_t>(e)] = cost(e, labels_[a], labels_[b]);
        }
        changed_.assign(static_cast<std::size_t>((tables_.n_edges + kBlock - 1) / kBlock), ++time_);
        changes_.resize(changed_.size());
    }
    bool is_old(std::int64_t first) const { return changed_[static_cast<std::size_t>(first / kBlock)] > seen_of_label_; }
    template <bool zero_diagonals, class Sum>
    void change_with(const std::uint8_t* takes, Sum& sum) {
        for (std::int64_t first = 0; first < tables_.n_edges; first += kBlock) {
            unsigned any = 0;
            for (std::int64_t e = first; e < std::min(first + kBlock, tables_.n_edges); ++e) {
                const auto [a, b] = ends(e);
                const unsigned which = 2u * takes[a] + takes[b];
                const Costs costs = of<zero_diagonals>(e);
                next_[static_cast<std::size_t>(e)] = costs[which];
                if (which) sum.add(costs[which] - costs[0]);
                any |= which;
            }
            changes_[static_cast<std::size_t>(first / kBlock)] = any != 0;
        }
    }
    // Both costs of a label to those of the ends are in its own row, if that is possible: neighbours have similar labels.
    template <bool zero_diagonals, bool symmetric>
    void read_block(std::int64_t first, std::int64_t end) {
        double* at = costs_ + static_cast<std::size_t>(first) * (zero_diagonals ? 2 : 3);
        for (std::int64_t e = first; e < end; ++e) {
            const auto [a, b] = ends(e);
            *at++ = symmetric ? cost(e, label_, labels_[a]) : cost(e, labels_[a], label_);
            *at++ = cost(e, label_, labels_[b]);
            if (!zero_diagonals) *at++ = cost(e, label_, label_);
        }
    }

    Tables tables_;
    std::unique_ptr<double, Free> kept_;     // of every label: two or three costs of every edge
    std::vector<double> now_, next_;         // cost of the labels of every edge; after the move
    std::vector<std::int32_t> labels_;       // of every node
    std::vector<std::int32_t> changed_;      // of every block: when a label of its edges has last changed
    std::vector<std::uint8_t> changes_;      // of every block: whether the move changes one
    std::vector<std::int32_t> seen_;         // of every label: when all edges were read for it
    std::int32_t time_ = 0, seen_of_label_ = 0;
    std::int32_t label_ = 0;
    bool fetches_ = false;  // whether the block kAhead further on will be read
    double* costs_ = nullptr;
};

}  // namespace maxmargin::labeling
