// Blocks whose outputs only the user's compiled function knows; features are sparse vectors.
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

#include "blocks/blocks.hpp"
#include "blocks/outputs.hpp"
#include "blocks/parts.hpp"

namespace maxmargin::blocks {

// The most violating output of a block: writes psi as pairs of an index and a value (an index may come more than once) and
// the loss, and returns the number of pairs. `reals` and `integers` are the user's own data. Documented in docs/native.md.
using Oracle = std::int64_t (*)(const double* reals, const std::int64_t* integers, std::int64_t block, const double* weights,
                                std::int32_t* indices, double* values, double* loss);

struct OracleData {
    Oracle oracle;
    const double* reals;
    const std::int64_t* integers;
    std::size_t n_blocks, n_weights, most_entries;
};

// What the oracle said last, and whether it can be true.
class OracleAnswer {
  public:
    explicit OracleAnswer(const OracleData& data) : data_(data), indices_(data.most_entries + kSlack), values_(data.most_entries + kSlack) {}

    void ask(std::size_t block, const double* weights) {
        loss_ = 0;
        block_ = block;
        const std::int64_t count = data_.oracle(data_.reals, data_.integers, static_cast<std::int64_t>(block), weights,
                                                indices_.data(), values_.data(), &loss_);
        if (count < 0 || static_cast<std::size_t>(count) > data_.most_entries)
            fail("returned " + std::to_string(count) + " entries, but there is room for " + std::to_string(data_.most_entries) + " (max_entries)");
        if (!(loss_ >= 0) || std::isinf(loss_))
            fail("returned the loss " + std::to_string(loss_) + ", but a loss must be finite and not negative");
        count_ = static_cast<std::size_t>(count);
    }
    // Of an answer that is not known to be fine.
    void check_indices() const {
        std::uint32_t highest = 0;
        for (std::size_t e = 0; e < count_; ++e) highest = std::max(highest, static_cast<std::uint32_t>(indices_[e]));
        if (highest < data_.n_weights || count_ == 0) return;
        for (std::size_t e = 0; e < count_; ++e)
            if (indices_[e] < 0 || static_cast<std::size_t>(indices_[e]) >= data_.n_weights)
                fail("returned the index " + std::to_string(indices_[e]) + ", but features are numbered from 0 to " +
                     std::to_string(data_.n_weights - 1));
    }
    void check_hinge(double hinge) const {
        if (!std::isfinite(hinge)) fail("returned features that are not finite, or the weights have grown too large");
    }

    double loss() const { return loss_; }
    SparseView psi() const { return {indices_.data(), values_.data(), count_}; }

  private:
    // A function that writes a little too much is told so, rather than breaking something else.
    static constexpr std::size_t kSlack = 64;

    [[noreturn]] void fail(const std::string& what) const {
        throw std::invalid_argument("the oracle " + what + "; block " + std::to_string(block_));
    }

    OracleData data_;
    std::vector<std::int32_t> indices_;
    std::vector<double> values_;
    double loss_ = 0;
    std::size_t count_ = 0, block_ = 0;
};

class OracleBlocks final : public Blocks {
  public:
    explicit OracleBlocks(const OracleData& data) : data_(data), answer_(data) {
        n_ = data_.n_blocks;
        weights_.resize(data_.n_weights);
        direction_.resize(data_.n_weights);
        scratch_.resize(data_.n_weights);
        outputs_.resize(n_);
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<OracleBlocks>(*this); }
    std::size_t n_weights() const override { return data_.n_weights; }
    void export_weights(double* out) const override { std::copy_n(weights_.data(), data_.n_weights, out); }

    void use_corners(bool wanted) override {
        if (wanted && folded_) {
            outputs_.assign(n_, Outputs());
            folded_ = false;
        }
        corners_ = wanted;
        keep_idle_ = false;
    }
    std::size_t n_known(std::size_t i) const override { return outputs_[i].size(); }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (const Outputs& known : outputs_) {
            if (known.only_truth()) continue;
            for (std::size_t c = 1; c < known.size(); ++c)
                if (known[c].alpha > 0) known.add_to(c, weights_.v.data(), per_block() * known[c].alpha);
        }
        weights_.project();
    }

    void shrink(double part) override {
        for (Outputs& known : outputs_) {
            if (known.only_truth()) continue;
            for (std::size_t c = 0; c < known.size(); ++c) known[c].alpha *= part;
            known[0].alpha += 1 - part;
        }
    }

    double total_loss() const override {
        double total = 0;
        for (const Outputs& known : outputs_) {
            if (known.only_truth()) continue;
            for (std::size_t c = 1; c < known.size(); ++c) total += known[c].alpha * known[c].loss;
        }
        return total;
    }

