// Python face of lists that are scattered over shards.
#include <nanobind/stl/string.h>

#include <optional>

#include "python/arrays.hpp"
#include "ranking/built_in.hpp"
#include "ranking/cutoff.hpp"
#include "ranking/python_search.hpp"
#include "ranking/split_list.hpp"

using namespace maxmargin::ranking;

namespace {

using Floats32 = InputVector<float>;
using OutputVector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> values_of(const InputVector<T>& array) {
    return {array.data(), array.data() + array.size()};
}

// What was sent, once more as buckets.
Buckets buckets_of(const InputVector<double>& made_of) {
    require(made_of.size() == 5, "buckets are made of five numbers");
    const double* p = made_of.data();
    require(p[2] >= 3 && p[2] <= 1 << 24, "buckets must be at least three, and not too many");
    const Buckets buckets{p[0], p[1], static_cast<std::int32_t>(p[2]), p[3], p[4]};
    require(buckets.usable(), "buckets must be between two scores that are far enough apart");
    return buckets;
}
bool is_usable(const InputVector<double>& made_of) {
    const double* p = made_of.data();
    return made_of.size() == 5 && p[2] >= 3 && p[2] <= 1 << 24 && Buckets{p[0], p[1], static_cast<std::int32_t>(p[2]), p[3], p[4]}.usable();
}
nb::ndarray<nb::numpy, double> made_of(const Buckets& buckets) {
    const auto& numbers = buckets.made_of();
    return array_of(std::vector<double>(numbers.begin(), numbers.end()));
}

// Arrays of a list, all of them this long.
class Arrays {
  public:
    Arrays() = default;
    Arrays(const nb::list& arrays, std::size_t size) {
        for (nb::handle item : arrays) {
            held_.push_back(array_from<InputVector<double>>(nb::borrow(item)));
            require(held_.back().size() == size, "scores must be equally long");
            data.push_back(held_.back().data());
        }
    }
    std::vector<const double*> data;

  private:
    std::vector<InputVector<double>> held_;
};

// The shard together with the arrays it looks at. It knows how many groups its members are in, so that no answer of a client that
// counts otherwise makes it read foreign memory.
class BoundShard {
  public:
    BoundShard(InputVector<double> scores, OutputVector below, int n_threads)
        : scores_(std::move(scores)), below_(std::move(below)),
          shard_(scores_.data(), below_.data(), static_cast<std::int64_t>(scores_.size()), n_threads) {
        require(below_.size() == scores_.size(), "below must have one entry for each score");
    }

    // Scores are sums of arrays, and written only if they are needed.
    BoundShard(const InputVector<double>& coefficients, const nb::list& arrays, OutputVector scores, OutputVector below, int n_threads)
        : arrays_(arrays, scores.size()), room_(std::move(scores)), below_(std::move(below)),
          shard_(Combination(values_of(coefficients), arrays_.data), room_->data(), below_.data(), static_cast<std::int64_t>(room_->size()), n_threads) {
        require(coefficients.size() == arrays_.data.size(), "there must be one coefficient for each array");
        require(below_.size() == room_->size(), "below must have one entry for each score");
    }

    void count_from(double origin) { shard_.count_from(origin); }
    bool all_equal() const { return shard_.all_equal(); }
    double first() const { return shard_.first(); }
    bool make() {
        ScopedGilRelease unlocked;
        return shard_.make();
    }

