// The compiled losses by name, with what stands behind the name: "ap", "ndcg@10", "rbp(p=0.8)".
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ranking/cutoff.hpp"
#include "ranking/search.hpp"

namespace maxmargin::ranking {

// A loss and its parameters; makes the search for one list.
class BuiltIn {
  public:
    // Throws if the name is unknown. `longest` is a number of samples that no list exceeds.
    BuiltIn(const std::string& name, std::int64_t longest) {
        const std::size_t end = name.find_first_of("@(");
        const std::string plain = name.substr(0, end), rest = end == std::string::npos ? "" : name.substr(end);
        static const struct {
            const char* name;
            Kind kind;
        } known[] = {{"ap", Kind::ap}, {"ndcg", Kind::ndcg}, {"mrr", Kind::mrr}, {"p", Kind::precision}, {"recall", Kind::recall},
                     {"auc", Kind::auc}, {"rbp", Kind::rbp}};
        const auto* found = std::find_if(std::begin(known), std::end(known), [&](const auto& entry) { return plain == entry.name; });
        bool fine = found != std::end(known);
        if (fine) kind_ = found->kind;
        if (fine && kind_ == Kind::rbp) {
            persistence_ = rest.rfind("(p=", 0) == 0 ? std::strtod(rest.c_str() + 3, nullptr) : 0;
            fine = persistence_ > 0 && persistence_ < 1;
            for (std::int64_t k = 0; fine && k < std::min(longest, Rbp::kTable); ++k)
                powers_.push_back(std::pow(persistence_, static_cast<double>(k)));
        } else if (fine && !rest.empty()) {
            at_ = std::strtoll(rest.c_str() + 1, nullptr, 10);
            fine = rest[0] == '@' && at_ >= 1 && kind_ != Kind::auc;
            if (fine) worth_ = Worth(counted(), at_, longest);
        } else if (fine) {
            fine = kind_ != Kind::precision && kind_ != Kind::recall;
        }
        if (!fine) throw std::invalid_argument("unknown built-in loss '" + name + "'");
    }

    std::unique_ptr<Search> operator()(const double* positives, std::int64_t n_pos, std::int64_t n_neg, double scale) const {
        const auto made = [&](const auto& loss) -> std::unique_ptr<Search> {
            return std::make_unique<LossSearch<std::decay_t<decltype(loss)>>>(positives, n_pos, n_neg, scale, loss);
        };
        // The cut-off of a list that is not longer cuts nothing off, and all positives are found.
        const bool cut = at_ < n_pos + n_neg;
        if (cut) return std::make_unique<CutoffSearch>(positives, n_pos, n_neg, scale, FirstPlaces(worth_, n_pos, n_neg));
        switch (kind_) {
            case Kind::ap: return made(AveragePrecision(n_pos, n_neg));
            case Kind::ndcg: return made(Ndcg(n_pos, n_neg));
            case Kind::mrr: return made(ReciprocalRank(n_pos, n_neg));
            case Kind::auc: return made(Auc(n_pos, n_neg));
            case Kind::rbp: return made(Rbp(n_pos, n_neg, persistence_, powers_));
            default: return made(Nothing());
        }
    }

  private:
    enum class Kind { ap, ndcg, mrr, precision, recall, auc, rbp };

    Counted counted() const {
        switch (kind_) {
            case Kind::ap: return Counted::ap;
            case Kind::ndcg: return Counted::ndcg;
            case Kind::mrr: return Counted::mrr;
            case Kind::precision: return Counted::precision;
            default: return Counted::recall;
        }
    }

    Kind kind_ = Kind::auc;
    std::int64_t at_ = std::numeric_limits<std::int64_t>::max();
    double persistence_ = 0;
    std::vector<double> powers_;
    Worth worth_;
};

}  // namespace maxmargin::ranking
