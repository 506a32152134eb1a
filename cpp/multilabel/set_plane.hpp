// The sets of labels of one sample as points (h, g): by how much a set outscores the truth, and how many of its labels are wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "multilabel/label_sets.hpp"

namespace maxmargin::structures {

class SetPlane {
  public:
    explicit SetPlane(std::shared_ptr<const LabelGraph> graph) : graph_(std::move(graph)), truth_(graph_->n_labels()), unary_(graph_->n_labels()) {}

    // Scores of labels and pairs stay the caller's as long as there are questions.
    void begin(const double* scores, const double* pairs, const std::uint8_t* truth) {
        scores_ = scores, pairs_ = pairs;
        for (std::size_t j = 0; j < truth_.size(); ++j) truth_[j] = truth[j];
        own_ = graph_->worth(truth_.data(), scores_, pairs_);
    }

    std::pair<double, double> at(const double* y) const {
        double wrong = 0;
        for (std::size_t j = 0; j < truth_.size(); ++j) wrong += y[j] != truth_[j];
        return {graph_->worth(y, scores_, pairs_) - own_, wrong};
    }

    struct Answer {
        double h, g, upper;
    };
    // The set with the largest a h + b g becomes y. `best(unary, pairs, y)` decodes, and says by how much it may have missed.
    template <class Best>
    Answer ask(double a, double b, double* y, const Best& best) {
        for (std::size_t j = 0; j < truth_.size(); ++j) unary_[j] = a * scores_[j] + b * (1 - 2 * truth_[j]);
        const double* pairs = pairs_;
        if (a != 1) {
            scaled_.resize(graph_->n_pairs());
            for (std::size_t e = 0; e < scaled_.size(); ++e) scaled_[e] = a * pairs_[e];
            pairs = scaled_.data();
        }
        const double excess = best(unary_.data(), pairs, y);
        const auto [h, g] = at(y);
        // Of the loss alone if a is zero, however large h is.
        return {h, g, (a != 0 ? a * h + b * g : b * g) + excess};
    }

  private:
    std::shared_ptr<const LabelGraph> graph_;
    const double *scores_ = nullptr, *pairs_ = nullptr;
    std::vector<double> truth_, unary_, scaled_;
    double own_ = 0;
};

}  // namespace maxmargin::structures
