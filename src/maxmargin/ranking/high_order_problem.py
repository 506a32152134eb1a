"""Ranking of samples that inform each other: a label for each, neighbours that attract each other, and max-marginals as scores.

The score of a labeling ``y`` is ``u . sum of x_i with y_i = 1 + w . sum of f_ij over edges with y_i != y_j``, where ``w <= 0``.
The score of a sample is the best one of a labeling in which it is relevant minus the best one of a labeling in which it is not.
(Dokania 2016, chapter 4, with the corrections of spec 8 and 9. There both labels have weights of nodes; of these only the
difference ``u`` matters, and half of ``1/2 ||u||^2`` is what the best pair of them has.)
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from maxmargin._utils import Booleans, Bytes, Floats, Int32s
from maxmargin.core import ArrayProblem, Bounds, Cut, OneBlockLatentProblem, Plane, Tangent
from maxmargin.labeling import Components, Labelings
from maxmargin.ranking.checked import checked_loss
from maxmargin.ranking.inference import most_violating_ranking
from maxmargin.ranking.losses import RankingLoss


class LinkedSamples:
    """Samples and what joins them, in the order of the connected components.

    Weights are those of the samples' features, ``u = sqrt(2) * weights[:d]`` (so that ``1/2 ||weights||^2`` is the regulariser of
    the two labels together), and those of the edges' features, which must not be positive. *Scores* are what a sample gains by
    label 1 and what an edge gains by different labels, shape (n + E,).

    Parameters
    ----------
    X : array of shape (n, d)
    relevant : boolean array of shape (n,)
    edges : int array of shape (E, 2)
        Pairs of different samples.
    edge_features : array of shape (E, q)
        Not negative.
    """

    def __init__(self, X: Floats, relevant: Booleans, edges: Int32s, edge_features: Floats) -> None:
        self.parts = Components(len(X), edges)
        self.X = np.sqrt(2.0) * X[self.parts.order]
        self.links = np.ascontiguousarray(edge_features[self.parts.edge_order])
        self.relevant: Booleans = np.asarray(relevant, dtype=bool)[self.parts.order]
        self.truth: Bytes = self.relevant.astype(np.uint8)
        self.n_samples, self.n_inputs = X.shape
        self.n_features = self.n_inputs + self.links.shape[1]

    @property
    def bounds(self) -> Bounds:
        """Those under which no edge rewards different labels."""
        upper = np.full(self.n_features, np.inf)
        upper[self.n_inputs :] = 0.0
        return np.full(self.n_features, -np.inf), upper

    def scores(self, weights: Floats) -> Floats:
        """Linear in the weights."""
        return np.concatenate([self.X @ weights[: self.n_inputs], self.links @ weights[self.n_inputs :]])

    def features(self, coefficients: Floats) -> Floats:
        """The transposed map."""
        return np.concatenate([coefficients[: self.n_samples] @ self.X, coefficients[self.n_samples :] @ self.links])

    def split(self, scores: Floats) -> tuple[Floats, Floats]:
        """What nodes gain by label 1, and what edges lose by different labels."""
        # Rounding must not make a reward of a penalty.
        return scores[: self.n_samples], np.maximum(0.0, -scores[self.n_samples :])

    def counts(self, labels: Bytes) -> Floats:
        """The derivative of a labeling's score in the scores: its ones, and its edges with different ends."""
        ends = labels[self.parts.edges]
        return np.concatenate([labels, ends[:, 0] != ends[:, 1]]).astype(np.float64)

    def margins(self, weights: Floats) -> Floats:
        """Differences of max-marginals, shape (n,): what samples are ranked by."""
        labels, costs = self.parts.costs_of_other_labels(*self.split(self.scores(weights)))
        return np.where(labels == 1, costs, -costs)

    def contents(self) -> tuple[Any, ...]:
        """All that hinges depend on."""
        return self.X, self.links, self.parts.edges, self.relevant


