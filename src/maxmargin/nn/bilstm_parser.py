"""A small graph-based parser on a bidirectional LSTM, trained by surrogates of the number of wrong heads (spec 11.4).

Words and tags are embedded, a BiLSTM reads them, and the arc from h to m scores ``v . tanh(A s_h + B s_m + c)`` of the states of
both (Kiperwasser and Goldberg, TACL 2016). Trees are decoded exactly; the label of an arc is predicted given the tree. Training
is by :class:`TreeLoss`: the structured hinge first and, after some epochs, a surrogate that has a gradient even where all margins
are large, such as the raw ProbLoss.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin._utils import Int32s, StatusLine, tree_fault, tree_of
from maxmargin.io import SavedFileError, read_archive, write_archive
from maxmargin.nn._seeds import seeded
from maxmargin.nn.tree_losses import TreeLoss
from maxmargin.parsing import AttachmentScores, attachment_scores, best_trees
from maxmargin.surrogates import ProbLoss, Surrogate, make_surrogate

_KIND = "BiLSTM parser"
# Numbers of the root and of what was not seen in training, in both tables.
_ROOT, _UNKNOWN = 0, 1
_SIZES = ("word_dim", "tag_dim", "hidden_dim", "n_layers", "arc_dim")


class ParsedSentence(NamedTuple):
    """Heads of all words, 1 to n or 0 for the root, and the labels of their arcs; both of shape (n,)."""

    heads: Int32s
    labels: NDArray[Any]


class BiLSTMParser(torch.nn.Module):
    """Scores of arcs and labels from a bidirectional LSTM over words and tags.

    Parameters
    ----------
    words, tags, labels : sequences of str
        Those that have an embedding, or a score, of their own; see :meth:`for_sentences`. Words are looked up in lower case.
    word_dim, tag_dim : int
        Sizes of the embeddings.
    hidden_dim, n_layers : int
        Size of the LSTM's states in each direction, and its layers.
    arc_dim : int
        Size of the hidden layer of arcs, and of labels.
    projective, single_root : bool, default=True
        Which trees are predicted; as in :func:`maxmargin.parsing.best_tree`.
    seed : int, default=0
        Of the first weights.

    Examples
    --------
    >>> model = BiLSTMParser(["dogs", "bark"], ["NOUN", "VERB"], ["nsubj", "root"], hidden_dim=4, arc_dim=4)
    >>> [tuple(table.shape) for table in model([(["dogs", "bark", "loudly"], ["NOUN", "VERB", "ADV"])])]
    [(4, 4)]
    """

    def __init__(
        self,
        words: Sequence[str],
        tags: Sequence[str],
        labels: Sequence[str],
        *,
        word_dim: int = 64,
        tag_dim: int = 16,
        hidden_dim: int = 64,
        n_layers: int = 1,
        arc_dim: int = 64,
        projective: bool = True,
        single_root: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        sizes = (word_dim, tag_dim, hidden_dim, n_layers, arc_dim)
        for name, value in zip(_SIZES, sizes, strict=True):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r} must be a positive integer")
        if not labels:
            raise ValueError("labels are empty; name those that arcs can have")
        self.words, self.tags, self.labels = [list(map(str, own)) for own in (words, tags, labels)]
        self.sizes = dict(zip(_SIZES, sizes, strict=True))
        self.projective, self.single_root = projective, single_root
        self._word_number = {word: k + 2 for k, word in enumerate(self.words)}
        self._tag_number = {tag: k + 2 for k, tag in enumerate(self.tags)}
        with seeded(seed):
            self.word_table = torch.nn.Embedding(len(self.words) + 2, word_dim)
            self.tag_table = torch.nn.Embedding(len(self.tags) + 2, tag_dim)
            self.lstm = torch.nn.LSTM(word_dim + tag_dim, hidden_dim, n_layers, bidirectional=True)
            self.arc_head, self.arc_word = (torch.nn.Linear(2 * hidden_dim, arc_dim, bias=own) for own in (True, False))
            self.arc_out = torch.nn.Linear(arc_dim, 1, bias=False)
            self.label_head, self.label_word = (torch.nn.Linear(2 * hidden_dim, arc_dim, bias=own) for own in (True, False))
            self.label_out = torch.nn.Linear(arc_dim, len(self.labels))

    @classmethod
    def for_sentences(cls, sentences: Sequence[Any], *, min_count: int = 2, **settings: Any) -> BiLSTMParser:
        """A new parser with the words that come at least ``min_count`` times, and all tags and labels, of these sentences."""
        if len(sentences) == 0:
            raise ValueError("there are no sentences; give some with their trees")
        counts: Counter[str] = Counter()
        tags: set[str] = set()
        labels: set[str] = set()
        for k, sentence in enumerate(sentences):
            own_words, own_tags = _words_and_tags(sentence, k)
            counts.update(word.lower() for word in own_words)
            tags.update(own_tags)
            labels.update(_tree_of(sentence, len(own_words), k)[1])
        words = sorted(word for word, count in counts.items() if count >= min_count)
        return cls(words, sorted(tags), sorted(labels), **settings)

    # ---- scores -------------------------------------------------------------------------------------------------------------

    def states(self, sentences: Sequence[Any], *, word_dropout: float = 0.0) -> list[torch.Tensor]:
        """What the LSTM says of the root and every word: shape (n + 1, 2 hidden_dim) for every sentence."""
        embedded = []
        for k, sentence in enumerate(sentences):
            words, tags = _words_and_tags(sentence, k)
            numbers = torch.tensor([_ROOT, *(self._word_number.get(word.lower(), _UNKNOWN) for word in words)])
            if word_dropout > 0:
                # What is rare is unknown at times, so that the embedding of the unknown is learnt.
                gone = torch.rand(len(numbers)) < word_dropout
                gone[0] = False
                numbers = torch.where(gone, torch.full_like(numbers, _UNKNOWN), numbers)
            own = torch.tensor([_ROOT, *(self._tag_number.get(tag, _UNKNOWN) for tag in tags)])
            embedded.append(torch.cat([self.word_table(numbers), self.tag_table(own)], dim=1))
        packed = torch.nn.utils.rnn.pack_sequence(embedded, enforce_sorted=False)
        padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0])
        return [padded[:length, k] for k, length in enumerate(lengths.tolist())]

    def arc_scores(self, states: torch.Tensor) -> torch.Tensor:
        """Scores of all arcs of a sentence, shape (n + 1, n + 1), as :class:`TreeLoss` takes them."""
        hidden = torch.tanh(self.arc_head(states)[:, None] + self.arc_word(states)[None])
        scores: torch.Tensor = self.arc_out(hidden).squeeze(-1)
        return scores

    def label_scores(self, states: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        """Scores of all labels of the arcs of a tree, shape (n, L)."""
        scores: torch.Tensor = self.label_out(torch.tanh(self.label_head(states[heads]) + self.label_word(states[1:])))
        return scores

    def forward(self, sentences: Sequence[Any]) -> list[torch.Tensor]:
        """Scores of the arcs of every sentence, shape (n + 1, n + 1)."""
        return [self.arc_scores(states) for states in self.states(sentences)]

    # ---- trees --------------------------------------------------------------------------------------------------------------

    def predict(self, sentences: Sequence[Any], *, batch_size: int = 64) -> list[ParsedSentence]:
        """The best tree of every sentence, and the best label of each of its arcs."""
        found = []
        names = np.array(self.labels)
        with torch.no_grad():
            for batch in _batches(np.arange(len(sentences)), batch_size):
                states = self.states([sentences[k] for k in batch])
                tables = [self.arc_scores(own).to(torch.float64).numpy() for own in states]
                trees = best_trees(tables, projective=self.projective, single_root=self.single_root)
                for own, tree in zip(states, trees, strict=True):
                    best = self.label_scores(own, torch.from_numpy(tree.heads.astype(np.int64))).argmax(dim=1)
                    found.append(ParsedSentence(tree.heads, names[best.numpy()]))
        return found

    def evaluate(self, X: Sequence[Any], y: Sequence[Any], *, punctuation: bool = True) -> AttachmentScores:
        """Unlabelled and labelled attachment scores; without words tagged ``PUNCT`` if ``punctuation`` is False."""
        skip = None if punctuation else [[tag == "PUNCT" for tag in _words_and_tags(x, k)[1]] for k, x in enumerate(X)]
        return attachment_scores(y, self.predict(X), skip=skip)

    # ---- files --------------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the parser to a file: numbers and text, nothing that runs when it is read."""
        content = {"sizes": self.sizes, "projective": self.projective, "single_root": self.single_root}
        arrays: dict[str, NDArray[Any]] = {name: np.array(getattr(self, name), dtype=str) for name in ("words", "tags", "labels")}
        arrays |= {f"weight {name}": value.detach().cpu().numpy() for name, value in self.state_dict().items()}
        write_archive(path, _KIND, content, arrays)

    @classmethod
    def load(cls, path: Any) -> BiLSTMParser:
        """Read what `save` wrote; :class:`maxmargin.io.archive.SavedFileError` says what is wrong with another file."""
        archive = read_archive(path, _KIND)
        try:
            content, arrays = archive.content, archive.arrays
            words, tags, labels = (arrays[name].tolist() for name in ("words", "tags", "labels"))
            settings: dict[str, Any] = {name: bool(content[name]) for name in ("projective", "single_root")}
            model = cls(words, tags, labels, **settings, **{name: content["sizes"][name] for name in _SIZES})
            weights = {name: torch.from_numpy(np.array(arrays[f"weight {name}"])) for name in model.state_dict()}
            model.load_state_dict(weights)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise SavedFileError(f"{path}: is no sound parser ({error}); write it again by BiLSTMParser.save") from error
        return model


