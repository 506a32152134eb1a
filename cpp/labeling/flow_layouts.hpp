// How a flow network lies in memory. A layout answers for every node i which slots its arcs have, where an arc leads and which
// slot the way back has there; it holds the residual capacities and nothing else. MaxFlow is written against this alone.
//
//   ArcLists   any graph: the arcs of a node side by side, each with its head and the place of its sister
//   Offsets    graphs whose edges join nodes at a few fixed distances, as grids do: slot s of node i leads to i + offset[s].
//              No heads, no sisters, a parent fits into a byte: half the memory and half the time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace maxmargin::structures {

using NodeIndex = std::int32_t;

// Throws for an edge that is none.
inline void check_edge(std::int64_t e, NodeIndex a, NodeIndex b, NodeIndex n_nodes) {
    const bool inside = a >= 0 && b >= 0 && a < n_nodes && b < n_nodes;
    if (inside && a != b) return;
    const std::string name = "edges[" + std::to_string(e) + "] = (" + std::to_string(a) + ", " + std::to_string(b) + ")";
    if (inside) throw std::invalid_argument(name + " joins a node to itself; leave it out, it is never cut");
    throw std::invalid_argument(name + " is out of range; nodes are numbered 0 to " + std::to_string(n_nodes - 1));
}

// The same for all edges: without a branch as long as there is nothing to complain about.
inline void check_edges(const NodeIndex* edges, std::int64_t n_edges, NodeIndex n_nodes) {
    // Negative numbers are larger than any node's without their sign.
    std::uint32_t largest = 0;
    bool loop = false;
    for (std::int64_t e = 0; e < n_edges; ++e) {
        const NodeIndex a = edges[2 * e], b = edges[2 * e + 1];
        largest = std::max({largest, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)});
        loop |= a == b;
    }
    if (n_edges == 0 || (!loop && largest < static_cast<std::uint32_t>(n_nodes))) return;
    for (std::int64_t e = 0; e < n_edges; ++e) check_edge(e, edges[2 * e], edges[2 * e + 1], n_nodes);
}

template <class Real>
class ArcLists {
  public:
    using Slot = std::int32_t;
    // What a node of a tree hangs on: the slot towards the root, and the node there, lest walks to the root read arcs.
    struct Hook {
        Slot slot;
        NodeIndex above;
    };

    // Edge e joins the nodes edges[2e] and edges[2e + 1]; parallel edges are welcome. If it `waits`, arcs are laid out by a call of
    // lay_out, together with their first capacities: that saves half the way through memory.
    ArcLists(NodeIndex n_nodes, const NodeIndex* edges, std::int64_t n_edges, bool waits = false) : n_nodes_(n_nodes), n_edges_(n_edges) {
        if (n_edges > std::numeric_limits<Slot>::max() / 2)
            throw std::invalid_argument("edges has " + std::to_string(n_edges) + " rows; at most 2^30 - 1 fit into one graph");
        check_edges(edges, n_edges, n_nodes);
        // first_[i + 1] is where the next arc of node i goes; when all are there, it is where those of node i + 1 begin.
        first_.assign(static_cast<std::size_t>(n_nodes) + 2, 0);
        Slot* const next = first_.data() + 1;
        for (std::int64_t k = 0; k < 2 * n_edges; ++k) ++next[edges[k] + 1];
        for (NodeIndex i = 0; i < n_nodes; ++i) next[i + 1] += next[i];
        if (waits) waiting_.assign(edges, edges + 2 * n_edges);
        else lay_out(edges, nullptr, nullptr);
    }
    // With capacities that are not negative; null: nothing.
    void lay_out(const Real* forward, const Real* backward) {
        lay_out(waiting_.data(), forward, backward);
        std::vector<NodeIndex>().swap(waiting_);  // gives its memory back
    }

    NodeIndex n_nodes() const { return n_nodes_; }
    // Nodes in memory, where the given one is among them, and which node is there.
    NodeIndex n_places() const { return n_nodes_; }
    static NodeIndex place(NodeIndex i) { return i; }
    static NodeIndex node(NodeIndex place) { return place; }
    // Nodes of similar rank should be near each other.
    static std::int64_t rank(NodeIndex i) { return i; }

    std::int64_t n_edges() const { return n_edges_; }
    NodeIndex tail(std::int64_t e) const { return arc(arc(forward_[static_cast<std::size_t>(e)]).sister).head; }
    Slot slot(std::int64_t e) const { return forward_[static_cast<std::size_t>(e)]; }

