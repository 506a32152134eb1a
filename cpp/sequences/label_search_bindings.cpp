// Python face of the search for the most violating labelings under a surrogate, for solvers that are written in Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <vector>

#include "python/arrays.hpp"
#include "sequences/label_search.hpp"
#include "sequences/tree_data.hpp"

namespace {

// Searches with a memory: every block begins where its last search has ended.
class PyLabelSearch {
  public:
    explicit PyLabelSearch(std::shared_ptr<PyLabelingData> data) : data_(std::move(data)), at_(data_->data) {
        require(data_->surrogate.has_value(), "the data need a surrogate");
        search_ = std::make_unique<LabelSearch>(data_->data, *data_->surrogate);
    }

    // Labels of some blocks one after the other; and for every block a and b of the cut, its value and an upper bound of the hinge.
    nb::tuple search(const Reals& weights, const Int64s& blocks) {
        require(weights.size() == at_.user_size(), "weights of wrong size");
        const LabelingData& data = data_->data;
        std::size_t n_nodes = 0;
        for (std::size_t q = 0; q < blocks.size(); ++q) {
            require(blocks.data()[q] >= 0 && static_cast<std::size_t>(blocks.data()[q]) < data.n_blocks, "block out of range");
            n_nodes += data.length(static_cast<std::size_t>(blocks.data()[q]));
        }
        const auto labels = zeros<std::int32_t>({n_nodes});
        const auto a = zeros<double>({blocks.size()}), b = zeros<double>({blocks.size()});
        const auto value = zeros<double>({blocks.size()}), bound = zeros<double>({blocks.size()});
        {
            ScopedGilRelease unlocked;
            own_.resize(at_.size());
            at_.exchange(weights.data(), own_.data(), false);
            for (std::size_t p = 0; p < data.n_labels * data.n_labels; ++p) search_->table_moved(own_.data() + at_.table, p);
            std::int32_t* to = labels.data;
            for (std::size_t q = 0; q < blocks.size(); ++q) {
                const auto i = static_cast<std::size_t>(blocks.data()[q]);
                search_->score(i, own_.data());
                const auto found = search_->find(i, true, to);
                const double h = search_->margin(i, to);
                const LabelCut cut = search_->cut(i, to, h);
                a.data[q] = cut.a;
                b.data[q] = cut.b;
                value.data[q] = cut.a * h + cut.b;
                bound.data[q] = std::max(value.data[q], found.bound);
                to += data.length(i);
            }
        }
        return nb::make_tuple(labels.array, a.array, b.array, value.array, bound.array);
    }

    std::size_t queries() const { return search_->queries(); }
    std::size_t searches() const { return search_->searches(); }

  private:
    std::shared_ptr<PyLabelingData> data_;
    LabelLayout at_;
    std::unique_ptr<LabelSearch> search_;
    std::vector<double> own_;
};

}  // namespace

void bind_label_search(nb::module_& m) {
    nb::class_<PyLabelSearch>(m, "LabelSearch")
        .def(nb::init<std::shared_ptr<PyLabelingData>>(), "data"_a)
        .def("search", &PyLabelSearch::search, "weights"_a.noconvert(), "blocks"_a.noconvert())
        .def_prop_ro("queries", &PyLabelSearch::queries)
        .def_prop_ro("searches", &PyLabelSearch::searches);
}
