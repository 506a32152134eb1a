"""Networks that turn a fractional solution into marginals which round well, by way of random latent variables.

An encoder makes the parameters of latent variables z from the problem, a decoder makes logits of marginals from a draw of z:

- ``"dense"``: fully connected, for problems of one size; z is one vector.
- ``"grid"``: convolutions, for images of any size with one number of labels; z has some numbers per pixel. What it does does not
  depend on where in the image it does it, but for borders.
- ``"graph"``: messages along edges, for any graph and any number of labels; z has some numbers per label. All nodes share
  their weights, and so do all labels; what labels have to do with each other it learns from the tables of edges. Renumbered
  nodes and labels get renumbered logits.

The published model is given the fractional solution only; ours may see costs as well (``costs=True``), and its output may be
added to the logits of the fractional solution (``residual=True``), where training then starts.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from scipy.sparse import csr_array
from torch.nn import functional

from maxmargin._utils import check_choice
from maxmargin.labeling import Energy
from maxmargin.nn._rounding_inputs import N_PLAIN, N_WITH_COSTS, RoundingInput, groups
from maxmargin.nn._seeds import seeded

NetworkKind = Literal["dense", "grid", "graph"]
Noise = Literal["gaussian", "bernoulli"]
# Hidden units and latent variables (per pixel, or per label), layers on each side.
_DEFAULTS = {"dense": (512, 64, 1), "grid": (32, 8, 3), "graph": (16, 4, 2)}
_MOST_SIGMA = 10.0
_FIRST_SIGMA = 0.3
# Single precision, as the features are, whatever others have made the default.
_linear = partial(torch.nn.Linear, dtype=torch.float32)
_conv = partial(torch.nn.Conv2d, dtype=torch.float32)


class Draws(NamedTuple):
    """Marginals that a network made of one problem, K times.

    Attributes
    ----------
    marginals : float64 tensor of shape (K, N, L)
    log_density : tensor of shape (K,)
        Logarithm of the density of the latent variables, or of their probability, which were drawn.
    log_sigma : tensor of shape ()
        Mean logarithm of the standard deviations of the latent variables.
    """

    marginals: torch.Tensor
    log_density: torch.Tensor
    log_sigma: torch.Tensor


class RoundingNetwork(torch.nn.Module):
    """Latent variables from a problem, and marginals from latent variables.

    Parameters
    ----------
    kind : {"dense", "grid", "graph"}
    n_labels : int, optional
        Needed but for ``"graph"``, which takes any number.
    n_nodes : int, optional
        Needed for ``"dense"``.
    costs : bool
        Whether the network sees unary costs and what neighbours cost, or the fractional solution alone.
    residual : bool
        Add the output to the logarithm of the fractional solution. The last weights are zero at first: training starts there.
    hidden, latent, n_layers : int, optional
        Hidden units; latent variables (of a problem; of a pixel; of a label); hidden layers of encoder and decoder each.
    noise : {"gaussian", "bernoulli"}
        Latent variables: normal ones, or signs -1 and 1, which have score-function gradients only.
    min_sigma : float
        The least standard deviation of normal ones.
    seed : int
        Of the first weights.

    Examples
    --------
    >>> network = RoundingNetwork("grid", n_labels=4, hidden=8)
    >>> network
    RoundingNetwork(grid, 4 labels, 4548 weights)
    """

    def __init__(
        self,
        kind: NetworkKind,
        n_labels: int | None = None,
        n_nodes: int | None = None,
        *,
        costs: bool = True,
        residual: bool = True,
        hidden: int | None = None,
        latent: int | None = None,
        n_layers: int | None = None,
        noise: Noise = "gaussian",
        min_sigma: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_choice("kind", kind, get_args(NetworkKind))
        check_choice("noise", noise, get_args(Noise))
        least: Any = min_sigma
        if not (isinstance(least, numbers.Real) and 0 < float(least) < _MOST_SIGMA):
            raise ValueError(f"min_sigma={min_sigma!r} must be a positive number below {_MOST_SIGMA:g}")
        given = zip(_DEFAULTS[kind], (hidden, latent, n_layers), strict=True)
        sizes = tuple(own if other is None else other for own, other in given)
        needed: dict[str, Any] = dict(zip(("hidden", "latent", "n_layers"), sizes, strict=True))
        needed |= {"n_labels": n_labels} if kind != "graph" else {}
        needed |= {"n_nodes": n_nodes} if kind == "dense" else {}
        for name, value in needed.items():
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} must be a positive whole number for kind={kind!r}")
        whole = [int(own) for own in sizes]
        n_labels, n_nodes = (None if value is None else int(value) for value in (n_labels, n_nodes))
        self.kind, self.noise, self.min_sigma = kind, noise, float(min_sigma)
        self.n_labels = n_labels if kind != "graph" else None
        self.n_nodes = n_nodes if kind == "dense" else None
        self.costs, self.residual = bool(costs), bool(residual)
        self.sizes: dict[str, int] = dict(zip(("hidden", "latent", "n_layers"), whole, strict=True))
        channels = N_WITH_COSTS if costs else N_PLAIN
        n_parameters = 2 if noise == "gaussian" else 1
        body: Any = {"dense": _Dense, "grid": _Grid, "graph": _Graph}[kind]
        with seeded(seed):
            self.body = body(channels, n_parameters, *whole, n_labels or 0, n_nodes or 0)
        if residual:
            with torch.no_grad():
                for weights in self.body.last.parameters():
                    weights.zero_()

    @classmethod
    def for_problems(cls, problems: Sequence[Energy], kind: str = "auto", **settings: Any) -> RoundingNetwork:
        """A network for such problems: ``"auto"`` is ``"grid"`` for images with one number of labels, else ``"graph"``."""
        if len(problems) == 0:
            raise ValueError("problems are empty; give at least one Energy")
        labels = {energy.n_labels for energy in problems}
        if kind == "auto":
            images = all(energy.connectivity is not None and len(energy.shape) == 2 for energy in problems)
            kind = "grid" if images and len(labels) == 1 else "graph"
        check_choice("kind", kind, get_args(NetworkKind))
        return cls(kind, problems[0].n_labels, problems[0].n_nodes, **settings)  # type: ignore[arg-type]

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the weights, as keywords of the class."""
        names = ("kind", "n_labels", "n_nodes", "costs", "residual", "noise", "min_sigma")
        return {name: getattr(self, name) for name in names} | self.sizes

    def __repr__(self) -> str:
        size = [f"{self.n_nodes} nodes"] * (self.n_nodes is not None) + [f"{self.n_labels} labels"] * (self.n_labels is not None)
        weights = sum(own.numel() for own in self.parameters())
        return f"RoundingNetwork({', '.join([self.kind, *size, f'{weights} weights'])})"

    def check(self, energy: Energy, name: str) -> None:
        """Complain about a problem that the network is not made for."""
        other = "make one for this size by RoundingNetwork.for_problems, or take kind='graph', which fits all"
        if self.kind == "dense" and energy.n_nodes != self.n_nodes:
            raise ValueError(f"{name} has {energy.n_nodes} nodes, but the network is for {self.n_nodes}; {other}")
        if self.n_labels is not None and energy.n_labels != self.n_labels:
            raise ValueError(f"{name} has {energy.n_labels} labels, but the network is for {self.n_labels}; {other}")
        if self.kind == "grid" and (energy.connectivity is None or len(energy.shape) != 2):
            raise ValueError(f"{name} is no image; make it by Energy.grid, or take kind='graph', which fits all")

    def numbers_per_draw(self, one: RoundingInput) -> int:
        """About how many numbers a draw and the evaluation of its energy hold at once."""
        energy, hidden = one.energy, int(self.sizes["hidden"])
        places, n_edges = energy.n_nodes * energy.n_labels, len(energy.edges)
        if self.kind == "dense":
            own = places + hidden
        elif self.kind == "grid":
            own = places + energy.n_nodes * hidden
        else:
            # A layer's input is four times as wide as its output; tables of their own make messages of edges.
            own = max(4 * places, n_edges * energy.n_labels if energy.table.ndim == 3 else 0) * hidden
        return int(own + n_edges)

    def forward(
        self, inputs: Sequence[RoundingInput], samples: int, generator: torch.Generator, *, frozen: bool = False
    ) -> list[Draws]:
        """Marginals of every problem, for ``samples`` draws of the latent variables.

        With ``frozen=True`` gradients do not flow through the draws, as score-function gradients want it.
        """
        found: dict[int, Draws] = {}
        for members in groups(inputs, self.kind):
            own = [inputs[k] for k in members]
            features = [one.features if self.costs else one.plain for one in own]
            context = self.body.context(own, features)
            parameters = self.body.encode(own, features, context)
            z, log_density, log_sigma = self._draw(parameters, samples, generator, frozen)
            for k, logits, *rest in zip(members, *self.body.decode(z, log_density, log_sigma, context), strict=True):
                found[k] = Draws(self._marginals(logits.to(torch.float64), inputs[k]), *rest)
        return [found[k] for k in range(len(inputs))]

    def _draw(self, parameters: Any, samples: int, generator: torch.Generator, frozen: bool) -> tuple[torch.Tensor, ...]:
        """Draws z, shape (K, ...), and entry by entry the logarithms of their densities, (K, ...), and deviations, (...)."""
        if self.noise == "bernoulli":
            (logit,) = parameters
            uniform = torch.rand((samples, *logit.shape), generator=generator, dtype=logit.dtype)
            up = uniform < torch.sigmoid(logit.detach())
            signs = up.to(logit.dtype) * 2 - 1
            chance = torch.sigmoid(logit)
            return signs, functional.logsigmoid(signs * logit), 0.5 * torch.log(4 * chance * (1 - chance) + 1e-30)
        mean, raw = parameters
        log_sigma = torch.clamp(raw + math.log(_FIRST_SIGMA), math.log(self.min_sigma), math.log(_MOST_SIGMA))
        noise = torch.randn((samples, *mean.shape), generator=generator, dtype=mean.dtype)
        z = mean + log_sigma.exp() * noise
        z = z.detach() if frozen else z
        # The density is that of the draw wherever it came from: noise is (z - mean) / sigma only as a number.
        density = -0.5 * ((z - mean) / log_sigma.exp()) ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
        return z, density, log_sigma

    def _marginals(self, logits: torch.Tensor, one: RoundingInput) -> torch.Tensor:
        logits = logits + one.start if self.residual else logits
        return logits.masked_fill(~one.allowed, -math.inf).softmax(dim=-1)


