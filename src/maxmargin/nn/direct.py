"""Direct loss minimisation: the gradient of the expected loss, from two rankings (spec B8)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin._types import Floats
from maxmargin.inference.direct import direct_losses
from maxmargin.losses import RankingLoss
from maxmargin.nn._lists import Lists
from maxmargin.nn._module import ListwiseLoss, Reduction


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

    def _solve(self, lists: Lists) -> tuple[Floats, NDArray[np.floating[Any]]]:
        threads = torch.get_num_threads()
        return direct_losses(lists.values, lists.truth, lists.offsets, self._checked, self.epsilon, self.sign, threads)

    def extra_repr(self) -> str:
        """The loss, the perturbation and the reduction."""
        return f"{self.loss!r}, epsilon={self.epsilon}, sign={self.sign}, reduction={self.reduction!r}"
