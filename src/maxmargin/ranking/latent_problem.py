"""Ranking with weak supervision: labels belong to bags, and nobody says which candidate of a bag earned them.

Three problems, each made convex by imputing the candidates of (at least) the positives. ``M_k(w)`` is the best score in bag
k. See Behl 2015; where the printed formulas contradict each other these follow the ones that hold.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.core import Cut, OneBlockLatentProblem, Plane
from maxmargin.ranking.bags import Bags
from maxmargin.ranking.checked import checked_loss
from maxmargin.ranking.inference import most_violating_ranking
from maxmargin.ranking.joint_inference import most_violating_joint_ranking
from maxmargin.ranking.losses import RankingLoss


class ImputedBags(OneBlockLatentProblem):
    """A weakly supervised problem whose samples in ``members`` have an imputed candidate: convex, one block, exact cuts.

    Parameters
    ----------
    bags : Bags
        Candidates of n samples.
    relevant : boolean array of shape (n,)
        The positives.
    members : int array
        Samples that are imputed.
    """

    def __init__(self, bags: Bags, relevant: Booleans, members: NDArray[np.intp]) -> None:
        super().__init__()
        self.bags = bags
        self.relevant = relevant
        self.members = members
        self.n_features = bags.n_features
        self.imputed: Ints = bags.offsets[:-1][members]

    def start(self, rng: np.random.Generator) -> None:
        """Random candidates; those that are given stay."""
        self.imputed = self.bags.random(rng)[self.members]
        self._planes.clear()

    def impute(self, weights: Floats) -> bool:
        """The candidates that are best for ``weights``; whether any changed."""
        before = self.imputed
        self._forget(weights)
        self.imputed = self._best(weights)[self.members]
        return not np.array_equal(before, self.imputed)

    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent cut at ``weights``, all other candidates being the most violating ones."""
        plane = self._plane(weights)
        self._planes.append(plane)
        return self._as_cut(plane)

    def hinge(self, weights: Floats) -> float:
        """The non-convex hinge, if ``weights`` were used for the imputation; otherwise an upper bound of it."""
        return self._as_cut(self._plane(weights)).hinge(weights)

    def _as_cut(self, plane: Plane) -> Cut:
        return Cut(plane.rest + self._features(plane.shares, self.imputed), plane.loss)

    def _features(self, coefficients: Floats, rows: Ints) -> Floats:
        return self.bags.combine(coefficients, rows)

    def _best(self, weights: Floats) -> Ints:
        positive = np.zeros(len(self.bags), dtype=bool)
        positive[self.members] = True
        return self.bags.highest(weights, positive)[1]

    @abstractmethod
    def _plane(self, weights: Floats) -> Plane:
        """The most violating output."""


class LatentRankingProblem(ImputedBags):
    """Latent AP-SVM, for any rank loss: ``max over rankings of loss - 2/(PN) (sum a_i M_i - sum b_j M_j)``.

    ``a_i`` negatives stand above positive i, and ``b_j`` positives below negative j. The hinge bounds the loss of the ranking
    by best candidates, the one that is used afterwards. Imputation fixes the candidates of the positives; those of the
    negatives are maximised in every cut, which is exact.

    Parameters
    ----------
    bags, relevant
        As for :class:`ImputedBags`.
    loss : RankingLoss
        Any; those that are not QS-suitable take time proportional to the number of pairs, unless they are built in.
    """

    def __init__(self, bags: Bags, relevant: Booleans, loss: RankingLoss) -> None:
        super().__init__(bags, relevant, np.flatnonzero(relevant))
        self.loss = loss
        self.checked = checked_loss(loss)

    def _plane(self, weights: Floats) -> Plane:
        scores, rows = self.bags.highest(weights, ~self.relevant)
        scores[self.members] = self.bags.at(self.imputed, weights)
        found = most_violating_ranking(scores, self.relevant, self.checked)
        gradient = np.asarray(found.gradient, dtype=np.float64)
        shares = -gradient[self.members]
        gradient[self.members] = 0.0
        return Plane(found.loss, shares, -self.bags.combine(gradient, rows))


