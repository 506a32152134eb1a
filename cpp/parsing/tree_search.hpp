// The most violating dependency tree of a sentence under a surrogate psi(h, g), by convex hull search over the decoder of trees.
//
// h is the score of a tree less that of the truth, g the number of its words with a wrong head or label. Scores of arcs are formed
// once for a sentence, and the best label of every arc is looked for once: a question h + lambda g then is a table of arcs and one
// search. The trees on which a search has ended are where the next search of the sentence begins.
//
// Below the hull there may be a better tree (spec 10.5). Losses are whole numbers: under all lines that were asked about, and at a
// whole number of wrong words, psi is often no larger than that of the best tree found, and this is the proof. Where it is larger,
// trees are listed along the last line, best first, which lowers that line until nothing is left above the best tree; a line that
// is lowered instead of a list of banned trees, so that the search for the next best tree goes on where it was.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "parsing/arc_rows.hpp"
#include "surrogates/hull_search.hpp"
#include "surrogates/psi.hpp"

namespace maxmargin::blocks {

class TreeSearch {
  public:
    // With `recover`, a proof goes on below the hull.
    TreeSearch(const surrogates::Bicriteria& psi, structures::TreeKind kind, bool recover) : psi_(psi), kind_(kind), recover_(recover) {}

    const surrogates::Bicriteria& psi() const { return psi_; }
    std::size_t queries() const { return queries_; }

    struct Violator {
        double h, g;
        double value, bound;  // psi of the tree, and what no tree exceeds; infinite if that is not known
    };
    // Trees to begin a search with: heads and labels of each, one behind the other.
    using Trees = std::vector<std::int32_t>;

    // The best tree found, written to `heads` and `labels`; with at most `kMostStepping` questions to the decoder or, if that is to
    // be proved, as many as it takes. The truth is a tree of its sentence whatever its kind. `warm` is read and written.
    Violator find(const structures::ArcScores& scores, const structures::Truth& truth, Trees& warm, bool prove, std::int32_t* heads,
                  std::int32_t* labels) {
        begin(scores, truth);
        const std::size_t size = 2 * n_;
        std::int32_t* own = new_tree();
        std::copy_n(truth.heads, n_, own);
        if (truth.labels) std::copy_n(truth.labels, n_, own + n_);
        consider(0);
        for (std::size_t c = 0; c < warm.size() / size; ++c) {
            std::copy_n(warm.begin() + static_cast<std::ptrdiff_t>(c * size), size, new_tree());
            hull_.add(consider(n_pool_ - 1));
        }
        hull_.add(points_[0]);
        const auto query = [&](double lambda) { return ask(lambda); };
        // The question of margin rescaling is a good one to begin with.
        if (n_pool_ == 1) hull_.add(ask(1));
        auto found = surrogates::hull_search(psi_, hull_, size_, prove ? kMostProving : kMostStepping, query);
        double bound = std::numeric_limits<double>::infinity();
        if (prove) {
            // The line that touches psi at the best tree of the hull proves that; an edge bounds what may lie below it.
            bound = found.bound;
            if (!is_proved(bound)) bound = std::min(bound, bound_of_losses());
            if (!is_proved(bound) && recover_) bound = std::min(bound, list());
        }
        const surrogates::Vertex& best = points_[best_];
        std::copy_n(tree(best_), n_, heads);
        std::copy_n(tree(best_) + n_, n_, labels);
        // The best one, and where the search has ended, with its neighbours.
        warm.clear();
        const auto keep = [&](std::size_t id) { warm.insert(warm.end(), tree(id), tree(id) + size); };
        if (best.g > 0) keep(best_);
        for (std::size_t t = found.at > 0 ? found.at - 1 : 0; t < std::min(hull_.size(), found.at + 2); ++t)
            if (hull_[t].g > 0 && hull_[t].id != best_) keep(hull_[t].id);
        return {best.h, best.g, value_, std::max(bound, value_)};
    }

  private:
    static constexpr std::size_t kMostStepping = 2, kMostProving = 500;
    // Trees that are listed along a line at most; what they do not prove remains a bound.
    static constexpr std::size_t kMostListed = 256;
    static constexpr double kRounding = 1e-12, kExact = 1e-9;

    struct Line {
        double lambda, most;  // no tree has a larger h + lambda g
    };

