// Data of blocks with a set of labels per sample, and faster blocks for margin rescaling without pairs of labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/blocks.hpp"
#include "core/rows.hpp"
#include "multilabel/label_sets.hpp"
#include "multilabel/set_search.hpp"
#include "surrogates/set_blocks.hpp"
#include "surrogates/set_pool.hpp"

namespace maxmargin::blocks {

// Arrays stay the caller's.
struct LabelSetData {
    Rows x;
    const std::uint8_t* y;  // n x L zeros and ones
    const double* weights;  // what the hinge of every sample counts; null if all count alike
    std::shared_ptr<const structures::LabelGraph> graph;
    SetSurrogate surrogate;

    using Search = SetSearch;
    static constexpr bool kScaled = false;

    Search search() const { return {graph, surrogate}; }
    std::size_t n_labels() const { return graph->n_labels(); }
    std::size_t n_pairs() const { return graph->n_pairs(); }
    template <class Visit>
    void for_beside(std::size_t label, const Visit& visit) const {
        graph->for_beside(label, visit);
    }
    double root(std::size_t) const { return 1; }
    const std::uint8_t* truth(std::size_t i) const { return y + i * n_labels(); }
    double counts(std::size_t i) const { return weights ? weights[i] : 1; }
};

// Labels without pairs under margin rescaling: an SVM for every label. Labels of a sample do not know of each other, and its point is a
// number for each of them, how much of it is turned; the best point of a block is found label by label.
class SeparateSets final : public SteppingBlocks<SeparateSets> {
  public:
    explicit SeparateSets(const LabelSetData& data) : data_(data), stride_(stride_for(data.n_labels())) {
        n_ = data.x.n_rows;
        const std::size_t L = data_.n_labels();
        weights_.resize(data_.x.n_columns * stride_);
        turned_.assign(n_ * L, 0.0);
        squared_.resize(n_);
        for (std::size_t i = 0; i < n_; ++i) squared_[i] = data_.x.dot(i, i);
        score_.resize(stride_), coefficient_.resize(stride_), change_.resize(L), hinge_.resize(L), worst_.resize(L);
        target_.resize(L);
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<SeparateSets>(*this); }
    std::size_t n_weights() const override { return data_.x.n_columns * data_.n_labels() + data_.n_pairs(); }
    void export_weights(double* out) const override {
        for_weights(data_, [&, w = weights_.data()](std::size_t user, std::size_t own) { out[user] = w[own]; });
    }
    void use_active_sets(bool) override {}
    std::size_t queries() const override { return queries_; }
    // Every set is known as soon as it is wanted.
    std::size_t n_known(std::size_t) const override { return 2; }
    bool recalls_fast() const override { return false; }
    Hinges recall(std::size_t i) override { return ask(i); }
    void remember(std::size_t) override {}
    void forget(std::size_t, std::size_t) override {}
    std::size_t n_bytes() const override { return turned_.size() * sizeof(double); }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            std::copy_n(own(i), data_.n_labels(), change_.begin());
            add_change(i, 1);
        }
        weights_.project();
    }
    void shrink(double part) override {
        for (double& turned : turned_) turned *= part;
    }
    double total_loss() const override {
        double total = 0;
        for (std::size_t i = 0; i < n_; ++i)
            for (std::size_t k = 0; k < data_.n_labels(); ++k) total += data_.counts(i) * own(i)[k];
        return total;
    }

    Hinges ask(std::size_t i) override {
        ++queries_;
        score_row(data_.x, i, weights_.data(), stride_, score_.data());
        const std::uint8_t* truth = data_.truth(i);
        const double count = data_.counts(i);
        double target = 0, mean = 0;
        for (std::size_t k = 0; k < data_.n_labels(); ++k) {
            hinge_[k] = count * (1 + (truth[k] ? -score_[k] : score_[k]));
            target_[k] = hinge_[k] > 0;
            target += std::max(0.0, hinge_[k]);
            mean += own(i)[k] * hinge_[k];
            // A maximum overlooks what is not a number.
            if (!std::isfinite(hinge_[k])) mean = NAN;
        }
        return {target, mean, target};
    }
    void note_target(std::size_t i) override {
        targets_.resize(turned_.size());
        std::copy(target_.begin(), target_.end(), targets_.begin() + static_cast<std::ptrdiff_t>(i * target_.size()));
    }

  protected:
    friend SteppingBlocks<SeparateSets>;
    void import(const double* user, double* own) const override {
        for_weights(data_, [&](std::size_t theirs, std::size_t ours) { own[ours] = user[theirs]; });
    }
    void take_noted_target(std::size_t i) { std::copy_n(targets_.begin() + static_cast<std::ptrdiff_t>(i * target_.size()), target_.size(), target_.begin()); }

    // Of the sets that the point can be made of, the least violating one, with the largest share that it can have.
    Worst find_worst(std::size_t i) {
        Worst worst{0, 1, 0, true};
        for (std::size_t k = 0; k < worst_.size(); ++k) {
            const double turned = own(i)[k];
            worst_[k] = turned >= 1 || (turned > 0 && hinge_[k] < 0);
            worst.alpha = std::min(worst.alpha, worst_[k] ? turned : 1 - turned);
            worst.fall += (turned - worst_[k]) * hinge_[k];
            worst.is_target &= (worst_[k] != 0) == (target_[k] != 0);
        }
        worst.rest = 1 - worst.alpha;
        return worst;
    }
    void set_change(std::size_t i, Steps kind) {
        for (std::size_t k = 0; k < change_.size(); ++k) {
            const double turned = own(i)[k], to = target_[k], from = worst_[k];
            change_[k] = kind == Steps::fw ? to - turned : kind == Steps::away ? turned - from : to - from;
        }
    }
    bool set_best_change(std::size_t i, double& rise) {
        const double count = data_.counts(i), bend = count * count * per_block() * squared_[i];
        rise = 0;
        for (std::size_t k = 0; k < change_.size(); ++k) {
            const double turned = own(i)[k];
            const double best = bend > 1e-300 ? std::clamp(turned + hinge_[k] / bend, 0.0, 1.0) : hinge_[k] > 0 ? 1.0 : turned;
            change_[k] = best - turned;
            rise += change_[k] * hinge_[k];
        }
        return true;
    }
    double tilt(std::size_t, double) { throw std::logic_error("sets of labels are not averaged over"); }
    void mix(std::size_t, double) {}

    double squared_change(std::size_t i) {
        double sum = 0;
        for (const double change : change_) sum += change * change;
        const double unit = data_.counts(i) * per_block();
        return unit * unit * squared_[i] * sum;
    }
    void add_change(std::size_t i, double step) {
        const double unit = step * data_.counts(i) * per_block();
        const std::uint8_t* truth = data_.truth(i);
        touched_.clear();
        for (std::size_t k = 0; k < change_.size(); ++k) {
            coefficient_[k] = (truth[k] ? unit : -unit) * change_[k];
            if (change_[k] != 0) touched_.push_back(k);
        }
        if (touched_.size() * 4 > stride_) return add_row(data_.x, i, coefficient_.data(), stride_, weights_.v.data());
        data_.x.for_each(i, [&](std::size_t j, double value) {
            double* at = weights_.v.data() + j * stride_;
            for (const std::size_t k : touched_) at[k] += value * coefficient_[k];
        });
    }
    void describe(std::size_t i) {
        const double unit = data_.counts(i) * per_block();
        const std::uint8_t* truth = data_.truth(i);
        data_.x.for_each(i, [&](std::size_t j, double value) {
            for (std::size_t k = 0; k < change_.size(); ++k)
                if (change_[k] != 0) direction_.add(j * stride_ + k, (truth[k] ? unit : -unit) * change_[k] * value);
        });
    }
    void move_point(std::size_t i, Steps, const Plan& plan) {
        for (std::size_t k = 0; k < change_.size(); ++k) {
            double& turned = turned_[i * change_.size() + k];
            turned = std::clamp(turned + plan.step * change_[k], 0.0, 1.0);
            // A whole step to a corner must get there.
            if (turned < 1e-15 && change_[k] < 0) turned = 0;
            if (turned > 1 - 1e-15 && change_[k] > 0) turned = 1;
        }
    }

  private:
    const double* own(std::size_t i) const { return turned_.data() + i * data_.n_labels(); }

    LabelSetData data_;
    std::size_t stride_, queries_ = 0;
    std::vector<double> turned_, squared_;
    std::vector<char> target_, targets_, worst_;
    std::vector<double> score_, hinge_, change_, coefficient_;
    std::vector<std::size_t> touched_;
};

}  // namespace maxmargin::blocks
