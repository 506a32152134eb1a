// Maximum flow and minimum cut on a general graph with real capacities, after Boykov and Kolmogorov, "An Experimental
// Comparison of Min-Cut/Max-Flow Algorithms for Energy Minimization in Vision" (PAMI 2004): one search tree grows from the
// source and one from the sink; where they touch, flow is pushed; pieces that lose their connection look for a new parent.
//
// Rounding: an augmentation subtracts the smallest residual from every residual on its path. x - x is 0 and x - y > 0 for
// x > y in IEEE arithmetic, so the bottleneck is closed exactly, nothing else is, and no tolerance is needed. Like every
// method without a polynomial bound this one owes its speed to practice: a few augmentations per node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "numeric/compensated_sum.hpp"

namespace maxmargin::structures {

class MaxFlow {
  public:
    using Index = std::int32_t;

    // Edge e joins the nodes edges[2e] and edges[2e + 1]; parallel edges are welcome. The arcs of a node are stored side by
    // side; this layout depends on the graph alone and serves any number of capacities.
    MaxFlow(Index n_nodes, const Index* edges, std::int64_t n_edges)
        : n_nodes_(n_nodes), nodes_(static_cast<std::size_t>(n_nodes) + 1), forward_(static_cast<std::size_t>(n_edges)) {
        if (n_edges > std::numeric_limits<Index>::max() / 2)
            throw std::invalid_argument("edges has " + std::to_string(n_edges) + " rows; at most 2^30 - 1 fit into one graph");
        std::vector<Index> slot(static_cast<std::size_t>(n_nodes) + 1, 0);
        for (std::int64_t e = 0; e < n_edges; ++e) {
            check_edge(e, edges[2 * e], edges[2 * e + 1]);
            ++slot[static_cast<std::size_t>(edges[2 * e]) + 1];
            ++slot[static_cast<std::size_t>(edges[2 * e + 1]) + 1];
        }
        for (Index i = 0; i < n_nodes; ++i) slot[static_cast<std::size_t>(i) + 1] += slot[static_cast<std::size_t>(i)];
        for (Index i = 0; i <= n_nodes; ++i) node(i).first = slot[static_cast<std::size_t>(i)];
        arcs_.resize(2 * static_cast<std::size_t>(n_edges));
        for (std::int64_t e = 0; e < n_edges; ++e) {
            const Index a = edges[2 * e], b = edges[2 * e + 1];
            const Index there = slot[static_cast<std::size_t>(a)]++, back = slot[static_cast<std::size_t>(b)]++;
            arc(there) = {0, b, back};
            arc(back) = {0, a, there};
            forward_[static_cast<std::size_t>(e)] = there;
        }
    }

    Index n_nodes() const { return n_nodes_; }
    std::int64_t n_edges() const { return static_cast<std::int64_t>(forward_.size()); }
    Index tail(std::int64_t e) const { return arc(arc(forward_[static_cast<std::size_t>(e)]).sister).head; }
    Index head(std::int64_t e) const { return arc(forward_[static_cast<std::size_t>(e)]).head; }

    // The maximum flow for these capacities, from scratch. forward[e] leads from tail to head of edge e and backward[e] the
    // other way, both >= 0 (the two arrays may be one). Node i is joined to the source with capacity excess[i] if that is
    // positive, to the sink with -excess[i] if it is negative. Everything finite, and the sum of all magnitudes too.
    double solve(const double* forward, const double* backward, const double* excess) {
        for (std::size_t e = 0; e < forward_.size(); ++e) {
            Arc& there = arc(forward_[e]);
            there.residual = forward[e];
            arc(there.sister).residual = backward[e];
        }
        value_ = {};
        time_ = 0;
        first_active_ = last_active_ = kNone;
        for (Index i = 0; i < n_nodes_; ++i) node(i).excess = excess[i];
        push_to_neighbours();
        for (Index i = 0; i < n_nodes_; ++i) {
            Node& n = node(i);
            n.time = 0;
            n.distance = 1;
            n.next_active = kNone;
            n.parent = n.excess != 0 ? kTerminal : kFree;
            n.in_sink_tree = n.excess < 0;
            if (n.parent == kTerminal) activate(i);
        }
        for (Index i; (i = take_active()) != kNone;) {
            if (node(i).in_sink_tree) grow<true>(i);
            else grow<false>(i);
        }
        return value_.value();
    }

    // After solve: is the node on the source side of the minimum cut? Of all minimum cuts it is the one with the fewest nodes
    // there: those the source still reaches. All others are on the sink side, also those that neither terminal reaches.
    bool on_source_side(Index i) const { return node(i).parent != kFree && !node(i).in_sink_tree; }

