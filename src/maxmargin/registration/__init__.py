"""Deformable registration of images and volumes: a discrete energy of patches, by one or several metrics.

Files need SimpleITK, figures matplotlib (``pip install 'maxmargin[registration]'``); arrays need neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxmargin.registration.figure import plot_registration
from maxmargin.registration.files import Volume, read_volume, write_field, write_volume
from maxmargin.registration.grid import ControlGrid, displacement_labels
from maxmargin.registration.metrics import METRICS, class_counts, patch_classes, unary_costs
from maxmargin.registration.overlap import dice
from maxmargin.registration.register import register
from maxmargin.registration.result import Registration, Step

if TYPE_CHECKING:
    from maxmargin.registration.learned import LearnedMetric

__all__ = [
    "METRICS",
    "ControlGrid",
    "LearnedMetric",
    "Registration",
    "Step",
    "Volume",
    "class_counts",
    "dice",
    "displacement_labels",
    "patch_classes",
    "plot_registration",
    "read_volume",
    "register",
    "unary_costs",
    "write_field",
    "write_volume",
]


def __getattr__(name: str) -> Any:
    # Estimators load scikit-learn, which registration does not need.
    if name == "LearnedMetric":
        from maxmargin.registration.learned import LearnedMetric

        return LearnedMetric
    raise AttributeError(f"module 'maxmargin.registration' has no attribute {name!r}")
