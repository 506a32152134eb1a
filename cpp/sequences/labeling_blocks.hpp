// Blocks of labels for the engine: scores of the labels at the present weights, the best labeling, and the labelings in use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/blocks.hpp"
#include "sequences/labelings.hpp"
#include "sequences/part_marginals.hpp"
#include "sequences/tree_tilt.hpp"

namespace maxmargin::blocks {

class LabelingBlocks final : public SteppingBlocks<LabelingBlocks> {
  public:
    using Label = std::uint16_t;
    static constexpr std::size_t kMostLabels = 65535;

    explicit LabelingBlocks(const LabelingData& data) : data_(data), at_(data), point_(data), decoder_(data), tilted_(data) {
        n_ = data_.n_blocks;
        weights_.resize(at_.size());
        std::size_t longest = 0;
        for (std::size_t i = 0; i < n_; ++i) longest = std::max(longest, data_.length(i));
        score_.resize(longest * data_.n_labels + at_.stride);
        target_.resize(longest);
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<LabelingBlocks>(*this); }
    std::size_t n_weights() const override { return at_.user_size(); }
    void export_weights(double* out) const override { at_.exchange(weights_.data(), out, true); }
    std::size_t n_known(std::size_t i) const override { return active_.empty() ? 1 : active_[i].alpha.size(); }