    nb::tuple sample(std::int64_t size) {
        std::vector<double> found;
        const bool finite = shard_.sample(size, found);
        return nb::make_tuple(array_of(std::move(found)), finite);
    }
    nb::ndarray<nb::numpy, double> best(std::int64_t count) {
        std::vector<double> best;
        shard_.best(count, best);
        return array_of(std::move(best));
    }
    nb::tuple count(const InputVector<double>& numbers) {
        const Buckets buckets = buckets_of(numbers);
        std::vector<std::int64_t> counts;
        bool finite;
        {
            ScopedGilRelease unlocked;
            finite = shard_.count(buckets, counts);
        }
        return nb::make_tuple(array_of(std::move(counts)), finite);
    }
    void write(const InputVector<double>& numbers, const Floats32& below, double origin) {
        const Buckets buckets = buckets_of(numbers);
        require(below.size() == static_cast<std::size_t>(buckets.count()), "below must have one entry for each bucket");
        const std::vector<float> below_of = values_of(below);
        shard_.write_to(below_.data());
        ScopedGilRelease unlocked;
        n_groups_ = shard_.write(buckets, below_of, origin);
    }
    void put_aside(double origin) {
        n_groups_ = 1;
        shard_.write_to(below_.data());
        ScopedGilRelease unlocked;
        shard_.put_aside(origin);
    }
    nb::tuple keep_above(double floor) {
        n_groups_ = 1;
        std::vector<std::int32_t> rows;
        bool finite;
        {
            ScopedGilRelease unlocked;
            finite = shard_.keep_above(floor, rows);
        }
        kept_ = zeros<double>({rows.size()});
        shard_.write_to(kept_->data);
        return nb::make_tuple(array_of(std::move(rows)), kept_->array, finite);
    }
    nb::tuple decide(const Floats32& low_below, const Floats32& high_below, const InputVector<double>& low, const InputVector<double>& high) {
        const std::size_t count = low.size();
        require(count >= n_groups_ && high.size() == count && low_below.size() == count && high_below.size() == count, "limits must have one entry for each group");
        std::vector<Side> sides;
        for (std::size_t g = 0; g < count; ++g) sides.push_back({{low.data()[g], high.data()[g]}, high_below.data()[g], low_below.data()[g]});
        std::vector<Standing> standing;
        {
            ScopedGilRelease unlocked;
            standing = shard_.decide(sides);
        }
        std::vector<std::int64_t> above, undecided;
        std::vector<double> lowest, highest;
        for (const Standing& own : standing) {
            above.push_back(own.above), undecided.push_back(own.undecided);
            lowest.push_back(own.lowest), highest.push_back(own.highest);
        }
        return nb::make_tuple(array_of(std::move(above)), array_of(std::move(undecided)), array_of(std::move(lowest)), array_of(std::move(highest)));
    }
    nb::ndarray<nb::numpy, std::int64_t> split(const Input<double, nb::shape<-1, 3>>& numbers) {
        require(numbers.shape(0) >= n_groups_, "splits must have one row for each group");
        std::vector<Buckets> finer;
        std::int64_t total = 0;
        for (std::size_t g = 0; g < numbers.shape(0); ++g) {
            const double* p = numbers.data() + 3 * g;
            require(p[2] == 1 || (p[2] >= 3 && p[2] <= 1 << 24), "a group is split into one bucket, or into three and more");
            finer.emplace_back(p[0], p[1], static_cast<std::int32_t>(p[2]));
            total += finer.back().count();
        }
        require(total <= 1 << 28, "there are too many groups");
        n_groups_ = static_cast<std::size_t>(total);
        ScopedGilRelease unlocked;
        std::vector<std::int64_t> counts = shard_.split(finer);
        ScopedGilAcquire locked;
        return array_of(std::move(counts));
    }
    nb::tuple undecided() {
        Entries entries;
        {
            ScopedGilRelease unlocked;
            entries = shard_.undecided();
        }
        return nb::make_tuple(array_of(std::move(entries.group)), array_of(std::move(entries.score)), array_of(std::move(entries.count)));
    }
    void place(const InputVector<double>& below, const Int64s& count) {
        check_runs(below, count);
        shard_.place(below.data(), count.data(), count.size());
    }
    void place_equal(const InputVector<double>& below, const Int64s& count, double origin) {
        check_runs(below, count);
        shard_.write_to(below_.data());
        shard_.place_equal(below.data(), count.data(), count.size(), origin);
    }
    double total() const { return shard_.total(); }

  private:
    static void check_runs(const InputVector<double>& below, const Int64s& count) {
        require(below.size() == count.size(), "below and count must be equally long");
        for (std::size_t r = 0; r < count.size(); ++r) require(count.data()[r] >= 0, "counts must not be negative");
    }

    // Scores, or what they are made of and where they go.
    InputVector<double> scores_;
    Arrays arrays_;
    std::optional<OutputVector> room_;
    OutputVector below_;
    std::optional<Output<double>> kept_;
    ListShard shard_;
    std::size_t n_groups_ = 0;
};

// The client's side with the scores of the positives, best first, and the loss.
class BoundMerge {
  public:
    BoundMerge(InputVector<double> positives, std::int64_t n_neg, nb::object loss, double scale) : positives_(std::move(positives)), loss_(std::move(loss)) {
        const auto n_pos = static_cast<std::int64_t>(positives_.size());
        require(n_pos > 0 && n_neg > 0, "a list must have positives and negatives");
        if (nb::isinstance<nb::str>(loss_)) {
            built_in_.emplace(nb::cast<std::string>(loss_), n_pos + n_neg);
            search_ = (*built_in_)(positives_.data(), n_pos, n_neg, scale);
        } else {
            search_ = std::make_unique<PythonSearch>(positives_.data(), n_pos, n_neg, scale, loss_);
        }
        merge_.emplace(*search_);
    }

