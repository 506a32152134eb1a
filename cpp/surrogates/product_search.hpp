// Searches for the largest (1 + h) g, slack rescaling, through an oracle of a h + b g: the convex hull search (spec 10.2 with E15) and
// bisecting (spec 8.4 with E7). They say what the searches in Python say, question by question: psi is a product here, so that nothing
// but the oracle's answers need come from there. Points are numbers with the caller's object; outputs are known again by their keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace maxmargin::surrogates {

struct PlanePoint {
    double h, g;
    // Keys are numbered as they come, objects are the caller's.
    std::size_t key, object;

    double product() const { return (1 + h) * g; }
    // Of the loss alone if a is zero, however large h is.
    double along(double a, double b) const { return a != 0 ? a * h + b * g : b * g; }
    // Of the numbers that are added up along a line.
    double size(double a, double b) const { return std::abs(a * h) + std::abs(b * g); }
};

// The best output found for a question, and an upper bound of a h + b g.
struct PlaneAnswer {
    bool found;
    PlanePoint point;
    double upper;
};

struct PlaneStep {
    double a, b;
    PlaneAnswer answer;
};

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Differences of values below this part of them are rounding.
constexpr double kValueRounding = 1e-9;

// Corners of the hull to the upper right, by rising loss.
class PlaneHull {
  public:
    bool empty() const { return corners_.empty(); }
    std::size_t size() const { return corners_.size(); }
    const PlanePoint& operator[](std::size_t k) const { return corners_[k]; }

    void add(const std::vector<PlanePoint>& points) {
        all_.swap(corners_);
        corners_.clear();
        // Into a short list that is in order, after its equals.
        for (const PlanePoint& point : points)
            all_.insert(std::upper_bound(all_.begin(), all_.end(), point, [](const PlanePoint& p, const PlanePoint& q) { return p.g < q.g || (p.g == q.g && p.h < q.h); }), point);
        for (const PlanePoint& point : all_) {
            while (!corners_.empty() && corners_.back().h <= point.h) corners_.pop_back();
            while (corners_.size() > 1 && !turns(corners_[corners_.size() - 2], corners_.back(), point)) corners_.pop_back();
            corners_.push_back(point);
        }
    }

  private:
    // Whether the middle one is above the line of the others, by more than rounding.
    static bool turns(const PlanePoint& left, const PlanePoint& middle, const PlanePoint& right) {
        const double first = (middle.h - left.h) * (right.g - left.g), second = (right.h - left.h) * (middle.g - left.g);
        return first - second > 1e-12 * (std::abs(first) + std::abs(second));
    }
    std::vector<PlanePoint> corners_, all_;
};

// What no single output is worth more than, where only some losses are possible: by all lines that were asked.
class ProductCeiling {
  public:
    explicit ProductCeiling(std::vector<double> losses) : losses_(std::move(losses)) {
        losses_.erase(std::remove_if(losses_.begin(), losses_.end(), [](double g) { return !(g > 0); }), losses_.end());
        tops_.assign(losses_.size(), kInfinite);
        upper = losses_.empty() ? 0 : kInfinite;
    }
    double upper;

    void lower(double a, double b, double most) {
        if (a <= 0 || losses_.empty()) return;
        double best = 0;
        for (std::size_t k = 0; k < losses_.size(); ++k) {
            tops_[k] = std::min(tops_[k], (most - b * losses_[k]) / a);
            best = std::max(best, (1 + tops_[k]) * losses_[k]);
        }
        upper = best * (1 + kValueRounding);
    }

  private:
    std::vector<double> losses_, tops_;
};

