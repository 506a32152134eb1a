// Python face of the ranking kernels: arrays in, arrays out, interpreter lock released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <cstring>
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
    std::memcpy(data, values.data(), values.size() * sizeof(T));
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
    throw nb::value_error(("unknown method '" + name + "'").c_str());
}

// A loss whose discrete derivative is a vectorised Python function of the arrays (j, i).
class PythonSearch final : public Search {
  public:
    PythonSearch(const double* positives, std::int64_t n_pos, std::int64_t n_neg, double scale, const nb::object& loss)
        : Search(positives, n_pos, n_neg, scale), loss_(loss) {}

    bool prefers_batches() const override { return true; }

    void solve(Query* queries, std::size_t count) const override {
        std::size_t total = 0;
        for (std::size_t q = 0; q < count; ++q) total += static_cast<std::size_t>(queries[q].hi - queries[q].lo);
        std::vector<std::int64_t> j, i;
        j.reserve(total), i.reserve(total);
        for (std::size_t q = 0; q < count; ++q)
            for (std::int32_t k = queries[q].lo; k < queries[q].hi; ++k) j.push_back(queries[q].j), i.push_back(k);
        const std::vector<double> step = steps(j, i);
        std::size_t at = 0;
        for (std::size_t q = 0; q < count; ++q) {
            double ahead = 0;
            queries[q].rank = queries[q].lo;
            for (std::int32_t k = queries[q].lo; k < queries[q].hi; ++k) {
                ahead += positive(k) - queries[q].s + step[at++];
                if (ahead >= 0) ahead = 0, queries[q].rank = k + 1;
            }
        }
    }
    void thresholds(const Query* queries, std::size_t count, double* scores) const override {
        std::vector<std::int64_t> j, i;
        for (std::size_t q = 0; q < count; ++q) j.push_back(queries[q].j), i.push_back(queries[q].lo);
        const std::vector<double> step = steps(j, i);
        for (std::size_t q = 0; q < count; ++q) scores[q] = positive(i[q]) + step[q];
    }
    double loss(const std::int64_t* above) const override {
        nb::gil_scoped_acquire lock;
        const std::vector<std::int64_t> values(above, above + n_pos_);
        return nb::cast<double>(loss_.attr("value")(copy_of(values), n_neg_));
    }

  private:
    // (PN/2) (delta_j(i+1) - delta_j(i)) for all pairs, in one call.
    std::vector<double> steps(const std::vector<std::int64_t>& j, const std::vector<std::int64_t>& i) const {
        if (j.empty()) return {};
        nb::gil_scoped_acquire lock;
        const nb::object numpy = nb::module_::import_("numpy");
        const nb::object raw = loss_.attr("derivative")(copy_of(j), copy_of(i), n_pos_, n_neg_);
        const auto values = nb::cast<nb::ndarray<const double, nb::c_contig, nb::device::cpu>>(numpy.attr("ascontiguousarray")(raw, "float64"));
        if (values.size() != j.size())
            throw nb::value_error("loss.derivative(j, i, n_pos, n_neg) must return one value for every pair (j, i)");
        std::vector<double> result(values.data(), values.data() + values.size());
        const double factor = 0.5 * scale_ * static_cast<double>(n_pos_) * static_cast<double>(n_neg_);
        for (double& value : result) {
            if (!std::isfinite(value)) throw nb::value_error("loss.derivative(j, i, n_pos, n_neg) returned a value that is not finite");
            value *= factor;
        }
        return result;
    }

    const nb::object& loss_;
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
