// Helpers for bindings: search the most violating label sets of many samples, in several threads. Used by multilabel and hierarchy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "numeric/threads.hpp"
#include "python/arrays.hpp"
#include "surrogates/psi.hpp"
#include "surrogates/set_pool.hpp"

using maxmargin::blocks::SetCut;
using maxmargin::blocks::SetSurrogate;
using maxmargin::surrogates::Kind;

using Matrix = Input<double, nb::ndim<2>>;
using Values = InputVector<double>;
using Truths = Input<std::uint8_t, nb::ndim<2>>;

// Samples that a thread takes at once.
constexpr std::size_t kPiece = 64;

// Piece after piece of n samples, each thread with a worker of its own: work(worker, first, last).
template <class Worker, class Make, class Work>
void in_pieces(std::vector<std::unique_ptr<Worker>>& workers, std::size_t n, int n_threads, const Make& make, const Work& work) {
    const std::size_t pieces = (n + kPiece - 1) / kPiece;
    const std::size_t threads = std::max<std::size_t>(1, std::min(pieces, static_cast<std::size_t>(std::max(1, n_threads))));
    while (workers.size() < threads) workers.push_back(make());
    // Worker t takes the pieces t, t + threads, ...: which one does what does not depend on their speed.
    maxmargin::share_out(static_cast<int>(threads), threads, [&](std::size_t t) {
        for (std::size_t piece = t; piece < pieces; piece += threads) work(*workers[t], piece * kPiece, std::min(n, (piece + 1) * kPiece));
    });
}

inline SetSurrogate surrogate_of(const std::string& kind, double alpha, double beta, bool relaxed, bool hull_only) {
    return {{chosen<Kind>(kind, "surrogate", {{"generalized", Kind::generalized}, {"logistic", Kind::logistic},
                                              {"probability", Kind::probability}, {"micro_f1", Kind::micro_f1}}),
             alpha, beta}, relaxed, hull_only};
}

// Of every sample the set, its margin error, a and b of its cut, and an upper bound of the hinge; and the number of questions. Without
// `prove` as steps search, above `floor`, and without bounds.
template <class Search>
class ManySearches {
  public:
    template <class Make>
    nb::tuple search(const Matrix& scores, const double* pairs, const Truths& truth, int n_threads, bool prove, double floor, const Make& make) {
        const std::size_t n = scores.shape(0), L = scores.shape(1);
        require(truth.shape(0) == n && truth.shape(1) == L, "truth needs a row per sample and a column per label");
        const auto labels = zeros<double>({n, L}), error = zeros<double>({n}), a = zeros<double>({n}), b = zeros<double>({n}), bound = zeros<double>({n});
        std::size_t queries = 0;
        {
            ScopedGilRelease unlocked;
            const std::lock_guard<std::mutex> alone(busy_);
            const auto asked = [&] {
                return std::accumulate(searches_.begin(), searches_.end(), std::size_t{0}, [](std::size_t sum, const auto& own) { return sum + own->queries(); });
            };
            const std::size_t before = asked();
            in_pieces(searches_, n, n_threads, make, [&](Search& search, std::size_t first, std::size_t last) {
                for (std::size_t i = first; i < last; ++i) {
                    const std::uint8_t* own = truth.data() + i * L;
                    double* y = labels.data + i * L;
                    search.begin(scores.data() + i * L, pairs, own);
                    typename Search::Violator found;
                    if (search.finite()) found = search.find(prove, floor);
                    else found.h = NAN, found.bound = NAN;
                    if (found.id == Search::kNew) std::copy_n(search.set(), L, y);
                    else std::copy_n(own, L, y);
                    const SetCut cut = search.cut(found.h, found.g, found.size);
                    error.data[i] = found.h, a.data[i] = cut.a, b.data[i] = cut.b, bound.data[i] = found.bound;
                }
            });
            queries = asked() - before;
        }
        return nb::make_tuple(labels.array, error.array, a.array, b.array, bound.array, queries);
    }

  private:
    std::vector<std::unique_ptr<Search>> searches_;
    std::mutex busy_;
};
