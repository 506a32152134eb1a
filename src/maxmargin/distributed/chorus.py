"""Several conversations with the shards at the same time, which cost the rounds of the longest one."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")

# Asks one question: an operation and its arguments.
Call = Callable[[str, Any], Any]
# Asks many, by the number of the voice, in one round.
Exchange = Callable[[dict[int, tuple[str, Any]]], dict[int, Any]]


class _OverError(Exception):
    """Another voice, or the exchange itself, has failed."""


def in_chorus(voices: Sequence[Callable[[Call], Result]], exchange: Exchange) -> list[Result]:
    """What every voice returns; each is a function that asks questions one by one, and all that are waiting are asked together.

    The exchange is done by the caller's own thread, so that Ctrl-C reaches it; limits of time are those of the caller.

    Examples
    --------
    >>> def voice(call):
    ...     return [call("double", 1), call("double", 2)]
    >>> rounds = []
    >>> def exchange(asked):
    ...     rounds.append(len(asked))
    ...     return {k: 2 * number for k, (_, number) in asked.items()}
    >>> in_chorus([voice, voice, lambda call: call("double", 7)], exchange), rounds
    ([[2, 4], [2, 4], 14], [3, 2])
    """
    if len(voices) == 1:
        return [voices[0](lambda operation, args: exchange({0: (operation, args)})[0])]
    heard: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
    replies: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in voices]

    def sing(k: int) -> None:
        def call(operation: str, args: Any) -> Any:
            heard.put((k, "asks", (operation, args)))
            reply = replies[k].get()
            if isinstance(reply, _OverError):
                raise reply
            return reply

        try:
            heard.put((k, "ends", voices[k](call)))
        except _OverError:
            pass
        except BaseException as error:
            heard.put((k, "fails", error))

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(sing, k), daemon=True) for k in range(len(voices))]
    for thread in threads:
        thread.start()
    ended: dict[int, Any] = {}
    waiting: dict[int, tuple[str, Any]] = {}
    try:
        while len(ended) < len(voices):
            # Every voice that goes on is heard before any is answered.
            while len(waiting) + len(ended) < len(voices):
                k, what, said = heard.get()
                if what == "fails":
                    raise said
                (waiting if what == "asks" else ended)[k] = said
            if waiting:
                found = exchange(dict(sorted(waiting.items())))
                waiting.clear()
                for k, reply in found.items():
                    replies[k].put(reply)
    finally:
        # Those that are still waiting, or will be, end.
        for reply_queue in replies:
            reply_queue.put(_OverError())
    return [ended[k] for k in range(len(voices))]
