// Python face of sets of labels: the best and the most violating ones of many samples, and the blocks of the engine.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

#include "core/block_data.hpp"
#include "multilabel/label_set_blocks.hpp"
#include "multilabel/product_set_search.hpp"
#include "multilabel/set_plane.hpp"
#include "python/arrays.hpp"
#include "surrogates/many_searches.hpp"
#include "surrogates/set_blocks.hpp"

using maxmargin::structures::LabelGraph;
using maxmargin::structures::SetDecoder;
using maxmargin::structures::SetPlane;
using maxmargin::surrogates::BisectFound;
using maxmargin::surrogates::HullFound;
using maxmargin::surrogates::PlanePoint;
using maxmargin::surrogates::PlaneStep;
using maxmargin::surrogates::ProductSetSearch;

namespace {

using Pairs = Input<std::int32_t, nb::shape<-1, 2>>;

class PyLabelGraph {
  public:
    PyLabelGraph(std::size_t n_labels, const Pairs& pairs) {
        require(n_labels >= 1 && n_labels < (1u << 24), "too few or too many labels");
        for (std::size_t e = 0; e < 2 * pairs.shape(0); ++e)
            require(pairs.data()[e] >= 0 && static_cast<std::size_t>(pairs.data()[e]) < n_labels, "pairs out of range");
        graph = std::make_shared<LabelGraph>(n_labels, pairs.data(), pairs.shape(0));
    }
    std::shared_ptr<const LabelGraph> graph;

    // Labels, or points of the relaxation, and by how much their scores may be too low. Pairs are the same for all samples, or a row
    // for each.
    nb::tuple best(const Matrix& unary, const Reals& pairs, bool relaxed, bool listing, int n_threads) {
        const std::size_t n = unary.shape(0), L = graph->n_labels(), E = graph->n_pairs();
        require(unary.shape(1) == L, "unary needs a column per label");
        const bool own = pairs.ndim() == 2;
        require(own ? pairs.shape(0) == n && pairs.shape(1) == E : pairs.ndim() == 1 && pairs.shape(0) == E, "pairs of wrong shape");
        const auto labels = zeros<double>({n, L}), excess = zeros<double>({n});
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            in_pieces(decoders_, n, n_threads, [&] { return std::make_unique<SetDecoder>(graph); }, [&](SetDecoder& decoder, std::size_t first, std::size_t last) {
                for (std::size_t i = first; i < last; ++i) {
                    const double *u = unary.data() + i * L, *p = pairs.data() + (own ? i * E : 0);
                    if (relaxed) decoder.relaxed(u, p, labels.data + i * L);
                    else excess.data[i] = decoder.best(u, p, labels.data + i * L, listing);
                }
            });
        }
        return nb::make_tuple(labels.array, excess.array);
    }

    // By how much the score of the best set, which becomes y, may be too low. Needs no Python.
    double best(const double* unary, const double* pairs, double* y) {
        const std::lock_guard<std::mutex> alone(busy_);
        if (decoders_.empty()) decoders_.push_back(std::make_unique<SetDecoder>(graph));
        return decoders_.front()->best(unary, pairs, y);
    }

  private:
    std::vector<std::unique_ptr<SetDecoder>> decoders_;
    std::mutex busy_;
};

// The sets of one sample as points (h, g) of margin error and loss; a set is a string of bytes, zeros and ones.
class PySetPlane {
  public:
    PySetPlane(std::shared_ptr<PyLabelGraph> graph, const Values& scores, const Values& pairs, const InputVector<std::uint8_t>& truth)
        : graph_(std::move(graph)), plane_(graph_->graph), scores_(scores.data(), scores.data() + scores.size()), pairs_(pairs.data(), pairs.data() + pairs.size()) {
        const std::size_t L = graph_->graph->n_labels();
        require(scores.size() == L && truth.size() == L, "scores and truth must have one entry per label");
        require(pairs.size() == graph_->graph->n_pairs(), "pairs of wrong size");
        for (std::size_t j = 0; j < L; ++j) require(truth.data()[j] <= 1, "truth must be zeros and ones");
        plane_.begin(scores_.data(), pairs_.data(), truth.data());
    }

