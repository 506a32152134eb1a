// A flow network in the layout that suits it: offsets if its edges join nodes at few distances, lists of arcs otherwise.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "labeling/maxflow.hpp"

namespace maxmargin::structures {

// Rows, columns and, in three dimensions, layers of a grid; one step per pair of opposite neighbours.
struct Grid {
    std::array<NodeIndex, 3> shape{1, 1, 1};  // slowest first
    std::vector<std::array<NodeIndex, 3>> steps;

    NodeIndex n_nodes() const { return shape[0] * shape[1] * shape[2]; }
    NodeIndex distance(std::size_t step) const { return (steps[step][0] * shape[1] + steps[step][1]) * shape[2] + steps[step][2]; }
    // use(begin, end) for every run of nodes from which the step stays inside.
    template <class Use>
    void each_row(std::size_t step, const Use& use) const {
        const auto begin = [&](std::size_t k) { return std::max(NodeIndex{0}, -steps[step][k]); };
        const auto end = [&](std::size_t k) { return std::min(shape[k], shape[k] - steps[step][k]); };
        for (NodeIndex z = begin(0); z < end(0); ++z)
            for (NodeIndex y = begin(1); y < end(1); ++y) use((z * shape[1] + y) * shape[2] + begin(2), (z * shape[1] + y) * shape[2] + end(2));
    }
    // use(step, begin, end) for all steps of the first row, then of the second.
    template <class Use>
    void each_row(const Use& use) const {
        for (NodeIndex z = 0; z < shape[0]; ++z)
            for (NodeIndex y = 0; y < shape[1]; ++y)
                for (std::size_t step = 0; step < steps.size(); ++step) {
                    const auto& [deep, down, right] = steps[step];
                    if (z + deep < 0 || z + deep >= shape[0] || y + down < 0 || y + down >= shape[1]) continue;
                    const NodeIndex row = (z * shape[1] + y) * shape[2];
                    use(step, row + std::max(NodeIndex{0}, -right), row + std::min(shape[2], shape[2] - right));
                }
    }
    std::int64_t n_edges() const {
        std::int64_t count = 0;
        for (std::size_t step = 0; step < steps.size(); ++step) each_row(step, [&](NodeIndex begin, NodeIndex end) { count += std::max(NodeIndex{0}, end - begin); });
        return count;
    }
    bool stays_inside(NodeIndex i, std::size_t step) const {
        const std::array<NodeIndex, 3> at{i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
        for (std::size_t k = 0; k < 3; ++k) {
            const NodeIndex there = at[k] + steps[step][k];
            if (there < 0 || there >= shape[k]) return false;
        }
        return true;
    }
};

template <class Real>
class FlowNetwork {
  public:
    // If it `waits`, lists of arcs are laid out as soon as they are needed, at best together with the capacities of all edges; until
    // then nothing constant may be asked but for the numbers of nodes and edges and the memory.
    FlowNetwork(NodeIndex n_nodes, const NodeIndex* edges, std::int64_t n_edges, bool waits = false)
        : flow_(choose(n_nodes, edges, n_edges, waits)), waits_(waits && std::holds_alternative<General>(flow_)) {}
    explicit FlowNetwork(Grid grid) : grid_(std::move(grid)), flow_(on_grid(*grid_)) {}

    // The flow itself, in its own type: loops over nodes and edges belong inside the call.
    template <class Use>
    decltype(auto) visit(Use&& use) {
        if (waits_) lay_out(nullptr, nullptr);
        return std::visit(std::forward<Use>(use), flow_);
    }
    template <class Use>
    decltype(auto) visit(Use&& use) const { return std::visit(std::forward<Use>(use), flow_); }

    NodeIndex n_nodes() const {
        return visit([](const auto& flow) { return flow.layout().n_nodes(); });
    }
    // Of a grid: all steps from all nodes, also those that leave it.
    std::int64_t n_edges() const {
        if (grid_) return static_cast<std::int64_t>(grid_->steps.size()) * grid_->n_nodes();
        return visit([](const auto& flow) { return flow.layout().n_edges(); });
    }
    // use(e, tail, head) for every edge of a graph that was given by edges.
    template <class Use>
    void each_edge(const Use& use) const {
        visit([&](const auto& flow) {
            each_edge(flow, n_edges(), [&](std::int64_t e, NodeIndex a, NodeIndex b, auto) { use(static_cast<std::size_t>(e), a, b); });
        });
    }
    // use(e, tail, head, slot) for the first n edges; of a grid, for all steps that stay inside, numbered without the others. `flow` is
    // the one that visit hands out.
    template <class Flow, class Use>
    void each_edge(const Flow& flow, std::int64_t n, const Use& use) const {
        using Slot = typename Flow::Slot;
        if (!grid_) {
            const auto& layout = flow.layout();
            for (std::int64_t e = 0; e < n; ++e) use(e, layout.tail(e), layout.head(layout.tail(e), layout.slot(e)), layout.slot(e));
            return;
        }
        std::int64_t e = 0;
        for (std::size_t step = 0; step < grid_->steps.size(); ++step) {
            const NodeIndex distance = grid_->distance(step);
            const auto slot = static_cast<Slot>(slot_[step]);
            grid_->each_row(step, [&](NodeIndex begin, NodeIndex end) {
                for (NodeIndex i = begin; i < end; ++i) use(e++, i, i + distance, slot);
            });
        }
    }

    // Terminals of all nodes, for which no arcs are needed before the first solve.
    void add_terminals(const Real* source, const Real* sink) {
        std::visit([&](auto& flow) { flow.add_terminals(source, sink); }, flow_);
    }

