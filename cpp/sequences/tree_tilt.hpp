// Distributions over the labelings of trees in the interior: marginals of nodes and of edges, all positive, moved toward
// labelings that violate the margin by sum-product.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "core/blocks.hpp"
#include "labeling/tree_dp.hpp"
#include "sequences/labelings.hpp"

namespace maxmargin::blocks {

class TreeTilt {
  public:
    explicit TreeTilt(const LabelingData& data) : data_(data) {}

    bool in_use() const { return !edge_.empty(); }
    std::size_t n_bytes() const { return sizeof(double) * edge_.size(); }
    const double* edges(std::size_t i) const { return edge_.data() + data_.first(i) * pairs(); }

    // Independent nodes with the marginals mu.
    void start(double* mu, double mass) {
        const std::size_t K = data_.n_labels;
        const double rest = mass / static_cast<double>(K);
        edge_.assign(data_.x.n_rows * pairs(), 0.0);
        for (std::size_t t = 0; t < data_.x.n_rows; ++t)
            for (std::size_t k = 0; k < K; ++k)
                mu[t * K + k] = static_cast<std::int32_t>(k) == data_.y[t] ? 1 - rest * static_cast<double>(K - 1) : rest;
        for (std::size_t i = 0; i < data_.n_blocks; ++i)
            data_.for_edges(i, [&](std::size_t p, std::size_t t) {
                const double *above = mu + (data_.first(i) + p) * K, *own = mu + (data_.first(i) + t) * K;
                double* table = edge_.data() + (data_.first(i) + t) * pairs();
                for (std::size_t a = 0; a < K; ++a)
                    for (std::size_t b = 0; b < K; ++b) table[a * K + b] = above[a] * own[b];
            });
    }

    void shrink(double part) {
        if (!in_use()) return;
        for (double& mass : edge_) mass *= part;
        for (std::size_t i = 0; i < data_.n_blocks; ++i)
            data_.for_edges(i, [&](std::size_t p, std::size_t t) {
                edge_[(data_.first(i) + t) * pairs() + data_.pair(data_.truth(i)[p], data_.truth(i)[t])] += 1 - part;
            });
    }

    // The point with all its mass on one labeling.
    void set_vertex(std::size_t i, const std::int32_t* labels) {
        const std::size_t K = data_.n_labels, L = data_.length(i);
        node.assign(L * K, 0.0);
        edge.assign(L * pairs(), 0.0);
        for (std::size_t t = 0; t < L; ++t) node[t * K + static_cast<std::size_t>(labels[t])] = 1;
        data_.for_edges(i, [&](std::size_t p, std::size_t t) { edge[t * pairs() + data_.pair(labels[p], labels[t])] = 1; });
    }

    // The marginals mu of block i, times exp(scores / temperature) and the like for pairs.
    void tilt(std::size_t i, const double* mu, const structures::Forest& forest, double temperature) {
        node.resize(data_.length(i) * data_.n_labels);
        edge.resize(data_.length(i) * pairs());
        if (!tilt_quickly(i, mu, forest, temperature)) tilt_carefully(i, mu, forest, temperature);
    }

