// Projective dependency trees (Eisner): the best in O(n^3), the k best by looking lazily for the next best of every span.
//
// Spans of words s .. t come in three kinds: `right` has the head s and all words depend on it, `left` has the head t, and
// `joined` is a right span s .. r and a left span r + 1 .. t beside each other, ready for an arc between s and t, whichever way.
// The root is above all words, so it is added at the end: over one tree, or over several, one after the other. Every tree is made
// in exactly one way, so no tree comes twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "numeric/clones.hpp"
#include "parsing/arc_scores.hpp"

namespace maxmargin::structures {

// max over i of a[i] + b[i]. Maxima do not depend on the order in which they are taken: the bits are the same at any width.
MAXMARGIN_INLINE double largest_sum(const double* a, const double* b, std::size_t count) {
    double best = kForbidden;
    std::size_t i = 0;
    if (count >= 4) {
        Quad top{kForbidden, kForbidden, kForbidden, kForbidden}, x, y;
        for (; i + 4 <= count; i += 4) {
            std::memcpy(&x, a + i, sizeof x);
            std::memcpy(&y, b + i, sizeof y);
            x += y;
            top = x > top ? x : top;
        }
        for (int j = 0; j < 4; ++j) best = top[j] > best ? top[j] : best;
    }
    for (; i < count; ++i) best = a[i] + b[i] > best ? a[i] + b[i] : best;
    return best;
}

// Values of all spans of a sentence, each kind in the order in which it is read: by its first word or by its last one.
struct Spans {
    std::size_t n = 0, stride = 0;
    std::vector<double> memory;
    double *right_from, *right_to, *left_from, *left_to, *joined, *arc_right, *arc_left;

    void resize(std::size_t n_words) {
        n = n_words;
        stride = n + 2;
        const std::size_t size = stride * stride;
        if (memory.size() < 7 * size) memory.resize(7 * size);
        double** all[] = {&right_from, &right_to, &left_from, &left_to, &joined, &arc_right, &arc_left};
        for (std::size_t k = 0; k < 7; ++k) *all[k] = memory.data() + k * size;
    }
    double right(std::size_t s, std::size_t t) const { return right_from[s * stride + t]; }
    double left(std::size_t s, std::size_t t) const { return left_to[t * stride + s]; }
};

// `arcs` has the score of the arc from h to m at h * (n + 1) + m.
MAXMARGIN_INLINE void fill_spans_body(Spans& spans, const double* arcs) {
    const std::size_t n = spans.n, S = spans.stride, N = n + 1;
    for (std::size_t s = 1; s <= n; ++s)
        spans.right_from[s * S + s] = spans.right_to[s * S + s] = spans.left_from[s * S + s] = spans.left_to[s * S + s] = 0;
    for (std::size_t width = 1; width < n; ++width)
        for (std::size_t s = 1, t = 1 + width; t <= n; ++s, ++t) {
            const double joined = largest_sum(spans.right_from + s * S + s, spans.left_to + t * S + s + 1, width);
            spans.joined[s * S + t] = joined;
            spans.arc_right[s * S + t] = joined + arcs[s * N + t];
            spans.arc_left[t * S + s] = joined + arcs[t * N + s];
            const double left = largest_sum(spans.left_from + s * S + s, spans.arc_left + t * S + s, width);
            const double right = largest_sum(spans.arc_right + s * S + s + 1, spans.right_to + t * S + s + 1, width);
            spans.left_from[s * S + t] = spans.left_to[t * S + s] = left;
            spans.right_from[s * S + t] = spans.right_to[t * S + s] = right;
        }
}
inline constexpr auto fill_spans = compiled_twice<&fill_spans_body>;

class Eisner {
  public:
    // Heads of the words of the best tree.
    void best(const ArcScores& scores, bool single_root, std::int32_t* heads) {
        fill(scores, single_root);
        todo_.clear();
        for (std::size_t t = spans_.n; t > 0;) {
            std::size_t root, first;
            if (single_root) {
                root = place(t, [&](std::size_t r) { return through_root(r); }, total_);
                first = 1;
            } else {
                root = place(t, [&](std::size_t r) { return rooted_[r] + spans_.right(r, t); }, roots_[t]);
                first = place(root, [&](std::size_t b) { return roots_[b - 1] + spans_.left(b, root) + arcs_[root]; }, rooted_[root]);
            }
            heads[root - 1] = 0;
            todo_.push_back({Kind::left, first, root});
            todo_.push_back({Kind::right, root, t});
            t = first - 1;
        }
        while (!todo_.empty()) {
            const Span span = todo_.back();
            todo_.pop_back();
            take_apart(span, heads);
        }
    }

