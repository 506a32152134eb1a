"""Learned rounding: gradients, training to the optimum that enumeration finds, tuning, files, interruption."""

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
import torch

from maxmargin.figures import plot_draws, plot_rounding_history, save_figure
from maxmargin.labeling import Cliques, Energy, FractionalLabeling, PnPotts, expected_energy, minimize, relax
from maxmargin.nn import LearnedRounding, RoundingNetwork, VarianceCollapseWarning, _rounding_training
from maxmargin.nn._rounding_inputs import energies_of, prepare
from maxmargin.nn._rounding_training import Plan, costs, measure, surrogate
from maxmargin.storage import SavedFileError, read_archive, write_archive

TRIANGLE = [(0, 1), (1, 2), (2, 0)]


def frustrated(rng, n=4):
    """A few nodes whose relaxation is fractional: each must not have its own label, and all want to agree."""
    unary = 0.5 * rng.random((n, n)) + np.where(np.eye(n) > 0, 10.0, 0.0)
    return Energy(unary, list(itertools.combinations(range(n), 2)), "potts")


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    problems = [frustrated(rng) for _ in range(4)]
    return LearnedRounding("graph", epochs=15, hidden=8, random_state=0).fit(problems), problems


def plan(**changed):
    usual = {
        "epochs": 1, "batch_size": 4, "samples": 2, "gradient": "reparameterized", "entropy": 0.3, "entropy_schedule": "constant",
        "normalize": True, "learning_rate": 1e-3, "clip": 10.0, "collapse": 0.0, "ends": np.inf, "seed": 0,
    }  # fmt: skip
    return Plan(**(usual | changed))


def small_network(energy, kind="dense", seed=1, **settings):
    """In double precision, with a last layer that says something."""
    sizes = {"hidden": 4, "latent": 2} | settings
    network = RoundingNetwork.for_problems([energy], kind, **sizes, seed=seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weights in network.body.last.parameters():
            weights.normal_()
    return network


def gradient_of(network, value):
    network.zero_grad()
    value.backward()
    return torch.cat([own.grad.reshape(-1) for own in network.parameters()]).double().numpy().copy()


# ---- gradients ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "grid", "graph"])
@pytest.mark.parametrize("normalize", [False, True])
def test_reparameterized_gradient_with_the_same_noise(kind, normalize):
    rng = np.random.default_rng(0)
    energies = [Energy.grid(rng.normal(size=(2, 2, 3)), rng.random((3, 3)), weights=rng.random()) for _ in range(2)]
    inputs = [prepare(rng.dirichlet(np.ones(3), size=4), energy, "y") for energy in energies]
    network = small_network(energies[0], kind)
    settings = plan(normalize=normalize)

    def objective():
        draws = network(inputs, 2, torch.Generator().manual_seed(3))
        return surrogate(draws, costs(draws, inputs, settings, 0.3), settings, 0.0)

    found = gradient_of(network, objective())
    direction = torch.randn(len(found), generator=torch.Generator().manual_seed(0)).double().numpy()
    weights = list(network.parameters())

    def moved(step):
        with torch.no_grad():
            at = 0
            for own in weights:
                own += step * torch.from_numpy(direction[at : at + own.numel()].reshape(own.shape)).to(own.dtype)
                at += own.numel()
            return float(objective())

    # Networks are in single precision.
    h = 1e-3
    ahead = moved(h)
    behind = moved(-2 * h)
    assert found @ direction == pytest.approx((ahead - behind) / (2 * h), rel=2e-2, abs=2e-3)
    assert np.abs(found).max() > 1e-3


@pytest.mark.parametrize("samples", [1, 2])
def test_score_function_gradient_is_unbiased(samples, monkeypatch):
    """All states of two signs, and all pairs of states, weighed by their probabilities."""
    rng = np.random.default_rng(1)
    energy = frustrated(rng, 3)
    inputs = [prepare(relax(energy, method="lp"), energy, "y")]
    network = small_network(energy, noise="bernoulli")
    settings = plan(gradient="score", samples=samples)
    states = list(itertools.product((0.0, 1.0), repeat=2))
    (logit,) = network.body.encode(inputs, [inputs[0].features], None)
    law = torch.distributions.Bernoulli(logits=logit[0])
    chance = torch.stack([law.log_prob(torch.tensor(state)).sum().exp() for state in states])

    def drawn(which):
        # A number below every probability makes a sign 1, one above all of them makes it -1.
        numbers = torch.tensor([[[0.0 if up else 1.0 for up in states[k]]] for k in which])
        monkeypatch.setattr(torch, "rand", lambda *_, **__: numbers)
        return network(inputs, len(which), torch.Generator(), frozen=True)

    draws = drawn(range(4))
    values = costs(draws, inputs, settings, 0.3)[0]
    exact = gradient_of(network, (chance * values).sum())
    mean = np.zeros_like(exact)
    for which in itertools.product(range(4), repeat=samples):
        draws = drawn(which)
        values = costs(draws, inputs, settings, 0.3)
        weight = float(np.prod([chance[k].item() for k in which]))
        mean += weight * gradient_of(network, surrogate(draws, values, settings, 0.7))
    assert np.abs(exact).max() > 1e-3
    np.testing.assert_allclose(mean, exact, atol=1e-5 * np.abs(exact).max() + 1e-7)


def test_score_function_gradient_of_normal_variables_has_the_right_mean():
    rng = np.random.default_rng(1)
    energy = frustrated(rng, 3)
    inputs = [prepare(relax(energy, method="lp"), energy, "y")]
    network = small_network(energy, latent=1)
    found = {}
    for gradient in ("reparameterized", "score"):
        settings, rows = plan(gradient=gradient), []
        for seed in range(30):
            draws = network(inputs, 200, torch.Generator().manual_seed(seed), frozen=gradient == "score")
            rows.append(gradient_of(network, surrogate(draws, costs(draws, inputs, settings, 0.3), settings, 0.0)))
        found[gradient] = np.array(rows)
    a, b = found.values()
    error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b)) + 1e-6
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) / error).max() < 5


