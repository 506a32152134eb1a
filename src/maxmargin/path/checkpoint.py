"""A file with what a path has solved so far, so that an interrupted run can go on."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from maxmargin.cuts import CheckedProblem, Problem
from maxmargin.path.tracing import Point
from maxmargin.path.weights import WeightStore
from maxmargin.storage import SavedFileError, check_writable, read_archive, write_archive

_KIND = "path checkpoint"
_COLUMNS = ("lam", "hinge", "dual", "passes", "certified")


class Checkpoint:
    """Points of a path on disk.

    Parameters
    ----------
    file : path
        Written in one step, at most every ``pause`` seconds and with the last point; if it exists, it must be of the same
        problem and settings.
    problem : Problem
        What is being solved; it is recognised by its size and by the cut at weights of zero.
    epsilon, kappa, rule
        Of the path.
    pause : float
        Least number of seconds between two writes.
    """

    def __init__(
        self, file: str | os.PathLike[str], problem: Problem, epsilon: float, kappa: float, rule: str, pause: float = 5.0
    ) -> None:
        check_writable(file)
        self.file = file
        self.pause = pause
        self._settings = {"epsilon": float(epsilon), "kappa": float(kappa), "rule": rule, "n_blocks": int(problem.n_blocks)}
        cut = CheckedProblem(problem).mean_cut(np.zeros(problem.n_features))
        self._mark = np.append(cut.psi, cut.loss)
        self._written = -np.inf

    def points(self) -> list[Point]:
        """What an earlier run wrote; nothing if there is no file."""
        if not os.path.exists(self.file):
            return []
        name = os.fspath(self.file)
        content, arrays, _ = read_archive(self.file, _KIND)
        for key, value in self._settings.items():
            if content.get(key) != value:
                raise SavedFileError(
                    f"{name}: is the checkpoint of a path with {key}={content.get(key)!r}, not {value!r}; name another file, or "
                    "remove it to begin anew"
                )
        mark = arrays.get("mark")
        # Products are summed in another order on another number of threads.
        if mark is None or mark.shape != self._mark.shape or not np.allclose(mark, self._mark, rtol=1e-6, atol=1e-9):
            raise SavedFileError(f"{name}: is the checkpoint of a path on other data; name another file, or remove it")
        try:
            store = WeightStore.of(len(self._mark) - 1, arrays)
            columns = [arrays[column].tolist() for column in _COLUMNS]
            rows = zip(*columns, strict=True)
            return [
                Point(lam, store[k], hinge, dual, passes, bool(certified))
                for k, (lam, hinge, dual, passes, certified) in enumerate(rows)
            ]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise SavedFileError(f"{name}: is not a sound checkpoint ({error}); remove it to begin anew") from error

    def keep(self, points: list[Point], last: bool) -> None:
        """Write all points, unless that was done a moment ago and more are to come."""
        if not last and time.monotonic() - self._written < self.pause:
            return
        store = WeightStore(len(self._mark) - 1)
        for point in points:
            store.append(point.weights)
        arrays: dict[str, Any] = {column: np.array([getattr(point, column) for point in points]) for column in _COLUMNS}
        write_archive(self.file, _KIND, self._settings, {**arrays, **store.arrays(), "mark": self._mark})
        self._written = time.monotonic()
