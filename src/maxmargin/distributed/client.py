"""The client's side of the conversation with shards: what is lost is sent again, and what cannot be believed is asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maxmargin.core import fingerprint
from maxmargin.distributed.engine import Engine, Reply, ShardError, check_versions
from maxmargin.distributed.messages import LossWatch, is_finite, is_sound

Result = TypeVar("Result")

# What is the same of a shard after every reload.
_LASTING = ("rows", "n_features", "queries", "checksum", "n_blocks")
# A pass is repeated whenever a shard is lost within it; somebody who kills a worker in every pass must not keep it going.
MOST_REPEATS = 20


class _ChangedError(Exception):
    """A shard was made anew within a pass."""


class Conversation:
    """Asks the shards of an engine, whatever becomes of them.

    Every question goes out with the *task* of the shards, which they build their problems from; a shard that has it already gets
    its key only. A shard that lacks anything says what is ``missing``, and is asked again with it.

    Parameters
    ----------
    engine : Engine
    task : dict
        Arrays, numbers and text.

    Attributes
    ----------
    infos : list of dict
        What every shard says of itself.
    repeats : int
        Questions that were asked again, and passes that were begun again.
    """

    def __init__(self, engine: Engine, task: dict[str, Any] | None = None) -> None:
        self.engine = engine
        replies = engine.call("info")
        check_versions(replies, engine.describe)
        bad = [k for k, reply in enumerate(replies) if not is_finite(reply.values)]
        if bad:
            engine.renew(bad)
            for k, reply in zip(bad, engine.call("info", (), bad), strict=True):
                replies[k] = reply
                if not is_finite(reply.values):
                    raise self._not_finite(k, "info")
        self.infos = [reply.values for reply in replies]
        self.repeats = int(bool(bad))
        self._passes = 0
        self._incarnations = [reply.incarnation for reply in replies]
        self._watch = LossWatch()
        # Shards that have answered with something that is no number, in this pass.
        self._doubted: set[int] = set()
        # Incarnations that a pass began with; None outside.
        self._pinned: list[str | None] | None = None
        # By shard, the keys of the tasks that its present incarnation has, and its roots.
        self._tasks: list[set[str]] = [set() for _ in replies]
        self.roots: list[set[int]] = [set() for _ in replies]
        self.set_task(task or {})

    @property
    def n_shards(self) -> int:
        """How many there are."""
        return self.engine.n_shards

    def set_task(self, task: dict[str, Any]) -> None:
        """What shards are to build from now on."""
        self.task = task
        self.key = fingerprint(*(part for name in sorted(task) for part in (name, task[name]))).hex()

    def context(self, shard: int) -> dict[str, Any]:
        """The first argument of every question: the key of the task, and for those who lack it the task itself."""
        context: dict[str, Any] = {"key": self.key}
        if self.key not in self._tasks[shard]:
            context["task"] = self.task
        return context

    def ask(
        self, operation: str, rest: Callable[[int], tuple[Any, ...]] = lambda shard: (), only: Sequence[int] | None = None
    ) -> list[dict[str, Any]]:
        """Answers of all shards, or of some, in their order; the arguments are the context and ``rest(shard)``.

        Within a pass, an answer of a shard that was made anew since its first one ends the pass: it is begun again.
        """
        asked = list(range(self.n_shards)) if only is None else list(only)
        answers: dict[int, dict[str, Any]] = {}
        open_ = asked
        if self._pinned is None:
            self._doubted.clear()
        for _ in range(MOST_REPEATS):
            fresh = [k for k in open_ if self._pinned is None or self._pinned[k] is None]
            replies = self._call(operation, [(self.context(k), *rest(k)) for k in open_], open_)
            again = []
            for k, reply in zip(open_, replies, strict=True):
                if "missing" in reply.values:
                    self.roots[k].difference_update(reply.values["missing"])
                    self._tasks[k].discard(self.key)
                    again.append(k)
                elif not is_sound(reply.values):
                    # A machine that computes wrongly, or data that are wrong: another machine will tell.
                    if k in self._doubted:
                        raise self._not_finite(k, operation)
                    self._doubted.add(k)
                    again.append(k)
                    self.engine.renew([k])
                    if k in fresh and self._pinned is not None:
                        self._pinned[k] = None  # nothing of the pass depends on what was said
                else:
                    self._tasks[k].add(self.key)
                    answers[k] = reply.values
            if not again:
                return [answers[k] for k in asked]
            self.repeats += 1
            open_ = again
        raise ShardError(
            f"shards {open_} did not answer {operation!r} in {MOST_REPEATS} attempts, the first of them is "
            f"{self.engine.describe(open_[0])}; look after the workers, and start again from the checkpoint"
        )

    def plain(self, operation: str, *args: Any) -> list[dict[str, Any]]:
        """Answers of all shards to a question that no task has to do with."""
        replies = self._call(operation, [args] * self.n_shards, range(self.n_shards))
        bad = [k for k, reply in enumerate(replies) if not is_finite(reply.values)]
        if bad:
            self.repeats += 1
            self.engine.renew(bad)
            for k, reply in zip(bad, self._call(operation, [args] * len(bad), bad), strict=True):
                replies[k] = reply
                if not is_finite(reply.values):
                    raise self._not_finite(k, operation)
        return [reply.values for reply in replies]

    def whole(self, work: Callable[[], Result]) -> Result:
        """Do a pass, several questions that belong together; it is begun again if a shard is made anew in the middle of it.

        Counts and scores of two incarnations may differ in their last bits, where machines do, and must not be mixed.
        """
        self._passes += 1
        self._doubted.clear()
        for _ in range(MOST_REPEATS):
            self._pinned = [None] * self.n_shards
            try:
                return work()
            except _ChangedError:
                self.repeats += 1
            finally:
                self._pinned = None
        raise ShardError(f"a pass was begun {MOST_REPEATS} times, and a shard was lost every time; look after the workers")

    def _call(self, operation: str, args: list[tuple[Any, ...]], asked: Sequence[int]) -> list[Reply]:
        replies = self.engine.call(operation, args, asked)
        for k, reply in zip(asked, replies, strict=True):
            if reply.incarnation != self._incarnations[k]:
                self._meet(k, reply.incarnation)
        if self._pinned is not None:
            for k, reply in zip(asked, replies, strict=True):
                # An answer that says what is missing says nothing of the data.
                if self._pinned[k] is None:
                    self._pinned[k] = None if "missing" in reply.values else reply.incarnation
                elif self._pinned[k] != reply.incarnation:
                    raise _ChangedError
        return replies

    def _meet(self, k: int, incarnation: str) -> None:
        """A new incarnation has nothing of what the one before was sent, but must have the same rows."""
        self._watch.lost(k, self._passes, self.engine.describe(k))
        self._tasks[k].clear()
        self.roots[k].clear()
        self._incarnations[k] = incarnation
        reply = self.engine.call("info", (), [k])[0]
        if reply.incarnation != incarnation:
            return self._meet(k, reply.incarnation)
        for name in _LASTING:
            before, now = self.infos[k].get(name), reply.values.get(name)
            if before != now:
                raise ShardError(
                    f"shard {k} ({self.engine.describe(k)}) was loaded again with {name} {now} where it was {before} before; its "
                    "source must give the same rows every time: seed what is random in it, or write it to files first"
                )
        return None

    def _not_finite(self, k: int, operation: str) -> ValueError:
        """Whose fault it is: the data's, if a row has a number that is none."""
        source, row = self.engine.describe(k), -1
        found = self.engine.call("first_not_finite", (), [k])[0].values
        row = int(found["row"])
        if row >= 0:
            return ValueError(
                f"X and y must be finite: a {found['what']} in row {row} of {source} is NaN or infinite; remove or replace it"
            )
        return ValueError(
            f"the answer of shard {k} ({source}) to {operation!r} is NaN or infinite, twice; all features are finite, so sums of "
            "them overflow: scale the features"
        )
