"""The reader of svmlight/LETOR files against scikit-learn's, Python's numbers and every bad input we could think of."""

import bz2
import gzip
import io
import os
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from maxmargin.io import DataError, FeatureIndexError, load_svmlight, read_labels, source, svmlight

DATA = Path(os.environ.get("MAXMARGIN_DATA", Path(__file__).parents[3] / "shared" / "data"))


def queries(data):
    """Name of the query of every sample."""
    return [data.query_names[code] for code in data.qid]


def same(a, b):
    assert a.X.shape == b.X.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(a.X, name), getattr(b.X, name))
    np.testing.assert_array_equal(a.y, b.y)
    assert (a.qid is None) == (b.qid is None) and (a.qid is None or np.array_equal(a.qid, b.qid))
    assert a.query_names == b.query_names
    assert a.comments == b.comments


@st.composite
def samples(draw):
    n, p = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-300, 300, (n, p))
    X = sparse.csr_array(values * (rng.random((n, p)) < draw(st.sampled_from([0.0, 0.3, 1.0]))))
    y = rng.normal(size=n) if draw(st.booleans()) else rng.integers(-1, 5, n)
    qid = np.sort(rng.integers(0, 4, n)) if draw(st.booleans()) else None
    return X, y, qid


@given(samples(), st.booleans(), st.sampled_from([1, 2, 5]), st.integers(1, 200))
@settings(max_examples=100, deadline=None)
def test_round_trip_with_scikit_learn(data, zero_based, n_threads, piece):
    X, y, qid = data
    file = io.BytesIO()
    dump_svmlight_file(X, y, file, zero_based=zero_based, query_id=qid, comment="made by a test")
    before, svmlight._PIECE_BYTES = svmlight._PIECE_BYTES, piece
    try:
        read = load_svmlight(file.getvalue(), zero_based=zero_based, n_features=X.shape[1], n_threads=n_threads)
    finally:
        svmlight._PIECE_BYTES = before
    file.seek(0)
    peer = load_svmlight_file(file, zero_based=zero_based, n_features=X.shape[1], query_id=qid is not None)
    np.testing.assert_array_equal(read.X.indptr, peer[0].indptr)
    np.testing.assert_array_equal(read.X.indices, peer[0].indices)
    np.testing.assert_array_equal(read.X.data, peer[0].data)
    np.testing.assert_array_equal(read.y, peer[1])
    if qid is None:
        assert read.qid is None
    else:
        np.testing.assert_array_equal(queries(read), peer[2])
        assert read.qid.dtype == np.int64


DECIMALS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.6f}"),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:+.17E}"),
    st.from_regex(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?", fullmatch=True).filter(str.isascii),
)
HARD = [
    # Too long for 64 bits, but close to a small number there.
    "18446744073709551616",
    "18446744073709551617",
    "1.8446744073709551617e-3",
    "0",
    "-0",
    "+0",
    "0.0",
    "-0.0e5",
    ".5",
    "5.",
    "1e22",
    "1e23",
    "9007199254740993",
    "9007199254740992.5",
    "9007199254740993e-3",
    "1e-400",
    "-1e-400",
    "3e-324",
    "2e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "2.2250738585072011e-308",
    "2.2250738585072014e-308",
    "1.7976931348623157e308",
    "0.1e-22",
    "123456789012345678901234567890",
    "0.000000000000000000000000000001",
    "0e999999999999",
    "1e-999999999999",
    "8.5e+01",
    "1.00000005960464477539062499",
    "1.00000005960464477539062501",
    "0.3",
    "16777217",
    "16777219",
    "1e-45",
    "1e-46",
    "7e-46",
    "7.1e-46",
    "1.17549431e-38",
    "3.4028235677973362e38",
    "179769313486231580793e288",
]


def nearest_float32(text):
    """The float32 nearest to the decimal number itself, ties to even."""
    exact = Fraction(Decimal(text))
    near = np.float32(float(text))
    with np.errstate(over="ignore"):
        choices = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    choices = [c for c in choices if np.isfinite(c)]
    return min(choices, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1))


