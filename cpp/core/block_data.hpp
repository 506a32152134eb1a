// Data of blocks as they come from Python: rows of features, and forests of labels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/engine.hpp"
#include "python/arrays.hpp"
#include "sequences/labeling_blocks.hpp"
#include "sequences/surrogate_labelings.hpp"

using namespace maxmargin::blocks;
using maxmargin::surrogates::Kind;

// Rows of X, with the arrays that hold them.
struct Features {
    std::optional<Reals> values;  // none: sparse rows of ones
    std::optional<Int32s> columns;
    std::optional<Int64s> begin;
    Rows rows;

    Features(std::optional<Reals> values_, std::optional<Int32s> columns_, std::optional<Int64s> begin_, std::size_t n_columns)
        : values(std::move(values_)), columns(std::move(columns_)), begin(std::move(begin_)) {
        require(columns.has_value() == begin.has_value(), "sparse rows need both columns and begin");
        if (!columns) {
            require(values && values->ndim() == 2 && values->shape(1) == n_columns, "dense values must be a matrix with n_columns columns");
            rows = {values->data(), nullptr, nullptr, values->shape(0), n_columns};
            return;
        }
        require(begin->size() >= 1 && (!values || columns->size() == values->size()), "values and columns must be of equal size");
        const std::int64_t* b = begin->data();
        bool fine = b[0] == 0 && b[begin->size() - 1] == static_cast<std::int64_t>(columns->size());
        for (std::size_t r = 1; r < begin->size() && fine; ++r) fine = b[r - 1] <= b[r];
        require(fine, "begin must rise from 0 to the number of values");
        for (std::size_t e = 0; e < columns->size(); ++e)
            require(columns->data()[e] >= 0 && static_cast<std::size_t>(columns->data()[e]) < n_columns, "columns out of range");
        rows = {values ? values->data() : nullptr, columns->data(), b, begin->size() - 1, n_columns};
    }
};

inline void check_labels(const Int32s& y, std::size_t n, std::size_t n_labels) {
    require(y.size() == n, "y must have one label per row");
    for (std::size_t t = 0; t < n; ++t)
        require(y.data()[t] >= 0 && static_cast<std::size_t>(y.data()[t]) < n_labels, "y out of range");
}

// A problem in compiled form: immutable, shared by all engines that work on it.
struct BlockData {
    virtual ~BlockData() = default;
    virtual std::unique_ptr<Blocks> make() const = 0;
    // What the blocks will need at least; more if their points are to be in the interior.
    virtual std::size_t n_bytes(bool) const { return 0; }
};

struct PyLabelingData final : BlockData {
    Features features;
    Int32s y;
    Reals cost;
    Int64s offsets;
    std::optional<Int32s> parent;
    LabelingData data;
    PyLabelingData(Features features_, Int32s y_, Reals cost_, Int64s offsets_, std::optional<Int32s> parent_, std::size_t n_labels)
        : features(std::move(features_)), y(std::move(y_)), cost(std::move(cost_)), offsets(std::move(offsets_)), parent(std::move(parent_)) {
        const std::size_t nodes = features.rows.n_rows;
        require(n_labels >= 1 && n_labels <= LabelingBlocks::kMostLabels, "too many labels");
        check_labels(y, nodes, n_labels);
        require(cost.size() == nodes, "cost must have one entry per node");
        check_forests(offsets.data(), offsets.size(), parent ? &*parent : nullptr, nodes);
        require(offsets.size() >= 2, "there must be a block");
        for (std::size_t i = 1; i < offsets.size(); ++i) require(offsets.data()[i - 1] < offsets.data()[i], "blocks must not be empty");
        data = {features.rows, y.data(), cost.data(), offsets.data(), parent ? parent->data() : nullptr, offsets.size() - 1, n_labels};
    }
    // The same blocks with a user's search for the best labeling.
    void set_decoder(std::uintptr_t address, Reals reals_, Int64s integers_) {
        require(address != 0, "address must not be zero");
        reals.emplace(std::move(reals_));
        integers.emplace(std::move(integers_));
        data.decoder = reinterpret_cast<DecoderFunction>(address);
        data.reals = reals->data();
        data.integers = integers->data();
    }
    std::optional<Reals> reals;
    std::optional<Int64s> integers;
    // The same blocks under another surrogate than margin rescaling.
    void set_surrogate(const std::string& kind, double alpha, double beta, std::int32_t outside, bool recover) {
        surrogate = LabelSurrogate{{chosen<Kind>(kind, "surrogate", {{"generalized", Kind::generalized}, {"logistic", Kind::logistic},
                                                                     {"probability", Kind::probability}, {"micro_f1", Kind::micro_f1}}),
                                    alpha, beta}, outside, recover};
    }
    std::optional<LabelSurrogate> surrogate;
    std::unique_ptr<Blocks> make() const override {
        if (surrogate) return std::make_unique<SurrogateLabelings>(data, *surrogate);
        return std::make_unique<LabelingBlocks>(data);
    }
    std::size_t n_bytes(bool interior) const override {
        return data.x.n_rows * data.n_labels * (interior ? data.n_labels + 1 : 1) * sizeof(double);
    }
};
