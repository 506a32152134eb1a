// Hull search and bisecting for slack rescaling of sets of labels, one sample after the other with the same buffers: what
// surrogates/product_search.hpp asks, answered by the decoder itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "multilabel/set_plane.hpp"
#include "surrogates/product_search.hpp"

namespace maxmargin::surrogates {

class ProductSetSearch {
  public:
    explicit ProductSetSearch(std::shared_ptr<const structures::LabelGraph> graph)
        : plane_(graph), decoder_(graph), n_labels_(graph->n_labels()), answer_(n_labels_) {
        for (std::size_t g = 0; g <= n_labels_; ++g) losses_.push_back(static_cast<double>(g));
    }

    // A sample. Scores of labels and pairs stay the caller's until its search is over.
    void begin(const double* scores, const double* pairs, const std::uint8_t* truth) {
        plane_.begin(scores, pairs, truth);
        sets_.assign(truth, truth + n_labels_);
        points_.assign(1, {0, 0, 0, 0});
        known_.clear();
    }
    // A set to begin with, zeros and ones.
    void suggest(const std::uint8_t* set) {
        std::copy_n(set, n_labels_, answer_.begin());
        const auto [h, g] = plane_.at(answer_.data());
        known_.push_back(met(h, g));
    }

    HullFound hull(double tolerance, std::size_t max_calls) {
        // The set that is wrong in every label has the largest loss, and needs no question.
        if (known_.empty()) {
            std::vector<std::uint8_t> opposite(n_labels_);
            for (std::size_t j = 0; j < n_labels_; ++j) opposite[j] = 1 - sets_[j];
            suggest(opposite.data());
        }
        known_.insert(known_.begin(), points_[0]);
        ProductCeiling ceiling(losses_);
        HullOptions options;
        options.tolerance = tolerance, options.max_calls = max_calls;
        const auto question = [&](double a, double b) { return ask(a, b); };
        return ProductHullSearch(points_[0], known_, &ceiling, options, question).run();
    }
    // From `start`, or from anywhere if that is null.
    BisectFound bisect(const double* start, double tolerance, std::size_t max_calls) {
        const auto question = [&](double a, double b) { return ask(a, b); };
        return bisect_product(points_[0], known_, start, tolerance, max_calls, question);
    }

    std::size_t n_labels() const { return n_labels_; }
    const std::uint8_t* set(const PlanePoint& point) const { return sets_.data() + point.key * n_labels_; }

  private:
    PlaneAnswer ask(double a, double b) {
        const auto [h, g, upper] = plane_.ask(a, b, answer_.data(), [&](const double* unary, const double* pairs, double* y) { return decoder_.best(unary, pairs, y); });
        return {true, met(h, g), upper};
    }

    // The point of the set in answer_, which is known again by its labels.
    PlanePoint met(double h, double g) {
        for (const PlanePoint& point : points_)
            if (point.g == g && std::equal(answer_.begin(), answer_.end(), set(point), [](double y, std::uint8_t label) { return y == label; })) return point;
        for (const double y : answer_) sets_.push_back(y != 0);
        points_.push_back({h, g, points_.size(), points_.size()});
        return points_.back();
    }

    structures::SetPlane plane_;
    structures::SetDecoder decoder_;
    std::size_t n_labels_;
    std::vector<double> answer_, losses_;
    // Sets met, the truth first, and their points; those to begin with.
    std::vector<std::uint8_t> sets_;
    std::vector<PlanePoint> points_, known_;
};

}  // namespace maxmargin::surrogates
