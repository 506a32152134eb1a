// The best set of labels for scores of labels and of pairs of them (spec 11.1).
//
// The score of a set y in {0, 1}^L is sum_j u_j y_j + sum over pairs (j, k) of p_jk y_j y_k. Without pairs every label decides for
// itself; pairs that form a forest take a dynamic program. Elsewhere labels whose value is the same whatever the others are get it, and
// if few are left these are searched by branch and bound; pairs that all attract take a minimum cut. For anything else the linear
// relaxation over mu_j and mu_jk with mu_jk <= mu_j, mu_jk <= mu_k and mu_jk >= mu_j + mu_k - 1 has a solution of halves and whole
// numbers, which a minimum cut finds in a graph where every label is there twice, as itself and as its opposite (roof duality; Hammer,
// Hansen and Simeone 1984). Labels that are whole in it are those of some best set, so that only the others, if they are few, remain to
// be searched.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "labeling/binary_energy.hpp"
#include "surrogates/pair_value.hpp"

namespace maxmargin::structures {

// Labels and the pairs of them that have scores.
class LabelGraph {
  public:
    struct Pair {
        std::int32_t first, second;
    };
    struct Beside {
        std::int32_t label, pair;
    };
    // A label of a forest, its parent and the pair that they are; -1 for a root's.
    struct Step {
        std::int32_t label, parent, pair;
    };

    LabelGraph(std::size_t n_labels, const std::int32_t* pairs, std::size_t n_pairs) : n_labels_(n_labels), begin_(n_labels + 1) {
        pairs_.reserve(n_pairs);
        for (std::size_t e = 0; e < n_pairs; ++e) {
            pairs_.push_back({pairs[2 * e], pairs[2 * e + 1]});
            ++begin_[at(pairs_[e].first) + 1], ++begin_[at(pairs_[e].second) + 1];
        }
        for (std::size_t j = 0; j < n_labels; ++j) begin_[j + 1] += begin_[j];
        beside_.resize(2 * n_pairs);
        std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
        for (std::size_t e = 0; e < n_pairs; ++e) {
            const auto [j, k] = pairs_[e];
            beside_[next[at(j)]++] = {k, static_cast<std::int32_t>(e)};
            beside_[next[at(k)]++] = {j, static_cast<std::int32_t>(e)};
        }
        find_forest();
    }

    std::size_t n_labels() const { return n_labels_; }
    std::size_t n_pairs() const { return pairs_.size(); }
    const Pair& pair(std::size_t e) const { return pairs_[e]; }
    bool is_forest() const { return is_forest_; }
    // Of a forest: every label after all that hangs below it.
    const std::vector<Step>& steps() const { return steps_; }

    // f(other label, pair) for all labels beside one.
    template <class F>
    void for_beside(std::size_t label, const F& f) const {
        for (std::size_t b = begin_[label]; b < begin_[label + 1]; ++b) f(at(beside_[b].label), at(beside_[b].pair));
    }

    // The score of a set, or of a point of the relaxation.
    double worth(const double* y, const double* unary, const double* pair_scores) const {
        double sum = 0;
        for (std::size_t j = 0; j < n_labels_; ++j) sum += y[j] * unary[j];
        for (std::size_t e = 0; e < pairs_.size(); ++e)
            sum += pair_value(y[at(pairs_[e].first)], y[at(pairs_[e].second)], pair_scores[e]) * pair_scores[e];
        return sum;
    }

  private:
    static std::size_t at(std::int32_t k) { return static_cast<std::size_t>(k); }

    void find_forest() {
        std::vector<char> seen(n_labels_);
        std::vector<Step> waiting;
        for (std::size_t root = 0; root < n_labels_; ++root) {
            if (seen[root]) continue;
            seen[root] = 1;
            waiting.push_back({static_cast<std::int32_t>(root), -1, -1});
            while (!waiting.empty()) {
                const Step own = waiting.back();
                waiting.pop_back();
                steps_.push_back(own);
                for (std::size_t b = begin_[at(own.label)]; b < begin_[at(own.label) + 1]; ++b) {
                    if (beside_[b].pair == own.pair) continue;
                    if (seen[at(beside_[b].label)]) {
                        is_forest_ = false;
                        steps_.clear();
                        return;
                    }
                    seen[at(beside_[b].label)] = 1;
                    waiting.push_back({beside_[b].label, own.label, beside_[b].pair});
                }
            }
        }
        std::reverse(steps_.begin(), steps_.end());
    }

