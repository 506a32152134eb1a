// Python face of the minimum cut: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <type_traits>

#include "labeling/binary_energy.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::structures;

namespace {

using Values = InputVector<double>;
using Unary = Input<double, nb::shape<-1, 2>>;
using Tables = Input<double, nb::shape<-1, 2, 2>>;
using Edges = Input<std::int32_t, nb::shape<-1, 2>>;

void check_rows(const char* name, std::size_t rows, std::int64_t expected) {
    if (static_cast<std::int64_t>(rows) != expected)
        throw nb::value_error((std::string(name) + " has " + std::to_string(rows) + " rows, but " + std::to_string(expected) + " are needed").c_str());
}

// A network whose capacities may change between solves.
template <class Real>
class Flow {
  public:
    using Capacities = InputVector<Real>;

    Flow(std::int32_t n_nodes, Edges edges) {
        ScopedGilRelease unlocked;
        network_ = std::make_unique<FlowNetwork<Real>>(n_nodes, edges.data(), static_cast<std::int64_t>(edges.shape(0)), true);
    }
    Flow(std::array<NodeIndex, 3> shape, std::vector<std::array<NodeIndex, 3>> steps) {
        ScopedGilRelease unlocked;
        network_ = std::make_unique<FlowNetwork<Real>>(Grid{shape, std::move(steps)});
    }

    void clear() {
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        network_->visit([](auto& flow) { flow.clear(); });
    }
    void add_terminals(std::optional<Int32s> nodes, Capacities source, Capacities sink) {
        check_rows("source", source.size(), nodes ? static_cast<std::int64_t>(nodes->size()) : network_->n_nodes());
        check_rows("sink", sink.size(), static_cast<std::int64_t>(source.size()));
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        if (!nodes) return network_->add_terminals(source.data(), sink.data());
        network_->visit([&](auto& flow) {
            for (std::size_t k = 0; k < source.size(); ++k) flow.add_terminals(nodes->data()[k], source.data()[k], sink.data()[k]);
        });
    }
    // The first edge that would be given less than nothing, and then nothing more is done; or -1.
    std::int64_t add_capacities(std::optional<Int64s> edges, Capacities forward, std::optional<Capacities> backward) {
        check_rows("forward", forward.size(), edges ? static_cast<std::int64_t>(edges->size()) : network_->n_edges());
        if (backward) check_rows("backward", backward->size(), static_cast<std::int64_t>(forward.size()));
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        return network_->add_capacities(edges ? edges->data() : nullptr, static_cast<std::int64_t>(forward.size()), forward.data(), backward ? backward->data() : nullptr).value_or(-1);
    }
    nb::tuple solve() {
        const auto sides = zeros<std::uint8_t>({static_cast<std::size_t>(network_->n_nodes())});
        Real value;
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            value = network_->visit([&](auto& flow) {
                const Real found = flow.solve();
                for (NodeIndex i = 0; i < flow.layout().n_nodes(); ++i) sides.data[i] = flow.on_source_side(i);
                return found;
            });
        }
        return nb::make_tuple(value, sides.array);
    }
    nb::ndarray<nb::numpy, Real> costs_of_other_sides(Int32s nodes) {
        const auto costs = zeros<Real>({nodes.size()});
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            network_->visit([&](auto& flow) {
                flow.solve();
                flow.with_other_sides(nodes.data(), nodes.size(), [&](std::size_t k, Real cost, const auto&) { costs.data[k] = cost; });
            });
        }
        return costs.array;
    }
    double total() {
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        return network_->visit([](const auto& flow) { return flow.total(); });
    }
    std::size_t n_bytes() const {
        return network_->visit([](const auto& flow) { return flow.n_bytes(); });
    }

  private:
    std::unique_ptr<FlowNetwork<Real>> network_;
    std::mutex busy_;
};

