// Max-marginals with two labels, where neighbours attract each other: the best labelling of a graph if one node is told its
// label. Connected components do not see each other, so everything happens within one. Small components are enumerated; in
// others one minimum cut is found, and for every node the cut that has it on the other side, from the flow of the first (Kohli and
// Torr, "Measuring uncertainty in graph cut solutions", CVIU 2008).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "labeling/flow_network.hpp"

namespace maxmargin::structures {

// A labelling y has the value sum over nodes with y_t = 1 of scores[t], minus the penalties of edges whose ends differ. Nodes and
// edges are sorted by component; edges number the nodes of their component from 0. A *labelling per node* is kept as the best labels
// and the nodes that differ from them, as sets that nodes share: those that go over together have one between them.
struct Flips {
    std::vector<std::int64_t> set_of;   // node -> its set; 0 is the empty one
    std::vector<std::int64_t> offsets;  // set -> where its nodes begin, and one more
    std::vector<std::int32_t> nodes;    // of all sets, numbered from the first component's first; they rise within a set
};

// The same, as arrays of others.
struct FlipsView {
    const std::uint8_t* best;
    const std::int64_t *set_of, *offsets;
    const std::int32_t* nodes;
    std::size_t n_sets;
};

class BinaryComponents {
  public:
    using Index = NodeIndex;

    BinaryComponents(const std::int64_t* node_offsets, const std::int64_t* edge_offsets, std::size_t count, const Index* edges) {
        components_.reserve(count);
        for (std::size_t c = 0; c < count; ++c) {
            Component part;
            part.node = static_cast<std::size_t>(node_offsets[c]);
            part.edge = static_cast<std::size_t>(edge_offsets[c]);
            part.n_nodes = static_cast<std::size_t>(node_offsets[c + 1]) - part.node;
            part.n_edges = static_cast<std::size_t>(edge_offsets[c + 1]) - part.edge;
            const Index* own = edges + 2 * part.edge;
            if (part.n_nodes > kEnumerated) part.flow = std::make_unique<FlowNetwork<double>>(static_cast<Index>(part.n_nodes), own, static_cast<std::int64_t>(part.n_edges));
            components_.push_back(std::move(part));
        }
        edges_.assign(edges, edges + 2 * (count ? edge_offsets[count] : 0));
        for (const Component& part : components_)
            for (std::size_t e = 2 * part.edge; e < 2 * (part.edge + part.n_edges); ++e) edges_[e] += static_cast<Index>(part.node);
        join();
    }

    std::size_t size() const { return components_.size(); }
    std::size_t n_nodes() const { return components_.empty() ? 0 : components_.back().node + components_.back().n_nodes; }
    std::size_t n_edges() const { return edges_.size() / 2; }
    std::size_t nodes_of(std::size_t first, std::size_t last) const { return begin(last).node - begin(first).node; }
    std::size_t edges_of(std::size_t first, std::size_t last) const { return begin(last).edge - begin(first).edge; }

    // The best labels of the components first .. last - 1; all arrays begin with the first of them.
    void best(std::size_t first, std::size_t last, const double* scores, const double* penalties, std::uint8_t* labels) {
        for (std::size_t c = first; c < last; ++c) {
            Component& part = components_[c];
            const std::size_t node = part.node - begin(first).node, edge = part.edge - begin(first).edge;
            if (part.flow) cut(part, scores + node, penalties + edge, labels + node);
            else spell(enumerate(part, scores + node, penalties + edge), part.n_nodes, labels + node);
        }
    }

    // The best labels of all components, and by how much the value falls if a node has the other label.
    void costs_of_other_labels(const double* scores, const double* penalties, std::uint8_t* labels, double* costs) {
        for (Component& part : components_) {
            std::uint8_t* own = labels + part.node;
            if (part.flow) {
                cut(part, scores + part.node, penalties + part.edge, own);
                asked_.resize(part.n_nodes);
                for (std::size_t t = 0; t < part.n_nodes; ++t) asked_[t] = static_cast<Index>(t);
                part.flow->visit([&](auto& flow) {
                    // Rounding is not to make the best label look like another one.
                    flow.with_other_sides(asked_.data(), asked_.size(), [&](std::size_t t, double cost, const auto&) { costs[part.node + t] = std::max(0.0, cost); });
                });
                continue;
            }
            const std::size_t top = enumerate(part, scores + part.node, penalties + part.edge);
            spell(top, part.n_nodes, own);
            for (std::size_t t = 0; t < part.n_nodes; ++t) costs[part.node + t] = values_[top] - values_[best_with(part.n_nodes, t, !own[t])];
        }
    }

