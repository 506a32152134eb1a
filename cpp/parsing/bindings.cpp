// Python face of dependency parsing: trees from scores, trees from features, features from words. The interpreter lock is released.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/block_data.hpp"
#include "parsing/arc_features.hpp"
#include "parsing/arc_rows.hpp"
#include "parsing/parse_oracle.hpp"
#include "python/arrays.hpp"

using namespace maxmargin;
using namespace maxmargin::structures;

namespace {

using Keys = InputVector<std::uint64_t>;

void check_offsets(const Int64s& offsets) {
    bool rising = offsets.size() >= 1 && offsets.data()[0] == 0;
    for (std::size_t q = 1; q < offsets.size() && rising; ++q) rising = offsets.data()[q - 1] < offsets.data()[q];
    require(rising, "offsets must rise from 0, and no sentence may be empty");
}

void check_heads(const Int32s& heads, const Int64s& offsets) {
    require(heads.size() == static_cast<std::size_t>(offsets.data()[offsets.size() - 1]), "heads must have one entry per word");
    for (std::size_t q = 0; q + 1 < offsets.size(); ++q)
        for (std::int64_t w = offsets.data()[q]; w < offsets.data()[q + 1]; ++w)
            require(heads.data()[w] >= 0 && heads.data()[w] <= offsets.data()[q + 1] - offsets.data()[q], "heads out of range");
}

// ---- trees from scores --------------------------------------------------------------------------------------------------------

// Scores of sentences one after the other: (n + 1, n + 1, L) numbers for each.
nb::tuple best_trees(const Reals& scores, const Int64s& offsets, std::size_t n_labels, bool projective, bool single_root) {
    check_offsets(offsets);
    const std::size_t count = offsets.size() - 1, n_words = static_cast<std::size_t>(offsets.data()[count]);
    std::size_t needed = 0;
    for (std::size_t q = 0; q < count; ++q) {
        const auto nodes = static_cast<std::size_t>(offsets.data()[q + 1] - offsets.data()[q]) + 1;
        needed += nodes * nodes * n_labels;
    }
    require(n_labels >= 1 && scores.size() == needed, "scores must have (n + 1, n + 1, labels) numbers for every sentence");
    const auto heads = zeros<std::int32_t>({n_words}), labels = zeros<std::int32_t>({n_words});
    const auto totals = zeros<double>({count});
    {
        ScopedGilRelease unlocked;
        TreeFinder finder;
        const double* at = scores.data();
        for (std::size_t q = 0; q < count; ++q) {
            const std::int64_t first = offsets.data()[q];
            const ArcScores own{at, static_cast<std::size_t>(offsets.data()[q + 1] - first), n_labels};
            const bool found = finder.best(own, {projective, single_root}, heads.data + first, labels.data + first);
            totals.data[q] = found ? score_of(own, heads.data + first, labels.data + first) : kForbidden;
            at += own.n_nodes() * own.n_nodes() * n_labels;
        }
    }
    return nb::make_tuple(heads.array, labels.array, totals.array);
}

nb::tuple tuple_of(const std::vector<DependencyTree>& found, std::size_t n) {
    const auto heads = zeros<std::int32_t>({found.size(), n}), labels = zeros<std::int32_t>({found.size(), n});
    const auto totals = zeros<double>({found.size()});
    for (std::size_t k = 0; k < found.size(); ++k) {
        std::copy(found[k].heads.begin(), found[k].heads.end(), heads.data + k * n);
        std::copy(found[k].labels.begin(), found[k].labels.end(), labels.data + k * n);
        totals.data[k] = found[k].score;
    }
    return nb::make_tuple(heads.array, labels.array, totals.array);
}

nb::tuple k_best_trees(const Reals& scores, std::size_t n, std::size_t n_labels, std::size_t k, bool projective, bool single_root) {
    require(n >= 1 && n_labels >= 1 && scores.size() == (n + 1) * (n + 1) * n_labels, "scores must have (n + 1, n + 1, labels) numbers");
    std::vector<DependencyTree> found;
    {
        ScopedGilRelease unlocked;
        found = TreeFinder().k_best({scores.data(), n, n_labels}, {projective, single_root}, k);
    }
    return tuple_of(found, n);
}

surrogates::Bicriteria surrogate_of(const std::string& kind, double alpha, double beta) {
    using surrogates::Kind;
    return {chosen<Kind>(kind, "surrogate", {{"generalized", Kind::generalized}, {"logistic", Kind::logistic},
                                             {"probability", Kind::probability}, {"raw_probability", Kind::raw_probability}}),
            alpha, beta};
}

// The most violating trees of sentences by their scores, which lie one after the other, with psi, psi_h, and an upper bound of psi.
nb::tuple violating_trees(const Reals& scores, const Int64s& offsets, const Int32s& heads, const std::optional<Int32s>& labels,
                          std::size_t n_labels, bool projective, bool single_root, const std::string& kind, double alpha, double beta,
                          bool recover) {
    check_offsets(offsets);
    check_heads(heads, offsets);
    const std::size_t count = offsets.size() - 1, n_words = heads.size();
    std::size_t needed = 0;
    for (std::size_t q = 0; q < count; ++q) {
        const auto nodes = static_cast<std::size_t>(offsets.data()[q + 1] - offsets.data()[q]) + 1;
        needed += nodes * nodes * n_labels;
    }
    require(n_labels >= 1 && scores.size() == needed, "scores must have (n + 1, n + 1, labels) numbers for every sentence");
    require(labels.has_value() == (n_labels > 1), "labels must be there where arcs have labels, and only there");
    if (labels) {
        require(labels->size() == n_words, "labels must have one entry per word");
        for (std::size_t w = 0; w < n_words; ++w)
            require(labels->data()[w] >= 0 && static_cast<std::size_t>(labels->data()[w]) < n_labels, "labels out of range");
    }
    const auto found_heads = zeros<std::int32_t>({n_words}), found_labels = zeros<std::int32_t>({n_words});
    const auto value = zeros<double>({count}), slope = zeros<double>({count}), bound = zeros<double>({count});
    blocks::TreeSearch search(surrogate_of(kind, alpha, beta), {projective, single_root}, recover);
    {
        ScopedGilRelease unlocked;
        const double* at = scores.data();
        blocks::TreeSearch::Trees none;
        for (std::size_t q = 0; q < count; ++q) {
            const std::int64_t first = offsets.data()[q];
            const ArcScores own{at, static_cast<std::size_t>(offsets.data()[q + 1] - first), n_labels};
            none.clear();
            const auto found = search.find(own, {heads.data() + first, labels ? labels->data() + first : nullptr}, none, true,
                                           found_heads.data + first, found_labels.data + first);
            value.data[q] = found.value;
            slope.data[q] = found.g > 0 ? search.psi().derivative(found.h, found.g) : 0;
            bound.data[q] = found.bound;
            at += own.n_nodes() * own.n_nodes() * n_labels;
        }
    }
    return nb::make_tuple(found_heads.array, found_labels.array, value.array, slope.array, bound.array, search.queries());
}

// ---- trees from features ------------------------------------------------------------------------------------------------------

struct PyRows {
    Int64s begin;
    Int32s at;
    std::optional<Reals> values;

