"""Latent ranking as a user meets it: bags in lists, arrays and files, habits of scikit-learn, bad input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.cases.latent_cases import as_bags, make_bags, ragged

from maxmargin import LatentRankingSVM
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.ranking import bags as bags_module
from maxmargin.ranking.joint_inference import most_violating_joint_ranking

# --- data of all shapes ----------------------------------------------------------------------------------------------------


def test_pieces_do_not_show(monkeypatch):
    rng = np.random.default_rng(20)
    X, _ = ragged(rng, 10, 20, 3, most=9)
    w = rng.normal(size=3)
    for piece in (1, 7, 12, 2**17):
        monkeypatch.setattr(bags_module, "PIECE", piece)
        bags = as_bags(X)
        scores, rows = bags.highest(w)
        np.testing.assert_allclose(scores, [(x @ w).max() for x in X])
        np.testing.assert_array_equal(rows - bags.offsets[:-1], [np.argmax(x @ w) for x in X])
        scores, rows = bags.lowest(w)
        np.testing.assert_allclose(scores, [(x @ w).min() for x in X])
        np.testing.assert_array_equal(rows - bags.offsets[:-1], [np.argmin(x @ w) for x in X])
        wanted = np.arange(30) >= 20
        np.testing.assert_array_equal(bags.highest(w, wanted)[1][wanted], bags.highest(w)[1][wanted])
        coefficients = rng.normal(size=30) * (rng.random(30) < 0.5)
        np.testing.assert_allclose(bags.combine(coefficients, rows), coefficients @ bags.X[rows], atol=1e-12)
        np.testing.assert_allclose(bags.at(rows, w), bags.X[rows] @ w)


def test_lists_matrices_and_memory_maps_agree(tmp_path):
    rng = np.random.default_rng(21)
    X, y = ragged(rng, 8, 20, 4, most=5)
    X = [x.astype(np.float32) for x in X]
    rows, offsets = np.concatenate(X), np.concatenate([[0], np.cumsum([len(x) for x in X])])
    rows.tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", dtype=np.float32, mode="r", shape=rows.shape)
    listed = LatentRankingSVM(C=5, random_state=0).fit(X, y)
    for matrix in (rows, mapped, np.asfortranarray(rows)):
        other = LatentRankingSVM(C=5, random_state=0).fit(matrix, y, offsets=offsets)
        np.testing.assert_allclose(other.coef_, listed.coef_, atol=1e-9)
        np.testing.assert_allclose(other.predict(matrix, offsets), listed.predict(X), atol=1e-9)
        np.testing.assert_array_equal(other.best_candidates(matrix, offsets=offsets), listed.best_candidates(X))
        assert other.score(matrix, y, offsets) == listed.score(X, y)
    wide = LatentRankingSVM(C=5, random_state=0).fit([x.astype(np.float64) for x in X], y)
    np.testing.assert_allclose(wide.coef_, listed.coef_, atol=1e-9)
    # Whole numbers are as good as any.
    counts = np.round(3 * rows).astype(np.int8)
    whole = LatentRankingSVM(C=5, random_state=0).fit(counts, y, offsets=offsets)
    np.testing.assert_array_equal(whole.coef_, LatentRankingSVM(C=5, random_state=0).fit(counts * 1.0, y, offsets=offsets).coef_)


def test_a_memory_map_is_not_copied(tmp_path):
    rows = np.random.default_rng(22).normal(size=(60, 3)).astype(np.float32)
    rows.tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", dtype=np.float32, mode="r", shape=rows.shape)
    from maxmargin.ranking.bag_input import as_rows

    assert as_rows(mapped, np.arange(0, 61, 3))[0] is mapped
    assert np.shares_memory(as_rows(rows.reshape(20, 3, 3), None)[0], rows)


def test_scikit_learn_habits():
    X, y, _ = make_bags(60, np.random.default_rng(23))
    search = GridSearchCV(LatentRankingSVM(random_state=0), {"C": [1.0, 10.0]}, cv=3).fit(list(X), y)
    assert search.best_score_ > 0.3
    model = clone(search.best_estimator_)
    assert search.best_params_["C"] == model.C
    labelled = [LatentRankingSVM(random_state=0).fit(X, labels).coef_ for labels in (y, 2 * y.astype(int) - 1, y + 1)]
    np.testing.assert_array_equal(labelled[0], labelled[1])
    np.testing.assert_array_equal(labelled[0], labelled[2])


# --- errors ----------------------------------------------------------------------------------------------------------------


def test_bags_without_candidates():
    X, y, _ = make_bags(20, np.random.default_rng(24))
    bags = list(X)
    k, j = np.flatnonzero(y)[1], np.flatnonzero(~y)[0]
    with pytest.raises(ValueError, match=rf"X has no candidates for relevant bag {k}; give every relevant bag at least one row"):
        LatentRankingSVM().fit([x[:0] if i == k else x for i, x in enumerate(bags)], y)
    fewer = [x[:0] if i == j else x for i, x in enumerate(bags)]
    with pytest.warns(UserWarning, match=rf"1 irrelevant bags, the first is {j}; they are left out"):
        model = LatentRankingSVM(start=np.ones(5)).fit(fewer, y)
    rest = np.arange(20) != j
    np.testing.assert_allclose(model.coef_, LatentRankingSVM(start=np.ones(5)).fit(X[rest], y[rest]).coef_)
    assert model.candidates_[j] == -1 and (model.candidates_[rest] >= 0).all()
    with pytest.raises(ValueError, match=f"X has no candidates for bag {j}"):
        model.predict(fewer)
    with pytest.warns(UserWarning, match="left out"), pytest.raises(ValueError, match="no candidates for any irrelevant bag"):
        LatentRankingSVM().fit([x if r else [] for x, r in zip(bags, y, strict=True)], y)
    with pytest.raises(ValueError, match="X holds no candidates at all"):
        LatentRankingSVM().fit([[], []], [0, 1])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda X, y: (X, y[:-1]), ValueError, "X has 12 bags, but y has 11 labels"),
        (lambda X, y: (X, np.ones(12)), ValueError, "y must contain relevant and irrelevant bags.*mark relevant bags by 1"),
        (lambda X, y: (X, np.zeros(12)), ValueError, "only one class"),
        (lambda X, y: (X, np.where(y, np.nan, 0.0)), ValueError, r"y\[\d+\] is NaN or infinite"),
        (lambda X, y: (X, np.where(y, "a", "b")), TypeError, "y must be numbers or booleans"),
        (lambda X, y: (X[:, 0], y), ValueError, r"X has shape \(12, 5\); pass a list.*offsets"),
        (lambda X, y: ([*X[:-1], X[-1][:, :2]], y), ValueError, r"X\[11\] has shape \(6, 2\).*5 features"),
        (lambda X, y: ([*X[:-1], X[-1][0]], y), ValueError, r"X\[11\] has shape \(5,\)"),
        (lambda X, y: (X.astype(str), y), TypeError, "X must be real numbers"),
        (lambda X, y: (list(X.astype(str)), y), TypeError, r"X\[0\] must be real numbers"),
        (lambda X, y: ([], []), ValueError, "X is empty"),
    ],
)
def test_bad_data(change, error, message):
    X, y, _ = make_bags(12, np.random.default_rng(25))
    with pytest.raises(error, match=message):
        LatentRankingSVM().fit(*change(X, y))


def test_not_a_number_is_found_where_it_is():
    X, y, _ = make_bags(12, np.random.default_rng(26))
    model = LatentRankingSVM(random_state=0).fit(X, y)
    for value in (np.nan, np.inf):
        X[7, 4, 2] = value
        with pytest.raises(ValueError, match="X contains NaN or infinity in bag 7, candidate 4; remove such candidates"):
            LatentRankingSVM().fit(X, y)
        with pytest.raises(ValueError, match="bag 7, candidate 4"):
            model.predict(X)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2, 6], r"offsets must not fall, but offsets\[1\]=3 is followed by 2"),
        ([0, 3, 5], "offsets run from 0 to 5, but must run from 0 to the 6 rows of X"),
        ([1, 3, 6], "offsets run from 1 to 6"),
        ([0.0, 3.0, 6.0], "offsets must be a one-dimensional array of at least two integers"),
        ([6], "at least two integers"),
    ],
)
def test_bad_offsets(offsets, message):
    with pytest.raises(ValueError, match=message):
        LatentRankingSVM().fit(np.ones((6, 2)), [0, 1], offsets=offsets)
    with pytest.raises(ValueError, match=r"X must be a matrix of candidates.*shape \(2, 3, 2\)"):
        LatentRankingSVM().fit(np.ones((2, 3, 2)), [0, 1], offsets=[0, 3, 6])


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        (np.full(12, 6), r"annotations\[0\]=6 is not a candidate of bag 0, which has 6"),
        (np.full(12, -2), r"annotations\[0\]=-2.*use -1 if unknown"),
        (np.zeros(3, dtype=int), r"annotations must be 12 integers, one per bag"),
        (np.zeros(12), "annotations must be 12 integers"),
    ],
)
def test_bad_annotations(annotations, message):
    X, y, _ = make_bags(12, np.random.default_rng(27))
    with pytest.raises(ValueError, match=message):
        LatentRankingSVM().fit(X, y, annotations=annotations)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C=0 must be a positive number"),
        ({"formulation": "svm"}, "formulation='svm' is unknown; choose one of 'latent_ap', 'latent_svm', 'latent_ssvm'"),
        ({"variant": "A2"}, "variant='A2' is unknown"),
        ({"inference": "best"}, "inference='best' is unknown"),
        ({"n_starts": 0}, "n_starts=0 must be a positive integer"),
        ({"max_rounds": 1.5}, "max_rounds=1.5 must be a positive integer"),
        ({"positive_weight": -1}, "positive_weight=-1"),
        ({"outlier_fraction": 1.0, "formulation": "latent_svm"}, r"outlier_fraction=1\.0 must be at least 0"),
        ({"outlier_fraction": 0.1}, r"outlier_fraction=0\.1 is for formulation='latent_svm' only"),
        ({"start": "mean"}, "start='mean' is unknown; use 'means', 'random' or an array"),
        ({"start": np.ones(3)}, "start must be 5 finite weights"),
        ({"loss": "hinge"}, "loss='hinge' is unknown"),
        ({"formulation": "latent_ssvm", "inference": "exact", "loss": "ap"}, "exact inference would try.*use 'greedy'"),
    ],
)
def test_bad_parameters(parameters, message):
    X, y, _ = make_bags(30, np.random.default_rng(28))
    with pytest.raises(ValueError, match=message):
        LatentRankingSVM(**parameters).fit(X, y)


def test_budgets_end_with_a_warning():
    X, y, _ = make_bags(60, np.random.default_rng(29))
    with pytest.warns(ConvergenceWarning, match=r"stopped \(max_iter\).*raise max_iter"):
        model = LatentRankingSVM(C=1e4, max_iter=2, random_state=0).fit(X, y)
    assert model.dual_gap_ > 1e-3 * model.primal_objective_
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        LatentRankingSVM(C=1e4, time_limit=1e-9, n_starts=3, random_state=0).fit(X, y)


def test_new_bags_must_fit():
    X, y, _ = make_bags(20, np.random.default_rng(30))
    model = LatentRankingSVM(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features, but LatentRankingSVM was trained with 5"):
        model.predict(X[:, :, :4])
    with pytest.raises(ValueError, match=r"y must contain relevant and irrelevant bags.*score a larger set"):
        model.score(X, np.ones(20))
    with pytest.raises(ValueError, match="X has 20 bags, but y has 3 labels"):
        model.score(X, [0, 1, 1])


def test_joint_inference_refuses():
    with pytest.raises(ValueError, match="method='best' is unknown"):
        most_violating_joint_ranking([1.0, 2], [0.0, 1], [1, 0], method="best")
    with pytest.raises(ValueError, match="highest has 2 entries, but lowest has 1"):
        most_violating_joint_ranking([1.0, 2], [0.0], [1, 0])