    void mix(std::size_t i, double* mu, double step) {
        const auto blend = [&](double& x, double other) { x = std::max(kLeastProbability, (1 - step) * x + step * other); };
        for (std::size_t e = 0; e < data_.length(i) * data_.n_labels; ++e) blend(mu[e], node[e]);
        double* own = edge_.data() + data_.first(i) * pairs();
        data_.for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = t * pairs(); e < (t + 1) * pairs(); ++e) blend(own[e], edge[e]);
        });
    }

    std::vector<double> node, edge;  // the tilted marginals: L x K and L x K x K

  private:
    std::size_t pairs() const { return data_.n_labels * data_.n_labels; }

    // Sum-product on probabilities, root to leaf the product of edge(a, b) / mu(a): one exponential per label and per pair of
    // labels, none per edge. False if a sum came out so small that underflow may have taken part in it.
    bool tilt_quickly(std::size_t i, const double* mu, const structures::Forest& forest, double temperature) {
        constexpr double kSafe = 1e-250;
        const std::size_t K = data_.n_labels, L = data_.length(i), KK = pairs();
        const double* before = edges(i);
        potential_.resize(KK);
        const double highest = structures::largest_of(KK, [&](std::size_t e) { return forest.pairwise[e]; });
        for (std::size_t e = 0; e < KK; ++e) potential_[e] = std::exp((forest.pairwise[e] - highest) / temperature);
        // What a node and all below it say about its label, up to a factor; and what they say about its parent's.
        belief_.resize(L * K);
        message_.resize(L * K);
        for (std::size_t t = 0; t < L; ++t) {
            const double* row = forest.unary + t * K;
            const double top = structures::largest_of(K, [&](std::size_t k) { return row[k]; });
            for (std::size_t k = 0; k < K; ++k) belief_[t * K + k] = std::exp((row[k] - top) / temperature);
        }
        for (std::size_t t = L; t-- > 0;) {
            double* belief = belief_.data() + t * K;
            const double top = structures::largest_of(K, [&](std::size_t k) { return belief[k]; });
            if (!(top >= kSafe)) return false;
            for (std::size_t k = 0; k < K; ++k) belief[k] /= top;
            const std::int64_t p = data_.parent_of(i, t);
            if (p < 0) continue;
            const double* above = mu + static_cast<std::size_t>(p) * K;
            double *to = belief_.data() + static_cast<std::size_t>(p) * K, *message = message_.data() + t * K;
            for (std::size_t a = 0; a < K; ++a) {
                const double *joint = before + t * KK + a * K, *tilt = potential_.data() + a * K;
                double* row = edge.data() + t * KK + a * K;
                const double per = 1 / above[a];
                double even = 0, odd = 0;
                std::size_t b = 0;
                for (; b + 2 <= K; b += 2) {
                    row[b] = joint[b] * per * tilt[b] * belief[b];
                    row[b + 1] = joint[b + 1] * per * tilt[b + 1] * belief[b + 1];
                    even += row[b];
                    odd += row[b + 1];
                }
                if (b < K) even += row[b] = joint[b] * per * tilt[b] * belief[b];
                message[a] = even + odd;
                if (!(message[a] >= kSafe)) return false;
                to[a] *= message[a];
            }
        }
        for (std::size_t t = 0; t < L; ++t) {
            double* own = node.data() + t * K;
            const std::int64_t p = data_.parent_of(i, t);
            if (p < 0) {
                double sum = 0;
                for (std::size_t k = 0; k < K; ++k) sum += own[k] = mu[t * K + k] * belief_[t * K + k];
                if (!(sum >= kSafe)) return false;
                for (std::size_t k = 0; k < K; ++k) own[k] /= sum;
                continue;
            }
            const double* above = node.data() + static_cast<std::size_t>(p) * K;
            std::fill(own, own + K, 0.0);
            for (std::size_t a = 0; a < K; ++a) {
                double* row = edge.data() + t * KK + a * K;
                const double factor = above[a] / message_[t * K + a];
                for (std::size_t b = 0; b < K; ++b) row[b] *= factor;
                for (std::size_t b = 0; b < K; ++b) own[b] += row[b];
            }
        }
        return true;
    }

    // The same with logarithms, for any temperature and any scores.
    void tilt_carefully(std::size_t i, const double* mu, const structures::Forest& forest, double temperature) {
        const std::size_t K = data_.n_labels, L = data_.length(i), KK = pairs();
        const double* before = edges(i);
        // The tree distribution with marginals mu and edge has the potentials log edge and (1 - degree) log mu.
        degree_.assign(L, 0);
        data_.for_edges(i, [&](std::size_t p, std::size_t t) { ++degree_[p], ++degree_[t]; });
        potential_.resize(L * K);
        potentials_.resize(L * KK);
        for (std::size_t t = 0; t < L; ++t)
            for (std::size_t k = 0; k < K; ++k)
                potential_[t * K + k] = (1 - degree_[t]) * log_of(mu[t * K + k]) + forest.unary[t * K + k] / temperature;
        data_.for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = 0; e < KK; ++e) potentials_[t * KK + e] = log_of(before[t * KK + e]) + forest.pairwise[e] / temperature;
        });
        structures::Forest soft = forest;
        soft.unary = potential_.data();
        soft.pairwise = potentials_.data();
        soft.shared = false;
        solver_.marginals(soft, 1, node.data(), edge.data());
        for (double& x : node) x = std::exp(x);
        data_.for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = 0; e < KK; ++e) edge[t * KK + e] = std::exp(edge[t * KK + e]);
        });
    }

    LabelingData data_;
    std::vector<double> edge_;  // nodes x K x K, [parent's label][own label]
    structures::TreeSolver solver_;
    std::vector<double> potential_, potentials_, belief_, message_;
    std::vector<int> degree_;
};

}  // namespace maxmargin::blocks
