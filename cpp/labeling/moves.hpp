// Moves that a minimum cut makes best: every node keeps one label or takes another, all nodes at once. Expansion and swap (Boykov,
// Veksler and Zabih, "Fast Approximate Energy Minimization via Graph Cuts", PAMI 2001) are such moves, and so is the whole problem
// if there are two labels. Cliques with P^n Potts costs come in by auxiliary nodes (Kohli, Kumar and Torr, "P3 & Beyond", CVPR 2007).
//
// A move is written as t: t_i = 0 gives node i its label zero_i, t_i = 1 its label one_i. The source side of the cut is t = 1, so that
// of equally good moves the one with the fewest ones is found. The flow's value is then the change of energy from t = 0: terminals
// are given as the cost of t_i = 1, which may be negative.
//
// Of equally good expansions the largest one is taken, which the same flow tells: on stereo pairs they end a little lower than the
// smallest.
//
// The flow of the last expansion to a label is kept, and the next one to it begins there: any flow that the capacities of today have
// room for is a reparametrisation of the energy, and after the first sweep little has changed (Alahari, Kohli and Torr, "Reduce,
// Reuse & Recycle", CVPR 2008, keep whole graphs). All capacities are multiples of one number, a power of two, so that flows are
// added and taken away without rounding; otherwise every node would be left with an excess that is none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "labeling/flow_network.hpp"
#include "labeling/tables.hpp"
#include "numeric/compensated_sum.hpp"

namespace maxmargin::labeling {

using structures::NodeIndex;
using Label = std::int32_t;

// sum_i unary[i][y_i] + sum_e weight[e] * table[y_a][y_b] + sum_c (uniform[c][l] if all of c have label l, mixed[c] otherwise)
struct PottsEnergy {
    NodeIndex n_nodes = 0;
    Label n_labels = 0;
    const double* unary = nullptr;  // infinite: forbidden
    const NodeIndex* edges = nullptr;
    std::int64_t n_edges = 0;
    std::optional<structures::Grid> grid;  // of which these are the edges, step by step
    const double* tables = nullptr;  // one, or one for every edge
    bool own_tables = false;
    bool zero_diagonals = false, symmetric = false;  // of tables of every edge: what need not be read, and what may be read once
    const double* sizes = nullptr;                   // of tables of every edge: largest absolute costs
    const double* weights = nullptr;
    // Weights of cliques are in their costs already.
    std::int64_t n_cliques = 0;
    const NodeIndex* members = nullptr;
    const std::int64_t* offsets = nullptr;
    const double* mixed = nullptr;
    const double* uniform = nullptr;  // null: nothing

    double unary_cost(NodeIndex i, Label l) const { return unary[static_cast<std::size_t>(i) * labels() + static_cast<std::size_t>(l)]; }
    double pair_cost(std::int64_t e, Label a, Label b) const {
        if (own_tables) return a == b && zero_diagonals ? 0.0 : weights[e] * *own_entry(e, a, b);
        return weights[e] * tables[static_cast<std::size_t>(a) * labels() + static_cast<std::size_t>(b)];
    }
    // Where tables of every edge have it.
    const double* own_entry(std::int64_t e, Label a, Label b) const {
        if (symmetric && a > b) std::swap(a, b);
        return tables + (static_cast<std::size_t>(e) * labels() + static_cast<std::size_t>(a)) * labels() + static_cast<std::size_t>(b);
    }
    double uniform_cost(std::int64_t c, Label l) const { return uniform ? uniform[static_cast<std::size_t>(c) * labels() + static_cast<std::size_t>(l)] : 0.0; }
    // `label(i)` of a node; only the members' are asked for.
    template <class LabelOf>
    double clique_cost(std::int64_t c, const LabelOf& label) const {
        const Label first = label(members[offsets[c]]);
        for (std::int64_t m = offsets[c] + 1; m < offsets[c + 1]; ++m)
            if (label(members[m]) != first) return mixed[c];
        return uniform_cost(c, first);
    }
    std::int64_t size(std::int64_t c) const { return offsets[c + 1] - offsets[c]; }
    std::size_t labels() const { return static_cast<std::size_t>(n_labels); }
};

class Moves {
  public:
    explicit Moves(const PottsEnergy& energy) : energy_(energy), network_(network_of(energy)) {
        const auto n = static_cast<std::size_t>(energy.n_nodes);
        zero_.resize(n);
        one_.resize(n);
        cost_.resize(at(network_.n_nodes()));
        quantum_ = quantum_of(energy);
        n_pairs_ = n_pairs_of(energy);
        flow_of_.resize(energy.labels());
        if (energy.own_tables)
            around_ = CostsAround({energy.tables, energy.weights, energy.edges, energy.n_edges, energy.labels(), energy.zero_diagonals, energy.symmetric});
    }

