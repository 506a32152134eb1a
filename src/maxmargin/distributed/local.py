"""All shards in this process: for data that do not fit into memory but can be mapped, for tests, and for what goes wrong."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from maxmargin.distributed.engine import Arguments, Reply, Shard, ShardSource, arguments_for, check_shards
from maxmargin.distributed.messages import size_of

FaultKind = Literal["lost before", "lost after", "nan", "delay", "interrupt"]


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong when a shard is asked.

    Parameters
    ----------
    kind : {"lost before", "lost after", "nan", "delay", "interrupt"}
        The shard is lost with all it has computed, before it answers (and made anew to do so) or right after; one floating-point
        number in every array of its reply is NaN; it takes ``seconds`` longer; somebody presses Ctrl-C.
    round : int
        In which call of the engine, counted from 0.
    shard : int
    lasting : bool
        For NaN: in all later calls too, until the shard is made anew; of ``stubborn`` ones, even then.
    seconds : float
        Of a delay.
    """

    kind: FaultKind
    round: int
    shard: int = 0
    lasting: bool = False
    stubborn: bool = False
    seconds: float = 0.0


class LocalEngine:
    """Shards of this process, asked one after the other, or by several threads.

    Parameters
    ----------
    sources : sequence of ShardSource
        One per shard.
    n_jobs : int
        Threads that ask shards at the same time; answers do not depend on it.
    faults : iterable of Fault
        What is to go wrong, for tests.

    Attributes
    ----------
    log : list of str
        The operations so far.

    Examples
    --------
    >>> from maxmargin.distributed import Shard
    >>> class Numbers(Shard):
    ...     operations = Shard.operations | {"total"}
    ...     def __init__(self, numbers):
    ...         super().__init__()
    ...         self.numbers = numbers
    ...     def total(self):
    ...         return {"total": float(self.numbers.sum())}
    >>> class Range:
    ...     def __init__(self, end):
    ...         self.end = end
    ...     def load(self):
    ...         return Numbers(np.arange(self.end))
    ...     def describe(self):
    ...         return f"numbers below {self.end}"
    >>> engine = LocalEngine([Range(3), Range(4)], faults=[Fault("lost before", round=1, shard=1)])
    >>> before = engine.call("total")
    >>> after = engine.call("total")
    >>> [reply.values["total"] for reply in after], engine.moves
    ([3.0, 6.0], 1)
    >>> [old.incarnation == new.incarnation for old, new in zip(before, after)]
    [True, False]
    """

    def __init__(self, sources: Sequence[ShardSource], *, n_jobs: int = 1, faults: Iterable[Fault] = ()) -> None:
        if not sources:
            raise ValueError("sources is empty; name at least one part of the data")
        if n_jobs < 1:
            raise ValueError(f"n_jobs={n_jobs} must be at least 1, the number of threads")
        self.sources = list(sources)
        self.n_shards = len(self.sources)
        self.n_jobs = n_jobs
        self.faults = list(faults)
        self.log: list[str] = []
        self.workers = 1
        self.moves = self.bytes_up = self.bytes_down = 0
        self._shards: list[Shard | None] = [None] * self.n_shards
        self._loaded = [False] * self.n_shards

    @property
    def rounds(self) -> int:
        """Calls so far."""
        return len(self.log)

    def call(self, operation: str, args: Arguments = (), only: Sequence[int] | None = None) -> list[Reply]:
        """As :meth:`maxmargin.distributed.engine.Engine.call`."""
        asked = check_shards(only, self.n_shards)
        questions = arguments_for(args, asked)
        now = len(self.log)
        self.log.append(operation)
        replies = self._replies(asked, now, operation, questions)
        self.bytes_down += size_of(questions)
        self.bytes_up += sum(size_of(reply.values) for reply in replies)
        return replies

    def _replies(self, asked: list[int], now: int, operation: str, questions: list[tuple[Any, ...]]) -> list[Reply]:
        if self.n_jobs == 1 or len(asked) < 2:
            return [self._ask(k, now, operation, question) for k, question in zip(asked, questions, strict=True)]
        with ThreadPoolExecutor(min(self.n_jobs, len(asked))) as pool:
            count = len(asked)
            return list(pool.map(self._ask, asked, [now] * count, [operation] * count, questions))

    def renew(self, shards: Sequence[int]) -> None:
        """Let shards go; they are loaded again when they are asked. Lasting faults are over."""
        for k in check_shards(shards, self.n_shards):
            self._shards[k] = None
        self.faults = [fault for fault in self.faults if not (fault.lasting and fault.shard in shards) or fault.stubborn]

    def describe(self, shard: int) -> str:
        """What the source of a shard says of itself."""
        return self.sources[shard].describe()

    def close(self) -> None:
        """Let all shards go."""
        self._shards = [None] * self.n_shards

    def _shard(self, k: int) -> Shard:
        shard = self._shards[k]
        if shard is None:
            shard = self._shards[k] = self.sources[k].load()
            self.moves += self._loaded[k]
            self._loaded[k] = True
        return shard

    def _ask(self, k: int, now: int, operation: str, question: tuple[Any, ...]) -> Reply:
        faults = {f.kind: f for f in self.faults if f.shard == k and (f.round == now or (f.lasting and f.round <= now))}
        if "lost before" in faults:
            self._shards[k] = None
        if "interrupt" in faults:
            raise KeyboardInterrupt
        if "delay" in faults:
            time.sleep(faults["delay"].seconds)
        try:
            reply = Reply.of(self._shard(k).answer(operation, *question))
        except Exception as error:
            error.add_note(f"in shard {k}: {self.describe(k)}")
            raise
        if "nan" in faults:
            reply = Reply(_spoilt(reply.values), reply.incarnation)
        if "lost after" in faults:
            self._shards[k] = None
        return reply


def _spoilt(value: Any) -> Any:
    """The same with NaN in every array of floating-point numbers, and in place of every such number."""
    if isinstance(value, dict):
        return {key: _spoilt(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_spoilt(inner) for inner in value)
    if isinstance(value, float | np.floating):
        return float("nan")
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
        bad = value.copy()
        bad.flat[bad.size // 2] = np.nan
        return bad
    return value
