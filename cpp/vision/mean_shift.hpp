// Mean shift in places and colours (Comaniciu and Meer, PAMI 2002): every pixel goes to the mean of those around it that are alike,
// again and again, until it stays. With flat kernels the ways end at the modes of the density whose kernel is Epanechnikov's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace maxmargin::pictures {

struct MeanShift {
    static constexpr int n_channels = 3, max_steps = 100;

    const double* colours;  // shape (height, width, 3)
    std::int64_t height, width;
    double radius, colour_radius;  // around the current place, and around the current colour

    // Where the pixels of some rows end: row, column and colour, shape (rows, width, 5).
    void modes(std::int64_t first_row, std::int64_t end_row, double* found) const {
        for (std::int64_t y = first_row; y < end_row; ++y)
            for (std::int64_t x = 0; x < width; ++x, found += 2 + n_channels) climb(y, x, found);
    }

  private:
    void climb(std::int64_t y, std::int64_t x, double* at) const {
        const double* own = colours + (y * width + x) * n_channels;
        at[0] = static_cast<double>(y), at[1] = static_cast<double>(x);
        std::copy(own, own + n_channels, at + 2);
        // A hundredth of both radii: less does not change which pixels are near.
        constexpr double still = 1e-4;
        for (int step = 0; step < max_steps; ++step)
            if (move_to_mean(at) < still) return;
    }

    // Returns by how much, squared and in units of the radii.
    double move_to_mean(double* at) const {
        const double near = radius * radius, alike = colour_radius * colour_radius;
        const auto top = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(at[0] - radius)));
        const auto bottom = std::min(height - 1, static_cast<std::int64_t>(std::floor(at[0] + radius)));
        double sum[2 + n_channels] = {}, count = 0;
        for (std::int64_t r = top; r <= bottom; ++r) {
            const double dy = static_cast<double>(r) - at[0];
            const double half = std::sqrt(std::max(0.0, near - dy * dy));
            const auto left = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(at[1] - half)));
            const auto right = std::min(width - 1, static_cast<std::int64_t>(std::floor(at[1] + half)));
            const double* colour = colours + (r * width + left) * n_channels;
            for (std::int64_t c = left; c <= right; ++c, colour += n_channels) {
                const double a = colour[0] - at[2], b = colour[1] - at[3], d = colour[2] - at[4];
                if (a * a + b * b + d * d > alike) continue;
                count += 1;
                sum[0] += static_cast<double>(r), sum[1] += static_cast<double>(c);
                for (int k = 0; k < n_channels; ++k) sum[2 + k] += colour[k];
            }
        }
        // A mean of colours need not have any of them within its range.
        if (count == 0) return 0;
        double moved = 0;
        for (int k = 0; k < 2 + n_channels; ++k) {
            const double change = sum[k] / count - at[k];
            moved += change * change / (k < 2 ? near : alike);
            at[k] += change;
        }
        return moved;
    }
};

}  // namespace maxmargin::pictures