class HighOrderBinaryProblem(ArrayProblem):
    """HOB-SVM: the structured hinge of the balanced error, ``(misses / P + false alarms / N) / 2``, one block per component.

    Hinges *add up* to that of all samples; what solvers minimise has their mean.

    Parameters
    ----------
    samples : LinkedSamples
    balanced : bool, default=True
        Multiply the score of a sample in the hinge by what its label costs, ``1 / (2 P)`` or ``1 / (2 N)``, and that of an edge
        by the geometric mean of its ends'. Without edges that is ``(mean over positives of max(0, 1 - s) + mean over negatives
        of max(0, 1 + s)) / 2``. The published form, False, multiplies losses alone: every sample pulls alike, however many its
        class has, and margins are as small as the losses of single samples. It bounds the loss of the best labeling, which the
        balanced form does where no edge joins the two classes.
    """

    def __init__(self, samples: LinkedSamples, balanced: bool = True) -> None:
        self.samples, self.balanced = samples, balanced
        self.n_blocks, self.n_features = samples.parts.n_parts, samples.n_features
        n_pos = int(np.count_nonzero(samples.relevant))
        # What a wrong label costs.
        self.costs = np.where(samples.relevant, 0.5 / n_pos, 0.5 / (samples.n_samples - n_pos))
        self._shares = np.ones(samples.n_samples + len(samples.parts.edges))
        if balanced:
            self._shares = np.concatenate([self.costs, np.sqrt(self.costs[samples.parts.edges].prod(axis=1))])
        self._truth = samples.counts(samples.truth)
        self._bonus = np.where(samples.relevant, -self.costs, self.costs)

    def _contents(self) -> tuple[Any, ...]:
        return *self.samples.contents(), self.balanced

    @property
    def bounds(self) -> Bounds:
        """No edge may reward different labels."""
        return self.samples.bounds

    def scores(self, weights: Floats) -> Floats:
        """Of samples and edges, as they count in the hinge."""
        return self._shares * self.samples.scores(weights)

    def features(self, coefficients: Floats) -> Floats:
        """Back from scores to weights."""
        return self.samples.features(self._shares * coefficients)

    def tangent(self, scores: Floats) -> Tangent:
        """One minimum cut per component."""
        gains, penalties = self.samples.split(scores)
        labels = self.samples.parts.best(gains + self._bonus, penalties)
        loss = float(self.costs[labels != self.samples.truth].sum())
        gradient = self.samples.counts(labels) - self._truth
        hinge = loss + float(gradient @ scores)
        if hinge < 0:  # of the truth, but for rounding
            return Tangent(0.0, 0.0, np.zeros_like(scores))
        return Tangent(hinge / self.n_blocks, loss / self.n_blocks, gradient / self.n_blocks)

    def mean_cut(self, weights: Floats) -> Cut:
        """Of all components."""
        found = self.tangent(self.scores(weights))
        return Cut(self.features(-found.gradient), found.loss)

    def cut(self, block: int, weights: Floats) -> Cut:
        """That of one component."""
        samples, parts = self.samples, self.samples.parts
        nodes = slice(*parts.node_offsets[block : block + 2])
        edges = slice(*parts.edge_offsets[block : block + 2])
        shares, of_edges = self._shares[: samples.n_samples][nodes], self._shares[samples.n_samples :][edges]
        X, links = shares[:, None] * samples.X[nodes], of_edges[:, None] * samples.links[edges]
        gains, slopes = X @ weights[: samples.n_inputs], links @ weights[samples.n_inputs :]
        labels = parts.best(gains + self._bonus[nodes], np.maximum(0.0, -slopes), block, block + 1)
        truth, ends = samples.truth[nodes], parts.edges[edges] - parts.node_offsets[block]
        change = truth.astype(np.float64) - labels
        differ = [(given[ends[:, 0]] != given[ends[:, 1]]).astype(np.float64) for given in (truth, labels)]
        psi = np.concatenate([change @ X, (differ[0] - differ[1]) @ links])
        return Cut(psi, float(self.costs[nodes][labels != truth].sum()))