    // The best negatives that a loss with a cut-off has to see before anything else is asked.
    std::int64_t negatives_needed() const { return search_->negatives_needed(); }
    void decide_first(const InputVector<double>& best) {
        require(static_cast<std::int64_t>(best.size()) == search_->negatives_needed(), "the best negatives are as many as are needed");
        search_->decide(values_of(best), {});
    }

    nb::tuple choose_buckets(const InputVector<double>& sample) const {
        require(sample.size() > 0, "the sample is empty");
        const Buckets buckets = merge_->choose_buckets(values_of(sample));
        return nb::make_tuple(made_of(buckets), buckets.usable());
    }
    nb::tuple plan(const InputVector<double>& numbers, const Int64s& counts) {
        const Buckets buckets = buckets_of(numbers);
        require(static_cast<std::size_t>(buckets.count()) == counts.size(), "counts must have one entry for each bucket");
        ListMerge::Plan plan = merge_->plan(buckets, values_of(counts));
        return nb::make_tuple(array_of(std::move(plan.below)), plan.open);
    }
    void all_in_one() { merge_->all_in_one(); }
    bool keep_above(std::int64_t count, double floor) {
        require(count >= 0, "count must not be negative");
        return merge_->keep_above(count, floor);
    }
    // No member of the bucket is below that.
    static double lowest(const InputVector<double>& numbers, std::int32_t bucket) {
        const Buckets buckets = buckets_of(numbers);
        require(bucket >= 0 && bucket < buckets.count(), "there is no such bucket");
        return buckets.lowest(bucket);
    }
    nb::tuple sides() const {
        std::vector<float> low_below, high_below;
        std::vector<double> low, high;
        for (const Side& side : merge_->sides()) {
            low_below.push_back(side.low_below), high_below.push_back(side.high_below);
            low.push_back(side.limits.low), high.push_back(side.limits.high);
        }
        return nb::make_tuple(array_of(std::move(low_below)), array_of(std::move(high_below)), array_of(std::move(low)), array_of(std::move(high)));
    }
    void decided(const Int64s& above, const Int64s& undecided, const InputVector<double>& lowest, const InputVector<double>& highest) {
        require(undecided.size() == above.size() && lowest.size() == above.size() && highest.size() == above.size(), "answers must be equally long");
        std::vector<Standing> standing;
        for (std::size_t g = 0; g < above.size(); ++g) standing.push_back({above.data()[g], undecided.data()[g], lowest.data()[g], highest.data()[g]});
        merge_->decided(standing);
    }
    std::int64_t undecided() const { return merge_->undecided(); }
    nb::ndarray<nb::numpy, double> splits() {
        const std::vector<Buckets> finer = merge_->splits();
        const auto rows = zeros<double>({finer.size(), 3});
        for (std::size_t g = 0; g < finer.size(); ++g) std::copy_n(finer[g].made_of().begin(), 3, rows.data + 3 * g);
        return rows.array;
    }
    void split(const Int64s& counts) { merge_->split(values_of(counts)); }
    nb::list rank(const Int32s& group, const InputVector<double>& score, const Int64s& count, const Int32s& shard, std::int32_t n_shards) {
        require(score.size() == group.size() && count.size() == group.size() && shard.size() == group.size(), "entries must be equally long");
        for (std::size_t e = 0; e < shard.size(); ++e) require(shard.data()[e] >= 0 && shard.data()[e] < n_shards, "there is no such shard");
        return as_list(merge_->rank({values_of(group), values_of(score), values_of(count)}, values_of(shard), n_shards));
    }
    nb::list rank_equal(double score, const Int64s& sizes) { return as_list(merge_->rank_equal(score, values_of(sizes))); }
    nb::ndarray<nb::numpy, std::int64_t> negatives_above() const { return array_of(merge_->negatives_above()); }
    double loss(const Int64s& above) const {
        require(static_cast<std::int64_t>(above.size()) == search_->n_pos(), "above must have one entry for each positive");
        return search_->loss(above.data());
    }

  private:
    static nb::list as_list(std::vector<ListMerge::Runs> runs) {
        nb::list found;
        for (ListMerge::Runs& own : runs) found.append(nb::make_tuple(array_of(std::move(own.below)), array_of(std::move(own.count))));
        return found;
    }

