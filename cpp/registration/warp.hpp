// Volumes read through fields of displacements, and how much these stretch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "numeric/threads.hpp"

namespace maxmargin::registration {

// Linear interpolation of values of shape (shape, channels); outside they are those of the nearest voxel. Voxel i of the padded
// target is read at first + step * (i - pad) + per_unit * field(i), in voxels of the values; around the target the field goes on.
struct Warp {
    const double* values;
    std::int64_t shape[3];
    int channels;
    const double* field;  // shape (target, 3)
    std::int64_t target[3], pad[3];
    double first[3], step[3], per_unit[3];

    void read(int n_threads, double* found) const {
        const std::int64_t depth = target[0] + 2 * pad[0], height = target[1] + 2 * pad[1], width = target[2] + 2 * pad[2];
        share_out(n_threads, static_cast<std::size_t>(depth * height), [&](std::size_t row) {
            const std::int64_t z = static_cast<std::int64_t>(row) / height - pad[0], y = static_cast<std::int64_t>(row) % height - pad[1];
            const double* line = field + (inside(z, 0) * target[1] + inside(y, 1)) * target[2] * 3;
            double* to = found + static_cast<std::int64_t>(row) * width * channels;
            for (std::int64_t x = -pad[2]; x < target[2] + pad[2]; ++x, to += channels) {
                const double* u = line + 3 * inside(x, 2);
                const double at[3] = {first[0] + step[0] * static_cast<double>(z) + per_unit[0] * u[0], first[1] + step[1] * static_cast<double>(y) + per_unit[1] * u[1],
                                      first[2] + step[2] * static_cast<double>(x) + per_unit[2] * u[2]};
                interpolate(at, to);
            }
        });
    }

  private:
    std::int64_t inside(std::int64_t i, int axis) const { return std::clamp<std::int64_t>(i, 0, target[axis] - 1); }

    void interpolate(const double* at, double* to) const {
        std::int64_t low[3], high[3];
        double part[3];
        for (int k = 0; k < 3; ++k) {
            const double place = std::clamp(at[k], 0.0, static_cast<double>(shape[k] - 1));
            low[k] = static_cast<std::int64_t>(place);
            high[k] = std::min(low[k] + 1, shape[k] - 1);
            part[k] = place - static_cast<double>(low[k]);
        }
        const auto corner = [&](std::int64_t z, std::int64_t y, std::int64_t x) { return values + ((z * shape[1] + y) * shape[2] + x) * channels; };
        const auto mix = [](double a, double b, double t) { return a + t * (b - a); };
        const double *a = corner(low[0], low[1], low[2]), *b = corner(low[0], low[1], high[2]), *c = corner(low[0], high[1], low[2]), *d = corner(low[0], high[1], high[2]);
        const double *e = corner(high[0], low[1], low[2]), *f = corner(high[0], low[1], high[2]), *g = corner(high[0], high[1], low[2]), *h = corner(high[0], high[1], high[2]);
        for (int k = 0; k < channels; ++k)
            to[k] = mix(mix(mix(a[k], b[k], part[2]), mix(c[k], d[k], part[2]), part[1]), mix(mix(e[k], f[k], part[2]), mix(g[k], h[k], part[2]), part[1]), part[0]);
    }
};

// Least determinant of x + u(x), by differences to either side along every axis: at the corners of the cells between voxels, where
// linear interpolation has its extremes in two dimensions. Differences over two voxels do not see what goes forth and back. An axis
// of one voxel does not count.
struct LeastJacobian {
    const double* field;  // shape (shape, 3)
    std::int64_t shape[3];
    double spacing[3];

    double find(int n_threads) const {
        const std::int64_t rows = shape[0] * shape[1];
        std::vector<double> least(static_cast<std::size_t>(rows), std::numeric_limits<double>::infinity());
        share_out(n_threads, static_cast<std::size_t>(rows), [&](std::size_t row) {
            const std::int64_t z = static_cast<std::int64_t>(row) / shape[1], y = static_cast<std::int64_t>(row) % shape[1];
            double smallest = std::numeric_limits<double>::infinity();
            for (std::int64_t x = 0; x < shape[2]; ++x) {
                const double value = determinant({z, y, x});
                // Not a number is no map without folds.
                smallest = value < smallest ? value : std::isnan(value) ? -std::numeric_limits<double>::infinity() : smallest;
            }
            least[row] = smallest;
        });
        return *std::min_element(least.begin(), least.end());
    }

  private:
    struct Place {
        std::int64_t at[3];
    };
    double determinant(Place place) const {
        const std::int64_t stride[3] = {3 * shape[1] * shape[2], 3 * shape[2], 3};
        const double* here = field + place.at[0] * stride[0] + place.at[1] * stride[1] + place.at[2] * stride[2];
        double columns[3][2][3];
        int sides[3];
        for (int axis = 0; axis < 3; ++axis) {
            sides[axis] = 0;
            const auto add = [&](const double* low, const double* high) {
                double* column = columns[axis][sides[axis]++];
                for (int k = 0; k < 3; ++k) column[k] = (high[k] - low[k]) / spacing[axis] + (k == axis ? 1 : 0);
            };
            if (place.at[axis] > 0) add(here - stride[axis], here);
            if (place.at[axis] + 1 < shape[axis]) add(here, here + stride[axis]);
            if (sides[axis] == 0) add(here, here);
        }
        double smallest = std::numeric_limits<double>::infinity();
        for (int i = 0; i < sides[0]; ++i)
            for (int j = 0; j < sides[1]; ++j) {
                const double *a = columns[0][i], *b = columns[1][j];
                const double cross[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
                for (int k = 0; k < sides[2]; ++k) {
                    const double* c = columns[2][k];
                    const double value = cross[0] * c[0] + cross[1] * c[1] + cross[2] * c[2];
                    if (!(value >= smallest)) smallest = value;
                    // Nothing is smaller than what is no number.
                    if (std::isnan(smallest)) return smallest;
                }
            }
        return smallest;
    }
};

}  // namespace maxmargin::registration
