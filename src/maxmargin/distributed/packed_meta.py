"""What is written about a packed shard: whether that is sound, where its rows come from, and whether these files have changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from maxmargin import __version__
from maxmargin.distributed.sources import Part, PartsOfFiles, Reading, checksum
from maxmargin.io import SavedFileError, file_of_queries, is_url, stamp

META = "meta.json"
FORMAT = 1
PACK_AGAIN = "pack its source again"


# ---- reading ------------------------------------------------------------------------------------------------------------------


def read_meta(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What is known of a packed shard; a :class:`~maxmargin.io.archive.SavedFileError` if that is not sound."""
    path = Path(folder) / META
    try:
        meta: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        if not Path(folder).is_dir():
            problem = "is not there; is it on a shared file system, which every machine sees under this name?"
            raise FileNotFoundError(2, problem, os.fspath(folder)) from error
        raise SavedFileError(f"{folder}: has no {META}, so it is no packed shard; {PACK_AGAIN}") from error
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{path}: is not sound JSON ({error}); {PACK_AGAIN}") from error
    form = meta.get("format") if isinstance(meta, dict) else None
    if type(form) is not int or form < 1:
        raise SavedFileError(f"{path}: has no format, so it is not that of a packed shard; {PACK_AGAIN}")
    if form > FORMAT:
        raise SavedFileError(f"{path}: has format {form}, but maxmargin {__version__} reads formats up to {FORMAT}; upgrade it")
    if not _is_sound(meta):
        raise SavedFileError(f"{path}: lacks something that a packed shard has; {PACK_AGAIN}")
    return meta


def _is_sound(meta: dict[str, Any]) -> bool:
    def counts(*values: Any) -> bool:
        return all(type(value) is int and value >= 0 for value in values)

    def is_part(entry: Any) -> bool:
        keys = {"file", "bytes", "modified", "first", "last", "crc32"}
        return (
            isinstance(entry, dict)
            and set(entry) - {"queries"} == keys
            and isinstance(entry["file"], str)
            and counts(entry["bytes"], entry["first"], entry["last"], entry.get("queries", 0))
            and (entry["modified"] is None or type(entry["modified"]) in (int, str))
            and (entry["crc32"] is None or counts(entry["crc32"]))
        )

    source, queries, sums = meta.get("source"), meta.get("queries", -1), meta.get("crc32")
    reading, packing = meta.get("reading"), meta.get("packing")
    return (
        counts(meta.get("rows"), meta.get("features"))
        and (queries is None or counts(queries))
        and meta.get("dtype") in ("float32", "float64")
        and type(meta.get("sparse")) is bool
        and isinstance(source, list)
        and all(map(is_part, source))
        and (reading is None or _is_reading(reading))
        and (packing is None or isinstance(packing, str))
        and isinstance(sums, dict)
        and all(re.fullmatch(r"[a-z]+\.npy", name) and counts(value) for name, value in sums.items())
    )


def _is_reading(about: Any) -> bool:
    """Whether it could be what is kept of a :class:`~maxmargin.distributed.sources.Reading`."""
    if not isinstance(about, dict):
        return False
    texts, flags = ("label", "query"), ("queries", "whole_queries", "zero_based")
    features, kinds = about.get("features"), about.get("kinds")
    return (
        all(isinstance(about.get(name), str | None) for name in texts)
        and all(isinstance(about.get(name, False), bool) for name in flags)
        and (features is None or (isinstance(features, list) and all(isinstance(name, str) for name in features)))
        and (kinds is None or (isinstance(kinds, list) and all(map(_is_kind, kinds))))
    )


