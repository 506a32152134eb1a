// Block-coordinate Frank-Wolfe: draw a block, ask its oracle or its memory, step; and an exact look at all blocks when asked.
#pragma once

#include <cmath>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "blocks/blocks.hpp"
#include "blocks/sampler.hpp"
#include "numeric/compensated_sum.hpp"

namespace maxmargin::blocks {

struct Settings {
    Sampling sampling = Sampling::gap;
    Steps steps = Steps::fw;
    std::size_t cache = 0;
    std::uint64_t seed = 0;
    // Partial linearization instead of steps to outputs, with this much mass off the truth at the start.
    bool soft = false;
    double temperature = 0, mass = 0;
    Rule rule = Rule::line_search;
    bool corners() const { return cache > 0 || steps == Steps::pairwise || steps == Steps::away || steps == Steps::all; }
    // A remembered output is good enough if it gains this part of the block's last gap, and this part of the mean gap.
    double cache_part = 0.25, cache_mean = 0.01;
};

// When to stop between exact looks: the sum of the known gaps is at most `absolute` or, if that is negative, `relative` of
// the primal objective they suggest.
struct Goal {
    double absolute, relative;
};

class Engine {
  public:
    // With the blocks of an earlier engine the run goes on from its distributions or, if they are to be transported to a smaller
    // lambda, from its weights. Gaps then follow from those of its last look, since the truth violates nothing.
    Engine(std::unique_ptr<Blocks> blocks, const Settings& settings, double lambda, const double* lower, const double* upper,
           const Engine* earlier = nullptr)
        : blocks_(std::move(blocks)), settings_(settings), sampler_(settings.sampling, blocks_->n_blocks(), settings.seed) {
        if (settings_.soft) blocks_->use_interior(settings_.mass);
        blocks_->use_corners(settings_.corners());
        const double part = earlier ? lambda / earlier->blocks_->lambda() : 1;
        if (earlier) blocks_->shrink(part);
        blocks_->start(lambda, lower, upper);
        dual_ = exact_dual();
        if (!earlier || earlier->means_.empty() || settings_.soft || settings_.corners() != earlier->settings_.corners()) return;
        for (std::size_t i = 0; i < blocks_->n_blocks(); ++i)
            sampler_.update(i, earlier->sampler_.gaps()[i] + (1 - part) * earlier->means_[i]);
        sampler_.settle();
    }

    const Blocks& blocks() const { return *blocks_; }
    double dual() const { return dual_; }
    const Sampler& sampler() const { return sampler_; }

    struct Progress {
        std::size_t visits = 0, calls = 0;
        bool idle = false;     // no block has a gap
        bool reached = false;  // the known gaps reach the goal
    };

    // Visit blocks until a limit or, once `quiet_calls` calls were made, the goal is reached.
    Progress run(std::size_t most_visits, std::size_t most_calls, std::size_t quiet_calls, const Goal& goal) {
        Progress progress;
        while (progress.visits < most_visits && progress.calls < most_calls) {
            if (progress.calls >= quiet_calls && sampler_.all_seen() && reaches(goal)) {
                progress.reached = true;
                break;
            }
            const std::size_t block = sampler_.draw();
            if (block == Sampler::kNone) {
                progress.idle = true;
                break;
            }
            progress.calls += visit(block);
            ++progress.visits;
        }
        return progress;
    }

    struct Certificate {
        double primal, dual, gap;
    };

    // Ask every block's oracle at the present weights, freed from rounding errors: one pass.
    Certificate look() {
        blocks_->refresh();
        CompensatedSum hinges;
        const double n = static_cast<double>(blocks_->n_blocks());
        means_.resize(blocks_->n_blocks());
        for (std::size_t i = 0; i < blocks_->n_blocks(); ++i) {
            const Hinges h = blocks_->ask(i);
            means_[i] = h.mean / n;
            // A maximum may overlook what is not a number; an average does not.
            hinges.add(std::isnan(h.mean) ? h.mean : h.target);
            sampler_.update(i, (h.target - h.mean) / n);
            blocks_->note_target(i);
            if (settings_.cache) blocks_->remember(i);
        }
        sampler_.settle();
        last_gap_ = sampler_.sum();
        dual_ = exact_dual();
        return {0.5 * blocks_->lambda() * blocks_->weights().squared_norm() + hinges.value() / n, dual_, last_gap_};
    }

    // Every oracle once and nothing else; the mean of the largest hinges.
    double sweep() {
        CompensatedSum hinges;
        for (std::size_t i = 0; i < blocks_->n_blocks(); ++i) hinges.add(blocks_->ask(i).target);
        return hinges.value() / static_cast<double>(blocks_->n_blocks());
    }

    // A step of all blocks at once: to the outputs of the last look or, if soft, to the tilted distributions. Returns the
    // number of oracle calls.
    std::size_t step_all() {
        std::size_t calls = 0;
        means_.clear();
        dual_ += settings_.soft ? blocks_->soft_step_all(settings_.temperature, settings_.rule, dual_, calls) : blocks_->step_all(last_gap_);
        return calls;
    }

    // The dual point of this engine, ready to go on elsewhere.
    std::unique_ptr<Blocks> copy_blocks() const { return blocks_->copy(); }

  private:
    double exact_dual() const {
        return blocks_->total_loss() / static_cast<double>(blocks_->n_blocks()) - blocks_->weights().penalty(blocks_->lambda());
    }

    bool reaches(const Goal& goal) const {
        const double sum = sampler_.sum();
        return sum <= (goal.absolute >= 0 ? goal.absolute : goal.relative * std::abs(dual_ + sum));
    }

    // Returns the number of oracle calls.
    std::size_t visit(std::size_t i) {
        means_.clear();
        if (settings_.soft) {
            std::size_t calls = 0;
            dual_ += blocks_->soft_step(i, settings_.temperature, settings_.rule, dual_, calls);
            return calls;
        }
        const double n = static_cast<double>(blocks_->n_blocks()), known = sampler_.gaps()[i];
        if (settings_.cache && blocks_->n_known(i) > 1 && !std::isinf(known)) {
            const Hinges h = blocks_->recall(i);
            const double gain = (h.target - h.mean) / n;
            if (gain > 0 && gain >= std::max(settings_.cache_part * known, settings_.cache_mean * sampler_.sum() / n)) {
                dual_ += blocks_->step(i, settings_.steps);
                return 0;
            }
        }
        const Hinges h = blocks_->ask(i);
        sampler_.update(i, (h.target - h.mean) / n);
        dual_ += blocks_->step(i, settings_.steps);
        if (settings_.cache) blocks_->forget(i, settings_.cache);
        return 1;
    }

    std::unique_ptr<Blocks> blocks_;
    Settings settings_;
    Sampler sampler_;
    double dual_ = 0, last_gap_ = INFINITY;
    std::vector<double> means_;  // mean hinges of the blocks over n, as long as nothing has moved since the last look
};

}  // namespace maxmargin::blocks
