"""Training over the local polytope: marginals against enumeration, the optimum against a cutting plane written out."""

from itertools import product

import numpy as np
import pytest
from tests.cases.polytope_cases import CYCLES, TREE, by_one_program
from tests.cases.reference_programs import MarginProgram

from maxmargin import GraphSVM
from maxmargin.core import Decoded
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane
from maxmargin.graphs import Graph, GraphProblem, GraphStructure, RelaxedGraphStructure
from maxmargin.labeling import Marginals
from maxmargin.surrogates import make_problem

KINDS = ["attractive", "symmetric", "antisymmetric", "free"]


def graph(rng, edges, q=1):
    return Graph(rng.normal(size=(6, 2)), edges, rng.random((len(edges), q)))


def dense(feature):
    return feature if isinstance(feature, np.ndarray) else feature.toarray().ravel()


def within(structure, weights):
    return weights if structure.bounds is None else np.clip(weights, *structure.bounds)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_features_and_loss_of_labels_as_marginals(n_labels):
    rng = np.random.default_rng(0)
    structure = RelaxedGraphStructure(2, 4, n_labels, KINDS, costs=1 + np.arange(n_labels))
    x, truth = graph(rng, CYCLES, q=4), rng.integers(0, n_labels, 6)
    ys = rng.integers(0, n_labels, (5, 6))
    points = [Marginals.of_labels(y, x.edges, n_labels) for y in ys]
    for y, point in zip(ys, points, strict=True):
        np.testing.assert_allclose(structure.joint_feature(x, point), structure.joint_feature(x, y), atol=1e-12)
        assert structure.loss(truth, point) == pytest.approx(structure.loss(truth, y))
    mean = Marginals(*(np.mean(parts, axis=0) for parts in zip(*points, strict=True)))
    np.testing.assert_allclose(structure.joint_feature(x, mean), np.mean([structure.joint_feature(x, y) for y in ys], axis=0))
    assert structure.loss(truth, mean) == pytest.approx(np.mean([structure.loss(truth, y) for y in ys]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("edges", [CYCLES, TREE], ids=["cycles", "tree"])
def test_relaxed_value_above_enumeration_and_equal_on_trees(kind, n_labels, edges):
    rng = np.random.default_rng(1)
    structure = RelaxedGraphStructure(2, 1, n_labels, kind, costs=1 + np.arange(n_labels))
    for _ in range(6):
        x, truth = graph(rng, edges), rng.integers(0, n_labels, 6)
        weights, a, b = within(structure, 2 * rng.normal(size=structure.n_weights)), *(0.5 + rng.random(2))
        best = max(
            a * dense(structure.joint_feature(x, y)) @ weights + b * structure.loss(truth, y)
            for y in map(np.array, product(range(n_labels), repeat=6))
        )
        answer = structure.decode(x, weights, truth, a, b)
        output, upper = answer if isinstance(answer, Decoded) else (answer, np.inf)
        value = a * dense(structure.joint_feature(x, output)) @ weights + b * structure.loss(truth, output)
        assert best - 1e-9 <= value <= upper + 1e-9
        assert isinstance(output, Marginals) or value == pytest.approx(best)
        if edges is TREE or structure.exact:
            assert value == pytest.approx(best)
        if isinstance(answer, Decoded):
            assert upper - value <= 1e-5
        # Prediction is that of the structure proper.
        plain = GraphStructure(2, 1, n_labels, kind).decode(x, weights)
        same = structure.decode(x, weights)
        for one, other in zip(
            np.atleast_1d(np.asarray(plain, dtype=object)), np.atleast_1d(np.asarray(same, dtype=object)), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def relaxed_objective(structure, xs, ys, lam, w):
    """By one large program for each graph; also the slope of the hinges."""
    hinges = []
    for x, y in zip(xs, ys, strict=True):
        unary = structure.node_scores(x, w, y, 1.0)
        pairs = np.einsum("ef,fkl->ekl", x.edge_features, structure.tables(w[structure._n_node_weights :]))
        hinges.append(-by_one_program(x.edges, -unary, -pairs) - dense(structure.joint_feature(x, y)) @ w)
    return 0.5 * lam * w @ w + np.mean(hinges)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(2)
    xs = [graph(rng, CYCLES) for _ in range(2)]
    return xs, [rng.integers(0, 3, 6) for _ in xs]


@pytest.mark.parametrize(
    "solver",
    [OneSlackCuttingPlane(tol=1e-2, max_passes=200), BCFW(steps="pairwise", cache=50, tol=1e-2, max_passes=200)],
    ids=["one slack", "blocks"],
)
def test_certified_optimum_against_a_cutting_plane_written_out(small, solver):
    (xs, ys), lam = small, 0.3
    structure = RelaxedGraphStructure(2, 1, 3, "symmetric")
    problem = make_problem(structure, xs, ys)
    assert isinstance(problem, GraphProblem) and problem.relaxed and problem.exact
    solution = solver.solve(problem, lam)
    certificate = solution.certificate
    assert certificate.certified and certificate.objective == "relaxed" and certificate.gap <= 1.01e-2 * certificate.primal
    # The primal is the relaxed objective at the weights, by other means.
    assert relaxed_objective(structure, xs, ys, lam, solution.weights) == pytest.approx(certificate.primal, abs=1e-5)
    # A cutting plane of the test's own: cuts from marginals of the oracle, upper bounds from the large programs.
    w, psis, losses = np.zeros(problem.n_features), [np.zeros(problem.n_features)], [0.0]
    for _ in range(45):
        found = [structure.decode(x, w, y, 1.0, 1.0).output for x, y in zip(xs, ys, strict=True)]
        triples = list(zip(xs, ys, found, strict=True))
        psis.append(
            np.mean([dense(structure.joint_feature(x, y)) - dense(structure.joint_feature(x, m)) for x, y, m in triples], 0)
        )
        losses.append(np.mean([structure.loss(y, m) for _, y, m in triples]))
        _, w, lower = MarginProgram([(np.array(psis), np.array(losses))]).optimum(lam)
    upper = relaxed_objective(structure, xs, ys, lam, w)
    # The oracle's marginals are within 1e-5 of the best ones.
    assert upper - lower <= 2e-5
    assert lower <= certificate.primal + 1e-9 and certificate.dual <= upper + 1e-9
    # Labels proper are worth less: that objective lies below.
    proper = OneSlackCuttingPlane(tol=1e-2, max_passes=200).solve(GraphProblem(xs, ys, 3, "symmetric"), lam)
    assert proper.dual <= certificate.primal + 1e-9 and proper.certificate.objective == "bounded"


def test_settings_are_part_of_the_fingerprint_and_trees_are_not_relaxed(small):
    xs, ys = small
    plain, relaxed = (GraphProblem(xs, ys, 3, "free", relaxed=flag) for flag in (False, True))
    assert plain.fingerprint() != relaxed.fingerprint() and not plain.relaxed and relaxed.relaxed
    rng = np.random.default_rng(3)
    trees = GraphProblem([graph(rng, TREE) for _ in ys], ys, 3, "free", relaxed=True)
    assert not trees.relaxed
    assert OneSlackCuttingPlane(tol=1e-2).solve(trees, 1.0).certificate.objective == "exact"


@pytest.mark.filterwarnings("ignore::maxmargin.core.solvers.ConvergenceWarning")
def test_the_gap_closes_where_labels_leave_one(tmp_path):
    from maxmargin import load_model, save_model

    rng = np.random.default_rng(4)
    y = [rng.permutation([0, 0, 1, 1, 2, 2]) for _ in range(3)]
    X = [(np.eye(3)[t] + rng.normal(size=(6, 3)), CYCLES) for t in y]
    settings = {"C": 1, "pairwise": "free", "tol": 1e-2, "max_iter": 200}
    labels, relaxed = (GraphSVM(inference=kind, **settings).fit(X, y) for kind in ("labels", "relaxed"))
    print(
        labels.primal_objective_, labels.dual_objective_, labels.oracle_gap_, relaxed.primal_objective_, relaxed.dual_objective_
    )
    assert labels.certified_objective_ == "bounded" and relaxed.certified_objective_ == "relaxed"
    assert labels.dual_gap_ > 0.05 * labels.primal_objective_
    assert relaxed.certified_ and relaxed.dual_gap_ <= 0.0101 * relaxed.primal_objective_
    assert relaxed.oracle_gap_ <= 1e-4 * relaxed.primal_objective_
    # What labels miss at most is what the relaxation adds at most.
    assert relaxed.primal_objective_ <= labels.primal_objective_ * 1.01 and labels.dual_objective_ <= relaxed.primal_objective_
    assert relaxed.score(X, y) >= 0.5
    save_model(relaxed, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.certified_ and again.certified_objective_ == "relaxed" and again.inference == "relaxed"


def test_weights_of_samples_keep_the_name_of_the_objective(small):
    xs, ys = small
    model = GraphSVM(pairwise="free", inference="relaxed", tol=0.05).fit(xs, ys, sample_weight=[1.0, 2.0])
    assert model.certified_objective_ == "relaxed" and model.certified_


def test_unknown_inference_is_told():
    with pytest.raises(ValueError, match="inference='exact' is unknown; choose 'labels' or 'relaxed'"):
        GraphSVM(inference="exact").fit([(np.ones((2, 1)), [(0, 1)])], [[0, 1]])