    SparseRows checked(std::size_t n_rows, std::size_t n_columns) const {
        const std::int64_t* b = begin.data();
        bool fine = begin.size() == n_rows + 1 && b[0] == 0 && b[n_rows] == static_cast<std::int64_t>(at.size());
        for (std::size_t r = 0; r < n_rows && fine; ++r) fine = b[r] <= b[r + 1];
        require(fine, "rows must begin at 0, rise to the number of entries, and be (n + 1)^2 for every sentence");
        for (std::size_t e = 0; e < at.size(); ++e)
            require(at.data()[e] >= 0 && static_cast<std::size_t>(at.data()[e]) < n_columns, "columns out of range");
        if (values) require(values->size() == at.size(), "values and columns must be of equal size");
        return {b, at.data(), values ? values->data() : nullptr, n_columns};
    }
};

struct PyArcRows {
    Int64s offsets;
    PyRows arcs;
    std::optional<PyRows> labels;
    ArcRows rows;

    PyArcRows(Int64s offsets_, Int64s begin, Int32s at, std::optional<Reals> values, std::size_t n_columns, std::size_t n_labels,
              std::optional<Int64s> label_begin, std::optional<Int32s> label_at, std::optional<Reals> label_values, std::size_t n_label_columns)
        : offsets(std::move(offsets_)), arcs{std::move(begin), std::move(at), std::move(values)} {
        check_offsets(offsets);
        rows.words = offsets.data();
        rows.n_sentences = offsets.size() - 1;
        rows.n_labels = n_labels;
        std::size_t n_rows = 0;
        for (std::size_t q = 0; q < rows.n_sentences; ++q) {
            rows.first_row.push_back(n_rows);
            n_rows += (rows.n_words(q) + 1) * (rows.n_words(q) + 1);
        }
        rows.arcs = arcs.checked(n_rows, n_columns);
        require(n_labels >= 1 && label_begin.has_value() == label_at.has_value(), "labels need rows of their own");
        require(n_labels == 1 || label_begin.has_value(), "labels need rows of their own");
        if (label_begin) {
            labels.emplace(PyRows{std::move(*label_begin), std::move(*label_at), std::move(label_values)});
            rows.labels = labels->checked(n_rows, n_label_columns);
        }
        require(rows.n_weights() < 0x80000000u, "too many weights");
    }

