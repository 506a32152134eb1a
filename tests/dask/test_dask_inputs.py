"""What estimators on a cluster take and refuse: columns by name, masks, missing parts, calls out of order; what they leave."""

import gc
import pickle
import threading
import warnings

import numpy as np
import pytest

pytest.importorskip("distributed")
import dask
import dask.array as da
from dask.distributed import Client, LocalCluster
from sklearn.exceptions import NotFittedError
from tests.cases.dask_cases import chunked
from tests.cases.waiting import wait_until

from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.dask import DaskChainSVM, DaskMulticlassSVM, DaskRankingSVM
from maxmargin.distributed import ShardError

pytestmark = pytest.mark.filterwarnings("ignore:.* took .* ms for a pass:UserWarning")

rng = np.random.default_rng(0)
N = 240
X = rng.normal(size=(N, 4)) * [1.0, 5.0, 0.2, 3.0]
Y = (X[:, 0] + rng.normal(size=N) > 0.7).astype(int)
LABELS = np.digitize(X[:, 0], [-0.5, 0.5])
GROUP = np.repeat(np.arange(N // 4), 4)
NAMES = list("abcd")


def frame_of(**columns):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(**columns), npartitions=3, sort=False)


CASES = {
    "ranking": (DaskRankingSVM, ("y",)),
    "classes": (DaskMulticlassSVM, ("label",)),
    "chains": (DaskChainSVM, ("label", "group")),
}


def fitted(case, client, **settings):
    kind, columns = CASES[case]
    lazy = frame_of(y=Y, label=LABELS, group=GROUP)
    return kind(client=client, **settings).fit(lazy[[*NAMES, *columns]], *columns), columns


@pytest.mark.parametrize("case", CASES)
def test_columns_go_by_their_names_wherever_a_model_is_used(client, case):
    model, columns = fitted(case, client)
    lazy = frame_of(y=Y, label=LABELS, group=GROUP, more=1.0)
    other, plain = lazy[["more", *NAMES[::-1], *columns]], lazy[[*NAMES, *columns]]
    assert model.score(other, *columns) == model.score(plain, *columns)
    assert (model.predict(other, *columns[1:]).compute() == model.predict(plain, *columns[1:]).compute()).all()
    less = other.drop(columns="c")
    for call in (lambda: model.score(less, *columns), lambda: model.predict(less, *columns[1:])):
        with pytest.raises(ValueError, match="X has no column 'c', which the model was trained with; add it"):
            call()
    if len(columns) == 1:
        rows = lazy.compute()[NAMES]
        assert np.allclose(model.predict(rows), model.predict(plain).compute(), rtol=1e-12)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(rows[NAMES[::-1]])


def test_scores_of_several_classes_are_a_frame_with_their_labels(client):
    model, _ = fitted("classes", client)
    found = model.decision_function(frame_of()).compute()
    assert found.columns.tolist() == [0, 1, 2] and np.allclose(found, model.to_local().decision_function(frame_of().compute()))


def test_chains_of_frames_label_dictionaries_in_one_process(client):
    model, _ = fitted("chains", client)
    rows = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
    found = np.concatenate(model.to_local().predict([rows[k : k + 4] for k in range(0, N, 4)]))
    assert (found == model.predict(frame_of(group=GROUP), "group").compute()).all()


def test_a_fit_that_fails_leaves_the_model_as_it_was(client):
    model, _ = fitted("ranking", client)
    before = model.predict(frame_of()).compute()
    with pytest.raises(ValueError, match="holds only one class"):
        model.fit(chunked(X[:, :2], 100), chunked(0 * Y, 100))
    assert model.feature_names_in_.tolist() == NAMES and model.n_features_in_ == 4
    assert (model.predict(frame_of()[NAMES[::-1]]).compute() == before).all()


@pytest.mark.parametrize("what", ["X", "y"])
def test_masked_entries_are_refused(client, what):
    mask = np.zeros((N, 4), dtype=bool)
    mask[150, 2] = True
    rows, truth = chunked(X, 100), chunked(Y, 100)
    if what == "X":
        rows = da.ma.masked_array(rows, chunked(mask, 100))
    else:
        truth = da.ma.masked_array(truth, chunked(mask[:, 2], 100))
    with pytest.raises(ValueError, match=f"{what} has masked entries; fill them, or leave these rows out"):
        DaskRankingSVM(client=client).fit(rows, truth)
    # A mask of nothing is none.
    DaskRankingSVM(client=client).fit(da.ma.masked_array(chunked(X, 100), chunked(0 * mask, 100)), chunked(Y, 100))


def test_data_that_are_none(client):
    rows, truth, group = chunked(X, 100), chunked(Y, 100), chunked(GROUP, 100)
    lazy = frame_of(y=Y)
    model = DaskRankingSVM(client=client)
    with pytest.raises(ValueError, match="X has several columns 'a'; give columns different names"):
        model.fit(lazy.rename(columns={"b": "a"}), "y")
    with pytest.raises(TypeError, match="X is a Series; pass rows of features, a Dask array"):
        model.fit(lazy["a"], lazy["y"])
    with pytest.raises(TypeError, match=r"X is a Delayed.*; pass rows of features, a Dask array"):
        model.fit(dask.delayed(X), truth)
    with pytest.raises(ValueError, match=r"X has shape \(240, 0\), and so no features"):
        model.fit(rows[:, :0], truth)
    with pytest.raises(ValueError, match="sample_weight holds text or missing values"):
        model.fit(rows, truth, group, chunked(np.where(GROUP == 3, np.nan, 1.0), 100))
    with pytest.raises(ValueError, match=r"shards=0 must be a positive number of parts"):
        model.fit_files("nothing.svm", shards=0)
    with pytest.raises(ValueError, match="sequence is None; say which sequence every row belongs to"):
        DaskChainSVM(client=client).fit(rows, truth, None)
    with pytest.raises(ValueError, match="sequence='q' is not a column of X"):
        DaskChainSVM(client=client).fit(lazy, "y", "q")
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    nullable = pd.array(np.where(Y > 0, True, False), dtype="boolean")
    nullable[7] = pd.NA
    with pytest.raises(ValueError, match="y holds values of several kinds, or missing ones"):
        DaskMulticlassSVM(client=client).fit(dd.from_pandas(pd.DataFrame({"a": X[:, 0], "y": nullable}), npartitions=2), "y")


def test_ids_that_are_too_few(client):
    # Where chunks end within a sequence, its rows go to the shard before, and others are cut off.
    for size in (100, 99):
        unknown = chunked(X, size)[chunked(X, size)[:, 0] > -99]
        short = chunked(GROUP[:-4], (size, size, N - 4 - 2 * size))
        model, _ = fitted("chains", client)
        with pytest.raises(ValueError, match="need the same chunks"):
            model.predict(unknown, short).compute()


def test_nothing_is_predicted_before_a_fit(client):
    rows, truth = chunked(X, 100), chunked(Y, 100)
    for kind in (DaskRankingSVM, DaskMulticlassSVM):
        model = kind(client=client)
        for call, data in ((model.predict, [rows]), (model.predict, [frame_of()]), (model.score, [rows, truth])):
            with pytest.raises(NotFittedError):
                call(*data)


def test_a_callback_stays_here(client):
    lock = threading.Lock()
    model = DaskRankingSVM(client=client, callback=lambda history, lock=lock: None).fit(chunked(X, 100), chunked(Y, 100))
    # A lock cannot be sent.
    assert pickle.loads(pickle.dumps(model._for_workers())).predict(X).shape == (N,)


def test_chunks_are_let_go_when_one_cannot_be_computed(client):
    def fail(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 2:
            raise RuntimeError("this chunk fails")
        return block

    with pytest.raises(RuntimeError, match="this chunk fails") as caught:
        DaskRankingSVM(client=client).fit(chunked(X, 60).map_blocks(fail, dtype=float), chunked(Y, 60))
    assert caught.value.__notes__

    def released():
        gc.collect()
        return not any(client.has_what().values())

    wait_until(released)


def test_warnings_point_to_the_line_of_the_user(client):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        DaskRankingSVM(client=client, max_iter=1, C=1e4, tol=1e-9).fit(chunked(X, 100), chunked(Y, 100))
    assert any(one.category is ConvergenceWarning for one in found)
    assert {one.filename for one in found if "Dask" in str(one.message)} == {__file__}


def test_nobody_waits_for_workers_longer_than_is_said(client):
    models = [(case, *fitted(case, client)) for case in ("ranking", "classes", "chains")]
    lazy = frame_of(y=Y, label=LABELS, group=GROUP)
    nowhere = LocalCluster(n_workers=0, processes=False, dashboard_address=":0")
    with nowhere, Client(nowhere, set_as_default=False) as nobody:
        for _, model, columns in models:
            model.set_params(client=nobody, worker_timeout=0.3)
            with pytest.raises(ShardError, match="no worker has come"):
                model.score(lazy[[*NAMES, *columns]], *columns)


def test_files_give_names_and_queries_that_stay_together(client, tmp_path):
    pytest.importorskip("pandas")
    header = ",".join(["y", "q", *NAMES])
    np.savetxt(tmp_path / "a.csv", np.column_stack([Y, GROUP, X]), delimiter=",", header=header, comments="")
    model = DaskRankingSVM(client=client, C=3.0).fit_files(str(tmp_path / "a.csv"), label="y", query="q")
    assert model.feature_names_in_.tolist() == NAMES
    assert np.allclose(model.predict(frame_of()[NAMES[::-1]]).compute(), X @ model.coef_)
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text())
    for shards in (1, 2, 3):
        with pytest.raises(ValueError, match=r"query .* with others in between; put the samples of a query together"):
            DaskRankingSVM(client=client).fit_files(str(tmp_path / "*.csv"), label="y", query="q", shards=shards)
