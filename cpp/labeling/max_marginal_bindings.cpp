// Binary labellings of the connected components of a graph, to Python.
#include <mutex>

#include "labeling/max_marginals.hpp"
#include "python/arrays.hpp"

using maxmargin::structures::BinaryComponents;
using maxmargin::structures::Flips;
using maxmargin::structures::FlipsView;

namespace {

using Labels = InputVector<std::uint8_t>;
using Numbers = InputVector<double>;
using Edges = Input<std::int32_t, nb::shape<-1, 2>>;

// The buffers of a graph serve one call at a time, from whichever thread.
class Components {
  public:
    Components(Int64s node_offsets, Int64s edge_offsets, Edges edges) {
        check_forests(node_offsets.data(), node_offsets.size(), nullptr, node_offsets.size() ? static_cast<std::size_t>(node_offsets.data()[node_offsets.size() - 1]) : 0);
        require(edge_offsets.size() == node_offsets.size(), "edge_offsets must be as long as node_offsets");
        check_forests(edge_offsets.data(), edge_offsets.size(), nullptr, edges.shape(0));
        const std::size_t count = node_offsets.size() - 1;
        for (std::size_t c = 0; c < count; ++c) {
            const std::int64_t k = node_offsets.data()[c + 1] - node_offsets.data()[c];
            for (std::int64_t e = 2 * edge_offsets.data()[c]; e < 2 * edge_offsets.data()[c + 1]; ++e)
                require(edges.data()[e] >= 0 && edges.data()[e] < k, "edges must number the nodes of their component");
        }
        ScopedGilRelease unlocked;
        parts_ = std::make_unique<BinaryComponents>(node_offsets.data(), edge_offsets.data(), count, edges.data());
    }
    nb::ndarray<nb::numpy, std::uint8_t> best(std::size_t first, std::size_t last, Numbers scores, Numbers penalties) {
        require(first <= last && last <= parts_->size(), "there are no such components");
        check(scores, parts_->nodes_of(first, last), penalties, parts_->edges_of(first, last));
        const auto labels = zeros<std::uint8_t>({scores.size()});
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        parts_->best(first, last, scores.data(), penalties.data(), labels.data);
        return labels.array;
    }
    nb::tuple costs_of_other_labels(Numbers scores, Numbers penalties) {
        check(scores, parts_->n_nodes(), penalties, parts_->n_edges());
        const auto labels = zeros<std::uint8_t>({scores.size()});
        const auto costs = zeros<double>({scores.size()});
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            parts_->costs_of_other_labels(scores.data(), penalties.data(), labels.data, costs.data);
        }
        return nb::make_tuple(labels.array, costs.array);
    }
    nb::tuple forced(Numbers scores, Numbers penalties, Labels wanted) {
        check(scores, parts_->n_nodes(), penalties, parts_->n_edges());
        require(wanted.size() == scores.size(), "wanted must have a label for every node");
        const auto labels = zeros<std::uint8_t>({scores.size()});
        Flips flips;
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            flips = parts_->forced(scores.data(), penalties.data(), wanted.data(), labels.data);
        }
        return nb::make_tuple(labels.array, array_of(std::move(flips.set_of)), array_of(std::move(flips.offsets)), array_of(std::move(flips.nodes)));
    }
    nb::ndarray<nb::numpy, double> values(Labels best, Int64s set_of, Int64s offsets, Int32s nodes, Numbers scores, Numbers penalties) const {
        check(scores, parts_->n_nodes(), penalties, parts_->n_edges());
        const FlipsView flips = view(best, set_of, offsets, nodes);
        const auto found = zeros<double>({scores.size()});
        ScopedGilRelease unlocked;
        parts_->values(flips, scores.data(), penalties.data(), found.data);
        return found.array;
    }
    nb::tuple combine(Labels best, Int64s set_of, Int64s offsets, Int32s nodes, Numbers coefficients) const {
        require(coefficients.size() == parts_->n_nodes(), "coefficients must have an entry for every node");
        const FlipsView flips = view(best, set_of, offsets, nodes);
        const auto ones = zeros<double>({parts_->n_nodes()});
        const auto differ = zeros<double>({parts_->n_edges()});
        {
            ScopedGilRelease unlocked;
            parts_->combine(flips, coefficients.data(), ones.data, differ.data);
        }
        return nb::make_tuple(ones.array, differ.array);
    }
    bool same(Labels best, Int64s set_of, Int64s offsets, Int32s nodes, Labels other_best, Int64s other_set_of, Int64s other_offsets, Int32s other_nodes) const {
        const FlipsView a = view(best, set_of, offsets, nodes), b = view(other_best, other_set_of, other_offsets, other_nodes);
        ScopedGilRelease unlocked;
        return parts_->same(a, b);
    }

  private:
    static void check(const Numbers& scores, std::size_t n_nodes, const Numbers& penalties, std::size_t n_edges) {
        require(scores.size() == n_nodes, "scores must have an entry for every node");
        require(penalties.size() == n_edges, "penalties must have an entry for every edge");
    }
    // Wrong numbers would read foreign memory.
    FlipsView view(const Labels& best, const Int64s& set_of, const Int64s& offsets, const Int32s& nodes) const {
        const auto n = static_cast<std::int64_t>(parts_->n_nodes()), n_sets = static_cast<std::int64_t>(offsets.size()) - 1;
        require(best.size() == parts_->n_nodes() && set_of.size() == parts_->n_nodes(), "best and set_of must have an entry for every node");
        check_forests(offsets.data(), offsets.size(), nullptr, nodes.size());
        require(std::all_of(set_of.data(), set_of.data() + n, [&](std::int64_t s) { return s >= 0 && s < n_sets; }), "set_of must number the sets");
        require(std::all_of(nodes.data(), nodes.data() + nodes.size(), [&](std::int32_t i) { return i >= 0 && i < n; }), "nodes of sets are out of range");
        return {best.data(), set_of.data(), offsets.data(), nodes.data(), static_cast<std::size_t>(n_sets)};
    }
    std::unique_ptr<BinaryComponents> parts_;
    std::mutex busy_;
};

}  // namespace

void bind_max_marginals(nb::module_& m) {
    nb::class_<Components>(m, "BinaryComponents")
        .def(nb::init<Int64s, Int64s, Edges>(), "node_offsets"_a.noconvert(), "edge_offsets"_a.noconvert(), "edges"_a.noconvert())
        .def("best", &Components::best, "first"_a, "last"_a, "scores"_a.noconvert(), "penalties"_a.noconvert())
        .def("costs_of_other_labels", &Components::costs_of_other_labels, "scores"_a.noconvert(), "penalties"_a.noconvert())
        .def("forced", &Components::forced, "scores"_a.noconvert(), "penalties"_a.noconvert(), "wanted"_a.noconvert())
        .def("values", &Components::values, "best"_a.noconvert(), "set_of"_a.noconvert(), "offsets"_a.noconvert(), "nodes"_a.noconvert(), "scores"_a.noconvert(), "penalties"_a.noconvert())
        .def("combine", &Components::combine, "best"_a.noconvert(), "set_of"_a.noconvert(), "offsets"_a.noconvert(), "nodes"_a.noconvert(), "coefficients"_a.noconvert())
        .def("same", &Components::same, "best"_a.noconvert(), "set_of"_a.noconvert(), "offsets"_a.noconvert(), "nodes"_a.noconvert(), "other_best"_a.noconvert(),
             "other_set_of"_a.noconvert(), "other_offsets"_a.noconvert(), "other_nodes"_a.noconvert());
}
