"""What all estimators do alike: check parameters, prepare a problem, solve it, keep weights and certificate."""

from __future__ import annotations

import dataclasses
import inspect
import numbers
import pathlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from maxmargin._utils import ArgumentError, Floats, StatusLine, check_labels, check_matrix, warn
from maxmargin.core.certificate import Certificate
from maxmargin.core.cuts import Bounds
from maxmargin.core.problem import Problem, SupportsExactSteps, SupportsLinearScores, SupportsMeanCut, supports
from maxmargin.core.rows import LARGEST_FEATURE, huge_column
from maxmargin.core.solvers import (
    BCFW,
    ConvergenceWarning,
    ExponentiatedGradient,
    FrankWolfe,
    History,
    KnownCuts,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Solution,
    Solver,
    Subgradient,
    check_bounds,
)

SOLVERS: dict[str, type[Solver]] = {
    "bcfw": BCFW,
    "eg": ExponentiatedGradient,
    "fw": FrankWolfe,
    "n_slack": NSlackCuttingPlane,
    "one_slack": OneSlackCuttingPlane,
    "pl": PartialLinearization,
    "subgradient": Subgradient,
}

# What a Solver object brings of its own: the parameter of an estimator, and the setting of the solver.
BUDGETS = {
    "tol": "tol",
    "max_iter": "max_passes",
    "time_limit": "time_limit",
    "random_state": "random_state",
    "callback": "callback",
}

# What an estimator has, unless it says in `lacks` why not:
# "save": `save_model` and `load_model`;  "path": `regularization_path`;  "report": a page about the model;
# "bounds", "class_weight", "n_jobs", "warm_start": the parameter;  "sample_weight": the argument of `fit`;
# "surrogate": the parameter, which bound of the loss is minimised;
# "callback", "verbose", "time_limit": shared parameters that reach every loop;  "certificate": the fitted attributes.
Facility = Literal[
    "save", "path", "report", "bounds", "sample_weight", "class_weight", "n_jobs", "callback", "verbose", "warm_start",
    "time_limit", "certificate", "surrogate",
]  # fmt: skip

# What estimators of samples, of blocks and of rankings lack.
SAMPLEWISE: dict[Facility, str] = {"report": "the page is about rankings", "n_jobs": "blocks are visited one after the other"}
BLOCKWISE: dict[Facility, str] = {**SAMPLEWISE, "class_weight": "what is in a block shares a hinge, and is not of one class"}
LISTWISE: dict[Facility, str] = {"class_weight": "relevant and irrelevant samples of a list share a hinge"}

# What files hold of a certificate; see `Estimator.holds`.
CERTIFICATE: dict[str, Any] = {
    "primal_objective_": float,
    "dual_objective_": float,
    "dual_gap_": float,
    "certified_": bool,
    "n_iter_": int,
    "history_": History,
}


def choose_solver(solver: str | Solver, problem: Problem) -> Solver:
    """The solver behind a name.

    ``"auto"`` takes cutting planes where there is one block or few weights, and where whole passes are cheap but the problem
    has no compiled form; block-coordinate Frank-Wolfe elsewhere.
    """
    if isinstance(solver, Solver):
        return solver
    if solver == "auto" and not problem.convex:
        return Subgradient()
    if solver == "auto":
        compiled = problem.block_data is not None
        whole_passes = supports(problem, (SupportsMeanCut, SupportsLinearScores))
        # Few weights need few cuts, unless a pass means asking every block in Python where a compiled loop would do.
        few = problem.n_features <= 100 and (not compiled or whole_passes)
        if problem.n_blocks == 1 or few or (not compiled and whole_passes):
            return OneSlackCuttingPlane()
        return BCFW(steps="exact") if supports(problem, SupportsExactSteps) else BCFW(steps="pairwise", cache=20)
    try:
        return SOLVERS[solver]()
    except (KeyError, TypeError):
        known = ", ".join(map(repr, ["auto", *sorted(SOLVERS)]))
        raise ValueError(f"solver={solver!r} is unknown; choose one of {known}, or pass a Solver object") from None


