"""A model of learned rounding that many tests look at, and none changes."""

import numpy as np
import pytest
from tests.cases.learned_rounding_cases import frustrated

from maxmargin.nn import LearnedRounding


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    problems = [frustrated(rng) for _ in range(4)]
    return LearnedRounding("graph", epochs=15, hidden=8, random_state=0).fit(problems), problems
