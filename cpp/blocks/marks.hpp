// Where the points of blocks were at some time, so that only a part of the way since then is kept.
#pragma once

#include <cstddef>
#include <vector>

namespace maxmargin::blocks {

// Exact at both ends.
inline double between(double before, double now, double part) { return (1 - part) * before + part * now; }

inline void keep_part(const std::vector<double>& before, std::vector<double>& now, double part) {
    for (std::size_t e = 0; e < now.size(); ++e) now[e] = between(before[e], now[e], part);
}

// Shares of outputs, in a list for every block. As long as they are marked, lists may become longer at their ends and nothing else:
// so the shares of before are all that has to be remembered, and outputs that are new had none.
class Marks {
  public:
    bool set() const { return !begin_.empty(); }

    // List i has size(i) shares, of which share(i, c) is one.
    template <class Size, class Share>
    void mark(std::size_t n, const Size& size, const Share& share) {
        shares_.clear();
        begin_.assign(1, 0);
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t c = 0; c < size(i); ++c) shares_.push_back(share(i, c));
            begin_.push_back(shares_.size());
        }
    }

    // Only a part of what has changed is kept, and nothing is marked any more.
    template <class Size, class Share>
    void keep(double part, const Size& size, const Share& share) {
        for (std::size_t i = 0; i + 1 < begin_.size(); ++i) {
            const std::size_t known = begin_[i + 1] - begin_[i];
            for (std::size_t c = 0; c < size(i); ++c) share(i, c) = between(c < known ? shares_[begin_[i] + c] : 0, share(i, c), part);
        }
        begin_.clear();
    }

    std::size_t n_bytes() const { return shares_.capacity() * sizeof(double) + begin_.capacity() * sizeof(std::size_t); }

  private:
    std::vector<double> shares_;
    std::vector<std::size_t> begin_;  // of each list, and the end of the last
};

}  // namespace maxmargin::blocks
