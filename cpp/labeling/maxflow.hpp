// Maximum flow and minimum cut, after Boykov and Kolmogorov, "An Experimental Comparison of Min-Cut/Max-Flow Algorithms for
// Energy Minimization in Vision" (PAMI 2004): one search tree grows from the source and one from the sink; where they touch, flow
// is pushed; pieces that lose their connection look for a new parent. Capacities may change after a solve, which goes on from the
// last flow and the last trees (Kohli and Torr, "Dynamic Graph Cuts for Efficient Inference in Markov Random Fields", PAMI 2007).
//
// Trees become deep as they are mended, and walks to their roots long, most of all in graphs without a geometry. New trees on the
// same flow are as shallow as can be, and cost one look at every arc: they are planted as soon as walks have cost about as much,
// the way global updates of heights do in push-relabel methods (Cherkassky and Goldberg, "On implementing push-relabel method for
// the maximum flow problem", Algorithmica 1997).
//
// Rounding: an augmentation subtracts the smallest residual from every residual on its path. x - x is 0 and x - y > 0 for
// x > y in IEEE arithmetic, so the bottleneck is closed exactly, nothing else is, and no tolerance is needed. Like every
// method without a polynomial bound this one owes its speed to practice: a few augmentations per node.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "labeling/flow_layouts.hpp"
#include "numeric/compensated_sum.hpp"

namespace maxmargin::structures {

// int64 sums are exact as they are.
struct IntegerSum {
    void add(std::int64_t x) { total += x; }
    std::int64_t value() const { return total; }
    std::int64_t total = 0;
};

// Node i is joined to both terminals; only the difference of the two capacities matters for the cut, the smaller one is paid in
// any case. A node's `excess` is what is left of that difference: positive from the source, negative to the sink.
template <class Real, class Layout>
class MaxFlow {
  public:
    using Index = NodeIndex;
    using Slot = typename Layout::Slot;
    // Of sums that may not fit into the type of one capacity.
    using Value = std::conditional_t<std::is_integral_v<Real>, IntegerSum, CompensatedSum>;
    using Total = decltype(Value{}.value());

    explicit MaxFlow(Layout layout) : layout_(std::move(layout)) {
        excess_.assign(static_cast<std::size_t>(layout_.n_places()), 0);
    }

    const Layout& layout() const { return layout_; }
    std::size_t n_bytes() const {
        return layout_.n_bytes() + excess_.capacity() * sizeof(Real) + tree_.capacity() * (1 + sizeof(typename Layout::Hook) + 3 * sizeof(Index)) + changed_.capacity() * sizeof(Index) +
               is_changed_.capacity() + next_slot_.capacity() * (sizeof(Slot) + sizeof(Index));
    }

    // Of lists of arcs that wait for it, see there.
    void lay_out(const Real* forward, const Real* backward) { layout_.lay_out(forward, backward); }

    // Forget all capacities and the flow.
    void clear() {
        layout_.clear();
        std::fill(excess_.begin(), excess_.end(), Real{0});
        value_ = {};
        forget_trees();
    }

    // More (or, if negative, less) capacity from the source to node i and from there to the sink. Only the difference matters for
    // the cut, so that a sum below zero means something too: a reward for the side.
    void add_terminals(Index i, Real source, Real sink) {
        const Index at = layout_.place(i);
        touch(at);
        reparametrise(at, source, sink);
    }
    // The same for all nodes; `source` may be null: nothing.
    void add_terminals(const Real* source, const Real* sink) {
        const Index n = layout_.n_nodes();
        if (solved_) {
            for (Index i = 0; i < n; ++i) add_terminals(i, source ? source[i] : Real{0}, sink[i]);
            return;
        }
        // In registers, which the arrays cannot change.
        Value value = value_;
        Real* excess = excess_.data() + layout_.place(0);
        for (Index i = 0; i < n; ++i) {
            const auto [from_source, to_sink] = with_excess(excess[i], source ? source[i] : Real{0}, sink[i]);
            value.add(std::min(from_source, to_sink));
            excess[i] = from_source - to_sink;
        }
        value_ = value;
    }
    // The same for the arcs from `tail` along a slot and back. False, and nothing changed, if they sum up to less than zero: then
    // different sides would be rewarded.
    [[nodiscard]] bool add_capacities(Index tail, Slot slot, Real forward, Real backward) {
        const Index i = layout_.place(tail), j = layout_.head(i, slot);
        Real& there = layout_.residual(i, slot);
        Real& back = layout_.reverse(i, slot);
        // Before the first solve there is no flow that might be in the way.
        if (!solved_ && forward >= 0 && backward >= 0) {
            there += forward;
            back += backward;
            return true;
        }
        if (!(there + back + forward + backward >= -rounding(forward, backward))) return false;
        there += forward;
        back += backward;
        touch(i);
        touch(j);
        // More flow than there is room for now: the surplus is taken back, and lies before the arc and lacks behind it.
        if (there < 0) take_back(i, slot);
        if (back < 0) take_back(j, layout_.back(i, slot));
        if (!solved_ || !trees_hold_) return true;
        // The trees may hang on an arc that is closed now.
        if (hangs_on_closed_arc(i)) make_orphan(i);
        if (hangs_on_closed_arc(j)) make_orphan(j);
        if (!is_free(i)) activate(i);
        if (!is_free(j)) activate(j);
        return true;
    }

