// Data of blocks with a set of labels per sample that is closed in a tree of labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/rows.hpp"
#include "hierarchy/closed_set_search.hpp"
#include "hierarchy/closed_sets.hpp"
#include "surrogates/set_pool.hpp"

namespace maxmargin::blocks {

// Closed sets in a tree: what a node scores is w . x times the root of its weight alpha in the norm.
struct ClosedSetData {
    Rows x;
    const std::uint8_t* y;  // n x M zeros and ones
    const double* weights;  // what the hinge of every sample counts; null if all count alike
    std::shared_ptr<const structures::LabelTree> tree;
    const double* roots;  // of alpha, per node
    SetSurrogate surrogate;

    using Search = ClosedSetSearch;
    static constexpr bool kScaled = true;

    Search search() const { return {tree, surrogate}; }
    std::size_t n_labels() const { return tree->size(); }
    std::size_t n_pairs() const { return 0; }
    template <class Visit>
    void for_beside(std::size_t, const Visit&) const {}
    double root(std::size_t k) const { return roots[k]; }
    const std::uint8_t* truth(std::size_t i) const { return y + i * n_labels(); }
    double counts(std::size_t i) const { return weights ? weights[i] : 1; }
};

}  // namespace maxmargin::blocks
