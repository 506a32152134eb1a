"""Exact metrics of weights on data that are spread over shards; no list is gathered anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats
from maxmargin.distributed import Conversation, Engine, n_columns
from maxmargin.ranking import DEFAULT_METRICS, Gains, RankingLoss, metric_named, ranking_loss
from maxmargin.ranking.shards.judging import LOSS, JudgedList, judged
from maxmargin.ranking.shards.split_list import scattered_names


def evaluate(
    engine: Engine | Conversation,
    weights: ArrayLike,
    *,
    metrics: Iterable[str] = DEFAULT_METRICS,
    gains: Gains = "linear",
    thresholds: ArrayLike | None = None,
    base: float | None = None,
    loss: str | RankingLoss | None = None,
) -> dict[str, float]:
    """Return :func:`maxmargin.metrics.evaluate` of the scores ``X @ weights`` of all rows, equal up to rounding.

    Queries that lie in one shard are judged there, in one round; for others, and for one list over all shards, there is one more,
    in which P numbers go down and up.

    Parameters
    ----------
    engine : Engine or Conversation
        Of shards of the kind "ranking"; a conversation counts what had to be asked again.
    weights : array of shape (d,)
    metrics, gains
        As in :func:`maxmargin.ranking.metrics.evaluate`.
    thresholds : array, optional
        Labels above it are relevant, for each in turn: the mean over them. By default labels are grades, and those above zero
        relevant.
    base : float, optional
        Without thresholds: labels above it are relevant, and whole grades gain 1, 2, ... from there; others gain nothing.
    loss : str or RankingLoss, optional
        Adds ``"1 - loss"`` of the rankings, for losses that are not among the metrics.

    Returns
    -------
    dict of str to float
        Means over the queries, by their weights if they have any.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> X, y = np.array([[4.0], [3.0], [2.0], [1.0]]), np.array([1, 0, 1, 0])
    >>> engine = LocalEngine([ShardOf(rows, "ranking") for rows in split_rows(X, y, 2)])
    >>> evaluate(engine, [1.0], metrics=["map", "p@1"])
    {'map': 0.8333333333333333, 'p@1': 1.0}
    """
    names = list(metrics) + ([] if loss is None else [LOSS])
    for name in names:
        if name != LOSS:
            metric_named(name, gains)
    trained = None if loss is None else ranking_loss(loss)
    shards = engine if isinstance(engine, Conversation) else Conversation(engine)
    engine = shards.engine
    filled = [info for info in shards.infos if info["rows"]]
    if not filled:
        raise ValueError(f"the {engine.n_shards} shards hold no data; at least one needs rows")
    scattered = scattered_names(shards, filled)
    asked: dict[str, Any] = {
        "weights": _check_weights(weights, n_columns(shards.infos, engine), all(info["sparse"] for info in filled)),
        "metrics": names,
        "gains": gains,
        "scattered": scattered,
    }
    if thresholds is not None:
        asked["thresholds"] = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    elif base is not None:
        asked["base"] = float(base)
    if trained is not None:
        asked["loss"] = trained.native_name() or ""
    return shards.whole(lambda: _judge(shards, asked, names, gains, trained))


def _judge(
    shards: Conversation, asked: dict[str, Any], names: list[str], gains: Gains, loss: RankingLoss | None
) -> dict[str, float]:
    found = shards.ask("judge", lambda shard: (asked,))
    n_views = len(asked["thresholds"]) if "thresholds" in asked else 1
    sums: dict[str, list[float]] = {name: [float(answer["sums"][k]) for answer in found] for k, name in enumerate(names)}
    total = [float(answer["weight"]) for answer in found]
    if asked["scattered"]:
        relevant = [_sorted(found, k) for k in range(n_views * len(asked["scattered"]))]
        down = [scores for scores, _ in relevant]
        counted = shards.ask("count_above", lambda shard: (asked, down))
        for k in range(len(asked["scattered"])):
            weight = _weight_of(found, k)
            total.append(weight)
            for view in range(n_views):
                at = view * len(asked["scattered"]) + k
                scores, grades = relevant[at]
                above, higher = (np.sum([answer[name][at] for answer in counted], axis=0) for name in ("above", "higher"))
                n_irrelevant = sum(int(answer["irrelevant"][at]) for answer in found)
                one = JudgedList(grades, scores, above)
                for name in names:
                    sums[name].append(weight / n_views * judged(name, one, n_irrelevant, higher, gains, loss))
    weight = math.fsum(total)
    if not weight > 0:
        raise ValueError("the weight of every query is zero; one must count")
    return {name: math.fsum(parts) / weight for name, parts in sums.items()}


def _sorted(found: list[dict[str, Any]], at: int) -> tuple[Floats, Floats]:
    """Scores and grades of the relevant samples of all shards, by rising score."""
    scores, grades = (np.concatenate([answer[name][at] for answer in found]) for name in ("scores", "grades"))
    order = np.argsort(scores, kind="stable")
    return scores[order], grades[order]


def _weight_of(found: list[dict[str, Any]], k: int) -> float:
    """Of a scattered list, which all of its shards must agree on."""
    weights = {float(answer["weights"][k]) for answer in found if answer["rows"][k]}
    if len(weights) > 1:
        raise ValueError("a query that lies in several shards has different weights there; give all of its rows the same")
    return weights.pop()


def _check_weights(weights: ArrayLike, n_features: int, sparse: bool) -> Floats:
    values = np.asarray(weights, dtype=np.float64)
    # Sparse rows know no more columns than they have seen.
    if values.ndim != 1 or len(values) < n_features or (len(values) > n_features and not sparse):
        raise ValueError(f"weights has shape {values.shape}, but the rows have {n_features} features; give one weight for each")
    if not np.isfinite(values).all():
        raise ValueError("weights must be finite, but contains NaN or infinite values")
    return values
