// Which block is next.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace maxmargin::blocks {

// xoshiro256++ (Blackman and Vigna), seeded by splitmix64: the same numbers on every machine.
class Random {
  public:
    explicit Random(std::uint64_t seed) {
        for (auto& s : state_) {
            std::uint64_t z = (seed += 0x9e3779b97f4a7c15u);
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
            s = z ^ (z >> 31);
        }
    }
    std::uint64_t bits() {
        const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0], t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }
    double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    std::size_t below(std::size_t n) { return std::min(n - 1, static_cast<std::size_t>(unit() * static_cast<double>(n))); }

  private:
    static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
    std::uint64_t state_[4];
};

enum class Sampling { uniform, permutation, gap };

// Draws blocks, and keeps the last known gap of each with their sum. Gaps that were never seen are infinite; the gap sampler
// visits those blocks first, in random order.
class Sampler {
  public:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    Sampler(Sampling kind, std::size_t n, std::uint64_t seed)
        : kind_(kind), n_(n), random_(seed), gaps_(n, INFINITY), unseen_(n), tree_(kind == Sampling::gap ? 2 * n : 0) {
        if (kind_ == Sampling::gap) shuffle();
    }

    // A block, or kNone if no block is worth a visit.
    std::size_t draw() {
        if (kind_ == Sampling::uniform) return random_.below(n_);
        if (kind_ == Sampling::permutation) {
            if (order_.empty()) shuffle();
            return take();
        }
        while (!order_.empty()) {
            const std::size_t block = take();
            if (std::isinf(gaps_[block])) return block;
        }
        if (!(tree_[1] > 0)) return kNone;
        std::size_t at = 1;
        double target = random_.unit() * tree_[1];
        while (at < n_) {
            at *= 2;
            if (target >= tree_[at] && tree_[at + 1] > 0) target -= tree_[at++];
        }
        return at - n_;
    }

    void update(std::size_t block, double gap) {
        gap = std::max(0.0, gap);
        if (std::isinf(gaps_[block])) --unseen_;
        else sum_ -= gaps_[block];
        gaps_[block] = gap;
        sum_ += gap;
        if (kind_ != Sampling::gap) return;
        std::size_t at = block + n_;
        tree_[at] = gap;
        while (at /= 2) tree_[at] = tree_[2 * at] + tree_[2 * at + 1];
    }

    // Sums of many updates drift: add everything up again.
    void settle() {
        sum_ = 0;
        for (std::size_t i = 0; i < n_; ++i)
            if (!std::isinf(gaps_[i])) sum_ += gaps_[i];
        if (kind_ != Sampling::gap) return;
        for (std::size_t i = 0; i < n_; ++i) tree_[n_ + i] = std::isinf(gaps_[i]) ? 0 : gaps_[i];
        for (std::size_t at = n_; at-- > 1;) tree_[at] = tree_[2 * at] + tree_[2 * at + 1];
    }

    bool all_seen() const { return unseen_ == 0; }
    double sum() const { return std::max(0.0, sum_); }
    const std::vector<double>& gaps() const { return gaps_; }

  private:
    void shuffle() {
        order_.resize(n_);
        for (std::size_t i = 0; i < n_; ++i) order_[i] = i;
        for (std::size_t i = n_; i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
    }
    std::size_t take() {
        const std::size_t block = order_.back();
        order_.pop_back();
        return block;
    }

    Sampling kind_;
    std::size_t n_;
    Random random_;
    std::vector<double> gaps_;
    std::size_t unseen_;
    double sum_ = 0;
    std::vector<double> tree_;         // sums of gaps: the children of node k are 2k and 2k + 1, leaves start at n
    std::vector<std::size_t> order_;   // blocks still to come, last first
};

}  // namespace maxmargin::blocks
