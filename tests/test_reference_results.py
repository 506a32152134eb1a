"""Objectives, certificates, weights and counts of every estimator and solver, against those that are recorded.

They were recorded before files moved and duplicates were merged. A commit that changes one of them says why, and records them
anew with ``python tests/cases/reference_cases.py``.
"""

import json

import pytest
import threadpoolctl
from tests.cases.reference_cases import CASES, FILE, differences, found_by

pytestmark = pytest.mark.filterwarnings("ignore")
EXPECTED = json.loads(FILE.read_text())


def test_every_case_is_recorded():
    assert list(EXPECTED) == list(CASES)


@pytest.mark.parametrize("name", EXPECTED)
def test_result_is_the_recorded_one(name):
    with threadpoolctl.threadpool_limits(1):
        assert differences(EXPECTED[name], found_by(name)) == []


@pytest.mark.parametrize(
    ("group", "key", "factor"), [("values", "primal", 1 + 3e-8), ("arrays", "coef_", 1 + 1e-5), ("counts", "runs", 7)]
)
def test_a_changed_result_is_seen(group, key, factor):
    recorded = EXPECTED["MulticlassSVM, margin, tol=1e-9"]
    value = recorded[group][key]
    changed = [number * factor for number in value] if isinstance(value, list) else value * factor
    found = {**recorded, group: {**recorded[group], key: changed}}
    assert [line.split(":")[0] for line in differences(recorded, found)] == [key]