# ---- training -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "seed", "settings"),
    [
        ("graph", 3, {"hidden": 8, "learning_rate": 3e-2, "epochs": 100}),
        ("dense", 3, {}),
        ("dense", 3, {"gradient": "score", "noise": "bernoulli", "samples": 4}),
        ("dense", 3, {"gradient": "score", "samples": 1}),
        ("dense", 1, {"residual": False, "costs": False, "normalize": False}),
    ],
)
def test_training_finds_the_optimum_of_enumeration(network, seed, settings):
    energy = frustrated(np.random.default_rng(seed))
    least = minimize(energy, "exhaustive").energy
    y = relax(energy, method="lp")
    assert y.value < least - 0.1
    usual = {"hidden": 32, "learning_rate": 2e-2, "epochs": 60}
    model = LearnedRounding(network, random_state=0, **(usual | settings)).fit([energy], [y])
    energies = [row.energy for row in model.history_]
    assert energies[0] > least + 0.5 and min(energies) == pytest.approx(least, abs=0.02)
    drawn = model.round(energy, draws=50, random_state=0, fractional=y)
    assert drawn.minimum == pytest.approx(least)
    assert drawn.mean >= drawn.minimum - 1e-9 and drawn.minimum >= y.value
    assert drawn.energy == pytest.approx(energy.energy(drawn.labels)) == pytest.approx(drawn.minimum)
    # What is measured is the mean of what is drawn.
    assert drawn.mean == pytest.approx(min(energies), abs=0.05)


def test_networks_of_graphs_take_other_sizes(trained):
    model, _ = trained
    rng = np.random.default_rng(5)
    for n in (3, 6):
        energy = frustrated(rng, n)
        drawn = model.round(energy, draws=20, random_state=0)
        assert drawn.labels.shape == (n,) and len(drawn.energies) == 20


def test_grids_of_any_size_and_forbidden_labels():
    rng = np.random.default_rng(0)
    problems = [Energy.grid(rng.random((h, w, 3)), "potts", weights=0.3) for h, w in ((4, 5), (3, 3), (4, 5))]
    model = LearnedRounding(epochs=3, hidden=8, random_state=0).fit(problems)
    assert model.network_.kind == "grid"
    unary = rng.random((6, 4, 3))
    unary[2, 1, 0] = unary[2, 1, 2] = np.inf
    drawn = model.tune(energy := Energy.grid(unary, "potts", weights=0.3), 3).round(energy, 30, 0)
    assert drawn.labels.shape == (6, 4) and drawn.labels[2, 1] == 1
    assert np.isfinite(drawn.energies).all()


