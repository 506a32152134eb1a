"""Scores of rows, or what is made of them, written where the rows are: nothing but names and numbers of rows comes back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin._utils import Floats, replacing
from maxmargin.core import probabilities, times
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.engine import Engine, Shard
from maxmargin.distributed.rows import Rows, RowSource, with_columns

# Lines that are made at a time.
_BLOCK = 65536


@dataclass(frozen=True)
class ScoresOf:
    """A source of shards that write scores of rows.

    Parameters
    ----------
    rows : RowSource
    n_jobs : int, optional
        Threads; all cores by default.
    """

    rows: RowSource
    n_jobs: int | None = None

    def load(self) -> Shard:
        """Nothing is read yet."""
        return ScoringShard(self.rows, self.n_jobs)

    def describe(self) -> str:
        """The rows."""
        return self.rows.describe()


class ScoringShard(Shard):
    """Reads its rows when it is asked for their scores, and lets them go: of many shards here, one is in memory at a time."""

    operations = Shard.operations | {"write_scores"}

    def __init__(self, rows: RowSource, n_jobs: int | None = None) -> None:
        super().__init__()
        self.rows, self.n_jobs = rows, n_jobs

    def write_scores(
        self, context: dict[str, Any], weights: Floats, intercept: float, file: str, form: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One score per line, in one step; or what a form makes of it, see :func:`write_scores`."""
        X = Rows(*self.rows.load_rows()).X
        scores = times(with_columns(X, len(weights)), weights, self.n_jobs) + intercept
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise ValueError(f"the score of row {row} of {self.rows.describe()} is NaN or infinite; look at its features")
        os.makedirs(Path(file).parent, exist_ok=True)
        with replacing(Path(file)) as stream:
            for begin in range(0, len(scores), _BLOCK):
                stream.write("".join(_lines(scores[begin : begin + _BLOCK], form or {})).encode())
        return {"rows": len(scores)}


def _lines(scores: Floats, form: dict[str, Any]) -> list[str]:
    if "labels" in form:
        low, high = form["labels"]
        return [f"{high if above else low}\n" for above in (scores > 0).tolist()]
    values = probabilities(form["calibration"], scores) if "calibration" in form else scores
    return [f"{value:.17g}\n" for value in values.tolist()]


def write_scores(
    engine: Engine | Conversation, weights: Floats, folder: str | os.PathLike[str], intercept: float = 0.0,
    form: dict[str, Any] | None = None,
) -> tuple[list[str], list[int]]:  # fmt: skip
    """Write the scores of every shard to a file of its own; their names, and how many scores each has.

    Parameters
    ----------
    engine : Engine or Conversation
        Of sources :class:`ScoresOf`.
    weights : array of shape (d,)
    folder : path
        Made if need be, on whichever machine a shard is. Files are called ``00000-of-00004.txt`` and so on, in the order of the
        rows.
    intercept : float
    form : dict, optional
        What to write in place of scores: ``labels``, two texts, the second one for scores above zero; or probabilities, by a
        ``calibration`` as in :func:`maxmargin.core.calibrated.probabilities`.

    Examples
    --------
    >>> import tempfile
    >>> from maxmargin.distributed import LocalEngine, split_rows
    >>> engine = LocalEngine([ScoresOf(rows) for rows in split_rows(np.eye(3), [0, 0, 1], 2)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files, counts = write_scores(engine, np.array([1.0, 2.0, 3.0]), folder)
    ...     "".join(Path(file).read_text() for file in files).split(), counts
    (['1', '2', '3'], [1, 2])
    """
    shards = engine if isinstance(engine, Conversation) else Conversation(engine)
    n = shards.n_shards
    files = [os.path.join(os.path.abspath(folder), f"{k:05d}-of-{n:05d}.txt") for k in range(n)]
    own, rest = np.asarray(weights, dtype=np.float64), () if form is None else (form,)
    found = shards.ask("write_scores", lambda shard: (own, float(intercept), files[shard], *rest))
    return files, [int(answer["rows"]) for answer in found]
