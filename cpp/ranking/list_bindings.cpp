// Python face of the ranking kernels: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/string.h>

#include <optional>

#include "python/arrays.hpp"
#include "ranking/list.hpp"
#include "ranking/python_search.hpp"

using namespace maxmargin::ranking;

namespace {

Method method_by_name(const std::string& name) {
    return chosen<Method>(name, "method", {{"auto", Method::automatic}, {"buckets", Method::buckets}, {"quicksort", Method::quicksort},
                                           {"sort", Method::sort}, {"greedy", Method::greedy}, {"table", Method::table}});
}

template <class T>
nb::tuple solve_list(InputVector<T> scores, InputVector<std::uint8_t> relevant, const nb::object& loss, const std::string& method, double loss_scale,
                     int n_threads) {
    const auto n = static_cast<std::int64_t>(scores.size());
    const Method how = method_by_name(method);
    std::optional<BuiltIn> built_in;
    if (nb::isinstance<nb::str>(loss)) built_in.emplace(nb::cast<std::string>(loss), n);
    bool cleared;
    const auto gradient = to_be_filled<T>(scores.size(), cleared);
    ListSolver<T> solver;
    Summary summary;
    {
        ScopedGilRelease unlocked;
        const auto make = [&](const double* p, std::int64_t n_pos, std::int64_t n_neg, double scale) -> std::unique_ptr<Search> {
            if (built_in) return (*built_in)(p, n_pos, n_neg, scale);
            return std::make_unique<PythonSearch>(p, n_pos, n_neg, scale, loss);
        };
        summary = solver.solve(scores.data(), relevant.data(), n, make, how, loss_scale, gradient.data, cleared, 0, n_threads);
    }
    return nb::make_tuple(summary.loss, summary.hinge, gradient.array, array_of(solver.positives()), array_of(solver.negatives_above()),
                          summary.searches);
}

template <class T>
nb::tuple solve_many(InputVector<T> scores, InputVector<std::uint8_t> relevant, InputVector<std::int64_t> offsets, const std::string& loss_name, double loss_scale, int n_threads) {
    const BuiltIn make(loss_name, static_cast<std::int64_t>(scores.size()));
    const std::size_t n_lists = offsets.size() - 1;
    bool cleared;
    const auto gradient = to_be_filled<T>(scores.size(), cleared);
    const auto loss = zeros<double>({n_lists}), hinge = zeros<double>({n_lists});
    {
        ScopedGilRelease unlocked;
        solve_lists(scores.data(), relevant.data(), offsets.data(), static_cast<std::int64_t>(n_lists), make, loss_scale, n_threads, gradient.data, cleared, loss.data,
                    hinge.data);
    }
    return nb::make_tuple(loss.array, hinge.array, gradient.array);
}

}  // namespace

void bind_ranking_lists(nb::module_& m) {
    m.def("solve_list", &solve_list<double>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "loss"_a, "method"_a, "loss_scale"_a, "n_threads"_a = 1);
    m.def("solve_list", &solve_list<float>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "loss"_a, "method"_a, "loss_scale"_a, "n_threads"_a = 1);
    m.def("solve_lists", &solve_many<double>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "offsets"_a.noconvert(), "loss"_a, "loss_scale"_a, "n_threads"_a);
    m.def("solve_lists", &solve_many<float>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "offsets"_a.noconvert(), "loss"_a, "loss_scale"_a, "n_threads"_a);
}
