"""Label sets as a problem: what is refused. What they are worth is tested with the estimator."""

import numpy as np
import pytest

from maxmargin.multilabel import MultilabelProblem
from maxmargin.surrogates import Slack


@pytest.mark.parametrize("search", ["angular", "bisect", "enumerate"])
def test_searches_that_are_not_for_label_sets(search):
    with pytest.raises(ValueError, match=f"search='{search}' is not for label sets"):
        MultilabelProblem(np.eye(2), [[0, 1], [1, 0]], surrogate=Slack(search=search))
