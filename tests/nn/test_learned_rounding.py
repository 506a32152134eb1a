"""Learned rounding: gradients, training to the optimum that enumeration finds, tuning."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from tests.cases.learned_rounding_cases import frustrated, gradient_of, plan, small_network

from maxmargin.labeling import Energy, expected_energy, minimize, relax
from maxmargin.nn import LearnedRounding
from maxmargin.nn._rounding_inputs import prepare
from maxmargin.nn._rounding_training import costs, measure, surrogate

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


# Training amplifies rounding. With these settings each of the first ten seeds finds the optimum, and so does another processor.
@pytest.mark.parametrize(
    ("network", "seed", "settings"),
    [
        ("graph", 3, {"samples": 16, "epochs": 100}),
        ("dense", 3, {"samples": 16}),
        ("dense", 3, {"gradient": "score", "noise": "bernoulli", "samples": 4}),
        ("dense", 3, {"gradient": "score", "samples": 1, "learning_rate": 1e-2, "epochs": 300}),
        ("dense", 1, {"residual": False, "costs": False, "normalize": False, "samples": 4, "learning_rate": 5e-3, "epochs": 300}),
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
