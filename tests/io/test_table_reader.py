"""Tables with named columns: text and Parquet, good and bad."""

import bz2
import gzip
import io
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.io import DataError, load, load_table

TEXT = b'grade,who,"long, name",width\n1,a,0.5,7\n0,a,2,8e-3\r\n\n2,b, 1.25 ,-9\n'


def queries(data):
    """Name of the query of every sample."""
    return [data.query_names[code] for code in data.qid]


def check(data):
    np.testing.assert_array_equal(data.X, [[0.5, 7], [2, 0.008], [1.25, -9]])
    np.testing.assert_array_equal(data.y, [1, 0, 2])
    assert queries(data) == ["a", "a", "b"] and data.feature_names == ["long, name", "width"]
    assert data.X.flags.c_contiguous and data.X.flags.writeable


def test_text(tmp_path):
    check(load_table(TEXT, "grade", "who"))
    check(load_table(io.BytesIO(b"\xef\xbb\xbf" + TEXT), label="grade", query="who"))
    for name, data in {"a.csv": TEXT, "a.csv.gz": gzip.compress(TEXT), "A.CSV.bz2": bz2.compress(TEXT)}.items():
        (tmp_path / name).write_bytes(data)
        check(load(tmp_path / name, label="grade", query="who"))
    swapped = load_table(TEXT, "grade", features=["width", "long, name"])
    assert swapped.X[0].tolist() == [7, 0.5] and swapped.qid is None
    (tmp_path / "a.tsv").write_bytes(b"y\tx\n1\t2\n")
    assert load(tmp_path / "a.tsv", label="y").X.tolist() == [[2]]
    (tmp_path / "a.train").write_bytes(b"1 qid:3 1:2\n")
    assert queries(load(tmp_path / "a.train")) == [3]
    with pytest.raises(ValueError, match=r"a.tsv is a table; pass label="):
        load(tmp_path / "a.tsv")


def test_ids_are_no_features():
    text = b",y,DocID,idle,Unnamed: 0\n0,1,GX-1,0.5,7\n1,0,GX-2,2,8\n"
    assert load_table(text, "y").feature_names == ["idle"]
    assert load_table(text, "y", features=["Unnamed: 0", "idle"]).X.tolist() == [[7, 0.5], [8, 2]]


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 3)), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_text_and_queries(rows):
    text = "x,q,y\n" + "".join(f"{x!r},{q},{k}\n" for k, (x, q) in enumerate(rows))
    keep = load_table(text.encode(), "y", "q", split_queries="keep")
    assert keep.X[:, 0].tobytes() == np.array([x for x, _ in rows]).tobytes()
    assert keep.qid.dtype == np.int64 and queries(keep) == [q for _, q in rows]
    group = load_table(text.encode(), "y", "q", split_queries="group")
    first = {q: k for k, (_, q) in reversed(list(enumerate(rows)))}
    order = sorted(range(len(rows)), key=lambda k: (first[rows[k][1]], k))
    assert group.y.tolist() == order and queries(group) == [rows[k][1] for k in order]
    starts = [q for k, (_, q) in enumerate(rows) if k == 0 or rows[k - 1][1] != q]
    if len(starts) > len(set(starts)):
        with pytest.raises(DataError, match="has appeared before"):
            load_table(text.encode(), "y", "q")
    else:
        assert load_table(text.encode(), "y", "q").y.tolist() == keep.y.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"y,q,x\n", "has a header but no rows"),
        (b"\n1,2,3\n", "line 1: is blank; the first line has to be the header"),
        (b"2 qid:7 1:0.5\n", "line 1: looks like a line of a svmlight/LETOR file and not like a header; .* load_svmlight"),
        (b"y,x\n1,2\n", "line 1: there is no column 'q'; the header has 'y', 'x'"),
        (b"y,q,q\n1,2,3\n", "line 1: 2 columns are called 'q'"),
        (b"y,q,x,x\n1,2,3,4\n", "line 1: 2 columns are called 'x'"),
        (b"y,q,x\n1,2\n", "line 2: 2 fields, but the header has 3; give every row one for each column, and quote"),
        (b"y,q,x\n1,2,1_000\n", "line 2: x '1_000' is not a number"),
        ("y,q,x\n1,2,\u0663\n".encode(), "line 2: x '\u0663' is not a number"),
        (b"y,q,x\n1,2,3\n1,,3\n", "line 3: the query is blank; every row needs one"),
        (b"y,q,x\n1, ,3\n", "line 2: the query is blank"),
        (b"y,q,x\n1,2,3\n1,2,?\n", "line 3: x '\\?' is not a number; .*with features$"),
        (b"y,q,x\n1,2,\n", "column 'x' has no value at all, every cell is missing; leave it out with drop="),
        (b"y,q,x\n1,2,\n1,2,3\n", "line 2: x '' is missing; .*with drop="),
        (b"y;q;x\n1;2;0,5\n", r"line 2: x '0,5' is not a number \(decimals are written with a point\)"),
        (b"y,q,x\n1,2,2020-01-05\n", "line 2: x '2020-01-05' is not a number"),
        (b"y,q,x\n1,2,true\n1,2,maybe\n", "line 3: x 'maybe' is neither true nor false; .*categorical="),
        (b"y,q,x\nnan,2,1\n", "line 2: y 'nan' is not finite"),
        (b"y,q,x\n1,2,1e999\n", "line 2: x '1e999' is not finite"),
        (b'y,q,x\n1,2,"3\n1,2,3\n', "line 3: unexpected end of data; close quotes"),
        (b"y,q,x\n1,2,3\n1,3,3\n1,2,3\n", "line 4: query 2 has appeared before"),
        (b"y,q,x\n1,2,\xff\n", r"line 2: not a text file in UTF-8 \(.*\); save or convert it in that encoding"),
        (b"y,q,x\r\n" + b"1,2,3\r\n" * 5000 + b"\xff", "line 5002: not a text file in UTF-8"),
        (b"y,q,x\n" + b"1,2,3\n" * 5000 + b"1,2,\xe4\n" + b"1,2,3\n" * 5000, "line 5002: not a text file in UTF-8"),
        (b"\xff\xfey\0,\0q\0", "line 1: not a text file in UTF-8"),
        (gzip.compress(b"y,q,x\n1,2,3\n", mtime=0), "looks like a gzip file"),
    ],
)
def test_bad_text(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message) as caught:
        load_table(path, "y", "q")
    assert str(path) in str(caught.value)


