"""Dependency parsing with a linear model of arcs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, Ints, Keys, tree_fault, tree_of
from maxmargin.core import BLOCKWISE, CERTIFICATE, Certificate, Facility, Problem, SampleEstimator, weighted
from maxmargin.core.solvers import History
from maxmargin.parsing.metrics import AttachmentScores, attachment_scores
from maxmargin.parsing.problem import ParseProblem, SurrogateParseProblem, Treebank
from maxmargin.parsing.structure import DependencyStructure
from maxmargin.surrogates import Margin, StructuredProblem, Surrogate, compiled_search, make_surrogate


class Parse(NamedTuple):
    """A labelled tree: the head of every word, 1 to n or 0 for the root, and the label of its arc; both of shape (n,)."""

    heads: Int32s
    labels: NDArray[Any]


class Hashed(NamedTuple):
    """Words and tags of all sentences, as hashes of 64 bits, and where sentences begin."""

    words: Keys
    tags: Keys
    offsets: Ints


@dataclass(eq=False, repr=False)
class ParserSVM(SampleEstimator):
    """First-order dependency parser: the score of a tree is the sum of linear scores of its arcs.

    A data set is a list of :class:`maxmargin.parsing.Sentence`, as :func:`maxmargin.parsing.read_conllu` returns them, or of
    pairs ``(words, tags)``. Trees are sentences too, or pairs ``(heads, labels)``, or heads alone, 0 for the root. Features are
    those of first-order parsers: head and word by form and tag, with direction and distance, the tags between them and beside
    them. The loss is the number of words with a wrong head (or label, if ``labelled``).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per sentence.
    labelled : bool, default=True
        Predict the labels of arcs along with the tree, which is exact and takes longer.
    projective : bool, default=True
        Predict trees without crossing arcs, by Eisner's algorithm; otherwise all trees, by Edmonds'. A true tree that is not
        projective is still the truth of its sentence.
    single_root : bool, default=True
        Predict trees with one child of the root, as Universal Dependencies have it.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss; another one than margin rescaling is searched by the convex hull and the next best trees, which
        takes two or three searches for a sentence instead of one. ``ProbLoss(convex=False)`` needs ``solver="subgradient"``.
    hash_bits : int, optional
        Number features by so many bits of their hash, in which several may share a weight. By default there is a dictionary of
        those that true trees have.
    min_count : int, default=1
        How often a feature must occur in true trees to be in the dictionary.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate. The solver
        ``"perceptron"`` is the averaged structured perceptron: ``max_iter`` passes at most, C of no influence, no useful bound.

    Attributes
    ----------
    coef_ : array of shape (p,)
        Weights of the features of arcs.
    label_coef_ : array of shape (q, L)
        Weights of features for every label.
    classes_ : array of shape (L,)
        Labels; empty if not ``labelled``.
    feature_keys_, label_keys_ : int64 arrays
        Hashes of the features in the dictionaries; empty with ``hash_bits``.
    n_queries_ : int
        Searches for a best tree during training; a surrogate may need several for one sentence.

    Examples
    --------
    >>> X = [(["dogs", "bark"], ["NOUN", "VERB"]), (["big", "dogs", "sleep"], ["ADJ", "NOUN", "VERB"])]
    >>> y = [([2, 0], ["nsubj", "root"]), ([2, 3, 0], ["amod", "nsubj", "root"])]
    >>> model = ParserSVM(C=10).fit(X, y)
    >>> heads, labels = model.predict([(["big", "cats", "bark"], ["ADJ", "NOUN", "VERB"])])[0]
    >>> heads.tolist(), labels.tolist(), model.certified_
    ([2, 3, 0], ['amod', 'nsubj', 'root'], True)
    """

    C: float = 1.0
    _: KW_ONLY
    labelled: bool = True
    projective: bool = True
    single_root: bool = True
    surrogate: str | Surrogate = "margin"
    hash_bits: int | None = None
    min_count: int = 1
    max_iter: int = 200
    warm_start: bool = False

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = BLOCKWISE
    holds: ClassVar[Mapping[str, Any]] = {
        **CERTIFICATE,
        "classes_": ("classes",),
        "coef_": ("features",),
        "label_coef_": ("label features", "classes"),
        "feature_keys_": ("keys",),
        "label_keys_": ("label keys",),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_count("min_count")
        make_surrogate(self.surrogate).check_parameters()
        if self.hash_bits is not None and not (isinstance(self.hash_bits, int) and 1 <= self.hash_bits <= 28):
            raise ValueError(f"hash_bits={self.hash_bits!r} must be an integer from 1 to 28, or None for a dictionary")

    # ---- training -----------------------------------------------------------------------------------------------------------

    def _prepare(self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None) -> Problem:
        hashed = _hashed(X)
        heads, names = _trees(y, hashed.offsets, self.labelled)
        labels = None
        self.classes_: NDArray[Any] = np.zeros(0, dtype=str)
        if names is not None:
            self.classes_, codes = np.unique(names, return_inverse=True)
            labels = codes.astype(np.int32)
        self.feature_keys_, self.label_keys_ = (self._dictionary(hashed, heads, own) for own in (False, True))
        treebank = self._treebank(hashed)
        surrogate = make_surrogate(self.surrogate)
        kind = {"projective": self.projective, "single_root": self.single_root}
        if type(surrogate) is Margin:
            problem: Problem = ParseProblem(treebank, heads, labels, **kind)
        elif compiled_search(surrogate) is not None:
            problem = SurrogateParseProblem(treebank, heads, labels, surrogate=surrogate, **kind)
        else:
            trees = heads if labels is None else np.column_stack([heads, labels])
            outputs = np.split(trees, treebank.offsets[1:-1])
            problem = StructuredProblem(self._structure(treebank), treebank.sentences(), outputs, surrogate)
        return weighted(problem, sample_weight)

    def _dictionary(self, hashed: Hashed, heads: Int32s, for_labels: bool) -> Ints:
        if self.hash_bits is not None or (for_labels and not self.labelled):
            return np.zeros(0, dtype=np.int64)
        return _core.arc_keys(*hashed, heads, for_labels, self.min_count).view(np.int64)

    def _treebank(self, hashed: Hashed) -> Treebank:
        """The features of sentences, by the dictionaries or by hashes."""
        tables: list[Any] = []
        for for_labels, known in ((False, self.feature_keys_), (True, self.label_keys_))[: 2 if self.labelled else 1]:
            keys = None if self.hash_bits is not None else known.view(np.uint64)
            # Labels multiply the number of weights.
            bits = 1 if self.hash_bits is None else max(1, self.hash_bits - (4 if for_labels else 0))
            tables += [*_core.number_arcs(*hashed, keys, bits, for_labels), len(known) if self.hash_bits is None else 2**bits]
        if self.labelled:
            tables.append(len(self.classes_))
        return Treebank(hashed.offsets, *tables)

    def _structure(self, treebank: Treebank) -> DependencyStructure:
        return DependencyStructure(
            treebank.n_features, treebank.n_labels, treebank.n_label_features,
            projective=self.projective, single_root=self.single_root,
        )  # fmt: skip

    def _train(self, problem: Any) -> Floats:
        weights = self._perceptron(problem) if self.solver == "perceptron" else super()._train(problem)
        counted = getattr(problem, "queries", None)
        self.n_queries_ = round(self.n_iter_ * problem.n_blocks) if counted is None else int(counted)
        return weights

    def _perceptron(self, problem: Any) -> Floats:
        """Averaged weights of perceptron passes; they end when nothing is wrong any more, or with the budget."""
        if type(problem) is not ParseProblem:
            raise ValueError(
                "solver='perceptron' knows neither sample_weight nor another surrogate than 'margin'; leave them out"
            )
        rng, started = np.random.default_rng(self.random_state or 0), time.perf_counter()
        weights, late = np.zeros(problem.n_features), np.zeros(problem.n_features)
        history, passes = History(), 0
        with self._status_line() as line:
            while passes < self.max_iter:
                order = rng.permutation(problem.n_blocks).astype(np.int64)
                wrong = problem.perceptron(order, weights, late, passes * problem.n_blocks)
                passes += 1
                line.show(f"pass {passes}, {wrong:.0f} words wrong")
                history.record(passes, wrong, 0.0, time.perf_counter() - started)
                stop = self.callback is not None and self.callback(history)
                if wrong == 0 or stop or (self.time_limit is not None and time.perf_counter() - started > self.time_limit):
                    break
        average = weights - late / (passes * problem.n_blocks)
        # The objective is that of the hinge; nothing but zero is known to be below it.
        cut = problem.mean_cut(average)
        factor = self.C * problem.n_blocks
        certificate = Certificate(0.5 * float(average @ average) + factor * cut.hinge(average), 0.0, problem.exact)
        self._show(certificate, passes, history)
        return average

    def _keep(self, weights: Floats) -> None:
        n = len(weights) if not self.labelled else len(weights) - self._n_label_weights()
        self.coef_ = weights[:n].copy()
        self.label_coef_ = weights[n:].reshape(-1, len(self.classes_)).copy() if self.labelled else np.zeros((0, 0))

    def _n_label_weights(self) -> int:
        rows = len(self.label_keys_) if self.hash_bits is None else 2 ** max(1, self.hash_bits - 4)
        return rows * len(self.classes_)

    def _check_fitted(self) -> None:
        for name, keys, table in (("coef_", self.feature_keys_, self.coef_), ("label_coef_", self.label_keys_, self.label_coef_)):
            if self.hash_bits is None and len(keys) != len(table):
                raise ValueError(f"{name} has weights for {len(table)} features, but the dictionary has {len(keys)}")
        if self.hash_bits is not None and len(self.coef_) != 2**self.hash_bits:
            raise ValueError(f"coef_ has {len(self.coef_)} weights, but hash_bits={self.hash_bits} make {2**self.hash_bits}")
        if self.labelled and self.label_coef_.size != self._n_label_weights():
            raise ValueError(f"label_coef_ has {self.label_coef_.size} weights, but {self._n_label_weights()} are needed")
        if self.labelled != (len(self.classes_) > 0):
            raise ValueError(f"there are {len(self.classes_)} labels, but labelled={self.labelled}")

    # ---- prediction ---------------------------------------------------------------------------------------------------------

    def arc_scores(self, X: Sequence[Any]) -> list[Floats]:
        """Scores of all arcs of every sentence, shape (n + 1, n + 1) or, with labels, (n + 1, n + 1, L).

        They are those that :func:`maxmargin.parsing.best_tree` and :func:`maxmargin.parsing.k_best_trees` take.
        """
        rows, offsets = self._rows(X)
        found = [rows.scores(k, self._weights()) for k in range(len(offsets) - 1)]
        return found if self.labelled else [scores[:, :, 0] for scores in found]

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The best tree of every sentence: a :class:`Parse` or, without labels, heads of shape (n,)."""
        rows, offsets = self._rows(X)
        heads, labels = rows.predict(self._weights(), self.projective, self.single_root)
        trees = np.split(heads, offsets[1:-1])
        if not self.labelled:
            return trees
        return [Parse(*pair) for pair in zip(trees, np.split(self.classes_[labels], offsets[1:-1]), strict=True)]

    def evaluate(self, X: Sequence[Any], y: Sequence[Any], *, punctuation: bool = True) -> AttachmentScores:
        """Unlabelled and labelled attachment scores; without words tagged ``PUNCT`` if ``punctuation`` is False."""
        skip = None if punctuation else [[tag == "PUNCT" for tag in _words_and_tags(x, k)[1]] for k, x in enumerate(X)]
        return attachment_scores(y, self.predict(X), skip=skip)

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Part of all words with the right head and, if ``labelled``, the right label."""
        found = self.evaluate(X, y)
        return found.las if self.labelled else found.uas

    def _weights(self) -> Floats:
        return np.concatenate([self.coef_, self.label_coef_.ravel()])

    def _rows(self, X: Sequence[Any]) -> tuple[_core.ArcRows, Ints]:
        check_is_fitted(self)
        treebank = self._treebank(_hashed(X))
        return treebank.rows, treebank.offsets


# ---- words and trees ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 18)
def _hash(text: str) -> int:
    """The same in every process, unlike Python's own."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _words_and_tags(x: Any, k: int) -> tuple[Sequence[str], Sequence[str]]:
    if hasattr(x, "words") and hasattr(x, "tags"):
        pair: Any = (x.words, x.tags)
    else:
        pair = x
    if not isinstance(pair, tuple | list) or len(pair) != 2 or isinstance(pair[0], str) or isinstance(pair[1], str):
        raise ValueError(f"sentence {k} of X must be a maxmargin.parsing.Sentence or a pair (words, tags)")
    words, tags = pair
    if len(words) != len(tags):
        raise ValueError(f"sentence {k} of X has {len(words)} words, but {len(tags)} tags; each word needs one")
    if len(words) == 0:
        raise ValueError(f"sentence {k} of X is empty; drop sentences without words")
    return words, tags


