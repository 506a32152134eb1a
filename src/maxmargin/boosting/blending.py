"""Estimators that add the scores of boosted models: some trained for LightGBM's own objectives, some for the rank loss.

On a single list neither kind is better everywhere, but their sum is on most data at least as good as the better one. Each model
is stopped where the metric is best on held-out samples, and divided by the standard deviation of its scores there.
"""

from __future__ import annotations

import json
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin._utils import (
    ArgumentError,
    Floats,
    Ints,
    StatusLine,
    check_labels,
    check_matrix,
    seconds_left,
    thread_count,
    time_limit,
)
from maxmargin.boosting.evaluations import evaluation
from maxmargin.boosting.objectives import objective
from maxmargin.boosting.training import Part, Watched, import_lightgbm, train_watched
from maxmargin.io import SavedFileError, query_offsets, read_archive, write_archive
from maxmargin.ranking import RankingLoss, evaluate

Path = str | os.PathLike[str]


@dataclass(eq=False, repr=False)
class Blend(BaseEstimator):
    """What both estimators share: several models, each stopped on held-out samples, and their sum."""

    loss: str | RankingLoss = "ap"
    _: KW_ONLY
    metric: str = "ap"
    members: Sequence[Any] | None = None
    n_estimators: int = 200
    learning_rate: float = 0.1
    num_leaves: int | Sequence[int] = (7, 31)
    noise: float = 1.0
    patience: int | None = 50
    validation_fraction: float = 0.25
    parameters: Mapping[str, Any] | None = None
    time_limit: float | None = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    # Of the files that save writes; save_model and load_model know it too.
    file_kind: ClassVar[str] = "boosted ranking"
    # What LightGBM trains beside the rank loss, and how many models of that loss, each with noise of its own.
    _partners: ClassVar[Sequence[Mapping[str, Any]]] = ()
    _n_rank: ClassVar[int] = 1

    def _check_parameters(self) -> None:
        for name in ("n_estimators", *([] if self.patience is None else ["patience"])):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or int(value) < 1:
                raise ArgumentError(name, f"{name}={value!r} is no positive integer", "pass a number of rounds")
        leaves = self._leaves()
        if not leaves or not all(isinstance(number, numbers.Integral) and int(number) >= 2 for number in leaves):
            raise ArgumentError("num_leaves", f"num_leaves={self.num_leaves!r} is no size of trees", "pass integers from 2 on")
        for name, most in (("learning_rate", np.inf), ("validation_fraction", 1.0), ("time_limit", np.inf)):
            value = getattr(self, name)
            if value is None and name == "time_limit":
                continue
            if not isinstance(value, numbers.Real) or not 0 < float(value) < most:
                between = "a positive number" if most == np.inf else "a number between 0 and 1"
                raise ArgumentError(name, f"{name}={value!r} is not {between}", "pass one")
        evaluation(self.metric)
        if self.members is not None and (isinstance(self.members, str | Mapping) or not len(self.members)):
            raise ArgumentError("members", f"members={self.members!r} is no list of objectives", "pass a list, or None")

    def _leaves(self) -> list[Any]:
        return [self.num_leaves] if isinstance(self.num_leaves, numbers.Integral) else list(self.num_leaves)  # type: ignore[arg-type]

    def _settings(self, n: int, seed: int) -> list[dict[str, Any]]:
        """Parameters of LightGBM for every member."""
        common = {
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": max(1, min(20, n // 10)),
            "num_threads": thread_count(self.n_jobs),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
        }
        rank = [objective(self.loss, noise=self.noise, random_state=seed + k) for k in range(self._n_rank)]
        members = [*self._partners, *rank] if self.members is None else self.members
        found = []
        for member in members:
            own = dict(member) if isinstance(member, Mapping) else {"objective": member}
            if "objective" not in own or not (isinstance(own["objective"], str) or callable(own["objective"])):
                raise ArgumentError(
                    "members",
                    f"the member {member!r} has no objective",
                    "pass names of LightGBM, objects of maxmargin.boosting.objective, or parameters with 'objective'",
                )
            found.append({**common, **dict(self.parameters or {}), **own})
        return found

    def _train(self, train: Part, held_out: Part, seed: int) -> Floats:
        """Fit all members; the scores of the blend on the held-out part."""
        members = self._settings(len(train.y), seed)
        leaves = self._leaves()
        watched = [evaluation(self.metric)]
        self.boosters_: list[Any] = []
        self.n_rounds_: list[int] = []
        self.spreads_: list[float] = []
        self.validation_scores_: list[float] = []
        self.status_ = "completed"
        left = len(members) * len(leaves)
        with time_limit(self.time_limit), StatusLine(type(self).__name__, shown=bool(self.verbose)) as line:
            for number, settings in enumerate(members, 1):
                fits: list[Watched] = []
                for size in leaves:
                    # The others want their share.
                    with time_limit(seconds_left() / left):
                        told = f"model {number} of {len(members)}, {size} leaves"
                        fits.append(
                            train_watched(
                                {**settings, "num_leaves": settings.get("num_leaves", int(size))}, train, held_out, watched,
                                self.n_estimators, patience=self.patience, tell=_telling(line, told, self.metric),
                            )
                        )  # fmt: skip
                    left -= 1
                    if fits[-1].status != "completed":
                        self.status_ = fits[-1].status
                    if self.status_ == "interrupted" or "num_leaves" in settings:
                        break
                best = max(fits, key=lambda fit: fit.best_round(self.metric)[1])
                self._add(best, held_out)
                if self.status_ == "interrupted":
                    break
        blend = self._blend(held_out.X)
        self.validation_score_ = float(watched[0](held_out.y, blend, None, held_out.group)[1])  # type: ignore[index]
        return blend

    def _add(self, fit: Watched, held_out: Part) -> None:
        rounds, value = fit.best_round(self.metric)
        # Only the rounds that count are kept; the text is what files hold.
        booster = import_lightgbm().Booster(model_str=fit.booster.model_to_string(num_iteration=rounds))
        spread = float(np.std(booster.predict(held_out.X, raw_score=True)))
        self.boosters_.append(booster)
        self.n_rounds_.append(rounds)
        self.spreads_.append(spread if spread > 0 else 1.0)
        self.validation_scores_.append(value)

    def _blend(self, X: Any) -> Floats:
        total = np.zeros(X.shape[0])
        for booster, spread in zip(self.boosters_, self.spreads_, strict=True):
            total += booster.predict(X, raw_score=True) / spread
        return total

    def _check_matrix(self, X: Any, y: Any = "no_validation", *, fitting: bool = False, **options: Any) -> Any:
        X, y = check_matrix(X), y if isinstance(y, str) else check_labels(y)
        found = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=fitting,
            **options,
        )  # fmt: skip
        X, labels = found if isinstance(found, tuple) else (found, None)
        form: Any = csr_matrix
        # LightGBM knows matrices, not sparse arrays.
        X = form(X) if issparse(X) else X
        return X if labels is None else (X, labels)

    def _pair(self, validation: Any, parts: int, words: str) -> list[Any]:
        if not isinstance(validation, tuple | list) or len(validation) != parts:
            raise ArgumentError("validation", f"validation must be {words}", f"pass a tuple of {parts}")
        return list(validation)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.non_deterministic = False
        return tags

    # ---- files --------------------------------------------------------------------------------------------------------------

    def save(self, path: Path, *, about: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to a file without pickles: what it predicts with, and parameters that are text or numbers.

        ``about`` are notes to keep with it, of what JSON can hold. :func:`maxmargin.save_model` does the same.
        """
        check_is_fitted(self)
        plain = {}
        for field in fields(self):
            value = getattr(self, field.name)
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                continue
            plain[field.name] = value
        content: dict[str, Any] = {
            "class": type(self).__name__,
            "parameters": plain,
            "boosters": [booster.model_to_string() for booster in self.boosters_],
            "n_rounds": [int(number) for number in self.n_rounds_],
            "status": self.status_,
            "about": dict(about or {}),
        }
        arrays = {
            "spreads": np.array(self.spreads_),
            "validation": np.array([*self.validation_scores_, self.validation_score_]),
            **self._saved(),
        }
        if hasattr(self, "feature_names_in_"):
            content["feature_names"] = [str(name) for name in self.feature_names_in_]
        content["n_features"] = int(self.n_features_in_)
        write_archive(path, self.file_kind, content, arrays)

    def _saved(self) -> dict[str, NDArray[Any]]:
        """Further arrays of a file."""
        return {}

    def _restored(self, arrays: dict[str, NDArray[Any]]) -> None:
        """The way back."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """The model in a file that :meth:`save` wrote; it predicts the same numbers. So does :func:`maxmargin.load_model`."""
        lgb = import_lightgbm()
        archive = read_archive(path, cls.file_kind)
        name, content = os.fspath(path), archive.content
        held = str(content.get("class"))[:60]
        if cls is Blend:
            for kind in cls.__subclasses__():
                if kind.__name__ == held:
                    return kind.load(path)
        if held != cls.__name__ or cls is Blend:
            raise SavedFileError(f"{name}: holds a {held}, not a {cls.__name__}; load it with that class")
        try:
            known = {field.name for field in fields(cls)}
            model = cls(**{key: value for key, value in content["parameters"].items() if key in known})
            model.boosters_ = [lgb.Booster(model_str=str(text)) for text in content["boosters"]]
            model.spreads_ = [float(spread) for spread in archive.arrays["spreads"]]
            *members, whole = archive.arrays["validation"]
            model.validation_scores_, model.validation_score_ = [float(value) for value in members], float(whole)
            model.n_rounds_, model.status_ = [int(number) for number in content["n_rounds"]], str(content["status"])
            model.n_features_in_ = int(content["n_features"])
            if "feature_names" in content:
                model.feature_names_in_ = np.array(content["feature_names"], dtype=object)
            model._restored(archive.arrays)
            fine = all(booster.num_feature() == model.n_features_in_ for booster in model.boosters_)
            if not fine or len(model.spreads_) != len(model.boosters_):
                raise ValueError("its models do not fit together")
        except (KeyError, TypeError, ValueError, lgb.basic.LightGBMError) as error:
            raise SavedFileError(f"{name}: is damaged ({error}); copy or write it again") from error
        return model


def _telling(line: StatusLine, told: str, metric: str) -> Callable[[int, float], None]:
    return lambda number, value: line.show(f"{told}, round {number}, {metric} {value:.4f}")


@dataclass(eq=False, repr=False)
class BoostedRankingClassifier(ClassifierMixin, Blend):
    """Boosted trees for rare events: log loss and rank loss, blended.

    Four models are trained on a part of the samples: LightGBM's ``binary``, the same with steps bounded by ``max_delta_step=1``,
    and two of :func:`~maxmargin.boosting.objective` with different noise. Rounds and size of the trees are chosen on the other
    samples, for the metric. Scores are their sum, each divided by its standard deviation on the held-out samples, and calibrated
    there as log-odds.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        The rank loss, as in :func:`~maxmargin.boosting.objective`.
    metric : str, default="ap"
        By which rounds and trees are chosen, a name that :func:`~maxmargin.boosting.evaluation` takes.
    members : list, optional
        What to blend instead of the four: names of LightGBM's objectives, rank objectives, or mappings of parameters with an
        ``"objective"``. One member alone is an ordinary model with early stopping.
    n_estimators : int, default=200
        Most rounds of every model.
    learning_rate : float, default=0.1
    num_leaves : int or sequence of int, default=(7, 31)
        Leaves of a tree; of several sizes the best on the held-out samples.
    noise : float, default=1.0
        As in :func:`~maxmargin.boosting.objective`.
    patience : int, optional, default=50
        Rounds without a better metric after which a model is complete; None makes all rounds.
    validation_fraction : float, default=0.25
        Part of the samples of each class that is held out, unless ``fit`` is given others.
    parameters : mapping, optional
        Further parameters of LightGBM, for all members.
    time_limit : float, optional
        Seconds after which training stops with what it has.
    random_state : int or RandomState, optional
        Seed of the division, the noise, and LightGBM.
    n_jobs : int, optional
        Threads; all cores by default.
    verbose : int, default=0
        Progress on standard error if 1.

    Attributes
    ----------
    classes_ : array of shape (2,)
        Labels; the second is the positive one.
    boosters_ : list of lightgbm.Booster
        The models, cut to their best round.
    n_rounds_, spreads_, validation_scores_ : lists
        Their rounds, the standard deviations their scores are divided by, and their metric on the held-out samples.
    validation_score_ : float
        That of the blend; a little too good, since rounds were chosen by it.
    calibration_ : pair of floats
        Slope and intercept that turn the blend into log-odds.
    status_ : {"completed", "time_limit", "interrupted"}
        How training ended; Ctrl-C keeps what there is.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, weights=[0.95], random_state=0)
    >>> model = BoostedRankingClassifier(n_estimators=50, random_state=0, n_jobs=1).fit(X[:1500], y[:1500])
    >>> model.decision_function(X[1500:]).shape, len(model.boosters_)
    ((500,), 4)
    """

    _partners: ClassVar[Sequence[Mapping[str, Any]]] = ({"objective": "binary"}, {"objective": "binary", "max_delta_step": 1.0})
    _n_rank: ClassVar[int] = 2

    def fit(self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Features; missing ones may be NaN.
        y : array of shape (n,)
            Labels of two classes; the one that sorts last is the positive one.
        validation : pair of such arrays, optional
            Samples to choose rounds by, instead of a part of these.

        Returns
        -------
        self
        """
        self._check_parameters()
        import_lightgbm()
        X, y = self._check_matrix(X, y, fitting=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            kind = type_of_target(y, input_name="y", raise_unknown=True)
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind} with {len(self.classes_)} class(es); "
                "mark one class against all others"
            )
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        if validation is None:
            held = self._held_out(codes, rng)
            train, held_out = Part(X[~held], codes[~held]), Part(X[held], codes[held])
        else:
            other, labels = self._pair(validation, 2, "features and labels, (X, y)")
            other, labels = self._check_matrix(other, labels)
            unknown = ~np.isin(labels, self.classes_)
            if unknown.any():
                problem = f"validation has the label {labels[unknown][0]}, which y has not"
                raise ArgumentError("validation", problem, "leave it out")
            new = (labels == self.classes_[1]).astype(np.int64)
            if new.all() or not new.any():
                raise ArgumentError("validation", "validation has samples of one class only", "pass samples of both")
            train, held_out = Part(X, codes), Part(other, new)
        self.calibration_ = _calibrated(self._train(train, held_out, seed), held_out.y)
        return self

    def _held_out(self, codes: Ints, rng: Any) -> NDArray[np.bool_]:
        """A part of both classes."""
        held = np.zeros(len(codes), dtype=bool)
        for code, label in enumerate(self.classes_):
            own = np.flatnonzero(codes == code)
            if len(own) < 2:
                raise ValueError(
                    f"y has one sample of the class {label!r}, but one to train and one to validate are needed; pass "
                    "validation=(X, y)"
                )
            number = min(max(1, round(self.validation_fraction * len(own))), len(own) - 1)
            held[rng.permutation(own)[:number]] = True
        return held

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the positive class, shape (n,), in the order of the blended scores."""
        check_is_fitted(self)
        slope, intercept = self.calibration_
        return slope * self._blend(self._check_matrix(X)) + intercept

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of both classes, shape (n, 2), by Platt's calibration on the held-out samples."""
        odds = self.decision_function(X)
        # Without overflow on either side.
        positive = np.where(odds >= 0, 1 / (1 + np.exp(-np.abs(odds))), np.exp(-np.abs(odds)) / (1 + np.exp(-np.abs(odds))))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class, shape (n,); for rare events a threshold of one's own is often better."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def _saved(self) -> dict[str, NDArray[Any]]:
        labels = np.asarray(self.classes_)
        return {"classes": labels.astype(str) if labels.dtype == object else labels, "calibration": np.array(self.calibration_)}

    def _restored(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.classes_ = arrays["classes"]
        slope, intercept = arrays["calibration"]
        self.calibration_ = float(slope), float(intercept)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _calibrated(scores: Floats, y: NDArray[Any]) -> tuple[float, float]:
    """Slope and intercept of the log-odds (Platt 1999): a logistic regression with targets a little off 0 and 1."""
    n_pos = int(np.count_nonzero(y))
    high, low = (n_pos + 1) / (n_pos + 2), 1 / (len(y) - n_pos + 2)
    target = np.where(y == 1, high, low)
    model = LogisticRegression(C=1e6).fit(
        np.concatenate([scores, scores])[:, None], np.repeat([1, 0], len(y)), np.concatenate([target, 1 - target])
    )
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    if slope > 1e-6:
        return slope, intercept
    # No better than chance here; the order of the scores is kept.
    rate = float(np.mean(target))
    return 1e-6, float(np.log(rate / (1 - rate)) - 1e-6 * np.mean(scores))


@dataclass(eq=False, repr=False)
class BoostedRanker(Blend):
    """Boosted trees for queries: ``lambdarank`` and the rank loss, blended.

    Parameters
    ----------
    loss : str or RankingLoss, default="ndcg"
        As in :func:`~maxmargin.boosting.objective`: graded NDCG, or one for which rows are relevant or not.
    metric : str, default="ndcg@10"
        By which rounds and trees are chosen.
    n_estimators : int, default=500
        Most rounds of every model. Where trees can learn much the NDCG hinge wants more than 200; elsewhere patience ends it.
    members, learning_rate, num_leaves, noise, patience, parameters, time_limit, random_state, n_jobs, verbose
        As in :class:`BoostedRankingClassifier`; by default ``lambdarank`` and one model of the rank loss are blended.
    validation_fraction : float, default=0.25
        Part of the queries that is held out, unless ``fit`` is given others.

    Attributes
    ----------
    boosters_, n_rounds_, spreads_, validation_scores_, validation_score_, status_, n_features_in_, feature_names_in_
        As in :class:`BoostedRankingClassifier`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(60), 10)
    >>> y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=600), [0.5, 1.5])
    >>> model = BoostedRanker(n_estimators=40, random_state=0, n_jobs=1).fit(X, y, qid)
    >>> model.score(X, y, qid) > 0.9
    True
    """

    loss: str | RankingLoss = "ndcg"
    _: KW_ONLY
    metric: str = "ndcg@10"
    n_estimators: int = 500

    _partners: ClassVar[Sequence[Mapping[str, Any]]] = ({"objective": "lambdarank"},)

    def fit(self, X: Any, y: Any, qid: ArrayLike, *, validation: tuple[Any, Any, Any] | None = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Features; missing ones may be NaN.
        y : array of shape (n,)
            Grades: integers from 0 on.
        qid : array of shape (n,)
            The query of each sample, numbers or strings, in any order.
        validation : three such arrays, optional
            Queries to choose rounds by, instead of a part of these.

        Returns
        -------
        self
        """
        self._check_parameters()
        import_lightgbm()
        whole = self._part(X, y, qid, fitting=True)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        if validation is not None:
            train, held_out = whole, self._part(*self._pair(validation, 3, "features, grades and queries, (X, y, qid)"))
        else:
            assert whole.group is not None
            n = len(whole.group)
            if n < 2:
                problem = "there is one query, but one to train and one to validate are needed"
                raise ArgumentError("qid", problem, "pass validation=(X, y, qid)")
            held = np.zeros(n, dtype=bool)
            held[rng.permutation(n)[: min(max(1, round(self.validation_fraction * n)), n - 1)]] = True
            rows = np.repeat(held, whole.group)
            train = Part(whole.X[~rows], whole.y[~rows], whole.group[~held])
            held_out = Part(whole.X[rows], whole.y[rows], whole.group[held])
        self._train(train, held_out, seed)
        return self

    def _part(self, X: Any, y: Any, qid: ArrayLike, fitting: bool = False) -> Part:
        X, y = self._check_matrix(X, y, fitting=fitting, y_numeric=True)
        grades = np.asarray(y, dtype=np.float64)
        if (grades != np.rint(grades)).any() or grades.min() < 0 or grades.max() > 30:
            raise ArgumentError("y", "y must be grades from 0 to 30, whole numbers, as LightGBM has them", "round or shift them")
        if qid is None:
            remedy = "pass the query of every sample, or use BoostedRankingClassifier for one list"
            raise ArgumentError("qid", "qid is None", remedy)
        _, offsets, order = query_offsets(qid, len(grades))
        if order is not None:
            X, grades = X[order], grades[order]
        return Part(X, grades, np.diff(offsets))

    def predict(self, X: Any) -> Floats:
        """Scores, shape (n,); sort them within each query in descending order."""
        check_is_fitted(self)
        return self._blend(self._check_matrix(X))

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike) -> float:
        """The metric of the estimator, mean over the queries, with exponential gains."""
        return evaluate(y, self.predict(X), qid=qid, metrics=[self.metric], gains="exponential")[self.metric]