// Outputs by their keys, each with its last point, and the best of them or the truth.
class PlaneSeen {
  public:
    PlaneSeen(const PlanePoint& truth, const std::vector<PlanePoint>& known) : truth_(truth) {
        for (const PlanePoint& point : known) put(point);
        find_best();
    }
    bool empty() const { return order_.empty(); }
    std::size_t size() const { return order_.size(); }
    double top() const { return top_; }
    const PlanePoint& best() const { return best_; }
    // psi of the output, wherever it was when its corner was found.
    double value(const PlanePoint& corner) const { return points_[corner.key].product(); }
    std::vector<PlanePoint> all() const {
        std::vector<PlanePoint> found;
        for (const std::size_t key : order_) found.push_back(points_[key]);
        return found;
    }

    // Whether it is new.
    bool add(const PlanePoint& point) {
        const bool old = has(point.key);
        if (old && points_[point.key].h == point.h && points_[point.key].g == point.g) return false;
        put(point);
        // What was known of it, the best one perhaps, holds no longer.
        if (old) find_best();
        else if (point.product() > top_) best_ = point, top_ = point.product();
        return true;
    }

  private:
    bool has(std::size_t key) const { return key < known_.size() && known_[key]; }
    void put(const PlanePoint& point) {
        if (point.key >= known_.size()) known_.resize(point.key + 1), points_.resize(point.key + 1);
        if (!known_[point.key]) order_.push_back(point.key);
        known_[point.key] = true;
        points_[point.key] = point;
    }
    void find_best() {
        best_ = truth_;
        top_ = has(truth_.key) ? points_[truth_.key].product() : truth_.product();
        for (const std::size_t key : order_)
            if (points_[key].product() > top_) best_ = points_[key], top_ = best_.product();
    }

    PlanePoint truth_, best_{};
    double top_ = 0;
    std::vector<bool> known_;
    std::vector<PlanePoint> points_;
    std::vector<std::size_t> order_;  // keys as they came
};

struct HullFound {
    // The best point of the hull: one output, or the part `place` of the way from the first to the second.
    std::vector<PlanePoint> labels;
    double place = 0, value = 0;
    PlanePoint incumbent{};
    double best = 0;
    // Infinite if the search ended without a proof; then lines say more where losses are not known.
    double upper = kInfinite;
    bool open = false;
    std::vector<PlaneStep> trace;
    PlaneHull hull;
};

struct HullOptions {
    const double* first = nullptr;  // weight of the loss in a first question
    double enough = -kInfinite;     // the value of an output that is known from elsewhere
    std::size_t max_calls = 500;
    // The search may end when the lines of all answers leave no loss room for more than the best output and this part of it.
    double tolerance = 0;
};

template <class Ask>
class ProductHullSearch {
  public:
    // `known` are the points to begin with, the truth among them if it is one; `ceiling` may be null.
    ProductHullSearch(const PlanePoint& truth, const std::vector<PlanePoint>& known, ProductCeiling* ceiling, const HullOptions& options, const Ask& ask)
        : seen_(truth, known), ceiling_(ceiling), options_(options), ask_(ask) {
        // Of what the oracle finds, whatever it may have missed.
        if (ceiling && options.tolerance > 0) reach_ = *ceiling;
    }

    HullFound run() {
        hull_.add(seen_.all());
        if (options_.first && seen_.size() <= 1) ask(1, *options_.first);
        else if (seen_.empty()) ask(1, 0);
        bool proved = false, ended = true;
        PlaneHull corners = hull_;
        std::size_t corner = 0, neighbour = kNone;
        while (!hull_.empty() && !settled()) {
            corners = hull_;
            double lambda = 0;
            corner = best_corner(corners, lambda);
            neighbour = above(corners, corner, lambda);
            const PlanePoint own = corners[corner], other = corners[neighbour == kNone ? corner : neighbour];
            if (neighbour != kNone) lambda = -(other.h - own.h) / (other.g - own.g);
            const auto [a, b] = weights(lambda);
            ended = false;
            if (found_.trace.size() >= options_.max_calls) break;
            const PlaneAnswer answer = ask(a, b);
            const double least = own.along(a, b);
            // Of the terms of both sums: near the truth the sums themselves are differences of much larger numbers.
            const double size = own.size(a, b) + other.size(a, b) + (answer.found ? answer.point.size(a, b) : 0);
            if (!answer.found || answer.point.along(a, b) <= least + kFlat * size) {
                proved = answer.upper <= least + kFlat * size;
                break;
            }
            ended = true;
        }
        // Nothing, or nothing better than a single output: of mixtures nothing is said.
        if (ended) corners = hull_, neighbour = kNone;
        found_.hull = std::move(corners);
        finish(corner, neighbour, proved);
        return std::move(found_);
    }