    Hinges ask(std::size_t i) override {
        Outputs& known = outputs_[i];
        known.prefetch();
        answer_.ask(i, weights_.data());
        target_ = known.find(answer_.loss(), answer_.psi());
        same_ = target_ < known.size() ? target_ : 0;
        set_hinges(known, false);
        if (target_ == known.size()) {
            answer_.check_indices();
            target_hinge_ = answer_.loss() - answer_.psi().dot(weights_.data());
            answer_.check_hinge(target_hinge_);
        } else if (target_ == 0) {
            target_hinge_ = 0;
        } else {
            known[target_].used_again = true;
            if (known[target_].alpha == 0) hinges_[target_] = answer_.loss() - answer_.psi().dot(weights_.data());
            target_hinge_ = hinges_[target_];
        }
        if (target_hinge_ < 0 && is_worse_than_truth()) {
            ++worse_than_truth_;
            target_ = 0;
            target_hinge_ = 0;
        }
        return {target_hinge_, mean_};
    }

    Hinges recall(std::size_t i) override {
        Outputs& known = outputs_[i];
        keep_idle_ = true;
        same_ = 0;
        set_hinges(known, true);
        target_ = static_cast<std::size_t>(std::max_element(hinges_.begin(), hinges_.end()) - hinges_.begin());
        target_hinge_ = hinges_[target_];
        return {target_hinge_, mean_};
    }

    double step(std::size_t i, Steps steps) override {
        Outputs& known = outputs_[i];
        const double rise = target_hinge_ - mean_;
        if (steps == Steps::fw && !(rise > 0)) return 0;
        if (known.only_truth() && target_ == 0) return 0;
        add_target(i);
        std::size_t worst = 0;
        if (steps != Steps::fw) {
            worst = known.size();
            for (std::size_t c = 0; c < known.size(); ++c)
                if (known[c].alpha > 0 && (worst == known.size() || hinges_[c] < hinges_[worst])) worst = c;
        }
        Move best{};
        bool any = false;
        const auto try_ = [&](Steps kind, double slope, double largest) {
            const Move move{kind, worst, plan(known, kind, worst, slope / static_cast<double>(n_), largest)};
            if (!any || move.plan.gain > best.plan.gain) best = move;
            any = true;
        };
        if (steps != Steps::pairwise) try_(Steps::fw, rise, 1);
        const double fall = mean_ - hinges_[worst], alpha = known[worst].alpha;
        if ((steps == Steps::away || steps == Steps::all) && alpha < 1) try_(Steps::away, fall, alpha / (1 - alpha));
        if ((steps == Steps::pairwise || steps == Steps::all) && worst != target_) try_(Steps::pairwise, rise + fall, alpha);
        if (!any || best.plan.step == 0) return 0;
        if (weights_.bounded()) {
            set_direction(known, best.kind, worst);
            weights_.move(direction_, best.plan.step);
        } else {
            move_weights(known, best);
        }
        move_alpha(known, best);
        return best.plan.gain;
    }

    void remember(std::size_t i) override {
        keep_idle_ = true;
        if (corners_) add_target(i);
    }

    void forget(std::size_t i, std::size_t most) override {
        Outputs& known = outputs_[i];
        keep_idle_ = true;
        if (!corners_ || known.size() <= most) return;
        // Of those not in use, the least violating go first; the truth stays.
        std::vector<std::pair<double, std::size_t>> idle;
        for (std::size_t c = 1; c < known.size(); ++c)
            if (known[c].alpha == 0) idle.emplace_back(hinge_of(known, c), c);
        std::sort(idle.begin(), idle.end());
        idle.resize(std::min(idle.size(), known.size() - most));
        if (idle.empty()) return;
        std::vector<char> gone(known.size());
        for (const auto& [hinge, c] : idle) gone[c] = 1;
        known.filter([&](std::size_t c) { return !gone[c]; });
    }

    void note_target(std::size_t i) override {
        targets_.resize(n_);
        add_target(i);
        targets_[i] = static_cast<std::uint32_t>(target_);
    }

    double step_all(double slope) override {
        direction_.clear();
        for (std::size_t i = 0; i < n_; ++i) {
            target_ = targets_[i];
            add_direction(outputs_[i], Steps::fw, 0);
        }
        const Move move{Steps::fw, 0, weights_.plan(direction_, slope, lambda_, 1)};
        for (std::size_t i = 0; i < n_; ++i) {
            target_ = targets_[i];
            move_alpha(outputs_[i], move);
        }
        refresh();
        return move.plan.gain;
    }

    std::size_t n_bytes() const override {
        std::size_t bytes = 0;
        for (const Outputs& known : outputs_) bytes += known.n_bytes();
        return bytes;
    }

  protected:
    void import(const double* user, double* own) const override { std::copy_n(user, data_.n_weights, own); }

  private:
    // Outputs of a block that are kept one by one if only their average matters.
    static constexpr std::size_t kSeparate = 12;

    // Toward the target, away from the worst output, or from the worst to the target.
    struct Move {
        Steps kind;
        std::size_t worst;
        Plan plan;
    };

