// Scores that are sums of arrays, each times a number: what a line search looks at, and how steep it is there.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "numeric/compensated_sum.hpp"
#include "numeric/threads.hpp"
#include "ranking/placement.hpp"
#include "ranking/score_blocks.hpp"

namespace maxmargin::ranking {

// Below so many numbers a thread costs more than it brings.
inline int threads_for(std::int64_t n, int n_threads) { return static_cast<int>(std::clamp<std::int64_t>(n >> 17, 1, std::max(1, n_threads))); }

class Combination {
  public:
    Combination(std::vector<double> coefficients, std::vector<const double*> arrays) : coefficients_(std::move(coefficients)), arrays_(std::move(arrays)) {}

    // out[k] is the sum of coefficient times array at `first + k`, in the order given; in parts that stay in the nearest cache.
    void make(std::int64_t first, std::int64_t size, double* out) const {
        constexpr std::int64_t part = 512;
        if (arrays_.empty()) std::fill(out, out + size, 0.0);
        for (std::int64_t at = 0; at < size; at += part) {
            const std::int64_t some = std::min(part, size - at);
            const auto from = [&](std::size_t q) { return arrays_[q] + first + at; };
            if (arrays_.size() == 1) set_product(coefficients_[0], from(0), some, out + at);
            if (arrays_.size() > 1) set_products(coefficients_[0], from(0), coefficients_[1], from(1), some, out + at);
            for (std::size_t q = 2; q < arrays_.size(); ++q) add_product(coefficients_[q], from(q), some, out + at);
        }
    }

    // All of them; whether they are finite and can be added up.
    bool make_all(std::int64_t n, int n_threads, double* out) const {
        constexpr std::int64_t section = 1 << 14;
        const std::int64_t count = (n + section - 1) / section;
        std::atomic<bool> is_fit{true};
        share_out(threads_for(n, n_threads), static_cast<std::size_t>(count), [&](std::size_t part) {
            const std::int64_t first = static_cast<std::int64_t>(part) * section, size = std::min(section, n - first);
            make(first, size, out + first);
            if (!all_fit(out + first, size)) is_fit = false;
        });
        return is_fit;
    }

  private:
    std::vector<double> coefficients_;
    std::vector<const double*> arrays_;
};

// Products of a vector with arrays, each in blocks of 256 terms that are added up with compensation. A section of the vector is
// multiplied with all arrays while it is in the cache.
inline std::vector<double> dots(const double* a, const std::vector<const double*>& arrays, std::int64_t n, int n_threads) {
    constexpr std::int64_t section = 1 << 14;
    const std::int64_t count = (n + section - 1) / section;
    std::vector<std::vector<CompensatedSum>> parts(static_cast<std::size_t>(count), std::vector<CompensatedSum>(arrays.size()));
    share_out(threads_for(n, n_threads), static_cast<std::size_t>(count), [&](std::size_t part) {
        const std::int64_t end = std::min(n, (static_cast<std::int64_t>(part) + 1) * section);
        for (std::size_t q = 0; q < arrays.size(); ++q) {
            const double* b = arrays[q];
            for (std::int64_t at = static_cast<std::int64_t>(part) * section; at < end; at += kTermsPerPart)
                parts[part][q].add(dot_of_block(a + at, b + at, std::min(kTermsPerPart, end - at)));
        }
    });
    std::vector<double> found;
    for (std::size_t q = 0; q < arrays.size(); ++q) {
        CompensatedSum all;
        for (const auto& part : parts) all.add(part[q]);
        found.push_back(all.value());
    }
    return found;
}

}  // namespace maxmargin::ranking
