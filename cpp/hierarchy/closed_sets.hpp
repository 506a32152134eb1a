// Sets of the nodes of a tree that are closed: whoever is in has its parent in, the root is in, and a set ends only where it may.
//
// The best set for rewards of nodes is a matter of one pass up and one down (spec 12.6). The sets that no other one beats in both of
// two sums, say of scores and of losses, come from the same recursion with lists in the place of numbers; what falls short of the best
// set along a line by more than a limit is left out on the way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace maxmargin::structures {

// Parents come before their children; node 0 is the root.
class LabelTree {
  public:
    // `ends` says where a set may end, leaves aside; `losses` what a wrong node costs, not negative.
    LabelTree(const std::int32_t* parents, const std::uint8_t* ends, const double* losses, std::size_t n)
        : parent_(parents, parents + n), end_(ends, ends + n), loss_(losses, losses + n), first_(n + 1), child_(n ? n - 1 : 0) {
        for (std::size_t k = 1; k < n; ++k) ++first_[static_cast<std::size_t>(parent_[k]) + 1];
        for (std::size_t k = 0; k < n; ++k) first_[k + 1] += first_[k];
        std::vector<std::uint32_t> at(first_.begin(), first_.end());
        for (std::size_t k = 1; k < n; ++k) child_[at[static_cast<std::size_t>(parent_[k])]++] = static_cast<std::uint32_t>(k);
        for (std::size_t k = 0; k < n; ++k) {
            if (first_[k] == first_[k + 1]) end_[k] = 1;
            if (k == 0) continue;
            most_loss_ += loss_[k];
            whole_ = whole_ && loss_[k] == static_cast<double>(static_cast<std::int64_t>(loss_[k]));
        }
    }

    std::size_t size() const { return parent_.size(); }
    std::size_t parent(std::size_t k) const { return static_cast<std::size_t>(parent_[k]); }
    bool may_end(std::size_t k) const { return end_[k] != 0; }
    double loss(std::size_t k) const { return loss_[k]; }
    // Of all nodes below the root, which is never wrong.
    double most_loss() const { return most_loss_; }
    bool has_whole_losses() const { return whole_; }
    const std::uint32_t* children(std::size_t k) const { return child_.data() + first_[k]; }
    std::size_t n_children(std::size_t k) const { return first_[k + 1] - first_[k]; }

  private:
    std::vector<std::int32_t> parent_;
    std::vector<std::uint8_t> end_;
    std::vector<double> loss_;
    std::vector<std::uint32_t> first_, child_;
    double most_loss_ = 0;
    bool whole_ = true;
};

// Numbers that are compared by the first part, and by the second where that is equal.
struct Ordered {
    double first = 0, second = 0;
    Ordered& operator+=(const Ordered& other) {
        first += other.first, second += other.second;
        return *this;
    }
    friend bool operator<(const Ordered& a, const Ordered& b) { return a.first < b.first || (a.first == b.first && a.second < b.second); }
};

// The best closed set for rewards, numbers or pairs of them; of equals the smallest one.
template <class Value>
class ClosedSetDecoder {
  public:
    // `below` and `total` of every node are what its descendants add, and the same with its own reward.
    void best(const LabelTree& tree, const Value* rewards, double* y) {
        const std::size_t n = tree.size();
        total_.assign(rewards, rewards + n);
        below_.assign(n, Value{});
        forced_.assign(n, kNone);
        chosen_.assign(n, 0);
        for (std::size_t k = n; k-- > 0;) {
            if (!chosen_[k] && forced_[k] != kNone && !tree.may_end(k)) below_[k] = total_[forced_[k]];
            else forced_[k] = kNone;
            total_[k] += below_[k];
            if (k == 0) break;
            const std::size_t above = tree.parent(k);
            if (Value{} < total_[k]) {
                below_[above] += total_[k];
                chosen_[above] = 1;
            } else if (forced_[above] == kNone || !(total_[k] < total_[forced_[above]])) {
                forced_[above] = static_cast<std::uint32_t>(k);
            }
        }
        y[0] = 1;
        for (std::size_t k = 1; k < n; ++k) {
            const std::size_t above = tree.parent(k);
            y[k] = y[above] != 0 && (Value{} < total_[k] || forced_[above] == k) ? 1 : 0;
        }
    }
    const Value& total(std::size_t k) const { return total_[k]; }
    const Value& below(std::size_t k) const { return below_[k]; }

  private:
    static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);
    std::vector<Value> total_, below_;
    std::vector<std::uint32_t> forced_;  // the child that is taken because one must be
    std::vector<char> chosen_;           // whether a child is taken for its own sake
};

