"""Warnings that point to the line of the user, however many calls of this package are in between."""

from __future__ import annotations

import sys
import warnings

# Cached properties are called by functools.
_INTERNAL = __name__.partition(".")[0], "functools"


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn whoever has called the package.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     warn("scale the features")
    >>> str(found[0].message), found[0].category.__name__
    ('scale the features', 'UserWarning')
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INTERNAL:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
