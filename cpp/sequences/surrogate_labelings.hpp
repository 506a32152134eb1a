// Blocks of labels for the engine under a surrogate other than margin rescaling.
//
// A cut of labeling y is a h(y) + b: the point of a block is a mixture in which y counts a times and the truth 1 - a times, so
// marginals and inner products stay those of PartMarginals, and losses b are kept apart. Where psi is affine in h, a labeling has one
// cut; elsewhere it has tangents, and what is remembered are labelings with their (a, b).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/blocks.hpp"
#include "sequences/label_search.hpp"
#include "sequences/labelings.hpp"
#include "sequences/part_marginals.hpp"

namespace maxmargin::blocks {

class SurrogateLabelings final : public SteppingBlocks<SurrogateLabelings> {
  public:
    SurrogateLabelings(const LabelingData& data, const LabelSurrogate& surrogate)
        : data_(data), at_(data), affine_(surrogate.psi.affine()), point_(data, true), search_(data, surrogate) {
        n_ = data_.n_blocks;
        weights_.resize(at_.size());
        loss_.assign(n_, 0.0);
        std::size_t longest = 0;
        for (std::size_t i = 0; i < n_; ++i) longest = std::max(longest, data_.length(i));
        target_.resize(longest);
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<SurrogateLabelings>(*this); }
    std::size_t n_weights() const override { return at_.user_size(); }
    void export_weights(double* out) const override { at_.exchange(weights_.data(), out, true); }
    std::size_t n_known(std::size_t i) const override { return active_.empty() ? 1 : active_[i].alpha.size(); }
    std::size_t queries() const override { return search_.queries(); }

    void use_active_sets(bool wanted) override {
        if (wanted && active_.empty()) {
            active_.resize(n_);
            for (std::size_t i = 0; i < n_; ++i) {
                active_[i].alpha.assign(1, 1.0);
                active_[i].cuts.assign(1, {});
                active_[i].labels.assign(data_.truth(i), data_.truth(i) + data_.length(i));
            }
            point_.reset();
            std::fill(loss_.begin(), loss_.end(), 0.0);
        } else if (!wanted) {
            active_.clear();
            active_.shrink_to_fit();
        }
    }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            if (active_.empty()) point_.complete(i);
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
        for (double& loss : loss_) loss *= part;
    }

    double total_loss() const override {
        double total = 0;
        for (const double loss : loss_) total += loss;
        return total;
    }

    std::size_t n_bytes() const override {
        std::size_t bytes = point_.n_bytes() + search_.n_bytes() + loss_.size() * sizeof(double);
        for (const Active& active : active_)
            bytes += sizeof active + active.alpha.capacity() * sizeof(double) + active.cuts.capacity() * sizeof(LabelCut) +
                     active.labels.capacity() * sizeof(Label);
        return bytes;
    }

    // Steps need a violating labeling, a gap needs the proof that there is none above it.
    void announce(std::size_t first, std::size_t last) override { proving_ = last > first; }

    Hinges ask(std::size_t i) override {
        begin(i);
        slot_ = kNone;
        for (std::size_t c = 1; c < margins_.size(); ++c) search_.suggest(i, labels_of(i, c));
        const auto found = search_.find(i, proving_, target_.data());
        const double h = search_.margin(i, target_.data());
        cut_ = search_.cut(i, target_.data(), h);
        const double hinge = cut_.a * h + cut_.b;
        return {hinge, mean(i), std::max(hinge, found.bound)};
    }

    Hinges recall(std::size_t i) override {
        begin(i);
        slot_ = 0;
        for (std::size_t c = 1; c < margins_.size(); ++c)
            if (hinges_[c] > hinges_[slot_]) slot_ = c;
        std::copy_n(labels_of(i, slot_), data_.length(i), target_.begin());
        cut_ = active_[i].cuts[slot_];
        double hinge = hinges_[slot_];
        const double average = mean(i);
        if (!affine_ && slot_ > 0) {
            // The tangent where it is now is nowhere below the one remembered; it is worth remembering too if it gains much.
            const LabelCut now = search_.cut(i, target_.data(), margins_[slot_]);
            const double value = now.a * margins_[slot_] + now.b;
            if (hinge - average < 0.5 * (value - average)) cut_ = now, hinge = value, slot_ = kNone;
        }
        return {hinge, average, hinge};
    }

