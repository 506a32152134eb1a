// Python bindings of the block-coordinate solvers and of the oracles of a user. Data are checked in Python; what would read foreign
// memory is checked here too.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/block_data.hpp"
#include "core/engine.hpp"
#include "core/oracle_blocks.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::blocks;

namespace {

// The numbers that are not zero, and where they stand; how many. Every number is written, and the next one writes over it if it
// is zero: no branch to predict.
std::size_t compress(const double* x, std::size_t n, std::int32_t* where, double* values) {
    std::size_t count = 0;
    for (std::size_t j = 0; j < n; ++j) {
        where[count] = static_cast<std::int32_t>(j);
        values[count] = x[j];
        count += x[j] != 0;
    }
    return count;
}

// A dense matrix without its zeros: values, columns and where each row begins.
nb::tuple compress_rows(const Input<double, nb::ndim<2>>& X) {
    const std::size_t rows = X.shape(0), columns = X.shape(1);
    const double* x = X.data();
    std::vector<std::int64_t> begin(rows + 1);
    std::vector<double> values;
    std::vector<std::int32_t> where;
    {
        ScopedGilRelease unlocked;
        std::size_t count = 0;
        for (std::size_t e = 0; e < rows * columns; ++e) count += x[e] != 0;
        values.resize(count + 1);
        where.resize(count + 1);
        std::size_t to = 0;
        for (std::size_t r = 0; r < rows; ++r) {
            to += compress(x + r * columns, columns, where.data() + to, values.data() + to);
            begin[r + 1] = static_cast<std::int64_t>(to);
        }
        values.pop_back();
        where.pop_back();
    }
    return nb::make_tuple(array_of(std::move(values)), array_of(std::move(where)), array_of(std::move(begin)));
}

// A user's compiled function, with the arrays it reads.
struct PyCompiledOracle final : BlockData {
    Reals reals;
    Int64s integers;
    std::shared_ptr<CompiledOracle> oracle;
    PyCompiledOracle(std::uintptr_t address, Reals reals_, Int64s integers_, std::size_t n_blocks, std::size_t n_weights, std::size_t most_entries)
        : reals(std::move(reals_)), integers(std::move(integers_)) {
        require(address != 0, "address must not be zero");
        require(n_weights < 0x80000000u, "too many features");
        oracle = std::make_shared<CompiledOracle>(reinterpret_cast<OracleFunction>(address), reals.data(), integers.data(), n_blocks,
                                                  n_weights, most_entries);
    }
    std::unique_ptr<Blocks> make() const override { return std::make_unique<OracleBlocks>(oracle); }

    // Loss and features of the most violating output, for solvers that are written in Python.
    nb::tuple ask(std::size_t block, const Reals& weights) const {
        require(block < oracle->n_blocks && weights.size() == oracle->n_weights, "block or weights out of range");
        const auto psi = zeros<double>({oracle->n_weights});
        Answer answer;
        {
            ScopedGilRelease unlocked;
            oracle->ask(block, weights.data(), answer);
        }
        oracle->check_indices(block, answer);
        answer.psi().add_to(psi.data, 1);
        return nb::make_tuple(psi.array, answer.loss);
    }
};

// A problem in Python: asked for the cut of one block or, where that is possible, of many at once.
class PythonOracle final : public Oracle {
  public:
    PythonOracle(nb::object problem, std::size_t n_blocks, std::size_t n_weights) : Oracle(n_blocks, n_weights), problem_(std::move(problem)) {}
    PythonOracle(const PythonOracle& other) : Oracle(other.n_blocks, other.n_weights) {
        ScopedGilAcquire locked;
        problem_ = other.problem_;
        distributions_ = other.distributions_;
    }
    ~PythonOracle() override {
        ScopedGilAcquire locked;
        problem_.drop(), announced_.drop(), tilted_.drop();
        distributions_.clear();
    }
    std::shared_ptr<Oracle> clone() const override { return std::make_shared<PythonOracle>(*this); }