    std::size_t n_bytes() const {
        std::size_t kept = cost_.capacity() * sizeof(double);
        for (const auto& flow : flow_of_) kept += flow.capacity() * sizeof(double);
        return network_.visit([](const auto& flow) { return flow.n_bytes(); }) + (zero_.capacity() + one_.capacity()) * sizeof(Label) + around_.n_bytes() + kept;
    }

    // Any nodes take label alpha. Changes the labels if that lowers the energy by more than `least`, and returns the change, or 0.
    // With `truncate`, pairs that are not submodular cost more than they do in a mixed move; a better energy is one all the same.
    double expand(Label alpha, Label* labels, double least, bool truncate) {
        std::vector<double>* kept = kept_flow(alpha);
        costs_around_ = energy_.own_tables;
        if (costs_around_) around_.begin(alpha, labels, at(energy_.n_nodes));
        for (NodeIndex i = 0; i < energy_.n_nodes; ++i) choose_between(i, labels[i], std::isfinite(energy_.unary_cost(i, alpha)) ? alpha : labels[i]);
        cut(truncate, kept, true);
        return apply(labels, least);
    }

    // Any nodes of label alpha or beta take the other one.
    double swap(Label alpha, Label beta, Label* labels, double least, bool truncate) {
        costs_around_ = false;
        for (NodeIndex i = 0; i < energy_.n_nodes; ++i) {
            const Label now = labels[i], other = now == alpha ? beta : now == beta ? alpha : now;
            const bool free = other != now && std::isfinite(energy_.unary_cost(i, other));
            choose_between(i, free ? alpha : now, free ? beta : now);
        }
        cut(truncate, nullptr);
        return apply(labels, least);
    }

    // The best labels of all, where there are two. Returns what no labels have less energy than: the value of the maximum flow.
    // Costs are not rounded to multiples if that could do more than `rounding`, as it can where few costs are much larger than most.
    double best_of_two(Label* labels, double rounding) {
        costs_around_ = false;
        const double kept = quantum_;
        if (kept * std::sqrt(static_cast<double>(network_.n_nodes()) + static_cast<double>(network_.n_edges())) > rounding) quantum_ = 0;
        for (NodeIndex i = 0; i < energy_.n_nodes; ++i) {
            const bool may_be_zero = std::isfinite(energy_.unary_cost(i, 0)), may_be_one = std::isfinite(energy_.unary_cost(i, 1));
            choose_between(i, may_be_zero ? 0 : 1, may_be_one ? 1 : 0);
        }
        CompensatedSum bound;
        each_term([&](double cost) { bound.add(cost); }, zero_.data());
        bound.add(cut(false, nullptr));
        quantum_ = kept;
        for (NodeIndex i = 0; i < energy_.n_nodes; ++i) labels[i] = chosen(i);
        return bound.value();
    }

  private:
    static std::size_t at(NodeIndex i) { return static_cast<std::size_t>(i); }
    static bool is_pair(std::int64_t size) { return size == 2; }
    bool is_free(NodeIndex i) const { return zero_[at(i)] != one_[at(i)]; }
    Label side(NodeIndex i, unsigned t) const { return t ? one_[at(i)] : zero_[at(i)]; }
    Label chosen(NodeIndex i) const { return side(i, taken_[at(i)]); }

