// Python face of the first-order method for linear relaxations: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/pair.h>

#include <memory>
#include <mutex>

#include "labeling/primal_dual.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::labeling;

namespace {

using Edges = Input<std::int32_t, nb::shape<-1, 2>>;
using Table = Input<double, nb::ndim<2>>;
using Values = InputVector<double>;

// Holds the arrays it was given. The buffers serve one call at a time, from whichever thread.
class PyPrimalDual {
  public:
    PyPrimalDual(Table unary, Edges edges, Reals tables, Values weights, bool potts, double slope, Table start, Values multipliers)
        : unary_(unary), edges_(edges), tables_(tables), weights_(weights) {
        const std::size_t n = unary.shape(0), L = unary.shape(1), E = edges.shape(0);
        require(L >= 1 && start.shape(0) == n && start.shape(1) == L, "start must have the shape of unary, with at least one label");
        require(weights.size() == E, "weights must have one entry for each edge");
        const bool shared = tables.ndim() == 2;
        require((shared || (tables.ndim() == 3 && tables.shape(0) == E)) && tables.shape(tables.ndim() - 1) == L && tables.shape(tables.ndim() - 2) == L,
                "tables must have shape (labels, labels) or (edges, labels, labels)");
        require(multipliers.size() == E * (potts ? 1 : 2) * L, "multipliers must have one entry for each edge and label, and for each end unless tables are Potts");
        for (std::size_t k = 0; k < edges.size(); ++k)
            require(edges.data()[k] >= 0 && static_cast<std::size_t>(edges.data()[k]) < n, "an edge leads to a node that does not exist");
        const WeightedTables pairs{edges.data(), static_cast<std::int64_t>(E), shared, tables.data(), weights.data()};
        ScopedGilRelease unlocked;
        method_ = std::make_unique<PrimalDual>(static_cast<std::int64_t>(n), static_cast<int>(L), unary.data(), pairs, potts, slope, start.data(), multipliers.data());
    }
    void run(int n, double step) {
        require(n >= 0 && step > 0, "steps must be positive");
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        method_->run(n, step);
    }
    std::pair<double, double> evaluate(bool averaged) {
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        const auto found = method_->evaluate(averaged);
        return {found.value, found.bound};
    }
    std::pair<double, double> restart(bool averaged) {
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        return method_->restart(averaged);
    }
    nb::ndarray<nb::numpy, double> nodes(bool averaged) {
        const std::lock_guard<std::mutex> alone(busy_);
        return array_of(method_->nodes(averaged));
    }

  private:
    Table unary_;
    Edges edges_;
    Reals tables_;
    Values weights_;
    std::unique_ptr<PrimalDual> method_;
    std::mutex busy_;
};

}  // namespace

void bind_relaxations(nb::module_& m) {
    nb::class_<PyPrimalDual>(m, "PrimalDual")
        .def(nb::init<Table, Edges, Reals, Values, bool, double, Table, Values>(), "unary"_a.noconvert(), "edges"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert(),
             "potts"_a, "slope"_a, "start"_a.noconvert(), "multipliers"_a.noconvert())
        .def("run", &PyPrimalDual::run, "n"_a, "step"_a)
        .def("evaluate", &PyPrimalDual::evaluate, "averaged"_a)
        .def("restart", &PyPrimalDual::restart, "averaged"_a)
        .def("nodes", &PyPrimalDual::nodes, "averaged"_a);
}
