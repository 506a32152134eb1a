"""Losses ``delta(y_true, y)``: what a wrong output costs. They know neither scores nor weights."""

from maxmargin.losses.ranking import (
    AUC,
    NDCG,
    AveragePrecision,
    Discounted,
    Precision,
    RankBiasedPrecision,
    RankingLoss,
    Recall,
    ReciprocalRank,
    ranking_loss,
)
from maxmargin.losses.suitability import Failure, Suitability, check_qs_suitable

__all__ = [
    "AUC", "NDCG", "AveragePrecision", "Discounted", "Failure", "Precision", "RankBiasedPrecision", "RankingLoss", "Recall",
    "ReciprocalRank", "Suitability", "check_qs_suitable", "ranking_loss",
]  # fmt: skip
