"""Metrics of dependency trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import tree_of


class AttachmentScores(NamedTuple):
    """How many words of parsed sentences are right.

    Attributes
    ----------
    uas : float
        Part of the words with the right head.
    las : float
        Part of the words with the right head and the right label; NaN if there are no labels.
    n_words : int
        How many words were looked at.
    """

    uas: float
    las: float
    n_words: int


def attachment_scores(truth: Sequence[Any], found: Sequence[Any], *, skip: Sequence[ArrayLike] | None = None) -> AttachmentScores:
    """Unlabelled and labelled attachment scores of dependency trees, over all words of all sentences.

    Parameters
    ----------
    truth, found : sequences of trees
        Each with heads and labels: a :class:`maxmargin.parsing.Sentence`, a pair ``(heads, labels)``, or heads alone.
    skip : sequence of boolean arrays, optional
        Words that do not count, punctuation say: ``[[tag == "PUNCT" for tag in sentence.tags] for sentence in truth]``.

    Examples
    --------
    >>> attachment_scores([([2, 0], ["nsubj", "root"])], [([2, 0], ["obj", "root"])])
    AttachmentScores(uas=1.0, las=0.5, n_words=2)
    """
    if len(truth) != len(found) or (skip is not None and len(skip) != len(truth)):
        raise ValueError(f"truth has {len(truth)} sentences and found {len(found)}; they must be equal, as must be those of skip")
    heads = labels = total = 0
    labelled = True
    for k, (one, other) in enumerate(zip(truth, found, strict=True)):
        (true_heads, true_labels), (found_heads, found_labels) = tree_of(one), tree_of(other)
        right = np.asarray(true_heads)
        if right.shape != np.shape(found_heads):
            raise ValueError(f"sentence {k} has {right.size} words in truth, but {np.size(found_heads)} in found")
        right = right == np.asarray(found_heads)
        counts = np.ones(len(right), dtype=bool) if skip is None else ~np.asarray(skip[k], dtype=bool)
        if counts.shape != right.shape:
            raise ValueError(f"sentence {k} has {len(right)} words, but {counts.size} entries in skip")
        total += int(counts.sum())
        heads += int((right & counts).sum())
        if true_labels is None or found_labels is None:
            labelled = False
        else:
            labels += int((right & counts & (np.asarray(true_labels) == np.asarray(found_labels))).sum())
    if total == 0:
        raise ValueError("there are no words to look at; at least one must count")
    return AttachmentScores(heads / total, labels / total if labelled else float("nan"), total)