def _hashed(X: Sequence[Any]) -> Hashed:
    if len(X) == 0:
        raise ValueError("X is empty; at least one sentence is needed")
    pairs = [_words_and_tags(x, k) for k, x in enumerate(X)]

    def keys(texts: Iterable[Any]) -> Keys:
        return np.fromiter((_hash(str(text)) for text in texts), dtype=np.uint64)

    offsets = np.concatenate([[0], np.cumsum([len(words) for words, _ in pairs])]).astype(np.int64)
    words, tags = ((text for pair in pairs for text in pair[column]) for column in (0, 1))
    return Hashed(keys(words), keys(tags), offsets)


def _trees(y: Sequence[Any], offsets: Ints, labelled: bool) -> tuple[Int32s, NDArray[Any] | None]:
    """Heads and labels of all words, checked."""
    if len(y) != len(offsets) - 1:
        raise ValueError(f"X has {len(offsets) - 1} sentences, but y has {len(y)}; they must be equal")
    every, names = [], []
    for k, (output, n) in enumerate(zip(y, np.diff(offsets).tolist(), strict=True)):
        heads, labels = tree_of(output)
        try:
            own = np.asarray(heads)
        except ValueError:
            # Lists of unequal lengths.
            own = np.zeros((0, 0))
        if own.ndim != 1 or own.dtype.kind not in "iu":
            raise ValueError(
                f"the tree of sentence {k} of y must be heads, integers of shape ({n},), or a pair (heads, labels); give every "
                "word one head"
            )
        wrong = tree_fault(own.tolist(), n)
        if wrong is not None:
            raise ValueError(f"sentence {k} of y: {wrong[1]}")
        if labelled and (labels is None or len(labels) != n):
            found = "none" if labels is None else len(labels)
            raise ValueError(f"sentence {k} of y has {n} words, but labels: {found}; give each word one, or pass labelled=False")
        every.append(own.astype(np.int32))
        names.append([] if labels is None else [str(label) for label in labels])
    return np.concatenate(every), np.array([name for own in names for name in own]) if labelled else None
