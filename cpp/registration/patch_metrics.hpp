// How much the patches of two volumes differ, for every control point and every displacement: the unary costs of registration by
// labels (Glocker et al., "Dense image registration through MRFs and efficient linear programming", MedIA 2008).
//
// A displacement moves a whole patch, so its voxels are read with the same few weights, once for all metrics. The source is padded:
// no displacement leads out of it. An image of two dimensions is a volume of one slice.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "numeric/clones.hpp"
#include "numeric/threads.hpp"

namespace maxmargin::registration {

// Patches are boxes of target voxels: the ranges of every axis, one for each of its control points.
struct PatchGrid {
    const std::int64_t* first[3];
    const std::int64_t* end[3];
    std::size_t n[3];

    std::size_t n_nodes() const { return n[0] * n[1] * n[2]; }
};

struct Box {
    std::int64_t first[3], size[3];
    std::size_t n_voxels() const { return static_cast<std::size_t>(size[0] * size[1] * size[2]); }
};

inline Box box_of(const PatchGrid& grid, std::size_t node) {
    const std::size_t at[3] = {node / (grid.n[1] * grid.n[2]), node / grid.n[2] % grid.n[1], node % grid.n[2]};
    Box box{};
    for (int k = 0; k < 3; ++k) {
        box.first[k] = grid.first[k][at[k]];
        box.size[k] = grid.end[k][at[k]] - box.first[k];
    }
    return box;
}

template <class T>
struct Volume {
    const T* data;
    std::int64_t shape[3];
    std::int64_t pad[3] = {0, 0, 0};  // voxels before the first one of the target

    const T* row(std::int64_t z, std::int64_t y, std::int64_t x) const { return data + ((z + pad[0]) * shape[1] + y + pad[1]) * shape[2] + x + pad[2]; }
};

enum Metric { kSad = 0, kMi = 1, kNcc = 2, kDwt = 3 };

namespace kernels {

// Sums have eight lanes whatever the registers: the same bits everywhere.
constexpr std::size_t kLanes = 8;

MAXMARGIN_INLINE double total(const double* lanes) { return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7])); }

// to[k] = sum_c weight[c] * from[c][k], with 1, 2, 4 or 8 corners.
MAXMARGIN_INLINE void blend_body(const double* const* from, const double* weight, int corners, std::size_t n, double* __restrict to) {
    if (corners == 1) {
        for (std::size_t k = 0; k < n; ++k) to[k] = from[0][k];
    } else if (corners == 2) {
        const double *a = from[0], *b = from[1];
        for (std::size_t k = 0; k < n; ++k) to[k] = weight[0] * a[k] + weight[1] * b[k];
    } else if (corners == 4) {
        const double *a = from[0], *b = from[1], *c = from[2], *d = from[3];
        for (std::size_t k = 0; k < n; ++k) to[k] = (weight[0] * a[k] + weight[1] * b[k]) + (weight[2] * c[k] + weight[3] * d[k]);
    } else {
        const double *a = from[0], *b = from[1], *c = from[2], *d = from[3], *e = from[4], *f = from[5], *g = from[6], *h = from[7];
        for (std::size_t k = 0; k < n; ++k)
            to[k] = ((weight[0] * a[k] + weight[1] * b[k]) + (weight[2] * c[k] + weight[3] * d[k])) + ((weight[4] * e[k] + weight[5] * f[k]) + (weight[6] * g[k] + weight[7] * h[k]));
    }
}
inline constexpr auto blend = compiled_twice<&blend_body>;

// difference = a - b; returns the sum of absolute differences.
MAXMARGIN_INLINE double subtract_body(const double* a, const double* b, std::size_t n, double* __restrict difference) {
    double lanes[kLanes] = {};
    std::size_t k = 0;
    for (; k + kLanes <= n; k += kLanes)
        for (std::size_t j = 0; j < kLanes; ++j) {
            const double d = a[k + j] - b[k + j];
            difference[k + j] = d;
            lanes[j] += std::fabs(d);
        }
    for (std::size_t j = 0; k < n; ++k, ++j) {
        difference[k] = a[k] - b[k];
        lanes[j] += std::fabs(difference[k]);
    }
    return total(lanes);
}
inline constexpr auto subtract = compiled_twice<&subtract_body>;

