// The outputs of one block that are in use or remembered: dual weights, losses, sparse features and their inner products.
//
// Everything lies in one piece of memory, so that visiting a block costs few cache misses; a block that is still at its
// truth needs none. Inner products make the curvature of any step a matter of few numbers.
//
// Outputs of a block often have the same features in other places: with classes, those of the sample at the true label and,
// negative, at another one. So features are stored as a list of pairs, the pattern, that is cut into a few runs, and an
// output says by how much the indices of every run are shifted. Runs that several outputs share are computed with once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace maxmargin::blocks {

// Pairs of an index and a value; an index may come more than once. All indices are `shift` higher than stored.
struct SparseView {
    const std::int32_t* at;
    const double* values;
    std::size_t count;
    std::ptrdiff_t shift = 0;

    // Four sums, because one would wait for itself.
    double dot(const double* dense) const {
        double a = 0, b = 0, c = 0, d = 0;
        std::size_t e = 0;
        for (; e + 4 <= count; e += 4) {
            a += values[e] * dense[at[e] + shift];
            b += values[e + 1] * dense[at[e + 1] + shift];
            c += values[e + 2] * dense[at[e + 2] + shift];
            d += values[e + 3] * dense[at[e + 3] + shift];
        }
        for (; e < count; ++e) a += values[e] * dense[at[e] + shift];
        return (a + b) + (c + d);
    }
    void add_to(double* dense, double factor) const {
        for (std::size_t e = 0; e < count; ++e) dense[at[e] + shift] += factor * values[e];
    }
    void clear_in(double* dense) const {
        for (std::size_t e = 0; e < count; ++e) dense[at[e] + shift] = 0;
    }
};

constexpr std::size_t kMostRuns = 4;
using Shifts = std::array<std::int32_t, kMostRuns>;

