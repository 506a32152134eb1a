// Data of blocks of labeled nodes that Python passes, for margin rescaling and for other surrogates.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/block_data.hpp"
#include "python/arrays.hpp"
#include "sequences/labeling_blocks.hpp"
#include "sequences/surrogate_labelings.hpp"

using maxmargin::surrogates::Kind;

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
