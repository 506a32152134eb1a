// What the block engine takes, for all files of bindings that make such data.
#pragma once

#include <cstddef>
#include <memory>

#include "blocks/blocks.hpp"

// A problem in compiled form: immutable, shared by all engines that work on it.
struct BlockData {
    virtual ~BlockData() = default;
    virtual std::unique_ptr<maxmargin::blocks::Blocks> make() const = 0;
    // What the blocks will need at least; more if their points are to be in the interior.
    virtual std::size_t n_bytes(bool) const { return 0; }
};