class JointLatentRankingProblem(ImputedBags):
    """Latent structured SVM with a rank loss: the violating output chooses ranking and candidates together.

    Parameters
    ----------
    bags, relevant
        As for :class:`ImputedBags`.
    loss : RankingLoss
        Any rank loss.
    variant : {"A1", "standard"}
        What the true ranking is compared with. In ``"A1"`` the negatives take their best candidates there, which charges
        their spread of scores even for a perfect ranking, but bounds the loss of ranking by best candidates. In
        ``"standard"`` (Yu and Joachims) they take their worst; that bounds the loss of another rule, which needs labels.
    inference : {"greedy", "exact"}
        See :func:`maxmargin.ranking.joint_inference.most_violating_joint_ranking`. With ``"greedy"`` nothing is certified.
    """

    def __init__(
        self,
        bags: Bags,
        relevant: Booleans,
        loss: RankingLoss,
        variant: Literal["A1", "standard"] = "A1",
        inference: Literal["greedy", "exact"] = "greedy",
    ) -> None:
        standard = variant == "standard"
        super().__init__(bags, relevant, np.arange(len(relevant)) if standard else np.flatnonzero(relevant))
        self.loss = loss
        self.standard = standard
        self.inference: Literal["greedy", "exact"] = inference
        self.exact = inference == "exact"
        # Coefficients of the true ranking.
        self.truth = np.where(relevant, 1.0 / np.count_nonzero(relevant), -1.0 / np.count_nonzero(~relevant))

    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent cut; never one that the truth beats."""
        found = super().cut(block, weights)
        # The search begins at the truth, so what lies below it is rounding of features that cancel.
        return found if found.hinge(weights) > 0 else Cut(np.zeros(self.n_features), 0.0)

    def _best(self, weights: Floats) -> Ints:
        if not self.standard:
            return super()._best(weights)
        return np.where(self.relevant, self.bags.highest(weights)[1], self.bags.lowest(weights)[1])

    def _plane(self, weights: Floats) -> Plane:
        highest, top = self.bags.highest(weights)
        lowest, bottom = self.bags.lowest(weights)
        found = most_violating_joint_ranking(highest, lowest, self.relevant, self.loss, method=self.inference)
        rest = -self.bags.combine(found.coefficients, np.where(found.coefficients >= 0, top, bottom))
        if not self.standard:
            rest += self.bags.combine(np.where(self.relevant, 0.0, self.truth), top)
        return Plane(found.loss, self.truth[self.members], rest)


class LatentBinaryProblem(ImputedBags):
    """Latent SVM: ``(J sum over positives of max(0, 1 - M_i - b) + sum over negatives of max(0, 1 + M_j + b)) / n``.

    The last weight is that of a constant feature, if there is an intercept.

    Parameters
    ----------
    bags, relevant
        As for :class:`ImputedBags`.
    positive_weight : float
        J.
    fit_intercept : bool
    outlier_fraction : float
        Share of the highest scoring candidates of the negatives that is ignored, anew after every round; the objective may
        then rise.
    """

    def __init__(
        self,
        bags: Bags,
        relevant: Booleans,
        positive_weight: float = 1.0,
        fit_intercept: bool = True,
        outlier_fraction: float = 0.0,
    ) -> None:
        super().__init__(bags, relevant, np.flatnonzero(relevant))
        self.fit_intercept = fit_intercept
        self.n_features = bags.n_features + fit_intercept
        self.cost = np.where(relevant, positive_weight, 1.0) / len(relevant)
        self.outlier_fraction = outlier_fraction
        self.descends = outlier_fraction == 0
        self.ignored: Booleans | None = None

    def start(self, rng: np.random.Generator) -> None:
        """Random candidates, and all candidates of the negatives."""
        super().start(rng)
        self.ignored = None

    def revise(self, weights: Floats) -> bool:
        """Ignore the most confusing candidates of the negatives from now on; whether that changed the problem."""
        if self.descends:
            return False
        before = self.ignored
        self.ignored = self.bags.outliers(weights[: self.bags.n_features], ~self.relevant, self.outlier_fraction)
        # Older cuts may speak of candidates that are now ignored.
        self._planes.clear()
        return before is None or not np.array_equal(before, self.ignored)

    def _best(self, weights: Floats) -> Ints:
        return super()._best(weights[: self.bags.n_features])

    def _features(self, coefficients: Floats, rows: Ints) -> Floats:
        features = self.bags.combine(coefficients, rows)
        return np.append(features, coefficients.sum()) if self.fit_intercept else features

    def _plane(self, weights: Floats) -> Plane:
        slope = weights[: self.bags.n_features]
        scores, rows = self.bags.highest(slope, ~self.relevant, self.ignored)
        scores[self.members] = self.bags.at(self.imputed, slope)
        if self.fit_intercept:
            scores += weights[-1]
        sign = np.where(self.relevant, 1.0, -1.0)
        coefficients = np.where(sign * scores < 1, sign * self.cost, 0.0)
        loss = float(np.abs(coefficients).sum())
        shares = coefficients[self.members].copy()
        coefficients[self.members] = 0.0
        return Plane(loss, shares, self._features(coefficients, rows))
