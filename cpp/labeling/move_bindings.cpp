// Python face of moves: arrays in, labels changed in place, interpreter lock released.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "labeling/moves.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::labeling;

namespace {

using Shape = std::array<NodeIndex, 3>;
using Labels = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The arrays are not copied; they are kept as long as the moves. One call at a time, from whichever thread.
class MoveMaker {
  public:
    MoveMaker(Input<double, nb::ndim<2>> unary, Input<std::int32_t, nb::shape<-1, 2>> edges, Input<double> tables, InputVector<double> weights, Int32s members,
              Int64s offsets, InputVector<double> mixed, std::optional<Input<double, nb::ndim<2>>> uniform, std::optional<Shape> shape, std::vector<Shape> steps,
              std::optional<InputVector<double>> sizes, bool zero_diagonals, bool symmetric)
        : sizes_(sizes), unary_(unary), edges_(edges), tables_(tables), weights_(weights), members_(members), offsets_(offsets), mixed_(mixed), uniform_(uniform) {
        const std::size_t n_labels = unary.shape(1), n_edges = edges.shape(0);
        require(tables.ndim() == 2 || tables.ndim() == 3, "tables must have shape (L, L) or (E, L, L)");
        const bool own = tables.ndim() == 3;
        require(tables.shape(own ? 1 : 0) == n_labels && tables.shape(own ? 2 : 1) == n_labels, "tables must have shape (L, L) or (E, L, L)");
        require(!own || tables.shape(0) == n_edges, "tables must have one entry for each edge");
        require(weights.size() == n_edges, "weights must have one entry for each edge");
        check_forests(offsets.data(), offsets.size(), nullptr, members.size());
        const std::size_t n_cliques = offsets.size() - 1;
        require(mixed.size() == n_cliques, "mixed must have one entry for each clique");
        require(!uniform || (uniform->shape(0) == n_cliques && uniform->shape(1) == n_labels), "uniform must have shape (K, L)");
        for (std::size_t c = 0; c < n_cliques; ++c) require(offsets.data()[c] < offsets.data()[c + 1], "a clique must have members");
        for (std::size_t m = 0; m < members.size(); ++m)
            require(members.data()[m] >= 0 && static_cast<std::size_t>(members.data()[m]) < unary.shape(0), "members must be nodes");
        PottsEnergy energy;
        energy.n_nodes = static_cast<NodeIndex>(unary.shape(0));
        energy.n_labels = static_cast<Label>(n_labels);
        energy.unary = unary.data();
        energy.edges = edges.data();
        energy.n_edges = static_cast<std::int64_t>(n_edges);
        if (shape) {
            energy.grid = maxmargin::structures::Grid{*shape, std::move(steps)};
            require(energy.grid->n_nodes() == energy.n_nodes && energy.grid->n_edges() == energy.n_edges, "the grid must have these nodes and edges");
        }
        energy.tables = tables.data();
        energy.own_tables = own;
        require(!own || (sizes && sizes->size() == n_edges), "sizes must have one entry for each table");
        energy.sizes = own ? sizes->data() : nullptr;
        energy.zero_diagonals = own && zero_diagonals;
        energy.symmetric = own && symmetric;
        energy.weights = weights.data();
        energy.n_cliques = static_cast<std::int64_t>(n_cliques);
        energy.members = members.data();
        energy.offsets = offsets.data();
        energy.mixed = mixed.data();
        energy.uniform = uniform ? uniform->data() : nullptr;
        ScopedGilRelease unlocked;
        moves_ = std::make_unique<Moves>(energy);
    }

    double expand(std::int32_t alpha, Labels labels, double least, bool truncate) {
        check(labels, alpha, alpha);
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        return moves_->expand(alpha, labels.data(), least, truncate);
    }
    double swap(std::int32_t alpha, std::int32_t beta, Labels labels, double least, bool truncate) {
        check(labels, alpha, beta);
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        return moves_->swap(alpha, beta, labels.data(), least, truncate);
    }
    double best_of_two(Labels labels, double rounding) {
        require(unary_.shape(1) == 2, "there must be two labels");
        check(labels, 0, 1);
        ScopedGilRelease unlocked;
        const std::lock_guard<std::mutex> alone(busy_);
        return moves_->best_of_two(labels.data(), rounding);
    }
    std::size_t n_bytes() const { return moves_->n_bytes(); }

  private:
    void check(const Labels& labels, std::int32_t alpha, std::int32_t beta) const {
        const auto n_labels = static_cast<std::int32_t>(unary_.shape(1));
        require(labels.size() == unary_.shape(0), "labels must have one entry for each node");
        require(alpha >= 0 && alpha < n_labels && beta >= 0 && beta < n_labels, "the label does not exist");
        for (std::size_t i = 0; i < labels.size(); ++i) require(labels.data()[i] >= 0 && labels.data()[i] < n_labels, "labels are out of range");
    }

    std::optional<InputVector<double>> sizes_;
    Input<double, nb::ndim<2>> unary_;
    Input<std::int32_t, nb::shape<-1, 2>> edges_;
    Input<double> tables_;
    InputVector<double> weights_;
    Int32s members_;
    Int64s offsets_;
    InputVector<double> mixed_;
    std::optional<Input<double, nb::ndim<2>>> uniform_;
    std::unique_ptr<Moves> moves_;
    std::mutex busy_;
};

// None if a cost is no finite number.
nb::object facts_of(Input<double, nb::ndim<3>> tables) {
    require(tables.shape(1) == tables.shape(2), "tables must have shape (E, L, L)");
    TableFacts facts;
    {
        ScopedGilRelease unlocked;
        facts = look_at_tables(tables.data(), tables.shape(0), tables.shape(1));
    }
    if (!facts.finite) return nb::none();
    return nb::make_tuple(array_of(std::move(facts.least)), array_of(std::move(facts.most)), array_of(std::move(facts.apart)), facts.zero_diagonals,
                          facts.symmetric, facts.shared, array_of(std::move(facts.factors)));
}

}  // namespace

void bind_moves(nb::module_& m) {
    nb::class_<MoveMaker>(m, "Moves")
        .def(nb::init<Input<double, nb::ndim<2>>, Input<std::int32_t, nb::shape<-1, 2>>, Input<double>, InputVector<double>, Int32s, Int64s, InputVector<double>,
                      std::optional<Input<double, nb::ndim<2>>>, std::optional<Shape>, std::vector<Shape>, std::optional<InputVector<double>>, bool, bool>(),
             "unary"_a.noconvert(), "edges"_a.noconvert(), "tables"_a.noconvert(), "weights"_a.noconvert(), "members"_a.noconvert(), "offsets"_a.noconvert(),
             "mixed"_a.noconvert(), "uniform"_a.none().noconvert(), "shape"_a.none() = nb::none(), "steps"_a = std::vector<Shape>{}, "sizes"_a.none() = nb::none(),
             "zero_diagonals"_a = false, "symmetric"_a = false)
        .def("expand", &MoveMaker::expand, "alpha"_a, "labels"_a.noconvert(), "least"_a, "truncate"_a)
        .def("swap", &MoveMaker::swap, "alpha"_a, "beta"_a, "labels"_a.noconvert(), "least"_a, "truncate"_a)
        .def("best_of_two", &MoveMaker::best_of_two, "labels"_a.noconvert(), "rounding"_a)
        .def_prop_ro("n_bytes", &MoveMaker::n_bytes);
    m.def("look_at_tables", &facts_of, "tables"_a.noconvert());
}