    // Before the first solve, for capacities that are not negative: nothing else is to be looked after.
    bool is_solved() const { return solved_; }
    void begin_with_capacities(Index tail, Slot slot, Real forward, Real backward) {
        const Index i = layout_.place(tail);
        layout_.residual(i, slot) += forward;
        layout_.reverse(i, slot) += backward;
    }

    // What is left of the capacities of an arc and of the way back.
    std::pair<Real, Real> residuals(Index tail, Slot slot) const {
        const Index i = layout_.place(tail);
        return {layout_.residual(i, slot), layout_.reverse(i, slot)};
    }
    // All of that, what is left at the terminals, and the flow: no number in here is larger, or becomes so but by new capacities.
    double total() const {
        double sum = std::abs(static_cast<double>(value_.value()));
        for (Index i = 0; i < layout_.n_places(); ++i) {
            sum += std::abs(static_cast<double>(excess_[at(i)]));
            for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) sum += static_cast<double>(layout_.residual(i, s));
        }
        return sum;
    }

    // The maximum flow: from scratch the first time, from the last flow afterwards.
    Total solve() {
        if (solved_ && !trees_hold_ && changed_.empty()) return value_.value();
        if (solved_ && trees_hold_) repair();
        else plant();
        for (Index i; (i = take_active()) != kNone;) {
            if (is_in<true>(i)) grow<true>(i);
            else grow<false>(i);
            if (steps_left_ < 0) plant();
        }
        solved_ = true;
        return value_.value();
    }

    // After solve: is the node on the source side of the minimum cut? Of all minimum cuts it is the one with the fewest nodes
    // there: those the source still reaches. All others are on the sink side, also those that neither terminal reaches.
    bool on_source_side(Index i) const { return is_in<false>(layout_.place(i)); }

    // After solve: let the sink's trees take every node that still reaches the sink, as they need not for the flow. Then these are
    // the sink side of the minimum cut with the most nodes on the other.
    void complete_sinks() {
        for (Index i = 0; i < layout_.n_places(); ++i)
            if (is_in<true>(i) && has_free_neighbour<true>(i)) activate(i);
        for (Index i; (i = take_active()) != kNone;) grow<true>(i);
    }
    bool reaches_sink(Index i) const { return is_in<true>(layout_.place(i)); }

