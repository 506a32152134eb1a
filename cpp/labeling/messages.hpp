// Min-sum messages on the edges of a graph: sequential tree-reweighted message passing (TRW-S) and belief propagation.
//
// Costs to be made small: sum_s unary[s, y_s] + sum_e weight_e * table_e[y_a, y_b]. Nodes are visited in an order, forth and back.
// For every edge one message is kept, from the end that was visited last: a cost for each label of the other end. Whatever the
// messages are, moving them between unary and pairwise terms changes no labeling's cost, so sums of minima of the terms so
// changed bound the optimum from below. A node hands the share 1 / max(earlier neighbours, later neighbours) of what it knows
// to each neighbour (Kolmogorov 2006): the graph is then a set of chains along the order, each of them solved exactly, and the
// bound never falls. In a component without cycles the share is 1, and one sweep from the leaves to the root is exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "numeric/clones.hpp"
#include "numeric/compensated_sum.hpp"

namespace maxmargin::labeling {

enum class TableKind { dense, potts, linear };

// One table for all edges, or one for each; `transposed` is that of the shared one. Potts tables cost `slope` off the diagonal,
// linear ones min(slope * |a - b|, limit).
struct PairCosts {
    TableKind kind;
    bool shared;
    const double* tables;
    const double* transposed;
    const double* weights;
    double slope, limit;
};

struct Costs {
    const double* unary;
    PairCosts pairs;
};

// out[j] = min_i h[i] + weight * table[i][j]: the label of the edge's first end is minimised over.
MAXMARGIN_INLINE void minimize_rows_body(const double* h, const double* table, double weight, int n_labels, double* out) {
    for (int j = 0; j < n_labels; ++j) out[j] = std::numeric_limits<double>::infinity();
    for (int i = 0; i < n_labels; ++i) {
        const double own = h[i], *row = table + static_cast<std::int64_t>(i) * n_labels;
        if (own == std::numeric_limits<double>::infinity()) continue;
        for (int j = 0; j < n_labels; ++j) {
            const double cost = own + weight * row[j];
            out[j] = cost < out[j] ? cost : out[j];
        }
    }
}
inline constexpr auto minimize_rows = compiled_twice<&minimize_rows_body>;

// out[i] = min_j h[j] + weight * table[i][j]. Four minima side by side, since one alone would wait for itself.
MAXMARGIN_INLINE void minimize_columns_body(const double* h, const double* table, double weight, int n_labels, double* out) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    for (int i = 0; i < n_labels; ++i) {
        const double* row = table + static_cast<std::int64_t>(i) * n_labels;
        double least[4] = {inf, inf, inf, inf};
        int j = 0;
        for (; j + 4 <= n_labels; j += 4)
            for (int k = 0; k < 4; ++k) {
                const double cost = h[j + k] + weight * row[j + k];
                least[k] = cost < least[k] ? cost : least[k];
            }
        for (; j < n_labels; ++j) least[0] = std::min(least[0], h[j] + weight * row[j]);
        out[i] = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
    }
}
inline constexpr auto minimize_columns = compiled_twice<&minimize_columns_body>;

class Messages {
  public:
    using Node = std::int32_t;

    // What a series of sweeps ended with; labels are those of the least energy.
    struct Outcome {
        std::vector<double> bounds, energies;
        std::vector<std::int32_t> labels;
        bool converged = false;
    };

    // `reweighted`: TRW-S; otherwise every share is 1, and there is a bound only on forests.
    Messages(Node n_nodes, int n_labels, const std::int32_t* edges, std::int64_t n_edges, bool reweighted)
        : n_nodes_(n_nodes), n_labels_(n_labels), n_edges_(n_edges), messages_(static_cast<std::size_t>(n_edges * n_labels)), here_(n_labels), rest_(n_labels) {
        arrange(edges, reweighted);
    }

    Node n_nodes() const { return n_nodes_; }
    int n_labels() const { return n_labels_; }
    std::int64_t n_edges() const { return n_edges_; }
    bool is_forest() const { return is_forest_; }
    void clear() { std::fill(messages_.begin(), messages_.end(), 0.0); }

