"""Rare events on a cluster against the classifier of one process; a worker that is killed in the middle."""

import pickle

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("distributed")
import dask.array as da
from dask_cases import Faults, FaultySource, chunked, processes
from event_cases import OverShards, engine_of, samples
from sklearn.base import clone
from waiting import time_out

from maxmargin import RankingClassifier, load_model, save_model
from maxmargin.dask import DaskEngine, DaskRankingClassifier

pytestmark = pytest.mark.filterwarnings("ignore:.* took .* ms for a pass:UserWarning")

X, Y = samples(200, 3)
QUICK = {"C": 0.1, "refine": False, "random_state": 1}


def classifier(client, **settings):
    return DaskRankingClassifier(client=client, **{**QUICK, **settings})


@pytest.mark.parametrize(("sizes", "settings"), [(90, {"refine": "always", "max_iter": 3}), ((1, 99, 0, 100), {})])
def test_models_are_those_of_one_process(client, sizes, settings):
    plain = RankingClassifier(**{**QUICK, **settings}).fit(X, Y)
    data = chunked(X, sizes), chunked(Y, 70)
    model = classifier(client, **settings).fit(*data)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-3)
    assert (model.C_, model.refined_, model.classes_.tolist()) == (0.1, plain.refined_, ["common", "rare"])
    assert model.held_out_ == pytest.approx(plain.held_out_, rel=1e-3) and model.certified_ is False
    assert model.summary() == plain.summary() and model.n_features_in_ == 3
    local = model.to_local()
    assert type(local) is RankingClassifier
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        lazy = getattr(model, method)(data[0])
        assert lazy.shape[0] == 200 and isinstance(lazy, da.Array)
        expected = getattr(local, method)(X)
        assert lazy.compute().shape == expected.shape and lazy.dtype == expected.dtype
        for own in (lazy.compute(), getattr(model, method)(X)):
            assert (own == expected).all() if method == "predict" else np.allclose(own, expected, rtol=1e-12)
    assert model.score(*data) == pytest.approx(local.score(X, Y), rel=1e-12)
    assert model.cluster_["moves"] == 0 and model.cluster_["bytes_up"] > 0


def test_the_class_to_be_found_may_come_first(client):
    data = chunked(X, 90), chunked(Y, 90)
    model = classifier(client, pos_label="common", loss="p@20", calibration=None).fit(*data)
    plain = RankingClassifier(**QUICK, pos_label="common", loss="p@20", calibration=None).fit(X, Y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-3)
    assert model.score(*data) == pytest.approx(model.to_local().score(X, Y), rel=1e-12)
    with pytest.raises(AttributeError, match="predict_proba needs a calibration, and DaskRankingClassifier has calibration=None"):
        model.predict_proba(data[0])


def test_frames(client):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=Y)
    lazy = dd.from_pandas(frame, npartitions=3)
    model = classifier(client).fit(lazy, "kind")
    assert model.feature_names_in_.tolist() == list("abc")
    local = model.to_local()
    found = model.predict_proba(lazy).compute()
    assert found.columns.tolist() == ["common", "rare"] and (found.index == frame.index).all()
    np.testing.assert_allclose(found.to_numpy(), local.predict_proba(frame[list("abc")]), rtol=1e-12)
    assert (model.predict(lazy).compute() == local.predict(frame[list("abc")])).all()
    assert model.score(lazy, "kind") == pytest.approx(local.score(frame[list("abc")], Y))


def test_sparse_chunks(client):
    few = np.where(np.abs(X - X.mean(axis=0)) > X.std(axis=0), X - X.mean(axis=0), 0.0)
    rows = chunked(few, 90).map_blocks(sparse.csr_matrix)
    model, plain = classifier(client).fit(rows, chunked(Y, 90)), RankingClassifier(**QUICK).fit(sparse.csr_array(few), Y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=0.01)
    assert model.score(rows, chunked(Y, 90)) == pytest.approx(model.to_local().score(few, Y), rel=1e-12)


