"""The dependency parser: its structure and problem against enumeration, training, and what it refuses."""

import numpy as np
import pytest
from tests.cases.parsing_cases import all_trees

from maxmargin import ParserSVM, load_model, save_model
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane
from maxmargin.parsing import DependencyStructure, Sentence, SentenceArcs, Treebank, attachment_scores
from maxmargin.surrogates import StructuredProblem

RNG = np.random.default_rng(0)
WORDS = {"D": ["the", "a"], "N": ["dog", "cat", "man"], "V": ["sees", "bites"], "A": ["big", "old"]}


def sentence(rng):
    """Determiners and adjectives belong to the next noun, nouns to the verb."""
    tags, heads, labels = [], [], []
    for role in ("nsubj", "obj"):
        phrase = ["D"] * rng.integers(0, 2) + ["A"] * rng.integers(0, 3) + ["N"]
        noun = len(tags) + len(phrase)
        heads += [noun] * (len(phrase) - 1) + [-1]
        labels += [{"D": "det", "A": "amod"}[tag] for tag in phrase[:-1]] + [role]
        tags += phrase
        if role == "nsubj":
            tags.append("V")
            heads.append(0)
            labels.append("root")
            verb = len(tags)
    heads = [verb if head == -1 else head for head in heads]
    return Sentence([str(rng.choice(WORDS[tag])) for tag in tags], tags, heads, labels)


BANK = [sentence(RNG) for _ in range(40)]


def random_case(rng, n, n_labels=0):
    features = (rng.random(((n + 1) ** 2, 6)) < 0.4) * rng.normal(size=((n + 1) ** 2, 6))
    if not n_labels:
        return SentenceArcs(features)
    return SentenceArcs(features, rng.normal(size=((n + 1) ** 2, 3)), n_labels)


def every_output(n, projective, n_labels):
    trees = all_trees(n, projective, True)
    if not n_labels:
        return list(trees)
    tags = np.stack(np.meshgrid(*[np.arange(n_labels)] * n, indexing="ij"), -1).reshape(-1, n)
    return [np.column_stack([heads, own]) for heads in trees for own in tags]


@pytest.mark.parametrize("n_labels", [0, 2])
@pytest.mark.parametrize("projective", [True, False])
def test_structure_against_all_outputs(projective, n_labels):
    rng = np.random.default_rng(1)
    structure = DependencyStructure(6, n_labels, 3 if n_labels else 0, projective=projective)
    for _ in range(8):
        n = int(rng.integers(1, 4))
        x, weights = random_case(rng, n, n_labels), rng.normal(size=structure.n_weights)
        outputs = every_output(n, projective, n_labels)
        truth = outputs[rng.integers(len(outputs))]
        features = np.array([structure.joint_feature(x, y).toarray()[0] for y in outputs])
        losses = np.array([structure.loss(truth, y) for y in outputs])
        for a, b in ((1.0, 0.0), (1.0, 1.0), (0.3, 2.0), (0.0, 1.0)):
            values = a * features @ weights + b * losses
            found = structure.decode(x, weights, truth, a, b)
            own = a * structure.joint_feature(x, found).toarray()[0] @ weights + b * structure.loss(truth, found)
            assert own == pytest.approx(values.max(), abs=1e-9)
            several = structure.k_best(x, weights, truth, a, b, 7)
            assert len({own.tobytes() for own in several}) == len(several) == min(7, len(outputs))
            worth = [a * structure.joint_feature(x, y).toarray()[0] @ weights + b * structure.loss(truth, y) for y in several]
            np.testing.assert_allclose(worth, np.sort(values)[::-1][: len(several)], atol=1e-9)


