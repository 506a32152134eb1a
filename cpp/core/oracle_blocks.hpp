// Blocks whose outputs only an oracle knows: a user's compiled function, or Python. Features are sparse vectors.
//
// The point of a block is an average of outputs that are kept one by one: an oracle's answer is usually one that came
// before, and then nothing has to be checked, copied or multiplied out again. Where only the average matters (steps toward
// the oracle's output, no memory) outputs that do not come again are folded into one.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks.hpp"
#include "core/outputs.hpp"
#include "core/parts.hpp"

namespace maxmargin::blocks {

// An output of a block: psi as pairs of an index and a value (an index may come more than once), its loss and, from an oracle
// that is not exact, an upper bound of the largest hinge.
struct Answer {
    std::vector<std::int32_t> indices;
    std::vector<double> values;
    std::size_t count = 0;
    double loss = 0, bound = -INFINITY;

    SparseView psi() const { return {indices.data(), values.data(), count}; }
};

// Whoever finds the most violating output of a block; and, if it can, averages over outputs.
class Oracle {
  public:
    Oracle(std::size_t n_blocks, std::size_t n_weights) : n_blocks(n_blocks), n_weights(n_weights) {}
    virtual ~Oracle() = default;
    virtual void ask(std::size_t block, const double* weights, Answer& answer) = 0;
    // The same for several blocks that will be asked next, at these weights.
    virtual void announce(std::size_t, std::size_t, const double*) {}
    // Questions put to a decoder so far, if there may be several for an answer.
    virtual std::size_t queries() const { return 0; }

    // A distribution over the outputs of every block, the oracle's own business: begin with all but `mass` on the truth, tilt
    // that of a block by its hinges, and mix the tilted one in. Answers are average features and losses.
    virtual void interior(double) { throw std::logic_error("this oracle cannot average over outputs"); }
    virtual void average(std::size_t, Answer&) {}
    virtual void tilt(std::size_t, const double*, double, Answer&) {}
    virtual void mix(std::size_t, double) {}
    // Keep only this part of every distribution and put the rest on the truth.
    virtual void shrink(double) {}
    // One that shares no state with this one; null if there is no state.
    virtual std::shared_ptr<Oracle> clone() const { return nullptr; }

    const std::size_t n_blocks, n_weights;

    [[noreturn]] static void fail(std::size_t block, const std::string& what) {
        throw std::invalid_argument("the oracle " + what + "; block " + std::to_string(block));
    }
    static void check_loss(std::size_t block, double loss) {
        if (!(loss >= 0) || std::isinf(loss))
            fail(block, "returned the loss " + std::to_string(loss) + ", but a loss must be finite and not negative");
    }
    // Of an answer that is not known to be fine.
    void check_indices(std::size_t block, const Answer& answer) const {
        std::uint32_t highest = 0;
        for (std::size_t e = 0; e < answer.count; ++e) highest = std::max(highest, static_cast<std::uint32_t>(answer.indices[e]));
        if (highest < n_weights || answer.count == 0) return;
        for (std::size_t e = 0; e < answer.count; ++e)
            if (answer.indices[e] < 0 || static_cast<std::size_t>(answer.indices[e]) >= n_weights)
                fail(block, "returned the index " + std::to_string(answer.indices[e]) + ", but features are numbered from 0 to " +
                                std::to_string(n_weights - 1));
    }
};

// A user's function: writes the pairs and the loss, and returns the number of pairs. `reals` and `integers` are the user's own
// data. Documented in docs/native.md.
using OracleFunction = std::int64_t (*)(const double* reals, const std::int64_t* integers, std::int64_t block, const double* weights,
                                        std::int32_t* indices, double* values, double* loss);

class CompiledOracle final : public Oracle {
  public:
    CompiledOracle(OracleFunction function, const double* reals, const std::int64_t* integers, std::size_t n_blocks,
                   std::size_t n_weights, std::size_t most_entries)
        : Oracle(n_blocks, n_weights), function_(function), reals_(reals), integers_(integers), most_entries_(most_entries) {}

    void ask(std::size_t block, const double* weights, Answer& answer) override {
        // A function that writes a little too much is told so, rather than breaking something else.
        constexpr std::size_t kSlack = 64;
        answer.indices.resize(most_entries_ + kSlack);
        answer.values.resize(most_entries_ + kSlack);
        answer.loss = 0;
        const std::int64_t count = function_(reals_, integers_, static_cast<std::int64_t>(block), weights, answer.indices.data(),
                                             answer.values.data(), &answer.loss);
        if (count < 0 || static_cast<std::size_t>(count) > most_entries_)
            fail(block, "returned " + std::to_string(count) + " entries, but there is room for " + std::to_string(most_entries_) +
                            " (max_entries)");
        check_loss(block, answer.loss);
        answer.count = static_cast<std::size_t>(count);
    }

