// Python face of the ranking kernels: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/string.h>

#include <optional>

#include "bindings/arrays.hpp"
#include "ranking/list.hpp"

using namespace maxmargin::ranking;

namespace {

Method method_by_name(const std::string& name) {
    return chosen<Method>(name, "method", {{"auto", Method::automatic}, {"buckets", Method::buckets}, {"quicksort", Method::quicksort},
                                           {"sort", Method::sort}, {"greedy", Method::greedy}, {"table", Method::table}});
}

// A loss whose discrete derivative is a vectorised Python function of the arrays (j, i); what it returns has been checked.
class PythonSearch final : public Search {
  public:
    PythonSearch(const double* positives, std::int64_t n_pos, std::int64_t n_neg, double scale, const nb::object& loss)
        : Search(positives, n_pos, n_neg, scale), loss_(loss), half_pn_(0.5 * static_cast<double>(n_pos) * static_cast<double>(n_neg)) {}

    bool prefers_batches() const override { return true; }

    void solve(Query* queries, std::size_t count) const override {
        std::size_t total = 0;
        for (std::size_t q = 0; q < count; ++q) total += static_cast<std::size_t>(queries[q].hi - queries[q].lo);
        std::vector<double> step(total);
        ask(total, step.data(), [&](std::int64_t* j, std::int64_t* i) {
            for (std::size_t q = 0; q < count; ++q)
                for (std::int32_t k = queries[q].lo; k < queries[q].hi; ++k) *j++ = queries[q].j, *i++ = k;
        });
        std::size_t at = 0;
        for (std::size_t q = 0; q < count; ++q) {
            Query& query = queries[q];
            query.rank = query.lo;
            scan_ranks(query.lo, query.hi, [&](std::int32_t i) { return positive(i) - query.s + scale_ * step[at++]; }, query.rank);
        }
    }
    void thresholds(const Query* queries, std::size_t count, double* scores) const override {
        ask(count, scores, [&](std::int64_t* j, std::int64_t* i) {
            for (std::size_t q = 0; q < count; ++q) j[q] = queries[q].j, i[q] = queries[q].lo;
        });
        for (std::size_t q = 0; q < count; ++q) scores[q] = positive(queries[q].lo) + scale_ * scores[q];
    }
    void steps(std::int64_t first_i, std::int64_t last_i, std::int64_t first_j, std::int64_t last_j, double* out) const override {
        ask(static_cast<std::size_t>((last_i - first_i + 1) * (last_j - first_j + 1)), out, [&](std::int64_t* j, std::int64_t* i) {
            for (std::int64_t row = first_i; row <= last_i; ++row)
                for (std::int64_t column = first_j; column <= last_j; ++column) *j++ = column, *i++ = row;
        });
    }
    double loss(const std::int64_t* above) const override {
        nb::gil_scoped_acquire lock;
        return nb::cast<double>(loss_.attr("value")(array_of(std::vector<std::int64_t>(above, above + n_pos_)), n_neg_));
    }

  private:
    // The steps of `count` pairs, which `fill(j, i)` writes down, in one call.
    template <class Fill>
    void ask(std::size_t count, double* out, const Fill& fill) const {
        if (count == 0) return;
        nb::gil_scoped_acquire lock;
        const auto j = zeros<std::int64_t>({count}), i = zeros<std::int64_t>({count});
        fill(j.data, i.data);
        const auto values = nb::cast<InputVector<double>>(loss_.attr("derivative")(j.array, i.array, n_pos_, n_neg_));
        if (values.size() != count) throw nb::value_error("loss.derivative must return one value for every pair");
        for (std::size_t k = 0; k < count; ++k) out[k] = half_pn_ * values.data()[k];
    }

    const nb::object& loss_;
    double half_pn_;
};

template <class T>
nb::tuple solve_list(InputVector<T> scores, InputVector<std::uint8_t> relevant, const nb::object& loss, const std::string& method, double loss_scale,
                     int n_threads) {
    const auto n = static_cast<std::int64_t>(scores.size());
    const Method how = method_by_name(method);
    std::optional<BuiltIn> built_in;
    if (nb::isinstance<nb::str>(loss)) built_in.emplace(nb::cast<std::string>(loss), n);
    const auto gradient = zeros<T>({scores.size()});
    ListSolver<T> solver;
    Summary summary;
    {
        nb::gil_scoped_release unlocked;
        const auto make = [&](const double* p, std::int64_t n_pos, std::int64_t n_neg, double scale) -> std::unique_ptr<Search> {
            if (built_in) return (*built_in)(p, n_pos, n_neg, scale);
            return std::make_unique<PythonSearch>(p, n_pos, n_neg, scale, loss);
        };
        summary = solver.solve(scores.data(), relevant.data(), n, make, how, loss_scale, gradient.data, 0, n_threads);
    }
    return nb::make_tuple(summary.loss, summary.hinge, gradient.array, array_of(solver.positives()), array_of(solver.negatives_above()),
                          summary.searches);
}

template <class T>
nb::tuple solve_many(InputVector<T> scores, InputVector<std::uint8_t> relevant, InputVector<std::int64_t> offsets, const std::string& loss_name, double loss_scale, int n_threads) {
    const BuiltIn make(loss_name, static_cast<std::int64_t>(scores.size()));
    const std::size_t n_lists = offsets.size() - 1;
    const auto gradient = zeros<T>({scores.size()});
    const auto loss = zeros<double>({n_lists}), hinge = zeros<double>({n_lists});
    {
        nb::gil_scoped_release unlocked;
        solve_lists(scores.data(), relevant.data(), offsets.data(), static_cast<std::int64_t>(n_lists), make, loss_scale, n_threads, gradient.data, loss.data,
                    hinge.data);
    }
    return nb::make_tuple(loss.array, hinge.array, gradient.array);
}

}  // namespace

void bind_ranking(nb::module_& m) {
    m.def("solve_list", &solve_list<double>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "loss"_a, "method"_a, "loss_scale"_a, "n_threads"_a = 1);
    m.def("solve_list", &solve_list<float>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "loss"_a, "method"_a, "loss_scale"_a, "n_threads"_a = 1);
    m.def("solve_lists", &solve_many<double>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "offsets"_a.noconvert(), "loss"_a, "loss_scale"_a, "n_threads"_a);
    m.def("solve_lists", &solve_many<float>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "offsets"_a.noconvert(), "loss"_a, "loss_scale"_a, "n_threads"_a);
}
