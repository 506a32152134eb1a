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
#include <vector>

#include "structures/flow_network.hpp"

namespace maxmargin::structures {

// A labelling y has the value sum over nodes with y_t = 1 of scores[t], minus the penalties of edges whose ends differ. Nodes and
// edges are sorted by component; edges number the nodes of their component from 0. A *labelling per node* is a table of k rows and
// k columns for a component with k nodes: row t is a labelling of the component that belongs to its node t.
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
            part.row = n_labels_;
            n_labels_ += part.n_nodes * part.n_nodes;
            const Index* own = edges + 2 * part.edge;
            if (part.n_nodes > kEnumerated) part.flow = std::make_unique<FlowNetwork<double>>(static_cast<Index>(part.n_nodes), own, static_cast<std::int64_t>(part.n_edges));
            components_.push_back(std::move(part));
        }
        edges_.assign(edges, edges + 2 * (count ? edge_offsets[count] : 0));
    }

    std::size_t size() const { return components_.size(); }
    std::size_t n_nodes() const { return components_.empty() ? 0 : components_.back().node + components_.back().n_nodes; }
    std::size_t n_edges() const { return edges_.size() / 2; }
    // Of all labellings per node.
    std::size_t n_labels() const { return n_labels_; }
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

    // The best labels of all components, and for every node the best labelling of its component in which it has a wanted label.
    void forced(const double* scores, const double* penalties, const std::uint8_t* wanted, std::uint8_t* labels, std::uint8_t* labelings) {
        for (Component& part : components_) {
            const std::size_t k = part.n_nodes;
            std::uint8_t* own = labels + part.node;
            std::size_t top = 0;
            if (part.flow) cut(part, scores + part.node, penalties + part.edge, own);
            else spell(top = enumerate(part, scores + part.node, penalties + part.edge), k, own);
            asked_.clear();
            for (std::size_t t = 0; t < k; ++t) {
                std::uint8_t* row = labelings + part.row + t * k;
                const std::uint8_t label = wanted[part.node + t];
                if (own[t] == label) std::copy(own, own + k, row);
                else if (part.flow) asked_.push_back(static_cast<Index>(t));
                else spell(best_with(k, t, label), k, row);
            }
            if (asked_.empty()) continue;
            part.flow->visit([&](auto& flow) {
                flow.with_other_sides(asked_.data(), asked_.size(), [&](std::size_t a, double, const std::vector<Index>& over) {
                    std::uint8_t* row = labelings + part.row + static_cast<std::size_t>(asked_[a]) * k;
                    std::copy(own, own + k, row);
                    for (const Index place : over) row[flow.layout().node(place)] ^= 1;
                });
            });
        }
    }

    // The value of every node's labelling, within its component.
    void values(const std::uint8_t* labelings, const double* scores, const double* penalties, double* found) const {
        for (const Component& part : components_) {
            const Index* edge = edges_.data() + 2 * part.edge;
            for (std::size_t t = 0; t < part.n_nodes; ++t) {
                const std::uint8_t* row = labelings + part.row + t * part.n_nodes;
                double value = 0;
                for (std::size_t i = 0; i < part.n_nodes; ++i) value += row[i] ? scores[part.node + i] : 0.0;
                for (std::size_t e = 0; e < part.n_edges; ++e) value -= row[edge[2 * e]] != row[edge[2 * e + 1]] ? penalties[part.edge + e] : 0.0;
                found[part.node + t] = value;
            }
        }
    }

    // Sums over the nodes' labellings, each times the coefficient of its node: of the ones at every node, of the edges whose ends
    // differ. That is the derivative of the sum of values in the scores and, with a minus, in the penalties.
    void combine(const std::uint8_t* labelings, const double* coefficients, double* ones, double* differ) const {
        for (const Component& part : components_) {
            const Index* edge = edges_.data() + 2 * part.edge;
            for (std::size_t t = 0; t < part.n_nodes; ++t) {
                const double share = coefficients[part.node + t];
                if (share == 0) continue;
                const std::uint8_t* row = labelings + part.row + t * part.n_nodes;
                for (std::size_t i = 0; i < part.n_nodes; ++i) ones[part.node + i] += row[i] ? share : 0.0;
                for (std::size_t e = 0; e < part.n_edges; ++e) differ[part.edge + e] += row[edge[2 * e]] != row[edge[2 * e + 1]] ? share : 0.0;
            }
        }
    }

  private:
    // Up to here 2^k labellings are looked at in less time than k cuts take.
    static constexpr std::size_t kEnumerated = 12;

    struct Component {
        std::size_t node = 0, edge = 0;  // the first ones
        std::size_t n_nodes = 0, n_edges = 0;
        std::size_t row = 0;  // where its labellings begin
        std::unique_ptr<FlowNetwork<double>> flow;
    };

    struct Place {
        std::size_t node, edge;
    };
    Place begin(std::size_t c) const { return c < size() ? Place{components_[c].node, components_[c].edge} : Place{n_nodes(), n_edges()}; }

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
            const auto a = static_cast<std::size_t>(edge[2 * e]), b = static_cast<std::size_t>(edge[2 * e + 1]);
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
    std::vector<Index> edges_;
    std::size_t n_labels_ = 0;
    std::vector<Index> asked_;
    std::array<double, std::size_t{1} << kEnumerated> values_{}, attraction_{};
};

}  // namespace maxmargin::structures
