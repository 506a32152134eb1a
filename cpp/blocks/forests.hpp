// Blocks that are chains, trees or forests of labels: a score for every label of every node, and one for every pair of
// labels of a node and its parent; also one for the label of a root and one for the label of a leaf.
//
// The point of a block is kept as the marginals of its nodes (L x K) and the summed marginals of its edges (the pairs of
// labels that occur, of K x K). Hinges and gaps are inner products of these with the scores that the oracle needs anyway,
// and the squared length of a step comes from the inner products of the nodes' features: the d weights are touched once
// for reading and once for writing, and only where the step is not zero.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "blocks/blocks.hpp"
#include "blocks/rows.hpp"
#include "structures/tree_dp.hpp"

namespace maxmargin::blocks {

// A user's own search for the best labeling of a block, instead of Viterbi: writes the labels (n_nodes) with the largest sum of
// scores (n_nodes x n_labels) and, over the edges, of table[parent's label][own label], and returns 0 unless it failed.
// Documented in docs/native.md.
using Decoder = std::int64_t (*)(const double* reals, const std::int64_t* integers, std::int64_t block, std::int64_t n_nodes,
                                 std::int64_t n_labels, const double* scores, const double* table, std::int32_t* labels);

// Arrays stay the caller's.
struct ForestData {
    Rows x;                      // one row per node
    const std::int32_t* y;       // label of every node
    const double* cost;          // of a wrong label, for every node
    const std::int64_t* offsets; // block i has the nodes offsets[i] to offsets[i + 1] - 1
    const std::int32_t* parent;  // for every node, counted within its block, -1 for a root; null if all blocks are chains
    std::size_t n_blocks, n_labels;
    Decoder decoder = nullptr;   // the user's, with its data
    const double* reals = nullptr;
    const std::int64_t* integers = nullptr;
};

// Ask a user's decoder, and check what can be checked.
inline void decode(const ForestData& data, std::size_t block, std::size_t n_nodes, const double* scores, const double* table,
                   std::int32_t* labels) {
    const auto K = static_cast<std::int64_t>(data.n_labels);
    std::fill(labels, labels + n_nodes, -1);
    const std::int64_t status = data.decoder(data.reals, data.integers, static_cast<std::int64_t>(block),
                                             static_cast<std::int64_t>(n_nodes), K, scores, table, labels);
    if (status != 0)
        throw std::invalid_argument("the decoder returned " + std::to_string(status) + " instead of 0, for block " + std::to_string(block));
    for (std::size_t t = 0; t < n_nodes; ++t)
        if (labels[t] < 0 || labels[t] >= K)
            throw std::invalid_argument("the decoder wrote the label " + std::to_string(labels[t]) + " at node " + std::to_string(t) +
                                        " of block " + std::to_string(block) + "; labels are 0 to " + std::to_string(K - 1));
}

class ForestBlocks final : public Blocks {
  public:
    using Label = std::uint16_t;
    static constexpr std::size_t kMostLabels = 65535;

    explicit ForestBlocks(const ForestData& data) : data_(data), stride_(stride_for(data.n_labels)) {
        const std::size_t K = data_.n_labels;
        n_ = data_.n_blocks;
        root_at_ = data_.x.n_columns * stride_;
        leaf_at_ = root_at_ + stride_;
        table_at_ = leaf_at_ + stride_;
        weights_.resize(table_at_ + K * K);
        turned_.resize(K * K);
        mu_.resize(data_.x.n_rows * K);
        pairs_.resize(n_);
        find_leaves();
        compute_grams();
        std::size_t longest = 0;
        for (std::size_t i = 0; i < n_; ++i) longest = std::max(longest, length(i));
        score_.resize(longest * K + stride_);
        target_.resize(longest);
        scattered_.resize(K);
        coefficient_.resize(stride_);
        ends_.resize(2 * K);
        pair_change_.resize(K * K);
        pair_place_.assign(K * K, kUntouched);
        direction_.resize(0);
        solver_.start_turned(turned_.data(), K);
        reset();
    }

    ForestBlocks(const ForestBlocks& other) : ForestBlocks(other, 0) {}

    std::unique_ptr<Blocks> copy() const override { return std::unique_ptr<Blocks>(new ForestBlocks(*this)); }
    std::size_t n_weights() const override { return data_.n_labels * (data_.x.n_columns + 2 + data_.n_labels); }
    void export_weights(double* out) const override { exchange(weights_.data(), out, true); }

    void use_corners(bool wanted) override {
        if (wanted && known_.empty()) {
            known_.resize(n_);
            reset();
        } else if (!wanted) {
            known_.clear();
            known_.shrink_to_fit();
        }
    }

    std::size_t n_known(std::size_t i) const override { return known_.empty() ? 1 : known_[i].alpha.size(); }

    void refresh() override {
        const std::size_t K = data_.n_labels;
        std::fill(weights_.v.begin(), weights_.v.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            if (known_.empty()) normalise(i);
            else average_corners(i);
            const std::size_t L = length(i);
            // From the truth to the present point.
            clear_change();
            for (std::size_t t = 0; t < L; ++t) {
                const double* mu = mu_.data() + (first(i) + t) * K;
                const auto own = static_cast<std::size_t>(truth(i)[t]);
                // The truth loses what the others have; 1 less its own would cancel.
                double others = 0;
                for (std::size_t k = 0; k < K; ++k)
                    if (k != own) others += mu[k], put(k, mu[k]);
                put(own, -others);
                end_row(t);
            }
            for (const PairMass& p : pairs_[i]) touch(p.pair) += p.mass;
            for_edges(i, [&](std::size_t p, std::size_t t) { touch(pair(truth(i)[p], truth(i)[t])) -= 1; });
            add(i, 1, weights_.v.data());
        }
        clear_pairs();
        weights_.project();
        turn_all();
    }