    // The k best trees that use no forbidden arc, best first; fewer if there are no more.
    std::vector<DependencyTree> k_best(const ArcScores& scores, bool single_root, std::size_t k) {
        std::vector<DependencyTree> found;
        if (k == 0) return found;
        list(scores, single_root, [&](DependencyTree&& tree) {
            found.push_back(std::move(tree));
            return found.size() < k;
        });
        return found;
    }

    // Trees that use no forbidden arc, best first, for as long as `visit(tree)` wants more; true if it has seen them all.
    template <class Visit>
    bool list(const ArcScores& scores, bool single_root, const Visit& visit) {
        fill(scores, single_root);
        scores_ = scores;
        nodes_.clear();
        node_at_.assign(6 * spans_.stride * spans_.stride, -1);
        label_order_.assign(scores.n_labels > 1 ? scores.n_nodes() * scores.n_nodes() : 0, {});
        const Span whole{single_root ? Kind::tree : Kind::roots, 1, spans_.n};
        double value;
        for (std::size_t rank = 0; value_of(whole, rank, value); ++rank) {
            DependencyTree tree{std::vector<std::int32_t>(spans_.n), std::vector<std::int32_t>(spans_.n), 0};
            build(whole, rank, tree);
            tree.score = score_of(scores, tree.heads.data(), tree.labels.data());
            if (!visit(std::move(tree))) return false;
        }
        return true;
    }

  private:
    // `roots` are words 1 .. t under the root, `rooted` the same where the last child of the root is its last word, t; `tree` is
    // all words under one child of the root; `arc` is the arc from s to t, with its labels.
    enum class Kind : std::uint8_t { left, right, joined, roots, rooted, tree, arc, none };
    struct Span {
        Kind kind;
        std::size_t s, t;
    };
    // One way to make a span: where it is split, and the which-th best of every part.
    struct Derivation {
        std::uint32_t split;
        std::uint32_t ranks[3];
        double score;
        bool operator<(const Derivation& other) const { return score < other.score; }
    };
    struct Node {
        std::vector<Derivation> found, next;
        bool followed = false;  // whether what comes after the last one found is among the next
    };
    struct Parts {
        Span part[3];
    };

    void fill(const ArcScores& scores, bool single_root) {
        const std::size_t n = scores.n_words, N = n + 1;
        spans_.resize(n);
        if (scores.n_labels == 1) {
            arcs_ = scores.values;
        } else {
            best_of_labels_.resize(N * N);
            for (std::size_t h = 0; h < N; ++h)
                for (std::size_t m = 1; m < N; ++m) best_of_labels_[h * N + m] = scores.best(h, m);
            arcs_ = best_of_labels_.data();
        }
        fill_spans(spans_, arcs_);
        if (single_root) {
            total_ = kForbidden;
            for (std::size_t r = 1; r <= n; ++r) total_ = std::max(total_, through_root(r));
            return;
        }
        roots_.assign(N, 0.0);
        rooted_.assign(N, 0.0);
        for (std::size_t t = 1; t <= n; ++t) {
            rooted_[t] = largest_sum(roots_.data(), spans_.left_to + t * spans_.stride + 1, t) + arcs_[t];
            roots_[t] = largest_sum(rooted_.data() + 1, spans_.right_to + t * spans_.stride + 1, t);
        }
    }

    double through_root(std::size_t r) const { return spans_.left(1, r) + arcs_[r] + spans_.right(r, spans_.n); }

