// The linear relaxation of a pairwise energy by primal-dual steps (Chambolle and Pock 2011), with steps scaled row by row (Pock and
// Chambolle 2011), averages and restarts (Applegate et al. 2021).
//
// Marginals y of nodes are in simplices, marginals x of edges are not negative, and multipliers say how much it costs if sums of x are
// not y: min over y, x, max over m of unary.y + tables.x + sum_e m_a.(sums of x - y_a) + m_b.(sums of x - y_b). For Potts tables no x is
// needed, since the best one keeps what both ends have in common: min over y, max over |m| <= cost / 2 of unary.y + sum_e m.(y_a - y_b).
// Whatever the multipliers are, minima of what they leave of the costs are a lower bound.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "labeling/roundings.hpp"
#include "numeric/compensated_sum.hpp"

namespace maxmargin::labeling {

// The nearest point of the simplex; labels of value -inf get nothing. `sorted` is room for n numbers.
inline void project_to_simplex(double* values, int n, double* sorted) {
    // Beside large values the one they are to add up to would be lost, and the point is the same for all of them less the largest.
    const double largest = *std::max_element(values, values + n);
    for (int k = 0; k < n; ++k) values[k] -= largest;
    std::copy_n(values, n, sorted);
    std::sort(sorted, sorted + n, [](double a, double b) { return a > b; });
    double sum = 0.0, shift = 0.0;
    for (int k = 0; k < n; ++k) {
        if (sorted[k] == -std::numeric_limits<double>::infinity()) break;
        sum += sorted[k];
        const double wanted = (sum - 1.0) / (k + 1);
        if (sorted[k] <= wanted) break;
        shift = wanted;
    }
    for (int k = 0; k < n; ++k) values[k] = std::max(0.0, values[k] - shift);
}

class PrimalDual {
  public:
    struct Values {
        double value, bound;
    };

    // `potts`: weights are not negative, and tables cost `slope` off the diagonal and nothing on it. Unary costs may be infinite.
    PrimalDual(std::int64_t n_nodes, int n_labels, const double* unary, const WeightedTables& pairs, bool potts, double slope, const double* start, const double* multipliers)
        : n_(n_nodes), L_(n_labels), potts_(potts), slope_(slope), unary_(unary), pairs_(pairs), degree_(static_cast<std::size_t>(n_nodes), 0), slopes_(size(n_nodes * n_labels)),
          fresh_(size(n_nodes * n_labels)), sorted_(size(n_labels)), sums_(size(pairs.n_edges * per_edge())), left_(size(n_labels)), right_(size(n_labels)), kept_(size(n_labels * n_labels)) {
        for (std::int64_t e = 0; e < 2 * pairs.n_edges; ++e) ++degree_[pairs.edges[e]];
        now_.nodes.assign(start, start + n_ * L_);
        now_.multipliers.assign(multipliers, multipliers + pairs.n_edges * per_edge());
        if (!potts_) {
            now_.pairs.resize(size(pairs.n_edges * L_ * L_));
            for (std::int64_t e = 0; e < pairs.n_edges; ++e)
                for (int i = 0; i < L_; ++i)
                    for (int j = 0; j < L_; ++j) now_.pairs[(e * L_ + i) * L_ + j] = node(now_, e, 0)[i] * node(now_, e, 1)[j];
        } else {
            for (std::int64_t e = 0; e < pairs.n_edges; ++e)
                for (int i = 0; i < L_; ++i) clip(now_.multipliers[e * L_ + i], e);
        }
        restart_from(now_);
    }

    // `n` steps, of a length that is in the unit of one over costs.
    void run(int n, double step) {
        for (int k = 0; k < n; ++k) {
            iterate(step);
            add(now_.nodes, total_.nodes);
            add(now_.pairs, total_.pairs);
            add(now_.multipliers, total_.multipliers);
            ++n_summed_;
        }
    }

    // Cost of a point of the polytope near by, and a lower bound; `averaged` of the mean of all steps since the last restart.
    Values evaluate(bool averaged) { return values(averaged ? mean() : now_); }

    // Go on from the mean, or from here; how far the nodes' marginals and the multipliers have come since the last time.
    std::pair<double, double> restart(bool averaged) {
        if (averaged) now_ = mean();
        const std::pair<double, double> moved{distance(now_.nodes, last_.nodes), distance(now_.multipliers, last_.multipliers)};
        restart_from(now_);
        return moved;
    }

