"""Tables with rare events: real ones, read in place and thinned to at most 4,000 rows, and seeded ones of known kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from benchmarks import datasets
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits

from maxmargin.io import load_svmlight

MOST = 4000


class Table(NamedTuple):
    """Features, dense or CSR, and which samples are positive; columns that always have the same value are left out."""

    X: Any
    y: NDArray[np.bool_]


def thinned(X: Any, y: NDArray[np.bool_], n_positive: int, n: int = MOST, seed: int = 0) -> Table:
    """So many positives and so many samples in all, drawn at random."""
    rng = np.random.default_rng(seed)
    positive, negative = np.flatnonzero(y), np.flatnonzero(~y)
    keep = np.concatenate([
        rng.permutation(positive)[:n_positive], rng.permutation(negative)[: n - min(n_positive, len(positive))]
    ])  # fmt: skip
    X, y = X[np.sort(keep)], y[np.sort(keep)]
    if sparse.issparse(X):
        used = np.flatnonzero(np.asarray((X.max(axis=0) != X.min(axis=0)).todense()).ravel())
        return Table(sparse.csr_matrix(X[:, used]), y)
    return Table(X[:, X.std(axis=0) > 0], y)


def breast_cancer() -> Table:
    X, benign = load_breast_cancer(return_X_y=True)
    return thinned(X, benign == 0, 36)


def digits() -> Table:
    X, digit = load_digits(return_X_y=True)
    return thinned(X, digit == 8, 200)


def a9a() -> Table:
    return thinned(*datasets.binary("a9a"), 120)


def w8a() -> Table:
    return thinned(*datasets.binary("w8a"), 120)


def letters(letter: str) -> Table:
    words, _ = datasets.ocr_words()
    return thinned(words.X[:, :-1], words.y == ord(letter) - ord("a"), 100, 3000)


def mnist() -> Table:
    """Images of 14 x 14 pixels."""
    pixels, digit = datasets.mnist()
    small = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(pixels), -1)
    return thinned(small, digit == 8, 100, 3000)


def rcv1() -> Table:
    """Terms that occur in at least thirty of the documents."""
    files = [load_svmlight(datasets.find("rcv1_small", f"rcv1_small.{part}.gz"), n_features=47_300) for part in ("train", "test")]
    X, y = sparse.vstack([file.X for file in files], format="csr"), np.concatenate([file.y for file in files]) > 0
    X = X[:, np.flatnonzero(np.asarray((X > 0).sum(axis=0)).ravel() >= 30)]
    return thinned(X, y, 64)


def logistic_labels(rng: np.random.Generator, scores: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Drawn with log-odds equal to the scores less an offset, so that about ``share`` are positive."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.mean(1 / (1 + np.exp(middle - scores))) > share else (low, middle)
    return np.asarray(rng.random(len(scores)) < 1 / (1 + np.exp(low - scores)))


def well_specified() -> Table:
    """The model of logistic regression."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(MOST, 30))
    return Table(X, logistic_labels(rng, 2 * X[:, :10] @ rng.normal(size=10) / np.sqrt(10) * 1.5, 0.03))


def two_kinds(seed: int = 2) -> Table:
    """Half of the positives lie in one direction; the others look like everybody and are hopeless."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(MOST, 20))
    y = np.arange(MOST) < 100
    X[:50, 0] += 3.0
    X[50:100, 1:4] -= 0.5
    order = rng.permutation(MOST)
    return Table(X[order], y[order])


def label_noise() -> Table:
    """One direction, a tenth of the positives unmarked and as many negatives marked."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(MOST, 40))
    y = logistic_labels(rng, 4 * X[:, :5].sum(axis=1) / np.sqrt(5), 0.04)
    positive, negative = rng.permutation(np.flatnonzero(y)), rng.permutation(np.flatnonzero(~y))
    flipped = len(positive) // 10
    y[positive[:flipped]], y[negative[: 5 * flipped]] = False, True
    return Table(X, y)


def outliers() -> Table:
    """One direction, and some far samples in any direction that are marked by mistake."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(MOST, 20))
    y = X[:, :4].sum(axis=1) + 0.6 * rng.normal(size=MOST) > 4.4
    wrong = rng.permutation(np.flatnonzero(~y))[:30]
    X[wrong] = 8 * rng.normal(size=(30, 20)) - 6 * (np.arange(20) < 4)
    y[wrong] = True
    return Table(X, y)


def wild_column() -> Table:
    """One column has heavy tails, a hundred times the spread of the others, and says a little in its middle."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(MOST, 20))
    y = logistic_labels(rng, 2.5 * X[:, :6].sum(axis=1) / np.sqrt(6), 0.03)
    X[:, 0] = 100 * rng.standard_t(1.5, MOST) + 20 * X[:, 0]
    return Table(X, y)


def two_clusters() -> Table:
    """Positives in two clusters on different sides, so that no line is right."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(MOST, 25))
    y = np.arange(MOST) < 120
    X[:80, :3] += 2.0
    X[80:120, 3:5] += np.array([2.5, -2.5])
    X[80:120, 0] -= 1.5
    order = rng.permutation(MOST)
    return Table(X[order], y[order])


TABLES: dict[str, Callable[[], Table]] = {
    "breast cancer, thinned": breast_cancer,
    "digits, 8": digits,
    "a9a, thinned": a9a,
    "w8a, thinned": w8a,
    "OCR letter x": lambda: letters("x"),
    "OCR letter j": lambda: letters("j"),
    "MNIST 8, thinned": mnist,
    "RCV1, thinned": rcv1,
    "well specified": well_specified,
    "two kinds": two_kinds,
    "label noise": label_noise,
    "outliers": outliers,
    "one wild column": wild_column,
    "two clusters": two_clusters,
}
