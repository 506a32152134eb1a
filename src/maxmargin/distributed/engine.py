"""Who holds the data, and how to ask: shards answer operations, sources load them, an engine carries the questions.

A *shard* is a part of the rows, and what was computed from them; it never moves. What can be sent is its *source*: a few names
and numbers from which the shard is loaded, again if need be. Questions and answers are numpy arrays, numbers, text, and tuples,
lists and dicts of these; no class of ours crosses, so that client and workers need not be upgraded in one moment.
"""

from __future__ import annotations

import math
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
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


def size_of(value: Any) -> int:
    """Bytes of a message, but for its envelope: arrays and text as they are, eight for every other number.

    >>> size_of(({"counts": np.zeros(4, dtype=np.uint32), "loss": 0.5}, "ap"))
    26
    """
    return _size(value, {})


def _size(value: Any, known: dict[int, int]) -> int:
    """Of a part of a message; what questions to many shards have in common is looked at once."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, _TEXT):
        return len(value)
    if not isinstance(value, _NESTED):
        return 8
    found = known.get(id(value))
    if found is None:
        found = 0
        if isinstance(value, dict):
            for key, inner in value.items():
                found += _size(inner, known) if isinstance(key, str) else _size(inner, known) + _size(key, known)
        else:
            for inner in value:
                found += _size(inner, known)
        known[id(value)] = found
    return found


def leaves(value: Any) -> Iterator[Any]:
    """Arrays, numbers and text within tuples, lists and dicts, whose keys count unless they are text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield key
            yield from leaves(inner)
    elif isinstance(value, _SEQUENCE):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def aligned(value: Any) -> Any:
    """The same with arrays whose numbers lie where processors want them.

    Arrays that came in a message may begin at any byte. numpy multiplies such ones by another loop, with other last bits.

    >>> odd = np.frombuffer(bytes(17), dtype=np.uint8)[1:].view(np.float64)
    >>> odd.flags.aligned, aligned({"psi": odd})["psi"].flags.aligned
    (False, True)
    """
    if isinstance(value, dict):
        return {key: aligned(inner) for key, inner in value.items()}
    if isinstance(value, _SEQUENCE):
        parts = [aligned(inner) for inner in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, np.ndarray) and not value.flags.aligned:
        return value.copy()
    if hasattr(value, "indptr") and not all(part.flags.aligned for part in (value.data, value.indices, value.indptr)):
        return value.copy()
    return value


def is_finite(value: Any) -> bool:
    """Whether no number of a message is NaN or infinite.

    >>> is_finite({"psi": np.zeros(2), "name": "x"}), is_finite([{"loss": float("nan")}])
    (True, False)
    """
    # A sum of finite numbers may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        return _is_sound(value, ranges=False)


def is_sound(value: Any) -> bool:
    """Whether no number is NaN, and none infinite but in a ``range``: that of an empty set is from infinity to minus infinity.

    >>> is_sound({"range": (np.array([np.inf]), np.array([-np.inf]))}), is_sound({"range": np.nan}), is_sound([{"loss": np.inf}])
    (True, False, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _is_sound(value, ranges=True)


def _is_sound(value: Any, ranges: bool) -> bool:
    if isinstance(value, np.ndarray):
        # Only where a sum is none are numbers looked at one by one.
        return value.dtype.kind != "f" or math.isfinite(np.add.reduce(value, axis=None)) or bool(np.isfinite(value).all())
    if isinstance(value, dict):
        for key, inner in value.items():
            if ranges and key == "range":
                if any(np.isnan(leaf).any() for leaf in leaves(inner)):
                    return False
            elif not _is_sound(inner, ranges):
                return False
        return True
    if isinstance(value, _SEQUENCE):
        return all(_is_sound(inner, ranges) for inner in value)
    return not isinstance(value, _FLOAT) or math.isfinite(value)


class LossWatch:
    """Notices a shard that is lost again and again: it kills its worker, by too much memory for instance.

    Parameters
    ----------
    most, span : int
        So many losses of the same shard within so many passes (or rounds) are one too many.
    """

    def __init__(self, most: int = 3, span: int = 10) -> None:
        self.most, self.span = most, span
        self._lost: defaultdict[int, list[int]] = defaultdict(list)

    def lost(self, shard: int, now: int, source: str) -> None:
        """One more loss, in pass ``now``."""
        times = self._lost[shard] = [then for then in self._lost[shard] if now - then < self.span] + [now]
        if len(times) >= self.most:
            raise ShardError(
                f"shard {shard} ({source}) was lost {len(times)} times within {self.span} passes; it probably needs more memory "
                "than its worker may use: make more and smaller shards, or raise the memory limit of the workers"
            )


def check_versions(replies: Sequence[Reply], describe: Any = str) -> None:
    """Refuse shards on workers with another protocol than the client's; ``describe(k)`` says where shard k comes from."""
    for shard, reply in enumerate(replies):
        found = reply.values.get("protocol")
        if found != PROTOCOL:
            raise ShardError(
                f"shard {shard} ({describe(shard)}) is held by maxmargin {reply.values.get('version')} with protocol {found}, "
                f"but the client is maxmargin {__version__} with protocol {PROTOCOL}; install the same version everywhere"
            )
