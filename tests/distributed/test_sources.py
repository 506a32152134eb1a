"""Files shared out among shards: every row and every query once, whatever the cuts; what is wrong with files is said."""

import bz2
import gzip
import io
import os
import pickle
import re
import sys
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxmargin.distributed import Reading, share_out
from maxmargin.distributed.sources import Part, PartsOfFiles
from maxmargin.io import DataError, FeatureIndexError, expand, glance, load_svmlight, load_svmlight_part, load_table, owned
from maxmargin.io.byte_ranges import line_start, query_start

# A byte order mark, comments that look like samples, blank lines, both line ends, tabs, names that begin alike, no end at last.
TRICKY = (
    b"\xef\xbb\xbf# head\n1 qid:7 1:1\n# 1 qid:8 1:1\n\n0\tqid:7\t2:2 # qid:9\r\n  2 qid:70 1:3\r\n\r\n0 qid:70#c\n"
    b"1 qid:x 1:1 2:5\n 0 qid:x 2:1\n1 qid:9 1:4"
)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return str(path)


def table_of(data):
    """Labels, names of queries and features of rows, from a file or from several shards in their order."""
    if hasattr(data, "qid"):
        names = None if data.qid is None else [str(data.query_names[code]) for code in data.qid]
        return data.y.tolist(), names, data.X.toarray().tolist()
    y = [label for rows in data for label in rows.y.tolist()]
    X = [row for rows in data for row in (rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X).tolist()]
    if data[0].offsets is None:
        return y, None, X
    names = [str(name) for rows in data for name, n in zip(rows.names, np.diff(rows.offsets), strict=True) for _ in range(n)]
    return y, names, X


def loaded(sources):
    return [pickle.loads(pickle.dumps(source)).load_rows() for source in sources]


# ---- bytes --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [True, False])
def test_every_split_into_three_has_every_row_once(tmp_path, queries):
    path, size = write(tmp_path, "a.svm", TRICKY), len(TRICKY)
    expected = table_of(load_svmlight(path))
    parts = {}
    for first in range(size + 1):
        for last in range(first, size + 1):
            # Parts are read once for every stretch of lines, of which there are few.
            with open(path, "rb") as file:
                key = owned(file, first, last, size, queries)
            if key[0] == key[1]:
                key = (0, 0)
            if key not in parts:
                parts[key] = load_svmlight_part(path, first, last, size, queries=queries, n_features=2, n_threads=1)
            parts[first, last, "key"] = key
    seen = set()
    for first in range(size + 1):
        for last in range(first, size + 1):
            keys = tuple(parts[(*cut, "key")] for cut in ((0, first), (first, last), (last, size)))
            if keys in seen:
                continue
            seen.add(keys)
            three = [parts[key] for key in keys]
            found = [table_of(part) for part in three]
            assert tuple(list(chain(*(part[k] or [] for part in found))) for k in range(3)) == expected, (first, last)
            if queries:
                names = [name for part in three for name in part.query_names or []]
                assert len(names) == len(set(names)), (first, last)
    assert len(seen) > 10


def test_a_query_belongs_to_the_part_in_which_it_begins():
    file = io.BytesIO(TRICKY)
    lines = (b"1 qid:7", b"  2 qid:70", b"1 qid:x", b"1 qid:9 1:4")
    begins = [*map(TRICKY.index, lines), len(TRICKY)]
    for place in range(len(TRICKY) + 1):
        expected = 0 if place == 0 else next(begin for begin in begins if begin >= place)
        found = query_start(file, place, len(TRICKY))
        # Lines without samples may go to either side, rows may not.
        between = TRICKY[min(found, expected) : max(found, expected)]
        assert all(not line.strip() or line.startswith(b"#") for line in between.splitlines()), place


LINES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["1", "0.5", " 2"]), st.integers(0, 3), st.sampled_from(["", " 1:1", "\t3:2 # qid:5", "#"])),
        st.sampled_from(["", "# c", "#1 qid:9", "   "]),
    ),
    max_size=12,
)