def _with_relu(layers: Sequence[torch.nn.Module]) -> torch.nn.Sequential:
    return torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))


class _Dense(torch.nn.Module):
    """One latent vector of the whole problem."""

    def __init__(
        self, channels: int, n_parameters: int, hidden: int, latent: int, n_layers: int, n_labels: int, n_nodes: int
    ) -> None:
        super().__init__()
        self.n_parameters, self.shape = n_parameters, (n_nodes, n_labels)
        linear = _linear
        wide = [linear(hidden, hidden) for _ in range(n_layers - 1)]
        self.encoder = _with_relu([linear(channels * n_nodes * n_labels, hidden), *wide])
        self.parameters_of = linear(hidden, n_parameters * latent)
        self.decoder = _with_relu([linear(latent, hidden), *(linear(hidden, hidden) for _ in range(n_layers - 1))])
        self.last = linear(hidden, n_nodes * n_labels)

    def context(self, inputs: Sequence[RoundingInput], features: Sequence[torch.Tensor]) -> None:
        """Nothing but the features."""

    def encode(self, inputs: Sequence[RoundingInput], features: Sequence[torch.Tensor], context: Any) -> Any:
        x = torch.stack([one.reshape(-1) for one in features])
        return self.parameters_of(self.encoder(x)).chunk(self.n_parameters, dim=-1)

    def decode(self, z: Any, density: Any, sigma: Any, context: Any) -> tuple[Any, ...]:
        logits = self.last(self.decoder(z)).reshape(*z.shape[:2], *self.shape)
        return logits.unbind(1), density.sum(-1).unbind(1), sigma.mean(-1).unbind(0)


