// Where the answers go: every negative's interleaving rank turns into its entry of the gradient, a count per rank and
// a term of the hinge. The gradient carries the ranks too (they are one integer multiple of 2/(PN) apart), so no second
// array of labels is written.
#pragma once

#include <cstdint>
#include <vector>

#include "numeric/compensated_sum.hpp"

namespace maxmargin::ranking {

// So many terms of the hinge are added up plainly before they enter the compensated sum.
inline constexpr std::int64_t kTermsPerPart = 256;

template <class T>
class Placement {
  public:
    // `origin` is subtracted from every score before it is summed: the coefficients of the hinge add up to zero, so it
    // does not change the value, and with the lowest positive as origin nothing large has to cancel.
    Placement(T* gradient, std::int64_t n_pos, std::int64_t n_neg, double origin)
        : gradient_(gradient), n_pos_(n_pos), origin_(origin),
          unit_(2.0 / (static_cast<double>(n_pos) * static_cast<double>(n_neg))),
          counts_(static_cast<std::size_t>(n_pos) + 2, 0) {}

    // dJ/ds of a negative with `rank - 1` positives above it.
    double slope(std::int32_t rank) const { return unit_ * static_cast<double>(n_pos_ + 1 - rank); }
    double unit() const { return unit_; }
    double origin() const { return origin_; }

    // Record one negative; its term of the hinge goes into `part`, which the caller hands over with add_sum.
    void place(std::int64_t index, double score, std::int32_t rank, double& part) {
        ++counts_[static_cast<std::size_t>(rank)];
        const double g = slope(rank);
        gradient_[index] = static_cast<T>(g);
        part += g * (score - origin_);
    }
    void place(std::int64_t index, double score, std::int32_t rank) {
        double part = 0;
        place(index, score, rank, part);
        total_.add(part);
    }
    void add_count(std::int32_t rank, std::int64_t count) { counts_[static_cast<std::size_t>(rank)] += count; }
    void add_sum(double part) { total_.add(part); }
    // The same at every 256th step k of a long loop.
    void hand_over(std::int64_t k, double& part) {
        if (k % kTermsPerPart == 0) total_.add(part), part = 0;
    }
    T* gradient() { return gradient_; }

    // negatives_above[i]: how many negatives precede the (i+1)-th positive.
    std::vector<std::int64_t> negatives_above() const {
        std::vector<std::int64_t> above(static_cast<std::size_t>(n_pos_));
        std::int64_t seen = 0;
        for (std::int64_t i = 0; i < n_pos_; ++i) {
            seen += counts_[static_cast<std::size_t>(i) + 1];
            above[static_cast<std::size_t>(i)] = seen;
        }
        return above;
    }
    CompensatedSum& total() { return total_; }

  private:
    T* gradient_;
    std::int64_t n_pos_;
    double origin_, unit_;
    std::vector<std::int64_t> counts_;
    CompensatedSum total_;
};

}  // namespace maxmargin::ranking
