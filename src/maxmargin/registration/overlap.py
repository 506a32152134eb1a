"""How well segmentations lie on each other: Dice of whole volumes, and the loss of patches that learning is about."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import ArgumentError, Floats
from maxmargin.registration.grid import ControlGrid
from maxmargin.registration.metrics import check_classes, class_counts


def dice(segmentation: ArrayLike, other: ArrayLike, n_classes: int | None = None) -> Floats:
    """``2 |A and B| / (|A| + |B|)`` of every class, shape (n_classes,); NaN where neither segmentation has it.

    Parameters
    ----------
    segmentation, other : int arrays of the same shape
        Classes 0, 1, ...
    n_classes : int, optional
        One more than the largest class by default.

    Examples
    --------
    >>> dice([0, 0, 1, 1, 3], [0, 1, 1, 1, 3]).round(2)
    array([0.67, 0.8 ,  nan, 1.  ])
    """
    one = check_classes(segmentation, np.shape(segmentation), "segmentation").ravel()
    two = check_classes(other, np.shape(segmentation), "other").ravel()
    found = 1 + max(int(one.max(initial=-1)), int(two.max(initial=-1)))
    if n_classes is not None and n_classes < found:
        raise ArgumentError("n_classes", f"n_classes={n_classes} is too few for class {found - 1}")
    n = n_classes or found
    both = np.bincount(one[one == two], minlength=n)
    sizes = np.bincount(one, minlength=n) + np.bincount(two, minlength=n)
    return np.where(sizes > 0, 2.0 * both / np.maximum(sizes, 1), np.nan)


def patch_losses(source: ArrayLike, target: ArrayLike, grid: ControlGrid, labels: Floats, n_classes: int, **frame: Any) -> Floats:
    """One minus the Dice of every class in every patch, shape (n_classes, n_nodes, n_labels).

    The source's patch around ``p + d`` against the target's around ``p``; 0 where neither has the class.

    Parameters
    ----------
    source, target : int arrays
        Segmentations.
    grid : ControlGrid
    labels : array of shape (n_labels, ndim)
        Displacements.
    n_classes : int
    **frame
        ``source_spacing``, ``offset``, ``n_jobs`` as in :func:`class_counts`.
    """
    moved, shared = class_counts(source, target, grid, labels, n_classes=n_classes, **frame)
    assert shared is not None
    fixed, _ = class_counts(target, None, grid, np.zeros((1, grid.ndim)), n_classes=n_classes)
    sizes = moved + fixed
    return np.where(sizes > 0, 1.0 - 2.0 * shared / np.maximum(sizes, 1), 0.0)