    nb::tuple point(const nb::bytes& set) const {
        require(set.size() == scores_.size(), "a set needs one entry per label");
        std::vector<double> y(set.size());
        for (std::size_t j = 0; j < y.size(); ++j) {
            const char label = set.c_str()[j];
            require(label == 0 || label == 1, "sets must be zeros and ones");
            y[j] = label;
        }
        const auto [h, g] = plane_.at(y.data());
        return nb::make_tuple(h, g);
    }

    // Of the set with the largest a h + b g: h, g, the set, and an upper bound.
    nb::tuple ask(double a, double b) {
        std::vector<double> y(scores_.size());
        SetPlane::Answer found;
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            found = plane_.ask(a, b, y.data(), [&](const double* unary, const double* pairs, double* labels) { return graph_->best(unary, pairs, labels); });
        }
        std::string set(y.size(), 0);
        for (std::size_t j = 0; j < y.size(); ++j) set[j] = y[j] != 0;
        return nb::make_tuple(found.h, found.g, nb::bytes(set.data(), set.size()), found.upper);
    }

  private:
    std::shared_ptr<PyLabelGraph> graph_;
    SetPlane plane_;
    std::vector<double> scores_, pairs_;
    std::mutex busy_;
};

// Hull search and bisecting for slack rescaling, of many samples at once.
class PyProductSetSearch {
  public:
    explicit PyProductSetSearch(std::shared_ptr<PyLabelGraph> graph) : graph_(std::move(graph)) {}

