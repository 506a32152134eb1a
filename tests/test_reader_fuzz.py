"""Whatever is in a file, readers answer with data or with an error that names it."""

import bz2
import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.data import load_svmlight, load_table, read_labels, read_scores, source, svmlight

LETOR = b"2 qid:1 1:0.5 3:-1e-3 # docid = a\n0 qid:1 2:1\r\n1 qid:2 1:0.25 2:7 3:1e10\n"
CSV = b'y,q,x,"z"\n1,a,0.5,3\n0,a,-1e-3,4\r\n2,b,"7",5\n'
SCORES = b"0.5\n-1e-3\r\n7\n"


def parquet_bytes():
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    pq.write_table(pa.table({"y": [1, 0, 2], "q": list("aab"), "x": [0.5, -1e-3, 7.0]}), file)
    return file.getvalue()


READERS = {
    ".txt": (LETOR, lambda path: (load_svmlight(path, comments=True, n_threads=2), read_labels(path, n_threads=1))),
    ".csv": (CSV, lambda path: load_table(path, "y", "q", ["x"])),
    ".scores": (SCORES, read_scores),
}
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


def feed(path, content, reader):
    path.write_bytes(content)
    message = path.name
    try:
        reader(path)
    except (ValueError, OSError) as error:
        message = str(error)
    assert path.name in message


def mutated(rng, content):
    """Bytes changed, cut out, doubled or put in; some of them bytes that mean something."""
    out = bytearray(content)
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(0, len(out) + 1))
        match rng.integers(4):
            case 0:
                out[place : place + 1] = rng.bytes(1)
            case 1:
                del out[place : place + int(rng.integers(1, 8))]
            case 2:
                out[place:place] = out[place : place + int(rng.integers(1, 30))]
            case 3:
                tokens = [
                    b"\n",
                    b"\r",
                    b"#",
                    b":",
                    b'"',
                    b",",
                    b"qid:",
                    b" ",
                    b"\0",
                    b"e",
                    b"-",
                    b"9" * 25,
                    b"nan",
                    b"\xff",
                    b"\t",
                ]
                out[place:place] = tokens[rng.integers(len(tokens))]
    return bytes(out)


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("suffix", READERS)
def test_mutated_files(tmp_path, monkeypatch, suffix, packing):
    rng = np.random.default_rng(list(map(ord, suffix + packing)))
    content, reader = READERS[suffix]
    path = tmp_path / f"fuzzed{suffix}{packing}"
    for _ in range(250):
        monkeypatch.setattr(source, "_BLOCK_BYTES", int(rng.integers(1, 200)))
        monkeypatch.setattr(svmlight, "_PIECE_BYTES", int(rng.integers(1, 100)))
        packed = PACKERS[packing](content)
        feed(path, mutated(rng, packed) if packing and rng.random() < 0.5 else PACKERS[packing](mutated(rng, content)), reader)


@given(st.binary(max_size=300), st.sampled_from(sorted(READERS)), st.sampled_from(sorted(PACKERS)))
@settings(max_examples=150, deadline=None)
def test_random_bytes(tmp_path_factory, content, suffix, packing):
    path = tmp_path_factory.getbasetemp() / f"random{suffix}{packing}"
    feed(path, content, READERS[suffix][1])
    feed(path, PACKERS[packing](content), READERS[suffix][1])


def test_mutated_parquet(tmp_path):
    content, rng = parquet_bytes(), np.random.default_rng(0)
    path = tmp_path / "fuzzed.parquet"
    for _ in range(200):
        feed(path, mutated(rng, content), lambda path: load_table(path, "y", "q", ["x"]))
        feed(path, rng.bytes(int(rng.integers(0, 200))), lambda path: load_table(path, "y"))