@given(st.lists(DECIMALS, min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_values_are_correctly_rounded(texts):
    text = " ".join(f"{k}:{value}" for k, value in enumerate(texts))
    read = load_svmlight(f"{texts[0]} {text}\n".encode(), n_threads=1)
    expected = np.array([float(value) for value in texts])
    assert read.X.data.tobytes() == expected.tobytes()
    assert read.y[0] == float(texts[0])


def test_hard_decimals():
    read = load_svmlight("\n".join(f"0 1:{text}" for text in HARD).encode())
    for text, value in zip(HARD, read.X.data, strict=True):
        assert value.tobytes() == np.float64(float(text)).tobytes(), text


@given(st.lists(st.one_of(st.sampled_from(HARD), DECIMALS), min_size=1, max_size=10))
@settings(max_examples=100, deadline=None)
def test_float32_is_rounded_once(texts):
    texts = [text for text in texts if abs(float(text)) < 3.4028235e38 and "999999" not in text] or ["1"]
    read = load_svmlight(("1 " + " ".join(f"{k}:{text}" for k, text in enumerate(texts))).encode(), dtype=np.float32)
    assert read.X.dtype == np.float32
    for text, value in zip(texts, read.X.data, strict=True):
        assert value == nearest_float32(text), text


def letor(n, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(n):
        features = " ".join(f"{i}:{rng.random():.{rng.integers(1, 18)}g}" for i in np.flatnonzero(rng.random(20) < 0.5) + 1)
        end = ["\n", "\r\n", "  \n", " # docid = d\n", "\t#\r\n", "\n\n# a comment\n \t\r\n"][rng.integers(6)]
        lines.append(f"{rng.integers(3)} qid:{row // 7} {features}{end}")
    return "".join(lines).encode()


def test_threads_and_boundaries_change_nothing(monkeypatch, tmp_path):
    text = letor(200)
    expected = load_svmlight(text, n_threads=1, comments=True)
    assert len(expected) == 200 and expected.X.nnz > 1500
    path = tmp_path / "data.txt"
    path.write_bytes(text)
    for block in (1, 2, 17, 101, 1000, 1 << 20):
        for piece in (1, 50, 333, 1 << 20):
            for threads in (1, 2, 3, 8) if block > 100 else (1,):
                monkeypatch.setattr(source, "_BLOCK_BYTES", block)
                monkeypatch.setattr(svmlight, "_PIECE_BYTES", piece)
                if block > 16 or piece == 50:
                    same(load_svmlight(path, n_threads=threads, comments=True), expected)


def test_errors_do_not_depend_on_threads_either(monkeypatch):
    good = letor(300).replace(b"\n\n# a comment\n \t\r\n", b"\n").splitlines(keepends=True)
    for place, bad in [(5, b"1 1:2\n"), (150, b"1 qid:0 1:2\n"), (151, b"x\n"), (299, b"1 qid:42 1:1 1:2\n")]:
        lines = list(good)
        lines[place] = bad
        lines[290] = b"1 qid:41 broken\n"
        messages = set()
        for block, piece, threads in [(1 << 20, 1 << 20, 1), (1 << 20, 64, 3), (700, 99, 2), (5, 1, 1)]:
            monkeypatch.setattr(source, "_BLOCK_BYTES", block)
            monkeypatch.setattr(svmlight, "_PIECE_BYTES", piece)
            with pytest.raises(DataError) as caught:
                load_svmlight(b"".join(lines), n_threads=threads)
            messages.add(str(caught.value))
        assert len(messages) == 1 and f"line {min(place, 290) + 1}:" in messages.pop()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "holds no samples"),
        (b"\n# only a comment\n \n", "holds no samples"),
        (b"label qid f1 f2\n1 1:2\n", "line 1: label 'label' is not a number; .*header"),
        (b"1 1:2\ngood 1:2\n", "line 2: label 'good' is not a number"),
        (b"1,2 1:2\n", "line 1: label '1,2' is not a number"),
        (b"nan 1:2\n", "line 1: label 'nan' is not finite"),
        (b"0x1p3 1:2\n", "line 1: label '0x1p3' is not a number"),
        (b"1 qid:1 1:2\n1 1:2\n", "line 2: some lines have a qid and some have not; give every line one"),
        (b"1 1:2\n\n1 qid:1 1:2\n", "line 3: some lines have a qid and some have not"),
        (b"1 qid: 1:2\n", "line 1: 'qid:' without a query"),
        (b"1 1:2 qid:1\n", "line 1: 'qid:1' is not in its place"),
        (b"1 qid:1 qid:2\n", "line 1: 'qid:2' is not in its place"),
        (b"1 3:1 2:1\n", "line 1: feature index 2 follows 3; sort"),
        (b"1 3:1 3:1\n", "line 1: feature index 3 occurs twice"),
        (b"1 -1:1\n", "line 1: feature index '-1:1' is negative"),
        (b"1 1.5:1\n", r"line 1: feature '1.5:1' is not of the form index:value"),
        (b"1 1 :1\n", "line 1: feature '1' is not of the form index:value"),
        (b"1 7\n", "line 1: feature '7' is not of the form"),
        (b"1 2147483648:1\n", "line 1: feature index '2147483648:1' is larger than 2147483647"),
        (b"1 99999999999999999999999:1\n", "is larger than 2147483647"),
        (b"1 1:nan\n", "line 1: value of feature 1 'nan' is not finite"),
        (b"1 1:-Inf\n", "line 1: value of feature 1 '-Inf' is not finite"),
        (b"1 1:1e400\n", "line 1: value of feature 1 '1e400' is too large"),
        (b"1 1:" + b"9" * 400 + b"\n", r"9\.\.\.' is too large"),
        (b"1 1:\n", "line 1: value of feature 1 '' is not a number"),
        (b"1 1:1e\n", "line 1: value of feature 1 '1e' is not a number"),
        (b"1 1:1_0\n", "line 1: value of feature 1 '1_0' is not a number"),
        (b"1 1:--1\n", "is not a number"),
        (b"1 1:.\n", "is not a number"),
        (b"1 1:2:3\n", "line 1: value of feature 1 '2:3' is not a number"),
        (b"1 1:2\r1 1:3\r", "line 1: a carriage return inside the line"),
        (b"1 1:2 # a\r1 1:3\n", "line 1: a carriage return inside the line"),
        (b"# a\r1 1:3\n", "line 1: a carriage return inside the line"),
        (b"1 1:2\n\x00\xff\xfe\n", r"line 2: label '\\x00\\xff\\xfe' is not a number"),
        (b"1 qid:\xff 1:2\n", "is not text in UTF-8"),
        ("1 1:2\n".encode("utf-16"), "is not a number"),
        (b"1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:1\n", "line 3: the query has appeared before.*split_queries='group'"),
        (gzip.compress(b"1 1:2\n", mtime=0), "looks like a gzip file"),
    ],
)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_bad_input(tmp_path, text, message, n_threads):
    path = tmp_path / "bad.letor"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message) as caught:
        load_svmlight(path, n_threads=n_threads)
    assert str(path) in str(caught.value)