    void shrink(double part) override {
        const std::size_t K = data_.n_labels;
        for (Known& known : known_) {
            for (double& alpha : known.alpha) alpha *= part;
            known.alpha[0] += 1 - part;
        }
        for (double& mass : mu_) mass *= part;
        for (double& mass : edge_) mass *= part;
        for (std::size_t t = 0; t < data_.x.n_rows; ++t) mu_[t * K + static_cast<std::size_t>(data_.y[t])] += 1 - part;
        for (std::size_t i = 0; i < n_; ++i) {
            for (PairMass& p : pairs_[i]) p.mass *= part;
            clear_pairs();
            for_edges(i, [&](std::size_t p, std::size_t t) {
                const std::uint32_t both = pair(truth(i)[p], truth(i)[t]);
                touch(both) += 1;
                if (!edge_.empty()) edge_[(first(i) + t) * K * K + both] += 1 - part;
            });
            move_pairs(i, 1 - part);
        }
        clear_pairs();
    }

    double total_loss() const override {
        double total = 0;
        for (std::size_t t = 0; t < data_.x.n_rows; ++t) {
            double wrong = 0;
            for (std::size_t k = 0; k < data_.n_labels; ++k)
                if (static_cast<std::int32_t>(k) != data_.y[t]) wrong += mu_[t * data_.n_labels + k];
            total += data_.cost[t] * wrong;
        }
        return total;
    }

    Hinges ask(std::size_t i) override {
        score(i);
        if (data_.decoder) decode(data_, i, length(i), score_.data(), table(), target_.data());
        else solver_.best_again(forest(i), target_.data());
        double target = score_of(i, target_.data());
        if (data_.decoder && target < truth_score_ && truth_score_ - target > 1e-9 * (std::abs(target) + std::abs(truth_score_))) {
            // Worse than the truth: not the best.
            ++worse_than_truth_;
            std::copy_n(truth(i), length(i), target_.begin());
            target = truth_score_;
        }
        return hinges(target, mean_score(i));
    }

    Hinges recall(std::size_t i) override {
        score(i);
        score_known(i);
        const auto slot = static_cast<std::size_t>(std::max_element(known_score_.begin(), known_score_.end()) - known_score_.begin());
        std::copy_n(known_[i].labels.begin() + static_cast<std::ptrdiff_t>(slot * length(i)), length(i), target_.begin());
        return hinges(known_score_[slot], mean_score(i));
    }

    double step(std::size_t i, Steps steps) override {
        if (known_.empty()) {
            set_change_toward(i, target_.data());
            return apply(i, plan(i, 1, rise_));
        }
        const std::size_t slot = add_known(i);
        Known& known = known_[i];
        score_known(i);
        std::size_t worst = kNone;
        double mean = 0;
        for (std::size_t c = 0; c < known.alpha.size(); ++c) {
            mean += known.alpha[c] * known_score_[c];
            if (known.alpha[c] > 0 && (worst == kNone || known_score_[c] < known_score_[worst])) worst = c;
        }
        // All moves, then the best of those allowed; the change of the last one tried is at hand.
        Steps kind = Steps::fw, last = Steps::exact;
        Plan best;
        const auto try_ = [&](Steps move) {
            const Plan plan = plan_move(i, move, slot, worst, mean);
            if (last == Steps::exact || plan.gain > best.gain) best = plan, kind = move;
            last = move;
        };
        if (steps != Steps::pairwise) try_(Steps::fw);
        if ((steps == Steps::away || steps == Steps::all) && known.alpha[worst] < 1) try_(Steps::away);
        if ((steps == Steps::pairwise || steps == Steps::all) && worst != slot) try_(Steps::pairwise);
        if (best.step == 0) return 0;
        if (kind != last) best = plan_move(i, kind, slot, worst, mean);
        move_alpha(known, kind, slot, worst, best);
        return apply(i, best);
    }

    void remember(std::size_t i) override {
        if (!known_.empty()) add_known(i);
    }

