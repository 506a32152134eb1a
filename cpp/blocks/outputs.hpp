// The outputs of one block that are in use or remembered: dual weights, losses, sparse features and their inner products.
//
// Everything lies in one piece of memory, so that visiting a block costs few cache misses; a block that is still at its
// truth needs none. Inner products make the curvature of any step a matter of few numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace maxmargin::blocks {

// Pairs of an index and a value; an index may come more than once.
struct SparseView {
    const std::int32_t* at;
    const double* values;
    std::size_t count;

    // Four sums, because one would wait for itself.
    double dot(const double* dense) const {
        double a = 0, b = 0, c = 0, d = 0;
        std::size_t e = 0;
        for (; e + 4 <= count; e += 4) {
            a += values[e] * dense[at[e]];
            b += values[e + 1] * dense[at[e + 1]];
            c += values[e + 2] * dense[at[e + 2]];
            d += values[e + 3] * dense[at[e + 3]];
        }
        for (; e < count; ++e) a += values[e] * dense[at[e]];
        return (a + b) + (c + d);
    }
    void add_to(double* dense, double factor) const {
        for (std::size_t e = 0; e < count; ++e) dense[at[e]] += factor * values[e];
    }
    void clear_in(double* dense) const {
        for (std::size_t e = 0; e < count; ++e) dense[at[e]] = 0;
    }
};

struct Output {
    double alpha, loss;
    std::uint32_t begin, count;
    bool used_again;  // came more than once
    bool mixed;       // an average of outputs, not an output
};

// Output 0 is the truth, without features and without loss.
class Outputs {
  public:
    Outputs() = default;
    Outputs(Outputs&&) = default;
    Outputs& operator=(Outputs&&) = default;
    Outputs(const Outputs& other) { *this = other; }
    Outputs& operator=(const Outputs& other) {
        if (this == &other) return *this;
        n_ = 1, entries_ = 0, room_ = 0, entry_room_ = 0;
        memory_.reset();
        if (!other.memory_) return *this;
        reserve(other.n_, other.entries_);
        n_ = other.n_, entries_ = other.entries_;
        std::copy_n(other.heads(), n_, heads());
        std::copy_n(other.products(), triangle(n_), products());
        std::copy_n(other.all_values(), entries_, all_values());
        std::copy_n(other.all_indices(), entries_, all_indices());
        return *this;
    }

    // Nothing but the truth, and nothing stored.
    bool only_truth() const { return !memory_; }
    std::size_t size() const { return n_; }
    Output& operator[](std::size_t c) { return heads()[c]; }
    const Output& operator[](std::size_t c) const { return heads()[c]; }
    SparseView features(std::size_t c) const {
        const Output& output = heads()[c];
        return {all_indices() + output.begin, all_values() + output.begin, output.count};
    }
    double product(std::size_t a, std::size_t b) const { return products()[a < b ? triangle(b) + a : triangle(a) + b]; }
    std::size_t n_bytes() const { return sizeof *this + (memory_ ? bytes(room_, entry_room_) : 0); }

    // Begin to fetch what a visit will read.
    void prefetch() const {
        if (!memory_) return;
        const std::size_t most = std::min<std::size_t>(4096, bytes(room_, entry_room_));
        for (std::size_t line = 0; line < most; line += 64) __builtin_prefetch(memory_.get() + line);
    }

    // The output with just this loss and these pairs, or `size()`.
    std::size_t find(double loss, const SparseView& psi) const {
        if (!memory_) return psi.count == 0 && loss == 0 ? 0 : 1;
        for (std::size_t c = 0; c < n_; ++c) {
            const Output& output = heads()[c];
            if (output.count == psi.count && output.loss == loss && !output.mixed &&
                std::memcmp(all_indices() + output.begin, psi.at, psi.count * sizeof *psi.at) == 0 &&
                std::memcmp(all_values() + output.begin, psi.values, psi.count * sizeof *psi.values) == 0)
                return c;
        }
        return n_;
    }