    void check(const Reals& weights, std::size_t q) const {
        require(weights.size() == rows.n_weights(), "weights must have one entry per feature");
        require(q < rows.n_sentences, "sentence out of range");
    }
    Truth truth_of(std::size_t q, const std::optional<Int32s>& heads, const std::optional<Int32s>& tags) const {
        if (!heads) return {};
        check_tree(q, *heads, tags);
        return {heads->data(), tags ? tags->data() : nullptr};
    }
    void check_tree(std::size_t q, const Int32s& heads, const std::optional<Int32s>& tags) const {
        const std::size_t n = rows.n_words(q);
        require(heads.size() == n, "heads must have one entry per word");
        require(tags.has_value() == (rows.labels.begin != nullptr), "labels must be there where arcs have labels, and only there");
        for (std::size_t m = 0; m < n; ++m)
            require(heads.data()[m] >= 0 && static_cast<std::size_t>(heads.data()[m]) <= n && static_cast<std::size_t>(heads.data()[m]) != m + 1,
                    "heads out of range");
        if (!tags) return;
        require(tags->size() == n, "labels must have one entry per word");
        for (std::size_t m = 0; m < n; ++m)
            require(tags->data()[m] >= 0 && static_cast<std::size_t>(tags->data()[m]) < rows.n_labels, "labels out of range");
    }

    nb::ndarray<nb::numpy, double> scores(std::size_t q, const Reals& weights) const {
        check(weights, q);
        const std::size_t N = rows.n_words(q) + 1;
        const auto out = zeros<double>({N, N, rows.n_labels});
        std::vector<double> found(N * N * rows.n_labels);
        ScopedGilRelease unlocked;
        rows.scores(q, weights.data(), 1, 0, {}, found);
        std::copy(found.begin(), found.end(), out.data);
        return out.array;
    }

    nb::tuple best(std::size_t q, const Reals& weights, const std::optional<Int32s>& heads, const std::optional<Int32s>& tags, double a,
                   double b, bool projective, bool single_root) const {
        check(weights, q);
        const Truth truth = truth_of(q, heads, tags);
        const std::size_t n = rows.n_words(q);
        const auto found = zeros<std::int32_t>({n}), labels_found = zeros<std::int32_t>({n});
        {
            ScopedGilRelease unlocked;
            std::vector<double> memory;
            TreeFinder finder;
            finder.best(rows.scores(q, weights.data(), a, b, truth, memory), {projective, single_root}, truth, found.data, labels_found.data);
        }
        return nb::make_tuple(found.array, labels_found.array);
    }

    // The best trees of all sentences.
    nb::tuple predict(const Reals& weights, bool projective, bool single_root) const {
        require(weights.size() == rows.n_weights(), "weights must have one entry per feature");
        const auto n_words = static_cast<std::size_t>(offsets.data()[rows.n_sentences]);
        const auto found = zeros<std::int32_t>({n_words}), labels_found = zeros<std::int32_t>({n_words});
        {
            ScopedGilRelease unlocked;
            std::vector<double> memory;
            TreeFinder finder;
            for (std::size_t q = 0; q < rows.n_sentences; ++q)
                finder.best(rows.scores(q, weights.data(), 1, 0, {}, memory), {projective, single_root}, found.data + offsets.data()[q],
                            labels_found.data + offsets.data()[q]);
        }
        return nb::make_tuple(found.array, labels_found.array);
    }

