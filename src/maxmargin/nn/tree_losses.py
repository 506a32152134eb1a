"""Losses of dependency trees as torch modules: scores of arcs in, a surrogate of the number of wrong heads out.

The gradient is known from inference: ``psi_h * (tree found - truth)``, by Danskin's theorem, with ``psi_h`` of the tree for which
the surrogate is largest. It is attached to the graph; torch differentiates none of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from maxmargin.cuts import Cut, SparseVector, entries
from maxmargin.problems import StructuredProblem
from maxmargin.structures import DependencyStructure, SentenceArcs
from maxmargin.surrogates import Surrogate, make_surrogate


class TreeLoss(torch.nn.Module):
    """A surrogate of the number of words with a wrong head, averaged over sentences.

    Parameters
    ----------
    surrogate : str or Surrogate, default="margin"
        ``"margin"`` is the structured hinge; ``"prob"`` or ``ProbLoss(convex=False)`` has a gradient even where all margins are
        large. Others are searched by the convex hull, with the k best trees.
    projective, single_root : bool, default=True
        Over which trees; as in :func:`maxmargin.inference.best_tree`.

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

    def forward(self, scores: Sequence[torch.Tensor], heads: Sequence[ArrayLike]) -> torch.Tensor:
        """The mean over sentences.

        Parameters
        ----------
        scores : sequence of tensors of shape (n + 1, n + 1)
            ``scores[h, m]`` of the arc from head h to word m; the root is 0.
        heads : sequence of integers of shape (n,)
            The true heads of the words.
        """
        if len(scores) != len(heads) or len(scores) == 0:
            raise ValueError(f"there are {len(scores)} tables of scores for {len(heads)} trees; one for each, and at least one")
        parts = [self._one(table, np.asarray(own), k) for k, (table, own) in enumerate(zip(scores, heads, strict=True))]
        return torch.stack(parts).mean()

    def _one(self, table: torch.Tensor, heads: Any, number: int) -> torch.Tensor:
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
            raise ValueError(f"scores of sentence {number} must have shape (n + 1, n + 1), but have {tuple(table.shape)}")
        flat = table.detach().to("cpu", torch.float64).numpy().ravel()
        if not np.isfinite(flat).all():
            raise ValueError(f"scores of sentence {number} must be finite; look at the learning rate and the inputs")
        cut = self._cut(len(table), heads, np.ascontiguousarray(flat))
        gradient = np.zeros(len(flat))
        at, values = entries(cut.psi)
        gradient[at] = -values
        attach: Any = _Attached.apply
        value: torch.Tensor = attach(table, cut.hinge(flat), torch.as_tensor(gradient.reshape(table.shape)))
        return value

    def _cut(self, n_nodes: int, heads: Any, flat: Any) -> Cut:
        """Every arc has a feature of its own, so that weights are scores."""
        arcs = SentenceArcs(_identity(n_nodes * n_nodes))
        structure = DependencyStructure(n_nodes * n_nodes, projective=self.projective, single_root=self.single_root)
        problem = StructuredProblem(structure, [arcs], [heads], self.surrogate)
        cut = problem.cut(0, flat)
        assert isinstance(cut.psi, SparseVector)
        return cut


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
