"""The contract of surrogates: functions ``psi(h, g)`` of the margin error and the loss of an output (spec 6.3).

The hinge of a sample is the maximum of ``psi(h(y), g(y))`` over all outputs ``y``, with ``h = score(y) - score(truth)``, without
the one that slack rescaling adds, and ``g = loss(truth, y)``. The order of the arguments is always that (E1, E2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats
from maxmargin.core import Cut, Structure, dot
from maxmargin.surrogates.sample import Sample
from maxmargin.surrogates.tangents import check_search, cuts_of

SearchName = Literal["auto", "hull", "angular", "bisect", "sarawagi", "binary", "enumerate"]

# Random points, and pairs of them, at which `Surrogate.check` looks.
_POINTS = 4000
# What rounding, and the error of finite differences, may do there.
_ROUNDING, _DIFFERENCES = 1e-9, 1e-4
# Between which margin errors psi is expected to change its sign, and how often that range is halved to find where.
_FAR, _HALVINGS = 1e6, 80


@dataclass(frozen=True)
class Surrogate(ABC):
    """A function of margin error and loss whose maximum over all outputs is the hinge. Subclasses are frozen dataclasses.

    The class of functions for which the searches hold (spec 6.3), wherever ``psi >= 0``: differentiable; quasi-concave, so that
    ``psi >= t`` is a convex set for every ``t >= 0``; not decreasing in either argument, and increasing in both together.

    Parameters
    ----------
    search : {"auto", "hull", "angular", "bisect", "sarawagi", "binary", "enumerate"}
        How the maximum is looked for: hull search, and then the best single output by ``k_best`` if the structure has it, by
        default.

    Examples
    --------
    One of one's own, between margin and slack rescaling:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Between(Surrogate):
    ...     def value(self, h, g):
    ...         return g + h * np.sqrt(g)
    ...     def gradient(self, h, g):
    ...         return np.sqrt(g) + 0 * h, 1 + 0.5 * h / np.sqrt(g)
    >>> Between().check()
    >>> print(f"{Between().value(1.0, 4.0):.1f}, {Between().tangent(1.0, 4.0):.3f}")
    6.0, 0.625
    """

    search: SearchName = field(default="auto", kw_only=True)

    # Whether `value`, `gradient` and `tangent` of two floats work without arrays, which cost more than all the rest there, and
    # `tangent` is infinity or NaN, and no error, at the truth, (0, 0). Whoever replaces one of them says so anew.
    by_numbers: ClassVar[bool] = False

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        own = vars(cls)
        if "by_numbers" not in own and not own.keys().isdisjoint(("value", "gradient", "tangent")):
            cls.by_numbers = False

    @property
    def convex(self) -> bool:
        """Whether ``psi`` is convex in ``h``, and so every hinge in the weights; only then is anything certified."""
        return True

    @property
    def bounds_loss(self) -> bool:
        """Whether ``psi(0, g) >= g``, so that a hinge is never less than the loss of the prediction."""
        return True

    @property
    def product(self) -> bool:
        """Whether it is ``(1 + h) * g``, which the searches of slack rescaling are for."""
        return False

    @abstractmethod
    def value(self, h: Any, g: Any) -> Any:
        """``psi(h, g)``; numbers or arrays that broadcast. Zero for the truth, ``h = g = 0``."""

    @abstractmethod
    def gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """The derivatives ``(psi_h, psi_g)``."""

    def tangent(self, h: Any, g: Any) -> Any:
        """``psi_g / psi_h``: the weight of the loss for which the question to a decoder is tangent to the contour of psi."""
        psi_h, psi_g = self.gradient(h, g)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(psi_g, psi_h)

    def affine(self, g: Any) -> tuple[Any, Any] | None:
        """``(a, b)`` with ``psi = a h + b``, if psi is affine in h; None if it is not."""
        return None

    def order(self, h: Any, g: Any) -> Any:
        """An increasing function of ``psi``, by which outputs are compared; another one where psi itself would underflow."""
        return self.value(h, g)

    def level(self, g: Any) -> Any:
        """The margin error at which ``psi(h, g)`` changes its sign: minus infinity if psi is positive everywhere."""
        pair = self.affine(g)
        if pair is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                return -np.divide(pair[1], pair[0])
        low, high = np.full(np.shape(g), -_FAR), np.full(np.shape(g), _FAR)
        positive = _array(self.value(low, g)) >= 0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            below = _array(self.value(middle, g)) < 0
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.where(positive, -np.inf, high)[()]

    def check(self) -> None:
        """Raise an error that names the condition which psi, or a parameter of it, breaks."""
        self.check_parameters()
        check_conditions(self)

    def check_parameters(self) -> None:
        """Complain about parameters; subclasses add their own."""
        if self.search not in get_args(SearchName):
            known = ", ".join(map(repr, get_args(SearchName)))
            raise ValueError(f"search={self.search!r} is unknown; choose one of {known}")
        if self.search in ("angular", "bisect", "sarawagi", "binary") and not self.product:
            raise ValueError(
                f"search={self.search!r} is for slack rescaling, (1 + h) * g; {self} needs search='hull', 'enumerate' or 'auto'"
            )

    def check_structure(self, structure: Structure) -> None:
        """Complain about a structure that has not what the search needs."""
        check_search(self, structure)

    def cuts(self, structure: Structure, samples: Sequence[Sample], weights: Floats) -> list[Cut]:
        """The tangents in the weights of the hinges of some samples, with bounds where the search is not exact."""
        return cuts_of(self, structure, samples, weights)

    def worth(self, structure: Structure, sample: Sample, y: Any, cut: Cut, weights: Floats) -> float:
        """Value of an output of a sample, whose features and loss against the truth are in ``cut``."""
        return float(self.value(-dot(cut.psi, weights), cut.loss))

    def points(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Random points ``(h, g)`` of the domain, at which `check` looks."""
        return rng.normal(scale=np.exp(rng.uniform(-2, 2, n))), np.exp(rng.uniform(np.log(0.05), np.log(20.0), n))