struct Moments {
    double a, aa, ab;
};
// Sums of a - centre, its square and its product with b.
MAXMARGIN_INLINE void add_moments_body(const double* a, const double* b, std::size_t n, double centre, Moments& sums) {
    double one[kLanes] = {}, two[kLanes] = {}, both[kLanes] = {};
    std::size_t k = 0;
    for (; k + kLanes <= n; k += kLanes)
        for (std::size_t j = 0; j < kLanes; ++j) {
            const double x = a[k + j] - centre;
            one[j] += x;
            two[j] += x * x;
            both[j] += x * b[k + j];
        }
    for (std::size_t j = 0; k < n; ++k, ++j) {
        const double x = a[k] - centre;
        one[j] += x;
        two[j] += x * x;
        both[j] += x * b[k];
    }
    sums = {total(one), total(two), total(both)};
}
inline constexpr auto add_moments = compiled_twice<&add_moments_body>;

// Sum and difference of pairs of rows, both times sqrt(1/2).
MAXMARGIN_INLINE void butterfly_body(double* __restrict p, double* __restrict q, std::size_t n) {
    constexpr double root = 0.70710678118654752440;
    for (std::size_t k = 0; k < n; ++k) {
        const double sum = root * (p[k] + q[k]), difference = root * (p[k] - q[k]);
        p[k] = sum;
        q[k] = difference;
    }
}
inline constexpr auto butterfly = compiled_twice<&butterfly_body>;

MAXMARGIN_INLINE void bins_of_body(const double* a, std::size_t n, double per_unit, int last, std::int32_t* __restrict bins) {
    for (std::size_t k = 0; k < n; ++k) {
        const double at = std::min(std::max(a[k] * per_unit, 0.0), static_cast<double>(last));
        bins[k] = static_cast<std::int32_t>(at);
    }
}
inline constexpr auto bins_of = compiled_twice<&bins_of_body>;

}  // namespace kernels

class PatchMetrics {
  public:
    // Intensities from 0 to 255. Displacements in voxels, shape (L, 3), never farther than the source is padded.
    PatchMetrics(const Volume<double>& source, const Volume<double>& target, const PatchGrid& grid, const double* displacements, std::size_t n_labels,
                 std::vector<Metric> metrics, int n_bins)
        : source_(source), target_(target), grid_(grid), displacements_(displacements), n_labels_(n_labels), metrics_(std::move(metrics)), n_bins_(n_bins) {
        for (const Metric metric : metrics_) wanted_[metric] = true;
        std::size_t most = 0;
        for (std::size_t node = 0; node < grid.n_nodes(); ++node) most = std::max(most, box_of(grid, node).n_voxels());
        if (!wanted_[kMi]) return;
        n_log_n_.assign(most + 1, 0.0);
        for (std::size_t n = 2; n <= most; ++n) n_log_n_[n] = static_cast<double>(n) * std::log(static_cast<double>(n));
    }

    // Shape (metrics, nodes, labels).
    void costs(int n_threads, double* found) const {
        share_out(n_threads, grid_.n_nodes(), [&](std::size_t node) { costs_of(node, found); });
    }

  private:
    struct Patch {
        Box box;
        std::vector<double> a, b, difference, centred;
        std::vector<std::int32_t> bins, target_bins;
        std::vector<std::uint32_t> joint;
        double own_entropy = 0, variance = 0;
    };

    void costs_of(std::size_t node, double* found) const {
        Patch patch = target_patch(node);
        const std::size_t n_nodes = grid_.n_nodes();
        for (std::size_t label = 0; label < n_labels_; ++label) {
            read_source(patch, displacements_ + 3 * label);
            double value[4] = {};
            measure(patch, value);
            for (std::size_t m = 0; m < metrics_.size(); ++m) found[(m * n_nodes + node) * n_labels_ + label] = value[metrics_[m]];
        }
    }

