"""Files of evaluation campaigns: read, joined and evaluated as trec_eval does."""

import gzip
import tracemalloc

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.io import DataError, read_scores
from maxmargin.ranking import judged_run, metrics, read_qrels, read_run, run_lines

NAMES = {"map": "map", "mrr": "recip_rank", "ndcg": "ndcg", "ndcg@5": "ndcg_cut_5", "p@5": "P_5"}


def ours(qrels, run, complete=False):
    values, queries = metrics.per_query(**judged_run(qrels, run, complete=complete)._asdict(), metrics=NAMES)
    return {str(query): {name: values[name][k] for name in NAMES} for k, query in enumerate(queries)}


documents = st.sampled_from([f"d{k}" for k in range(8)] + ["D", "ä", "zz", "10", "9"])
# Scores that are equal, and scores that are equal only in single precision.
scores = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-10, 1.0 + 1e-6, -3.5, 1e300, 1e299, -1e300]) | st.floats(-9, 9)
queries = st.sampled_from(["1", "2", "q"])


@given(
    st.dictionaries(queries, st.dictionaries(documents, st.integers(-2, 4), min_size=1), min_size=1),
    st.dictionaries(queries, st.dictionaries(documents, scores, min_size=1), min_size=1),
)
@settings(max_examples=400, deadline=None)
def test_equal_to_trec_eval(qrels, run):
    # Grades below zero mean irrelevant, but the peer reads outside of its memory when it sees some.
    peer = {query: {name: max(0, grade) for name, grade in judged.items()} for query, judged in qrels.items()}
    expected = pytrec_eval.RelevanceEvaluator(peer, {"map", "recip_rank", "ndcg", "ndcg_cut", "P"}).evaluate(run)
    if not expected:
        with pytest.raises(DataError, match="no query of the run has judgements"):
            judged_run(qrels, run)
    else:
        found = ours(qrels, run)
        assert found.keys() == expected.keys()
        for query, row in found.items():
            assert row == pytest.approx({name: expected[query][peer] for name, peer in NAMES.items()}, abs=1e-12)
    # As with -c: every query that was judged, zero where there are no results.
    complete = ours(qrels, run, complete=True)
    assert complete.keys() == qrels.keys()
    for query, row in complete.items():
        assert row == pytest.approx({name: expected.get(query, {}).get(peer, 0.0) for name, peer in NAMES.items()}, abs=1e-12)


def test_reading(tmp_path):
    qrels = "1 0 a 2\r\n1\t0\tb  -1\n\n2 Q0 a 0\n1 0 c +1"
    run = "2 Q0 x 1 -1.5e-3 tag\n1 Q0 a 7 3 tag\n  2 Q0 a 2 4 tag\n"
    for name, content in (("plain", bytes), ("packed.gz", gzip.compress)):
        (tmp_path / name).write_bytes(content(qrels.encode()))
        assert read_qrels(tmp_path / name) == {"1": {"a": 2, "b": -1, "c": 1}, "2": {"a": 0}}
        (tmp_path / name).write_bytes(content(run.encode()))
        assert read_run(tmp_path / name) == {"2": {"x": -0.0015, "a": 4.0}, "1": {"a": 3.0}}
    assert read_qrels("ä\u00a0b 0 ü 1\n".encode()) == {"ä\u00a0b": {"ü": 1}}
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "none")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no judgements; lines such as '301 0 FR940202-2-00150 1' are needed"),
        ("\n \n", "holds no judgements"),
        ("1 0 a 1\n1 0 a\n", "line 2: 3 fields, but a line of judgements is 'query iteration document relevance'"),
        ("1 Q0 a 1 2.5 tag\n", "line 1: 6 fields, .*; this looks like a run, not a file of judgements"),
        ("1 0 a 1\n1 0 b 1.0\n", "line 2: relevance '1.0' is not a whole number"),
        ("1 0 a yes\n", "line 1: relevance 'yes' is not a whole number"),
        ("1 0 a 99999999999999999999\n", "is not a whole number"),
        ("1 0 a 1\n2 0 a 1\n1 0 a 0\n", "line 3: document 'a' occurs twice for query '1'; keep one of them"),
        (b"1 0 \xff 1\n", "not a text file in UTF-8"),
    ],
)
def test_bad_judgements(tmp_path, content, message):
    path = tmp_path / "q.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message) as caught:
        read_qrels(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no results"),
        ("1 0 a 1\n", "line 1: 4 fields, .*; this looks like a file of judgements, not a run"),
        ("1 Q0 a 1 2.5\n", "line 1: 5 fields, but a line of a run is 'query Q0 document rank score tag'"),
        ("1 Q0 a 1 x tag\n", "line 1: score 'x' is not a number; the fifth field is the score"),
        ("1 Q0 a 1 1_0 tag\n", "line 1: score '1_0' is not a number"),
        ("1 Q0 a 1 \u0663 tag\n", "line 1: score '\u0663' is not a number"),
        ("1 Q0 a 1 nan tag\n", "line 1: score 'nan' is not finite"),
        ("1 Q0 a 1 1 tag\n1 Q0 a 2 0 tag\n", "line 2: document 'a' occurs twice for query '1'"),
    ],
)
def test_bad_runs(tmp_path, content, message):
    path = tmp_path / "r.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_run(path)
    assert str(path) in str(caught.value)