# ---- training -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParserEpoch:
    """What an epoch brought.

    Attributes
    ----------
    epoch : int
        Counted from 1.
    surrogate : str
        Of the trees.
    loss : float
        Mean over sentences of the surrogate, as it was while training, and of the hinges of labels.
    uas, las : float
        Of the development sentences; NaN without.
    seconds : float
        Since training began.
    """

    epoch: int
    surrogate: str
    loss: float
    uas: float
    las: float
    seconds: float


def train_parser(
    model: BiLSTMParser,
    sentences: Sequence[Any],
    *,
    epochs: int = 10,
    surrogate: str | Surrogate = "margin",
    switch_epoch: int | None = None,
    then: str | Surrogate | None = None,
    learning_rate: float = 1e-3,
    then_learning_rate: float | None = None,
    batch_size: int = 16,
    clip: float = 5.0,
    word_dropout: float = 0.1,
    dev: Sequence[Any] | None = None,
    seed: int = 0,
    verbose: bool = False,
    callback: Callable[[ParserEpoch], Any] | None = None,
) -> list[ParserEpoch]:
    """Train a parser by Adam: ``surrogate`` first, ``then`` from ``switch_epoch`` on.

    Parameters
    ----------
    model : BiLSTMParser
        Changed in place.
    sentences : sequence of maxmargin.parsing.Sentence
        With their trees.
    epochs : int
        Passes over all sentences.
    surrogate : str or Surrogate
        As in :class:`TreeLoss`.
    switch_epoch : int, optional
        The first epoch, counted from 1, of another surrogate; never by default.
    then : str or Surrogate, optional
        That other one; ``ProbLoss(convex=False)`` by default, as in the thesis.
    learning_rate, then_learning_rate : float
        Of Adam, and from ``switch_epoch`` on; the same by default.
    batch_size : int
        Sentences per step.
    clip : float
        The longest gradient; longer ones are scaled down. ProbLoss never runs out of gradients.
    word_dropout : float
        How often a word is taken for one that was never seen.
    dev : sequence of maxmargin.parsing.Sentence, optional
        To be evaluated after every epoch.
    seed : int
        Of the order of sentences and of dropout. The state of torch's own generator is left as it was.
    verbose : bool
        Say how far it is.
    callback : callable, optional
        Gets every :class:`ParserEpoch`; a true answer ends training.
    """
    _check_training(epochs, switch_epoch, learning_rate, then_learning_rate, batch_size, clip, word_dropout)
    if len(sentences) == 0:
        raise ValueError("there are no sentences; give some with their trees")
    number = {label: k for k, label in enumerate(model.labels)}
    trees = [_tree_of(sentence, len(_words_and_tags(sentence, k)[0]), k) for k, sentence in enumerate(sentences)]
    for k, (_, names) in enumerate(trees):
        for name in names:
            if name not in number:
                raise ValueError(f"sentence {k} has the label {name!r}, which the parser does not know; use for_sentences")
    targets = [torch.tensor([number[name] for name in names]) for _, names in trees]
    kind: Any = {"projective": model.projective, "single_root": model.single_root}
    second = ProbLoss(convex=False) if then is None else make_surrogate(then)
    losses = [TreeLoss(surrogate, **kind), TreeLoss(second, **kind)]
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    rng, history, started = np.random.default_rng(seed), [], time.perf_counter()
    with seeded(seed), StatusLine("parser", shown=verbose) as line:
        for epoch in range(1, epochs + 1):
            switched = switch_epoch is not None and epoch >= switch_epoch
            loss = losses[int(switched)]
            if switched and then_learning_rate is not None:
                for group in optimizer.param_groups:
                    group["lr"] = then_learning_rate
            model.train()
            total, done = 0.0, 0
            for batch in _batches(rng.permutation(len(sentences)), batch_size):
                states = model.states([sentences[k] for k in batch], word_dropout=word_dropout)
                tables = [model.arc_scores(own) for own in states]
                value = loss(tables, [trees[k][0] for k in batch]) + _label_hinge(model, states, trees, targets, batch)
                optimizer.zero_grad()
                value.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                total, done = total + value.item() * len(batch), done + len(batch)
                line.show(f"epoch {epoch} of {epochs}, {done} of {len(sentences)} sentences, loss {total / done:.3f}")
            if not math.isfinite(total):
                raise ValueError(f"the loss is no longer finite in epoch {epoch}; lower learning_rate={learning_rate}")
            model.eval()
            found = AttachmentScores(math.nan, math.nan, 0) if dev is None else model.evaluate(dev, dev)
            seconds = time.perf_counter() - started
            history.append(ParserEpoch(epoch, str(loss.surrogate), total / len(sentences), found.uas, found.las, seconds))
            if callback is not None and callback(history[-1]):
                break
    return history


