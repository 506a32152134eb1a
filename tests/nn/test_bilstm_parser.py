"""The BiLSTM parser: gradients by finite differences, a toy language learnt in seconds, files, and what it refuses."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install maxmargin[nn]")

from maxmargin.io import SavedFileError  # noqa: E402
from maxmargin.nn import BiLSTMParser, TreeLoss, train_parser  # noqa: E402
from maxmargin.parsing import Sentence  # noqa: E402
from maxmargin.surrogates import ProbLoss  # noqa: E402

WORDS = {"D": ["the", "a"], "N": ["dog", "cat", "man"], "V": ["sees", "bites"], "A": ["big", "old"]}
SMALL = {"word_dim": 8, "tag_dim": 8, "hidden_dim": 12, "arc_dim": 16}


def sentence(rng):
    """Determiners and adjectives belong to the next noun, nouns to the verb."""
    tags, heads, labels = [], [], []
    for role in ("nsubj", "obj"):
        phrase = ["D"] * rng.integers(0, 2) + ["A"] * rng.integers(0, 3) + ["N"]
        noun = len(tags) + len(phrase)
        heads += [noun] * (len(phrase) - 1) + [-1]
        labels += [{"D": "det", "A": "amod"}[tag] for tag in phrase[:-1]] + [role]
        tags += phrase
        if role == "nsubj":
            tags.append("V")
            heads.append(0)
            labels.append("root")
            verb = len(tags)
    heads = [verb if head == -1 else head for head in heads]
    return Sentence([str(rng.choice(WORDS[tag])) for tag in tags], tags, heads, labels)


BANK = [sentence(np.random.default_rng(k)) for k in range(48)]
FRESH = [sentence(np.random.default_rng(k)) for k in range(100, 130)]


@pytest.mark.parametrize("surrogate", ["margin", "slack", "prob", ProbLoss(convex=False)], ids=str)
def test_gradients_of_the_network(surrogate):
    """Through the search, the scorer and the LSTM."""
    model = BiLSTMParser.for_sentences(BANK, word_dim=3, tag_dim=3, hidden_dim=4, arc_dim=4, seed=1).double()
    loss, batch = TreeLoss(surrogate), BANK[:3]

    def value():
        return loss(model(batch), [own.heads for own in batch])

    value().backward()
    rng = np.random.default_rng(0)
    for name in ("arc_out.weight", "arc_word.weight", "lstm.weight_ih_l0", "tag_table.weight"):
        weight = dict(model.named_parameters())[name]
        flat, gradient = weight.data.view(-1), weight.grad.view(-1)
        for k in rng.choice(len(flat), 4, replace=False):
            before, found = flat[k].item(), []
            for step in (1e-5, -1e-5):
                flat[k] = before + step
                found.append(value().item())
            flat[k] = before
            assert gradient[k].item() == pytest.approx((found[0] - found[1]) / 2e-5, abs=1e-5)


def test_learns_a_language_and_switches():
    model = BiLSTMParser.for_sentences(BANK, seed=0, **SMALL)
    before = torch.random.get_rng_state()
    seen = []
    history = train_parser(
        model, BANK, epochs=8, switch_epoch=7, learning_rate=0.02, then_learning_rate=1e-3, batch_size=8, dev=FRESH, seed=3,
        callback=seen.append,
    )  # fmt: skip
    assert torch.equal(before, torch.random.get_rng_state())
    assert [own.epoch for own in history] == list(range(1, 9)) and seen == history
    assert history[5].surrogate.startswith("Margin") and "convex=False" in history[6].surrogate
    assert history[5].loss < 0.2 * history[0].loss
    assert history[-1].uas > 0.95 and history[-1].las > 0.95
    scores = model.evaluate(FRESH, FRESH)
    assert (scores.uas, scores.las) == (history[-1].uas, history[-1].las)


def test_seeds_files_and_early_end(tmp_path):
    def trained(seed):
        model = BiLSTMParser.for_sentences(BANK, seed=seed, projective=False, **SMALL)
        history = train_parser(model, BANK[:16], epochs=5, learning_rate=0.01, seed=seed, callback=lambda own: own.epoch == 2)
        assert len(history) == 2 and np.isnan(history[0].uas)
        return model

    one, same, other = trained(0), trained(0), trained(1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one.arc_out.weight, other.arc_out.weight)
    one.save(tmp_path / "parser")
    again = BiLSTMParser.load(tmp_path / "parser")
    assert not again.projective and again.labels == one.labels
    for (heads, labels), found in zip(one.predict(FRESH), again.predict(FRESH), strict=True):
        assert np.array_equal(heads, found.heads) and np.array_equal(labels, found.labels)
    (tmp_path / "no").write_bytes(b"nothing")
    with pytest.raises(SavedFileError, match="not a file saved by maxmargin"):
        BiLSTMParser.load(tmp_path / "no")


def test_labelled_trees_in_the_loss():
    """Labels in the search: value by enumeration of the labels of the only tree, gradient by finite differences."""
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(2, 2, 3)), requires_grad=True)
    loss = TreeLoss("slack")([scores], [[0]], [[1]])
    h = scores[0, 1].detach().numpy() - scores[0, 1, 1].item()
    best = max(1.0 + h[0], 1.0 + h[2], 0.0)
    assert loss.item() == pytest.approx(best)
    loss.backward()
    assert scores.grad[0, 1].abs().sum() == (2.0 if best > 0 else 0.0) and scores.grad[1].abs().sum() == 0

    class Own(ProbLoss):
        """Has no compiled form."""

    tables = [torch.tensor(rng.normal(size=(n, n, 2)), requires_grad=True) for n in (3, 4)]
    heads, labels = [[2, 0], [0, 1, 1]], [[0, 1], [1, 1, 0]]
    values = []
    for surrogate in (ProbLoss(), Own()):
        value = TreeLoss(surrogate)(tables, heads, labels)
        values.append((value.item(), *torch.autograd.grad(value, tables)))
    assert values[0][0] == pytest.approx(values[1][0])
    for one, other in zip(values[0][1:], values[1][1:], strict=True):
        torch.testing.assert_close(one, other)


def test_bad_input():
    model = BiLSTMParser.for_sentences(BANK, **SMALL)
    with pytest.raises(ValueError, match="hidden_dim=0 must be a positive integer"):
        BiLSTMParser(["a"], ["X"], ["dep"], hidden_dim=0)
    with pytest.raises(ValueError, match="labels are empty"):
        BiLSTMParser(["a"], ["X"], [])
    with pytest.raises(ValueError, match="there are no sentences"):
        BiLSTMParser.for_sentences([])
    with pytest.raises(ValueError, match="sentence 0 has no tree with labels"):
        train_parser(model, [Sentence(["a"], ["X"])])
    with pytest.raises(ValueError, match="label 'strange', which the parser does not know"):
        train_parser(model, [Sentence(["a"], ["X"], [0], ["strange"])])
    with pytest.raises(ValueError, match="sentence 1: heads go in a cycle"):
        train_parser(model, [BANK[0], Sentence(["a", "b"], ["X", "Y"], [2, 1], ["det", "det"])])
    with pytest.raises(ValueError, match="sentence 0: heads must be integers, one for every word"):
        train_parser(model, [Sentence(["a", "b"], ["X", "Y"], [[2, 1], 0], ["det", "det"])])
    with pytest.raises(ValueError, match="sentence 0 has 2 words; each needs one head and one label"):
        train_parser(model, [Sentence(["a", "b"], ["X", "Y"], [2, 0], ["det"])])
    with pytest.raises(ValueError, match="sentence 0 has 2 words and 1 tags"):
        model.predict([(["a", "b"], ["X"])])
    for settings in ({"clip": 0.0}, {"epochs": 0}, {"switch_epoch": 0}, {"learning_rate": -1.0}, {"word_dropout": 1.0}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            train_parser(model, BANK, **settings)
    with pytest.raises(ValueError, match="sentence 0: heads are no tree: heads go in a cycle"):
        TreeLoss()([torch.zeros(3, 3)], [[2, 1]])
    with pytest.raises(ValueError, match="labels are needed"):
        TreeLoss()([torch.zeros(3, 3, 2)], [[2, 0]])