def limits_of(problem: Problem, *given: tuple[ArrayLike, ArrayLike] | None) -> Bounds | None:
    """The problem's own bounds of its weights and those of users, all at once."""
    found = problem.bounds
    for bounds in given:
        own = check_bounds(bounds, problem.n_features)
        if found is not None and own is not None:
            own = check_bounds((np.maximum(own[0], found[0]), np.minimum(own[1], found[1])), problem.n_features)
        found = found if own is None else own
    return found


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(BaseEstimator, ABC):
    """Base of all estimators: subclasses name their parameters as fields and say how data become a problem.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges against the regulariser ``1/2 ||w||^2``.
    solver : str or Solver, default="auto"
        ``"auto"``, ``"bcfw"``, ``"one_slack"``, ``"n_slack"``, ``"fw"``, ``"pl"``, ``"eg"``, ``"subgradient"``, or an object
        of :mod:`maxmargin.core.solvers`, which brings its own tolerance, budgets, seed and callback. With an object, leave
        ``tol``, ``max_iter``, ``time_limit``, ``random_state`` and ``callback`` at their defaults: other values are refused.
    bounds : pair of arrays or numbers, optional
        ``lower <= w <= upper`` for the weights of the problem, in the order in which the fitted attributes show them.
    warm_start : bool, default=False
        Go on from the last ``fit``, perhaps with another ``C``, if the data are the same; start anew if they are not.
    tol : float, default=1e-3
        Stop when ``gap <= tol * primal``.
    max_iter : int
        Most passes over the data; a warning says if they did not suffice.
    time_limit : float, optional
        Seconds after which training stops with what it has.
    random_state : int, optional
        Seed of everything random.
    verbose : int, default=0
        Progress on standard error if 1: a line that is written over on a terminal, plain lines elsewhere.
    callback : callable, optional
        Called with the history so far after every check; returning True stops training. Files do not keep it.

    Attributes
    ----------
    primal_objective_, dual_objective_, dual_gap_ : float
        Objective at the weights, a lower bound of the optimum, and their difference.
    oracle_gap_ : float
        The part of the gap that inference which is not exact, but knows a bound, leaves open.
    certified_ : bool
        Whether the gap is proved; see :class:`maxmargin.core.certificate.Certificate`.
    certified_objective_ : {"exact", "bounded", "relaxed"}
        Of which objective: the true one, with every maximum found or with bounds of what was missed, or that of a relaxation.
    n_iter_ : int
        Passes.
    history_ : History
        Primal, dual and seconds after each check; ``history_.plot()`` draws it.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    random_state: int | None = None
    verbose: int = 0
    callback: Callable[[Any], bool | None] | None = None

    # Facilities that are missing, with the reason.
    lacks: ClassVar[Mapping[Facility, str]] = {}
    # What must be in a file, by name: a type, or the shape of an array of finite numbers (or of text, for classes). A word in
    # a shape is the number in the attribute of that name, or else one that is the same wherever the word stands. All other
    # fitted attributes are saved and loaded as well, but for those `not_saved`. Only classes that have their own can be saved.
    holds: ClassVar[Mapping[str, Any]] = {}
    not_saved: ClassVar[frozenset[str]] = frozenset()
    # Whether dense float32 matrices are used as they are.
    keeps_float32: ClassVar[bool] = False
    # Whether data are lists of blocks, not a matrix.
    of_blocks: ClassVar[bool] = False
    # Whether C="auto" is known: a C from the size of the features, which training leaves in C_.
    scales_C: ClassVar[bool] = False

    # ---- training -----------------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, **data: Any) -> Self:
        """The body of every ``fit``."""
        self._check_parameters()
        self._keep(self._train(self._prepare(X, y, **data)))
        self._restore()
        return self

    @abstractmethod
    def _prepare(self, X: Any, y: Any, *args: Any, **data: Any) -> Any:
        """The problem to solve, from checked data."""

    @abstractmethod
    def _keep(self, weights: Floats) -> None:
        """Weights of the problem as fitted attributes."""

    def _supplement(self) -> None:
        """Fitted attributes that are not there, as in files of earlier versions, where they follow from those that are."""

    def _restore(self) -> None:
        """What prediction uses besides fitted attributes; also for estimators from a file."""

    def _saved_parameters(self) -> dict[str, Any]:
        """Parameters in a form that files can hold."""
        return dict(self.get_params(deep=False))

    def _write_report(self, *args: Any, **options: Any) -> pathlib.Path:
        """A page of :func:`maxmargin.report.write_report`, which is not loaded before."""
        from maxmargin.report import write_report

        return write_report(self, *args, **options)

    def _check_fitted(self) -> None:
        """Complain about fitted attributes from a file that training would not have left; their shapes are right."""

    def _train(self, problem: Any) -> Floats:
        """The best weights; the certificate becomes fitted attributes."""
        # Equal to the problem, if there is an earlier one; compiled forms want the same object.
        problem, start = self._recalled(problem) or (problem, None)
        asked = _queries_of(problem)
        solution = self._solve(problem, self._solver(problem), start)
        if asked is not None:
            self.n_queries_ = int(_queries_of(problem) or 0) - asked
        self._certify(solution, self._weight_of_hinges() * problem.n_blocks)
        self._remember(problem, (problem, solution))
        return solution.weights

    def _weight_of_hinges(self) -> float:
        """C as a number: what was found for ``C="auto"``, or the parameter."""
        value: Any = getattr(self, "C_", self.C)
        return float(value)

    def _set_weight_of_hinges(self, value: float) -> None:
        """Another C, as if it had been asked for."""
        self.set_params(C=value)
        if hasattr(self, "C_"):
            self.C_ = value

    def _solver(self, problem: Problem, method: Solver | None = None) -> Solver:
        """The user's solver as it is, or else one with the budgets of the estimator."""
        chosen = getattr(self, "solver", "auto") if method is None else method
        if method is None and isinstance(chosen, Solver):
            return chosen
        return dataclasses.replace(
            choose_solver(chosen, problem),
            tol=self.tol,
            max_passes=self.max_iter,
            time_limit=self.time_limit,
            random_state=self.random_state or 0,
            callback=self.callback,
        )

    def _solve(self, problem: Problem, solver: Solver, start: Solution | KnownCuts | None = None) -> Solution:
        """Minimise ``1/2 ||w||^2 + C * sum of hinges``; a warning if that did not succeed."""
        bounds = limits_of(problem, getattr(self, "bounds", None))
        with self._status_line() as line:
            if self.verbose:
                solver = dataclasses.replace(solver, callback=_shown_on(line, solver.callback))
            solution = solver.solve(problem, 1.0 / (self._weight_of_hinges() * problem.n_blocks), bounds=bounds, start=start)
        if not solution.converged:
            self._warn(self._unfinished(problem, solver, solution))
        if not solution.weights.any() and (why := self._zero_is_best(problem)):
            proved = solution.converged and solution.certified
            self._warn(f"{'has' if proved else 'may have'} its optimum at zero weights, {why}")
        return solution

    def _unfinished(self, problem: Problem, solver: Solver, solution: Solution) -> str:
        """How a run ended that did not converge, and what to change: the parameter that was in force, not one beside it."""
        own = getattr(self, "solver", None)
        budget = {"max_passes": "max_iter", "time_limit": "time_limit"}.get(solution.status, "")
        stopped, more = budget or solution.status, f"raise {budget}, " if budget else ""
        # A loop around the solver may have given it less time than the object has.
        if budget and isinstance(own, Solver) and getattr(own, solution.status) == getattr(solver, solution.status):
            stopped = solution.status
            more = f"raise {stopped} of {type(own).__name__}({stopped}={getattr(own, stopped)!r}), "
        untrained = ""
        if budget and not solution.weights.any():
            untrained = " and did not train: all weights are zero after the whole budget"
            more += "" if own in (None, "auto") else "use solver='auto', "
        return (
            f"stopped ({stopped}) after {solution.passes:.0f} passes with a relative duality gap of "
            f"{solution.gap / max(solution.primal, 1e-300):.3g}{untrained}; {more}lower C, or {self._scaling_advice(problem)}"
        )

    def _zero_is_best(self, problem: Problem) -> str:
        """Why zero weights may be the optimum though they are of no use, and what to do; empty where there is no known reason."""
        return ""

    def _scaling_advice(self, problem: Problem) -> str:
        """The last of the remedies for a run that did not end; subclasses that know which features are large name them."""
        return "scale the features"

    def _status_line(self) -> StatusLine:
        return StatusLine(type(self).__name__, shown=bool(self.verbose))

    def _warn(self, text: str) -> None:
        warn(f"{type(self).__name__} {text}", ConvergenceWarning)

    def _certify(self, solution: Solution, factor: float) -> None:
        """What is proved, for the objective times ``factor``, as fitted attributes."""
        self._show(solution.certificate.scaled(factor), solution.passes, solution.history.scaled(factor))

    def _show(self, certificate: Certificate, passes: float, history: History) -> None:
        for name, value in certificate.attributes().items():
            setattr(self, name, value)
        self.n_iter_ = max(1, round(passes))
        self.history_: Any = history

    # ---- parameters and data ------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Complain about budgets; subclasses add their own parameters."""
        if not self._has_auto_C():
            self._check_positive("C")
        self._check_positive("tol")
        self._check_count("max_iter")
        self._check_time_limit()
        self._check_budgets()

    def _check_budgets(self) -> None:
        """Complain about budgets that a Solver object would override."""
        solver = getattr(self, "solver", None)
        if not isinstance(solver, Solver):
            return
        parameters = inspect.signature(type(self)).parameters
        for name, field in BUDGETS.items():
            if name not in parameters or name in self._budgets_of_loops():
                continue
            given, own = getattr(self, name), getattr(solver, field)
            if given in (parameters[name].default, own):
                continue
            kind = type(solver)
            known = next((word for word, one in SOLVERS.items() if one is kind), "auto")
            raise ValueError(
                f"{name}={given!r} would be ignored: solver={kind.__name__}({field}={own!r}) is a Solver object, whose own "
                f"{field} counts; leave out {name} and use {kind.__name__}({field}={given!r}), or name the solver, such as "
                f"solver={known!r}"
            )

    def _budgets_of_loops(self) -> Set[str]:
        """Budgets that a loop around the solver obeys: a Solver object does not replace them."""
        return frozenset()

    def _check_time_limit(self) -> None:
        limit = self.time_limit
        if limit is not None and not (isinstance(limit, numbers.Real) and float(limit) > 0):
            raise ValueError(f"time_limit={limit!r} must be a positive number of seconds, or None")

    def _has_auto_C(self) -> bool:
        """Whether C is left to the data."""
        return self.scales_C and isinstance(self.C, str) and self.C == "auto"

    def _check_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
                other = ", or 'auto'" if name == "C" and self.scales_C else ""
                raise ValueError(f"{name}={value!r} must be a positive number{other}")

    def _check_count(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name}={value!r} must be a positive integer")

    def _check_start(self, *words: str) -> None:
        if isinstance(self.start, str) and self.start not in words:
            raise ValueError(f"start={self.start!r} is unknown; use {', '.join(map(repr, words))} or an array of weights")

    def _given_start(self, d: int, words: str) -> Floats:
        weights = np.array(self.start, dtype=np.float64)
        if weights.shape != (d,) or not np.isfinite(weights).all():
            raise ValueError(f"start must be {d} finite weights, one per feature of X, or {words}")
        return weights

    def _check_width(self, n_features: int) -> None:
        if n_features != self.n_features_in_:
            raise ValueError(f"X has {n_features} features, but {type(self).__name__} was trained with {self.n_features_in_}")

    def _check_matrix(self, X: Any, y: Any = "no_validation", *, fitting: bool = False, **options: Any) -> Any:
        """Samples as a float64 array or CSR matrix; with labels, both. The one door through which matrices come in.

        Dense float32 samples stay what they are where all that is done with them is made for that.
        """
        X, y = check_matrix(X), y if isinstance(y, str) else check_labels(y)
        kept = self.keeps_float32 and not hasattr(X, "tocsr")
        dtype: Any = [np.float64, np.float32] if kept else np.float64
        found = validate_data(self, X, y, accept_sparse="csr", dtype=dtype, accept_large_sparse=False, reset=fitting, **options)
        if fitting and not self._takes_any_size():
            refuse_huge(found[0] if isinstance(found, tuple) else found, getattr(self, "feature_names_in_", None))
        return found

    def _takes_any_size(self) -> bool:
        """Whether features are divided by their spread before anything is squared."""
        return False

    # ---- going on from the last fit -----------------------------------------------------------------------------------------

    def _mark(self, problem: Problem, settings: tuple[Any, ...]) -> Any:
        """By which data are known again; None if nothing is to be kept."""
        mark = problem.fingerprint() if getattr(self, "warm_start", False) else None
        return None if mark is None else (mark, *settings)

    def _remember(self, problem: Problem, found: Any, *settings: Any) -> None:
        # With the problem, so that no other loss or structure can take the place of its own in memory.
        mark = self._mark(problem, settings)
        self._earlier = None if mark is None else (mark, found, problem)

    def _recalled(self, problem: Problem, *settings: Any) -> Any:
        """What the last fit left, if it was on the same data with the same settings."""
        mark, earlier = self._mark(problem, settings), getattr(self, "_earlier", None)
        return earlier[1] if mark is not None and earlier is not None and earlier[0] == mark else None

    def __getstate__(self) -> Any:
        # What a warm start goes on from belongs to this process.
        return {key: value for key, value in super().__getstate__().items() if key != "_earlier"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = not self.of_blocks
        tags.input_tags.two_d_array = not self.of_blocks
        tags.no_validation = self.of_blocks
        return tags


def refuse_huge(X: Any, names: Any = None) -> None:
    """Complain about a column that cannot be squared and added up, from which nothing could be learned."""
    found = huge_column(X)
    if found is not None:
        k, peak = found
        column = f"column {k + 1}" + ("" if names is None else f" ({str(names[k])!r})")
        raise ArgumentError(
            "X",
            f"{column} of X reaches {peak:.3g}, and squares of numbers beyond {LARGEST_FEATURE:g} are too large to add up",
            "measure it in larger units, or leave it out",
        )


@dataclass(eq=False, repr=False, kw_only=True)
class SampleEstimator(Estimator):
    """Base of estimators with a hinge for every sample, whatever that is: a row, a graph, a sequence."""

    bounds: tuple[ArrayLike, ArrayLike] | None = None
    solver: str | Solver = "auto"

    lacks: ClassVar[Mapping[Facility, str]] = SAMPLEWISE

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on samples X with true outputs y.

        Hinges are multiplied by ``sample_weight``, of shape (n,): a weight of 2 is that of a sample that is there twice.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        return self._fit(X, y, sample_weight=sample_weight)


def _queries_of(problem: Any) -> int | None:
    """Questions that a problem, perhaps a weighted one, has put to its decoder; None if it does not count them."""
    found: int | None = getattr(problem, "queries", getattr(getattr(problem, "problem", None), "queries", None))
    return found


def _shown_on(line: StatusLine, callback: Callable[[History], bool | None] | None) -> Callable[[History], bool | None]:
    """A callback that shows how far a solver is, and passes on what another one says."""

    def tell(history: History) -> bool | None:
        gap = history.gap[-1] / max(history.primal[-1], 1e-300)
        line.show(f"pass {history.passes[-1]:.0f}, relative gap {gap:.2e}")
        return None if callback is None else callback(history)

    return tell
