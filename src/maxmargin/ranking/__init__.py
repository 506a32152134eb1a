"""Rankings: losses, metrics, inference, and estimators for queries, long lists, bags and linked samples."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.ranking.approximate import ApproximateRankingSVM as ApproximateRankingSVM
    from maxmargin.ranking.bags import Bags as Bags
    from maxmargin.ranking.bags import supervised_share as supervised_share
    from maxmargin.ranking.base import loss_of_ranking, scaling_advice, trained_metric
    from maxmargin.ranking.binary import BinaryProblem as BinaryProblem
    from maxmargin.ranking.checked import checked_loss
    from maxmargin.ranking.descent import Attempt, DirectHistory, DirectLists, Steps, Trial, checkpoints_of, descend, try_descents
    from maxmargin.ranking.direct import DirectLossMinimizer as DirectLossMinimizer
    from maxmargin.ranking.direct_inference import direct_losses, losses_by_score
    from maxmargin.ranking.direct_problem import DirectRanking
    from maxmargin.ranking.high_order import HighOrderRankingSVM as HighOrderRankingSVM
    from maxmargin.ranking.high_order_problem import HighOrderBinaryProblem as HighOrderBinaryProblem
    from maxmargin.ranking.high_order_problem import HighOrderRankingProblem as HighOrderRankingProblem
    from maxmargin.ranking.high_order_problem import LinkedSamples as LinkedSamples
    from maxmargin.ranking.inference import ViolatingRanking as ViolatingRanking
    from maxmargin.ranking.inference import ViolatingRankings as ViolatingRankings
    from maxmargin.ranking.inference import most_violating_ranking as most_violating_ranking
    from maxmargin.ranking.inference import most_violating_rankings as most_violating_rankings
    from maxmargin.ranking.inference import solve_lists
    from maxmargin.ranking.latent import LatentRankingSVM as LatentRankingSVM
    from maxmargin.ranking.latent_problem import JointLatentRankingProblem as JointLatentRankingProblem
    from maxmargin.ranking.latent_problem import LatentBinaryProblem as LatentBinaryProblem
    from maxmargin.ranking.latent_problem import LatentRankingProblem as LatentRankingProblem
    from maxmargin.ranking.losses import AUC as AUC
    from maxmargin.ranking.losses import NDCG as NDCG
    from maxmargin.ranking.losses import AveragePrecision as AveragePrecision
    from maxmargin.ranking.losses import Discounted as Discounted
    from maxmargin.ranking.losses import Precision as Precision
    from maxmargin.ranking.losses import RankBiasedPrecision as RankBiasedPrecision
    from maxmargin.ranking.losses import RankingLoss as RankingLoss
    from maxmargin.ranking.losses import Recall as Recall
    from maxmargin.ranking.losses import ReciprocalRank as ReciprocalRank
    from maxmargin.ranking.losses import loss_names
    from maxmargin.ranking.losses import ranking_loss as ranking_loss
    from maxmargin.ranking.metrics import (
        DEFAULT_METRICS,
        Gains,
        RankedLists,
        discounts,
        ideal_gain,
        metric_named,
        plain_name,
        ratio,
    )
    from maxmargin.ranking.metrics import auc as auc
    from maxmargin.ranking.metrics import average_precision as average_precision
    from maxmargin.ranking.metrics import evaluate as evaluate
    from maxmargin.ranking.metrics import interpolated_average_precision as interpolated_average_precision
    from maxmargin.ranking.metrics import ndcg as ndcg
    from maxmargin.ranking.metrics import per_query as per_query
    from maxmargin.ranking.metrics import precision as precision
    from maxmargin.ranking.metrics import reciprocal_rank as reciprocal_rank
    from maxmargin.ranking.problem import RankingProblem as RankingProblem
    from maxmargin.ranking.problem import gain_shares, gain_steps, ideal_gains, shares_of_counts, shares_of_thresholds
    from maxmargin.ranking.sharded import ranking_over
    from maxmargin.ranking.structure import Interleaving as Interleaving
    from maxmargin.ranking.structure import RankingStructure as RankingStructure
    from maxmargin.ranking.suitability import Failure as Failure
    from maxmargin.ranking.suitability import Suitability as Suitability
    from maxmargin.ranking.suitability import check_qs_suitable as check_qs_suitable
    from maxmargin.ranking.svm import RankingSVM as RankingSVM
    from maxmargin.ranking.trec import JudgedRun as JudgedRun
    from maxmargin.ranking.trec import judged_run as judged_run
    from maxmargin.ranking.trec import read_qrels as read_qrels
    from maxmargin.ranking.trec import read_run as read_run
    from maxmargin.ranking.trec import run_lines as run_lines
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
