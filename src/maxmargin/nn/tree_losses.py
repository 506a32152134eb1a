"""Losses of dependency trees as torch modules: scores of arcs in, a surrogate of the number of wrong heads out.

The gradient is known from inference: ``psi_h * (tree found - truth)``, by Danskin's theorem, with ``psi_h`` of the tree for which
the surrogate is largest. It is attached to the graph; torch differentiates none of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Int32s
from maxmargin.core import SparseVector, entries
from maxmargin.parsing import DependencyStructure, SentenceArcs, check_tree
from maxmargin.surrogates import CompiledSurrogate, StructuredProblem, Surrogate, compiled_search, make_surrogate


class TreeLoss(torch.nn.Module):
    """A surrogate of the number of words with a wrong head, or a wrong label, averaged over sentences.

    Parameters
    ----------
    surrogate : str or Surrogate, default="margin"
        ``"margin"`` is the structured hinge; ``"prob"`` or ``ProbLoss(convex=False)`` has a gradient even where all margins are
        large; ``"slack"``, ``"beta"``, ``"log"`` and all others of :mod:`maxmargin.surrogates` but the micro F1. They are
        searched by the convex hull and the next best trees, all sentences in one compiled call; one's own are searched in Python.
    projective, single_root : bool, default=True
        Over which trees; as in :func:`maxmargin.parsing.best_tree`. The truth may be any tree.

    Examples
    --------
    >>> scores = torch.zeros(3, 3, requires_grad=True)
    >>> loss = TreeLoss()([scores], [[2, 0]])
    >>> loss.backward()
    >>> loss.item(), scores.grad.tolist()
    (2.0, [[0.0, 1.0, -1.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    """

    def __init__(self, surrogate: str | Surrogate = "margin", *, projective: bool = True, single_root: bool = True) -> None:
        super().__init__()
        self.surrogate, self.projective, self.single_root = make_surrogate(surrogate), projective, single_root

    def forward(
        self, scores: Sequence[torch.Tensor], heads: Sequence[ArrayLike], labels: Sequence[ArrayLike] | None = None
    ) -> torch.Tensor:
        """The mean over sentences.

        Parameters
        ----------
        scores : sequence of tensors of shape (n + 1, n + 1), or (n + 1, n + 1, L) with labels
            ``scores[h, m]`` of the arc from head h to word m; the root is 0.
        heads : sequence of integers of shape (n,)
            The true heads of the words.
        labels : sequence of integers of shape (n,), optional
            The true labels, 0 to L - 1; needed if scores have them.
        """
        if len(scores) != len(heads) or len(scores) == 0:
            raise ValueError(f"there are {len(scores)} tables of scores for {len(heads)} trees; one for each, and at least one")
        if (labels is not None) != (scores[0].ndim == 3) or (labels is not None and len(labels) != len(heads)):
            raise ValueError("labels are needed, one sequence for every tree, where scores have shape (n + 1, n + 1, L) only")
        tables = [_checked(table, scores[0], k) for k, table in enumerate(scores)]
        n_labels = scores[0].shape[2] if labels is not None else 0
        trees = [
            _checked_tree(own, None if labels is None else labels[k], len(tables[k]) - 1, n_labels, k)
            for k, own in enumerate(heads)
        ]
        form = compiled_search(self.surrogate)
        found = self._compiled(form, tables, trees, n_labels) if form else self._general(tables, trees, n_labels)
        attach: Any = _Attached.apply
        parts = [attach(table, *own) for table, own in zip(scores, found, strict=True)]
        return torch.stack(parts).mean()

    def _compiled(self, form: CompiledSurrogate, tables: list[Floats], trees: list[Int32s], n_labels: int) -> list[_Known]:
        lengths = [len(table) - 1 for table in tables]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        heads = np.concatenate([tree[:, 0] for tree in trees])
        tags = np.concatenate([tree[:, 1] for tree in trees])
        found, found_tags, value, slope, _, _ = _core.violating_trees(
            np.concatenate([table.ravel() for table in tables]), offsets, heads, tags if n_labels > 1 else None, max(1, n_labels),
            self.projective, self.single_root, *form, self.surrogate.search == "auto",
        )  # fmt: skip
        known = []
        for k, table in enumerate(tables):
            own, word = slice(offsets[k], offsets[k + 1]), np.arange(1, lengths[k] + 1)
            gradient = np.zeros((*table.shape[:2], max(1, n_labels)))
            # Every word has one head, so no place comes twice.
            gradient[found[own], word, found_tags[own]] += slope[k]
            gradient[heads[own], word, tags[own]] -= slope[k]
            known.append(_Known(float(value[k]), torch.as_tensor(gradient.reshape(table.shape))))
        return known

    def _general(self, tables: list[Floats], trees: list[Int32s], n_labels: int) -> list[_Known]:
        """Every arc has a feature of its own, so that weights are scores; for surrogates of one's own."""
        known = []
        for table, tree in zip(tables, trees, strict=True):
            n_arcs, flat = table.shape[0] ** 2, np.ascontiguousarray(table.ravel())
            kind: Any = {"projective": self.projective, "single_root": self.single_root}
            if n_labels:
                # Features of arcs count nothing: each arc and label has a weight of its own.
                arcs = SentenceArcs(_identity(n_arcs), _identity(n_arcs), n_labels)
                structure = DependencyStructure(n_arcs, n_labels, n_arcs, **kind)
                weights, output = np.concatenate([np.zeros(n_arcs), flat]), tree
            else:
                arcs, structure = SentenceArcs(_identity(n_arcs)), DependencyStructure(n_arcs, **kind)
                weights, output = flat, np.ascontiguousarray(tree[:, 0])
            cut = StructuredProblem(structure, [arcs], [output], self.surrogate).cut(0, weights)
            assert isinstance(cut.psi, SparseVector)
            gradient = np.zeros(len(weights))
            at, values = entries(cut.psi)
            gradient[at] = -values
            known.append(_Known(cut.hinge(weights), torch.as_tensor(gradient[-len(flat) :].reshape(table.shape))))
        return known


class _Known(NamedTuple):
    """What a sentence's loss is, and its derivative by the scores."""

    value: float
    gradient: torch.Tensor


def _checked(table: torch.Tensor, first: torch.Tensor, number: int) -> Floats:
    """Scores of a sentence as an array."""
    if table.ndim not in (2, 3) or table.shape[0] != table.shape[1] or len(table) < 2 or table.shape[2:] != first.shape[2:]:
        raise ValueError(
            f"scores of sentence {number} must have shape (n + 1, n + 1), or (n + 1, n + 1, L) with the same L for all, but have "
            f"{tuple(table.shape)}"
        )
    values: Floats = table.detach().to("cpu", torch.float64).numpy()
    if not np.isfinite(values).all():
        raise ValueError(f"scores of sentence {number} must be finite; look at the learning rate and the inputs")
    return values


def _checked_tree(heads: ArrayLike, labels: ArrayLike | None, n_words: int, n_labels: int, number: int) -> Int32s:
    """Heads and labels, zeros if there are none, of shape (n, 2)."""
    own = np.asarray(heads) if labels is None else np.stack([np.asarray(heads), np.asarray(labels)], axis=-1)
    try:
        tree = check_tree(own, n_words, n_labels)
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from None
    return tree if n_labels else np.column_stack([tree, np.zeros(n_words, dtype=np.int32)])


def _identity(n: int) -> Any:
    from scipy import sparse

    return sparse.eye_array(n, format="csr")


class _Attached(torch.autograd.Function):
    """A number with a known derivative."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, value: float, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient.to(scores))
        return scores.new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *above: torch.Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        return above[0] * gradient, None, None
