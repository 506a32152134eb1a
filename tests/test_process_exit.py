"""A process ends as it is told to while daemon threads are in compiled code; `make process-exit` runs 2,000 of them."""

import re
from pathlib import Path

import pytest
from tests.process_exit import ENDINGS, WORK, run, write_data

SOURCES = sorted((Path(__file__).resolve().parents[1] / "cpp").rglob("*.?pp"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("process_exit") / "lists.txt"
    write_data(path)
    return path


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("work", WORK)
def test_the_process_ends_as_told_while_threads_work(work, ending, data):
    assert run(work, ending, data).result == "as expected"


def test_bindings_call_the_interpreter_by_their_own_functions():
    # Others abort where the interpreter ends a thread.
    found = [
        f"{path.name}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"gil_scoped_(release|acquire)|call_guard|nb::cast<double>|PyErr_Clear|PyGILState|PyEval_", line)
        and path.name != "gil.hpp"
        and not line.lstrip().startswith("//")
    ]
    assert len(SOURCES) > 100 and not found