    Patch target_patch(std::size_t node) const {
        Patch patch;
        patch.box = box_of(grid_, node);
        const Box& box = patch.box;
        const std::size_t n = box.n_voxels();
        patch.a.resize(n);
        patch.b.resize(n);
        patch.difference.resize(n);
        auto* to = patch.b.data();
        for (std::int64_t z = 0; z < box.size[0]; ++z)
            for (std::int64_t y = 0; y < box.size[1]; ++y, to += box.size[2]) std::copy_n(target_.row(box.first[0] + z, box.first[1] + y, box.first[2]), box.size[2], to);
        if (wanted_[kNcc]) {
            double mean = 0;
            for (const double b : patch.b) mean += b;
            mean /= static_cast<double>(n);
            for (const double b : patch.b) patch.centred.push_back(b - mean);
            for (const double b : patch.centred) patch.variance += b * b;
            patch.variance /= static_cast<double>(n);
        }
        if (wanted_[kMi]) {
            const auto k = static_cast<std::size_t>(n_bins_);
            patch.bins.resize(n);
            patch.target_bins.resize(n);
            patch.joint.resize(2 * k * k);
            kernels::bins_of(patch.b.data(), n, per_unit(), n_bins_ - 1, patch.target_bins.data());
            std::vector<std::size_t> counts(k, 0);
            for (const std::int32_t bin : patch.target_bins) ++counts[static_cast<std::size_t>(bin)];
            for (const std::size_t count : counts) patch.own_entropy += n_log_n_[count];
        }
        return patch;
    }

    double per_unit() const { return n_bins_ / 255.0; }

    void read_source(Patch& patch, const double* displacement) const {
        const Box& box = patch.box;
        std::int64_t whole[3];
        double part[3];
        for (int k = 0; k < 3; ++k) {
            const double floor = std::floor(displacement[k]);
            whole[k] = static_cast<std::int64_t>(floor);
            part[k] = displacement[k] - floor;
        }
        int corners = 0;
        double weight[8];
        std::int64_t step[8][3];
        for (int c = 0; c < 8; ++c) {
            double w = 1;
            for (int k = 0; k < 3; ++k) {
                const int up = c >> (2 - k) & 1;
                w *= up ? part[k] : 1 - part[k];
                step[corners][k] = whole[k] + up;
            }
            // Corners that do not count need not exist.
            bool counts = true;
            for (int k = 0; k < 3; ++k) counts = counts && (part[k] > 0 || !(c >> (2 - k) & 1));
            if (counts) weight[corners++] = w;
        }
        double* to = patch.a.data();
        const auto width = static_cast<std::size_t>(box.size[2]);
        for (std::int64_t z = 0; z < box.size[0]; ++z)
            for (std::int64_t y = 0; y < box.size[1]; ++y, to += width) {
                const double* from[8];
                for (int c = 0; c < corners; ++c) from[c] = source_.row(box.first[0] + z + step[c][0], box.first[1] + y + step[c][1], box.first[2] + step[c][2]);
                kernels::blend(from, weight, corners, width, to);
            }
    }

    void measure(Patch& patch, double* value) const {
        const std::size_t n = patch.a.size();
        const double count = static_cast<double>(n);
        if (wanted_[kSad] || wanted_[kDwt]) value[kSad] = kernels::subtract(patch.a.data(), patch.b.data(), n, patch.difference.data()) / count;
        if (wanted_[kNcc]) value[kNcc] = 1 - correlation(patch);
        if (wanted_[kMi]) value[kMi] = std::log(static_cast<double>(n_bins_)) - mutual_information(patch);
        // Of intensities from 0 to 1.
        if (wanted_[kDwt]) value[kDwt] = haar_sum(patch) / (255.0 * count);
    }

    static double correlation(const Patch& patch) {
        const double n = static_cast<double>(patch.a.size());
        kernels::Moments sums{};
        // Around a value of its own, a patch of one grey value has no variance at all.
        kernels::add_moments(patch.a.data(), patch.centred.data(), patch.a.size(), patch.a[0], sums);
        const double mean = sums.a / n, variance = sums.aa / n - mean * mean;
        constexpr double least = 1e-8;
        if (variance < least || patch.variance < least) return 0;
        return std::clamp(sums.ab / n / std::sqrt(variance * patch.variance), -1.0, 1.0);
    }