    // After solve: look(k, cost, over) for each of n nodes: by how much the value of the best cut with node k on its other side is
    // more, and the nodes that are on their other side there, as places; of equally good cuts it is the one with the fewest of
    // them. Flow that starts at the node and ends in excesses elsewhere moves those excesses to the node, and changes nothing
    // else: the next node finds what the last one has left. Nodes that go over alone come first, before excesses are moved.
    template <class Look>
    void with_other_sides(const Index* nodes, std::size_t n, const Look& look) {
        std::vector<std::size_t> held;
        for (std::size_t k = 0; k < n; ++k) {
            const Index p = layout_.place(nodes[k]);
            Real cost{0};
            if (on_source_side(nodes[k]) ? goes_alone<false>(p, cost) : goes_alone<true>(p, cost)) {
                reached_.assign(1, p);
                look(k, cost, reached_);
            } else {
                held.push_back(k);
            }
        }
        if (held.empty()) return;
        // The flow stays a maximum one and the sides are what they were, but tree_ marks now who is found on one of them.
        trees_hold_ = false;
        std::vector<std::uint8_t> sides(tree_);
        const auto with_source = [&](Index p) { return sides[at(p)] == kSource; };
        // Whoever is asked about next is near, where possible among those reached: its own flow stays there, and ends at the last one.
        const auto order = [&](std::size_t k) { return std::make_pair(with_source(layout_.place(nodes[k])), layout_.rank(nodes[k])); };
        std::sort(held.begin(), held.end(), [&](std::size_t a, std::size_t b) { return order(a) < order(b); });
        std::vector<std::size_t> waits(excess_.size(), held.size());  // place -> its rank in `held`
        for (std::size_t h = held.size(); h-- > 0;) waits[at(layout_.place(nodes[held[h]]))] = h;
        std::size_t first = 0;
        std::optional<bool> side;
        for (Index p = layout_.place(nodes[held[0]]); p != kNone;) {
            if (side != with_source(p)) {
                side = with_source(p);
                for (Index i = 0; i < layout_.n_places(); ++i) tree_[at(i)] = with_source(i) == *side ? kNeither : kOutside;
            }
            if (*side) gather<false>(p);
            else gather<true>(p);
            // Equal ones are next to each other.
            for (std::size_t h = waits[at(p)]; h < held.size() && layout_.place(nodes[held[h]]) == p; ++h) look(held[h], size(excess_[at(p)]), reached_);
            waits[at(p)] = held.size();
            const auto next = std::find_if(reached_.begin(), reached_.end(), [&](Index i) { return waits[at(i)] < held.size(); });
            while (first < held.size() && waits[at(layout_.place(nodes[held[first]]))] == held.size()) ++first;
            p = next != reached_.end() ? *next : first < held.size() ? layout_.place(nodes[held[first]]) : kNone;
        }
        tree_.swap(sides);
    }

  private:
    // `parent` is the slot towards the root of the tree, or one of these.
    static constexpr Slot kFree = -1, kTerminal = -2, kOrphan = -3;
    static constexpr std::uint8_t kSource = 0, kSink = 1, kNeither = 2, kOutside = 3, kFound = 4;
    static constexpr std::int64_t kFew = 8;
    static constexpr std::int64_t kStepsPerArc = 2;
    static constexpr Index kNone = -1, kFar = std::numeric_limits<Index>::max();

    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
    static Real size(Real x) { return x < 0 ? -x : x; }

    // Whether no other node follows a node that is forced away from the sink's (or the source's) side, and what that costs: the cut
    // around the node alone. It is the best one if the neighbours can take all that it might send them, each by itself.
    template <bool sink>
    bool goes_alone(Index i, Real& cost) {
        cost = size(excess_[at(i)]);
        bool alone = true;
        taken_.clear();
        for (Slot s = layout_.begin(i); alone && s < layout_.end(i); ++s) {
            const Real room = sink ? layout_.residual(i, s) : layout_.reverse(i, s);
            if (!(room > 0)) continue;
            const Index j = layout_.head(i, s);
            // Of the sink's side are all nodes that the source does not reach.
            if (is_in<false>(j) == sink) continue;
            Real& left = excess_[at(j)];
            // Several arcs may lead to the same node.
            taken_.emplace_back(j, left);
            alone = (sink ? -left : left) >= room;
            left += sink ? room : -room;
            cost += room;
        }
        for (auto back = taken_.rbegin(); back != taken_.rend(); ++back) excess_[at(back->first)] = back->second;
        return alone;
    }

    // Send all the flow there is room for from a node to the excesses on the sink's side (or, of the source's side, to the node),
    // which then are the node's: along shortest paths, all of the same length at once (Dinic, "Algorithm for solution of a problem of
    // maximum flow in networks with power estimation", 1970). Leaves in reached_ whom the flow still reaches.
    template <bool sink>
    void gather(Index start) {
        queue_.resize(excess_.size());
        next_slot_.resize(excess_.size());
        queue_[0] = start;
        distance_[at(start)] = 0;
        tree_[at(start)] = kFound;
        n_found_ = 1;
        for (Index last = 0; (last = find_levels<sink>(last)) != kFar;) {
            closed_ = kFar;
            // Paths are looked for from their ends: whoever has a level has a way back.
            for (std::size_t k = n_found_; k-- > 0 && distance_[at(queue_[k])] == last;) drain<sink>(queue_[k], start);
            // Flow along shortest paths brings nobody nearer, and takes nobody farther away that is before all arcs it has filled.
            forget_levels(closed_);
            last = std::min(last, closed_ - 1);
        }
        reached_.assign(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(n_found_));
        forget_levels(0);
    }