    // The best labels of all components, and for every node what differs from them in the best labelling of its component in which it
    // has a wanted label.
    Flips forced(const double* scores, const double* penalties, const std::uint8_t* wanted, std::uint8_t* labels) {
        Flips found;
        found.set_of.assign(n_nodes(), 0);
        found.offsets.assign(2, 0);
        known_.clear();
        for (Component& part : components_) {
            const std::size_t k = part.n_nodes;
            std::uint8_t* own = labels + part.node;
            std::size_t top = 0;
            if (part.flow) cut(part, scores + part.node, penalties + part.edge, own);
            else spell(top = enumerate(part, scores + part.node, penalties + part.edge), k, own);
            asked_.clear();
            for (std::size_t t = 0; t < k; ++t) {
                const std::uint8_t label = wanted[part.node + t];
                if (own[t] == label) continue;
                if (part.flow) {
                    asked_.push_back(static_cast<Index>(t));
                    continue;
                }
                over_.clear();
                const std::size_t changed = top ^ best_with(k, t, label);
                for (std::size_t i = 0; i < k; ++i)
                    if (changed >> i & 1) over_.push_back(static_cast<Index>(part.node + i));
                found.set_of[part.node + t] = keep(found);
            }
            if (asked_.empty()) continue;
            part.flow->visit([&](auto& flow) {
                flow.with_other_sides(asked_.data(), asked_.size(), [&](std::size_t a, double, const std::vector<Index>& over) {
                    over_.clear();
                    for (const Index place : over) over_.push_back(static_cast<Index>(part.node) + flow.layout().node(place));
                    std::sort(over_.begin(), over_.end());
                    found.set_of[part.node + static_cast<std::size_t>(asked_[a])] = keep(found);
                });
            });
        }
        return found;
    }

    // The value of every node's labelling, within its component: that of the best labels, and what the nodes of its set change.
    void values(const FlipsView& flips, const double* scores, const double* penalties, double* found) const {
        std::vector<double> changes(flips.n_sets);
        std::vector<std::uint8_t> within(n_nodes());
        for (std::size_t s = 0; s < flips.n_sets; ++s) {
            double change = 0;
            visit(flips, s, within, [&](std::size_t i, bool one) { change += one ? -scores[i] : scores[i]; },
                  [&](std::size_t e, bool differ) { change += differ ? penalties[e] : -penalties[e]; });
            changes[s] = change;
        }
        for (const Component& part : components_) {
            double value = 0;
            for (std::size_t i = part.node; i < part.node + part.n_nodes; ++i) value += flips.best[i] ? scores[i] : 0.0;
            for (std::size_t e = part.edge; e < part.edge + part.n_edges; ++e) value -= differs(flips, e) ? penalties[e] : 0.0;
            for (std::size_t t = part.node; t < part.node + part.n_nodes; ++t) found[t] = value + changes[static_cast<std::size_t>(flips.set_of[t])];
        }
    }

    // Sums over the nodes' labellings, each times the coefficient of its node: of the ones at every node, of the edges whose ends
    // differ. That is the derivative of the sum of values in the scores and, with a minus, in the penalties.
    void combine(const FlipsView& flips, const double* coefficients, double* ones, double* differ) const {
        std::vector<double> shares(flips.n_sets);
        std::vector<std::uint8_t> within(n_nodes());
        for (std::size_t t = 0; t < n_nodes(); ++t) shares[static_cast<std::size_t>(flips.set_of[t])] += coefficients[t];
        for (const Component& part : components_) {
            double all = 0;
            for (std::size_t t = part.node; t < part.node + part.n_nodes; ++t) all += coefficients[t];
            for (std::size_t i = part.node; i < part.node + part.n_nodes; ++i) ones[i] = flips.best[i] ? all : 0.0;
            for (std::size_t e = part.edge; e < part.edge + part.n_edges; ++e) differ[e] = differs(flips, e) ? all : 0.0;
        }
        for (std::size_t s = 0; s < flips.n_sets; ++s) {
            const double share = shares[s];
            if (share == 0) continue;
            visit(flips, s, within, [&](std::size_t i, bool one) { ones[i] += one ? -share : share; },
                  [&](std::size_t e, bool differing) { differ[e] += differing ? -share : share; });
        }
    }