    std::size_t n_labels_;
    std::vector<Pair> pairs_;
    std::vector<std::size_t> begin_;
    std::vector<Beside> beside_;
    bool is_forest_ = true;
    std::vector<Step> steps_;
};

// All sets of some labels, every one differing from the last in one label (Gray 1953): look(turned, value) with the label that has
// been turned and the score of the set.
class AllSets {
  public:
    // Scores of m labels, and m x m of pairs, symmetric with zeros on the diagonal.
    template <class Look>
    void visit(std::size_t m, const double* unary, const double* matrix, const Look& look) {
        gain_.assign(unary, unary + m);
        on_.assign(m, 0);
        double value = 0;
        for (std::uint32_t step = 1; step < (std::uint32_t{1} << m); ++step) {
            std::size_t turned = 0;
            while (!(step >> turned & 1)) ++turned;
            const double sign = on_[turned] ? -1 : 1;
            value += sign * gain_[turned];
            on_[turned] ^= 1;
            const double* row = matrix + turned * m;
            for (std::size_t k = 0; k < m; ++k) gain_[k] += sign * row[k];
            look(turned, value);
        }
    }
    const std::vector<char>& on() const { return on_; }

  private:
    std::vector<double> gain_;
    std::vector<char> on_;
};

// The searches on one graph. Buffers serve one call at a time.
class SetDecoder {
  public:
    // So many labels that bounds or a relaxation leave open are decided by a search.
    static constexpr std::size_t kOpen = 14;

    explicit SetDecoder(std::shared_ptr<const LabelGraph> graph) : graph_(std::move(graph)) {}
    SetDecoder(const SetDecoder& other) : graph_(other.graph_) {}
    SetDecoder& operator=(const SetDecoder&) = delete;

    const LabelGraph& graph() const { return *graph_; }

    // The best set becomes y, zeros and ones. Returns by how much its score may be too low: 0 if it is the best one. With
    // `bounding` false nothing is decided before the relaxation.
    double best(const double* unary, const double* pairs, double* y, bool bounding = true) {
        const std::size_t L = graph_->n_labels();
        if (are_zero(pairs)) {
            for (std::size_t j = 0; j < L; ++j) y[j] = unary[j] > 0;
            return 0;
        }
        if (graph_->is_forest()) return on_forest(unary, pairs, y), 0;
        if (bounding) {
            settle(unary, pairs, y);
            if (free_.size() <= kOpen) return decide_free(unary, pairs, y), 0;
        }
        if (attract(pairs)) return by_cut(unary, pairs, y), 0;
        const double value = by_roof(unary, pairs, y);
        free_.clear();
        for (std::size_t j = 0; j < L; ++j)
            if (y[j] == 0.5) free_.push_back(j);
        if (free_.empty()) return 0;
        if (free_.size() <= kOpen) {
            for (const std::size_t j : free_) y[j] = 0;
            return decide_free(unary, pairs, y), 0;
        }
        // Two ways to begin, and upwards from there.
        other_.assign(y, y + L);
        for (const std::size_t j : free_) y[j] = 0, other_[j] = 1;
        climb(unary, pairs, y);
        climb(unary, pairs, other_.data());
        const double low = graph_->worth(y, unary, pairs), high = graph_->worth(other_.data(), unary, pairs);
        if (high > low) std::copy(other_.begin(), other_.end(), y);
        return std::max(0.0, value - std::max(low, high));
    }

    // The best point of the relaxation: zeros, halves and ones.
    void relaxed(const double* unary, const double* pairs, double* y) {
        if (are_zero(pairs) || graph_->is_forest()) best(unary, pairs, y);
        else if (attract(pairs)) by_cut(unary, pairs, y);
        else by_roof(unary, pairs, y);
    }

  private:
    static std::size_t at(std::int32_t k) { return static_cast<std::size_t>(k); }
    bool are_zero(const double* pairs) const {
        return std::all_of(pairs, pairs + graph_->n_pairs(), [](double p) { return p == 0; });
    }
    bool attract(const double* pairs) const {
        return std::all_of(pairs, pairs + graph_->n_pairs(), [](double p) { return p >= 0; });
    }

