"""What is on a worker: an actor that holds a shard and answers for it.

Answers are made by threads of their own, as many at a time as the worker has; so the worker hears all questions at once, and can
say which it is busy with.

Questions and answers travel as one string of bytes each: Dask looks at every array of a dict by itself, which takes longer than
most of what is asked.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pickle
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import psutil
from distributed import get_worker

from maxmargin import __version__
from maxmargin.distributed.engine import PROTOCOL, Shard, ShardError, ShardSource
from maxmargin.distributed.messages import aligned

# Dask's nanny kills a worker whose process has more than this share of the memory limit.
_MOST_MEMORY = 0.95
# Scores of registered weights that a shard holds at a time, 8 bytes for each row.
_ROOTS = 8

_slots: WeakKeyDictionary[Any, asyncio.Semaphore] = WeakKeyDictionary()


class Seat:
    """An actor with a shard.

    Parameters
    ----------
    source : ShardSource
        Loads the shard; with ``parts``, by ``load_parts(parts)``.
    parts : list, optional
        Partitions of Dask collections, which Dask has brought here.
    """

    def __init__(self, source: ShardSource, parts: list[Any] | None = None) -> None:
        keep_freed_memory()
        self._shard: Shard = source.load() if parts is None else source.load_parts(parts)  # type: ignore[attr-defined]
        check_memory(self._shard, source.describe())
        self._thread = ThreadPoolExecutor(1, "maxmargin-shard")
        self._open: set[int] = set()

    async def answer(self, number: int, question: bytes) -> bytes:
        """The ``answer`` of the shard, or the ``error`` that it raised, packed; whatever else comes out is the network's.

        The question is an operation and its arguments, packed too.
        """
        self._open.add(number)
        try:
            async with _slot():
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, question)
        finally:
            self._open.discard(number)

    async def answer_for(self, number: int, questions: list[bytes], neighbours: list[str]) -> list[bytes]:
        """The answers of this shard and of others on the same worker, given by the keys of their actors.

        One that is not there any more is ``lost``. One message costs more than most of what is asked.
        """
        # Busy as long as one of them is.
        self._open.add(number)
        try:
            worker = get_worker()
            seats = [self, *(worker.state.actors.get(key) for key in neighbours)]
            if worker.state.nthreads > 1:
                return await asyncio.gather(
                    *(_told(seat, -number - 1, question) for seat, question in zip(seats, questions, strict=True))
                )
            # One after the other anyway, and to change threads takes longer than short answers.
            async with _slot():
                return await asyncio.get_running_loop().run_in_executor(self._thread, _all_told, seats, questions)
        finally:
            self._open.discard(number)

    async def is_busy_with(self, number: int) -> bool:
        """Whether a question has come and is not answered yet."""
        return number in self._open

    def _do(self, question: bytes) -> bytes:
        try:
            operation, args = unpacked(question)
            return packed({"answer": self._shard.answer(operation, *args)})
        except Exception as error:
            return packed({"error": portable(error)})

    def __getstate__(self) -> Any:
        raise TypeError("an actor stays where it is; send the source of its shard")


async def _told(seat: Seat | None, number: int, question: bytes) -> bytes:
    """What an actor on this worker says, if it is there."""
    return packed({"lost": True}) if seat is None else await seat.answer(number, question)


def _all_told(seats: list[Seat | None], questions: list[bytes]) -> list[bytes]:
    """The same of several, in this thread."""
    return [
        packed({"lost": True}) if seat is None else seat._do(question) for seat, question in zip(seats, questions, strict=True)
    ]


def keep_freed_memory() -> bool:
    """Have the allocator keep up to 64 MB of what is freed, as it does by itself where nothing is set; False if it is not glibc.

    Dask sets MALLOC_TRIM_THRESHOLD_ for its workers, by which every array beyond 128 kB gets fresh pages each time: a fifth of
    the processor time of training.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    return bool(mallopt(mmap_threshold, 32 << 20) and mallopt(trim_threshold, 64 << 20))


def about() -> dict[str, Any]:
    """What this worker is: versions, the process, the limit of its memory."""
    return {"version": __version__, "protocol": PROTOCOL, "pid": os.getpid(), "threads": threading.active_count()}


def packed(message: Any) -> bytes:
    """A message as it travels."""
    return pickle.dumps(message, protocol=5)


def unpacked(message: bytes) -> Any:
    """The way back.

    >>> unpacked(packed(("look", ({"drop": [3]}, 1.0))))
    ('look', ({'drop': [3]}, 1.0))
    """
    return aligned(pickle.loads(message))


def portable(error: Exception) -> Exception:
    """The error itself if it can be sent, else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        text = "".join(traceback.format_exception(error))
        return RuntimeError(f"{type(error).__name__}: {error}, which cannot be sent itself:\n{text}")
    return error


def check_memory(shard: Shard, source: str) -> None:
    """Refuse a shard with which the process would soon be killed for the memory it uses."""
    try:
        worker = get_worker()
    except ValueError:  # not on a worker
        return
    limit = getattr(worker.memory_manager, "memory_limit", None)
    rows = int(shard.info().get("rows", 0))
    used, more = psutil.Process().memory_info().rss, 8 * _ROOTS * rows
    if limit and used + more > _MOST_MEMORY * limit:
        raise ShardError(
            f"{source} does not fit on worker {worker.address}: with it the process has {megabytes(used)} and needs "
            f"{megabytes(more)} more for scores, but its memory limit is {megabytes(limit)}; make more and smaller shards, "
            "add workers, or raise the memory limit of the workers"
        )


def megabytes(size: float) -> str:
    """A number of bytes, for messages.

    >>> megabytes(2_500_000), megabytes(3_000_000_000)
    ('2.5 MB', '3000 MB')
    """
    return f"{size / 1e6:.{1 if size < 1e7 else 0}f} MB"


def _slot() -> asyncio.Semaphore:
    """As many answers at a time as the worker has threads."""
    worker = get_worker()
    if worker not in _slots:
        _slots[worker] = asyncio.Semaphore(max(1, worker.state.nthreads))
    return _slots[worker]
