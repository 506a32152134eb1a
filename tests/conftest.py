"""What several test files start with."""

import signal

import pytest
from tests import browser as chromium
from tests.cases.command_cases import run  # noqa: F401

# A shell starts what runs in its background with Ctrl-C ignored; the tests that press it want it back.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def browser():
    executable = chromium.find()
    if executable is None:
        pytest.skip(chromium.HOW_TO_INSTALL)
    with chromium.started(executable) as running:
        yield running


# Files of a newcomer, which change the package when they are imported; tests/test_recipes.py does that.
collect_ignore_glob = ["recipes/*"]