class _Grid(torch.nn.Module):
    """Latent variables of every pixel."""

    def __init__(self, channels: int, n_parameters: int, hidden: int, latent: int, n_layers: int, n_labels: int, _: int) -> None:
        super().__init__()
        self.n_parameters = n_parameters

        def conv(a: int, b: int) -> torch.nn.Module:
            return _conv(a, b, 3, padding=1)

        self.encoder = _with_relu([conv(channels * n_labels, hidden), *(conv(hidden, hidden) for _ in range(n_layers - 1))])
        self.parameters_of = _conv(hidden, n_parameters * latent, 1)
        self.decoder = _with_relu([conv(latent, hidden), *(conv(hidden, hidden) for _ in range(n_layers - 1))])
        self.last = _conv(hidden, n_labels, 1)

    def context(self, inputs: Sequence[RoundingInput], features: Sequence[torch.Tensor]) -> None:
        """Nothing but the features."""

    def encode(self, inputs: Sequence[RoundingInput], features: Sequence[torch.Tensor], context: Any) -> Any:
        height, width = inputs[0].energy.shape
        x = torch.stack([one.reshape(height, width, -1) for one in features]).permute(0, 3, 1, 2)
        return self.parameters_of(self.encoder(x)).chunk(self.n_parameters, dim=1)

    def decode(self, z: Any, density: Any, sigma: Any, context: Any) -> tuple[Any, ...]:
        logits = self.last(self.decoder(z.flatten(0, 1))).unflatten(0, z.shape[:2])  # (K, B, L, H, W)
        logits = logits.permute(0, 1, 3, 4, 2).flatten(2, 3)
        return logits.unbind(1), density.sum((2, 3, 4)).unbind(1), sigma.mean((1, 2, 3)).unbind(0)