    // Whether every node has the same labelling in both, although the best labels may differ.
    bool same(const FlipsView& a, const FlipsView& b) const {
        std::vector<std::int32_t> changed;
        for (const Component& part : components_) {
            changed.clear();
            for (std::size_t i = part.node; i < part.node + part.n_nodes; ++i)
                if (a.best[i] != b.best[i]) changed.push_back(static_cast<std::int32_t>(i));
            for (std::size_t t = part.node; t < part.node + part.n_nodes; ++t)
                if (!sets_differ_in(changed, a, b, t)) return false;
        }
        return true;
    }

  private:
    // Up to here 2^k labellings are looked at in less time than k cuts take.
    static constexpr std::size_t kEnumerated = 12;

    struct Component {
        std::size_t node = 0, edge = 0;  // the first ones
        std::size_t n_nodes = 0, n_edges = 0;
        std::unique_ptr<FlowNetwork<double>> flow;
    };

    struct Place {
        std::size_t node, edge;
    };
    Place begin(std::size_t c) const { return c < size() ? Place{components_[c].node, components_[c].edge} : Place{n_nodes(), n_edges()}; }

    // Which edges every node has, and who is at their other ends.
    void join() {
        begin_.assign(n_nodes() + 1, 0);
        for (const Index end : edges_) ++begin_[static_cast<std::size_t>(end) + 1];
        for (std::size_t i = 0; i < n_nodes(); ++i) begin_[i + 1] += begin_[i];
        std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
        at_.resize(edges_.size());
        for (std::size_t e = 0; e < n_edges(); ++e)
            for (std::size_t side = 0; side < 2; ++side) at_[next[static_cast<std::size_t>(edges_[2 * e + side])]++] = e;
    }

    // The number of the set in `over_`, new or known.
    std::int64_t keep(Flips& found) {
        std::uint64_t hash = over_.size();
        for (const Index i : over_) hash = (hash ^ static_cast<std::uint64_t>(i)) * 0x9E3779B97F4A7C15u + (hash >> 29);
        const auto [from, to] = known_.equal_range(hash);
        for (auto it = from; it != to; ++it) {
            const auto *begin = found.nodes.data() + found.offsets[it->second], *end = found.nodes.data() + found.offsets[it->second + 1];
            if (std::equal(begin, end, over_.begin(), over_.end())) return static_cast<std::int64_t>(it->second);
        }
        const std::size_t set = found.offsets.size() - 1;
        known_.emplace(hash, set);
        found.nodes.insert(found.nodes.end(), over_.begin(), over_.end());
        found.offsets.push_back(static_cast<std::int64_t>(found.nodes.size()));
        return static_cast<std::int64_t>(set);
    }

    bool differs(const FlipsView& flips, std::size_t e) const {
        return flips.best[static_cast<std::size_t>(edges_[2 * e])] != flips.best[static_cast<std::size_t>(edges_[2 * e + 1])];
    }

    // All nodes of a set and all edges that leave it, and whether the best labels have a one or different ends there.
    template <class Node, class Edge>
    void visit(const FlipsView& flips, std::size_t set, std::vector<std::uint8_t>& within, const Node& node, const Edge& edge) const {
        const auto *first = flips.nodes + flips.offsets[set], *last = flips.nodes + flips.offsets[set + 1];
        for (const auto* i = first; i < last; ++i) within[static_cast<std::size_t>(*i)] = 1;
        for (const auto* place = first; place < last; ++place) {
            const auto i = static_cast<std::size_t>(*place);
            node(i, flips.best[i] != 0);
            for (std::size_t k = begin_[i]; k < begin_[i + 1]; ++k) {
                const std::size_t e = at_[k];
                const auto other = static_cast<std::size_t>(edges_[2 * e] + edges_[2 * e + 1]) - i;
                if (!within[other]) edge(e, differs(flips, e));
            }
        }
        for (const auto* i = first; i < last; ++i) within[static_cast<std::size_t>(*i)] = 0;
    }

