"""Metrics of registration learned for every tissue, by a latent structured SVM (Ferrante, Dokania, Marini and Paragios 2017)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import ArgumentError, Floats, Int32s, Ints, check_choice, thread_count, time_limit, warn
from maxmargin.core import CERTIFICATE, Certificate, Descent, Facility, LatentEstimator, LatentProblem, concave_convex
from maxmargin.core.solvers import History, KnownCuts, OneSlackCuttingPlane, Solution
from maxmargin.labeling import minkowski
from maxmargin.registration.alignment import default_grid_spacing, default_smoothness, register
from maxmargin.registration.grid import FOLD_FREE, ControlGrid, displacement_labels
from maxmargin.registration.metric_problem import Comparison, Inference, MetricProblem
from maxmargin.registration.metrics import METRICS, Pair, check_classes, check_metrics, check_weights, patch_classes, unary_costs
from maxmargin.registration.overlap import dice, patch_losses
from maxmargin.registration.result import Registration

# A smoothness that small, in units of the one learning begins with, says nothing about the balance of costs and smoothness.
_LEAST_SMOOTHNESS = 1e-3


@dataclass(eq=False, repr=False)
class LearnedMetric(LatentEstimator):
    """Weights of similarity metrics for every class of tissue, learned from pairs of images with segmentations.

    Nobody knows the true displacement between two subjects, but where the tissues are is known: the displacement is the hidden
    part of a latent structured SVM, and its loss is one minus the Dice of patches. For every class, the weights ``v`` of metrics
    and smoothness make the objective ``1/2 |v|^2 + alpha |v - v0|^2 + C * mean hinge`` small, whose hinge is at least the loss
    of the displacements that the energy with these weights prefers. It is not convex; rounds of imputation (displacements that
    agree with the segmentations) and cutting planes (displacements that violate the margin) never raise it.

    Parameters
    ----------
    metrics : names, or one of them
        As in :func:`register`.
    spacing : float or sequence of float
        Of the targets' voxels, as in :func:`register`; a pair may bring its own.
    C : float, default=10.0
        Weight of the hinge, a mean over pairs. Costs are means over control points, in units of the start.
    alpha : float, default=1.0
        How strongly weights are held near the start. With 0 only their size is limited.
    eta : float, default=50.0
        Price of the loss in the imputation: the larger, the more it follows the segmentations.
    joint : bool, default=False
        Learn the weights of all classes together, in the very energy that registers: a patch has the weights of its class, there
        is one smoothness, and the loss is the mean over the classes. The published way learns one class after the other, each as
        if its weights were those of all patches.
    start : array of shape (n_metrics,), optional
        Weights to begin with, positive; by default those of :func:`register`.
    smoothness : float, optional
        Of the registrations, positive, as in :func:`register`, with the same default; weights are scaled for it.
    grid_spacing, patch_size, per_axis, bins, levels, steps, shrink, n_jobs
        As in :func:`register`. Learning has the control points of the finest level.
    reach : float, default=0.8
        The largest displacement that is learned from, along every axis, in units of ``grid_spacing``.
    scales : int, default=3
        Every pair is learned from at so many scales, since registration comes to smaller and smaller displacements: those of the
        next one are half as large. All but the first begin where registration with the weights of the start has ended.
    inference : {"trws", "expansion"}, default="trws"
        How displacements are searched in training. Messages (TRW-S) bound what they may miss, so that convex problems are
        certified; expansion moves alone are not.
    n_starts : int, default=1
        Further starts begin with random multiples of ``start``, between a third and three times.
    max_rounds, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.structured.latent.LatentEstimator`; ``time_limit`` is for all classes, and what has come out by
        then, or by Ctrl-C, is kept: classes that had no turn have the weights of the start, scaled as those of the others.

    Attributes
    ----------
    weights_ : array of shape (n_classes, n_metrics)
        For :func:`register`, with ``smoothness``; not negative.
    coef_ : array of shape (n_classes, n_metrics + 1)
        As they were learned, before they were scaled for ``smoothness``: last is what that was multiplied by, with ``joint`` the
        same in all rows.
    n_classes_ : int
    unseen_ : int array
        With ``joint``: classes that are the most frequent one in no patch; they keep the weights of the start.
    objectives_ : list of lists of float
        For every class: at the start, then after every round. Each is an upper bound of the objective, exact where searches are.
    objective_ : array of shape (n_classes,), or (1,) with ``joint``
    hinges_, losses_ : arrays of shape (n_classes,), or (1,) with ``joint``
        Mean hinge, and mean loss of the displacements of the least energy on the training pairs, which is no larger.
    histories_ : list of lists of History
        Of the convex problems, for every class and round: primal and dual objective, gap.
    status_ : {"converged", "max_rounds", "time_limit", "interrupted", "callback"}
    certified_reason_ : str
        Why nothing is certified; empty if it is.
    primal_objective_, dual_objective_, dual_gap_, oracle_gap_, certified_, n_iter_, history_
        The certificates of the convex problems that gave the weights, added up over the classes: never those of
        ``objective_``. The history has the rows of all of them, one after the other.

    Notes
    -----
    In registration, the class of a patch may change with its displacement, and costs are not zero where images agree. A patch
    must not be drawn to a class only because its weights are small. So, learned one after the other, the weights of every class
    are scaled such that its patches cost the same on average where the segmentations want them; the balance of costs and
    smoothness is then that of all classes on average. Learned together, weights need no scaling: they have been compared with
    each other.

    See Also
    --------
    maxmargin.registration.alignment : takes the weights.

    Examples
    --------
    Two tissues; the contrast of the right one is inverted, so that differences of intensities mislead there:

    >>> from scipy.ndimage import gaussian_filter
    >>> rng = np.random.default_rng(0)
    >>> def pair(shift):
    ...     right = np.arange(64) >= 32 + np.zeros((32, 1), dtype=int)
    ...     image = gaussian_filter(rng.normal(size=(32, 64)), 2.0)
    ...     target = np.roll(np.where(right, -image, image), -shift, axis=0)
    ...     classes = 2 * right + (image > 0)
    ...     return (image, target, classes), np.roll(classes, -shift, axis=0)
    >>> pairs, segmentations = zip(*map(pair, (-3, 2, 3)))
    >>> model = LearnedMetric(("sad", "mi"), spacing=1.0, grid_spacing=8.0, levels=1).fit(pairs, segmentations)
    >>> model.weights_.shape, model.certified_, bool((model.losses_ <= model.hinges_).all())
    ((4, 2), True, True)
    """

    metrics: Sequence[str] | str = METRICS
    _: KW_ONLY
    spacing: ArrayLike | None = None
    C: float = 10.0
    alpha: float = 1.0
    eta: float = 50.0
    joint: bool = False
    start: ArrayLike | None = None
    smoothness: float | None = None
    grid_spacing: float | None = None
    patch_size: float = 1.0
    per_axis: int = 5
    reach: float = 0.8
    scales: int = 3
    bins: int = 16
    levels: int = 2
    steps: int = 5
    shrink: float = 0.66
    inference: Inference = "trws"
    n_jobs: int | None = None
    max_rounds: int = 20

    lacks: ClassVar[Mapping[Facility, str]] = {
        "path": "the objective is not convex, so no bound holds between two solutions",
        "report": "the page is about rankings",
        "bounds": "no weight may be negative, and that is all that a metric asks for",
        "sample_weight": "pairs of images are few, and count alike",
        "class_weight": "classes are learned one after the other",
        "surrogate": "what is imputed has a loss of its own, which is known for margin rescaling only",
        "warm_start": "rounds begin with the weights of the start",
    }
    holds: ClassVar[Mapping[str, Any]] = {
        **CERTIFICATE,
        "n_classes_": int,
        "weights_": ("n_classes_", "number of metrics"),
        "coef_": ("n_classes_", "metrics, and the smoothness"),
        "status_": str,
        "certified_reason_": str,
    }
    _METHOD = OneSlackCuttingPlane()

    # ---- parameters and data ------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_positive("reach", "patch_size", *(["smoothness"] if self.smoothness is not None else []))
        for name in ("alpha", "eta"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number) or not 0 <= float(value) < np.inf:
                raise ArgumentError(name, f"{name}={value!r} must be a finite number, not negative")
        if float(self.reach) > 4:
            raise ArgumentError("reach", f"reach={self.reach!r} must be at most 4", "make grid_spacing larger")
        check_choice("inference", self.inference, ("trws", "expansion"))
        self._check_count("levels", "steps", "scales")
        self._first()

    def _first(self) -> Floats:
        names = check_metrics(self.metrics)
        try:
            weights = check_weights(self.start, names, None)
        except ArgumentError:
            weights = np.zeros(0)
        if len(weights) != len(names) or not (weights > 0).all():
            remedy = "leave out metrics that are not to count"
            raise ArgumentError("start", f"start must be {len(names)} positive weights, one for every metric", remedy)
        return weights

    def fit(self, pairs: Sequence[Any], segmentations: Sequence[Any]) -> LearnedMetric:
        """Learn the weights.

        Parameters
        ----------
        pairs : sequence of (source, target, segmentation of the source), or with the spacing as a fourth
            Images of 2 or 3 dimensions, and classes 0, 1, ... of the source's voxels.
        segmentations : sequence of int arrays
            Classes of the targets' voxels. Every class up to the largest must be in some of all these segmentations.
        """
        return self._fit(pairs, segmentations)

    def _prepare(self, X: Sequence[Any], y: Sequence[Any]) -> list[MetricProblem]:
        pairs = self._checked(X, y)
        n_classes = 1 + max(max(int(own.max()), int(other.max())) for _, own, other in pairs)
        present = np.zeros(n_classes, dtype=bool)
        for _, own, other in pairs:
            present[np.unique(own)] = present[np.unique(other)] = True
        if not present.all():
            missing = int(np.argmin(present))
            raise ArgumentError(
                "segmentations",
                f"class {missing} is in no segmentation, but class {n_classes - 1} is, so nothing can be learned for it",
                "number the classes 0, 1, ... without gaps, or add pairs that have it",
            )
        self.n_classes_ = n_classes
        compared: list[_Scale] = []
        with self._status_line() as line:
            for k, (pair, own, other) in enumerate(pairs):
                line.show(f"costs of pair {k + 1} of {len(pairs)}")
                compared += self._compare(X[k], pair, own, other)
        if self.joint:
            self._warn_unseen(np.unique(np.concatenate([np.unique(scale.rows) for scale in compared])))
            problems, n_rows = [[scale.comparison(rows=True) for scale in compared]], n_classes
        else:
            problems, n_rows = [[scale.comparison(c) for scale in compared] for c in range(n_classes)], 1
        self._scales = compared
        settings: Any = {"n_rows": n_rows, "alpha": self.alpha, "eta": self.eta, "inference": self.inference}
        return [MetricProblem(some, **settings) for some in problems]

    def _checked(self, X: Sequence[Any], y: Sequence[Any] | None) -> list[tuple[Pair, Int32s, Any]]:
        """Images and segmentations, with errors that say which pair it is."""
        if len(X) == 0:
            raise ArgumentError("pairs", "pairs is empty", "pass at least one (source, target, segmentation of the source)")
        if y is not None and len(X) != len(y):
            raise ArgumentError("segmentations", f"there are {len(X)} pairs, but {len(y)} segmentations of targets")
        found = []
        for k, entry in enumerate(X):
            if not isinstance(entry, tuple | list) or len(entry) not in (3, 4):
                raise ArgumentError("pairs", f"pairs[{k}] must be (source, target, segmentation of the source)")
            source, target, own = entry[:3]
            spacing = entry[3] if len(entry) == 4 else self.spacing
            try:
                pair = Pair(source, target, spacing, segmentation=own)
                other = None if y is None else check_classes(y[k], pair.target.shape, "segmentation of the target")
            except ArgumentError as error:
                raise ArgumentError(error.argument, [f"pairs[{k}]: ", str(error)]) from error
            assert pair.segmentation is not None
            found.append((pair, pair.segmentation, other))
        return found

    def _warn_unseen(self, seen: Ints) -> None:
        """In patches with the weights of their class, a class that is the most frequent one nowhere has nothing to learn from."""
        self.unseen_ = np.setdiff1d(np.arange(self.n_classes_), seen)
        if len(self.unseen_):
            names = ", ".join(map(str, self.unseen_))
            self._warn(f"met no patch where class {names} has most voxels; it keeps the weights of the start, see joint=False")

    def _compare(self, entry: Any, pair: Pair, own: Int32s, other: Int32s) -> list[_Scale]:
        """Costs and losses of all displacements of one pair, at all scales."""
        first, threads = self._first(), thread_count(self.n_jobs)
        distance = default_grid_spacing(pair) if self.grid_spacing is None else self.grid_spacing
        grid = ControlGrid(pair.target_frame.shape, pair.target_frame.spacing, distance, self.patch_size)
        names = check_metrics(self.metrics)
        smoothness = default_smoothness(len(names), distance) if self.smoothness is None else self.smoothness
        field: Floats | None = None
        found: list[_Scale] = []
        for scale in range(self.scales):
            labels = displacement_labels(pair.ndim, self.reach * distance * 0.5**scale, self.per_axis)
            read: Any = {"field": field, "n_jobs": threads}
            costs = unary_costs(entry[0], entry[1], grid, labels, metrics=names, bins=self.bins, **read)
            costs *= first[:, None, None]
            losses = patch_losses(own, other, grid, labels, self.n_classes_, **read)
            rows = patch_classes(own, grid, labels, **read)
            found.append(_Scale(costs, grid.edges, smoothness * minkowski(labels, 1), losses, rows))
            if scale == 0 and self.scales > 1:
                # Smaller displacements are what is left when registration has come close.
                field = self._register(entry, pair, first, own).displacement
        return found

    # ---- training -----------------------------------------------------------------------------------------------------------

    def _train(self, problem: Any) -> Floats:
        problems: list[MetricProblem] = problem
        runs = [_ClassRun(p, self.C, "all classes" if self.joint else f"class {k}") for k, p in enumerate(problems)]
        began, self.status_ = time.perf_counter(), "converged"
        with self._status_line() as line:
            for k, run in enumerate(runs):
                left = None
                if self.time_limit is not None:
                    # What is left is for all classes that are left.
                    left = max(1e-3, self.time_limit - (time.perf_counter() - began)) / (len(runs) - k)
                with time_limit(left):
                    status = self._descend(run, left, line)
                if status != "converged":
                    self.status_ = status
                if status in ("interrupted", "callback"):
                    break
        if self.status_ != "converged":
            late = [run.name for run in runs if run.best is None]
            tail = f"; weights of the start for {', '.join(late)}" if late else ""
            self._warn(f"stopped ({self.status_}) while the objective may still fall{tail}; raise max_rounds or time_limit")
        return self._collect(runs)

    def _descend(self, run: _ClassRun, seconds: float | None, line: Any) -> str:
        """All rounds of one class; why they ended."""
        problem, factor = run.problem, self.C / (1 + 2 * self.alpha)
        last = ""

        def solve(convex: LatentProblem, known: KnownCuts, left: float | None) -> Solution:
            nonlocal last
            # With the weights of the last round among those that are compared, the objective cannot rise.
            start = KnownCuts(known.cuts, problem.imputed_at)
            solution = self._limited(convex, left).solve(convex, 1.0 / factor, bounds=problem.bounds, start=start)
            last = solution.status
            return solution

        def tell(start: int, descent: Descent) -> None:
            value = (1 + 2 * self.alpha) * descent.objective + problem.constant
            line.show(f"{run.name}, start {start + 1}, round {len(descent.objectives)}, objective {value:.6g}")

        try:
            problem.start(np.random.default_rng(0))
            run.begin()
            best, _ = concave_convex(
                problem, factor, solve, lambda number, rng: self._first_weights(problem, number, rng), n_starts=self.n_starts,
                max_rounds=self.max_rounds, tol=self.tol, time_limit=seconds, seed=self.random_state, tell=tell,
            )  # fmt: skip
            run.end(best)
        except KeyboardInterrupt:
            return "interrupted"
        if last in ("interrupted", "callback", "time_limit"):
            return last
        return "converged" if best.settled else "max_rounds"

    def _first_weights(self, problem: MetricProblem, start: int, rng: np.random.Generator) -> Floats | None:
        # Without weights, a problem imputes for those of the start.
        return None if start == 0 else np.exp(rng.uniform(-1, 1, problem.n_features) * np.log(3.0)) - problem.shift

    def _collect(self, runs: list[_ClassRun]) -> Floats:
        """Fitted attributes of all classes; their weights."""
        # Of every class, where other estimators have one of each.
        lists: dict[str, Any] = {"objectives_": [run.objectives for run in runs], "histories_": [run.histories for run in runs]}
        ends = [run.objectives[-1] if run.objectives else np.nan for run in runs]
        lists |= {"objective_": np.array(ends), "n_rounds_": [len(run.histories) for run in runs]}
        for name, values in lists.items():
            setattr(self, name, values)
        self.hinges_, self.losses_ = np.array([run.hinge for run in runs]), np.array([run.loss for run in runs])
        every = [run.certificate for run in runs]
        total = Certificate(
            sum(one.primal for one in every), sum(one.dual for one in every), all(one.certified for one in every),
            sum(one.oracle_gap for one in every), sum(one.noise for one in every),
        )  # fmt: skip
        joined = History()
        for history in (history for run in runs for history in run.histories):
            passes, seconds = (column[-1] if column else 0.0 for column in (joined.passes, joined.seconds))
            for row in history:
                joined.record(passes + row["passes"], row["primal"], row["dual"], seconds + row["seconds"])
        self._show(total, joined.passes[-1] if joined.passes else 0, joined)
        self.certified_reason_ = ""
        if not self.certified_:
            late = [run.name for run in runs if run.best is None]
            if late:
                self.certified_reason_ = f"no convex problem was solved for {', '.join(late)}"
            elif self.inference == "expansion":
                self.certified_reason_ = "expansion moves may miss displacements and know no bound; inference='trws' does"
            else:
                self.certified_reason_ = "bounds of the convex problems do not hold together"
        self._mean_costs = np.zeros(0) if self.joint else self._costs_of_classes(runs)
        del self._scales
        return np.concatenate([run.weights().reshape(1, -1) for run in runs])

    def _keep(self, weights: Floats) -> None:
        first, n = self._first(), len(self._first())
        if self.joint:
            table, smooth = weights[0, :-1].reshape(-1, n).copy(), np.full(self.n_classes_, weights[0, -1])
            table[self.unseen_] = smooth[0]
        else:
            table, smooth = weights[:, :-1], weights[:, -1]
        # Without the sign of a zero.
        self.coef_ = np.abs(np.column_stack([table * first, smooth]))
        flat = smooth < _LEAST_SMOOTHNESS
        if flat.any():
            instead = float(smooth[~flat].mean()) if not flat.all() else 1.0
            names = ", ".join(str(c) for c in np.flatnonzero(flat))
            text = f"learned no smoothness for class {names}; that of the others is taken, or of the start; lower C"
            warn(f"{type(self).__name__} {text}")
            smooth = np.where(flat, instead, smooth)
        scaled = table / smooth[:, None]
        if not self.joint:
            levels = (scaled * self._mean_costs).sum(axis=1)
            some = levels > 0
            scaled[some] *= levels[some].mean() / levels[some, None]
        del self._mean_costs
        self.weights_ = np.abs(scaled * first)

    def _costs_of_classes(self, runs: list[_ClassRun]) -> Floats:
        """What patches of a class cost where the segmentations want them, by every metric, shape (n_classes, n_metrics)."""
        found = np.zeros((self.n_classes_, len(self._first())))
        for c, run in enumerate(runs):
            own, every = [], []
            for scale, imputed in zip(self._scales, run.problem.imputed, strict=bool(run.problem.imputed)):
                nodes = np.arange(len(scale.rows))
                costs = scale.costs[:, nodes, imputed.labels]
                own.append(costs[:, scale.rows[nodes, imputed.labels] == c])
                every.append(costs)
            # Classes that have most voxels nowhere have part in others' patches only.
            chosen = own if sum(some.shape[1] for some in own) else every
            found[c] = np.concatenate(chosen, axis=1).mean(axis=1) if chosen else 1.0
        return found

    def _check_fitted(self) -> None:
        names = check_metrics(self.metrics)
        if self.weights_.shape[1] != len(names) or self.coef_.shape[1] != len(names) + 1:
            raise ValueError(f"weights_ has shape {self.weights_.shape}, but there are {len(names)} metrics")
        if (self.weights_ < 0).any():
            raise ValueError(f"weights_ holds {self.weights_.min():g}, but must not be negative")

    # ---- prediction ---------------------------------------------------------------------------------------------------------

    def predict(self, pairs: Sequence[Any]) -> list[Registration]:
        """Register every source onto its target; ``.warp(segmentation, labels=True)`` moves what is known of the source.

        Parameters
        ----------
        pairs : sequence of (source, target, segmentation of the source), or with the spacing as a fourth
            As in :meth:`fit`.
        """
        check_is_fitted(self)
        found = []
        for k, (pair, own, _) in enumerate(self._checked(pairs, None)):
            if int(own.max()) >= self.n_classes_:
                raise ArgumentError(
                    "pairs",
                    f"pairs[{k}]: its segmentation has class {int(own.max())}, but weights were learned for classes 0 to "
                    f"{self.n_classes_ - 1}",
                    "train with pairs that have the class, or give its voxels another one",
                )
            found.append(self._register(pairs[k], pair, self.weights_, own))
        return found

    def _register(self, entry: Any, pair: Pair, weights: Floats, own: Int32s) -> Registration:
        found = register(
            entry[0], entry[1], spacing=pair.target_frame.spacing, metrics=self.metrics, weights=weights, segmentation=own,
            smoothness=self.smoothness, grid_spacing=self.grid_spacing, patch_size=self.patch_size, levels=self.levels,
            steps=self.steps, per_axis=self.per_axis, max_displacement=FOLD_FREE, shrink=self.shrink, bins=self.bins,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        if found.status == "interrupted":
            raise KeyboardInterrupt
        return found

    def score(self, pairs: Sequence[Any], segmentations: Sequence[Any]) -> float:
        """Mean Dice of warped segmentations and those of the targets, over pairs and classes; the background, 0, aside."""
        self._checked(pairs, segmentations)
        means = []
        for pair, found, truth in zip(pairs, self.predict(pairs), segmentations, strict=True):
            overlaps = dice(found.warp(pair[2], labels=True), truth)
            means.append(np.nanmean(overlaps[1:]) if np.isfinite(overlaps[1:]).any() else overlaps[0])
        return float(np.mean(means))


class _Scale(NamedTuple):
    """Costs of a pair at one scale, and the losses of all classes."""

    costs: Floats
    edges: Int32s
    distances: Floats
    losses: Floats
    rows: Ints

    def comparison(self, of: int | None = None, rows: bool = False) -> Comparison:
        """For the loss of one class, or of all; perhaps with the class of every patch."""
        losses = self.losses.mean(axis=0) if of is None else self.losses[of]
        return Comparison(self.costs, self.edges, self.distances, losses, self.rows if rows else None)


class _ClassRun:
    """What became of one class."""

    def __init__(self, problem: MetricProblem, C: float, name: str) -> None:
        self.problem, self.C, self.name = problem, C, name
        self.objectives: list[float] = []
        self.histories: list[History] = []
        self.certificate = Certificate(np.inf, 0.0, False)
        self.best: Descent | None = None
        self.hinge = self.loss = float("nan")

    def begin(self) -> None:
        """The objective at the start, with displacements imputed there."""
        self.objectives = [self.problem.objective(self.problem.imputed_at, self.C)]

    def end(self, best: Descent) -> None:
        """Rounds are over; displacements are imputed for their result."""
        assert best.solution is not None
        problem = self.problem
        unit, constant = 1 + 2 * problem.alpha, problem.constant
        values = [unit * value + constant for value in best.objectives]
        self.histories = [_in_units(history, unit, constant) for history in best.histories]
        self.certificate = _lifted(best.solution.certificate.scaled(self.C), constant)
        self.objectives += values
        weights = best.solution.weights
        # What energies prefer must be known before the hinge is, which then bounds its loss.
        found = problem.predictions(weights)
        self.loss, self.hinge = float(np.mean([one.loss for one in found])), problem.hinge(weights)
        self.best = best

    def weights(self) -> Floats:
        """``v``; that of the start if nothing better was found."""
        if self.best is None or self.best.solution is None:
            return np.ones(self.problem.n_features)
        return self.problem.natural(self.best.solution.weights)


def _in_units(history: History, unit: float, constant: float) -> History:
    """A history in units of the objective, with what the shift of the weights leaves out."""
    scaled = history.scaled(unit)
    return History(scaled.passes, [p + constant for p in scaled.primal], [d + constant for d in scaled.dual], scaled.seconds)


def _lifted(certificate: Certificate, constant: float) -> Certificate:
    """The same for an objective that is larger by a constant."""
    return dataclasses.replace(certificate, primal=certificate.primal + constant, dual=certificate.dual + constant)
