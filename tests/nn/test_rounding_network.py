"""The loss against finite differences, and what networks must not depend on."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.labeling import Energy, Metric, expected_energy
from maxmargin.nn import ExpectedEnergyLoss, RoundingNetwork
from maxmargin.nn._rounding_inputs import complete_labels, energies_of, prepare


def random_energy(rng, n_nodes=5, n_labels=3, *, own_tables=False, forbidden=False):
    edges = [(a, b) for a in range(n_nodes) for b in range(a) if rng.random() < 0.7] or [(0, 1)]
    shape = (len(edges), n_labels, n_labels) if own_tables else (n_labels, n_labels)
    unary = rng.normal(size=(n_nodes, n_labels))
    if forbidden:
        unary[0, 0] = unary[-1, -1] = np.inf
    return Energy(unary, edges, rng.normal(size=shape), weights=rng.normal(size=len(edges)))


def random_marginals(rng, energy):
    y = rng.dirichlet(np.full(energy.n_labels, 0.5), size=energy.n_nodes)
    y = np.where(np.isfinite(energy.unary), y + 1e-6, 0.0)
    return y / y.sum(axis=1, keepdims=True)


def awake(network):
    """A residual network says nothing at first; give its last layer weights."""
    torch.manual_seed(7)
    with torch.no_grad():
        for weights in network.body.last.parameters():
            weights.normal_()
    return network


def run(network, inputs, samples=2, seed=0):
    with torch.no_grad():
        return [own.marginals for own in network(inputs, samples, torch.Generator().manual_seed(seed))]


# ---- the loss -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_tables", [False, True])
@pytest.mark.parametrize("forbidden", [False, True])
def test_loss_has_the_gradient_of_finite_differences(own_tables, forbidden):
    rng = np.random.default_rng(0)
    energies = [random_energy(rng, n, own_tables=own_tables, forbidden=forbidden) for n in (2, 5)]
    masks = [torch.from_numpy(~np.isfinite(energy.unary)) for energy in energies]
    logits = [torch.from_numpy(rng.normal(size=(3, *energy.unary.shape))).requires_grad_() for energy in energies]

    def loss(*logits):
        marginals = [own.masked_fill(mask, -torch.inf).softmax(-1) for own, mask in zip(logits, masks, strict=True)]
        return ExpectedEnergyLoss()(marginals, energies)

    assert torch.autograd.gradcheck(loss, logits, eps=1e-7, atol=1e-6)


def test_loss_is_the_expected_energy_of_every_set_of_marginals():
    rng = np.random.default_rng(1)
    energy = random_energy(rng)
    sets = np.stack([random_marginals(rng, energy) for _ in range(3)])
    (values,) = ExpectedEnergyLoss("none")([torch.from_numpy(sets)], [energy])
    np.testing.assert_allclose(values.numpy(), [expected_energy(y, energy) for y in sets])
    one = torch.from_numpy(sets[0])
    both = ExpectedEnergyLoss("sum")([one, one], [energy, energy])
    assert float(both) == pytest.approx(2 * float(values[0]))
    assert ExpectedEnergyLoss()([one.float()], [energy]).dtype == torch.float32


def test_loss_refuses_what_it_cannot_use():
    rng = np.random.default_rng(0)
    energy = random_energy(rng, forbidden=True)
    y = torch.from_numpy(random_marginals(rng, energy))
    loss = ExpectedEnergyLoss()
    with pytest.raises(ValueError, match="reduction='max' is unknown"):
        ExpectedEnergyLoss("max")
    with pytest.raises(TypeError, match="must be sequences"):
        loss(y, energy)
    with pytest.raises(ValueError, match="marginals are empty"):
        loss([], [])
    with pytest.raises(ValueError, match="1 sets of marginals, but 2 energies"):
        loss([y], [energy, energy])
    with pytest.raises(TypeError, match=r"marginals\[0\] must be a tensor"):
        loss([y.numpy()], [energy])
    with pytest.raises(ValueError, match=r"marginals\[0\]: .*not to 1"):
        loss([2 * y], [energy])
    with pytest.raises(ValueError, match=r"marginals\[0\]: .*nan"):
        loss([y * torch.nan], [energy])
    with pytest.raises(ValueError, match="forbidden; set its logit to -inf"):
        loss([torch.full((5, 3), 1 / 3, dtype=torch.float64)], [energy])


# ---- complete rounding --------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n_labels=st.integers(1, 4))
def test_complete_rounding_has_the_expected_energy_on_average(seed, n_labels):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, 3, n_labels, own_tables=bool(rng.integers(2)))
    # Multiples of 1/12, with ties and zeros: twelve numbers see everything there is.
    y = rng.multinomial(12, np.full(n_labels, 1 / n_labels), size=3) / 12
    r = (np.arange(12) + 0.5) / 12
    labels = complete_labels(np.broadcast_to(y, (12, *y.shape)), r)
    energies = energies_of(energy, labels)
    np.testing.assert_allclose(energies, [energy.energy(one) for one in labels], atol=1e-9)
    assert energies.mean() == pytest.approx(expected_energy(y, energy), abs=1e-9)


def test_complete_rounding_takes_no_label_that_is_absent():
    y = np.array([[[0.1] * 10 + [0.0], [0.0, 1.0] + [0.0] * 9]])
    for r in (0.0, np.nextafter(1, 0)):
        labels = complete_labels(y, np.array([r]))
        assert np.take_along_axis(y[0], labels[0][:, None], axis=1).min() > 0


# ---- networks -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "grid", "graph"])
def test_residual_networks_start_at_the_fractional_solution(kind):
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.random((3, 4, 3)), "potts")
    y = random_marginals(rng, energy)
    inputs = [prepare(y, energy, "y")]
    wanted = (y + 1e-3) / (y + 1e-3).sum(axis=1, keepdims=True)
    for marginals in run(RoundingNetwork.for_problems([energy], kind), inputs)[0]:
        np.testing.assert_allclose(marginals, wanted, atol=1e-12)
    plain = RoundingNetwork.for_problems([energy], kind, costs=False, residual=False)
    assert not np.allclose(run(plain, inputs)[0][0], wanted, atol=1e-3)


@pytest.mark.parametrize("kind", ["dense", "grid", "graph"])
@pytest.mark.parametrize("costs", [False, True])
def test_batches_are_what_single_problems_are(kind, costs):
    rng = np.random.default_rng(3)
    shapes = [(3, 4)] * 3 if kind == "dense" else [(3, 4), (2, 2), (3, 4)]
    energies = [Energy.grid(rng.random((*shape, 3)), Metric("linear", limit=2), weights=rng.random()) for shape in shapes]
    inputs = [prepare(random_marginals(rng, energy), energy, "y") for energy in energies]
    network = awake(RoundingNetwork.for_problems(energies, kind, costs=costs, min_sigma=1e-9))
    with torch.no_grad():  # no noise
        network.body.parameters_of.weight[len(network.body.parameters_of.weight) // 2 :] = 0
        network.body.parameters_of.bias[len(network.body.parameters_of.bias) // 2 :] = -100
    together = run(network, inputs)
    for one, marginals in zip(inputs, together, strict=True):
        (alone,) = run(network, [one])
        assert alone.shape == (2, one.energy.n_nodes, 3)
        np.testing.assert_allclose(alone, marginals, atol=1e-6)


def test_convolutions_do_not_know_where_they_are():
    rng = np.random.default_rng(0)
    image = Energy.grid(rng.random((24, 24, 2)), "potts")
    moved = Energy.grid(np.roll(image.unary.reshape(24, 24, 2), (3, 2), axis=(0, 1)), "potts")
    y = random_marginals(rng, image).reshape(24, 24, 2)
    network = awake(RoundingNetwork("grid", 2, costs=False, hidden=6, latent=2, n_layers=2))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn((1, 1, 2, 24, 24), generator=generator)

    def output(energy, y, noise):
        inputs = [prepare(y, energy, "y")]
        mean, log_sigma = network.body.encode(inputs, [inputs[0].plain], None)
        return network.body.decode(mean + log_sigma.exp() * noise, noise, log_sigma, None)[0][0].detach().reshape(24, 24, 2)

    one, other = output(image, y, noise), output(moved, np.roll(y, (3, 2), axis=(0, 1)), noise.roll((3, 2), (3, 4)))
    # Four convolutions of 3 x 3 see four pixels far; nearer to the border they see it.
    np.testing.assert_allclose(one[5:16, 5:17], other[8:19, 7:19], atol=1e-5)
    assert not np.allclose(one[:2], other[3:5, :], atol=1e-3)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), own_tables=st.booleans())
def test_messages_do_not_know_numbers_of_nodes_and_labels(seed, own_tables):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, 6, 4, own_tables=own_tables)
    y = random_marginals(rng, energy)
    nodes, labels, edges = rng.permutation(6), rng.permutation(4), rng.permutation(len(energy.edges))
    place = np.argsort(nodes)
    table = energy.table[edges] if own_tables else energy.table
    table, ends = table[..., labels, :][..., labels], place[energy.edges[edges]]
    if own_tables:  # edges have no direction but for that of their tables
        ends, table = ends[:, ::-1], np.swapaxes(table, 1, 2)
    other = Energy(energy.unary[nodes][:, labels], ends, table, weights=energy.weights[edges])
    network = awake(RoundingNetwork("graph", hidden=8, latent=3))

    def mean_logits(energy, y):
        one = [prepare(y, energy, "y")]
        context = network.body.context(one, [one[0].features])
        mean, sigma = network.body.encode(one, [one[0].features], context)
        logits, density, _ = network.body.decode(mean[None], mean[None], sigma, context)
        return logits[0][0].detach().numpy(), float(density[0].detach())

    logits, density = mean_logits(energy, y)
    renumbered, same_density = mean_logits(other, y[nodes][:, labels])
    np.testing.assert_allclose(renumbered, logits[nodes][:, labels], atol=2e-3, rtol=1e-3)
    assert same_density == pytest.approx(density, rel=1e-3, abs=1e-3)


def test_tables_may_be_given_from_their_other_ends():
    """One table for all edges is the same as one for each, and as transposed tables of reversed edges."""
    rng = np.random.default_rng(0)
    energy = random_energy(rng, 6, 4)
    own = np.repeat(energy.table[None], len(energy.edges), axis=0)
    same = [
        energy,
        Energy(energy.unary, energy.edges, own, weights=energy.weights),
        Energy(energy.unary, energy.edges[:, ::-1], energy.table.T, weights=energy.weights),
    ]
    y = random_marginals(rng, energy)
    network = awake(RoundingNetwork("graph", hidden=8))
    one, *others = (run(network, [prepare(y, other, "y")])[0] for other in same)
    for other in others:
        np.testing.assert_allclose(other, one, atol=1e-3)


def test_inputs_do_not_know_units_and_constants():
    rng = np.random.default_rng(0)
    energy = random_energy(rng, 6, 4)
    other = Energy(1e6 * (energy.unary + rng.normal(size=(6, 1))), energy.edges, 1e6 * energy.table + 3e5, weights=energy.weights)
    y = random_marginals(rng, energy)
    one, same = prepare(y, energy, "y"), prepare(y, other, "y")
    np.testing.assert_allclose(one.features, same.features, atol=1e-5)
    np.testing.assert_allclose(one.couplings, same.couplings, atol=1e-6)
    np.testing.assert_allclose(one.tables, same.tables, atol=1e-6)
    labels = rng.integers(0, 4, 6)
    relative = [(own.energy.energy(labels) - own.offset) / own.scale for own in (one, same)]
    assert relative[0] == pytest.approx(relative[1], rel=1e-9)


@pytest.mark.parametrize("noise", ["gaussian", "bernoulli"])
def test_density_of_latent_variables(noise):
    """Against the distributions of torch, for every kind of network."""
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.random((2, 2, 3)), "potts")
    inputs = [prepare(random_marginals(rng, energy), energy, "y")]
    for kind in ("dense", "grid", "graph"):
        network = RoundingNetwork.for_problems([energy], kind, noise=noise)
        (draws,) = network(inputs, 3, torch.Generator().manual_seed(5), frozen=True)
        parameters = network.body.encode(inputs, [inputs[0].features], network.body.context(inputs, [inputs[0].features]))
        generator = torch.Generator().manual_seed(5)
        if noise == "gaussian":
            sigma = (parameters[1] + np.log(0.3)).exp()
            law = torch.distributions.Normal(parameters[0], sigma)
            values = law.log_prob(parameters[0] + sigma * torch.randn((3, *sigma.shape), generator=generator))
        else:
            law = torch.distributions.Bernoulli(logits=parameters[0])
            values = law.log_prob((torch.rand((3, *parameters[0].shape), generator=generator) < law.probs).float())
        np.testing.assert_allclose(draws.log_density.detach(), values.flatten(1).sum(1).detach(), rtol=1e-4)


def test_bernoulli_networks_have_as_many_outputs_as_signs():
    rng = np.random.default_rng(0)
    energy = random_energy(rng)
    network = awake(RoundingNetwork.for_problems([energy], "dense", noise="bernoulli", latent=2, hidden=8))
    (marginals,) = run(network, [prepare(random_marginals(rng, energy), energy, "y")], samples=64)
    distinct = {tuple(np.round(own.numpy().ravel(), 9)) for own in marginals}
    assert 1 < len(distinct) <= 4
    states = list(itertools.product((-1.0, 1.0), repeat=2))
    decoded = network.body.decode(torch.tensor(states)[:, None], torch.zeros(4, 1, 2), torch.zeros(1, 2), None)[0][0]
    assert decoded.shape == (4, 5, 3)


def test_networks_refuse_sizes():
    for wrong, message in [
        ({"kind": "conv"}, "kind='conv' is unknown"),
        ({"kind": "grid"}, "n_labels=None must be a positive whole number for kind='grid'"),
        ({"kind": "dense", "n_labels": 3}, "n_nodes=None"),
        ({"kind": "graph", "hidden": 0}, "hidden=0"),
        ({"kind": "graph", "noise": "uniform"}, "noise='uniform' is unknown"),
        ({"kind": "graph", "min_sigma": 0}, "min_sigma=0"),
    ]:
        with pytest.raises(ValueError, match=message):
            RoundingNetwork(**wrong)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e9, 1e200])
def test_features_of_problems_with_one_kind_of_costs(size):
    """Neither without edges nor without costs of nodes does anything overflow."""
    y = np.full((3, 2), 0.5)
    unary = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    only_nodes = prepare(y, Energy(size * unary), "y").features
    only_edges = prepare(y, Energy(0 * unary, [(0, 1), (1, 2)], [[0.0, size], [0.0, 0.0]]), "y").features
    assert torch.isfinite(only_nodes).all() and torch.isfinite(only_edges).all()
    assert (only_nodes[..., -1] == -2).all() and (only_edges[..., -1] == 2).all()


def test_networks_for_no_problems_are_refused():
    with pytest.raises(ValueError, match="problems are empty"):
        RoundingNetwork.for_problems([])