def test_a_truth_that_is_not_projective_is_still_an_output():
    # 1 -> 3 and 2 -> 4 cross.
    truth = np.array([0, 1, 1, 2])
    structure = DependencyStructure(1)
    features = np.zeros((25, 1))
    features[truth * 5 + np.arange(1, 5)] = 1
    x = SentenceArcs(features)
    np.testing.assert_array_equal(structure.decode(x, np.array([10.0]), truth, 1.0, 1.0), truth)
    assert not np.array_equal(structure.decode(x, np.array([10.0])), truth)
    several = structure.k_best(x, np.array([10.0]), truth, 1.0, 1.0, 3)
    np.testing.assert_array_equal(several[0], truth)
    assert len(several) == 3


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("projective", [False, True])
def test_compiled_problem_is_the_general_one(labelled, projective):
    model, bank = ParserSVM(labelled=labelled, projective=projective), BANK[:5]
    problem = model._prepare(bank, bank)
    trees = problem.heads if not labelled else np.column_stack([problem.heads, problem.labels])
    general = StructuredProblem(
        model._structure(problem.treebank), problem.treebank.sentences(), np.split(trees, problem.treebank.offsets[1:-1])
    )
    rng = np.random.default_rng(2)
    for _ in range(5):
        weights = rng.normal(size=problem.n_features)
        total = 0.0
        for block in range(5):
            one, other = problem.cut(block, weights), general.cut(block, weights)
            assert one.loss == other.loss and one.hinge(weights) == pytest.approx(other.hinge(weights), abs=1e-9)
            np.testing.assert_array_equal(one.psi.indices, other.psi.indices)
            total += one.hinge(weights) / 5
        assert problem.mean_cut(weights).hinge(weights) == pytest.approx(total)
    assert problem.fingerprint() == ParserSVM(labelled=labelled, projective=projective)._prepare(bank, bank).fingerprint()
    solutions = [solver.solve(own, 0.1) for own in (problem, general) for solver in (BCFW(), OneSlackCuttingPlane())]
    assert all(own.certified for own in solutions)
    assert max(own.dual for own in solutions) <= min(own.primal for own in solutions) * (1 + 1e-9)