def test_base_of_the_indices():
    text = b"1 1:2 3:4\n"
    assert load_svmlight(text).X.toarray().tolist() == [[2, 0, 4]]
    assert load_svmlight(text, zero_based=True).X.toarray().tolist() == [[0, 2, 0, 4]]
    assert load_svmlight(b"1 1:2\n0 0:1 2:1\n").X.toarray().tolist() == [[0, 2, 0], [1, 0, 1]]
    assert load_svmlight(text, n_features=5).X.shape == (1, 5)
    with pytest.raises(DataError, match=r"line 2: feature index 0, but zero_based=False.*zero_based=True"):
        load_svmlight(b"1 1:2\n0 0:1 2:1\n", zero_based=False)
    with pytest.raises(DataError, match=r"<bytes>, line 2: feature index 4 is beyond n_features=3 \(indices start at 1\)"):
        load_svmlight(b"1 1:1\n1 4:2\n1 4:1\n", n_features=3)
    with pytest.raises(FeatureIndexError) as caught:
        load_svmlight(b"1 1:1\n1 0:2\n1 4:1\n", n_features=3)
    assert (caught.value.line, caught.value.index, caught.value.start) == (3, 4, 0)
    assert load_svmlight(b"1\n2 # none\n").X.shape == (2, 0)
    assert load_svmlight(b"1 2147483647:1\n", zero_based=True).X.shape == (1, 2**31)


