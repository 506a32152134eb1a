// Python face of the minimum cut: arrays in, arrays out, interpreter lock released.
#include <memory>
#include <mutex>
#include <type_traits>

#include "bindings/arrays.hpp"
#include "structures/binary_energy.hpp"

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

nb::tuple max_flow(std::int32_t n_nodes, Edges edges, Values forward, Values backward, Values source, Values sink) {
    const auto n_edges = static_cast<std::int64_t>(edges.shape(0));
    check_rows("forward", forward.size(), n_edges);
    check_rows("backward", backward.size(), n_edges);
    check_rows("source", source.size(), n_nodes);
    check_rows("sink", sink.size(), n_nodes);
    const auto sides = zeros<std::uint8_t>({source.size()});
    maxmargin::CompensatedSum value;
    {
        nb::gil_scoped_release unlocked;
        // What flows from the source through one node straight into the sink is known beforehand.
        std::vector<double> excess(source.size());
        for (std::size_t i = 0; i < excess.size(); ++i) {
            value.add(std::min(source.data()[i], sink.data()[i]));
            excess[i] = source.data()[i] - sink.data()[i];
        }
        MaxFlow flow(n_nodes, edges.data(), n_edges);
        value.add(flow.solve(forward.data(), backward.data(), excess.data()));
        for (std::int32_t i = 0; i < n_nodes; ++i) sides.data[i] = flow.on_source_side(i);
    }
    return nb::make_tuple(value.value(), sides.array);
}

// One graph, many scores. The buffers of a graph serve one call at a time, from whichever thread.
class GraphCut {
  public:
    GraphCut(std::int32_t n_nodes, Edges edges) {
        nb::gil_scoped_release unlocked;
        energy_ = std::make_unique<BinaryEnergy>(n_nodes, edges.data(), static_cast<std::int64_t>(edges.shape(0)));
    }
    template <class Pairwise>
    nb::tuple solve(Unary unary, Pairwise pairwise) {
        check_rows("unary", unary.shape(0), energy_->graph().n_nodes());
        check_rows("pairwise", pairwise.shape(0), energy_->graph().n_edges());
        const auto labels = zeros<std::uint8_t>({unary.shape(0)});
        double score;
        {
            nb::gil_scoped_release unlocked;
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

void bind_graphcut(nb::module_& m) {
    m.def("max_flow", &max_flow, "n_nodes"_a, "edges"_a.noconvert(), "forward"_a.noconvert(), "backward"_a.noconvert(), "source"_a.noconvert(), "sink"_a.noconvert());
    nb::class_<GraphCut>(m, "GraphCut")
        .def(nb::init<std::int32_t, Edges>(), "n_nodes"_a, "edges"_a.noconvert())
        .def("solve", &GraphCut::solve<Values>, "unary"_a.noconvert(), "tables"_a.noconvert())
        .def("solve", &GraphCut::solve<Tables>, "unary"_a.noconvert(), "tables"_a.noconvert());
}
