// Blocks of a dual problem, and all the ways to move one: Frank-Wolfe, away, pairwise and exact steps, steps toward a tilted
// distribution, and steps of all blocks at once.
//
// Every block has a point in the dual: a distribution over its outputs, kept as its average features. With
// H(y) = loss(y) - w.psi(y) the hinge of output y, the gap of a block is (max H - average H) / n, and a step along a
// distribution that changes the average features by dpsi moves the weights by dpsi / (lambda n). What a block's outputs are, and
// how its point is stored, is for the classes that derive from this one to know.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/weights.hpp"

namespace maxmargin::blocks {

enum class Steps { fw, pairwise, away, all, exact };

// How far to go toward a tilted distribution: as far as pays, all the way, or all the way at a temperature that pays.
enum class Rule { line_search, full, backtracking };

// No probability may become exactly zero, it could never grow again: steps end short of 1, and logarithms have a floor.
constexpr double kAlmostOne = 1.0 - 0x1p-52, kLeastProbability = 1e-300;
// An away step from an output that has all but this much would blow up rounding errors.
constexpr double kLeastRest = 1e-9;
inline double log_of(double probability) { return std::log(std::max(probability, kLeastProbability)); }

// Hinges of the output that a step may go to, and of the block's present point; and the largest hinge there can be, which is
// the first unless the oracle is not exact.
struct Hinges {
    double target, mean, bound;
};

// The least violating output in use: how far below the mean its hinge is, its dual weight, that of all others, and whether it is
// the target. Fall and rest are sums over the others: differences of large numbers would be divided by each other.
struct Worst {
    double fall, alpha, rest;
    bool is_target;
};

// Of n outputs with the dual weights alpha(c) and hinges hinge[c], the least violating one in use becomes `at`.
template <class Alpha, class Hinge>
Worst least_violating(std::size_t n, const Alpha& alpha, const Hinge& hinge, std::size_t target, std::size_t& at) {
    at = n;
    for (std::size_t c = 0; c < n; ++c)
        if (alpha(c) > 0 && (at == n || hinge[c] < hinge[at])) at = c;
    Worst worst{0, alpha(at), 0, at == target};
    for (std::size_t c = 0; c < n; ++c)
        if (c != at) worst.fall += alpha(c) * (hinge[c] - hinge[at]), worst.rest += alpha(c);
    return worst;
}

// The dual weights of n outputs after a step.
template <class Alpha>
void move_alphas(std::size_t n, const Alpha& alpha, Steps kind, const Plan& plan, std::size_t target, std::size_t worst) {
    double sum = 0;
    for (std::size_t c = 0; c < n; ++c) {
        double& a = alpha(c);
        if (kind != Steps::pairwise) a *= kind == Steps::fw ? 1 - plan.step : 1 + plan.step;
        if (kind != Steps::away && c == target) a += plan.step;
        if (kind != Steps::fw && c == worst) a = plan.full ? 0 : a - plan.step;
        sum += a = std::max(0.0, a);
    }
    for (std::size_t c = 0; c < n; ++c) alpha(c) /= sum;
}

// Which of n outputs to forget until `most` are left: of those not in use the least violating; output 0, the truth, stays.
template <class Alpha, class Hinge>
std::vector<char> superfluous(std::size_t n, std::size_t most, const Alpha& alpha, const Hinge& hinge) {
    std::vector<std::pair<double, std::size_t>> idle;
    for (std::size_t c = 1; c < n; ++c)
        if (alpha(c) == 0) idle.emplace_back(hinge(c), c);
    std::sort(idle.begin(), idle.end());
    idle.resize(std::min(idle.size(), n - std::min(n, most)));
    std::vector<char> gone(n);
    for (const auto& [value, c] : idle) gone[c] = 1;
    return gone;
}

class Blocks {
  public:
    virtual ~Blocks() = default;
    virtual std::unique_ptr<Blocks> copy() const = 0;

    std::size_t n_blocks() const { return n_; }
    double lambda() const { return lambda_; }
    const Weights& weights() const { return weights_; }
    // Outputs that violated the margin less than the truth; more than none means that the oracle is not exact.
    std::size_t worse_than_truth() const { return worse_than_truth_; }
    // Questions that oracles have asked a decoder; none are counted where an oracle is a single question.
    virtual std::size_t queries() const { return 0; }

