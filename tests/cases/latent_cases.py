"""Bags of candidates, and slow, obvious references for what is learned from them."""

from itertools import permutations, product

import numpy as np
from tests.cases.reference_programs import MarginProgram

from maxmargin.ranking import Bags


def make_bags(n, rng, *, candidates=6, d=5, shift=2.0, share=0.3):
    """A relevant bag has one shifted candidate; where it stands is not said."""
    y = np.zeros(n, dtype=bool)
    y[: max(1, round(share * n))] = True
    rng.shuffle(y)
    X = rng.normal(size=(n, candidates, d))
    place = rng.integers(0, candidates, n)
    X[np.flatnonzero(y), place[y], :2] += shift
    return X, y, place


def ragged(rng, n_pos, n_neg, d, most=3):
    """Bags of different sizes, relevant ones first."""
    X = [rng.normal(size=(rng.integers(1, most + 1), d)) for _ in range(n_pos + n_neg)]
    return X, np.arange(n_pos + n_neg) < n_pos


def as_bags(X, given=None):
    return Bags(np.concatenate(X), np.concatenate([[0], np.cumsum([len(x) for x in X])]), given)


def all_orders(relevant):
    """Every ranking: loss, and the number of samples of the other class on the wrong side of each sample."""
    n = len(relevant)
    for order in permutations(range(n)):
        position = np.empty(n, dtype=int)
        position[list(order)] = np.arange(n)
        wrong = np.zeros(n)
        for i in np.flatnonzero(relevant):
            for j in np.flatnonzero(~relevant):
                if position[j] < position[i]:
                    wrong[i] += 1
                    wrong[j] += 1
        hits = relevant[list(order)]
        precision = [hits[: k + 1].mean() for k in np.flatnonzero(hits)]
        yield 1 - np.mean(precision), wrong, position


def choices(X):
    return product(*[range(len(x)) for x in X])


def chosen(X, h):
    return np.array([x[k] for x, k in zip(X, h, strict=True)])


def psi_of(wrong, relevant, phi):
    """Feature of the truth minus that of a ranking, from its counts."""
    sign = np.where(relevant, 1.0, -1.0)
    return 2 * (sign * wrong) @ phi / (relevant.sum() * (~relevant).sum())


def score_of(position, relevant, values):
    """The score of a ranking by its definition over pairs."""
    total = 0.0
    for i in np.flatnonzero(relevant):
        for j in np.flatnonzero(~relevant):
            total += (1 if position[i] < position[j] else -1) * (values[i] - values[j])
    return total / (relevant.sum() * (~relevant).sum())


def convex_reference(planes, C, d):
    """The quadratic program with all constraints."""
    # Many rankings differ in nothing that counts.
    distinct = np.unique(np.round([[*p, v] for p, v in planes], 12), axis=0)
    psi, loss = distinct[:, :-1], distinct[:, -1]
    # No hinge is below zero.
    table, losses = np.vstack([psi, np.zeros((1, d))]), np.append(loss, 0.0)
    return MarginProgram([(table, losses)], [C]).optimum().value
