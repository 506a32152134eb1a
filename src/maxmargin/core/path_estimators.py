"""The regularization path of an estimator: one run, and a fitted, certified model for every C."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from maxmargin._api import find
from maxmargin._utils import Floats, StatusLine, warn
from maxmargin.core.certificate import Certificate
from maxmargin.core.estimator import Estimator, choose_solver, limits_of
from maxmargin.core.model_files import pack_estimator, unpack_estimator
from maxmargin.core.path import PathProgress, Rule, check_settings, trace_path
from maxmargin.core.path_checkpoint import Checkpoint
from maxmargin.core.path_result import Segment, TracedPath
from maxmargin.core.path_weights import WeightStore
from maxmargin.core.problem import Problem
from maxmargin.core.scoring import best_of, scorer_of
from maxmargin.core.solvers import ConvergenceWarning, History, Solver
from maxmargin.core.structure import Structure
from maxmargin.io import SavedFileError, read_archive, write_archive

_KIND = "path"
# What files hold of a path, besides its estimator, weights and segments.
_COLUMNS = ("lambdas", "hinges", "squared_norms", "duals", "passes")
_SCALARS: dict[str, type] = {"epsilon": float, "kappa": float, "start_gap": float, "n_blocks": int, "rule": str}
_SCALARS |= dict.fromkeys(("certified", "complete", "closed_form"), bool)


class Selection(NamedTuple):
    """The best weights of a path on some data: a lambda in the middle (of its logarithm) of the range in which they are used, and
    their score; then the scores of all m weights of the path, and the lambdas where these were found, both of shape (m,).
    """

    lam: float
    score: float
    scores: Floats
    lambdas: Floats


@dataclass(eq=False, repr=False)
class RegularizationPath(TracedPath):
    """For every lambda from ``lambda_end`` up, a model that is provably within ``epsilon`` of the optimum.

    ``C = 1 / (lambda * n_blocks)``. Made by :func:`maxmargin.regularization_path`; what it holds is described in
    :class:`maxmargin.core.TracedPath`.
    """

    template: Any = None

    @classmethod
    def of(cls, traced: TracedPath, template: Any) -> RegularizationPath:
        """A traced path together with the estimator that its weights belong to (None for a bare problem)."""
        return cls(**(vars(traced) | {"template": template}))

    def estimator(self, lam: float) -> Any:
        """A fitted estimator with the weights at ``lam``, and with the certificate they have there.

        Where the closed form holds, above ``lambdas[0]``, ``primal_objective_`` is an upper bound of the objective.
        """
        return self._fitted(self.model_at(lam), lam)

    def estimator_of(self, model: int) -> Any:
        """A fitted estimator with weights number ``model``, at the lambda where they were found."""
        return self._fitted(model, float(self.lambdas[model]))

    def _fitted(self, model: int, lam: float) -> Any:
        if self.template is None:
            raise ValueError("this path is that of a bare problem, which has no estimator; use weights(lam)")
        estimator = copy.deepcopy(self.template)
        lam = lam if lam > 0 else 1.0
        weights = self.weights(lam) if self.model_at(lam) == model else self.store[model]
        estimator._set_weight_of_hinges(1.0 / (lam * self.n_blocks))
        estimator._keep(weights)
        estimator._restore()
        ridge = 0.5 * lam * float(weights @ weights)
        if self.model_at(lam) == model:
            gap = self.gap_bound(lam)
        else:
            # Other weights are used where these were found; their own gap is known.
            gap = max(0.0, ridge + float(self.hinges[model] - self.duals[model]))
        if model == 0 and self.closed_form and lam > self.lambdas[0]:
            # Here the lower bound is known: the mean loss of the worst outputs less the regulariser.
            primal = self.duals[0] + 0.5 * self.lambdas[0] * self.squared_norms[0] - ridge + gap
        else:
            primal = ridge + self.hinges[model]
        certificate = Certificate(float(primal), float(primal - gap), self.certified).scaled(1.0 / lam)
        estimator._show(certificate, float(self.passes[model]), History())
        return estimator

    def select(self, X: Any, y: Any, *, scoring: str | Callable[..., float] | None = None, **score_params: Any) -> Selection:
        """Score every distinct model of the path once, on validation data.

        Parameters
        ----------
        X, y
            Validation data, as ``score`` of the estimator takes them.
        scoring : str or callable, optional
            ``scoring(estimator, X, y, **score_params)``, larger is better, or the name of one of scikit-learn's; by default
            ``estimator.score``.
        **score_params
            Such as ``qid``.

        Returns
        -------
        Selection
            The best; of several, that with the largest lambda. Scores that are not a number lose.
        """
        score = scorer_of(scoring, score_params)
        scores = np.array([float(score(self.estimator_of(k), X, y, **score_params)) for k in range(len(self))])
        # Weights that are used nowhere (another model is better at their own lambda) are not candidates.
        used = np.array([hi > lo for hi, lo in self.ranges()])
        best = best_of(np.where(used, scores, -np.inf))
        return Selection(self.middle(best), float(scores[best]), scores, self.lambdas.copy())

    def middle(self, model: int) -> float:
        """A lambda well inside the range in which weights number ``model`` are used."""
        hi, lo = self.ranges()[model]
        if np.isinf(hi):
            # A path that begins at zero has weights of zero everywhere.
            return float(self.lambdas[0]) if self.lambdas[0] > 0 else 1.0
        return float(np.sqrt(hi * lo)) if lo > 0 else float(0.5 * hi)

    def report(
        self,
        X: Any = None,
        y: Any = None,
        qid: ArrayLike | None = None,
        *,
        training: Sequence[Any] | None = None,
        file: str | os.PathLike[str] = "path.html",
        **options: Any,
    ) -> Path:
        """Write one HTML page with a slider over lambda; see :func:`maxmargin.report.write_path_report` for what is passed on.

        Options are ``scoring``, ``metric``, ``feature_names``, ``title``, ``notes``, ``selection`` and ``held_out``.
        """
        from maxmargin.report import write_path_report

        if isinstance(options.get("scoring"), str):
            options["scoring"] = scorer_of(options["scoring"], {} if qid is None else {"qid": qid})
        return write_path_report(self, X, y, qid, training=training, file=file, **options)

    # ---- files -----------------------------------------------------------------------------------------------------------------

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the path with its estimator to a file, in one step; see :func:`maxmargin.save_model` for what files can hold."""
        content, arrays = pack_estimator(self.template) if self.template is not None else (None, {})
        arrays = {f"estimator.{name}": array for name, array in arrays.items()}
        arrays |= {name: getattr(self, name) for name in _COLUMNS}
        arrays["segments"] = np.array(self.segments, dtype=np.float64).reshape(len(self.segments), len(Segment._fields))
        scalars = {name: getattr(self, name) for name in _SCALARS}
        header = {**scalars, "estimator": content, "n_features": self.store.n_features}
        write_archive(file, _KIND, header, {**arrays, **self.store.arrays()})

    @classmethod
    def load(cls, file: str | os.PathLike[str], **objects: Any) -> Self:
        """Read a path; ``objects`` are parameters of the estimator that files do not hold, such as a loss of one's own."""
        name = os.fspath(file)
        content, arrays, version = read_archive(file, _KIND)
        try:
            described = content["estimator"]
            if not isinstance(described, dict | None):
                raise TypeError("its estimator is not described")
            path = cls(**_fields_in(content, arrays))
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise SavedFileError(f"{name}: is not a sound path ({what}); copy or write it again") from error
        if described is not None:
            own = {key.removeprefix("estimator."): value for key, value in arrays.items() if key.startswith("estimator.")}
            path.template = unpack_estimator(name, described, own, objects, version)
        return path


