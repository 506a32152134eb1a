"""What tests of learned rounding start with: small problems, plans and networks."""

import itertools

import numpy as np
import torch

from maxmargin.labeling import Energy
from maxmargin.nn import RoundingNetwork
from maxmargin.nn._rounding_training import Plan

TRIANGLE = [(0, 1), (1, 2), (2, 0)]


def frustrated(rng, n=4):
    """A few nodes whose relaxation is fractional: each must not have its own label, and all want to agree."""
    unary = 0.5 * rng.random((n, n)) + np.where(np.eye(n) > 0, 10.0, 0.0)
    return Energy(unary, list(itertools.combinations(range(n), 2)), "potts")


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
