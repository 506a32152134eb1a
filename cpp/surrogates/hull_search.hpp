// Convex hull search (spec 10.2, with correction E15): the largest psi over the convex hull of the points (h, g) of all outputs,
// found through a decoder of h + lambda g alone, and the best output met on the way.
//
// The hull's upper right boundary is all that decoders return and all that matters, and psi rises, then falls along it. At the best
// known vertex the next question is the tangent of psi or, if a known neighbour lies above that, the edge to it; nothing above the
// line asked about is the proof.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "surrogates/psi.hpp"

namespace maxmargin::surrogates {

// An output: `id` is the caller's.
struct Vertex {
    double h, g;
    std::size_t id;
};

// The upper right hull of what was added, by rising g and falling h.
class UpperHull {
  public:
    void clear() { vertices_.clear(); }
    std::size_t size() const { return vertices_.size(); }
    const Vertex& operator[](std::size_t t) const { return vertices_[t]; }

    // False if the point is on or below the hull.
    bool add(const Vertex& p) {
        std::size_t at = 0;
        while (at < vertices_.size() && (vertices_[at].g < p.g || (vertices_[at].g == p.g && vertices_[at].h < p.h))) ++at;
        // Of those at its right, none may have as large an h; those at its left must have a larger one.
        if (at < vertices_.size() && vertices_[at].h >= p.h) return false;
        std::size_t left = at;
        while (left > 0 && vertices_[left - 1].h <= p.h) --left;
        if (left == at && at > 0 && at < vertices_.size() && !bulges(vertices_[at - 1], p, vertices_[at])) return false;
        vertices_.erase(vertices_.begin() + static_cast<std::ptrdiff_t>(left), vertices_.begin() + static_cast<std::ptrdiff_t>(at));
        vertices_.insert(vertices_.begin() + static_cast<std::ptrdiff_t>(left), p);
        // Neighbours that the new point has put below an edge.
        std::size_t t = left;
        while (t >= 2 && !bulges(vertices_[t - 2], vertices_[t - 1], vertices_[t])) vertices_.erase(vertices_.begin() + static_cast<std::ptrdiff_t>(--t));
        while (t + 2 < vertices_.size() && !bulges(vertices_[t], vertices_[t + 1], vertices_[t + 2]))
            vertices_.erase(vertices_.begin() + static_cast<std::ptrdiff_t>(t + 1));
        return true;
    }

  private:
    // Whether q is above the line from p to r, g rising.
    static bool bulges(const Vertex& p, const Vertex& q, const Vertex& r) {
        return (q.h - p.h) * (r.g - p.g) > (r.h - p.h) * (q.g - p.g);
    }
    std::vector<Vertex> vertices_;
};

// A step goes to a violating output, not to the most violating one: it may miss this part of what it is above the block's mean.
// Measured: passes make about as much progress, with a third of the questions.
constexpr double kEnough = 0.2;

struct Found {
    Vertex best;         // the best output met
    double value;        // its psi
    double bound;        // the hull's largest psi; infinite if the search ended before its proof
    std::size_t queries;
    // Of the hull: where the search ended, for a warm start.
    std::size_t at;
};

// `hull` holds the truth, at (0, 0), and whatever else is known. `query(lambda)` returns the output with the largest h + lambda g
// and, for an infinite lambda, the largest g and among those the largest h. `size` is that of the scores that the h are differences
// of: they are rounded accordingly. At most `most` questions are asked. The bound is left out, that is infinite, unless it is wanted.
//
// Without it the search may also end when little is left to find: no corner of the hull is better than the best output by more than
// `part` of what that is above `floor`, if those known are corners.
template <class Query>
Found hull_search(const Bicriteria& psi, UpperHull& hull, double size, std::size_t most, const Query& query, bool bounded = true,
                  double floor = 0, double part = 0) {
    constexpr double kRounding = 1e-12;
    Found found{hull[0], -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 0, 0};
    for (;;) {
        std::size_t t = 0;
        double top = -std::numeric_limits<double>::infinity();
        for (std::size_t k = 0; k < hull.size(); ++k)
            if (const double value = psi.value(hull[k].h, hull[k].g); value > top) top = value, t = k;
        found.at = t;
        if (top > found.value) found.value = top, found.best = hull[t];
        if (found.queries == most) return found;
        const Vertex best = hull[t];
        double lambda = psi.lambda(best.h, best.g);
        const Vertex* neighbour = nullptr;
        const double slack = kRounding * (size + std::abs(best.h));
        // At most one neighbour is above the tangent: slopes rise along the hull.
        if (t > 0 && !std::isinf(lambda)) {
            const Vertex& other = hull[t - 1];
            if (other.h - best.h > lambda * (best.g - other.g) + slack) neighbour = &other;
        }
        if (t + 1 < hull.size()) {
            const Vertex& other = hull[t + 1];
            if (std::isinf(lambda) || lambda * (other.g - best.g) > best.h - other.h + slack) neighbour = &other;
        }
        double other_g = best.g;
        if (neighbour) lambda = -(neighbour->h - best.h) / (neighbour->g - best.g), other_g = neighbour->g;
        const Vertex y = query(lambda);
        ++found.queries;
        if (std::isinf(lambda)) {
            if (y.g <= best.g || !hull.add(y)) {
                found.bound = found.value;
                return found;
            }
            continue;
        }
        const double k = y.h + lambda * y.g, known = best.h + lambda * best.g;
        // The stop is by value: the decoder may return another output on the same line.
        const bool above = k > known + kRounding * (size + std::abs(best.h) + lambda * best.g);
        if (above && !bounded && part > 0) {
            // What psi may be on the line through the answer: on the edge asked about, else between the neighbours. What is above the
            // tangent beyond a neighbour would have that one below the hull.
            double low = std::min(best.g, other_g), high = std::max(best.g, other_g);
            if (!neighbour) low = t > 0 ? hull[t - 1].g : 0, high = t + 1 < hull.size() ? hull[t + 1].g : std::max(best.g, y.g);
            const double value = std::max(found.value, psi.value(y.h, y.g)), enough = value + part * (value - floor);
            // In the middle it is quickly seen that there is more.
            const double middle = 0.5 * (low + high);
            if (value > floor && psi.value(k - lambda * middle, middle) <= enough && psi.edge_maximum(k, lambda, low, high) <= enough) {
                if (value > found.value) found.value = value, found.best = y;
                return found;
            }
        }
        if (above && hull.add(y)) continue;
        if (!bounded) return found;
        // Nothing is above the line. Along it psi is largest between the two vertices, or where it touches.
        const double line = std::max(k, known);
        found.bound = neighbour ? psi.edge_maximum(line, lambda, best.g, other_g)
                                : psi.value(best.h + (line - known), best.g);
        found.bound = std::max(found.bound, found.value);
        return found;
    }
}

}  // namespace maxmargin::surrogates
