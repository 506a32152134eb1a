// From fractional labelings to labels, and what that costs on average.
//
// A fractional labeling says how much of every label a node has; y[a, i], and Y[a, i] = y[a, 0] + ... + y[a, i]. Complete rounding
// draws one number r for all nodes, and a node takes the label whose part of [0, 1) holds r. Two ends of an edge change their labels
// where r passes an entry of their Y, so the mean of an edge's cost is a sum over the merged entries of both: 2 L - 1 parts for any
// table, where the closed form with |Y_a(i) - Y_b(j)| has L^2 terms, and its band for truncated metrics still L times the limit.
//
// Interval rounding draws a window of neighbouring labels and a number, over and over; nodes that have no label yet, and whose share of
// the window holds the number, take theirs. A label is in as many windows as any other, so a node gets each as often as it has of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "numeric/compensated_sum.hpp"
#include "numeric/threads.hpp"

namespace maxmargin::labeling {

// One table for all edges, or one for each.
struct WeightedTables {
    const std::int32_t* edges;
    std::int64_t n_edges;
    bool shared;
    const double* tables;
    const double* weights;

    const double* table(std::int64_t e, int n_labels) const { return shared ? tables : tables + e * n_labels * n_labels; }
};

// Y of every node. Labels after the last one that a node has must not be drawn because a sum is a little less than 1, so Y is 1 from
// there on; the last entry is beyond all numbers that are drawn, which keeps it out of merges.
inline std::vector<double> cumulative(const double* marginals, std::int64_t n_nodes, int n_labels) {
    std::vector<double> sums(static_cast<std::size_t>(n_nodes * n_labels));
    for (std::int64_t a = 0; a < n_nodes; ++a) {
        const double* y = marginals + a * n_labels;
        double* to = sums.data() + a * n_labels;
        double total = 0.0;
        int last = 0;
        for (int i = 0; i < n_labels; ++i) {
            total += y[i];
            to[i] = total;
            if (y[i] > 0) last = i;
        }
        for (int i = 0; i < last; ++i) to[i] = std::min(to[i] / total, 1.0);
        for (int i = last; i < n_labels; ++i) to[i] = 1.0;
        to[n_labels - 1] = 2.0;
    }
    return sums;
}

// An edge in a merge: cumulative sums of its ends, its table, and where derivatives go.
struct Merge {
    const double *a, *b, *cell;
    double *to_a, *to_b;
    double factor, mean;
    bool tied;
};

// The mean costs of some edges, and whether entries of their ends are equal. At an entry of Y the cost changes by a difference of two
// entries of the table: that is the derivative. The mean sums lengths of parts times costs, since a pair of labels that is never drawn
// must not matter, however much it costs. `a_first` says which of two equal entries comes first. Steps of an edge wait for each other,
// so several edges go side by side.
template <bool gradient, bool a_first, int W>
inline void merge(Merge* edges, int n_labels) {
    const double *a[W], *b[W], *cell[W];
    double *to_a[W], *to_b[W], here[W], sum[W], before[W];
    bool tied[W];
    for (int w = 0; w < W; ++w) {
        a[w] = edges[w].a;
        b[w] = edges[w].b;
        cell[w] = edges[w].cell;
        to_a[w] = edges[w].to_a;
        to_b[w] = edges[w].to_b;
        here[w] = *cell[w];
        sum[w] = before[w] = 0.0;
        tied[w] = false;
    }
    for (int step = 2 * (n_labels - 1); step > 0; --step) {
        for (int w = 0; w < W; ++w) {
            const double x = *a[w], y = *b[w];
            // As numbers, since which end moves is a coin toss that no processor foresees.
            const std::ptrdiff_t moves = a_first ? x <= y : x < y, stays = 1 - moves;
            tied[w] |= x == y;
            a[w] += moves;
            b[w] += stays;
            cell[w] += stays + (-moves & n_labels);
            const double next = *cell[w], change = here[w] - next, here_ends = std::min(x, y);
            sum[w] += (here_ends - before[w]) * here[w];
            before[w] = here_ends;
            here[w] = next;
            if (gradient) {
                double* ends[2] = {to_b[w], to_a[w]};
                *ends[moves] += edges[w].factor * change;
                to_a[w] += moves;
                to_b[w] += stays;
            }
        }
    }
    for (int w = 0; w < W; ++w) {
        edges[w].mean = sum[w] + (1.0 - before[w]) * here[w];
        edges[w].tied = tied[w];
    }
}

inline double merged_mean(const double* a, const double* b, const double* table, int n_labels) {
    Merge one{a, b, table, nullptr, nullptr, 0.0, 0.0, false};
    merge<false, true, 1>(&one, n_labels);
    return one.mean;
}

// Mean of sum_a unary[a, x_a] + sum_e weight_e * table_e[x_a, x_b] under complete rounding. The gradient, shape (nodes, labels), is with
// respect to y while Y of the last label stays 1: right for all changes that add up to zero. Where entries of two ends are equal there
// is a kink, and the mean of both sides is taken.
inline double expected_energy(const double* marginals, const double* unary, const WeightedTables& pairs, std::int64_t n_nodes, int n_labels, double* gradient) {
    const std::vector<double> sums = cumulative(marginals, n_nodes, n_labels);
    CompensatedSum total;
    bool forbidden = false;
    for (std::int64_t k = 0; k < n_nodes * n_labels; ++k)
        if (marginals[k] > 0) {
            if (unary[k] == std::numeric_limits<double>::infinity()) forbidden = true;
            else total.add(marginals[k] * unary[k]);
        }
    const auto begin = [&](std::int64_t e, double factor) {
        const std::int64_t at_a = static_cast<std::int64_t>(pairs.edges[2 * e]) * n_labels, at_b = static_cast<std::int64_t>(pairs.edges[2 * e + 1]) * n_labels;
        return Merge{sums.data() + at_a, sums.data() + at_b, pairs.table(e, n_labels), gradient ? gradient + at_a : nullptr, gradient ? gradient + at_b : nullptr, factor * pairs.weights[e], 0.0, false};
    };
    const auto end = [&](std::int64_t e, const Merge& done) {
        total.add(pairs.weights[e] * done.mean);
        if (!gradient || !done.tied) return;
        // Half of what the other order says, and half of the first one taken back.
        Merge back = begin(e, -0.5), other = begin(e, 0.5);
        merge<true, true, 1>(&back, n_labels);
        merge<true, false, 1>(&other, n_labels);
    };
    constexpr int together = 4;
    Merge side[together];
    std::int64_t e = 0;
    for (; e + together <= pairs.n_edges; e += together) {
        for (int w = 0; w < together; ++w) side[w] = begin(e + w, 1.0);
        if (gradient) merge<true, true, together>(side, n_labels);
        else merge<false, true, together>(side, n_labels);
        for (int w = 0; w < together; ++w) end(e + w, side[w]);
    }
    for (; e < pairs.n_edges; ++e) {
        side[0] = begin(e, 1.0);
        if (gradient) merge<true, true, 1>(side, n_labels);
        else merge<false, true, 1>(side, n_labels);
        end(e, side[0]);
    }
    if (gradient)
        for (std::int64_t a = 0; a < n_nodes; ++a) {
            double *row = gradient + a * n_labels, later = 0.0;
            const double* costs = unary + a * n_labels;
            // What is added to a label moves its Y and all later ones, but for the last.
            for (int i = n_labels - 1; i >= 0; --i) {
                if (i + 1 < n_labels) later += row[i];
                row[i] = later + costs[i];
            }
        }
    return forbidden ? std::numeric_limits<double>::infinity() : total.value();
}

// Numbers that depend on a seed and on which labeling is drawn, but not on who draws it (SplitMix64, Steele et al. 2014).
class Draws {
  public:
    Draws(std::uint64_t seed, std::uint64_t which) : state_(mixed(mixed(seed) + 0x9e3779b97f4a7c15u * (which + 1))) {}
    std::uint64_t bits() { return mixed(state_ += 0x9e3779b97f4a7c15u); }
    // In [0, 1).
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    // In 0 .. count - 1.
    int below(int count) { return static_cast<int>(((bits() >> 32) * static_cast<std::uint64_t>(count)) >> 32); }

