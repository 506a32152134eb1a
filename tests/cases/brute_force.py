"""Losses from their definitions and the maximum over all rankings: slow, obvious, independent of the library."""

from fractions import Fraction
from itertools import combinations

import numpy as np


def loss_by_definition(name, is_positive):
    """Loss of a ranking given as booleans from first to last."""
    is_positive = np.asarray(is_positive, dtype=bool)
    positions = np.flatnonzero(is_positive) + 1
    n_pos, n_neg = len(positions), int((~is_positive).sum())
    if "@" in name or "(" in name:
        # What the ranking lacks to the best one, positives first.
        ideal = np.arange(len(is_positive)) < n_pos
        return _metric_at(name, ideal) - _metric_at(name, is_positive)
    if name == "ap":
        return 1 - np.mean([np.mean(is_positive[:p]) for p in positions])
    if name == "ndcg":
        ideal = sum(1 / np.log2(1 + k) for k in range(1, n_pos + 1))
        return 1 - sum(1 / np.log2(1 + p) for p in positions) / ideal
    if name == "auc":
        return np.sum(np.cumsum(~is_positive)[is_positive]) / (n_pos * n_neg)
    if name == "mrr":
        return 1 - 1 / positions[0]
    raise KeyError(name)


def _metric_at(name, is_positive):
    """NDCG, AP, RR, precision or recall of the first places of a ranking, or RBP."""
    if name.startswith("rbp"):
        p = float(name[6:-1])
        return sum((1 - p) * p**place for place in np.flatnonzero(is_positive))
    plain, _, cut = name.partition("@")
    n_pos, k = int(is_positive.sum()), int(cut)
    first = is_positive[:k]
    places = np.flatnonzero(first) + 1
    if plain == "ndcg":
        return sum(1 / np.log2(1 + p) for p in places) / sum(1 / np.log2(1 + p) for p in range(1, min(n_pos, k) + 1))
    if plain == "ap":
        return sum(np.mean(first[:p]) for p in places) / min(n_pos, k)
    if plain == "mrr":
        return 1 / places[0] if len(places) else 0.0
    return first.sum() / {"p": k, "recall": n_pos}[plain]


def largest_hinge(name, scores, relevant, scale=1):
    """max over all rankings of scale * delta + F - F*, from the pairwise definition of F, without rounding."""
    exact = [Fraction(float(s)) for s in scores]
    positives = sorted((s for s, r in zip(exact, relevant, strict=True) if r), reverse=True)
    negatives = sorted((s for s, r in zip(exact, relevant, strict=True) if not r), reverse=True)
    n_pos, n_neg = len(positives), len(negatives)
    truth = sum(p - q for p in positives for q in negatives)
    best = None
    for pattern in combinations(range(n_pos + n_neg), n_pos):
        is_positive = np.isin(np.arange(n_pos + n_neg), pattern)
        where_pos, where_neg = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
        pairs = [(i, j) for i in range(n_pos) for j in range(n_neg)]
        # A pair counts +1 where the positive stands above the negative.
        value = sum((positives[i] - negatives[j]) * (1 if where_pos[i] < where_neg[j] else -1) for i, j in pairs)
        hinge = Fraction(scale) * Fraction(float(loss_by_definition(name, is_positive))) + (value - truth) / (n_pos * n_neg)
        best = hinge if best is None else max(best, hinge)
    return float(best)


def sort_and_scan(name, scores, relevant):
    """The O(PN) table of every negative at every rank: hinge and the largest maximiser of each sorted negative."""
    scores, relevant = np.asarray(scores, dtype=float), np.asarray(relevant, dtype=bool)
    positives = np.sort(scores[relevant])[::-1]
    negatives = np.sort(scores[~relevant])[::-1]
    n_pos, n_neg = len(positives), len(negatives)
    j = np.arange(1.0, n_neg + 1)[:, None]
    i = np.arange(1.0, n_pos + 1)[None, :]
    if name == "ap":
        step = ((j - 1) / (j + i - 1) - j / (j + i)) / n_pos
    elif name == "ndcg":
        ideal = np.sum(1 / np.log2(1 + np.arange(1, n_pos + 1)))
        step = (1 / np.log2(1 + i + j) - 1 / np.log2(i + j)) / ideal
    elif name == "auc":
        step = np.full((n_neg, n_pos), -1 / (n_pos * n_neg))
    else:
        step = np.where(i == 1, -1 / (j * (j + 1)), 0.0)
    gains = 2 * (positives[None, :] - negatives[:, None]) / (n_pos * n_neg) + step
    value = np.concatenate([np.zeros((n_neg, 1)), np.cumsum(gains, axis=1)], axis=1)
    ranks = n_pos + 1 - np.argmax(value[:, ::-1], axis=1)
    return float(np.sum(value.max(axis=1) - value[:, -1])), ranks
