// The best move of a labeling when every node keeps its label or takes the one proposed to it, for energies with terms over sets of
// nodes. With t_i = 1 for nodes that move, the change of the energy is
//   sum_i a_i t_i + pairs + sum over sets u [some t_i = 1] + sum over sets s [some t_i = 0],   u, s >= 0,
// a submodular function whose minimum is a cut: source side moves, and of all best moves the one with the fewest nodes is found.
// Each set of three or more nodes gets one more node M. Arcs between M and the members need no infinite capacity: as much as
// M's own suffices, since a cut never gains from paying a member instead of M.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "labeling/maxflow.hpp"

namespace maxmargin::labeling {

// weight_e * table[a, b] on every edge; tables are shared or one for each edge.
struct PairTerms {
    const std::int32_t* edges;
    std::int64_t n;
    const double* table;
    bool own_tables;
    const double* weights;
    std::int64_t n_labels;

    double cost(std::int64_t e, std::int32_t a, std::int32_t b) const {
        return weights[e] * table[((own_tables ? e : 0) * n_labels + a) * n_labels + b];
    }
};

// For every clique: what it costs if some node moves; if some node (of those that could move) stays; and, for every label, if some
// node that has it stays.
struct SetTerms {
    const std::int64_t* offsets;
    const std::int32_t* nodes;
    std::int64_t n;
    const double* some_move;
    const double* some_stay;
    const double* label_stays;  // shape (n, n_labels), or null
};

class CliqueMove {
  public:
    CliqueMove(std::int64_t n_nodes, std::int64_t n_labels, const double* unary, const std::int32_t* labels, const std::int32_t* proposal)
        : n_labels_(n_labels), labels_(labels), proposal_(proposal), variable_(static_cast<std::size_t>(n_nodes), -1) {
        for (std::int64_t i = 0; i < n_nodes; ++i) {
            if (labels[i] == proposal[i]) continue;
            variable_[static_cast<std::size_t>(i)] = add_variable(unary[i * n_labels + proposal[i]] - unary[i * n_labels + labels[i]]);
        }
    }

    void add(const PairTerms& pairs) {
        for (std::int64_t e = 0; e < pairs.n; ++e) {
            const std::int32_t i = pairs.edges[2 * e], j = pairs.edges[2 * e + 1];
            const std::int32_t u = variable(i), v = variable(j);
            if (u < 0 && v < 0) continue;
            const double neither = pairs.cost(e, labels_[i], labels_[j]), both = pairs.cost(e, proposal_[i], proposal_[j]);
            double second = pairs.cost(e, labels_[i], proposal_[j]), first = pairs.cost(e, proposal_[i], labels_[j]);
            // Where the table is not submodular the two ways to part are made dearer: a bound that is exact where both do the same.
            const double lack = neither + both - first - second;
            if (u >= 0 && v >= 0 && lack > 0) first += lack / 2, second += lack / 2;
            if (u >= 0) linear(u) += first - neither;
            if (v >= 0) linear(v) += u >= 0 ? both - first : second - neither;
            if (u < 0 || v < 0 || !(lack < 0)) continue;
            // What remains, -lack if only v moves, is half turned around: equal capacities both ways make shorter paths.
            linear(u) += lack / 2;
            linear(v) -= lack / 2;
            add_arc(v, u, -lack / 2, -lack / 2);
        }
    }

    void add(const SetTerms& sets) {
        std::vector<std::int32_t> movable;
        std::vector<std::pair<std::int32_t, std::int32_t>> by_label;
        for (std::int64_t c = 0; c < sets.n; ++c) {
            const double* stays = sets.label_stays ? sets.label_stays + c * n_labels_ : nullptr;
            movable.clear();
            by_label.clear();
            for (std::int64_t k = sets.offsets[c]; k < sets.offsets[c + 1]; ++k) {
                const std::int32_t i = sets.nodes[k];
                if (variable(i) < 0) continue;
                movable.push_back(variable(i));
                if (stays && stays[labels_[i]] > 0) by_label.emplace_back(labels_[i], variable(i));
            }
            add_some_move(movable, sets.some_move[c]);
            add_some_stay(movable, sets.some_stay[c]);
            std::sort(by_label.begin(), by_label.end());
            for (std::size_t from = 0, to; from < by_label.size(); from = to) {
                movable.clear();
                for (to = from; to < by_label.size() && by_label[to].first == by_label[from].first; ++to) movable.push_back(by_label[to].second);
                add_some_stay(movable, stays[by_label[from].first]);
            }
        }
    }