    // Of every sample: the best set found, its margin error and loss, its value and a bound, the number of questions, the weight of the
    // loss in the last of them or, if that says nothing, as it was; and sets to begin the next search with, those of sample i from
    // offsets[i] to offsets[i + 1]. `known`, `begin` and `last` are those of an earlier search: no offsets, no sets; nan, no weight.
    nb::tuple search(const Matrix& scores, const Values& pairs, const Truths& truth, const Truths& known, const Int64s& begin, const Values& last,
                     bool bisecting, double tolerance, std::size_t max_calls, int n_threads) {
        const std::size_t n = scores.shape(0), L = graph_->graph->n_labels();
        require(scores.shape(1) == L, "scores need a column per label");
        require(pairs.size() == graph_->graph->n_pairs(), "pairs of wrong size");
        require(truth.shape(0) == n && truth.shape(1) == L, "truth needs a row per sample and a column per label");
        require(begin.size() == n + 1 && last.size() == n, "known sets and weights of the loss must be those of as many samples");
        check_forests(begin.data(), n + 1, nullptr, known.shape(0));
        require(known.shape(1) == L, "known sets need a column per label");
        for (const Truths* sets : {&truth, &known})
            for (std::size_t e = 0; e < sets->size(); ++e) require(sets->data()[e] <= 1, "sets must be zeros and ones");
        const auto labels = zeros<std::uint8_t>({n, L});
        const auto h = zeros<double>({n}), g = zeros<double>({n}), best = zeros<double>({n}), upper = zeros<double>({n}), weight = zeros<double>({n});
        const auto calls = zeros<std::int64_t>({n}), offsets = zeros<std::int64_t>({n + 1});
        // Of every sample at most kKept.
        std::vector<std::uint8_t> kept(n * kKept * L);
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            in_pieces(searches_, n, n_threads, [&] { return std::make_unique<ProductSetSearch>(graph_->graph); }, [&](ProductSetSearch& search, std::size_t first, std::size_t end) {
                for (std::size_t i = first; i < end; ++i) {
                    search.begin(scores.data() + i * L, pairs.data(), truth.data() + i * L);
                    for (std::int64_t k = begin.data()[i]; k < begin.data()[i + 1]; ++k) search.suggest(known.data() + static_cast<std::size_t>(k) * L);
                    const auto take = [&](const auto& found, const auto& points) {
                        h.data[i] = found.incumbent.h, g.data[i] = found.incumbent.g, best.data[i] = found.best;
                        upper.data[i] = std::max(found.upper, found.best);
                        std::copy_n(search.set(found.incumbent), L, labels.data + i * L);
                        calls.data[i] = static_cast<std::int64_t>(found.trace.size());
                        weight.data[i] = last.data()[i];
                        // The last question of positive weights.
                        for (const PlaneStep& step : found.trace)
                            if (step.a > 0) weight.data[i] = step.b > 0 ? step.b / step.a : last.data()[i];
                        offsets.data[i + 1] = keep(search, points, found.incumbent, kept.data() + i * kKept * L);
                    };
                    const bool anywhere = std::isnan(last.data()[i]);
                    if (bisecting) {
                        const BisectFound found = search.bisect(anywhere ? nullptr : last.data() + i, tolerance, max_calls);
                        take(found, found.seen);
                    } else {
                        const HullFound found = search.hull(tolerance, max_calls);
                        take(found, found.hull);
                    }
                }
            });
        }
        for (std::size_t i = 0; i < n; ++i) offsets.data[i + 1] += offsets.data[i];
        const auto sets = zeros<std::uint8_t>({static_cast<std::size_t>(offsets.data[n]), L});
        for (std::size_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::size_t>(offsets.data[i]), count = static_cast<std::size_t>(offsets.data[i + 1]) - at;
            std::copy_n(kept.data() + i * kKept * L, count * L, sets.data + at * L);
        }
        return nb::make_tuple(labels.array, h.array, g.array, best.array, upper.array, calls.array, weight.array, sets.array, offsets.array);
    }

  private:
    static constexpr std::size_t kKept = 10;

    // The last sets that are wrong somewhere, the best one among them; how many there are.
    template <class Points>
    static std::int64_t keep(const ProductSetSearch& search, const Points& points, const PlanePoint& best, std::uint8_t* into) {
        std::vector<PlanePoint> chosen;
        bool has_best = false;
        for (std::size_t k = 0; k < points.size(); ++k)
            if (points[k].g > 0) chosen.push_back(points[k]), has_best |= points[k].key == best.key;
        if (!has_best && best.g > 0) chosen.push_back(best);
        const std::size_t L = search.n_labels(), count = std::min(chosen.size(), kKept);
        for (std::size_t k = 0; k < count; ++k) std::copy_n(search.set(chosen[chosen.size() - count + k]), L, into + k * L);
        return static_cast<std::int64_t>(count);
    }

    std::shared_ptr<PyLabelGraph> graph_;
    std::vector<std::unique_ptr<ProductSetSearch>> searches_;
    std::mutex busy_;
};

class PySetSearch {
  public:
    PySetSearch(std::shared_ptr<PyLabelGraph> graph, const std::string& kind, double alpha, double beta, bool relaxed, bool hull_only)
        : graph_(std::move(graph)), surrogate_(surrogate_of(kind, alpha, beta, relaxed, hull_only)) {}

    nb::tuple search(const Matrix& scores, const Values& pairs, const Truths& truth, int n_threads, bool prove, double floor) {
        require(scores.shape(1) == graph_->graph->n_labels(), "scores need a column per label");
        require(pairs.size() == graph_->graph->n_pairs(), "pairs of wrong size");
        return searches_.search(scores, pairs.data(), truth, n_threads, prove, floor, [&] { return std::make_unique<SetSearch>(graph_->graph, surrogate_); });
    }

  private:
    std::shared_ptr<PyLabelGraph> graph_;
    SetSurrogate surrogate_;
    ManySearches<SetSearch> searches_;
};

struct PyLabelSetData final : BlockData {
    Features features;
    Truths truth;
    std::optional<Reals> weights;
    LabelSetData data;

