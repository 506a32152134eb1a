// Normal random numbers, a stream for every (seed, round): the ziggurat of Marsaglia and Tsang (Journal of Statistical Software 5, 2000)
// in Doornik's form, whose layer and place in it come from different bits (ZIGNOR, Oxford 2005).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace maxmargin {

class NormalStream {
  public:
    NormalStream(std::uint64_t seed, std::uint64_t round) : state_(mixed(mixed(seed + kStep) ^ (round * kStep))), layers_(layers()) {}

    double next() {
        for (;;) {
            const std::uint64_t word = bits();
            const auto layer = static_cast<std::size_t>(word & 127);
            const double place = 2.0 * uniform(word) - 1.0;
            if (std::abs(place) < layers_.inner[layer]) return place * layers_.edge[layer];
            if (layer == 0) return tail(place < 0);
            const double x = place * layers_.edge[layer];
            const double low = density_ratio(layers_.edge[layer], x), high = density_ratio(layers_.edge[layer + 1], x);
            if (low + uniform(bits()) * (high - low) < 1.0) return x;
        }
    }

  private:
    static constexpr double kTail = 3.442619855899;       // where the tail begins, for 128 layers
    static constexpr double kArea = 9.91256303526217e-3;  // of every layer
    static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

    struct Layers {
        std::array<double, 129> edge;   // right end of every layer, from the widest
        std::array<double, 128> inner;  // part of it that lies below the curve for sure
    };

    static const Layers& layers() {
        static const Layers made = [] {
            Layers t;
            double height = std::exp(-0.5 * kTail * kTail);
            t.edge[0] = kArea / height, t.edge[1] = kTail, t.edge[128] = 0;
            for (std::size_t k = 2; k < 128; ++k) {
                t.edge[k] = std::sqrt(-2 * std::log(kArea / t.edge[k - 1] + height));
                height = std::exp(-0.5 * t.edge[k] * t.edge[k]);
            }
            for (std::size_t k = 0; k < 128; ++k) t.inner[k] = t.edge[k + 1] / t.edge[k];
            return t;
        }();
        return made;
    }

    // The density at an edge, as a multiple of that at x.
    static double density_ratio(double edge, double x) { return std::exp(-0.5 * (edge * edge - x * x)); }

    double tail(bool negative) {
        for (;;) {
            const double x = std::log(1.0 - uniform(bits())) / kTail, y = std::log(1.0 - uniform(bits()));
            if (-2 * y >= x * x) return negative ? x - kTail : kTail - x;
        }
    }

    // splitmix64 (Steele, Lea and Flood 2014).
    static std::uint64_t mixed(std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    std::uint64_t bits() { return mixed(state_ += kStep); }
    static double uniform(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

    std::uint64_t state_;
    const Layers& layers_;
};

}  // namespace maxmargin