    // Begin to work at lambda and within bounds (in the user's order; null for none), with the present distributions.
    void start(double lambda, const double* lower, const double* upper) {
        lambda_ = lambda;
        divisor_ = static_cast<double>(n_);
        per_block_ = 1 / (lambda_ * divisor_);
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
    virtual void use_active_sets(bool wanted) = 0;
    // Compute weights and losses anew from the distributions: thousands of small steps leave rounding errors.
    virtual void refresh() = 0;
    // Keep only this part of every distribution and put the rest on the truth. At lambda times `part` the weights then are
    // what they were at lambda.
    virtual void shrink(double part) = 0;
    // The loss of the present point, times n.
    virtual double total_loss() const = 0;
    // Of the storage of the blocks, without the data.
    virtual std::size_t n_bytes() const = 0;

    // Blocks first to last - 1 will be asked at the present weights: an oracle that answers many at once may do so now.
    virtual void announce(std::size_t, std::size_t) {}
    // Ask the oracle about block i at the present weights; its output becomes the target.
    virtual Hinges ask(std::size_t i) = 0;
    // The best remembered output becomes the target; only if `n_known(i)` is more than one.
    virtual Hinges recall(std::size_t i) = 0;
    virtual std::size_t n_known(std::size_t i) const = 0;
    // Whether that is cheaper than asking.
    virtual bool recalls_fast() const { return true; }
    // Remember the target without moving.
    virtual void remember(std::size_t i) = 0;
    // Forget outputs that are not in use until `most` are left.
    virtual void forget(std::size_t i, std::size_t most) = 0;
    // For a step of all blocks at once.
    virtual void note_target(std::size_t i) = 0;

    // Move block i, after `ask` or `recall` with the answer `h`; returns what the dual objective gained.
    virtual double step(std::size_t i, Steps steps, const Hinges& h) = 0;
    // From the present point toward all targets noted: as far as pays, or a step of the given length. Returns the gain.
    virtual double step_all(double slope, double fixed = -1) = 0;

    // ---- distributions in the interior, for partial linearization -----------------------------------------------------------
    // All but `mass` on the truth and no output at zero, unless the blocks are in the interior already.
    virtual void use_interior(double) { throw std::logic_error("these blocks cannot average over outputs"); }
    // Move block i toward its distribution times exp(hinge / temperature), normalised, or to its most violating output if the
    // temperature is 0. Adds the number of oracle calls, and returns what the dual objective gained.
    virtual double soft_step(std::size_t i, double temperature, Rule rule, double dual, std::size_t& calls) = 0;
    // The same for all blocks at once.
    virtual double soft_step_all(double temperature, Rule rule, double dual, std::size_t& calls) = 0;

  protected:
    // What one block's features count in the weights.
    double per_block() const { return per_block_; }

    virtual void import(const double* user, double* own) const = 0;

    std::size_t n_ = 0;
    double divisor_ = 0;  // of averages over blocks: their number
    double lambda_ = 1, per_block_ = 1;
    Weights weights_;
    std::size_t worse_than_truth_ = 0;
    Direction direction_;
};

// The steps, for blocks of a class `Own` that says what a change of a block is. Nothing of it is looked up at run time: visits
// to small blocks take a hundred nanoseconds.
//
//   set_change(i, kind)        the present change: from the point to the target, from the worst output to the point, or from the
//                              worst output to the target
//   set_best_change(i, rise)   ... to the best point of the whole block; false if that is not known
//   tilt(i, temperature)       ... to the tilted distribution; both also say what the average hinge would rise by
//   find_worst(i)              the least violating output in use
//   take_noted_target(i)       the output of `note_target` is the target again
//   squared_change(i)          of the change as a direction of the weights: its squared length,
//   describe(i)                the direction, added to direction_,
//   add_change(i, step)        and weights += step * direction
//   move_point(i, kind, plan)  along the change;  mix(i, step)   toward the tilted distribution
//   explicitly(i)              whether the direction has to be written out
//   weights_moved()            after every step
template <class Own>
class SteppingBlocks : public Blocks {
  public:
    double step(std::size_t i, Steps steps, const Hinges& h) final {
        if (steps == Steps::exact) {
            double rise = 0;
            steps = Steps::fw;
            if (own().set_best_change(i, rise)) {
                const Plan plan = plan_change(i, rise, 1);
                if (plan.gain > 0) return commit(i, Steps::exact, plan);
                // Where the curvature is huge the best point is too close to a corner to be seen.
                steps = Steps::pairwise;
            }
        }
        const double rise = h.target - h.mean;
        if (steps == Steps::fw) {
            if (!(rise > 0)) return 0;
            own().set_change(i, Steps::fw);
            return commit(i, Steps::fw, plan_change(i, rise, 1));
        }
        const Worst worst = own().find_worst(i);
        Steps kind = Steps::fw, last = Steps::exact;
        Plan best;
        const auto try_ = [&](Steps move, double slope, double largest) {
            own().set_change(i, move);
            const Plan plan = plan_change(i, slope, largest);
            if (last == Steps::exact || plan.gain > best.gain) best = plan, kind = move;
            last = move;
        };
        if (steps != Steps::pairwise) try_(Steps::fw, rise, 1);
        if ((steps == Steps::away || steps == Steps::all) && worst.rest > kLeastRest) try_(Steps::away, worst.fall, worst.alpha / worst.rest);
        if (steps != Steps::away && !worst.is_target) try_(Steps::pairwise, rise + worst.fall, worst.alpha);
        // The change of the last move tried is at hand.
        if (best.step > 0 && kind != last) {
            own().set_change(i, kind);
            if (own().explicitly(i)) describe_alone(i);
        }
        return commit(i, kind, best);
    }