    // From the leaves up, what a label is worth with all that hangs below it, off and on; then down again.
    void on_forest(const double* unary, const double* pairs, double* y) {
        const std::size_t L = graph_->n_labels();
        off_.assign(L, 0.0);
        on_.assign(unary, unary + L);
        chosen_.resize(L);
        for (const auto& [label, parent, pair] : graph_->steps()) {
            const double off = off_[at(label)], on = on_[at(label)];
            if (parent < 0) {
                chosen_[at(label)] = on > off ? 3 : 0;
                continue;
            }
            const double together = on + pairs[pair];
            // Whether it is on beside a parent that is off, and beside one that is on.
            chosen_[at(label)] = static_cast<char>((on > off) + 2 * (together > off));
            off_[at(parent)] += std::max(off, on);
            on_[at(parent)] += std::max(off, together);
        }
        for (auto step = graph_->steps().rbegin(); step != graph_->steps().rend(); ++step) {
            const bool above = step->parent >= 0 && y[at(step->parent)] > 0;
            y[at(step->label)] = chosen_[at(step->label)] >> (above ? 1 : 0) & 1;
        }
    }

    // Labels that gain, or do not, whatever the others are get their values; what is known of them may decide the next ones. The
    // others become free_, and are off. Where the weights are any good these are few, and no cut is needed.
    void settle(const double* unary, const double* pairs, double* y) {
        const std::size_t L = graph_->n_labels();
        least_.assign(unary, unary + L);
        most_.assign(unary, unary + L);
        waiting_.resize(L);
        for (std::size_t j = 0; j < L; ++j) {
            waiting_[j] = L - 1 - j;
            y[j] = 0.5;
            graph_->for_beside(j, [&](std::size_t, std::size_t pair) { (pairs[pair] > 0 ? most_ : least_)[j] += pairs[pair]; });
        }
        while (!waiting_.empty()) {
            const std::size_t j = waiting_.back();
            waiting_.pop_back();
            const bool never = most_[j] <= 0, always = least_[j] > 0;
            if (y[j] != 0.5 || !(never || always)) continue;
            y[j] = always;
            graph_->for_beside(j, [&](std::size_t other, std::size_t pair) {
                if (y[other] != 0.5 || pairs[pair] == 0) return;
                // What the pair may be worth it now is, or is not.
                const bool good = pairs[pair] > 0;
                if (always) (good ? least_ : most_)[other] += pairs[pair];
                else (good ? most_ : least_)[other] -= pairs[pair];
                waiting_.push_back(other);
            });
        }
        free_.clear();
        for (std::size_t j = 0; j < L; ++j)
            if (y[j] == 0.5) free_.push_back(j), y[j] = 0;
    }

    // The best values of the labels in free_, which are off, beside the others as they are: one label after the other, those with
    // the largest pairs first, unless the others cannot make up for what is missing.
    void decide_free(const double* unary, const double* pairs, double* y) {
        const std::size_t m = free_.size();
        if (m == 0) return;
        place_.assign(graph_->n_labels(), m);
        for (const std::size_t j : free_) place_[j] = 0;
        own_.resize(graph_->n_labels());
        for (const std::size_t j : free_) {
            own_[j] = 0;
            graph_->for_beside(j, [&](std::size_t other, std::size_t pair) { own_[j] += place_[other] < m ? std::abs(pairs[pair]) : 0; });
        }
        std::sort(free_.begin(), free_.end(), [&](std::size_t j, std::size_t k) { return own_[j] > own_[k] || (own_[j] == own_[k] && j < k); });
        for (std::size_t a = 0; a < m; ++a) place_[free_[a]] = a;
        gains_.resize((m + 1) * m);
        matrix_.assign(m * m, 0.0);
        for (std::size_t a = 0; a < m; ++a) {
            gains_[a] = unary[free_[a]];
            graph_->for_beside(free_[a], [&](std::size_t other, std::size_t pair) {
                if (place_[other] < m) matrix_[a * m + place_[other]] = pairs[pair];
                else gains_[a] += y[other] * pairs[pair];
            });
        }
        // A pair of undecided labels is worth no more than half of it to each of them, if it is worth anything.
        room_.assign(m * m, 0.0);
        for (std::size_t d = 0; d < m; ++d)
            for (std::size_t a = d; a < m; ++a)
                for (std::size_t b = d; b < m; ++b) room_[d * m + a] += 0.5 * std::max(0.0, matrix_[a * m + b]);
        top_ = 0;
        chosen_.assign(m, 0);
        trial_.assign(m, 0);
        branch(0, 0);
        for (std::size_t a = 0; a < m; ++a) y[free_[a]] = chosen_[a];
    }

