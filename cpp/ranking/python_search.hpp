// Losses of rankings that are written in Python.
#pragma once

#include <algorithm>
#include <vector>

#include "python/arrays.hpp"
#include "ranking/search.hpp"

// A loss whose discrete derivative is a vectorised Python function of the arrays (j, i); what it returns has been checked.
class PythonSearch final : public maxmargin::ranking::Search {
  public:
    using Query = maxmargin::ranking::Query;

    PythonSearch(const double* positives, std::int64_t n_pos, std::int64_t n_neg, double scale, const nb::object& loss)
        : Search(positives, n_pos, n_neg, scale), loss_(loss), half_pn_(0.5 * static_cast<double>(n_pos) * static_cast<double>(n_neg)) {}

    bool prefers_batches() const override { return true; }

    void solve(Query* queries, std::size_t count) const override {
        std::size_t total = 0;
        for (std::size_t q = 0; q < count; ++q) total += static_cast<std::size_t>(std::max(0, queries[q].hi - queries[q].lo));
        std::vector<double> step(total);
        ask(total, step.data(), [&](std::int64_t* j, std::int64_t* i) {
            for (std::size_t q = 0; q < count; ++q)
                for (std::int32_t k = queries[q].lo; k < queries[q].hi; ++k) *j++ = queries[q].j, *i++ = k;
        });
        std::size_t at = 0;
        for (std::size_t q = 0; q < count; ++q) {
            Query& query = queries[q];
            query.rank = query.lo;
            scan_ranks(query.lo, query.hi, [&](std::int32_t i) { return positive(i) - query.s + scale_ * step[at++]; }, query.rank);
        }
    }
    void thresholds(const Query* queries, std::size_t count, double* scores) const override {
        ask(count, scores, [&](std::int64_t* j, std::int64_t* i) {
            for (std::size_t q = 0; q < count; ++q) j[q] = queries[q].j, i[q] = queries[q].lo;
        });
        for (std::size_t q = 0; q < count; ++q) scores[q] = positive(queries[q].lo) + scale_ * scores[q];
    }
    void steps(std::int64_t first_i, std::int64_t last_i, std::int64_t first_j, std::int64_t last_j, double* out) const override {
        ask(static_cast<std::size_t>((last_i - first_i + 1) * (last_j - first_j + 1)), out, [&](std::int64_t* j, std::int64_t* i) {
            for (std::int64_t row = first_i; row <= last_i; ++row)
                for (std::int64_t column = first_j; column <= last_j; ++column) *j++ = column, *i++ = row;
        });
    }
    double loss(const std::int64_t* above) const override {
        ScopedGilAcquire lock;
        return python_number(call_method(loss_, "value", array_of(std::vector<std::int64_t>(above, above + n_pos_)), n_neg_));
    }

  private:
    // The steps of `count` pairs, which `fill(j, i)` writes down, in one call.
    template <class Fill>
    void ask(std::size_t count, double* out, const Fill& fill) const {
        if (count == 0) return;
        ScopedGilAcquire lock;
        const auto j = zeros<std::int64_t>({count}), i = zeros<std::int64_t>({count});
        fill(j.data, i.data);
        const auto values = array_from<InputVector<double>>(call_method(loss_, "derivative", j.array, i.array, n_pos_, n_neg_));
        if (values.size() != count) throw nb::value_error("loss.derivative must return one value for every pair");
        for (std::size_t k = 0; k < count; ++k) out[k] = half_pn_ * values.data()[k];
    }

    const nb::object& loss_;
    double half_pn_;
};