    void remember(std::size_t i) override {
        if (!active_.empty()) find_slot(i);
    }

    void forget(std::size_t i, std::size_t most) override {
        if (active_.empty() || active_[i].alpha.size() <= most) return;
        Active& active = active_[i];
        const std::size_t L = data_.length(i);
        set_margins(i);
        const auto gone = superfluous(active.alpha.size(), most, [&](std::size_t c) { return active.alpha[c]; },
                                      [&](std::size_t c) { return hinges_[c]; });
        std::size_t to = 0;
        for (std::size_t c = 0; c < gone.size(); ++c) {
            if (gone[c]) continue;
            active.alpha[to] = active.alpha[c];
            active.cuts[to] = active.cuts[c];
            std::copy_n(labels_of(i, c), L, active.labels.begin() + static_cast<std::ptrdiff_t>(L * to++));
        }
        active.alpha.resize(to);
        active.cuts.resize(to);
        active.labels.resize(to * L);
    }

    void note_target(std::size_t i) override {
        targets_.resize(data_.x.n_rows);
        target_cuts_.resize(n_);
        std::copy_n(target_.begin(), data_.length(i), targets_.begin() + static_cast<std::ptrdiff_t>(data_.first(i)));
        target_cuts_[i] = cut_;
    }

  protected:
    friend SteppingBlocks<SurrogateLabelings>;
    void import(const double* user, double* own) const override { at_.exchange(user, own, false); }
    void weights_replaced() {
        for (std::size_t p = 0; p < data_.n_labels * data_.n_labels; ++p) search_.table_moved(table(), p);
    }
    void take_noted_target(std::size_t i) {
        slot_ = kNone;
        std::copy_n(targets_.begin() + static_cast<std::ptrdiff_t>(data_.first(i)), data_.length(i), target_.begin());
        cut_ = target_cuts_[i];
    }

    Worst find_worst(std::size_t i) {
        const std::size_t known = margins_.size();
        find_slot(i);
        if (active_[i].alpha.size() > known) {
            margins_.push_back(search_.margin(i, target_.data()));
            hinges_.push_back(cut_.a * margins_.back() + cut_.b);
        }
        const auto& alpha = active_[i].alpha;
        return least_violating(alpha.size(), [&](std::size_t c) { return alpha[c]; }, hinges_, slot_, worst_);
    }

    void set_change(std::size_t i, Steps kind) {
        if (!active_.empty()) find_slot(i);
        const std::int32_t *none = nullptr, *to = target_.data();
        loss_change_ = kind == Steps::pairwise ? 0 : kind == Steps::fw ? -loss_[i] : loss_[i];
        if (kind != Steps::away) loss_change_ += cut_.b;
        if (kind == Steps::fw) return point_.set_scaled_change(i, to, cut_.a, none, 0, -1);
        const LabelCut worst = active_[i].cuts[worst_];
        loss_change_ -= worst.b;
        away_.assign(labels_of(i, worst_), labels_of(i, worst_) + data_.length(i));
        const std::int32_t* from = away_.data();
        if (kind == Steps::away) point_.set_scaled_change(i, none, 0, from, worst.a, 1);
        else point_.set_scaled_change(i, to, cut_.a, from, worst.a, 0);
    }

    double tilt(std::size_t, double) { throw std::logic_error("these blocks cannot average over outputs"); }
    void mix(std::size_t, double) {}