    // Labels before `at` are decided, as in trial_, and worth `value`.
    void branch(std::size_t at, double value) {
        const std::size_t m = free_.size();
        if (at == m) {
            if (value > top_) top_ = value, chosen_ = trial_;
            return;
        }
        const double *gain = gains_.data() + at * m, *room = room_.data() + at * m, *row = matrix_.data() + at * m;
        double most = value;
        for (std::size_t a = at; a < m; ++a) most += std::max(0.0, gain[a] + room[a]);
        if (!(most > top_)) return;
        double* next = gains_.data() + (at + 1) * m;
        const bool first = gain[at] > 0;
        for (const bool on : {first, !first}) {
            trial_[at] = on;
            for (std::size_t a = at + 1; a < m; ++a) next[a] = on ? gain[a] + row[a] : gain[a];
            branch(at + 1, on ? value + gain[at] : value);
        }
    }

    void by_cut(const double* unary, const double* pairs, double* y) {
        const std::size_t L = graph_->n_labels(), E = graph_->n_pairs();
        if (!cutter_) {
            edges_.clear();
            for (std::size_t e = 0; e < E; ++e) edges_.insert(edges_.end(), {graph_->pair(e).first, graph_->pair(e).second});
            cutter_ = std::make_unique<BinaryEnergy>(static_cast<NodeIndex>(L), edges_.data(), static_cast<std::int64_t>(E));
        }
        nodes_.assign(2 * L, 0.0);
        tables_.assign(4 * E, 0.0);
        for (std::size_t j = 0; j < L; ++j) nodes_[2 * j + 1] = unary[j];
        for (std::size_t e = 0; e < E; ++e) tables_[4 * e + 3] = pairs[e];
        sides_.resize(2 * L);
        cutter_->solve_tables(nodes_.data(), tables_.data(), sides_.data());
        for (std::size_t j = 0; j < L; ++j) y[j] = sides_[j];
    }

    // Halves; returns the value of the relaxation.
    double by_roof(const double* unary, const double* pairs, double* y) {
        const std::size_t L = graph_->n_labels(), E = graph_->n_pairs();
        const auto opposite = static_cast<std::int32_t>(L);
        if (!doubled_) {
            // Pairs of labels, of their opposites, and of a label with the opposite of the other.
            edges_.clear();
            for (std::size_t e = 0; e < E; ++e) {
                const auto [j, k] = graph_->pair(e);
                edges_.insert(edges_.end(), {j, k, j + opposite, k + opposite, j, k + opposite, k, j + opposite});
            }
            doubled_ = std::make_unique<BinaryEnergy>(static_cast<NodeIndex>(2 * L), edges_.data(), static_cast<std::int64_t>(4 * E));
        }
        // Half of the score for a label that is on, and half for its opposite that is off; likewise for pairs.
        nodes_.assign(4 * L, 0.0);
        tables_.assign(16 * E, 0.0);
        for (std::size_t j = 0; j < L; ++j) nodes_[2 * j + 1] = nodes_[2 * (L + j)] = 0.5 * unary[j];
        for (std::size_t e = 0; e < E; ++e) {
            double* table = tables_.data() + 16 * e;
            if (pairs[e] > 0) table[3] = table[4] = 0.5 * pairs[e];
            else table[10] = table[14] = 0.5 * pairs[e];
        }
        sides_.resize(2 * L);
        const double value = doubled_->solve_tables(nodes_.data(), tables_.data(), sides_.data());
        for (std::size_t j = 0; j < L; ++j) y[j] = 0.5 * (sides_[j] + 1 - sides_[L + j]);
        return value;
    }