    // The nodes, then two for every clique of three members or more. The edges, then the cliques of two, then from every member of a
    // larger clique to its first auxiliary node and from the second one to every member.
    static structures::FlowNetwork<double> network_of(const PottsEnergy& energy) {
        if (energy.n_cliques == 0 && energy.grid) return structures::FlowNetwork<double>(*energy.grid);
        if (energy.n_cliques == 0) return {energy.n_nodes, energy.edges, energy.n_edges};
        std::vector<NodeIndex> edges(energy.edges, energy.edges + 2 * energy.n_edges);
        for (std::int64_t c = 0; c < energy.n_cliques; ++c)
            if (is_pair(energy.size(c))) edges.insert(edges.end(), energy.members + energy.offsets[c], energy.members + energy.offsets[c + 1]);
        NodeIndex n_nodes = energy.n_nodes;
        for (std::int64_t c = 0; c < energy.n_cliques; ++c) {
            if (energy.size(c) < 3) continue;
            for (std::int64_t m = energy.offsets[c]; m < energy.offsets[c + 1]; ++m) {
                const NodeIndex i = energy.members[m];
                edges.insert(edges.end(), {i, n_nodes, n_nodes + 1, i});
            }
            n_nodes += 2;
        }
        return {n_nodes, edges.data(), static_cast<std::int64_t>(edges.size() / 2)};
    }

    // The last flow of a label, or one without any; null if there is no room.
    std::vector<double>* kept_flow(Label alpha) {
        std::vector<double>& kept = flow_of_[static_cast<std::size_t>(alpha)];
        const auto size = static_cast<std::size_t>(n_arcs());
        if (kept.empty() && size * sizeof(double) <= kMemory - memory_) {
            kept.assign(size, 0.0);
            memory_ += size * sizeof(double);
        }
        return kept.empty() ? nullptr : &kept;
    }

    // A power of two of which no cost is more than 2^50 multiples.
    static double quantum_of(const PottsEnergy& energy) {
        std::vector<double> most(at(energy.n_nodes), 0.0);
        const auto largest = [](const double* values, std::size_t n) {
            double found = 0;
            for (std::size_t k = 0; k < n; ++k)
                if (std::isfinite(values[k])) found = std::max(found, std::fabs(values[k]));
            return found;
        };
        for (NodeIndex i = 0; i < energy.n_nodes; ++i) most[at(i)] = 2 * largest(energy.unary + at(i) * energy.labels(), energy.labels());
        const double shared = energy.own_tables ? 0 : largest(energy.tables, energy.labels() * energy.labels());
        for (std::int64_t e = 0; e < energy.n_edges; ++e) {
            const double size = 4 * std::fabs(energy.weights[e]) * (energy.own_tables ? energy.sizes[e] : shared);
            most[at(energy.edges[2 * e])] += size;
            most[at(energy.edges[2 * e + 1])] += size;
        }
        for (std::int64_t c = 0; c < energy.n_cliques; ++c) {
            const double uniform = energy.uniform ? largest(energy.uniform + static_cast<std::size_t>(c) * energy.labels(), energy.labels()) : 0;
            for (std::int64_t m = energy.offsets[c]; m < energy.offsets[c + 1]; ++m) most[at(energy.members[m])] += 4 * (std::fabs(energy.mixed[c]) + uniform);
        }
        const double all = *std::max_element(most.begin(), most.end());
        return all > 0 ? std::ldexp(1.0, std::ilogb(all) + 1 - 50) : 1.0;
    }
    // The nearest multiple of the quantum.
    double rounded(double x) const {
        const double shift = 0x1.8p52 * quantum_;
        return (x + shift) - shift;
    }

