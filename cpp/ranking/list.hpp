// One list (or many) from scores and relevance to loss, hinge and gradient, by any of the methods.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "numeric/threads.hpp"
#include "ranking/buckets.hpp"
#include "ranking/built_in.hpp"
#include "ranking/classic.hpp"
#include "ranking/cutoff.hpp"
#include "ranking/placement.hpp"
#include "ranking/search.hpp"
#include "ranking/table.hpp"

namespace maxmargin::ranking {

// All but `table` need a QS-suitable loss that is not subtracted, or one that decides about the first places itself.
enum class Method { automatic, buckets, quicksort, sort, greedy, table };

struct Summary {
    double loss = 0, hinge = 0;
    std::int64_t searches = 0;
};

// Below this many negatives a sort is quicker than setting up buckets.
inline constexpr std::int64_t kShortList = 192;
// Buckets count positives in floats, which are exact up to here.
inline constexpr std::int64_t kManyPositives = std::int64_t{1} << 24;

// Works through lists one after the other and keeps its buffers between them.
template <class T>
class ListSolver {
  public:
    // `relevant` holds 0 and 1; `cleared` says whether `gradient` comes in as zeros. Indices of the positives, best first, and the negatives
    // above each are left in `positives()` and `negatives_above()`. Messages number the samples from `first` on.
    template <class MakeSearch>
    Summary solve(const T* scores, const std::uint8_t* relevant, std::int64_t n, const MakeSearch& make, Method method, double loss_scale, T* gradient,
                  bool cleared, std::int64_t first = 0, int n_threads = 1) {
        n_threads_ = n_threads;
        find_positives(relevant, n);
        const auto n_pos = static_cast<std::int64_t>(positives_.size());
        const std::int64_t n_neg = n - n_pos;
        if (n_pos == 0 || n_neg == 0) {
            // Nothing to rank; whoever asks for the positives sees it.
            if (!cleared) std::fill(gradient, gradient + n, T{0});
            ordered_ = positives_;
            above_.assign(positives_.size(), 0);
            return {};
        }
        Summary summary;
        if (!attempt(scores, relevant, n, make, method, loss_scale, gradient, cleared, 1, summary)) {
            for (std::int64_t i = 0; i < n; ++i)
                if (!std::isfinite(scores[i]))
                    throw std::invalid_argument("scores must be finite, but scores[" + std::to_string(first + i) +
                                                "] is NaN or infinite; remove or replace such entries");
            // Finite but so large that sums overflow: the problem is the same when scores and loss shrink together.
            constexpr double factor = 0x1p-128;
            std::vector<T> shrunk(scores, scores + n);
            for (T& score : shrunk) score = static_cast<T>(static_cast<double>(score) * factor);
            attempt(shrunk.data(), relevant, n, make, method, loss_scale * factor, gradient, false, factor, summary);
        }
        return summary;
    }
    const std::vector<std::int32_t>& positives() const { return ordered_; }
    const std::vector<std::int64_t>& negatives_above() const { return above_; }

  private:
    void find_positives(const std::uint8_t* relevant, std::int64_t n) {
        constexpr std::int64_t piece = 1 << 18;
        positives_.clear();
        if (n_threads_ == 1 || n <= piece) return find_positives(relevant, 0, n, positives_);
        std::vector<std::vector<std::int32_t>> found(static_cast<std::size_t>((n + piece - 1) / piece));
        share_out(n_threads_, found.size(), [&](std::size_t k) {
            const std::int64_t first = static_cast<std::int64_t>(k) * piece;
            find_positives(relevant, first, std::min(n, first + piece), found[k]);
        });
        for (const auto& own : found) positives_.insert(positives_.end(), own.begin(), own.end());
    }
    static void find_positives(const std::uint8_t* relevant, std::int64_t i, std::int64_t n, std::vector<std::int32_t>& found) {
        for (; i + 8 <= n; i += 8) {
            std::uint64_t word;
            std::memcpy(&word, relevant + i, 8);
            if (word == 0) continue;
            for (int k = 0; k < 8; ++k)
                if (relevant[i + k]) found.push_back(static_cast<std::int32_t>(i + k));
        }
        for (; i < n; ++i)
            if (relevant[i]) found.push_back(static_cast<std::int32_t>(i));
    }

