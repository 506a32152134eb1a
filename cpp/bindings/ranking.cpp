// Python face of the ranking kernels: arrays in, arrays out, interpreter lock released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "ranking/list.hpp"

namespace nb = nanobind;
using namespace maxmargin::ranking;
using namespace nb::literals;

namespace {

template <class T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Zeroed memory owned by the array. Large blocks come straight from the system and cost nothing until written; in huge
// pages they cost a third (60 against 20 ms for 1e7 numbers). Smaller ones are recycled by the allocator.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> zeros(std::size_t size, T** data) {
    const std::size_t bytes = std::max<std::size_t>(1, size) * sizeof(T);
    void* memory = std::calloc(bytes, 1);
    if (!memory) throw std::bad_alloc();
#ifdef __linux__
    constexpr std::size_t huge = std::size_t{1} << 21;
    if (bytes >= 16 * huge) {
        const auto from = (reinterpret_cast<std::uintptr_t>(memory) + huge - 1) / huge * huge;
        const auto to = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / huge * huge;
        if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
    }
#endif
    *data = static_cast<T*>(memory);
    nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(memory, {size}, owner);
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> copy_of(const std::vector<T>& values) {
    T* data;
    auto array = zeros<T>(values.size(), &data);
    std::copy(values.begin(), values.end(), data);
    return array;
}

LossName loss_by_name(const std::string& name) {
    if (name == "ap") return LossName::average_precision;
    if (name == "ndcg") return LossName::ndcg;
    if (name == "auc") return LossName::auc;
    if (name == "mrr") return LossName::reciprocal_rank;
    throw nb::value_error(("unknown built-in loss '" + name + "'").c_str());
}

Method method_by_name(const std::string& name) {
    if (name == "auto") return Method::automatic;
    if (name == "buckets") return Method::buckets;
    if (name == "quicksort") return Method::quicksort;
    if (name == "sort") return Method::sort;
    if (name == "greedy") return Method::greedy;
    if (name == "table") return Method::table;
    throw nb::value_error(("unknown method '" + name + "'").c_str());
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
            double ahead = 0;
            queries[q].rank = queries[q].lo;
            for (std::int32_t k = queries[q].lo; k < queries[q].hi; ++k) {
                ahead += positive(k) - queries[q].s + scale_ * step[at++];
                if (ahead >= 0) ahead = 0, queries[q].rank = k + 1;
            }
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
        const std::vector<std::int64_t> values(above, above + n_pos_);
        return nb::cast<double>(loss_.attr("value")(copy_of(values), n_neg_));
    }

  private:
    // The steps of `count` pairs, which `fill(j, i)` writes down, in one call.
    template <class Fill>
    void ask(std::size_t count, double* out, const Fill& fill) const {
        if (count == 0) return;
        nb::gil_scoped_acquire lock;
        std::int64_t *j, *i;
        auto all_j = zeros<std::int64_t>(count, &j), all_i = zeros<std::int64_t>(count, &i);
        fill(j, i);
        const auto values = nb::cast<Input<double>>(loss_.attr("derivative")(all_j, all_i, n_pos_, n_neg_));
        if (values.size() != count) throw nb::value_error("loss.derivative must return one value for every pair");
        for (std::size_t k = 0; k < count; ++k) out[k] = half_pn_ * values.data()[k];
    }

    const nb::object& loss_;
    double half_pn_;
};

[[noreturn]] void raise_not_finite(std::int64_t index) {
    throw nb::value_error(("scores must be finite, but scores[" + std::to_string(index) +
                           "] is NaN or infinite; remove or replace such entries").c_str());
}

template <class T>
nb::tuple solve_list(Input<T> scores, Input<std::uint8_t> relevant, const nb::object& loss, const std::string& method, double loss_scale) {
    const auto n = static_cast<std::int64_t>(scores.size());
    const Method how = method_by_name(method);
    const bool built_in = nb::isinstance<nb::str>(loss);
    const LossName name = built_in ? loss_by_name(nb::cast<std::string>(loss)) : LossName::auc;
    T* gradient;
    auto gradient_array = zeros<T>(scores.size(), &gradient);
    ListSolver<T> solver;
    Summary summary;
    try {
        nb::gil_scoped_release unlocked;
        const auto make = [&](const double* p, std::int64_t n_pos, std::int64_t n_neg, double scale) -> std::unique_ptr<Search> {
            if (built_in) return make_search(name, p, n_pos, n_neg, scale);
            return std::make_unique<PythonSearch>(p, n_pos, n_neg, scale, loss);
        };
        summary = solver.solve(scores.data(), relevant.data(), n, make, how, loss_scale, gradient);
    } catch (const NotFinite& error) {
        raise_not_finite(error.index);
    }
    return nb::make_tuple(summary.loss, summary.hinge, gradient_array, copy_of(solver.positives()), copy_of(solver.negatives_above()),
                          summary.searches);
}

template <class T>
nb::tuple solve_many(Input<T> scores, Input<std::uint8_t> relevant, Input<std::int64_t> offsets, const std::string& loss_name, double loss_scale, int n_threads) {
    const LossName name = loss_by_name(loss_name);
    const std::size_t n_lists = offsets.size() - 1;
    T* gradient;
    double *loss, *hinge;
    auto gradient_array = zeros<T>(scores.size(), &gradient);
    auto loss_array = zeros<double>(n_lists, &loss);
    auto hinge_array = zeros<double>(n_lists, &hinge);
    try {
        nb::gil_scoped_release unlocked;
        solve_lists(scores.data(), relevant.data(), offsets.data(), static_cast<std::int64_t>(n_lists), name, loss_scale, n_threads, gradient, loss, hinge);
    } catch (const NotFinite& error) {
        raise_not_finite(error.index);
    }
    return nb::make_tuple(loss_array, hinge_array, gradient_array);
}

}  // namespace

void bind_ranking(nb::module_& m) {
    m.def("solve_list", &solve_list<double>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "loss"_a, "method"_a, "loss_scale"_a);
    m.def("solve_list", &solve_list<float>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "loss"_a, "method"_a, "loss_scale"_a);
    m.def("solve_lists", &solve_many<double>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "offsets"_a.noconvert(), "loss"_a, "loss_scale"_a, "n_threads"_a);
    m.def("solve_lists", &solve_many<float>, "scores"_a.noconvert(), "relevant"_a.noconvert(), "offsets"_a.noconvert(), "loss"_a, "loss_scale"_a, "n_threads"_a);
}
