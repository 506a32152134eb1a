"""Checks of the options of energies; their errors can be spelt as options of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from maxmargin._utils import ArgumentError, Setting
from maxmargin.labeling import METHODS, Energy, options_of

# What every search takes, also the default one; it begins where it likes.
_OF_ALL = ("time_limit", "callback", "random_state", "max_sweeps")


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


def split_options(
    make: Callable[..., Energy], method: str | None, options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of what makes the energy, and those of the search; complain about others before the work begins."""
    if method not in (None, "auto", *METHODS):
        raise bad_option("method", method, f"is unknown; choose one of {', '.join(map(repr, ('auto', *METHODS)))}")
    own = [name for name, one in inspect.signature(make).parameters.items() if one.kind is one.KEYWORD_ONLY]
    for name in options:
        if name in own or name in _OF_ALL:
            continue
        takers = [one for one in METHODS if name == "init" or name in options_of(one)]
        if not takers:
            raise TypeError(f"{name!r} is an option of neither the energy ({', '.join(own)}) nor a search ({', '.join(_OF_ALL)})")
        if method is None:
            choice = "a method by name" if name == "init" else " or ".join(f"method={one!r}" for one in takers)
            raise TypeError(f"{name!r} is no option of the default search; pass {choice} with it")
        if method != "auto" and method not in takers:
            raise TypeError(f"{name!r} is no option of method {method!r}, but of {' and '.join(map(repr, takers))}")
    of_energy = {name: value for name, value in options.items() if name in own}
    return of_energy, {name: value for name, value in options.items() if name not in own}
