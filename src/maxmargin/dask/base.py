"""What estimators on a cluster share: parameters, the engine of a fit, lazy predictions, the way back to one process."""

from __future__ import annotations

import dataclasses
import os
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from dask import is_dask_collection
from dask.delayed import Delayed
from distributed import Client
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import StatusLine, warn
from maxmargin.core import CheckpointFile, Estimator, Problem, limits_of
from maxmargin.core.solvers import OneSlackCuttingPlane, Solver
from maxmargin.distributed import (
    Cluster,
    ClusterLine,
    DaskEngine,
    Kind,
    ShardOf,
    Shards,
    feature_names,
    find_client,
    is_frame,
    kept_whole,
    numbers,
    numeric_features,
    row_sources,
    shards_of,
    trained_columns,
)
from maxmargin.io import Files, is_url
from maxmargin.ranking import RankingLoss

# Makes an engine, from the client and the number of shards that would be good.
Make = Callable[[Client, int], DaskEngine]

# A pass should take this many times as long as a question that asks nothing.
_WORTH_IT = 10.0


@dataclass(eq=False, repr=False, kw_only=True)
class DaskEstimator(Estimator):
    """Base of estimators that are trained on a Dask cluster.

    Parameters
    ----------
    client : Client, optional
        Of the cluster; Dask's current one by default. Copies have the same one, pickles none.
    checkpoint : path, optional
        File for the state of training, written every half minute and at the end. If it exists, training goes on from it, to the
        last bit where shards are the same; it must be of the same data and parameters.
    shards_per_worker : int, default=2
        Parts that data are divided into, for every worker there is at the start. They are what is loaded again elsewhere when a
        worker is lost.
    worker_timeout : float, default=300
        Seconds to wait for a worker where there is none.

    Attributes
    ----------
    cluster_ : dict
        Of the last fit: ``shards``, ``workers`` at the end, ``rounds``, ``moves`` (shards made anew), ``repeats`` (what was asked
        again for that), ``bytes_up`` and ``bytes_down``.
    """

    client: Client | None = None
    checkpoint: str | os.PathLike[str] | None = None
    shards_per_worker: int = 2
    worker_timeout: float = 300.0

    # The estimator that does the same in one process, and what its shards are.
    local: ClassVar[type[Estimator]]
    kind: ClassVar[Kind]
    # What queries are that must not be cut by chunks: a sequence.
    whole: ClassVar[str | None] = None
    # Parameters that only their defaults are known for, with the reason.
    unknown: ClassVar[dict[str, str]] = {}

    # ---- training -----------------------------------------------------------------------------------------------------------

    def _fit_shards(self, make: Make) -> Self:
        """The body of every fit: ``make`` gets the client and the number of shards that would be good."""
        self._check_parameters()
        before = dict(self.__dict__)
        try:
            with self._started(make) as engine:
                weights = self._weights_over(engine)
        except BaseException:
            # Nothing is half of this model and half of the one before.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self._keep(weights)
        self._restore()
        return self

    def _weights_over(self, engine: DaskEngine) -> Any:
        if self.checkpoint is not None:
            engine.cluster.remedy = f"start again with checkpoint={os.fspath(self.checkpoint)!r}"
        self._engine: DaskEngine | None = engine
        try:
            problem = self._problem_over(engine)
            self._check_shards(problem)
            bare = _bare_call(engine)
            begin = time.monotonic()
            weights = self._train(problem)
            self._warn_if_small(bare, (time.monotonic() - begin) / max(1, self._n_passes(engine)))
            self.cluster_ = numbers(engine, problem.shards.repeats)
        finally:
            self._engine = None
        return weights

    def _check_shards(self, problem: Any) -> None:
        """Complain about what is wrong with all shards together."""

    def _client(self) -> Client:
        """The client, once there is a worker."""
        client = find_client(self.client)
        client.sync(Cluster(client, self.worker_timeout).some_workers)
        return client

    def _started(self, make: Make) -> DaskEngine:
        client = find_client(self.client)
        workers = client.sync(Cluster(client, self.worker_timeout).some_workers)
        threads = min(int(info.get("nthreads", 1)) for info in workers.values())
        self._threads = max(1, threads // self.shards_per_worker)
        return make(client, len(workers) * self.shards_per_worker)

    def _shards_to_judge(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> DaskEngine:
        """An engine for data to be judged by."""
        return self._started(self._from_collections(X, y, qid, sample_weight, judged=True))

    def _chunks_to_judge(self, X: Any, y: Any, group: Any = None, sample_weight: Any = None) -> Shards:
        """A shard for every chunk, with the columns that the model was trained with."""
        settings: dict[str, Any] = {"group": self.whole or "qid", "trained": self._trained_names()}
        return shards_of(X, y, group, sample_weight, n_shards=1_000_000, kind=self.kind, **settings)

    def _trained_names(self) -> tuple[Any, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    @abstractmethod
    def _problem_over(self, engine: DaskEngine) -> Any:
        """The problem of loaded shards; what is known of the data becomes fitted attributes."""

    def _prepare(self, X: Any, y: Any, *args: Any, **data: Any) -> Any:
        """The problem of data for regularization paths; the shards are let go with it."""
        self._check_parameters()
        groups = next((data[name] for name in ("qid", "sequence") if data.get(name) is not None), None)
        engine = self._started(self._from_collections(X, y, groups, data.get("sample_weight")))
        try:
            problem = self._problem_over(engine)
        except BaseException:
            engine.close()
            raise
        weakref.finalize(problem, engine.close)
        return problem

    def _own_loss(self) -> RankingLoss | None:
        """A loss that shards cannot know by its name."""
        return None

    def _from_collections(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, *, judged: bool = False) -> Make:
        if self.whole is not None and qid is None:
            raise ValueError(
                f"{self.whole} is None; say which {self.whole} every row belongs to, by a Dask array or the name of a column"
            )

        def make(client: Client, n_shards: int) -> DaskEngine:
            settings: dict[str, Any] = {"kind": self.kind, "loss": self._own_loss(), "n_jobs": self._jobs()}
            settings |= {"group": self.whole or "qid", "trained": self._trained_names() if judged else None}
            made = shards_of(X, y, qid, sample_weight, n_shards=n_shards, **settings)
            if not judged:
                self._note_names(made.names)
            parts, sources = made.parts, made.sources
            if self.whole is not None:
                parts = kept_whole(client, made).parts
                sources = [source for source, own in zip(sources, parts, strict=True) if own]
            return self._engine_of(sources, client, [own for own in parts if own])

        return make

    def _from_files(self, files: Files, shards: int | None, cache: Any, options: dict[str, Any]) -> Make:
        if shards is not None and not (isinstance(shards, Integral) and shards > 0):
            raise ValueError(f"shards={shards!r} must be a positive number of parts, or None")

        def make(client: Client, n_shards: int) -> DaskEngine:
            rows = row_sources(_absolute(files), shards or _unless_folder(files, n_shards), cache=cache, **options)
            self._note_names(feature_names(rows))
            return self._engine_of([ShardOf(source, self.kind, self._own_loss(), self._jobs()) for source in rows], client)

        return make

    def _engine_of(self, sources: Any, client: Client, parts: Any = None) -> DaskEngine:
        return DaskEngine(sources, client, worker_timeout=self.worker_timeout, parts=parts)

    def _jobs(self) -> int:
        asked = getattr(self, "n_jobs", None)
        return int(asked) if asked is not None else self._threads

    def _note_names(self, names: tuple[Any, ...] | None) -> None:
        if "feature_names_in_" in vars(self):
            delattr(self, "feature_names_in_")
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_: Any = np.array(names, dtype=object)

    def _solver(self, problem: Problem, method: Solver | None = None) -> Solver:
        found = super()._solver(problem, method)
        if self.checkpoint is None:
            return found
        if not isinstance(found, OneSlackCuttingPlane):
            raise ValueError(
                f"checkpoint is for solver='one_slack', and solver={self.solver!r} keeps none; leave one of them out"
            )
        lam = 1.0 / (self._weight_of_hinges() * problem.n_blocks)
        bounds = limits_of(problem, getattr(self, "bounds", None))
        return dataclasses.replace(found, checkpoint=CheckpointFile(self.checkpoint, problem, lam, bounds))

    def _status_line(self) -> StatusLine:
        line = ClusterLine(type(self).__name__, shown=bool(self.verbose))
        line.engine = getattr(self, "_engine", None)
        return line

    def _n_passes(self, engine: DaskEngine) -> int:
        """How many passes over the data training took."""
        return self.n_iter_

    def _warn_if_small(self, bare: float, pass_: float) -> None:
        if pass_ < _WORTH_IT * bare:
            warn(
                f"{type(self).__name__} took {1e3 * pass_:.1f} ms for a pass, and a question to workers that asks nothing takes "
                f"{1e3 * bare:.1f} ms; data of this size are trained faster by {self.local.__name__} in one process"
            )

    # ---- parameters ---------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_count("shards_per_worker")
        self._check_positive("worker_timeout")
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name, reason in self.unknown.items():
            value = getattr(self, name)
            if not (value is defaults[name] or (isinstance(value, str | int | bool) and value == defaults[name])):
                raise ValueError(f"{name}={value!r} is not known over shards: {reason}")

    def __sklearn_clone__(self) -> Self:
        # A client cannot be copied, and is none of the estimator's.
        from sklearn.base import clone

        shared = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items() if name != "client"}
        return type(self)(client=self.client, **shared)

    def __getstate__(self) -> Any:
        hidden = {"client": None}
        state = super().__getstate__()
        return {key: hidden.get(key, value) for key, value in state.items() if key not in ("_engine", "_threads")}

    # ---- predictions --------------------------------------------------------------------------------------------------------

    def to_local(self) -> Any:
        """The same model in one process, without Dask: for files, reports, and data in memory."""
        return self._made_local({"cluster_"})

    def _for_workers(self) -> Any:
        """The same for rows of numbers: which columns these are is decided here."""
        return self._made_local({"cluster_", "feature_names_in_"})

    def _made_local(self, hidden: set[str]) -> Any:
        known = {field.name for field in dataclasses.fields(self.local)}
        # Somebody's function need not be known elsewhere, and training is over.
        given = {**self.get_params(deep=False), "callback": None}
        made = self.local(**{name: value for name, value in given.items() if name in known})
        for name, value in vars(self).items():
            if name.endswith("_") and not name.startswith("_") and name not in hidden:
                setattr(made, name, value)
        if hasattr(made, "n_features_in_"):
            made._restore()
        return made

    def _map(self, X: Any, method: str, dtype: Any, width: int | None = None, columns: Any = None) -> Any:
        """A prediction for every row, or several with names, lazily where X is a Dask collection."""
        check_is_fitted(self)
        if not is_dask_collection(X):
            return getattr(self.to_local(), method)(X)
        local = self._for_workers()
        if is_frame(X):
            names = self._trained_names()
            rows = X if names is None else X[trained_columns(X, names)]
            return rows.map_partitions(_predicted_frame, local, method, columns, meta=_empty(X, dtype, columns))
        if isinstance(X, Delayed) or not hasattr(X, "chunks"):
            raise TypeError(f"X is a {type(X).__name__}; pass rows of features, a Dask array of shape (n, d) or a data frame")
        if X.ndim != 2:
            raise ValueError(f"X has shape {X.shape}; rows of features are needed, shape (n, d)")
        if not np.isnan(X.shape[1]) and X.shape[1] != self.n_features_in_:
            self._check_width(int(X.shape[1]))
        rows = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        options: dict[str, Any] = {"drop_axis": 1} if width is None else {"chunks": (rows.chunks[0], (width,))}
        meta = np.empty((0,) if width is None else (0, 0), dtype=dtype)
        return rows.map_blocks(_predicted, local, method, dtype=dtype, meta=meta, **options)


def _predicted(X: Any, local: Any, method: str) -> Any:
    """For the rows of a chunk; chunks may be empty."""
    rows = numeric_features(X, None, "a chunk")
    if rows.shape[0] == 0:
        return getattr(local, method)(np.zeros((1, rows.shape[1])))[:0]
    return getattr(local, method)(rows)


def _predicted_frame(X: Any, local: Any, method: str, columns: Any = None) -> Any:
    import pandas as pd

    found = _predicted(X, local, method)
    return pd.Series(found, index=X.index) if columns is None else pd.DataFrame(found, index=X.index, columns=columns)


def _empty(X: Any, dtype: Any, columns: Any = None) -> Any:
    import pandas as pd

    index = X._meta.index[:0]
    if columns is None:
        return pd.Series(np.empty(0, dtype=dtype), index=index)
    return pd.DataFrame(np.empty((0, len(columns)), dtype=dtype), index=index, columns=columns)


def _bare_call(engine: DaskEngine) -> float:
    """Seconds that a question takes which asks next to nothing."""
    times = []
    for _ in range(3):
        begin = time.monotonic()
        engine.call("info")
        times.append(time.monotonic() - begin)
    return min(times)


def _absolute(files: Files) -> Files:
    """Names that workers understand in whatever folder they are."""
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    names = [name if is_url(os.fspath(name)) else os.path.abspath(name) for name in given]
    return names[0] if isinstance(files, str | os.PathLike) else names


def _unless_folder(files: Files, n_shards: int) -> int | None:
    """How many shards to make of files; a folder has its own."""
    return None if isinstance(files, str | os.PathLike) and os.path.isdir(files) else n_shards
