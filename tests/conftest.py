"""What several test files start with."""

import browser as chromium
import pytest
from command_cases import run  # noqa: F401


@pytest.fixture(scope="module")
def browser():
    executable = chromium.find()
    if executable is None:
        pytest.skip(chromium.HOW_TO_INSTALL)
    with chromium.started(executable) as running:
        yield running

# Files of a newcomer, which change the package when they are imported; tests/test_recipes.py does that.
collect_ignore_glob = ["recipes/*"]