  private:
    static std::uint64_t mixed(std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    std::uint64_t state_;
};

enum class Rounding { complete, independent, interval };

class Rounder {
  public:
    Rounder(const double* marginals, std::int64_t n_nodes, int n_labels) : n_nodes_(n_nodes), n_labels_(n_labels), sums_(cumulative(marginals, n_nodes, n_labels)) {}

    // The label whose part of [0, 1) holds r.
    std::int32_t at(std::int64_t node, double r) const { return count(sums_.data() + node * n_labels_, n_labels_ - 1, r); }

    // The labels that nodes take from the window first .. first + length - 1 (which may reach beyond the labels), or -1.
    void window(int first, int length, double r, std::int32_t* labels) const {
        std::vector<std::int32_t> waiting(static_cast<std::size_t>(n_nodes_));
        std::iota(waiting.begin(), waiting.end(), 0);
        std::fill_n(labels, n_nodes_, -1);
        try_window(first, length, r, labels, waiting.data(), waiting.size());
    }

    void draw(Rounding method, int length, std::uint64_t seed, std::uint64_t which, std::int32_t* labels, std::vector<std::int32_t>& waiting) const {
        Draws draws(seed, which);
        if (method == Rounding::complete) {
            const double r = draws.uniform();
            for (std::int64_t a = 0; a < n_nodes_; ++a) labels[a] = at(a, r);
            return;
        }
        if (method == Rounding::independent) {
            for (std::int64_t a = 0; a < n_nodes_; ++a) labels[a] = at(a, draws.uniform());
            return;
        }
        // So many windows miss a node with a probability below e^-300; those that are left take what they would from all labels.
        const int n_windows = n_labels_ + length - 1;
        const std::size_t most = 300 * static_cast<std::size_t>(n_windows / length + 1);
        const double spare = draws.uniform();
        // All nodes see the same windows, but some at a time go through them, while their sums are near by.
        constexpr std::int64_t near_by = 1024;
        std::vector<std::pair<int, double>> windows;
        waiting.resize(near_by);
        for (std::int64_t from = 0; from < n_nodes_; from += near_by) {
            std::size_t left = static_cast<std::size_t>(std::min(near_by, n_nodes_ - from));
            for (std::size_t k = 0; k < left; ++k) waiting[k] = static_cast<std::int32_t>(from) + static_cast<std::int32_t>(k);
            for (std::size_t round = 0; round < most && left > 0; ++round) {
                if (round == windows.size()) {
                    const int first = draws.below(n_windows) - (length - 1);
                    windows.emplace_back(first, draws.uniform());
                }
                left = try_window(windows[round].first, length, windows[round].second, labels, waiting.data(), left);
            }
            for (std::size_t k = 0; k < left; ++k) labels[waiting[k]] = at(waiting[k], spare);
        }
    }