  private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    // A point is above a line if it is so by this part of the numbers of the line.
    static constexpr double kFlat = 1e-11;

    static std::pair<double, double> weights(double lambda) { return lambda <= 1 ? std::pair{1.0, lambda} : std::pair{1 / lambda, 1.0}; }

    PlaneAnswer ask(double a, double b) {
        const PlaneAnswer answer = ask_(a, b);
        found_.trace.push_back({a, b, answer});
        if (ceiling_) ceiling_->lower(a, b, answer.upper);
        if (answer.found) reach_.lower(a, b, answer.point.along(a, b));
        if (answer.found && seen_.add(answer.point)) hull_.add({answer.point});
        return answer;
    }

    // Whether the lines leave no room for anything better than the best single output.
    bool settled() const {
        if (!ceiling_ || found_.trace.empty()) return false;
        const double best = std::max(options_.enough, seen_.top());
        return ceiling_->upper <= best * (1 + 2 * kValueRounding) || (options_.tolerance > 0 && reach_.upper <= best * (1 + options_.tolerance));
    }

    // The corner where psi is largest, and the weight of the loss along its tangent there. Where psi is negative everywhere its contours
    // need not be convex; but that of zero is, and the corner nearest to it in h leads there.
    std::size_t best_corner(const PlaneHull& hull, double& lambda) const {
        std::size_t corner = 0;
        for (std::size_t k = 1; k < hull.size(); ++k)
            if (seen_.value(hull[k]) > seen_.value(hull[corner])) corner = k;
        double at = hull[corner].h;
        if (seen_.value(hull[corner]) < 0) {
            corner = 0;
            for (std::size_t k = 1; k < hull.size(); ++k)
                if (hull[k].h > hull[corner].h) corner = k;
            at = -1;
        }
        lambda = (1 + at) / hull[corner].g;
        // At the truth every contour is level, and the loss alone counts.
        lambda = std::isnan(lambda) ? kInfinite : std::max(0.0, lambda);
        return corner;
    }

    // The neighbour of a corner that lies above the tangent there; no two can, or the corner would be none.
    static std::size_t above(const PlaneHull& hull, std::size_t corner, double lambda) {
        const auto [a, b] = weights(lambda);
        const PlanePoint& own = hull[corner];
        std::size_t found = kNone;
        for (const std::size_t k : {corner - 1, corner + 1}) {
            if (k >= hull.size()) continue;
            const double rise = hull[k].along(a, b) - own.along(a, b);
            if (!(rise > 0 && rise > kFlat * (own.size(a, b) + hull[k].size(a, b)))) continue;
            if (found != kNone) throw std::logic_error("both neighbours of a corner are above its tangent");
            found = k;
        }
        return found;
    }

