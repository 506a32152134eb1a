"""Piecewise-linear networks, layer by layer: what each does to values, and to bounds of values.

A *pair of bounds* of a unit is a convex function of some weights above it and a concave one below it, which meet at the
current weights. Every layer here turns such pairs into such pairs:

- an affine layer takes the bound of the fitting side for each sign of its weights;
- ReLU and max-pooling are convex and monotone, so the upper bound goes through them; from below they are bounded by the piece
  that is active at the current weights, a choice that is recorded as the *pattern*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Pair = tuple[Tensor, Tensor]


class Layer(ABC):
    """One layer of the network, in double precision and on the processor; the batch comes first in all shapes."""

    def __init__(self, name: str, module: torch.nn.Module) -> None:
        self.name = name
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output."""
        output: Tensor = self.module(x)
        return output

    def pattern(self, x: Tensor) -> Tensor | None:
        """Which linear piece is active at ``x``, one row per sample; None for a linear layer."""
        return None

    @abstractmethod
    def bounds(self, upper: Tensor, lower: Tensor, pattern: Tensor | None) -> Pair:
        """Bounds of the output from bounds of the input, tight where these are and the pattern is that of the input."""


class Affine(Layer):
    """Linear or Conv2d, where the weights come from and go to; those with ``requires_grad=False`` stay as they are."""

    module: torch.nn.Linear | torch.nn.Conv2d

    def __init__(self, name: str, module: torch.nn.Linear | torch.nn.Conv2d) -> None:
        super().__init__(name, module)
        if isinstance(module, torch.nn.Conv2d) and module.padding_mode != "zeros":
            raise ValueError(f"network layer {name} has padding_mode={module.padding_mode!r}; only 'zeros' is supported")
        for key, parameter in module.named_parameters():
            if not parameter.dtype.is_floating_point:
                raise TypeError(f"network layer {name} has a {key} of type {parameter.dtype}; only real weights can be trained")
            if not torch.isfinite(parameter).all():
                raise ValueError(f"network layer {name} has NaN or infinity in its {key}; start from finite weights")
        self._own = {key: p for key, p in module.named_parameters() if p.requires_grad}
        self._values = {key: p.detach().to("cpu", torch.float64, copy=True) for key, p in module.named_parameters()}

    @property
    def trained(self) -> bool:
        """Whether there is anything to train."""
        return bool(self._own)

    @property
    def weights(self) -> Tensor:
        """All trained parameters as one vector, shape (d,)."""
        return torch.cat([self._values[key].reshape(-1) for key in self._own])

    def rounded(self, weights: Tensor) -> Tensor:
        """``weights`` as the parameters of the module can hold them."""
        return torch.cat([part.to(self._own[key].dtype).double().reshape(-1) for key, part in self._split(weights)])

    def keep(self, weights: Tensor) -> None:
        """Use these from now on."""
        # One assignment: an interrupt finds all old or all new weights.
        self._values = {**self._values, **{key: part.detach().clone() for key, part in self._split(weights)}}

    def store(self) -> None:
        """Hand the weights over to the module."""
        with torch.no_grad():
            for key, parameter in self._own.items():
                parameter.copy_(self._values[key])

    def _split(self, weights: Tensor) -> Iterator[tuple[str, Tensor]]:
        parts = torch.split_with_sizes(weights, [parameter.numel() for parameter in self._own.values()])
        for (key, parameter), part in zip(self._own.items(), parts, strict=True):
            yield key, part.reshape(parameter.shape)

    def _apply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        module = self.module
        if isinstance(module, torch.nn.Linear):
            return F.linear(x, weight, bias)
        return F.conv2d(x, weight, bias, module.stride, module.padding, module.dilation, module.groups)

    def forward(self, x: Tensor) -> Tensor:
        return self._apply(x, self._values["weight"], self._values.get("bias"))

    def forward_with(self, x: Tensor, weights: Tensor) -> Tensor:
        """The output as a function, linear up to a constant, of the vector ``weights``."""
        values = {**self._values, **dict(self._split(weights))}
        return self._apply(x, values["weight"], values.get("bias"))

    def bounds(self, upper: Tensor, lower: Tensor, pattern: Tensor | None) -> Pair:
        # With positive and negative parts W = W+ - W-, the upper bound is W+ upper - W- lower + b. In terms of the middle of the
        # bounds and half their distance that is W middle + b + |W| half, two products instead of four for both sides.
        middle = self._apply(0.5 * (upper + lower), self._values["weight"], self._values.get("bias"))
        half = self._apply(0.5 * (upper - lower), self._values["weight"].abs(), None)
        return middle + half, middle - half