    InputVector<double> positives_;
    nb::object loss_;
    std::optional<BuiltIn> built_in_;
    std::unique_ptr<Search> search_;
    std::optional<ListMerge> merge_;
};

bool combine_scores(const InputVector<double>& coefficients, const nb::list& arrays, OutputVector out, int n_threads) {
    const Arrays given(arrays, out.size());
    require(coefficients.size() == given.data.size(), "there must be one coefficient for each array");
    ScopedGilRelease unlocked;
    return Combination(values_of(coefficients), given.data).make_all(static_cast<std::int64_t>(out.size()), n_threads, out.data());
}

nb::ndarray<nb::numpy, double> compensated_dots(const InputVector<double>& a, const nb::list& arrays, int n_threads) {
    const Arrays given(arrays, a.size());
    std::vector<double> found;
    {
        ScopedGilRelease unlocked;
        found = dots(a.data(), given.data, static_cast<std::int64_t>(a.size()), n_threads);
    }
    return array_of(std::move(found));
}

}  // namespace

void bind_ranking_shards(nb::module_& m) {
    nb::class_<BoundShard>(m, "ListShard")
        .def(nb::init<InputVector<double>, OutputVector, int>(), "scores"_a.noconvert(), "below"_a.noconvert(), "n_threads"_a = 1)
        .def(nb::init<const InputVector<double>&, const nb::list&, OutputVector, OutputVector, int>(), "coefficients"_a.noconvert(), "arrays"_a, "scores"_a.noconvert(),
             "below"_a.noconvert(), "n_threads"_a = 1)
        .def("all_equal", &BoundShard::all_equal)
        .def("first", &BoundShard::first)
        .def("make", &BoundShard::make)
        .def("sample", &BoundShard::sample, "size"_a)
        .def("best", &BoundShard::best, "count"_a)
        .def("count", &BoundShard::count, "buckets"_a.noconvert())
        .def("write", &BoundShard::write, "buckets"_a.noconvert(), "below"_a.noconvert(), "origin"_a)
        .def("count_from", &BoundShard::count_from, "origin"_a)
        .def("keep_above", &BoundShard::keep_above, "floor"_a)
        .def("put_aside", &BoundShard::put_aside, "origin"_a)
        .def("decide", &BoundShard::decide, "low_below"_a.noconvert(), "high_below"_a.noconvert(), "low"_a.noconvert(), "high"_a.noconvert())
        .def("split", &BoundShard::split, "splits"_a.noconvert())
        .def("undecided", &BoundShard::undecided)
        .def("place", &BoundShard::place, "below"_a.noconvert(), "count"_a.noconvert())
        .def("place_equal", &BoundShard::place_equal, "below"_a.noconvert(), "count"_a.noconvert(), "origin"_a)
        .def("total", &BoundShard::total);
    nb::class_<BoundMerge>(m, "ListMerge")
        .def(nb::init<InputVector<double>, std::int64_t, nb::object, double>(), "positives"_a.noconvert(), "n_neg"_a, "loss"_a, "loss_scale"_a = 1.0)
        .def_prop_ro("negatives_needed", &BoundMerge::negatives_needed)
        .def("decide_first", &BoundMerge::decide_first, "best"_a.noconvert())
        .def("choose_buckets", &BoundMerge::choose_buckets, "sample"_a.noconvert())
        .def("plan", &BoundMerge::plan, "buckets"_a.noconvert(), "counts"_a.noconvert())
        .def("all_in_one", &BoundMerge::all_in_one)
        .def("keep_above", &BoundMerge::keep_above, "count"_a, "floor"_a)
        .def_static("is_usable", &is_usable, "buckets"_a.noconvert())
        .def_static("lowest", &BoundMerge::lowest, "buckets"_a.noconvert(), "bucket"_a)
        .def("sides", &BoundMerge::sides)
        .def("decided", &BoundMerge::decided, "above"_a.noconvert(), "undecided"_a.noconvert(), "lowest"_a.noconvert(), "highest"_a.noconvert())
        .def_prop_ro("undecided", &BoundMerge::undecided)
        .def("splits", &BoundMerge::splits)
        .def("split", &BoundMerge::split, "counts"_a.noconvert())
        .def("rank", &BoundMerge::rank, "group"_a.noconvert(), "score"_a.noconvert(), "count"_a.noconvert(), "shard"_a.noconvert(), "n_shards"_a)
        .def("rank_equal", &BoundMerge::rank_equal, "score"_a, "sizes"_a.noconvert())
        .def("negatives_above", &BoundMerge::negatives_above)
        .def("loss", &BoundMerge::loss, "above"_a.noconvert());
    m.def("combine_scores", &combine_scores, "coefficients"_a.noconvert(), "arrays"_a, "out"_a.noconvert(), "n_threads"_a = 1);
    m.def("compensated_dots", &compensated_dots, "a"_a.noconvert(), "arrays"_a, "n_threads"_a = 1);
}