// The minimum cut of capacities that are not negative, in one call: nothing is kept. Without overflow if the sum of all capacities fits
// into Real: no residual is larger than the capacities of its edge both ways, no excess than the terminals of its node, and no flow
// than what leaves the source; none of them is ever below the negative of that.
template <class Real>
nb::tuple minimum_cut(std::int32_t n_nodes, Edges edges, InputVector<Real> forward, std::optional<InputVector<Real>> backward, InputVector<Real> source, InputVector<Real> sink) {
    const auto n_edges = static_cast<std::int64_t>(edges.shape(0));
    check_rows("forward", forward.size(), n_edges);
    if (backward) check_rows("backward", backward->size(), n_edges);
    check_rows("source", source.size(), n_nodes);
    check_rows("sink", sink.size(), n_nodes);
    const auto sides = zeros<std::uint8_t>({source.size()});
    typename MaxFlow<Real, ArcLists<Real>>::Total value;
    {
        ScopedGilRelease unlocked;
        FlowNetwork<Real> network(n_nodes, edges.data(), n_edges, true);
        network.add_terminals(source.data(), sink.data());
        network.add_capacities(nullptr, n_edges, forward.data(), backward ? backward->data() : nullptr);
        value = network.visit([&](auto& flow) {
            const auto found = flow.solve();
            for (NodeIndex i = 0; i < n_nodes; ++i) sides.data[i] = flow.on_source_side(i);
            return found;
        });
    }
    return nb::make_tuple(value, sides.array);
}

template <class Real>
void bind_minimum_cut(nb::module_& m) {
    m.def("minimum_cut", &minimum_cut<Real>, "n_nodes"_a, "edges"_a.noconvert(), "forward"_a.noconvert(), "backward"_a.none().noconvert(), "source"_a.noconvert(), "sink"_a.noconvert());
}

template <class Real>
void bind_flow(nb::module_& m, const char* name) {
    nb::class_<Flow<Real>>(m, name)
        .def(nb::init<std::int32_t, Edges>(), "n_nodes"_a, "edges"_a.noconvert())
        .def(nb::init<std::array<NodeIndex, 3>, std::vector<std::array<NodeIndex, 3>>>(), "shape"_a, "steps"_a)
        .def("clear", &Flow<Real>::clear)
        .def("add_terminals", &Flow<Real>::add_terminals, "nodes"_a.none().noconvert(), "source"_a.noconvert(), "sink"_a.noconvert())
        .def("add_capacities", &Flow<Real>::add_capacities, "edges"_a.none().noconvert(), "forward"_a.noconvert(), "backward"_a.none().noconvert())
        .def("solve", &Flow<Real>::solve)
        .def("costs_of_other_sides", &Flow<Real>::costs_of_other_sides, "nodes"_a.noconvert())
        .def("total", &Flow<Real>::total)
        .def_prop_ro("n_bytes", &Flow<Real>::n_bytes);
}

// One graph, many scores. The buffers of a graph serve one call at a time, from whichever thread.
class GraphCut {
  public:
    GraphCut(std::int32_t n_nodes, Edges edges) {
        ScopedGilRelease unlocked;
        energy_ = std::make_unique<BinaryEnergy>(n_nodes, edges.data(), static_cast<std::int64_t>(edges.shape(0)));
    }
    template <class Pairwise>
    nb::tuple solve(Unary unary, Pairwise pairwise) {
        check_rows("unary", unary.shape(0), static_cast<std::int64_t>(energy_->n_nodes()));
        check_rows("pairwise", pairwise.shape(0), static_cast<std::int64_t>(energy_->n_edges()));
        const auto labels = zeros<std::uint8_t>({unary.shape(0)});
        double score;
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            if constexpr (std::is_same_v<Pairwise, Tables>) score = energy_->solve_tables(unary.data(), pairwise.data(), labels.data);
            else score = energy_->solve_penalties(unary.data(), pairwise.data(), labels.data);
        }
        return nb::make_tuple(score, labels.array);
    }

  private:
    std::unique_ptr<BinaryEnergy> energy_;
    std::mutex busy_;
};

}  // namespace

void bind_cuts(nb::module_& m) {
    bind_flow<double>(m, "RealFlow");
    bind_flow<std::int64_t>(m, "IntegerFlow");
    bind_minimum_cut<double>(m);
    bind_minimum_cut<std::int64_t>(m);
    bind_minimum_cut<std::int32_t>(m);
    nb::class_<GraphCut>(m, "GraphCut")
        .def(nb::init<std::int32_t, Edges>(), "n_nodes"_a, "edges"_a.noconvert())
        .def("solve", &GraphCut::solve<Values>, "unary"_a.noconvert(), "tables"_a.noconvert())
        .def("solve", &GraphCut::solve<Tables>, "unary"_a.noconvert(), "tables"_a.noconvert());
}
