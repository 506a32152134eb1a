"""Block-coordinate steps on a shard, the weights of all other shards being fixed; what was gained may be taken in part.

Every block has a point of its own, ``(w_i, l_i)``: a convex combination of its cuts, over ``lambda n``. Those of a shard add up
to its part of the weights and of the dual's linear term. An epoch moves points and remembers where they were;
:meth:`Epochs.mix` goes back a part of the way, which is a convex combination again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.cuts import CheckedProblem


class Epochs:
    """Dual points of the blocks of a shard, all at the truth to begin with.

    Parameters
    ----------
    problem : CheckedProblem
        Blocks of this shard.
    lam : float
        Lambda.
    n_blocks : int
        Of all shards.
    """

    def __init__(self, problem: CheckedProblem, lam: float, n_blocks: int) -> None:
        self.problem, self.lam, self.n = problem, lam, n_blocks
        self._points: dict[int, tuple[Floats, float]] = {}
        # Where blocks were before the last epoch.
        self._before: dict[int, tuple[Floats, float]] = {}

    def run(self, weights: Floats, n_epochs: int, curvature: float, rng: np.random.Generator) -> dict[str, Any]:
        """Frank-Wolfe steps of all blocks, in random order, from the weights of all shards.

        With a ``curvature`` of K the steps are so short that those of K shards may be added up.

        Returns the change of this shard's part: ``change``, shape (d,), and ``gain``, of the linear term.
        """
        here, scale = np.array(weights, dtype=np.float64), self.lam * self.n
        none = (np.zeros(len(here)), 0.0)
        # An epoch whose answer was lost on its way is not counted.
        self.mix(0.0)
        losses, worse = list[float](), self.problem.worse_than_truth
        for block in np.concatenate([rng.permutation(self.problem.n_blocks) for _ in range(n_epochs)]).tolist():
            cut = self.problem.cuts([block], here)[0]
            old, old_loss = self._points.get(block, none)
            direction, rise = cut.dense(len(here)) / scale - old, cut.loss / self.n - old_loss
            squared = self.lam * curvature * float(direction @ direction)
            slope = rise - self.lam * float(direction @ here)
            if not slope > 0:
                continue
            step = 1.0 if squared <= slope else slope / squared
            self._before.setdefault(block, (old, old_loss))
            self._points[block] = (old + step * direction, old_loss + step * rise)
            here += curvature * step * direction
            losses.append(step * rise)
        change = np.zeros(len(here))
        for block in sorted(self._before):
            change += self._points[block][0] - self._before[block][0]
        return {"change": change, "gain": math.fsum(losses), "worse": self.problem.worse_than_truth - worse}

    def mix(self, part: float) -> None:
        """Take only a part, between 0 and 1, of what the last epoch has changed."""
        for block, (old, old_loss) in self._before.items():
            new, new_loss = self._points[block]
            self._points[block] = (old + part * (new - old), old_loss + part * (new_loss - old_loss))
        self._before = {}
