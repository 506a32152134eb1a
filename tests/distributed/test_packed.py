"""Packed shards: the rows that went in, mapped; never half written; told apart from what their files have become."""

import json
import mmap
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from maxmargin.core import sum_of_rows, times
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.distributed import (
    CachedRows,
    LocalEngine,
    PackedRows,
    Rows,
    ShardOf,
    open_packed,
    pack,
    packed,
    packing,
    read_meta,
    row_sources,
    share_out,
)
from maxmargin.distributed.packed import check_packed, make_dense, write_packed
from maxmargin.distributed.packed_meta import changed_source, is_fresh
from maxmargin.io import DataError, SavedFileError, load_svmlight, query_offsets
from maxmargin.ranking import RankingProblem, ranking_loss
from maxmargin.ranking.shards import ShardedRanking


def letor(queries=12, size=8, width=5, density=1.0, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for q in range(queries):
        for _ in range(size):
            columns = np.flatnonzero(rng.random(width) < density) + 1
            lines.append(f"{rng.integers(0, 3)} qid:{q} " + " ".join(f"{column}:{rng.normal():.5g}" for column in columns))
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.svm"
    path.write_bytes(letor())
    return str(path)


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


# ---- what goes in comes out ---------------------------------------------------------------------------------------------------


@given(
    X=st.sampled_from([np.float32, np.float64]).flatmap(
        lambda dtype: arrays.arrays(dtype, st.tuples(st.integers(0, 6), st.integers(0, 4)), elements=st.floats(width=32))
    ),
    is_sparse=st.booleans(),
    kind=st.sampled_from(["none", "numbers", "texts"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
def test_round_trip(tmp_path, X, is_sparse, kind):
    n = len(X)
    y = np.arange(n) - 1.5
    names = {"none": None, "numbers": [k - 2 for k in range(n)], "texts": [f"ä{k}" for k in range(n)]}[kind]
    offsets = None if names is None else np.arange(n + 1)
    given_X = sparse.csr_array(X) if is_sparse else X
    folder = tmp_path / "a.mmshard"
    write_packed(folder, Rows(given_X, y, offsets, names))
    rows = pickle.loads(pickle.dumps(PackedRows(str(folder)))).load_rows()
    found = rows.X.toarray() if is_sparse else rows.X
    assert sparse.issparse(rows.X) == is_sparse and found.dtype == X.dtype and found.shape == X.shape
    # Minus zeros are not stored in sparse rows.
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(rows.y, y)
    assert rows.names == names and (rows.offsets is None) == (offsets is None)
    if offsets is not None:
        np.testing.assert_array_equal(rows.offsets, offsets)
    check_packed(folder)


def test_the_folder(tmp_path):
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    meta = write_packed(tmp_path / "a.mmshard", Rows(X, np.ones(3), np.array([0, 1, 3]), [7, 9]))
    assert sorted(os.listdir(tmp_path)) == ["a.mmshard"]
    assert sorted(os.listdir(tmp_path / "a.mmshard")) == ["meta.json", "offsets.npy", "qid.npy", "x.npy", "y.npy"]
    assert json.loads((tmp_path / "a.mmshard" / "meta.json").read_text()) == meta
    assert {key: meta[key] for key in ("format", "rows", "features", "dtype", "sparse", "queries", "source")} == {
        "format": 1, "rows": 3, "features": 2, "dtype": "float32", "sparse": False, "queries": 2, "source": [],
    }  # fmt: skip
    assert np.array_equal(np.load(tmp_path / "a.mmshard" / "x.npy"), X)
    write_packed(tmp_path / "b.mmshard", Rows(sparse.csr_array(X), np.ones(3), None, None))
    names = ("data", "indices", "indptr", "y", "offsets")
    kinds = {name: np.load(tmp_path / "b.mmshard" / f"{name}.npy").dtype for name in names}
    assert kinds == {"data": np.float32, "indices": np.int32, "indptr": np.int64, "y": np.float64, "offsets": np.int64}
    assert not (tmp_path / "b.mmshard" / "qid.npy").exists()
    with pytest.raises(ValueError, match=r"must end in \.mmshard"):
        write_packed(tmp_path / "c", Rows(X, np.ones(3), None, None))


def test_rows_are_mapped_and_products_work(tmp_path):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((3000, 120)) < 0.3, rng.normal(size=(3000, 120)), 0).astype(np.float32)
    weights, coefficients = rng.normal(size=120), rng.normal(size=3000)
    for k, given_X in enumerate((X, sparse.csr_array(X))):
        write_packed(tmp_path / f"{k}.mmshard", Rows(given_X, np.ones(3000), None, None))
        rows = PackedRows(str(tmp_path / f"{k}.mmshard"), 130 if k else None).load_rows()
        if k:
            assert is_mapped(rows.X.data) and is_mapped(rows.X.indices) and rows.X.shape == (3000, 130)
        else:
            assert is_mapped(rows.X)
        wide = np.append(weights, np.zeros(10)) if k else weights
        np.testing.assert_allclose(times(rows.X, wide), X.astype(float) @ weights, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(sum_of_rows(coefficients, rows.X)[:120], coefficients @ X.astype(float), rtol=1e-9, atol=1e-9)


# ---- packing ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["auto", "dense", "sparse"])
@pytest.mark.parametrize("density", [1.0, 0.1])
def test_pack(tmp_path, layout, density):
    path = tmp_path / "a.svm"
    # The last column is in the last lines alone.
    path.write_bytes(letor(density=density) + b"1 qid:99 11:4\n")
    made = pack(path, tmp_path / "packed", 4, layout=layout, dtype="float32")
    data = load_svmlight(path, dtype=np.float32)
    assert (made.shards, made.kept, made.rows, made.features, made.queries, made.dtype) == (4, 0, len(data), 11, 13, "float32")
    assert made.sparse == (layout == "sparse" or (layout == "auto" and density < 0.5))
    rows = [source.load_rows() for source in open_packed(tmp_path / "packed")]
    assert all(part.X.shape[1] == 11 and sparse.issparse(part.X) == made.sparse for part in rows)
    X = np.concatenate([part.X.toarray() if made.sparse else part.X for part in rows])
    np.testing.assert_array_equal(X, data.X.toarray())
    np.testing.assert_array_equal(np.concatenate([part.y for part in rows]), data.y)
    assert [name for part in rows for name in part.names] == data.query_names
    for folder in (tmp_path / "packed").iterdir():
        check_packed(folder)
    assert made.bytes == sum(entry.stat().st_size for entry in (tmp_path / "packed").rglob("*.*") if entry.is_file())


def test_an_interrupted_run_goes_on(tmp_path, file, monkeypatch):
    written = []
    write = packing.write_packed

    def stopped(place, *args):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(place)
        return write(place, *args)

    monkeypatch.setattr(packing, "write_packed", stopped)
    with pytest.raises(KeyboardInterrupt):
        pack(file, tmp_path / "packed", 5)
    with pytest.raises(DataError, match="holds 2 of 5 shards; run maxmargin pack again"):
        open_packed(tmp_path / "packed")
    monkeypatch.setattr(packing, "write_packed", write)
    told = []
    made = pack(file, tmp_path / "packed", 5, tell=told.append)
    assert made.kept == 2 and made.rows == 96 and any("shard 5 of 5" in text for text in told)
    assert pack(file, tmp_path / "packed", 5).kept == 5
    # Other ways to read are other shards.
    assert pack(file, tmp_path / "packed", 5, dtype="float32").kept == 0
    assert pack(file, tmp_path / "packed", 5, dtype="float32", layout="sparse").kept == 0
    with pytest.raises(DataError, match=r"holds 00000-of-00005\.mmshard of another packing; choose an empty folder"):
        pack(file, tmp_path / "packed", 4)


def test_dense_rows_made_half_way(tmp_path, file, monkeypatch):
    make, made = packing.make_dense, []

    def stopped(place, width):
        if made:
            raise KeyboardInterrupt
        made.append(make(place, width))

    monkeypatch.setattr(packing, "make_dense", stopped)
    with pytest.raises(KeyboardInterrupt):
        pack(file, tmp_path / "packed", 3)
    assert len({read_meta(path)["sparse"] for path in (tmp_path / "packed").iterdir()}) == 2
    with pytest.raises(DataError, match="differ in precision, layout, queries or columns"):
        open_packed(tmp_path / "packed")
    monkeypatch.setattr(packing, "make_dense", make)
    done = pack(file, tmp_path / "packed", 3)
    assert done.kept == 3 and not done.sparse and len(open_packed(tmp_path / "packed")) == 3


def test_killed_in_the_middle(tmp_path, file):
    # A process that dies while it writes the second shard: what is there is whole, and the next run takes it.
    script = (
        "import os, signal, sys\nfrom maxmargin.distributed import packed, packing\nwrite, count = packed._write_array, []\n"
        "def dying(*args):\n    count.append(1)\n    if len(count) == 9:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return write(*args)\n"
        "packed._write_array = dying\npacking.pack(sys.argv[1], sys.argv[2], 3, layout='sparse')\n"
    )
    folder = tmp_path / "packed"
    done = subprocess.run([sys.executable, "-c", script, file, str(folder)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    left = sorted(os.listdir(folder))
    assert [name for name in left if not name.startswith(".")] == ["00000-of-00003.mmshard"] and len(left) == 2
    stale = next(folder / name for name in left if name.startswith("."))
    os.utime(stale, (time.time() - 7200,) * 2)
    assert pack(file, folder, 3, layout="sparse").kept == 1
    assert sorted(os.listdir(folder)) == [f"0000{k}-of-00003.mmshard" for k in range(3)]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    rows = Rows(np.ones((2, 2)), np.ones(2), None, None)
    write_packed(tmp_path / "a.mmshard", rows)
    monkeypatch.setattr(packed, "_write_array", full)
    with pytest.raises(OSError, match="No space"):
        write_packed(tmp_path / "a.mmshard", rows._replace(X=np.zeros((2, 2))))
    assert os.listdir(tmp_path) == ["a.mmshard"]
    assert (PackedRows(str(tmp_path / "a.mmshard")).load_rows().X == 1).all()


def test_where_there_is_no_room_is_said(tmp_path):
    def full():
        yield np.ones((1, 2))
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device; make room, or write somewhere else") as caught:
        packed._write_array(tmp_path / "x.npy", (2, 2), "<f8", full())
    assert caught.value.filename == str(tmp_path / "x.npy")


def test_shards_of_two_packings_are_not_mixed(tmp_path, monkeypatch):
    """One that was made again, but not to its end."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("grade,other,x\n" + "".join(f"{k % 2},{k % 3},{k}\n" for k in range(40)))
    files, folder = [tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "packed"
    pack(files, folder, 2, label="grade")
    write = packing.write_packed

    def stopped(place, *args):
        if place.name.startswith("00001"):
            raise KeyboardInterrupt
        return write(place, *args)

    for changed in ({"label": "other"}, {"label": "grade", "drop": ["other"]}):
        monkeypatch.setattr(packing, "write_packed", stopped)
        with pytest.raises(KeyboardInterrupt):
            pack(files, folder, 2, **changed)
        with pytest.raises(DataError, match=r"shards are of several packings.*run maxmargin pack again|differ in precision"):
            open_packed(folder)
        monkeypatch.setattr(packing, "write_packed", write)
        assert pack(files, folder, 2, **changed).kept == 1 and len(open_packed(folder)) == 2
    # A shard that is as it should be is kept, whatever packing it was of.
    (tmp_path / "c.csv").write_text((tmp_path / "a.csv").read_text())
    assert pack([tmp_path / "a.csv", tmp_path / "c.csv"], folder, 2, **changed).kept == 1
    assert len({read_meta(path)["packing"] for path in folder.iterdir()}) == 1 and len(open_packed(folder)) == 2
    assert not list(folder.rglob("*.tmp"))


def test_sizes_of_queries_beside_a_file_that_changed(tmp_path):
    (tmp_path / "a.svm").write_text("".join(f"{k % 2} 1:{k}\n" for k in range(12)))
    beside = tmp_path / "a.svm.query"
    beside.write_text("6\n6\n")
    assert pack(tmp_path / "a.svm", tmp_path / "packed").queries == 2
    assert pack(tmp_path / "a.svm", tmp_path / "packed").kept == 1
    beside.write_text("4\n8\n")
    with pytest.raises(DataError, match=r"the sizes of the queries beside .*a\.svm have been modified since it was packed"):
        open_packed(tmp_path / "packed")
    assert pack(tmp_path / "a.svm", tmp_path / "packed").kept == 0
    assert PackedRows(str(tmp_path / "packed" / "00000-of-00001.mmshard")).load_rows().offsets.tolist() == [0, 4, 12]


def test_files_without_samples(tmp_path):
    (tmp_path / "a.svm").write_bytes(b"# nothing\n")
    with pytest.raises(DataError, match="no samples in the files"):
        pack(tmp_path / "a.svm", tmp_path / "packed")


def test_queries_that_go_on_and_that_come_back(tmp_path):
    (tmp_path / "a.svm").write_bytes(b"1 qid:1 1:1\n1 qid:2 1:2\n")
    (tmp_path / "b.svm").write_bytes(b"0 qid:2 1:3\n0 qid:3 1:4\n")
    assert pack([tmp_path / "a.svm", tmp_path / "b.svm"], tmp_path / "packed", 2).queries == 3
    assert pack([tmp_path / "a.svm", tmp_path / "b.svm"], tmp_path / "cut", 4, whole_queries=False).queries == 3
    (tmp_path / "c.svm").write_bytes(b"0 qid:1 1:5\n")
    with pytest.raises(DataError, match=r"c\.svm: query 1 has appeared in a shard before, with others in between; put"):
        pack(tmp_path / "[abc].svm", tmp_path / "more", 5)
    with pytest.raises(DataError, match=r"holds . of . shards"):
        open_packed(tmp_path / "more")
    # A shard that holds none is no end of a query.
    (tmp_path / "d.svm").write_bytes(b"1 qid:1 1:1\n" + b"# nothing\n" * 9 + b"1 qid:1 1:2\n")
    assert pack(tmp_path / "d.svm", tmp_path / "gap", 9, whole_queries=False).queries == 1


def test_tables(tmp_path):
    rows = [f"{k % 2},{k // 5},{k},{-k}" for k in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["grade,who,a,b", *rows]))
    made = pack(tmp_path / "a.csv", tmp_path / "packed", label="grade", query="who")
    assert (made.shards, made.rows, made.features, made.queries, made.sparse) == (1, 40, 2, 8, False)
    (rows,) = [source.load_rows() for source in open_packed(tmp_path / "packed")]
    assert rows.names == list(range(8)) and rows.X[3].tolist() == [3, -3]
    assert pack(tmp_path / "a.csv", tmp_path / "packed", label="grade", query="who").kept == 1
    assert pack(tmp_path / "a.csv", tmp_path / "packed", label="grade", drop=["who"]).kept == 0
    with pytest.raises(DataError, match="tables have dense rows"):
        pack(tmp_path / "a.csv", tmp_path / "packed", label="grade", layout="sparse")


def test_too_much_for_a_shard(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "MAX_SAMPLES", 5)
    with pytest.raises(DataError, match="holds at most 5, but has 6 rows; make more shards"):
        write_packed(tmp_path / "a.mmshard", Rows(np.ones((6, 1)), np.ones(6), None, None))
    with pytest.raises(DataError, match="has 6 numbers in sparse rows; make more shards"):
        write_packed(tmp_path / "a.mmshard", Rows(sparse.csr_array(np.ones((2, 3))), np.ones(2), None, None))
    monkeypatch.setattr(packed, "_NAME_BYTES", 100)
    with pytest.raises(DataError, match="2 names of queries with up to 30 letters are too long; number the queries"):
        write_packed(tmp_path / "a.mmshard", Rows(np.ones((2, 1)), np.ones(2), np.arange(3), ["a", "b" * 30]))
    assert os.listdir(tmp_path) == []


# ---- what has changed ---------------------------------------------------------------------------------------------------------


def test_sources_that_changed(tmp_path, file):
    pack(file, tmp_path / "packed", 3)
    content = Path(file).read_bytes()
    first, *_, last = sorted((tmp_path / "packed").iterdir())
    assert changed_source(read_meta(first)) is None and len(open_packed(tmp_path / "packed")) == 3

    # Longer: all shards are of another file.
    Path(file).write_bytes(content + b"1 qid:99 1:1\n")
    assert "bytes now, and had" in changed_source(read_meta(first))
    with pytest.raises(DataError, match=r"00000-of-00003\.mmshard: .*a\.svm has \d+ bytes now, and had \d+ when it was packed"):
        open_packed(tmp_path / "packed")
    assert len(open_packed(tmp_path / "packed", check_source=False)) == 3
    assert pack(file, tmp_path / "packed", 3).kept == 0

    # Touched, but the same.
    Path(file).write_bytes(content)
    pack(file, tmp_path / "packed", 3)
    os.utime(file, ns=(1, 1))
    assert changed_source(read_meta(first)) is None and pack(file, tmp_path / "packed", 3).kept == 3

    # As long as before: shards in whose bytes nothing changed are kept.
    at = content.rindex(b":")
    Path(file).write_bytes(content[: at + 1] + b"7" + content[at + 2 :])
    assert changed_source(read_meta(first)) is None
    assert "has been modified since" in changed_source(read_meta(last))
    assert pack(file, tmp_path / "packed", 3).kept == 2

    # As long as before, and with the time of before: only those who read it notice.
    before = os.stat(file).st_mtime_ns
    Path(file).write_bytes(content)
    os.utime(file, ns=(before, before))
    assert changed_source(read_meta(last)) is None
    assert "has been modified" in changed_source(read_meta(last), thorough=True)
    with pytest.raises(DataError, match="has been modified since it was packed; pack it again"):
        check_packed(last)

    # Gone: the shards stand for themselves.
    os.remove(file)
    assert len(open_packed(tmp_path / "packed")) == 3


def test_parquet_by_size_and_time(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"y": [1.0, 0.0], "a": [3.0, 4.0]}), path)
    pack(path, tmp_path / "packed", label="y")
    (folder,) = (tmp_path / "packed").iterdir()
    assert read_meta(folder)["source"][0]["crc32"] is None and read_meta(folder)["source"][0]["last"] == 1
    check_packed(folder)
    os.utime(path, ns=(1, 1))
    assert "has been modified" in changed_source(read_meta(folder))


def damage(path, place=-3):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x55
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["x", "y", "offsets", "qid"])
def test_damaged_arrays_are_found_on_demand(tmp_path, file, name):
    pack(file, tmp_path / "packed", 1)
    (folder,) = (tmp_path / "packed").iterdir()
    damage(folder / f"{name}.npy")
    with pytest.raises(SavedFileError, match=rf"{name}\.npy: is damaged, its check sum is another one; pack its source again"):
        check_packed(folder)
    os.remove(folder / f"{name}.npy")
    with pytest.raises(SavedFileError, match=rf"{name}\.npy: is missing"):
        PackedRows(str(folder)).load_rows()
    with pytest.raises(SavedFileError, match=rf"{name}\.npy: is missing"):
        check_packed(folder)


@pytest.mark.parametrize(
    ("name", "array", "problem"),
    [
        ("x", np.ones((96, 4)), r"holds float64 of shape \(96, 4\), which meta\.json does not say"),
        ("x", np.ones((96, 5), dtype=np.float32), "holds float32"),
        ("y", np.ones(95), "holds float64 of shape"),
        ("qid", np.ones(12), "holds float64"),
        ("offsets", np.zeros(13, dtype=np.int64), "queries do not begin one after the other"),
        ("indptr", np.arange(97)[::-1].copy(), "rows do not begin one after the other"),
        ("indices", np.full(480, 5, dtype=np.int32), "has columns beyond the 5 of the shard"),
        ("indices", np.full(480, -1, dtype=np.int32), "has columns beyond"),
        ("data", np.array([object()]), "is damaged"),
        ("x", b"no array", "is damaged"),
        ("x", "cut", "is damaged"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, file, name, array, problem):
    pack(file, tmp_path / "packed", 1, layout="sparse" if name in ("indptr", "indices", "data") else "dense")
    (folder,) = (tmp_path / "packed").iterdir()
    path = folder / f"{name}.npy"
    if isinstance(array, bytes):
        path.write_bytes(array)
    elif isinstance(array, str):
        os.truncate(path, 1000)
    else:
        np.save(path, array, allow_pickle=True)
    with pytest.raises(SavedFileError, match=problem):
        PackedRows(str(folder)).load_rows()


@pytest.mark.parametrize(
    ("meta", "problem"),
    [
        (b"{", "not sound JSON"), (b"[1]", "has no format"), (b"{}", "has no format"), (b'{"format": 2}', "up to 1; upgrade"),
        (b'{"format": 1}', "lacks something"), (b"[" * 100_000, "not sound JSON"), (b"\xff", "not sound JSON"),
    ],
)  # fmt: skip
def test_bad_descriptions(tmp_path, meta, problem):
    folder = tmp_path / "a.mmshard"
    folder.mkdir()
    with pytest.raises(SavedFileError, match=r"has no meta\.json, so it is no packed shard"):
        read_meta(folder)
    (folder / "meta.json").write_bytes(meta)
    with pytest.raises(SavedFileError, match=problem):
        read_meta(folder)


def test_every_entry_of_the_description_is_needed(tmp_path, file):
    pack(file, tmp_path / "packed", 1)
    (folder,) = (tmp_path / "packed").iterdir()
    meta = read_meta(folder)
    for key in ("rows", "features", "dtype", "sparse", "queries", "source", "crc32"):
        for other in ("x", -1, {"x": 1}, [1]):
            (folder / "meta.json").write_text(json.dumps({**meta, key: other}))
            with pytest.raises(SavedFileError, match="lacks something"):
                read_meta(folder)
        (folder / "meta.json").write_text(json.dumps({name: meta[name] for name in meta if name != key}))
        with pytest.raises(SavedFileError, match="lacks something"):
            read_meta(folder)


def test_entries_of_the_description_have_kinds(tmp_path, file):
    pack(file, tmp_path / "packed", 1)
    (folder,) = (tmp_path / "packed").iterdir()
    meta = read_meta(folder)
    (entry,) = meta["source"]
    bad = [{**entry, name: value} for name, value in (
        ("file", 7), ("first", "a"), ("last", None), ("modified", [1]), ("crc32", "x"), ("queries", "x"), ("bytes", -1)
    )]  # fmt: skip
    changes = [{"source": [one]} for one in bad] + [{"packing": 3}, {"reading": "x"}, {"reading": {"features": [1]}}]
    changes += [{"reading": {**meta["reading"], **one}} for one in ({"label": 1}, {"queries": 1}, {"kinds": [["a", "b"]]})]
    for change in changes:
        (folder / "meta.json").write_text(json.dumps({**meta, **change}))
        with pytest.raises(SavedFileError, match="lacks something"):
            read_meta(folder)


def test_folders_that_are_none(tmp_path, file):
    with pytest.raises(FileNotFoundError, match="shared file system"):
        open_packed(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="shared file system"):
        PackedRows(str(tmp_path / "nothing.mmshard")).load_rows()
    with pytest.raises(DataError, match="holds no packed shard; pack files into it"):
        open_packed(tmp_path)
    pack(file, tmp_path / "packed", 2)
    shutil.copytree(tmp_path / "packed" / "00000-of-00002.mmshard", tmp_path / "packed" / "more.mmshard")
    with pytest.raises(DataError, match="shards of several packings"):
        open_packed(tmp_path / "packed")
    assert len(open_packed(tmp_path / "packed" / "more.mmshard")) == 1
    with pytest.raises(SavedFileError, match="has 5 features, but 4 are expected"):
        PackedRows(str(tmp_path / "packed" / "more.mmshard"), 4).load_rows()


def test_wider(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    for k, rows in enumerate((X, sparse.csr_array(X))):
        folder = tmp_path / f"{k}.mmshard"
        write_packed(folder, Rows(rows, np.ones(3), None, None))
        meta = make_dense(folder, 4)
        assert meta["features"] == 4 and not meta["sparse"]
        assert PackedRows(str(folder)).load_rows().X.tolist() == [[0, 1, 0, 0], [2, 3, 0, 0], [4, 5, 0, 0]]
        check_packed(folder)


# ---- the cache of a worker ----------------------------------------------------------------------------------------------------


def test_cache(tmp_path, file, monkeypatch):
    sources = [CachedRows(source, str(tmp_path / "cache")) for source in share_out(file, 3)]
    plain = [source.source.load_rows() for source in sources]
    for _ in range(2):
        for source, expected in zip(sources, plain, strict=True):
            rows = pickle.loads(pickle.dumps(source)).load_rows()
            np.testing.assert_array_equal(rows.X.toarray(), expected.X.toarray())
            assert is_mapped(rows.X.data) and rows.names == expected.names and source.describe() == source.source.describe()
        assert len(os.listdir(tmp_path / "cache")) == 3
        # From now on files are not read.
        monkeypatch.setattr("maxmargin.distributed.sources._load", None)
    # Nor where columns are added.
    assert sources[0].with_features(9).load_rows().X.shape[1] == 9 and len(os.listdir(tmp_path / "cache")) == 3
    assert sources[0].size > 0
    monkeypatch.undo()
    content = Path(file).read_bytes()
    Path(file).write_bytes(content.replace(b"qid:0 1:", b"qid:0 2:", 1))
    with pytest.raises(DataError, match="occurs twice"):
        sources[0].load_rows()


def test_two_who_write_the_same(tmp_path, file, monkeypatch):
    (source,) = share_out(file, 1)
    target = tmp_path / "a.mmshard"
    write_packed(target, source.load_rows(), source)
    assert is_fresh(target, source) and not is_fresh(tmp_path / "b.mmshard", source)
    cached = CachedRows(source, str(tmp_path / "cache"))
    write = packed.write_packed

    def beaten(place, rows, plain):
        write(place, rows, plain)
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(packed, "write_packed", beaten)
    assert len(cached.load_rows().y) == 96


# ---- training -----------------------------------------------------------------------------------------------------------------


def test_training_from_files_and_from_packed_shards(tmp_path):
    path = tmp_path / "a.svm"
    path.write_bytes(letor(queries=30, density=0.6))
    data = load_svmlight(path)
    alone = RankingProblem(data.X, data.y > 0, ranking_loss("ap"), query_offsets(data.qid, len(data))[1])
    expected = OneSlackCuttingPlane().solve(alone, 0.01)
    pack(path, tmp_path / "sparse", 3, layout="sparse")
    pack(path, tmp_path / "dense", 4, layout="dense")
    kinds = {
        "files": row_sources(path, 5), "cache": row_sources(path, 5, cache=tmp_path / "cache"),
        "sparse": row_sources(tmp_path / "sparse"), "dense": row_sources(str(tmp_path / "dense")),
    }  # fmt: skip
    for name, sources in kinds.items():
        engine = LocalEngine([pickle.loads(pickle.dumps(ShardOf(source, "ranking"))) for source in sources])
        found = OneSlackCuttingPlane().solve(ShardedRanking(engine, "ap"), 0.01)
        assert found.certified and found.primal == pytest.approx(expected.primal, rel=1e-9), name
    with pytest.raises(DataError, match="holds packed shards, for which shards says nothing; leave out shards"):
        row_sources(tmp_path / "dense", 3)
