// Runs of features, each with a shift: the parts of which a block's outputs consist. Outputs share them, and parts of one run
// at neighbouring shifts are computed together.
#pragma once

#include <algorithm>
#include <vector>

#include "blocks/outputs.hpp"
#include "blocks/windows.hpp"

namespace maxmargin::blocks {

class Parts {
  public:
    void clear() { parts_.clear(); }

    // The number of run r of output c, which is zero if the part is new.
    double& number(const Outputs& known, std::size_t c, std::size_t r) {
        const std::uint32_t pattern = known[c].pattern, run = static_cast<std::uint32_t>(r);
        const std::int32_t shift = known[c].shifts[r];
        for (Part& part : parts_)
            if (part.shift == shift && part.run == run && part.pattern == pattern) return part.number;
        parts_.push_back({pattern, run, shift, false, 0, known.run(c, r)});
        return parts_.back().number;
    }

    // number = features . dense, for all parts.
    void set_dots(const double* dense) {
        for_groups([&](Part& part) { part.number = part.features.dot(dense); },
                   [&](const SparseView& lowest, std::size_t width) {
                       dot_window(lowest, dense, width, window_.data());
                       for (Part* part : group_) part->number = window_[static_cast<std::size_t>(part->features.shift - lowest.shift)];
                   });
    }

    // dense += scale * sum of number * features
    void add_to(double* dense, double scale) {
        for_groups([&](Part& part) { part.features.add_to(dense, scale * part.number); },
                   [&](const SparseView& lowest, std::size_t width) {
                       std::fill_n(window_.begin(), width, 0.0);
                       for (Part* part : group_) window_[static_cast<std::size_t>(part->features.shift - lowest.shift)] = scale * part->number;
                       add_window(lowest, window_.data(), width, dense);
                   });
    }

  private:
    struct Part {
        std::uint32_t pattern, run;
        std::int32_t shift;
        bool done;
        double number;
        SparseView features;
    };

    template <class Single, class Window>
    void for_groups(const Single& single, const Window& window) {
        for (Part& part : parts_) part.done = false;
        for (Part& part : parts_) {
            if (part.done) continue;
            group_.clear();
            const SparseView* lowest = &part.features;
            std::ptrdiff_t highest = part.shift;
            for (Part* other = &part; other != parts_.data() + parts_.size(); ++other) {
                if (other->run != part.run || other->pattern != part.pattern) continue;
                other->done = true;
                group_.push_back(other);
                if (other->features.shift < lowest->shift) lowest = &other->features;
                highest = std::max(highest, other->features.shift);
            }
            const std::size_t span = static_cast<std::size_t>(highest - lowest->shift) + 1;
            // Four shifts of a window cost about as much as one on its own.
            if (group_.size() < 2 || span > 4 * group_.size()) {
                for (Part* one : group_) single(*one);
                continue;
            }
            if (window_.size() < span) window_.resize(span);
            window(*lowest, span);
        }
    }

    std::vector<Part> parts_;
    std::vector<Part*> group_;
    std::vector<double> window_;
};

}  // namespace maxmargin::blocks
