"""Deformable registration of images and volumes: a discrete energy of patches, by one or several metrics."""

from maxmargin.registration.grid import ControlGrid, displacement_labels
from maxmargin.registration.metrics import METRICS, class_counts, patch_classes, unary_costs
from maxmargin.registration.register import register
from maxmargin.registration.result import Registration, Step

__all__ = [
    "METRICS",
    "ControlGrid",
    "Registration",
    "Step",
    "class_counts",
    "displacement_labels",
    "patch_classes",
    "register",
    "unary_costs",
]
