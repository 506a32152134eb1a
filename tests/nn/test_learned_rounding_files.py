"""Learned rounding, the same again: from the same seed, and from files."""

import itertools

import numpy as np
import pytest
import torch
from tests.cases.learned_rounding_cases import frustrated

from maxmargin.io import SavedFileError, read_archive, write_archive
from maxmargin.labeling import Energy
from maxmargin.nn import LearnedRounding, RoundingNetwork
from maxmargin.nn._rounding_inputs import energies_of

# ---- the same again -----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_and_the_same_draws():
    rng = np.random.default_rng(0)
    problems = [frustrated(rng) for _ in range(3)]

    def run(seed):
        torch.rand(1)  # whatever others draw
        return LearnedRounding("dense", epochs=3, hidden=8, batch_size=2, random_state=seed).fit(problems)

    one, same, other = run(1), run(1), run(2)
    for a, b in zip(one.network_.parameters(), same.network_.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(next(one.network_.parameters()), next(other.network_.parameters()))
    drawn = [model.round(problems[0], 300, 4).energies for model in (one, same)]
    np.testing.assert_array_equal(*drawn)
    assert not np.array_equal(drawn[0], one.round(problems[0], 300, 5).energies)


@pytest.mark.parametrize("kind", ["dense", "grid", "graph"])
def test_files_keep_every_bit(tmp_path, kind):
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.random((3, 4, 3)), "potts")
    settings = {"epochs": 2, "entropy": np.float32(0.25), "hidden": 8, "samples": np.int64(3), "min_sigma": 0.01}
    model = LearnedRounding(kind, **settings).fit([energy])
    model.save(tmp_path / "model")
    read = LearnedRounding.load(tmp_path / "model")
    for name, value in model.network_.state_dict().items():
        assert torch.equal(value, read.network_.state_dict()[name])
    assert read.network_.settings == model.network_.settings
    np.testing.assert_array_equal(*(own.round(energy, 50, 0).energies for own in (model, read)))
    assert str(read.history_) == str(model.history_) and read.status_ == model.status_
    assert (read.entropy, read.samples, read.min_sigma) == (0.25, 3, 0.01)
    read.save(tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()


def test_files_that_are_none_of_ours(tmp_path, monkeypatch):
    energy = frustrated(np.random.default_rng(0))
    model = LearnedRounding("graph", epochs=1).fit([energy])
    model.save(tmp_path / "model")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SavedFileError, match="text: is not a file saved by maxmargin"):
        LearnedRounding.load(tmp_path / "text")
    archive = read_archive(tmp_path / "model", "learned rounding")
    archive.arrays.pop("history")
    monkeypatch.setattr("maxmargin.nn.learned_rounding.read_archive", lambda *_: archive)
    with pytest.raises(SavedFileError, match="is no sound model"):
        LearnedRounding.load(tmp_path / "model")


def saved_and_changed(model, path, change):
    model.save(path)
    archive = read_archive(path, "learned rounding")
    change(archive.content, archive.arrays)
    write_archive(path, "learned rounding", archive.content, archive.arrays)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, arrays: arrays.update(history=np.zeros((3, 0))), "no sound model"),
        (lambda _, arrays: arrays.update(history=np.full((3, 9), np.inf)), "no sound model"),
        (lambda content, _: content["network"].update(hidden=10**12), "no sound model"),
        (lambda content, _: content["network"].update(n_layers=10**12), "n_layers=1000000000000, but there are"),
        (lambda _, arrays: arrays["weight body.last.bias"].fill(np.nan), "weights body.last.bias are not finite"),
    ],
)
def test_files_with_numbers_that_cannot_be(trained, tmp_path, change, message):
    with pytest.raises(SavedFileError, match=message):
        LearnedRounding.load(saved_and_changed(trained[0], tmp_path / "model", change))


def test_memory_is_taken_for_weights_that_are_in_the_file(trained, tmp_path, monkeypatch):
    path = saved_and_changed(trained[0], tmp_path / "model", lambda content, _: content["network"].update(hidden=1000))
    made = []
    start = torch.nn.Linear.reset_parameters
    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", lambda self: (made.append(self.weight.device.type), start(self)))
    with pytest.raises(SavedFileError, match="size mismatch"):
        LearnedRounding.load(path)
    assert set(made) == {"meta"}


