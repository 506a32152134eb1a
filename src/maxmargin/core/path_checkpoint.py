"""A file with what a path has solved so far, so that an interrupted run can go on."""

from __future__ import annotations

import os
import time

import numpy as np

from maxmargin._utils import Arrays, Booleans, Floats, Reals, check_writable
from maxmargin.core.cuts import Bounds
from maxmargin.core.path import Solved
from maxmargin.core.path_weights import WeightStore
from maxmargin.core.problem import CheckedProblem, Problem
from maxmargin.io import SavedFileError, read_archive, write_archive

_KIND = "path checkpoint"
_COLUMNS = ("lam", "hinge", "dual", "passes", "certified", "place", "dual_there")


class Checkpoint:
    """Points of a path on disk.

    Parameters
    ----------
    file : path
        Written in one step, at most every ``pause`` seconds and with the last point; if it exists, it must be of the same
        problem and settings.
    problem : Problem
        What is being solved; it is recognised by its size, the cut at weights of zero and the hinges at some other weights.
    epsilon, kappa, rule, bounds
        Of the path.
    pause : float
        Least number of seconds between two writes.
    """

    def __init__(
        self, file: str | os.PathLike[str], problem: Problem, epsilon: float, kappa: float, rule: str,
        bounds: Bounds | None = None, pause: float = 5.0,
    ) -> None:  # fmt: skip
        check_writable(file)
        self.file = file
        self.pause = pause
        self.n_features = problem.n_features
        self._settings = {"epsilon": float(epsilon), "kappa": float(kappa), "rule": rule, "n_blocks": int(problem.n_blocks)}
        self._marks = _marks_of(problem, bounds)
        self._written = -np.inf

    def points(self) -> list[Solved]:
        """What an earlier run wrote; nothing if there is no file, or nothing in it."""
        if not os.path.exists(self.file) or os.path.getsize(self.file) == 0:
            return []
        name = os.fspath(self.file)
        content, arrays, _ = read_archive(self.file, _KIND)
        for key, value in self._settings.items():
            if content.get(key) != value:
                raise SavedFileError(
                    f"{name}: is the checkpoint of a path with {key}={content.get(key)!r}, not {value!r}; name another file, or "
                    "remove it to begin anew"
                )
        if not _equal(arrays.get("lower"), self._marks["lower"]) or not _equal(arrays.get("upper"), self._marks["upper"]):
            raise SavedFileError(
                f"{name}: is the checkpoint of a path with other bounds of the weights; name another file, or remove it to begin "
                "anew"
            )
        if not all(_close(arrays.get(key), self._marks[key]) for key in ("psi", "levels")):
            raise SavedFileError(
                f"{name}: is the checkpoint of a path on other data or for another loss; name another file, or remove it"
            )
        try:
            store = WeightStore.of(self.n_features, arrays)
            columns = [_column(arrays, column, (len(store),)).tolist() for column in _COLUMNS]
            curves = map(tuple, _column(arrays, "curve", (len(store), 2)).tolist())
            points = [
                Solved(lam, store[k], hinge, dual, passes, certified, None, curve, *there)
                for k, (lam, hinge, dual, passes, certified, *there, curve) in enumerate(zip(*columns, curves, strict=True))
            ]
            if any(not point.lam >= 0 or not point.hinge >= 0 or not point.passes >= 0 for point in points):
                raise ValueError("it has negative numbers where none can be")
            return points
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise SavedFileError(f"{name}: is not a sound checkpoint ({error}); remove it to begin anew") from error

    def keep(self, points: list[Solved], last: bool) -> None:
        """Write all points, unless that was done a moment ago and more are to come."""
        if not last and time.monotonic() - self._written < self.pause:
            return
        store = WeightStore(self.n_features)
        for point in points:
            store.append(point.weights)
        columns = (*_COLUMNS, "curve")
        arrays: Arrays = {column: np.array([getattr(point, column) for point in points]) for column in columns}
        write_archive(self.file, _KIND, self._settings, {**arrays, **store.arrays(), **self._marks})
        self._written = time.monotonic()


def _marks_of(problem: Problem, bounds: Bounds | None) -> dict[str, Floats]:
    """What tells problems apart: bounds, the cut at zero, and hinges at random weights of a size at which losses matter."""
    checked, rng = CheckedProblem(problem), np.random.default_rng(0)
    zero = checked.mean_cut(np.zeros(problem.n_features))
    psi = zero.dense(problem.n_features)
    size = float(np.linalg.norm(psi))
    levels = [zero.loss]
    for _ in range(2):
        weights = rng.normal(size=problem.n_features) * (zero.loss / size if size > 0 else 1.0)
        if bounds is not None:
            weights = np.clip(weights, *bounds)
        levels.append(checked.mean_cut(weights).hinge(weights))
    none = np.zeros(0)
    lower, upper = (none, none) if bounds is None else bounds
    return {"lower": lower, "upper": upper, "psi": psi, "levels": np.array(levels)}


def _equal(found: Reals | None, own: Floats) -> bool:
    return found is not None and np.array_equal(found, own)


def _close(found: Reals | None, own: Floats) -> bool:
    """Nearly equal: products are summed in another order on another number of threads."""
    if found is None or found.shape != own.shape or found.dtype != np.float64:
        return False
    return bool(np.abs(found - own).max(initial=0.0) <= 1e-6 * np.abs(own).max(initial=0.0))


def _column(arrays: Arrays, name: str, shape: tuple[int, ...]) -> Floats | Booleans:
    column = arrays[name]
    kind = np.bool_ if name == "certified" else np.float64
    if column.shape != shape or column.dtype != kind or not np.isfinite(column).all():
        raise ValueError(f"its column {name!r} is not {shape[0]} numbers")
    return column