def _label_hinge(model: BiLSTMParser, states: Any, trees: Any, targets: Any, batch: Any) -> torch.Tensor:
    """The multi-class hinge of the labels of true arcs, a sum over words, averaged over sentences."""
    scores = torch.cat([model.label_scores(own, torch.as_tensor(trees[k][0])) for own, k in zip(states, batch, strict=True)])
    target = torch.cat([targets[k] for k in batch])
    right = scores.gather(1, target[:, None])
    wrong = scores + 1.0
    # The true label is no violation of itself.
    wrong = wrong.scatter(1, target[:, None], right)
    return (wrong.max(dim=1).values - right[:, 0]).sum() / len(batch)


def _check_training(
    epochs: int, switch_epoch: int | None, rate: float, then_rate: float | None, batch_size: int, clip: float, dropout: float
) -> None:
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("switch_epoch", switch_epoch)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name}={value!r} must be a positive integer")
    for name, number in (("learning_rate", rate), ("then_learning_rate", then_rate), ("clip", clip)):
        if number is not None and not 0 < number < math.inf:
            raise ValueError(f"{name}={number!r} must be a positive number")
    if not 0 <= dropout < 1:
        raise ValueError(f"word_dropout={dropout!r} must be at least 0 and less than 1")


def _batches(order: Any, size: int) -> Iterator[list[int]]:
    for first in range(0, len(order), size):
        yield [int(k) for k in order[first : first + size]]