def test_a_model_that_was_read_is_trained_anew_as_the_one_that_was_saved(trained, tmp_path):
    problems = trained[1][:2]
    model = LearnedRounding("graph", epochs=2, hidden=8, learning_rate=1e-2).fit(problems)
    model.save(tmp_path / "model")
    read = LearnedRounding.load(tmp_path / "model")
    assert read.network == "graph"
    np.testing.assert_array_equal(*([row.energy for row in own.fit(problems).history_] for own in (model, read)))
    # A network that was given goes on from where it is, in a file too.
    given = LearnedRounding(model.network_, epochs=1).fit(problems)
    given.save(tmp_path / "given")
    assert isinstance(LearnedRounding.load(tmp_path / "given").network, RoundingNetwork)


def test_training_a_tuned_copy_leaves_the_given_network_alone(trained):
    problems = trained[1][:2]
    model = LearnedRounding(RoundingNetwork("graph", hidden=8), epochs=2, learning_rate=1e-2).fit(problems)
    before = {name: value.clone() for name, value in model.network_.state_dict().items()}
    model.tune(problems[0], 20).fit(problems)
    for name, value in model.network_.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("noise", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("kind", ["dense", "grid", "graph"])
def test_what_others_set_in_torch_changes_nothing_and_is_not_changed(kind, noise):
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.random((3, 4, 3)), rng.random((3, 3)))

    def run():
        model = LearnedRounding(kind, epochs=2, hidden=8, noise=noise, gradient="score", learning_rate=0.1).fit([energy])
        tuned = model.tune(energy, 2)
        return [row.energy for row in model.history_ + tuned.history_], tuned.round(energy, 20, 0).energies

    usual = run()
    torch.set_default_dtype(torch.float64)
    try:
        state = torch.get_rng_state(), torch.get_num_threads()
        other = run()
        assert torch.get_default_dtype() == torch.float64
        assert torch.equal(torch.get_rng_state(), state[0]) and torch.get_num_threads() == state[1]
    finally:
        torch.set_default_dtype(torch.float32)
    for a, b in zip(usual, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_numbers_of_numpy_are_settings_too(trained):
    problems = trained[1][:1]
    plain = LearnedRounding("graph", epochs=1, hidden=8, latent=2, min_sigma=0.5, random_state=3).fit(problems)
    whole = {"hidden": np.int64(8), "latent": np.int32(2), "random_state": np.int64(3), "epochs": np.int64(1)}
    other = LearnedRounding("graph", min_sigma=np.float32(0.5), **whole).fit(problems)
    assert plain.history_[-1].energy == other.history_[-1].energy


def test_networks_that_are_not_finite_do_not_round(trained):
    model, problems = trained
    broken = model.tune(problems[0], 1)
    with torch.no_grad():
        broken.network_.body.last.bias.fill_(np.nan)
    with pytest.raises(FloatingPointError, match="not finite; train it again with a lower learning_rate"):
        broken.round(problems[0], 3)


@pytest.mark.parametrize(("kind", "own_tables"), [("dense", False), ("graph", False), ("graph", True)])
def test_memory_of_drawing_does_not_grow_with_edges(kind, own_tables, monkeypatch):
    """A complete graph has many more edges than nodes and labels."""
    n = 60
    edges = list(itertools.combinations(range(n), 2))
    rng = np.random.default_rng(0)
    table = rng.random((len(edges), 2, 2)) if own_tables else "potts"
    energy = Energy(rng.random((n, 2)), edges, table, weights=0.1)
    y = np.full((n, 2), 0.5)
    for module, most in (("learned_rounding", 100_000), ("_rounding_inputs", 10_000)):
        monkeypatch.setattr(f"maxmargin.nn.{module}._NUMBERS", most)
    shapes = []

    def spied(energy, labels):
        shapes.append(len(labels) * len(energy.edges))
        return energies_of(energy, labels)

    for module in ("learned_rounding", "_rounding_inputs"):
        monkeypatch.setattr(f"maxmargin.nn.{module}.energies_of", spied)
    model = LearnedRounding(kind, epochs=1, hidden=4).fit([energy], [y])
    assert 0 < max(shapes) <= 10_000
    assert len(model.round(energy, 100, 0, fractional=y).energies) == 100
    assert max(shapes) <= 100_000
