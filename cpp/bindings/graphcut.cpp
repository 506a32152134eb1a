// Python face of the minimum cut: arrays in, arrays out, interpreter lock released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "structures/binary_energy.hpp"

namespace nb = nanobind;
using namespace maxmargin::structures;
using namespace nb::literals;

namespace {

using Values = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Unary = nb::ndarray<const double, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Tables = nb::ndarray<const double, nb::shape<-1, 2, 2>, nb::c_contig, nb::device::cpu>;
using Edges = nb::ndarray<const std::int32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Sides = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

Sides new_sides(std::size_t size) {
    auto data = std::make_unique<std::uint8_t[]>(std::max<std::size_t>(1, size));
    std::uint8_t* memory = data.get();
    nb::capsule owner(data.release(), [](void* p) noexcept { delete[] static_cast<std::uint8_t*>(p); });
    return Sides(memory, {size}, owner);
}

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
    Sides sides = new_sides(source.size());
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
        for (std::int32_t i = 0; i < n_nodes; ++i) sides.data()[i] = flow.on_source_side(i);
    }
    return nb::make_tuple(value.value(), sides);
}

// One graph, many scores. The buffers of a graph serve one call at a time, from whichever thread.
class GraphCut {
  public:
    GraphCut(std::int32_t n_nodes, Edges edges) {
        nb::gil_scoped_release unlocked;
        energy_ = std::make_unique<BinaryEnergy>(n_nodes, edges.data(), static_cast<std::int64_t>(edges.shape(0)));
    }
    nb::tuple solve_penalties(Unary unary, Values pairwise) {
        return solve(unary, pairwise, [&](std::uint8_t* labels) { return energy_->solve_penalties(unary.data(), pairwise.data(), labels); });
    }
    nb::tuple solve_tables(Unary unary, Tables pairwise) {
        return solve(unary, pairwise, [&](std::uint8_t* labels) { return energy_->solve_tables(unary.data(), pairwise.data(), labels); });
    }

  private:
    template <class Pairwise, class Solve>
    nb::tuple solve(const Unary& unary, const Pairwise& pairwise, const Solve& run) {
        check_rows("unary", unary.shape(0), energy_->graph().n_nodes());
        check_rows("pairwise", pairwise.shape(0), energy_->graph().n_edges());
        Sides labels = new_sides(unary.shape(0));
        double score;
        {
            nb::gil_scoped_release unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            score = run(labels.data());
        }
        return nb::make_tuple(score, labels);
    }

    std::unique_ptr<BinaryEnergy> energy_;
    std::mutex busy_;
};

nb::tuple best_binary(Unary unary, Edges edges, Values pair_weight) {
    return GraphCut(static_cast<std::int32_t>(unary.shape(0)), edges).solve_penalties(unary, pair_weight);
}

}  // namespace

void bind_graphcut(nb::module_& m) {
    m.def("max_flow", &max_flow, "n_nodes"_a, "edges"_a.noconvert(), "forward"_a.noconvert(), "backward"_a.noconvert(), "source"_a.noconvert(), "sink"_a.noconvert());
    m.def("best_binary", &best_binary, "unary"_a.noconvert(), "edges"_a.noconvert(), "pair_weight"_a.noconvert());
    nb::class_<GraphCut>(m, "GraphCut")
        .def(nb::init<std::int32_t, Edges>(), "n_nodes"_a, "edges"_a.noconvert())
        .def("solve", &GraphCut::solve_penalties, "unary"_a.noconvert(), "tables"_a.noconvert())
        .def("solve", &GraphCut::solve_tables, "unary"_a.noconvert(), "tables"_a.noconvert());
}