  private:
    struct Arc {
        double residual;
        Index head, sister;
    };
    // `parent` is the arc towards the root of the tree, or one of the marks below. `distance` is the number of arcs to the
    // terminal as it was at `time`, a count of augmentations. Free nodes have no tree.
    struct Node {
        double excess;
        Index first, parent, next_active, distance;
        std::uint32_t time;
        bool in_sink_tree;
    };
    static constexpr Index kFree = -1, kTerminal = -2, kOrphan = -3;
    static constexpr Index kNone = -1;

    Arc& arc(Index a) { return arcs_[static_cast<std::size_t>(a)]; }
    const Arc& arc(Index a) const { return arcs_[static_cast<std::size_t>(a)]; }
    Node& node(Index i) { return nodes_[static_cast<std::size_t>(i)]; }
    const Node& node(Index i) const { return nodes_[static_cast<std::size_t>(i)]; }

    void check_edge(std::int64_t e, Index a, Index b) const {
        const bool inside = a >= 0 && b >= 0 && a < n_nodes_ && b < n_nodes_;
        if (inside && a != b) return;
        const std::string name = "edges[" + std::to_string(e) + "] = (" + std::to_string(a) + ", " + std::to_string(b) + ")";
        if (inside) throw std::invalid_argument(name + " joins a node to itself; leave it out, it is never cut");
        throw std::invalid_argument(name + " is out of range; nodes are numbered 0 to " + std::to_string(n_nodes_ - 1));
    }

    // Paths of a single arc need no trees: saturate them in one sweep.
    void push_to_neighbours() {
        for (Index i = 0; i < n_nodes_; ++i) {
            double left = node(i).excess;
            if (!(left > 0)) continue;
            for (Index a = node(i).first, end = node(i + 1).first; a < end && left > 0; ++a) {
                Arc& out = arc(a);
                Node& to = node(out.head);
                const double flow = std::min({left, out.residual, -to.excess});
                if (!(flow > 0)) continue;
                left -= flow;
                out.residual -= flow;
                arc(out.sister).residual += flow;
                to.excess += flow;
                value_.add(flow);
            }
            node(i).excess = left;
        }
    }

    // Active nodes, first come first served; the last in the queue points to itself.
    void activate(Index i) {
        if (node(i).next_active != kNone) return;
        node(i).next_active = i;
        if (first_active_ == kNone) first_active_ = i;
        else node(last_active_).next_active = i;
        last_active_ = i;
    }
    Index take_active() {
        while (first_active_ != kNone) {
            const Index i = first_active_, next = node(i).next_active;
            first_active_ = next == i ? kNone : next;
            node(i).next_active = kNone;
            if (node(i).parent != kFree) return i;
        }
        return kNone;
    }

    // Can flow pass along arc a, away from the source (or, in the sink tree, along its sister towards the sink)?
    template <bool sink>
    bool leads_away(const Arc& a) const { return (sink ? arc(a.sister).residual : a.residual) > 0; }

    // Scan the arcs of an active node once. After an augmentation the scan goes on where it was, so that a node with many
    // arcs is not read again for each of them: an earlier neighbour that has become free since has put the node back into
    // the queue (see release), and other earlier neighbours are still in its tree or behind closed arcs.
    template <bool sink>
    void grow(Index i) {
        const Node& from = node(i);
        for (Index a = from.first, end = node(i + 1).first; a < end;) {
            const Arc& out = arc(a);
            Node& to = node(out.head);
            // A member of this tree whose way to the root is no longer than through here. Times and distances are ordered
            // along every path to a root, so changing parents otherwise makes no cycle. The residual is asked for last: in
            // the sink tree it is elsewhere in memory.
            const bool settled = to.parent != kFree && to.in_sink_tree == sink && (to.time > from.time || to.distance <= from.distance);
            if (!settled && leads_away<sink>(out)) {
                if (to.parent == kFree) {
                    to.in_sink_tree = sink;
                    activate(out.head);
                } else if (to.in_sink_tree != sink) {
                    augment(sink ? out.sister : a);
                    adopt_orphans();
                    if (from.parent == kFree) return;
                    continue;
                }
                to.parent = out.sister;
                to.time = from.time;
                to.distance = from.distance + 1;
            }
            ++a;
        }
    }

