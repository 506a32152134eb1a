// Scores of the arcs of a sentence, and trees of arcs.
//
// A sentence of n words has the nodes 0 .. n: node 0 is the root, above all words. Every word has one head, another word or the
// root, and following heads leads to the root. With labels an arc has one of L.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace maxmargin::structures {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

// score(h, m, l) of the arc from head h to word m; minus infinity forbids it.
struct ArcScores {
    const double* values;
    std::size_t n_words;
    std::size_t n_labels;  // 1 if arcs have no labels

    std::size_t n_nodes() const { return n_words + 1; }
    const double* of(std::size_t head, std::size_t word) const { return values + (head * n_nodes() + word) * n_labels; }

    // The best label of an arc, the first of several.
    std::size_t best_label(std::size_t head, std::size_t word) const {
        const double* s = of(head, word);
        return static_cast<std::size_t>(std::max_element(s, s + n_labels) - s);
    }
    double best(std::size_t head, std::size_t word) const {
        const double* s = of(head, word);
        return n_labels == 1 ? *s : *std::max_element(s, s + n_labels);
    }
};

// Heads and labels of the words 1 .. n, in entries 0 .. n - 1.
struct DependencyTree {
    std::vector<std::int32_t> heads, labels;
    double score = 0;
};

// The sum of the scores of a tree's arcs, word by word: the same for whoever has found it.
inline double score_of(const ArcScores& scores, const std::int32_t* heads, const std::int32_t* labels) {
    double total = 0;
    for (std::size_t m = 1; m <= scores.n_words; ++m)
        total += scores.of(static_cast<std::size_t>(heads[m - 1]), m)[labels ? labels[m - 1] : 0];
    return total;
}

// The best labels of the arcs of a tree.
inline void set_labels(const ArcScores& scores, const std::int32_t* heads, std::int32_t* labels) {
    for (std::size_t m = 1; m <= scores.n_words; ++m)
        labels[m - 1] = static_cast<std::int32_t>(scores.best_label(static_cast<std::size_t>(heads[m - 1]), m));
}

}  // namespace maxmargin::structures