    nb::tuple k_best(std::size_t q, const Reals& weights, const std::optional<Int32s>& heads, const std::optional<Int32s>& tags, double a,
                     double b, std::size_t k, bool projective, bool single_root) const {
        check(weights, q);
        const Truth truth = truth_of(q, heads, tags);
        std::vector<DependencyTree> found;
        {
            ScopedGilRelease unlocked;
            std::vector<double> memory;
            found = TreeFinder().k_best(rows.scores(q, weights.data(), a, b, truth, memory), {projective, single_root}, truth, k);
        }
        return tuple_of(found, rows.n_words(q));
    }

    // Features of a tree: indices, which may come more than once, and values.
    nb::tuple features(std::size_t q, const Int32s& heads, const std::optional<Int32s>& tags) const {
        require(q < rows.n_sentences, "sentence out of range");
        check_tree(q, heads, tags);
        std::vector<std::int32_t> at;
        std::vector<double> values;
        const auto add = [&](std::int32_t index, double value) {
            at.push_back(index);
            values.push_back(value);
        };
        for (std::size_t m = 1; m <= rows.n_words(q); ++m)
            rows.add_arc(q, static_cast<std::size_t>(heads.data()[m - 1]), m, tags ? static_cast<std::size_t>(tags->data()[m - 1]) : 0, 1, true, add);
        return nb::make_tuple(array_of(std::move(at)), array_of(std::move(values)));
    }
};

struct PyParseData final : BlockData {
    std::shared_ptr<PyArcRows> rows;
    Int32s heads;
    std::optional<Int32s> labels;
    blocks::ParseData data;

    PyParseData(std::shared_ptr<PyArcRows> rows_, Int32s heads_, std::optional<Int32s> labels_, bool projective, bool single_root)
        : rows(std::move(rows_)), heads(std::move(heads_)), labels(std::move(labels_)) {
        require(rows->rows.n_sentences >= 1, "there must be a sentence");
        check_heads(heads, rows->offsets);
        require(labels.has_value() == (rows->rows.labels.begin != nullptr), "labels must be there where arcs have labels, and only there");
        if (labels) {
            require(labels->size() == heads.size(), "labels must have one entry per word");
            for (std::size_t w = 0; w < labels->size(); ++w)
                require(labels->data()[w] >= 0 && static_cast<std::size_t>(labels->data()[w]) < rows->rows.n_labels, "labels out of range");
        }
        data = {&rows->rows, heads.data(), labels ? labels->data() : nullptr, {projective, single_root}};
    }
    // The same sentences under another surrogate than margin rescaling; with `recover`, proofs go on below the hull.
    void set_surrogate(const std::string& kind, double alpha, double beta, bool recover) {
        surrogate = surrogate_of(kind, alpha, beta);
        recovers = recover;
    }
    std::optional<surrogates::Bicriteria> surrogate;
    bool recovers = true;

    std::unique_ptr<blocks::Blocks> make() const override {
        if (surrogate) return std::make_unique<blocks::OracleBlocks>(std::make_shared<blocks::SurrogateParseOracle>(data, *surrogate, recovers));
        return std::make_unique<blocks::OracleBlocks>(std::make_shared<blocks::ParseOracle>(data));
    }

    // The most violating tree of a sentence: features of the truth minus its own, and its loss.
    nb::tuple ask(std::size_t q, const Reals& weights) const {
        rows->check(weights, q);
        blocks::Answer answer;
        {
            ScopedGilRelease unlocked;
            blocks::ParseOracle(data).ask(q, weights.data(), answer);
        }
        return nb::make_tuple(array_of(std::move(answer.indices)), array_of(std::move(answer.values)), answer.loss);
    }

    // The sum over all sentences.
    nb::tuple total(const Reals& weights) const {
        rows->check(weights, 0);
        const auto psi = zeros<double>({rows->rows.n_weights()});
        double loss = 0;
        {
            ScopedGilRelease unlocked;
            blocks::ParseOracle oracle(data);
            for (std::size_t q = 0; q < oracle.n_blocks; ++q) {
                oracle.find(q, weights.data(), 1, 1);
                loss += oracle.difference(q, [&](std::int32_t at, double value) { psi.data[at] += value; });
            }
        }
        return nb::make_tuple(psi.array, loss);
    }

