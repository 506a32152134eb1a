"""Whatever is in a file, readers answer with data or with an error that names it."""

import bz2
import gzip
import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import ChainSVM, MulticlassSVM, RankingSVM, SavedFileError, load_model, save_model
from maxmargin.io import DataError, load_svmlight, load_table, read_labels, read_scores, source, svmlight
from maxmargin.ranking import judged_run, read_qrels, read_run

LETOR = b"2 qid:1 1:0.5 3:-1e-3 # docid = a\n0 qid:1 2:1\r\n1 qid:2 1:0.25 2:7 3:1e10\n"
CSV = b'y,q,x,"z"\n1,a,0.5,3\n0,a,-1e-3,4\r\n2,b,"7",5\n'
SCORES = b"0.5\n-1e-3\r\n7\n"
QRELS = b"1 0 a 2\n1 0 b 0\r\n2\t0\ta -1\n"
RUN = b"1 Q0 a 1 0.5 tag\n2 Q0 a 1 -1e-3 tag\r\n2 Q0 b 2 -7 tag\n"


def parquet_bytes():
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    pq.write_table(pa.table({"y": [1, 0, 2], "q": list("aab"), "x": [0.5, -1e-3, 7.0]}), file)
    return file.getvalue()


READERS = {
    ".txt": (LETOR, lambda path: (load_svmlight(path, comments=True, n_threads=2), read_labels(path, n_threads=1))),
    ".csv": (CSV, lambda path: load_table(path, "y", "q", ["x"])),
    ".scores": (SCORES, read_scores),
    ".qrels": (QRELS, lambda path: judged_run(read_qrels(path), {"1": {"a": 1.0}}, complete=True)),
    ".run": (RUN, read_run),
}
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


def feed(path, content, reader):
    path.write_bytes(content)
    message = path.name
    try:
        reader(path)
    except (DataError, SavedFileError) as error:
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


def models():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 3
    sequences = [[{"a": 1.0, "b": "x"}, {"c": 2.0}], [{"a": 3.0}]]
    yield RankingSVM().fit(X, y)
    yield MulticlassSVM(costs=1 - np.eye(3)).fit(X, np.array(["x", "y", "z"])[y])
    yield ChainSVM().fit(sequences, [["u", "v"], ["u"]])


@pytest.fixture(scope="module")
def model_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for k, model in enumerate(models()):
        save_model(model, folder / f"{k}.model")
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def test_mutated_models(tmp_path, model_files):
    rng = np.random.default_rng(0)
    path = tmp_path / "fuzzed.model"
    for k in range(300):
        feed(path, mutated(rng, model_files[k % 3]), load_model)
        feed(path, b"PK\x03\x04" + rng.bytes(int(rng.integers(0, 200))), load_model)


def mutated_json(rng, value):
    """Somewhere in it, something else."""
    others = [None, True, -1, 3, 0.5, 10**400, "", "x", [], [1, "a"], {}, {"array": "coef_"}, {"repr": "x"}, {"texts": ["a"]}]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[rng.integers(len(value))]
        match rng.integers(6):
            case 0:
                return {name: entry for name, entry in value.items() if name != key}
            case 1:
                return {**value, key + rng.choice(["_", "x", ""]): others[rng.integers(len(others))]}
            case _:
                return {**value, key: mutated_json(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.5:
        k = int(rng.integers(len(value)))
        return [*value[:k], mutated_json(rng, value[k]), *value[k + 1 :]]
    return others[rng.integers(len(others))]


def test_models_with_other_content(tmp_path, model_files):
    """Sound zip files whose header or arrays are not what was written: read, and then usable, or refused."""
    rng = np.random.default_rng(1)
    path = tmp_path / "fuzzed.model"
    loaded = 0

    def read_and_use(path):
        nonlocal loaded
        model = load_model(path)
        loaded += 1
        if isinstance(model, ChainSVM):
            model.predict([[{"a": 1.0}]] if hasattr(model, "feature_names_in_") else [np.ones((1, model.n_features_in_))])
        else:
            model.predict(np.ones((3, model.n_features_in_)))

    for k in range(600):
        with zipfile.ZipFile(io.BytesIO(model_files[k % 3])) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        if rng.random() < 0.75:
            members["header.json"] = json.dumps(mutated_json(rng, json.loads(members["header.json"]))).encode()
        else:
            name = sorted(members)[rng.integers(len(members))]
            members[name] = mutated(rng, members[name])
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        feed(path, file.getvalue(), read_and_use)
    assert 50 < loaded < 550
