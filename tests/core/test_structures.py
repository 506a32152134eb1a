"""All structures by one harness: decoders against a list of all outputs, features and losses against their definitions."""

import numpy as np
import pytest
from scipy import sparse
from tests.cases.structure_cases import CASES, make_case

from maxmargin.core import Decoded, SparseVector, Structure, as_vector, difference, dot, predict
from maxmargin.graphs import GraphStructure
from maxmargin.multiclass import ClassStructure
from maxmargin.ranking import RankingStructure
from maxmargin.sequences import ChainStructure

# Score alone, loss alone, neither, the margin's own question, and others.
SCALES = [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (1.0, 1.0), (0.3, 2.5), (4.0, 0.1)]


def dense(feature):
    return feature.toarray().ravel() if sparse.issparse(feature) else np.asarray(feature)


@pytest.mark.parametrize("name", CASES)
def test_features_and_losses(name):
    case = make_case(name)
    for x, coded, truth, own in zip(case.xs, case.coded, case.truths, case.coded_truths, strict=True):
        for y in case.outputs(x, truth)[:60]:
            np.testing.assert_allclose(dense(case.structure.joint_feature(coded, y)), case.feature(x, y), atol=1e-12)
            assert case.structure.loss(own, y) == pytest.approx(case.loss(truth, y), abs=1e-12)
        assert case.structure.loss(own, own) == 0


@pytest.mark.parametrize(("scale", "whole"), [(0.0, True), (1.0, False), (1.5, True), (20.0, False)])
@pytest.mark.parametrize("name", CASES)
def test_decoding_equals_enumeration(name, scale, whole):
    case = make_case(name)
    rng = np.random.default_rng(1)
    every = [case.outputs(x, truth) for x, truth in zip(case.xs, case.truths, strict=True)]
    features = [np.array([case.feature(x, y) for y in ys]) for x, ys in zip(case.xs, every, strict=True)]
    losses = [np.array([case.loss(truth, y) for y in ys]) for truth, ys in zip(case.truths, every, strict=True)]
    for a, b in [*SCALES, tuple(rng.uniform(0, 2, 2))]:
        weights = case.weights(rng, scale, whole)
        together = case.structure.decode_batch(case.coded, weights, case.coded_truths, a, b)
        assert len(together) == len(case.xs)
        for k, (x, truth) in enumerate(zip(case.coded, case.coded_truths, strict=True)):
            best = np.max(a * (features[k] @ weights) + b * losses[k])
            for y in (together[k], case.structure.decode(x, weights, truth, a, b)):
                value = a * (dense(case.structure.joint_feature(x, y)) @ weights) + b * case.structure.loss(truth, y)
                assert value == pytest.approx(best, abs=1e-9 * (1 + scale))


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("ranking")])
def test_prediction_needs_no_labels(name):
    case = make_case(name)
    weights = case.weights(np.random.default_rng(2), 1.0, False)
    for x, truth, y in zip(case.xs, case.truths, predict(case.structure, case.xs, weights), strict=True):
        assert case.feature(x, y) @ weights == pytest.approx(max(case.feature(x, z) @ weights for z in case.outputs(x, truth)))


def test_a_ranking_is_predicted_by_score():
    structure, X = RankingStructure("ap"), np.array([[0.5], [2.0], [-1.0]])
    (order,) = predict(structure, [X], np.array([1.0]))
    assert order.tolist() == [1, 0, 2]
    relevant = np.array([True, False, True])
    assert structure.loss(relevant, order) == pytest.approx(1 - (1 / 2 + 2 / 3) / 2)
    with pytest.raises(TypeError, match="other rankings have no features"):
        structure.joint_feature(X, order)


def test_sparse_vectors():
    row = sparse.coo_array(([1.0, 2.0, 3.0, -3.0], ([0, 0, 0, 0], [7, 2, 7, 4])), shape=(1, 9))
    vector, length = as_vector(row)
    assert length == 9 and vector.indices.tolist() == [2, 4, 7] and vector.values.tolist() == [2.0, -3.0, 4.0]
    assert vector.indices.dtype == np.int32
    as_matrix, _ = as_vector(sparse.csr_matrix(row))
    np.testing.assert_array_equal(as_matrix.values, vector.values)
    flat, _ = as_vector(np.arange(9.0))
    w = np.random.default_rng(0).normal(size=9)
    for a in (vector, flat):
        for b in (vector, flat):
            assert dot(difference(a, b), w) == pytest.approx(dot(a, w) - dot(b, w))
    none = difference(vector, vector)
    assert isinstance(none, SparseVector) and len(none.indices) == 0
    with pytest.raises(ValueError, match=r"sparse row of shape \(1, d\), but has shape \(3, 1\)"):
        as_vector(sparse.csr_array(np.ones((3, 1))))
    with pytest.raises(ValueError, match=r"one-dimensional or a sparse row, but has shape \(2, 2\)"):
        as_vector(np.ones((2, 2)))


def test_the_old_contract_is_explained():
    with pytest.raises(TypeError, match=r"Old has loss_augmented\(x, truth, weights\), but a Structure has decode\(x, weights"):

        class Old(Structure):
            def joint_feature(self, x, y):
                return x

            def loss(self, truth, y):
                return 0.0

            def loss_augmented(self, x, truth, weights):
                return truth


def test_batches_ask_a_decoder_that_was_replaced():
    class First(ChainStructure):
        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return np.zeros(len(x), dtype=int)

    assert [y.tolist() for y in predict(First(2, 1), [np.ones((2, 1)), np.ones((1, 1))], np.ones(10))] == [[0, 0], [0]]


def test_predictions_come_without_their_bounds():
    class Bounded(ClassStructure):
        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return Decoded(super().decode(x, weights, truth, a, b), 1e9)

    assert predict(Bounded(2, 1), [[1.0], [-1.0]], np.array([0.0, 1.0])) == [1, 0]


@pytest.mark.parametrize(
    ("structure", "x", "y", "message"),
    [
        (ClassStructure(3, 2), [1.0], 0, "must be one row of 2 numbers"),
        (ClassStructure(3, 2), [1.0, np.nan], 0, "NaN"),
        (ClassStructure(3, 2), [1.0, 1.0], 3, "y=3 must lie between 0 and 2"),
        (ChainStructure(3, 2), np.ones((2, 3)), [0, 1], "x has 3 features, but 2 are needed"),
        (ChainStructure(3, 2), np.ones((2, 2)), [0], "x has 2 positions, but y has 1"),
        (ChainStructure(3, 2), np.ones((2, 2)), [0, 3], "y must lie between 0 and 2"),
        (GraphStructure(2), (np.ones((2, 3)), [[0, 1]]), [0, 1], r"shape \(nodes, 2\), but have shape \(2, 3\)"),
        (GraphStructure(1), (np.ones((2, 1)), [[0, 1]], [[-1.0]]), [0, 1], "edge features must not be negative"),
    ],
)
def test_bad_input(structure, x, y, message):
    with pytest.raises(ValueError, match=message):
        structure.encode(x, y)