    // The engine at work in this thread: arrays of weights that Python is shown keep it alive, since it owns the memory.
    static thread_local nb::handle owner;
    class Working {
      public:
        explicit Working(nb::handle engine) : before_(owner) { owner = engine; }
        ~Working() { owner = before_; }

      private:
        nb::handle before_;
    };

    void ask(std::size_t block, const double* weights, Answer& answer) override {
        ScopedGilAcquire locked;
        if (block == next_ && block < last_) {
            const auto k = static_cast<Py_ssize_t>(next_++ - first_);
            read(block, object_from([&] { return PySequence_GetItem(announced_.ptr(), k); }), answer);
            return;
        }
        next_ = last_ = 0;
        read(block, call_method(problem_, "cut", block, shown(weights)), answer);
    }
    void announce(std::size_t first, std::size_t last, const double* weights) override {
        next_ = last_ = 0;
        if (first == last) return;
        ScopedGilAcquire locked;
        const nb::handle range(reinterpret_cast<PyObject*>(&PyRange_Type));
        announced_ = call_method(problem_, "cuts", call_python(range, first, last), shown(weights));
        const Py_ssize_t count = call_interpreter([&] { return PyObject_Size(announced_.ptr()); });
        if (count < 0) throw nb::python_error();
        if (static_cast<std::size_t>(count) != last - first)
            throw nb::value_error("cuts(blocks, weights) must return one cut for each block");
        first_ = next_ = first, last_ = last;
    }

    void interior(double mass) override {
        ScopedGilAcquire locked;
        for (std::size_t i = 0; i < n_blocks; ++i) distributions_.push_back(call_method(problem_, "interior", i, mass));
    }
    void average(std::size_t block, Answer& answer) override {
        ScopedGilAcquire locked;
        read(block, call_method(problem_, "average", block, distributions_[block]), answer);
    }
    void tilt(std::size_t block, const double* weights, double temperature, Answer& answer) override {
        ScopedGilAcquire locked;
        tilted_ = call_method(problem_, "tilt", block, distributions_[block], shown(weights), temperature);
        read(block, call_method(problem_, "average", block, tilted_), answer);
    }
    void mix(std::size_t block, double step) override {
        ScopedGilAcquire locked;
        distributions_[block] = call_method(problem_, "mix", distributions_[block], tilted_, step);
    }
    void shrink(double part) override {
        ScopedGilAcquire locked;
        // As good as the truth itself, and still in the interior.
        constexpr double kMass = 1e-30;
        for (std::size_t i = 0; i < n_blocks; ++i)
            distributions_[i] = call_method(problem_, "mix", distributions_[i], call_method(problem_, "interior", i, kMass), 1 - part);
    }

  private:
    nb::object shown(const double* weights) const {
        return nb::cast(nb::ndarray<nb::numpy, const double, nb::ndim<1>>(weights, {n_weights}, owner), nb::rv_policy::reference);
    }

    // Features of a Cut: a dense array, or a pair of indices and values.
    void read(std::size_t block, const Reference& cut, Answer& answer) const {
        const Reference psi = python_attribute(cut, "psi"), bound = python_attribute(cut, "bound");
        answer.loss = python_number(python_attribute(cut, "loss"));
        check_loss(block, answer.loss);
        answer.bound = bound.is_none() ? -INFINITY : python_number(bound);
        if (std::isnan(answer.bound)) fail(block, "returned a bound that is not a number");
        if (nb::isinstance<nb::tuple>(psi)) {
            if (PyTuple_Size(psi.ptr()) != 2) fail(block, "returned features that are no pair of indices and values");
            const auto indices = array_from<Int32s>(nb::borrow(PyTuple_GetItem(psi.ptr(), 0)));
            const auto values = array_from<Reals>(nb::borrow(PyTuple_GetItem(psi.ptr(), 1)));
            if (indices.size() != values.size()) fail(block, "returned indices and values of different lengths");
            answer.indices.assign(indices.data(), indices.data() + indices.size());
            answer.values.assign(values.data(), values.data() + values.size());
            answer.count = indices.size();
            return;
        }
        const auto dense = array_from<Reals>(psi);
        if (dense.size() != n_weights)
            fail(block, "returned " + std::to_string(dense.size()) + " features, but there are " + std::to_string(n_weights));
        answer.indices.resize(n_weights);
        answer.values.resize(n_weights);
        answer.count = compress(dense.data(), n_weights, answer.indices.data(), answer.values.data());
    }

