"""Estimators trained for metrics of the first places: the true objective, certified, and the metric as their score."""

import warnings

import numpy as np
import pytest
from tests.cases.brute_force import largest_hinge

from maxmargin import DirectLossMinimizer, LatentRankingSVM, RankingSVM, load_model, regularization_path, save_model
from maxmargin.core.solvers import BCFW, ConvergenceWarning
from maxmargin.ranking import AveragePrecision, loss_of_ranking, metrics, ranking_loss

NAMES = ["ndcg@2", "ap@3", "mrr@2", "p@3", "recall@2", "rbp(p=0.8)"]


@pytest.fixture(scope="module")
def lists():
    """Eight lists of up to six samples."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(3, 7, 8)
    qid = np.repeat(np.arange(8), sizes)
    X = rng.normal(size=(len(qid), 3))
    y = X[:, 0] + 0.5 * rng.normal(size=len(qid)) > 0.3
    begins = np.flatnonzero(np.diff(qid, prepend=-1))
    y[begins], y[begins + 1] = True, False
    return X, y, qid


def objective(name, weights, X, y, qid, C):
    """By the hinge of every list from its definition."""
    hinges = [largest_hinge(name, (X @ weights)[qid == q], y[qid == q]) for q in np.unique(qid)]
    return 0.5 * weights @ weights + C * sum(hinges)


@pytest.mark.parametrize("budget", [{"tol": 1e-6}, {"solver": BCFW()}])
@pytest.mark.parametrize("name", NAMES)
def test_ranking_svm_minimises_the_true_objective(lists, name, budget):
    X, y, qid = lists
    model = RankingSVM(name, C=0.7, **budget).fit(X, y, qid)
    best = objective(name, model.coef_, X, y, qid, 0.7)
    assert model.certified_ and model.primal_objective_ == pytest.approx(best, rel=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(6):
        other = model.coef_ + 10.0 ** rng.uniform(-4, 0) * rng.normal(size=3)
        assert objective(name, other, X, y, qid, 0.7) >= best - model.dual_gap_ - 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_score_is_the_metric_trained_for(lists, name, tmp_path):
    X, y, qid = lists
    model = RankingSVM(name, C=10).fit(X, y, qid)
    scores = model.predict(X)
    expected = {
        "ndcg@2": lambda: metrics.ndcg(y, scores, k=2, qid=qid),
        "p@3": lambda: metrics.precision(y, scores, k=3, qid=qid),
    }.get(name, lambda: metrics.evaluate(y, scores, qid=qid, metrics=[name])[name])()
    if name == "ap@3":
        # By all that can be found, not by all there are.
        each = [1 - loss_of_ranking(AveragePrecision(at=3), y[qid == q], scores[qid == q]) for q in range(8)]
        assert expected < np.mean(each)
        expected = np.mean(each)
    assert model.score(X, y, qid) == pytest.approx(expected, abs=1e-12)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.score(X, y, qid) == model.score(X, y, qid)
    by_object = RankingSVM(ranking_loss(name), C=10).fit(X, y, qid)
    save_model(by_object, tmp_path / "other")
    assert repr(ranking_loss(load_model(tmp_path / "other").loss)) == repr(by_object.loss)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", NAMES)
def test_direct_loss_is_never_worse_than_its_start(lists, name, sign):
    X, y, qid = lists
    model = DirectLossMinimizer(name, C=1, sign=sign, max_iter=60, tol=0.01).fit(X, y, qid)
    loss, scores = ranking_loss(name), model.predict(X)
    mean = np.mean([loss_of_ranking(loss, y[qid == q], scores[qid == q]) for q in range(8)])
    assert model.training_loss_ == pytest.approx(mean, abs=1e-12) and model.training_loss_ <= model.start_loss_


@pytest.mark.parametrize("name", NAMES)
def test_single_candidates_are_the_ranking_svm(lists, name):
    X, y, _ = lists
    X = X + 2 * (y > 0)[:, None]  # as they are, the optimum of most losses is zero
    plain = RankingSVM(name, C=5, tol=1e-6).fit(X, y)
    assert plain.coef_.any()
    latent = LatentRankingSVM(loss=name, C=5, tol=1e-6).fit(X, y, offsets=np.arange(len(y) + 1))
    assert latent.certified_ and latent.objective_ == pytest.approx(plain.primal_objective_, rel=1e-4)
    assert latent.score(X, y, offsets=np.arange(len(y) + 1)) == pytest.approx(plain.score(X, y), abs=0.2)


@pytest.mark.parametrize("name", ["ndcg@2", "p@3"])
def test_path_agrees_with_single_problems(lists, name):
    X, y, qid = lists
    path = regularization_path(RankingSVM(name), X, y, epsilon=0.02, lambda_min=0.01, qid=qid)
    for lambda_ in (0.02, 0.2):
        C = 1 / (lambda_ * 8)
        model, found = RankingSVM(name, C=C, tol=1e-6).fit(X, y, qid), path.estimator(lambda_).coef_
        here, best = (objective(name, w, X, y, qid, C) / (8 * C) for w in (found, model.coef_))
        assert here <= best + 0.02 + 1e-9


@pytest.mark.parametrize("name", [*NAMES[:5], "rbp"])
def test_torch_modules_take_them(name):
    torch = pytest.importorskip("torch")
    from maxmargin.nn import DirectLoss, RankingHinge

    rng = np.random.default_rng(1)
    scores = torch.tensor(rng.normal(size=(3, 9)), requires_grad=True)
    relevant = torch.tensor(rng.random((3, 9)) < 0.4)
    relevant[:, 0], relevant[:, 1] = True, False
    for loss in (name, ranking_loss(name)):
        module = RankingHinge(loss, reduction="none")
        full = ranking_loss(name).native_name()
        expected = [largest_hinge(full, s, r) for s, r in zip(scores.detach().numpy(), relevant.numpy(), strict=True)]
        np.testing.assert_allclose(module(scores, relevant).detach().numpy(), expected, rtol=1e-9)
        assert torch.autograd.gradcheck(lambda s, module=module: module(s, relevant).sum(), (scores,), eps=1e-7, atol=1e-5)
    assert torch.isfinite(DirectLoss(name)(scores, relevant))


def test_a_cut_off_beyond_every_list_is_none(lists):
    X, y, qid = lists
    whole, cut = (RankingSVM(name, C=3, tol=1e-6).fit(X, y, qid) for name in ("ndcg", "ndcg@100"))
    assert cut.primal_objective_ == pytest.approx(whole.primal_objective_, rel=1e-5)
    assert cut.score(X, y, qid) == whole.score(X, y, qid)


def test_bad_losses_are_named(lists):
    X, y, _ = lists
    for name, message in (
        ("ndcg@0", "'ndcg@10', say"),
        ("precision", "needs the number of first places"),
        ("auc@3", "write 'auc'"),
    ):
        for model in (RankingSVM(name), DirectLossMinimizer(name), LatentRankingSVM(loss=name)):
            data = (X[:, None], y) if isinstance(model, LatentRankingSVM) else (X, y)
            with pytest.raises(ValueError, match=f"loss='{name}'.*{message}"):
                model.fit(*data)


def test_an_optimum_at_zero_is_called_one():
    """Positives in the middle of the negatives: whatever the weights, some negatives are above them all."""
    rng = np.random.default_rng(0)
    X = np.concatenate([0.1 * rng.normal(size=(5, 2)), rng.normal(size=(400, 2))])
    y = np.arange(405) < 5
    with pytest.warns(ConvergenceWarning, match=r"optimum at zero weights.*NDCG\(at=3\).*train for NDCG\(\)"):
        model = RankingSVM("ndcg@3", C=1.0).fit(X, y)
    assert model.certified_ and not model.coef_.any() and model.primal_objective_ == pytest.approx(1.0, rel=1e-3)


def test_descent_for_the_first_places_starts_from_all():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + rng.normal(size=300) > 1.5
    start = DirectLossMinimizer("ndcg", max_iter=1, C=10).fit(X, y)
    cut = DirectLossMinimizer("ndcg@10", max_iter=1, C=10).fit(X, y)
    np.testing.assert_array_equal(cut.coef_, start.coef_)


def test_weights_of_zero_are_told():
    """Of a long list the hinge of the first places is least where nothing is ranked: proved, and of no use."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = X[:, 0] + rng.normal(size=300) > 1.2
    with pytest.warns(ConvergenceWarning, match=r"optimum at zero weights.*NDCG\(at=5\)"):
        model = RankingSVM(loss="ndcg@5", C=1e4).fit(X, y)
    assert not model.coef_.any() and model.certified_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RankingSVM(loss="ndcg", C=1e4).fit(X, y)
        RankingSVM(loss="ndcg@100", C=1e4).fit(X, y)


@pytest.mark.parametrize("formulation", ["latent_ap", "latent_ssvm"])
def test_weights_of_zero_are_told_of_bags_too(formulation):
    rng = np.random.default_rng(0)
    X = np.concatenate([0.1 * rng.normal(size=(3, 2, 2)), rng.normal(size=(60, 2, 2))])
    y = np.arange(63) < 3
    model = LatentRankingSVM("ndcg@2", C=0.1, formulation=formulation, max_rounds=5)
    with pytest.warns(ConvergenceWarning, match=r"ends at zero weights.*NDCG\(at=2\).*train for NDCG\(\)"):
        model.fit(X, y)
    assert not model.coef_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(loss="ndcg", C=1e-3).fit(X, y)