@pytest.mark.parametrize("settings", [
    {}, {"labelled": False}, {"projective": False}, {"hash_bits": 14}, {"hash_bits": 12, "labelled": False},
    {"solver": "perceptron", "max_iter": 10}, {"single_root": False},
])  # fmt: skip
def test_training_finds_the_grammar(settings, tmp_path):
    model = ParserSVM(C=1.0, random_state=0).set_params(**settings).fit(BANK, BANK)
    fresh = [sentence(np.random.default_rng(k)) for k in range(100, 130)]
    assert model.score(fresh, fresh) > 0.95
    scores = model.evaluate(fresh, fresh, punctuation=False)
    assert scores.uas > 0.95 and np.isnan(scores.las) == (not model.labelled)
    save_model(model, tmp_path / "m")
    same = load_model(tmp_path / "m")
    assert same.evaluate(fresh, fresh) == model.evaluate(fresh, fresh) or not model.labelled
    for one, other in zip(same.arc_scores(fresh), model.arc_scores(fresh), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("labelled", [False, True])
def test_perceptron_against_a_slow_one(labelled):
    model = ParserSVM(labelled=labelled, solver="perceptron", max_iter=3, random_state=5).fit(BANK[:10], BANK[:10])
    twin = ParserSVM(labelled=labelled)
    problem = twin._prepare(BANK[:10], BANK[:10])
    structure, arcs = twin._structure(problem.treebank), problem.treebank.sentences()
    trees = problem.heads if not labelled else np.column_stack([problem.heads, problem.labels])
    truths = np.split(trees, problem.treebank.offsets[1:-1])
    rng, weights, every = np.random.default_rng(5), np.zeros(problem.n_features), []
    for _ in range(model.n_iter_):
        for k in rng.permutation(10):
            found = structure.decode(arcs[k], weights, truths[k], 1.0, 0.0)
            step = structure.joint_feature(arcs[k], truths[k]) - structure.joint_feature(arcs[k], found)
            weights = weights + step.toarray()[0]
            every.append(weights)
    np.testing.assert_allclose(model._weights(), np.mean(every, axis=0), atol=1e-9)


def test_attachment_scores():
    truth = [([2, 0, 2], ["a", "b", "c"]), ([0], ["b"])]
    found = [([2, 0, 1], ["x", "b", "c"]), ([0], ["b"])]
    assert attachment_scores(truth, found) == (0.75, 0.5, 4)
    assert attachment_scores(truth, found, skip=[[False, False, True], [False]]) == (1.0, 2 / 3, 3)
    with pytest.raises(ValueError, match="sentence 1 has 1 words in truth, but 2"):
        attachment_scores(truth, [found[0], ([0, 1], ["b", "b"])])
    with pytest.raises(ValueError, match="no words"):
        attachment_scores(truth, found, skip=[[True] * 3, [True]])


def test_bad_input():
    X, y = [(["a", "b"], ["X", "Y"])], [([2, 0], ["r", "s"])]
    with pytest.raises(ValueError, match="X is empty"):
        ParserSVM().fit([], [])
    with pytest.raises(ValueError, match=r"sentence 0 of X must be a maxmargin.parsing.Sentence or a pair \(words, tags\)"):
        ParserSVM().fit(["a b"], y)
    with pytest.raises(ValueError, match="2 words, but 1 tags"):
        ParserSVM().fit([(["a", "b"], ["X"])], y)
    with pytest.raises(ValueError, match="sentence 0 of y: heads go in a cycle, 1 -> 2 -> 1"):
        ParserSVM().fit(X, [([2, 1], ["r", "s"])])
    for two_heads in ([[2, 1], 0], [[2, 1], [0, 1]]):
        with pytest.raises(ValueError, match=r"tree of sentence 0 of y must be heads.*give every word one head"):
            ParserSVM(labelled=False).fit(X, [two_heads])
        with pytest.raises(ValueError, match=r"a tree of 2 words must be an array of shape \(2,\)"):
            DependencyStructure(5).encode(SentenceArcs(np.ones((9, 5))), two_heads)
    with pytest.raises(ValueError, match="labels: none; give each word one, or pass labelled=False"):
        ParserSVM().fit(X, [[2, 0]])
    with pytest.raises(ValueError, match="hash_bits=40"):
        ParserSVM(hash_bits=40).fit(X, y)
    with pytest.raises(ValueError, match="has no tree"):
        ParserSVM().fit(X, [Sentence(["a", "b"], ["X", "Y"])])
    with pytest.raises(ValueError, match=r"perceptron.*sample_weight"):
        ParserSVM(solver="perceptron").fit(X, y, sample_weight=[1.0])
    with pytest.raises(ValueError, match="features have 8 rows"):
        SentenceArcs(np.ones((8, 1)))
    with pytest.raises(ValueError, match="must both be positive"):
        DependencyStructure(3, 2)
    with pytest.raises(ValueError, match="5 features of arcs"):
        DependencyStructure(3).encode(SentenceArcs(np.ones((9, 5))))
    assert Treebank(np.array([0, 1]), np.zeros(5, np.int64), np.zeros(0, np.int32), 3).n_weights == 3


@pytest.mark.parametrize("surrogate", ["slack", "prob"])
def test_surrogates(surrogate):
    model = ParserSVM(C=0.1, surrogate=surrogate, labelled=False, tol=0.02, max_iter=40).fit(BANK[:15], BANK[:15])
    assert model.certified_ and model.dual_gap_ <= 0.05 * model.primal_objective_
    assert model.score(BANK, BANK) > 0.9


def test_hinges_of_surrogates_are_maxima_over_all_trees():
    from maxmargin.surrogates import make_surrogate

    short = [own for own in (sentence(np.random.default_rng(k)) for k in range(60)) if len(own) <= 5][:6]
    rng = np.random.default_rng(3)
    for name in ("slack", "prob", "margin"):
        surrogate = make_surrogate(name)
        model = ParserSVM(labelled=False)
        problem = model._prepare(short, short)
        structure, arcs = model._structure(problem.treebank), problem.treebank.sentences()
        general = StructuredProblem(structure, arcs, [own.heads for own in short], surrogate)
        for _ in range(4):
            weights = rng.normal(size=problem.n_features)
            for block, x in enumerate(arcs):
                trees, truth = all_trees(x.n_words, True, True), np.array(short[block].heads)
                feature = structure.joint_feature(x, truth).toarray()[0]
                h = np.array([weights @ (structure.joint_feature(x, y).toarray()[0] - feature) for y in trees])
                g = np.array([structure.loss(truth, y) for y in trees])
                wrong = g > 0
                best = max(0.0, float(np.max(surrogate.value(h[wrong], g[wrong]))))
                cut = general.cut(block, weights)
                assert cut.hinge(weights) <= best + 1e-7 * (1 + best)
                assert cut.upper(weights) >= best - 1e-7 * (1 + best)