    // Capacities of n edges, or of the first n if `edges` is null; `backward` may be null: nothing. Returns the first edge for which
    // MaxFlow refuses.
    std::optional<std::int64_t> add_capacities(const std::int64_t* edges, std::int64_t n, const Real* forward, const Real* backward) {
        if (waits_ && !edges && !is_negative(forward, n) && !(backward && backward != forward && is_negative(backward, n))) {
            lay_out(forward, backward);
            return std::nullopt;
        }
        return visit([&](auto& flow) -> std::optional<std::int64_t> {
            using Slot = typename std::decay_t<decltype(flow)>::Slot;
            if (!edges && !flow.is_solved() && begin_with_all(flow, n, forward, backward)) return std::nullopt;
            if (grid_ && !edges) return add_to_all(flow, forward, backward);
            for (std::int64_t k = 0; k < n; ++k) {
                const std::int64_t e = edges ? edges[k] : k;
                NodeIndex tail;
                Slot slot;
                if (grid_) {
                    const auto step = static_cast<std::size_t>(e / grid_->n_nodes());
                    tail = static_cast<NodeIndex>(e % grid_->n_nodes());
                    if (!grid_->stays_inside(tail, step)) continue;
                    slot = static_cast<Slot>(slot_[step]);
                } else {
                    tail = flow.layout().tail(e);
                    slot = flow.layout().slot(e);
                }
                if (!flow.add_capacities(tail, slot, forward[k], backward ? backward[k] : Real{0})) return k;
            }
            return std::nullopt;
        });
    }

  private:
    static bool is_negative(const Real* x, std::int64_t n) {
        bool found = false;
        for (std::int64_t k = 0; k < n; ++k) found |= !(x[k] >= 0);
        return found;
    }
    void lay_out(const Real* forward, const Real* backward) {
        std::get<General>(flow_).lay_out(forward, backward);
        waits_ = false;
    }

    // The first n capacities before the first solve: of a grid row by row with all steps, while its arcs are in the cache. False, and
    // nothing done, if one is negative.
    template <class Flow>
    bool begin_with_all(Flow& flow, std::int64_t n, const Real* forward, const Real* backward) {
        if (is_negative(forward, n) || (backward && backward != forward && is_negative(backward, n))) return false;
        const auto begin = [&](NodeIndex tail, auto slot, std::int64_t e) { flow.begin_with_capacities(tail, slot, forward[e], backward ? backward[e] : Real{0}); };
        const auto& layout = flow.layout();
        if (!grid_) {
            for (std::int64_t e = 0; e < n; ++e) begin(layout.tail(e), layout.slot(e), e);
            return true;
        }
        grid_->each_row([&](std::size_t step, NodeIndex first, NodeIndex last) {
            const std::int64_t shift = static_cast<std::int64_t>(step) * grid_->n_nodes();
            for (NodeIndex i = first; i < last; ++i) begin(i, static_cast<typename Flow::Slot>(slot_[step]), shift + i);
        });
        return true;
    }

    // Capacities of all edges of a grid, run by run.
    template <class Flow>
    std::optional<std::int64_t> add_to_all(Flow& flow, const Real* forward, const Real* backward) {
        std::optional<std::int64_t> refused;
        for (std::size_t step = 0; step < grid_->steps.size() && !refused; ++step) {
            const auto slot = static_cast<typename Flow::Slot>(slot_[step]);
            const std::int64_t first = static_cast<std::int64_t>(step) * grid_->n_nodes();
            grid_->each_row(step, [&](NodeIndex begin, NodeIndex end) {
                for (NodeIndex i = begin; i < end && !refused; ++i)
                    if (!flow.add_capacities(i, slot, forward[first + i], backward ? backward[first + i] : Real{0})) refused = first + i;
            });
        }
        return refused;
    }

    using General = MaxFlow<Real, ArcLists<Real>>;
    using Flow = std::variant<MaxFlow<Real, Offsets<Real, 4>>, MaxFlow<Real, Offsets<Real, 6>>, MaxFlow<Real, Offsets<Real, 8>>, General>;

    template <class... Given>
    static Flow offsets(const Distances& distances, Given... given) {
        if (distances.n <= 2) return MaxFlow<Real, Offsets<Real, 4>>(Offsets<Real, 4>(given..., distances));
        if (distances.n == 3) return MaxFlow<Real, Offsets<Real, 6>>(Offsets<Real, 6>(given..., distances));
        return MaxFlow<Real, Offsets<Real, 8>>(Offsets<Real, 8>(given..., distances));
    }
    static Flow choose(NodeIndex n_nodes, const NodeIndex* edges, std::int64_t n_edges, bool waits) {
        if (const auto distances = Distances::of(n_nodes, edges, n_edges)) return offsets(*distances, n_nodes, edges, n_edges);
        return General(ArcLists<Real>(n_nodes, edges, n_edges, waits));
    }
    Flow on_grid(const Grid& grid) {
        Distances distances;
        for (std::size_t step = 0; step < grid.steps.size(); ++step) {
            int k = 0;
            while (k < distances.n && distances.at(k) != grid.distance(step)) ++k;
            if (k == distances.n) distances.at(distances.n++) = grid.distance(step);
            slot_.push_back(2 * k);
        }
        return offsets(distances, grid.n_nodes());
    }

    std::optional<Grid> grid_;
    std::vector<int> slot_;  // of every step of the grid
    Flow flow_;
    bool waits_ = false;
};

}  // namespace maxmargin::structures