    // Up to `most` sweeps, fewer if the gap is closed or nothing has moved by `tolerance` (a part of the energy) for some of them.
    Outcome run(const Costs& costs, int most, double tolerance) {
        constexpr int patience = 3;
        Outcome found;
        double best = std::numeric_limits<double>::infinity();
        std::vector<std::int32_t> labels(static_cast<std::size_t>(n_nodes_));
        int still = 0;
        for (int k = 0; k < most && !found.converged; ++k) {
            pass<true>(costs);
            const double bound = pass<false>(costs);
            round(costs, labels.data());
            const double value = energy(costs, labels.data());
            if (value < best || k == 0) {
                best = value;
                found.labels = labels;
            }
            const double scale = std::max(std::abs(best), std::abs(bound));
            still = k > 0 && std::abs(bound - found.bounds.back()) <= tolerance * scale ? still + 1 : 0;
            found.bounds.push_back(bound);
            found.energies.push_back(value);
            found.converged = is_forest_ || (bounded_ && best - bound <= 1e-15 * scale) || still >= patience;
        }
        return found;
    }

    // Change single labels as long as that helps; the energy they end with.
    double descend(const Costs& costs, std::int32_t* labels) {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t p = 0; p < order_.size(); ++p) {
                std::copy_n(costs.unary + row(order_[p]), n_labels_, here_.data());
                for (std::int64_t k = begin_[p]; k < begin_[p + 1]; ++k) add_pair_costs(costs.pairs, ends_[k], labels[ends_[k].other], here_.data());
                const auto best = static_cast<std::int32_t>(std::min_element(here_.begin(), here_.end()) - here_.begin());
                // Rounding must not make labels go in circles.
                if (here_[best] < here_[labels[order_[p]]] - 1e-12 * std::abs(here_[best])) {
                    labels[order_[p]] = best;
                    moved = true;
                }
            }
        }
        return energy(costs, labels);
    }

    // Give all nodes of a random forest their best labels at once, the others fixed, forest after forest, until `patience` of them
    // in a row did not help; the energy that is left. Whatever subsets of the nodes have no cycle, these moves are exact.
    double descend_forests(const Costs& costs, std::int32_t* labels, int patience, std::uint32_t seed) {
        std::mt19937 random(seed);
        std::vector<Node> positions(order_.size());
        std::iota(positions.begin(), positions.end(), 0);
        double best = descend(costs, labels);
        for (int idle = 0; idle < patience;) {
            for (std::size_t k = positions.size(); k > 1; --k) std::swap(positions[k - 1], positions[random() % k]);
            grow_forest(positions);
            relabel_forest(costs, labels);
            const double value = energy(costs, labels);
            idle = value < best - 1e-12 * std::abs(best) ? 0 : idle + 1;
            best = std::min(best, value);
        }
        return energy(costs, labels);
    }

    // A sweep that tells what the first and the second end of every edge hand to its table, shape (edges, 2, labels). Costs of nodes
    // less that, and tables plus that, are those of the same energies, and the minima of all of them add up to the bound.
    void hand_over(const Costs& costs, double* handed) {
        pass<true>(costs);
        for (std::size_t p = order_.size(); p-- > 0;) {
            std::copy_n(costs.unary + row(order_[p]), n_labels_, here_.data());
            for (std::int64_t k = begin_[p]; k < begin_[p + 1]; ++k) add(message(ends_[k].edge), here_.data());
            for (std::int64_t k = begin_[p]; k < middle_[p]; ++k) {
                double *own = message(ends_[k].edge), *both = handed + 2 * ends_[k].edge * n_labels_;
                double *given = both + (ends_[k].first ? 0 : n_labels_), *taken = both + (ends_[k].first ? n_labels_ : 0);
                for (int x = 0; x < n_labels_; ++x) given[x] = rest_[x] = share_[p] * here_[x] - own[x];
                send(costs.pairs, ends_[k], own);
                for (int x = 0; x < n_labels_; ++x) taken[x] = -own[x];
            }
        }
    }

    // A sweep that tells what every label of every node costs together with all messages, less the least of the node: on forests
    // by how much the best labeling with that label is worse than the best of all.
    void min_marginals(const Costs& costs, double* found) {
        pass<true>(costs);
        pass<false>(costs, found);
    }

    double energy(const Costs& costs, const std::int32_t* labels) const {
        double total = 0.0;
        for (std::size_t p = 0; p < order_.size(); ++p) {
            const Node s = order_[p];
            total += costs.unary[row(s) + labels[s]];
            for (std::int64_t k = begin_[p]; k < middle_[p]; ++k) {
                const End& end = ends_[k];
                const std::int64_t a = end.first ? labels[s] : labels[end.other], b = end.first ? labels[end.other] : labels[s];
                total += costs.pairs.weights[end.edge] * table(costs.pairs, end.edge)[a * n_labels_ + b];
            }
        }
        return total;
    }

  private:
    // An edge as a node sees it: whether the node is its first end, and who is at the other.
    struct End {
        std::int64_t edge;
        Node other;
        bool first;
    };

    std::int64_t row(Node s) const { return static_cast<std::int64_t>(s) * n_labels_; }
    const double* table(const PairCosts& pairs, std::int64_t edge) const {
        return pairs.shared ? pairs.tables : pairs.tables + edge * n_labels_ * n_labels_;
    }

    // Order of the nodes, edges to earlier and to later ones, shares.
    void arrange(const std::int32_t* edges, bool reweighted) {
        const auto n = static_cast<std::size_t>(n_nodes_);
        std::vector<std::int64_t> first(n + 1, 0);
        for (std::int64_t e = 0; e < 2 * n_edges_; ++e) ++first[edges[e] + 1];
        std::partial_sum(first.begin(), first.end(), first.begin());
        std::vector<End> all(static_cast<std::size_t>(2 * n_edges_));
        std::vector<std::int64_t> next(first.begin(), first.end() - 1);
        for (std::int64_t e = 0; e < n_edges_; ++e) {
            const Node a = edges[2 * e], b = edges[2 * e + 1];
            all[next[a]++] = {e, b, true};
            all[next[b]++] = {e, a, false};
        }
        // Trees from their lowest node outwards, so that all but one neighbour come later; other nodes as they are numbered.
        std::vector<char> seen(n, 0), tree(n, 0);
        std::vector<Node> component;
        position_.assign(n, -1);
        is_forest_ = true;
        order_.reserve(n);
        for (Node s = 0; s < n_nodes_; ++s) {
            if (!seen[s]) {
                component.assign(1, s);
                seen[s] = 1;
                std::int64_t ends = 0;
                for (std::size_t k = 0; k < component.size(); ++k)
                    for (std::int64_t i = first[component[k]]; i < first[component[k] + 1]; ++i, ++ends)
                        if (!seen[all[i].other]) {
                            seen[all[i].other] = 1;
                            component.push_back(all[i].other);
                        }
                const bool is_tree = ends == 2 * (static_cast<std::int64_t>(component.size()) - 1);
                for (const Node t : component) tree[t] = is_tree;
                if (is_tree) order_.insert(order_.end(), component.begin(), component.end());
                is_forest_ = is_forest_ && is_tree;
            }
            if (!tree[s]) order_.push_back(s);
        }
        for (std::size_t p = 0; p < n; ++p) position_[order_[p]] = static_cast<Node>(p);
        begin_.assign(n + 1, 0);
        middle_.resize(n);
        share_.resize(n);
        ends_.reserve(all.size());
        for (std::size_t p = 0; p < n; ++p) {
            const Node s = order_[p];
            for (const bool earlier : {true, false}) {
                for (std::int64_t i = first[s]; i < first[s + 1]; ++i)
                    if ((position_[all[i].other] < static_cast<Node>(p)) == earlier) ends_.push_back(all[i]);
                if (earlier) middle_[p] = static_cast<std::int64_t>(ends_.size());
            }
            begin_[p + 1] = static_cast<std::int64_t>(ends_.size());
            const std::int64_t most = std::max<std::int64_t>({middle_[p] - begin_[p], begin_[p + 1] - middle_[p], 1});
            share_[p] = tree[s] || !reweighted ? 1.0 : 1.0 / static_cast<double>(most);
        }
        bounded_ = is_forest_ || reweighted;
    }

    // All nodes once; the sum of what was subtracted, which is a lower bound on the way back. `seen`: costs of nodes with all messages.
    template <bool forth>
    double pass(const Costs& costs, double* seen = nullptr) {
        CompensatedSum total;
        for (std::size_t step = 0; step < order_.size(); ++step) {
            const std::size_t p = forth ? step : order_.size() - 1 - step;
            const std::int64_t from = forth ? middle_[p] : begin_[p], to = forth ? begin_[p + 1] : middle_[p];
            const double* unary = costs.unary + row(order_[p]);
            std::copy_n(unary, n_labels_, here_.data());
            for (std::int64_t k = begin_[p]; k < begin_[p + 1]; ++k) add(message(ends_[k].edge), here_.data());
            const double least = subtract_minimum(here_.data());
            if (seen) std::copy(here_.begin(), here_.end(), seen + row(order_[p]));
            total.add(least);
            for (std::int64_t k = from; k < to; ++k) {
                double* own = message(ends_[k].edge);
                for (int x = 0; x < n_labels_; ++x) rest_[x] = share_[p] * here_[x] - own[x];
                send(costs.pairs, ends_[k], own);
                total.add(subtract_minimum(own));
            }
        }
        return total.value();
    }

    // Labels in order, each the best for the labels before it and the messages from behind it.
    void round(const Costs& costs, std::int32_t* labels) {
        for (std::size_t p = 0; p < order_.size(); ++p) {
            std::copy_n(costs.unary + row(order_[p]), n_labels_, here_.data());
            for (std::int64_t k = begin_[p]; k < middle_[p]; ++k) add_pair_costs(costs.pairs, ends_[k], labels[ends_[k].other], here_.data());
            for (std::int64_t k = middle_[p]; k < begin_[p + 1]; ++k) add(message(ends_[k].edge), here_.data());
            labels[order_[p]] = static_cast<std::int32_t>(std::min_element(here_.begin(), here_.end()) - here_.begin());
        }
    }

    // Nodes, by position in the order, that have at most one neighbour in every tree that is there when their turn comes.
    void grow_forest(const std::vector<Node>& positions) {
        const std::size_t n = order_.size();
        tree_.assign(n, -1);
        std::vector<Node> roots;
        for (const Node p : positions) {
            roots.clear();
            bool fits = true;
            for (std::int64_t k = begin_[p]; k < begin_[p + 1] && fits; ++k) {
                const Node q = position_[ends_[k].other];
                if (tree_[q] < 0) continue;
                const Node root = find(q);
                fits = std::find(roots.begin(), roots.end(), root) == roots.end();
                roots.push_back(root);
            }
            if (!fits) continue;
            tree_[p] = p;
            for (const Node root : roots) tree_[root] = p;
        }
    }
    Node find(Node p) {
        while (tree_[p] != p) p = tree_[p] = tree_[tree_[p]];
        return p;
    }

    // The best labels of the forest's nodes for the labels of all others: from the leaves to the roots, and back.
    void relabel_forest(const Costs& costs, std::int32_t* labels) {
        const std::size_t n = order_.size();
        const auto L = static_cast<std::size_t>(n_labels_);
        local_.resize(n * L);
        choice_.resize(n * L);
        // The end through which a node hangs on its parent; -1 for roots, -2 for nodes that were not visited.
        up_.assign(n, -2);
        visits_.clear();
        for (std::size_t root = 0; root < n; ++root) {
            if (tree_[root] < 0 || up_[root] != -2) continue;
            up_[root] = -1;
            visits_.push_back(static_cast<Node>(root));
            for (std::size_t v = visits_.size() - 1; v < visits_.size(); ++v) {
                const Node p = visits_[v];
                double* own = local_.data() + p * L;
                std::copy_n(costs.unary + row(order_[p]), n_labels_, own);
                for (std::int64_t k = begin_[p]; k < begin_[p + 1]; ++k) {
                    const Node q = position_[ends_[k].other];
                    if (tree_[q] < 0) add_pair_costs(costs.pairs, ends_[k], labels[ends_[k].other], own);
                    else if (k != up_[p] && up_[q] == -2) {
                        visits_.push_back(q);
                        up_[q] = -1;
                        for (std::int64_t back = begin_[q]; back < begin_[q + 1]; ++back)
                            if (ends_[back].edge == ends_[k].edge) up_[q] = back;
                    }
                }
            }
        }
        for (std::size_t v = visits_.size(); v-- > 0;) {
            const Node p = visits_[v];
            if (up_[p] < 0) continue;
            const End& end = ends_[up_[p]];
            const double weight = costs.pairs.weights[end.edge], *entries = table(costs.pairs, end.edge), *own = local_.data() + p * L;
            double* above = local_.data() + position_[end.other] * L;
            for (std::size_t y = 0; y < L; ++y) {
                std::size_t best = 0;
                double least = std::numeric_limits<double>::infinity();
                for (std::size_t x = 0; x < L; ++x) {
                    const double cost = own[x] + weight * (end.first ? entries[x * L + y] : entries[y * L + x]);
                    if (cost < least) {
                        least = cost;
                        best = x;
                    }
                }
                above[y] += least;
                choice_[p * L + y] = static_cast<std::int32_t>(best);
            }
        }
        for (const Node p : visits_) {
            const double* own = local_.data() + p * L;
            labels[order_[p]] = up_[p] < 0 ? static_cast<std::int32_t>(std::min_element(own, own + L) - own) : choice_[p * L + labels[ends_[up_[p]].other]];
        }
    }

    double* message(std::int64_t edge) { return messages_.data() + edge * n_labels_; }

    void add(const double* values, double* to) const {
        for (int x = 0; x < n_labels_; ++x) to[x] += values[x];
    }
    // What the labels of a node cost on an edge if the other end has a given one.
    void add_pair_costs(const PairCosts& pairs, const End& end, std::int32_t other, double* to) const {
        const double weight = pairs.weights[end.edge], *entries = table(pairs, end.edge);
        if (end.first)
            for (int x = 0; x < n_labels_; ++x) to[x] += weight * entries[static_cast<std::int64_t>(x) * n_labels_ + other];
        else
            for (int x = 0; x < n_labels_; ++x) to[x] += weight * entries[static_cast<std::int64_t>(other) * n_labels_ + x];
    }
    double subtract_minimum(double* values) const {
        const double least = *std::min_element(values, values + n_labels_);
        for (int x = 0; x < n_labels_; ++x) values[x] -= least;
        return least;
    }

    // out[y] = min_x rest[x] + cost of x here and y at the other end.
    void send(const PairCosts& pairs, const End& end, double* out) {
        const double weight = pairs.weights[end.edge];
        // With a negative weight distances are no distances.
        if (pairs.kind != TableKind::dense && weight >= 0) {
            const double slope = weight * pairs.slope, highest = *std::min_element(rest_.begin(), rest_.end()) + (pairs.kind == TableKind::potts ? slope : weight * pairs.limit);
            std::copy(rest_.begin(), rest_.end(), out);
            if (pairs.kind == TableKind::linear) {
                for (int x = 1; x < n_labels_; ++x) out[x] = std::min(out[x], out[x - 1] + slope);
                for (int x = n_labels_ - 2; x >= 0; --x) out[x] = std::min(out[x], out[x + 1] + slope);
            }
            for (int x = 0; x < n_labels_; ++x) out[x] = std::min(out[x], highest);
            return;
        }
        if (end.first) minimize_rows(rest_.data(), table(pairs, end.edge), weight, n_labels_, out);
        else if (pairs.shared) minimize_rows(rest_.data(), pairs.transposed, weight, n_labels_, out);
        else minimize_columns(rest_.data(), table(pairs, end.edge), weight, n_labels_, out);
    }

    Node n_nodes_;
    int n_labels_;
    std::int64_t n_edges_;
    bool is_forest_ = false, bounded_ = false;
    // By position in the order: ends_[begin_[p]:middle_[p]] lead to earlier nodes, ends_[middle_[p]:begin_[p + 1]] to later ones.
    std::vector<Node> order_, position_;
    std::vector<std::int64_t> begin_, middle_;
    std::vector<End> ends_;
    std::vector<double> share_, messages_, here_, rest_;
    // Of forests that are relabelled, by position in the order.
    std::vector<Node> tree_, visits_;
    std::vector<std::int64_t> up_;
    std::vector<double> local_;
    std::vector<std::int32_t> choice_;
};

}  // namespace maxmargin::labeling