def test_one_label_no_edges_one_node():
    for unary, edges in (([[1.0]], None), ([[1.0, 0.5]], None), ([[1.0], [2.0]], [(0, 1)])):
        energy = Energy(unary, edges, "potts")
        model = LearnedRounding("graph", epochs=2, entropy=1.0).fit([energy])
        assert model.round(energy, 5).minimum == np.min(unary, axis=1).sum()


def test_validation_problems_choose_the_weights(trained):
    _, problems = trained
    settings = {"epochs": 5, "learning_rate": 1e-2}
    model = LearnedRounding("graph", **settings).fit(problems[:2], validation=problems[2:])
    inputs = [prepare(relax(energy), energy, "y") for energy in problems[2:]]
    best = min(row.relative_energy for row in model.history_)
    assert measure(model.network_, inputs, 0)[1] == pytest.approx(best, abs=1e-6)


def test_entropy_keeps_marginals_from_becoming_integral():
    energy = frustrated(np.random.default_rng(3))
    entropies = []
    for weight in (0.0, 5.0):
        settings = {"entropy": weight, "entropy_schedule": "constant"}
        model = LearnedRounding("dense", epochs=60, hidden=32, learning_rate=2e-2, **settings).fit([energy])
        entropies.append(model.history_[-1].entropy)
    assert entropies[0] < 0.3 < 0.8 < entropies[1]


def test_schedules_of_the_entropy():
    linear = plan(epochs=5, entropy=2.0, entropy_schedule="linear")
    assert [linear.entropy_weight(k) for k in range(1, 6)] == [2.0, 1.5, 1.0, 0.5, 0.0]
    assert plan(epochs=1, entropy=2.0, entropy_schedule="linear").entropy_weight(1) == 2.0
    assert plan(epochs=5, entropy=2.0).entropy_weight(5) == 2.0


def test_the_published_model():
    model = LearnedRounding.as_published(epochs=2)
    assert (model.network, model.costs, model.residual, model.normalize) == ("dense", False, False, False)
    assert (model.entropy, model.entropy_schedule, model.gradient) == (1.0, "constant", "reparameterized")
    energy = frustrated(np.random.default_rng(0))
    model.fit([energy])
    # Nothing but the fractional solution is seen.
    other = Energy(energy.unary[:, ::-1], energy.edges, "potts", weights=3.0)
    y = np.full((4, 4), 0.25)
    np.testing.assert_array_equal(*(model.marginals(own, 3, 0, fractional=y) for own in (energy, other)))


# ---- tuning -------------------------------------------------------------------------------------------------------------------


def test_tuning_is_never_worse_and_leaves_the_model_alone(trained):
    model, _ = trained
    before = {name: value.clone() for name, value in model.network_.state_dict().items()}
    settings = dataclasses.asdict(dataclasses.replace(model, network="graph"))
    rng = np.random.default_rng(7)
    better = 0
    for _ in range(3):
        energy = frustrated(rng, 5)
        y = relax(energy)
        for rate in (1e-2, 3.0):  # the latter is far too large
            tuned = model.tune(energy, 10, fractional=y, learning_rate=rate)
            inputs = [prepare(y, energy, "y")]
            untuned, own = measure(model.network_, inputs, 0)[0], measure(tuned.network_, inputs, 0)[0]
            assert own <= untuned + 1e-9
            assert own == pytest.approx(min(row.energy for row in tuned.history_), abs=1e-6)
            assert tuned.history_[0].energy == pytest.approx(untuned, abs=1e-6)
            better += own < untuned - 1e-3
    assert better > 0
    for name, value in model.network_.state_dict().items():
        assert torch.equal(value, before[name])
    assert dataclasses.asdict(dataclasses.replace(model, network="graph")) == settings


