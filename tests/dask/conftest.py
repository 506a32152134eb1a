"""A cluster in this process for the tests of a file, and a time-out for each of them; files may have others of their own."""

import pytest
from tests.cases.dask_cases import threads
from tests.cases.waiting import time_out


@pytest.fixture(scope="module")
def client():
    with threads() as client:
        yield client


@pytest.fixture(autouse=True)
def limit():
    with time_out(120):
        yield
