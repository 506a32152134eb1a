// The most violating tree of a sentence, for the block solvers: scores, a search, the features of the arcs that are wrong.
#pragma once

#include <memory>
#include <vector>

#include "core/oracle_blocks.hpp"
#include "parsing/arc_rows.hpp"
#include "parsing/tree_search.hpp"

namespace maxmargin::blocks {

// Sentences with their true trees.
struct ParseData {
    const structures::ArcRows* rows;
    const std::int32_t *heads, *labels;  // of all words; labels may be missing
    structures::TreeKind kind;

    structures::Truth truth(std::size_t q) const {
        return {heads + rows->words[q], labels ? labels + rows->words[q] : nullptr};
    }
};

class ParseOracle final : public Oracle {
  public:
    explicit ParseOracle(const ParseData& data) : Oracle(data.rows->n_sentences, data.rows->n_weights()), data_(data) {}

    // Oracles have scratch memory of their own.
    std::shared_ptr<Oracle> clone() const override { return std::make_shared<ParseOracle>(data_); }

    // The best tree by a * score + b * loss.
    void find(std::size_t q, const double* weights, double a, double b) {
        const structures::ArcScores scores = data_.rows->scores(q, weights, a, b, data_.truth(q), scores_);
        heads.resize(scores.n_words);
        labels.resize(scores.n_words);
        finder_.best(scores, data_.kind, data_.truth(q), heads.data(), labels.data());
    }

    void ask(std::size_t q, const double* weights, Answer& answer) override {
        find(q, weights, 1, 1);
        answer.indices.clear();
        answer.values.clear();
        answer.loss = difference(q, [&](std::int32_t at, double value) {
            answer.indices.push_back(at);
            answer.values.push_back(value);
        });
        answer.count = answer.indices.size();
    }

    // Features of the truth minus those of the tree that was found; returns its loss.
    template <class Add>
    double difference(std::size_t q, const Add& add) const {
        return data_.rows->difference(q, data_.truth(q), heads.data(), labels.data(), add);
    }

    std::vector<std::int32_t> heads, labels;

  private:
    ParseData data_;
    structures::TreeFinder finder_;
    std::vector<double> scores_;
};

// The same under another surrogate than margin rescaling. Answers are tangents in the weights of the hinge: psi_h times the
// difference of the features, and what is left of psi as the loss.
class SurrogateParseOracle final : public Oracle {
  public:
    SurrogateParseOracle(const ParseData& data, const surrogates::Bicriteria& psi, bool recover)
        : Oracle(data.rows->n_sentences, data.rows->n_weights()), data_(data), search_(psi, data.kind, recover), warm_(n_blocks) {}

    std::shared_ptr<Oracle> clone() const override { return std::make_shared<SurrogateParseOracle>(*this); }
    std::size_t queries() const override { return search_.queries(); }

    // Steps need a violating tree, a gap needs the proof that there is none above it.
    void announce(std::size_t first, std::size_t last, const double*) override { proving_ = last > first; }

    // The tangent, and a bound of the hinge at these weights.
    struct Hinge {
        surrogates::Tangent tangent;
        double bound;
    };
    Hinge find(std::size_t q, const double* weights, bool prove) {
        const structures::ArcScores scores = data_.rows->scores(q, weights, 1, 0, {}, scores_);
        heads_.resize(scores.n_words);
        labels_.resize(scores.n_words);
        const auto found = search_.find(scores, data_.truth(q), warm_[q], prove, heads_.data(), labels_.data());
        return {found.g > 0 ? search_.psi().tangent(found.h, found.g) : surrogates::Tangent{0, 0}, found.bound};
    }

    // Features of the truth minus those of the tree that was found, times a factor.
    template <class Add>
    void difference(std::size_t q, double factor, const Add& add) const {
        data_.rows->difference(q, data_.truth(q), heads_.data(), labels_.data(),
                               [&](std::int32_t at, double value) { add(at, factor * value); });
    }

    void ask(std::size_t q, const double* weights, Answer& answer) override { ask(q, weights, proving_, answer); }
    void ask(std::size_t q, const double* weights, bool prove, Answer& answer) {
        const Hinge found = find(q, weights, prove);
        answer.indices.clear();
        answer.values.clear();
        difference(q, found.tangent.a, [&](std::int32_t at, double value) {
            answer.indices.push_back(at);
            answer.values.push_back(value);
        });
        answer.loss = found.tangent.b;
        answer.bound = found.bound;
        answer.count = answer.indices.size();
    }

  private:
    ParseData data_;
    TreeSearch search_;
    std::vector<TreeSearch::Trees> warm_;  // of every sentence
    bool proving_ = false;
    std::vector<double> scores_;
    std::vector<std::int32_t> heads_, labels_;
};

}  // namespace maxmargin::blocks
