"""Sequences on a cluster against one process; chunks that end in the middle of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("distributed")
import dask
from tests.cases.dask_cases import chunked

from maxmargin import ChainSVM
from maxmargin.dask import DaskChainSVM
from maxmargin.distributed import kept_whole, shards_of

pytestmark = pytest.mark.filterwarnings("ignore:.* took .* ms for a pass:UserWarning")

rng = np.random.default_rng(0)
LENGTHS = rng.integers(1, 9, size=50)
EDGES = np.concatenate([[0], np.cumsum(LENGTHS)])
N = int(EDGES[-1])
IDS = np.repeat(np.arange(50) * 7 % 50, LENGTHS)
X = rng.normal(size=(N, 3))
LABELS = np.array(["a", "b"])[(X[:, 0] + 0.5 * rng.normal(size=N) > 0).astype(int)]


class Here:
    """In place of a client."""

    class Future:
        def __init__(self, value):
            self.value = value

        def release(self):
            del self.value

    def compute(self, tasks):
        return [self.Future(value) for value in dask.compute(*tasks, scheduler="sync")]

    def gather(self, futures):
        return [future.value for future in futures]


def split(values):
    return [values[a:b] for a, b in pairwise(EDGES)]


@pytest.mark.parametrize("changed", [{"C": 0.5}, {"C": "auto"}, {"C": "auto", "normalize": True, "fit_intercept": False}])
def test_chains(client, changed):
    chosen = {**changed, "tol": 0.02}
    plain = ChainSVM(solver="one_slack", **chosen).fit(split(X), split(LABELS))
    data = chunked(X, 33), chunked(LABELS, 33), chunked(IDS, 50)
    model = DaskChainSVM(client=client, **chosen).fit(*data)
    assert model.certified_ and abs(model.C_ - plain.C_) <= 1e-12 * plain.C_
    assert model.primal_objective_ == pytest.approx(plain.primal_objective_, rel=0.02)
    local = model.to_local()
    assert type(local) is ChainSVM
    assert (model.predict(data[0], data[2]).compute() == np.concatenate(local.predict(split(X)))).all()
    assert model.score(*data) == pytest.approx(local.score(split(X), split(LABELS)), rel=1e-12)
    assert [list(labels) for labels in model.predict([X[:2]])] == [list(local.predict([X[:2]])[0])]


def test_frames_of_sequences(client):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("uvw")).assign(label=LABELS, of=IDS)
    lazy = dd.from_pandas(frame, npartitions=4)
    model = DaskChainSVM(C=0.5, client=client).fit(lazy, "label", "of")
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    # Columns with names are features with names.
    local, named = model.to_local(), [[dict(zip("uvw", row, strict=True)) for row in rows] for rows in split(X)]
    assert (model.predict(lazy, "of").compute() == np.concatenate(local.predict(named))).all()
    assert model.score(lazy, "label", "of") == pytest.approx(local.score(named, split(LABELS)))


def test_sequences_in_pieces_are_refused(client):
    rows, labels = chunked(X, 40), chunked(LABELS, 40)
    with pytest.raises(ValueError, match=r"chunk \d of X has rows of the same sequence in several places; put the rows"):
        DaskChainSVM(client=client).fit(rows, labels, chunked(np.arange(N) % 3, 40))
    with pytest.raises(ValueError, match=r"sequence \d+ is in chunks 0 and \d of X, with others in between"):
        DaskChainSVM(client=client).fit(rows, labels, chunked(np.arange(N) % 99, 40))


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=8), st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(1, 4)
)  # fmt: skip
def test_sequences_stay_whole_wherever_chunks_end(lengths, sizes, n_shards):
    n = sum(lengths)
    edges = np.minimum(np.cumsum([0, *sizes]), n)
    sizes = (*np.diff(edges).tolist(), n - int(edges[-1]))
    ids, places = np.repeat(np.arange(len(lengths)), lengths), np.arange(float(n))
    made = shards_of(chunked(places[:, None], sizes), chunked(ids, sizes), chunked(ids, sizes), n_shards=n_shards, kind="chains")
    whole = kept_whole(Here(), made)
    found = [[np.concatenate(dask.compute(*own[k::3], scheduler="sync")) for k in range(3)] for own in whole.parts if own]
    assert np.concatenate([rows.ravel() for rows, _, _ in found]).tolist() == places.tolist()
    assert np.concatenate([own for _, _, own in found]).tolist() == ids.tolist()
    assert sum(len(set(own.tolist())) for _, _, own in found) == len(lengths)
    assert [rows for rows in whole.rows if rows] == [len(own) for _, _, own in found]
