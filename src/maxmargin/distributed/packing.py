"""Many files into a folder of packed shards, one after the other; what is done already is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from maxmargin._utils import check_choice
from maxmargin.distributed.packed import SUFFIX, make_dense, read_names, set_packing, write_packed
from maxmargin.distributed.packed_meta import is_fresh, packing_of, read_meta
from maxmargin.distributed.sources import PartsOfFiles, share_out
from maxmargin.io import DataError, Files, Names

Layout = Literal["auto", "dense", "sparse"]


class Packing(NamedTuple):
    """What :func:`pack` has made: numbers of shards, of those that were there already, of rows, features, queries and bytes."""

    folder: str
    shards: int
    kept: int
    rows: int
    features: int
    queries: int | None
    sparse: bool
    dtype: str
    bytes: int


def pack(
    files: Files,
    folder: str | os.PathLike[str],
    shards: int | None = None,
    *,
    layout: Layout = "auto",
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> Packing:
    r"""Write files into packed shards, ``00000-of-00200.mmshard`` and so on, which are memory-mapped when they are read.

    One shard is in memory at a time. Whoever is interrupted calls this once more: shards whose files have not changed are kept.

    Parameters
    ----------
    files, shards, **options
        As in :func:`~maxmargin.distributed.sources.share_out`.
    folder : path
        It is made if need be, and must hold no other packed shards.
    layout : "auto", "dense" or "sparse"
        Of rows from svmlight files: "auto" takes dense ones if they need no more bytes. Tables are dense.
    tell : callable, optional
        Is told how far things are.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as where:
    ...     path = os.path.join(where, "a.svm")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"1 qid:7 1:1 2:3\n0 qid:7 1:2\n1 qid:8 1:3 2:1\n0 qid:8 2:4\n")
    ...     made = pack(path, f"{where}/packed", 2)
    ...     made.shards, made.kept, made.rows, made.queries, made.sparse, pack(path, f"{where}/packed", 2).kept
    (2, 0, 4, 2, False, 2)
    """
    check_choice("layout", layout, ("auto", "dense", "sparse"))
    sources = share_out(files, shards, **options)
    if layout == "sparse" and sources[0].reading.features is not None:
        raise DataError("tables have dense rows; leave out layout='sparse'", "", "layout")
    places = [Path(folder) / f"{k:05d}-of-{len(sources):05d}{SUFFIX}" for k in range(len(sources))]
    _check_strangers(Path(folder), places)
    told, packing = tell or (lambda text: None), packing_of(sources)
    kept, rows, total, queries = 0, 0, len(sources), _Queries()
    for k, (source, place) in enumerate(zip(sources, places, strict=True)):
        told(f"shard {k + 1} of {total}, {rows:,} rows, {source.describe()}")
        if _is_done(place, source, layout):
            queries.add(read_names(place), source)
            set_packing(place, packing)
            kept += 1
            rows += read_meta(place)["rows"]
        else:
            loaded = source.load_rows()
            queries.add(None if loaded.names is None else list(loaded.names), source)
            rows += write_packed(place, loaded, source, packing)["rows"]
    if rows == 0:
        raise DataError(f"{sources[0].describe()}: there are no samples in the files; at least one line is needed", "", "files")
    metas = [read_meta(place) for place in places]
    width = max(meta["features"] for meta in metas)
    dense = _is_dense(places, metas, width, layout)
    if dense:
        for k, (place, meta) in enumerate(zip(places, metas, strict=True)):
            if meta["sparse"] or meta["features"] != width:
                told(f"shard {k + 1} of {total} gets dense rows of {width} columns")
                make_dense(place, width)
    size = sum(entry.stat().st_size for place in places for entry in os.scandir(place))
    return Packing(os.fspath(folder), total, kept, rows, width, queries.count(), not dense, metas[0]["dtype"], size)


class _Queries:
    """Refuses a query that comes back; one that goes on in the next shard does not."""

    def __init__(self) -> None:
        self.known: set[str] | None = set()
        self.last: str | None = None

    def add(self, names: Names | None, source: PartsOfFiles) -> None:
        if names is None or self.known is None:
            self.known = None
            return
        texts = list(map(str, names))
        for name in texts[1:] if texts[:1] == [self.last] else texts:
            if name in self.known:
                problem = f"{source.describe()}: query {name[:60]} has appeared in a shard before, with others in between"
                raise DataError(problem, "put the samples of a query together, or give queries other names", "files")
            self.known.add(name)
        self.last = texts[-1] if texts else self.last

    def count(self) -> int | None:
        return None if self.known is None else len(self.known)


def _check_strangers(folder: Path, places: list[Path]) -> None:
    others = {path.name for path in folder.glob(f"*{SUFFIX}")} - {place.name for place in places}
    if others:
        problem = f"{folder}: holds {min(others)} of another packing"
        raise DataError(problem, "choose an empty folder, take the number of shards it was made with, or remove them", "folder")


def _is_done(place: Path, source: PartsOfFiles, layout: Layout) -> bool:
    # Which zeros were written in the file nobody knows any more.
    return is_fresh(place, source) and (layout != "sparse" or bool(read_meta(place)["sparse"]))


def _is_dense(places: list[Path], metas: list[dict[str, Any]], width: int, layout: Layout) -> bool:
    if layout != "auto" or not any(meta["sparse"] for meta in metas):
        return layout != "sparse"
    # It has been decided, and the run was stopped half-way.
    if not all(meta["sparse"] for meta in metas):
        return True
    item = {"float32": 4, "float64": 8}[metas[0]["dtype"]]
    needed = ((place / f"{name}.npy").stat().st_size for place in places for name in ("data", "indices", "indptr"))
    return bool(sum(meta["rows"] for meta in metas) * width * item <= sum(needed))