    // Fills in who moves; returns by how much the function changes, which is not positive.
    double solve(std::uint8_t* moved) {
        using namespace structures;
        const auto n = static_cast<NodeIndex>(linear_.size());
        std::fill(moved, moved + variable_.size(), std::uint8_t{0});
        if (n == 0) return 0;
        MaxFlow<double, ArcLists<double>> flow(ArcLists<double>(n, ends_.data(), static_cast<std::int64_t>(forward_.size())));
        for (NodeIndex u = 0; u < n; ++u) flow.add_terminals(u, 0, linear(u));
        for (std::size_t a = 0; a < forward_.size(); ++a) {
            const auto e = static_cast<std::int64_t>(a);
            // Not negative, hence never refused.
            (void)flow.add_capacities(flow.layout().tail(e), flow.layout().slot(e), forward_[a], backward_[a]);
        }
        flow.solve();
        for (std::size_t i = 0; i < variable_.size(); ++i)
            if (variable_[i] >= 0) moved[i] = flow.on_source_side(variable_[i]);
        CompensatedSum change;
        for (NodeIndex u = 0; u < n; ++u)
            if (flow.on_source_side(u)) change.add(linear(u));
        for (std::size_t a = 0; a < forward_.size(); ++a)
            if (const bool first = flow.on_source_side(ends_[2 * a]); first != flow.on_source_side(ends_[2 * a + 1]))
                change.add(first ? forward_[a] : backward_[a]);
        return change.value();
    }

  private:
    std::int32_t variable(std::int32_t i) const { return variable_[static_cast<std::size_t>(i)]; }
    double& linear(std::int32_t u) { return linear_[static_cast<std::size_t>(u)]; }
    std::int32_t add_variable(double cost) {
        linear_.push_back(cost);
        return static_cast<std::int32_t>(linear_.size() - 1);
    }
    // Paid if u moves and v does not, and the other way round.
    void add_arc(std::int32_t u, std::int32_t v, double forward, double backward = 0) {
        ends_.push_back(u);
        ends_.push_back(v);
        forward_.push_back(forward);
        backward_.push_back(backward);
    }
    void add_some_move(const std::vector<std::int32_t>& members, double cost) {
        if (!(cost > 0) || members.empty()) return;
        if (members.size() <= 2) {
            linear(members[0]) += cost;
            if (members.size() == 2) add_arc(members[1], members[0], cost);
            return;
        }
        const std::int32_t extra = add_variable(cost);
        for (const std::int32_t u : members) add_arc(u, extra, cost);
    }
    void add_some_stay(const std::vector<std::int32_t>& members, double cost) {
        if (!(cost > 0) || members.empty()) return;
        if (members.size() <= 2) {
            linear(members[0]) -= cost;
            if (members.size() == 2) add_arc(members[0], members[1], cost);
            return;
        }
        const std::int32_t extra = add_variable(-cost);
        for (const std::int32_t u : members) add_arc(extra, u, cost);
    }

    std::int64_t n_labels_;
    const std::int32_t *labels_, *proposal_;
    std::vector<std::int32_t> variable_;  // of every node, -1 if it has nothing to choose
    std::vector<double> linear_;          // what moving costs, or choosing the source side for an extra node
    std::vector<std::int32_t> ends_;
    std::vector<double> forward_, backward_;
};

// How much less a set of labels costs under the diameter diversity without one of them, whatever else leaves with it: for every
// label l of a set A, the least diameter(S + l + alpha) - diameter(S + alpha) over S within A - l. Two labels of S suffice.
inline void diameter_savings(const double* table, std::int64_t n_labels, const std::uint8_t* present, std::int64_t n, std::int64_t alpha, double* savings) {
    const auto d = [&](std::int64_t a, std::int64_t b) { return table[a * n_labels + b]; };
    std::vector<std::int64_t> others;
    for (std::int64_t c = 0; c < n; ++c) {
        others.assign(1, alpha);
        for (std::int64_t a = 0; a < n_labels; ++a)
            if (present[c * n_labels + a] && a != alpha) others.push_back(a);
        for (std::size_t k = 1; k < others.size(); ++k) {
            const std::int64_t l = others[k];
            double least = d(l, alpha);
            for (std::size_t p = 0; p < others.size() && least > 0; ++p) {
                if (p == k) continue;
                const std::int64_t a = others[p];
                const double to_a = std::max(d(l, alpha), d(l, a)), around_a = d(alpha, a);
                for (std::size_t q = p; q < others.size() && least > 0; ++q) {
                    if (q == k) continue;
                    const std::int64_t b = others[q];
                    const double without = std::max({around_a, d(alpha, b), d(a, b)});
                    least = std::min(least, std::max(0.0, std::max(to_a, d(l, b)) - without));
                }
            }
            savings[c * n_labels + l] = least;
        }
    }
}

}  // namespace maxmargin::labeling