def test_bad_arguments():
    for options in ({"zero_based": "no"}, {"n_features": -1}, {"dtype": int}, {"n_threads": 0}, {"split_queries": "sort"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            load_svmlight(b"1 1:1\n", **options)
    with pytest.raises(TypeError, match="open it in binary mode"):
        load_svmlight(io.StringIO("1 1:1\n"))
    with pytest.raises(TypeError, match="a path, bytes or a file"):
        load_svmlight(7)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_svmlight("nowhere.txt")


def test_queries():
    text = b"1 qid:7 1:1 # one\n2 qid:5 1:2\n3 qid:7 1:3\n4 qid:x 1:4\n"
    group = load_svmlight(text, split_queries="group", comments=True)
    assert queries(group) == ["7", "7", "5", "x"] and group.y.tolist() == [1, 3, 2, 4]
    assert group.X.toarray().ravel().tolist() == [1, 3, 2, 4] and group.comments == ["one", "", "", ""]
    keep = load_svmlight(text, split_queries="keep")
    assert queries(keep) == ["7", "5", "7", "x"] and keep.y.tolist() == [1, 2, 3, 4]
    assert queries(load_svmlight(b"1 qid:07 1:1\n1 qid:7 1:1\n")) == ["07", "7"]
    assert queries(load_svmlight(b"1 qid:-3\n1 qid:9223372036854775807\n")) == [-3, 2**63 - 1]
    assert queries(load_svmlight(b"1 qid:9223372036854775808\n")) == ["9223372036854775808"]
    labels, qid, names = read_labels(text + b"5 qid:x features: not looked at\n")
    assert labels.tolist() == [1, 2, 3, 4, 5] and qid.tolist() == [0, 1, 0, 2, 2] and names == ["7", "5", "x"]


def test_sources(tmp_path):
    text = letor(50)
    expected = load_svmlight(text)
    for name, data in {"a.txt": text, "a.gz": gzip.compress(text), "a.txt.bz2": bz2.compress(text)}.items():
        (tmp_path / name).write_bytes(data)
        same(load_svmlight(tmp_path / name), expected)
        same(load_svmlight(str(tmp_path / name), n_threads=1), expected)
    with open(tmp_path / "a.txt", "rb") as file:
        same(load_svmlight(file), expected)
        assert not file.closed
    with gzip.open(tmp_path / "a.gz") as file:
        same(load_svmlight(file), expected)
    same(load_svmlight(b"\xef\xbb\xbf" + text), expected)
    same(load_svmlight(text.rstrip()), expected)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_damaged_archives(tmp_path, suffix, pack):
    packed = pack(letor(200))
    path = tmp_path / f"a.txt{suffix}"
    for damaged in (packed[:-12], packed[: len(packed) // 2], packed[:20], b"1 1:2\n", packed[:50] + b"\0" * 50 + packed[100:]):
        for n_threads in (1, 2):
            path.write_bytes(damaged)
            with pytest.raises(DataError) as caught:
                load_svmlight(path, n_threads=n_threads)
            assert str(path) in str(caught.value) and "line" not in str(caught.value)


def test_letor_sample():
    path = DATA / "ltr_mq2008" / "S1.txt.gz"
    if not path.exists():
        pytest.skip("ltr_mq2008/S1.txt.gz is not there; set MAXMARGIN_DATA to the folder that has it")
    read = load_svmlight(path, comments=True)
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    assert read.X.shape == (2933, 46) and len(np.unique(read.qid)) == 157
    assert abs(read.X - X).nnz == 0 and np.array_equal(read.y, y) and np.array_equal(queries(read), qid)
    assert read.docids[0] == "GX008-86-4444840" and None not in read.docids


def long_id(rows):
    """One id of a megabyte and many short ones."""
    text = "1 qid:" + "x" * 1_000_000 + " 1:1\n"
    return (text + "".join(f"{k % 2} qid:q{k // 10} 1:{k}\n" for k in range(rows))).encode()


def test_long_ids_take_their_own_room():
    """Counted, not timed: ids as fixed-width text took 80 GB here."""
    text = long_id(20_000)
    tracemalloc.start()
    data = load_svmlight(text, split_queries="group")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.qid.dtype == np.int64 and data.qid.nbytes == 8 * 20_001
    assert data.query_names[0] == "x" * 1_000_000 and data.query_names[1:3] == ["q0", "q1"] and len(data.query_names) == 2001
    assert peak < 10 * len(text)