@given(st.lists(st.tuples(st.sampled_from([3, 1, 2]), st.floats(-5, 5) | st.just(1.0)), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_runs_come_back(rows):
    qid, values = np.array([q for q, _ in rows]), np.array([s for _, s in rows])
    names = [f"d{k}" for k in range(len(rows))]
    text = "".join(run_lines(qid, names, values))
    assert read_run(text.encode()) == {
        str(q): {names[k]: values[k] for k in np.flatnonzero(qid == q)} for q in dict.fromkeys(qid.tolist())
    }
    for line, after in zip(text.splitlines(), text.splitlines()[1:], strict=False):
        a, b = line.split(), after.split()
        if a[0] == b[0]:
            assert int(b[3]) == int(a[3]) + 1 and (float(a[4]), a[2]) > (float(b[4]), b[2])
        else:
            assert b[3] == "1"


def test_runs_that_cannot_be_written():
    with pytest.raises(DataError, match="'a b' is empty or has blanks"):
        list(run_lines(["a b"], ["x"], [1.0]))
    with pytest.raises(DataError, match="two documents of query 1 have the same name"):
        list(run_lines(None, ["x", "x"], [1.0, 2.0]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\n\n2_0\n", "line 3: score '2_0' is not a number; write one per line"),
        ("\u0663\n", "line 1: score '\u0663' is not a number"),
        ("1\n-inf\n", "line 2: score '-inf' is not finite; write a number for every sample"),
        ("\n", "holds no scores; one number per line is needed"),
    ],
)
def test_bad_scores(content, message):
    assert read_scores(b" -1.5e3 \r\n\n+.5\n").tolist() == [-1500, 0.5]
    with pytest.raises(DataError, match=message):
        read_scores(content.encode())


def test_retrieved_is_checked():
    with pytest.raises(ValueError, match="retrieved must be 2 booleans"):
        metrics.evaluate([1, 0], [1, 0], retrieved=[1, 0])
    # Below everything, and half of what is tied there.
    assert metrics.evaluate([1, 0, 0], [0, 0, 1], metrics=["auc"], retrieved=[False, False, True]) == {"auc": 0.25}


def test_long_names_take_their_own_room():
    qrels = {"x" * 1_000_000: {"a": 1}, **{f"q{k}": {f"d{j}": j % 2 for j in range(10)} for k in range(2000)}}
    results = {query: dict.fromkeys(judged, 1.0) for query, judged in qrels.items()}
    tracemalloc.start()
    lists = judged_run(qrels, results)
    values, names = metrics.per_query(**lists._asdict(), metrics=["map"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lists.qid.dtype == np.int64 and names == list(qrels) and len(values["map"]) == 2001 and peak < 20e6
    ranked = run_lines(lists.qid, map(str, range(len(lists.qid))), lists.scores, query_names=lists.query_names)
    assert next(ranked).startswith("xxx")