class _Sums(torch.autograd.Function):
    """A sparse matrix times (N, ...), which torch differentiates slowly or not at all."""

    @staticmethod
    def forward(ctx: Any, h: torch.Tensor, matrix: torch.Tensor, transposed: torch.Tensor) -> torch.Tensor:
        ctx.transposed = transposed
        return (matrix @ h.reshape(len(h), -1)).reshape(h.shape)

    @staticmethod
    def backward(ctx: Any, *outward: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return (ctx.transposed @ outward[0].reshape(len(outward[0]), -1)).reshape(outward[0].shape), None, None


class _Around(NamedTuple):
    """Edges of several problems, one after the other.

    Attributes
    ----------
    a, b : tensors of shape (E,)
        Ends.
    to_first, to_second : sparse tensors of shape (N, N)
        Strengths of edges, for what first ends hear from second ones, and the other way round.
    couplings : tensor of shape (E, 1, 1)
        The same strengths.
    tables : tensor of shape (L, L) or (E, L, L)
    """

    a: torch.Tensor
    b: torch.Tensor
    to_first: torch.Tensor
    to_second: torch.Tensor
    couplings: torch.Tensor
    tables: torch.Tensor

    @classmethod
    def of(cls, inputs: Sequence[RoundingInput]) -> _Around:
        edges, n = [], 0
        for one in inputs:
            edges.append(one.energy.edges.astype(np.int64) + n)
            n += one.energy.n_nodes
        a, b = np.concatenate(edges).T
        couplings = torch.cat([one.couplings for one in inputs])
        tables = [one.tables for one in inputs]
        if all(table.ndim == 2 and torch.equal(table, tables[0]) for table in tables):
            table = tables[0]
        else:
            shapes = [(len(one.energy.edges), *own.shape[-2:]) for one, own in zip(inputs, tables, strict=True)]
            table = torch.cat([own.expand(shape) for own, shape in zip(tables, shapes, strict=True)])
        first, second = (_sparse(couplings.numpy(), here, there, n) for here, there in ((a, b), (b, a)))
        return cls(torch.from_numpy(a), torch.from_numpy(b), first, second, couplings[:, None, None], table)

    def messages(self, h: torch.Tensor) -> torch.Tensor:
        """What neighbours have of the same label, and of labels that would be expensive: (N, K, L, d) to (N, K, L, 2 d)."""
        to_a: torch.Tensor = _Sums.apply(h, self.to_first, self.to_second)  # type: ignore[no-untyped-call]
        to_b: torch.Tensor = _Sums.apply(h, self.to_second, self.to_first)  # type: ignore[no-untyped-call]
        if self.tables.ndim == 2:
            # The table is the same on all edges: sums over neighbours come first, separately for both of its sides.
            costly = torch.matmul(self.tables, to_a) + torch.matmul(self.tables.T, to_b)
        else:
            tables, couplings = self.tables[:, None], self.couplings[:, None]
            costly = torch.zeros_like(h).index_add(0, self.a, couplings * torch.matmul(tables, h.index_select(0, self.b)))
            costly = costly.index_add(0, self.b, couplings * torch.matmul(tables.mT, h.index_select(0, self.a)))
        return torch.cat([to_a + to_b, costly], dim=-1)


def _sparse(values: Any, rows: Any, columns: Any, n: int) -> torch.Tensor:
    # Equal pairs of nodes add up.
    matrix = csr_array((values, (rows, columns)), shape=(n, n), dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its sparse tensors a beta
        rows, columns, values = (torch.from_numpy(own) for own in (matrix.indptr, matrix.indices, matrix.data))
        return torch.sparse_csr_tensor(rows, columns, values, size=(n, n))


class _Round(torch.nn.Module):
    """Every node hears from its neighbours, every label from the other labels of its node."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = _linear(4 * hidden, hidden)

    def forward(self, h: torch.Tensor, around: _Around) -> torch.Tensor:
        all_labels = h.mean(dim=-2, keepdim=True).expand_as(h)
        return h + torch.relu(self.linear(torch.cat([h, all_labels, around.messages(h)], dim=-1)))


class _Context(NamedTuple):
    """Problems side by side: their edges, numbers of nodes, the problem of every node, and features of nodes and labels."""

    around: _Around
    sizes: list[int]
    owner: torch.Tensor
    features: torch.Tensor


class _Graph(torch.nn.Module):
    """Latent variables of every label; weights shared by all nodes and labels.

    Latent variables of every node would drive neighbours apart that the fractional solution keeps together; those of a label move
    all nodes. What is special about a node, the decoder sees itself.
    """

    def __init__(self, channels: int, n_parameters: int, hidden: int, latent: int, n_layers: int, _: int, __: int) -> None:
        super().__init__()
        self.n_parameters = n_parameters
        self.first = _linear(channels, hidden)
        self.encoder = torch.nn.ModuleList(_Round(hidden) for _ in range(n_layers))
        self.parameters_of = _linear(hidden, n_parameters * latent)
        self.first_of_latent = _linear(latent, hidden)
        self.first_of_features = _linear(channels, hidden, bias=False)
        self.decoder = torch.nn.ModuleList(_Round(hidden) for _ in range(n_layers))
        self.last = _linear(hidden, 1)

    def context(self, inputs: Sequence[RoundingInput], features: Sequence[torch.Tensor]) -> _Context:
        """What both halves need to know."""
        sizes = [one.energy.n_nodes for one in inputs]
        owner = torch.repeat_interleave(torch.tensor(sizes))
        return _Context(_Around.of(inputs), sizes, owner, torch.cat(list(features)))

    def encode(self, inputs: Sequence[RoundingInput], features: Sequence[torch.Tensor], context: _Context) -> Any:
        h = torch.relu(self.first(context.features[:, None]))
        for step in self.encoder:
            h = step(h, context.around)
        total = torch.zeros((len(inputs), *h.shape[2:]), dtype=h.dtype).index_add(0, context.owner, h[:, 0])
        mean = total / torch.tensor(context.sizes)[:, None, None]
        return self.parameters_of(mean).chunk(self.n_parameters, dim=-1)  # (B, L, latent)

    def decode(self, z: Any, density: Any, sigma: Any, context: _Context) -> tuple[Any, ...]:
        own = self.first_of_latent(z.transpose(0, 1))[context.owner]  # (N, K, L, d)
        h = torch.relu(own + self.first_of_features(context.features)[:, None])
        for step in self.decoder:
            h = step(h, context.around)
        logits = self.last(h).squeeze(-1).transpose(0, 1)
        return logits.split(context.sizes, dim=1), density.sum((2, 3)).unbind(1), sigma.mean((1, 2)).unbind(0)