class HighOrderRankingProblem(OneBlockLatentProblem):
    """HOAP-SVM: ``max over rankings of loss - 2/(PN) (sum a_i s_i - sum b_j s_j)``, where ``s`` are differences of max-marginals.

    ``a_i`` negatives stand above positive i, and ``b_j`` positives below negative j. The hinge bounds the loss of the ranking by
    ``s``. It is the difference of two convex functions: max-marginals of wrong labels minus those of true ones. Imputation fixes
    the labelings of the latter; those of the former are maximised in every cut, which is exact.

    Parameters
    ----------
    samples : LinkedSamples
    loss : RankingLoss
    decomposition : {"component", "global"}
        Whether a max-marginal is that of a sample's own component or of all samples. Their differences are the same, but fixed
        labelings of other components make the convex problems needlessly loose.
    """

    def __init__(
        self, samples: LinkedSamples, loss: RankingLoss, decomposition: Literal["component", "global"] = "component"
    ) -> None:
        super().__init__()
        self.samples = samples
        self.n_features = samples.n_features
        self.loss = loss
        self.checked = checked_loss(loss)
        self.decomposition = decomposition
        parts = samples.parts
        self._part_of = np.repeat(np.arange(parts.n_parts), np.diff(parts.node_offsets))
        self._part_of_edge = np.repeat(np.arange(parts.n_parts), np.diff(parts.edge_offsets))
        # The best labels, and for every sample the best labeling of its component that knows its true label, at `imputed_at`.
        self.imputed_at = np.zeros(self.n_features)
        self._imputed = parts.forced(*samples.split(self.scores(self.imputed_at)), samples.truth)

    @property
    def bounds(self) -> Bounds:
        """No edge may reward different labels."""
        return self.samples.bounds

    # ---- imputation --------------------------------------------------------------------------------------------------------

    def start(self, rng: np.random.Generator) -> None:
        """The labelings that are best for random weights."""
        weights = rng.normal(size=self.n_features)
        weights[self.samples.n_inputs :] *= -np.sign(weights[self.samples.n_inputs :])
        self.impute(weights)
        self._planes.clear()

    def impute(self, weights: Floats) -> bool:
        """The labelings that are best for ``weights`` and true labels; whether any changed."""
        gains, penalties = self.samples.split(self.scores(weights))
        before, imputed = self._imputed, self.samples.parts.forced(gains, penalties, self.samples.truth)
        changed = not self.samples.parts.same(imputed, before)
        if self.decomposition == "global":
            changed |= not np.array_equal(imputed.best, before.best)
        self._imputed, self.imputed_at = imputed, weights.copy()
        self._forget(weights)
        return changed

    def _as_cut(self, plane: Plane) -> Cut:
        # Shares are of the samples' max-marginals, the rest is of the scores.
        return Cut(self.features(self._combine(self._imputed, plane.shares) - plane.rest), plane.loss)

    # ---- hinges ------------------------------------------------------------------------------------------------------------

    def ranking_hinge(self, weights: Floats) -> float:
        """The hinge that is not convex, whatever was imputed."""
        return most_violating_ranking(self.samples.margins(weights), self.samples.relevant, self.checked).hinge

    def scores(self, weights: Floats) -> Floats:
        """Of samples and edges."""
        return self.samples.scores(weights)

    def features(self, coefficients: Floats) -> Floats:
        """Back from scores to weights."""
        return self.samples.features(coefficients)

    def tangent(self, scores: Floats) -> Tangent:
        """The convex hinge: wrong labels have the best labelings for these scores, true ones those that are imputed."""
        samples = self.samples
        gains, penalties = samples.split(scores)
        wrong = samples.parts.forced(gains, penalties, 1 - samples.truth)
        lead = self._values(self._imputed, gains, penalties) - self._values(wrong, gains, penalties)
        found = most_violating_ranking(np.where(samples.relevant, lead, -lead), samples.relevant, self.checked)
        shares = np.abs(np.asarray(found.gradient, dtype=np.float64))
        rest = self._combine(wrong, shares)
        self._planes.append(Plane(found.loss, shares, rest))
        return Tangent(found.hinge, found.loss, rest - self._combine(self._imputed, shares))

    def mean_cut(self, weights: Floats) -> Cut:
        """The tangent cut at ``weights``."""
        found = self.tangent(self.scores(weights))
        return Cut(self.features(-found.gradient), found.loss)

    def cut(self, block: int, weights: Floats) -> Cut:
        """There is one block."""
        return self.mean_cut(weights)

    def _values(self, labelings: Labelings, gains: Floats, penalties: Floats) -> Floats:
        """Scores of a labeling per sample; in the global form the other components have the best labels."""
        values = self.samples.parts.values(labelings, gains, penalties)
        if self.decomposition == "component":
            return values
        n_parts, counts = self.samples.parts.n_parts, self.samples.counts(labelings.best)
        terms = counts[: len(gains)] * gains, counts[len(gains) :] * penalties
        own = np.bincount(self._part_of, terms[0], n_parts) - np.bincount(self._part_of_edge, terms[1], n_parts)
        return np.asarray(values + (own.sum() - own)[self._part_of])

    def _combine(self, labelings: Labelings, shares: Floats) -> Floats:
        """Derivative of the sum of shares times values in the scores."""
        found = np.concatenate(self.samples.parts.combine(labelings, shares))
        if self.decomposition == "component":
            return found
        others = shares.sum() - np.bincount(self._part_of, shares, self.samples.parts.n_parts)
        counts = self.samples.counts(labelings.best)
        return np.asarray(found + np.concatenate([others[self._part_of], others[self._part_of_edge]]) * counts)