    // Push as much as possible from the source through `middle`, an arc from the source tree to the sink tree, to the sink.
    void augment(Index middle) {
        const Index start = arc(arc(middle).sister).head, finish = arc(middle).head;
        double flow = arc(middle).residual;
        Index i = start;
        for (; node(i).parent >= 0; i = arc(node(i).parent).head) flow = std::min(flow, arc(arc(node(i).parent).sister).residual);
        flow = std::min(flow, node(i).excess);
        for (i = finish; node(i).parent >= 0; i = arc(node(i).parent).head) flow = std::min(flow, arc(node(i).parent).residual);
        flow = std::min(flow, -node(i).excess);

        arc(middle).residual -= flow;
        arc(arc(middle).sister).residual += flow;
        for (i = start; node(i).parent >= 0;) {
            Arc& up = arc(node(i).parent);
            const Index above = up.head;
            up.residual += flow;
            if ((arc(up.sister).residual -= flow) <= 0) make_orphan(i, cut_off_);
            i = above;
        }
        if ((node(i).excess -= flow) <= 0) make_orphan(i, cut_off_);
        for (i = finish; node(i).parent >= 0;) {
            Arc& up = arc(node(i).parent);
            const Index above = up.head;
            arc(up.sister).residual += flow;
            if ((up.residual -= flow) <= 0) make_orphan(i, cut_off_);
            i = above;
        }
        if ((node(i).excess += flow) >= 0) make_orphan(i, cut_off_);
        value_.add(flow);
    }

    void make_orphan(Index i, std::vector<Index>& list) {
        node(i).parent = kOrphan;
        list.push_back(i);
    }

    // A root comes before the nodes below it, and an orphan's lost children before the next orphan of the path.
    void adopt_orphans() {
        if (++time_ == 0) {  // wrapped around
            for (Node& n : nodes_) n.time = 0;
            time_ = 1;
        }
        while (!cut_off_.empty()) {
            lost_.assign(1, cut_off_.back());
            cut_off_.pop_back();
            for (std::size_t k = 0; k < lost_.size(); ++k) {
                if (node(lost_[k]).in_sink_tree) adopt<true>(lost_[k]);
                else adopt<false>(lost_[k]);
            }
        }
    }

    // The new parent is the neighbour nearest to the terminal among those that flow can come from (or, in the sink tree,
    // go to) and whose path to the root is whole.
    template <bool sink>
    void adopt(Index i) {
        Index best = kNone, shortest = kFar;
        for (Index a = node(i).first, end = node(i + 1).first; a < end; ++a) {
            if (!leads_away<!sink>(arc(a))) continue;
            const Node& other = node(arc(a).head);
            if (other.parent == kFree || other.in_sink_tree != sink) continue;
            const Index distance = distance_to_terminal(arc(a).head);
            if (distance < shortest) {
                shortest = distance;
                best = a;
                if (distance == 1) break;  // nobody is nearer
            }
        }
        if (best == kNone) {
            release<sink>(i);
            return;
        }
        Node& n = node(i);
        n.parent = best;
        n.time = time_;
        n.distance = shortest + 1;
    }

    // Nobody adopts: the node becomes free, its children orphans, and who might reach it becomes active.
    template <bool sink>
    void release(Index i) {
        node(i).parent = kFree;
        for (Index a = node(i).first, end = node(i + 1).first; a < end; ++a) {
            const Index j = arc(a).head;
            const Node& other = node(j);
            if (other.parent == kFree || other.in_sink_tree != sink) continue;
            if (leads_away<!sink>(arc(a))) activate(j);
            if (other.parent >= 0 && arc(other.parent).head == i) make_orphan(j, lost_);
        }
    }

    // Number of arcs to the terminal, kFar if an orphan is in between. What is learnt is written down for later walks.
    Index distance_to_terminal(Index start) {
        Index distance = 0;
        for (Index i = start;; i = arc(node(i).parent).head) {
            Node& n = node(i);
            if (n.time == time_) {
                distance += n.distance;
                break;
            }
            if (n.parent == kOrphan) return kFar;
            ++distance;
            if (n.parent == kTerminal) {
                n.time = time_;
                n.distance = 1;
                break;
            }
        }
        Index left = distance;
        for (Index i = start; node(i).time != time_; i = arc(node(i).parent).head) {
            node(i).time = time_;
            node(i).distance = left--;
        }
        return distance;
    }
    static constexpr Index kFar = std::numeric_limits<Index>::max();

    Index n_nodes_;
    std::vector<Node> nodes_;  // one more than there are nodes, to end the arcs of the last
    std::vector<Arc> arcs_;
    std::vector<Index> forward_;  // edge -> its arc from tail to head
    std::vector<Index> cut_off_, lost_;
    Index first_active_ = kNone, last_active_ = kNone;
    std::uint32_t time_ = 0;
    CompensatedSum value_;
};

}  // namespace maxmargin::structures
