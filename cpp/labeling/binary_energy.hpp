// The best labelling with two labels, when neighbours attract each other: a minimum cut (Kolmogorov and Zabih, "What Energy
// Functions Can Be Minimized via Graph Cuts?", PAMI 2004). Label 1 is the source side, so of equally good labellings the one
// with the fewest ones is found.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "labeling/flow_network.hpp"

namespace maxmargin::structures {

// Maximises sum_t unary[t][y_t] + sum_e table_e[y_a][y_b] over y, for any number of scores on one graph.
class BinaryEnergy {
  public:
    using Index = NodeIndex;

    BinaryEnergy(Index n_nodes, const Index* edges, std::int64_t n_edges)
        : network_(n_nodes, edges, n_edges), n_edges_(static_cast<std::size_t>(n_edges)), excess_(static_cast<std::size_t>(n_nodes)) {}

    std::size_t n_nodes() const { return excess_.size(); }
    std::size_t n_edges() const { return n_edges_; }

    // Different labels at the ends of edge e cost penalty[e] >= 0, equal ones nothing. Returns the score.
    double solve_penalties(const double* unary, const double* penalty, std::uint8_t* labels) {
        read_unary(unary);
        double total = 0;
        for (std::size_t e = 0; e < n_edges_; ++e) {
            if (!(penalty[e] >= 0)) bad_term(e, penalty[e], "is negative, a reward for different labels");
            total += penalty[e];
        }
        check_total(total);
        return cut(unary, penalty, labels, [&](std::size_t e, int a, int b) { return a == b ? 0 : -penalty[e]; });
    }

    // tables[4 e + 2 y_a + y_b], with t00 + t11 >= t01 + t10. Half of each table's surplus w = t00 + t11 - t01 - t10 is paid
    // for different labels, and the rest of the table belongs to the two nodes.
    double solve_tables(const double* unary, const double* tables, std::uint8_t* labels) {
        read_unary(unary);
        weight_.resize(n_edges_);
        double total = 0;
        network_.each_edge([&](std::size_t e, Index a, Index b) {
            const double t00 = tables[4 * e], t01 = tables[4 * e + 1], t10 = tables[4 * e + 2], t11 = tables[4 * e + 3];
            const double size = std::fabs(t00) + std::fabs(t01) + std::fabs(t10) + std::fabs(t11);
            const double weight = 0.5 * ((t00 - t01) + (t11 - t10));
            // Tables that attract nothing, t[a][b] = f(a) + g(b), are fine; rounding may leave them a little below zero.
            if (!(weight >= -2 * std::numeric_limits<double>::epsilon() * size && std::isfinite(size)))
                bad_term(e, size, "has t[0, 0] + t[1, 1] < t[0, 1] + t[1, 0], a reward for different labels");
            weight_[e] = std::max(0.0, weight);
            excess_[static_cast<std::size_t>(a)] += 0.5 * ((t10 - t00) + (t11 - t01));
            excess_[static_cast<std::size_t>(b)] += 0.5 * ((t01 - t00) + (t11 - t10));
            total += size;
        });
        check_total(total);
        return cut(unary, weight_.data(), labels, [&](std::size_t e, int a, int b) { return tables[4 * e + static_cast<std::size_t>(2 * a + b)]; });
    }

  private:
    void read_unary(const double* unary) {
        double total = 0;
        for (std::size_t t = 0; t < excess_.size(); ++t) {
            if (!std::isfinite(unary[2 * t]) || !std::isfinite(unary[2 * t + 1]))
                throw std::invalid_argument("unary must be finite, but unary[" + std::to_string(t) + "] has NaN or infinity; use a large number to forbid a label");
            excess_[t] = unary[2 * t + 1] - unary[2 * t];
            total += std::fabs(unary[2 * t]) + std::fabs(unary[2 * t + 1]);
        }
        check_total(total);
    }

    // With this, no sum of scores or capacities overflows.
    static void check_total(double total) {
        if (!(total <= std::numeric_limits<double>::max() / 8)) throw std::invalid_argument("unary and pairwise are so large that their sum overflows; scale both down");
    }

    [[noreturn]] void bad_term(std::size_t e, double value, const char* problem) const {
        std::string name;
        network_.each_edge([&](std::size_t at, Index a, Index b) {
            if (at == e) name = "pairwise[" + std::to_string(e) + "] of edge (" + std::to_string(a) + ", " + std::to_string(b) + ") ";
        });
        if (!std::isfinite(value)) throw std::invalid_argument(name + "must be finite; use a large number to tie two labels together");
        throw std::invalid_argument(name + problem + "; a minimum cut needs attractive terms");
    }

    template <class Term>
    double cut(const double* unary, const double* weight, std::uint8_t* labels, const Term& term) {
        network_.visit([&](auto& flow) {
            flow.clear();
            for (std::size_t t = 0; t < excess_.size(); ++t) flow.add_terminals(static_cast<Index>(t), excess_[t], 0);
        });
        network_.add_capacities(nullptr, static_cast<std::int64_t>(n_edges_), weight, weight);
        CompensatedSum score;
        network_.visit([&](auto& flow) {
            flow.solve();
            for (std::size_t t = 0; t < excess_.size(); ++t) {
                labels[t] = flow.on_source_side(static_cast<Index>(t));
                score.add(unary[2 * t + labels[t]]);
            }
        });
        network_.each_edge([&](std::size_t e, Index a, Index b) { score.add(term(e, labels[a], labels[b])); });
        return score.value();
    }

    FlowNetwork<double> network_;
    std::size_t n_edges_;
    std::vector<double> excess_, weight_;
};

}  // namespace maxmargin::structures