    // Make the move that the cut has found if it is worth it.
    double apply(Label* labels, double least) {
        CompensatedSum change;
        changed_.assign(at(energy_.n_nodes), 0);
        bool any = false;
        for (NodeIndex i = 0; i < energy_.n_nodes; ++i) {
            if (chosen(i) == labels[i]) continue;
            changed_[at(i)] = any = true;
            change.add(energy_.unary_cost(i, chosen(i)) - energy_.unary_cost(i, labels[i]));
        }
        if (!any) return 0;
        if (costs_around_) {
            around_.change(changed_.data(), change);
        } else {
            network_.visit([&](const auto& flow) {
                network_.each_edge(flow, energy_.n_edges, [&](std::int64_t e, NodeIndex a, NodeIndex b, auto) {
                    if (changed_[at(a)] | changed_[at(b)]) change.add(energy_.pair_cost(e, chosen(a), chosen(b)) - energy_.pair_cost(e, labels[a], labels[b]));
                });
            });
        }
        for (std::int64_t c = 0; c < energy_.n_cliques; ++c)
            change.add(energy_.clique_cost(c, [&](NodeIndex i) { return chosen(i); }) - energy_.clique_cost(c, [&](NodeIndex i) { return labels[i]; }));
        if (!(change.value() < -least)) return 0;
        for (NodeIndex i = 0; i < energy_.n_nodes; ++i) labels[i] = chosen(i);
        if (costs_around_) around_.moved(changed_.data());
        return change.value();
    }

    template <class Use>
    void each_term(const Use& use, const Label* labels) const {
        for (NodeIndex i = 0; i < energy_.n_nodes; ++i) use(energy_.unary_cost(i, labels[i]));
        network_.visit([&](const auto& flow) {
            network_.each_edge(flow, energy_.n_edges, [&](std::int64_t e, NodeIndex a, NodeIndex b, auto) { use(energy_.pair_cost(e, labels[a], labels[b])); });
        });
        for (std::int64_t c = 0; c < energy_.n_cliques; ++c) use(energy_.clique_cost(c, [&](NodeIndex i) { return labels[i]; }));
    }

    // The labels zero_i and one_i, which may be the same, and what the second costs more.
    void choose_between(NodeIndex i, Label zero, Label one) {
        zero_[at(i)] = zero;
        one_[at(i)] = one;
        cost_[at(i)] = zero == one ? 0.0 : rounded(energy_.unary_cost(i, one) - energy_.unary_cost(i, zero));
    }

    // The best move between the labels chosen for every node; into taken_. Returns the change of energy from t = 0 (with `truncate` no less than it). Begins with the flow in
    // `kept`, if there is one, and leaves the new one there. Of equally good moves that are better than none it may be the `largest`.
    double cut(bool truncate, std::vector<double>* kept, bool largest = false) {
        begin_with_ = kept ? kept->data() : nullptr;
        std::fill(cost_.begin() + energy_.n_nodes, cost_.end(), 0.0);
        return network_.visit([&](auto& flow) {
            flow.clear();
            if (costs_around_) {
                if (around_.zero_diagonals()) add_pairs_around<true>(flow, truncate);
                else add_pairs_around<false>(flow, truncate);
            } else {
                network_.each_edge(flow, energy_.n_edges, [&](std::int64_t e, NodeIndex a, NodeIndex b, auto slot) {
                    add_pair(flow, e, a, b, slot, truncate, [&](unsigned t_a, unsigned t_b) { return energy_.pair_cost(e, side(a, t_a), side(b, t_b)); });
                });
            }
            add_cliques(flow, truncate);
            flow.add_terminals(nullptr, cost_.data());
            const double value = flow.solve();
            taken_.resize(at(energy_.n_nodes));
            if (largest && value < 0) {
                flow.complete_sinks();
                for (NodeIndex i = 0; i < energy_.n_nodes; ++i) taken_[at(i)] = !flow.reaches_sink(i);
            } else {
                for (NodeIndex i = 0; i < energy_.n_nodes; ++i) taken_[at(i)] = flow.on_source_side(i);
            }
            if (kept) keep(flow, *kept);
            return value;
        });
    }

