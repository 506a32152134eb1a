"""Losses of trees in torch: values by enumeration, gradients by finite differences."""

import numpy as np
import pytest
from tests.cases.parsing_cases import all_trees, tree_scores

torch = pytest.importorskip("torch", reason="torch is not installed; pip install maxmargin[nn]")

from maxmargin.nn import TreeLoss  # noqa: E402
from maxmargin.surrogates import ProbLoss, make_surrogate  # noqa: E402


@pytest.mark.parametrize("surrogate", ["margin", "slack", "prob", ProbLoss(convex=False)])
@pytest.mark.parametrize("projective", [True, False])
def test_value_and_gradient(surrogate, projective):
    rng = np.random.default_rng(0)
    loss = TreeLoss(surrogate, projective=projective)
    psi = make_surrogate(surrogate)
    exact = 0
    for _ in range(5):
        n = int(rng.integers(2, 5))
        trees = all_trees(n, projective, True)
        truth = trees[rng.integers(len(trees))]
        scores = torch.tensor(rng.normal(size=(n + 1, n + 1)), requires_grad=True)
        value = loss([scores], [truth])
        value.backward()
        table = scores.detach().numpy()
        h = tree_scores(table, trees) - tree_scores(table, truth[None])
        g = (trees != truth).sum(axis=1).astype(float)
        best = max(0.0, float(psi.value(h[g > 0], g[g > 0]).max()))
        assert value.item() <= best + 1e-7
        exact += abs(value.item() - best) < 1e-7
        for at in np.ndindex(n + 1, n + 1):
            step = torch.zeros(n + 1, n + 1, dtype=torch.float64)
            step[at] = 1e-5
            slope = (loss([scores.detach() + step], [truth]) - loss([scores.detach() - step], [truth])).item() / 2e-5
            assert scores.grad[at].item() == pytest.approx(slope, abs=1e-4)
    assert exact >= 4


def test_mean_over_sentences_and_training():
    rng = np.random.default_rng(1)
    tables = [torch.tensor(rng.normal(size=(n, n)), requires_grad=True) for n in (3, 5)]
    heads = [[2, 0], [0, 1, 2, 3]]
    loss = TreeLoss()
    single = [loss([table], [own]).item() for table, own in zip(tables, heads, strict=True)]
    assert loss(tables, heads).item() == pytest.approx(np.mean(single))
    steps = torch.optim.SGD(tables, lr=0.5)
    for _ in range(30):
        steps.zero_grad()
        loss(tables, heads).backward()
        steps.step()
    assert loss(tables, heads).item() == pytest.approx(0.0, abs=1e-6)
    # Where the hinge has nothing left to say, ProbLoss still has a gradient.
    value = TreeLoss(ProbLoss(convex=False))(tables, heads)
    steps.zero_grad()
    value.backward()
    assert value.item() > 0 and all(table.grad.abs().max() > 0 for table in tables)


def test_bad_input():
    with pytest.raises(ValueError, match="1 tables of scores for 2 trees"):
        TreeLoss()([torch.zeros(2, 2)], [[0], [0]])
    with pytest.raises(ValueError, match=r"sentence 0 must have shape \(n \+ 1, n \+ 1\)"):
        TreeLoss()([torch.zeros(2, 3)], [[0]])
    with pytest.raises(ValueError, match="finite"):
        TreeLoss()([torch.full((2, 2), float("nan"))], [[0]])