    Reference problem_, announced_, tilted_;
    std::vector<Reference> distributions_;
    std::size_t first_ = 0, next_ = 0, last_ = 0;  // blocks whose cuts are in announced_, and which of them is next
};

thread_local nb::handle PythonOracle::owner;

struct PyPythonOracle final : BlockData {
    std::shared_ptr<PythonOracle> oracle;
    PyPythonOracle(nb::object problem, std::size_t n_blocks, std::size_t n_weights) {
        require(n_weights < 0x80000000u, "too many features");
        oracle = std::make_shared<PythonOracle>(std::move(problem), n_blocks, n_weights);
    }
    std::unique_ptr<Blocks> make() const override { return std::make_unique<OracleBlocks>(oracle->clone()); }
};

Settings frank_wolfe(const std::string& sampling, const std::string& steps, std::size_t cache, std::uint64_t seed) {
    return {chosen<Sampling>(sampling, "sampling", {{"uniform", Sampling::uniform}, {"permutation", Sampling::permutation}, {"gap", Sampling::gap}}),
            chosen<Steps>(steps, "steps", {{"fw", Steps::fw}, {"pairwise", Steps::pairwise}, {"away", Steps::away}, {"all", Steps::all},
                                           {"exact", Steps::exact}}),
            cache, seed};
}

Settings partial_linearization(double temperature, const std::string& rule, double mass, std::uint64_t seed) {
    const auto how = chosen<Rule>(rule, "rule", {{"line_search", Rule::line_search}, {"fixed", Rule::full}, {"backtracking", Rule::backtracking}});
    return {Sampling::permutation, Steps::fw, 0, seed, true, temperature, mass, how};
}

struct PyEngine {
    std::shared_ptr<BlockData> data;
    std::unique_ptr<Engine> engine;

    PyEngine(std::shared_ptr<BlockData> data_, double lambda, const std::optional<Reals>& lower, const std::optional<Reals>& upper,
             const Settings& settings, const PyEngine* start, bool transport)
        // The blocks of an earlier engine go on reading its data, which the caller knows to be the same.
        : data(start ? start->data : std::move(data_)) {
        require(lower.has_value() == upper.has_value(), "both bounds or none");
        ScopedGilRelease unlocked;
        auto blocks = start ? start->engine->copy_blocks() : data->make();
        const std::size_t size = blocks->n_weights();
        if (lower && (lower->size() != size || upper->size() != size)) throw std::invalid_argument("bounds must have one entry per weight");
        engine = std::make_unique<Engine>(std::move(blocks), settings, lambda, lower ? lower->data() : nullptr, upper ? upper->data() : nullptr,
                                          transport && start ? start->engine.get() : nullptr);
    }

    // Without the interpreter's lock, which an oracle in Python takes for itself.
    template <class F>
    static auto work(nb::handle self, const F& f) {
        const PythonOracle::Working working(self);
        Engine& engine = *nb::cast<PyEngine&>(self).engine;
        ScopedGilRelease unlocked;
        return f(engine);
    }

    nb::ndarray<nb::numpy, double> weights() const {
        // In small pages, of which those that hold zeros only are never made.
        const std::size_t size = engine->blocks().n_weights();
        void* memory = std::calloc(std::max<std::size_t>(size, 1), sizeof(double));
        if (!memory) throw std::bad_alloc();
        nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
        engine->blocks().export_weights(static_cast<double*>(memory));
        return {memory, {size}, owner};
    }
    // Into an array that is there already.
    void write_weights(nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) const {
        require(out.size() == engine->blocks().n_weights(), "out must have one entry per weight");
        engine->blocks().export_weights(out.data());
    }
};

}  // namespace