    // The best label of every arc and, for the arcs of the truth, the best label that is wrong.
    void begin(const structures::ArcScores& scores, const structures::Truth& truth) {
        scores_ = scores, truth_ = truth, n_ = scores.n_words;
        const std::size_t N = n_ + 1, L = scores.n_labels;
        n_pool_ = 0;
        points_.clear();
        hull_.clear();
        lines_.clear();
        best_ = 0, value_ = -std::numeric_limits<double>::infinity(), most_lambda_ = 0, size_ = 0;
        asked_.resize(N * N);
        right_.resize(n_), wrong_.resize(n_), wrong_label_.resize(n_);
        if (L > 1) {
            top_.resize(N * N), label_.resize(N * N);
            for (std::size_t h = 0; h < N; ++h)
                for (std::size_t m = 1; m < N; ++m) {
                    if (h == m) continue;
                    const std::size_t l = scores.best_label(h, m);
                    label_[h * N + m] = static_cast<std::int32_t>(l);
                    top_[h * N + m] = scores.of(h, m)[l];
                }
        }
        for (std::size_t m = 1; m <= n_; ++m) {
            const double* of = scores.of(static_cast<std::size_t>(truth.heads[m - 1]), m);
            const std::size_t own = truth.labels ? static_cast<std::size_t>(truth.labels[m - 1]) : 0;
            right_[m - 1] = of[own];
            size_ += std::abs(of[own]);
            wrong_[m - 1] = structures::kForbidden;
            for (std::size_t l = 0; l < L; ++l)
                if (l != own && of[l] > wrong_[m - 1]) wrong_[m - 1] = of[l], wrong_label_[m - 1] = static_cast<std::int32_t>(l);
        }
    }

    std::int32_t* new_tree() {
        if (pool_.size() < (n_pool_ + 1) * 2 * n_) pool_.resize((n_pool_ + 1) * 2 * n_);
        std::int32_t* own = pool_.data() + n_pool_++ * 2 * n_;
        std::fill_n(own + n_, n_, 0);
        return own;
    }
    const std::int32_t* tree(std::size_t id) const { return pool_.data() + id * 2 * n_; }

    // The point of a tree of the pool, which is the best so far if it is.
    surrogates::Vertex consider(std::size_t id) {
        surrogates::Vertex point{0, 0, id};
        const std::int32_t *heads = tree(id), *labels = heads + n_;
        for (std::size_t m = 0; m < n_; ++m) {
            if (heads[m] == truth_.heads[m] && (!truth_.labels || labels[m] == truth_.labels[m])) continue;
            point.h += scores_.of(static_cast<std::size_t>(heads[m]), m + 1)[labels[m]] - right_[m];
            point.g += 1;
        }
        points_.push_back(point);
        if (const double value = psi_.value(point.h, point.g); value > value_) value_ = value, best_ = id;
        return point;
    }

    // The tree with the largest h + lambda g.
    surrogates::Vertex ask(double lambda) {
        // The loss alone: a wrong word more counts more than all scores.
        if (std::isinf(lambda)) lambda = most_lambda();
        const std::size_t N = n_ + 1;
        const double* from = scores_.n_labels > 1 ? top_.data() : scores_.values;
        for (std::size_t k = 0; k < N * N; ++k) asked_[k] = from[k] + lambda;
        for (std::size_t m = 1; m <= n_; ++m)
            asked_[static_cast<std::size_t>(truth_.heads[m - 1]) * N + m] = std::max(right_[m - 1], wrong_[m - 1] + lambda);
        std::int32_t *heads = new_tree(), *labels = heads + n_;
        finder_.best({asked_.data(), n_, 1}, kind_, heads, labels);
        if (scores_.n_labels > 1)
            for (std::size_t m = 0; m < n_; ++m) {
                if (heads[m] != truth_.heads[m]) labels[m] = label_[static_cast<std::size_t>(heads[m]) * N + m + 1];
                else labels[m] = wrong_[m] + lambda > right_[m] ? wrong_label_[m] : truth_.labels[m];
            }
        ++queries_;
        const surrogates::Vertex found = consider(n_pool_ - 1);
        lines_.push_back({lambda, above(found, lambda)});
        return found;
    }

    // h + lambda g of a tree or, if it is more, of the truth; with room for rounding.
    double above(const surrogates::Vertex& point, double lambda) const {
        return std::max(0.0, point.h + lambda * point.g) + kRounding * (size_ + std::abs(point.h) + lambda * point.g);
    }