    template <bool zero_diagonals, class Flow>
    void add_pairs_around(Flow& flow, bool truncate) {
        network_.each_edge(flow, energy_.n_edges, [&](std::int64_t e, NodeIndex a, NodeIndex b, auto slot) {
            if (e % CostsAround::kBlock == 0) around_.read(e);
            const CostsAround::Costs costs = around_.of<zero_diagonals>(e);
            around_.fetch(e);
            add_pair(flow, e, a, b, slot, truncate, [&](unsigned t_a, unsigned t_b) { return costs[2 * t_a + t_b]; });
        });
        around_.done();
    }

    template <class Flow>
    void keep(const Flow& flow, std::vector<double>& kept) const {
        network_.each_edge(flow, n_arcs(), [&](std::int64_t e, NodeIndex a, NodeIndex, auto slot) {
            const auto [there, back] = flow.residuals(a, slot);
            // Pairs began with the same capacity in both directions, arcs of auxiliary nodes with none on the way back.
            kept[static_cast<std::size_t>(e)] = e < n_pairs_ ? 0.5 * (back - there) : back;
        });
    }
    // Edges and those of auxiliary nodes.
    std::int64_t n_arcs() const { return energy_.grid && energy_.n_cliques == 0 ? energy_.n_edges : network_.n_edges(); }
    static std::int64_t n_pairs_of(const PottsEnergy& energy) {
        std::int64_t count = energy.n_edges;
        for (std::int64_t c = 0; c < energy.n_cliques; ++c) count += is_pair(energy.size(c));
        return count;
    }

    // Capacities of the arcs of edge e, less the flow to begin with, which its ends account for.
    template <class Flow>
    void add_arcs(Flow& flow, std::int64_t e, NodeIndex a, NodeIndex b, typename Flow::Slot slot, double forward, double backward) {
        if (begin_with_) {
            const double start = std::min(std::max(begin_with_[e], -backward), forward);
            forward -= start;
            backward += start;
            cost_[at(a)] += start;
            cost_[at(b)] -= start;
        }
        flow.begin_with_capacities(a, slot, forward, backward);
    }

    // Asks for costs of t = 1 only at ends that are free.
    // `cost(t_a, t_b)` = A + (D - B) t_a + (B - A) t_b + (B + C - A - D) t_a (1 - t_b) for the table A B, C D. Half of the last term is
    // turned around, which makes shorter paths: both directions have the same capacity. In place, as every edge of every cut comes here.
    template <class Flow, class Cost>
#if defined(__GNUC__)
    [[gnu::always_inline]]
#endif
    void add_pair(Flow& flow, std::int64_t e, NodeIndex a, NodeIndex b, typename Flow::Slot slot, bool truncate, const Cost& cost) {
        if (!is_free(a)) {
            if (is_free(b)) cost_[at(b)] += rounded(cost(0, 1) - cost(0, 0));
            return;
        }
        if (!is_free(b)) {
            cost_[at(a)] += rounded(cost(1, 0) - cost(0, 0));
            return;
        }
        const double A = cost(0, 0), C = cost(1, 0), D = cost(1, 1);
        double B = cost(0, 1);
        double weight = B + C - A - D;
        if (weight < 0) {
            // Rounding may leave a little less than nothing; B is raised by it, and never lowered.
            if (!truncate && weight < -kRounding * (std::fabs(A) + std::fabs(B) + std::fabs(C) + std::fabs(D))) refuse(e, a, b, A + D, B + C);
            B -= 0.5 * weight;
            weight = 0;
        }
        const double half = rounded(0.5 * weight);
        cost_[at(a)] += rounded(D - B + 0.5 * weight);
        cost_[at(b)] += rounded(B - A - 0.5 * weight);
        add_arcs(flow, e, a, b, slot, half, half);
    }

