"""Data in parts, for the commands: files to sources, sources to an engine, and a ranker that is trained on one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import click
import numpy as np

from maxmargin._utils import ArgumentError, Floats, StatusLine
from maxmargin.cli.engine_options import Sharding, check_packed
from maxmargin.cli.options import DataOptions, check_reading, keep_apart
from maxmargin.cli.reading import encoding_of, load_ranker, notes_about_data, place_of_positive
from maxmargin.core import CheckpointFile, SavedModel, limits_of
from maxmargin.core.solvers import OneSlackCuttingPlane, Solver
from maxmargin.distributed import (
    ClusterLine,
    Conversation,
    Engine,
    LocalEngine,
    Reading,
    RowSource,
    ShardError,
    ShardOf,
    ShardSource,
    packed_reading,
    read_meta,
    row_sources,
)
from maxmargin.io import DataError, Encoding, SavedFileError, expand, is_table, is_url
from maxmargin.ranking import Gains, RankingSVM, ranking_loss, ranking_over, trained_metric
from maxmargin.ranking.shards import ShardedRanking, check_together, evaluate

# Seconds to wait for a scheduler, and for its first worker; then it is more likely that the address is wrong.
_PATIENCE = 10.0
_WORKER_TIMEOUT = 60.0
# Parts for every worker: what is loaded again elsewhere when a worker is lost.
_PER_WORKER = 2


# ---- files --------------------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """Features that samples must have, those of a model; and whether labels are needed."""

    encoding: Encoding | None
    n_features: int
    zero_based: bool | None
    labels: bool


@dataclasses.dataclass(frozen=True)
class Files:
    """What DATA names: files, or one folder of packed shards.

    Parameters
    ----------
    given : tuple of str
        As on the command line.
    names : list of str
        Absolute, as workers in any folder understand them.
    """

    given: tuple[str, ...]
    names: list[str]
    sharding: Sharding
    reading: DataOptions
    known: Known | None = None

    @classmethod
    def of(cls, given: tuple[str, ...], sharding: Sharding, reading: DataOptions, known: Known | None = None) -> Files:
        """Names from the command line; complains about options that do not go with them."""
        if len(given) == 1 and os.path.isdir(given[0]):
            check_packed(given[0], sharding, reading)
            names = [os.path.abspath(given[0])]
        else:
            found = expand(given)
            check_reading(Path(found[0]), reading)
            names = [name if is_url(name) else os.path.abspath(name) for name in found]
        return cls(given, names, sharding, reading, known)

    @property
    def packed(self) -> bool:
        """Whether it is a folder of packed shards."""
        return os.path.isdir(self.names[0])

    def __str__(self) -> str:
        """For messages.

        >>> str(Files(("a.svm", "b.svm", "c.svm"), [], Sharding(), DataOptions()))
        'a.svm and 2 more'
        """
        return self.given[0] + (f" and {len(self.given) - 1} more" if len(self.given) > 1 else "")

    def keep_apart(self, outputs: dict[str, Path | None], **inputs: Path | None) -> None:
        """Refuse to write over a file that is read."""
        keep_apart(outputs, {**{f"DATA ({name})": Path(name) for name in self.names if not is_url(name)}, **inputs})

    def rows(self, n_shards: int | None) -> list[Any]:
        """Sources of rows: as many as asked for on the command line, or else so many."""
        if self.packed:
            found = row_sources(self.names[0])
            self._check_columns(found)
            return list(found)
        options: dict[str, Any] = {"dtype": self.sharding.dtype or "float64"}
        known = self.known
        if is_table(self.names[0]):
            wanted = self.reading.wanted()
            options |= {"label": wanted.label, "query": wanted.query, "query_needed": wanted.query_needed}
            if known is None or known.encoding is None:
                options |= {"features": wanted.features, "drop": wanted.drop}
            else:
                options["encoding"] = known.encoding
            if known is not None and not known.labels:
                options |= {"label": None, "label_needed": False}
        else:
            options["zero_based"] = self.reading.numbering(None if known is None else known.zero_based)
            options["n_features"] = None if known is None else known.n_features
        return list(row_sources(self.names, self.sharding.shards or n_shards, **options))

    def _check_columns(self, packed: Sequence[Any]) -> None:
        """Refuse packed shards whose columns are not the features of a model; they stay where they are."""
        if self.known is None:
            return
        columns = packed_reading(packed[0].folder).features
        wanted = None if self.known.encoding is None else self.known.encoding.columns
        if columns is not None and wanted is not None and list(columns) != list(wanted):
            names = ",".join(wanted)
            problem = f"{self}: its columns are {', '.join(columns)}, and those of the model are {', '.join(wanted)}"
            raise DataError(problem, f"pack the files again with --features {names}, or read them as they are")
        width, meta = packed[0].n_features, read_meta(packed[0].folder)
        if not meta["sparse"] and width != self.known.n_features:
            problem = f"{self}: has rows of {width} features, and the model has {self.known.n_features}"
            raise DataError(problem, "pack the files again with --layout sparse, or read them as they are")

    def about(self, n_samples: int) -> dict[str, Any]:
        """What models remember of their data."""
        reading = self._reading()
        notes: dict[str, Any] = {"file": str(self), "samples": n_samples, "zero_based": reading.zero_based}
        if reading.features is not None:
            notes |= {"zero_based": None, "label": reading.label, "query": reading.query}
            if reading.kinds:
                notes |= {"columns": list(reading.features), "kinds": dict(reading.kinds)}
        return {"data": {name: value for name, value in notes.items() if value is not None or name == "zero_based"}}

    def feature_names(self) -> list[str] | None:
        """Columns of tables."""
        features = self._reading().features
        return None if features is None else list(features)

    def encoding(self) -> Encoding | None:
        """How columns of tables become features."""
        reading = self._reading()
        return None if reading.features is None else Encoding(list(reading.features), dict(reading.kinds or ()))

    def _reading(self) -> Reading:
        source = self.rows(1)[0]
        return packed_reading(source.folder) if self.packed else source.reading


# ---- models -------------------------------------------------------------------------------------------------------------------


def read_ranker(path: Path) -> SavedModel:
    """A model whose scores are sums over the features of a sample."""
    model = load_ranker(path)
    if getattr(model.estimator, "scale", "none") == "query":
        raise DataError(f"{path}: was trained with --scale query, which is not known in parts; leave out --engine")
    return model


def files_for(
    model: SavedModel, model_file: Path, given: tuple[str, ...], sharding: Sharding, reading: DataOptions, *, labels: bool
) -> Files:
    """Data with the features of a model."""
    about = notes_about_data(model)
    try:
        encoding = encoding_of(model)
    except SavedFileError as error:
        raise SavedFileError(f"{model_file}: {error}") from None
    numbering = about.get("zero_based")
    known = Known(encoding, int(model.estimator.n_features_in_), numbering if isinstance(numbering, bool) else None, labels)
    files = Files.of(given, sharding, reading, known)
    if not files.packed and is_table(files.names[0]):
        if reading.label is None and isinstance(about.get("label"), str):
            reading = reading._replace(label=about["label"])
        if reading.qid is None and isinstance(about.get("query"), str):
            # Without them a metric would be that of one list.
            reading = reading._replace(qid=about["query"], query_optional=not labels)
        if encoding is not None and reading.features is not None and list(reading.features) != list(encoding.columns):
            raise DataError(f"{files}: --features are not those of the model {model_file}; leave --features out")
        files = Files(files.given, files.names, sharding, reading, known)
    return files


def weights_of(model: SavedModel) -> tuple[Floats, float]:
    """Weights and intercept of the scores to sort by: a classifier's are large for the class that is to be found."""
    own = model.estimator
    if np.ndim(own.coef_) == 1:
        return own.coef_, float(getattr(own, "intercept_", 0.0))
    sign = 1.0 if place_of_positive(own) == 1 else -1.0
    return sign * own.coef_[0], sign * float(own.intercept_[0])