    template <class MakeSearch>
    bool attempt(const T* scores, const std::uint8_t* relevant, std::int64_t n, const MakeSearch& make, Method method, double loss_scale, T* gradient,
                 bool cleared, double factor, Summary& summary) {
        const auto n_pos = static_cast<std::int64_t>(positives_.size());
        const std::int64_t n_neg = n - n_pos;
        bool all_fit = true;
        sorted_.clear();
        for (const std::int32_t at : positives_) {
            all_fit &= fit(static_cast<double>(scores[at]));
            sorted_.push_back({static_cast<double>(scores[at]), at});
        }
        if (!all_fit) return false;
        sort_descending(sorted_.data(), n_pos, spare_);
        positive_scores_.clear();
        ordered_.clear();
        for (const Scored& s : sorted_) {
            positive_scores_.push_back(s.score);
            ordered_.push_back(s.index);
        }
        const std::unique_ptr<Search> search = make(positive_scores_.data(), n_pos, n_neg, loss_scale);
        Placement<T> placement(gradient, n_pos, n_neg, positive_scores_.back());
        const std::int64_t first_places = method == Method::table ? 0 : search->negatives_needed();
        if (first_places > 0) {
            best_negatives(scores, n, positives_, first_places, best_);
            beyond_.clear();
            if (const std::int64_t rows = search->positives_needed()) sums_beyond(scores, n, positives_, positive_scores_.data(), rows, best_, beyond_);
            search->decide(best_, beyond_);
        } else if (method == Method::automatic && loss_scale < 0) {
            method = Method::table;
        }
        if (method == Method::automatic) method = n_neg < kShortList || n_pos > kManyPositives ? Method::sort : Method::buckets;
        if (method == Method::buckets) {
            BucketMethod<T> buckets(*search, scores, relevant, n, positives_, placement, cleared, n_threads_);
            if (!buckets.run()) {
                if (!buckets.inseparable()) return false;
                method = Method::sort;
            }
        }
        if (method != Method::buckets) {
            if (!cleared) std::fill(gradient, gradient + n, T{0});
            negatives_.clear();
            std::size_t next = 0;
            for (std::int64_t i = 0; i < n; ++i) {
                if (next < positives_.size() && positives_[next] == i) {
                    ++next;
                    continue;
                }
                all_fit &= fit(static_cast<double>(scores[i]));
                negatives_.push_back({static_cast<double>(scores[i]), static_cast<std::int32_t>(i)});
            }
            if (!all_fit) return false;
            if (method == Method::table) summary.loss = by_table(*search, negatives_, placement, n_threads_);
            else if (method == Method::sort) by_sort(*search, negatives_, placement, ranks_, spare_);
            else if (method == Method::quicksort) summary.searches = by_quicksort(*search, negatives_, placement);
            else by_greedy(*search, negatives_, placement);
        }
        above_ = placement.negatives_above();
        CompensatedSum& total = placement.total();
        for (std::size_t i = 0; i < above_.size(); ++i) {
            const double g = above_[i] == 0 ? 0.0 : -placement.unit() * static_cast<double>(above_[i]);
            gradient[ordered_[i]] = static_cast<T>(g);
            if (above_[i] == 0) continue;
            total.add(g * (positive_scores_[i] - placement.origin()));
        }
        if (method != Method::table) summary.loss = search->loss(above_.data());
        // The true ranking violates nothing, so the maximum is never negative; rounding may say otherwise.
        summary.hinge = std::max(0.0, total.value() / factor + loss_scale / factor * summary.loss);
        return true;
    }

    std::vector<std::int32_t> positives_, ordered_, ranks_;
    std::vector<double> positive_scores_, best_, beyond_;
    std::vector<Scored> sorted_, negatives_, spare_;
    std::vector<std::int64_t> above_;
    int n_threads_ = 1;  // of a single list
};

// Many lists, lists[q] = offsets[q] .. offsets[q+1], shared out among threads; one list has all threads to itself.
template <class T>
void solve_lists(const T* scores, const std::uint8_t* relevant, const std::int64_t* offsets, std::int64_t n_lists, const BuiltIn& make,
                 double loss_scale, int n_threads, T* gradient, bool cleared, double* loss, double* hinge) {
    const std::int64_t chunk = std::max<std::int64_t>(1, n_lists / (8 * n_threads));
    const int threads_per_list = n_lists == 1 ? n_threads : 1;
    share_out(n_threads, static_cast<std::size_t>((n_lists + chunk - 1) / chunk), [&](std::size_t k) {
        ListSolver<T> solver;
        const std::int64_t first = static_cast<std::int64_t>(k) * chunk;
        for (std::int64_t q = first; q < std::min(n_lists, first + chunk); ++q) {
            const std::int64_t begin = offsets[q];
            const Summary summary = solver.solve(scores + begin, relevant + begin, offsets[q + 1] - begin, make, Method::automatic,
                                                 loss_scale, gradient + begin, cleared, begin, threads_per_list);
            loss[q] = summary.loss;
            hinge[q] = summary.hinge;
        }
    });
}

}  // namespace maxmargin::ranking