    void forget(std::size_t i, std::size_t most) override {
        if (known_.empty() || known_[i].alpha.size() <= most) return;
        Known& known = known_[i];
        const std::size_t L = length(i);
        score_known(i);
        order_.clear();
        std::size_t needed = 0;
        for (std::size_t c = 0; c < known.alpha.size(); ++c) {
            order_.push_back(c);
            needed += c == 0 || known.alpha[c] > 0;
        }
        const auto in_use = [&](std::size_t c) { return c == 0 || known.alpha[c] > 0; };
        std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            if (in_use(a) != in_use(b)) return in_use(a);
            return known_score_[a] > known_score_[b];
        });
        order_.resize(std::max(most, needed));
        std::sort(order_.begin(), order_.end());
        for (std::size_t to = 0; to < order_.size(); ++to) {
            known.alpha[to] = known.alpha[order_[to]];
            std::copy_n(known.labels.begin() + static_cast<std::ptrdiff_t>(order_[to] * L), L,
                        known.labels.begin() + static_cast<std::ptrdiff_t>(to * L));
        }
        known.alpha.resize(order_.size());
        known.labels.resize(order_.size() * L);
    }

    void use_interior(double mass) override {
        if (!edge_.empty()) return;
        const std::size_t K = data_.n_labels;
        const double rest = mass / static_cast<double>(K);
        edge_.assign(data_.x.n_rows * K * K, 0.0);
        for (std::size_t t = 0; t < data_.x.n_rows; ++t)
            for (std::size_t k = 0; k < K; ++k)
                mu_[t * K + k] = static_cast<std::int32_t>(k) == data_.y[t] ? 1 - rest * static_cast<double>(K - 1) : rest;
        for (std::size_t i = 0; i < n_; ++i) {
            for_edges(i, [&](std::size_t p, std::size_t t) {
                const double *above = mu_.data() + (first(i) + p) * K, *own = mu_.data() + (first(i) + t) * K;
                double* table = edge_.data() + (first(i) + t) * K * K;
                for (std::size_t a = 0; a < K; ++a)
                    for (std::size_t b = 0; b < K; ++b) table[a * K + b] = above[a] * own[b];
            });
            pairs_[i].clear();
            clear_pairs();
            add_edges(i, edge_.data() + first(i) * K * K);
            move_pairs(i, 1);
        }
        clear_pairs();
    }

    double soft_step(std::size_t i, double temperature, Rule rule, double dual, std::size_t& calls) override {
        score(i);
        Plan step;
        for (;; temperature *= 2) {
            ++calls;
            tilt(i, temperature);
            const double rise = rise_of_change();
            step = plan(i, kAlmostOne, rise);
            if (rule == Rule::line_search) break;
            const double scale = lambda_ * static_cast<double>(n_);
            const double squared = explicitly(i) ? direction_.squared() : squared_change(i) / (scale * scale);
            step = plan_full(rise / static_cast<double>(n_), squared, lambda_);
            if (rule == Rule::full || !loses(step.gain, dual)) break;
        }
        if (step.step == 0) return 0;
        move_weights(i, step.step);
        mix(i, step.step);
        return step.gain;
    }

    double soft_step_all(double temperature, Rule rule, double dual, std::size_t& calls) override {
        direction_.resize(weights_.v.size());
        Plan step;
        for (;; temperature *= 2) {
            direction_.clear();
            double rise = 0;
            for (std::size_t i = 0; i < n_; ++i) {
                score(i);
                tilt(i, temperature);
                rise += rise_of_change();
                describe(i);
            }
            calls += n_;
            rise /= static_cast<double>(n_);
            step = weights_.plan(direction_, rise, lambda_, kAlmostOne);
            if (rule == Rule::line_search) break;
            step = plan_full(rise, direction_.squared(), lambda_);
            if (rule == Rule::full || !loses(step.gain, dual)) break;
        }
        // The weights are still those at which the distributions were tilted.
        for (std::size_t i = 0; i < n_ && step.step > 0; ++i) {
            score(i);
            tilt(i, temperature);
            mix(i, step.step);
        }
        refresh();
        return step.gain;
    }

    void note_target(std::size_t i) override {
        targets_.resize(data_.x.n_rows);
        std::copy_n(target_.begin(), length(i), targets_.begin() + static_cast<std::ptrdiff_t>(first(i)));
    }

    double step_all(double slope) override {
        direction_.resize(weights_.v.size());
        direction_.clear();
        for (std::size_t i = 0; i < n_; ++i) {
            set_change_toward(i, targets_.data() + first(i));
            describe(i);
        }
        const Plan plan = weights_.plan(direction_, slope, lambda_, 1);
        for (std::size_t i = 0; i < n_; ++i) {
            std::copy_n(targets_.begin() + static_cast<std::ptrdiff_t>(first(i)), length(i), target_.begin());
            set_change_toward(i, target_.data());
            if (!known_.empty()) move_alpha(known_[i], Steps::fw, add_known(i), 0, plan);
            move_point(i, plan.step);
        }
        refresh();
        return plan.gain;
    }

    std::size_t n_bytes() const override {
        std::size_t bytes = sizeof(double) * (mu_.size() + gram_.size() + edge_.size());
        for (const auto& pairs : pairs_) bytes += sizeof pairs + pairs.capacity() * sizeof(PairMass);
        for (const Known& known : known_)
            bytes += sizeof known + known.alpha.capacity() * sizeof(double) + known.labels.capacity() * sizeof(Label);
        return bytes;
    }

  protected:
    void import(const double* user, double* own) const override { exchange(user, own, false); }

  private:
    struct Change {
        double value;
        std::uint32_t label;
    };
    // Changes begin to end - 1 are those of a node.
    struct Row {
        std::size_t node, begin, end;
    };
    struct PairMass {
        double mass;
        std::uint32_t pair;
    };
    // Remembered labelings, L labels each; the truth is the first.
    struct Known {
        std::vector<double> alpha;
        std::vector<Label> labels;
    };
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    static constexpr std::int32_t kUntouched = -2, kNew = -1;
    // Blocks with more nodes do without the inner products of all pairs of nodes.
    static constexpr std::size_t kLongestGram = 64;
    // A row of a change below this is rounding.
    static constexpr double kNothing = 1e-13;

    // Scratch holds pointers into itself, so a copy makes its own.
    ForestBlocks(const ForestBlocks& other, int)
        : Blocks(other), data_(other.data_), stride_(other.stride_), root_at_(other.root_at_), leaf_at_(other.leaf_at_),
          table_at_(other.table_at_), mu_(other.mu_), edge_(other.edge_), gram_(other.gram_), gram_at_(other.gram_at_), pairs_(other.pairs_),
          known_(other.known_), leaf_(other.leaf_), turned_(other.turned_), score_(other.score_), scattered_(other.scattered_),
          coefficient_(other.coefficient_), ends_(other.ends_), target_(other.target_), pair_change_(other.pair_change_),
          pair_place_(other.pair_place_), pair_touched_(other.pair_touched_) {
        solver_.start_turned(turned_.data(), data_.n_labels);
    }

    std::size_t first(std::size_t i) const { return static_cast<std::size_t>(data_.offsets[i]); }
    std::size_t length(std::size_t i) const { return static_cast<std::size_t>(data_.offsets[i + 1]) - first(i); }
    const std::int32_t* truth(std::size_t i) const { return data_.y + first(i); }
    std::uint32_t pair(std::int32_t parent, std::int32_t own) const {
        return static_cast<std::uint32_t>(parent) * static_cast<std::uint32_t>(data_.n_labels) + static_cast<std::uint32_t>(own);
    }
    std::int64_t parent_of(std::size_t i, std::size_t t) const {
        return data_.parent ? data_.parent[first(i) + t] : static_cast<std::int64_t>(t) - 1;
    }
    bool is_leaf(std::size_t i, std::size_t t) const { return data_.parent ? leaf_[first(i) + t] != 0 : t + 1 == length(i); }
    const double* table() const { return weights_.data() + table_at_; }
    structures::Forest forest(std::size_t i) const {
        return {length(i), data_.n_labels, data_.parent ? data_.parent + first(i) : nullptr, score_.data(), table(), true};
    }
    template <class F>
    void for_edges(std::size_t i, const F& f) const {
        for (std::size_t t = 0; t < length(i); ++t)
            if (const std::int64_t p = parent_of(i, t); p >= 0) f(static_cast<std::size_t>(p), t);
    }

    void find_leaves() {
        if (!data_.parent) return;
        leaf_.assign(data_.x.n_rows, 1);
        for (std::size_t i = 0; i < n_; ++i) for_edges(i, [&](std::size_t p, std::size_t) { leaf_[first(i) + p] = 0; });
    }

    void compute_grams() {
        gram_at_.assign(n_, kNone);
        for (std::size_t i = 0; i < n_; ++i) {
            const std::size_t L = length(i);
            if (L > kLongestGram) continue;
            gram_at_[i] = gram_.size();
            for (std::size_t t = 0; t < L; ++t)
                for (std::size_t s = 0; s <= t; ++s) gram_.push_back(data_.x.dot(first(i) + t, first(i) + s));
        }
    }

    // All blocks at their truths.
    void reset() {
        const std::size_t K = data_.n_labels;
        std::fill(mu_.begin(), mu_.end(), 0.0);
        for (std::size_t t = 0; t < data_.x.n_rows; ++t) mu_[t * K + static_cast<std::size_t>(data_.y[t])] = 1;
        for (std::size_t i = 0; i < n_; ++i) {
            pairs_[i].clear();
            clear_pairs();
            for_edges(i, [&](std::size_t p, std::size_t t) { touch(pair(truth(i)[p], truth(i)[t])) += 1; });
            move_pairs(i, 1);
        }
        clear_pairs();
        for (std::size_t i = 0; i < known_.size(); ++i) {
            known_[i].alpha.assign(1, 1.0);
            known_[i].labels.assign(truth(i), truth(i) + length(i));
        }
    }

    // Between [feature][label] with padding and the user's [label][feature]; the ends and pairs follow in both.
    void exchange(const double* from, double* to, bool to_user) const {
        const std::size_t K = data_.n_labels, features = data_.x.n_columns;
        const auto copy = [&](std::size_t user, std::size_t own) {
            if (to_user) to[user] = from[own];
            else to[own] = from[user];
        };
        for (std::size_t k = 0; k < K; ++k) {
            for (std::size_t j = 0; j < features; ++j) copy(k * features + j, j * stride_ + k);
            copy(K * features + k, root_at_ + k);
            copy(K * features + K + k, leaf_at_ + k);
            for (std::size_t b = 0; b < K; ++b) copy(K * (features + 2) + k * K + b, table_at_ + k * K + b);
        }
    }

    void turn(std::size_t pair) {
        const std::size_t K = data_.n_labels;
        turned_[pair % K * K + pair / K] = table()[pair];
    }
    void turn_all() {
        for (std::size_t p = 0; p < turned_.size(); ++p) turn(p);
    }

    // ---- scores at the present weights, losses included -------------------------------------------------------------------

    void score(std::size_t i) {
        const std::size_t K = data_.n_labels, L = length(i);
        const double* w = weights_.data();
        // Blocks come in random order: what the step will need is on its way while the scores are formed.
        for (std::size_t e = 0; e < L * K; e += 8) __builtin_prefetch(mu_.data() + first(i) * K + e);
        for (std::size_t e = 0; e < pairs_[i].size(); e += 4) __builtin_prefetch(pairs_[i].data() + e);
        for (std::size_t t = 0; t < L; ++t) score_row(data_.x, first(i) + t, w, stride_, score_.data() + t * K);
        for (std::size_t t = 0; t < L; ++t) {
            double* row = score_.data() + t * K;
            const double cost = data_.cost[first(i) + t];
            const std::int32_t y = truth(i)[t];
            const double own = row[y];
            for (std::size_t k = 0; k < K; ++k) row[k] += cost;
            row[y] = own;
            if (parent_of(i, t) < 0)
                for (std::size_t k = 0; k < K; ++k) row[k] += w[root_at_ + k];
            if (is_leaf(i, t))
                for (std::size_t k = 0; k < K; ++k) row[k] += w[leaf_at_ + k];
        }
        truth_score_ = score_of(i, truth(i));
    }

    Hinges hinges(double target, double mean) {
        rise_ = target - mean;
        return {target - truth_score_, mean - truth_score_};
    }

    template <class AnyLabel>
    double score_of(std::size_t i, const AnyLabel* labels) const {
        double sum = 0;
        const double* pairs = table();
        for (std::size_t t = 0; t < length(i); ++t) {
            sum += score_[t * data_.n_labels + static_cast<std::size_t>(labels[t])];
            if (const std::int64_t p = parent_of(i, t); p >= 0)
                sum += pairs[pair(static_cast<std::int32_t>(labels[p]), static_cast<std::int32_t>(labels[t]))];
        }
        return sum;
    }

    double mean_score(std::size_t i) const {
        const double *mu = mu_.data() + first(i) * data_.n_labels, *pairs = table();
        // Two sums that do not wait for each other.
        double even = 0, odd = 0;
        const std::size_t count = length(i) * data_.n_labels;
        std::size_t e = 0;
        for (; e + 2 <= count; e += 2) even += mu[e] * score_[e], odd += mu[e + 1] * score_[e + 1];
        if (e < count) even += mu[e] * score_[e];
        double sum = 0;
        for (const PairMass& p : pairs_[i]) sum += p.mass * pairs[p.pair];
        return even + odd + sum;
    }

    void score_known(std::size_t i) {
        const std::size_t L = length(i), m = known_[i].alpha.size();
        known_score_.resize(m);
        for (std::size_t c = 0; c < m; ++c) known_score_[c] = score_of(i, known_[i].labels.data() + c * L);
    }

    // ---- remembered labelings ---------------------------------------------------------------------------------------------

    // Slot of the target, a new one if it was not known.
    std::size_t add_known(std::size_t i) {
        Known& known = known_[i];
        const std::size_t L = length(i), m = known.alpha.size();
        for (std::size_t c = 0; c < m; ++c)
            if (std::equal(target_.begin(), target_.begin() + static_cast<std::ptrdiff_t>(L), known.labels.begin() + static_cast<std::ptrdiff_t>(c * L)))
                return c;
        known.alpha.push_back(0);
        known.labels.insert(known.labels.end(), target_.begin(), target_.begin() + static_cast<std::ptrdiff_t>(L));
        return m;
    }

    static void move_alpha(Known& known, Steps kind, std::size_t slot, std::size_t worst, const Plan& plan) {
        auto& alpha = known.alpha;
        if (kind == Steps::fw) {
            for (double& a : alpha) a *= 1 - plan.step;
            alpha[slot] += plan.step;
        } else if (kind == Steps::away) {
            for (double& a : alpha) a *= 1 + plan.step;
            alpha[worst] = plan.full ? 0 : alpha[worst] - plan.step;
        } else {
            alpha[slot] += plan.step;
            alpha[worst] = plan.full ? 0 : alpha[worst] - plan.step;
        }
        double sum = 0;
        for (double& a : alpha) sum += a = std::max(0.0, a);
        for (double& a : alpha) a /= sum;
    }

    Plan plan_move(std::size_t i, Steps move, std::size_t slot, std::size_t worst, double mean) {
        const Known& known = known_[i];
        const Label *target = known.labels.data() + slot * length(i), *away = known.labels.data() + worst * length(i);
        double largest = 1, rise = known_score_[slot] - mean;
        if (move == Steps::fw) {
            set_change_toward(i, target);
        } else if (move == Steps::away) {
            set_change(i, static_cast<const Label*>(nullptr), away, 1);
            largest = known.alpha[worst] / (1 - known.alpha[worst]);
            rise = mean - known_score_[worst];
        } else {
            set_change(i, target, away, 0);
            largest = known.alpha[worst];
            rise = known_score_[slot] - known_score_[worst];
        }
        return plan(i, largest, rise);
    }

    void average_corners(std::size_t i) {
        const std::size_t K = data_.n_labels, L = length(i);
        const Known& known = known_[i];
        double* mu = mu_.data() + first(i) * K;
        std::fill(mu, mu + L * K, 0.0);
        pairs_[i].clear();
        clear_pairs();
        for (std::size_t c = 0; c < known.alpha.size(); ++c) {
            const double alpha = known.alpha[c];
            if (alpha == 0) continue;
            const Label* labels = known.labels.data() + c * L;
            for (std::size_t t = 0; t < L; ++t) mu[t * K + labels[t]] += alpha;
            for_edges(i, [&](std::size_t p, std::size_t t) { touch(pair(labels[p], labels[t])) += alpha; });
        }
        move_pairs(i, 1);
    }

    void normalise(std::size_t i) {
        const std::size_t K = data_.n_labels;
        for (std::size_t t = first(i); t < first(i) + length(i); ++t) {
            double* mu = mu_.data() + t * K;
            double sum = 0;
            for (std::size_t k = 0; k < K; ++k) sum += mu[k];
            for (std::size_t k = 0; k < K; ++k) mu[k] /= sum;
        }
    }

    // ---- points in the interior: marginals of nodes in mu_ and of edges in edge_, all positive ------------------------------

    // After `score`: the tilted marginals, and the way to them.
    void tilt(std::size_t i, double temperature) {
        const std::size_t K = data_.n_labels, L = length(i), KK = K * K;
        const double* mu = mu_.data() + first(i) * K;
        soft_node_.resize(L * K);
        soft_edge_.resize(L * KK);
        if (temperature == 0) {
            solver_.best_again(forest(i), target_.data());
            std::fill(soft_node_.begin(), soft_node_.end(), 0.0);
            std::fill(soft_edge_.begin(), soft_edge_.end(), 0.0);
            for (std::size_t t = 0; t < L; ++t) soft_node_[t * K + static_cast<std::size_t>(target_[t])] = 1;
            for_edges(i, [&](std::size_t p, std::size_t t) { soft_edge_[t * KK + pair(target_[p], target_[t])] = 1; });
        } else if (!tilt_quickly(i, temperature)) {
            tilt_carefully(i, temperature);
        }
        clear_change();
        for (std::size_t t = 0; t < L; ++t) {
            for (std::size_t k = 0; k < K; ++k) put(k, soft_node_[t * K + k] - mu[t * K + k]);
            end_row(t);
        }
        for (const PairMass& p : pairs_[i]) touch(p.pair) -= p.mass;
        add_edges(i, soft_edge_.data());
    }

    // Sum-product on probabilities, root to leaf the product of edge(a, b) / mu(a): one exponential per label and per pair of
    // labels, none per edge. False if a sum came out so small that underflow may have taken part in it.
    bool tilt_quickly(std::size_t i, double temperature) {
        constexpr double kSafe = 1e-250;
        const std::size_t K = data_.n_labels, L = length(i), KK = K * K;
        const double *mu = mu_.data() + first(i) * K, *edge = edge_.data() + first(i) * KK;
        potential_.resize(KK);
        const double highest = structures::largest_of(KK, [&](std::size_t e) { return table()[e]; });
        for (std::size_t e = 0; e < KK; ++e) potential_[e] = std::exp((table()[e] - highest) / temperature);
        // What a node and all below it say about its label, up to a factor; and what they say about its parent's.
        belief_.resize(L * K);
        message_.resize(L * K);
        for (std::size_t t = 0; t < L; ++t) {
            const double* row = score_.data() + t * K;
            const double top = structures::largest_of(K, [&](std::size_t k) { return row[k]; });
            for (std::size_t k = 0; k < K; ++k) belief_[t * K + k] = std::exp((row[k] - top) / temperature);
        }
        for (std::size_t t = L; t-- > 0;) {
            double* belief = belief_.data() + t * K;
            const double top = structures::largest_of(K, [&](std::size_t k) { return belief[k]; });
            if (!(top >= kSafe)) return false;
            for (std::size_t k = 0; k < K; ++k) belief[k] /= top;
            const std::int64_t p = parent_of(i, t);
            if (p < 0) continue;
            const double* above = mu + static_cast<std::size_t>(p) * K;
            double *to = belief_.data() + static_cast<std::size_t>(p) * K, *message = message_.data() + t * K;
            for (std::size_t a = 0; a < K; ++a) {
                const double *joint = edge + t * KK + a * K, *tilt = potential_.data() + a * K;
                double* row = soft_edge_.data() + t * KK + a * K;
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
            double* own = soft_node_.data() + t * K;
            const std::int64_t p = parent_of(i, t);
            if (p < 0) {
                double sum = 0;
                for (std::size_t k = 0; k < K; ++k) sum += own[k] = mu[t * K + k] * belief_[t * K + k];
                if (!(sum >= kSafe)) return false;
                for (std::size_t k = 0; k < K; ++k) own[k] /= sum;
                continue;
            }
            const double* above = soft_node_.data() + static_cast<std::size_t>(p) * K;
            std::fill(own, own + K, 0.0);
            for (std::size_t a = 0; a < K; ++a) {
                double* row = soft_edge_.data() + t * KK + a * K;
                const double factor = above[a] / message_[t * K + a];
                for (std::size_t b = 0; b < K; ++b) row[b] *= factor;
                for (std::size_t b = 0; b < K; ++b) own[b] += row[b];
            }
        }
        return true;
    }

    // The same with logarithms, for any temperature and any scores.
    void tilt_carefully(std::size_t i, double temperature) {
        const std::size_t K = data_.n_labels, L = length(i), KK = K * K;
        const double *mu = mu_.data() + first(i) * K, *edge = edge_.data() + first(i) * KK;
        // The tree distribution with marginals mu and edge has the potentials log edge and (1 - degree) log mu.
        degree_.assign(L, 0);
        for_edges(i, [&](std::size_t p, std::size_t t) { ++degree_[p], ++degree_[t]; });
        potential_.resize(L * K);
        potentials_.resize(L * KK);
        for (std::size_t t = 0; t < L; ++t)
            for (std::size_t k = 0; k < K; ++k)
                potential_[t * K + k] = (1 - degree_[t]) * log_of(mu[t * K + k]) + score_[t * K + k] / temperature;
        for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = 0; e < KK; ++e) potentials_[t * KK + e] = log_of(edge[t * KK + e]) + table()[e] / temperature;
        });
        structures::Forest soft = forest(i);
        soft.unary = potential_.data();
        soft.pairwise = potentials_.data();
        soft.shared = false;
        soft_solver_.marginals(soft, 1, soft_node_.data(), soft_edge_.data());
        for (double& x : soft_node_) x = std::exp(x);
        for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = 0; e < KK; ++e) soft_edge_[t * KK + e] = std::exp(soft_edge_[t * KK + e]);
        });
    }

    void mix(std::size_t i, double step) {
        const std::size_t K = data_.n_labels, L = length(i), KK = K * K;
        double *mu = mu_.data() + first(i) * K, *edge = edge_.data() + first(i) * KK;
        const auto blend = [&](double& x, double other) { x = std::max(kLeastProbability, (1 - step) * x + step * other); };
        for (std::size_t e = 0; e < L * K; ++e) blend(mu[e], soft_node_[e]);
        for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = t * KK; e < (t + 1) * KK; ++e) blend(edge[e], soft_edge_[e]);
        });
        move_pairs(i, step);
    }

    // Sum of the edges' marginals, L x K x K, into pair_change_.
    void add_edges(std::size_t i, const double* edge) {
        const std::size_t KK = data_.n_labels * data_.n_labels;
        pair_sum_.assign(KK, 0.0);
        for_edges(i, [&](std::size_t, std::size_t t) {
            for (std::size_t e = 0; e < KK; ++e) pair_sum_[e] += edge[t * KK + e];
        });
        for (std::size_t e = 0; e < KK; ++e)
            if (pair_sum_[e] != 0) touch(static_cast<std::uint32_t>(e)) += pair_sum_[e];
    }

    double rise_of_change() const {
        double rise = 0;
        for (const Row& row : rows_)
            for (std::size_t e = row.begin; e < row.end; ++e) rise += changes_[e].value * score_[row.node * data_.n_labels + changes_[e].label];
        for (const std::uint32_t p : pair_touched_) rise += pair_change_[p] * table()[p];
        return rise;
    }

    // ---- changes of a block's point: changes_ for the nodes in rows_, pair_change_ for the pairs in pair_touched_ -----------

    void clear_pairs() {
        for (const std::uint32_t p : pair_touched_) pair_change_[p] = 0, pair_place_[p] = kUntouched;
        pair_touched_.clear();
    }
    double& touch(std::uint32_t pair) {
        if (pair_place_[pair] == kUntouched) pair_place_[pair] = kNew, pair_touched_.push_back(pair);
        return pair_change_[pair];
    }
    void clear_change() {
        rows_.clear();
        changes_.clear();
        clear_pairs();
    }
    void put(std::size_t label, double value) {
        if (value != 0) changes_.push_back({value, static_cast<std::uint32_t>(label)});
    }
    // What was put since the last row is the change of this node.
    void end_row(std::size_t node) {
        const std::size_t begin = rows_.empty() ? 0 : rows_.back().end;
        if (changes_.size() > begin) rows_.push_back({node, begin, changes_.size()});
    }

    // factor * (present point) + plus - minus, the latter two unless null.
    template <class AnyLabel>
    void set_change(std::size_t i, const AnyLabel* plus, const AnyLabel* minus, double factor) {
        const std::size_t K = data_.n_labels;
        clear_change();
        for (std::size_t t = 0; t < length(i); ++t) {
            const double* mu = mu_.data() + (first(i) + t) * K;
            const std::size_t up = plus ? static_cast<std::size_t>(plus[t]) : kNone, down = minus ? static_cast<std::size_t>(minus[t]) : kNone;
            if (factor == 0) {
                if (up != down) put(up, 1), put(down, -1);
            } else {
                // At a vertex that stays.
                if (mu[plus ? up : down] >= 1 - kNothing) continue;
                for (std::size_t k = 0; k < K; ++k) {
                    const double value = factor * mu[k];
                    if (k == up) put(k, value + 1);
                    else if (k == down) put(k, value - 1);
                    else put(k, value);
                }
            }
            end_row(t);
        }
        if (factor != 0)
            for (const PairMass& p : pairs_[i]) touch(p.pair) += factor * p.mass;
        for_edges(i, [&](std::size_t p, std::size_t t) {
            if (plus) touch(pair(plus[p], plus[t])) += 1;
            if (minus) touch(pair(minus[p], minus[t])) -= 1;
        });
    }

    template <class AnyLabel>
    void set_change_toward(std::size_t i, const AnyLabel* labels) {
        set_change(i, labels, static_cast<const AnyLabel*>(nullptr), -1);
    }

    // Squared length of the change in features, by the inner products of the nodes.
    double squared_change(std::size_t i) {
        const std::size_t K = data_.n_labels;
        const double* gram = gram_.data() + gram_at_[i];
        std::fill(ends_.begin(), ends_.end(), 0.0);
        double sum = 0;
        for (std::size_t a = 0; a < rows_.size(); ++a) {
            const Row& row = rows_[a];
            const double* products = gram + row.node * (row.node + 1) / 2;
            const bool root = parent_of(i, row.node) < 0, leaf = is_leaf(i, row.node);
            for (std::size_t e = row.begin; e < row.end; ++e) {
                const auto [value, k] = changes_[e];
                scattered_[k] = value;
                if (root) ends_[k] += value;
                if (leaf) ends_[K + k] += value;
            }
            for (std::size_t b = 0; b <= a; ++b) {
                double dot = 0;
                for (std::size_t e = rows_[b].begin; e < rows_[b].end; ++e) dot += changes_[e].value * scattered_[changes_[e].label];
                sum += (b == a ? 1 : 2) * products[rows_[b].node] * dot;
            }
            for (std::size_t e = row.begin; e < row.end; ++e) scattered_[changes_[e].label] = 0;
        }
        for (const double e : ends_) sum += e * e;
        for (const std::uint32_t p : pair_touched_) sum += pair_change_[p] * pair_change_[p];
        return std::max(0.0, sum);
    }

    // The change as a direction of the weights.
    void describe(std::size_t i) {
        const double scale = -1 / (lambda_ * static_cast<double>(n_));
        for (const Row& row : rows_) {
            const bool root = parent_of(i, row.node) < 0, leaf = is_leaf(i, row.node);
            for (std::size_t e = row.begin; e < row.end; ++e) {
                const std::size_t k = changes_[e].label;
                const double change = scale * changes_[e].value;
                data_.x.for_each(first(i) + row.node, [&](std::size_t j, double value) { direction_.add(j * stride_ + k, change * value); });
                if (root) direction_.add(root_at_ + k, change);
                if (leaf) direction_.add(leaf_at_ + k, change);
            }
        }
        for (const std::uint32_t p : pair_touched_) direction_.add(table_at_ + p, scale * pair_change_[p]);
    }

    bool explicitly(std::size_t i) const { return weights_.bounded() || gram_at_[i] == kNone; }

    // `rise` is what the whole change adds to the score.
    Plan plan(std::size_t i, double largest, double rise) {
        const double n = static_cast<double>(n_);
        if (explicitly(i)) {
            direction_.resize(weights_.v.size());
            direction_.clear();
            describe(i);
            return weights_.plan(direction_, rise / n, lambda_, largest);
        }
        return plan_quadratic(rise / n, squared_change(i) / (lambda_ * n * lambda_ * n), lambda_, largest);
    }

    double apply(std::size_t i, const Plan& plan) {
        if (plan.step == 0) return 0;
        move_weights(i, plan.step);
        move_point(i, plan.step);
        return plan.gain;
    }

    void move_weights(std::size_t i, double step) {
        if (explicitly(i)) weights_.move(direction_, step);
        else add(i, step, weights_.v.data());
        for (const std::uint32_t p : pair_touched_) turn(p);
    }

    // weights += step times the change as a direction.
    void add(std::size_t i, double step, double* weights) {
        const double scale = -step / (lambda_ * static_cast<double>(n_));
        for (const Row& row : rows_) {
            const bool root = parent_of(i, row.node) < 0, leaf = is_leaf(i, row.node);
            for (std::size_t e = row.begin; e < row.end; ++e) {
                const std::size_t k = changes_[e].label;
                coefficient_[k] = scale * changes_[e].value;
                if (root) weights[root_at_ + k] += coefficient_[k];
                if (leaf) weights[leaf_at_ + k] += coefficient_[k];
            }
            add_row(data_.x, first(i) + row.node, coefficient_.data(), stride_, weights);
            for (std::size_t e = row.begin; e < row.end; ++e) coefficient_[changes_[e].label] = 0;
        }
        for (const std::uint32_t p : pair_touched_) weights[table_at_ + p] += scale * pair_change_[p];
    }

    void move_point(std::size_t i, double step) {
        for (const Row& row : rows_) {
            double* mu = mu_.data() + (first(i) + row.node) * data_.n_labels;
            for (std::size_t e = row.begin; e < row.end; ++e) {
                double& mass = mu[changes_[e].label];
                mass = std::max(0.0, mass + step * changes_[e].value);
            }
        }
        move_pairs(i, step);
    }

    void move_pairs(std::size_t i, double step) {
        auto& list = pairs_[i];
        for (std::size_t e = 0; e < list.size(); ++e) {
            const std::uint32_t p = list[e].pair;
            if (pair_place_[p] == kUntouched) continue;
            pair_place_[p] = static_cast<std::int32_t>(e);
            list[e].mass = std::max(0.0, list[e].mass + step * pair_change_[p]);
        }
        for (const std::uint32_t p : pair_touched_)
            if (pair_place_[p] == kNew && pair_change_[p] > 0) list.push_back({step * pair_change_[p], p});
    }

    ForestData data_;
    std::size_t stride_, root_at_ = 0, leaf_at_ = 0, table_at_ = 0;
    std::vector<double> mu_;                      // nodes x K
    std::vector<double> edge_;                    // nodes x K x K, [parent's label][own label], for points in the interior
    std::vector<double> gram_;                    // lower triangles
    std::vector<std::size_t> gram_at_;            // of each block
    std::vector<std::vector<PairMass>> pairs_;    // of each block
    std::vector<Known> known_;                    // of each block, or none at all
    std::vector<char> leaf_;                      // of each node, unless all are chains
    std::vector<double> turned_;                  // the table of pairs with own labels in rows
    // Scratch of one block.
    structures::TreeSolver solver_, soft_solver_;
    std::vector<double> potential_, potentials_, belief_, message_, soft_node_, soft_edge_;
    std::vector<int> degree_;
    std::vector<double> score_, scattered_, known_score_, coefficient_, ends_;
    std::vector<Row> rows_;
    std::vector<Change> changes_;
    double truth_score_ = 0, rise_ = 0;
    std::vector<std::int32_t> target_, targets_;
    std::vector<std::size_t> order_;
    std::vector<double> pair_change_, pair_sum_;
    std::vector<std::int32_t> pair_place_;
    std::vector<std::uint32_t> pair_touched_;
    Direction direction_;
};

}  // namespace maxmargin::blocks