    // Steps from those found at a distance or farther away, along arcs with room up to the nearest excesses, whose distance is returned;
    // kFar if there are none.
    template <bool sink>
    Index find_levels(Index from) {
        // In registers, which nothing that is written here can change.
        Index *const queue = queue_.data(), *const distance = distance_.data();
        std::uint8_t* const tree = tree_.data();
        std::size_t count = n_found_, k = count;
        while (k > 0 && distance[at(queue[k - 1])] >= from) --k;
        Index last = kFar;
        for (; k < count && distance[at(queue[k])] < last; ++k) {
            const Index i = queue[k], next = distance[at(i)] + 1;
            for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) {
                const Index j = layout_.head(i, s);
                // The other side has nothing to do with it, whatever leads there.
                if (tree[at(j)] != kNeither || !(room<sink>(i, s) > 0)) continue;
                tree[at(j)] = kFound;
                distance[at(j)] = next;
                next_slot_[at(j)] = layout_.begin(j);
                queue[count++] = j;
                if (excess_[at(j)] != 0) last = next;
            }
        }
        n_found_ = count;
        return last;
    }
    void forget_levels(Index from) {
        for (; n_found_ > 0 && distance_[at(queue_[n_found_ - 1])] >= from; --n_found_) tree_[at(queue_[n_found_ - 1])] = kNeither;
    }

    // Move the excess of a node to the start of the levels, as far as shortest paths have room.
    template <bool sink>
    void drain(Index end, Index start) {
        path_.clear();
        for (Index i = end; excess_[at(end)] != 0;) {
            if (i == start) {
                i = move_excess<sink>(end, start);
                continue;
            }
            Slot s = next_slot_[at(i)];
            for (; s < layout_.end(i); ++s) {
                const Index j = layout_.head(i, s);
                if (tree_[at(j)] == kFound && distance_[at(j)] + 1 == distance_[at(i)] && room<!sink>(i, s) > 0) break;
            }
            next_slot_[at(i)] = s;
            if (s < layout_.end(i)) {
                path_.push_back(i);
                i = layout_.head(i, s);
            } else {
                if (path_.empty()) return;
                i = path_.back();
                path_.pop_back();
                ++next_slot_[at(i)];
            }
        }
    }

    // Along the slots of path_, from `end` to `start`. The path is whole up to the node that is returned.
    template <bool sink>
    Index move_excess(Index end, Index start) {
        Real flow = size(excess_[at(end)]);
        for (const Index i : path_) flow = std::min(flow, room<!sink>(i, next_slot_[at(i)]));
        std::size_t whole = path_.size();
        for (std::size_t k = path_.size(); k-- > 0;) {
            const Index i = path_[k];
            const Slot s = next_slot_[at(i)];
            layout_.residual(i, s) += sink ? flow : -flow;
            layout_.reverse(i, s) -= sink ? flow : -flow;
            if (room<!sink>(i, s) > 0) continue;
            whole = k;
            closed_ = std::min(closed_, distance_[at(i)]);
        }
        excess_[at(end)] += sink ? flow : -flow;
        excess_[at(start)] -= sink ? flow : -flow;
        if (whole == path_.size()) return start;
        const Index i = path_[whole];
        path_.resize(whole);
        return i;
    }

    // Of the arc along which flow leaves node i on the sink's side, or comes to it on the source's.
    template <bool sink>
    Real room(Index i, Slot s) const { return sink ? layout_.residual(i, s) : layout_.reverse(i, s); }

    // ---- capacities that change ------------------------------------------------------------------------------------------------

    // What both terminals have in common is paid; the rest is the new excess.
    void reparametrise(Index i, Real source, Real sink) {
        const auto [from_source, to_sink] = with_excess(excess_[at(i)], source, sink);
        value_.add(std::min(from_source, to_sink));
        excess_[at(i)] = from_source - to_sink;
    }
    static std::pair<Real, Real> with_excess(Real excess, Real source, Real sink) {
        return {source + std::max(Real{0}, excess), sink + std::max(Real{0}, -excess)};
    }

    // What two capacities taken away again may leave below zero.
    static Real rounding(Real forward, Real backward) {
        if constexpr (std::is_integral_v<Real>) return 0;
        else return 4 * std::numeric_limits<Real>::epsilon() * (std::fabs(forward) + std::fabs(backward));
    }

    void take_back(Index i, Slot s) {
        const Real surplus = -layout_.residual(i, s);
        layout_.residual(i, s) = 0;
        // Rounding is not to leave less than nothing.
        layout_.reverse(i, s) = std::max(Real{0}, layout_.reverse(i, s) - surplus);
        reparametrise(i, 0, -surplus);
        reparametrise(layout_.head(i, s), 0, surplus);
    }

    bool hangs_on_closed_arc(Index i) const {
        const Slot s = parent_[at(i)].slot;
        return s >= 0 && !((tree_[at(i)] == kSink ? layout_.residual(i, s) : layout_.reverse(i, s)) > 0);
    }

    void touch(Index i) {
        if (!solved_) return;
        if (is_changed_.empty()) is_changed_.assign(excess_.size(), 0);
        if (is_changed_[at(i)]) return;
        is_changed_[at(i)] = 1;
        changed_.push_back(i);
    }

    void forget_trees() {
        solved_ = false;
        for (const Index i : changed_) is_changed_[at(i)] = 0;
        changed_.clear();
        cut_off_.clear();
    }

    // Every node with an excess is the root of a tree. Where the source has few of them, and the sink's roots are everywhere in their
    // way, only the source's trees grow by themselves: the flow is a maximum one when they are complete.
    void plant() {
        forget_trees();
        push_to_neighbours();
        const std::size_t n = excess_.size();
        steps_left_ = kStepsPerArc * layout_.n_arcs();
        time_ = 0;
        trees_hold_ = true;
        first_active_ = last_active_ = kNone;
        // The first trees find their memory here: nothing is written twice.
        time_of_.assign(n, 0U);
        distance_.assign(n, 1);
        next_active_.assign(n, kNone);
        parent_.resize(n);
        tree_.resize(n);
        std::int64_t n_sources = 0, n_sinks = 0;
        for (std::size_t i = 0; i < n; ++i) {
            // Without a branch, the signs of excesses being hard to guess.
            const bool source = excess_[i] > 0, sink = excess_[i] < 0;
            n_sources += source;
            n_sinks += sink;
            parent_[i].slot = static_cast<Slot>(kFree + (kTerminal - kFree) * (source | sink));
            tree_[i] = static_cast<std::uint8_t>(kNeither + (kSource - kNeither) * source + (kSink - kNeither) * sink);
        }
        const bool sinks_wait = kFew * n_sources < n_sinks && sinks_are_spread(n_sinks);
        // Whichever are fewer say who has something to do: the roots, or the free nodes between them.
        if (2 * (n_sources + n_sinks) > layout_.n_nodes()) return activate_around_free(sinks_wait);
        for (Index i = 0; i < layout_.n_places(); ++i) {
            if (is_free(i)) continue;
            if (is_in<true>(i) ? !sinks_wait && has_free_neighbour<true>(i) : has_free_neighbour<false>(i)) activate(i);
        }
    }

    // Whether the sink's roots are among the neighbours of free nodes at least a quarter as often as among all nodes. Where they are
    // in one piece, as seeds of a background are, they are not, and the source's trees would flood all free nodes before they meet
    // one. Measured on grids and random graphs, the quotient of the two shares is at most 0.12 around such pieces, where both sides had
    // better grow, and at least 0.27 elsewhere. Large graphs are asked about every 31st node only: any answer leads to a maximum flow.
    bool sinks_are_spread(std::int64_t n_sinks) const {
        const std::int64_t n = layout_.n_nodes(), step = 1 + std::min(std::int64_t{30}, n / 4096);
        std::int64_t n_neighbours = 0, n_sinks_there = 0;
        for (std::int64_t k = 0; k < n; k += step) {
            const Index i = layout_.place(static_cast<Index>(k));
            if (!is_free(i)) continue;
            for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) {
                const Index j = layout_.head(i, s);
                n_neighbours += j != i;  // slots that are not used lead back
                n_sinks_there += is_in<true>(j);
            }
        }
        return 4.0 * static_cast<double>(n_sinks_there) * static_cast<double>(n) >= static_cast<double>(n_sinks) * static_cast<double>(n_neighbours);
    }

    // The roots that reach a free node, in their order: the same as has_free_neighbour finds, asked from the other end.
    void activate_around_free(bool sinks_wait) {
        std::vector<std::uint8_t> found(excess_.size(), 0);
        // Not from the margins, where nothing leads.
        for (Index k = 0; k < layout_.n_nodes(); ++k) {
            const Index i = layout_.place(k);
            if (!is_free(i)) continue;
            for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) {
                const Index j = layout_.head(i, s);
                found[at(j)] |= is_in<true>(j) ? !sinks_wait & leads_away<false>(i, s) : leads_away<true>(i, s);
            }
        }
        for (Index i = 0; i < layout_.n_places(); ++i)
            if (found[at(i)] && !is_free(i)) activate(i);
    }

    // All of them are asked, without a branch: most answers are the same, and the others hard to guess.
    template <class Ask>
    bool any_neighbour(Index i, const Ask& ask) const {
        bool any = false;
        for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) any |= ask(layout_.head(i, s));
        return any;
    }

    // All that a root may have to do: it reaches no root of the other tree, all arcs to them being full. Inside of large regions that
    // are all roots nobody has.
    template <bool sink>
    bool has_free_neighbour(Index i) const {
        if (!any_neighbour(i, [&](Index j) { return is_free(j); })) return false;
        bool found = false;
        for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) found |= is_free(layout_.head(i, s)) & leads_away<sink>(i, s);
        return found;
    }

    // The trees of the last solve, as far as they still hold.
    void repair() {
        advance_time();
        // Trees that were mended before are deep already.
        steps_left_ = layout_.n_arcs() / 2;
        for (const Index i : changed_) {
            is_changed_[at(i)] = 0;
            const Real excess = excess_[at(i)];
            if (excess == 0) {
                if (parent_[at(i)].slot == kTerminal) make_orphan(i);
                continue;
            }
            const bool sink = excess < 0;
            if (sink ? !is_in<true>(i) : !is_in<false>(i)) {
                if (!is_free(i)) sink ? leave<false>(i) : leave<true>(i);
                tree_[at(i)] = sink ? kSink : kSource;
                activate(i);
            }
            parent_[at(i)].slot = kTerminal;
            time_of_[at(i)] = time_;
            distance_[at(i)] = 1;
        }
        changed_.clear();
        adopt_orphans();
    }

    // A node goes over to the other tree: its children stay behind as orphans, and neighbours that might reach it have something
    // to do again. Were they left asleep, nobody would come for it should it be given up over there.
    template <bool sink>
    void leave(Index i) {
        for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) {
            const Index j = layout_.head(i, s);
            if (!is_in<sink>(j)) continue;
            if (leads_away<!sink>(i, s)) activate(j);
            if (parent_[at(j)].slot == layout_.back(i, s)) make_orphan(j);
        }
    }

    // Paths of a single arc need no trees: saturate them in one sweep.
    void push_to_neighbours() {
        for (Index i = 0; i < layout_.n_places(); ++i) {
            Real left = excess_[at(i)];
            if (!(left > 0) || !any_neighbour(i, [&](Index j) { return excess_[at(j)] < 0; })) continue;
            for (Slot s = layout_.begin(i); s < layout_.end(i) && left > 0; ++s) {
                Real& to = excess_[at(layout_.head(i, s))];
                const Real flow = std::min({left, layout_.residual(i, s), -to});
                if (!(flow > 0)) continue;
                left -= flow;
                layout_.residual(i, s) -= flow;
                layout_.reverse(i, s) += flow;
                to += flow;
                value_.add(flow);
            }
            excess_[at(i)] = left;
        }
    }

    // ---- growing ---------------------------------------------------------------------------------------------------------------

    // Active nodes, first come first served; the last in the queue points to itself.
    void activate(Index i) {
        if (next_active_[at(i)] != kNone) return;
        next_active_[at(i)] = i;
        if (first_active_ == kNone) first_active_ = i;
        else next_active_[at(last_active_)] = i;
        last_active_ = i;
    }
    Index take_active() {
        while (first_active_ != kNone) {
            const Index i = first_active_, next = next_active_[at(i)];
            first_active_ = next == i ? kNone : next;
            next_active_[at(i)] = kNone;
            if (!is_free(i)) return i;
        }
        return kNone;
    }

    Index above(Index i) const { return layout_.above(i, parent_[at(i)]); }
    bool is_free(Index i) const { return tree_[at(i)] == kNeither; }
    template <bool sink>
    bool is_in(Index i) const { return tree_[at(i)] == (sink ? kSink : kSource); }

    // Can flow pass from node i along the slot, away from the source (or, in the sink tree, back along it towards the sink)?
    template <bool sink>
    bool leads_away(Index i, Slot s) const { return (sink ? layout_.reverse(i, s) : layout_.residual(i, s)) > 0; }

    // Scan the arcs of an active node once. After an augmentation the scan goes on where it was, so that a node with many
    // arcs is not read again for each of them: an earlier neighbour that has become free since has put the node back into
    // the queue (see release), and other earlier neighbours are still in its tree or behind closed arcs.
    template <bool sink>
    void grow(Index i) {
        for (Slot s = layout_.begin(i); s < layout_.end(i);) {
            const Index j = layout_.head(i, s);
            const bool own = is_in<sink>(j);
            // A member of this tree whose way to the root is no longer than through here. Times and distances are ordered
            // along every path to a root, so changing parents otherwise makes no cycle. The residual is asked for last: in
            // the sink tree it is elsewhere in memory.
            const bool settled = own && (time_of_[at(j)] > time_of_[at(i)] || distance_[at(j)] <= distance_[at(i)]);
            if (!settled && leads_away<sink>(i, s)) {
                if (is_free(j)) {
                    tree_[at(j)] = sink ? kSink : kSource;
                    activate(j);
                } else if (!own) {
                    if (sink) augment(j, layout_.back(i, s));
                    else augment(i, s);
                    advance_time();
                    adopt_orphans();
                    if (is_free(i) || steps_left_ < 0) return;
                    continue;
                }
                parent_[at(j)] = Layout::hook(layout_.back(i, s), i);
                time_of_[at(j)] = time_of_[at(i)];
                distance_[at(j)] = distance_[at(i)] + 1;
            }
            ++s;
        }
    }

    // Push as much as possible from the source through an arc from the source tree to the sink tree, to the sink.
    void augment(Index start, Slot middle) {
        const Index finish = layout_.head(start, middle);
        Real flow = layout_.residual(start, middle);
        Index i = start;
        for (Slot s; (s = parent_[at(i)].slot) >= 0; i = above(i)) flow = std::min(flow, layout_.reverse(i, s));
        flow = std::min(flow, excess_[at(i)]);
        i = finish;
        for (Slot s; (s = parent_[at(i)].slot) >= 0; i = above(i)) flow = std::min(flow, layout_.residual(i, s));
        flow = std::min(flow, -excess_[at(i)]);

        layout_.residual(start, middle) -= flow;
        layout_.reverse(start, middle) += flow;
        i = start;
        for (Slot s; (s = parent_[at(i)].slot) >= 0;) {
            const Index next = above(i);
            layout_.residual(i, s) += flow;
            if ((layout_.reverse(i, s) -= flow) <= 0) make_orphan(i);
            i = next;
        }
        if ((excess_[at(i)] -= flow) <= 0) make_orphan(i);
        i = finish;
        for (Slot s; (s = parent_[at(i)].slot) >= 0;) {
            const Index next = above(i);
            layout_.reverse(i, s) += flow;
            if ((layout_.residual(i, s) -= flow) <= 0) make_orphan(i);
            i = next;
        }
        if ((excess_[at(i)] += flow) >= 0) make_orphan(i);
        value_.add(flow);
    }

    // ---- orphans ---------------------------------------------------------------------------------------------------------------

    void make_orphan(Index i) {
        parent_[at(i)].slot = kOrphan;
        cut_off_.push_back(i);
    }

    // What was known of distances is known no longer.
    void advance_time() {
        if (++time_ == 0) {  // wrapped around
            std::fill(time_of_.begin(), time_of_.end(), 0U);
            time_ = 1;
        }
    }

    // A root comes before the nodes below it, and an orphan's lost children before the next orphan of the path.
    void adopt_orphans() {
        while (!cut_off_.empty()) {
            lost_.assign(1, cut_off_.back());
            cut_off_.pop_back();
            for (std::size_t k = 0; k < lost_.size(); ++k) {
                // Between two solves an orphan may have become a root.
                if (parent_[at(lost_[k])].slot != kOrphan) continue;
                if (is_in<true>(lost_[k])) adopt<true>(lost_[k]);
                else adopt<false>(lost_[k]);
            }
        }
    }

    // The new parent is the neighbour nearest to the terminal among those that flow can come from (or, in the sink tree,
    // go to) and whose path to the root is whole.
    template <bool sink>
    void adopt(Index i) {
        Index shortest = kFar;
        Slot best = kFree;
        for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) {
            if (!leads_away<!sink>(i, s)) continue;
            const Index j = layout_.head(i, s);
            if (!is_in<sink>(j)) continue;
            const Index distance = distance_to_terminal(j);
            if (distance < shortest) {
                shortest = distance;
                best = s;
                if (distance == 1) break;  // nobody is nearer
            }
        }
        if (best == kFree) {
            release<sink>(i);
            return;
        }
        parent_[at(i)] = Layout::hook(best, layout_.head(i, best));
        time_of_[at(i)] = time_;
        distance_[at(i)] = shortest + 1;
    }

    // Nobody adopts: the node becomes free, its children orphans, and who might reach it becomes active.
    template <bool sink>
    void release(Index i) {
        parent_[at(i)].slot = kFree;
        tree_[at(i)] = kNeither;
        for (Slot s = layout_.begin(i); s < layout_.end(i); ++s) {
            const Index j = layout_.head(i, s);
            if (!is_in<sink>(j)) continue;
            if (leads_away<!sink>(i, s)) activate(j);
            if (parent_[at(j)].slot == layout_.back(i, s)) {
                parent_[at(j)].slot = kOrphan;
                lost_.push_back(j);
            }
        }
    }

    // Number of arcs to the terminal, kFar if an orphan is in between. What is learnt is written down for later walks.
    Index distance_to_terminal(Index start) {
        Index distance = 0;
        for (Index i = start;; i = above(i)) {
            if (time_of_[at(i)] == time_) {
                distance += distance_[at(i)];
                break;
            }
            if (parent_[at(i)].slot == kOrphan) return kFar;
            ++distance;
            --steps_left_;
            if (parent_[at(i)].slot == kTerminal) {
                time_of_[at(i)] = time_;
                distance_[at(i)] = 1;
                break;
            }
        }
        Index left = distance;
        for (Index i = start; time_of_[at(i)] != time_; i = above(i)) {
            time_of_[at(i)] = time_;
            distance_[at(i)] = left--;
        }
        return distance;
    }

    Layout layout_;
    std::vector<Real> excess_;
    std::vector<typename Layout::Hook> parent_;
    std::vector<std::uint8_t> tree_;  // of every node
    // The number of arcs to the terminal as it was at a time, a count of augmentations.
    std::vector<Index> distance_;
    std::vector<std::uint32_t> time_of_;
    std::vector<Index> next_active_;
    std::vector<Index> cut_off_, lost_, changed_, reached_, path_;
    // Of a search for paths: whom it found, in their order, and where it goes on.
    std::vector<Index> queue_;
    std::size_t n_found_ = 0;
    Index closed_ = kFar;  // the nearest node behind an arc that flow has filled: its distance
    std::vector<Slot> next_slot_;
    std::vector<std::uint8_t> is_changed_;
    std::vector<std::pair<Index, Real>> taken_;
    Index first_active_ = kNone, last_active_ = kNone;
    std::uint32_t time_ = 0;
    std::int64_t steps_left_ = 0;  // that walks to the roots may take before new trees are planted
    bool solved_ = false;
    bool trees_hold_ = false;  // of a solved flow
    Value value_;
};

}  // namespace maxmargin::structures