def test_files(client, tmp_path):
    for k in range(2):
        own = slice(k * 100, k * 100 + 100)
        lines = [
            f"{int(y == 'rare')} " + " ".join(f"{j + 1}:{float(value)!r}" for j, value in enumerate(row))
            for row, y in zip(X[own], Y[own], strict=True)
        ]
        (tmp_path / f"part-{k}.svm").write_text("\n".join(lines) + "\n")
    model = classifier(client).fit_files(tmp_path / "part-*.svm", shards=3)
    plain = RankingClassifier(**QUICK).fit(sparse.csr_array(X), (Y == "rare").astype(float))
    assert model.cluster_["shards"] == 3
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=0.05)
    (tmp_path / "queries.svm").write_text("1 qid:1 1:1\n0 qid:1 1:2\n1 qid:2 1:1\n0 qid:2 1:3\n")
    with pytest.raises(ValueError, match="the data have queries, and rare events are found in one list; leave queries out"):
        classifier(client).fit_files(tmp_path / "queries.svm")


def test_copies_pickles_and_saved_models(client, tmp_path):
    model = classifier(client).fit(chunked(X, 100), chunked(Y, 100))
    assert clone(model).client is client and not hasattr(clone(model), "coef_")
    kept = pickle.loads(pickle.dumps(model))
    assert kept.client is None and (kept.predict_proba(X) == model.predict_proba(X)).all()
    save_model(model.to_local(), tmp_path / "m")
    assert (load_model(tmp_path / "m").predict(X) == model.predict(X)).all()
    assert model.to_local().report(X, Y, path=tmp_path / "page.html").exists()


def test_bad_parameters_and_data(client):
    rows, labels = chunked(X, 100), chunked(Y, 100)
    for settings, message in (
        ({"start": "hinge"}, "start='hinge' is not known over shards: the logistic regression is the only start there"),
        ({"checkpoint": "run.ckpt"}, "checkpoint='run.ckpt' is not known over shards: training keeps none"),
        ({"cv": [([0], [1])]}, r"cv=\[\(\[0\], \[1\]\)\] is not known over shards; pass the number of folds"),
        ({"threshold": "f2"}, "threshold='f2' is no aim"),
        ({"pos_label": "often"}, "pos_label='often' is no label"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier(client, **settings).fit(rows, labels)
    with pytest.raises(ValueError, match=r"y holds only one class, 0\.0"):
        classifier(client).fit(rows, da.zeros(200, chunks=100))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        classifier(client).fit(rows, da.arange(200, chunks=100))
    spoilt = X.copy()
    spoilt[123, 2] = np.nan
    with pytest.raises(ValueError, match=r"X and y must be finite: a feature in row 23 of chunk 1 of X is NaN or infinite"):
        classifier(client, shards_per_worker=9).fit(chunked(spoilt, 100), labels)
    with pytest.raises(ValueError, match="X has 2 features, but the model was trained with 3"):
        classifier(client).fit(rows, labels).score(rows[:, :2], labels)


@pytest.mark.cluster
def test_a_killed_worker_changes_no_bit(tmp_path):
    settings = {"C": [0.01, 0.1], "refine": "always", "max_iter": 2}
    expected = OverShards(**settings).fit_engine(engine_of(X, Y, (0.5,)))
    faults = Faults(tmp_path)
    with time_out(300), processes() as client:
        for operation in ("logistic", "held_above", "step", "pool_sigmoid"):
            sources = [FaultySource(source, k, tmp_path) for k, source in enumerate(engine_of(X, Y, (0.5,)).sources)]
            faults.plan("die before", operation, 1)
            with DaskEngine(sources, client) as engine:
                found = OverShards(**settings).fit_engine(engine)
                assert engine.moves >= 1 and not list(tmp_path.iterdir())
            assert (found.coef_ == expected.coef_).all() and (found.intercept_ == expected.intercept_).all()
            assert (found.calibration_ == expected.calibration_).all() and found.held_out_ == expected.held_out_