// All sums (g, h) of closed sets that no other set reaches in both, or as many of them as are near a line.
class ClosedSetFront {
  public:
    // Per node what it adds to h and to g. Sets whose h + lambda g is more than `limit` below the largest may be left out. False if
    // there are too many to list.
    bool search(const LabelTree& tree, const double* h, const double* g, double lambda, double limit) {
        const std::size_t n = tree.size();
        reward_.resize(n), set_.resize(n);
        // The root's own share is added last, and need not be whole.
        whole_ = true;
        for (std::size_t k = 1; k < n; ++k) whole_ = whole_ && g[k] == std::floor(g[k]) && std::abs(g[k]) < 1e6;
        for (std::size_t k = 0; k < n; ++k) reward_[k] = h[k] + lambda * g[k];
        decoder_.best(tree, reward_.data(), set_.data());
        states_.clear(), steps_.clear();
        lists_.assign(n, {0, 0});
        std::size_t work = 0;
        for (std::size_t k = n; k-- > 0;) {
            // Where a child is taken against its will, sums begin too high by what the others would be worth without it.
            double ideal = 0;
            for (std::size_t c = 0; c < tree.n_children(k); ++c) ideal += std::max(0.0, decoder_.total(tree.children(k)[c]));
            const double within = limit + std::max(0.0, ideal - decoder_.below(k));
            double lost_without = 0;  // by the children so far, if none of them is taken
            some_.clear();
            for (std::size_t c = 0; c < tree.n_children(k); ++c) {
                const std::size_t child = tree.children(k)[c];
                const double most = std::max(0.0, decoder_.total(child));
                next_.clear();
                for (std::uint32_t t = lists_[child].first; t < lists_[child].second; ++t) {
                    const State& own = states_[t];
                    const double lost = most - (own.h + lambda * own.g);
                    if (lost > within) continue;
                    if (lost_without + lost <= within) next_.push_back({own.g, own.h, lost_without + lost, kNone, t});
                    for (const Partial& part : some_)
                        if (part.lost + lost <= within) next_.push_back({part.g + own.g, part.h + own.h, part.lost + lost, part.at, t});
                    work += 1 + some_.size();
                    if (work > kMostWork) return false;
                }
                for (const Partial& part : some_)
                    if (part.lost + most <= within) next_.push_back({part.g, part.h, part.lost + most, part.at, kNone});
                lost_without += most;
                keep_best(next_);
                if (steps_.size() + next_.size() > kMostStates) return false;
                for (Partial& part : next_)
                    if (part.below != kNone) {
                        steps_.push_back({part.at, part.below});
                        part.at = static_cast<std::uint32_t>(steps_.size() - 1);
                    }
                std::swap(some_, next_);
            }
            if (tree.may_end(k) && lost_without <= within) {
                some_.push_back({0, 0, lost_without, kNone, kNone});
                keep_best(some_);
            }
            if (states_.size() + some_.size() > kMostStates) return false;
            lists_[k].first = static_cast<std::uint32_t>(states_.size());
            for (const Partial& part : some_) states_.push_back({part.g + g[k], part.h + h[k], part.at, static_cast<std::uint32_t>(k)});
            lists_[k].second = static_cast<std::uint32_t>(states_.size());
        }
        return true;
    }

    // What was found, by falling g and rising h.
    std::size_t size() const { return lists_[0].second - lists_[0].first; }
    double g(std::size_t s) const { return states_[lists_[0].first + s].g; }
    double h(std::size_t s) const { return states_[lists_[0].first + s].h; }
    void set(std::size_t s, double* y) {
        std::fill_n(y, lists_.size(), 0.0);
        open_.assign(1, lists_[0].first + static_cast<std::uint32_t>(s));
        while (!open_.empty()) {
            const State own = states_[open_.back()];
            open_.pop_back();
            y[own.node] = 1;
            for (std::uint32_t at = own.last; at != kNone; at = steps_[at].before) open_.push_back(steps_[at].below);
        }
    }

  private:
    static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);
    static constexpr std::size_t kMostStates = 1u << 19, kMostWork = 1u << 23;

    // A closed set of the nodes below `node` and itself; `last` is the last of its children that are taken.
    struct State {
        double g, h;
        std::uint32_t last, node;
    };
    struct Step {
        std::uint32_t before, below;  // the step before, and the state of the child that is taken
    };
    // A choice among the first children of a node, and by how much it falls short of the best.
    struct Partial {
        double g, h, lost;
        std::uint32_t at, below;
    };

    void keep_best(std::vector<Partial>& parts) {
        if (whole_ && keep_best_of_whole(parts)) return;
        std::sort(parts.begin(), parts.end(), [](const Partial& a, const Partial& b) { return a.g > b.g || (a.g == b.g && a.h > b.h); });
        std::size_t to = 0;
        for (std::size_t c = 0; c < parts.size(); ++c)
            if (to == 0 || parts[c].h > parts[to - 1].h) parts[to++] = parts[c];
        parts.resize(to);
    }

    // The same where losses are whole numbers, without sorting; false if there are few choices among many losses.
    bool keep_best_of_whole(std::vector<Partial>& parts) {
        if (parts.size() < 2) return true;
        const auto [low, high] = std::minmax_element(parts.begin(), parts.end(), [](const Partial& a, const Partial& b) { return a.g < b.g; });
        const double least = low->g, range = high->g - least;
        if (!(range <= 4.0 * static_cast<double>(parts.size()) + 64)) return false;
        best_of_.assign(static_cast<std::size_t>(range) + 1, kNone);
        for (std::size_t c = 0; c < parts.size(); ++c) {
            std::uint32_t& best = best_of_[static_cast<std::size_t>(parts[c].g - least)];
            if (best == kNone || parts[c].h > parts[best].h) best = static_cast<std::uint32_t>(c);
        }
        kept_.clear();
        for (std::size_t g = best_of_.size(); g-- > 0;)
            if (best_of_[g] != kNone && (kept_.empty() || parts[best_of_[g]].h > kept_.back().h)) kept_.push_back(parts[best_of_[g]]);
        std::swap(parts, kept_);
        return true;
    }

    bool whole_ = false;
    ClosedSetDecoder<double> decoder_;
    std::vector<double> reward_, set_;
    std::vector<State> states_;
    std::vector<Step> steps_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> lists_;  // states of every node
    std::vector<Partial> some_, next_, kept_;                     // choices with a child in them
    std::vector<std::uint32_t> open_, best_of_;
};

}  // namespace maxmargin::structures
