"""Training of rounding networks: many problems, or one of them when a network is tuned (spec C5).

The objective is the mean over problems and latent variables of the exact expected energy of complete rounding, plus a weight
times the negative entropy of the marginals. Of all states that are measured, the one with the least mean energy is kept;
measured is without the entropy, with the same latent noise every time, so that two measurements differ by the weights alone.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from maxmargin._utils import StatusLine, warn
from maxmargin.nn._rounding_inputs import RoundingInput
from maxmargin.nn.expected_energy import ExpectedEnergyLoss
from maxmargin.nn.rounding_network import Draws, RoundingNetwork

Gradient = Literal["reparameterized", "score"]
Schedule = Literal["linear", "constant"]
_ENERGIES = ExpectedEnergyLoss(reduction="none")
# Latent draws of a measurement, problems that are measured at once, how many measurements are enough, and after how many epochs
# there is one all the same: long training is often ended by a time limit or Ctrl-C, which keep what was measured.
_JUDGED, _AT_ONCE, _MEASUREMENTS, _LONGEST = 4, 16, 50, 20


class VarianceCollapseWarning(UserWarning):
    """The latent variables hardly vary any more: all draws give the same marginals."""


@dataclass(frozen=True)
class RoundingEpoch:
    """What the weights were worth after an epoch.

    Attributes
    ----------
    epoch : int
        0 is before training.
    energy : float
        Mean expected energy of complete rounding, over problems and latent draws.
    relative_energy : float
        The same, with 0 for a trivial lower bound and 1 for what simple rounding finds: the measure by which weights are kept.
    entropy : float
        Mean entropy of a node's marginals, from 0 to 1.
    entropy_weight : float
        That of the objective in this epoch.
    sigma : float
        Geometric mean of the standard deviations of the latent variables.
    variation : float
        Mean over nodes of the total variation between the marginals of two draws, from 0 to 1.
    objective : float
        Mean while training in this epoch, with noise of its own; NaN before.
    seconds : float
        Since training began.
    """

    epoch: int
    energy: float
    relative_energy: float
    entropy: float
    entropy_weight: float
    sigma: float
    variation: float
    objective: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """How to train."""

    epochs: int
    batch_size: int
    samples: int
    gradient: Gradient
    entropy: float
    entropy_schedule: Schedule
    normalize: bool
    learning_rate: float
    clip: float
    collapse: float
    ends: float
    seed: int
    measurements: int | None = None

    def entropy_weight(self, epoch: int) -> float:
        """Of an epoch, counted from 1."""
        fading = 1 - (epoch - 1) / max(1, self.epochs - 1) if self.entropy_schedule == "linear" and self.epochs > 1 else 1.0
        return self.entropy * fading


def costs(draws: Sequence[Draws], inputs: Sequence[RoundingInput], plan: Plan, weight: float) -> list[torch.Tensor]:
    """What training makes small, for every problem and draw: tensors of shape (K,)."""
    energies = _ENERGIES([own.marginals for own in draws], [one.energy for one in inputs])
    found = []
    for energy, own, one in zip(energies, draws, inputs, strict=True):
        total = (energy - one.offset) / one.scale if plan.normalize else energy
        if weight > 0:
            total = total + weight * negative_entropy(own.marginals) / (_most_entropy(one) if plan.normalize else 1.0)
        found.append(total)
    return found


def surrogate(draws: Sequence[Draws], values: Sequence[torch.Tensor], plan: Plan, baseline: float) -> torch.Tensor:
    """A number whose gradient is that of the mean cost, or an unbiased estimate of it.

    The latent variables of score-function gradients are constants; what the encoder has to do with them is the density of what
    was drawn, times how much more the draw costs than the others of the same problem, or than ``baseline`` if there are none.
    """
    if plan.gradient == "reparameterized":
        return torch.stack([own.mean() for own in values]).mean()
    parts = []
    for own, value in zip(draws, values, strict=True):
        k = len(value)
        known = value.detach()
        others = (known.sum() - known) / (k - 1) if k > 1 else torch.full_like(known, baseline)
        parts.append((value + (known - others) * own.log_density.to(value.dtype)).mean())
    return torch.stack(parts).mean()


def negative_entropy(marginals: torch.Tensor) -> torch.Tensor:
    """``sum y log y`` over nodes and labels, shape (K,)."""
    # What has underflowed, and what is forbidden, must have a finite slope.
    return (marginals * marginals.clamp_min(1e-300).log()).sum(dim=(-2, -1))


def train(
    network: RoundingNetwork, inputs: Sequence[RoundingInput], judged: Sequence[RoundingInput], plan: Plan, line: StatusLine
) -> tuple[list[RoundingEpoch], str]:
    """Train a network in place; it ends with the best weights that were measured. Returns what was measured, and why it ended."""
    started = time.perf_counter()
    rng, generator = np.random.default_rng(plan.seed), torch.Generator().manual_seed(plan.seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=plan.learning_rate)
    history, best, least, status, baseline, warned = [], _state(network), math.inf, "done", 0.0, False
    every = min(_LONGEST, max(1, plan.epochs // (plan.measurements or _MEASUREMENTS)))
    epoch = 0
    try:
        while True:
            if epoch:
                weight, total, done = plan.entropy_weight(epoch), 0.0, 0
                order = rng.permutation(len(inputs))
                for first in range(0, len(order), plan.batch_size):
                    batch = [inputs[k] for k in order[first : first + plan.batch_size]]
                    draws = network(batch, plan.samples, generator, frozen=plan.gradient == "score")
                    if not all(torch.isfinite(own.marginals).all() for own in draws):
                        raise FloatingPointError(f"weights are no longer finite in epoch {epoch}; lower learning_rate")
                    values = costs(draws, batch, plan, weight)
                    optimizer.zero_grad()
                    surrogate(draws, values, plan, baseline).backward()  # type: ignore[no-untyped-call]
                    torch.nn.utils.clip_grad_norm_(network.parameters(), plan.clip)
                    optimizer.step()
                    mean = float(torch.stack([own.detach().mean() for own in values]).mean())
                    baseline += 0.1 * (mean - baseline)
                    total, done = total + mean * len(batch), done + len(batch)
                    if time.perf_counter() > plan.ends:
                        status = "time_limit"
                        break
            elif time.perf_counter() > plan.ends:
                status = "time_limit"
            ended = status == "time_limit" or epoch >= plan.epochs
            if epoch % every == 0 or ended:
                measured = measure(network, judged, plan.seed)
                objective = total / done if epoch else math.nan
                now = plan.entropy_weight(max(1, epoch))
                history.append(RoundingEpoch(epoch, *measured[:3], now, *measured[3:], objective, time.perf_counter() - started))
                line.show(f"epoch {epoch} of {plan.epochs}, mean energy {measured[0]:.6g}, sigma {measured[3]:.2g}")
                if history[-1].relative_energy < least:
                    best, least = _state(network), history[-1].relative_energy
                if not warned and history[-1].sigma < plan.collapse * history[0].sigma:
                    warned = True
                    _warn(history[-1], history[0])
            if ended:
                break
            epoch += 1
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        network.load_state_dict(best)
    if not history:
        raise KeyboardInterrupt
    return history, status


def measure(network: RoundingNetwork, inputs: Sequence[RoundingInput], seed: int) -> tuple[float, float, float, float, float]:
    """Mean energy, the same relative to simple rounding, entropy, sigma and variation; the same noise for the same seed."""
    generator = torch.Generator().manual_seed(seed + 1)
    rows = []
    with torch.no_grad():
        for first in range(0, len(inputs), _AT_ONCE):
            some = inputs[first : first + _AT_ONCE]
            for own, one in zip(network(some, _JUDGED, generator), some, strict=True):
                energy = float(_ENERGIES([own.marginals], [one.energy])[0].mean())
                entropy = float(-negative_entropy(own.marginals).mean()) / _most_entropy(one)
                variation = float((own.marginals[1:] - own.marginals[:-1]).abs().sum(-1).mean()) / 2
                rows.append((energy, (energy - one.offset) / one.scale, entropy, float(own.log_sigma), variation))
    energy, relative, entropy, log_sigma, variation = (float(value) for value in np.mean(rows, axis=0))
    return energy, relative, entropy, math.exp(log_sigma), variation


def _most_entropy(one: RoundingInput) -> float:
    n_nodes, n_labels = one.marginals.shape
    return n_nodes * math.log(n_labels) if n_labels > 1 else 1.0


def _state(network: RoundingNetwork) -> dict[str, Any]:
    return copy.deepcopy(network.state_dict())


def _warn(now: RoundingEpoch, first: RoundingEpoch) -> None:
    warn(
        f"the standard deviations of the latent variables fell from {first.sigma:.2g} to {now.sigma:.2g} until epoch "
        f"{now.epoch}: soon all draws are the same; pass min_sigma=0.1, a larger entropy, or entropy_schedule='constant'",
        VarianceCollapseWarning,
    )
