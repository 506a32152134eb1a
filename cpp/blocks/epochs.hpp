// Block steps in one of several places, each of which has some of the blocks: from the weights of all places, while the parts of all
// others are fixed. Of what an epoch has changed, only a part may be kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

#include "blocks/blocks.hpp"
#include "blocks/sampler.hpp"
#include "numeric/compensated_sum.hpp"

namespace maxmargin::blocks {

class Epochs {
  public:
    // `n_all` blocks are there in all places together.
    Epochs(std::unique_ptr<Blocks> blocks, double lambda, std::size_t n_all) : blocks_(std::move(blocks)), lambda_(lambda), n_all_(n_all) {
        blocks_->use_active_sets(false);
    }

    const Blocks& blocks() const { return *blocks_; }

    // Steps of all blocks, `n_epochs` times, each time in another random order. Writes the change of this place's part of the weights,
    // in the user's order, as the weights are, and returns that of the linear term of the dual.
    //
    // With a curvature of K, steps are so short that those of K places may be added up: they are those of a problem with lambda / K,
    // whose weights move K times as far.
    double run(const double* weights, std::size_t n_epochs, Steps steps, double curvature, std::uint64_t seed, double* change) {
        // An epoch that was broken off, by an oracle that failed, does not count; nor does one that nobody has taken a part of.
        keep(0);
        blocks_->join(lambda_ / curvature, n_all_, weights);
        blocks_->announce(0, 0);
        blocks_->mark();
        moving_ = true;
        const double before = blocks_->total_loss();
        Sampler sampler(Sampling::permutation, blocks_->n_blocks(), seed);
        for (std::size_t visits = n_epochs * blocks_->n_blocks(); visits > 0; --visits) {
            const std::size_t i = sampler.draw();
            const Hinges h = ask(i);
            blocks_->step(i, steps, h);
        }
        blocks_->export_weights(change);
        for (std::size_t j = 0; j < blocks_->n_weights(); ++j) change[j] = (change[j] - weights[j]) / curvature;
        return (blocks_->total_loss() - before) / n();
    }

    // Keep only this part of what the last epoch has changed.
    void keep(double part) {
        if (moving_) blocks_->keep(part);
        moving_ = false;
    }

    // The share of these blocks in the mean hinge, or an upper bound of it, at any weights; and what it exceeds the outputs found by.
    struct Look {
        double hinge, missed;
    };

    // Ask every block's oracle. No point moves.
    Look look(const double* weights) {
        constexpr std::size_t kBatch = 1024;
        blocks_->join(lambda_, n_all_, weights);
        CompensatedSum hinges, missed;
        for (std::size_t i = 0, size = blocks_->n_blocks(); i < size; ++i) {
            if (i % kBatch == 0) blocks_->announce(i, std::min(size, i + kBatch));
            const Hinges h = ask(i);
            hinges.add(h.bound);
            missed.add(std::max(0.0, h.bound - std::max(h.target, h.mean)));
        }
        return {hinges.value() / n(), missed.value() / n()};
    }

    // This place's part of the weights, written, and of the linear term: computed anew from the points.
    double part(double* weights) {
        blocks_->restore(lambda_, n_all_);
        blocks_->export_weights(weights);
        return blocks_->total_loss() / n();
    }

  private:
    double n() const { return static_cast<double>(n_all_); }
    Hinges ask(std::size_t i) {
        const Hinges h = blocks_->ask(i);
        // A maximum may overlook what is not a number; an average does not.
        if (std::isnan(h.mean)) throw std::invalid_argument("scores or losses are NaN; check the features");
        return h;
    }

    std::unique_ptr<Blocks> blocks_;
    double lambda_;
    std::size_t n_all_;
    bool moving_ = false;
};

}  // namespace maxmargin::blocks
