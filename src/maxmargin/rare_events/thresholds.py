"""Where to cut a list of scores in two: the cut that serves an aim best on scores whose labels are known."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import ArgumentError, Booleans, Floats, Ints, Setting

# A word, a probability, or one of these with a value.
Aim = str | float | Mapping[str, Any]
_KINDS = ("budget", "precision", "recall", "cost")
_REMEDY = (
    "use 'f1', a probability, or a mapping with one of these: {'budget': 100}, {'budget': 0.01}, {'precision': 0.9}, "
    "{'recall': 0.9}, {'cost': [[0, 1], [10, 0]]}"
)


class Cutoff(NamedTuple):
    """Scores above ``value`` are positive; ``met`` says whether the aim can be reached at all."""

    value: float
    met: bool = True


def check_aim(threshold: Any) -> None:
    """Complain about an aim that is none."""
    if isinstance(threshold, str) and threshold == "f1":
        return
    if isinstance(threshold, numbers.Real) and not isinstance(threshold, bool):
        if not 0 < float(threshold) < 1:
            raise _wrong(threshold, " is no probability between 0 and 1")
        return
    if not isinstance(threshold, Mapping) or len(threshold) != 1 or next(iter(threshold)) not in _KINDS:
        raise _wrong(threshold, " is no aim")
    ((kind, value),) = threshold.items()
    if kind == "cost":
        _costs(threshold, value)
        return
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not float(value) > 0:
        raise _wrong(threshold, " must have a positive number")
    if kind == "budget":
        if float(value) >= 1 and not float(value).is_integer():
            raise _wrong(threshold, " is neither a share below 1 nor a whole number of samples")
    elif float(value) > 1:
        raise _wrong(threshold, f" asks for a {kind} of more than 1")


def _wrong(threshold: Any, problem: str) -> ArgumentError:
    return ArgumentError("threshold", [Setting("threshold", threshold), problem], _REMEDY)


def _costs(threshold: Any, value: ArrayLike) -> Floats:
    """A cost matrix in which right answers are cheaper than wrong ones."""
    try:
        costs = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        costs = np.empty(0)
    if costs.shape != (2, 2) or not np.isfinite(costs).all():
        raise _wrong(threshold, " must have four finite costs, cost[truth, answer] in the order of classes_")
    if costs[0, 1] <= costs[0, 0] or costs[1, 0] <= costs[1, 1]:
        raise _wrong(threshold, " makes a wrong answer no dearer than the right one")
    return costs


def choose_cutoff(aim: Aim, scores: Floats, relevant: Booleans, positive: int = 1, among: int | None = None) -> Cutoff:
    """The cut that serves an aim best.

    Parameters
    ----------
    aim : "f1" or mapping
        ``"f1"``: the largest F1. ``{"budget": k}``: as many above the cut, or that share of them if less than 1, or somewhat
        fewer where scores are equal. ``{"precision": p}``: the largest recall with at least this precision. ``{"recall": r}``:
        the fewest above the cut with at least this recall. ``{"cost": matrix}``: the smallest total cost.
    scores : array of shape (n,)
        Of samples of both kinds.
    relevant : bool array of shape (n,)
        The positive ones.
    positive : {0, 1}
        Row and column of a cost matrix that is theirs.
    among : int, optional
        Out of how many samples the number of a budget is meant, by default n.

    Returns
    -------
    Cutoff
        Halfway between two scores. A precision that is never reached is not met, and the cut is that of the best one.

    Examples
    --------
    >>> scores, relevant = np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, False, True, False])
    >>> choose_cutoff("f1", scores, relevant), choose_cutoff({"budget": 1}, scores, relevant).value
    (Cutoff(value=1.5, met=True), 3.5)
    """
    order = np.argsort(-scores, kind="stable")
    ranked, n = scores[order], len(scores)
    hits = np.concatenate([[0], np.cumsum(relevant[order])])
    # Samples with equal scores are on the same side.
    above = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1], [True]]))
    best, met = best_cut(aim, Cuts(above, hits[above], n, int(hits[-1])), positive, among)
    k = int(above[best])
    return Cutoff(between(ranked[k - 1 : k + 1] if 0 < k < n else (), float(ranked[0]), float(ranked[-1]), low=k == n), met)


class Cuts(NamedTuple):
    """Places to cut a list, from the top: samples ``above`` each, ``hits`` among them; all samples, and all positives."""

    above: Ints
    hits: Ints
    n: int
    n_positive: int


def best_cut(aim: Aim, cuts: Cuts, positive: int = 1, among: int | None = None) -> tuple[int, bool]:
    """The number of the cut that serves an aim best, the first of several; and whether the aim is reached."""
    above, hits, n, n_positive = cuts
    precision = hits / np.maximum(above, 1)
    met = True
    if isinstance(aim, str):
        value = 2 * hits / (above + n_positive)
    else:
        assert isinstance(aim, Mapping)
        ((kind, wanted),) = aim.items()
        if kind == "budget":
            value = np.where(within_budget(wanted, above, n, among), above, -1.0)
        elif kind == "precision":
            fine = (precision >= wanted) & (above > 0)
            met = bool(fine.any())
            value = np.where(fine, above, -1.0) if met else np.where(above > 0, precision, -1.0)
        elif kind == "recall":
            value = np.where(hits / n_positive >= wanted, -above, -np.inf)
        else:
            costs = np.array(wanted, dtype=np.float64)
            costs = costs if positive == 1 else costs[::-1, ::-1]
            false = above - hits
            right = costs[1, 1] * hits + costs[0, 0] * (n - n_positive - false)
            value = -(right + costs[1, 0] * (n_positive - hits) + costs[0, 1] * false)
    return int(np.argmax(value)), met


def within_budget(wanted: float, above: Any, n: int, among: int | None = None) -> Any:
    """Whether so many samples out of n, or so many for each place of an array, may be above a cut."""
    # Quotients of whole numbers are what a decimal fraction is read as; products are not.
    return above / n <= wanted if wanted < 1 else above <= wanted * n / (among or n)


def between(neighbours: Sequence[float] | Floats, first: float, last: float, *, low: bool) -> float:
    """A number below the first of two neighbours in descending scores and not below the second.

    Without neighbours one above all scores, which are from ``first`` down to ``last``, or below all if it is to be ``low``.
    """
    # As far away as scores are from each other, and in any case another number.
    if len(neighbours):
        upper, lower = map(float, neighbours)
        middle = 0.5 * upper + 0.5 * lower
        return middle if middle < upper else lower
    if low:
        return min(last - max(1.0, first - last), float(np.nextafter(last, -np.inf)))
    return max(first + max(1.0, first - last), float(np.nextafter(first, np.inf)))


def outcome(flagged: Booleans, relevant: Booleans) -> dict[str, float]:
    """Share of samples that are flagged, precision, recall and F1; a precision of nothing is 0.

    >>> outcome(np.array([True, True, False, False]), np.array([True, False, True, True]))
    {'flagged': 0.5, 'precision': 0.5, 'recall': 0.3333333333333333, 'f1': 0.4}
    """
    hits, marked, wanted = (int(np.count_nonzero(what)) for what in (flagged & relevant, flagged, relevant))
    return outcome_of_counts(hits, marked, wanted, len(flagged))


def outcome_of_counts(hits: int, marked: int, wanted: int, n: int) -> dict[str, float]:
    """The same from counts: relevant ones among those flagged, flagged ones, relevant ones, all samples."""
    return {
        "flagged": marked / max(n, 1),
        "precision": hits / max(marked, 1),
        "recall": hits / max(wanted, 1),
        "f1": 2 * hits / max(marked + wanted, 1),
    }