struct Output {
    double alpha, loss;
    Shifts shifts;
    std::uint32_t pattern;
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
        memory_.reset();
        n_ = 1, n_patterns_ = 0, entries_ = 0, room_ = 0, entry_room_ = 0;
        if (!other.memory_) return *this;
        reserve(other.n_, other.entries_);
        n_ = other.n_, n_patterns_ = other.n_patterns_, entries_ = other.entries_;
        copy_from(other);
        return *this;
    }

    // Nothing but the truth, and nothing stored.
    bool only_truth() const { return !memory_; }
    std::size_t size() const { return n_; }
    Output& operator[](std::size_t c) { return heads()[c]; }
    const Output& operator[](std::size_t c) const { return heads()[c]; }
    double product(std::size_t a, std::size_t b) const { return products()[a < b ? triangle(b) + a : triangle(a) + b]; }
    std::size_t n_bytes() const { return sizeof *this + (memory_ ? bytes(room_, entry_room_) : 0); }

    std::size_t n_runs(std::size_t c) const { return patterns()[heads()[c].pattern].n_runs; }
    // If psi is that of output `same`, other outputs with its pattern are read off it: it was just written, and what is stored
    // is far away.
    SparseView run(std::size_t c, std::size_t r, std::size_t same = 0, const SparseView& psi = {}) const {
        const Output& output = heads()[c];
        const Pattern& p = patterns()[output.pattern];
        const std::size_t first = r ? p.end[r - 1] : 0, count = p.end[r] - first;
        if (same > 0 && heads()[same].pattern == output.pattern)
            return {psi.at + first, psi.values + first, count, std::ptrdiff_t{output.shifts[r]} - heads()[same].shifts[r]};
        return {all_indices() + p.begin + first, all_values() + p.begin + first, count, output.shifts[r]};
    }
    double dot(std::size_t c, const double* dense) const {
        double sum = 0;
        for (std::size_t r = 0; r < n_runs(c); ++r) sum += run(c, r).dot(dense);
        return sum;
    }
    void add_to(std::size_t c, double* dense, double factor) const {
        for (std::size_t r = 0; r < n_runs(c); ++r) run(c, r).add_to(dense, factor);
    }
    template <class F>
    void for_each_entry(std::size_t c, const F& f) const {
        for (std::size_t r = 0; r < n_runs(c); ++r) {
            const SparseView part = run(c, r);
            for (std::size_t e = 0; e < part.count; ++e) f(static_cast<std::size_t>(part.at[e] + part.shift), part.values[e]);
        }
    }

    // Begin to fetch what a visit will read.
    // Inlined by force, see PartMarginals.
    [[gnu::always_inline]] inline void prefetch() const {
        if (!memory_) return;
        const std::size_t most = std::min<std::size_t>(2048, bytes(room_, 0));
        for (std::size_t line = 0; line < most; line += 64) __builtin_prefetch(memory_.get() + line);
    }

    // The output with just this loss and these pairs, or `size()`. Pairs are told apart by 64 bits of them; should two ever be
    // taken for the same, a step is not the best one, and the next exact look is still right.
    std::size_t find(double loss, const SparseView& psi) const {
        if (!memory_) return psi.count == 0 && loss == 0 ? 0 : 1;
        for (std::uint32_t p = 0; p < n_patterns_; ++p) {
            const Pattern& pattern = patterns()[p];
            if (pattern.count != psi.count || pattern.print != fingerprint(pattern, psi)) continue;
            Shifts shifts{};
            for (std::size_t r = 0; r < pattern.n_runs; ++r)
                shifts[r] = static_cast<std::int32_t>(static_cast<std::uint32_t>(psi.at[r ? pattern.end[r - 1] : 0]) - pattern.first[r]);
            for (std::size_t c = 0; c < n_; ++c)
                if (heads()[c].pattern == p && heads()[c].shifts == shifts && heads()[c].loss == loss && !heads()[c].mixed) return c;
        }
        return n_;
    }

    // `scratch` has room for all features and is zero, before and after.
    std::size_t add(double alpha, double loss, const SparseView& psi, bool mixed, double* scratch) {
        if (!memory_) store_truth();
        reserve(n_ + 1, entries_);
        Output output{alpha, loss, {}, 0, false, mixed};
        std::uint32_t p = 0;
        while (p < n_patterns_ && !(same_values(patterns()[p], psi) && cut_for(p, psi, output.shifts))) ++p;
        if (p == n_patterns_) {
            // What a pattern that did not fit has left there.
            output.shifts = {};
            p = add_pattern(psi);
        }
        output.pattern = p;
        const std::size_t c = n_++;
        heads()[c] = output;
        psi.add_to(scratch, 1);
        for (std::size_t other = 0; other <= c; ++other) products()[triangle(c) + other] = dot(other, scratch);
        psi.clear_in(scratch);
        return c;
    }

    // Keep the outputs for which `keep(c)`, in their order, and the patterns they need.
    template <class Keep>
    void filter(const Keep& keep) {
        std::vector<std::uint32_t> kept, place(n_patterns_, 0);
        for (std::uint32_t c = 0; c < n_; ++c)
            if (keep(c)) kept.push_back(c), place[heads()[c].pattern] = 1;
        std::uint32_t end = 0, count = 0;
        for (std::uint32_t p = 0; p < n_patterns_; ++p) {
            if (!place[p]) continue;
            Pattern pattern = patterns()[p];
            std::copy_n(all_indices() + pattern.begin, pattern.count, all_indices() + end);
            std::copy_n(all_values() + pattern.begin, pattern.count, all_values() + end);
            pattern.begin = end;
            end += pattern.count;
            place[p] = count;
            patterns()[count++] = pattern;
        }
        for (std::size_t to = 0; to < kept.size(); ++to) {
            const std::size_t from = kept[to];
            // Rows of the triangle only move down: an entry is read before its place is written.
            for (std::size_t other = 0; other <= to; ++other) products()[triangle(to) + other] = products()[triangle(from) + kept[other]];
            heads()[to] = heads()[from];
            heads()[to].pattern = place[heads()[to].pattern];
        }
        n_ = static_cast<std::uint32_t>(kept.size());
        n_patterns_ = count;
        entries_ = end;
    }

  private:
    struct alignas(double) Pattern {
        std::uint32_t begin, count, n_runs;
        std::array<std::uint32_t, kMostRuns> end;    // of the runs, counted from begin
        std::array<std::uint32_t, kMostRuns> first;  // the first index of every run
        std::uint64_t print;                         // of the values, and of the indices relative to the first of their run
    };

    static std::uint64_t fingerprint(const Pattern& p, const SparseView& psi) {
        std::uint64_t lanes[4] = {1, 2, 3, 4};
        const auto mix = [&](std::size_t lane, std::size_t e, std::uint32_t first) {
            std::uint64_t bits;
            std::memcpy(&bits, psi.values + e, sizeof bits);
            const std::uint64_t x = ((bits << 32) | (bits >> 32)) ^ (static_cast<std::uint32_t>(psi.at[e]) - first);
            const std::uint64_t y = (lanes[lane] ^ x) * 0x9e3779b97f4a7c15u;
            lanes[lane] = y ^ (y >> 29);
        };
        std::size_t e = 0;
        for (std::size_t r = 0; r < p.n_runs; ++r) {
            const auto first = static_cast<std::uint32_t>(psi.at[e]);
            for (; e + 4 <= p.end[r]; e += 4) mix(0, e, first), mix(1, e + 1, first), mix(2, e + 2, first), mix(3, e + 3, first);
            for (; e < p.end[r]; ++e) mix(0, e, first);
        }
        std::uint64_t all = 0;
        for (const std::uint64_t lane : lanes) all = (all ^ lane) * 0xff51afd7ed558ccdu, all ^= all >> 32;
        return all;
    }
    void set_print(Pattern& p) const {
        for (std::size_t r = 0; r < p.n_runs; ++r) p.first[r] = static_cast<std::uint32_t>(all_indices()[p.begin + (r ? p.end[r - 1] : 0)]);
        p.print = fingerprint(p, {all_indices() + p.begin, all_values() + p.begin, p.count});
    }

    static std::size_t triangle(std::size_t c) { return c * (c + 1) / 2; }
    static std::size_t bytes(std::size_t room, std::size_t entry_room) {
        return sizeof(double) * (triangle(room) + entry_room) + sizeof(Output) * room + sizeof(Pattern) * room +
               sizeof(std::int32_t) * entry_room;
    }

    // What every visit reads comes first; there are no more patterns than outputs.
    Output* heads() const { return reinterpret_cast<Output*>(memory_.get()); }
    Pattern* patterns() const { return reinterpret_cast<Pattern*>(heads() + room_); }
    double* products() const { return reinterpret_cast<double*>(patterns() + room_); }
    double* all_values() const { return products() + triangle(room_); }
    std::int32_t* all_indices() const { return reinterpret_cast<std::int32_t*>(all_values() + entry_room_); }

    bool same_values(const Pattern& p, const SparseView& psi) const {
        return p.count == psi.count && std::memcmp(all_values() + p.begin, psi.values, psi.count * sizeof *psi.values) == 0;
    }

    // Unsigned: what the oracle wrote may be anything as yet.
    std::uint32_t shift_at(const Pattern& p, const SparseView& psi, std::size_t e) const {
        return static_cast<std::uint32_t>(psi.at[e]) - static_cast<std::uint32_t>(all_indices()[p.begin + e]);
    }

    // By how much the runs are shifted in psi, which has the values of the pattern. Runs that are not shifted as a whole are cut
    // further; false if there would be too many.
    bool cut_for(std::size_t which, const SparseView& psi, Shifts& shifts) {
        const Pattern old = patterns()[which];
        Pattern p = old;
        p.n_runs = 0;
        Shifts from{};  // the old run of every new one
        std::size_t run = 0;
        for (std::uint32_t e = 0; e < old.count; ++e) {
            const bool last = e + 1 == old.count, old_end = e + 1 == old.end[run];
            if (last || old_end || shift_at(old, psi, e) != shift_at(old, psi, e + 1)) {
                if (p.n_runs == kMostRuns) return false;
                shifts[p.n_runs] = static_cast<std::int32_t>(shift_at(old, psi, e));
                from[p.n_runs] = static_cast<std::int32_t>(run);
                p.end[p.n_runs++] = e + 1;
            }
            if (old_end) ++run;
        }
        if (p.n_runs > old.n_runs)
            for (std::size_t c = 0; c < n_; ++c) {
                if (heads()[c].pattern != which) continue;
                const Shifts before = heads()[c].shifts;
                for (std::size_t r = 0; r < p.n_runs; ++r) heads()[c].shifts[r] = before[static_cast<std::size_t>(from[r])];
            }
        set_print(p);
        patterns()[which] = p;
        return true;
    }

    std::uint32_t add_pattern(const SparseView& psi) {
        reserve(n_ + 1, entries_ + psi.count);
        const auto count = static_cast<std::uint32_t>(psi.count);
        Pattern& p = patterns()[n_patterns_];
        p = {entries_, count, count ? 1u : 0u, {count}, {}, 0};
        std::copy_n(psi.at, count, all_indices() + entries_);
        std::copy_n(psi.values, count, all_values() + entries_);
        set_print(p);
        entries_ += count;
        return n_patterns_++;
    }

    void store_truth() {
        reserve(1, 0);
        heads()[0] = {1, 0, {}, 0, true, false};
        patterns()[0] = {0, 0, 0, {}, {}, 0};
        set_print(patterns()[0]);
        products()[0] = 0;
        n_patterns_ = 1;
    }

    void copy_from(const Outputs& other) {
        std::copy_n(other.products(), triangle(n_), products());
        std::copy_n(other.heads(), n_, heads());
        std::copy_n(other.all_values(), entries_, all_values());
        std::copy_n(other.patterns(), n_patterns_, patterns());
        std::copy_n(other.all_indices(), entries_, all_indices());
    }

    void reserve(std::size_t n, std::size_t entries) {
        if (memory_ && n <= room_ && entries <= entry_room_) return;
        if (entries > 0xc0000000u) throw std::length_error("the outputs of a block have too many features to remember them");
        Outputs larger;
        larger.n_ = n_, larger.n_patterns_ = n_patterns_, larger.entries_ = entries_;
        larger.room_ = static_cast<std::uint32_t>(std::max<std::size_t>(n <= room_ ? room_ : n + n / 4 + 1, 3));
        larger.entry_room_ = static_cast<std::uint32_t>(entries <= entry_room_ ? entry_room_ : entries + (entry_room_ ? entries / 4 : 0));
        larger.memory_.reset(new std::byte[bytes(larger.room_, larger.entry_room_)]);
        if (memory_) larger.copy_from(*this);
        *this = std::move(larger);
    }

    std::unique_ptr<std::byte[]> memory_;
    std::uint32_t n_ = 1, n_patterns_ = 0, entries_ = 0, room_ = 0, entry_room_ = 0;
};

}  // namespace maxmargin::blocks
