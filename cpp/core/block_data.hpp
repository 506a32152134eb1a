// Data of blocks that Python passes: rows of features, checks of labels, and the base class of all compiled problems.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "core/blocks.hpp"
#include "core/rows.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::blocks;

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
