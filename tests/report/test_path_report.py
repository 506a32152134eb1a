"""What the page about a regularization path computes; the page itself is tested in a browser."""

import dataclasses
import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_iris

from maxmargin import BCFW, ChainSVM, MulticlassSVM, RankingSVM, RegularizationPath, regularization_path
from maxmargin.core import TracedPath
from maxmargin.ranking import AveragePrecision, metrics
from maxmargin.report import path_contents, paths, write_path_report


def samples(seed, n=200, d=15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=n) > 1).astype(int)
    return X, y


@pytest.fixture(scope="module")
def path():
    return regularization_path(RankingSVM("ap"), *samples(0), epsilon=0.01, lambda_min=1e-3)


def contents(path, *data, **options):
    """What a browser gets: finite numbers and text alone."""
    return json.loads(json.dumps(path_contents(path, *data, **options), allow_nan=False))


def covering(models, lam):
    """Position of the model whose range holds lambda, as the page finds it."""
    return next(k for k, low in enumerate(models["low"]) if low <= lam)


@pytest.mark.parametrize("rule", ["interpolate", "transport"])
def test_every_lambda_is_what_the_path_says(path, rule):
    if rule == "transport":
        path = regularization_path(RankingSVM("ap"), *samples(0), epsilon=0.1, kappa=0.3, lambda_min=1e-2, rule=rule)
    found = contents(path, *samples(1), training=samples(0))["path"]
    models = found["models"]
    assert found["high"] == pytest.approx(path.lambdas[0]) and found["low"] == pytest.approx(path.lambda_end)
    for lam in np.geomspace(path.lambda_end * 1.001, path.lambdas[0] * 0.999, 300):
        k = covering(models, lam)
        number = models["number"][k]
        assert number == path.model_at(lam) and models["low"][k] <= lam <= models["high"][k] * (1 + 1e-8)
        high, low, at_high, at_low = next(row for row in models["gaps"][k] if lam >= row[1] * (1 - 1e-8))
        share = (high - lam) / (high - low)
        assert (1 - share) * at_high + share * at_low == pytest.approx(path.gap_bound(lam), rel=1e-4, abs=1e-7)
        weights = path.weights(lam)
        for feature, value in models["largest"][k]:
            column = int(found["features"][feature].removeprefix("column "))
            assert value == pytest.approx(weights[column], rel=1e-5)
        sizes = [abs(value) for _, value in models["largest"][k]]
        assert sizes == pytest.approx(np.sort(np.abs(weights))[::-1][: len(sizes)], rel=1e-5) and len(sizes) == 12
        assert models["nonzero"][k] == np.count_nonzero(weights)
        model = path.estimator(lam)
        assert models["training"][k] == pytest.approx(model.score(*samples(0)), rel=1e-5)
        assert models["validation"][k] == pytest.approx(model.score(*samples(1)), rel=1e-5)
    # The curve passes through the bound, and never above epsilon.
    x, y = found["gap"]["x"], found["gap"]["y"]
    assert (np.diff(x) >= 0).all() and max(y) <= path.epsilon * (1 + 1e-5)
    assert found["breakpoints"] == pytest.approx(path.breakpoints)
    for feature, values in found["profiles"]:
        column = int(found["features"][feature].removeprefix("column "))
        assert values == pytest.approx([path.store[k][column] for k in models["number"]], rel=1e-5)
    assert len(found["profiles"]) == 10


def test_headline(path):
    best = path.select(*samples(1))
    found = contents(path, *samples(1))
    text = " ".join(found["headline"]["sentences"])
    assert f"with AP {best.score:.3f}." in text and "(200 samples)" in text and text.endswith("certified.")
    assert found["path"]["best"]["lambda"] == pytest.approx(best.lam) and found["path"]["best"]["score"] == pytest.approx(
        best.score, rel=1e-5
    )
    k = found["path"]["best"]["position"]
    assert found["path"]["models"]["validation"][k] == max(found["path"]["models"]["validation"])
    assert found["title"] == "Regularization path of RankingSVM, trained for AP"
    assert found["path"]["models"]["training"] is None and found["certificate"]["certified"]
    assert [row[0] for row in found["parameters"]["rows"]] == [
        "bounds",
        "grades",
        "loss",
        "relevance_threshold",
        "scale",
        "surrogate",
    ]
    known = contents(path, selection=best, held_out="three folds")
    assert "On three folds, the best is" in " ".join(known["headline"]["sentences"])
    bare = contents(path)
    assert bare["path"]["best"] is None and bare["path"]["models"]["validation"] is None and len(bare["headline"]["tiles"]) == 2


def test_queries_and_other_scores():
    (X, y), qid = samples(2), np.repeat(np.arange(10), 20)
    path = regularization_path(RankingSVM("ndcg"), X, y, qid=qid, epsilon=0.05, lambda_min=1e-2)
    found = contents(path, X, y, qid, training=(X, y, qid))
    assert found["path"]["metric"] == "NDCG" and found["path"]["n_blocks"] == path.n_blocks
    assert found["path"]["models"]["training"] == found["path"]["models"]["validation"]

    def top(model, X, y, qid):
        return metrics.evaluate(y, model.decision_function(X), qid=qid, metrics=["p@3"])["p@3"]

    found = contents(path, X, y, qid, training=(X, y, qid), scoring=top, metric="P@3")["path"]
    assert found["metric"] == "P@3" and found["models"]["training"] == found["models"]["validation"]
    k = len(found["models"]["number"]) - 1
    assert found["models"]["training"][k] == pytest.approx(top(path.estimator(path.lambda_end), X, y, qid), rel=1e-5)


