// Python face of the kernels of registration: arrays in, arrays out, interpreter lock released.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <string>
#include <vector>

#include "python/arrays.hpp"
#include "registration/patch_metrics.hpp"
#include "registration/warp.hpp"

using namespace maxmargin::registration;

namespace {

template <class T>
using Voxels = Input<T, nb::ndim<3>>;
using Labels = Input<double, nb::shape<-1, 3>>;
using Ranges = std::vector<Input<std::int64_t, nb::shape<2, -1>>>;

template <class T>
Volume<T> volume_of(const Voxels<T>& voxels, const std::vector<std::int64_t>* pad = nullptr) {
    Volume<T> made{voxels.data(), {}, {}};
    for (std::size_t k = 0; k < 3; ++k) {
        made.shape[k] = static_cast<std::int64_t>(voxels.shape(k));
        made.pad[k] = pad ? (*pad)[k] : 0;
    }
    return made;
}

// First and end of every range of every axis. What leads out of a volume would read foreign memory.
template <class T>
PatchGrid grid_of(const Ranges& ranges, const Volume<T>& source, const Volume<T>& target, const Labels& displacements) {
    require(ranges.size() == 3, "ranges must be those of three axes");
    PatchGrid grid{};
    for (std::size_t k = 0; k < 3; ++k) {
        const std::size_t n = ranges[k].shape(1);
        grid.n[k] = n;
        grid.first[k] = ranges[k].data();
        grid.end[k] = ranges[k].data() + n;
        for (std::size_t i = 0; i < n; ++i)
            require(0 <= grid.first[k][i] && grid.first[k][i] < grid.end[k][i] && grid.end[k][i] <= target.shape[k], "ranges must be inside the target and not empty");
        require(source.pad[k] >= 0 && source.pad[k] <= source.shape[k], "pad must be inside the source");
        const std::int64_t after = source.shape[k] - source.pad[k] - target.shape[k];
        for (std::size_t l = 0; l < displacements.shape(0); ++l) {
            const double d = displacements.data()[3 * l + k];
            require(-static_cast<double>(source.pad[k]) <= d && d <= static_cast<double>(after), "displacements lead out of the padded source");
        }
    }
    return grid;
}

nb::ndarray<nb::numpy, double> patch_costs(Voxels<double> source, const std::vector<std::int64_t>& pad, Voxels<double> target, const Ranges& ranges, Labels displacements,
                                           const std::vector<std::string>& metrics, int n_bins, int n_threads) {
    require(pad.size() == 3, "pad must be that of three axes");
    require(n_bins >= 2 && n_bins <= 256, "n_bins must be between 2 and 256");
    std::vector<Metric> wanted;
    for (const std::string& name : metrics) wanted.push_back(chosen<Metric>(name, "metric", {{"sad", kSad}, {"mi", kMi}, {"ncc", kNcc}, {"dwt", kDwt}}));
    const Volume<double> one = volume_of(source, &pad), two = volume_of(target);
    const PatchGrid grid = grid_of(ranges, one, two, displacements);
    const auto found = zeros<double>({wanted.size(), grid.n_nodes(), displacements.shape(0)});
    {
        ScopedGilRelease unlocked;
        PatchMetrics(one, two, grid, displacements.data(), displacements.shape(0), wanted, n_bins).costs(n_threads, found.data);
    }
    return found.array;
}

nb::tuple class_counts(Voxels<std::int32_t> source, const std::vector<std::int64_t>& pad, Voxels<std::int32_t> target, const Ranges& ranges, Labels displacements,
                       std::size_t n_classes, bool with_target, int n_threads) {
    require(pad.size() == 3, "pad must be that of three axes");
    const Volume<std::int32_t> one = volume_of(source, &pad), two = volume_of(target);
    const PatchGrid grid = grid_of(ranges, one, two, displacements);
    for (const Voxels<std::int32_t>* some : {&source, &target})
        for (std::size_t v = 0; v < some->size(); ++v)
            require(some->data()[v] >= 0 && static_cast<std::size_t>(some->data()[v]) < n_classes, "classes must be numbered from 0");
    const auto counts = zeros<std::int32_t>({n_classes, grid.n_nodes(), displacements.shape(0)});
    const auto shared = zeros<std::int32_t>({with_target ? n_classes : 0, grid.n_nodes(), displacements.shape(0)});
    {
        ScopedGilRelease unlocked;
        ClassCounts{one, two, grid, displacements.data(), displacements.shape(0), n_classes, with_target}.count(n_threads, counts.data, shared.data);
    }
    return nb::make_tuple(counts.array, shared.array);
}

nb::ndarray<nb::numpy, double> warp(Input<double, nb::ndim<4>> values, Input<double, nb::shape<-1, -1, -1, 3>> field, const std::vector<std::int64_t>& pad,
                                    const std::vector<double>& first, const std::vector<double>& step, const std::vector<double>& per_unit, int n_threads) {
    require(pad.size() == 3 && first.size() == 3 && step.size() == 3 && per_unit.size() == 3, "pad, first, step and per_unit must be those of three axes");
    require(values.size() > 0 && field.size() > 0, "values and field must not be empty");
    Warp work{};
    work.values = values.data();
    work.channels = static_cast<int>(values.shape(3));
    work.field = field.data();
    for (std::size_t k = 0; k < 3; ++k) {
        require(pad[k] >= 0 && pad[k] < (std::int64_t{1} << 20), "pad must not be negative");
        work.shape[k] = static_cast<std::int64_t>(values.shape(k));
        work.target[k] = static_cast<std::int64_t>(field.shape(k));
        work.pad[k] = pad[k];
        work.first[k] = first[k], work.step[k] = step[k], work.per_unit[k] = per_unit[k];
    }
    for (std::size_t v = 0; v < field.size(); ++v) require(std::isfinite(field.data()[v]), "field must be finite");
    const auto size = [&](std::size_t k) { return field.shape(k) + 2 * static_cast<std::size_t>(pad[k]); };
    const auto found = zeros<double>({size(0), size(1), size(2), values.shape(3)});
    {
        ScopedGilRelease unlocked;
        work.read(n_threads, found.data);
    }
    return found.array;
}

double least_jacobian(Input<double, nb::shape<-1, -1, -1, 3>> field, const std::vector<double>& spacing, int n_threads) {
    require(spacing.size() == 3 && field.size() > 0, "spacing must be that of three axes, and field not empty");
    LeastJacobian work{};
    work.field = field.data();
    for (std::size_t k = 0; k < 3; ++k) work.shape[k] = static_cast<std::int64_t>(field.shape(k)), work.spacing[k] = spacing[k];
    ScopedGilRelease unlocked;
    return work.find(n_threads);
}

}  // namespace

void bind_registration(nb::module_& m) {
    m.def("patch_costs", &patch_costs, "source"_a.noconvert(), "pad"_a, "target"_a.noconvert(), "ranges"_a, "displacements"_a.noconvert(), "metrics"_a, "n_bins"_a, "n_threads"_a);
    m.def("class_counts", &class_counts, "source"_a.noconvert(), "pad"_a, "target"_a.noconvert(), "ranges"_a, "displacements"_a.noconvert(), "n_classes"_a, "with_target"_a,
          "n_threads"_a);
    m.def("warp", &warp, "values"_a.noconvert(), "field"_a.noconvert(), "pad"_a, "first"_a, "step"_a, "per_unit"_a, "n_threads"_a);
    m.def("least_jacobian", &least_jacobian, "field"_a.noconvert(), "spacing"_a, "n_threads"_a);
}