    std::int64_t n_arcs() const { return 2 * n_edges_; }
    Slot begin(NodeIndex i) const { return first_[static_cast<std::size_t>(i)]; }
    Slot end(NodeIndex i) const { return first_[static_cast<std::size_t>(i) + 1]; }
    NodeIndex head(NodeIndex, Slot s) const { return arc(s).head; }
    Slot back(NodeIndex, Slot s) const { return arc(s).sister; }
    static Hook hook(Slot s, NodeIndex above) { return {s, above}; }
    static NodeIndex above(NodeIndex, Hook hook) { return hook.above; }
    Real& residual(NodeIndex, Slot s) { return arc(s).residual; }
    Real residual(NodeIndex, Slot s) const { return arc(s).residual; }
    Real& reverse(NodeIndex, Slot s) { return arc(arc(s).sister).residual; }
    Real reverse(NodeIndex, Slot s) const { return arc(arc(s).sister).residual; }
    void clear() {
        std::for_each(arcs_.get(), arcs_.get() + n_arcs(), [](Arc& a) { a.residual = 0; });
    }
    std::size_t n_bytes() const { return static_cast<std::size_t>(n_arcs()) * sizeof(Arc) + (first_.capacity() + static_cast<std::size_t>(n_edges_)) * sizeof(Slot) + waiting_.capacity() * sizeof(NodeIndex); }

  private:
    struct Arc {
        Real residual;
        NodeIndex head;
        Slot sister;
    };
    void lay_out(const NodeIndex* edges, const Real* forward, const Real* backward) {
        // Not filled with zeros first: arcs are several times as large as all the rest.
        arcs_.reset(new Arc[2 * static_cast<std::size_t>(n_edges_)]);
        forward_.reset(new Slot[static_cast<std::size_t>(n_edges_)]);
        Slot* const next = first_.data() + 1;
        for (std::int64_t e = 0; e < n_edges_; ++e) {
            // Heads are anywhere: about the place where an arc will go is fetched in time.
            if (e + kAhead < n_edges_) prefetch(arcs_.get() + next[edges[2 * (e + kAhead) + 1]]);
            const NodeIndex a = edges[2 * e], b = edges[2 * e + 1];
            const Slot there = next[a]++, back = next[b]++;
            // Sums, as capacities that come later make them: no zero has a sign.
            arc(there) = {Real{0} + (forward ? forward[e] : Real{0}), b, back};
            arc(back) = {Real{0} + (backward ? backward[e] : Real{0}), a, there};
            forward_[static_cast<std::size_t>(e)] = there;
        }
    }
    static void prefetch([[maybe_unused]] const Arc* arc) {
#if defined(__GNUC__)
        __builtin_prefetch(arc, 1);
#endif
    }

    static constexpr std::int64_t kAhead = 48;

    Arc& arc(Slot s) { return arcs_[static_cast<std::size_t>(s)]; }
    const Arc& arc(Slot s) const { return arcs_[static_cast<std::size_t>(s)]; }

    NodeIndex n_nodes_;
    std::int64_t n_edges_;
    std::vector<Slot> first_;
    std::unique_ptr<Arc[]> arcs_;
    std::unique_ptr<Slot[]> forward_;  // edge -> its arc from tail to head
    std::vector<NodeIndex> waiting_;   // edges whose arcs are not laid out yet
};

// The distances of an edge list, if there are few of them.
struct Distances {
    std::array<NodeIndex, 4> distance{};
    int n = 0;

    static std::optional<Distances> of(NodeIndex n_nodes, const NodeIndex* edges, std::int64_t n_edges) {
        Distances found;
        int last = 0;
        for (std::int64_t e = 0; e < n_edges; ++e) {
            const NodeIndex a = edges[2 * e], b = edges[2 * e + 1];
            check_edge(e, a, b, n_nodes);
            const NodeIndex wanted = b > a ? b - a : a - b;
            if (found.n > 0 && found.at(last) == wanted) continue;
            for (last = 0; last < found.n && found.at(last) != wanted;) ++last;
            if (last < found.n) continue;
            if (found.n == 4) return std::nullopt;
            found.at(found.n++) = wanted;
        }
        // Margins at both ends of the nodes are as wide as the longest distance: cheap for grids, not for anything else.
        return found.longest() > n_nodes / 4 + 64 ? std::nullopt : std::optional(found);
    }

    NodeIndex& at(int k) { return distance[static_cast<std::size_t>(k)]; }
    NodeIndex at(int k) const { return distance[static_cast<std::size_t>(k)]; }
    NodeIndex longest() const { return *std::max_element(distance.begin(), distance.end()); }
};

