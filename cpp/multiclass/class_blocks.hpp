// Blocks with one label each: multi-class with any costs, and two classes with a single weight vector.
//
// The point of a block is a distribution over its K labels. Its hinges are K numbers, so all steps, and the best point of
// the whole block, can be found from one scoring of the sample. A sample that counts c times has c times its features and costs.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "core/blocks.hpp"
#include "core/rows.hpp"
#include "numeric/scaled_simplex.hpp"

namespace maxmargin::blocks {

// Arrays stay the caller's.
struct ClassData {
    Rows x;
    const std::int32_t* y;  // labels; for two classes 0 (-1) or 1 (+1)
    const double* costs;    // K x K, [truth][answer]; null for two classes with one weight vector
    const double* weights;  // what the hinge of every sample counts; null if all count alike
    std::size_t n_labels;
    // Under a surrogate that is affine in the margin: what an answer's margin is multiplied by, K x K as the costs, which then are
    // the rest; null for margin rescaling.
    const double* factors = nullptr;

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

class ClassBlocks final : public SteppingBlocks<ClassBlocks> {
  public:
    explicit ClassBlocks(const ClassData& data) : data_(data), stride_(stride_for(data.n_columns())) {
        n_ = data.x.n_rows;
        const std::size_t K = data_.n_labels;
        weights_.resize(data_.x.n_columns * stride_);
        mu_.assign(n_ * K, 0.0);
        squared_.resize(n_);
        for (std::size_t i = 0; i < n_; ++i) {
            mu_[i * K + truth(i)] = 1;
            squared_[i] = counts(i) * counts(i) * data_.x.dot(i, i);
        }
        score_.resize(stride_ + 1);
        for (auto* scratch : {&hinge_, &change_, &point_}) scratch->resize(K);
        coefficient_.resize(stride_);
    }

    std::unique_ptr<Blocks> copy() const override { return std::make_unique<ClassBlocks>(*this); }
    std::size_t n_weights() const override { return data_.x.n_columns * data_.n_columns(); }
    void export_weights(double* out) const override { exchange(weights_.data(), out, true); }
    void use_active_sets(bool) override {}
    std::size_t n_known(std::size_t i) const override {
        std::size_t count = 0;
        for (std::size_t k = 0; k < data_.n_labels; ++k) count += is_known(i, k);
        return count;
    }
    bool recalls_fast() const override { return false; }
    Hinges recall(std::size_t i) override {
        Hinges h = ask(i);
        for (std::size_t k = 0; k < data_.n_labels; ++k)
            if (is_known(i, k) && (!is_known(i, target_) || hinge_[k] > hinge_[target_])) target_ = k;
        h.target = h.bound = hinge_[target_];
        return h;
    }
    void remember(std::size_t i) override {
        known_.resize(mu_.size());
        known_[i * data_.n_labels + target_] = 1;
    }
    void forget(std::size_t, std::size_t) override {}
    std::size_t n_bytes() const override { return sizeof(double) * (mu_.size() + squared_.size()) + known_.size(); }

    void refresh() override {
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            double *mu = point_of(i), sum = 0;
            for (std::size_t k = 0; k < data_.n_labels; ++k) sum += mu[k];
            for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] /= sum;
            std::copy(mu, mu + data_.n_labels, change_.begin());
            balance(i);
            add_change(i, 1);
        }
        weights_.project();
    }

    void shrink(double part) override {
        for (std::size_t i = 0; i < n_; ++i) {
            for (std::size_t k = 0; k < data_.n_labels; ++k) point_of(i)[k] *= part;
            point_of(i)[truth(i)] += 1 - part;
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
            hinge_[1] = cost(i, 1) - counts(i) * sign(i) * score_[0];
        } else if (data_.factors) {
            const double own = score_[truth(i)], count = counts(i);
            for (std::size_t k = 0; k < K; ++k) hinge_[k] = cost(i, k) + count * factors(i)[k] * (score_[k] - own);
        } else {
            const double own = score_[truth(i)], count = counts(i);
            for (std::size_t k = 0; k < K; ++k) hinge_[k] = cost(i, k) + count * (score_[k] - own);
        }
        const double* mu = point_of(i);
        target_ = static_cast<std::size_t>(std::max_element(hinge_.begin(), hinge_.end()) - hinge_.begin());
        double mean = 0;
        for (std::size_t k = 0; k < K; ++k) mean += mu[k] * hinge_[k];
        return {hinge_[target_], mean, hinge_[target_]};
    }

