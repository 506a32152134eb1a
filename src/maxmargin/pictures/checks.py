"""Checks of the options of energies; their errors can be spelt as options of a command."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from maxmargin._validation import ArgumentError, Setting


def bad_option(name: str, value: Any, problem: str) -> ArgumentError:
    """An error that commands can spell in their own words."""
    return ArgumentError(name, [Setting(name, value), f" {problem}"])


def check_positive(**options: Any) -> None:
    """Complain about numbers that are not above 0; infinity is a number."""
    for name, value in options.items():
        if not isinstance(value, Real) or not float(value) > 0:
            raise bad_option(name, value, "must be a positive number")


def check_not_negative(**options: Any) -> None:
    """Complain about numbers below 0 and without end."""
    for name, value in options.items():
        if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
            raise bad_option(name, value, "must be a finite number that is not negative")
