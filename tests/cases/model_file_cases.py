"""Fitted estimators of every kind that files hold, and ways to spoil a file."""

import io
import json
import zipfile

import numpy as np
import pytest
from scipy import sparse

from maxmargin import (
    ApproximateRankingSVM,
    ChainSVM,
    DirectLossMinimizer,
    GraphSVM,
    GridSVM,
    HierarchicalSVM,
    HighOrderRankingSVM,
    LatentGraphSVM,
    LatentGridSVM,
    LatentRankingSVM,
    LatentStructuredSVM,
    MulticlassSVM,
    MultilabelSVM,
    ParserSVM,
    RankingClassifier,
    RankingSVM,
    SavedFileError,
    StructuredSVM,
    TreeSVM,
    load_model,
)
from maxmargin.core import Structure
from maxmargin.core.solvers import BCFW
from maxmargin.hierarchy import Hierarchy
from maxmargin.ranking import NDCG, AveragePrecision
from maxmargin.sequences import Tree
from maxmargin.structured import LatentClasses

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
GRADES = (X[:, 0] + 0.5 * RNG.normal(size=60) > 0).astype(int) + (X[:, 1] > 1)
QID = np.repeat(np.arange(6), 10)
SEQUENCES = [RNG.normal(size=(n, 3)) for n in (4, 1, 6, 5)]
WORDS = [np.where(x[:, 0] > 0, "up", "down") for x in SEQUENCES]
DICTIONARIES = [[{"word": f"w{k}", "size": float(v)} for k, v in enumerate(x[:, 0])] for x in SEQUENCES]
TREES = [Tree(x, np.arange(-1, len(x) - 1)) for x in SEQUENCES]
GRAPHS = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in SEQUENCES]


class MyLoss(AveragePrecision):
    def __repr__(self):
        return "MyLoss()"


class TwoSigns(Structure):
    """The sign of one number, written out."""

    def joint_feature(self, x, y):
        return y * x

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return max((-1, 1), key=lambda y: b * self.loss(truth, y) + a * weights @ self.joint_feature(x, y))


