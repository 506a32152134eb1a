"""Labels of nodes, as users hand them in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Labels, Output, check_labels


def check_node_labels(y: Sequence[ArrayLike]) -> list[Labels]:
    """An array of shape (L,) for every graph, all of them of numbers or all of text.

    >>> check_node_labels([["a", "b"], [0, 1]])
    Traceback (most recent call last):
    ValueError: y mixes text and numbers (graph 1 has numbers, those before have text); use one kind of labels
    """
    found: list[Labels] = []
    text: bool | None = None
    for k, given in enumerate(_sequence(y)):
        own = np.asarray(check_labels(given))
        if own.ndim != 1:
            raise ValueError(f"labels of graph {k} have shape {own.shape}, but one per node is needed, shape (nodes,)")
        # Lists are looked at as they are: NumPy makes text of everything where there is some.
        values = own if isinstance(given, np.ndarray) and own.dtype != object else np.fromiter(given, dtype=object)
        kinds = {own.dtype.kind in "US"} if values.dtype != object else {isinstance(value, str) for value in values}
        if len(kinds) > 1:
            raise ValueError(f"y mixes text and numbers (in graph {k}); use one kind of labels")
        if text is not None and kinds and kinds != {text}:
            here, before = ("numbers", "text") if text else ("text", "numbers")
            raise ValueError(
                f"y mixes text and numbers (graph {k} has {here}, those before have {before}); use one kind of labels"
            )
        text = next(iter(kinds), text)
        found.append(own)
    return found


def mean_accuracy(found: Sequence[Labels], y: Sequence[ArrayLike]) -> float:
    """Mean over the graphs of the fraction of right labels."""
    truth = [np.asarray(own) for own in _sequence(y)]
    if len(truth) != len(found):
        raise ValueError(f"X has {len(found)} samples, but y has the labels of {len(truth)}; they must be equal")
    for k, (labels, own) in enumerate(zip(found, truth, strict=True)):
        if labels.shape != own.shape:
            raise ValueError(f"y has labels of shape {own.shape} for sample {k}, but {labels.shape} are needed")
    return float(np.mean([np.mean(labels == own) for labels, own in zip(found, truth, strict=True)]))


def _sequence(y: Sequence[Output]) -> Sequence[Output]:
    if not hasattr(y, "__len__") or not hasattr(y, "__getitem__") or isinstance(y, str):
        raise TypeError(f"y must be a list with an array of labels for every sample, but is {y!r}")
    return y


def outside_label(classes: Labels, outside: object, node: str = "node") -> int:
    """Which of the classes is that of nodes that are nothing, for the micro-F1.

    >>> outside_label(np.array(["A", "O"]), "O")
    1
    """
    found = np.flatnonzero(classes == outside)
    if len(found) != 1:
        known = ", ".join(map(repr, classes[:5].tolist()))
        raise ValueError(
            f"outside={outside!r} is no label of y ({known}{', ...' if len(classes) > 5 else ''}); "
            f"surrogate='micro_f1' needs the label of {node}s that are nothing"
        )
    return int(found[0])
