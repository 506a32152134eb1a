"""The cluster as its scheduler sees it: which workers live, and what they are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.comm import connect as connect_to

from maxmargin import __version__
from maxmargin.distributed.dask_actor import about
from maxmargin.distributed.engine import PROTOCOL, ShardError

# States of a worker that will not take anything any more.
_LEAVING = ("closing", "closing_gracefully", "closed", "failed")
_PAUSE = 0.2


def connect(scheduler: str, timeout: float = 30.0) -> Client:
    """A client of the scheduler at an address; an error that says so if it is not there."""
    host, separator, port = scheduler.rpartition(":")
    if "://" not in scheduler and not (separator and host and port.isdigit()):
        remedy = "give host and port as `dask scheduler` prints them, host:8786"
        raise ConnectionError(f"scheduler={scheduler!r} is no address; {remedy}")
    try:
        return Client(scheduler, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ConnectionError(
            f"scheduler={scheduler!r} did not answer within {timeout:g} s ({error}); start one with `dask scheduler`, and check "
            "the address that it prints"
        ) from error


def n_cores() -> int:
    """Cores that this process may use."""
    return int(CPU_COUNT)


@contextmanager
def own_cluster(n_workers: int) -> Iterator[Client]:
    """A cluster of processes on this machine, one thread each, which share its memory; it ends with the block."""
    # A nanny starts its worker again; the cluster must not take both for lost meanwhile.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            scheduler_kwargs={"dashboard_address": ":0"},  # any port: others may have the usual one
            preload="maxmargin.distributed.dask_preload",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(n_workers, timeout=60)
        yield client


def find_client(client: Client | None) -> Client:
    """The client given, or Dask's current one."""
    if client is None:
        try:
            client = Client.current()
        except ValueError:
            raise ValueError(
                "client=None means Dask's current client, and there is none; make one first: "
                "client = dask.distributed.Client('tcp://scheduler:8786'), or Client() for this machine"
            ) from None
    if not isinstance(client, Client):
        raise TypeError(f"client must be a dask.distributed.Client, or None for the current one, not {type(client).__name__}")
    if client.asynchronous:
        raise ValueError("client is asynchronous, but training waits for its answers; make it without asynchronous=True")
    if client.status not in ("running", "connecting"):
        raise ValueError(f"client is {client.status}; make a new one")
    return client


class Cluster:
    """Looks after the workers of a client; all methods but the first are for its event loop.

    Parameters
    ----------
    client : Client
    timeout : float
        Seconds to wait for a worker, or for a scheduler that is away.
    """

    def __init__(self, client: Client, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self.scheduler = str(client.scheduler.address)
        # What to do when all is lost; estimators name their checkpoint.
        self.remedy = "start again, and give a checkpoint to go on from"
        self._known: dict[str, Any] = {}
        self._seen = time.monotonic()
        self._looked = -1.0
        self._alike: set[str] = set()
        self._limits: dict[str, float | None] = {}

    async def workers(self, at_most: float = 0.0) -> dict[str, Any]:
        """Workers that live, by address; what was seen some seconds ago is good enough if that is ``at_most``."""
        if time.monotonic() - self._looked < at_most:
            return self._known
        while True:
            if self.client.status not in ("running", "connecting"):
                raise self.gone()
            try:
                found = await asyncio.wait_for(self._identity(), min(30.0, self.timeout))
                break
            except (OSError, TimeoutError):
                if time.monotonic() - self._seen > self.timeout:
                    raise self.gone() from None
                await asyncio.sleep(_PAUSE)
        self._known = {address: info for address, info in found.items() if info.get("status") not in _LEAVING}
        self._alike &= set(self._known)
        self._limits.update((address, info.get("memory_limit")) for address, info in self._known.items())
        self._seen = self._looked = time.monotonic()
        return self._known

    async def some_workers(self, at_most: float = 0.0) -> dict[str, Any]:
        """Workers that live and understand this client; waits until there is one."""
        begin = time.monotonic()
        while not (found := await self.workers(at_most)):
            if time.monotonic() - begin > self.timeout:
                raise ShardError(
                    f"no worker has come to the scheduler {self.scheduler} for {self.timeout:g} s; start workers, then "
                    f"{self.remedy}"
                )
            await asyncio.sleep(_PAUSE)
            at_most = 0.0
        await self._check_versions([address for address in found if address not in self._alike])
        return found

    def memory_limit(self, address: str) -> float | None:
        """Of a worker that was there lately, if it has one."""
        return self._limits.get(address)

    def gone(self) -> ShardError:
        """What to say without a scheduler."""
        return ShardError(f"the scheduler {self.scheduler} is gone; start one and workers, then {self.remedy}")

    async def can_reach(self, address: str, timeout: float = 5.0) -> bool:
        """Whether a worker can be asked without the scheduler."""
        try:
            comm = await connect_to(address, timeout=timeout, **self.client.connection_args)
        except (OSError, TimeoutError):
            return False
        await comm.close()
        return True

    async def _identity(self) -> dict[str, Any]:
        try:
            found = await self.client.scheduler.identity(n_workers=-1)
        except TypeError:  # versions that always tell of all
            found = await self.client.scheduler.identity()
        return dict(found["workers"])

    async def _check_versions(self, addresses: list[str]) -> None:
        """Refuse workers that would not understand, before anything is sent to them."""
        if not addresses:
            return
        try:
            told = await asyncio.wait_for(self.client.run(about, workers=addresses, on_error="return"), min(60.0, self.timeout))
        except (OSError, TimeoutError):
            return  # lost meanwhile, or too busy; shards tell their version themselves
        for address, what in told.items():
            if isinstance(what, ImportError):
                raise ShardError(
                    f"worker {address} cannot import what the client (maxmargin {__version__}) sends: {what}; install maxmargin "
                    f"{__version__} with its extra 'dask' on all workers"
                )
            if isinstance(what, dict) and what.get("protocol") != PROTOCOL:
                raise ShardError(
                    f"worker {address} has maxmargin {what.get('version')} with protocol {what.get('protocol')}, but the client "
                    f"is maxmargin {__version__} with protocol {PROTOCOL}; install the same version everywhere"
                )
            if isinstance(what, dict):
                self._alike.add(address)