    // Which of 1 .. last has the value: the maximum was one of these sums, so it is there to the bit.
    template <class F>
    static std::size_t place(std::size_t last, const F& f, double value) {
        for (std::size_t r = 1; r <= last; ++r)
            if (f(r) == value) return r;
        return last;
    }

    void take_apart(const Span& span, std::int32_t* heads) {
        const std::size_t s = span.s, t = span.t, S = spans_.stride, width = t - s;
        if (width == 0) return;
        const bool left = span.kind == Kind::left;
        const double* a = left ? spans_.left_from + s * S + s : spans_.arc_right + s * S + s + 1;
        const double* b = left ? spans_.arc_left + t * S + s : spans_.right_to + t * S + s + 1;
        const std::size_t r = s + place(width, [&](std::size_t i) { return a[i - 1] + b[i - 1]; },
                                        left ? spans_.left(s, t) : spans_.right(s, t)) - (left ? 1 : 0);
        // The arc joins the two ends of the words between head and child.
        const std::size_t first = left ? r : s, last = left ? t : r;
        heads[r - 1] = static_cast<std::int32_t>(left ? t : s);
        const double* c = spans_.right_from + first * S + first;
        const double* d = spans_.left_to + last * S + first + 1;
        const std::size_t q = first - 1 + place(last - first, [&](std::size_t i) { return c[i - 1] + d[i - 1]; }, spans_.joined[first * S + last]);
        todo_.push_back({Kind::right, first, q});
        todo_.push_back({Kind::left, q + 1, last});
        if (left) todo_.push_back({Kind::left, s, r});
        else todo_.push_back({Kind::right, r, t});
    }

    // ---- the next best, lazily ----------------------------------------------------------------------------------------------

    static bool is_empty(const Span& span) {
        return (span.kind == Kind::roots && span.t == 0) || ((span.kind == Kind::left || span.kind == Kind::right) && span.s == span.t);
    }

    // Where a span may be split: first and last.
    static std::pair<std::size_t, std::size_t> splits(const Span& span) {
        switch (span.kind) {
            case Kind::left:
            case Kind::joined: return {span.s, span.t - 1};
            case Kind::right: return {span.s + 1, span.t};
            default: return {1, span.t};
        }
    }

    Parts parts_of(const Span& span, std::size_t r) const {
        const std::size_t s = span.s, t = span.t;
        switch (span.kind) {
            case Kind::joined: return {{{Kind::right, s, r}, {Kind::left, r + 1, t}, {Kind::none, 0, 0}}};
            case Kind::right: return {{{Kind::joined, s, r}, {Kind::arc, s, r}, {Kind::right, r, t}}};
            case Kind::left: return {{{Kind::joined, r, t}, {Kind::arc, t, r}, {Kind::left, s, r}}};
            case Kind::tree: return {{{Kind::left, 1, r}, {Kind::arc, 0, r}, {Kind::right, r, t}}};
            case Kind::roots: return {{{Kind::rooted, 1, r}, {Kind::right, r, t}, {Kind::none, 0, 0}}};
            default: return {{{Kind::roots, 1, r - 1}, {Kind::left, r, t}, {Kind::arc, 0, t}}};  // rooted
        }
    }

