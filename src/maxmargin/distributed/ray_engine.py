"""Shards as actors on a Ray cluster. Ray starts an actor whose process dies anew; what was asked of it is asked again here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError

from maxmargin.distributed.engine import Arguments, Reply, Shard, ShardError, ShardSource, arguments_for, check_shards
from maxmargin.distributed.messages import LossWatch, aligned, size_of

# A pass is a few rounds; losses are counted over ten passes.
_ROUNDS_OF_TEN_PASSES = 40
# Seconds between two looks at Ctrl-C and at the time that is left.
_BEAT = 2.0
# Seconds before a shard that is on its way is asked again.
_PAUSE = 0.2


class _Seat:
    """What is in an actor: a shard, and errors as answers, for Ray would wrap them."""

    def __init__(self, source: ShardSource) -> None:
        try:
            self._shard: Shard | Exception = source.load()
        except Exception as error:
            # An actor that fails when it is made is dead for good, and does not say why.
            self._shard = error

    def answer(self, operation: str, args: tuple[Any, ...]) -> dict[str, Any]:
        try:
            if isinstance(self._shard, Exception):
                raise self._shard
            # Arrays out of Ray's store cannot be written to, and may begin at any byte.
            return {"answer": self._shard.answer(operation, *aligned(args))}
        except Exception as error:
            return {"error": error}


class RayEngine:
    """Shards on a Ray cluster, which ``ray.init`` has connected to.

    Parameters
    ----------
    sources : sequence of ShardSource
        One per shard; they are loaded by the actors.
    worker_timeout : float
        Seconds to wait for a machine that an actor could be on.
    num_cpus : float
        That Ray sets aside for every shard.

    Attributes
    ----------
    n_shards, workers, rounds, moves, bytes_up, bytes_down
        As in :class:`maxmargin.distributed.Engine`.

    Notes
    -----
    All machines of a Ray cluster need the same authentication token, which Ray writes to the home directory of whoever starts it
    first. What an operation changes in a shard is lost when its process dies, and known to be by the incarnation of the shard.
    """

    def __init__(self, sources: Sequence[ShardSource], *, worker_timeout: float = 300.0, num_cpus: float = 1.0) -> None:
        if not sources:
            raise ValueError("sources is empty; name at least one part of the data")
        if not 0 < worker_timeout < float("inf"):
            raise ValueError(f"worker_timeout={worker_timeout!r} must be a positive number of seconds")
        if not ray.is_initialized():
            raise ValueError("Ray is not connected; call ray.init() first, or ray.init(address=...) for a cluster")
        self.sources = list(sources)
        self.n_shards = len(self.sources)
        self.worker_timeout = worker_timeout
        self.rounds = self.moves = self.bytes_up = self.bytes_down = 0
        # Restarts are Ray's, questions are asked again here: an operation must not be done twice by chance.
        self._make = ray.remote(_Seat).options(max_restarts=-1, max_task_retries=0, num_cpus=num_cpus)
        self._actors: dict[int, Any] = {}
        self._stored: dict[int, Any] = {}
        self._incarnations: dict[int, str] = {}
        self._watch = LossWatch(span=_ROUNDS_OF_TEN_PASSES)
        # Shards that Ray is bringing to another process.
        self._away: set[int] = set()

    @property
    def workers(self) -> int:
        """Processes that hold shards now: every actor has its own."""
        return len(self._actors)

    def call(self, operation: str, args: Arguments = (), only: Sequence[int] | None = None) -> list[Reply]:
        """As :meth:`maxmargin.distributed.engine.Engine.call`."""
        asked = check_shards(only, self.n_shards)
        questions = dict(zip(asked, arguments_for(args, asked), strict=True))
        self.rounds += 1
        found: dict[int, Reply] = {}
        began, waiting = time.monotonic(), list(asked)
        while waiting:
            answers = {k: self._actor(k).answer.remote(operation, questions[k]) for k in waiting}
            self._wait(answers, began)
            for k, answer in answers.items():
                reply = self._reply(k, answer)
                if reply is not None:
                    found[k] = reply
            waiting = [k for k in waiting if k not in found]
        replies = [found[k] for k in asked]
        self.bytes_down += size_of(list(questions.values()))
        self.bytes_up += sum(size_of(reply.values) for reply in replies)
        return replies

    def renew(self, shards: Sequence[int]) -> None:
        """Make shards anew, where Ray likes."""
        for k in check_shards(shards, self.n_shards):
            if k in self._actors:
                ray.kill(self._actors.pop(k))

    def describe(self, shard: int) -> str:
        """What the source of a shard says of itself."""
        return self.sources[shard].describe()

    def close(self) -> None:
        """Let all shards go; Ray stays connected."""
        actors, self._actors, self._stored = self._actors, {}, {}
        if ray.is_initialized():
            for actor in actors.values():
                ray.kill(actor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _actor(self, k: int) -> Any:
        if k not in self._actors:
            # Ray forgets what an actor was made of, if it is long and nobody holds it, and could not make it again.
            if k not in self._stored:
                self._stored[k] = ray.put(self.sources[k])
            self._actors[k] = self._make.remote(self._stored[k])
        return self._actors[k]

    def _wait(self, answers: dict[int, Any], began: float) -> None:
        """Until all answers are there, whatever they are."""
        open_ = {answer: k for k, answer in answers.items()}
        while open_:
            ready, _ = ray.wait(list(open_), num_returns=1, timeout=_BEAT)
            for answer in ready:
                del open_[answer]
            for k in open_.values():
                if k not in self._incarnations and time.monotonic() - began > self.worker_timeout:
                    raise ShardError(
                        f"no machine of the Ray cluster took shard {k} ({self.describe(k)}) within {self.worker_timeout:g} s; "
                        "add machines, or ask for fewer CPUs per shard (num_cpus)"
                    )

    def _reply(self, k: int, answer: Any) -> Reply | None:
        """The reply of a shard, which is there; None if its process died, and it has to be asked again."""
        try:
            values = ray.get(answer)
        except ActorUnavailableError:
            # On its way to another process, which takes Ray a while: one loss, however often it is asked meanwhile.
            if k not in self._away:
                self._away.add(k)
                self._watch.lost(k, self.rounds, self.describe(k))
            time.sleep(_PAUSE)
            return None
        except ActorDiedError:
            self._actors.pop(k, None)
            self._watch.lost(k, self.rounds, self.describe(k))
            return None
        self._away.discard(k)
        if "error" in values:
            error: Exception = values["error"]
            error.add_note(f"in shard {k}: {self.describe(k)}")
            raise error
        reply = Reply.of(aligned(_writable(values["answer"])))
        before = self._incarnations.get(k)
        self.moves += before is not None and before != reply.incarnation
        self._incarnations[k] = reply.incarnation
        return reply


def _writable(value: Any) -> Any:
    """Arrays of Ray's store are for reading only, and keep it full; answers are short."""
    if isinstance(value, dict):
        return {key: _writable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_writable(inner) for inner in value)
    return value.copy() if hasattr(value, "flags") and not value.flags.writeable else value