    std::vector<double> nodes(bool averaged) { return averaged ? mean().nodes : now_.nodes; }

  private:
    struct State {
        std::vector<double> nodes, pairs, multipliers;
    };
    static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
    std::int64_t per_edge() const { return potts_ ? L_ : 2 * L_; }
    const double* node(const State& state, std::int64_t e, int end) const { return state.nodes.data() + static_cast<std::int64_t>(pairs_.edges[2 * e + end]) * L_; }
    void clip(double& m, std::int64_t e) const {
        const double most = 0.5 * slope_ * pairs_.weights[e];
        m = std::min(most, std::max(-most, m));
    }

    // What multipliers leave of the costs of nodes.
    void leave(const State& state, double* costs) const {
        std::copy_n(unary_, n_ * L_, costs);
        for (std::int64_t e = 0; e < pairs_.n_edges; ++e) {
            double *a = costs + static_cast<std::int64_t>(pairs_.edges[2 * e]) * L_, *b = costs + static_cast<std::int64_t>(pairs_.edges[2 * e + 1]) * L_;
            const double* m = state.multipliers.data() + e * per_edge();
            for (int i = 0; i < L_; ++i) a[i] += potts_ ? m[i] : -m[i];
            for (int i = 0; i < L_; ++i) b[i] -= potts_ ? m[i] : m[L_ + i];
        }
    }

    void iterate(double step) {
        leave(now_, slopes_.data());
        if (!potts_) move_pairs(0.5 * step);
        for (std::int64_t a = 0; a < n_; ++a) {
            double* to = fresh_.data() + a * L_;
            const double* y = now_.nodes.data() + a * L_;
            const double own = step / std::max<std::int64_t>(1, degree_[a]);
            for (int i = 0; i < L_; ++i) to[i] = y[i] - own * slopes_[a * L_ + i];
            project_to_simplex(to, L_, sorted_.data());
        }
        // The new point, and as much again, is what multipliers look at.
        for (std::int64_t k = 0; k < n_ * L_; ++k) {
            slopes_[k] = 2 * fresh_[k] - now_.nodes[k];
            now_.nodes[k] = fresh_[k];
        }
        const double along = potts_ ? 0.5 / step : 1.0 / ((L_ + 1) * step);
        for (std::int64_t e = 0; e < pairs_.n_edges; ++e) {
            const double *a = slopes_.data() + static_cast<std::int64_t>(pairs_.edges[2 * e]) * L_, *b = slopes_.data() + static_cast<std::int64_t>(pairs_.edges[2 * e + 1]) * L_;
            double* m = now_.multipliers.data() + e * per_edge();
            const double* sums = sums_.data() + e * per_edge();
            if (potts_) {
                for (int i = 0; i < L_; ++i) {
                    m[i] += along * (a[i] - b[i]);
                    clip(m[i], e);
                }
            } else {
                for (int i = 0; i < L_; ++i) m[i] += along * (sums[i] - a[i]);
                for (int i = 0; i < L_; ++i) m[L_ + i] += along * (sums[L_ + i] - b[i]);
            }
        }
    }

    void move_pairs(double step) {
        for (std::int64_t e = 0; e < pairs_.n_edges; ++e) {
            const double weight = pairs_.weights[e], *table = pairs_.table(e, L_), *m = now_.multipliers.data() + e * 2 * L_;
            double *x = now_.pairs.data() + e * L_ * L_, *sums = sums_.data() + e * 2 * L_;
            std::fill_n(sums, 2 * L_, 0.0);
            for (int i = 0; i < L_; ++i) {
                double row = 0.0;
                for (int j = 0; j < L_; ++j) {
                    double& own = x[i * L_ + j];
                    const double next = std::max(0.0, own - step * (weight * table[i * L_ + j] + m[i] + m[L_ + j])), ahead = 2 * next - own;
                    own = next;
                    row += ahead;
                    sums[L_ + j] += ahead;
                }
                sums[i] = row;
            }
        }
    }

