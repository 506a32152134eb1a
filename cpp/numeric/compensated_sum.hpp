#pragma once

namespace maxmargin {

// Neumaier's compensated sum: ten million terms and more, right to the last digits. What an addition loses is found without asking
// which term is larger (Knuth, "The Art of Computer Programming" 2, 4.2.2): terms of mixed sizes would make that a coin toss.
class CompensatedSum {
  public:
    void add(double x) {
        const double t = sum_ + x;
        const double added = t - sum_;
        lost_ += (sum_ - (t - added)) + (x - added);
        sum_ = t;
    }
    void add(const CompensatedSum& other) {
        add(other.sum_);
        lost_ += other.lost_;
    }
    double value() const { return sum_ + lost_; }

  private:
    double sum_ = 0, lost_ = 0;
};

}  // namespace maxmargin
