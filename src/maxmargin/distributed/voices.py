"""Several problems over the same shards at the same time: each has a conversation of its own, and all of them common rounds.

On every shard a conversation has a shard of its own over the same rows, so that none knows of the others. That costs memory for
each of them, and saves rounds: for small data, where rounds are all that takes time.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from maxmargin.distributed.chorus import Call, in_chorus
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.engine import Arguments, Engine, Reply, arguments_for, check_shards

Result = TypeVar("Result")


def together(shards: Conversation, works: Sequence[Callable[[Conversation], Result]]) -> list[Result]:
    """What every work returns; each gets a conversation about the same task, and may ask whatever can be asked.

    Works run in threads of their own, but questions are asked by the caller's, so that Ctrl-C reaches it.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> engine = LocalEngine([ShardOf(rows, "events") for rows in split_rows(np.eye(4), np.arange(4), 2)])
    >>> shards = Conversation(engine)
    >>> before = engine.rounds
    >>> def number_of_labels(own):
    ...     return sum(len(answer["labels"]) for answer in own.plain("labels", 10))
    >>> together(shards, [number_of_labels] * 5), engine.rounds - before
    ([4, 4, 4, 4, 4], 3)
    """
    engine, run, lock = shards.engine, secrets.token_hex(8), threading.Lock()

    def exchange(asked: dict[int, tuple[str, Any]]) -> dict[int, list[Reply]]:
        questions: dict[int, list[tuple[int, str, tuple[Any, ...]]]] = {}
        for voice, (operation, (only, args)) in asked.items():
            for shard, own in zip(only, args, strict=True):
                questions.setdefault(shard, []).append((voice, operation, own))
        order = sorted(questions)
        replies = engine.call("several", [(run, questions[shard]) for shard in order], order)
        answers = {shard: iter(reply.values["answers"]) for shard, reply in zip(order, replies, strict=True)}
        return {voice: [Reply.of(next(answers[shard])) for shard in only] for voice, (_, (only, _)) in asked.items()}

    def voice(work: Callable[[Conversation], Result]) -> Callable[[Call], tuple[Result, int]]:
        def sing(call: Call) -> tuple[Result, int]:
            own = shards.through(_Voice(engine, call, lock))
            return work(own), own.repeats

        return sing

    try:
        found = in_chorus([voice(work) for work in works], exchange)
    except BaseException:
        # Who goes on with the same shards wants the memory back; whether that can be had is another matter.
        with suppress(Exception):
            engine.call("several", (run, []))
        raise
    engine.call("several", (run, []))  # lets go of what they had
    shards.repeats += sum(repeats for _, repeats in found)
    return [result for result, _ in found]


class _Voice:
    """The engine of one conversation of several."""

    def __init__(self, engine: Engine, call: Call, lock: threading.Lock) -> None:
        self._engine, self._call, self._lock = engine, call, lock
        self.n_shards = engine.n_shards

    def call(self, operation: str, args: Arguments = (), only: Sequence[int] | None = None) -> list[Reply]:
        """As of any engine."""
        asked = check_shards(only, self.n_shards)
        replies: list[Reply] = self._call(operation, (asked, arguments_for(args, asked)))
        return replies

    def call_added(self, operation: str, args: Arguments, name: str, size: int) -> list[Reply]:
        """As of any engine; nothing is added up before."""
        return self.call(operation, args)

    def renew(self, shards: Sequence[int]) -> None:
        """As of any engine, by one at a time."""
        with self._lock:
            self._engine.renew(shards)

    def __getattr__(self, name: str) -> Any:
        # What can be told without asking.
        return getattr(self._engine, name)