@given(lines=LINES, ends=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), cuts=st.lists(st.integers(0, 10**6), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
def test_random_files_and_cuts(tmp_path, lines, ends, last, cuts):
    texts, query = [], 0
    for line in lines:
        if not isinstance(line, str):
            query += line[1] % 2
            line = f"{line[0]} qid:q{query}{line[2]}"
        texts.append(line)
    content = (ends.join(texts) + (ends if last else "")).encode()
    path, size = write(tmp_path, "a.svm", content), len(content)
    whole = load_svmlight_part(path, 0, size, size, queries=True, n_features=3, n_threads=1)
    places = sorted({0, size, *(cut % (size + 1) for cut in cuts)})
    for queries in (True, False):
        found = [
            table_of(load_svmlight_part(path, a, b, size, queries=queries, n_features=3, n_threads=1))
            for a, b in pairwise(places)
        ]
        expected = table_of(whole)
        for k in range(3):
            assert list(chain(*(part[k] or [] for part in found))) == (expected[k] or [])


def test_a_cut_far_behind_the_last_sample(tmp_path, monkeypatch):
    # What is between is longer than the first look back, and than a block.
    from maxmargin.io import byte_ranges

    monkeypatch.setattr(byte_ranges, "_BACK", 16)
    monkeypatch.setattr(byte_ranges, "_BLOCK", 32)
    long = b"1 qid:7 " + b" ".join(b"%d:1" % k for k in range(1, 90)) + b"\n"
    content = long + b"# " + b"x" * 500 + b"\n" + long + long.replace(b":7", b":8")
    path, size = write(tmp_path, "a.svm", content), len(content)
    for cut in range(0, size, 7):
        first, second = (load_svmlight_part(path, *part, size, queries=True) for part in ((0, cut), (cut, size)))
        assert (len(first), len(second)) == ((0, 3) if cut == 0 else (2, 1) if cut <= size - len(long) else (3, 0)), cut
    assert line_start(io.BytesIO(content), size - 1, size) == size


def test_errors_have_the_line_of_the_whole_file(tmp_path):
    # Behind what is looked at before files are shared out.
    good = b"".join(b"1 qid:%d 1:1\n" % k for k in range(8000))
    path = write(tmp_path, "a.svm", good + b"1 qid:9000 1:x\n" + b"1 qid:9001 1:1\n" * 5)
    sources = share_out(path, 4)
    with pytest.raises(DataError, match=r"a\.svm, line 8001: value of feature 1 'x'"):
        sources[3].load_rows()
    path = write(tmp_path, "b.svm", good + b"1 qid:7999 5:1\n")
    with pytest.raises(FeatureIndexError, match=r"line 8001: feature index 5 is beyond n_features=2") as raised:
        share_out(path, 4, n_features=2)[3].load_rows()
    assert raised.value.line == 8001
    path = write(tmp_path, "c.svm", good + b"1 qid:7999 5:1\n1 qid:7000 5:1\n")
    with pytest.raises(DataError, match=r"line 8002: the query has appeared before.*sort the file"):
        share_out(path, 4)[3].load_rows()
    path = write(tmp_path, "d.svm", good + b"\xef\xbb\xbf1 qid:9000 1:1\n")
    with pytest.raises(DataError, match="line 8001: label"):
        share_out(path, 4)[3].load_rows()
    # What is wrong in the first lines is known at once.
    with pytest.raises(DataError, match=r"e\.svm, line 2: label"):
        share_out(write(tmp_path, "e.svm", b"1 1:1\n?\n" + good))


def test_a_query_longer_than_several_parts(tmp_path):
    content = b"1 qid:1 1:1\n" * 3 + b"0 qid:2 1:2\n" * 500 + b"1 qid:3 1:3\n"
    path = write(tmp_path, "a.svm", content)
    rows = loaded(share_out(path, 10))
    assert sorted(len(part.y) for part in rows)[-1] >= 500 and sum(len(part.y) for part in rows) == 504
    assert [name for part in rows for name in part.names] == [1, 2, 3]
    assert [part.X.shape[0] for part in rows] == [len(part.y) for part in rows]
    # Cut where parts end, if asked.
    pieces = loaded(share_out(path, 10, whole_queries=False))
    assert max(len(part.y) for part in pieces) < 80 and [2] in [part.names for part in pieces]
    assert table_of(pieces) == table_of(rows)


# ---- many files ---------------------------------------------------------------------------------------------------------------


def letor(seed=0, queries=17, width=6, name="{}"):
    rng = np.random.default_rng(seed)
    lines = []
    for q in range(queries):
        for _ in range(int(rng.integers(1, 9))):
            columns = np.flatnonzero(rng.random(width) < 0.7) + 1
            values = " ".join(f"{column}:{rng.normal():.4g}" for column in columns)
            lines.append(f"{rng.integers(0, 3)} qid:{name.format(q)} {values}")
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("queries", [True, False])
def test_files_of_all_kinds_as_one(tmp_path, shards, queries):
    contents = [letor(seed, name=f"{seed}-{{}}") for seed in range(4)]
    if not queries:
        contents = [re.sub(rb"qid:\S+ ", b"", text) for text in contents]
    names = ["a.svm", "b.svm.gz", "c.txt.bz2", "d"]
    packers = [bytes, gzip.compress, bz2.compress, bytes]
    paths = [write(tmp_path, name, packer(text)) for name, packer, text in zip(names, packers, contents, strict=True)]
    expected = table_of(load_svmlight(b"\n".join(contents), n_features=6))
    sources = share_out(paths, shards, n_features=6, dtype="float64")
    assert len(sources) <= shards and all(len(pickle.dumps(source)) < 5000 for source in sources)
    assert table_of(loaded(sources)) == expected
    half = loaded(share_out(paths, shards, n_features=6, dtype="float32"))
    assert all(rows.X.dtype == np.float32 and rows.y.dtype == np.float64 for rows in half)
    assert np.array_equal(np.float32(table_of(half)[2]), np.float32(expected[2]))


def test_shares_are_about_equal(tmp_path):
    path = write(tmp_path, "a.svm", b"".join(b"1 qid:%d 1:1\n0 qid:%d 2:1\n" % (k, k) for k in range(5000)))
    rows = [len(part.y) for part in loaded(share_out(path, 8))]
    assert sum(rows) == 10_000 and min(rows) > 1100 and max(rows) < 1400


def test_columns_that_only_some_parts_have(tmp_path):
    path = write(tmp_path, "a.svm", b"1 1:1\n" * 50 + b"0 9:1\n")
    sources = share_out(path, 3)
    assert {rows.X.shape[1] for rows in loaded(sources)} == {1, 9}
    assert {rows.X.shape[1] for rows in loaded([source.with_features(9) for source in sources])} == {9}


def test_features_numbered_from_zero(tmp_path):
    zero = write(tmp_path, "a.svm", b"1 1:1\n" * 30 + b"0 0:1 1:2\n")
    found = loaded(share_out(zero, 3))
    assert all(rows.X.shape[1] == 2 for rows in found)  # seen in the first lines, also by parts that lack it
    assert table_of(found)[2] == load_svmlight(zero).X.toarray().tolist()
    # Not seen in the first lines: refused, never shifted.
    late = write(tmp_path, "b.svm", b"1 1:1\n" * 20_000 + b"0 0:1 1:2\n")
    with pytest.raises(DataError, match=r"line 20001: feature index 0.*pass zero_based=True"):
        loaded(share_out(late, 3))
    assert {rows.X.shape[1] for rows in loaded(share_out(late, 3, zero_based=True))} == {2}


def test_queries_beside_the_file(tmp_path):
    path = write(tmp_path, "a.svm", b"1 1:1\n0 1:2\n" * 50)
    write(tmp_path, "a.svm.query", b"40\n60\n")
    (rows,) = loaded(share_out(path, 5))  # nobody knows which line a byte is in
    assert rows.offsets.tolist() == [0, 40, 100] and rows.names == [1, 2]


def test_a_query_that_goes_on_in_the_next_file(tmp_path):
    one, two = write(tmp_path, "a.svm", b"1 qid:1 1:1\n1 qid:2 1:2\n"), write(tmp_path, "b.svm", b"0 qid:2 1:3\n0 qid:3 1:4\n")
    (rows,) = loaded(share_out([one, two], 1))
    assert rows.names == [1, 2, 3] and rows.offsets.tolist() == [0, 1, 3, 4]
    with pytest.raises(DataError, match=r"query 2 is in two files"):
        loaded(share_out([two, one], 1))
    # On several shards it has the same name on each.
    assert [rows.names for rows in loaded(share_out([one, two], 2))] == [[1, 2], [2, 3]]


def test_empty_and_nearly_empty_files(tmp_path):
    empty, comment = write(tmp_path, "a.svm", b""), write(tmp_path, "b.svm", b"# nothing\n\n")
    packed, one = write(tmp_path, "c.svm.gz", gzip.compress(b"")), write(tmp_path, "d.svm", b"1 qid:1 2:1")
    (rows,) = loaded(share_out([empty, comment, packed, one], 1))
    assert rows.y.tolist() == [1.0] and rows.names == [1] and rows.X.shape == (1, 2)
    assert sum(len(rows.y) for rows in loaded(share_out([empty, comment, packed, one], 30))) == 1
    (none,) = loaded(share_out(comment, 1))
    assert none.X.shape == (0, 0) and len(none.y) == 0 and none.offsets is None
    with pytest.raises(DataError, match=r"a\.svm is empty; samples are needed"):
        share_out(empty, 2)
    assert PartsOfFiles((), Reading()).load_rows().X.shape == (0, 0) and PartsOfFiles((), Reading()).describe() == "no file"


def test_glances():
    folder = os.path.dirname(__file__)
    with pytest.raises(FileNotFoundError, match="shared file system"):
        glance(os.path.join(folder, "no such file"))


# ---- tables -------------------------------------------------------------------------------------------------------------------


def frame(folder, name, rows, group=3):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"grade": [r[0] for r in rows], "who": [r[1] for r in rows], "a": [r[2] for r in rows], "b": [r[3] for r in rows]}
    path = str(folder / name)
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)
    return path