  private:
    OracleFunction function_;
    const double* reals_;
    const std::int64_t* integers_;
    std::size_t most_entries_;
};

class OracleBlocks final : public SteppingBlocks<OracleBlocks> {
  public:
    explicit OracleBlocks(std::shared_ptr<Oracle> oracle) : oracle_(std::move(oracle)) {
        n_ = oracle_->n_blocks;
        weights_.resize(oracle_->n_weights);
        direction_.resize(oracle_->n_weights);
        scratch_.resize(oracle_->n_weights);
        outputs_.resize(n_);
    }

    std::unique_ptr<Blocks> copy() const override {
        auto other = std::make_unique<OracleBlocks>(*this);
        if (auto own = oracle_->clone()) other->oracle_ = std::move(own);
        return other;
    }
    std::size_t n_weights() const override { return oracle_->n_weights; }
    std::size_t queries() const override { return oracle_->queries(); }
    void export_weights(double* out) const override { std::copy_n(weights_.data(), n_weights(), out); }
    void announce(std::size_t first, std::size_t last) override { oracle_->announce(first, last, weights_.data()); }

    void use_active_sets(bool wanted) override {
        if (wanted && folded_) {
            outputs_.assign(n_, Outputs());
            folded_ = false;
        }
        active_sets_ = wanted;
        keep_idle_ = false;
    }
    std::size_t n_known(std::size_t i) const override { return outputs_[i].size(); }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_ && interior_; ++i) {
            oracle_->average(i, answer_);
            set_average(i);
        }
        for (const Outputs& known : outputs_)
            for (std::size_t c = 1; c < known.size(); ++c)
                if (known[c].alpha > 0) known.add_to(c, weights_.v.data(), per_block() * known[c].alpha);
        weights_.project();
    }

    void shrink(double part) override {
        if (interior_) return oracle_->shrink(part);
        for (Outputs& known : outputs_) {
            if (known.only_truth()) continue;
            for (std::size_t c = 0; c < known.size(); ++c) known[c].alpha *= part;
            known[0].alpha += 1 - part;
        }
    }

    double total_loss() const override {
        double total = 0;
        for (const Outputs& known : outputs_)
            for (std::size_t c = 1; c < known.size(); ++c) total += known[c].alpha * known[c].loss;
        return total;
    }

    Hinges ask(std::size_t i) override {
        Outputs& known = outputs_[i];
        known.prefetch();
        answer_.bound = -INFINITY;
        oracle_->ask(i, weights_.data(), answer_);
        target_ = known.find(answer_.loss, answer_.psi());
        same_ = target_ < known.size() ? target_ : 0;
        set_hinges(known, false);
        if (target_ == known.size()) {
            oracle_->check_indices(i, answer_);
            target_hinge_ = answer_.loss - answer_.psi().dot(weights_.data());
            if (!std::isfinite(target_hinge_))
                Oracle::fail(i, "returned features that are not finite (NaN or infinity), or the weights have grown too large");
        } else if (target_ == 0) {
            target_hinge_ = 0;
        } else {
            known[target_].used_again = true;
            if (known[target_].alpha == 0) hinges_[target_] = answer_.loss - answer_.psi().dot(weights_.data());
            target_hinge_ = hinges_[target_];
        }
        if (target_hinge_ < 0 && is_worse_than_truth(target_hinge_)) {
            // No fault of an oracle that says how much it may have missed.
            worse_than_truth_ += is_worse_than_truth(answer_.bound);
            target_ = 0;
            target_hinge_ = 0;
        }
        return {target_hinge_, mean_, std::max(target_hinge_, answer_.bound)};
    }

    Hinges recall(std::size_t i) override {
        Outputs& known = outputs_[i];
        keep_idle_ = true;
        same_ = 0;
        set_hinges(known, true);
        target_ = static_cast<std::size_t>(std::max_element(hinges_.begin(), hinges_.end()) - hinges_.begin());
        target_hinge_ = hinges_[target_];
        return {target_hinge_, mean_, target_hinge_};
    }

    void remember(std::size_t i) override {
        keep_idle_ = true;
        if (active_sets_) add_target(i);
    }

    void forget(std::size_t i, std::size_t most) override {
        Outputs& known = outputs_[i];
        keep_idle_ = true;
        if (!active_sets_ || known.size() <= most) return;
        const auto gone = superfluous(known.size(), most, [&](std::size_t c) { return known[c].alpha; },
                                      [&](std::size_t c) { return hinge_of(known, c); });
        known.filter([&](std::size_t c) { return !gone[c]; });
    }

    void note_target(std::size_t i) override {
        targets_.resize(n_);
        add_target(i);
        targets_[i] = static_cast<std::uint32_t>(target_);
    }

    void use_interior(double mass) override {
        if (interior_) return;
        interior_ = true;
        outputs_.assign(n_, Outputs());
        oracle_->interior(mass);
    }

    std::size_t n_bytes() const override {
        std::size_t bytes = 0;
        for (const Outputs& known : outputs_) bytes += known.n_bytes();
        return bytes;
    }

  protected:
    friend SteppingBlocks<OracleBlocks>;
    void import(const double* user, double* own) const override { std::copy_n(user, n_weights(), own); }
    void take_noted_target(std::size_t i) { target_ = targets_[i]; }

    Worst find_worst(std::size_t i) {
        Outputs& known = outputs_[i];
        if (known.only_truth() && target_ == 0) return {0, 1, 0, true};
        add_target(i);
        return least_violating(known.size(), [&](std::size_t c) { return known[c].alpha; }, hinges_, target_, worst_);
    }

    void set_change(std::size_t i, Steps kind) {
        add_target(i);
        const Outputs& known = outputs_[i];
        changes_.clear();
        for (std::size_t c = 1; c < known.size(); ++c) {
            double change = 0;
            if (kind != Steps::pairwise) change = kind == Steps::fw ? -known[c].alpha : known[c].alpha;
            if (kind != Steps::away && c == target_) change += 1;
            if (kind != Steps::fw && c == worst_) change -= 1;
            if (change != 0) changes_.emplace_back(c, change);
        }
    }

    double squared_change(std::size_t i) {
        const Outputs& known = outputs_[i];
        double squared = 0;
        for (std::size_t a = 0; a < changes_.size(); ++a) {
            double row = 0;
            for (std::size_t b = 0; b < a; ++b) row += changes_[b].second * known.product(changes_[a].first, changes_[b].first);
            squared += changes_[a].second * (2 * row + changes_[a].second * known.product(changes_[a].first, changes_[a].first));
        }
        return std::max(0.0, squared) * per_block() * per_block();
    }
    void describe(std::size_t i) {
        for (const auto& [c, change] : changes_) {
            const double factor = per_block() * change;
            outputs_[i].for_each_entry(c, [&](std::size_t at, double value) { direction_.add(at, factor * value); });
        }
    }
    void add_change(std::size_t i, double step) {
        const Outputs& known = outputs_[i];
        parts_.begin(known, same_, answer_.psi());
        for (const auto& [c, change] : changes_)
            for (std::size_t r = 0; r < known.n_runs(c); ++r) parts_.number(c, r) += change;
        parts_.add_to(weights_.v.data(), per_block() * step);
    }

    void move_point(std::size_t i, Steps kind, const Plan& plan) {
        Outputs& known = outputs_[i];
        if (!known.only_truth())
            move_alphas(known.size(), [&](std::size_t c) -> double& { return known[c].alpha; }, kind, plan, target_, worst_);
    }

    // In the interior a block has one output, the average of all.
    double tilt(std::size_t i, double temperature) {
        oracle_->tilt(i, weights_.data(), temperature, answer_);
        same_ = 0;
        Outputs& known = outputs_[i];
        known.filter([&](std::size_t c) { return c < 2; });
        set_hinges(known, false);
        target_ = known.add(0, answer_.loss, answer_.psi(), true, scratch_.data());
        changes_.assign({{1, -1.0}, {target_, 1.0}});
        return answer_.loss - answer_.psi().dot(weights_.data()) - mean_;
    }
    void mix(std::size_t i, double step) {
        oracle_->mix(i, step);
        oracle_->average(i, answer_);
        set_average(i);
    }
    bool explicitly(std::size_t) const { return weights_.bounded() || interior_; }

  private:
    // Outputs of a block that are kept one by one if only their average matters: fewer if their features are not sparse.
    std::size_t most_separate() const { return std::clamp<std::size_t>(n_weights() / (answer_.count + 1), 2, 12); }

    double hinge_of(const Outputs& known, std::size_t c) const { return known[c].loss - known.dot(c, weights_.data()); }

    // Hinges of the outputs in use, or of all, and their mean.
    void set_hinges(const Outputs& known, bool all) {
        mean_ = 0;
        hinges_.assign(known.size(), 0.0);
        if (known.only_truth()) return;
        parts_.begin(known, same_, answer_.psi());
        const auto for_wanted = [&](const auto& f) {
            for (std::size_t c = 1; c < known.size(); ++c)
                if (all || known[c].alpha > 0) f(c);
        };
        for_wanted([&](std::size_t c) {
            for (std::size_t r = 0; r < known.n_runs(c); ++r) parts_.number(c, r);
        });
        parts_.set_dots(weights_.data());
        for_wanted([&](std::size_t c) {
            double score = 0;
            for (std::size_t r = 0; r < known.n_runs(c); ++r) score += parts_.number(c, r);
            hinges_[c] = known[c].loss - score;
            mean_ += known[c].alpha * hinges_[c];
        });
    }

    // Below zero by more than rounding, at the present answer.
    bool is_worse_than_truth(double hinge) const {
        double scale = answer_.loss;
        const SparseView psi = answer_.psi();
        for (std::size_t e = 0; e < psi.count; ++e) scale += std::abs(psi.values[e] * weights_.data()[psi.at[e]]);
        return hinge < -1e-9 * scale;
    }

    // Store the target of block i if it is new.
    void add_target(std::size_t i) {
        Outputs& known = outputs_[i];
        if (target_ < known.size()) return;
        make_room(known);
        target_ = known.add(0, answer_.loss, answer_.psi(), false, scratch_.data());
        hinges_.push_back(target_hinge_);
    }

    // Forget outputs that are not in use and, where only their average matters, that which outputs they are.
    void make_room(Outputs& known) {
        if (!keep_idle_) drop(known, [&](std::size_t c) { return c > 0 && known[c].alpha == 0; });
        if (!active_sets_ && known.size() > most_separate()) fold(known);
    }

    // Forget outputs, and their hinges.
    template <class Gone>
    void drop(Outputs& known, const Gone& gone) {
        if (known.only_truth()) return;
        gone_.assign(known.size(), 0);
        bool any = false;
        for (std::size_t c = 0; c < known.size(); ++c) {
            gone_[c] = gone(c);
            any |= gone_[c] != 0;
        }
        if (!any) return;
        std::size_t to = 0;
        for (std::size_t c = 0; c < known.size(); ++c)
            if (!gone_[c]) hinges_[to++] = hinges_[c];
        hinges_.resize(to);
        known.filter([&](std::size_t c) { return !gone_[c]; });
    }

    // Put outputs that came once only, or else the two that count least, into the average that stands for such outputs.
    void fold(Outputs& known) {
        std::vector<std::size_t> order;
        for (std::size_t c = 1; c < known.size(); ++c) order.push_back(c);
        const auto rank = [&](std::size_t c) { return std::make_pair(!known[c].mixed && known[c].used_again, known[c].alpha); };
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
        std::size_t count = 0;
        while (count < order.size() && (count < 2 || !rank(order[count]).first)) ++count;
        order.resize(count);
        double alpha = 0, loss = 0, hinge = 0;
        direction_.clear();
        for (const std::size_t c : order) {
            alpha += known[c].alpha;
            loss += known[c].alpha * known[c].loss;
            hinge += known[c].alpha * hinges_[c];
            known.for_each_entry(c, [&](std::size_t at, double value) { direction_.add(at, known[c].alpha * value); });
        }
        mixed_at_.clear();
        mixed_values_.clear();
        for (const std::uint32_t at : direction_.touched()) {
            mixed_at_.push_back(static_cast<std::int32_t>(at));
            mixed_values_.push_back(direction_[at] / alpha);
        }
        direction_.clear();
        drop(known, [&](std::size_t c) { return std::find(order.begin(), order.end(), c) != order.end(); });
        for (std::size_t c = 1; c < known.size(); ++c) known[c].used_again = false;
        known.add(alpha, loss / alpha, {mixed_at_.data(), mixed_values_.data(), mixed_at_.size()}, true, scratch_.data());
        hinges_.push_back(hinge / alpha);
        folded_ = true;
    }

    // What the oracle answered as the one output of block i.
    void set_average(std::size_t i) {
        oracle_->check_indices(i, answer_);
        Outputs only;
        only.add(1, answer_.loss, answer_.psi(), true, scratch_.data());
        only[0].alpha = 0;
        outputs_[i] = std::move(only);
    }

    std::shared_ptr<Oracle> oracle_;
    Answer answer_;
    bool active_sets_ = false, folded_ = false, interior_ = false;
    bool keep_idle_ = false;  // a memory is in use: only it decides what is forgotten
    std::vector<Outputs> outputs_;
    // The present target: a known output, or the number of known outputs if the answer is new; and what was computed for it.
    std::size_t target_ = 0, worst_ = 0;
    double target_hinge_ = 0, mean_ = 0;
    std::size_t same_ = 0;  // the known output that the oracle's answer is, if it is one
    std::vector<double> hinges_;
    std::vector<std::uint32_t> targets_;
    Parts parts_;
    std::vector<std::pair<std::size_t, double>> changes_;
    std::vector<char> gone_;
    std::vector<std::int32_t> mixed_at_;
    std::vector<double> mixed_values_, scratch_;
};

}  // namespace maxmargin::blocks