    double mutual_information(Patch& patch) const {
        const std::size_t n = patch.a.size(), k = static_cast<std::size_t>(n_bins_);
        kernels::bins_of(patch.a.data(), n, per_unit(), n_bins_ - 1, patch.bins.data());
        std::fill(patch.joint.begin(), patch.joint.end(), 0u);
        // Two histograms by turns: neighbours fall into the same bin, and would wait for each other.
        std::uint32_t *even = patch.joint.data(), *odd = even + k * k;
        const std::int32_t *one = patch.bins.data(), *two = patch.target_bins.data();
        std::size_t v = 0;
        for (; v + 2 <= n; v += 2) {
            ++even[one[v] * n_bins_ + two[v]];
            ++odd[one[v + 1] * n_bins_ + two[v + 1]];
        }
        if (v < n) ++even[one[v] * n_bins_ + two[v]];
        double joint = 0, other = 0;
        for (std::size_t p = 0; p < k; ++p) {
            std::size_t row = 0;
            for (std::size_t q = 0; q < k; ++q) {
                const std::size_t both = even[p * k + q] + odd[p * k + q];
                row += both;
                if (both > 1) joint += n_log_n_[both];
            }
            other += n_log_n_[row];
        }
        const double count = static_cast<double>(n);
        return std::max(0.0, std::log(count) + (joint - other - patch.own_entropy) / count);
    }

    // Absolute coefficients of one orthonormal Haar step along every axis, of the difference of the patches; a last voxel without
    // a partner stays as it is.
    double haar_sum(Patch& patch) const {
        double* d = patch.difference.data();
        const auto depth = static_cast<std::size_t>(patch.box.size[0]), height = static_cast<std::size_t>(patch.box.size[1]), width = static_cast<std::size_t>(patch.box.size[2]);
        for (std::size_t z = 0; z + 2 <= depth; z += 2) kernels::butterfly(d + z * height * width, d + (z + 1) * height * width, height * width);
        for (std::size_t z = 0; z < depth; ++z)
            for (std::size_t y = 0; y + 2 <= height; y += 2) kernels::butterfly(d + (z * height + y) * width, d + (z * height + y + 1) * width, width);
        // Along rows, where only absolute values are wanted: |x + y| + |x - y| = 2 max(|x|, |y|).
        double pairs = 0, single = 0;
        for (std::size_t r = 0; r < depth * height; ++r, d += width) {
            std::size_t x = 0;
            for (; x + 2 <= width; x += 2) pairs += std::max(std::fabs(d[x]), std::fabs(d[x + 1]));
            if (x < width) single += std::fabs(d[x]);
        }
        return 1.41421356237309504880 * pairs + single;
    }

    Volume<double> source_, target_;
    PatchGrid grid_;
    const double* displacements_;
    std::size_t n_labels_;
    std::vector<Metric> metrics_;
    int n_bins_;
    bool wanted_[4] = {};
    std::vector<double> n_log_n_;
};

// Voxels of every class in patches of the displaced source segmentation, and how many of them the target's has in the same place.
// Displacements go to the nearest voxel, halves up. Shapes (classes, nodes, labels).
struct ClassCounts {
    Volume<std::int32_t> source, target;
    PatchGrid grid;
    const double* displacements;
    std::size_t n_labels, n_classes;
    bool with_target;

    void count(int n_threads, std::int32_t* counts, std::int32_t* shared) const {
        const std::size_t n_nodes = grid.n_nodes();
        share_out(n_threads, n_nodes, [&](std::size_t node) {
            const Box box = box_of(grid, node);
            std::vector<std::int32_t> own(n_classes), both(n_classes);
            for (std::size_t label = 0; label < n_labels; ++label) {
                std::int64_t step[3];
                for (int k = 0; k < 3; ++k) step[k] = static_cast<std::int64_t>(std::floor(displacements[3 * label + static_cast<std::size_t>(k)] + 0.5));
                std::fill(own.begin(), own.end(), 0);
                std::fill(both.begin(), both.end(), 0);
                for (std::int64_t z = 0; z < box.size[0]; ++z)
                    for (std::int64_t y = 0; y < box.size[1]; ++y) {
                        const std::int32_t* from = source.row(box.first[0] + z + step[0], box.first[1] + y + step[1], box.first[2] + step[2]);
                        const std::int32_t* to = with_target ? target.row(box.first[0] + z, box.first[1] + y, box.first[2]) : from;
                        for (std::int64_t x = 0; x < box.size[2]; ++x) {
                            ++own[static_cast<std::size_t>(from[x])];
                            if (with_target) both[static_cast<std::size_t>(from[x])] += from[x] == to[x];
                        }
                    }
                for (std::size_t c = 0; c < n_classes; ++c) {
                    counts[(c * n_nodes + node) * n_labels + label] = own[c];
                    if (with_target) shared[(c * n_nodes + node) * n_labels + label] = both[c];
                }
            }
        });
    }
};

}  // namespace maxmargin::registration
