"""Samples grouped by query: codes and orders against loops that are easy to read."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.io import first_split, query_offsets
from maxmargin.io.queries import QueryCodes, as_integers

IDS = st.lists(st.integers(0, 5), min_size=1, max_size=20)


@settings(max_examples=200, deadline=None)
@given(qid=IDS, kind=st.sampled_from([np.int64, np.float64, str, object]))
def test_rows_of_every_query_in_order_of_appearance(qid, kind):
    given = np.array([f"q{k}" for k in qid], dtype=object) if kind is object else np.array(qid).astype(kind)
    ids, offsets, order = query_offsets(given, len(given))
    names = list(dict.fromkeys(given.tolist()))
    rows = [[row for row, name in enumerate(given.tolist()) if name == wanted] for wanted in names]
    assert ids.tolist() == names
    found = np.arange(len(given)) if order is None else order
    assert [found[a:b].tolist() for a, b in pairwise(offsets)] == rows
    assert (order is None) == ([row for own in rows for row in own] == list(range(len(given))))


@settings(max_examples=200, deadline=None)
@given(qid=IDS)
def test_codes(qid):
    codes = QueryCodes()
    for name in qid:
        codes.add(name)
    found, names = codes.finish()
    assert names == list(dict.fromkeys(qid)) and [names[code] for code in found] == qid
    split = [row for row in range(1, len(qid)) if qid[row] != qid[row - 1] and qid[row] in qid[:row]]
    assert first_split(found) == (split[0] if split else None)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["7", "-3"], [7, -3]),
        (["7", "07"], ["7", "07"]),
        (["7", "a"], ["7", "a"]),
        (["9223372036854775807"], [2**63 - 1]),
        (["9223372036854775808"], ["9223372036854775808"]),
        (["-9223372036854775808"], [-(2**63)]),
        (["1_0"], ["1_0"]),
        ([], []),
    ],
)
def test_names_that_are_integers(names, expected):
    assert as_integers(names) == expected


def test_no_samples():
    ids, offsets, order = query_offsets(np.zeros(0, dtype=np.int64), 0)
    assert len(ids) == 0 and offsets.tolist() == [0] and order is None
