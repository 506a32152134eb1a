"""Rankings of a list of relevant and irrelevant samples: which of them stand above which of the other kind.

The score of a ranking is the mean over (relevant, irrelevant) pairs of the difference of their scores, signed by their
order (thesis chapter 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin._utils import Booleans, Floats, Ints, check_relevant, thread_count
from maxmargin.core import Problem, Structure, check_rows, stack
from maxmargin.ranking.checked import checked_loss
from maxmargin.ranking.inference import solve_lists
from maxmargin.ranking.losses import RankingLoss, ranking_loss


class Interleaving(NamedTuple):
    """A ranking as far as features and losses can see it.

    Attributes
    ----------
    relevant : boolean array of shape (n,)
    ranks : int array of shape (n,)
        For every sample one plus the number of samples of the other kind above it.
    """

    relevant: Booleans
    ranks: Ints

    @classmethod
    def right(cls, relevant: Any) -> Interleaving:
        """All relevant samples first."""
        mask = np.asarray(relevant, dtype=bool)
        return cls(mask, np.where(mask, 1, 1 + np.count_nonzero(mask)))

    @classmethod
    def of_order(cls, relevant: Any, order: Any) -> Interleaving:
        """Of the samples in this order, from first to last."""
        mask = np.asarray(relevant, dtype=bool)
        ranks, placed = np.empty(len(mask), dtype=np.int64), mask[order]
        ranks[order] = 1 + np.where(placed, np.cumsum(~placed), np.cumsum(placed))
        return cls(mask, ranks)


class RankingStructure(Structure):
    """Rankings with a rank loss. Inputs are the features (n, d) of one list, true outputs say which samples are relevant.

    Outputs are an :class:`Interleaving`; a prediction, for which nothing is known to be relevant, is an array of shape (n,)
    with the samples from first to last.

    Parameters
    ----------
    loss : str or RankingLoss
        As in :func:`maxmargin.most_violating_ranking`.

    Examples
    --------
    >>> structure, X = RankingStructure("ap"), np.array([[2.0], [1.0], [0.5], [0.0]])
    >>> structure.decode(X, np.array([1.0]))
    array([0, 1, 2, 3])
    >>> structure.decode(X, np.array([1.0]), [True, False, True, False], b=1.0).ranks
    array([1, 2, 2, 3])
    """

    def __init__(self, loss: str | RankingLoss = "ap") -> None:
        self.rank_loss = checked_loss(ranking_loss(loss))

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """Rows of numbers, and the right ranking of them."""
        rows = check_rows(x, "x")
        return rows, None if y is None else Interleaving.right(check_relevant(y, rows.shape[0]))

    def joint_feature(self, x: Any, y: Any) -> Floats:
        """The mean over all pairs of the difference of their features, signed by their order, shape (d,)."""
        if not isinstance(y, Interleaving) and np.asarray(y).dtype != bool:
            raise TypeError("y must be an Interleaving, or say by booleans what is relevant: other rankings have no features")
        relevant, ranks = y if isinstance(y, Interleaving) else Interleaving.right(y)
        n_pos = int(np.count_nonzero(relevant))
        other = np.where(relevant, len(ranks) - n_pos, n_pos)
        pairs = max(1, n_pos * (len(ranks) - n_pos))
        # A sample is in as many pairs as there are samples of the other kind, and in ``ranks - 1`` of them it is the lower one.
        return np.asarray((other - 2 * (ranks - 1)) @ x, dtype=np.float64).ravel() / pairs

    def loss(self, truth: Any, y: Any) -> float:
        """The rank loss; ``y`` may also be the samples from first to last."""
        relevant = truth.relevant if isinstance(truth, Interleaving) else np.asarray(truth, dtype=bool)
        if relevant.all() or not relevant.any():
            return 0.0
        ranks = (y if isinstance(y, Interleaving) else Interleaving.of_order(relevant, y)).ranks
        return float(self.rank_loss.value(np.sort(ranks[relevant]) - 1, int(np.count_nonzero(~relevant))))

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """The best ranking; see :func:`maxmargin.most_violating_ranking`."""
        return RankingStructure.decode_batch(self, [x], weights, None if truth is None else [truth], a, b)[0]

    def decode_batch(
        self, xs: Sequence[Any], weights: Floats, truths: Sequence[Any] | None = None, a: float = 1.0, b: float = 0.0
    ) -> list[Any]:
        """Those of several lists, on all cores."""
        offsets = np.concatenate([[0], np.cumsum([x.shape[0] for x in xs])])
        scores = np.ascontiguousarray(stack(xs) @ (a * weights))
        if truths is None:
            return [np.argsort(-part, kind="stable") for part in np.split(scores, offsets[1:-1])]
        known = [truth.relevant if isinstance(truth, Interleaving) else np.asarray(truth, dtype=bool) for truth in truths]
        relevant = np.concatenate(known)
        _, _, gradient = solve_lists(scores, relevant.view(np.uint8), offsets, self.rank_loss, b, thread_count(None))
        found = []
        for mask, slopes in zip(known, np.split(gradient, offsets[1:-1]), strict=True):
            n_pos = np.count_nonzero(mask)
            # A sample's slope is 2/(PN) for every sample of the other kind on the wrong side of it.
            wrong = np.rint(slopes * (0.5 * n_pos * (len(mask) - n_pos))).astype(np.int64)
            found.append(Interleaving(mask, np.where(mask, 1, 1 + n_pos) - wrong))
        return found

    def make_problem(self, xs: Sequence[Any], ys: Sequence[Any]) -> Problem:
        """The compiled problem of these lists."""
        from maxmargin.ranking.problem import RankingProblem

        offsets = np.concatenate([[0], np.cumsum([x.shape[0] for x in xs])])
        return RankingProblem(stack(xs), np.concatenate([y.relevant for y in ys]), self.rank_loss, offsets)