class Rectifier(Layer):
    """ReLU: ``max(z, 0)``, which is at least ``z`` and at least 0."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)  # the module may work in place

    def pattern(self, x: Tensor) -> Tensor:
        return x > 0

    def bounds(self, upper: Tensor, lower: Tensor, pattern: Tensor | None) -> Pair:
        assert pattern is not None
        return torch.relu(upper), torch.where(pattern, lower, 0.0)


class MaxPool(Layer):
    """MaxPool2d: the maximum of a window is at least any of its entries, the one that is largest now among them."""

    def __init__(self, name: str, module: torch.nn.MaxPool2d) -> None:
        super().__init__(name, module)
        if module.return_indices:
            raise ValueError(f"network layer {name} returns indices; use MaxPool2d with return_indices=False")
        self._pool = torch.nn.MaxPool2d(
            module.kernel_size, module.stride, module.padding, module.dilation, return_indices=True, ceil_mode=module.ceil_mode
        )

    def pattern(self, x: Tensor) -> Tensor:
        place: Tensor = self._pool(x)[1]
        return place

    def bounds(self, upper: Tensor, lower: Tensor, pattern: Tensor | None) -> Pair:
        assert pattern is not None
        chosen = lower.flatten(2).gather(2, pattern.flatten(2)).reshape(pattern.shape)
        return self.forward(upper), chosen


class Monotone(Layer):
    """A linear layer without weights that is monotone (averages, reshapes): bounds go through as they are."""

    def bounds(self, upper: Tensor, lower: Tensor, pattern: Tensor | None) -> Pair:
        return self.forward(upper), self.forward(lower)


def read_network(network: torch.nn.Module) -> list[Layer]:
    """The layers of a Sequential, also of nested ones; anything that is not piecewise linear is refused."""
    if not _is_sequence(network):
        raise TypeError(f"network must be a torch.nn.Sequential, not {type(network).__name__}")
    # A module without weights may well be used twice, so duplicates count.
    modules = network.named_modules(remove_duplicate=False)
    layers = [_layer(name, module) for name, module in modules if not _is_sequence(module)]
    seen: dict[int, str] = {}
    for layer in layers:
        for parameter in layer.module.parameters():
            if id(parameter) in seen:
                raise ValueError(
                    f"network shares weights between layers {seen[id(parameter)]} and {layer.name}, and is not piecewise linear "
                    "in them; give each layer weights of its own"
                )
            seen[id(parameter)] = layer.name
    if not any(isinstance(layer, Affine) and layer.trained for layer in layers):
        raise ValueError("network has no weights to train; it needs a Linear or Conv2d layer with requires_grad=True")
    return layers


def _is_sequence(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.Sequential) and type(module).forward is torch.nn.Sequential.forward


# By exact type: a subclass may compute something else.
_LAYERS: dict[type[torch.nn.Module], Callable[[str, Any], Layer]] = {
    torch.nn.Linear: Affine,
    torch.nn.Conv2d: Affine,
    torch.nn.ReLU: Rectifier,
    torch.nn.MaxPool2d: MaxPool,
    torch.nn.AvgPool2d: Monotone,
    torch.nn.Flatten: Monotone,
}


def _layer(name: str, module: torch.nn.Module) -> Layer:
    if type(module) not in _LAYERS:
        raise TypeError(
            f"network layer {name} is a {type(module).__name__}, which layer-wise training does not know; use Linear, Conv2d, "
            "ReLU, MaxPool2d, AvgPool2d and Flatten in a Sequential"
        )
    return _LAYERS[type(module)](name, module)