def _words_and_tags(x: Any, k: int) -> tuple[Sequence[str], Sequence[str]]:
    pair: Any = (x.words, x.tags) if hasattr(x, "words") and hasattr(x, "tags") else x
    if not isinstance(pair, tuple | list) or len(pair) != 2 or isinstance(pair[0], str) or isinstance(pair[1], str):
        raise ValueError(f"sentence {k} must be a maxmargin.parsing.Sentence or a pair (words, tags)")
    if len(pair[0]) != len(pair[1]) or len(pair[0]) == 0:
        raise ValueError(f"sentence {k} has {len(pair[0])} words and {len(pair[1])} tags; give every word one, and one word")
    return pair[0], pair[1]


def _tree_of(x: Any, n_words: int, k: int) -> tuple[NDArray[np.int64], list[str]]:
    """Heads and labels of a sentence, checked."""
    if getattr(x, "heads", None) is None or getattr(x, "labels", None) is None:
        raise ValueError(f"sentence {k} has no tree with labels; train on maxmargin.parsing.Sentence with heads and labels")
    heads, labels = tree_of(x)
    try:
        own = np.asarray(heads, dtype=np.int64)
    except (TypeError, ValueError):
        raise ValueError(f"sentence {k}: heads must be integers, one for every word") from None
    if own.ndim != 1 or labels is None or len(labels) != n_words:
        raise ValueError(f"sentence {k} has {n_words} words; each needs one head and one label")
    fault = tree_fault(own.tolist(), n_words)
    if fault is not None:
        raise ValueError(f"sentence {k}: {fault[1]}")
    return own, [str(label) for label in labels]
