"""Shards as actors on the workers of a Dask cluster; what is lost with a worker is made anew on another.

Dask moves results of tasks about, and lets a task that is bound to a lost worker wait for ever; so shards are actors, which stay,
and this client looks after them. A beat without an answer decides only to *look* whether the worker lives, never that it does
not: where machines are busy, answers take long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import count
from types import TracebackType
from typing import Any, Self

from distributed import Actor, Client, Future, KilledWorker, wait

from maxmargin.distributed.dask_actor import Seat, megabytes, packed, unpacked
from maxmargin.distributed.dask_cluster import Cluster, find_client
from maxmargin.distributed.engine import Arguments, Reply, ShardError, ShardSource, arguments_for, check_shards
from maxmargin.distributed.messages import LossWatch

logger = logging.getLogger(__name__)

# A pass is a few rounds; losses are counted over ten passes.
_ROUNDS_OF_TEN_PASSES = 40
# A worker that was just lost is not chosen again so soon: the scheduler may not have noticed.
_GRACE = 3.0


class _LostError(Exception):
    """The shard asked is no more where it was."""


class _Place:
    """Where a shard is, or is being loaded."""

    def __init__(self, shard: int, address: str, future: Future) -> None:
        self.shard, self.address, self.future = shard, address, future
        self.actor: Any = None


class DaskEngine:
    """Shards on the workers of a Dask cluster.

    Parameters
    ----------
    sources : sequence of ShardSource
        One per shard; they are loaded by the workers, when they are asked first.
    client : Client, optional
        Dask's current one by default.
    worker_timeout : float
        Seconds to wait for a worker where there is none.
    beat : float
        Seconds without an answer after which to look whether the worker lives.
    patience : float
        Seconds after which a question is asked again if its worker lives and is not busy with it: it was lost on the way.
    parts : sequence of lists of Delayed, optional
        Of Dask collections, what every shard is made of: its source then has ``load_parts(parts)``, and is loaded where they are.

    Attributes
    ----------
    n_shards, workers, rounds, moves, bytes_up, bytes_down
        As in :class:`maxmargin.distributed.Engine`.

    Examples
    --------
    >>> from dask.distributed import Client
    >>> from maxmargin.distributed import DaskEngine
    >>> from maxmargin.distributed import ShardOf, ShardedMean, split_rows
    >>> import numpy as np
    >>> parts = split_rows(np.eye(4), [0, 1, 0, 1], 2)
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    ...     with DaskEngine([ShardOf(rows, "classes") for rows in parts], client) as engine:
    ...         print(ShardedMean.classes(engine).mean_cut(np.zeros(8)).loss)
    1.0
    """

    def __init__(
        self,
        sources: Sequence[ShardSource],
        client: Client | None = None,
        *,
        worker_timeout: float = 300.0,
        beat: float = 2.0,
        patience: float = 30.0,
        parts: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        if not sources:
            raise ValueError("sources is empty; name at least one part of the data")
        for name, value in (("worker_timeout", worker_timeout), ("beat", beat), ("patience", patience)):
            if not 0 < value < float("inf"):
                raise ValueError(f"{name}={value!r} must be a positive number of seconds")
        if parts is not None and len(parts) != len(sources):
            raise ValueError(f"parts has {len(parts)} lists for {len(sources)} sources; give one for each")
        self.client = find_client(client)
        self.parts = parts
        self.sources = list(sources)
        self.n_shards = len(self.sources)
        self.beat, self.patience = beat, patience
        self.cluster = Cluster(self.client, worker_timeout)
        self.rounds = self.moves = self.bytes_up = self.bytes_down = 0
        self._places: dict[int, _Place] = {}
        self._loaded: set[int] = set()
        self._shunned: dict[int, str] = {}
        self._lately_lost: dict[str, float] = {}
        self._watch = LossWatch(span=_ROUNDS_OF_TEN_PASSES)
        self._numbers = count()
        self._locks: dict[int, asyncio.Lock] = {}
        # Through the scheduler answers take half as long again; None as long as nobody has tried.
        self._direct: bool | None = None
        self._was_direct = self.client.direct_to_workers
        self._closed = False

    # ---- the protocol -----------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Processes that hold shards now."""
        return len({place.address for place in self._places.values()})

    def call(self, operation: str, args: Arguments = (), only: Sequence[int] | None = None) -> list[Reply]:
        """As :meth:`maxmargin.distributed.engine.Engine.call`."""
        asked = check_shards(only, self.n_shards)
        questions = arguments_for(args, asked)
        self.rounds += 1
        replies: list[Reply] = self._run(self._answers(operation, asked, questions))
        return replies

    def renew(self, shards: Sequence[int]) -> None:
        """Make shards anew, on other workers where there are any: their answers were not to be believed."""
        self._run(self._renew(check_shards(shards, self.n_shards)))

    def describe(self, shard: int) -> str:
        """What the source of a shard says of itself."""
        return self.sources[shard].describe()

    def where(self, shard: int) -> str | None:
        """The address of the worker that has a shard."""
        place = self._places.get(shard)
        return None if place is None else place.address

    def close(self) -> None:
        """Let all shards go; the client stays as it was."""
        if self._closed:
            return
        self._closed = True
        self.client.direct_to_workers = self._was_direct
        places, self._places = list(self._places.values()), {}
        if self.client.status != "running":
            return
        if self.client.asynchronous:  # the collector of garbage may run anywhere, also in the thread of the event loop
            self.client.loop.add_callback(self._cancel, *places)
            return
        with suppress(OSError, TimeoutError):
            self.client.sync(self._cancel, *places, callback_timeout=10.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something in the event loop of the client, whose proxies of actors are then those of this client."""
        if self._closed:
            work.close()
            raise ValueError("this engine is closed; make a new one")
        if self.client.status not in ("running", "connecting"):
            work.close()
            raise self.cluster.gone()

        async def run() -> Any:
            return await work

        with self.client.as_current():
            return self.client.sync(run)

    # ---- questions --------------------------------------------------------------------------------------------------------

    async def _answers(self, operation: str, asked: list[int], questions: list[tuple[Any, ...]]) -> list[Reply]:
        await self._place_all([k for k in asked if k not in self._places])
        own = dict(zip(asked, questions, strict=True))
        neighbours: dict[str, list[int]] = {}
        for k in sorted(asked):
            place = self._places.get(k)
            # A shard that was lost a moment ago is asked by itself.
            neighbours.setdefault(str(k) if place is None else place.address, []).append(k)
        groups = list(neighbours.values())
        found = await _all_of(self._answer_group(group, operation, [own[k] for k in group]) for group in groups)
        replies = {k: reply for group, told in zip(groups, found, strict=True) for k, reply in zip(group, told, strict=True)}
        return [replies[k] for k in asked]

    async def _answer_group(self, group: list[int], operation: str, questions: list[tuple[Any, ...]]) -> list[Reply]:
        """Answers of shards on one worker, in one message; or of every shard for itself, where one is lost."""
        told: list[dict[str, Any]] | None = None
        if len(group) > 1:
            async with AsyncExitStack() as stack:
                # Always in ascending order: nobody waits in a circle.
                for k in group:
                    await stack.enter_async_context(self._locks.setdefault(k, asyncio.Lock()))
                with suppress(_LostError):
                    places = [await self._seated(k) for k in group]
                    if len({place.address for place in places}) == 1:
                        told = await self._ask_group(places, operation, questions)
                    for k, one in zip(group, told or (), strict=False):
                        # Whom a neighbour does not find is not there.
                        if "lost" in one:
                            await self._lose(k)
        if told is None or any("lost" in one for one in told):
            return await _all_of(self._answer(k, operation, own) for k, own in zip(group, questions, strict=True))
        return [self._reply(place, one) for place, one in zip(places, told, strict=True)]

    async def _ask_group(
        self, places: list[_Place], operation: str, questions: list[tuple[Any, ...]]
    ) -> list[dict[str, Any]] | None:
        """What the first of a group tells of all; None if that got lost, or if the first cannot be spoken to."""
        first, number, heard = places[0], next(self._numbers), time.monotonic()
        packed_questions = [packed((operation, own)) for own in questions]
        others = [place.actor.key for place in places[1:]]
        try:
            asked = asyncio.ensure_future(_awaited(first.actor.answer_for(number, packed_questions, others)))
        except (RuntimeError, ValueError) as error:  # its future knows already that the worker is lost
            raise _LostError from error
        try:
            while not asked.done():
                await asyncio.wait({asked}, timeout=self.beat)
                if asked.done():
                    break
                # Whoever of them is lost, the first may never hear of it.
                for place in places:
                    await self._check_alive(place)
                if not await self._is_idle(first, number):
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.patience and not asked.done():
                    return None
            try:
                told = asked.result()
                found: list[dict[str, Any]] = [unpacked(one) for one in told]
            except Exception as error:
                logger.debug("asking the group of shard %d on %s: %s", first.shard, first.address, error)
                return None
        finally:
            asked.cancel()
        self._count(sum(map(len, packed_questions)), sum(map(len, told)))
        return found

    async def _answer(self, k: int, operation: str, args: tuple[Any, ...]) -> Reply:
        """The answer of a shard, however often it is lost meanwhile."""
        question = packed((operation, args))
        # One question at a time, also after an interruption.
        async with self._locks.setdefault(k, asyncio.Lock()):
            while True:
                try:
                    place = await self._seated(k)
                    told = await self._ask(place, question)
                except _LostError:
                    await self._lose(k)
                    continue
                self._count(len(question), len(told))
                return self._reply(place, unpacked(told))

    def _count(self, down: int, up: int) -> None:
        """Bytes of a question that was answered, and of the answer."""
        self.bytes_down += down
        self.bytes_up += up

    def _reply(self, place: _Place, told: dict[str, Any]) -> Reply:
        if "error" in told:
            error: Exception = told["error"]
            error.add_note(f"in shard {place.shard} on worker {place.address}: {self.describe(place.shard)}")
            raise error
        return Reply.of(told["answer"])

    async def _ask(self, place: _Place, question: bytes) -> bytes:
        first, attempts = time.monotonic(), 0
        while True:
            number = next(self._numbers)
            try:
                asked = asyncio.ensure_future(_awaited(place.actor.answer(number, question)))
            except (RuntimeError, ValueError) as error:  # its future knows already that the worker is lost
                raise _LostError from error
            try:
                told = await self._wait(place, number, asked, self.patience * 2**attempts)
            finally:
                asked.cancel()
            if told is not None:
                return told
            attempts += 1
            # A worker that lives but cannot be spoken to is as good as lost, at last.
            if time.monotonic() - first > self.cluster.timeout:
                raise _LostError
            await asyncio.sleep(min(self.beat, 0.1 * 2**attempts))

    async def _wait(self, place: _Place, number: int, asked: asyncio.Future[bytes], silence: float) -> bytes | None:
        """What is told; None if question or answer got lost though the worker lives, which ``silence`` seconds tell."""
        heard = time.monotonic()
        while True:
            await asyncio.wait({asked}, timeout=self.beat)
            if asked.done():
                try:
                    return asked.result()
                except Exception as error:
                    logger.debug("asking shard %d on %s: %s", place.shard, place.address, error)
                    await self._check_alive(place)
                    return None
            await self._check_alive(place)
            # Dask swallows what it did not expect, and then never answers; so the actor is asked what it is doing. If that is
            # nothing, question or answer are on their way, or were never sent.
            if not await self._is_idle(place, number):
                heard = time.monotonic()
            elif time.monotonic() - heard > silence and not asked.done():
                return None

    async def _is_idle(self, place: _Place, number: int) -> bool:
        """Whether the actor says that it is not busy with a question. Silence says nothing."""
        try:
            return not await asyncio.wait_for(_awaited(place.actor.is_busy_with(number)), self.beat)
        except Exception:
            return False

    # ---- places -----------------------------------------------------------------------------------------------------------

    async def _place_all(self, shards: list[int]) -> None:
        """Begin to load shards, the largest first, so that all workers get about the same."""
        parts = await self._computed(shards)
        for k in sorted(shards, key=lambda k: (-self._size(k), k)):
            if k not in self._places:
                self._places[k] = await self._placed(k, parts[k], at_most=1.0)

    async def _seated(self, k: int) -> _Place:
        """Where a shard is, once it is loaded."""
        place = self._places.get(k)
        if place is None:
            parts = (await self._computed([k]))[k]
            place = self._places[k] = await self._placed(k, parts)
        if place.actor is None:
            await self._load(place)
            self.moves += k in self._loaded
            self._loaded.add(k)
        return place

    async def _placed(self, k: int, parts: list[Future] | None, at_most: float = 0.0) -> _Place:
        """Begin to load a shard on a worker: where its partitions are, if it is made of some."""
        near = {address for held in (await self.client.who_has(parts)).values() for address in held} if parts else set()
        address = await self._choose(k, near, at_most)
        future = self.client.submit(
            Seat, self.sources[k], parts, actor=True, workers=[address], allow_other_workers=False, pure=False, priority=10
        )
        return _Place(k, address, future)

    async def _computed(self, shards: list[int]) -> dict[int, list[Future] | None]:
        """Partitions of shards, wherever Dask puts them; what several have in common is computed once."""
        found: dict[int, list[Future] | None] = dict.fromkeys(shards)
        if self.parts is None or not shards:
            return found
        await self.cluster.some_workers()
        wanted = [part for k in shards for part in self.parts[k]]
        futures = iter(self.client.compute(wanted))
        for k in shards:
            found[k] = [next(futures) for _ in self.parts[k]]
        for k in shards:
            for future in found[k] or ():
                ready = asyncio.ensure_future(future_done(future))
                while not ready.done():
                    await asyncio.wait({ready}, timeout=self.beat)
                    # Dask makes what is lost again by itself, if there is a worker.
                    await self.cluster.some_workers(at_most=self.beat / 2)
                if future.status == "error":
                    error = await future.exception()
                    # Whoever keeps the error keeps this frame, and with it all that was computed.
                    for done in found.values():
                        for other in done or ():
                            other.release()
                    error.add_note(f"while Dask computed what shard {k} is made of: {self.describe(k)}")
                    raise error
        return found

    def _size(self, k: int) -> int:
        source = self.sources[k]
        return int(getattr(source, "size", 0) or getattr(getattr(source, "rows", None), "size", 0) or 1)

    async def _choose(self, k: int, near: set[str], at_most: float = 0.0) -> str:
        """The worker with the least data for its threads; one that has partitions of the shard, if it has not got its share."""
        live = await self.cluster.some_workers(at_most)
        if self._direct is None:
            self._direct = bool(self._was_direct) or await self.cluster.can_reach(next(iter(live)))
            self.client.direct_to_workers = self._direct
        now = time.monotonic()
        lost = {address for address, when in self._lately_lost.items() if now - when < _GRACE}
        shunned = {self._shunned.get(k, "")}
        if set(live) <= lost and not set(live) <= shunned:
            # The scheduler may not have noticed.
            await asyncio.sleep(_GRACE)
            live, lost = await self.cluster.some_workers(), set()
        good = {address: info for address, info in live.items() if address not in lost | shunned} or live
        load, count = dict.fromkeys(good, 0.0), dict.fromkeys(good, 0)
        for place in self._places.values():
            if place.address in load:
                load[place.address] += self._size(place.shard) / max(1, int(good[place.address].get("nthreads", 1)))
                count[place.address] += 1
        # Dask may have computed all partitions in one place; a copy is made once, work is to be shared in every round.
        share = -(-self.n_shards // len(good))
        close = [address for address in good if address in near and count[address] < share]
        return min(close or good, key=lambda address: (load[address], address))

    async def _load(self, place: _Place) -> None:
        """Wait until a shard is loaded."""
        ready = asyncio.ensure_future(future_done(place.future))
        try:
            while not ready.done():
                await asyncio.wait({ready}, timeout=self.beat)
                if not ready.done():
                    await self._check_alive(place, loading=True)
        finally:
            ready.cancel()
        if place.future.status == "error":
            error = await place.future.exception()
            await self._raise_of_loading(place, error.with_traceback(await place.future.traceback()))
        if place.future.status != "finished":
            raise _LostError
        # Not the result of the future: Dask's client never gathers again if it is cancelled while it begins to gather one.
        place.actor = Actor(Seat, place.address, place.future.key)

    async def _raise_of_loading(self, place: _Place, error: Exception) -> None:
        lost = isinstance(error, KilledWorker) or "Actor was lost" in str(error)
        if lost or place.address not in await self.cluster.workers():
            raise _LostError from error
        self._places.pop(place.shard, None)
        await self._cancel(place)
        if isinstance(error, FileNotFoundError):
            raise ShardError(
                f"worker {place.address} cannot find {_file_of(error)}, which shard {place.shard} comes from; is it on a shared "
                "file system, which every worker sees under this name?"
            ) from error
        if "deserialization of the task graph" in str(error):
            raise ShardError(
                f"the scheduler {self.cluster.scheduler} cannot read what is sent to workers ({error.__cause__ or error}); "
                "install maxmargin there too, in the version of the client, and whatever else the data and the loss come from"
            ) from error
        error.add_note(f"while worker {place.address} loaded shard {place.shard}: {self.describe(place.shard)}")
        raise error

    async def _check_alive(self, place: _Place, loading: bool = False) -> None:
        """Raise if a shard is lost: its worker is not among those that live, or Dask says so."""
        good = ("pending", "finished") if loading else ("finished",)
        status = place.future.status
        if status not in good and not (loading and status == "error"):
            raise _LostError
        if place.address not in await self.cluster.workers(at_most=self.beat / 2):
            raise _LostError

    async def _lose(self, k: int) -> None:
        """Forget where a shard was, and count."""
        place = self._places.pop(k, None)
        if place is None:
            return
        self._lately_lost[place.address] = time.monotonic()
        logger.warning("shard %d (%s) was lost with worker %s; it is made anew", k, self.describe(k), place.address)
        limit = self.cluster.memory_limit(place.address)
        await self._cancel(place)
        try:
            self._watch.lost(k, self.rounds, self.describe(k))
        except ShardError as error:
            size = self._size(k)
            known = f"it has {megabytes(size)}, " if size > 1 else ""
            room = f"a memory limit of {megabytes(limit)}" if limit else "no memory limit that the scheduler knows"
            raise ShardError(f"{error} ({known}its last worker {place.address} had {room}); {self.cluster.remedy}") from None

    async def _renew(self, shards: list[int]) -> None:
        for k in shards:
            place = self._places.pop(k, None)
            if place is not None:
                self._shunned[k] = place.address
                await self._cancel(place)

    async def _cancel(self, *places: _Place) -> None:
        for place in places:
            place.actor = None
        with suppress(OSError, TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self.client.cancel([place.future for place in places], force=True), 10.0)


async def _all_of(work: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """What all of them come to; the first error ends the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _file_of(error: FileNotFoundError) -> str:
    """The name, of the system's errors and of those that readers raise: they say it first."""
    return str(error.filename or str(error).partition(": is not there")[0])


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


async def future_done(future: Future) -> None:
    """Wait until a future is computed, or has failed."""
    with suppress(Exception):
        await wait([future])
