// Python face of message passing: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/string.h>

#include <memory>
#include <mutex>

#include "labeling/messages.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::labeling;

namespace {

using Edges = Input<std::int32_t, nb::shape<-1, 2>>;
using Table = Input<double, nb::ndim<2>>;
using Values = InputVector<double>;

// One graph, many costs; messages stay from one call to the next. The buffers serve one call at a time, from whichever thread.
class MessagePassing {
  public:
    MessagePassing(std::int32_t n_nodes, std::int32_t n_labels, Edges edges, bool reweighted) {
        require(n_nodes >= 0 && n_labels >= 1, "at least one label is needed");
        for (std::size_t k = 0; k < edges.size(); ++k)
            require(edges.data()[k] >= 0 && edges.data()[k] < n_nodes, "an edge leads to a node that does not exist");
        ScopedGilRelease unlocked;
        messages_ = std::make_unique<Messages>(n_nodes, n_labels, edges.data(), static_cast<std::int64_t>(edges.shape(0)), reweighted);
    }
    bool is_forest() const { return messages_->is_forest(); }
    void clear() {
        const std::lock_guard<std::mutex> alone(busy_);
        messages_->clear();
    }

    nb::tuple run(Table unary, Reals tables, Values weights, const std::string& kind, double slope, double limit, int n_sweeps, double tolerance) {
        const PairCosts pairs = checked(unary, tables, weights, kind, slope, limit);
        Messages::Outcome found;
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            found = messages_->run(with_transposed(unary, pairs), n_sweeps, tolerance);
        }
        return nb::make_tuple(array_of(std::move(found.labels)), array_of(std::move(found.energies)), array_of(std::move(found.bounds)), found.converged);
    }
    nb::ndarray<nb::numpy, double> hand_over(Table unary, Reals tables, Values weights, const std::string& kind, double slope, double limit) {
        const PairCosts pairs = checked(unary, tables, weights, kind, slope, limit);
        std::vector<double> handed(static_cast<std::size_t>(2 * messages_->n_edges() * messages_->n_labels()));
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            messages_->hand_over(with_transposed(unary, pairs), handed.data());
        }
        return array_of(std::move(handed));
    }
    nb::ndarray<nb::numpy, double> min_marginals(Table unary, Reals tables, Values weights, const std::string& kind, double slope, double limit) {
        const PairCosts pairs = checked(unary, tables, weights, kind, slope, limit);
        const auto found = zeros<double>({unary.shape(0), unary.shape(1)});
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            messages_->min_marginals(with_transposed(unary, pairs), found.data);
        }
        return found.array;
    }
    nb::tuple descend(Table unary, Reals tables, Values weights, Int32s labels, int patience, std::uint32_t seed) {
        const PairCosts pairs = checked(unary, tables, weights, "dense", 0.0, 0.0);
        require(labels.size() == unary.shape(0), "labels must have one entry for each node");
        std::vector<std::int32_t> own(labels.data(), labels.data() + labels.size());
        for (const std::int32_t label : own) require(label >= 0 && label < messages_->n_labels(), "a label does not exist");
        double energy;
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            energy = messages_->descend_forests({unary.data(), pairs}, own.data(), patience, seed);
        }
        return nb::make_tuple(energy, array_of(std::move(own)));
    }

  private:
    PairCosts checked(const Table& unary, const Reals& tables, const Values& weights, const std::string& kind, double slope, double limit) const {
        const auto L = static_cast<std::size_t>(messages_->n_labels()), E = static_cast<std::size_t>(messages_->n_edges());
        require(unary.shape(0) == static_cast<std::size_t>(messages_->n_nodes()) && unary.shape(1) == L, "unary must have shape (nodes, labels)");
        require(weights.size() == E, "weights must have one entry for each edge");
        const bool shared = tables.ndim() == 2;
        require((shared || (tables.ndim() == 3 && tables.shape(0) == E)) && tables.shape(tables.ndim() - 1) == L && tables.shape(tables.ndim() - 2) == L,
                "tables must have shape (labels, labels) or (edges, labels, labels)");
        const auto word = chosen<TableKind>(kind, "kind of table", {{"dense", TableKind::dense}, {"potts", TableKind::potts}, {"linear", TableKind::linear}});
        require(shared || word == TableKind::dense, "tables of every edge are dense");
        return {word, shared, tables.data(), nullptr, weights.data(), slope, limit};
    }
    Costs with_transposed(const Table& unary, PairCosts pairs) {
        if (pairs.shared) {
            const auto L = static_cast<std::size_t>(messages_->n_labels());
            transposed_.resize(L * L);
            for (std::size_t a = 0; a < L; ++a)
                for (std::size_t b = 0; b < L; ++b) transposed_[b * L + a] = pairs.tables[a * L + b];
            pairs.transposed = transposed_.data();
        }
        return {unary.data(), pairs};
    }

    std::unique_ptr<Messages> messages_;
    std::vector<double> transposed_;
    std::mutex busy_;
};

}  // namespace

void bind_messages(nb::module_& m) {
    nb::class_<MessagePassing>(m, "MessagePassing")
        .def(nb::init<std::int32_t, std::int32_t, Edges, bool>(), "n_nodes"_a, "n_labels"_a, "edges"_a.noconvert(), "reweighted"_a)
        .def_prop_ro("is_forest", &MessagePassing::is_forest)
        .def("clear", &MessagePassing::clear)
        .def("run", &MessagePassing::run, "unary"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert(), "kind"_a, "slope"_a, "limit"_a, "n_sweeps"_a, "tolerance"_a)
        .def("hand_over", &MessagePassing::hand_over, "unary"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert(), "kind"_a, "slope"_a, "limit"_a)
        .def("min_marginals", &MessagePassing::min_marginals, "unary"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert(), "kind"_a, "slope"_a, "limit"_a)
        .def("descend", &MessagePassing::descend, "unary"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert(), "labels"_a.noconvert(), "patience"_a, "seed"_a);
}