    const std::vector<std::int32_t>& labels_of(std::size_t head, std::size_t word) {
        std::vector<std::int32_t>& order = label_order_[head * scores_.n_nodes() + word];
        if (order.empty()) {
            order.resize(scores_.n_labels);
            for (std::size_t l = 0; l < order.size(); ++l) order[l] = static_cast<std::int32_t>(l);
            const double* s = scores_.of(head, word);
            std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return s[a] > s[b]; });
        }
        return order;
    }

    // The score of the rank-th best of a part; false if there is none. That of the best is known without looking for it: sums are
    // added in the same order there.
    bool value_of(const Span& span, std::size_t rank, double& value) {
        if (span.kind == Kind::arc) {
            if (rank >= scores_.n_labels) return false;
            const double* s = scores_.of(span.s, span.t);
            if (scores_.n_labels == 1) value = *s;
            else value = rank == 0 ? arcs_[span.s * scores_.n_nodes() + span.t] : s[labels_of(span.s, span.t)[rank]];
            return value > kForbidden;
        }
        if (span.kind == Kind::none || is_empty(span)) {
            value = 0;
            return rank == 0;
        }
        if (rank == 0) {
            value = best_of(span);
            return value > kForbidden;
        }
        return found_in(span, rank, value);
    }

    double best_of(const Span& span) const {
        switch (span.kind) {
            case Kind::left: return spans_.left(span.s, span.t);
            case Kind::right: return spans_.right(span.s, span.t);
            case Kind::joined: return spans_.joined[span.s * spans_.stride + span.t];
            case Kind::roots: return roots_[span.t];
            case Kind::rooted: return rooted_[span.t];
            default: return total_;
        }
    }

    // Look for the rank-th best of a span and all before it.
    bool found_in(const Span& span, std::size_t rank, double& value) {
        Node& node = node_of(span);
        while (node.found.size() <= rank) {
            if (!node.followed && !node.found.empty()) follow(span, node);
            if (node.next.empty()) return false;
            std::pop_heap(node.next.begin(), node.next.end());
            node.found.push_back(node.next.back());
            node.next.pop_back();
            node.followed = false;
        }
        value = node.found[rank].score;
        return true;
    }

    Node& node_of(const Span& span) {
        std::int32_t& at = node_at_[(static_cast<std::size_t>(span.kind) * spans_.stride + span.s) * spans_.stride + span.t];
        if (at >= 0) return nodes_[static_cast<std::size_t>(at)];
        at = static_cast<std::int32_t>(nodes_.size());
        nodes_.emplace_back();
        Node& node = nodes_.back();
        const auto [first, last] = splits(span);
        for (std::size_t r = first; r <= last; ++r) push(span, node, {static_cast<std::uint32_t>(r), {0, 0, 0}, 0});
        return node;
    }

    void push(const Span& span, Node& node, Derivation derivation) {
        const Parts parts = parts_of(span, derivation.split);
        double values[3];
        for (int p = 0; p < 3; ++p)
            if (!value_of(parts.part[p], derivation.ranks[p], values[p])) return;
        derivation.score = values[0] + values[1];
        if (parts.part[2].kind != Kind::none) derivation.score += values[2];
        node.next.push_back(derivation);
        std::push_heap(node.next.begin(), node.next.end());
    }

    // What comes after the last one found: one part's next best. Every triple of ranks comes from one other only, that with its
    // last rank above zero lowered, so none is pushed twice.
    void follow(const Span& span, Node& node) {
        node.followed = true;
        const Derivation last = node.found.back();
        for (int p = 2; p >= 0; --p) {
            Derivation other = last;
            ++other.ranks[p];
            push(span, node, other);
            if (last.ranks[p] > 0) break;
        }
    }

    void build(const Span& span, std::size_t rank, DependencyTree& tree) {
        if (span.kind == Kind::none || is_empty(span)) return;
        if (span.kind == Kind::arc) {
            tree.heads[span.t - 1] = static_cast<std::int32_t>(span.s);
            tree.labels[span.t - 1] = scores_.n_labels == 1 ? 0 : labels_of(span.s, span.t)[rank];
            return;
        }
        double value;
        found_in(span, rank, value);
        const Derivation own = node_of(span).found[rank];
        const Parts parts = parts_of(span, own.split);
        for (int p = 0; p < 3; ++p) build(parts.part[p], own.ranks[p], tree);
    }

    Spans spans_;
    const double* arcs_ = nullptr;
    std::vector<double> best_of_labels_, roots_, rooted_;
    double total_ = 0;
    std::vector<Span> todo_;
    ArcScores scores_{};
    std::deque<Node> nodes_;
    std::vector<std::int32_t> node_at_;
    std::vector<std::vector<std::int32_t>> label_order_;
};

}  // namespace maxmargin::structures
