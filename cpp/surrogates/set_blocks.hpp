// Blocks with a set of labels per sample under any surrogate. The class of the data defines which sets a sample can have:
// LabelSetData has all sets, and scores of pairs of labels; ClosedSetData has the sets that are closed in a tree of labels.
//
// The point of a block is a distribution over cuts: a set counts a times, with the loss b. A cut is kept as what it changes of the
// truth, labels and pairs, which is little where the weights are any good; all inner products follow from these and from |x|^2. The
// scores of a block move with its own steps in a way that is known without looking at x again, so an exact step asks for one more set
// where it would lead to, and then decides between all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/blocks.hpp"
#include "core/rows.hpp"
#include "surrogates/pair_value.hpp"
#include "surrogates/set_pool.hpp"

namespace maxmargin::blocks {

// move(user's place, own place) of every weight: users have those of every label one after the other and then those of pairs, solvers
// the weights of labels next to each other.
template <class Data, class Move>
void for_weights(const Data& data, const Move& move) {
    const std::size_t p = data.x.n_columns, L = data.n_labels(), stride = stride_for(L);
    for (std::size_t k = 0; k < L; ++k)
        for (std::size_t j = 0; j < p; ++j) move(k * p + j, j * stride + k);
    for (std::size_t e = 0; e < data.n_pairs(); ++e) move(L * p + e, p * stride + e);
}

template <class Data>
class SetBlocks final : public SteppingBlocks<SetBlocks<Data>> {
    using Base = SteppingBlocks<SetBlocks<Data>>;
    using Base::direction_;
    using Base::n_;
    using Base::per_block;
    using Base::weights_;
    using Search = typename Data::Search;

