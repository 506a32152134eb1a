// Blocks with one label out of a hierarchy: the score of a label is a weighted sum of the scores of the nodes above it.
//
// The point of a block is a distribution over labels, of which only those in use are kept. The features of label k against the
// truth t are scale(t, k) * (a_k - a_t) (x) x, with a_k the attributes of the nodes at or above k, so a step touches the weights of
// nodes in the symmetric difference alone, and inner products follow from attributes and |x|^2.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/blocks.hpp"
#include "core/rows.hpp"

namespace maxmargin::blocks {

// Arrays stay the caller's.
struct HierarchyData {
    Rows x;
    const std::int32_t* y;           // labels, 0 to n_labels - 1
    const double* weights;           // what the hinge of every sample counts; null if all count alike
    std::size_t n_labels, n_nodes;
    const std::int64_t* begin;       // n_labels + 1 places in the next two arrays
    const std::int32_t* node;        // nodes at or above each label, rising
    const double* attribute;
    const double* node_loss;         // what a node of the symmetric difference adds to the loss; null for a loss of 1
    bool root;                       // the loss is the square root of that sum
    const double* costs;             // n_labels x n_labels, [truth][answer], instead of all that; null if there are none
    double loss_power, scale_power;  // the surrogate h g^scale_power + g^loss_power, of the margin error h and the loss g
};

class HierarchyBlocks final : public SteppingBlocks<HierarchyBlocks> {
  public:
    explicit HierarchyBlocks(const HierarchyData& data) : data_(data), stride_(stride_for(data.n_nodes)) {
        n_ = data.x.n_rows;
        weights_.resize(data_.x.n_columns * stride_);
        points_.resize(n_);
        squared_.resize(n_);
        for (std::size_t i = 0; i < n_; ++i) {
            points_[i] = {{truth(i), 1.0}};
            squared_[i] = counts(i) * counts(i) * data_.x.dot(i, i);
        }
        sizes_.assign(data_.n_labels, 0.0);
        if (data_.node_loss)
            for (std::size_t k = 0; k < data_.n_labels; ++k) for_nodes(k, [&](std::size_t n, double) { sizes_[k] += data_.node_loss[n]; });
        node_score_.resize(stride_ + 1);
        mark_.resize(data_.n_nodes);
        coefficient_.resize(stride_);
        hinge_.resize(data_.n_labels);
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<HierarchyBlocks>(*this); }
    std::size_t n_weights() const override { return data_.x.n_columns * data_.n_nodes; }
    void export_weights(double* out) const override {
        const std::size_t p = data_.x.n_columns;
        const double* w = weights_.data();
        for (std::size_t n = 0; n < data_.n_nodes; ++n)
            for (std::size_t j = 0; j < p; ++j) out[n * p + j] = w[j * stride_ + n];
    }
    void use_active_sets(bool) override {}
    std::size_t n_known(std::size_t i) const override { return points_[i].size(); }
    bool recalls_fast() const override { return false; }
    Hinges recall(std::size_t i) override {
        Hinges h = ask(i);
        target_ = points_[i][0].label;
        for (const Share& s : points_[i])
            if (hinge_[s.label] > hinge_[target_]) target_ = s.label;
        h.target = h.bound = hinge_[target_];
        return h;
    }
    void remember(std::size_t i) override {
        remembers_ = true;
        share_of(i, target_);
    }
    void forget(std::size_t i, std::size_t most) override {
        auto& point = points_[i];
        if (point.size() <= most) return;
        const auto gone = superfluous(point.size(), most, [&](std::size_t c) { return point[c].mass; },
                                      [&](std::size_t c) { return hinge_[point[c].label]; });
        std::size_t to = 0;
        for (std::size_t c = 0; c < point.size(); ++c)
            if (!gone[c]) point[to++] = point[c];
        point.resize(to);
    }
    std::size_t n_bytes() const override {
        std::size_t count = 0;
        for (const auto& point : points_) count += point.capacity();
        return count * sizeof(Share) + n_ * (sizeof(double) + sizeof(points_[0]));
    }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            double sum = 0;
            for (const Share& s : points_[i]) sum += s.mass;
            for (Share& s : points_[i]) s.mass /= sum;
            change_ = points_[i];
            add_change(i, 1);
        }
        weights_.project();
    }
    void shrink(double part) override {
        for (std::size_t i = 0; i < n_; ++i) {
            for (Share& s : points_[i]) s.mass *= part;
            points_[i][0].mass += 1 - part;
        }
    }
    double total_loss() const override {
        double total = 0;
        for (std::size_t i = 0; i < n_; ++i)
            for (const Share& s : points_[i]) total += s.mass * counts(i) * offset_of(loss_between(truth(i), s.label));
        return total;
    }

    Hinges ask(std::size_t i) override {
        const std::size_t K = data_.n_labels, t = truth(i);
        const double count = counts(i);
        score_row(data_.x, i, weights_.data(), stride_, node_score_.data());
        double own = 0;
        for_nodes(t, [&](std::size_t n, double a) { own += a * node_score_[n]; });
        if (data_.costs || !data_.node_loss) {
            const double* costs = data_.costs ? data_.costs + t * K : nullptr;
            for (std::size_t k = 0; k < K; ++k) {
                double score = 0;
                for_nodes(k, [&](std::size_t n, double a) { score += a * node_score_[n]; });
                hinge_[k] = hinge(costs ? costs[k] : 1.0, count, score - own);
            }
        } else {
            for_nodes(t, [&](std::size_t n, double) { mark_[n] = 2 * data_.node_loss[n]; });
            const double size = sizes_[t];
            for (std::size_t k = 0; k < K; ++k) {
                double score = 0, twice = 0;
                for_nodes(k, [&](std::size_t n, double a) { score += a * node_score_[n], twice += mark_[n]; });
                hinge_[k] = hinge(finished(size + sizes_[k] - twice), count, score - own);
            }
            for_nodes(t, [&](std::size_t n, double) { mark_[n] = 0; });
        }
        hinge_[t] = 0;
        target_ = t;
        for (std::size_t k = 0; k < K; ++k)
            if (hinge_[k] > hinge_[target_]) target_ = k;
        // What is not a number is overlooked by a maximum, but not by the mean.
        double mean = std::isfinite(own) ? 0 : NAN;
        for (const Share& s : points_[i]) mean += s.mass * hinge_[s.label];
        return {hinge_[target_], mean, hinge_[target_]};
    }

    void note_target(std::size_t i) override {
        targets_.resize(n_);
        targets_[i] = static_cast<std::uint32_t>(target_);
    }

  protected:
    friend SteppingBlocks<HierarchyBlocks>;
    void import(const double* user, double* own) const override {
        const std::size_t p = data_.x.n_columns;
        for (std::size_t n = 0; n < data_.n_nodes; ++n)
            for (std::size_t j = 0; j < p; ++j) own[j * stride_ + n] = user[n * p + j];
    }
    void take_noted_target(std::size_t i) { target_ = targets_[i]; }

    Worst find_worst(std::size_t i) {
        const auto& point = points_[i];
        own_hinges_.resize(point.size());
        std::size_t target = point.size();
        for (std::size_t c = 0; c < point.size(); ++c) {
            own_hinges_[c] = hinge_[point[c].label];
            if (point[c].label == target_) target = c;
        }
        std::size_t at = 0;
        const Worst worst = least_violating(point.size(), [&](std::size_t c) { return point[c].mass; }, own_hinges_, target, at);
        worst_ = point[at].label;
        return worst;
    }

    void set_change(std::size_t i, Steps kind) {
        change_.clear();
        const double factor = kind == Steps::fw ? -1 : 1;
        if (kind != Steps::pairwise)
            for (const Share& s : points_[i]) change_.push_back({s.label, factor * s.mass});
        if (kind != Steps::away) change_.push_back({target_, 1});
        if (kind != Steps::fw) change_.push_back({worst_, -1});
    }

    // The best distribution over the labels in use and the target, by pairwise steps in their small quadratic program.
    bool set_best_change(std::size_t i, double& rise) {
        if (hinge_[target_] > 0) share_of(i, target_);
        const auto& point = points_[i];
        const std::size_t m = point.size();
        change_.clear();
        rise = 0;
        if (m < 2) return false;
        gram_.assign(m * m, 0.0);
        const double unit = squared_[i] * per_block();
        for (std::size_t a = 1; a < m; ++a) {
            scatter(i, {point[a].label, 1.0}, coefficient_.data());
            for (std::size_t b = a; b < m; ++b) gram_[a * m + b] = gram_[b * m + a] = unit * against(i, point[b].label);
            clear_touched();
        }
        mass_.resize(m), own_hinges_.resize(m);
        double scale = 0;
        for (std::size_t a = 0; a < m; ++a) {
            mass_[a] = point[a].mass, own_hinges_[a] = hinge_[point[a].label];
            scale = std::max(scale, std::abs(own_hinges_[a]));
        }
        for (std::size_t round = 0; round < 20 * m; ++round) {
            std::size_t up = 0, down = m;
            for (std::size_t a = 0; a < m; ++a) {
                if (own_hinges_[a] > own_hinges_[up]) up = a;
                if (mass_[a] > 0 && (down == m || own_hinges_[a] < own_hinges_[down])) down = a;
            }
            const double slope = own_hinges_[up] - own_hinges_[down];
            if (!(slope > 1e-12 * scale)) break;
            const double bend = gram_[up * m + up] + gram_[down * m + down] - 2 * gram_[up * m + down];
            const double step = bend > 1e-300 ? std::min(mass_[down], slope / bend) : mass_[down];
            mass_[up] += step;
            mass_[down] = step == mass_[down] ? 0 : mass_[down] - step;
            for (std::size_t a = 0; a < m; ++a) own_hinges_[a] -= step * (gram_[a * m + up] - gram_[a * m + down]);
        }
        for (std::size_t a = 0; a < m; ++a) {
            const double delta = mass_[a] - point[a].mass;
            if (delta == 0) continue;
            change_.push_back({point[a].label, delta});
            rise += delta * hinge_[point[a].label];
        }
        return true;
    }

    double tilt(std::size_t, double) { throw std::logic_error("labels of a hierarchy are not averaged over"); }
    void mix(std::size_t, double) {}

    double squared_change(std::size_t i) {
        gather(i, 1);
        double squared = 0;
        for (const std::uint32_t n : touched_) squared += coefficient_[n] * coefficient_[n];
        clear_touched();
        // Coefficients count the sample and the block already.
        return squared * data_squared(i);
    }
    void add_change(std::size_t i, double step) {
        gather(i, step);
        double* w = weights_.v.data();
        if (touched_.size() * 4 > stride_) {
            add_row(data_.x, i, coefficient_.data(), stride_, w);
        } else {
            values_.resize(touched_.size());
            for (std::size_t u = 0; u < touched_.size(); ++u) values_[u] = coefficient_[touched_[u]];
            data_.x.for_each(i, [&](std::size_t j, double value) {
                double* at = w + j * stride_;
                for (std::size_t u = 0; u < touched_.size(); ++u) at[touched_[u]] += value * values_[u];
            });
        }
        clear_touched();
    }
    void describe(std::size_t i) {
        gather(i, 1);
        data_.x.for_each(i, [&](std::size_t j, double value) {
            for (const std::uint32_t n : touched_) direction_.add(j * stride_ + n, value * coefficient_[n]);
        });
        clear_touched();
    }
    void move_point(std::size_t i, Steps kind, const Plan& plan) {
        for (const Share& s : change_) {
            Share& own = share_of(i, s.label);
            own.mass = std::max(0.0, own.mass + plan.step * s.mass);
            // The best change removes whole shares, which rounding must not leave behind.
            if (own.mass < 1e-15 && s.mass < 0) own.mass = 0;
        }
        if (plan.full && (kind == Steps::away || kind == Steps::pairwise)) share_of(i, worst_).mass = 0;
        drop_idle(i);
    }

  private:
    struct Share {
        std::size_t label;
        double mass;
    };

    std::size_t truth(std::size_t i) const { return static_cast<std::size_t>(data_.y[i]); }
    double counts(std::size_t i) const { return data_.weights ? data_.weights[i] : 1; }
    double data_squared(std::size_t i) const {
        const double count = counts(i);
        return count > 0 ? squared_[i] / (count * count) : 0;
    }

    template <class F>
    void for_nodes(std::size_t label, const F& f) const {
        for (std::int64_t e = data_.begin[label]; e < data_.begin[label + 1]; ++e) f(static_cast<std::size_t>(data_.node[e]), data_.attribute[e]);
    }

    // The share of a label, made if there is none; the truth is always the first.
    Share& share_of(std::size_t i, std::size_t label) {
        for (Share& s : points_[i])
            if (s.label == label) return s;
        points_[i].push_back({label, 0.0});
        return points_[i].back();
    }

    // Forget labels that are not in use.
    void drop_idle(std::size_t i) {
        auto& point = points_[i];
        if (!remembers_)
            point.erase(std::remove_if(point.begin() + 1, point.end(), [](const Share& s) { return s.mass == 0; }), point.end());
    }

    double finished(double sum) const { return data_.root ? std::sqrt(std::max(0.0, sum)) : std::max(0.0, sum); }
    double loss_between(std::size_t t, std::size_t k) const {
        if (t == k) return 0;
        if (data_.costs) return data_.costs[t * data_.n_labels + k];
        if (!data_.node_loss) return 1;
        double twice = 0;
        std::int64_t a = data_.begin[t], b = data_.begin[k];
        while (a < data_.begin[t + 1] && b < data_.begin[k + 1]) {
            if (data_.node[a] == data_.node[b]) twice += 2 * data_.node_loss[data_.node[a]], ++a, ++b;
            else if (data_.node[a] < data_.node[b]) ++a;
            else ++b;
        }
        return finished(sizes_[t] + sizes_[k] - twice);
    }
    // A label that costs nothing is as good as the truth, and has no hinge where the loss divides.
    static double power(double loss, double exponent) {
        if (exponent == 0) return 1;
        if (exponent == 1) return loss;
        if (loss <= 0) return 0;
        return exponent == -1 ? 1 / loss : std::pow(loss, exponent);
    }
    double scale_of(double loss) const { return power(loss, data_.scale_power); }
    double offset_of(double loss) const { return loss > 0 ? power(loss, data_.loss_power) : 0; }
    double hinge(double loss, double count, double margin_error) const { return count * (offset_of(loss) + scale_of(loss) * margin_error); }

    // Add the features of a label against the truth, as coefficients of x, to `out`; the truth has none.
    void scatter(std::size_t i, const Share& s, double* out) {
        const std::size_t t = truth(i);
        if (s.label == t || s.mass == 0) return;
        const double factor = s.mass * scale_of(loss_between(t, s.label));
        for_nodes(s.label, [&](std::size_t n, double a) { touch(n), out[n] += factor * a; });
        for_nodes(t, [&](std::size_t n, double a) { touch(n), out[n] -= factor * a; });
    }
    void touch(std::size_t n) {
        if (!mark_[n]) mark_[n] = 1, touched_.push_back(static_cast<std::uint32_t>(n));
    }
    void clear_touched() {
        for (const std::uint32_t n : touched_) coefficient_[n] = 0, mark_[n] = 0;
        touched_.clear();
    }
    double against(std::size_t i, std::size_t label) const {
        double sum = 0;
        for_nodes(label, [&](std::size_t n, double a) { sum += a * coefficient_[n]; });
        for_nodes(truth(i), [&](std::size_t n, double a) { sum -= a * coefficient_[n]; });
        return sum * scale_of(loss_between(truth(i), label));
    }

    // The change, times a step, as coefficients of the sample in the weights. Nodes above both sides cancel and are left out.
    void gather(std::size_t i, double step) {
        for (const Share& s : change_) scatter(i, s, coefficient_.data());
        const double factor = -step * counts(i) * per_block();
        std::size_t to = 0;
        for (const std::uint32_t n : touched_) {
            mark_[n] = 0;
            if (coefficient_[n] == 0) continue;
            coefficient_[n] *= factor;
            mark_[n] = 1;
            touched_[to++] = n;
        }
        touched_.resize(to);
    }

    HierarchyData data_;
    std::size_t stride_;
    std::vector<std::vector<Share>> points_;  // the truth first, then the labels in use
    std::vector<double> squared_, sizes_;     // |x|^2, as often as the sample counts; losses of labels against nothing
    bool remembers_ = false;
    std::size_t target_ = 0, worst_ = 0;
    std::vector<std::uint32_t> targets_, touched_;
    std::vector<Share> change_;
    std::vector<double> node_score_, mark_, coefficient_, hinge_, own_hinges_, gram_, mass_, values_;
};

}  // namespace maxmargin::blocks
