// Dependency trees whose arcs may cross: maximum spanning arborescences (Chu-Liu, Edmonds, Tarjan) in O(n^2), and the k best by
// Lawler's partition.
//
// Weights are pairs: a penalty, which counts first, and a score. Whoever uses a forbidden arc pays for it, and with a single root
// every arc from the root costs a little too, so that a tree with one of them beats every tree with two. Pairs are added and
// compared as exactly as numbers are, which a large number that is subtracted from scores would not allow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parsing/arc_scores.hpp"

namespace maxmargin::structures {

class Arborescence {
  public:
    // Heads of the words of the best tree; false if every tree has a forbidden arc.
    bool best(const ArcScores& scores, bool single_root, std::int32_t* heads) {
        start(scores.n_words, single_root);
        for (std::size_t h = 0; h < n_; ++h)
            for (std::size_t m = 1; m < n_; ++m)
                if (h != m) set(h, m, scores.best(h, m));
        return solve(heads);
    }

    // The k best trees that use no forbidden arc, best first; fewer if there are no more.
    std::vector<DependencyTree> k_best(const ArcScores& scores, bool single_root, std::size_t k) {
        std::vector<DependencyTree> found;
        if (k == 0) return found;
        list(scores, single_root, [&](const DependencyTree& tree) {
            found.push_back(tree);
            return found.size() < k;
        });
        return found;
    }

    // Trees that use no forbidden arc, best first, for as long as `visit(tree)` wants more; true if it has seen them all.
    //
    // The trees other than the best are those in which the words before the i-th are as in the best, and the i-th is not: for
    // every i a problem of the same kind, with some words fixed and some arcs of one word banned.
    template <class Visit>
    bool list(const ArcScores& scores, bool single_root, const Visit& visit) {
        struct Candidate {
            DependencyTree tree;
            std::size_t fixed;                                             // words before this one are as they are in the tree
            std::vector<std::pair<std::int32_t, std::int32_t>> banned;     // heads and labels that this word must not have
            bool operator<(const Candidate& other) const { return tree.score < other.tree.score; }
        };
        const std::size_t n = scores.n_words;
        std::vector<Candidate> open;
        const auto add = [&](const DependencyTree& like, std::size_t fixed, std::vector<std::pair<std::int32_t, std::int32_t>> banned) {
            Candidate next{{std::vector<std::int32_t>(n), std::vector<std::int32_t>(n), 0}, fixed, std::move(banned)};
            if (!best_within(scores, single_root, like, next.fixed, next.banned, next.tree)) return;
            open.push_back(std::move(next));
            std::push_heap(open.begin(), open.end());
        };
        add({}, 0, {});
        while (!open.empty()) {
            std::pop_heap(open.begin(), open.end());
            const Candidate now = std::move(open.back());
            open.pop_back();
            if (!visit(now.tree)) return false;
            for (std::size_t i = now.fixed; i < n; ++i) {
                auto banned = i == now.fixed ? now.banned : decltype(now.banned){};
                banned.emplace_back(now.tree.heads[i], now.tree.labels[i]);
                add(now.tree, i, std::move(banned));
            }
        }
        return true;
    }

  private:
    static constexpr std::int64_t kBan = std::int64_t{1} << 32;
    struct Weight {
        std::int64_t penalty;
        double score;
        bool operator<(const Weight& other) const {
            return penalty != other.penalty ? penalty > other.penalty : score < other.score;
        }
        Weight operator-(const Weight& other) const { return {penalty - other.penalty, score - other.score}; }
    };

    void start(std::size_t n_words, bool single_root) {
        n_ = n_words + 1;
        root_penalty_ = single_root ? 1 : 0;
        in_.resize(n_ * n_);
        arc_.resize(n_ * n_);
        banned_.resize(n_ * n_);
    }
    void set(std::size_t h, std::size_t m, double score) {
        const bool banned = score == kForbidden;
        in_[m * n_ + h] = {(banned ? kBan : 0) + (h == 0 ? root_penalty_ : 0), banned ? 0.0 : score};
        arc_[m * n_ + h] = {static_cast<std::int32_t>(h), static_cast<std::int32_t>(m)};
        banned_[m * n_ + h] = banned;
    }

    bool best_within(const ArcScores& scores, bool single_root, const DependencyTree& like, std::size_t fixed,
                     const std::vector<std::pair<std::int32_t, std::int32_t>>& banned, DependencyTree& tree) {
        start(scores.n_words, single_root);
        // The best label of an arc to the word with banned arcs; -1 if all of them are.
        const auto label_of = [&](std::size_t h, std::size_t m) {
            if (m != fixed + 1 || banned.empty()) return static_cast<std::int32_t>(scores.best_label(h, m));
            std::int32_t best = -1;
            const double* s = scores.of(h, m);
            for (std::int32_t l = 0; l < static_cast<std::int32_t>(scores.n_labels); ++l) {
                const std::pair<std::int32_t, std::int32_t> arc{static_cast<std::int32_t>(h), l};
                if ((best < 0 || s[l] > s[best]) && std::find(banned.begin(), banned.end(), arc) == banned.end()) best = l;
            }
            return best;
        };
        for (std::size_t m = 1; m < n_; ++m)
            for (std::size_t h = 0; h < n_; ++h) {
                if (h == m) continue;
                double score = kForbidden;
                if (m > fixed) {
                    const std::int32_t label = label_of(h, m);
                    if (label >= 0) score = scores.of(h, m)[label];
                } else if (static_cast<std::size_t>(like.heads[m - 1]) == h) {
                    score = scores.of(h, m)[like.labels[m - 1]];
                }
                set(h, m, score);
            }
        if (!solve(tree.heads.data())) return false;
        for (std::size_t m = 1; m < n_; ++m)
            tree.labels[m - 1] = m > fixed ? label_of(static_cast<std::size_t>(tree.heads[m - 1]), m) : like.labels[m - 1];
        tree.score = score_of(scores, tree.heads.data(), tree.labels.data());
        return true;
    }