ROWS = [(k % 3, f"q{k // 4}", k / 7, float(-k)) for k in range(23)]


@pytest.mark.parametrize("group", [1, 3, 4, 5, 30])
@pytest.mark.parametrize("shards", [1, 2, 3, 8, 23])
def test_row_groups(tmp_path, group, shards):
    path = frame(tmp_path, "a.parquet", ROWS, group)
    expected = load_table(path, label="grade", query="who")
    found = loaded(share_out(path, shards, label="grade", query="who"))
    assert np.array_equal(np.concatenate([rows.X for rows in found]), expected.X)
    assert np.array_equal(np.concatenate([rows.y for rows in found]), expected.y)
    assert [name for rows in found for name in rows.names] == expected.query_names
    if shards < 23 or group < 5:
        assert len(found) == min(shards, -(-23 // group))
    pieces = loaded(share_out(path, shards, label="grade", query="who", whole_queries=False))
    assert np.array_equal(np.concatenate([rows.X for rows in pieces]), expected.X)
    plain = loaded(share_out(path, shards, label="grade", drop=["who"], dtype="float32"))
    assert all(rows.offsets is None and rows.names is None and rows.X.dtype == np.float32 for rows in plain)


def test_errors_in_row_groups_have_the_row_of_the_file(tmp_path):
    rows = [*ROWS[:17], (1, "q9", float("nan"), 0.0), *ROWS[20:]]
    with pytest.raises(DataError, match="row 18: a is missing or not finite"):
        loaded(share_out(frame(tmp_path, "a.parquet", rows), 4, label="grade", query="who"))
    with pytest.raises(DataError, match="query q0 has appeared before"):
        loaded(share_out(frame(tmp_path, "b.parquet", [*ROWS, ROWS[0]]), 1, label="grade", query="who"))


def csv(rows, columns=("grade", "who", "a", "b")):
    order = [("grade", "who", "a", "b").index(name) for name in columns]
    return "\n".join([",".join(columns), *(",".join(str(row[k]) for k in order) for row in rows)]).encode()


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_text_tables_stay_whole(tmp_path, shards):
    other = gzip.compress(csv(ROWS[8:], ("who", "b", "grade", "a")))
    paths = [write(tmp_path, "a.csv", csv(ROWS[:8])), write(tmp_path, "b.csv.gz", other)]
    expected = load_table(csv(ROWS), label="grade", query="who")
    found = loaded(share_out(paths, shards, label="grade", query="who"))
    assert len(found) == min(2, shards)
    assert np.array_equal(np.concatenate([rows.X for rows in found]), expected.X)  # columns by name, as in the first file
    assert [name for rows in found for name in rows.names] == expected.query_names
    optional = share_out(paths, shards, label="grade", query="qid", query_needed=False, drop=["who"])
    assert all(rows.offsets is None for rows in loaded(optional))


def test_text_in_columns_needs_an_encoding(tmp_path):
    one, two = write(tmp_path, "a.csv", b"y,c\n1,red\n0,blue\n"), write(tmp_path, "b.csv", b"y,c\n1,blue\n0,red\n")
    with pytest.raises(DataError, match=r"column 'c' holds text, whose categories.*drop=\['c'\]"):
        loaded(share_out([one, two], 2, label="y"))
    encoding = load_table(one, label="y").encoding
    first, second = loaded(share_out([one, two], 2, label="y", encoding=encoding))
    assert first.X.tolist() == [[1, 0], [0, 1]] and second.X.tolist() == [[0, 1], [1, 0]]


def test_bad_tables(tmp_path):
    good = write(tmp_path, "a.csv", csv(ROWS))
    with pytest.raises(ValueError, match=r"a\.csv is a table; pass label="):
        share_out(good)
    with pytest.raises(DataError, match=r"there is no column 'relevance' of labels; the header has"):
        share_out(good, label="relevance")
    lacking = write(tmp_path, "b.csv", b"grade,who,a\n1,q,2\n")
    with pytest.raises(DataError, match=r"b\.csv: there is no column 'b', feature 2 of the first file, .*a\.csv"):
        share_out([good, lacking], label="grade", query="who")
    unlabelled = write(tmp_path, "c.csv", b"who,a,b\nq,2,3\n")
    with pytest.raises(DataError, match=r"c\.csv: there is no column 'grade' of labels"):
        share_out([good, unlabelled], label="grade", query="who")
    ragged = write(tmp_path, "d.csv", b"grade,a\n1,2\n1,2,3\n")
    with pytest.raises(DataError, match=r"d\.csv, line 3: 3 fields, but the header has 2"):
        loaded(share_out(ragged, label="grade"))
    huge = write(tmp_path, "e.csv", b"grade,a\n1,2\n0,1e39\n")
    with pytest.raises(DataError, match=r"row 2 has a number that is too large for float32.*dtype='float64'"):
        loaded(share_out(huge, label="grade", dtype="float32"))
    svm = write(tmp_path, "f.svm", b"1 1:1\n")
    with pytest.raises(DataError, match=r"is a table, and .*f\.svm is not"):
        share_out([good, svm], label="grade")


# ---- names --------------------------------------------------------------------------------------------------------------------


def test_globs_and_lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("p-10.svm", "p-2.svm", "q[1].svm", "deep/er/p-3.svm"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1 1:1\n")
    assert expand("p-*.svm") == ["p-10.svm", "p-2.svm"]
    assert expand("q[1].svm") == ["q[1].svm"]  # it is there
    assert expand(["p-?.svm", tmp_path / "q[1].svm"]) == ["p-2.svm", str(tmp_path / "q[1].svm")]
    assert expand("**/p-3.svm") == [os.path.join("deep", "er", "p-3.svm")]
    for files, problem in (
        ("r-*.svm", r"no file matches 'r-\*\.svm'; look at the folder"), ([], "names no file; pass a name, a glob"),
        (["p-2.svm", "p-*.svm"], "names p-2.svm twice"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=problem):
            expand(files)


def test_files_that_are_not_there_or_have_changed(tmp_path):
    path = write(tmp_path, "a.svm", b"1 1:1\n" * 10)
    sources = share_out(path, 2)
    assert sources[0].describe() == f"{path}, bytes 0 to 29"
    with open(path, "ab") as file:
        file.write(b"1 1:1\n")
    with pytest.raises(DataError, match=r"a\.svm: has 66 bytes, but had 60 when it was shared out; do not change"):
        sources[0].load_rows()
    os.remove(path)
    with pytest.raises(FileNotFoundError, match="shared file system") as raised:
        sources[1].load_rows()
    assert raised.value.filename == path
    with pytest.raises(FileNotFoundError, match="shared file system"):
        share_out(path)
    with pytest.raises(IsADirectoryError, match="is a folder; name the files in it"):
        share_out(tmp_path)


def test_arguments(tmp_path):
    path = write(tmp_path, "a.svm", b"1 1:1\n")
    with pytest.raises(ValueError, match="shards=0 must be at least 1"):
        share_out(path, 0)
    with pytest.raises(ValueError, match="dtype=int64 must be float64 or float32"):
        share_out(path, dtype=int)
    with pytest.raises(ValueError, match="zero_based='yes'"):
        share_out(path, zero_based="yes")
    mixed = write(tmp_path, "b.svm", b"1 qid:1 1:1\n")
    with pytest.raises(DataError, match=r"b\.svm has queries, and .*a\.svm has none"):
        share_out([path, mixed])
    later = [write(tmp_path, f"c{k:02d}.svm", b"1 1:1\n") for k in range(20)]
    with pytest.raises(DataError, match="has queries, and others have none"):
        loaded(share_out([*later, mixed], 5))


def test_what_several_parts_are_called():
    parts = tuple(Part(f"{k}.svm", 10, None, 0, 10) for k in range(9))
    assert PartsOfFiles(parts, Reading()).describe() == "0.svm; 1.svm; 2.svm and 6 more"
    assert Part("a.parquet", 10, None, 2, 5).describe() == "a.parquet, row groups 2 to 4"


# ---- elsewhere ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote():
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def test_urls(tmp_path, remote):
    content, size = letor(), len(letor())
    remote.pipe("/d/a.svm", content)
    remote.pipe("/d/b.svm.gz", gzip.compress(letor(1, name="z{}")))
    remote.pipe("/d/t.csv", csv(ROWS))
    with open(frame(tmp_path, "x.parquet", ROWS), "rb") as file:
        remote.pipe("/d/t.parquet", file.read())
    expected = table_of(load_svmlight(content + letor(1, name="z{}"), n_features=6))
    for files in ("memory://d/*.svm*", ["memory://d/a.svm", "memory://d/b.svm.gz"]):
        sources = share_out(files, 5, n_features=6)
        assert sources[0].parts[0].bytes == size and len(sources) > 3
        assert table_of(loaded(sources)) == expected
    table = load_table(csv(ROWS), label="grade", query="who")
    for name in ("t.csv", "t.parquet"):
        found = loaded(share_out(f"memory://d/{name}", 3, label="grade", query="who"))
        assert np.array_equal(np.concatenate([rows.X for rows in found]), table.X)
    remote.pipe("/d/bad.svm", content + b"oops\n")
    with pytest.raises(DataError, match=rf"memory://.*bad\.svm, line {len(content.splitlines()) + 1}: label 'oops'"):
        loaded(share_out("memory://d/bad.svm", 3))
    with pytest.raises(DataError, match="no file matches 'memory://d/z"):
        expand("memory://d/z*")
    with pytest.raises(FileNotFoundError, match="shared file system"):
        share_out("memory://d/none.svm")
    with pytest.raises(DataError, match=r"nosuch://a: .*rotocol.*; install what fsspec asks for"):
        share_out("nosuch://a")


def test_without_fsspec(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"URLs need fsspec: pip install 'maxmargin\[remote\]'"):
        share_out("s3://bucket/a.svm")