    // `scratch` has room for all features and is zero, before and after.
    std::size_t add(double alpha, double loss, const SparseView& psi, bool mixed, double* scratch) {
        if (!memory_) store_truth();
        reserve(n_ + 1, entries_ + psi.count);
        const std::size_t c = n_++;
        heads()[c] = {alpha, loss, entries_, static_cast<std::uint32_t>(psi.count), false, mixed};
        std::copy_n(psi.at, psi.count, all_indices() + entries_);
        std::copy_n(psi.values, psi.count, all_values() + entries_);
        entries_ += static_cast<std::uint32_t>(psi.count);
        psi.add_to(scratch, 1);
        for (std::size_t other = 0; other <= c; ++other) products()[triangle(c) + other] = features(other).dot(scratch);
        psi.clear_in(scratch);
        return c;
    }

    // Keep the outputs for which `keep(c)`, in their order.
    template <class Keep>
    void filter(const Keep& keep) {
        std::vector<std::uint32_t> kept;
        for (std::size_t c = 0; c < n_; ++c)
            if (keep(c)) kept.push_back(static_cast<std::uint32_t>(c));
        std::uint32_t end = 0;
        for (std::size_t to = 0; to < kept.size(); ++to) {
            const std::size_t from = kept[to];
            // Rows of the triangle only move down: an entry is read before its place is written.
            for (std::size_t other = 0; other <= to; ++other) products()[triangle(to) + other] = products()[triangle(from) + kept[other]];
            Output output = heads()[from];
            std::copy_n(all_indices() + output.begin, output.count, all_indices() + end);
            std::copy_n(all_values() + output.begin, output.count, all_values() + end);
            output.begin = end;
            end += output.count;
            heads()[to] = output;
        }
        n_ = static_cast<std::uint32_t>(kept.size());
        entries_ = end;
    }

  private:
    static std::size_t triangle(std::size_t c) { return c * (c + 1) / 2; }
    static std::size_t bytes(std::size_t room, std::size_t entry_room) {
        return sizeof(Output) * room + sizeof(double) * triangle(room) + (sizeof(double) + sizeof(std::int32_t)) * entry_room;
    }

    Output* heads() { return reinterpret_cast<Output*>(memory_.get()); }
    const Output* heads() const { return reinterpret_cast<const Output*>(memory_.get()); }
    double* products() { return reinterpret_cast<double*>(heads() + room_); }
    const double* products() const { return reinterpret_cast<const double*>(heads() + room_); }
    double* all_values() { return products() + triangle(room_); }
    const double* all_values() const { return products() + triangle(room_); }
    std::int32_t* all_indices() { return reinterpret_cast<std::int32_t*>(all_values() + entry_room_); }
    const std::int32_t* all_indices() const { return reinterpret_cast<const std::int32_t*>(all_values() + entry_room_); }

    void store_truth() {
        reserve(1, 0);
        heads()[0] = {1, 0, 0, 0, true, false};
        products()[0] = 0;
    }

    void reserve(std::size_t n, std::size_t entries) {
        if (memory_ && n <= room_ && entries <= entry_room_) return;
        if (entries > 0xc0000000u) throw std::length_error("the outputs of a block have too many features to remember them");
        Outputs larger;
        larger.room_ = static_cast<std::uint32_t>(std::max<std::size_t>(n <= room_ ? room_ : n + n / 4 + 1, 3));
        larger.entry_room_ = static_cast<std::uint32_t>(entries <= entry_room_ ? entry_room_ : entries + (entry_room_ ? entries / 4 : 0));
        larger.memory_.reset(new std::byte[bytes(larger.room_, larger.entry_room_)]);
        if (memory_) {
            std::copy_n(heads(), n_, larger.heads());
            std::copy_n(products(), triangle(n_), larger.products());
            std::copy_n(all_values(), entries_, larger.all_values());
            std::copy_n(all_indices(), entries_, larger.all_indices());
        }
        memory_ = std::move(larger.memory_);
        room_ = larger.room_, entry_room_ = larger.entry_room_;
    }

    std::unique_ptr<std::byte[]> memory_;
    std::uint32_t n_ = 1, entries_ = 0, room_ = 0, entry_room_ = 0;
};

}  // namespace maxmargin::blocks
