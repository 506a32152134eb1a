// Blocks with one label each: multi-class with any costs, and two classes with a single weight vector.
//
// The point of a block is a distribution over its K labels. Its hinges are K numbers, so all steps, and the best point of
// the whole block, can be found from one scoring of the sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "blocks/blocks.hpp"
#include "blocks/rows.hpp"

namespace maxmargin::blocks {

// Arrays stay the caller's.
struct ClassData {
    Rows x;
    const std::int32_t* y;  // labels; for two classes 0 (-1) or 1 (+1)
    const double* costs;    // K x K, [truth][answer]; null for two classes with one weight vector
    std::size_t n_labels;

    bool binary() const { return costs == nullptr; }
    // Of the weights: one column per label, or a single one.
    std::size_t n_columns() const { return binary() ? 1 : n_labels; }
};

// Euclidean projection of z onto the simplex; `order` is scratch.
inline void project_to_simplex(const double* z, std::size_t n, std::vector<double>& order, double* out) {
    order.assign(z, z + n);
    std::sort(order.begin(), order.end(), std::greater<>());
    double sum = 0, threshold = 0;
    for (std::size_t k = 0; k < n; ++k) {
        sum += order[k];
        const double t = (sum - 1) / static_cast<double>(k + 1);
        if (order[k] <= t) break;
        threshold = t;
    }
    for (std::size_t k = 0; k < n; ++k) out[k] = std::max(0.0, z[k] - threshold);
}

class ClassBlocks final : public Blocks {
  public:
    explicit ClassBlocks(const ClassData& data) : data_(data), stride_(stride_for(data.n_columns())) {
        n_ = data.x.n_rows;
        const std::size_t K = data_.n_labels;
        weights_.resize(data_.x.n_columns * stride_);
        mu_.assign(n_ * K, 0.0);
        squared_.resize(n_);
        for (std::size_t i = 0; i < n_; ++i) {
            mu_[i * K + truth(i)] = 1;
            squared_[i] = data_.x.dot(i, i);
        }
        score_.resize(stride_ + 1);
        for (auto* scratch : {&hinge_, &change_, &best_, &point_}) scratch->resize(K);
        coefficient_.resize(stride_);
        direction_.resize(0);
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<ClassBlocks>(*this); }
    std::size_t n_weights() const override { return data_.x.n_columns * data_.n_columns(); }
    void export_weights(double* out) const override { exchange(weights_.data(), out, true); }
    void use_corners(bool) override {}
    std::size_t n_known(std::size_t) const override { return 1; }  // asking is as cheap as remembering
    Hinges recall(std::size_t i) override { return ask(i); }
    void remember(std::size_t) override {}
    void forget(std::size_t, std::size_t) override {}

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            double* mu = mu_.data() + i * data_.n_labels;
            double sum = 0;
            for (std::size_t k = 0; k < data_.n_labels; ++k) sum += mu[k];
            for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] /= sum;
            std::copy(mu, mu + data_.n_labels, change_.begin());
            balance(i);
            add(i, change_.data(), 1, weights_.v.data());
        }
        weights_.project();
    }

    void shrink(double part) override {
        for (std::size_t i = 0; i < n_; ++i) {
            double* mu = mu_.data() + i * data_.n_labels;
            for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] *= part;
            mu[truth(i)] += 1 - part;
        }
    }

    double total_loss() const override {
        double total = 0;
        for (std::size_t i = 0; i < n_; ++i)
            for (std::size_t k = 0; k < data_.n_labels; ++k) total += mu_[i * data_.n_labels + k] * cost(i, k);
        return total;
    }

    Hinges ask(std::size_t i) override {
        const std::size_t K = data_.n_labels;
        score_row(data_.x, i, weights_.data(), stride_, score_.data());
        if (data_.binary()) {
            hinge_[0] = 0;
            hinge_[1] = 1 - sign(i) * score_[0];
        } else {
            const double own = score_[truth(i)];
            for (std::size_t k = 0; k < K; ++k) hinge_[k] = cost(i, k) + (score_[k] - own);
        }
        const double* mu = mu_.data() + i * K;
        target_ = static_cast<std::size_t>(std::max_element(hinge_.begin(), hinge_.end()) - hinge_.begin());
        double mean = 0;
        for (std::size_t k = 0; k < K; ++k) mean += mu[k] * hinge_[k];
        return {hinge_[target_], mean};
    }

    double step(std::size_t i, Steps steps) override {
        const std::size_t K = data_.n_labels;
        double* mu = mu_.data() + i * K;
        if (steps == Steps::exact) {
            // The dual of the block is quadratic with the same curvature in all directions: its best point is a projection.
            const double curvature = squared_[i] / (lambda_ * static_cast<double>(n_));
            if (!(curvature > 1e-300) || data_.binary()) return go(i, Steps::fw, K);
            // Relative to the best hinge: where the curvature is tiny, a constant would swallow the distribution.
            for (std::size_t k = 0; k < K; ++k) point_[k] = mu[k] + (hinge_[k] - hinge_[target_]) / curvature;
            project_to_simplex(point_.data(), K, order_, point_.data());
            for (std::size_t k = 0; k < K; ++k) change_[k] = point_[k] - mu[k];
            balance(i);
            const Plan plan = plan_change(i, 1);
            if (plan.gain > 0) return apply(i, plan, change_.data());
            // Where the curvature is huge the best point is too close to a corner for a projection to see it.
            steps = Steps::pairwise;
        }
        std::size_t worst = K;
        for (std::size_t k = 0; k < K; ++k)
            if (mu[k] > 0 && (worst == K || hinge_[k] < hinge_[worst])) worst = k;
        if (steps == Steps::fw || (steps == Steps::pairwise && worst != target_)) return go(i, steps, worst);
        if (steps == Steps::pairwise) return 0;
        Plan best = prepare(i, Steps::fw, worst);
        Steps kind = Steps::fw;
        std::copy(change_.begin(), change_.end(), best_.begin());
        const auto try_ = [&](Steps other) {
            const Plan plan = prepare(i, other, worst);
            if (plan.gain > best.gain) best = plan, kind = other, std::copy(change_.begin(), change_.end(), best_.begin());
        };
        if (mu[worst] < 1) try_(Steps::away);
        if (steps == Steps::all && worst != target_) try_(Steps::pairwise);
        const double gain = apply(i, best, best_.data());
        if (best.full && kind != Steps::fw) mu[worst] = 0;
        return gain;
    }

    void use_interior(double mass) override {
        if (interior_) return;
        interior_ = true;
        const std::size_t K = data_.n_labels;
        const double rest = mass / static_cast<double>(K);
        for (std::size_t i = 0; i < n_; ++i)
            for (std::size_t k = 0; k < K; ++k) mu_[i * K + k] = k == truth(i) ? 1 - rest * static_cast<double>(K - 1) : rest;
    }

    double soft_step(std::size_t i, double temperature, Rule rule, double dual, std::size_t& calls) override {
        ask(i);
        Plan plan;
        for (;; temperature *= 2) {
            ++calls;
            tilt(i, temperature);
            plan = plan_change(i, kAlmostOne);
            if (rule == Rule::line_search) break;
            plan = full_step(i);
            if (rule == Rule::full || !loses(plan.gain, dual)) break;
        }
        if (plan.step == 0) return 0;
        move_weights(i, plan, change_.data());
        mix(i, plan.step);
        return plan.gain;
    }

    double soft_step_all(double temperature, Rule rule, double dual, std::size_t& calls) override {
        direction_.resize(weights_.v.size());
        Plan plan;
        for (;; temperature *= 2) {
            direction_.clear();
            double slope = 0;
            for (std::size_t i = 0; i < n_; ++i) {
                ask(i);
                tilt(i, temperature);
                for (std::size_t k = 0; k < data_.n_labels; ++k) slope += change_[k] * hinge_[k];
                describe(i, change_.data());
            }
            calls += n_;
            slope /= static_cast<double>(n_);
            plan = weights_.plan(direction_, slope, lambda_, kAlmostOne);
            if (rule == Rule::line_search) break;
            plan = plan_full(slope, direction_.squared(), lambda_);
            if (rule == Rule::full || !loses(plan.gain, dual)) break;
        }
        // The weights are still those at which the distributions were tilted.
        for (std::size_t i = 0; i < n_ && plan.step > 0; ++i) {
            ask(i);
            tilt(i, temperature);
            mix(i, plan.step);
        }
        refresh();
        return plan.gain;
    }

    void note_target(std::size_t i) override {
        targets_.resize(n_);
        targets_[i] = static_cast<std::uint32_t>(target_);
    }

    double step_all(double slope) override {
        direction_.resize(weights_.v.size());
        direction_.clear();
        for (std::size_t i = 0; i < n_; ++i) {
            set_change_toward(i, targets_[i]);
            describe(i, change_.data());
        }
        const Plan plan = weights_.plan(direction_, slope, lambda_, 1);
        for (std::size_t i = 0; i < n_; ++i) {
            set_change_toward(i, targets_[i]);
            for (std::size_t k = 0; k < data_.n_labels; ++k) mu_[i * data_.n_labels + k] += plan.step * change_[k];
        }
        refresh();
        return plan.gain;
    }

    std::size_t n_bytes() const override { return sizeof(double) * (mu_.size() + squared_.size()); }

  protected:
    void import(const double* user, double* own) const override { exchange(user, own, false); }

  private:
    std::size_t truth(std::size_t i) const { return data_.binary() ? 0 : static_cast<std::size_t>(data_.y[i]); }
    double sign(std::size_t i) const { return data_.y[i] ? 1 : -1; }
    double cost(std::size_t i, std::size_t k) const {
        return data_.binary() ? static_cast<double>(k) : data_.costs[truth(i) * data_.n_labels + k];
    }

    // Between [feature][label] with padding and the user's [label][feature].
    void exchange(const double* from, double* to, bool to_user) const {
        const std::size_t columns = data_.n_columns(), features = data_.x.n_columns;
        for (std::size_t j = 0; j < features; ++j)
            for (std::size_t k = 0; k < columns; ++k) {
                if (to_user) to[k * features + j] = from[j * stride_ + k];
                else to[j * stride_ + k] = from[k * features + j];
            }
    }

    // A change of the distribution as coefficients of the sample in the weights.
    const double* coefficients(std::size_t i, const double* change, double step) {
        const double scale = -step / (lambda_ * static_cast<double>(n_));
        if (data_.binary()) coefficient_[0] = -scale * sign(i) * change[1];
        else
            for (std::size_t k = 0; k < data_.n_labels; ++k) coefficient_[k] = scale * change[k];
        return coefficient_.data();
    }
    void add(std::size_t i, const double* change, double step, double* weights) {
        add_row(data_.x, i, coefficients(i, change, step), stride_, weights);
    }
    void describe(std::size_t i, const double* change) {
        const double* c = coefficients(i, change, 1);
        data_.x.for_each(i, [&](std::size_t j, double value) {
            for (std::size_t k = 0; k < data_.n_columns(); ++k)
                if (c[k] != 0) direction_.add(j * stride_ + k, value * c[k]);
        });
    }
    void set_change_toward(std::size_t i, std::size_t label) {
        for (std::size_t k = 0; k < data_.n_labels; ++k) change_[k] = -mu_[i * data_.n_labels + k];
        change_[label] += 1;
        balance(i);
    }

    // Make the change of the truth that of all others, so that no mass is lost. With little regularization the truth has
    // almost all of it, and its change taken from its mass would be rounding.
    void balance(std::size_t i) {
        double others = 0;
        for (std::size_t k = 0; k < data_.n_labels; ++k)
            if (k != truth(i)) others += change_[k];
        change_[truth(i)] = -others;
    }

    // After `ask`: point_ is the tilted distribution, change_ the way to it.
    void tilt(std::size_t i, double temperature) {
        const std::size_t K = data_.n_labels;
        const double* mu = mu_.data() + i * K;
        if (temperature == 0) {
            std::fill(point_.begin(), point_.end(), 0.0);
            point_[target_] = 1;
        } else {
            double largest = -INFINITY, sum = 0;
            for (std::size_t k = 0; k < K; ++k) largest = std::max(largest, point_[k] = log_of(mu[k]) + hinge_[k] / temperature);
            for (std::size_t k = 0; k < K; ++k) sum += point_[k] = std::exp(point_[k] - largest);
            for (std::size_t k = 0; k < K; ++k) point_[k] /= sum;
        }
        for (std::size_t k = 0; k < K; ++k) change_[k] = point_[k] - mu[k];
        balance(i);
    }
    void mix(std::size_t i, double step) {
        double* mu = mu_.data() + i * data_.n_labels;
        for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] = std::max(kLeastProbability, (1 - step) * mu[k] + step * point_[k]);
    }

    // Slope of the dual objective and squared length of the step in the weights.
    std::pair<double, double> measure_change(std::size_t i) const {
        const double n = static_cast<double>(n_);
        double slope = 0, squared = 0;
        for (std::size_t k = 0; k < data_.n_labels; ++k) {
            slope += change_[k] * hinge_[k];
            if (!data_.binary() || k == 1) squared += change_[k] * change_[k];
        }
        return {slope / n, squared * squared_[i] / (lambda_ * n * lambda_ * n)};
    }
    Plan full_step(std::size_t i) const {
        const auto [slope, squared] = measure_change(i);
        return plan_full(slope, squared, lambda_);
    }
    Plan plan_change(std::size_t i, double largest) {
        const auto [slope, squared] = measure_change(i);
        if (!weights_.bounded()) return plan_quadratic(slope, squared, lambda_, largest);
        direction_.resize(weights_.v.size());
        direction_.clear();
        describe(i, change_.data());
        return weights_.plan(direction_, slope, lambda_, largest);
    }

    Plan prepare(std::size_t i, Steps kind, std::size_t worst) {
        const double* mu = mu_.data() + i * data_.n_labels;
        double largest = 1;
        if (kind == Steps::fw) {
            set_change_toward(i, target_);
        } else if (kind == Steps::away) {
            std::copy(mu, mu + data_.n_labels, change_.begin());
            change_[worst] -= 1;
            balance(i);
            largest = mu[worst] / (1 - mu[worst]);
        } else {
            std::fill(change_.begin(), change_.end(), 0.0);
            change_[target_] += 1;
            change_[worst] -= 1;
            largest = mu[worst];
        }
        return plan_change(i, largest);
    }

    double go(std::size_t i, Steps kind, std::size_t worst) {
        const Plan plan = prepare(i, kind, worst);
        const double gain = apply(i, plan, change_.data());
        if (plan.full && kind != Steps::fw) mu_[i * data_.n_labels + worst] = 0;
        return gain;
    }

    double apply(std::size_t i, const Plan& plan, const double* change) {
        if (plan.step == 0) return 0;
        double* mu = mu_.data() + i * data_.n_labels;
        for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] = std::max(0.0, mu[k] + plan.step * change[k]);
        move_weights(i, plan, change);
        return plan.gain;
    }
    void move_weights(std::size_t i, const Plan& plan, const double* change) {
        if (weights_.bounded()) {
            direction_.clear();
            describe(i, change);
            weights_.move(direction_, plan.step);
        } else {
            add(i, change, plan.step, weights_.v.data());
        }
    }

    ClassData data_;
    std::size_t stride_;
    std::vector<double> mu_;       // n x K
    std::vector<double> squared_;  // |x|^2
    bool interior_ = false;
    std::size_t target_ = 0;
    std::vector<std::uint32_t> targets_;
    std::vector<double> score_, hinge_, change_, best_, point_, order_, coefficient_;
    Direction direction_;
};

}  // namespace maxmargin::blocks
