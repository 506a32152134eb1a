"""Rankings: losses, metrics, inference, and estimators for queries, long lists, bags and linked samples."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.ranking.approximate import ApproximateRankingSVM
    from maxmargin.ranking.bags import Bags, supervised_share
    from maxmargin.ranking.base import loss_of_ranking, scaling_advice, trained_metric
    from maxmargin.ranking.binary import BinaryProblem
    from maxmargin.ranking.checked import checked_loss
    from maxmargin.ranking.descent import Attempt, DirectHistory, DirectLists, Steps, Trial, checkpoints_of, descend, try_descents
    from maxmargin.ranking.direct import DirectLossMinimizer
    from maxmargin.ranking.direct_inference import direct_losses, losses_by_score
    from maxmargin.ranking.direct_problem import DirectRanking
    from maxmargin.ranking.high_order import HighOrderRankingSVM
    from maxmargin.ranking.high_order_problem import HighOrderBinaryProblem, HighOrderRankingProblem, LinkedSamples
    from maxmargin.ranking.inference import (
        ViolatingRanking,
        ViolatingRankings,
        most_violating_ranking,
        most_violating_rankings,
        solve_lists,
    )
    from maxmargin.ranking.latent import LatentRankingSVM
    from maxmargin.ranking.latent_problem import JointLatentRankingProblem, LatentBinaryProblem, LatentRankingProblem
    from maxmargin.ranking.losses import (
        AUC,
        NDCG,
        AveragePrecision,
        Discounted,
        Precision,
        RankBiasedPrecision,
        RankingLoss,
        Recall,
        ReciprocalRank,
        loss_names,
        ranking_loss,
    )
    from maxmargin.ranking.metrics import (
        DEFAULT_METRICS,
        Gains,
        RankedLists,
        auc,
        average_precision,
        discounts,
        evaluate,
        ideal_gain,
        interpolated_average_precision,
        metric_named,
        ndcg,
        per_query,
        plain_name,
        precision,
        ratio,
        reciprocal_rank,
    )
    from maxmargin.ranking.problem import (
        RankingProblem,
        gain_shares,
        gain_steps,
        ideal_gains,
        shares_of_counts,
        shares_of_thresholds,
    )
    from maxmargin.ranking.sharded import ranking_over
    from maxmargin.ranking.structure import Interleaving, RankingStructure
    from maxmargin.ranking.suitability import Failure, Suitability, check_qs_suitable
    from maxmargin.ranking.svm import RankingSVM
    from maxmargin.ranking.trec import JudgedRun, judged_run, read_qrels, read_run, run_lines
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