    PyLabelSetData(Features features_, Truths truth_, std::optional<Reals> weights_, const PyLabelGraph& graph, const std::string& kind, double alpha,
                   double beta, bool relaxed, bool hull_only)
        : features(std::move(features_)), truth(std::move(truth_)), weights(std::move(weights_)) {
        const std::size_t n = features.rows.n_rows, L = graph.graph->n_labels();
        require(n >= 1 && truth.shape(0) == n && truth.shape(1) == L, "truth needs a row per sample and a column per label");
        require(!weights || weights->size() == n, "weights must have one entry per sample");
        for (std::size_t e = 0; e < truth.size(); ++e) require(truth.data()[e] <= 1, "truth must be zeros and ones");
        data = {features.rows, truth.data(), weights ? weights->data() : nullptr, graph.graph, surrogate_of(kind, alpha, beta, relaxed, hull_only)};
    }
    bool separate() const { return data.graph->n_pairs() == 0 && data.surrogate.is_margin(); }
    std::unique_ptr<Blocks> make() const override {
        if (separate()) return std::make_unique<SeparateSets>(data);
        return std::make_unique<SetBlocks<LabelSetData>>(data);
    }
    std::size_t n_bytes(bool) const override {
        // A number for every label, or about four sets of a few labels and pairs each.
        return separate() ? truth.size() * sizeof(double) : data.x.n_rows * 1024;
    }
};

}  // namespace

void bind_multilabel(nb::module_& m) {
    nb::class_<PyLabelGraph>(m, "LabelGraph")
        .def(nb::init<std::size_t, const Pairs&>(), "n_labels"_a, "pairs"_a.noconvert())
        .def_prop_ro("is_forest", [](const PyLabelGraph& own) { return own.graph->is_forest(); })
        .def("best", nb::overload_cast<const Matrix&, const Reals&, bool, bool, int>(&PyLabelGraph::best), "unary"_a.noconvert(), "pairs"_a.noconvert(), "relaxed"_a, "listing"_a, "n_threads"_a);
    nb::class_<PySetPlane>(m, "SetPlane")
        .def(nb::init<std::shared_ptr<PyLabelGraph>, const Values&, const Values&, const InputVector<std::uint8_t>&>(), "graph"_a, "scores"_a.noconvert(),
             "pairs"_a.noconvert(), "truth"_a.noconvert())
        .def("point", &PySetPlane::point, "labels"_a)
        .def("ask", &PySetPlane::ask, "a"_a, "b"_a);
    nb::class_<PyProductSetSearch>(m, "ProductSetSearch")
        .def(nb::init<std::shared_ptr<PyLabelGraph>>(), "graph"_a)
        .def("search", &PyProductSetSearch::search, "scores"_a.noconvert(), "pairs"_a.noconvert(), "truth"_a.noconvert(), "known"_a.noconvert(),
             "begin"_a.noconvert(), "last"_a.noconvert(), "bisecting"_a, "tolerance"_a, "max_calls"_a, "n_threads"_a);
    nb::class_<PySetSearch>(m, "SetSearch")
        .def(nb::init<std::shared_ptr<PyLabelGraph>, const std::string&, double, double, bool, bool>(), "graph"_a, "kind"_a, "alpha"_a, "beta"_a,
             "relaxed"_a, "hull_only"_a)
        .def("search", &PySetSearch::search, "scores"_a.noconvert(), "pairs"_a.noconvert(), "truth"_a.noconvert(), "n_threads"_a, "prove"_a = true,
             "floor"_a = 0.0);
    nb::class_<PyLabelSetData, BlockData>(m, "LabelSetData")
        .def(nb::init<Features, Truths, std::optional<Reals>, const PyLabelGraph&, const std::string&, double, double, bool, bool>(), "features"_a,
             "truth"_a.noconvert(), "weights"_a.noconvert().none(), "graph"_a, "kind"_a, "alpha"_a, "beta"_a, "relaxed"_a, "hull_only"_a);
}