def test_columns_that_are_named_twice():
    with pytest.raises(DataError, match=r"line 1: column 'grade' is named as the label and as a feature"):
        load_table(TEXT, "grade", features=["width", "grade"])
    with pytest.raises(DataError, match=r"line 1: column 'width' is named 2 times as a feature; name it once"):
        load_table(TEXT, "grade", features=["width", "long, name", "width"])
    # A number that happens to be a query as well.
    assert load_table(b"y,q\n1,2\n0,2\n", "y", "q", ["q"]).X.tolist() == [[2], [2]]


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {"grade": [1, 0, 2], "who": ["a", "a", "b"], "long, name": [0.5, 2, 1.25], "width": pa.array([7, 0.008, -9])}
    pq.write_table(pa.table(columns), path, row_group_size=2)
    check(load(path, label="grade", query="who"))
    pq.write_table(pa.table(columns | {"who": pa.array([3, 3, 2], pa.uint8()), "width": [True, False, True]}), path)
    data = load(path, label="grade", query="who", features=["width"])
    assert data.qid.dtype == np.int64 and queries(data) == [3, 3, 2] and data.X.ravel().tolist() == [1, 0, 1]
    ids = {
        "int": [3, 3, 2],
        "huge": pa.array([2**64 - 1, 5, 6], pa.uint64()),
        "category": pa.array(list("aab")).dictionary_encode(),
    }
    pq.write_table(pa.table(columns | ids), path)
    for query, expected in ids.items():
        assert queries(load(path, label="grade", query=query, features=["width"])) == pa.array(expected).to_pylist()
    bad = {
        "row 2: width is missing": {"width": [1, None, 2]},
        "row 3: grade is missing or not finite": {"grade": [1.0, 2.0, np.inf]},
        "column 'width' holds date32": {"width": pa.array([1, 2, 3], pa.date32())},
        "column 'grade' holds string": {"grade": list("abc")},
        "column 'width' has no value at all, every cell is missing": {"width": pa.array([None] * 3, pa.float64())},
        "row 3: the query is missing": {"who": ["a", "b", None]},
        "row 2: the query is NaN": {"who": [1.0, np.nan, 2.0]},
        "row 3: query a has appeared before": {"who": ["a", "b", "a"]},
        "row 2: the query is blank": {"who": ["a", " ", "b"]},
        "has columns but no rows": {name: pa.array([], pa.float64()) for name in columns},
    }
    for message, change in bad.items():
        pq.write_table(pa.table(columns | change), path)
        with pytest.raises(DataError, match=message) as caught:
            load_table(path, "grade", "who")
        assert str(path) in str(caught.value)
    with pytest.raises(DataError, match="there is no column 'nothing'"):
        load_table(path, "nothing")
    path.write_bytes(b"grade,who\n1,2\n")
    with pytest.raises(DataError, match=r"not a sound Parquet file \(.*\); make or fetch it anew"):
        load_table(path, "grade")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[parquet\]'"):
        load(tmp_path / "a.parquet", label="y")


def test_long_names_take_their_own_room(tmp_path):
    """One query with a long name among many samples, in text and in Parquet."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [("x" * 100_000, 1, 0.5), *((f"q{k // 10}", k % 2, float(k)) for k in range(5_000))]
    text = "q,y,a\n" + "".join(f"{q},{y},{a}\n" for q, y, a in rows)
    (tmp_path / "a.csv").write_text(text)
    pq.write_table(pa.table(dict(zip("qya", zip(*rows, strict=True), strict=True))), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        load(tmp_path / name, label="y", query="q")  # imports what it needs
        tracemalloc.start()
        data = load(tmp_path / name, label="y", query="q")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert data.qid.dtype == np.int64 and queries(data) == [q for q, _, _ in rows]
        assert peak < 25 * len(text), "as fixed-width text it took 2 GB"
