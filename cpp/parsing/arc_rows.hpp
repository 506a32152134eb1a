// Sparse features of the arcs of sentences: scores from weights, the best tree, features of a tree.
//
// A sentence of n words has (n + 1)^2 rows, one for the arc from h to m at h * (n + 1) + m; those into the root or from a word to
// itself are never used. An arc with label l scores w . row + sum over the entries f of its second row of W[f, l], where W lies
// behind w. Features are 1 unless they have values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parsing/arborescence.hpp"
#include "parsing/arc_scores.hpp"
#include "parsing/eisner.hpp"

namespace maxmargin::structures {

// Compressed rows; `values` may be missing.
struct SparseRows {
    const std::int64_t* begin = nullptr;
    const std::int32_t* at = nullptr;
    const double* values = nullptr;
    std::size_t n_columns = 0;

    double dot(std::size_t row, const double* weights) const {
        const std::int64_t first = begin[row], last = begin[row + 1];
        if (values) {
            double total = 0;
            for (std::int64_t e = first; e < last; ++e) total += values[e] * weights[at[e]];
            return total;
        }
        // Four sums, because one would wait for itself.
        double a = 0, b = 0, c = 0, d = 0;
        std::int64_t e = first;
        for (; e + 4 <= last; e += 4) {
            a += weights[at[e]];
            b += weights[at[e + 1]];
            c += weights[at[e + 2]];
            d += weights[at[e + 3]];
        }
        for (; e < last; ++e) a += weights[at[e]];
        return (a + b) + (c + d);
    }
};

// How trees are searched.
struct TreeKind {
    bool projective = true, single_root = true;
};

struct Truth {
    const std::int32_t* heads = nullptr;
    const std::int32_t* labels = nullptr;
};

class TreeFinder {
  public:
    // False if every tree has a forbidden arc, or, under a single root, two arcs from the root.
    bool best(const ArcScores& scores, TreeKind kind, std::int32_t* heads, std::int32_t* labels) {
        if (!kind.projective) {
            if (!arborescence_.best(scores, kind.single_root, heads)) return false;
        } else {
            eisner_.best(scores, kind.single_root, heads);
        }
        set_labels(scores, heads, labels);
        return !kind.projective || score_of(scores, heads, labels) > kForbidden;
    }
    // The same where the true tree is known: it is one of the outputs even if it is not of the kind that is searched, so that no
    // hinge is negative.
    void best(const ArcScores& scores, TreeKind kind, const Truth& truth, std::int32_t* heads, std::int32_t* labels) {
        best(scores, kind, heads, labels);
        if (!truth.heads || score_of(scores, truth.heads, truth.labels) <= score_of(scores, heads, labels)) return;
        std::copy_n(truth.heads, scores.n_words, heads);
        if (truth.labels) std::copy_n(truth.labels, scores.n_words, labels);
    }

    std::vector<DependencyTree> k_best(const ArcScores& scores, TreeKind kind, const Truth& truth, std::size_t k) {
        std::vector<DependencyTree> found = k_best(scores, kind, k);
        if (!truth.heads) return found;
        DependencyTree own{{truth.heads, truth.heads + scores.n_words}, std::vector<std::int32_t>(scores.n_words), 0};
        if (truth.labels) own.labels.assign(truth.labels, truth.labels + scores.n_words);
        own.score = score_of(scores, truth.heads, truth.labels);
        std::size_t place = found.size();
        for (std::size_t i = 0; i < found.size(); ++i) {
            if (found[i].heads == own.heads && found[i].labels == own.labels) return found;
            if (place == found.size() && found[i].score < own.score) place = i;
        }
        found.insert(found.begin() + static_cast<std::ptrdiff_t>(place), std::move(own));
        if (found.size() > k) found.pop_back();
        return found;
    }

    std::vector<DependencyTree> k_best(const ArcScores& scores, TreeKind kind, std::size_t k) {
        return kind.projective ? eisner_.k_best(scores, kind.single_root, k) : arborescence_.k_best(scores, kind.single_root, k);
    }
    // Trees of the kind, best first, for as long as `visit(tree)` wants more; true if it has seen them all.
    template <class Visit>
    bool list(const ArcScores& scores, TreeKind kind, const Visit& visit) {
        return kind.projective ? eisner_.list(scores, kind.single_root, visit) : arborescence_.list(scores, kind.single_root, visit);
    }