    double step_all(double slope, double fixed) final {
        direction_.resize(weights_.v.size());
        direction_.clear();
        for (std::size_t i = 0; i < n_; ++i) {
            own().take_noted_target(i);
            own().set_change(i, Steps::fw);
            own().describe(i);
        }
        Plan plan = weights_.plan(direction_, slope, lambda_, 1);
        if (fixed >= 0) plan = {fixed, 0, fixed == 1};
        for (std::size_t i = 0; i < n_; ++i) {
            own().take_noted_target(i);
            own().set_change(i, Steps::fw);
            own().move_point(i, Steps::fw, plan);
        }
        refresh();
        return plan.gain;
    }

    double soft_step(std::size_t i, double temperature, Rule rule, double dual, std::size_t& calls) final {
        Plan plan;
        for (;; temperature *= 2) {
            ++calls;
            const double rise = own().tilt(i, temperature);
            plan = plan_change(i, rise, kAlmostOne);
            if (rule == Rule::line_search) break;
            const double squared = own().explicitly(i) ? direction_.squared() : own().squared_change(i);
            plan = plan_full(rise / divisor_, squared, lambda_);
            if (rule == Rule::full || !loses(plan.gain, dual)) break;
        }
        if (plan.step == 0) return 0;
        move_weights(i, plan.step);
        own().mix(i, plan.step);
        return plan.gain;
    }

    double soft_step_all(double temperature, Rule rule, double dual, std::size_t& calls) final {
        direction_.resize(weights_.v.size());
        Plan plan;
        for (;; temperature *= 2) {
            direction_.clear();
            double slope = 0;
            for (std::size_t i = 0; i < n_; ++i) {
                slope += own().tilt(i, temperature);
                own().describe(i);
            }
            calls += n_;
            slope /= divisor_;
            plan = weights_.plan(direction_, slope, lambda_, kAlmostOne);
            if (rule == Rule::line_search) break;
            plan = plan_full(slope, direction_.squared(), lambda_);
            if (rule == Rule::full || !loses(plan.gain, dual)) break;
        }
        // The weights are still those at which the distributions were tilted.
        for (std::size_t i = 0; i < n_ && plan.step > 0; ++i) {
            own().tilt(i, temperature);
            own().mix(i, plan.step);
        }
        refresh();
        return plan.gain;
    }

  protected:
    // What blocks need not know.
    bool set_best_change(std::size_t, double&) { return false; }
    bool explicitly(std::size_t) const { return weights_.bounded(); }
    void weights_moved() {}

  private:
    Own& own() { return static_cast<Own&>(*this); }
    // Far enough below the dual objective to be a loss, not rounding.
    static bool loses(double gain, double dual) { return gain < -1e-15 * std::abs(dual); }

    // `rise` is what the whole change adds to the average hinge.
    Plan plan_change(std::size_t i, double rise, double largest) {
        const double slope = rise / divisor_;
        if (!own().explicitly(i)) return slope > 0 ? plan_quadratic(slope, own().squared_change(i), lambda_, largest) : Plan{};
        describe_alone(i);
        return weights_.plan(direction_, slope, lambda_, largest);
    }
    void describe_alone(std::size_t i) {
        direction_.resize(weights_.v.size());
        direction_.clear();
        own().describe(i);
    }
    void move_weights(std::size_t i, double step) {
        if (own().explicitly(i)) weights_.move(direction_, step);
        else own().add_change(i, step);
        own().weights_moved();
    }
    double commit(std::size_t i, Steps kind, const Plan& plan) {
        if (plan.step == 0) return 0;
        move_weights(i, plan.step);
        own().move_point(i, kind, plan);
        return plan.gain;
    }
};

}  // namespace maxmargin::blocks
