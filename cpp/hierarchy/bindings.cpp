// Python bindings of hierarchies: blocks with one label or a closed set of labels per sample, and the search for the most violating
// closed sets of many samples.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>

#include "core/block_data.hpp"
#include "hierarchy/closed_set_data.hpp"
#include "hierarchy/hierarchy_blocks.hpp"
#include "python/arrays.hpp"
#include "surrogates/many_searches.hpp"
#include "surrogates/set_blocks.hpp"

using maxmargin::structures::LabelTree;

namespace {

struct PyHierarchyData final : BlockData {
    Features features;
    Int32s y, node;
    Int64s begin;
    Reals attribute;
    std::optional<Reals> node_loss, costs, weights;
    HierarchyData data;
    PyHierarchyData(Features features_, Int32s y_, Int64s begin_, Int32s node_, Reals attribute_, std::size_t n_nodes,
                    std::optional<Reals> node_loss_, bool root, std::optional<Reals> costs_, double loss_power, double scale_power,
                    std::optional<Reals> weights_)
        : features(std::move(features_)), y(std::move(y_)), node(std::move(node_)), begin(std::move(begin_)), attribute(std::move(attribute_)),
          node_loss(std::move(node_loss_)), costs(std::move(costs_)), weights(std::move(weights_)) {
        require(begin.size() >= 2 && n_nodes >= 1 && node.size() == attribute.size(), "labels have nodes, and these have attributes");
        const std::size_t K = begin.size() - 1;
        bool fine = begin.data()[0] == 0 && begin.data()[K] == static_cast<std::int64_t>(node.size());
        for (std::size_t k = 0; k < K && fine; ++k) fine = begin.data()[k] <= begin.data()[k + 1];
        require(fine, "begin must rise from 0 to the number of nodes of all labels");
        for (std::size_t e = 0; e < node.size(); ++e)
            require(node.data()[e] >= 0 && static_cast<std::size_t>(node.data()[e]) < n_nodes, "nodes out of range");
        if (node_loss) require(node_loss->size() == n_nodes, "node_loss must have one entry per node");
        if (costs) require(costs->size() == K * K, "costs must be a square matrix");
        if (weights) require(weights->size() == features.rows.n_rows, "weights must have one entry per row");
        check_labels(y, features.rows.n_rows, K);
        data = {features.rows, y.data(), weights ? weights->data() : nullptr, K, n_nodes, begin.data(), node.data(), attribute.data(),
                node_loss ? node_loss->data() : nullptr, root, costs ? costs->data() : nullptr, loss_power, scale_power};
    }
    std::unique_ptr<Blocks> make() const override { return std::make_unique<HierarchyBlocks>(data); }
    std::size_t n_bytes(bool) const override { return data.x.n_rows * 64; }
};

struct PyLabelTree {
    PyLabelTree(const Int32s& parents, const InputVector<std::uint8_t>& ends, const Values& losses) {
        const std::size_t n = parents.size();
        require(n >= 1 && ends.size() == n && losses.size() == n, "parents, ends and losses must have one entry per node");
        for (std::size_t k = 1; k < n; ++k)
            require(parents.data()[k] >= 0 && static_cast<std::size_t>(parents.data()[k]) < k, "every parent must come before its children");
        for (std::size_t k = 0; k < n; ++k) require(losses.data()[k] >= 0, "losses must not be negative");
        tree = std::make_shared<LabelTree>(parents.data(), ends.data(), losses.data(), n);
    }
    std::shared_ptr<const LabelTree> tree;
};

class PyClosedSetSearch {
  public:
    PyClosedSetSearch(const PyLabelTree& tree, const std::string& kind, double alpha, double beta, bool hull_only)
        : tree_(tree.tree), surrogate_(surrogate_of(kind, alpha, beta, false, hull_only)) {}

    nb::tuple search(const Matrix& scores, const Truths& truth, int n_threads, bool prove, double floor) {
        require(scores.shape(1) == tree_->size(), "scores need a column per node");
        return searches_.search(scores, nullptr, truth, n_threads, prove, floor, [&] { return std::make_unique<ClosedSetSearch>(tree_, surrogate_); });
    }

  private:
    std::shared_ptr<const LabelTree> tree_;
    SetSurrogate surrogate_;
    ManySearches<ClosedSetSearch> searches_;
};

struct PyClosedSetData final : BlockData {
    Features features;
    Truths truth;
    std::optional<Reals> weights;
    Values roots;
    ClosedSetData data;

    PyClosedSetData(Features features_, Truths truth_, std::optional<Reals> weights_, const PyLabelTree& tree, Values roots_, const std::string& kind,
                    double alpha, double beta, bool hull_only)
        : features(std::move(features_)), truth(std::move(truth_)), weights(std::move(weights_)), roots(std::move(roots_)) {
        const std::size_t n = features.rows.n_rows, M = tree.tree->size();
        require(n >= 1 && truth.shape(0) == n && truth.shape(1) == M, "truth needs a row per sample and a column per node");
        require(!weights || weights->size() == n, "weights must have one entry per sample");
        require(roots.size() == M, "roots must have one entry per node");
        for (std::size_t e = 0; e < truth.size(); ++e) require(truth.data()[e] <= 1, "truth must be zeros and ones");
        data = {features.rows, truth.data(), weights ? weights->data() : nullptr, tree.tree, roots.data(), surrogate_of(kind, alpha, beta, false, hull_only)};
    }
    std::unique_ptr<Blocks> make() const override { return std::make_unique<SetBlocks<ClosedSetData>>(data); }
    // About four sets of a few nodes each.
    std::size_t n_bytes(bool) const override { return data.x.n_rows * 1024; }
};

}  // namespace

void bind_hierarchy(nb::module_& m) {
    nb::class_<PyHierarchyData, BlockData>(m, "HierarchyData")
        .def(nb::init<Features, Int32s, Int64s, Int32s, Reals, std::size_t, std::optional<Reals>, bool, std::optional<Reals>, double, double,
                      std::optional<Reals>>(),
             "features"_a, "y"_a.noconvert(), "begin"_a.noconvert(), "node"_a.noconvert(), "attribute"_a.noconvert(), "n_nodes"_a,
             "node_loss"_a.noconvert().none(), "root"_a, "costs"_a.noconvert().none(), "loss_power"_a, "scale_power"_a,
             "weights"_a.noconvert().none() = nb::none());
    nb::class_<PyLabelTree>(m, "LabelTree")
        .def(nb::init<const Int32s&, const InputVector<std::uint8_t>&, const Values&>(), "parents"_a.noconvert(), "ends"_a.noconvert(), "losses"_a.noconvert());
    nb::class_<PyClosedSetSearch>(m, "ClosedSetSearch")
        .def(nb::init<const PyLabelTree&, const std::string&, double, double, bool>(), "tree"_a, "kind"_a, "alpha"_a, "beta"_a, "hull_only"_a)
        .def("search", &PyClosedSetSearch::search, "scores"_a.noconvert(), "truth"_a.noconvert(), "n_threads"_a, "prove"_a = true, "floor"_a = 0.0);
    nb::class_<PyClosedSetData, BlockData>(m, "ClosedSetData")
        .def(nb::init<Features, Truths, std::optional<Reals>, const PyLabelTree&, Values, const std::string&, double, double, bool>(), "features"_a,
             "truth"_a.noconvert(), "weights"_a.noconvert().none(), "tree"_a, "roots"_a.noconvert(), "kind"_a, "alpha"_a, "beta"_a, "hull_only"_a);
}