    // Grow a path of best arcs backwards from a word until it meets the root or what is settled; a cycle becomes one vertex, in
    // the place of one of its vertices. Vertices are numbered as they are made: words, then cycles.
    bool solve(std::int32_t* heads) {
        const std::size_t most = 2 * n_;
        vertex_at_.resize(n_);
        for (std::size_t v = 0; v < n_; ++v) vertex_at_[v] = v;
        above_.assign(most, 0);
        chosen_.assign(most, {0, 0});
        state_.assign(n_, State::open);
        state_[0] = State::settled;
        source_.assign(n_, 0);
        alive_.resize(n_);
        for (std::size_t v = 0; v < n_; ++v) alive_[v] = v;
        std::size_t n_vertices = n_;
        for (std::size_t begin = 1; begin < n_; ++begin) {
            if (state_[begin] != State::open) continue;
            path_.assign(1, begin);
            state_[begin] = State::on_path;
            while (true) {
                const std::size_t v = path_.back();
                std::size_t best = v;
                for (const std::size_t u : alive_)
                    if (u != v && (best == v || in_[v * n_ + best] < in_[v * n_ + u])) best = u;
                source_[v] = best;
                chosen_[vertex_at_[v]] = arc_[v * n_ + best];
                if (state_[best] == State::settled) break;
                if (state_[best] == State::open) {
                    state_[best] = State::on_path;
                    path_.push_back(best);
                    continue;
                }
                contract(best, n_vertices++);
            }
            for (const std::size_t v : path_) state_[v] = State::settled;
        }
        // Whoever enters a cycle enters at one of its vertices, in place of that one's arc in the cycle.
        for (std::size_t c = n_vertices; c-- > n_;) {
            std::size_t v = static_cast<std::size_t>(chosen_[c].word);
            while (above_[v] != c) v = above_[v];
            chosen_[v] = chosen_[c];
        }
        // Penalties are as small as they can be: what is left of them no tree avoids.
        bool allowed = true;
        std::size_t n_roots = 0;
        for (std::size_t m = 1; m < n_; ++m) {
            heads[m - 1] = chosen_[m].head;
            allowed = allowed && !banned_[m * n_ + static_cast<std::size_t>(chosen_[m].head)];
            n_roots += chosen_[m].head == 0;
        }
        return allowed && (root_penalty_ == 0 || n_roots == 1);
    }

    // The end of the path from `first` on is a cycle: it becomes the vertex `name` in the place of `first`.
    void contract(std::size_t first, std::size_t name) {
        const auto begin = static_cast<std::size_t>(std::find(path_.begin(), path_.end(), first) - path_.begin());
        cycle_.assign(path_.begin() + static_cast<std::ptrdiff_t>(begin), path_.end());
        path_.resize(begin + 1);
        for (const std::size_t c : cycle_) {
            above_[vertex_at_[c]] = name;
            if (c != first) state_[c] = State::gone;
        }
        alive_.erase(std::remove_if(alive_.begin(), alive_.end(), [&](std::size_t v) { return state_[v] == State::gone; }), alive_.end());
        // What the vertices of the cycle pay for their arcs in it; read before anything is written over.
        lost_.clear();
        for (const std::size_t c : cycle_) lost_.push_back(in_[c * n_ + source_[c]]);
        for (const std::size_t u : alive_) {
            if (u == first) continue;
            std::size_t into = 0, out = 0;
            for (std::size_t i = 1; i < cycle_.size(); ++i) {
                if (in_[cycle_[into] * n_ + u] - lost_[into] < in_[cycle_[i] * n_ + u] - lost_[i]) into = i;
                if (u != 0 && in_[u * n_ + cycle_[out]] < in_[u * n_ + cycle_[i]]) out = i;
            }
            const Weight entering = in_[cycle_[into] * n_ + u] - lost_[into];
            const Arc arc = arc_[cycle_[into] * n_ + u];
            in_[first * n_ + u] = entering;
            arc_[first * n_ + u] = arc;
            // The root has no arcs into it.
            if (u == 0) continue;
            in_[u * n_ + first] = in_[u * n_ + cycle_[out]];
            arc_[u * n_ + first] = arc_[u * n_ + cycle_[out]];
        }
        vertex_at_[first] = name;
    }

    struct Arc {
        std::int32_t head, word;
    };
    enum class State : std::uint8_t { open, on_path, settled, gone };

    std::size_t n_ = 0;  // nodes, with the root
    std::int64_t root_penalty_ = 0;
    // Of the arc into place v from place u, at v * n + u: what it is worth, and which arc of the sentence it is.
    std::vector<Weight> in_;
    std::vector<Arc> arc_;
    std::vector<char> banned_;
    std::vector<std::size_t> vertex_at_, above_, source_, alive_, path_, cycle_;
    std::vector<Arc> chosen_;
    std::vector<State> state_;
    std::vector<Weight> lost_;
};

}  // namespace maxmargin::structures
