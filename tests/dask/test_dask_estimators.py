"""Estimators on a cluster against those of one process; chunks of all kinds, and what is said about bad ones."""

import gc
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("distributed")
import dask.array as da
from sklearn.base import clone
from tests.cases.dask_cases import chunked

from maxmargin import MulticlassSVM, RankingSVM, regularization_path
from maxmargin.dask import DaskMulticlassSVM, DaskRankingSVM
from maxmargin.distributed import shards_of
from maxmargin.io import SavedFileError
from maxmargin.ranking import RankingLoss

pytestmark = pytest.mark.filterwarnings("ignore:.* took .* ms for a pass:UserWarning")

rng = np.random.default_rng(0)
N = 240
X = rng.normal(size=(N, 4))
Y = (X[:, 0] + rng.normal(size=N) > 0.7).astype(float)
QID = np.repeat(np.arange(N // 7 + 1), 7)[:N]
LABELS = np.array(["no", "yes", "why"])[np.argmax(X[:, :3] + 0.5 * rng.normal(size=(N, 3)), axis=1)]


class Half(RankingLoss):
    """Half of what AUC says; it has no name that a worker would know."""

    def derivative(self, j, i, n_pos, n_neg):
        return np.full(np.broadcast(j, i).shape, -0.5 / (n_pos * n_neg))

    def value(self, above, n_neg):
        return 0.5 * float(np.mean(above)) / n_neg


def ranker(client, **settings):
    return DaskRankingSVM(**{"loss": "ap", "C": 3.0, "tol": 1e-3, "client": client, **settings})


def close(model, plain):
    assert model.certified_
    assert model.primal_objective_ == pytest.approx(plain.primal_objective_, rel=2e-3)
    assert np.allclose(model.coef_, plain.coef_, atol=0.2 * np.abs(plain.coef_).max())


@pytest.mark.parametrize("sizes", [N, 100, (1, 139, 0, 100)])
@pytest.mark.parametrize("qid", [None, QID, QID[::-1], rng.permutation(QID)], ids=["one", "sorted", "reversed", "shuffled"])
def test_rankers_are_those_of_one_process(client, sizes, qid):
    plain = RankingSVM("ap", C=3.0, tol=1e-3, solver="one_slack").fit(X, Y, qid)
    # Labels and queries in chunks of their own; queries are cut wherever chunks end.
    data = chunked(X, sizes), chunked(Y, 150), None if qid is None else chunked(qid, 77)
    model = ranker(client).fit(*data)
    close(model, plain)
    assert model.score(*data) == pytest.approx(model.to_local().score(X, Y, qid), rel=1e-12)
    assert np.allclose(model.predict(data[0]).compute(), X @ model.coef_, atol=1e-12)
    assert (model.n_skipped_queries_, model.n_features_in_) == (plain.n_skipped_queries_, 4)
    assert model.cluster_["moves"] == 0 and model.cluster_["bytes_up"] > 0


@pytest.mark.parametrize(
    "settings", [
        {"loss": "ndcg", "grades": "exponential"}, {"loss": "ap", "grades": True}, {"loss": "ndcg@3"}, {"loss": "ap@2"},
        {"loss": Half()}, {"loss": "auc", "relevance_threshold": 1.5}, {"loss": "ap", "bounds": (0.0, np.inf)},
        {"loss": "ap", "scale": "standard"},
    ]
)  # fmt: skip
def test_settings_of_rankers(client, settings):
    grades = Y + (X[:, 0] > 1)
    rows = X * [1.0, 30.0, 1e-3, 1.0] + [0.0, 1e4, 0.0, 7.0] if "scale" in settings else X
    plain = RankingSVM(C=3.0, tol=1e-3, solver="one_slack", **settings).fit(rows, grades, QID)
    model = ranker(client, **settings).fit(chunked(rows, 90), chunked(grades, 90), chunked(QID, 90))
    assert model.primal_objective_ == pytest.approx(plain.primal_objective_, rel=2e-3)
    assert model.relevance_thresholds_.tolist() == plain.relevance_thresholds_.tolist()
    expected = model.to_local().score(rows, grades, QID)
    assert model.score(chunked(rows, 90), chunked(grades, 90), chunked(QID, 90)) == pytest.approx(expected, rel=1e-12)


def test_weights_of_queries(client):
    weight = 1.0 + QID % 3
    plain = RankingSVM(C=3.0, tol=1e-3, solver="one_slack").fit(X, Y, QID, weight)
    data = [chunked(values, 100) for values in (X, Y, QID, weight)]
    model = ranker(client).fit(*data)
    close(model, plain)
    assert model.score(*data) == pytest.approx(model.to_local().score(X, Y, QID, weight), rel=1e-12)
    with pytest.raises(ValueError, match="all samples of a query must have the same; they differ"):
        ranker(client).fit(*data[:3], chunked(np.arange(N), 100))


def test_frames(client):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["rel"], frame["q"], frame["text"] = Y, QID, "t"
    lazy = dd.from_pandas(frame, npartitions=3)
    plain = RankingSVM(C=3.0, tol=1e-3, solver="one_slack").fit(X, Y, QID)
    for data in ((lazy.drop(columns="text"), "rel", "q"), (lazy[list("abcd")], lazy["rel"], lazy["q"])):
        model = ranker(client).fit(*data)
        close(model, plain)
        assert model.feature_names_in_.tolist() == list("abcd")
        assert model.to_local().feature_names_in_.tolist() == list("abcd")
        found = model.predict(lazy).compute()
        assert np.allclose(found.to_numpy(), X @ model.coef_) and (found.index == frame.index).all()
        assert model.score(*data) == pytest.approx(model.to_local().score(X, Y, QID))
    with pytest.raises(ValueError, match=r"y='label' is not a column of X, which has 'a', 'b', .*; name one of them, or"):
        ranker(client).fit(lazy, "label")
    with pytest.raises(ValueError, match=r"column 'text' of chunk . of X holds .*, not numbers; encode it, or leave it out of X"):
        ranker(client).fit(lazy, "rel", "q")
    with pytest.raises(ValueError, match="X has no columns besides those that y, qid and sample_weight name"):
        ranker(client).fit(lazy[["rel"]], "rel")
    with pytest.raises(ValueError, match="X has no column 'b', which the model was trained with"):
        model.predict(lazy[["a"]])


def test_sparse_chunks_and_single_precision(client):
    part = np.where(np.abs(X) > 0.6, X, 0.0)
    plain = RankingSVM(C=3.0, tol=1e-3, solver="one_slack").fit(part, Y)
    rows = chunked(part, 150).map_blocks(sparse.csr_matrix)
    close(ranker(client).fit(rows, chunked(Y, 150)), plain)
    single = ranker(client).fit(chunked(part.astype(np.float32), 150), chunked(Y, 150))
    assert single.primal_objective_ == pytest.approx(plain.primal_objective_, rel=2e-3)
    whole = ranker(client).fit(chunked((10 * X).astype(int), 150), chunked(Y > 0, 150))
    close(whole, RankingSVM(C=3.0, tol=1e-3, solver="one_slack").fit((10 * X).astype(int), Y))


def test_chunks_of_unknown_size(client):
    rows, labels = chunked(X, 100), chunked(Y, 100)
    few, fewer = rows[rows[:, 1] > 0], labels[rows[:, 1] > 0]
    assert np.isnan(few.shape[0])
    here = X[:, 1] > 0
    close(ranker(client).fit(few, fewer), RankingSVM(C=3.0, tol=1e-3, solver="one_slack").fit(X[here], Y[here]))
    with pytest.raises(ValueError, match=r"X has 3 chunks and y has 4, and the sizes of some are not known; call compute_chunk"):
        ranker(client).fit(few, chunked(Y, 70))
    with pytest.raises(ValueError, match=r"chunk \d of X has \d+ rows and that of y 100; both need the same chunks"):
        ranker(client).fit(few, labels)
    with pytest.raises(ValueError, match="y has 239 rows and X has 240; one is needed for every row of X"):
        ranker(client).fit(rows, chunked(Y[1:], 100))


def test_bad_data(client):
    rows, labels = chunked(X, 100), chunked(Y, 100)
    with pytest.raises(TypeError, match=r"X must be a Dask array or data frame, not ndarray; make one with dask.array"):
        ranker(client).fit(X, labels)
    with pytest.raises(TypeError, match="y must be a Dask array or series, as X is, not ndarray"):
        ranker(client).fit(rows, Y)
    with pytest.raises(ValueError, match="y is None; labels are needed"):
        ranker(client).fit(rows, None)
    with pytest.raises(ValueError, match=r"X has shape \(240,\); rows of features are needed"):
        ranker(client).fit(labels, labels)
    with pytest.raises(ValueError, match="y must contain relevant and irrelevant samples"):
        ranker(client).fit(rows, da.zeros(N, chunks=100))
    spoilt = X.copy()
    spoilt[123, 2] = np.nan
    with pytest.raises(ValueError, match=r"X and y must be finite: a feature in row 23 of chunk 1 of X is NaN or infinite"):
        ranker(client, shards_per_worker=9).fit(chunked(spoilt, 100), labels)
    with pytest.raises(ZeroDivisionError, match="by zero") as caught:
        ranker(client).fit(rows.map_blocks(lambda block: block / (1 // 0), dtype=float, meta=X[:0]), labels)
    assert caught.value.__notes__ == ["while Dask computed what shard 0 is made of: chunk 0 of X"]


def test_bad_parameters(client):
    rows, labels = chunked(X, 100), chunked(Y, 100)
    for settings, message in (
        ({"surrogate": "slack"}, "surrogate='slack' is not known over shards: leave it out, or use RankingSVM"),
        ({"scale": "query"}, "scale='query' is not known over shards: use scale='standard'"),
        ({"warm_start": True}, "warm_start=True is not known over shards: name a checkpoint"),
        ({"loss": "accuracy"}, "loss='accuracy' is not known over shards: use DaskMulticlassSVM"),
        ({"shards_per_worker": 0}, "shards_per_worker=0 must be a positive integer"),
        ({"worker_timeout": -1}, "worker_timeout=-1 must be a positive number"),
    ):
        with pytest.raises(ValueError, match=message):
            ranker(client, **settings).fit(rows, labels)


def test_copies_and_pickles(client):
    model = ranker(client).fit(chunked(X, 100), chunked(Y, 100))
    assert clone(model).client is client and not hasattr(clone(model), "coef_")
    kept = pickle.loads(pickle.dumps(model))
    assert kept.client is None and (kept.coef_ == model.coef_).all()
    assert np.allclose(kept.predict(X), model.predict(X), atol=0)
    local = model.to_local()
    assert type(local) is RankingSVM and not hasattr(local, "client") and local.dual_gap_ == model.dual_gap_


def test_checkpoints(client, tmp_path):
    rows, labels, file = chunked(X, 100), chunked(Y, 100), tmp_path / "run.ckpt"
    whole = ranker(client).fit(rows, labels)
    with pytest.warns(match="stopped"):
        ranker(client, callback=lambda history: len(history.passes) >= 2, checkpoint=file).fit(rows, labels)
    model = ranker(client, checkpoint=file).fit(rows, labels)
    assert (model.coef_ == whole.coef_).all() and model.n_iter_ == whole.n_iter_
    with pytest.raises(SavedFileError, match="is the checkpoint of a run with lam="):
        ranker(client, checkpoint=file, C=20.0).fit(rows, labels)
    with pytest.raises(ValueError, match="checkpoint is for solver='one_slack', and solver='fw' keeps none"):
        ranker(client, checkpoint=file, solver="fw").fit(rows, labels)


def test_files(client, tmp_path):
    for k in range(2):
        own = slice(k * 120, k * 120 + 120)
        lines = [
            f"{y:g} qid:{q} " + " ".join(f"{j + 1}:{float(value)!r}" for j, value in enumerate(row))
            for row, y, q in zip(X[own], Y[own], QID[own], strict=True)
        ]
        (tmp_path / f"part-{k}.svm").write_text("\n".join(lines) + "\n")
    model = ranker(client).fit_files(tmp_path / "part-*.svm")
    close(model, RankingSVM(C=3.0, tol=1e-3, solver="one_slack").fit(X, Y, QID))
    assert model.cluster_["shards"] == 4
    assert ranker(client).fit_files(tmp_path / "part-*.svm", shards=3, cache=tmp_path / "cache").cluster_["shards"] == 3
    with pytest.raises((FileNotFoundError, ValueError), match=r"nothing-\*.svm"):
        ranker(client).fit_files(tmp_path / "nothing-*.svm")


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_classes(client, fit_intercept):
    costs = 1.0 - np.eye(3) + np.eye(3, k=1)
    settings = {"C": 0.1, "tol": 1e-6, "costs": costs, "fit_intercept": fit_intercept}
    weight = 1.0 + (np.arange(N) % 2)
    plain = MulticlassSVM(solver="one_slack", **settings).fit(X, LABELS, weight)
    data = [chunked(values, 130) for values in (X, LABELS, weight)]
    model = DaskMulticlassSVM(client=client, **settings).fit(*data)
    close(model, plain)
    assert model.classes_.tolist() == ["no", "why", "yes"]
    assert np.allclose(model.intercept_, plain.intercept_, atol=0.1)
    assert (model.predict(data[0]).compute() == model.to_local().predict(X)).all()
    assert model.decision_function(data[0]).compute().shape == (N, 3)
    assert model.score(*data) == pytest.approx(model.to_local().score(X, LABELS, weight), rel=1e-12)
    two = DaskMulticlassSVM(client=client, C=0.1).fit(data[0], chunked(Y, 50))
    assert two.decision_function(data[0]).compute().shape == (N,)
    with pytest.raises(ValueError, match="class_weight='balanced' is not known over shards: pass sample_weight to fit"):
        DaskMulticlassSVM(client=client, class_weight="balanced").fit(*data)
    with pytest.raises(ValueError, match="y must have at least two different labels"):
        DaskMulticlassSVM(client=client).fit(data[0], da.zeros(N, chunks=100))


def test_data_too_small_for_a_cluster_are_told(client, monkeypatch):
    monkeypatch.setattr("maxmargin.dask.base._bare_call", lambda engine: 100.0)
    with pytest.warns(UserWarning, match=r"DaskRankingSVM took .* takes 100000.0 ms; .* trained faster by RankingSVM in one"):
        ranker(client).fit(chunked(X, 100), chunked(Y, 100))
    monkeypatch.setattr("maxmargin.dask.base._bare_call", lambda engine: 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker(client).fit(chunked(X, 100), chunked(Y, 100))


def test_progress(client, capsys):
    ranker(client, verbose=1).fit(chunked(X, 100), chunked(Y, 100))
    assert ", 2 workers, 0 moves, " in capsys.readouterr().err


def test_chunks_become_shards_of_about_the_same_size():
    sizes = (10, 1, 1, 1, 7, 20, 5, 5)
    made = shards_of(chunked(np.ones((50, 2)), sizes), chunked(np.ones(50), sizes), n_shards=4, kind="ranking")
    assert [(source.first, source.last) for source in made.sources] == [(0, 3), (4, 5), (6, 7)]
    assert [len(parts) for parts in made.parts] == [8, 4, 4]


def test_regularization_paths(client):
    options = {"epsilon": 0.05, "lambda_min": 1e-2}
    plain = regularization_path(RankingSVM("ap"), X, Y, qid=QID, **options)
    data = chunked(X, 100), chunked(Y, 100)
    path = regularization_path(ranker(client), *data, qid=chunked(QID, 100), **options)
    assert path.certified and len(path.breakpoints) == len(plain.breakpoints)
    model = path.estimator(0.1)
    assert type(model) is DaskRankingSVM and np.allclose(model.coef_, plain.estimator(0.1).coef_, atol=1e-6)
    del path, model
    gc.collect()

    def actors(dask_worker):
        return len(dask_worker.state.actors)

    for _ in range(100):
        if sum(client.run(actors).values()) == 0:
            break
    assert sum(client.run(actors).values()) == 0
    classes = DaskMulticlassSVM(client=client)
    assert regularization_path(classes, chunked(X, 100), chunked(LABELS, 100), epsilon=0.1, lambda_min=0.1).certified