    // Perceptron steps on sentences in the given order. `late` gets every step times the number of steps before it, so that the
    // average of all weights is weights - late / steps. Returns the number of wrong words.
    double perceptron(const Int64s& order, nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> weights,
                      nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> late, double steps) const {
        require(weights.size() == rows->rows.n_weights() && late.size() == weights.size(), "weights must have one entry per feature");
        for (std::size_t k = 0; k < order.size(); ++k)
            require(order.data()[k] >= 0 && static_cast<std::size_t>(order.data()[k]) < rows->rows.n_sentences, "sentence out of range");
        double wrong = 0, *w = weights.data(), *l = late.data();
        ScopedGilRelease unlocked;
        blocks::ParseOracle oracle(data);
        for (std::size_t k = 0; k < order.size(); ++k, steps += 1) {
            const auto q = static_cast<std::size_t>(order.data()[k]);
            oracle.find(q, w, 1, 0);
            wrong += oracle.difference(q, [&](std::int32_t at, double value) {
                w[at] += value;
                l[at] += steps * value;
            });
        }
        return wrong;
    }
};

// Searches with a memory, for solvers that are written in Python: every sentence begins where its last search has ended.
class PyParseSearch {
  public:
    explicit PyParseSearch(std::shared_ptr<PyParseData> data) : data_(std::move(data)) {
        require(data_->surrogate.has_value(), "the data need a surrogate");
        oracle_ = std::make_unique<blocks::SurrogateParseOracle>(data_->data, *data_->surrogate, data_->recovers);
    }

    // The tangent cut of a sentence, and an upper bound of its hinge.
    nb::tuple ask(std::size_t q, const Reals& weights) {
        data_->rows->check(weights, q);
        blocks::Answer answer;
        {
            ScopedGilRelease unlocked;
            oracle_->ask(q, weights.data(), true, answer);
        }
        return nb::make_tuple(array_of(std::move(answer.indices)), array_of(std::move(answer.values)), answer.loss, answer.bound);
    }

    // The sum over all sentences.
    nb::tuple total(const Reals& weights) {
        data_->rows->check(weights, 0);
        const auto psi = zeros<double>({oracle_->n_weights});
        double loss = 0, bound = 0;
        {
            ScopedGilRelease unlocked;
            for (std::size_t q = 0; q < oracle_->n_blocks; ++q) {
                const auto found = oracle_->find(q, weights.data(), true);
                oracle_->difference(q, found.tangent.a, [&](std::int32_t at, double value) { psi.data[at] += value; });
                loss += found.tangent.b;
                bound += found.bound;
            }
        }
        return nb::make_tuple(psi.array, loss, bound);
    }

    std::size_t queries() const { return oracle_->queries(); }

  private:
    std::shared_ptr<PyParseData> data_;
    std::unique_ptr<blocks::SurrogateParseOracle> oracle_;
};

// ---- features from words ------------------------------------------------------------------------------------------------------

data::Sentences sentences_of(const Keys& words, const Keys& tags, const Int64s& offsets) {
    check_offsets(offsets);
    require(words.size() == tags.size() && words.size() == static_cast<std::size_t>(offsets.data()[offsets.size() - 1]),
            "words and tags must have one entry per word");
    return {words.data(), tags.data(), offsets.data(), offsets.size() - 1};
}

nb::ndarray<nb::numpy, std::uint64_t> arc_keys(const Keys& words, const Keys& tags, const Int64s& offsets, const Int32s& heads,
                                               bool for_labels, std::size_t least) {
    const data::Sentences all = sentences_of(words, tags, offsets);
    check_heads(heads, offsets);
    std::vector<std::uint64_t> found;
    {
        ScopedGilRelease unlocked;
        found = data::keys_of_trees(all, heads.data(), for_labels, least);
    }
    return array_of(std::move(found));
}

nb::tuple number_arcs(const Keys& words, const Keys& tags, const Int64s& offsets, const std::optional<Keys>& keys, unsigned bits, bool for_labels) {
    const data::Sentences all = sentences_of(words, tags, offsets);
    require(keys || (bits >= 1 && bits <= 30), "bits must lie between 1 and 30");
    data::NumberedRows rows;
    {
        ScopedGilRelease unlocked;
        const data::KeyNumbers numbers = keys ? data::KeyNumbers(keys->data(), keys->size()) : data::KeyNumbers(bits);
        rows = data::arc_rows(all, numbers, for_labels);
    }
    return nb::make_tuple(array_of(std::move(rows.begin)), array_of(std::move(rows.at)));
}

}  // namespace

