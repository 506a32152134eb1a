// Runs of features, each with a shift: the parts of which a block's outputs consist. Outputs share them, and parts of one run
// at neighbouring shifts are computed together.
#pragma once

#include <algorithm>
#include <vector>

#include "core/outputs.hpp"

namespace maxmargin::blocks {

// out[k] = sum over the pairs of value * dense[index + shift + k], for k below `width`; and dense[...] += value * factor[k].
void dot_window(const SparseView& x, const double* dense, std::size_t width, double* out);
void add_window(const SparseView& x, const double* factor, std::size_t width, double* dense);

class Parts {
  public:
    // Begin a list for the outputs of a block; `same` and psi as in Outputs::run.
    void begin(const Outputs& known, std::size_t same, const SparseView& psi) {
        known_ = &known;
        same_ = same;
        psi_ = psi;
        parts_.clear();
    }

    // The number of run r of output c, which is zero if the part is new.
    double& number(std::size_t c, std::size_t r) {
        const std::uint32_t pattern = (*known_)[c].pattern, run = static_cast<std::uint32_t>(r);
        const std::int32_t shift = (*known_)[c].shifts[r];
        for (Part& part : parts_)
            if (part.shift == shift && part.run == run && part.pattern == pattern) return part.number;
        parts_.push_back({0, pattern, run, shift, static_cast<std::uint32_t>(c)});
        return parts_.back().number;
    }

    // number = features . dense, for all parts.
    void set_dots(const double* dense) {
        for_groups([&](Part& part, const SparseView& features) { part.number = features.dot(dense); },
                   [&](const SparseView& features, std::int32_t lowest, std::size_t width) {
                       dot_window(features, dense, width, window_.data());
                       for (Part* part : group_) part->number = window_[static_cast<std::size_t>(part->shift - lowest)];
                   });
    }

    // dense += scale * sum of number * features
    void add_to(double* dense, double scale) {
        for_groups([&](Part& part, const SparseView& features) { features.add_to(dense, scale * part.number); },
                   [&](const SparseView& features, std::int32_t lowest, std::size_t width) {
                       std::fill_n(window_.begin(), width, 0.0);
                       for (Part* part : group_) window_[static_cast<std::size_t>(part->shift - lowest)] = scale * part->number;
                       add_window(features, window_.data(), width, dense);
                   });
    }

  private:
    struct Part {
        double number;
        std::uint32_t pattern, run;
        std::int32_t shift;
        std::uint32_t output;  // one that has it
    };

    SparseView features(const Part& part) const { return known_->run(part.output, part.run, same_, psi_); }

    // Every group of parts that differ in their shifts only: one by one, or as a window from the lowest shift on.
    template <class Single, class Window>
    void for_groups(const Single& single, const Window& window) {
        for (std::size_t first = 0; first < parts_.size(); ++first) {
            const Part& leader = parts_[first];
            const auto belongs = [&](const Part& part) { return part.run == leader.run && part.pattern == leader.pattern; };
            if (std::any_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(first), belongs)) continue;
            group_.clear();
            Part* lowest = &parts_[first];
            std::int64_t highest = leader.shift;
            for (std::size_t k = first; k < parts_.size(); ++k) {
                if (!belongs(parts_[k])) continue;
                group_.push_back(&parts_[k]);
                if (parts_[k].shift < lowest->shift) lowest = &parts_[k];
                highest = std::max<std::int64_t>(highest, parts_[k].shift);
            }
            const auto span = static_cast<std::size_t>(highest - lowest->shift) + 1;
            // Four shifts of a window cost about as much as one on its own.
            if (group_.size() < 2 || span > 4 * group_.size()) {
                for (Part* part : group_) single(*part, features(*part));
                continue;
            }
            if (window_.size() < span) window_.resize(span);
            window(features(*lowest), lowest->shift, span);
        }
    }

    const Outputs* known_ = nullptr;
    std::size_t same_ = 0;
    SparseView psi_{};
    std::vector<Part> parts_;
    std::vector<Part*> group_;
    std::vector<double> window_;
};

}  // namespace maxmargin::blocks