    double most_lambda() {
        if (most_lambda_ > 0) return most_lambda_;
        const std::size_t N = n_ + 1;
        const double* from = scores_.n_labels > 1 ? top_.data() : scores_.values;
        most_lambda_ = 1;
        for (std::size_t m = 1; m <= n_; ++m) {
            double low = right_[m - 1], high = right_[m - 1];
            if (wrong_[m - 1] > structures::kForbidden) low = std::min(low, wrong_[m - 1]);
            for (std::size_t h = 0; h < N; ++h)
                if (h != m) low = std::min(low, from[h * N + m]), high = std::max(high, from[h * N + m]);
            most_lambda_ += high - low;
        }
        return most_lambda_;
    }

    bool is_proved(double bound) const { return bound <= value_ + kExact * (1 + std::abs(value_)); }

    // The largest psi that a tree can have below all lines.
    double bound_of_losses() const {
        double top = 0;
        for (std::size_t wrong = 1; wrong <= n_; ++wrong) {
            const auto g = static_cast<double>(wrong);
            double h = std::numeric_limits<double>::infinity();
            for (const Line& line : lines_) h = std::min(h, line.most - line.lambda * g);
            top = std::max(top, psi_.value(h, g));
        }
        return top;
    }

    // List trees along the last line asked about, and return what bounds all others.
    double list() {
        const double lambda = lines_.back().lambda;
        const std::size_t N = n_ + 1, L = scores_.n_labels;
        listed_.resize(N * N * L);
        for (std::size_t k = 0; k < N * N * L; ++k) listed_[k] = scores_.values[k] + lambda;
        for (std::size_t m = 1; m <= n_; ++m) {
            const std::size_t own = truth_.labels ? static_cast<std::size_t>(truth_.labels[m - 1]) : 0;
            listed_[(static_cast<std::size_t>(truth_.heads[m - 1]) * N + m) * L + own] = right_[m - 1];
        }
        // Losses at which something better is possible as yet, with the largest h that the other lines allow there.
        open_.clear();
        for (std::size_t wrong = 1; wrong <= n_; ++wrong) {
            const auto g = static_cast<double>(wrong);
            double h = std::numeric_limits<double>::infinity();
            for (const Line& line : lines_) h = std::min(h, line.most - line.lambda * g);
            if (!is_proved(psi_.value(h, g))) open_.push_back({h, g, 0});
        }
        ++queries_;
        std::size_t count = 0;
        double bound = std::numeric_limits<double>::infinity();
        const bool all = finder_.list({listed_.data(), n_, L}, kind_, [&](const structures::DependencyTree& next) {
            std::int32_t* own = new_tree();
            std::copy(next.heads.begin(), next.heads.end(), own);
            std::copy(next.labels.begin(), next.labels.end(), own + n_);
            const surrogates::Vertex point = consider(n_pool_ - 1);
            // All that comes after it is worth no more along this line.
            const double most = point.h + lambda * point.g + kRounding * (size_ + std::abs(point.h) + lambda * point.g);
            bound = 0;
            for (surrogates::Vertex& place : open_) {
                place.h = std::min(place.h, most - lambda * place.g);
                bound = std::max(bound, psi_.value(place.h, place.g));
            }
            return !is_proved(bound) && ++count < kMostListed;
        });
        // What is not open any more is worth no more than the best tree, but for rounding.
        return all || is_proved(bound) ? value_ : bound;
    }

    surrogates::Bicriteria psi_;
    structures::TreeKind kind_;
    bool recover_;
    structures::TreeFinder finder_;
    // The present sentence.
    structures::ArcScores scores_{};
    structures::Truth truth_;
    std::size_t n_ = 0;
    std::vector<double> top_, right_, wrong_, asked_, listed_;
    std::vector<std::int32_t> label_, wrong_label_;
    double size_ = 0, most_lambda_ = 0;
    // Trees met in the present search, and what is known from the questions.
    std::vector<std::int32_t> pool_;
    std::vector<surrogates::Vertex> points_;
    std::size_t n_pool_ = 0, best_ = 0;
    double value_ = 0;
    surrogates::UpperHull hull_;
    std::vector<Line> lines_;
    std::vector<surrogates::Vertex> open_;
    std::size_t queries_ = 0;
};

}  // namespace maxmargin::blocks