# ---- engines ------------------------------------------------------------------------------------------------------------------


@contextmanager
def started(
    files: Files, make: Callable[[RowSource, int | None], ShardSource], *, show: bool, remedy: str = ""
) -> Iterator[Engine]:
    """The engine that was asked for, with a shard for every part; what goes wrong with shards is said in a sentence."""
    with _said(files):
        if files.sharding.engine == "local":
            local = LocalEngine([make(source, None) for source in files.rows(None)])
            try:
                yield local
            finally:
                local.close()
            return
        with _on_cluster(files, make, show=show, remedy=remedy) as engine:
            yield engine


@contextmanager
def _on_cluster(
    files: Files, make: Callable[[RowSource, int | None], ShardSource], *, show: bool, remedy: str
) -> Iterator[Engine]:
    # Nobody but those who ask for it needs Dask.
    from maxmargin.distributed import Cluster, DaskEngine, connect, n_cores, own_cluster

    address = files.sharding.scheduler
    with StatusLine(shown=show, transient=True) as line:
        if address is None:
            files.rows(1)  # what is wrong with the files is said before a cluster is started
            line.show(f"starting {n_cores()} workers on this machine")
            connection: Any = own_cluster(n_cores())
        else:
            line.show(f"looking for the scheduler {address}")
            connection = connect(address, _PATIENCE)
    with connection as client:
        workers = client.sync(Cluster(client, _WORKER_TIMEOUT).some_workers)
        sources = files.rows(_PER_WORKER * len(workers))
        # Workers ask several shards at a time.
        per_worker = -(-len(sources) // len(workers))
        threads = max(1, min(int(info.get("nthreads", 1)) for info in workers.values()) // per_worker)
        with DaskEngine([make(source, threads) for source in sources], client) as engine:
            if remedy:
                engine.cluster.remedy = remedy
            yield engine


@contextmanager
def _said(files: Files) -> Iterator[None]:
    """Errors of shards and of the data in them, for people."""
    try:
        yield
    except ShardError as error:
        raise click.ClickException(str(error)) from error
    except (DataError, SavedFileError):
        raise
    except ArgumentError as error:
        raise DataError([f"{files}: ", *error.problem], error.remedy, error.argument) from error
    except ValueError as error:
        raise DataError(f"{files}: {error}") from error


def ranking_shard(rows: RowSource, n_jobs: int | None) -> ShardSource:
    """What rankings are trained on, and judged by."""
    return ShardOf(rows, "ranking", n_jobs=n_jobs)


def sizes(files: Files, shards: Conversation) -> dict[str, Any]:
    """How many samples, queries and features there are."""
    filled = [info for info in shards.infos if info["rows"]]
    queries = None
    if not all(info["one_list"] for info in filled):
        check_together(shards)
        hashes = [reply.values["hashes"] for reply in shards.engine.call("query_hashes")]
        queries = len(np.unique(np.concatenate(hashes)))
    features = max((int(info["n_features"]) for info in shards.infos), default=0)
    samples = sum(int(info["rows"]) for info in filled)
    return {"data": str(files), "samples": samples, "queries": queries, "features": features}


# ---- training -----------------------------------------------------------------------------------------------------------------


class ShardedSVM(RankingSVM):
    """A :class:`maxmargin.RankingSVM` that is trained on an engine in place of samples; :meth:`plain` is the ordinary one.

    Attributes
    ----------
    checkpoint : path, optional
        Of training.
    repeats : int
        Questions that had to be asked again.
    """

    checkpoint: Path | None = None
    repeats: int = 0
    _engine: Engine | None = None

    def fit_engine(self, engine: Engine) -> ShardedSVM:
        """Train."""
        self._engine = engine
        try:
            return self._fit(engine, None)
        finally:
            self._engine = None

    def problem_over(self, engine: Engine) -> ShardedRanking:
        """The problem; what is known of the data becomes fitted attributes."""
        return ranking_over(self, engine)

    def plain(self) -> RankingSVM:
        """The same model without any engine, for files."""
        made = RankingSVM(**self.get_params(deep=False))
        for name, value in vars(self).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(made, name, value)
        return made

    def _prepare(self, X: Any, y: Any, *args: Any, **data: Any) -> ShardedRanking:
        return self.problem_over(X)

    def _train(self, problem: Any) -> Any:
        try:
            return super()._train(problem)
        finally:
            self.repeats = problem.shards.repeats

    def _solver(self, problem: Any, method: Solver | None = None) -> Solver:
        found = super()._solver(problem, method)
        if self.checkpoint is None or not isinstance(found, OneSlackCuttingPlane):
            return found
        lam = 1.0 / (self._weight_of_hinges() * problem.n_blocks)
        return dataclasses.replace(
            found, checkpoint=CheckpointFile(self.checkpoint, problem, lam, limits_of(problem, self.bounds))
        )

    def _status_line(self) -> StatusLine:
        line = ClusterLine("RankingSVM", shown=bool(self.verbose))
        line.engine = self._engine
        return line


def trained_score(model: RankingSVM, engine: Engine) -> float:
    """The metric that was trained for, as ``score`` of the model has it, over all shards."""
    gains: Literal["linear", "exponential"] = "linear"
    options: dict[str, Any] = {"thresholds": model.relevance_thresholds_}
    loss = ranking_loss(model.loss)
    name = trained_metric(loss)
    if model.grades in get_args(Gains):
        gains, options = model.grades, {}  # type: ignore[assignment]
    if name is None:
        options["loss"] = loss
    found = evaluate(engine, model.coef_, metrics=[] if name is None else [name], gains=gains, **options)
    return next(iter(found.values()))


def check_parameters(parameters: dict[str, Any], checkpoint: Path | None = None) -> None:
    """Complain about what cannot be trained over shards."""
    if parameters["loss"] == "accuracy":
        raise click.UsageError("--loss accuracy is not known over shards; choose a rank loss, or leave out --engine")
    if parameters["scale"] == "query":
        raise click.UsageError(
            "--scale query is not known over shards, where a query may lie in several; use --scale standard, scale the features "
            "in the files, or leave out --engine"
        )
    if checkpoint is not None and parameters.get("solver", "auto") not in ("auto", "one_slack"):
        raise click.UsageError(f"--checkpoint is for --solver one_slack, and {parameters['solver']} keeps none; leave out one")
