"""The structured hinge of a rank loss as a torch module."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin._types import Floats
from maxmargin.inference.ranking import solve_lists
from maxmargin.losses import RankingLoss
from maxmargin.nn._lists import Lists
from maxmargin.nn._module import ListwiseLoss, Reduction


class RankingHinge(ListwiseLoss):
    """The largest value, over all rankings, of their loss plus the difference of their score to that of the true ranking.

    An upper bound of the loss of the ranking by score, convex and piecewise linear in the scores. Value and gradient are
    exact; they are computed on the processor, in about a tenth of the time of ``torch.sort``, and moved to the device of the
    scores.

    Parameters
    ----------
    loss : str or RankingLoss
        ``"ap"``, ``"ndcg"``, ``"auc"``, ``"mrr"`` or a loss object; see :func:`maxmargin.most_violating_ranking`.
    reduction : {"mean", "sum", "none"}
        The mean is that of the queries with a positive and a negative.

    Notes
    -----
    The score of a ranking is a mean over pairs, so that the gradient of a single score is small, of the order of ``2/N``.
    The gradient is that of one maximiser; where several rankings are equally good it is one of many subgradients. There is
    no second derivative. Several queries are shared out among ``torch.get_num_threads()`` threads.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([2.0, 1.0, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    >>> value = RankingHinge("ap")(scores, torch.tensor([True, False, True, False]))
    >>> value.backward()
    >>> print(f"{value.item():.4f}", scores.grad)
    0.4167 tensor([ 0.0000,  0.5000, -0.5000,  0.0000], dtype=torch.float64)

    Two queries, the second one shorter:

    >>> hinge = RankingHinge("auc", reduction="none")
    >>> scores = torch.tensor([[0.5, 0.2, 0.1], [0.0, 1.0, 0.0]])
    >>> relevant = torch.tensor([[1, 0, 1], [1, 0, 0]])
    >>> hinge(scores, relevant, mask=torch.tensor([[True, True, True], [True, True, False]]))
    tensor([0.8000, 3.0000])
    """

    def __init__(self, loss: str | RankingLoss = "ap", reduction: Reduction = "mean") -> None:
        super().__init__(loss, reduction)

    def _solve(self, lists: Lists) -> tuple[Floats, NDArray[np.floating[Any]]]:
        _, hinge, gradient = solve_lists(lists.values, lists.truth, lists.offsets, self._checked, 1.0, torch.get_num_threads())
        return hinge, gradient


class APLoss(RankingHinge):
    """:class:`RankingHinge` of ``1 - AP``.

    Examples
    --------
    >>> import torch
    >>> APLoss()(torch.tensor([3.0, 2.0, 0.0]), torch.tensor([1, 1, 0]))
    tensor(0.)
    """

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("ap", reduction)


class NDCGLoss(RankingHinge):
    """:class:`RankingHinge` of ``1 - NDCG`` for a binary relevance."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("ndcg", reduction)


class AUCLoss(RankingHinge):
    """:class:`RankingHinge` of ``1 - AUC``, the fraction of wrong pairs: the mean over pairs of a hinge with margin 1/2."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("auc", reduction)