    // Turn the label that gains most until none gains more than rounding, so that there is an end.
    void climb(const double* unary, const double* pairs, double* y) {
        const std::size_t L = graph_->n_labels();
        own_.assign(unary, unary + L);
        double least = 1;
        for (std::size_t j = 0; j < L; ++j) {
            least += std::abs(unary[j]);
            graph_->for_beside(j, [&](std::size_t other, std::size_t pair) { own_[j] += y[other] * pairs[pair]; });
        }
        for (;;) {
            std::size_t best = L;
            double gain = 1e-12 * least;
            for (std::size_t j = 0; j < L; ++j)
                if (const double own = y[j] > 0 ? -own_[j] : own_[j]; own > gain) gain = own, best = j;
            if (best == L) return;
            y[best] = 1 - y[best];
            const double sign = y[best] > 0 ? 1 : -1;
            graph_->for_beside(best, [&](std::size_t other, std::size_t pair) { own_[other] += sign * pairs[pair]; });
        }
    }

    std::shared_ptr<const LabelGraph> graph_;
    std::unique_ptr<BinaryEnergy> cutter_, doubled_;
    double top_ = 0;
    std::vector<double> off_, on_, own_, matrix_, other_, nodes_, tables_, least_, most_, gains_, room_;
    std::vector<char> chosen_, trial_;
    std::vector<std::size_t> free_, place_, waiting_;
    std::vector<std::int32_t> edges_;
    std::vector<std::uint8_t> sides_;
};

// The best set that is wrong in 0, 1, 2, ... labels: the whole frontier of score and loss (spec 7.4), so the most violating set under
// any surrogate that rises with the score.
class SetFrontier {
  public:
    // Labels that decide for themselves: those that gain most by being turned.
    void of_separate(std::size_t L, const double* unary, const std::uint8_t* truth) {
        kind_ = Kind::separate;
        order_.resize(L);
        for (std::size_t j = 0; j < L; ++j) order_[j] = {truth[j] ? -unary[j] : unary[j], j};
        std::sort(order_.begin(), order_.end(), [](const auto& a, const auto& b) { return a.first > b.first || (a.first == b.first && a.second < b.second); });
        error_.assign(1, 0.0);
        for (const auto& [gain, j] : order_) error_.push_back(error_.back() + gain);
    }

    // All sets of at most 31 labels.
    void of_few(const LabelGraph& graph, const double* unary, const double* pairs, const std::uint8_t* truth) {
        kind_ = Kind::few;
        const std::size_t L = graph.n_labels();
        matrix_.assign(L * L, 0.0);
        for (std::size_t e = 0; e < graph.n_pairs(); ++e) {
            const auto j = static_cast<std::size_t>(graph.pair(e).first), k = static_cast<std::size_t>(graph.pair(e).second);
            matrix_[j * L + k] = matrix_[k * L + j] = pairs[e];
        }
        double own = 0;
        std::size_t wrong = 0;
        std::uint32_t code = 0;
        for (std::size_t j = 0; j < L; ++j) {
            wrong += truth[j];
            if (!truth[j]) continue;
            own += unary[j];
            for (std::size_t k = 0; k < j; ++k) own += truth[k] ? matrix_[j * L + k] : 0;
        }
        error_.assign(L + 1, -std::numeric_limits<double>::infinity());
        codes_.assign(L + 1, 0);
        error_[wrong] = -own;
        sets_.visit(L, unary, matrix_.data(), [&](std::size_t turned, double value) {
            code ^= std::uint32_t{1} << turned;
            // Right before, if it was as the truth has it.
            wrong += (code >> turned & 1) == truth[turned] ? -1 : 1;
            if (value - own > error_[wrong]) error_[wrong] = value - own, codes_[wrong] = code;
        });
        error_[0] = 0;
    }