    void finish(std::size_t corner, std::size_t neighbour, bool proved) {
        found_.incumbent = seen_.best();
        found_.best = found_.value = seen_.top();
        found_.labels = {found_.incumbent};
        if (neighbour != kNone) {
            // Nothing is above the tangent of psi on the way to a neighbour that is not itself.
            const PlanePoint p = found_.hull[corner], q = found_.hull[neighbour];
            const double dh = q.h - p.h, dg = q.g - p.g;
            double place = q.product() > p.product();
            if (dh * dg < 0) place = std::clamp(-((1 + p.h) * dg + p.g * dh) / (2 * dh * dg), 0.0, 1.0);
            const double there = (1 + p.h + place * dh) * (p.g + place * dg);
            if (there > found_.value + kValueRounding * std::abs(found_.value) && 0 < place && place < 1)
                found_.value = there, found_.labels = {p, q}, found_.place = place;
        }
        // The optimum of the hull; what a search for it may have missed by rounding is no more than that.
        found_.upper = found_.labels.size() == 2 ? found_.value * (1 + kValueRounding) : found_.value;
        if (!found_.trace.empty() && !found_.trace.back().answer.found) {
            // There is no output at all.
            found_.upper = found_.best;
        } else if (!proved) {
            found_.upper = kInfinite;
            found_.open = !ceiling_ || std::isinf(ceiling_->upper);
        }
        if (ceiling_) found_.upper = std::min(found_.upper, ceiling_->upper);
    }

    PlaneSeen seen_;
    PlaneHull hull_;
    ProductCeiling *ceiling_, reach_{{}};
    HullOptions options_;
    const Ask& ask_;
    HullFound found_;
};

struct BisectFound {
    PlanePoint incumbent;
    double best, upper;
    std::vector<PlaneStep> trace;
    std::vector<PlanePoint> seen;
};

// Halve the range of the weight of the loss that the best output can have, from `start` or, if that is null, from the ratio of the
// largest 1 + h and the largest loss.
template <class Ask>
BisectFound bisect_product(const PlanePoint& truth, const std::vector<PlanePoint>& known, const double* start, double tolerance, std::size_t max_calls, const Ask& ask) {
    // How far the weight of the loss may go from where it began.
    constexpr double kRange = 1e12;
    BisectFound found{truth, 0, kInfinite, {}, {}};
    PlaneSeen seen(truth, {truth});
    const auto take = [&](const PlanePoint& point) {
        seen.add(point);
        if (point.product() > found.incumbent.product()) found.incumbent = point;
    };
    for (const PlanePoint& point : known) take(point);
    const auto probe = [&](double a, double b) {
        const PlaneAnswer answer = ask(a, b);
        if (!answer.found) throw std::invalid_argument("the oracle found no output, not even the truth; bisecting needs one for every question");
        found.trace.push_back({a, b, answer});
        take(answer.point);
        // With K = 1 + h + lambda g nothing exceeds K^2 / (4 lambda).
        const double most = 1 + answer.upper;
        if (a > 0 && b > 0) found.upper = std::min(found.upper, most * most / (4 * b));
        return answer;
    };
    double first = 1;
    if (start) {
        first = *start;
    } else {
        const double most_h = 1 + probe(1, 0).upper, most_g = probe(0, 1).upper;
        found.upper = std::min(found.upper, std::max(0.0, most_h) * most_g);
        if (most_g > 0 && most_h > 0) first = most_h / most_g;
    }
    double lambda = first, low = 0, high = kInfinite;
    PlanePoint at_low{}, at_high{};
    bool has_low = false, has_high = false;
    while (found.trace.size() < max_calls && first / kRange <= lambda && lambda <= first * kRange) {
        const PlanePoint point = probe(1, lambda).point;
        if (found.upper <= found.incumbent.product() * (1 + tolerance)) break;
        if (lambda * point.g <= 1 + point.h) low = lambda, at_low = point, has_low = true;
        else high = lambda, at_high = point, has_high = true;
        const bool same = has_low && has_high && at_low.h == at_high.h && at_low.g == at_high.g;
        if (same || (high - low <= tolerance * high && tolerance * high < kInfinite)) break;
        lambda = high == kInfinite ? 2 * lambda : low == 0 ? 0.5 * lambda : std::sqrt(low * high);
    }
    found.best = found.incumbent.product();
    found.upper = std::max(found.best, found.upper);
    found.seen = seen.all();
    return found;
}

}  // namespace maxmargin::surrogates