    // Whether the sets of a node differ in these nodes and nowhere else.
    static bool sets_differ_in(const std::vector<std::int32_t>& changed, const FlipsView& a, const FlipsView& b, std::size_t t) {
        const auto s = static_cast<std::size_t>(a.set_of[t]), r = static_cast<std::size_t>(b.set_of[t]);
        const auto *i = a.nodes + a.offsets[s], *i_end = a.nodes + a.offsets[s + 1];
        const auto *j = b.nodes + b.offsets[r], *j_end = b.nodes + b.offsets[r + 1];
        auto expected = changed.begin();
        while (i < i_end || j < j_end) {
            if (i < i_end && j < j_end && *i == *j) {
                ++i, ++j;
                continue;
            }
            const std::int32_t lone = j == j_end || (i < i_end && *i < *j) ? *i++ : *j++;
            if (expected == changed.end() || *expected != lone) return false;
            ++expected;
        }
        return expected == changed.end();
    }

    // Label 1 is the source side.
    void cut(Component& part, const double* scores, const double* penalties, std::uint8_t* labels) {
        part.flow->visit([&](auto& flow) {
            flow.clear();
            for (std::size_t t = 0; t < part.n_nodes; ++t) flow.add_terminals(static_cast<Index>(t), std::max(0.0, scores[t]), std::max(0.0, -scores[t]));
        });
        part.flow->add_capacities(nullptr, static_cast<std::int64_t>(part.n_edges), penalties, penalties);
        part.flow->visit([&](auto& flow) {
            flow.solve();
            for (std::size_t t = 0; t < part.n_nodes; ++t) labels[t] = flow.on_source_side(static_cast<Index>(t));
        });
    }

    static void spell(std::size_t mask, std::size_t k, std::uint8_t* labels) {
        for (std::size_t t = 0; t < k; ++t) labels[t] = mask >> t & 1;
    }

    // The values of all labellings, node t being bit t; the best of them, the first of several.
    std::size_t enumerate(const Component& part, const double* scores, const double* penalties) {
        const std::size_t k = part.n_nodes;
        std::array<std::array<double, kEnumerated>, kEnumerated> link{};
        const Index* edge = edges_.data() + 2 * part.edge;
        for (std::size_t e = 0; e < part.n_edges; ++e) {
            const auto a = static_cast<std::size_t>(edge[2 * e]) - part.node, b = static_cast<std::size_t>(edge[2 * e + 1]) - part.node;
            link[a][b] += penalties[e];
            link[b][a] += penalties[e];
        }
        values_[0] = 0;
        for (std::size_t b = 0; b < k; ++b) {
            // Node b turns from 0 to 1 while the nodes before it are as in `rest` and those behind it are 0.
            double alone = scores[b];
            for (std::size_t j = 0; j < k; ++j) alone -= link[b][j];
            attraction_[0] = 0;
            for (std::size_t j = 0; j < b; ++j)
                for (std::size_t rest = 0; rest < std::size_t{1} << j; ++rest) attraction_[rest | std::size_t{1} << j] = attraction_[rest] + 2 * link[b][j];
            for (std::size_t rest = 0; rest < std::size_t{1} << b; ++rest) values_[rest | std::size_t{1} << b] = values_[rest] + alone + attraction_[rest];
        }
        return static_cast<std::size_t>(std::max_element(values_.begin(), values_.begin() + (std::ptrdiff_t{1} << k)) - values_.begin());
    }

    std::size_t best_with(std::size_t k, std::size_t t, bool label) const {
        const std::size_t bit = std::size_t{1} << t, own = label ? bit : 0;
        std::size_t best = own;
        for (std::size_t high = 0; high < std::size_t{1} << k; high += 2 * bit)
            for (std::size_t mask = high | own; mask < (high | own) + bit; ++mask)
                if (values_[mask] > values_[best]) best = mask;
        return best;
    }

    std::vector<Component> components_;
    std::vector<Index> edges_;             // of all components, with nodes numbered from the first one's first
    std::vector<std::size_t> begin_, at_;  // node -> its edges
    std::vector<Index> asked_;
    std::vector<Index> over_;
    std::unordered_multimap<std::uint64_t, std::size_t> known_;  // hash -> sets
    std::array<double, std::size_t{1} << kEnumerated> values_{}, attraction_{};
};

}  // namespace maxmargin::structures
