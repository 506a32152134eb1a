"""A file with the state of a run: a client that is killed goes on from it, to the last bit.

Cuts, best weights and counters are all there is to a run over shards; everything else can be loaded again. No pickle is written.
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, cast

import numpy as np

from maxmargin._utils import Arrays, Floats, Path, Reals, check_writable
from maxmargin.core.cuts import Bounds
from maxmargin.core.problem import Problem, SupportsCheckpoint, supports
from maxmargin.io import SavedFileError, read_archive, write_archive

if TYPE_CHECKING:
    from maxmargin.core.solvers import RunNumbers

KIND = "training checkpoint"
# Hinges at the same weights that differ by more are of other data: sums in another order do not.
_SAME_HINGE = 1e-6

# Arrays of a state, with their kinds; those that belong to others are theirs to check.
_SHAPES = {
    "cuts.rows": ("f", "md"), "cuts.losses": ("f", "m"), "cuts.idle": ("i", "m"), "cuts.names": ("i", "m"),
    "cuts.weights": ("f", "d"), "cuts.gram": ("f", "mm"), "cuts.linear": ("f", "m"), "cuts.solution": ("f", "m"),
    "cuts.support": ("i", "s"), "cuts.factor": ("f", "ss"), "cuts.shift": ("f", "1"),
    "best.weights": ("f", "d"), "best.psi": ("f", "d"),
    "history.passes": ("f", "h"), "history.primal": ("f", "h"), "history.dual": ("f", "h"), "history.seconds": ("f", "h"),
}  # fmt: skip
_NUMBERS = ("calls", "reach", "value", "hinge", "loss", "place", "primal", "dual", "worse_than_truth")


class CheckpointFile:
    """The checkpoint of a run of :class:`~maxmargin.core.solvers.OneSlackCuttingPlane`, in a file.

    Parameters
    ----------
    file : path
        Written in one step, at most every ``pause`` seconds and at the end, also of a run that is interrupted. If it exists, it
        must be of the same problem, lambda and bounds.
    problem : Problem
        Recognised by its size, the cut at zero and the hinge at some other weights.
    regularization : float
        Lambda.
    bounds : pair of arrays, optional
        Of the weights.
    pause : float
        Least number of seconds between two writes.

    Notes
    -----
    A run that was killed or interrupted is resumed to the last bit. One that has used up its passes or its time may have ended
    within a search, and goes on from there.

    Examples
    --------
    >>> import tempfile
    >>> from maxmargin.multiclass import MulticlassProblem
    >>> from maxmargin.core.solvers import OneSlackCuttingPlane
    >>> problem = MulticlassProblem(np.eye(3), np.arange(3), 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = f"{folder}/run.ckpt"
    ...     begun = OneSlackCuttingPlane(checkpoint=CheckpointFile(file, problem, 0.1), max_passes=2).solve(problem, 0.1)
    ...     found = OneSlackCuttingPlane(checkpoint=CheckpointFile(file, problem, 0.1)).solve(problem, 0.1)
    >>> begun.status, found.converged, found.history.primal[: len(begun.history)] == begun.history.primal
    ('max_passes', True, True)
    """

    def __init__(
        self, file: Path, problem: Problem, regularization: float, bounds: Bounds | None = None, pause: float = 30.0
    ) -> None:
        check_writable(file)
        self.file, self.pause = file, pause
        self.problem = problem
        self._settings = {"n_blocks": int(problem.n_blocks), "n_features": int(problem.n_features), "lam": float(regularization)}
        self._marks = _marks_of(problem, bounds)
        self._pending: tuple[RunNumbers, Arrays] | None = None
        self._written = time.monotonic()

    def read(self) -> tuple[RunNumbers, Arrays] | None:
        """What an earlier run has left."""
        if not os.path.exists(self.file) or os.path.getsize(self.file) == 0:
            return None
        name = os.fspath(self.file)
        content, arrays, _ = read_archive(self.file, KIND)
        for key, value in self._settings.items():
            if content.get(key) != value:
                raise SavedFileError(
                    f"{name}: is the checkpoint of a run with {key}={content.get(key)!r}, not {value!r}; name another file, or "
                    "remove it to begin anew"
                )
        for key, what in (("lower", "other bounds of the weights"), ("upper", "other bounds of the weights")):
            found = arrays.get(f"mark.{key}")
            if found is None or not np.array_equal(found, self._marks[f"mark.{key}"]):
                raise SavedFileError(
                    f"{name}: is the checkpoint of a run with {what}; name another file, or remove it to begin anew"
                )
        other = SavedFileError(
            f"{name}: is the checkpoint of a run on other data or for another loss; name another file, or remove it"
        )
        if not all(_close(arrays.get(key), self._marks[key]) for key in ("mark.psi", "mark.levels")):
            raise other
        try:
            _check(content["numbers"], arrays, self.problem)
        except (KeyError, TypeError, ValueError) as error:
            raise SavedFileError(f"{name}: is not a sound checkpoint ({error}); remove it to begin anew") from error
        # Marks are blind to columns that are small beside others; the weights that were found are not.
        if content["numbers"]["exact"]:
            weights, hinge = arrays["best.weights"], content["numbers"]["hinge"]
            cut = self.problem.mean_cut(weights)
            if not abs(cut.hinge(weights) - hinge) <= _SAME_HINGE * max(hinge, abs(cut.loss)):
                raise other
        return content["numbers"], arrays

    def keep(self, numbers: RunNumbers, arrays: Arrays, last: bool) -> None:
        """Write the state, unless one was written a moment ago; it is written at the end then."""
        self._pending = (numbers, arrays)
        if last or time.monotonic() - self._written >= self.pause:
            self.close()

    def close(self) -> None:
        """Write what was not written yet."""
        if self._pending is not None:
            numbers, arrays = self._pending
            write_archive(self.file, KIND, {**self._settings, "numbers": numbers}, {**arrays, **self._marks})
            self._pending, self._written = None, time.monotonic()


def _marks_of(problem: Problem, bounds: Bounds | None) -> dict[str, Floats]:
    """What tells problems apart: the cut at zero, the hinge at random weights of a size at which losses matter, and bounds."""
    zero = problem.mean_cut(np.zeros(problem.n_features))
    psi = zero.dense(problem.n_features)
    size = float(np.linalg.norm(psi))
    weights = np.random.default_rng(0).normal(size=problem.n_features) * (zero.loss / size if size > 0 else 1.0)
    levels = np.array([zero.loss, problem.mean_cut(weights).hinge(weights)])
    none = np.zeros(0)
    lower, upper = (none, none) if bounds is None else bounds
    return {"mark.psi": psi, "mark.levels": levels, "mark.lower": lower, "mark.upper": upper}


def _close(found: Reals | None, own: Floats) -> bool:
    """Equal but for the order of sums: another number of shards is no other problem."""
    if found is None or found.shape != own.shape or found.dtype != np.float64:
        return False
    return bool(np.abs(found - own).max(initial=0.0) <= 1e-9 * np.abs(own).max(initial=0.0))


def _check(numbers: object, arrays: Arrays, problem: Problem) -> None:
    """Complain about a state that no run has left."""
    n_features = problem.n_features
    if not isinstance(numbers, dict):
        raise TypeError("it has no numbers")
    for name in _NUMBERS:
        if isinstance(numbers[name], bool) or not isinstance(numbers[name], int | float) or not math.isfinite(numbers[name]):
            raise ValueError(f"{name} is not a number")
    if numbers["bound"] is not None and not isinstance(numbers["bound"], int | float):
        raise ValueError("bound is not a number")
    for name in ("curve", "dual_curve"):
        curve = numbers[name]
        if curve is not None and (not isinstance(curve, list) or len(curve) != 2 or not all(isinstance(x, float) for x in curve)):
            raise ValueError(f"{name} is not a pair of numbers")
    if not isinstance(numbers["exact"], bool):
        raise ValueError("exact is neither true nor false")
    sizes = {"d": n_features, "1": 1}
    for name, (kind, letters) in _SHAPES.items():
        array = arrays[name]
        for letter, length in zip(letters, array.shape, strict=False):
            sizes.setdefault(letter, length)
        expected = tuple(sizes.get(letter, -1) for letter in letters)
        if array.shape != expected or array.dtype != (np.float64 if kind == "f" else np.int64):
            raise ValueError(f"its array {name!r} has shape {array.shape} and dtype {array.dtype}, not {expected}")
        if kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"its array {name!r} has numbers that are not finite")
    if sizes["m"] < 1 or sizes["h"] < 1:
        raise ValueError("it has no cuts or no history")
    solution = arrays["cuts.solution"]
    if (solution < 0).any() or abs(solution[arrays["cuts.names"] == -1].sum() - 1) > 1e-6:
        raise ValueError("its multipliers are not a distribution")
    support = arrays["cuts.support"]
    known = ((support >= 0) & (support < sizes["m"])).all() and len(np.unique(support)) == len(support)
    if not known or not (np.diag(arrays["cuts.factor"]) > 0).all():
        raise ValueError("its factor belongs to other cuts")
    for name, letter in (("cuts.free", "b"), ("cuts.fixed", "f")):
        if name in arrays and (arrays[name].shape != (n_features,) or arrays[name].dtype.kind != letter):
            raise ValueError(f"its array {name!r} is not {n_features} entries")
    if supports(problem, SupportsCheckpoint):
        cast(SupportsCheckpoint, problem).check_packed_scores(arrays)
