"""Rank losses as torch modules: reduction, skipped queries, and the way a known gradient enters autograd."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from maxmargin._types import Floats, Reals
from maxmargin.inference.direct import direct_losses
from maxmargin.inference.ranking import solve_lists
from maxmargin.losses import RankingLoss, ranking_loss
from maxmargin.losses.checked import checked_loss
from maxmargin.nn._lists import Lists, as_lists

Reduction = Literal["mean", "sum", "none"]


class ListwiseLoss(torch.nn.Module):
    """A function of each query's scores with a known value and gradient.

    Attributes
    ----------
    n_skipped : int
        Queries of the last call without a positive or without a negative. Every ranking of them is right: their value and
        gradient are zero.
    """

    n_skipped: int

    def __init__(self, loss: str | RankingLoss, reduction: Reduction) -> None:
        super().__init__()
        if reduction not in get_args(Reduction):
            raise ValueError(f"reduction={reduction!r} is unknown; choose one of {', '.join(map(repr, get_args(Reduction)))}")
        self.loss = ranking_loss(loss)
        self._checked = checked_loss(self.loss)
        self.reduction = reduction
        self.n_skipped = 0

    def forward(self, scores: torch.Tensor, relevant: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """The loss of one query or of a batch.

        Parameters
        ----------
        scores : float32 or float64 tensor of shape (n,) or (queries, documents)
            Higher is better. Must be finite, except where ``mask`` is False.
        relevant : tensor of the same shape
            Booleans, or zeros and ones: the positives.
        mask : boolean tensor of the same shape, optional
            False marks padding.

        Returns
        -------
        tensor
            A scalar; with ``reduction="none"`` and two-dimensional scores, one value per query, shape (queries,).
        """
        lists = as_lists(scores, relevant, mask)
        skipped = lists.skipped()
        self.n_skipped = int(np.count_nonzero(skipped))
        value, gradient = self._solve(lists)
        attach: Any = _Known.apply
        each: torch.Tensor = attach(scores, lists.per_query(value), lists.per_document(gradient))
        if self.reduction == "none":
            return each
        # Skipped queries are zero, so the mean over the others has no NaN even if all are skipped.
        return each.sum() / max(1, len(skipped) - self.n_skipped) if self.reduction == "mean" else each.sum()

    @abstractmethod
    def _solve(self, lists: Lists) -> tuple[Floats, Reals]:
        """Value of each query, shape (q,), and gradient, shape (n,)."""

    def extra_repr(self) -> str:
        """The loss and the reduction."""
        return f"{self.loss!r}, reduction={self.reduction!r}"


class _Known(torch.autograd.Function):
    """Values whose gradient with respect to the scores is known already."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient)
        # A view would forbid the user to add to the result in place.
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return outer.unsqueeze(-1) * gradient, None, None


class RankingHinge(ListwiseLoss):
    """The largest value, over all rankings, of their loss plus the difference of their score to that of the true ranking.

    An upper bound of the loss of the ranking by score, convex and piecewise linear in the scores. Value and gradient are
    exact; they are computed on the processor, in about a tenth of the time of ``torch.sort``, and moved to the device of the
    scores.

    Parameters
    ----------
    loss : str or RankingLoss
        ``"ap"``, ``"ndcg@10"`` or another name, or a loss object; see :func:`maxmargin.most_violating_ranking`.
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

    def _solve(self, lists: Lists) -> tuple[Floats, Reals]:
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


class DirectLoss(ListwiseLoss):
    """Direct loss minimisation of a rank loss.

    The gradient is ``sign / epsilon`` times the difference of the gradients of the score ``F`` of two rankings: the best one
    for ``F + sign * epsilon * delta``, and the ranking by score. As ``epsilon`` vanishes, its expectation over samples
    becomes the gradient of the expected loss. With ``sign=1`` scores move away from a worse ranking, with ``sign=-1``
    towards a better one.

    The value is ``sign / epsilon`` times the difference of the two maxima, ``max(F + sign * epsilon * delta) - max(F)``,
    which has exactly this gradient. It lies above the loss of the ranking by score for ``sign=1`` and below for ``sign=-1``,
    and equals it in the limit. It is not convex, and flat wherever the two rankings agree.

    Parameters
    ----------
    loss : str or RankingLoss
        As in :class:`RankingHinge`.
    epsilon : float
        Weight of the loss in the perturbed inference, positive. Since ``F`` is a mean over pairs, 1 perturbs scores whose
        differences are about 1.
    sign : {1, -1}
        With -1 inference takes O(PN) time and PN bits per query, not almost linear ones: no negative finds its place
        alone when the loss is subtracted.
    reduction : {"mean", "sum", "none"}
        As in :class:`RankingHinge`.

    Examples
    --------
    >>> import torch
    >>> scores, relevant = torch.tensor([0.3, 0.2, 0.0]), torch.tensor([0, 1, 0])
    >>> for sign in (1, -1):                    # the loss is 1/2
    ...     print([round(DirectLoss("ap", epsilon, sign)(scores, relevant).item(), 3) for epsilon in (5.0, 0.5, 0.2)])
    [0.627, 0.5, 0.5]
    [0.02, 0.2, 0.5]
    """

    def __init__(
        self, loss: str | RankingLoss = "ap", epsilon: float = 1.0, sign: Literal[1, -1] = 1, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(loss, reduction)
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise ValueError(f"epsilon={epsilon} must be a positive number; the side is chosen by sign")
        if sign not in (1, -1):
            raise ValueError(f"sign={sign} must be 1 or -1")
        self.epsilon = epsilon
        self.sign = sign

    def _solve(self, lists: Lists) -> tuple[Floats, Reals]:
        threads = torch.get_num_threads()
        return direct_losses(lists.values, lists.truth, lists.offsets, self._checked, self.epsilon, self.sign, threads)

    def extra_repr(self) -> str:
        """The loss, the perturbation and the reduction."""
        return f"{self.loss!r}, epsilon={self.epsilon}, sign={self.sign}, reduction={self.reduction!r}"