    bool explicitly(std::size_t i) const { return weights_.bounded() || !point_.has_gram(i); }
    double squared_change(std::size_t i) { return point_.squared_change(i) * per_block() * per_block(); }
    void describe(std::size_t i) { point_.describe(i, -per_block(), direction_); }
    void add_change(std::size_t i, double step) { point_.add(i, -step * per_block(), weights_.v.data()); }
    void weights_moved() {
        for (const std::uint32_t p : point_.touched_pairs()) search_.table_moved(table(), p);
    }

    void move_point(std::size_t i, Steps kind, const Plan& plan) {
        point_.move(i, plan.step);
        loss_[i] = std::max(0.0, loss_[i] + plan.step * loss_change_);
        if (active_.empty()) return;
        auto& alpha = active_[i].alpha;
        move_alphas(alpha.size(), [&](std::size_t c) -> double& { return alpha[c]; }, kind, plan, slot_, worst_);
    }

  private:
    using Label = std::uint16_t;
    // The cuts in use or remembered: L labels each, what they count, and their shares in the point; the truth is the first.
    struct Active {
        std::vector<double> alpha;
        std::vector<LabelCut> cuts;
        std::vector<Label> labels;
    };
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    const double* table() const { return weights_.data() + at_.table; }
    const Label* labels_of(std::size_t i, std::size_t c) const { return active_[i].labels.data() + c * data_.length(i); }

    void begin(std::size_t i) {
        point_.prefetch(i);
        search_.score(i, weights_.data());
        if (!active_.empty()) set_margins(i);
    }
    void set_margins(std::size_t i) {
        const Active& active = active_[i];
        margins_.resize(active.alpha.size());
        hinges_.resize(active.alpha.size());
        for (std::size_t c = 0; c < margins_.size(); ++c) {
            margins_[c] = c == 0 ? 0 : search_.margin(i, labels_of(i, c));
            hinges_[c] = active.cuts[c].a * margins_[c] + active.cuts[c].b;
        }
    }

    double mean(std::size_t i) const { return point_.score(i, search_.scores(), table()) - search_.truth_score() + loss_[i]; }

    // Where the target is among the cuts known; it is one of them from now on.
    void find_slot(std::size_t i) {
        Active& active = active_[i];
        const std::size_t L = data_.length(i), m = active.alpha.size();
        if (slot_ < m) return;
        const auto end = target_.begin() + static_cast<std::ptrdiff_t>(L);
        for (slot_ = 0; slot_ < m; ++slot_)
            if (active.cuts[slot_].a == cut_.a && active.cuts[slot_].b == cut_.b && std::equal(target_.begin(), end, labels_of(i, slot_))) return;
        active.alpha.push_back(0);
        active.cuts.push_back(cut_);
        active.labels.insert(active.labels.end(), target_.begin(), end);
    }

    void average_active(std::size_t i) {
        const Active& active = active_[i];
        double truth = active.alpha[0];
        loss_[i] = 0;
        point_.begin(i);
        for (std::size_t c = 1; c < active.alpha.size(); ++c) {
            if (!(active.alpha[c] > 0)) continue;
            point_.add_labeling(i, labels_of(i, c), active.alpha[c] * active.cuts[c].a);
            truth += active.alpha[c] * (1 - active.cuts[c].a);
            loss_[i] += active.alpha[c] * active.cuts[c].b;
        }
        point_.add_labeling(i, data_.truth(i), truth);
        point_.end(i);
    }

    LabelingData data_;
    LabelLayout at_;
    bool affine_;
    PartMarginals point_;
    LabelSearch search_;
    std::vector<double> loss_;    // of each block, weighted by its point
    std::vector<Active> active_;  // of each block, or none at all
    bool proving_ = false;
    // Scratch of one block.
    std::vector<double> margins_, hinges_;  // of the cuts known
    LabelCut cut_;                          // of the target
    double loss_change_ = 0;
    std::vector<std::int32_t> target_, targets_, away_;
    std::vector<LabelCut> target_cuts_;
    std::size_t slot_ = kNone, worst_ = 0;  // of the target and of the worst cut, among those known
};

}  // namespace maxmargin::blocks