def fitted_models():
    """Name, estimator, arguments of predict, arguments of score."""
    yield "ranking", RankingSVM("ap", 10).fit(X, GRADES, QID), (X,), (X, GRADES, QID)
    yield "sparse", RankingSVM("mrr", 3).fit(sparse.csr_array(X), GRADES), (sparse.csr_array(X),), (X, GRADES)
    yield "grades", RankingSVM(NDCG(), grades=True, warm_start=True).fit(X, GRADES, QID), (X,), (X, GRADES, QID)
    yield "accuracy", RankingSVM("accuracy", relevance_threshold=1).fit(X, GRADES), (X,), (X, GRADES)
    yield "approximate", ApproximateRankingSVM("ap", 10).fit(X, GRADES), (X,), (X, GRADES)
    yield "direct", DirectLossMinimizer("ap").fit(X, GRADES, QID), (X,), (X, GRADES, QID)
    rare = np.where(GRADES > 1, "rare", "usual")
    aim = {"threshold": {"cost": [[0, 9], [1, 0]]}, "calibration": "isotonic", "pos_label": "rare"}
    yield "classifier", RankingClassifier(refine="always", **aim).fit(X, rare), (X,), (X, rare)
    yield "neighbours", HighOrderRankingSVM(n_neighbors=2).fit(X, GRADES), (X,), (X, GRADES)
    bags = X.reshape(12, 5, 5)
    yield "latent", LatentRankingSVM(C=5, start=np.ones(5)).fit(bags, np.arange(12) % 3 == 0), (bags,), (bags, np.arange(12) % 3)
    yield "binary", MulticlassSVM(costs=[[0, 2], [1, 0]]).fit(X, GRADES > 0), (X,), (X, GRADES > 0)
    names = np.array(["none", "some", "all"])
    yield (
        "hierarchy",
        HierarchicalSVM(Hierarchy([("top", 0), ("top", "rest"), ("rest", 1), ("rest", 2)])).fit(X, GRADES),
        (X,),
        (X, GRADES),
    )
    yield "strings", MulticlassSVM().fit(X, names[GRADES]), (X,), (X, names[GRADES])
    objects = names[GRADES].astype(object)
    yield "objects", MulticlassSVM(fit_intercept=False).fit(X, objects), (X,), (X, objects)
    sets = np.column_stack([GRADES > 0, GRADES > 1, X[:, 0] > 0]).astype(int)
    yield "sets", MultilabelSVM(pairwise=[[0, 1]], surrogate="slack").fit(X, sets), (X,), (X, sets)
    sentences = [(["I", "ran", "home"], ["PRON", "VERB", "ADV"]), (["dogs", "bark"], ["NOUN", "VERB"])]
    for name, hash_bits in (("parser", None), ("hashed parser", 10)):
        trees = [[2, 0, 2], [2, 0]]
        yield name, ParserSVM(C=0.1, labelled=False, hash_bits=hash_bits).fit(sentences, trees), (sentences,), (sentences, trees)
    yield "chain", ChainSVM(C=10).fit(SEQUENCES, WORDS), (SEQUENCES,), (SEQUENCES, WORDS)
    bare = ChainSVM(fit_intercept=False, solver=BCFW(steps="pairwise", tol=1e-2)).fit(SEQUENCES, WORDS)
    yield "no intercept", bare, (SEQUENCES,), (SEQUENCES, WORDS)
    yield "dictionaries", ChainSVM(C=10).fit(DICTIONARIES, WORDS), (DICTIONARIES,), (DICTIONARIES, WORDS)
    yield "tree", TreeSVM().fit(TREES, WORDS), (TREES,), (TREES, WORDS)
    signs = np.where(GRADES > 0, 1, -1)
    yield "structured", StructuredSVM(TwoSigns(), bounds=[-1, 1]).fit(X, signs), (X,), (X, signs)
    kinds = GRADES[:12] > 0
    yield "latent structured", LatentStructuredSVM(LatentClasses(2)).fit(bags, kinds), (bags,), (bags, kinds)
    labels = [(x[:, 0] > 0).astype(int) for x in SEQUENCES]
    yield "graph", GraphSVM(tol=1e-2).fit(GRAPHS, labels), (GRAPHS,), (GRAPHS, labels)
    free = GraphSVM(pairwise="free", tol=1e-2).fit(GRAPHS, WORDS)
    yield "free graph", free, (GRAPHS,), (GRAPHS, WORDS)
    masks = [np.array([["in", "out", "rim"], ["in", "in", "rim"]]), np.array([["rim", "out"], ["in", "out"]])]
    images = [(y[..., None] == ["in", "rim"]).astype(float) for y in masks]
    grid = GridSVM(edge_features="steps", pairwise=["symmetric", "antisymmetric"]).fit(images, masks)
    yield "grid", grid, (images,), (images, masks)
    hidden = [(*graph, np.ones((len(graph[1]), 1)), 1) for graph in GRAPHS if len(graph[0]) > 1]
    seen = [word[:-1] for word in WORDS if len(word) > 1]
    latent = LatentGraphSVM(n_states=1, n_hidden_states=2, tol=1e-2).fit(hidden, seen)
    yield "latent graph", latent, (hidden,), (hidden, seen)
    latent = LatentGridSVM(n_states=[1, 2, 1], edge_features="steps", tol=1e-2).fit(images, masks)
    yield "latent grid", latent, (images,), (images, masks)


MODELS = {name: rest for name, *rest in fitted_models()}


def same(a, b):
    """Equal in type and in every bit."""
    assert type(a) is type(b), (a, b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


def public(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}


def rewritten(path, change, compression=zipfile.ZIP_STORED):
    """The same zip file with some members changed, dropped (None) or added."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def with_header(path, change):
    def edit(members):
        header = json.loads(members["header.json"])
        change(header)
        members["header.json"] = json.dumps(header).encode()

    rewritten(path, edit)


def with_array(path, name, array, allow_pickle=False):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    rewritten(path, lambda members: members.update({f"{name}.npy": file.getvalue()}))


def refused(path, pattern, **objects):
    with pytest.raises(SavedFileError, match=pattern) as caught:
        load_model(path, **objects)
    assert str(path) in str(caught.value)
