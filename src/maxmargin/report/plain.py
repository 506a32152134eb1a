"""Numbers and names as JSON has them: short, finite, bounded."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

_MAX_TEXT = 200


def number(value: Any, digits: int = 6) -> float | None:
    """Rounded to so many digits, and without a sign if zero; None if it is not finite."""
    return float(f"{value:.{digits}g}") + 0.0 if math.isfinite(value) else None


def numbers(values: NDArray[Any], digits: int = 6) -> list[float | None]:
    """The same for an array."""
    return [number(value, digits) for value in values.tolist()]


def short(value: float) -> str:
    """Three digits for people.

    >>> [short(value) for value in (10_000, 12345.6, 0.00573421, 2e-7)]
    ['10,000', '12,300', '0.00573', '2e-07']
    """
    return f"{float(f'{value:.3g}'):,g}"


def text(value: Any) -> str:
    """Text of bounded length: names come from files."""
    full = str(value)
    return full if len(full) <= _MAX_TEXT else full[: _MAX_TEXT - 1] + "…"
