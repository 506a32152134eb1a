// The most violating tree of a sentence, for the block solvers: scores, a search, the features of the arcs that are wrong.
#pragma once

#include <memory>
#include <vector>

#include "blocks/oracle_blocks.hpp"
#include "structures/arc_rows.hpp"

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

}  // namespace maxmargin::blocks