void bind_core(nb::module_& m) {
    m.def("compress_rows", &compress_rows, "X"_a.noconvert());
    nb::class_<BlockData>(m, "BlockData").def("n_bytes", &BlockData::n_bytes, "interior"_a);
    nb::class_<Features>(m, "Features")
        .def(nb::init<std::optional<Reals>, std::optional<Int32s>, std::optional<Int64s>, std::size_t>(), "values"_a.noconvert().none(),
             "columns"_a.noconvert().none(), "begin"_a.noconvert().none(), "n_columns"_a);
    nb::class_<PyPythonOracle, BlockData>(m, "PythonOracle")
        .def(nb::init<nb::object, std::size_t, std::size_t>(), "problem"_a, "n_blocks"_a, "n_weights"_a);
    nb::class_<PyCompiledOracle, BlockData>(m, "CompiledOracle")
        .def(nb::init<std::uintptr_t, Reals, Int64s, std::size_t, std::size_t, std::size_t>(), "address"_a, "reals"_a.noconvert(),
             "integers"_a.noconvert(), "n_blocks"_a, "n_weights"_a, "most_entries"_a)
        .def("ask", &PyCompiledOracle::ask, "block"_a, "weights"_a.noconvert());
    nb::class_<Settings>(m, "BlockSettings")
        .def_static("frank_wolfe", &frank_wolfe, "sampling"_a, "steps"_a, "cache"_a, "seed"_a)
        .def_static("partial_linearization", &partial_linearization, "temperature"_a, "rule"_a, "mass"_a, "seed"_a);
    nb::class_<PyEngine>(m, "BlockEngine")
        .def(nb::init<std::shared_ptr<BlockData>, double, const std::optional<Reals>&, const std::optional<Reals>&, const Settings&,
                      const PyEngine*, bool>(),
             "data"_a, "lam"_a, "lower"_a.noconvert().none(), "upper"_a.noconvert().none(), "settings"_a, "start"_a.none(),
             "transport"_a = false)
        .def("run", [](nb::handle self, std::size_t most_visits, std::size_t most_calls, std::size_t quiet_calls, double absolute, double relative) {
            const auto p = PyEngine::work(self, [&](Engine& e) { return e.run(most_visits, most_calls, quiet_calls, {absolute, relative}); });
            return nb::make_tuple(p.visits, p.calls, p.idle, p.reached);
        }, "most_visits"_a, "most_calls"_a, "quiet_calls"_a, "absolute"_a, "relative"_a)
        .def("gap_pass", [](nb::handle self) {
            const auto c = PyEngine::work(self, [](Engine& e) { return e.gap_pass(); });
            return nb::make_tuple(c.primal, c.dual, c.gap, c.oracle_gap);
        })
        .def("settle", [](nb::handle self, double goal, std::size_t most_visits) {
            return PyEngine::work(self, [&](Engine& e) { return e.settle(goal, most_visits); });
        }, "goal"_a, "most_visits"_a)
        .def("step_all", [](nb::handle self, double step) {
            return PyEngine::work(self, [&](Engine& e) { return e.step_all(step); });
        }, "step"_a = -1.0)
        .def("weights", &PyEngine::weights)
        .def("write_weights", &PyEngine::write_weights, "out"_a.noconvert())
        .def("gaps", [](const PyEngine& e) { return array_of(e.engine->sampler().gaps()); })
        .def_prop_ro("dual", [](const PyEngine& e) { return e.engine->dual(); })
        .def_prop_ro("known_gap", [](const PyEngine& e) { return e.engine->sampler().sum(); })
        .def_prop_ro("all_seen", [](const PyEngine& e) { return e.engine->sampler().all_seen(); })
        .def_prop_ro("lam", [](const PyEngine& e) { return e.engine->blocks().lambda(); })
        .def_prop_ro("queries", [](const PyEngine& e) { return e.engine->blocks().queries(); })
        .def_prop_ro("worse_than_truth", [](const PyEngine& e) { return e.engine->blocks().worse_than_truth(); })
        .def_prop_ro("n_bytes", [](const PyEngine& e) { return e.engine->blocks().n_bytes(); });
}