    // What one block's features count in the weights.
    double per_block() const { return 1 / (lambda_ * static_cast<double>(n_)); }

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

    // Without bounds.
    void move_weights(const Outputs& known, const Move& move) {
        parts_.begin(known, same_, answer_.psi());
        for_each_change(known, move.kind, move.worst, [&](std::size_t c, double change) {
            for (std::size_t r = 0; r < known.n_runs(c); ++r) parts_.number(c, r) += change;
        });
        parts_.add_to(weights_.v.data(), per_block() * move.plan.step);
    }

    // A hinge below zero by more than rounding.
    bool is_worse_than_truth() const {
        double scale = answer_.loss();
        const SparseView psi = answer_.psi();
        for (std::size_t e = 0; e < psi.count; ++e) scale += std::abs(psi.values[e] * weights_.data()[psi.at[e]]);
        return target_hinge_ < -1e-9 * scale;
    }

    // Store the target of block i if it is new.
    void add_target(std::size_t i) {
        Outputs& known = outputs_[i];
        if (target_ < known.size()) return;
        if (!keep_idle_) drop(known, [&](std::size_t c) { return c > 0 && known[c].alpha == 0; });
        if (!corners_ && known.size() > kSeparate) fold(known);
        target_ = known.add(0, answer_.loss(), answer_.psi(), false, scratch_.data());
        hinges_.push_back(target_hinge_);
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

    // f(output, change of its dual weight for a step of length one)
    template <class F>
    void for_each_change(const Outputs& known, Steps kind, std::size_t worst, const F& f) const {
        if (known.only_truth()) return;
        for (std::size_t c = 1; c < known.size(); ++c) {
            double change = 0;
            if (kind != Steps::pairwise) change = kind == Steps::fw ? -known[c].alpha : known[c].alpha;
            if (kind != Steps::away && c == target_) change += 1;
            if (kind != Steps::fw && c == worst) change -= 1;
            if (change != 0) f(c, change);
        }
    }

    void add_direction(const Outputs& known, Steps kind, std::size_t worst) {
        for_each_change(known, kind, worst, [&](std::size_t c, double change) {
            known.for_each_entry(c, [&](std::size_t at, double value) { direction_.add(at, per_block() * change * value); });
        });
    }
    void set_direction(const Outputs& known, Steps kind, std::size_t worst) {
        direction_.clear();
        add_direction(known, kind, worst);
    }

    Plan plan(const Outputs& known, Steps kind, std::size_t worst, double slope, double largest) {
        if (!(slope > 0)) return {};
        if (weights_.bounded()) {
            set_direction(known, kind, worst);
            return weights_.plan(direction_, slope, lambda_, largest);
        }
        changes_.clear();
        for_each_change(known, kind, worst, [&](std::size_t c, double change) { changes_.emplace_back(c, change); });
        double squared = 0;
        for (std::size_t a = 0; a < changes_.size(); ++a) {
            double row = 0;
            for (std::size_t b = 0; b < a; ++b) row += changes_[b].second * known.product(changes_[a].first, changes_[b].first);
            squared += changes_[a].second * (2 * row + changes_[a].second * known.product(changes_[a].first, changes_[a].first));
        }
        return plan_quadratic(slope, std::max(0.0, squared) * per_block() * per_block(), lambda_, largest);
    }

    void move_alpha(Outputs& known, const Move& move) const {
        if (known.only_truth()) return;
        const double step = move.plan.step;
        for (std::size_t c = 0; c < known.size(); ++c) {
            double& alpha = known[c].alpha;
            if (move.kind != Steps::pairwise) alpha *= move.kind == Steps::fw ? 1 - step : 1 + step;
            if (move.kind != Steps::away && c == target_) alpha += step;
            if (move.kind != Steps::fw && c == move.worst) alpha = move.plan.full ? 0 : alpha - step;
        }
        double sum = 0;
        for (std::size_t c = 0; c < known.size(); ++c) sum += known[c].alpha = std::max(0.0, known[c].alpha);
        for (std::size_t c = 0; c < known.size(); ++c) known[c].alpha /= sum;
    }

    OracleData data_;
    OracleAnswer answer_;
    bool corners_ = false, folded_ = false;
    bool keep_idle_ = false;  // a memory is in use: only it decides what is forgotten
    std::vector<Outputs> outputs_;
    // The present target: a known output, or the number of known outputs if the answer is new; and what was computed for it.
    std::size_t target_ = 0;
    double target_hinge_ = 0, mean_ = 0;
    std::size_t same_ = 0;  // the known output that the oracle's answer is, if it is one
    std::vector<double> hinges_;
    std::vector<std::uint32_t> targets_;
    Parts parts_;
    std::vector<std::pair<std::size_t, double>> changes_;
    std::vector<char> gone_;
    std::vector<std::int32_t> mixed_at_;
    std::vector<double> mixed_values_, scratch_;
    Direction direction_;
};

}  // namespace maxmargin::blocks