def test_many_models_are_thinned(path, monkeypatch):
    monkeypatch.setattr(paths, "MAX_MODELS", 9)
    everything = path.select(*samples(1))
    found = contents(path, *samples(1))["path"]
    models = found["models"]
    assert len(models["number"]) == 9 < found["total"] and models["number"] == sorted(set(models["number"]))
    used = [k for k, (hi, lo) in enumerate(path.ranges()) if hi > lo]
    assert models["number"][0] == 0 and models["number"][-1] == used[-1]
    best = sorted(used, key=lambda k: -everything.scores[k])[:3]
    assert set(best) <= set(models["number"])
    assert models["number"][found["best"]["position"]] == path.model_at(everything.lam)
    assert len(found["breakpoints"]) == 9


def test_a_path_of_many_models_makes_a_small_file(tmp_path):
    X, y = samples(0, n=60, d=5)
    path = regularization_path(RankingSVM("ap"), X, y, epsilon=0.02, lambda_min=1e-2, rule="transport", solver=BCFW(steps="fw"))
    assert len(path) > 500
    page = write_path_report(path, X, y, training=(X, y), file=tmp_path / "new" / "p.html")
    assert page.stat().st_size < 200_000
    found = json.loads(re.search(r'id="contents">(.*?)</script>', page.read_text(), re.S)[1])["path"]
    assert len(found["models"]["number"]) == 300 and found["total"] == len(path) and len(found["gap"]["x"]) <= 1000


def test_paths_that_reach_zero():
    X, y = np.array([[2.0, 0], [1.5, 1], [-1, 0.5], [-2, 0.2]]), [1, 1, 0, 0]
    path = regularization_path(RankingSVM("ap"), X, y, epsilon=0.01, lambda_min=1e-6)
    assert path.reached_zero
    found = contents(path, X, y)
    assert 0 < found["path"]["low"] == found["path"]["models"]["low"][-1] < path.segments[-1].hi
    assert "for every C." in found["headline"]["sentences"][0] and "At every λ, the" in found["certificate"]["sentence"]
    last = found["path"]["models"]["gaps"][-1][-1]
    assert last[3] == pytest.approx(path.gap_bound(found["path"]["low"]), rel=1e-5)


def test_a_path_with_a_beginning():
    path = regularization_path(RankingSVM("ap"), *samples(0), epsilon=0.05, lambda_min=0.01, lambda_max=1.0)
    found = contents(path)
    assert (
        found["path"]["high"] == 1
        and not found["path"]["closed_form"]
        and "up to 1 down to 0.01" in found["certificate"]["sentence"]
    )


def test_a_first_model_for_large_lambda_only(path):
    """Another model is better right below the first lambda."""
    segments = [path.segments[1]._replace(hi=path.segments[0].hi), *path.segments[2:]]
    fields = {field.name: getattr(path, field.name) for field in dataclasses.fields(TracedPath)}
    narrow = RegularizationPath.of(TracedPath(**fields | {"segments": segments}), path.template)
    models = contents(narrow)["path"]["models"]
    top = path.lambdas[0]
    assert models["high"][0] == models["low"][0] == pytest.approx(top) and narrow.model_at(top) == 0
    assert models["gaps"][0] == [pytest.approx([top, top, path.start_gap, path.start_gap], rel=1e-5)]


def test_names_of_weights():
    X, y = load_iris(return_X_y=True)
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    path = regularization_path(MulticlassSVM(), X, y, epsilon=0.1, lambda_min=0.1)
    found = contents(path, X, y, feature_names=names)["path"]
    assert found["metric"] == "score" and "2: petal length" in found["features"] and found["n_weights"] == path.store.n_features
    assert {name.split(": ")[1] for name in found["features"]} <= {*names, "constant"}
    path = regularization_path(RankingSVM("accuracy"), X, y == 1, epsilon=0.1, lambda_min=0.1)
    found = contents(path, X, y == 1, feature_names=names)["path"]
    assert set(found["features"]) == {*names, "constant"} and found["metric"] == "AP"
    with pytest.raises(ValueError, match="feature_names has 3 names, but there are 4 features"):
        path_contents(path, feature_names=names[:3])
    chains = regularization_path(ChainSVM(), [X[:5], X[50:57]], [y[:5], y[50:57]], epsilon=0.1, lambda_min=0.1)
    found = contents(chains, [X[:5]], [y[:5]])["path"]
    assert found["models"]["validation"][-1] == 1 and all(name.startswith("weight ") for name in found["features"])


def test_losses_of_ones_own_are_named():
    class Mine(AveragePrecision):
        pass

    path = regularization_path(RankingSVM(Mine()), *samples(0, n=50), epsilon=0.1, lambda_min=0.1)
    assert contents(path, *samples(0, n=50))["path"]["metric"] == "1 \N{MINUS SIGN} Mine"


def test_what_cannot_be_shown(path):
    nothing = regularization_path(RankingSVM("ap"), *samples(0), epsilon=0.01, lambda_min=1e9)
    with pytest.raises(ValueError, match="the path has no range of lambda to show"):
        path_contents(nothing)
    with pytest.raises(ValueError, match="X and y go together"):
        path_contents(path, samples(1)[0])


def test_method(path, tmp_path):
    page = path.report(*samples(1), training=samples(0), file=tmp_path / "p.html", title="Every one", notes=["Made up."])
    found = json.loads(re.search(r'id="contents">(.*?)</script>', page.read_text(), re.S)[1])
    assert found["title"] == "Every one" and found["notes"] == ["Made up."] and page.stat().st_size < 150_000