def _is_kind(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    return pair[1] == "boolean" or (isinstance(pair[1], list) and all(isinstance(text, str) for text in pair[1]))


def packed_reading(folder: str | os.PathLike[str]) -> Reading:
    """How the files of a packed shard were read; the defaults if it was made of none, or by another version."""
    about = read_meta(folder).get("reading") or {}
    fields = ("queries", "zero_based", "label", "query", "features", "kinds")
    found = {name: about[name] for name in fields if name in about}
    if found.get("features") is not None:
        found["features"] = tuple(found["features"])
    if found.get("kinds") is not None:
        found["kinds"] = tuple((name, kind if kind == "boolean" else tuple(kind)) for name, kind in found["kinds"])
    return Reading(**found)


def _reading(meta: Mapping[str, Any]) -> Reading:
    about = meta.get("reading") or {}
    return Reading(queries=bool(about.get("queries")), whole_queries=bool(about.get("whole_queries", True)))


# ---- where rows come from ------------------------------------------------------------------------------------------------------


def origin_of(source: PartsOfFiles | None) -> dict[str, Any]:
    """What is kept about where rows come from."""
    if source is None:
        return {"source": [], "reading": None}
    entries = [{**_here(part)._asdict(), "crc32": checksum(part, source.reading)} for part in source.parts]
    for entry in entries:
        if (beside := _queries_beside(entry["file"])) is not None:
            entry["queries"] = beside
    return {"source": entries, "reading": as_json(source.reading)}


def _queries_beside(file: str) -> int | None:
    """The CRC-32 of the file with the sizes of the queries of another; None if there is none."""
    side = None if is_url(file) else file_of_queries(file)
    return None if side is None else zlib.crc32(Path(side).read_bytes())


def packing_of(sources: Sequence[PartsOfFiles]) -> str:
    """A name for the packing of files in just these parts, read in this way."""
    parts = [[_here(part)._asdict() for part in source.parts] for source in sources]
    return hashlib.blake2b(json.dumps([parts, as_json(sources[0].reading)]).encode(), digest_size=16).hexdigest()


def _here(part: Part) -> Part:
    """The part, with the whole name of its file: somebody else may look for it from another folder."""
    return part if is_url(part.file) else part._replace(file=os.path.abspath(part.file))


def as_json(reading: Reading) -> Any:
    """How files are read, as it is written down."""
    about = {name: value for name, value in asdict(reading).items() if name != "asked_by"}
    return json.loads(json.dumps(about))


def changed_source(meta: Mapping[str, Any], *, thorough: bool = False) -> str | None:
    """What has changed about the files that a packed shard was made from; None if nothing has.

    By their size and time. Where only the time is another one, or if ``thorough``, the bytes are read and their CRC-32 compared,
    but for Parquet. Files that are not there, and URLs, do not count.
    """
    for entry in meta["source"]:
        part = Part(*(entry[key] for key in Part._fields))
        if is_url(part.file) or not os.path.exists(part.file):
            continue
        now = stamp(part.file)
        if now.bytes != part.bytes:
            return f"{part.file} has {now.bytes} bytes now, and had {part.bytes} when it was packed"
        if thorough or now.modified != part.modified:
            found = checksum(part, _reading(meta))
            if found != entry["crc32"] or (found is None and now.modified != part.modified):
                return f"{part.file} has been modified since it was packed"
        if _queries_beside(part.file) != entry.get("queries"):
            return f"the sizes of the queries beside {part.file} have been modified since it was packed"
    return None


def is_fresh(folder: str | os.PathLike[str], source: PartsOfFiles) -> bool:
    """Whether a folder is a packed shard of just these parts of files, as they are now, and read in this way."""
    try:
        meta = read_meta(folder)
    except (OSError, SavedFileError):
        return False
    ours = [_here(part)._replace(modified=None) for part in source.parts]
    theirs = [Part(*(entry[key] for key in Part._fields))._replace(modified=None) for entry in meta["source"]]
    if ours != theirs or meta.get("reading") != as_json(source.reading):
        return False
    # Of files elsewhere nothing is known but what the source has been told.
    remote = [k for k, part in enumerate(source.parts) if is_url(part.file)]
    same = all(meta["source"][k]["modified"] == source.parts[k].modified for k in remote)
    return same and changed_source(meta) is None
