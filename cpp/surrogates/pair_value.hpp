// The value of a pair of labels in a set of labels or in a point of its linear relaxation.
#pragma once

#include <algorithm>

namespace maxmargin::structures {

// What a pair has of two labels: both or neither of sets, and of halves as much of a good pair as its labels allow, and as little of
// a bad one.
inline double pair_value(double first, double second, double score) {
    return score > 0 ? std::min(first, second) : std::max(first + second - 1, 0.0);
}

}  // namespace maxmargin::structures
