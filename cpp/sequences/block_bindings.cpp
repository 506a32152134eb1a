// Python bindings of blocks of labeled nodes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "core/block_data.hpp"
#include "python/arrays.hpp"
#include "sequences/tree_data.hpp"

namespace {

// The labeling that a user's decoder finds for one block.
nb::ndarray<nb::numpy, std::int32_t> ask_decoder(const PyLabelingData& data, std::size_t block, const Reals& scores, const Reals& table) {
    require(data.data.decoder && block < data.data.n_blocks, "no decoder, or block out of range");
    const auto n = static_cast<std::size_t>(data.data.offsets[block + 1] - data.data.offsets[block]);
    require(scores.size() == n * data.data.n_labels && table.size() == data.data.n_labels * data.data.n_labels, "scores or table of wrong size");
    const auto labels = zeros<std::int32_t>({n});
    {
        ScopedGilRelease unlocked;
        decode(data.data, block, n, scores.data(), table.data(), labels.data);
    }
    return labels.array;
}

}  // namespace

void bind_sequence_blocks(nb::module_& m) {
    nb::class_<PyLabelingData, BlockData>(m, "LabelingData")
        .def(nb::init<Features, Int32s, Reals, Int64s, std::optional<Int32s>, std::size_t>(), "features"_a, "y"_a.noconvert(),
             "cost"_a.noconvert(), "offsets"_a.noconvert(), "parent"_a.noconvert().none(), "n_labels"_a)
        .def("set_decoder", &PyLabelingData::set_decoder, "address"_a, "reals"_a.noconvert(), "integers"_a.noconvert())
        .def("set_surrogate", &PyLabelingData::set_surrogate, "kind"_a, "alpha"_a, "beta"_a, "outside"_a, "recover"_a)
        .def("decode", &ask_decoder, "block"_a, "scores"_a.noconvert(), "table"_a.noconvert());
}