  private:
    Eisner eisner_;
    Arborescence arborescence_;
};

struct ArcRows {
    const std::int64_t* words = nullptr;  // sentence q has the words words[q] .. words[q + 1] - 1 of all
    std::size_t n_sentences = 0, n_labels = 1;
    std::vector<std::size_t> first_row;
    SparseRows arcs, labels;

    std::size_t n_words(std::size_t q) const { return static_cast<std::size_t>(words[q + 1] - words[q]); }
    std::size_t n_weights() const { return arcs.n_columns + labels.n_columns * n_labels; }
    std::size_t row(std::size_t q, std::size_t head, std::size_t word) const { return first_row[q] + head * (n_words(q) + 1) + word; }

    // a * score + b * (arc is not that of the truth), for all arcs of a sentence.
    ArcScores scores(std::size_t q, const double* weights, double a, double b, const Truth& truth, std::vector<double>& into) const {
        const std::size_t n = n_words(q), N = n + 1, L = n_labels;
        into.resize(N * N * L);
        const double* table = weights + arcs.n_columns;
        if (!labels.begin) {
            // Nearly all arcs are wrong: those of the truth are mended afterwards.
            const double wrong = truth.heads ? b : 0.0;
            for (std::size_t h = 0; h < N; ++h) {
                const std::size_t first = row(q, h, 0);
                for (std::size_t m = 1; m < N; ++m)
                    if (h != m) into[h * N + m] = a * arcs.dot(first + m, weights) + wrong;
            }
            for (std::size_t m = 1; truth.heads && m < N; ++m) {
                const auto h = static_cast<std::size_t>(truth.heads[m - 1]);
                into[h * N + m] = a * arcs.dot(row(q, h, m), weights);
            }
            return {into.data(), n, L};
        }
        for (std::size_t h = 0; h < N; ++h)
            for (std::size_t m = 1; m < N; ++m) {
                if (h == m) continue;
                const std::size_t r = row(q, h, m);
                double* to = into.data() + (h * N + m) * L;
                const bool right_head = truth.heads && static_cast<std::size_t>(truth.heads[m - 1]) == h;
                const double arc = arcs.dot(r, weights);
                std::fill(to, to + L, arc);
                for (std::int64_t e = labels.begin[r]; e < labels.begin[r + 1]; ++e) {
                    const double* own = table + static_cast<std::size_t>(labels.at[e]) * L;
                    const double value = labels.values ? labels.values[e] : 1.0;
                    for (std::size_t l = 0; l < L; ++l) to[l] += value * own[l];
                }
                for (std::size_t l = 0; l < L; ++l) to[l] *= a;
                if (truth.heads)
                    for (std::size_t l = 0; l < L; ++l)
                        if (!right_head || l != static_cast<std::size_t>(truth.labels[m - 1])) to[l] += b;
            }
        return {into.data(), n, L};
    }

    // Features of an arc with a label, times a factor.
    template <class Add>
    void add_arc(std::size_t q, std::size_t head, std::size_t word, std::size_t label, double factor, bool with_arc, const Add& add) const {
        const std::size_t r = row(q, head, word);
        if (with_arc)
            for (std::int64_t e = arcs.begin[r]; e < arcs.begin[r + 1]; ++e) add(arcs.at[e], factor * (arcs.values ? arcs.values[e] : 1.0));
        if (!labels.begin) return;
        for (std::int64_t e = labels.begin[r]; e < labels.begin[r + 1]; ++e) {
            const std::size_t at = arcs.n_columns + static_cast<std::size_t>(labels.at[e]) * n_labels + label;
            add(static_cast<std::int32_t>(at), factor * (labels.values ? labels.values[e] : 1.0));
        }
    }

    // Features of the truth minus those of a tree, where they differ; returns how many words do.
    template <class Add>
    double difference(std::size_t q, const Truth& truth, const std::int32_t* heads, const std::int32_t* tags, const Add& add) const {
        double wrong = 0;
        for (std::size_t m = 1; m <= n_words(q); ++m) {
            const bool other_head = truth.heads[m - 1] != heads[m - 1];
            const std::int32_t own = truth.labels ? truth.labels[m - 1] : 0, other = truth.labels ? tags[m - 1] : 0;
            if (!other_head && own == other) continue;
            wrong += 1;
            add_arc(q, static_cast<std::size_t>(truth.heads[m - 1]), m, static_cast<std::size_t>(own), 1, other_head, add);
            add_arc(q, static_cast<std::size_t>(heads[m - 1]), m, static_cast<std::size_t>(other), -1, other_head, add);
        }
        return wrong;
    }
};

}  // namespace maxmargin::structures