    void use_interior(double mass) override {
        if (interior_) return;
        interior_ = true;
        const std::size_t K = data_.n_labels;
        const double rest = mass / static_cast<double>(K);
        for (std::size_t i = 0; i < n_; ++i)
            for (std::size_t k = 0; k < K; ++k) point_of(i)[k] = k == truth(i) ? 1 - rest * static_cast<double>(K - 1) : rest;
    }

    void note_target(std::size_t i) override {
        targets_.resize(n_);
        targets_[i] = static_cast<std::uint32_t>(target_);
    }

  protected:
    friend SteppingBlocks<ClassBlocks>;
    void import(const double* user, double* own) const override { exchange(user, own, false); }
    void take_noted_target(std::size_t i) { target_ = targets_[i]; }

    Worst find_worst(std::size_t i) {
        const double* mu = point_of(i);
        return least_violating(data_.n_labels, [&](std::size_t k) { return mu[k]; }, hinge_, target_, worst_);
    }

    void set_change(std::size_t i, Steps kind) {
        const double* mu = point_of(i);
        const double factor = kind == Steps::pairwise ? 0 : kind == Steps::fw ? -1 : 1;
        for (std::size_t k = 0; k < data_.n_labels; ++k) change_[k] = factor * mu[k];
        if (kind != Steps::away) change_[target_] += 1;
        if (kind != Steps::fw) change_[worst_] -= 1;
        if (kind != Steps::pairwise) balance(i);
    }

    // The dual of the block is quadratic with the same curvature in all directions: its best point is a projection. With factors
    // directions differ in length, and the search is one for two numbers.
    bool set_best_change(std::size_t i, double& rise) {
        const double curvature = squared_[i] * per_block(), *mu = point_of(i);
        if (!(curvature > 1e-300) || data_.binary()) return false;
        if (data_.factors) {
            const double* a = factors(i);
            double sum = 0, mean = 0;
            for (std::size_t k = 0; k < data_.n_labels; ++k) sum += a[k] * mu[k], mean += mu[k] * hinge_[k];
            // Hinges as they would be without this block in the weights.
            gain_.resize(data_.n_labels);
            for (std::size_t k = 0; k < data_.n_labels; ++k) gain_[k] = hinge_[k] + curvature * a[k] * (a[k] * mu[k] + sum);
            // At the best point the hinges of all labels in use are the multiplier, so their mean is near it.
            simplex_.solve(gain_.data(), a, data_.n_labels, curvature, mean, sum, point_.data());
            rise = change_to_point(i);
            return true;
        }
        // Relative to the best hinge: where the curvature is tiny, a constant would swallow the distribution.
        for (std::size_t k = 0; k < data_.n_labels; ++k) point_[k] = mu[k] + (hinge_[k] - hinge_[target_]) / curvature;
        project_to_simplex(point_.data(), data_.n_labels, order_, point_.data());
        rise = change_to_point(i);
        return true;
    }

