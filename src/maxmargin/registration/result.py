"""What registration ends with: where every voxel of the target is in the source."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import ArgumentError, Floats
from maxmargin.io import SavedFileError, read_archive, write_archive
from maxmargin.registration.fields import Frame, jacobian, sample, sample_field, through


@dataclass(frozen=True)
class Step:
    """One refinement: displacements of the control points were chosen, and taken if they helped.

    Attributes
    ----------
    level : int
        Of the pyramid, 0 is the finest.
    step : int
        Within the level, from 0.
    largest : float
        The largest displacement to choose from, along every axis.
    before, after : float
        Energies on the control points of this level: costs of the patches where they are now, plus the smoothness of all
        displacements taken at this level. Never rising within a level; those of another level have other patches.
    taken : float
        The part of the chosen displacements that was taken, 1, 1/2 or 1/4, or 0 if they did not help.
    """

    level: int
    step: int
    largest: float
    before: float
    after: float
    taken: float


@dataclass(eq=False)
class Registration:
    """A field of displacements from the target to the source, and how it was found.

    Attributes
    ----------
    displacement : array of shape (*target.shape, ndim)
        ``u(x)`` in the unit of the spacing: the voxel at ``x`` of the target is at ``x + u(x)`` in the source.
    spacing, source_spacing, offset : arrays of shape (ndim,)
        Of the target's and the source's voxels, and where the source's first voxel is.
    source_shape : tuple of int
    energy : float
        Of the last step.
    history : list of Step
    metrics : tuple of str
    weights : array of shape (n_metrics,) or (n_classes, n_metrics)
    smoothness : float
    status : {"converged", "time_limit", "interrupted"}
        "converged" after all steps.
    seconds : float
    """

    displacement: Floats
    spacing: Floats
    source_spacing: Floats
    offset: Floats
    source_shape: tuple[int, ...]
    energy: float
    history: list[Step] = field(default_factory=list)
    metrics: tuple[str, ...] = ()
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    smoothness: float = 1.0
    status: str = "converged"
    seconds: float = 0.0

    @property
    def certified(self) -> bool:
        """Always False: each step is a minimum with respect to expansions, but nothing is proved of all of them together."""
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the target."""
        return self.displacement.shape[:-1]

    def _frames(self) -> tuple[Frame, Frame]:
        ndim = len(self.shape)
        return Frame(self.shape, self.spacing, np.zeros(ndim)), Frame(self.source_shape, self.source_spacing, self.offset)

    def warp(self, image: ArrayLike, labels: bool = False) -> NDArray[Any]:
        """An image of the source's shape on the voxels of the target: the source, moved onto the target.

        Parameters
        ----------
        image : array of the source's shape
        labels : bool
            Values are names: those of the nearest voxel are taken, and the type stays. Otherwise they are interpolated linearly.
        """
        values = np.asarray(image)
        if not labels and values.dtype.kind not in "fiub":
            remedy = "names are warped by labels=True"
            raise ArgumentError("image", f"image must be numbers, but has dtype {values.dtype}", remedy)
        if values.shape != self.source_shape:
            raise ArgumentError("image", f"image has shape {values.shape}, but the source has {self.source_shape}")
        target, source = self._frames()
        if labels:
            return sample(values, source, target.places() + self.displacement, order=0)
        return through(values.astype(np.float64), source, self.displacement, target, np.zeros(values.ndim, dtype=np.int64))

    def transform_points(self, points: ArrayLike) -> Floats:
        """Where points of the target are in the source, shape (n, ndim), in the unit of the spacing."""
        places = np.asarray(points, dtype=np.float64)
        if places.ndim != 2 or places.shape[1] != len(self.shape):
            raise ArgumentError("points", f"points has shape {places.shape}, but must have (n, {len(self.shape)})")
        return np.asarray(places + sample_field(self.displacement, self._frames()[0], places))

    def jacobian(self) -> Floats:
        """How much every voxel of the target is stretched, of the target's shape: 1 keeps its volume, 0 and less is a fold."""
        return jacobian(self.displacement, self.spacing)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file that holds numbers and text only."""
        content = {
            "source_shape": list(self.source_shape),
            "energy": self.energy,
            "history": [asdict(step) for step in self.history],
            "metrics": list(self.metrics),
            "smoothness": self.smoothness,
            "status": self.status,
            "seconds": self.seconds,
        }
        names = ("displacement", "spacing", "source_spacing", "offset", "weights")
        write_archive(path, "registration", content, {name: getattr(self, name) for name in names})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Registration:
        """Read what :meth:`save` has written."""
        content, arrays, _ = read_archive(path, "registration")
        try:
            made = cls(
                arrays["displacement"],
                arrays["spacing"],
                arrays["source_spacing"],
                arrays["offset"],
                tuple(map(int, content["source_shape"])),
                float(content["energy"]),
                [Step(**step) for step in content["history"]],
                tuple(content["metrics"]),
                arrays["weights"],
                float(content["smoothness"]),
                str(content["status"]),
                float(content["seconds"]),
            )
            ndim = made.displacement.shape[-1]
            whole = made.displacement.ndim == ndim + 1 and made.displacement.dtype == np.float64
            if (
                not whole
                or len(made.source_shape) != ndim
                or any(x.shape != (ndim,) for x in (made.spacing, made.source_spacing, made.offset))
            ):
                raise ValueError("its arrays do not fit together")
            if not all(np.isfinite(x).all() for x in (made.displacement, made.offset)):
                raise ValueError("displacements or offset are not finite")
            if not all((x > 0).all() and np.isfinite(x).all() for x in (made.spacing, made.source_spacing)):
                raise ValueError("its spacing is not positive")
        except (KeyError, TypeError, ValueError) as error:
            raise SavedFileError(f"{os.fspath(path)}: no whole registration ({error}); copy or write it again") from error
        return made

    def __repr__(self) -> str:
        longest = float(np.sqrt((self.displacement**2).sum(axis=-1)).max(initial=0.0))
        size = " x ".join(map(str, self.shape))
        return f"Registration({size}, energy={self.energy:.6g}, at most {longest:.3g} far, {self.status})"
