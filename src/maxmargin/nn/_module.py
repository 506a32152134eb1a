"""What all rank losses for networks share: reduction, skipped queries, and the way a known gradient enters autograd."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

from maxmargin._types import Floats
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
        each: torch.Tensor = _Known.apply(scores, lists.per_query(value), lists.per_document(gradient))  # type: ignore[no-untyped-call]
        if self.reduction == "none":
            return each
        # Skipped queries are zero, so the mean over the others has no NaN even if all are skipped.
        return each.sum() / max(1, len(skipped) - self.n_skipped) if self.reduction == "mean" else each.sum()

    @abstractmethod
    def _solve(self, lists: Lists) -> tuple[Floats, NDArray[np.floating[Any]]]:
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