    // A clique that costs c0 if no free member takes its label one, c1 if all do, and m >= c0, c1 otherwise, costs
    // c0 + (m - c0) [some t_i = 1] + (m - c1) ([some t_i = 0] - 1). Its first auxiliary node is pulled to the source side by any
    // member there, and costs m - c0; the second one may be on the source side, a gain of m - c1, if all members are. Arcs as strong
    // as the node itself are strong enough.
    template <class Flow>
    void add_cliques(Flow& flow, bool truncate) {
        std::int64_t pair = energy_.n_edges, arc = n_pairs_;
        NodeIndex auxiliary = energy_.n_nodes;
        for (std::int64_t c = 0; c < energy_.n_cliques; ++c) {
            const std::int64_t begin = energy_.offsets[c], end = energy_.offsets[c + 1];
            if (end - begin == 1) {
                const NodeIndex i = energy_.members[begin];
                cost_[at(i)] += rounded(energy_.uniform_cost(c, one_[at(i)]) - energy_.uniform_cost(c, zero_[at(i)]));
                continue;
            }
            if (is_pair(end - begin)) {
                add_pair(flow, pair, energy_.members[begin], energy_.members[begin + 1], flow.layout().slot(pair), truncate,
                         [&](unsigned t_a, unsigned t_b) {
                             const Label a = side(energy_.members[begin], t_a), b = side(energy_.members[begin + 1], t_b);
                             return a == b ? energy_.uniform_cost(c, a) : energy_.mixed[c];
                         });
                ++pair;
                continue;
            }
            const double none = rounded(energy_.mixed[c] - energy_.clique_cost(c, [&](NodeIndex i) { return zero_[at(i)]; }));
            const double all = rounded(energy_.mixed[c] - energy_.clique_cost(c, [&](NodeIndex i) { return one_[at(i)]; }));
            bool any_free = false;
            for (std::int64_t m = begin; m < end && !any_free; ++m) any_free = is_free(energy_.members[m]);
            if (any_free) {
                if (none > 0) cost_[at(auxiliary)] += none;
                if (all > 0) cost_[at(auxiliary + 1)] -= all;
                for (std::int64_t m = begin; m < end && (none > 0 || all > 0); ++m) {
                    const NodeIndex i = energy_.members[m];
                    if (!is_free(i)) continue;
                    const std::int64_t e = arc + 2 * (m - begin);
                    if (none > 0) add_arcs(flow, e, i, auxiliary, flow.layout().slot(e), none, 0);
                    if (all > 0) add_arcs(flow, e + 1, auxiliary + 1, i, flow.layout().slot(e + 1), all, 0);
                }
            }
            arc += 2 * (end - begin);
            auxiliary += 2;
        }
    }

    [[noreturn]] void refuse(std::int64_t e, NodeIndex a, NodeIndex b, double equal, double different) const {
        std::ostringstream text;
        const Label a0 = zero_[at(a)], a1 = one_[at(a)], b0 = zero_[at(b)], b1 = one_[at(b)];
        text << "costs of edges[" << e << "] = (" << a << ", " << b << ") are not submodular: d(" << a0 << ", " << b0 << ") + d(" << a1 << ", " << b1
             << ") = " << equal << " is more than d(" << a0 << ", " << b1 << ") + d(" << a1 << ", " << b0 << ") = " << different;
        throw std::invalid_argument(text.str());
    }

    // Of the sizes of the four costs of a pair: what they may lack to be submodular.
    static constexpr double kRounding = 1e-9;
    // Bytes of flows to begin with; labels that do not fit begin without.
    static constexpr std::size_t kMemory = std::size_t{1} << 28;

    PottsEnergy energy_;
    structures::FlowNetwork<double> network_;
    std::vector<Label> zero_, one_;
    std::vector<double> cost_;  // of t_i = 1, also of auxiliary nodes
    std::vector<std::vector<double>> flow_of_;  // of every label: from tail to head of every edge
    std::int64_t n_pairs_ = 0;  // edges and cliques of two
    const double* begin_with_ = nullptr;
    CostsAround around_;         // of tables of every edge, for expansions
    bool costs_around_ = false;  // whether this is one
    std::size_t memory_ = 0;
    double quantum_ = 1;
    std::vector<std::uint8_t> taken_, changed_;
};

}  // namespace maxmargin::labeling