    double tilt(std::size_t i, double temperature) {
        const std::size_t K = data_.n_labels;
        ask(i);
        if (temperature == 0) {
            std::fill(point_.begin(), point_.end(), 0.0);
            point_[target_] = 1;
        } else {
            const double* mu = point_of(i);
            double largest = -INFINITY, sum = 0;
            for (std::size_t k = 0; k < K; ++k) largest = std::max(largest, point_[k] = log_of(mu[k]) + hinge_[k] / temperature);
            for (std::size_t k = 0; k < K; ++k) sum += point_[k] = std::exp(point_[k] - largest);
            for (std::size_t k = 0; k < K; ++k) point_[k] /= sum;
        }
        return change_to_point(i);
    }
    void mix(std::size_t i, double step) {
        double* mu = point_of(i);
        for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] = std::max(kLeastProbability, (1 - step) * mu[k] + step * point_[k]);
    }

    double squared_change(std::size_t i) {
        double squared = 0;
        if (data_.factors) {
            for (const double c : scaled_change(i)) squared += c * c;
            return squared * squared_[i] * per_block() * per_block();
        }
        for (std::size_t k = data_.binary() ? 1 : 0; k < data_.n_labels; ++k) squared += change_[k] * change_[k];
        return squared * squared_[i] * per_block() * per_block();
    }
    void add_change(std::size_t i, double step) {
        add_row(data_.x, i, coefficients(i, step), stride_, weights_.v.data());
    }
    void describe(std::size_t i) {
        const double* c = coefficients(i, 1);
        data_.x.for_each(i, [&](std::size_t j, double value) {
            for (std::size_t k = 0; k < data_.n_columns(); ++k)
                if (c[k] != 0) direction_.add(j * stride_ + k, value * c[k]);
        });
    }
    void move_point(std::size_t i, Steps kind, const Plan& plan) {
        double* mu = point_of(i);
        for (std::size_t k = 0; k < data_.n_labels; ++k) mu[k] = std::max(0.0, mu[k] + plan.step * change_[k]);
        if (plan.full && (kind == Steps::away || kind == Steps::pairwise)) mu[worst_] = 0;
    }

  private:
    double* point_of(std::size_t i) { return mu_.data() + i * data_.n_labels; }
    bool is_known(std::size_t i, std::size_t k) const {
        const std::size_t at = i * data_.n_labels + k;
        return k == truth(i) || mu_[at] > 0 || (!known_.empty() && known_[at]);
    }
    std::size_t truth(std::size_t i) const { return data_.binary() ? 0 : static_cast<std::size_t>(data_.y[i]); }
    double sign(std::size_t i) const { return data_.y[i] ? 1 : -1; }
    double counts(std::size_t i) const { return data_.weights ? data_.weights[i] : 1; }
    double cost(std::size_t i, std::size_t k) const {
        return counts(i) * (data_.binary() ? static_cast<double>(k) : data_.costs[truth(i) * data_.n_labels + k]);
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

    const double* factors(std::size_t i) const { return data_.factors + truth(i) * data_.n_labels; }
    // The change of features: every answer counts its factor, and the truth what the others take.
    const std::vector<double>& scaled_change(std::size_t i) {
        scaled_.resize(data_.n_labels);
        double others = 0;
        for (std::size_t k = 0; k < data_.n_labels; ++k)
            if (k != truth(i)) others += scaled_[k] = factors(i)[k] * change_[k];
        scaled_[truth(i)] = -others;
        return scaled_;
    }

    // A step along the change as coefficients of the sample in the weights.
    const double* coefficients(std::size_t i, double step) {
        const double scale = -step * counts(i) * per_block();
        if (data_.binary()) coefficient_[0] = -scale * sign(i) * change_[1];
        else if (data_.factors) {
            scaled_change(i);
            for (std::size_t k = 0; k < data_.n_labels; ++k) coefficient_[k] = scale * scaled_[k];
        } else
            for (std::size_t k = 0; k < data_.n_labels; ++k) coefficient_[k] = scale * change_[k];
        return coefficient_.data();
    }

    // Make the change of the truth that of all others, so that no mass is lost. With little regularization the truth has
    // almost all of it, and its change taken from its mass would be rounding.
    void balance(std::size_t i) {
        double others = 0;
        for (std::size_t k = 0; k < data_.n_labels; ++k)
            if (k != truth(i)) others += change_[k];
        change_[truth(i)] = -others;
    }

    // The change is the way to point_; what the average hinge rises by.
    double change_to_point(std::size_t i) {
        for (std::size_t k = 0; k < data_.n_labels; ++k) change_[k] = point_[k] - point_of(i)[k];
        balance(i);
        double rise = 0;
        for (std::size_t k = 0; k < data_.n_labels; ++k) rise += change_[k] * hinge_[k];
        return rise;
    }

    ClassData data_;
    std::size_t stride_;
    std::vector<double> mu_;       // n x K
    std::vector<double> squared_;  // |x|^2, as often as the sample counts
    std::vector<char> known_;      // n x K, labels that were targets of a gap pass; empty if none is remembered
    bool interior_ = false;
    std::size_t target_ = 0, worst_ = 0;
    std::vector<std::uint32_t> targets_;
    std::vector<double> score_, hinge_, change_, scaled_, point_, order_, coefficient_, gain_;
    numeric::ScaledSimplex simplex_;
};

}  // namespace maxmargin::blocks