def test_tuning_goes_on_with_the_objective_of_the_last_epoch(trained):
    """The published model is tuned by what it was trained by, entropy included."""
    _, problems = trained
    published = LearnedRounding.as_published(epochs=1, hidden=8).fit(problems)
    assert {row.entropy_weight for row in published.tune(problems[0], 2).history_} == {1.0}
    assert {row.entropy_weight for row in published.tune(problems[0], 2, entropy=0.0).history_} == {0.0}
    faded = LearnedRounding("graph", epochs=2, entropy=0.5).fit(problems)
    assert {row.entropy_weight for row in faded.tune(problems[0], 2).history_} == {0.0}


def test_the_objective_of_the_published_model_is_the_one_of_the_formulas():
    """Mean over problems and draws of energy plus sum y log y, both as they are."""
    rng = np.random.default_rng(0)
    energies = [frustrated(rng) for _ in range(2)]
    inputs = [prepare(relax(energy), energy, "y") for energy in energies]
    model = LearnedRounding.as_published(hidden=8).fit(energies[:1])
    settings = model._plan(np.inf, model.network_)
    draws = model.network_(inputs, 3, torch.Generator().manual_seed(0))
    found = float(surrogate(draws, costs(draws, inputs, settings, settings.entropy_weight(7)), settings, 0.0).detach())
    wanted = []
    for own, energy in zip(draws, energies, strict=True):
        for y in own.marginals.detach().numpy():
            wanted.append(expected_energy(y, energy) + sum(p * np.log(p) for p in y.ravel()))
    assert found == pytest.approx(np.mean(wanted), rel=1e-12)


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


# ---- variance, time, Ctrl-C ---------------------------------------------------------------------------------------------------


def test_collapsing_variance_is_noticed():
    energy = frustrated(np.random.default_rng(3))
    settings = {"epochs": 30, "hidden": 8, "learning_rate": 3e-2, "collapse": 0.5}
    with pytest.warns(VarianceCollapseWarning, match=r"fell from .* pass min_sigma=0.1") as caught:
        model = LearnedRounding("graph", min_sigma=1e-6, **settings).fit([energy])
    assert len(caught) == 1 and caught[0].filename == __file__
    assert model.history_[-1].sigma < 0.5 * model.history_[0].sigma
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        floored = LearnedRounding("graph", min_sigma=0.25, **settings).fit([energy])  # the remedy
    assert floored.history_[-1].sigma >= 0.2499


def test_ctrl_c_keeps_the_best_weights(trained, monkeypatch):
    _, problems = trained
    calls = []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return costs(*args)

    monkeypatch.setattr(_rounding_training, "costs", interrupted)
    model = LearnedRounding("graph", epochs=50, learning_rate=1e-2).fit(problems)
    assert model.status_ == "interrupted" and 1 < len(model.history_) < 20
    inputs = [prepare(relax(energy), energy, "y") for energy in problems]
    best = min(row.relative_energy for row in model.history_)
    assert measure(model.network_, inputs, 0)[1] == pytest.approx(best, abs=1e-6)
    assert len(model.round(problems[0], 10).energies) == 10


def test_ctrl_c_keeps_the_best_weights_of_the_longest_training(trained, monkeypatch):
    """However many epochs were planned, some that were trained are among those that were measured."""
    _, problems = trained
    calls = []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 50:
            raise KeyboardInterrupt
        return costs(*args)

    monkeypatch.setattr(_rounding_training, "costs", interrupted)
    model = LearnedRounding("graph", epochs=10**6, learning_rate=1e-2, hidden=8).fit(problems[:1])
    assert model.status_ == "interrupted" and [row.epoch for row in model.history_] == [0, 20, 40]
    assert min(row.energy for row in model.history_) < model.history_[0].energy


def test_time_is_shared_by_problems_and_training(monkeypatch):
    rng = np.random.default_rng(0)
    limits = []

    def spied(energy, method, time_limit):
        limits.append(time_limit)
        return relax(energy, method=method)

    monkeypatch.setattr("maxmargin.nn.learned_rounding.relax", spied)
    LearnedRounding("graph", epochs=1, hidden=4, time_limit=1000).fit([frustrated(rng) for _ in range(4)])
    np.testing.assert_allclose(limits, [125, 1000 / 6, 250, 500], atol=10)


