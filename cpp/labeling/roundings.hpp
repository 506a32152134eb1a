// From fractional labelings to labels, and what that costs on average.
//
// A fractional labeling says how much of every label a node has; y[a, i], and Y[a, i] = y[a, 0] + ... + y[a, i]. Complete rounding
// draws one number r for all nodes, and a node takes the label whose part of [0, 1) holds r. Two ends of an edge change their labels
// where r passes an entry of their Y, so the mean of an edge's cost is a sum over the merged entries of both: 2 L - 1 parts for any
// table, where the closed form with |Y_a(i) - Y_b(j)| has L^2 terms, and its band for truncated metrics still L times the limit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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

// The mean cost of an edge, and whether entries of both ends are equal. At an entry of Y the cost changes by a difference of two
// entries of the table: that is the derivative, and summing entries times derivatives gives the mean. `a_first` says which of two
// equal entries comes first.
template <bool gradient, bool a_first>
inline bool merge(const double* a, const double* b, const double* table, int n_labels, double factor, double& mean, double* to_a, double* to_b) {
    int i = 0, j = 0;
    bool tied = false;
    double here = table[0], sum = 0.0;
    for (int step = 2 * (n_labels - 1); step > 0; --step) {
        const double x = a[i], y = b[j];
        const bool moves = a_first ? x <= y : x < y;
        tied |= x == y;
        double* to = moves ? to_a + i : to_b + j;
        i += moves;
        j += !moves;
        const double next = table[static_cast<std::int64_t>(i) * n_labels + j], change = here - next;
        sum += (moves ? x : y) * change;
        if (gradient) *to += factor * change;
        here = next;
    }
    mean = here + sum;
    return tied;
}

// Mean of sum_a unary[a, x_a] + sum_e weight_e * table_e[x_a, x_b] under complete rounding. The gradient, shape (nodes, labels), is with
// respect to y while Y of the last label stays 1: right for all changes that add up to zero. Where entries of two ends are equal there
// is a kink, and the mean of both sides is taken.
inline double expected_energy(const double* marginals, const double* unary, const WeightedTables& pairs, std::int64_t n_nodes, int n_labels, double* gradient) {
    const std::vector<double> sums = cumulative(marginals, n_nodes, n_labels);
    CompensatedSum total;
    for (std::int64_t k = 0; k < n_nodes * n_labels; ++k)
        if (marginals[k] > 0) total.add(marginals[k] * unary[k]);
    for (std::int64_t e = 0; e < pairs.n_edges; ++e) {
        const double weight = pairs.weights[e], *table = pairs.table(e, n_labels);
        const std::int64_t at_a = static_cast<std::int64_t>(pairs.edges[2 * e]) * n_labels, at_b = static_cast<std::int64_t>(pairs.edges[2 * e + 1]) * n_labels;
        const double *a = sums.data() + at_a, *b = sums.data() + at_b;
        double mean = 0.0, again = 0.0;
        if (!gradient) {
            merge<false, true>(a, b, table, n_labels, 0.0, mean, nullptr, nullptr);
        } else if (merge<true, true>(a, b, table, n_labels, weight, mean, gradient + at_a, gradient + at_b)) {
            // Half of what the other order says, and half of the first one taken back.
            merge<true, true>(a, b, table, n_labels, -0.5 * weight, again, gradient + at_a, gradient + at_b);
            merge<true, false>(a, b, table, n_labels, 0.5 * weight, again, gradient + at_a, gradient + at_b);
        }
        total.add(weight * mean);
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
    return total.value();
}

}  // namespace maxmargin::labeling