def _fields_in(content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    columns = {name: arrays[name] for name in _COLUMNS}
    store = WeightStore.of(int(content["n_features"]), arrays)
    rows = arrays["segments"]
    if any(column.shape != (len(store),) or column.dtype != np.float64 for column in columns.values()) or len(store) == 0:
        raise ValueError("its columns are not of one length")
    if not all(np.isfinite(column).all() for column in columns.values()) or (np.diff(columns["lambdas"]) >= 0).any():
        raise ValueError("its lambdas are not in order")
    if rows.ndim != 2 or rows.shape[1] != len(Segment._fields) or rows.dtype != np.float64 or not np.isfinite(rows).all():
        raise ValueError("its segments are not in order")
    segments = [Segment(hi, lo, int(model), a, b) for hi, lo, model, a, b in rows.tolist()]
    if any(not 0 <= s.model < len(store) or not s.hi > s.lo >= 0 or min(s.gap_hi, s.gap_lo) < 0 for s in segments):
        raise ValueError("its segments are not in order")
    if segments and (segments[0].hi != columns["lambdas"][0] or any(a.lo != b.hi for a, b in pairwise(segments))):
        raise ValueError("its segments leave holes")
    scalars = {name: content[name] for name in _SCALARS}
    wrong = [name for name, kind in _SCALARS.items() if type(scalars[name]) is not kind]
    if wrong or not scalars["epsilon"] > 0 or scalars["n_blocks"] < 1 or scalars["start_gap"] < 0:
        raise ValueError(f"its header has no sound {wrong[0] if wrong else 'numbers'}")
    return {"store": store, "segments": segments, **columns, **scalars}


def regularization_path(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    epsilon: float,
    lambda_min: float,
    kappa: float = 0.9,
    lambda_max: float | None = None,
    solver: str | Solver = "auto",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    rule: Rule = "interpolate",
    certified: bool = True,
    dtype: Any = np.float64,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    verbose: int = 0,
    callback: Callable[[PathProgress], None] | None = None,
    **fit_params: Any,
) -> RegularizationPath:
    """The whole regularization path: for every lambda from ``lambda_min`` up, a model within ``epsilon`` of the optimum.

    The objective is ``lambda/2 ||w||^2 + mean hinge``, and ``C = 1 / (lambda n)`` for ``n`` lists, samples or sequences.

    Parameters
    ----------
    model : estimator, Structure or problem
        ``RankingSVM``, ``MulticlassSVM``, ``ChainSVM``, ``TreeSVM``, ``GraphSVM`` or ``StructuredSVM``. Its ``C``, ``solver``,
        ``tol``, ``max_iter``, ``time_limit``, ``random_state``, ``callback`` and ``verbose`` do not matter: what there is of them
        here counts.
        Or a user's :class:`maxmargin.core.Structure`, or anything that hands out cuts, without X and y.
    X, y
        Training data as in ``fit``.
    epsilon : float
        Largest duality gap anywhere, absolute. The mean hinge at weights of zero is the mean loss of the worst outputs, often
        about 1, so 0.1 is coarse and 0.001 is fine.
    lambda_min : float
        Where to stop.
    kappa : float, default=0.9
        The part of epsilon that solvers are asked for; the rest is for the ranges between breakpoints.
    lambda_max : float, optional
        Begin there, by a solve; by default the path begins with a closed form that holds for all larger lambda.
    solver : str or Solver, default="auto"
        As in the estimators. Of a Solver object ``max_passes``, ``time_limit``, ``callback`` and ``random_state`` count for each
        solve; its ``tol`` and ``epsilon`` do not, since every solve stops at a part of the ``epsilon`` given here.
    bounds : pair of arrays or numbers, optional
        ``lower <= w <= upper`` for the weights of the problem, besides those that the estimator itself has.
    rule : {"interpolate", "transport"}
        Where to solve: ours, which needs few solves, or the published one. See docs/path.md.
    certified : bool, default=True
        False allows inference that is not exact and ``BCFW(stop="heuristic")``; nothing is proved then.
    dtype : float64 or float32
        How weights are stored.
    checkpoint : path, optional
        A file to write what has been solved to. If it exists, the run goes on from there.
    time_limit : float, optional
        Seconds after which the path ends where it is, with a warning.
    verbose : int, default=0
        Progress on standard error if 1.
    callback : callable, optional
        Called with a :class:`maxmargin.core.path.PathProgress` after every solve.
    **fit_params
        Such as ``qid`` and ``sample_weight``.

    Returns
    -------
    RegularizationPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import RankingSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> path = regularization_path(RankingSVM("ap"), X[::2], y[::2], epsilon=0.01, lambda_min=1e-4)
    >>> path.certified, max(path.gap_bound(lam) for lam in np.logspace(-4, 4, 100)) <= 0.01
    (True, True)
    >>> found = path.select(X[1::2], y[1::2])
    >>> path.estimator(found.lam).score(X[1::2], y[1::2]) == found.score
    True
    """
    check_settings(epsilon, lambda_min, lambda_max, kappa, rule, dtype, time_limit, callback)
    problem, template = _problem_of(model, X, y, fit_params)
    limits = limits_of(problem, bounds, getattr(template, "bounds", None))
    file = None if checkpoint is None else Checkpoint(checkpoint, problem, epsilon, kappa, rule, limits)
    line, first = StatusLine("path", shown=bool(verbose)), lambda_min

    def tell(progress: PathProgress) -> None:
        nonlocal first
        first = max(progress.lam, first)
        if progress.lam > 0:
            share = min(1.0, np.log(first / progress.lam) / (np.log(first / lambda_min) or 1.0))
            reached = f"{share:4.0%} of log lambda, lambda {progress.lam:.3g}"
            line.show(f"{reached}, {progress.n_solved} breakpoints, {progress.passes:.0f} passes")
        if callback is not None:
            callback(progress)

    with line:
        traced = trace_path(
            problem, epsilon=epsilon, lambda_min=lambda_min, kappa=kappa, lambda_max=lambda_max,
            solver=choose_solver(solver, problem), bounds=limits, rule=rule, certified=certified, dtype=dtype,
            time_limit=time_limit, callback=tell, known=None if file is None else file.points(),
            keep=None if file is None else file.keep,
        )  # fmt: skip
    if not traced.complete:
        warn(
            f"the path ends at lambda={traced.lambda_end:.3g} and not at {lambda_min:.3g}: it was interrupted, or a solver could "
            "not reach its gap; go on from a checkpoint, raise time_limit, the solver's max_passes or epsilon, or take another "
            "solver, such as solver='one_slack'",
            ConvergenceWarning,
        )
    if template is not None:
        template._supplement()
    return RegularizationPath.of(traced, template)


def _problem_of(model: Any, X: Any, y: Any, fit_params: dict[str, Any]) -> tuple[Problem, Estimator | None]:
    """The problem, and an estimator to put weights into."""
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class; pass an object, {model.__name__}(...)")
    if isinstance(model, Structure):
        make: Any = find("StructuredSVM")
        model = make(model)
    name = type(model).__name__
    if isinstance(model, Estimator) and "path" not in model.lacks:
        if X is None or y is None:
            raise ValueError(f"X and y are missing; a path of {name} needs training data")
        template = clone(model)
        unknown = [key for key in fit_params if key not in inspect.signature(model.fit).parameters]
        if unknown:
            raise TypeError(f"{unknown[0]} is neither an argument of regularization_path nor of {name}.fit")
        return template._prepare(X, y, **fit_params), template
    if isinstance(model, Problem):
        if X is not None or y is not None or fit_params:
            raise ValueError(f"{name} brings its own data; leave out X and y")
        return model, None
    why = f": {model.lacks['path']}" if isinstance(model, Estimator) else ""
    raise TypeError(
        f"{name} has no regularization path{why}; pass one of RankingSVM, MulticlassSVM, ChainSVM, TreeSVM, GraphSVM, "
        "StructuredSVM, a Structure, or a problem that hands out cuts"
    )