    // Energies of the labelings first .. first + count - 1 of a seed, into `energies`; which of them is the first of the best ones.
    std::int64_t energies(const double* unary, const WeightedTables& pairs, Rounding method, int length, std::uint64_t seed, std::int64_t first, std::int64_t count, int n_threads,
                          double* energies) const {
        // A few draws share their arrays, but every thread has some to do.
        const std::int64_t together = std::clamp<std::int64_t>(count / (4 * std::max(1, n_threads)), 1, 4);
        share_out(n_threads, static_cast<std::size_t>((count + together - 1) / together), [&](std::size_t part) {
            std::vector<std::int32_t> labels(static_cast<std::size_t>(n_nodes_)), waiting;
            const auto from = static_cast<std::int64_t>(part) * together;
            for (std::int64_t k = from; k < std::min(count, from + together); ++k) {
                draw(method, length, seed, static_cast<std::uint64_t>(first + k), labels.data(), waiting);
                energies[k] = energy(unary, pairs, labels.data());
            }
        });
        return std::min_element(energies, energies + count) - energies;
    }

  private:
    // Labels from a window for nodes that wait; how many of them wait on.
    std::size_t try_window(int first, int length, double r, std::int32_t* labels, std::int32_t* waiting, std::size_t n) const {
        const int low = std::max(0, first), high = std::min(n_labels_ - 1, first + length - 1);
        const bool from_first = low == 0, to_last = high == n_labels_ - 1;
        std::size_t left = 0;
        for (std::size_t k = 0; k < n; ++k) {
            const std::int32_t a = waiting[k];
            const double* sums = sums_.data() + static_cast<std::int64_t>(a) * n_labels_;
            const double below = from_first ? 0.0 : sums[low - 1], above = to_last ? 1.0 : sums[high];
            waiting[left] = a;
            if (r >= above - below) {
                ++left;
                continue;
            }
            std::int32_t label = low;
            while (label < high && sums[label] - below <= r) ++label;
            labels[a] = label;
        }
        return left;
    }
    static std::int32_t count(const double* sums, int n, double r) {
        std::int32_t passed = 0;
        for (int i = 0; i < n; ++i) passed += sums[i] <= r;
        return passed;
    }
    double energy(const double* unary, const WeightedTables& pairs, const std::int32_t* labels) const {
        double nodes = 0.0, edges = 0.0;
        for (std::int64_t a = 0; a < n_nodes_; ++a) nodes += unary[a * n_labels_ + labels[a]];
        for (std::int64_t e = 0; e < pairs.n_edges; ++e)
            edges += pairs.weights[e] * pairs.table(e, n_labels_)[static_cast<std::int64_t>(labels[pairs.edges[2 * e]]) * n_labels_ + labels[pairs.edges[2 * e + 1]]];
        return nodes + edges;
    }

    std::int64_t n_nodes_;
    int n_labels_;
    std::vector<double> sums_;
};

}  // namespace maxmargin::labeling
