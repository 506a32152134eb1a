"""Who holds the data, and how to ask: shards answer operations, sources load them, an engine carries the questions.

A *shard* is a part of the rows, and what was computed from them; it never moves. What can be sent is its *source*: a few names
and numbers from which the shard is loaded, again if need be. Questions and answers are numpy arrays, numbers, text, and tuples,
lists and dicts of these; no class of ours crosses, so that client and workers need not be upgraded in one moment.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from maxmargin import __version__

# Of what operations mean; raised whenever a worker of the version before would misunderstand.
PROTOCOL = 3

# Kinds of parts of messages. Unions written with | would be made anew for every part, which takes longer than to look at it.
_TEXT, _SEQUENCE, _NESTED, _FLOAT = (str, bytes), (tuple, list), (dict, tuple, list), (float, np.floating)

# One tuple for all shards, or a list with one for each that is asked.
Arguments = tuple[Any, ...] | list[tuple[Any, ...]]


class ShardError(RuntimeError):
    """A shard that cannot be used any more: which one, why, and what to do."""


class Reply(NamedTuple):
    """What a shard has answered, and which incarnation of it: another one than before has lost all that was computed."""

    values: dict[str, Any]
    incarnation: str

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Reply:
        """From what :meth:`Shard.answer` has returned, here or on a worker."""
        values = dict(answer)
        return cls(values, str(values.pop("incarnation")))


class Shard:
    """A part of the data, and the operations on it that can be asked for: methods that return dicts.

    Attributes
    ----------
    incarnation : str
        Drawn when the shard is made; in every answer.
    operations : frozenset of str
        Names of the methods that :meth:`answer` calls.

    Examples
    --------
    >>> class Numbers(Shard):
    ...     operations = Shard.operations | {"total"}
    ...     def __init__(self, numbers):
    ...         super().__init__()
    ...         self.numbers = numbers
    ...     def total(self, power):
    ...         return {"total": float((self.numbers ** power).sum())}
    >>> shard = Numbers(np.arange(3.0))
    >>> Reply.of(shard.answer("total", 2)).values
    {'total': 5.0}
    >>> shard.answer("mean")
    Traceback (most recent call last):
    ValueError: Numbers has no operation 'mean', only info, total; is maxmargin on the workers the version of the client?
    """

    operations: ClassVar[frozenset[str]] = frozenset({"info"})

    def __init__(self) -> None:
        self.incarnation = secrets.token_hex(8)

    def answer(self, operation: str, *args: Any) -> dict[str, Any]:
        """Do what is asked for; the answer carries the incarnation."""
        if operation not in self.operations:
            raise ValueError(
                f"{type(self).__name__} has no operation {operation!r}, only {', '.join(sorted(self.operations))}; is maxmargin "
                "on the workers the version of the client?"
            )
        return {**getattr(self, operation)(*args), "incarnation": self.incarnation}

    def info(self) -> dict[str, Any]:
        """Version and protocol; subclasses add what they hold."""
        return {"version": __version__, "protocol": PROTOCOL}

    def __getstate__(self) -> Any:
        # Engines that move results about would do so with the data: work stealing of Dask, for one.
        raise TypeError(f"a {type(self).__name__} stays where it was loaded; send its source")


@runtime_checkable
class ShardSource(Protocol):
    """Where a shard comes from; small, and can be pickled."""

    def load(self) -> Shard:
        """The shard, anew; the same data every time."""

    def describe(self) -> str:
        """For messages: the file, and which of its rows."""


class Engine(Protocol):
    """Shards somewhere, by number.

    Attributes
    ----------
    n_shards : int
    workers : int
        Processes that hold shards now.
    rounds : int
        Calls so far.
    moves : int
        Shards that were made anew.
    bytes_up, bytes_down : int
        Sent from shards to the client, and from the client to shards; with the envelope of messages where these are packed.
    """

    n_shards: int

    @property
    def workers(self) -> int: ...  # noqa: D102

    @property
    def rounds(self) -> int: ...  # noqa: D102

    @property
    def moves(self) -> int: ...  # noqa: D102

    @property
    def bytes_up(self) -> int: ...  # noqa: D102

    @property
    def bytes_down(self) -> int: ...  # noqa: D102

    def call(self, operation: str, args: Arguments = (), only: Sequence[int] | None = None) -> list[Reply]:
        """The same operation on all shards, or on those in ``only``; replies in the order of the shards asked.

        A list of arguments has one tuple per shard asked. Returns only when all have answered. A shard that is lost on the way is
        made anew and asked again; its reply then has another incarnation. Whatever an operation raises comes out here.
        """

    def renew(self, shards: Sequence[int]) -> None:
        """Make shards anew, on other workers where there are any: their answers were not to be believed.

        Several conversations may say so of the same answer: twice between two calls is like once.
        """

    def describe(self, shard: int) -> str:
        """What the source of a shard says of itself."""

    def close(self) -> None:
        """Let all shards go."""


def arguments_for(args: Arguments, asked: Sequence[int]) -> list[tuple[Any, ...]]:
    """One tuple of arguments per shard asked.

    >>> arguments_for((1,), [0, 2]), arguments_for([(1,), (2,)], [0, 2])
    ([(1,), (1,)], [(1,), (2,)])
    """
    if isinstance(args, tuple):
        return [args] * len(asked)
    if len(args) != len(asked):
        raise ValueError(f"args has {len(args)} tuples for {len(asked)} shards; give one for each, or one tuple for all")
    return list(args)


def check_shards(only: Sequence[int] | None, n_shards: int) -> list[int]:
    """Numbers of the shards asked."""
    if only is None:
        return list(range(n_shards))
    asked = [int(k) for k in only]
    if any(not 0 <= k < n_shards for k in asked) or len(set(asked)) != len(asked):
        raise ValueError(f"only={asked} must name different shards between 0 and {n_shards - 1}")
    return asked


def check_versions(replies: Sequence[Reply], describe: Any = str) -> None:
    """Refuse shards on workers with another protocol than the client's; ``describe(k)`` says where shard k comes from."""
    for shard, reply in enumerate(replies):
        found = reply.values.get("protocol")
        if found != PROTOCOL:
            raise ShardError(
                f"shard {shard} ({describe(shard)}) is held by maxmargin {reply.values.get('version')} with protocol {found}, "
                f"but the client is maxmargin {__version__} with protocol {PROTOCOL}; install the same version everywhere"
            )
