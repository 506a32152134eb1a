// Block-coordinate solvers in one loop: draw a block, ask its oracle or its memory, step; and an exact gap over all blocks when
// asked.
#pragma once

#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/blocks.hpp"
#include "core/sampler.hpp"
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
    bool active_sets() const { return cache > 0 || steps == Steps::pairwise || steps == Steps::away || steps == Steps::all; }
    // A remembered output is good enough if it gains this part of the block's last gap, and this part of the mean gap.
    double cache_part = 0.25, cache_mean = 0.01;
};

// When to stop between gap passes: the sum of the known gaps is at most `absolute` or, if that is negative, `relative` of the
// primal objective they suggest.
struct Goal {
    double absolute, relative;
};

class Engine {
  public:
    // With the blocks of an earlier engine the run goes on from its distributions or, if they are to be transported to a smaller
    // lambda, from its weights. Gaps then follow from those of its last gap pass, since the truth violates nothing.
    Engine(std::unique_ptr<Blocks> blocks, const Settings& settings, double lambda, const double* lower, const double* upper,
           const Engine* earlier = nullptr)
        : blocks_(std::move(blocks)), settings_(settings), sampler_(settings.sampling, blocks_->n_blocks(), settings.seed) {
        if (settings_.soft) blocks_->use_interior(settings_.mass);
        blocks_->use_active_sets(settings_.active_sets());
        const double part = earlier ? lambda / earlier->blocks_->lambda() : 1;
        if (earlier) blocks_->shrink(part);
        blocks_->start(lambda, lower, upper);
        dual_ = exact_dual();
        if (!earlier || earlier->means_.empty() || settings_.soft || settings_.active_sets() != earlier->settings_.active_sets()) return;
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
        // Answers that an interrupted gap pass left behind belong to other weights.
        blocks_->announce(0, 0);
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

    // The primal objective with the oracle's bounds in it, the dual one, the sum of the blocks' gaps, and what the bounds exceed
    // the outputs found by.
    struct Certificate {
        double primal, dual, gap, oracle_gap;
    };

    // Ask every block's oracle at the present weights, freed from rounding errors: one pass.
    Certificate gap_pass() {
        constexpr std::size_t kBatch = 1024;
        blocks_->refresh();
        CompensatedSum hinges, missed;
        const std::size_t size = blocks_->n_blocks();
        const double n = static_cast<double>(size);
        means_.resize(size);
        for (std::size_t i = 0; i < size; ++i) {
            if (i % kBatch == 0) blocks_->announce(i, std::min(size, i + kBatch));
            const Hinges h = blocks_->ask(i);
            means_[i] = h.mean / n;
            // A maximum may overlook what is not a number; an average does not.
            hinges.add(std::isnan(h.mean) ? h.mean : h.bound);
            // Of an oracle that finds less than the block has already, only what exceeds the block's mean is a gap at all.
            missed.add(std::max(0.0, h.bound - std::max(h.target, h.mean)));
            sampler_.update(i, (h.target - h.mean) / n);
            if (settings_.cache) blocks_->remember(i);
            blocks_->note_target(i);
        }
        sampler_.settle();
        last_gap_ = sampler_.sum();
        dual_ = exact_dual();
        const double ridge = 0.5 * blocks_->lambda() * blocks_->weights().squared_norm();
        return {ridge + hinges.value() / n, dual_, last_gap_, missed.value() / n};
    }

    // Pairwise steps between remembered outputs alone, no oracle: blocks in proportion to their gaps, until these add up to at
    // most `goal` in a whole round or a limit is reached. True if the goal was.
    bool settle(double goal, std::size_t most_visits) {
        const double n = static_cast<double>(blocks_->n_blocks());
        if (!memory_) memory_ = std::make_unique<Sampler>(Sampling::gap, blocks_->n_blocks(), settings_.seed + 1);
        means_.clear();
        const auto step = [&](std::size_t i) {
            const Hinges h = blocks_->recall(i);
            memory_->update(i, (h.target - h.mean) / n);
            return h;
        };
        std::size_t visits = 0;
        while (visits < most_visits) {
            // A round over all blocks without moving tells how far it is.
            for (std::size_t i = 0; i < blocks_->n_blocks(); ++i)
                if (blocks_->n_known(i) > 1) step(i);
                else memory_->update(i, 0);
            memory_->settle();
            visits += blocks_->n_blocks();
            if (memory_->sum() <= goal) return true;
            const double aim = std::max(0.5 * goal, 0.1 * memory_->sum());
            for (std::size_t k = 0; k < 10 * blocks_->n_blocks() && memory_->sum() > aim; ++k, ++visits) {
                const std::size_t i = memory_->draw();
                if (i == Sampler::kNone) break;
                const Hinges h = step(i);
                dual_ += blocks_->step(i, Steps::pairwise, h);
                memory_->update(i, 0.5 * std::max(0.0, h.target - h.mean) / n);
            }
            blocks_->refresh();
            dual_ = exact_dual();
        }
        return false;
    }

    // A step of all blocks at once: to the outputs of the last gap pass, as far as pays or of a given length; or, if soft, to the
    // tilted distributions. Returns the number of oracle calls.
    std::size_t step_all(double fixed = -1) {
        std::size_t calls = 0;
        means_.clear();
        if (settings_.soft) dual_ += blocks_->soft_step_all(settings_.temperature, settings_.rule, dual_, calls);
        else blocks_->step_all(last_gap_, fixed), dual_ = exact_dual();
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
        if (settings_.cache && blocks_->recalls_fast() && blocks_->n_known(i) > 1 && !std::isinf(known)) {
            const Hinges h = blocks_->recall(i);
            const double gain = (h.target - h.mean) / n;
            if (gain > 0 && gain >= std::max(settings_.cache_part * known, settings_.cache_mean * sampler_.sum() / n)) {
                dual_ += blocks_->step(i, settings_.steps, h);
                return 0;
            }
        }
        const Hinges h = blocks_->ask(i);
        sampler_.update(i, (h.target - h.mean) / n);
        dual_ += blocks_->step(i, settings_.steps, h);
        if (settings_.cache) blocks_->forget(i, settings_.cache);
        return 1;
    }

    std::unique_ptr<Blocks> blocks_;
    Settings settings_;
    Sampler sampler_;
    std::unique_ptr<Sampler> memory_;  // gaps among remembered outputs
    double dual_ = 0, last_gap_ = INFINITY;
    std::vector<double> means_;  // mean hinges of the blocks over n, as long as nothing has moved since the last gap pass
};

}  // namespace maxmargin::blocks