def test_no_step_is_taken_when_time_is_over_before_training(trained, monkeypatch):
    _, problems = trained
    monkeypatch.setattr(_rounding_training, "costs", lambda *_: pytest.fail("a step was taken"))
    model = LearnedRounding("graph", time_limit=0).fit(problems[:1], [np.full((4, 4), 0.25)])
    assert model.status_ == "time_limit" and [row.epoch for row in model.history_] == [0]
    assert len(model.round(problems[0], 5).energies) == 5


def test_ctrl_c_before_anything_is_known(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_rounding_training, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LearnedRounding("graph", epochs=2).fit([frustrated(np.random.default_rng(0))])


def test_ctrl_c_while_drawing(trained, monkeypatch):
    model, problems = trained
    calls = []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return LearnedRounding._marginals(model, *args)

    monkeypatch.setattr(model, "_marginals", interrupted)
    drawn = model.round(problems[0], 1000, 0)
    assert drawn.status == "interrupted" and len(drawn.energies) == 256


def test_time_limits(trained):
    model, problems = trained
    stopped = LearnedRounding("graph", epochs=10**6, time_limit=0.2).fit(problems, [relax(energy) for energy in problems])
    assert stopped.status_ == "time_limit" and stopped.history_
    assert model.tune(problems[0], 10**6, time_limit=0.2).status_ == "time_limit"
    drawn = model.round(problems[0], 10**9, time_limit=0.2)
    assert drawn.status == "time_limit" and 0 < len(drawn.energies) < 10**9


def test_progress_is_said(trained, capsys):
    _, problems = trained
    LearnedRounding("graph", epochs=2, verbose=True).fit(problems[:2])
    assert "learned rounding: epoch 2 of 2, mean energy" in capsys.readouterr().err


# ---- bad input ----------------------------------------------------------------------------------------------------------------


def test_problems_of_another_size_are_refused(trained):
    _, problems = trained
    model = LearnedRounding("dense", epochs=1, hidden=4).fit(problems)
    larger = frustrated(np.random.default_rng(0), 5)
    with pytest.raises(ValueError, match=r"problem has 5 nodes, but the network is for 4; .*kind='graph'"):
        model.round(larger)
    with pytest.raises(ValueError, match=r"problem has 3 labels, but the network is for 4"):
        model.tune(Energy(np.zeros((4, 3))))
    with pytest.raises(ValueError, match=r"problems\[1\] has 5 nodes"):
        LearnedRounding("dense", epochs=1).fit([problems[0], larger], [np.full((4, 4), 0.25), np.full((5, 5), 0.2)])
    grid = LearnedRounding("grid", epochs=1).fit([Energy.grid(np.random.default_rng(0).random((3, 3, 2)), "potts")])
    with pytest.raises(ValueError, match=r"problem is no image; make it by Energy.grid, or take kind='graph'"):
        grid.round(Energy(np.zeros((9, 2))))
    with pytest.raises(ValueError, match="problem has 3 labels"):
        grid.round(Energy.grid(np.zeros((3, 3, 3)), "potts"))
    with pytest.raises(ValueError, match=r"validation\[0\] has 5 nodes"):
        LearnedRounding("dense", epochs=1).fit(problems, validation=[larger])


def test_fractional_solutions_that_are_none_are_refused(trained):
    model, problems = trained
    y = np.full((4, 4), 0.25)
    nan = y.copy()
    nan[2, 1] = np.nan
    for wrong, message in [
        (1.1 * y, r"fractional\[0\] add up to 1.1, not to 1; divide"),
        (nan, r"fractional\[2, 1\] = nan"),
        (y[:3], r"fractional has shape \(3, 4\)"),
        (y[None], r"fractional has shape \(1, 4, 4\), but the energy needs \(4, 4\)"),
        (y - np.eye(4), r"fractional\[0, 0\] = -0.75"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.round(problems[0], fractional=wrong)
        with pytest.raises(ValueError, match=message.replace("fractional", r"fractional\[1\]", 1)):
            LearnedRounding("graph", epochs=1).fit(problems[:2], [y, wrong])
    with pytest.raises(ValueError, match="fractional must be a sequence with one entry for each of the 4 problems"):
        LearnedRounding("graph", epochs=1).fit(problems, [y])
    shut = Energy(np.where(np.eye(4) > 0, np.inf, 0.0), problems[0].edges, "potts")
    with pytest.raises(ValueError, match=r"fractional\[0\] has forbidden labels only"):
        model.round(shut, fractional=np.eye(4))
    # Objects of the library are as good as arrays.
    a, b = (model.round(problems[0], 20, 0, fractional=own) for own in (y, FractionalLabeling(y)))
    np.testing.assert_array_equal(a.energies, b.energies)


def test_energies_that_cannot_be_used_are_refused(trained):
    model, problems = trained
    cliques = Energy(np.zeros((3, 2)), cliques=Cliques([[0, 1, 2]], PnPotts()))
    with pytest.raises(ValueError, match=r"problem has cliques, which have no fractional part; leave them out"):
        model.round(cliques)
    with pytest.raises(ValueError, match=r"problems\[1\] has cliques"):
        LearnedRounding().fit([problems[0], cliques])
    with pytest.raises(TypeError, match=r"problems must be a sequence of Energy; write \[problems\]"):
        LearnedRounding().fit(problems[0])
    with pytest.raises(TypeError, match=r"problems\[0\] must be an Energy, but is a ndarray"):
        LearnedRounding().fit([np.zeros((3, 2))])
    with pytest.raises(ValueError, match="problems are empty"):
        LearnedRounding().fit([])
    for call in ("round", "tune", "marginals"):
        with pytest.raises(ValueError, match=r"not trained; call fit\(problems\) first"):
            getattr(LearnedRounding(), call)(problems[0])
    with pytest.raises(ValueError, match="not trained"):
        LearnedRounding().save("nowhere")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"network": "cnn"}, "network='cnn' is unknown"),
        ({"relaxation": "sdp"}, "relaxation='sdp' is unknown"),
        ({"gradient": "exact"}, "gradient='exact' is unknown"),
        ({"noise": "bernoulli"}, "pass gradient='score'"),
        ({"epochs": 0}, "epochs=0"),
        ({"random_state": 2**64}, r"random_state=18446744073709551616 must be a whole number from 0 to 2\*\*63 - 1"),
        ({"samples": 1.5}, "samples=1.5"),
        ({"batch_size": True}, "batch_size=True"),
        ({"learning_rate": 0}, "learning_rate=0 must be a positive number"),
        ({"entropy": float("nan")}, "entropy=nan"),
        ({"entropy_schedule": "cosine"}, "entropy_schedule='cosine' is unknown"),
        ({"time_limit": -1}, "time_limit=-1"),
        ({"random_state": -1}, "random_state=-1"),
        ({"hidden": 0}, "hidden=0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        LearnedRounding(**wrong).fit([frustrated(np.random.default_rng(0))])


def test_numbers_of_draws_and_steps_are_checked(trained):
    model, problems = trained
    for draws in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"draws={draws!r} must be a positive whole number"):
            model.round(problems[0], draws)
    with pytest.raises(ValueError, match="steps=0"):
        model.tune(problems[0], 0)
    with pytest.raises(ValueError, match="learning_rate=-1"):
        model.tune(problems[0], learning_rate=-1)
    with pytest.raises(ValueError, match="time_limit=-1"):
        model.round(problems[0], time_limit=-1)


# ---- figures ------------------------------------------------------------------------------------------------------------------


def test_figures(trained, tmp_path):
    pytest.importorskip("matplotlib")
    model, problems = trained
    ax = plot_rounding_history(model.history_)
    assert [line.get_label() for line in ax.get_lines()][:1] == ["mean energy"]
    drawn = {"learned": model.round(problems[0], 50, 0).energies, "always the same": np.full(3, 4.0)}
    ax = plot_draws(drawn, lower_bound=3.0)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(drawn)
    save_figure(ax, tmp_path / "draws.png")
    with pytest.raises(ValueError, match="energies are empty"):
        plot_draws({})
    for wrong in ([], [1.0, np.nan], [np.inf], [[1.0]]):
        with pytest.raises(ValueError, match=r"energies\['b'\] must be an array of finite numbers"):
            plot_draws({"a": [1.0, 2.0], "b": wrong})
    assert plot_draws({"a": [1.0, 2.0]}).get_lines()
    with pytest.raises(ValueError, match="history is empty"):
        plot_rounding_history([])
