"""The compiled search for the most violating tree: against all trees, against the search in Python, and in training."""

import pickle

import numpy as np
import pytest
from tests.cases.parsing_cases import all_trees, tree_scores

from maxmargin import ParserSVM, _core
from maxmargin.core.solvers import BCFW, NSlackCuttingPlane, OneSlackCuttingPlane
from maxmargin.parsing import DependencyStructure, SurrogateParseProblem, Treebank
from maxmargin.surrogates import (
    BetaScaling,
    GeneralizedScaling,
    LogLoss,
    MicroF1,
    ProbLoss,
    Slack,
    StructuredProblem,
    Surrogate,
    compiled_search,
)

RAW = ProbLoss(convex=False)
SURROGATES = [Slack(), BetaScaling(0.3), GeneralizedScaling(1.2, 0.5), LogLoss(), ProbLoss(), ProbLoss(tau=2.0), RAW]
KINDS = [(0, True, True), (0, False, False), (2, True, False), (3, False, True)]


def random_bank(rng, lengths, n_labels, n_features=12):
    """Sentences whose arcs have features at random, and trees of theirs, some of which cross or have several roots."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n_rows = sum((n + 1) ** 2 for n in lengths)

    def rows():
        counts = rng.integers(0, 4, n_rows)
        begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return begin, rng.integers(0, n_features, counts.sum()).astype(np.int32)

    more = (*rows(), n_features, n_labels) if n_labels else ()
    bank = Treebank(offsets, *rows(), n_features, *more)
    kinds = [all_trees(n, bool(rng.random() < 0.7), bool(rng.random() < 0.7)) for n in lengths]
    heads = np.concatenate([trees[rng.integers(len(trees))] for trees in kinds]).astype(np.int32)
    labels = rng.integers(0, n_labels, offsets[-1]).astype(np.int32) if n_labels else None
    return bank, heads, labels


def outputs_of(bank, heads, labels, k, weights, projective, single_root):
    """Margin errors and losses of all outputs of sentence k."""
    first, last = bank.offsets[k], bank.offsets[k + 1]
    own, n = heads[first:last], last - first
    trees = all_trees(int(n), projective, single_root)
    scores = bank.rows.scores(k, weights)
    if labels is None:
        table = scores[:, :, 0]
        h, g = tree_scores(table, trees) - tree_scores(table, own[None]), (trees != own).sum(axis=1)
        return np.append(h, 0.0), np.append(g, 0)
    tags = np.stack(np.meshgrid(*[np.arange(bank.n_labels)] * int(n), indexing="ij"), -1).reshape(-1, int(n))
    word, true = np.arange(1, n + 1), labels[first:last]
    total = scores[trees[:, None, :], word, tags[None]].sum(axis=-1) - scores[own, word, true].sum()
    wrong = ((trees[:, None, :] != own) | (tags[None] != true)).sum(axis=-1)
    return np.append(total.ravel(), 0.0), np.append(wrong.ravel(), 0)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
@pytest.mark.parametrize(("n_labels", "projective", "single_root"), KINDS)
def test_hinges_are_maxima_over_all_trees(surrogate, n_labels, projective, single_root):
    rng = np.random.default_rng(7)
    bank, heads, labels = random_bank(rng, [1, 2, 3, 4, 4] if n_labels else [1, 2, 4, 5, 5], n_labels)
    problem = SurrogateParseProblem(bank, heads, labels, surrogate=surrogate, projective=projective, single_root=single_root)
    trees = heads if labels is None else np.column_stack([heads, labels])
    kind = {"projective": projective, "single_root": single_root}
    structure = DependencyStructure(bank.n_features, n_labels, bank.n_label_features, **kind)
    slow = StructuredProblem(structure, bank.sentences(), np.split(trees, bank.offsets[1:-1]), surrogate)
    for scale in (0.0, 0.05, 0.4, 3.0, 100.0):
        weights = scale * rng.normal(size=bank.n_weights)
        total = 0.0
        for k, cut in enumerate(problem.cuts(range(5), weights)):
            h, g = outputs_of(bank, heads, labels, k, weights, projective, single_root)
            best = max(0.0, float(np.max(surrogate.value(h[g > 0], g[g > 0].astype(float)), initial=0.0)))
            close = pytest.approx(best, rel=1e-8, abs=1e-8)
            assert cut.hinge(weights) == close and cut.upper(weights) == close
            assert slow.cut(k, weights).hinge(weights) == close
            total += best / 5
        # Again, from where the searches have ended, and all at once.
        assert problem.mean_cut(weights).hinge(weights) == pytest.approx(total, rel=1e-8, abs=1e-8)
        assert problem.mean_cut(weights).bound == pytest.approx(total, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("surrogate", [Slack, ProbLoss])
def test_trees_below_the_hull_are_found(surrogate):
    """The hull alone leaves some open, with a true bound; whole losses and the next best trees leave none."""
    rng = np.random.default_rng(3)
    bank, heads, labels = random_bank(rng, [5] * 400, 0)
    left = missed = 0
    for search in ("hull", "auto"):
        problem = SurrogateParseProblem(bank, heads, labels, surrogate=surrogate(search=search))
        weights = np.random.default_rng(4).normal(size=bank.n_weights)
        for k, cut in enumerate(problem.cuts(range(400), weights)):
            h, g = outputs_of(bank, heads, labels, k, weights, True, True)
            best = max(0.0, float(np.max(surrogate().value(h[g > 0], g[g > 0].astype(float)))))
            assert cut.hinge(weights) <= best + 1e-8 <= cut.bound + 2e-8
            found = cut.bound <= cut.hinge(weights) + 1e-8
            left += search == "hull" and not found
            missed += search == "hull" and cut.hinge(weights) < best - 1e-6
            assert found or search == "hull"
    assert left >= missed > 0


def test_violating_trees_of_scores():
    rng = np.random.default_rng(5)
    for n_labels in (1, 2):
        lengths = [3, 1, 4]
        tables = [rng.normal(size=(n + 1, n + 1, n_labels)) for n in lengths]
        heads = [all_trees(n, True, True)[0] for n in lengths]
        tags = rng.integers(0, n_labels, sum(lengths)).astype(np.int32)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        for surrogate in (Slack(), ProbLoss(convex=False)):
            found, labels, value, slope, bound, queries = _core.violating_trees(
                np.concatenate([table.ravel() for table in tables]), offsets, np.concatenate(heads).astype(np.int32),
                tags if n_labels > 1 else None, n_labels, True, True, *compiled_search(surrogate), True,
            )  # fmt: skip
            assert queries >= 3
            for k, table in enumerate(tables):
                own, word = slice(offsets[k], offsets[k + 1]), np.arange(1, lengths[k] + 1)
                h = (table[found[own], word, labels[own]] - table[heads[k], word, tags[own] * (n_labels > 1)]).sum()
                g = float(np.count_nonzero((found[own] != heads[k]) | (labels[own] != tags[own] * (n_labels > 1))))
                if g:
                    assert value[k] == pytest.approx(float(surrogate.value(h, g))) == bound[k]
                    assert slope[k] == pytest.approx(float(surrogate.gradient(h, g)[0]))


@pytest.mark.parametrize("surrogate", [Slack(), ProbLoss()], ids=str)
@pytest.mark.parametrize("n_labels", [0, 2])
def test_training_is_that_of_the_general_problem(surrogate, n_labels):
    bank, heads, labels = random_bank(np.random.default_rng(11), [3, 4, 2, 4], n_labels)
    problem = SurrogateParseProblem(bank, heads, labels, surrogate=surrogate)
    trees = heads if labels is None else np.column_stack([heads, labels])
    structure = DependencyStructure(bank.n_features, n_labels, bank.n_label_features)
    slow = StructuredProblem(structure, bank.sentences(), np.split(trees, bank.offsets[1:-1]), surrogate)
    settings = {"tol": 1e-2, "max_passes": 500}
    solutions = [BCFW(**settings).solve(problem, 0.3), OneSlackCuttingPlane(tol=0.05).solve(slow, 0.3)]
    solutions += [BCFW(steps="pairwise", **settings).solve(problem, 0.3), NSlackCuttingPlane(**settings).solve(problem, 0.3)]
    solutions.append(OneSlackCuttingPlane(**settings).solve(problem, 0.3))
    assert all(own.certified for own in solutions)
    assert max(own.dual for own in solutions) <= min(own.primal for own in solutions) * (1 + 1e-9)
    assert problem.queries > 0
    twin = pickle.loads(pickle.dumps(problem))
    assert (
        twin.fingerprint()
        == problem.fingerprint()
        != SurrogateParseProblem(bank, heads, labels, surrogate=BetaScaling(0.5)).fingerprint()
    )
    point = np.random.default_rng(0).normal(size=bank.n_weights)
    assert twin.mean_cut(point).hinge(point) == pytest.approx(problem.mean_cut(point).hinge(point))


def test_which_surrogates_are_compiled():
    class Own(ProbLoss):
        pass

    assert compiled_search(Own()) is None and compiled_search(MicroF1()) is None
    assert compiled_search(Slack(search="angular")) is None
    X, y = [(["a", "b"], ["X", "Y"])], [([2, 0], ["r", "s"])]
    for surrogate, kind in ((Own(), StructuredProblem), ("prob", SurrogateParseProblem), (RAW, SurrogateParseProblem)):
        assert type(ParserSVM(surrogate=surrogate)._prepare(X, y)) is kind
    bank, heads, labels = random_bank(np.random.default_rng(0), [2], 0)
    with pytest.raises(ValueError, match="no compiled form; use StructuredProblem with a DependencyStructure"):
        SurrogateParseProblem(bank, heads, labels, surrogate=Own())
    assert isinstance(Own(), Surrogate)
    # Of a surrogate that is not convex nothing is certified, and only subgradient steps are taken.
    raw = ParserSVM(surrogate=ProbLoss(convex=False))._prepare(X, y)
    assert not raw.convex and not raw.exact
    with pytest.raises(TypeError, match="needs convex hinges"):
        BCFW().solve(raw, 1.0)


@pytest.mark.parametrize("surrogate", [LogLoss(), ProbLoss()], ids=str)
def test_a_truth_that_wins_by_its_margins_still_has_a_violator(surrogate):
    """The question of margin rescaling finds the truth, and so would every other but one about the loss alone."""
    rng = np.random.default_rng(9)
    for n in (1, 2, 4):
        trees = all_trees(n, True, True)
        truth = trees[-1]
        scores = 0.1 * rng.normal(size=(n + 1, n + 1))
        scores[truth, np.arange(1, n + 1)] += 1.9
        h, g = tree_scores(scores, trees) - tree_scores(scores, truth[None]), (trees != truth).sum(axis=1).astype(float)
        assert np.max(h + g) <= 1e-9
        best = float(np.max(surrogate.value(h[g > 0], g[g > 0]), initial=0.0))
        offsets = np.array([0, n], dtype=np.int64)
        value = _core.violating_trees(
            scores.ravel(), offsets, truth.astype(np.int32), None, 1, True, True, *compiled_search(surrogate), True
        )[2]
        assert value[0] == pytest.approx(best, rel=1e-9, abs=1e-12) and (best > 1e-4 or n == 1)
