"""Losses written in Python whose thresholds fall where they should be level, by more than the rounding of one operation."""

import subprocess
import sys

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.distributed import LocalEngine, ShardOf, split_rows
from maxmargin.ranking import RankingLoss
from maxmargin.ranking.shards import ShardedRanking


class RoundedAUC(RankingLoss):
    """AUC, by differences that lose digits."""

    def derivative(self, j, i, n_pos, n_neg):
        return ((j - 1) / n_neg - j / n_neg) / n_pos


def list_of(seed, n=6000, n_pos=60):
    """Scores in steps of a half: many lie exactly on a threshold."""
    rng = np.random.default_rng(seed)
    relevant = np.zeros(n, dtype=bool)
    relevant[rng.choice(n, n_pos, replace=False)] = True
    scores = np.round(4 * rng.normal(size=n)) / 2
    scores[relevant] = np.round(2 * rng.normal(size=n_pos)) / 2
    return scores, relevant


# Numbers that were written before the beginning of a buffer showed only when memory was freed.
IN_A_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.ranking.test_own_losses_that_round import RoundedAUC, list_of, mm
for _ in range(3):
    for seed in range(30, 40):
        mm.most_violating_ranking(*list_of(seed), RoundedAUC(), n_jobs=1)
print("well")
"""


def test_no_memory_but_its_own_is_written_to():
    here = __file__.rsplit("test_own", 1)[0]
    done = subprocess.run([sys.executable, "-c", IN_A_PROCESS, here], capture_output=True, text=True, env={"MALLOC_CHECK_": "3"})
    assert done.stdout == "well\n", done.stderr


@pytest.mark.parametrize("seed", range(30, 40))
def test_hinges_are_those_of_the_built_in_loss(seed):
    scores, relevant = list_of(seed)
    expected = mm.most_violating_ranking(scores, relevant, "auc").hinge
    for method in ("auto", "sort"):
        assert mm.most_violating_ranking(scores, relevant, RoundedAUC(), method=method).hinge == pytest.approx(expected, rel=1e-9)
    parts = split_rows(scores[:, None], relevant.astype(float), 3)
    problem = ShardedRanking(LocalEngine([ShardOf(part, "ranking", RoundedAUC()) for part in parts]), RoundedAUC())
    for _ in range(2):  # the second time with the buckets of the first
        assert problem.tangent(problem.scores(np.ones(1))).hinge == pytest.approx(expected, rel=1e-9)