    void use_active_sets(bool wanted) override {
        if (wanted && active_.empty()) {
            active_.resize(n_);
            for (std::size_t i = 0; i < n_; ++i) {
                active_[i].alpha.assign(1, 1.0);
                active_[i].labels.assign(data_.truth(i), data_.truth(i) + data_.length(i));
            }
            point_.reset();
        } else if (!wanted) {
            active_.clear();
            active_.shrink_to_fit();
        }
    }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            if (active_.empty()) point_.normalise(i);
            else average_active(i);
            point_.set_change_from_truth(i);
            add_change(i, 1);
        }
        weights_.project();
        weights_replaced();
    }

    void shrink(double part) override {
        for (Active& active : active_) {
            for (double& alpha : active.alpha) alpha *= part;
            active.alpha[0] += 1 - part;
        }
        point_.shrink(part);
        tilted_.shrink(part);
    }

    double total_loss() const override {
        double total = 0;
        for (std::size_t i = 0; i < n_; ++i) total += point_.loss(i);
        return total;
    }

    std::size_t n_bytes() const override {
        std::size_t bytes = point_.n_bytes() + tilted_.n_bytes();
        for (const Active& active : active_)
            bytes += sizeof active + active.alpha.capacity() * sizeof(double) + active.labels.capacity() * sizeof(Label);
        return bytes;
    }

    Hinges ask(std::size_t i) override {
        score(i);
        slot_ = kNone;
        decoder_.best(i, score_.data(), table(), target_.data());
        double target = score_of(i, target_.data());
        if (!decoder_.exact() && target < truth_score_ && truth_score_ - target > 1e-9 * (std::abs(target) + std::abs(truth_score_))) {
            // Worse than the truth: not the best.
            ++worse_than_truth_;
            std::copy_n(data_.truth(i), data_.length(i), target_.begin());
            target = truth_score_;
        }
        return hinges(i, target);
    }

    Hinges recall(std::size_t i) override {
        score(i);
        score_active(i);
        slot_ = static_cast<std::size_t>(std::max_element(active_score_.begin(), active_score_.end()) - active_score_.begin());
        std::copy_n(labels_of(i, slot_), data_.length(i), target_.begin());
        return hinges(i, active_score_[slot_]);
    }

    void remember(std::size_t i) override {
        if (!active_.empty()) find_slot(i);
    }

    void forget(std::size_t i, std::size_t most) override {
        if (active_.empty() || active_[i].alpha.size() <= most) return;
        Active& active = active_[i];
        const std::size_t L = data_.length(i);
        score_active(i);
        const auto gone = superfluous(active.alpha.size(), most, [&](std::size_t c) { return active.alpha[c]; },
                                      [&](std::size_t c) { return active_score_[c]; });
        std::size_t to = 0;
        for (std::size_t c = 0; c < gone.size(); ++c) {
            if (gone[c]) continue;
            active.alpha[to] = active.alpha[c];
            std::copy_n(labels_of(i, c), L, active.labels.begin() + static_cast<std::ptrdiff_t>(L * to++));
        }
        active.alpha.resize(to);
        active.labels.resize(to * L);
    }

    void note_target(std::size_t i) override {
        targets_.resize(data_.x.n_rows);
        std::copy_n(target_.begin(), data_.length(i), targets_.begin() + static_cast<std::ptrdiff_t>(data_.first(i)));
    }

    void use_interior(double mass) override {
        if (tilted_.in_use()) return;
        tilted_.start(point_.nodes(0), mass);
        for (std::size_t i = 0; i < n_; ++i) point_.set_pairs(i, tilted_.edges(i));
    }

  protected:
    friend SteppingBlocks<LabelingBlocks>;
    void import(const double* user, double* own) const override { at_.exchange(user, own, false); }
    void weights_replaced() {
        for (std::size_t p = 0; p < data_.n_labels * data_.n_labels; ++p) decoder_.table_moved(table(), p);
    }
    void take_noted_target(std::size_t i) {
        slot_ = kNone;
        std::copy_n(targets_.begin() + static_cast<std::ptrdiff_t>(data_.first(i)), data_.length(i), target_.begin());
    }

    Worst find_worst(std::size_t i) {
        find_slot(i);
        score_active(i);
        const auto& alpha = active_[i].alpha;
        return least_violating(alpha.size(), [&](std::size_t c) { return alpha[c]; }, active_score_, slot_, worst_);
    }

    void set_change(std::size_t i, Steps kind) {
        if (!active_.empty()) find_slot(i);
        const std::int32_t *none = nullptr, *to = target_.data();
        if (kind == Steps::fw) return point_.set_change(i, to, none, -1);
        away_.assign(labels_of(i, worst_), labels_of(i, worst_) + data_.length(i));
        if (kind == Steps::away) point_.set_change(i, none, static_cast<const std::int32_t*>(away_.data()), 1);
        else point_.set_change(i, to, static_cast<const std::int32_t*>(away_.data()), 0);
    }

    double tilt(std::size_t i, double temperature) {
        score(i);
        if (temperature == 0) {
            decoder_.best(i, score_.data(), table(), target_.data());
            tilted_.set_vertex(i, target_.data());
        } else {
            tilted_.tilt(i, point_.nodes(i), decoder_.forest(i, score_.data(), table()), temperature);
        }
        point_.set_change_to(i, tilted_.node.data(), tilted_.edge.data());
        return point_.rise(score_.data(), table());
    }
    void mix(std::size_t i, double step) {
        tilted_.mix(i, point_.nodes(i), step);
        point_.move_pairs(i, step);
    }

    bool explicitly(std::size_t i) const { return weights_.bounded() || !point_.has_gram(i); }
    double squared_change(std::size_t i) { return point_.squared_change(i) * per_block() * per_block(); }
    void describe(std::size_t i) { point_.describe(i, -per_block(), direction_); }
    void add_change(std::size_t i, double step) { point_.add(i, -step * per_block(), weights_.v.data()); }
    void weights_moved() {
        for (const std::uint32_t p : point_.touched_pairs()) decoder_.table_moved(table(), p);
    }

    void move_point(std::size_t i, Steps kind, const Plan& plan) {
        point_.move(i, plan.step);
        if (active_.empty()) return;
        auto& alpha = active_[i].alpha;
        move_alphas(alpha.size(), [&](std::size_t c) -> double& { return alpha[c]; }, kind, plan, slot_, worst_);
    }

  private:
    // The labelings in use or remembered, L labels each, and their shares in the point; the truth is the first.
    struct Active {
        std::vector<double> alpha;
        std::vector<Label> labels;
    };
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    const double* table() const { return weights_.data() + at_.table; }
    const Label* labels_of(std::size_t i, std::size_t c) const { return active_[i].labels.data() + c * data_.length(i); }

    // Scores of all labels at the present weights, losses included.
    void score(std::size_t i) {
        const std::size_t K = data_.n_labels, L = data_.length(i), first = data_.first(i);
        const double* w = weights_.data();
        // Blocks come in random order: what the step will need is on its way while the scores are formed.
        point_.prefetch(i);
        for (std::size_t t = 0; t < L; ++t) score_row(data_.x, first + t, w, at_.stride, score_.data() + t * K);
        for (std::size_t t = 0; t < L; ++t) {
            double* row = score_.data() + t * K;
            const double cost = data_.cost[first + t];
            const std::int32_t y = data_.y[first + t];
            const double own = row[y];
            for (std::size_t k = 0; k < K; ++k) row[k] += cost;
            row[y] = own;
            if (data_.is_root(i, t))
                for (std::size_t k = 0; k < K; ++k) row[k] += w[at_.root + k];
            if (point_.is_leaf(i, t))
                for (std::size_t k = 0; k < K; ++k) row[k] += w[at_.leaf + k];
        }
        truth_score_ = score_of(i, data_.truth(i));
    }

    Hinges hinges(std::size_t i, double target) const {
        const double hinge = target - truth_score_;
        return {hinge, point_.score(i, score_.data(), table()) - truth_score_, hinge};
    }

    template <class AnyLabel>
    double score_of(std::size_t i, const AnyLabel* labels) const {
        double sum = 0;
        const double *pairs = table(), *row = score_.data();
        const std::size_t L = data_.length(i);
        for (std::size_t t = 0; t < L; ++t, row += data_.n_labels) {
            sum += row[static_cast<std::size_t>(labels[t])];
            if (const std::int64_t p = data_.parent_of(i, t); p >= 0) sum += pairs[data_.pair(labels[p], labels[t])];
        }
        return sum;
    }

    void score_active(std::size_t i) {
        active_score_.resize(active_[i].alpha.size());
        for (std::size_t c = 0; c < active_score_.size(); ++c) active_score_[c] = score_of(i, labels_of(i, c));
    }

    // Where the target is among the labelings known; it is one of them from now on.
    void find_slot(std::size_t i) {
        Active& active = active_[i];
        const std::size_t L = data_.length(i), m = active.alpha.size();
        if (slot_ < m) return;
        const auto end = target_.begin() + static_cast<std::ptrdiff_t>(L);
        for (slot_ = 0; slot_ < m; ++slot_)
            if (std::equal(target_.begin(), end, labels_of(i, slot_))) return;
        active.alpha.push_back(0);
        active.labels.insert(active.labels.end(), target_.begin(), end);
    }

    void average_active(std::size_t i) {
        point_.begin(i);
        for (std::size_t c = 0; c < active_[i].alpha.size(); ++c)
            if (active_[i].alpha[c] > 0) point_.add_labeling(i, labels_of(i, c), active_[i].alpha[c]);
        point_.end(i);
    }

    LabelingData data_;
    LabelLayout at_;
    PartMarginals point_;
    LabelDecoder decoder_;
    TreeTilt tilted_;
    std::vector<Active> active_;  // of each block, or none at all
    // Scratch of one block.
    std::vector<double> score_, active_score_;
    double truth_score_ = 0;
    std::vector<std::int32_t> target_, targets_, away_;
    std::size_t slot_ = kNone, worst_ = 0;  // of the target and of the worst labeling, among those known
};

}  // namespace maxmargin::blocks