    // Pairs that form a forest: a dynamic program with a counter.
    void of_forest(const LabelGraph& graph, const double* unary, const double* pairs, const std::uint8_t* truth) {
        kind_ = Kind::forest;
        graph_ = &graph;
        pairs_ = pairs;
        const std::size_t L = graph.n_labels();
        value_.resize(L), message_.resize(L), before_.resize(L);
        double own = 0;
        for (std::size_t j = 0; j < L; ++j) {
            // [count][off, on]
            value_[j].assign(4, kNever);
            value_[j][truth[j] ? 2 : 0] = 0;
            value_[j][truth[j] ? 1 : 3] = unary[j];
            own += truth[j] ? unary[j] : 0;
        }
        total_.assign(1, 0.0);
        for (const auto& [label, parent, pair] : graph.steps()) {
            const auto t = static_cast<std::size_t>(label);
            const std::vector<double>& v = value_[t];
            const std::size_t counts = v.size() / 2;
            if (parent < 0) {
                message_[t].resize(counts);
                for (std::size_t c = 0; c < counts; ++c) message_[t][c] = std::max(v[2 * c], v[2 * c + 1]);
                merge(total_, message_[t], before_[t], 1);
                continue;
            }
            if (truth[t] && truth[parent]) own += pairs[pair];
            message_[t].resize(2 * counts);
            for (std::size_t c = 0; c < counts; ++c) {
                message_[t][2 * c] = std::max(v[2 * c], v[2 * c + 1]);
                message_[t][2 * c + 1] = std::max(v[2 * c], v[2 * c + 1] + pairs[pair]);
            }
            merge(value_[static_cast<std::size_t>(parent)], message_[t], before_[t], 2);
        }
        error_.resize(L + 1);
        for (std::size_t c = 0; c <= L; ++c) error_[c] = total_[c] - own;
    }

    // The margin error of the best set with so many wrong labels, 0 to L.
    double error(std::size_t wrong) const { return error_[wrong]; }

    void set(std::size_t wrong, const std::uint8_t* truth, double* y) {
        const std::size_t L = error_.size() - 1;
        if (kind_ == Kind::separate) {
            for (std::size_t j = 0; j < L; ++j) y[j] = truth[j];
            for (std::size_t k = 0; k < wrong; ++k) y[order_[k].second] = 1 - y[order_[k].second];
        } else if (kind_ == Kind::few) {
            for (std::size_t j = 0; j < L; ++j) y[j] = wrong == 0 ? truth[j] : codes_[wrong] >> j & 1;
        } else {
            unfold(wrong, y);
        }
    }

  private:
    enum class Kind { separate, few, forest };
    static constexpr double kNever = -std::numeric_limits<double>::infinity();

    // into[c][a] = the largest old into[c - i][a] + message[i][a]; the old one becomes `before`.
    static void merge(std::vector<double>& into, const std::vector<double>& message, std::vector<double>& before, std::size_t width) {
        before.swap(into);
        const std::size_t m = before.size() / width, k = message.size() / width;
        into.assign((m + k - 1) * width, kNever);
        for (std::size_t i = 0; i < k; ++i)
            for (std::size_t q = 0; q < m; ++q)
                for (std::size_t a = 0; a < width; ++a)
                    into[(q + i) * width + a] = std::max(into[(q + i) * width + a], before[q * width + a] + message[i * width + a]);
    }

    void unfold(std::size_t wrong, double* y) {
        left_.assign(error_.size() - 1, 0);
        // Children were merged in the order of steps, so the last one comes apart first.
        for (auto step = graph_->steps().rbegin(); step != graph_->steps().rend(); ++step) {
            const auto t = static_cast<std::size_t>(step->label);
            const bool root = step->parent < 0;
            const auto p = static_cast<std::size_t>(root ? 0 : step->parent);
            const std::size_t width = root ? 1 : 2, above = root ? 0 : y[p] > 0;
            std::size_t& left = root ? wrong : left_[p];
            const std::size_t m = before_[t].size() / width, k = message_[t].size() / width;
            std::size_t own = 0;
            double highest = kNever;
            for (std::size_t i = left >= m ? left - m + 1 : 0; i < k && i <= left; ++i)
                if (const double sum = before_[t][(left - i) * width + above] + message_[t][i * width + above]; sum > highest) highest = sum, own = i;
            left -= own;
            left_[t] = own;
            const double* v = value_[t].data() + 2 * own;
            y[t] = v[1] + (above ? pairs_[step->pair] : 0) > v[0];
        }
    }

    Kind kind_ = Kind::separate;
    const LabelGraph* graph_ = nullptr;
    const double* pairs_ = nullptr;
    AllSets sets_;
    std::vector<double> error_, matrix_, total_;
    std::vector<std::pair<double, std::size_t>> order_;
    std::vector<std::uint32_t> codes_;
    std::vector<std::vector<double>> value_, message_, before_;  // of a label and what hangs below it; to its parent; the parent's before
    std::vector<std::size_t> left_;
};

}  // namespace maxmargin::structures
