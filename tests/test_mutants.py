"""The list of mutants follows the code: every line that is to be broken is there, once, and so are the tests that guard it."""

import pytest
from tests.mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}: {mutant.right}")
def test_the_line_to_break_is_there_once(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.right) == 1
    for name in mutant.tests.split(" -k ")[0].split():
        assert any((ROOT / "tests").rglob(name)), f"no test file is called {name}"
