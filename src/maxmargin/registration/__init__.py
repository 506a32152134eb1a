"""Deformable registration of images and volumes: a discrete energy of patches, by one or several metrics.

Files need SimpleITK, figures matplotlib (``pip install 'maxmargin[registration]'``); arrays need neither.
"""

from maxmargin.registration.figure import plot_registration
from maxmargin.registration.files import Volume, read_volume, write_field, write_volume
from maxmargin.registration.grid import ControlGrid, displacement_labels
from maxmargin.registration.metrics import METRICS, class_counts, patch_classes, unary_costs
from maxmargin.registration.register import register
from maxmargin.registration.result import Registration, Step

__all__ = [
    "METRICS",
    "ControlGrid",
    "Registration",
    "Step",
    "Volume",
    "class_counts",
    "displacement_labels",
    "patch_classes",
    "plot_registration",
    "read_volume",
    "register",
    "unary_costs",
    "write_field",
    "write_volume",
]
