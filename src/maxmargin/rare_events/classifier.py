"""A binary classifier for rare events: a tuned logistic regression, refined for a rank metric where that helps."""

from __future__ import annotations

import dataclasses
import numbers
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import (
    ArgumentError,
    Booleans,
    Floats,
    Ints,
    Setting,
    StatusLine,
    check_choice,
    seconds_left,
    time_limit,
    warn,
)
from maxmargin.core import Estimator, Facility, center_and_scale, divided, is_sparse, sketch
from maxmargin.ranking import DirectHistory, RankingLoss, Steps, checkpoints_of, descend, ranking_loss, try_descents
from maxmargin.rare_events.calibration import KINDS, check_calibration, probabilities, score_of
from maxmargin.rare_events.event_samples import EventSamples, HeldOutScores, SamplesInMemory
from maxmargin.rare_events.start import TunedStart, metric_of
from maxmargin.rare_events.thresholds import Aim, check_aim

# Of the logistic regression on standardised features.
_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


class CalibratedMethod:
    """A method that is there only with a calibration, and otherwise says what to do, unlike ``available_if``."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, classifier: Any, owner: type[Any]) -> Any:
        if classifier is None:
            return self._method
        if classifier.calibration is None:
            raise AttributeError(
                f"{self._method.__name__} needs a calibration, and {owner.__name__} has calibration=None; fit with "
                "calibration='sigmoid' or 'isotonic', or use decision_function"
            )
        return MethodType(self._method, classifier)


@dataclass(eq=False, repr=False)
class RankingClassifier(ClassifierMixin, Estimator):
    """Find rare events: a linear classifier of two classes, chosen and judged by the ranking of its scores.

    It does what one would do by hand. Features are standardised. A logistic regression is tuned: its C is the one with the best
    rankings of held-out samples. From there the rank loss itself is minimised by a few short steps, in every inner fold, which
    are taken only if the metric of held-out samples gains more than a standard error. On ordinary data that leaves the logistic
    regression as it is; where far outliers or hopeless positives spoil it, it can help much. Labels come from a cut that serves a
    stated aim, probabilities from a calibration, both on scores of samples that were held out, brought to the scale of the model
    itself.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        What is to be small: 1 - AP, or any rank loss that :class:`maxmargin.RankingSVM` takes. It chooses C and judges steps.
    C : float or sequence of float, optional
        Of the start: one, or several to choose from. By default one a decade from 1e-4 to 10 for ``start="logistic"``, and every
        C for ``start="hinge"``, from the certified regularization path.
    pos_label : label, optional
        The class that is to be found, by default ``classes_[1]``: the larger label, or the last one in the alphabet. Say it if
        that is not the rare one.
    standardize : bool, default=True
        Centre features and divide them by their standard deviations; only divide where they are sparse.
    start : {"logistic", "hinge"}, default="logistic"
        The model to begin with; the hinge is the :class:`maxmargin.RankingSVM` of the loss.
    refine : bool or "always", default=True
        Refine the start where held-out samples say so, never (False), or in any case.
    step, epsilon : float
        As in :class:`maxmargin.DirectLossMinimizer`.
    threshold : "f1", mapping or float, default="f1"
        What ``predict`` is to be good at: the largest F1; ``{"budget": 0.01}``, a share of the samples to flag (or their number,
        ``{"budget": 100}``, among as many as were trained on); ``{"precision": 0.9}``, as many as possible with that precision;
        ``{"recall": 0.9}``, as few as possible with that recall; ``{"cost": [[0, 1], [10, 0]]}``, the smallest sum of
        ``cost[truth, answer]`` in the order of ``classes_``; or a probability, above which a sample is positive.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        How scores become probabilities; None for no ``predict_proba``.
    cv : int, splitter or iterable, default=5
        Inner folds, as in scikit-learn; with a number they are stratified and shuffled by ``random_state``. There are not more of
        them than samples of the rarer class.
    max_iter : int, default=160
        Steps of refinement; it is judged after a sixteenth, a quarter and all of them.
    tol : float, default=1e-4
        Refinement ends when its steps are shorter, in radians.
    time_limit, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`; the callback gets the histories of refinement.

    Attributes
    ----------
    classes_ : array of shape (2,)
    coef_, intercept_ : arrays of shape (1, d) and (1,)
        For features as they came. ``decision_function`` is ``x . coef_ + intercept_``, positive for ``classes_[1]``.
    threshold_ : float
        What was taken off the scores of the positive class to have the cut at zero.
    held_out_ : dict
        Of the predictions for held-out samples: share ``flagged``, ``precision``, ``recall``, ``f1``; and ``score``, the mean
        metric of the inner folds. They are a little too good, as C, steps and cut were chosen on them.
    C_ : float
    Cs_, cv_scores_ : arrays of shape (m,) and (folds, m)
        What was tried, and the metric in the folds.
    refined_ : bool
        Whether refinement was taken.
    gain_, gain_error_, n_steps_ : float, float, int
        The best mean gain of refinement over the inner folds, its standard error, and after how many steps; 0 if not tried.
    checkpoints_, gains_ : arrays of shape (k,) and (folds, k)
        All of these gains.
    calibration_ : array or None
        See :mod:`maxmargin.rare_events.calibration`.
    n_iter_, history_ : int and DirectHistory
        Steps of the refinement of the model itself.
    certified_ : bool
        False: nothing is proved about the weights.
    training_sketch_ : array of shape (6,)
        Sums over the training data, by which a report knows them again.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    maxmargin.RankingSVM : queries, grades, certificates.

    Notes
    -----
    ``score`` is the metric that was trained for, not accuracy, which says little about rare events. Missing values are refused;
    put an imputer before it. There are no weights of samples: a rank loss counts places. Inner folds share the standardisation.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, digit = load_digits(return_X_y=True)
    >>> eight = np.where(digit == 8, "eight", "another")
    >>> model = RankingClassifier(pos_label="eight", threshold={"precision": 0.9}).fit(X[::2], eight[::2])
    >>> print(f"AP {model.score(X[1::2], eight[1::2]):.2f}, refined: {model.refined_}")
    AP 0.87, refined: False
    """

    loss: str | RankingLoss = "ap"
    C: float | Sequence[float] | None = None
    _: KW_ONLY
    pos_label: Any = None
    standardize: bool = True
    start: Literal["logistic", "hinge"] = "logistic"
    refine: bool | Literal["always"] = True
    step: float = 0.03
    epsilon: float = 0.1
    threshold: Aim = "f1"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    cv: Any = 5
    max_iter: int = 160
    tol: float = 1e-4

    lacks: ClassVar[Mapping[Facility, str]] = {
        "path": "C is chosen inside, and refinement has no regulariser",
        "bounds": "the logistic regression it begins with knows none",
        "sample_weight": "a rank loss counts places in a list, which have no weights",
        "class_weight": "a ranking does not change with the weight of a class; say it by the threshold",
        "n_jobs": "inner folds are visited one after the other",
        "warm_start": "every fit is tuned anew",
        "certificate": "the rank loss itself is not convex, and no bound of its minimum is known",
        "surrogate": "the loss itself is refined, and nothing that bounds it",
    }
    holds: ClassVar[Mapping[str, Any]] = {
        "n_features_in_": int,
        "classes_": ("classes",),
        "coef_": ("rows", "n_features_in_"),
        "intercept_": ("rows",),
        "threshold_": (),
        "refined_": bool,
        "certified_": bool,
        "history_": DirectHistory,
    }

    # ---- training -----------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Tune, refine, cut and calibrate.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Features, none of them missing.
        y : array of shape (n,)
            Labels of two classes, of any type.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("RankingClassifier requires y to be passed, but the target y is None")
        return self._fit(X, y)

    def _check_parameters(self) -> None:
        self._check_positive("tol", "step", "epsilon")
        self._check_count("max_iter")
        self._check_time_limit()
        if self.C is not None:
            values = self._grid()
            if not values or not all(isinstance(C, numbers.Real) and 0 < float(C) < np.inf for C in values):
                raise ValueError(f"C={self.C!r} must be a positive number, several to choose from, or None")
            if self.start == "hinge" and len(values) > 1:
                raise ArgumentError(
                    "C",
                    [Setting("start", "hinge"), " chooses among all C of its path, not from a list"],
                    ["pass one number, or leave ", Setting("C"), " out"],
                )
        if self.step > np.pi / 2:
            raise ValueError(f"step={self.step!r} must be at most a right angle, {np.pi / 2:.4g}")
        check_choice("start", self.start, ("logistic", "hinge"))
        if not isinstance(self.refine, bool) and self.refine != "always":
            raise ValueError(f"refine={self.refine!r} must be True, False or 'always'")
        if self.calibration is not None:
            check_choice("calibration", self.calibration, KINDS)
        if isinstance(self.cv, numbers.Integral) and self.cv < 2:
            raise ValueError(f"cv={self.cv} must be at least 2 folds")
        check_aim(self.threshold)
        if isinstance(self.threshold, numbers.Real) and self.calibration is None:
            raise ArgumentError(
                "threshold",
                [Setting("threshold", self.threshold), " is a probability, and there are none without calibration"],
                ["pass ", Setting("calibration", "sigmoid"), ", or an aim such as {'budget': 0.01}"],
            )
        ranking_loss(self.loss)

    def _takes_any_size(self) -> bool:
        return bool(self.standardize)

    def _grid(self) -> list[Any]:
        """The values of C to choose from."""
        given: Any = self.C
        if given is None:
            return list(_GRID)
        return list(given) if np.iterable(given) and not isinstance(given, str) else [given]

    def _prepare(self, X: Any, y: Any) -> EventSamples:
        refuse_missing(X)
        X, y = self._check_matrix(X, y, fitting=True)
        classes, which = _classes(y)
        kind = "binary"
        if len(classes) > 2:
            check_classification_targets(y)
            kind = type_of_target(y)
        self._keep_classes(classes, kind)
        relevant = which == self._positive()
        self.training_sketch_ = sketch(X, relevant)  # reports say if they are about the training data
        folds = self._folds(relevant)
        d = X.shape[1]
        if not self.standardize:
            return SamplesInMemory(X, relevant, np.zeros(d), np.ones(d), folds)
        center, scale = center_and_scale(X)
        return SamplesInMemory(divided(X if is_sparse(X) else X - center, scale), relevant, center, scale, folds)

    def _keep_classes(self, classes: NDArray[Any], kind: str = "multiclass") -> None:
        """Note the two labels; complain about more or fewer."""
        if len(classes) > 2:
            raise ArgumentError(
                "y",
                f"Only binary classification is supported. The type of the target is {kind}: y has {len(classes)} classes",
                "compare it with the one to be found, y == label, or wrap the classifier in OneVsRestClassifier",
            )
        if len(classes) < 2:
            raise ArgumentError("y", f"y holds only one class, {classes.tolist()[0]!r}", "add samples of another one")
        self.classes_ = classes

    def _positive(self) -> int:
        """Place of the class that is to be found."""
        if self.pos_label is None:
            return 1
        found = np.flatnonzero(self.classes_ == self.pos_label)
        if len(found) != 1:
            known = " and ".join(map(repr, self.classes_.tolist()))
            raise ArgumentError("pos_label", [Setting("pos_label", self.pos_label), f" is no label: y has {known}"], "name one")
        return int(found[0])

    def _folds(self, relevant: Booleans) -> list[tuple[Ints, Ints]]:
        if isinstance(self.cv, numbers.Integral):
            n_folds = self._n_folds(int((~relevant).sum()), int(relevant.sum()))
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=self.random_state or 0)
        else:
            splitter = check_cv(self.cv, relevant, classifier=True)
        folds = [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(np.zeros(len(relevant)), relevant)]
        for k, parts in enumerate(folds):
            if any(relevant[part].all() or not relevant[part].any() for part in parts):
                raise one_class_fold(k)
        return folds

    def _n_folds(self, negatives: int, positives: int) -> int:
        """How many folds there are if cv is a number: not more than samples of either class."""
        fewest = min(negatives, positives)
        if fewest < 2:
            rare = self.classes_.tolist()[self._positive() if positives < 2 else 1 - self._positive()]
            raise ArgumentError(
                "y", f"y has 1 sample of class {rare!r}, but inner folds need two of each class", "add samples of it"
            )
        return min(int(self.cv), fewest)

    def _train(self, samples: EventSamples) -> Floats:
        """Weights (d + 1,) of the scores of the positive class, for features as they came, with the cut at zero."""
        began, loss = time.perf_counter(), ranking_loss(self.loss)
        with self._status_line() as line, time_limit(self.time_limit):
            Cs = None if self.C is None and self.start == "hinge" else list(map(float, self._grid()))
            start = samples.tune(self.start, Cs, loss, line.show)
            self.C_, self.Cs_, self.cv_scores_ = float(start.C), start.Cs, start.scores
            complete = start.complete and self._refine(samples, start, loss, line, began)
            if not start.complete:
                self._keep_start()
        metric = samples.metrics(start.folds, loss)
        self._cut(samples.held_out(start.folds, start.weights))
        self.held_out_["score"] = float(np.mean(metric))
        self.certified_ = False
        if not complete:
            self._warn_of_the_end(start)
        weights = start.weights[:-1] / samples.scale
        return np.append(weights, start.weights[-1] - float(samples.center @ weights) - self.threshold_)

    def _warn_of_the_end(self, start: TunedStart) -> None:
        left = "refinement was not tried" if not start.complete else "refinement was stopped, and the start is kept"
        remedy = "raise time_limit, or let it go on"
        self._warn(f"ended early with C={start.C:g}, the best of {len(start.Cs)} tried; {left}; {remedy}")

    def _keep_start(self) -> None:
        """Nothing was refined."""
        self.refined_, self.gain_, self.gain_error_, self.n_steps_ = False, 0.0, 0.0, 0
        self.checkpoints_, self.gains_ = np.zeros(0, dtype=np.int64), np.zeros((len(self.cv_scores_), 0))
        self.n_iter_, self.history_ = 1, DirectHistory()

    def _refine(self, samples: EventSamples, start: TunedStart, loss: RankingLoss, line: StatusLine, began: float) -> bool:
        """Replace the weights of the start by refined ones if held-out samples say so; False if something ended it."""
        self._keep_start()
        if self.refine is False:
            return True
        ones, checkpoints = np.ones(len(start.weights) - 1), checkpoints_of(self.max_iter)
        how = Steps(self.step, self.epsilon, self.max_iter, self.tol, seconds_left, self.callback)
        # A callback is told of one descent after the other.
        in_folds = partial(samples.in_folds, start.folds, loss, self.callback is None)
        tried = try_descents(in_folds, checkpoints, ones, how, line, began)
        if tried.ended:
            return False
        self.checkpoints_, self.gains_, self.n_steps_, self.gain_, self.gain_error_ = (
            tried.verdict.checkpoints, tried.verdict.gains, tried.verdict.steps, tried.verdict.gain, tried.verdict.error,
        )  # fmt: skip
        if not tried.verdict.accepted and self.refine != "always":
            return True
        how = dataclasses.replace(how, max_iter=tried.verdict.steps)
        run = descend(samples.lists(loss), start.weights[:-1], ones, how, line, began)
        if run.stopped or run.out_of_time:
            return False
        self.refined_, self.n_iter_, self.history_ = True, len(run.history), run.history
        start.folds = [_resized(weights, old) for weights, old in zip(tried.weights, start.folds, strict=True)]
        start.weights = _resized(run.weights, start.weights)
        return True

    def _cut(self, scores: HeldOutScores) -> None:
        """Threshold and calibration from held-out scores."""
        calibration = None if self.calibration is None else scores.calibrate(self.calibration)
        if isinstance(self.threshold, numbers.Real):
            assert calibration is not None
            cut = score_of(calibration, float(self.threshold))
            if not np.isfinite(cut):
                # All on one side.
                low, high = scores.ends()
                cut = high + 1.0 + (high - low) if cut > 0 else low - 1.0 - (high - low)
        else:
            cut, met = scores.cutoff(self.threshold, self._positive())
            if not met:
                warn(
                    f"{type(self).__name__}: threshold={self.threshold!r} is not reached by any cut of held-out scores; the one "
                    "with the largest precision is used"
                )
        self.threshold_ = float(cut)
        self.held_out_ = scores.outcome(self.threshold_)
        if calibration is not None:
            # For scores whose cut is at zero.
            calibration = (
                np.array([calibration[0], calibration[1] + calibration[0] * cut])
                if calibration.ndim == 1
                else np.array([calibration[0] - cut, calibration[1]])
            )
        self.calibration_: Any = calibration

    def _keep(self, weights: Floats) -> None:
        signed = weights if self._positive() == 1 else -weights
        self.coef_, self.intercept_ = signed[None, :-1].copy(), signed[-1:].copy()

    def _check_fitted(self) -> None:
        ranking_loss(self.loss)
        if len(self.classes_) != 2:
            raise ValueError(f"classes_ has {len(self.classes_)} labels, but must have two")
        self._positive()
        if (self.calibration is None) != (getattr(self, "calibration_", None) is None):
            raise ValueError("calibration and calibration_ do not agree")
        if self.calibration is not None:
            check_calibration(self.calibration_)

    # ---- predictions --------------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Floats:
        """Scores, shape (n,): positive where ``predict`` says ``classes_[1]``. Sort by them to rank."""
        check_is_fitted(self)
        refuse_missing(X)
        X = self._check_matrix(X)
        return np.asarray(X @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels, shape (n,), by the cut that ``threshold`` asked for."""
        which = (self.decision_function(X) > 0).astype(np.intp)
        return np.asarray(self.classes_[which])

    @CalibratedMethod
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of both classes, shape (n, 2), in the order of ``classes_``."""
        scores = self.decision_function(X)
        positive = self._positive()
        found = probabilities(self.calibration_, scores if positive == 1 else -scores)
        return np.column_stack([1 - found, found] if positive == 1 else [found, 1 - found])

    @CalibratedMethod
    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities of both classes, shape (n, 2)."""
        return np.asarray(np.log(self.predict_proba(X)))

    def score(self, X: Any, y: ArrayLike) -> float:
        """The metric that was trained for on new data: AP by default."""
        scores, relevant = self._judged(X, y)
        return metric_of(ranking_loss(self.loss), relevant, scores)

    def _judged(self, X: Any, y: ArrayLike) -> tuple[Floats, Booleans]:
        """Scores of the positive class, and which samples are of it."""
        scores, labels, positive = self.decision_function(X), np.asarray(y), self._positive()
        if labels.shape != scores.shape:
            raise ValueError(f"y has shape {labels.shape}, but X has {len(scores)} samples; one label each is needed")
        return (scores if positive == 1 else -scores), np.asarray(labels == self.classes_[positive])

    # ---- what was done ------------------------------------------------------------------------------------------------------

    def summary(self) -> str:
        """What was tried and chosen, in a few lines."""
        check_is_fitted(self)
        positive, folds = self._positive(), len(self.cv_scores_)
        scale, found = "standardised features" if self.standardize else "features as they are", self.held_out_
        if self.refine is False:
            refinement = "not asked for"
        elif not len(self.checkpoints_):
            refinement = "not tried, training ended early"
        else:
            gain = f"{self.gain_:+.4f} ± {self.gain_error_:.4f} after {self.n_steps_} steps"
            refinement = f"{'taken' if self.refined_ else 'not taken'}, gain {gain}"
        metric = self.loss.upper() if isinstance(self.loss, str) else f"1 - {type(self.loss).__name__}"
        cut = f"flags {found['flagged']:.2%}, precision {found['precision']:.2f}, recall {found['recall']:.2f}"
        lines = [
            ("find", f"{self.classes_[positive]!s}, not {self.classes_[1 - positive]!s}"),
            ("metric", f"{metric}, in {folds} inner folds"),
            ("start", f"{self.start}, C = {self.C_:.3g} of {len(self.Cs_)} tried, {scale}"),
            ("refinement", refinement),
            ("held out", f"{metric} {found['score']:.4f}"),
            ("predict", f"threshold {self.threshold!r}: {cut}"),
            ("probabilities", "none" if self.calibration is None else str(self.calibration)),
        ]
        return "\n".join(f"{name + ':':15}{text}" for name, text in lines)

    def report(self, X: Any, y: ArrayLike, *, path: str | os.PathLike[str] = "report.html", **options: Any) -> Path:
        """Write one HTML page about the ranking of labelled samples, preferably others than those of :meth:`fit`.

        Options are those of :func:`maxmargin.report.write_report`: ``baselines``, ``feature_names``, ``name``, ``title`` and
        ``notes``.
        """
        scores, relevant = self._judged(X, y)
        notes = [*self.summary().splitlines(), *options.pop("notes", ())]
        return self._write_report(X, relevant.astype(int), path=path, scores=scores, notes=notes, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _classes(y: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Different labels in ascending order, and which of them each sample has."""
    try:
        return np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = " and ".join(sorted({type(label).__name__ for label in y.tolist()}))
        raise ArgumentError("y", f"y mixes labels of different kinds, {kinds}", "make them alike, say y.astype(str)") from error


def one_class_fold(k: int) -> ArgumentError:
    """Nothing can be learned in a fold, or nothing judged."""
    return ArgumentError(
        "cv", f"fold {k + 1} of cv has samples of one class only, in training or in testing", "use stratified folds"
    )


def _resized(weights: Floats, old: Floats) -> Floats:
    """Directions of new weights with the length and the intercept of old ones, so that scores keep their size."""
    length = float(np.linalg.norm(weights))
    return np.append(weights * (float(np.linalg.norm(old[:-1])) / length) if length > 0 else weights, old[-1])


def refuse_missing(X: Any) -> None:
    """Complain about missing entries, by the name or number of their columns."""
    values = getattr(X, "data", None) if is_sparse(X) else np.asarray(X)
    if values is None or is_sparse(X) or values.ndim != 2 or values.dtype.kind not in "fO":
        return
    missing = np.isnan(values) if values.dtype.kind == "f" else np.array([[v is None or v != v for v in row] for row in values])
    if not missing.any():
        return
    counts = missing.sum(axis=0)
    names = getattr(X, "columns", None)
    empty, some = np.flatnonzero(counts == len(values)), np.flatnonzero(counts)
    which = empty if len(empty) else some
    column = repr(names[which[0]]) if names is not None else f"{which[0] + 1}"
    others = f" and {len(which) - 1} more" if len(which) > 1 else ""
    if len(empty):
        raise ArgumentError("X", f"column {column}{others} of X has no value at all, only NaN", "drop it")
    raise ArgumentError(
        "X",
        f"X contains NaN: column {column}{others} has missing values",
        "fill them in, say make_pipeline(SimpleImputer(add_indicator=True), RankingClassifier())",
    )