void bind_parsing(nb::module_& m) {
    m.def("best_trees", &best_trees, "scores"_a.noconvert(), "offsets"_a.noconvert(), "n_labels"_a, "projective"_a, "single_root"_a);
    m.def("k_best_trees", &k_best_trees, "scores"_a.noconvert(), "n_words"_a, "n_labels"_a, "k"_a, "projective"_a, "single_root"_a);
    m.def("violating_trees", &violating_trees, "scores"_a.noconvert(), "offsets"_a.noconvert(), "heads"_a.noconvert(),
          "labels"_a.noconvert().none(), "n_labels"_a, "projective"_a, "single_root"_a, "kind"_a, "alpha"_a, "beta"_a, "recover"_a);
    nb::class_<PyArcRows>(m, "ArcRows")
        .def(nb::init<Int64s, Int64s, Int32s, std::optional<Reals>, std::size_t, std::size_t, std::optional<Int64s>, std::optional<Int32s>,
                      std::optional<Reals>, std::size_t>(),
             "offsets"_a.noconvert(), "begin"_a.noconvert(), "columns"_a.noconvert(), "values"_a.noconvert().none(), "n_columns"_a, "n_labels"_a,
             "label_begin"_a.noconvert().none(), "label_columns"_a.noconvert().none(), "label_values"_a.noconvert().none(), "n_label_columns"_a)
        .def("scores", &PyArcRows::scores, "sentence"_a, "weights"_a.noconvert())
        .def("best", &PyArcRows::best, "sentence"_a, "weights"_a.noconvert(), "heads"_a.noconvert().none(), "labels"_a.noconvert().none(), "a"_a,
             "b"_a, "projective"_a, "single_root"_a)
        .def("predict", &PyArcRows::predict, "weights"_a.noconvert(), "projective"_a, "single_root"_a)
        .def("k_best", &PyArcRows::k_best, "sentence"_a, "weights"_a.noconvert(), "heads"_a.noconvert().none(), "labels"_a.noconvert().none(),
             "a"_a, "b"_a, "k"_a, "projective"_a, "single_root"_a)
        .def("features", &PyArcRows::features, "sentence"_a, "heads"_a.noconvert(), "labels"_a.noconvert().none());
    nb::class_<PyParseData, BlockData>(m, "ParseData")
        .def(nb::init<std::shared_ptr<PyArcRows>, Int32s, std::optional<Int32s>, bool, bool>(), "rows"_a, "heads"_a.noconvert(),
             "labels"_a.noconvert().none(), "projective"_a, "single_root"_a)
        .def("set_surrogate", &PyParseData::set_surrogate, "kind"_a, "alpha"_a, "beta"_a, "recover"_a)
        .def("ask", &PyParseData::ask, "sentence"_a, "weights"_a.noconvert())
        .def("total", &PyParseData::total, "weights"_a.noconvert())
        .def("perceptron", &PyParseData::perceptron, "order"_a.noconvert(), "weights"_a.noconvert(), "late"_a.noconvert(), "steps"_a);
    nb::class_<PyParseSearch>(m, "ParseSearch")
        .def(nb::init<std::shared_ptr<PyParseData>>(), "data"_a)
        .def("ask", &PyParseSearch::ask, "sentence"_a, "weights"_a.noconvert())
        .def("total", &PyParseSearch::total, "weights"_a.noconvert())
        .def_prop_ro("queries", &PyParseSearch::queries);
    m.def("arc_keys", &arc_keys, "words"_a.noconvert(), "tags"_a.noconvert(), "offsets"_a.noconvert(), "heads"_a.noconvert(), "for_labels"_a, "least"_a);
    m.def("number_arcs", &number_arcs, "words"_a.noconvert(), "tags"_a.noconvert(), "offsets"_a.noconvert(), "keys"_a.noconvert().none(), "bits"_a,
          "for_labels"_a);
}
