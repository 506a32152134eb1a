"""Decoders of one's own inside the compiled loop: Viterbi written by a user, searches with constraints, and faults."""

import itertools
from functools import lru_cache

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem

from maxmargin.core.solvers import BCFW, InexactOracleWarning, OneSlackCuttingPlane, PartialLinearization
from maxmargin.sequences import ChainProblem, DecodedProblem, TreeProblem, decoder_signature

numba = pytest.importorskip("numba", reason="numba is not installed")
LAM = 0.1


@lru_cache
def decoder(kind):
    """Exhaustive search over labelings of at most 5 nodes; trees are in the integers: offsets, then parents, then a limit."""

    @numba.cfunc(decoder_signature())
    def search(reals, integers, block, n_nodes, n_labels, scores, table, labels):
        n_blocks = integers[0]
        first = integers[1 + block]
        limit = integers[2 + n_blocks + integers[1 + n_blocks]]
        guess = np.zeros(n_nodes, dtype=np.int64)
        highest = -np.inf
        for code in range(n_labels**n_nodes):
            rest, ones, total = code, 0, 0.0
            for t in range(n_nodes):
                guess[t] = rest % n_labels
                rest //= n_labels
                ones += guess[t] == 1
                total += scores[t * n_labels + guess[t]]
                parent = integers[2 + n_blocks + first + t]
                if parent >= 0:
                    total += table[guess[parent] * n_labels + guess[t]]
            if ones <= limit and total > highest:
                highest = total
                for t in range(n_nodes):
                    labels[t] = guess[t]
        return 0

    @numba.cfunc(decoder_signature())
    def fails(reals, integers, block, n_nodes, n_labels, scores, table, labels):
        return 7

    @numba.cfunc(decoder_signature())
    def out_of_range(reals, integers, block, n_nodes, n_labels, scores, table, labels):
        for t in range(n_nodes):
            labels[t] = n_labels
        return 0

    @numba.cfunc(decoder_signature())
    def forgets(reals, integers, block, n_nodes, n_labels, scores, table, labels):
        return 0

    @numba.cfunc(decoder_signature())
    def lazy(reals, integers, block, n_nodes, n_labels, scores, table, labels):
        for t in range(n_nodes):
            labels[t] = 0
        return 0

    return {"search": search, "fails": fails, "out_of_range": out_of_range, "forgets": forgets, "lazy": lazy}[kind]


@lru_cache
def forests():
    """Nine forests of 1 to 5 nodes with three labels; label 1 comes at most twice."""
    rng = np.random.default_rng(5)
    sizes = [1, 2, 3, 4, 5, 5, 4, 3, 2]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    parent = np.concatenate([[rng.integers(-1, t) if t else -1 for t in range(size)] for size in sizes])
    y = np.concatenate([rng.permutation([0, 1, 2, 0, 1])[:size] for size in sizes])
    return rng.normal(size=(offsets[-1], 4)) + np.eye(4)[y], y, offsets, parent


def model(kind="search", limit=99, chains=False, **options):
    X, y, offsets, parent = forests()
    if chains:
        parent = np.concatenate([np.arange(size) - 1 for size in np.diff(offsets)])
    integers = np.concatenate([[len(offsets) - 1], offsets, parent, [limit]])
    return DecodedProblem(decoder(kind), X, y, offsets, None if chains else parent, 3, integers=integers, **options)


@pytest.mark.parametrize("chains", [False, True])
def test_an_own_search_equals_belief_propagation(chains):
    X, y, offsets, parent = forests()
    builtin = ChainProblem(X, y, offsets, 3) if chains else TreeProblem(X, y, offsets, parent, 3)
    own = model(chains=chains)
    weights = np.random.default_rng(0).normal(size=own.n_features)
    assert own.mean_cut(weights).hinge(weights) == pytest.approx(builtin.mean_cut(weights).hinge(weights), rel=1e-12)
    for ours, theirs in zip(own.cuts([3, 0, 4], weights), builtin.cuts([3, 0, 4], weights), strict=True):
        assert ours.hinge(weights) == pytest.approx(theirs.hinge(weights), rel=1e-12)
    for steps, cache in (("pairwise", 0), ("pairwise", 20), ("all", 20)):
        ours, theirs = (BCFW(steps=steps, cache=cache, tol=1e-6, max_passes=50_000).solve(m, LAM) for m in (own, builtin))
        assert ours.certified and ours.converged and ours.primal == pytest.approx(theirs.primal, rel=2e-6)
    assert OneSlackCuttingPlane(tol=1e-6).solve(own, LAM).primal == pytest.approx(theirs.primal, rel=2e-6)


@pytest.mark.parametrize("bounds", [None, (-0.2, 0.3)])
def test_constraints_hold_in_training(bounds):
    """Label 1 at most twice: the optimum is that of all outputs which obey, written out."""
    X, y, offsets, parent = forests()
    free = TreeProblem(X, y, offsets, parent, 3)
    psi, loss = [], []
    for block, (first, last) in enumerate(itertools.pairwise(offsets)):
        children, parents = free.forests.edges(block)
        allowed = [np.array(g) for g in itertools.product(range(3), repeat=last - first) if g.count(1) <= 2]
        answers = [free._difference(slice(first, last), children, parents, labels) for labels in allowed]
        psi.append(np.array([features for features, _ in answers]))
        loss.append(np.array([value for _, value in answers]))
    # The truth comes first.
    for k in range(len(psi)):
        order = np.argsort(loss[k], kind="stable")
        psi[k], loss[k] = psi[k][order], loss[k][order]
    reference = BCFW(steps="pairwise", tol=1e-6, max_passes=50_000).solve(EnumeratedProblem(psi, loss), LAM, bounds=bounds)
    solution = BCFW(steps="pairwise", cache=20, tol=1e-6, max_passes=50_000).solve(model(limit=2), LAM, bounds=bounds)
    assert solution.certified and solution.primal == pytest.approx(reference.primal, rel=2e-6)
    unconstrained = BCFW(steps="pairwise", tol=1e-6, max_passes=50_000).solve(free, LAM, bounds=bounds)
    assert solution.primal < unconstrained.primal - 1e-4


@pytest.mark.parametrize(
    ("kind", "message"),
    [("fails", "decoder returned 7"), ("out_of_range", "label 3 at node 0 of block"), ("forgets", "label -1 at node 0")],
)
def test_faults_are_errors(kind, message):
    with pytest.raises(ValueError, match=message):
        BCFW().solve(model(kind), LAM)
    with pytest.raises(ValueError, match=message):
        model(kind).cut(0, np.zeros(model(kind).n_features))


def test_a_decoder_worse_than_the_truth_certifies_nothing():
    with pytest.warns(InexactOracleWarning):
        solution = BCFW(max_passes=30).solve(model("lazy"), LAM)
    assert not solution.certified
    assert not BCFW(max_passes=30).solve(model(exact=False), LAM).certified


def test_averages_are_refused():
    with pytest.raises(
        TypeError, match=r"^DecodedProblem does not support what .* \(SupportsExpectations\).* use BCFW, or write"
    ):
        PartialLinearization().solve(model(), LAM)


def test_what_is_not_compiled_is_refused():
    X, y, offsets, parent = forests()
    with pytest.raises(TypeError, match="decoder_signature"):
        DecodedProblem(lambda *_: 0, X, y, offsets, parent, 3)
    other = numba.cfunc(numba.types.float64(numba.types.float64))(lambda x: x)
    with pytest.raises(TypeError, match="decoder_signature"):
        DecodedProblem(other, X, y, offsets, parent, 3)
