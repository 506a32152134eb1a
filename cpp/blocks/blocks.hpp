// What a block-coordinate solver needs from a model: ask for the most violating output of a block, and move the block.
//
// Every block has a point in the dual: a distribution over its outputs, kept as its average features. With
// H(y) = loss(y) - w.psi(y) the hinge of output y, the gap of a block is (max H - average H) / n, and a step along a
// distribution that changes the average features by dpsi moves the weights by dpsi / (lambda n).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "blocks/weights.hpp"

namespace maxmargin::blocks {

enum class Steps { fw, pairwise, away, all, exact };

// How far to go toward a tilted distribution: as far as pays, all the way, or all the way at a temperature that pays.
enum class Rule { line_search, full, backtracking };

// No probability may become exactly zero, it could never grow again: steps end short of 1, and logarithms have a floor.
constexpr double kAlmostOne = 1.0 - 0x1p-52, kLeastProbability = 1e-300;
inline double log_of(double probability) { return std::log(std::max(probability, kLeastProbability)); }

// Hinges of the output that a step may go to, and of the block's present point.
struct Hinges {
    double target, mean;
};

class Blocks {
  public:
    virtual ~Blocks() = default;
    virtual std::unique_ptr<Blocks> copy() const = 0;

    std::size_t n_blocks() const { return n_; }
    double lambda() const { return lambda_; }
    const Weights& weights() const { return weights_; }
    // Outputs that violated the margin less than the truth; more than none means that the oracle is not exact.
    std::size_t worse_than_truth() const { return worse_than_truth_; }

    // Begin to work at lambda and within bounds (in the user's order; null for none), with the present distributions.
    void start(double lambda, const double* lower, const double* upper) {
        lambda_ = lambda;
        std::vector<double> low, high;
        if (lower) {
            low.resize(weights_.v.size()), high.resize(weights_.v.size());
            import(lower, low.data());
            import(upper, high.data());
        }
        weights_.set_bounds(std::move(low), std::move(high));
        refresh();
    }

    virtual std::size_t n_weights() const = 0;
    virtual void export_weights(double* out) const = 0;
    // Remember outputs with their dual weights from now on, as away and pairwise steps need; a fresh start unless they were
    // remembered already.
    virtual void use_corners(bool wanted) = 0;
    // Compute weights and losses anew from the distributions: thousands of small steps leave rounding errors.
    virtual void refresh() = 0;
    // Keep only this part of every distribution and put the rest on the truth. At lambda times `part` the weights then are
    // what they were at lambda.
    virtual void shrink(double part) = 0;
    // The loss of the present point, times n.
    virtual double total_loss() const = 0;

    // Ask the oracle about block i at the present weights; its output becomes the target.
    virtual Hinges ask(std::size_t i) = 0;
    // The best remembered output becomes the target; only if `n_known(i)` is more than one.
    virtual Hinges recall(std::size_t i) = 0;
    virtual std::size_t n_known(std::size_t i) const = 0;
    // Move block i, after `ask` or `recall`; returns what the dual objective gained.
    virtual double step(std::size_t i, Steps steps) = 0;
    // Remember the target without moving.
    virtual void remember(std::size_t i) = 0;
    // Forget outputs that are not in use until `most` are left.
    virtual void forget(std::size_t i, std::size_t most) = 0;

    // ---- distributions in the interior, for partial linearization -----------------------------------------------------------
    // All but `mass` on the truth and no output at zero, unless the blocks are in the interior already.
    virtual void use_interior(double mass);
    // Move block i toward its distribution times exp(hinge / temperature), normalised, or to its most violating output if the
    // temperature is 0. Adds the number of oracle calls, and returns what the dual objective gained.
    virtual double soft_step(std::size_t i, double temperature, Rule rule, double dual, std::size_t& calls);
    // The same for all blocks at once.
    virtual double soft_step_all(double temperature, Rule rule, double dual, std::size_t& calls);

    // For a step of all blocks at once: note the target of block i; then go from the present point toward all targets, and
    // return the gain.
    virtual void note_target(std::size_t i) = 0;
    virtual double step_all(double slope) = 0;

    // Of the storage of the blocks, without the data.
    virtual std::size_t n_bytes() const = 0;

  protected:
    // Far enough below the dual objective to be a loss, not rounding.
    static bool loses(double gain, double dual) { return gain < -1e-15 * std::abs(dual); }

    virtual void import(const double* user, double* own) const = 0;

    std::size_t n_ = 0;
    double lambda_ = 1;
    Weights weights_;
    std::size_t worse_than_truth_ = 0;
};

inline void Blocks::use_interior(double) { throw std::logic_error("these blocks cannot average over outputs"); }
inline double Blocks::soft_step(std::size_t, double, Rule, double, std::size_t&) { return 0; }
inline double Blocks::soft_step_all(double, Rule, double, std::size_t&) { return 0; }

}  // namespace maxmargin::blocks
