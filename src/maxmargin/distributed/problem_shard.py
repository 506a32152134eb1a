"""Kinds of shards: parts of problems, which are built from rows and from what the client knows of all of them.

The client sends its *task* (the loss, thresholds, labels of all shards) once; a shard that does not have it says that it is
missing. Answers are sums over the blocks of the shard, never means.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from maxmargin._utils import Floats, Ints
from maxmargin.core import Audit, CheckedProblem, Problem, row_norms
from maxmargin.distributed.engine import Shard
from maxmargin.distributed.messages import aligned
from maxmargin.distributed.rows import RowShard

Built = TypeVar("Built")
Context = dict[str, Any]
Answer = dict[str, Any]

LARGEST = np.finfo(np.float64).max
# Tasks that a shard keeps, those that came last.
_KEPT_TASKS = 4


class MissingError(LookupError):
    """A shard lacks its task, or the roots named."""

    def __init__(self, roots: Iterable[int] = ()) -> None:
        super().__init__()
        self.roots = [int(root) for root in roots]


class TaskShard(Shard, Generic[Built]):
    """A shard that builds something from the task of the client, once, and says so where it was not sent."""

    def __init__(self) -> None:
        super().__init__()
        self._built: dict[str, Built] = {}

    def answer(self, operation: str, *args: Any) -> Answer:
        """As of any shard; or what is missing."""
        try:
            return super().answer(operation, *args)
        except MissingError as error:
            return {"missing": error.roots, "incarnation": self.incarnation}

    @abstractmethod
    def _build(self, task: dict[str, Any]) -> Built:
        """What operations work with."""

    def _find(self, context: Context) -> Built:
        """What the task of the context asks for."""
        key = context["key"]
        if key not in self._built:
            if "task" not in context:
                raise MissingError
            while len(self._built) >= _KEPT_TASKS:
                del self._built[next(iter(self._built))]
            self._built[key] = self._build(context["task"])
        return self._built[key]


class ProblemOperations(TaskShard[CheckedProblem | None]):
    """Operations on a problem that has some of the blocks; None stands for one without any."""

    operations = Shard.operations | {"prepare", "mean_cut", "cuts", "audit", "first_not_finite", "digest"}

    def prepare(self, context: Context) -> Answer:
        """Sizes and claims of the problem."""
        checked = self._find(context)
        if checked is None:
            return {"n_blocks": 0}
        problem = checked.problem
        answer: Answer = {
            "n_blocks": problem.n_blocks,
            "n_features": problem.n_features,
            "exact": bool(problem.exact),
            "relaxed": bool(problem.relaxed),
            "convex": bool(problem.convex),
        }
        if problem.bounds is not None:
            # No infinite number leaves a shard.
            answer["lower"], answer["upper"] = (np.clip(bound, -LARGEST, LARGEST) for bound in problem.bounds)
        return answer

    def mean_cut(self, context: Context, weights: Floats) -> Answer:
        """Sums of the cuts of all blocks, and how many of them were worse than the truth."""
        checked = self._find(context)
        if checked is None:
            return {"psi": np.zeros(len(weights)), "loss": 0.0, "worse": 0}
        before, n = checked.worse_than_truth, checked.n_blocks
        cut = checked.mean_cut(weights)
        answer = {"psi": n * cut.dense(checked.n_features), "loss": n * cut.loss, "worse": checked.worse_than_truth - before}
        return answer if cut.bound is None else {**answer, "bound": n * cut.bound}

    def cuts(self, context: Context, blocks: Ints, weights: Floats) -> Answer:
        """The cuts of some blocks, counted from the first of the shard."""
        checked = self._find(context)
        assert checked is not None or not len(blocks)
        found = [] if checked is None else checked.problem.cuts(blocks.tolist(), weights)
        return {
            "psi": np.array([cut.dense(len(weights)) for cut in found]).reshape(len(found), len(weights)),
            "loss": np.array([cut.loss for cut in found]),
            "bound": np.array([cut.upper(weights) for cut in found]),
            "bounded": np.array([cut.bound is not None for cut in found]),
        }

    def audit(self, context: Context, weights: Floats) -> Answer:
        """What :meth:`Problem.audit` says; nothing if it cannot tell."""
        checked = self._find(context)
        found = Audit(0, 0, 0.0) if checked is None else checked.problem.audit(weights)
        return {} if found is None else {"n_blocks": found.n_blocks, "n_wrong": found.n_wrong, "excess": float(found.excess)}


class ProblemShard(ProblemOperations):
    """Some blocks of any problem, built beforehand.

    Examples
    --------
    >>> from maxmargin.multiclass import MulticlassProblem
    >>> shard = ProblemShard(MulticlassProblem(np.eye(2), np.array([0, 1]), 2))
    >>> shard.answer("mean_cut", {"key": "", "task": {}}, np.zeros(4))["loss"]
    2.0
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    def _build(self, task: dict[str, Any]) -> CheckedProblem | None:
        return CheckedProblem(self.problem) if self.problem.n_blocks else None

    def info(self) -> Answer:
        """Sizes."""
        return {**super().info(), "n_blocks": self.problem.n_blocks, "n_features": self.problem.n_features}

    def digest(self) -> Answer:
        """The fingerprint of the problem; empty if it has none."""
        return {"digest": (self.problem.fingerprint() or b"").hex()}

    def first_not_finite(self) -> Answer:
        """Nobody knows the rows of a problem."""
        return {"row": -1, "what": ""}


class LabelShard(RowShard, ProblemOperations):
    """Rows with labels that are numbered by the client's list of all labels."""

    operations = RowShard.operations | ProblemOperations.operations | {"sizes"}

    def sizes(self) -> Answer:
        """The sum of the squares of all features, and the number of blocks."""
        return {"squares": float((row_norms(self.X) ** 2).sum()), "blocks": len(self.offsets) - 1}

    def _codes(self, task: dict[str, Any]) -> Ints:
        known = np.asarray(task["labels"])
        codes = np.searchsorted(known, self.y).astype(np.int64)
        if len(self.y) and (codes.max() >= len(known) or (known[codes] != self.y).any()):
            strange = np.flatnonzero(known[np.minimum(codes, len(known) - 1)] != self.y)[0]
            raise ValueError(f"y has the label {self.y[strange]!r} in row {strange}, which is not among those known: {known!r}")
        return codes


@dataclass(frozen=True)
class ProblemSource:
    """A source of shards of any problem: ``make(*args, **settings)`` builds it, on the worker.

    Examples
    --------
    >>> from maxmargin.multiclass import MulticlassProblem
    >>> ProblemSource(MulticlassProblem, (np.eye(2), np.array([0, 1]), 2), text="two samples").load().info()["n_blocks"]
    2
    """

    make: Callable[..., Problem]
    args: tuple[Any, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    text: str = "a problem"

    def load(self) -> Shard:
        """Build the problem."""
        return ProblemShard(self.make(*aligned(self.args), **aligned(self.settings)))

    def describe(self) -> str:
        """As given."""
        return self.text
