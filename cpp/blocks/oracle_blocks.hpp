// Blocks whose outputs only the user's compiled function knows; features are sparse vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "blocks/blocks.hpp"

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

class OracleBlocks final : public Blocks {
  public:
    struct Entry {
        double value;
        std::uint32_t at;
        bool operator==(const Entry& other) const { return at == other.at && value == other.value; }
    };
    struct Output {
        double alpha = 0, loss = 0;
        std::vector<Entry> psi;
    };

    explicit OracleBlocks(const OracleData& data) : data_(data) {
        n_ = data_.n_blocks;
        weights_.resize(data_.n_weights);
        direction_.resize(data_.n_weights);
        outputs_.resize(n_);
        indices_.resize(data_.most_entries);
        values_.resize(data_.most_entries);
        reset();
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<OracleBlocks>(*this); }
    std::size_t n_weights() const override { return data_.n_weights; }
    void export_weights(double* out) const override { std::copy_n(weights_.data(), data_.n_weights, out); }

    // Without corners a block has one entry in its list, its present point; with them, the truth and all remembered outputs.
    void use_corners(bool wanted) override {
        if (wanted && !corners_) reset();
        if (!wanted && corners_)
            for (auto& outputs : outputs_) {
                Output point = average(outputs);
                outputs.assign(1, std::move(point));
            }
        corners_ = wanted;
    }
    std::size_t n_known(std::size_t i) const override { return outputs_[i].size(); }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        const double scale = 1 / (lambda_ * static_cast<double>(n_));
        for (const auto& outputs : outputs_)
            for (const Output& output : outputs)
                for (const Entry& e : output.psi) weights_.v[e.at] += scale * output.alpha * e.value;
        weights_.project();
    }

    double total_loss() const override {
        double total = 0;
        for (const auto& outputs : outputs_)
            for (const Output& output : outputs) total += output.alpha * output.loss;
        return total;
    }

    Hinges ask(std::size_t i) override {
        call(i);
        const double hinge = hinge_of(target_);
        if (std::isnan(hinge) || std::isinf(hinge))
            throw std::invalid_argument("the oracle returned an output whose score or loss is not finite, for block " + std::to_string(i));
        double scale = target_.loss;
        for (const Entry& e : target_.psi) scale += std::abs(e.value * weights_.data()[e.at]);
        if (hinge < 0 && hinge < -1e-9 * scale) {
            ++worse_than_truth_;
            target_.loss = 0;
            target_.psi.clear();
            return {0, mean_hinge(i)};
        }
        return {hinge, mean_hinge(i)};
    }

    // The target becomes a copy of the best output known.
    Hinges recall(std::size_t i) override {
        const Output* best = nullptr;
        double highest = 0;
        for (const Output& output : outputs_[i]) {
            const double hinge = hinge_of(output);
            if (!best || hinge > highest) best = &output, highest = hinge;
        }
        target_ = *best;
        return {highest, mean_hinge(i)};
    }

    double step(std::size_t i, Steps steps) override {
        auto& outputs = outputs_[i];
        if (!corners_) {
            const double rise = hinge_of(target_) - mean_hinge(i);
            const Plan plan = plan_move(outputs, Steps::fw, target_, target_, rise);
            if (plan.step == 0) return 0;
            weights_.move(direction_, plan.step);
            Output& point = outputs[0];
            point.loss += plan.step * (target_.loss - point.loss);
            // The direction covers the point and the target: read the new point off it.
            const double scale = lambda_ * static_cast<double>(n_) * plan.step;
            for (Entry& e : point.psi) e.value += scale * direction_.take(e.at);
            for (const std::uint32_t at : direction_.touched())
                if (const double left = direction_.take(at); left != 0) point.psi.push_back({scale * left, at});
            return plan.gain;
        }
        const std::size_t slot = add_known(i);
        hinges_.resize(outputs.size());
        std::size_t worst = outputs.size();
        double mean = 0;
        for (std::size_t c = 0; c < outputs.size(); ++c) {
            hinges_[c] = hinge_of(outputs[c]);
            mean += outputs[c].alpha * hinges_[c];
            if (outputs[c].alpha > 0 && (worst == outputs.size() || hinges_[c] < hinges_[worst])) worst = c;
        }
        Steps kind = Steps::fw, last = Steps::exact;
        Plan best;
        const auto try_ = [&](Steps move, double rise) {
            const Plan plan = plan_move(outputs, move, outputs[slot], outputs[worst], rise);
            if (last == Steps::exact || plan.gain > best.gain) best = plan, kind = move;
            last = move;
        };
        const double rise_fw = hinges_[slot] - mean, rise_away = mean - hinges_[worst];
        if (steps != Steps::pairwise) try_(Steps::fw, rise_fw);
        if ((steps == Steps::away || steps == Steps::all) && outputs[worst].alpha < 1) try_(Steps::away, rise_away);
        if ((steps == Steps::pairwise || steps == Steps::all) && worst != slot) try_(Steps::pairwise, rise_fw + rise_away);
        if (best.step == 0) return 0;
        if (kind != last) plan_move(outputs, kind, outputs[slot], outputs[worst], 1);
        move_alpha(outputs, kind, slot, worst, best);
        weights_.move(direction_, best.step);
        return best.gain;
    }

    void remember(std::size_t i) override {
        if (corners_) add_known(i);
    }

    void forget(std::size_t i, std::size_t most) override {
        auto& outputs = outputs_[i];
        if (!corners_ || outputs.size() <= most) return;
        // Of those not in use, the least violating go first; the truth stays.
        std::vector<std::pair<double, std::size_t>> idle;
        for (std::size_t c = 1; c < outputs.size(); ++c)
            if (outputs[c].alpha == 0) idle.emplace_back(hinge_of(outputs[c]), c);
        std::sort(idle.begin(), idle.end());
        idle.resize(std::min(idle.size(), outputs.size() - most));
        std::vector<char> gone(outputs.size());
        for (const auto& [hinge, c] : idle) gone[c] = 1;
        std::size_t to = 0;
        for (std::size_t c = 0; c < outputs.size(); ++c)
            if (!gone[c]) {
                if (to != c) outputs[to] = std::move(outputs[c]);
                ++to;
            }
        outputs.resize(to);
    }

    void note_target(std::size_t i) override {
        targets_.resize(n_);
        targets_[i] = target_;
    }

    double step_all(double slope) override {
        const double scale = 1 / (lambda_ * static_cast<double>(n_));
        direction_.clear();
        for (std::size_t i = 0; i < n_; ++i) {
            for (const Entry& e : targets_[i].psi) direction_.add(e.at, scale * e.value);
            for (const Output& output : outputs_[i])
                for (const Entry& e : output.psi) direction_.add(e.at, -scale * output.alpha * e.value);
        }
        const Plan plan = weights_.plan(direction_, slope, lambda_, 1);
        for (std::size_t i = 0; i < n_; ++i) {
            target_ = targets_[i];
            if (corners_) {
                move_alpha(outputs_[i], Steps::fw, add_known(i), 0, plan);
                continue;
            }
            std::vector<Output> both = {outputs_[i][0], target_};
            both[0].alpha = 1 - plan.step;
            both[1].alpha = plan.step;
            outputs_[i][0] = average(both);
        }
        refresh();
        return plan.gain;
    }

    std::size_t n_bytes() const override {
        std::size_t bytes = 0;
        for (const auto& outputs : outputs_)
            for (const Output& output : outputs) bytes += sizeof output + output.psi.capacity() * sizeof(Entry);
        return bytes;
    }

    // One call for code outside the loop: loss and features of the most violating output at these weights.
    double answer(std::size_t i, const double* weights, double* psi) {
        call(i, weights);
        for (const Entry& e : target_.psi) psi[e.at] += e.value;
        return target_.loss;
    }

  protected:
    void import(const double* user, double* own) const override { std::copy_n(user, data_.n_weights, own); }

  private:
    void reset() {
        for (auto& outputs : outputs_) {
            outputs.assign(1, Output{});
            outputs[0].alpha = 1;
        }
    }

    void call(std::size_t i, const double* weights = nullptr) {
        double loss = 0;
        const std::int64_t count = data_.oracle(data_.reals, data_.integers, static_cast<std::int64_t>(i),
                                                weights ? weights : weights_.data(), indices_.data(), values_.data(), &loss);
        const std::string where = ", for block " + std::to_string(i);
        if (count < 0 || static_cast<std::size_t>(count) > data_.most_entries)
            throw std::invalid_argument("the oracle returned " + std::to_string(count) + " entries, but there is room for " +
                                        std::to_string(data_.most_entries) + where);
        if (!(loss >= 0)) throw std::invalid_argument("the oracle returned the loss " + std::to_string(loss) + ", which must not be negative or NaN" + where);
        target_.loss = loss;
        target_.psi.clear();
        for (std::size_t e = 0; e < static_cast<std::size_t>(count); ++e) {
            if (indices_[e] < 0 || static_cast<std::size_t>(indices_[e]) >= data_.n_weights)
                throw std::invalid_argument("the oracle returned the index " + std::to_string(indices_[e]) + " of " +
                                            std::to_string(data_.n_weights) + " features" + where);
            if (values_[e] != 0) target_.psi.push_back({values_[e], static_cast<std::uint32_t>(indices_[e])});
        }
    }

    double hinge_of(const Output& output) const {
        const double* w = weights_.data();
        double sum = 0;
        for (const Entry& e : output.psi) sum += e.value * w[e.at];
        return output.loss - sum;
    }
    double mean_hinge(std::size_t i) const {
        double sum = 0;
        for (const Output& output : outputs_[i])
            if (output.alpha > 0) sum += output.alpha * hinge_of(output);
        return sum;
    }

    Output average(const std::vector<Output>& outputs) {
        Output point;
        point.alpha = 1;
        direction_.clear();
        for (const Output& output : outputs) {
            point.loss += output.alpha * output.loss;
            for (const Entry& e : output.psi) direction_.add(e.at, output.alpha * e.value);
        }
        for (const std::uint32_t at : direction_.touched())
            if (direction_[at] != 0) point.psi.push_back({direction_[at], at});
        direction_.clear();
        return point;
    }

    std::size_t add_known(std::size_t i) {
        auto& outputs = outputs_[i];
        for (std::size_t c = 0; c < outputs.size(); ++c)
            if (outputs[c].loss == target_.loss && outputs[c].psi == target_.psi) return c;
        outputs.push_back(target_);
        outputs.back().alpha = 0;
        return outputs.size() - 1;
    }

    Plan plan_move(const std::vector<Output>& outputs, Steps move, const Output& target, const Output& worst, double rise) {
        const double scale = 1 / (lambda_ * static_cast<double>(n_));
        direction_.clear();
        const auto add = [&](const Output& output, double factor) {
            for (const Entry& e : output.psi) direction_.add(e.at, scale * factor * e.value);
        };
        double largest = 1;
        if (move != Steps::away) add(target, 1);
        if (move != Steps::fw) add(worst, -1);
        if (move != Steps::pairwise)
            for (const Output& output : outputs)
                if (output.alpha > 0) add(output, move == Steps::fw ? -output.alpha : output.alpha);
        if (move == Steps::pairwise) largest = worst.alpha;
        if (move == Steps::away) largest = worst.alpha / (1 - worst.alpha);
        return weights_.plan(direction_, rise / static_cast<double>(n_), lambda_, largest);
    }

    static void move_alpha(std::vector<Output>& outputs, Steps kind, std::size_t slot, std::size_t worst, const Plan& plan) {
        if (kind != Steps::pairwise)
            for (Output& output : outputs) output.alpha *= kind == Steps::fw ? 1 - plan.step : 1 + plan.step;
        if (kind != Steps::away) outputs[slot].alpha += plan.step;
        if (kind != Steps::fw) outputs[worst].alpha = plan.full ? 0 : outputs[worst].alpha - plan.step;
        double sum = 0;
        for (Output& output : outputs) sum += output.alpha = std::max(0.0, output.alpha);
        for (Output& output : outputs) output.alpha /= sum;
    }

    OracleData data_;
    bool corners_ = false;
    std::vector<std::vector<Output>> outputs_;
    Output target_;
    std::vector<Output> targets_;
    std::vector<std::int32_t> indices_;
    std::vector<double> values_, hinges_;
    Direction direction_;
};

}  // namespace maxmargin::blocks