def check_conditions(surrogate: Surrogate) -> None:
    """Look at random points for one that is not as the class of surrogates, or the surrogate's own word, would have it."""
    rng, name = np.random.default_rng(0), type(surrogate).__name__

    def require(holds: Any, condition: str, *at: ArrayLike) -> None:
        wrong = ~np.broadcast_to(np.asarray(holds), np.shape(at[0]))
        if wrong.any():
            k = int(wrong.argmax())
            places = ", ".join(f"{np.asarray(column)[k]:.4g}" for column in at)
            raise ValueError(f"{name} is no surrogate of the class that the searches are for: {condition} {places}")

    h, g = surrogate.points(rng, _POINTS)
    inside = _array(surrogate.value(h, g)) >= 0
    h, g = h[inside], g[inside]
    if len(h) < 2:
        raise ValueError(f"{name} is negative everywhere; value must be that of psi(h, g), in this order")
    value, (psi_h, psi_g) = _array(surrogate.value(h, g)), map(_array, surrogate.gradient(h, g))
    scale = 1.0 + np.abs(value)
    require(np.isfinite(value) & np.isfinite(psi_h) & np.isfinite(psi_g), "value and gradient must be finite; (h, g) =", h, g)
    for label, dh, dg, slope in (("h", 1.0, 0.0, psi_h), ("g", 0.0, 1.0, psi_g)):
        step = 1e-6 * (np.abs(h) if dh else np.abs(g)) + 1e-9
        ahead, behind = surrogate.value(h + dh * step, g + dg * step), surrogate.value(h - dh * step, g - dg * step)
        measured = (_array(ahead) - _array(behind)) / (2 * step)
        close = np.abs(measured - slope) <= _DIFFERENCES * (1 + np.abs(slope)) + 1e-9 * scale / step
        require(close, f"it must be differentiable, with the derivatives of gradient; that by {label} is another, (h, g) =", h, g)
    require((psi_h >= -_ROUNDING * scale), "psi must not decrease in h; (h, g) =", h, g)
    require((psi_g >= -_ROUNDING * scale), "psi must not decrease in g; (h, g) =", h, g)
    both = _array(surrogate.order(h + 1e-3, g + 1e-3 * np.abs(g)))
    require(both > _array(surrogate.order(h, g)), "psi must increase where both h and g do; (h, g) =", h, g)
    half = len(h) // 2
    (h1, g1, h2, g2), least = (
        (h[:half], g[:half], h[half : 2 * half], g[half : 2 * half]),
        np.minimum(value[:half], value[half : 2 * half]),
    )
    for share in (0.5, 0.1, 0.9):
        mixed = _array(surrogate.value(share * h1 + (1 - share) * h2, share * g1 + (1 - share) * g2))
        quasi = mixed >= least - _ROUNDING * (1 + np.abs(least))
        require(quasi, "psi must be quasi-concave where it is not negative; (h, g) and (h', g') =", h1, g1, h2, g2)
        if surrogate.convex:
            middle, other = share * h1 + (1 - share) * h2, surrogate.value(h2, g1)
            above = share * _array(surrogate.value(h1, g1)) + (1 - share) * _array(other)
            below = _array(surrogate.value(middle, g1)) <= above + _ROUNDING * (1 + np.abs(above))
            require(below, "psi is not convex in h, but says so (convex); h, h' and g =", h1, h2, g1)
    seen = psi_h > 1e-200
    direct = psi_g[seen] / psi_h[seen]
    close = np.abs(_array(surrogate.tangent(h[seen], g[seen])) - direct) <= 1e-6 * (1 + np.abs(direct))
    require(close, "tangent must be psi_g / psi_h; (h, g) =", h[seen], g[seen])
    if (pair := surrogate.affine(g)) is not None:
        line = _array(pair[0]) * h + _array(pair[1])
        require(
            np.abs(line - value) <= _ROUNDING * (scale + np.abs(h)), "affine must be (a, b) with psi = a h + b; (h, g) =", h, g
        )
    surrogate_at_truth(surrogate, require, g)


def surrogate_at_truth(surrogate: Surrogate, require: Any, g: Floats) -> None:
    """The truth is worth nothing, and what is predicted its loss at least, if the surrogate says so; losses are ``g``."""
    losses = np.abs(g)
    own = np.full(1, float(surrogate.value(0.0, 0.0)))
    require(own == 0, "psi(0, 0), the value of the truth, must be zero, but is", own)
    if surrogate.bounds_loss and (g > 0).all():
        bound = _array(surrogate.value(np.zeros_like(losses), losses)) >= losses * (1 - _ROUNDING)
        require(bound, "psi(0, g) is less than g, but the surrogate says that it bounds the loss (bounds_loss); g =", losses)


def _array(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)