// `width` slots per node, two for each distance: slot 2k leads to i + distance[k], slot 2k + 1 to i - distance[k]. Arcs that do not
// exist have no capacity; margins of nodes without any spare every look at the ends.
template <class Real, int width>
class Offsets {
  public:
    using Slot = std::int8_t;
    struct Hook {
        Slot slot;
    };

    Offsets(NodeIndex n_nodes, const Distances& distances)
        : n_nodes_(n_nodes), margin_(distances.longest()), residual_(static_cast<std::size_t>(n_places()) * width, Real{0}) {
        for (int k = 0; k < distances.n; ++k) {
            offset_[static_cast<std::size_t>(2 * k)] = distances.at(k);
            offset_[static_cast<std::size_t>(2 * k + 1)] = -distances.at(k);
            if (distances.at(k) > 1 && (row_ == 1 || distances.at(k) < row_)) row_ = distances.at(k);
        }
    }
    Offsets(NodeIndex n_nodes, const NodeIndex* edges, std::int64_t n_edges, const Distances& distances) : Offsets(n_nodes, distances) {
        tail_.resize(static_cast<std::size_t>(n_edges));
        slot_.resize(static_cast<std::size_t>(n_edges));
        for (std::int64_t e = 0; e < n_edges; ++e) {
            const NodeIndex a = edges[2 * e], difference = edges[2 * e + 1] - a;
            Slot s = 0;
            while (offset_[static_cast<std::size_t>(s)] != difference) ++s;
            tail_[static_cast<std::size_t>(e)] = a;
            slot_[static_cast<std::size_t>(e)] = s;
        }
    }

    NodeIndex n_nodes() const { return n_nodes_; }
    NodeIndex n_places() const { return n_nodes_ + 2 * margin_; }
    NodeIndex place(NodeIndex i) const { return i + margin_; }
    NodeIndex node(NodeIndex place) const { return place - margin_; }
    // In a grid: some rows, column by column, then the next rows on the way back.
    std::int64_t rank(NodeIndex i) const {
        const std::int64_t row = i / row_, column = i % row_, band = row / kRows;
        return (band * row_ + (band % 2 == 0 ? column : row_ - 1 - column)) * kRows + row % kRows;
    }

    std::int64_t n_edges() const { return static_cast<std::int64_t>(slot_.size()); }
    NodeIndex tail(std::int64_t e) const { return tail_[static_cast<std::size_t>(e)]; }
    Slot slot(std::int64_t e) const { return slot_[static_cast<std::size_t>(e)]; }

    // Also those that do not exist.
    std::int64_t n_arcs() const { return static_cast<std::int64_t>(residual_.size()); }
    static Slot begin(NodeIndex) { return 0; }
    static Slot end(NodeIndex) { return width; }
    NodeIndex head(NodeIndex i, Slot s) const { return i + offset_[static_cast<std::size_t>(s)]; }
    static Slot back(NodeIndex, Slot s) { return static_cast<Slot>(s ^ 1); }
    static Hook hook(Slot s, NodeIndex) { return {s}; }
    NodeIndex above(NodeIndex i, Hook hook) const { return head(i, hook.slot); }
    Real& residual(NodeIndex i, Slot s) { return residual_[at(i, s)]; }
    Real residual(NodeIndex i, Slot s) const { return residual_[at(i, s)]; }
    Real& reverse(NodeIndex i, Slot s) { return residual_[at(head(i, s), back(i, s))]; }
    Real reverse(NodeIndex i, Slot s) const { return residual_[at(head(i, s), back(i, s))]; }
    void clear() { std::fill(residual_.begin(), residual_.end(), Real{0}); }
    std::size_t n_bytes() const { return residual_.capacity() * sizeof(Real) + tail_.capacity() * sizeof(NodeIndex) + slot_.capacity(); }

  private:
    static std::size_t at(NodeIndex i, Slot s) { return static_cast<std::size_t>(i) * width + static_cast<std::size_t>(s); }

    static constexpr NodeIndex kRows = 6;

    NodeIndex n_nodes_, margin_;
    NodeIndex row_ = 1;  // the shortest distance but 1
    std::array<NodeIndex, width> offset_{};  // 0 where a slot is not used
    std::vector<Real> residual_;
    std::vector<NodeIndex> tail_;  // of every edge, where the graph was given by edges
    std::vector<Slot> slot_;
};

}  // namespace maxmargin::structures
