// Python bindings of blocks with one label each.
#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>

#include "core/block_data.hpp"
#include "multiclass/class_blocks.hpp"
#include "python/arrays.hpp"

namespace {

struct PyClassData final : BlockData {
    Features features;
    Int32s y;
    std::optional<Reals> costs, weights;
    ClassData data;
    PyClassData(Features features_, Int32s y_, std::optional<Reals> costs_, std::size_t n_labels, std::optional<Reals> weights_)
        : features(std::move(features_)), y(std::move(y_)), costs(std::move(costs_)), weights(std::move(weights_)) {
        require(n_labels >= 1 && (costs || n_labels == 2), "two labels if there are no costs");
        if (costs) require(costs->size() == n_labels * n_labels, "costs must be a square matrix");
        check_labels(y, features.rows.n_rows, n_labels);
        if (weights) require(weights->size() == features.rows.n_rows, "weights must have one entry per row");
        data = {features.rows, y.data(), costs ? costs->data() : nullptr, weights ? weights->data() : nullptr, n_labels};
    }
    // Under a surrogate that is affine in the margin.
    void set_factors(Reals factors_) {
        require(costs && factors_.size() == data.n_labels * data.n_labels, "factors must be a square matrix, and there must be costs");
        factors.emplace(std::move(factors_));
        data.factors = factors->data();
    }
    std::optional<Reals> factors;
    std::unique_ptr<Blocks> make() const override { return std::make_unique<ClassBlocks>(data); }
    std::size_t n_bytes(bool) const override { return data.x.n_rows * (data.n_labels + 1) * sizeof(double); }
};

}  // namespace

void bind_multiclass(nb::module_& m) {
    nb::class_<PyClassData, BlockData>(m, "ClassData")
        .def(nb::init<Features, Int32s, std::optional<Reals>, std::size_t, std::optional<Reals>>(), "features"_a, "y"_a.noconvert(),
             "costs"_a.noconvert().none(), "n_labels"_a, "weights"_a.noconvert().none() = nb::none())
        .def("set_factors", &PyClassData::set_factors, "factors"_a.noconvert());
}
