"""The exact mean energy of complete rounding, as a torch loss.

``maxmargin.labeling.expected_energy`` knows value and gradient; both are attached to the graph, torch differentiates neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from maxmargin._utils import check_choice
from maxmargin.labeling import Energy, expected_energy

Reduction = Literal["mean", "sum", "none"]


class ExpectedEnergyLoss(torch.nn.Module):
    """Mean energy of what complete rounding draws from marginals, for many problems at once.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        Over everything, or one value for every set of marginals.

    Notes
    -----
    The gradient is right for changes that keep the sum of a node's marginals, as those of a softmax do. Labels of infinite cost
    must have marginal zero, and get no gradient.

    Examples
    --------
    >>> energy = Energy([[0.0, 1.0], [1.0, 0.0]], edges=[(0, 1)], pairwise="potts")
    >>> logits = torch.zeros(3, 2, 2, dtype=torch.float64, requires_grad=True)      # three times two nodes, two labels
    >>> loss = ExpectedEnergyLoss(reduction="none")([logits.softmax(-1)], [energy])
    >>> loss[0].detach()
    tensor([1., 1., 1.], dtype=torch.float64)
    >>> loss[0].sum().backward()
    >>> logits.grad[0]
    tensor([[-0.2500,  0.2500],
            [ 0.2500, -0.2500]], dtype=torch.float64)
    """

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        self.reduction = reduction

    def forward(self, marginals: Sequence[torch.Tensor], energies: Sequence[Energy]) -> Any:
        """The loss.

        Parameters
        ----------
        marginals : sequence of tensors of shape (N, L) or (K, N, L)
            Those of every problem, once or K times.
        energies : sequence of Energy
            One for every problem.

        Returns
        -------
        tensor of shape (), or with ``reduction="none"`` a list of tensors of shape () or (K,)
        """
        if isinstance(marginals, torch.Tensor) or isinstance(energies, Energy):
            raise TypeError("marginals and energies must be sequences, one entry for every problem; write [marginals], [energy]")
        if len(marginals) != len(energies):
            raise ValueError(f"there are {len(marginals)} sets of marginals, but {len(energies)} energies; give one for each")
        if len(marginals) == 0 and self.reduction != "none":
            raise ValueError("marginals are empty; give those of at least one problem")
        values = []
        for k, (y, energy) in enumerate(zip(marginals, energies, strict=True)):
            if not isinstance(y, torch.Tensor) or not y.dtype.is_floating_point or y.ndim not in (2, 3):
                raise TypeError(f"marginals[{k}] must be a tensor of real numbers of shape (N, L) or (K, N, L)")
            values.append(_ExpectedEnergy.apply(y, energy, f"marginals[{k}]"))  # type: ignore[no-untyped-call]
        if self.reduction == "none":
            return values
        flat = torch.cat([value.reshape(-1) for value in values])
        return flat.mean() if self.reduction == "mean" else flat.sum()


class _ExpectedEnergy(torch.autograd.Function):
    """Value of shape (), or (K,) of K sets of marginals, with the gradient that comes along with it."""

    @staticmethod
    def forward(ctx: Any, marginals: torch.Tensor, energy: Energy, name: str) -> torch.Tensor:
        sets = marginals.detach().to("cpu", torch.float64).reshape(-1, *marginals.shape[-2:]).numpy()
        values, slopes = np.empty(len(sets)), np.empty(sets.shape)
        for k, y in enumerate(sets):
            try:
                values[k], slopes[k] = expected_energy(np.ascontiguousarray(y), energy, gradient=True)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has some of a label that is forbidden; set its logit to -inf")
        # Forbidden labels, which are absent: they stay where they are.
        slopes[~np.isfinite(slopes)] = 0.0
        kept = torch.from_numpy(slopes).reshape(marginals.shape).to(marginals.dtype).to(marginals.device)
        ctx.save_for_backward(kept)
        return torch.from_numpy(values).reshape(marginals.shape[:-2]).to(marginals.dtype).to(marginals.device)

    @staticmethod
    def backward(ctx: Any, *outward: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return outward[0][..., None, None] * slopes, None, None
