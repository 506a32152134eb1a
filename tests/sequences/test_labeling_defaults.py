"""Sequences and trees as they come: C from the data, named features, probabilities, threads, models that keep weights once."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from maxmargin import ChainSVM, PathSearchCV, TreeSVM, load_model, regularization_path, save_model
from maxmargin.io import SavedFileError, read_archive, write_archive
from maxmargin.sequences import Tree

RNG = np.random.default_rng(0)
LENGTHS = (4, 2, 3, 5, 1, 3)
BLOCKS = [RNG.normal(size=(n, 3)) for n in LENGTHS]
LABELS = [np.array(["a", "b", "c"])[(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)] for x in BLOCKS]
WORDS = [[{"word": f"w{k}", "old": float(k)} for k in range(n)] for n in LENGTHS]
NAMES = [[[f"w{k % 3}", f"v{k % 2}"] for k in range(n)] for n in LENGTHS]


def test_the_usual_C_is_that_of_the_size_of_the_features():
    squared = np.mean(np.concatenate([(x**2).sum(axis=1) for x in BLOCKS])) + 1
    model = ChainSVM().fit(BLOCKS, LABELS)
    assert model.C == "auto" and pytest.approx(2.5 / squared, rel=1e-12) == model.C_
    assert pytest.approx(2.5 / (squared - 1), rel=1e-12) == ChainSVM(fit_intercept=False).fit(BLOCKS, LABELS).C_
    assert pytest.approx(2.5 / 3) == ChainSVM().fit(NAMES, LABELS).C_
    assert pytest.approx(2.5 / squared / np.mean(LENGTHS)) == ChainSVM(normalize=True).fit(BLOCKS, LABELS).C_
    assert pytest.approx(0.25 / squared) == ChainSVM(surrogate="slack").fit(BLOCKS, LABELS).C_
    zeros = ChainSVM(fit_intercept=False).fit([0 * x for x in BLOCKS], LABELS)
    assert zeros.C_ == 2.5 and zeros.certified_
    # The same as asking for it, and what was asked for is what counts.
    same = ChainSVM(C=model.C_).fit(BLOCKS, LABELS)
    assert same.C_ == model.C_
    np.testing.assert_array_equal(same.coef_, model.coef_)
    assert same.set_params(C=3.0).fit(BLOCKS, LABELS).C_ == 3.0
    assert same.primal_objective_ > model.primal_objective_
    # The objective is that of this C.
    hinges = sum(
        max(
            sum(a != b for a, b in zip(truth, other, strict=True)) + value(model, x, other) - value(model, x, truth)
            for other in itertools.product(range(3), repeat=len(x))
        )
        for x, truth in zip(BLOCKS, [np.searchsorted(model.classes_, y) for y in LABELS], strict=True)
    )
    weights = [model.coef_, model.intercept_, model.first_, model.last_, model.transition_]
    assert model.primal_objective_ == pytest.approx(0.5 * sum((w**2).sum() for w in weights) + model.C_ * hinges, rel=1e-9)
    assert model.dual_gap_ <= 0.05 * model.primal_objective_


def value(model, x, labels):
    scores = x @ model.coef_.T + model.intercept_
    labels = list(labels)
    pairs = sum(model.transition_[a, b] for a, b in itertools.pairwise(labels))
    return sum(scores[t, k] for t, k in enumerate(labels)) + pairs + model.first_[labels[0]] + model.last_[labels[-1]]


@pytest.mark.parametrize("C", ["Auto", "", 0, -1.0, np.nan, None])
def test_bad_C(C):
    with pytest.raises(ValueError, match="must be a positive number, or 'auto'"):
        ChainSVM(C=C).fit(BLOCKS, LABELS)


def test_paths_searches_files_and_copies_know_the_usual_C(tmp_path):
    path = regularization_path(ChainSVM(), WORDS, LABELS, epsilon=0.1, lambda_min=0.05)
    found = path.estimator(0.1)
    assert found.C == found.C_ == pytest.approx(1 / (0.1 * len(WORDS)))
    path.save(tmp_path / "path")
    again = type(path).load(tmp_path / "path").estimator(0.1)
    assert again.C_ == found.C_ and list(again.feature_names_in_) == list(found.feature_names_in_)
    same(again, found, WORDS)
    assert PathSearchCV(ChainSVM(), epsilon=0.2, lambda_min=0.1, cv=2).fit(WORDS, LABELS).best_C_ > 0
    model = ChainSVM().fit(WORDS, LABELS)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.C == "auto" and loaded.C_ == model.C_ and clone(loaded).C == "auto"
    for other in (loaded, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        same(other, model, WORDS)
    # A file of before, which has no C_.
    before = ChainSVM(C=2.0).fit(WORDS, LABELS)
    del before.C_
    save_model(before, tmp_path / "before")
    assert load_model(tmp_path / "before").C_ == 2.0


def same(a, b, X):
    for mine, yours in zip(a.decision_function(X), b.decision_function(X), strict=True):
        np.testing.assert_array_equal(mine, yours)
    for mine, yours in zip(a.predict(X), b.predict(X), strict=True):
        np.testing.assert_array_equal(mine, yours)


@pytest.mark.parametrize("n_labels", [1, 2, 3, 4, 27])
def test_scores_of_named_features_are_those_of_their_weights(n_labels):
    rng = np.random.default_rng(n_labels)
    y = [rng.permutation(np.arange(n) % n_labels) for n in (n_labels, 5, 9)]
    X = [[{"w": f"{rng.integers(9)}", "x": rng.normal()} for _ in own] for own in y]
    for fit_intercept in (True, False):
        model = ChainSVM(fit_intercept=fit_intercept).fit(X, y)
        assert model.coef_.shape == (n_labels, model.n_features_in_)
        at = {name: k for k, name in enumerate(model.feature_names_in_)}
        for x, scores in zip(X, model.decision_function(X), strict=True):
            for t, row in enumerate(x):
                expected = model.coef_[:, at[f"w={row['w']}"]] + row["x"] * model.coef_[:, at["x"]] + model.intercept_
                expected = expected + (t == 0) * model.first_ + (t == len(x) - 1) * model.last_
                np.testing.assert_allclose(scores[t], expected, atol=1e-12)


def test_features_may_be_made_when_they_are_asked_for():
    class Lazy:
        asked = 0

        def __len__(self):
            return len(NAMES)

        def __getitem__(self, k):
            if k >= len(NAMES):
                raise IndexError
            type(self).asked += 1
            return NAMES[k]

    model, lazy = ChainSVM().fit(NAMES, LABELS), ChainSVM().fit(Lazy(), LABELS)
    assert Lazy.asked == len(NAMES) + 1
    same(model, lazy, NAMES)
    same(model, lazy, Lazy())


def test_weights_are_kept_once_and_without_zeros(tmp_path):
    rng = np.random.default_rng(1)
    y = [[f"tag{k}" for k in rng.integers(0, 20, 4)] for _ in range(150)]
    X = [[[f"{tag} {rng.integers(20)}", f"n{rng.integers(1000)}"] for tag in own] for own in y]
    model = ChainSVM().fit(X, y)
    dense = model.coef_.nbytes
    # What users see is what predictions read, not a copy.
    assert np.shares_memory(model.coef_, model._weights.rows)
    model.coef_[np.abs(model.coef_) < np.quantile(np.abs(model.coef_), 0.8)] = 0.0
    assert model.coef_.size > 10_000
    data = pickle.dumps(model)
    save_model(model, tmp_path / "m")
    assert len(data) < 0.7 * dense and (tmp_path / "m").stat().st_size < 0.7 * dense
    for other in (pickle.loads(data), load_model(tmp_path / "m")):
        np.testing.assert_array_equal(other.coef_, model.coef_)
        same(other, model, X)
    # What is said of the shape is believed as far as there are numbers for it, and places are inside.
    content, arrays, _ = read_archive(tmp_path / "m", "model")
    for change, message in (
        (lambda c, a: c["fitted"]["coef_"].update(shape=[10**6, 10**6]), "coef_ is not a matrix of 1000000 x 1000000"),
        (lambda c, a: a["coef_.places"].__setitem__(-1, 2**30), "the places of coef_ do not rise"),
        (lambda c, a: a["coef_.places"].__setitem__(0, -1), "the places of coef_ do not rise"),
        (lambda c, a: a["coef_.places"].__setitem__(3, a["coef_.places"][2]), "the places of coef_ do not rise"),
        (lambda c, a: a.update({"coef_.values": a["coef_.values"][1:]}), "coef_ is not a matrix of"),
    ):
        spoilt, own = copy.deepcopy(content), copy.deepcopy(arrays)
        change(spoilt, own)
        write_archive(tmp_path / "spoilt", "model", spoilt, own)
        with pytest.raises(SavedFileError, match=message):
            load_model(tmp_path / "spoilt")


def test_threads_change_nothing():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(1, 60, 150)]
    model = ChainSVM(n_jobs=1).fit(BLOCKS, LABELS)
    named = ChainSVM(n_jobs=1).fit(NAMES, LABELS)
    many = [[[f"w{k}" for k in rng.integers(0, 4, 2)] for _ in x] for x in X]
    for one, data in ((model, X), (named, many)):
        two = copy.deepcopy(one).set_params(n_jobs=3)
        same(one, two, data)
        for mine, yours in zip(one.predict_marginals(data), two.predict_marginals(data), strict=True):
            np.testing.assert_array_equal(mine, yours)
    with pytest.raises(ValueError, match="n_jobs=0"):
        ChainSVM(n_jobs=0).fit(BLOCKS, LABELS)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 1.0, 30.0]), st.booleans())
def test_marginals_are_those_of_all_labelings(seed, temperature, trees):
    rng = np.random.default_rng(seed)
    model = TreeSVM().fit([Tree(x, np.arange(-1, len(x) - 1)) for x in BLOCKS], LABELS)
    parents = [np.array([rng.integers(-1, t) if trees else t - 1 for t in range(n)]) for n in (1, 2, 5)]
    X = [Tree(rng.normal(size=(len(parent), 3)) * rng.choice([0.0, 1.0, 50.0]), parent) for parent in parents]
    found = model.predict_marginals(X, temperature=temperature)
    for (_, parent), own, scores in zip(X, found, model.decision_function(X), strict=True):
        labelings = np.array(list(itertools.product(range(3), repeat=len(parent))))
        total = scores[np.arange(len(parent)), labelings].sum(axis=1)
        for t, p in enumerate(parent):
            if p >= 0:
                total += model.transition_[labelings[:, p], labelings[:, t]]
        if temperature == 0:
            continue
        weight = np.exp((total - total.max()) / temperature)
        expected = np.stack([[weight[labelings[:, t] == k].sum() for k in range(3)] for t in range(len(parent))]) / weight.sum()
        np.testing.assert_allclose(own, expected, atol=1e-9)
    if temperature == 0:
        for own, best in zip(found, model.predict(X), strict=True):
            np.testing.assert_array_equal(model.classes_[own.argmax(axis=1)], best)
            np.testing.assert_array_equal(own.max(axis=1), 1.0)


@pytest.mark.parametrize("temperature", [-1.0, np.nan, np.inf, "warm", None])
def test_bad_temperatures(temperature):
    model = ChainSVM().fit(BLOCKS, LABELS)
    with pytest.raises(ValueError, match=r"temperature=.* must be a finite number, 0 or greater"):
        model.predict_marginals(BLOCKS, temperature=temperature)
    with pytest.raises(ValueError, match="temperature=1e-320 is too small for scores of this size"):
        model.predict_marginals(BLOCKS, temperature=1e-320)


def test_errors_name_the_sequence():
    with pytest.raises(TypeError, match="sequence 1 of X has None for a; leave such features out"):
        ChainSVM().fit([[{"a": 1}], [{"a": None}]], [[0], [1]])
    model = ChainSVM().fit(WORDS, LABELS)
    with pytest.raises(ValueError, match=r"sequence 1 of X holds arrays, but .* hold dictionaries; use one kind for all"):
        model.predict([WORDS[0], BLOCKS[0]])
    with pytest.raises(ValueError, match="sequence 1 of X is empty; drop sequences without positions"):
        model.predict([WORDS[0], []])
    for block in (None, 5):
        with pytest.raises(TypeError, match=f"sequence 1 of X is {block}; a list with the features of every place is needed"):
            ChainSVM().fit([[{"a": 1}], block], [[0], [1]])
    # An array of objects is one of dictionaries.
    with pytest.raises(TypeError, match="sequence 1 of X has None for a"):
        model.predict([WORDS[0], np.array([{"a": None}])])
    with pytest.raises(ValueError, match="sequence 0 of X is empty"):
        ChainSVM().fit([[], [{"a": 1}]], [[], [1]])
    for n_jobs in ("two", 1.5):
        with pytest.raises(ValueError, match=r"n_jobs=.* must be a positive number of threads"):
            ChainSVM(n_jobs=n_jobs).fit(BLOCKS, LABELS)


def test_a_first_sequence_without_any_name():
    """Empty lists may be lists of names: the next sequence tells."""
    model = ChainSVM(C=10).fit([[[]], [["a"], []]], [["no"], ["yes", "no"]])
    assert list(model.feature_names_in_) == ["a"]
    assert [labels.tolist() for labels in model.predict([[["a"], []], [[]]])] == [["yes", "no"], ["no"]]
