"""Contents of messages: their sizes, whether their numbers are finite, and copies that the receiver may keep."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.distributed.engine import _FLOAT, _NESTED, _SEQUENCE, _TEXT, ShardError


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