    Values values(const State& state) {
        CompensatedSum value, bound;
        leave(state, slopes_.data());
        for (std::int64_t a = 0; a < n_; ++a) {
            for (std::int64_t k = a * L_; k < (a + 1) * L_; ++k)
                if (state.nodes[k] > 0) value.add(state.nodes[k] * unary_[k]);
            bound.add(*std::min_element(slopes_.begin() + a * L_, slopes_.begin() + (a + 1) * L_));
        }
        const std::vector<double> sums = potts_ ? std::vector<double>() : cumulative(state.nodes.data(), n_, L_);
        for (std::int64_t e = 0; e < pairs_.n_edges; ++e) {
            const double weight = pairs_.weights[e], *table = pairs_.table(e, L_), *a = node(state, e, 0), *b = node(state, e, 1);
            if (potts_) {
                double apart = 0.0;
                for (int i = 0; i < L_; ++i) apart += std::abs(a[i] - b[i]);
                value.add(0.5 * weight * slope_ * apart);
                continue;
            }
            const double* m = state.multipliers.data() + e * 2 * L_;
            double least = std::numeric_limits<double>::infinity();
            for (int i = 0; i < L_; ++i)
                for (int j = 0; j < L_; ++j) least = std::min(least, weight * table[i * L_ + j] + m[i] + m[L_ + j]);
            bound.add(least);
            // Two points of the polytope with these marginals of nodes; the cheaper one counts.
            const double mean = merged_mean(sums.data() + (a - state.nodes.data()), sums.data() + (b - state.nodes.data()), table, L_);
            value.add(std::min(weight * mean, weight * repaired(state.pairs.data() + e * L_ * L_, a, b, table)));
        }
        return {value.value(), bound.value()};
    }

    // Cost of pairs whose sums are a and b, made of some whose sums are nearly so: too much of a label is scaled down, what is then
    // lacking at both ends is put together.
    double repaired(const double* x, const double* a, const double* b, const double* table) {
        std::fill(right_.begin(), right_.end(), 0.0);
        for (int i = 0; i < L_; ++i) {
            double row = 0.0;
            for (int j = 0; j < L_; ++j) row += x[i * L_ + j];
            const double factor = row > a[i] ? a[i] / row : 1.0;
            left_[i] = a[i] - factor * row;
            for (int j = 0; j < L_; ++j) right_[j] += kept_[i * L_ + j] = factor * x[i * L_ + j];
        }
        for (int j = 0; j < L_; ++j) {
            const double factor = right_[j] > b[j] ? b[j] / right_[j] : 1.0;
            if (factor < 1.0)
                for (int i = 0; i < L_; ++i) {
                    left_[i] += (1 - factor) * kept_[i * L_ + j];
                    kept_[i * L_ + j] *= factor;
                }
            right_[j] = std::max(0.0, b[j] - factor * right_[j]);
        }
        double cost = 0.0, lacking = 0.0;
        for (int j = 0; j < L_; ++j) lacking += right_[j];
        for (int i = 0; i < L_; ++i)
            for (int j = 0; j < L_; ++j) cost += table[i * L_ + j] * (kept_[i * L_ + j] + (lacking > 0 ? std::max(0.0, left_[i]) * (right_[j] / lacking) : 0.0));
        return cost;
    }

    void restart_from(const State& state) {
        last_.nodes = state.nodes;
        last_.multipliers = state.multipliers;
        total_.nodes.assign(state.nodes.size(), 0.0);
        total_.pairs.assign(state.pairs.size(), 0.0);
        total_.multipliers.assign(state.multipliers.size(), 0.0);
        n_summed_ = 0;
    }
    State mean() const {
        if (n_summed_ == 0) return now_;
        State found = total_;
        for (std::vector<double>* part : {&found.nodes, &found.pairs, &found.multipliers})
            for (double& one : *part) one /= static_cast<double>(n_summed_);
        return found;
    }
    static void add(const std::vector<double>& from, std::vector<double>& to) {
        for (std::size_t k = 0; k < from.size(); ++k) to[k] += from[k];
    }
    static double distance(const std::vector<double>& a, const std::vector<double>& b) {
        double sum = 0.0;
        for (std::size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
        return std::sqrt(sum);
    }

    std::int64_t n_;
    int L_;
    bool potts_;
    double slope_;
    const double* unary_;
    WeightedTables pairs_;
    std::vector<std::int64_t> degree_;
    std::vector<double> slopes_, fresh_, sorted_, sums_, left_, right_, kept_;
    State now_, last_, total_;
    std::int64_t n_summed_ = 0;
};

}  // namespace maxmargin::labeling