  public:
    explicit SetBlocks(const Data& data)
        : data_(data), stride_(stride_for(data.n_labels())), pairs_at_(data.x.n_columns * stride_), affine_(data.surrogate.psi.affine()),
          search_(data.search()) {
        n_ = data.x.n_rows;
        weights_.resize(pairs_at_ + data_.n_pairs());
        points_.resize(n_);
        squared_.resize(n_);
        for (std::size_t i = 0; i < n_; ++i) {
            points_[i].emplace_back();
            points_[i][0].alpha = 1;
            squared_[i] = data_.x.dot(i, i);
        }
        score_.resize(stride_), moved_score_.resize(stride_), coefficient_.resize(stride_);
        moved_pair_.resize(data_.n_pairs()), pair_coefficient_.resize(data_.n_pairs());
        label_mark_.resize(stride_), pair_mark_.resize(data_.n_pairs());
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<SetBlocks>(*this); }
    std::size_t n_weights() const override { return data_.x.n_columns * data_.n_labels() + data_.n_pairs(); }
    void export_weights(double* out) const override {
        for_weights(data_, [&, w = weights_.data()](std::size_t user, std::size_t own) { out[user] = w[own]; });
    }
    void use_active_sets(bool) override {}
    std::size_t n_known(std::size_t i) const override { return points_[i].size(); }
    std::size_t queries() const override { return search_.queries(); }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            double sum = 0;
            for (const Known& c : points_[i]) sum += c.alpha;
            change_.clear();
            for (Known& c : points_[i]) change_.push_back(c.alpha /= sum);
            add_change(i, 1);
        }
        weights_.project();
    }
    void shrink(double part) override {
        for (auto& point : points_) {
            for (Known& c : point) c.alpha *= part;
            point[0].alpha += 1 - part;
        }
    }
    double total_loss() const override {
        double total = 0;
        for (std::size_t i = 0; i < n_; ++i)
            for (const Known& c : points_[i]) total += c.alpha * data_.counts(i) * c.cut.b;
        return total;
    }
    std::size_t n_bytes() const override {
        std::size_t bytes = 0;
        for (const auto& point : points_) {
            bytes += sizeof point + point.capacity() * sizeof(Known);
            for (const Known& c : point) bytes += (c.labels.capacity() + c.pairs.capacity()) * sizeof(Part) + c.products.capacity() * sizeof(double);
        }
        return bytes;
    }

    // Steps need a violating set, a gap needs the proof that there is none above it.
    void announce(std::size_t first, std::size_t last) override { proving_ = last > first; }

    Hinges ask(std::size_t i) override {
        score(i);
        const double average = mean(i);
        target_slot_ = 0;
        if (!std::isfinite(average)) return {0, average, 0};
        const double count = data_.counts(i);
        const auto found = seek(i, score_.data(), pair_scores(), proving_, average / count);
        const double hinge = target_slot_ == kNone ? count * (target_.cut.a * found.h + target_.cut.b) : hinges_[target_slot_];
        // A proof may find what the short searches of steps, along the hull alone, do not.
        if (proving_ && hinge > average) find_slot(i);
        return {hinge, average, std::max(hinge, count * found.bound)};
    }

    Hinges recall(std::size_t i) override {
        score(i);
        const double average = mean(i);
        target_slot_ = 0;
        for (std::size_t c = 1; c < hinges_.size(); ++c)
            if (hinges_[c] > hinges_[target_slot_]) target_slot_ = c;
        return {hinges_[target_slot_], average, hinges_[target_slot_]};
    }
    void remember(std::size_t i) override {
        remembers_ = true;
        find_slot(i);
    }
    void forget(std::size_t i, std::size_t most) override {
        auto& point = points_[i];
        if (point.size() <= most) return;
        score(i);
        const auto gone = superfluous(point.size(), most, [&](std::size_t c) { return point[c].alpha; }, [&](std::size_t c) { return hinges_[c]; });
        drop(i, [&](std::size_t c) { return gone[c] != 0; });
    }
    void note_target(std::size_t i) override {
        targets_.resize(n_);
        targets_[i] = target_slot_ == kNone ? target_ : points_[i][target_slot_];
    }

  protected:
    friend Base;
    void import(const double* user, double* own) const override {
        for_weights(data_, [&](std::size_t theirs, std::size_t ours) { own[ours] = user[theirs]; });
    }
    void take_noted_target(std::size_t i) {
        target_ = targets_[i];
        target_slot_ = kNone;
        find_slot(i);
    }

    Worst find_worst(std::size_t i) {
        find_slot(i);
        const auto& point = points_[i];
        for (std::size_t c = hinges_.size(); c < point.size(); ++c) add_hinge(i, c);
        return least_violating(point.size(), [&](std::size_t c) { return point[c].alpha; }, hinges_, target_slot_, worst_);
    }

    void set_change(std::size_t i, Steps kind) {
        find_slot(i);
        const auto& point = points_[i];
        change_.assign(point.size(), 0.0);
        if (kind != Steps::pairwise)
            for (std::size_t c = 0; c < point.size(); ++c) change_[c] = kind == Steps::fw ? -point[c].alpha : point[c].alpha;
        if (kind != Steps::away) change_[target_slot_] += 1;
        if (kind != Steps::fw) change_[worst_] -= 1;
    }

    // A better distribution over the cuts in use, the target, and one more cut: that which violates most after the first of two small
    // programs. Measured: a third, or steps to the end of a program, cost more time than the passes they save.
    bool set_best_change(std::size_t i, double& rise) {
        rise = 0;
        find_slot(i);
        if (points_[i].size() < 2) return false;
        const std::size_t asked = target_slot_;
        begin_program(i);
        solve_program();
        if (find_next(i)) {
            extend_program(i);
            solve_program();
        }
        target_slot_ = asked;
        const auto& point = points_[i];
        change_.assign(point.size(), 0.0);
        mass_.resize(point.size(), 0.0);
        for (std::size_t c = 0; c < mass_.size(); ++c) {
            change_[c] = mass_[c] - point[c].alpha;
            rise += change_[c] * hinges_[c];
        }
        return true;
    }

    double tilt(std::size_t, double) { throw std::logic_error("sets of labels are not averaged over"); }
    void mix(std::size_t, double) {}

    double squared_change(std::size_t i) {
        gather(i);
        double labels = 0, pairs = 0;
        for (const std::uint32_t j : touched_labels_) labels += alpha(j) * coefficient_[j] * coefficient_[j];
        for (const std::uint32_t e : touched_pairs_) pairs += pair_coefficient_[e] * pair_coefficient_[e];
        clear_touched();
        const double unit = data_.counts(i) * per_block();
        return unit * unit * (squared_[i] * labels + pairs);
    }
    void add_change(std::size_t i, double step) {
        gather(i);
        const double factor = -step * data_.counts(i) * per_block();
        double* w = weights_.v.data();
        for (const std::uint32_t j : touched_labels_) coefficient_[j] *= factor * data_.root(j);
        if (touched_labels_.size() * 4 > stride_) {
            add_row(data_.x, i, coefficient_.data(), stride_, w);
        } else {
            data_.x.for_each(i, [&](std::size_t j, double value) {
                double* at = w + j * stride_;
                for (const std::uint32_t k : touched_labels_) at[k] += value * coefficient_[k];
            });
        }
        for (const std::uint32_t e : touched_pairs_) w[pairs_at_ + e] += factor * pair_coefficient_[e];
        clear_touched();
    }
    void describe(std::size_t i) {
        gather(i);
        const double factor = -data_.counts(i) * per_block();
        data_.x.for_each(i, [&](std::size_t j, double value) {
            for (const std::uint32_t k : touched_labels_) direction_.add(j * stride_ + k, factor * value * data_.root(k) * coefficient_[k]);
        });
        for (const std::uint32_t e : touched_pairs_) direction_.add(pairs_at_ + e, factor * pair_coefficient_[e]);
        clear_touched();
    }
    void move_point(std::size_t i, Steps kind, const Plan& plan) {
        auto& point = points_[i];
        for (std::size_t c = 0; c < point.size(); ++c) {
            double& alpha = point[c].alpha;
            const bool all = kind == Steps::exact && plan.step == 1;
            alpha = all ? mass_[c] : std::max(0.0, alpha + plan.step * change_[c]);
            if (alpha < 1e-15 && change_[c] < 0) alpha = 0;
        }
        if (plan.full && (kind == Steps::away || kind == Steps::pairwise)) point[worst_].alpha = 0;
        drop_idle(i);
    }

  private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    // Steps per cut in a small program, and the part of its first slope at which it ends.
    static constexpr std::size_t kMostSteps = 5;
    static constexpr double kLeastSlope = 0.2;
    static constexpr std::uint32_t kPatience = 2;

    // What a label or a pair has in a set more than in the truth.
    struct Part {
        std::uint32_t at;
        float more;
    };
    struct Known {
        double alpha = 0, g = 0, size = 0;
        SetCut cut;
        std::uint32_t idle = 0;
        std::vector<Part> labels, pairs;
        // Inner products with the cuts of the block up to itself, in their order; none until a program asks for them.
        std::vector<double> products;
    };

    // What the weights of a label cost, by which its share in inner products is multiplied.
    double alpha(std::size_t k) const { return data_.root(k) * data_.root(k); }
    const double* pair_scores() const { return weights_.data() + pairs_at_; }

    // Scores of labels, and margins and hinges of all known cuts.
    void score(std::size_t i) {
        score_row(data_.x, i, weights_.data(), stride_, score_.data());
        if constexpr (Data::kScaled)
            for (std::size_t k = 0; k < data_.n_labels(); ++k) score_[k] *= data_.root(k);
        margins_at(i, score_.data(), pair_scores(), margins_);
        hinges_.clear();
        for (std::size_t c = 0; c < points_[i].size(); ++c) hinges_.push_back(data_.counts(i) * (points_[i][c].cut.a * margins_[c] + points_[i][c].cut.b));
    }
    static double margin_of(const Known& c, const double* scores, const double* pairs) {
        double h = 0;
        for (const Part& part : c.labels) h += part.more * scores[part.at];
        for (const Part& part : c.pairs) h += part.more * pairs[part.at];
        return h;
    }
    void margins_at(std::size_t i, const double* scores, const double* pairs, std::vector<double>& out) const {
        out.clear();
        for (const Known& c : points_[i]) out.push_back(margin_of(c, scores, pairs));
    }
    void add_hinge(std::size_t i, std::size_t c) {
        const Known& known = points_[i][c];
        margins_.push_back(margin_of(known, score_.data(), pair_scores()));
        hinges_.push_back(data_.counts(i) * (known.cut.a * margins_.back() + known.cut.b));
    }
    double mean(std::size_t i) const {
        // What is not a number is overlooked by a maximum, but not by the mean.
        double sum = 0;
        for (std::size_t k = 0; k < data_.n_labels(); ++k) sum += score_[k];
        if (!std::isfinite(sum)) return NAN;
        sum = 0;
        for (std::size_t c = 0; c < hinges_.size(); ++c) sum += points_[i][c].alpha * hinges_[c];
        return sum;
    }

    // The most violating cut at some scores, at which the known ones have the margins in margins_; it becomes the target.
    typename Search::Violator seek(std::size_t i, const double* scores, const double* pairs, bool prove, double floor) {
        const std::uint8_t* truth = data_.truth(i);
        const auto& point = points_[i];
        search_.begin(scores, pairs, truth);
        for (std::size_t c = 1; c < point.size(); ++c) search_.suggest(margins_[c], point[c].g, point[c].size);
        const auto found = search_.find(prove, floor);
        if (found.id == Search::kTruth) {
            target_slot_ = 0;
            return found;
        }
        const SetCut cut = search_.cut(found.h, found.g, found.size);
        if (found.id != Search::kNew) {
            target_slot_ = found.id + 1;
            const Known& known = point[target_slot_];
            if (affine_ || (known.cut.a == cut.a && known.cut.b == cut.b)) return found;
            // The tangent where it is now is nowhere below the one remembered.
            target_ = known;
            target_.alpha = 0;
            target_.idle = 0;
        } else {
            write_target(truth, search_.set(), pairs);
            target_.g = found.g, target_.size = found.size;
        }
        target_.cut = cut;
        target_slot_ = kNone;
        return found;
    }

    void write_target(const std::uint8_t* truth, const double* y, const double* pairs) {
        target_ = {};
        for (std::size_t j = 0; j < data_.n_labels(); ++j)
            if (y[j] != truth[j]) target_.labels.push_back({static_cast<std::uint32_t>(j), static_cast<float>(y[j] - truth[j])});
        for (const Part& part : target_.labels) {
            data_.for_beside(part.at, [&](std::size_t other, std::size_t e) {
                // Once, where both have turned.
                if (other < part.at && y[other] != truth[other]) return;
                const double both = structures::pair_value(y[part.at], y[other], pairs[e]), before = truth[part.at] && truth[other];
                if (both != before) target_.pairs.push_back({static_cast<std::uint32_t>(e), static_cast<float>(both - before)});
            });
        }
    }

    static bool same(const std::vector<Part>& a, const std::vector<Part>& b) {
        return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const Part& p, const Part& q) { return p.at == q.at && p.more == q.more; });
    }
    // Where the target is among the cuts known; it is one of them from now on.
    void find_slot(std::size_t i) {
        auto& point = points_[i];
        if (target_slot_ < point.size()) return;
        for (target_slot_ = 0; target_slot_ < point.size(); ++target_slot_) {
            const Known& c = point[target_slot_];
            if (c.cut.a == target_.cut.a && c.cut.b == target_.cut.b && same(c.labels, target_.labels) && same(c.pairs, target_.pairs)) return;
        }
        point.push_back(target_);
        point.back().alpha = 0;
        // Those of where it comes from.
        point.back().products.clear();
        if (hinges_.size() + 1 == point.size()) add_hinge(i, point.size() - 1);
    }
    // Cuts that are not in use any more are soon so again, or never.
    void drop_idle(std::size_t i) {
        auto& point = points_[i];
        if (!remembers_) drop(i, [&](std::size_t c) { return point[c].alpha == 0 && ++point[c].idle > kPatience; });
    }
    template <class Gone>
    void drop(std::size_t i, const Gone& gone) {
        auto& point = points_[i];
        std::size_t to = 1;
        gone_.assign(1, 0);
        for (std::size_t c = 1; c < point.size(); ++c) {
            gone_.push_back(gone(c));
            if (gone_[c]) continue;
            if (to != c) {
                std::vector<double>& products = point[c].products;
                std::size_t kept = 0;
                for (std::size_t k = 0; k < products.size(); ++k)
                    if (!gone_[k]) products[kept++] = products[k];
                products.resize(kept);
            }
            if (point[c].alpha > 0) point[c].idle = 0;
            if (to != c) point[to] = std::move(point[c]);
            ++to;
        }
        point.resize(to);
    }

    // The most violating cut where the present program would lead to; false if it is one of those known.
    bool find_next(std::size_t i) {
        const auto& point = points_[i];
        const std::size_t L = data_.n_labels(), E = data_.n_pairs(), known = point.size();
        const double unit = data_.counts(i) * per_block();
        for (std::size_t c = 0; c < known; ++c)
            if (const double delta = mass_[c] - point[c].alpha; delta != 0) scatter(point[c], delta);
        std::copy_n(score_.begin(), L, moved_score_.begin());
        for (const std::uint32_t j : touched_labels_) moved_score_[j] -= unit * squared_[i] * alpha(j) * coefficient_[j];
        std::copy_n(pair_scores(), E, moved_pair_.begin());
        for (const std::uint32_t e : touched_pairs_) {
            const std::size_t at = pairs_at_ + e;
            moved_pair_[e] = weights_.within(at, weights_.v[at] - unit * pair_coefficient_[e]);
        }
        clear_touched();
        // The cuts in use are suggestions there too, at the margins that they would have.
        margins_at(i, moved_score_.data(), moved_pair_.data(), moved_margins_);
        std::swap(moved_margins_, margins_);
        double average = 0;
        for (std::size_t c = 0; c < known; ++c) average += mass_[c] * now_[c];
        seek(i, moved_score_.data(), moved_pair_.data(), false, average / data_.counts(i));
        std::swap(moved_margins_, margins_);
        if (target_slot_ != kNone) return false;
        find_slot(i);
        return target_slot_ == known;
    }

    // ---- the small quadratic program of one block --------------------------------------------------------------------------------

    void begin_program(std::size_t i) {
        // Room for the cuts there are and the one that find_next may add.
        width_ = points_[i].size() + 1;
        if (gram_.size() < width_ * width_) gram_.resize(width_ * width_);
        mass_.clear();
        now_.clear();
        scale_ = 0;
        while (mass_.size() < points_[i].size()) extend_program(i);
    }
    // One more cut, at its mass in the point, and with the hinge that it has where the others are now.
    void extend_program(std::size_t i) {
        auto& point = points_[i];
        const std::size_t m = mass_.size();
        const double count = data_.counts(i), unit = count * count * per_block();
        std::vector<double>& products = point[m].products;
        if (products.size() != m + 1) find_products(i, m);
        double* row = gram_.data() + m * width_;
        for (std::size_t c = 0; c <= m; ++c) row[c] = unit * products[c];
        for (std::size_t c = 0; c < m; ++c) gram_[c * width_ + m] = row[c];
        mass_.push_back(point[m].alpha);
        double now = hinges_[m];
        for (std::size_t c = 0; c < m; ++c) now -= (mass_[c] - point[c].alpha) * row[c];
        now_.push_back(now);
        scale_ = std::max(scale_, std::abs(hinges_[m]));
    }
    // They stay as long as the cuts do: what weights and steps change are hinges.
    void find_products(std::size_t i, std::size_t m) {
        auto& point = points_[i];
        std::vector<double>& products = point[m].products;
        products.assign(m + 1, 0.0);
        if (point[m].cut.a == 0) return;
        scatter(point[m], 1 / point[m].cut.a);
        for (const std::uint32_t j : touched_labels_) coefficient_[j] *= alpha(j);
        for (std::size_t c = 0; c <= m; ++c) {
            double labels = 0, pairs = 0;
            for (const Part& part : point[c].labels) labels += part.more * coefficient_[part.at];
            for (const Part& part : point[c].pairs) pairs += part.more * pair_coefficient_[part.at];
            products[c] = point[c].cut.a * point[m].cut.a * (squared_[i] * labels + pairs);
        }
        clear_touched();
    }
    // Pairwise steps, until little is left of what there was to gain: the next set will change it all anyway.
    void solve_program() {
        const std::size_t m = mass_.size();
        double least = 1e-12 * scale_;
        for (std::size_t round = 0; round < kMostSteps * m; ++round) {
            std::size_t up = 0, down = m;
            for (std::size_t c = 0; c < m; ++c) {
                if (now_[c] > now_[up]) up = c;
                if (mass_[c] > 0 && (down == m || now_[c] < now_[down])) down = c;
            }
            const double slope = now_[up] - now_[down];
            if (!(slope > least)) return;
            if (round == 0) least = std::max(least, kLeastSlope * slope);
            const double *of_up = gram_.data() + up * width_, *of_down = gram_.data() + down * width_;
            const double bend = of_up[up] + of_down[down] - 2 * of_up[down];
            const double step = bend > 1e-300 ? std::min(mass_[down], slope / bend) : mass_[down];
            mass_[up] += step;
            mass_[down] = step == mass_[down] ? 0 : mass_[down] - step;
            for (std::size_t c = 0; c < m; ++c) now_[c] -= step * (of_up[c] - of_down[c]);
        }
    }

    // ---- sums of cuts ------------------------------------------------------------------------------------------------------------

    // Add a cut, without the counts of sample and block.
    void scatter(const Known& c, double factor) {
        factor *= c.cut.a;
        for (const Part& part : c.labels) {
            if (!label_mark_[part.at]) label_mark_[part.at] = 1, touched_labels_.push_back(part.at);
            coefficient_[part.at] += factor * part.more;
        }
        for (const Part& part : c.pairs) {
            if (!pair_mark_[part.at]) pair_mark_[part.at] = 1, touched_pairs_.push_back(part.at);
            pair_coefficient_[part.at] += factor * part.more;
        }
    }
    void gather(std::size_t i) {
        for (std::size_t c = 1; c < change_.size(); ++c)
            if (change_[c] != 0) scatter(points_[i][c], change_[c]);
    }
    void clear_touched() {
        for (const std::uint32_t j : touched_labels_) coefficient_[j] = 0, label_mark_[j] = 0;
        for (const std::uint32_t e : touched_pairs_) pair_coefficient_[e] = 0, pair_mark_[e] = 0;
        touched_labels_.clear(), touched_pairs_.clear();
    }

    Data data_;
    std::size_t stride_, pairs_at_;
    bool affine_, proving_ = false, remembers_ = false;
    Search search_;
    std::vector<std::vector<Known>> points_;  // the truth first, then the cuts known
    std::vector<double> squared_;             // |x|^2
    Known target_;
    std::vector<Known> targets_;
    std::size_t target_slot_ = 0, worst_ = 0;
    // Scratch of one block.
    std::vector<double> score_, margins_, hinges_, moved_score_, moved_pair_, moved_margins_;
    std::vector<double> change_, mass_, now_;
    std::vector<double> gram_;  // rows of width_
    std::size_t width_ = 0;
    double scale_ = 0;
    std::vector<double> coefficient_, pair_coefficient_;
    std::vector<char> label_mark_, pair_mark_, gone_;
    std::vector<std::uint32_t> touched_labels_, touched_pairs_;
};

}  // namespace maxmargin::blocks
