"""Deformable registration of images and volumes by a discrete energy of patches, with one metric or several.

Files need SimpleITK, figures matplotlib (``pip install 'maxmargin[registration]'``); arrays need neither.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.registration.alignment import register
    from maxmargin.registration.figure import plot_registration
    from maxmargin.registration.files import (
        Volume,
        check_field_name,
        check_fits,
        check_volume_name,
        is_picture,
        read_volume,
        write_field,
        write_volume,
    )
    from maxmargin.registration.grid import ControlGrid, displacement_labels
    from maxmargin.registration.learned import LearnedMetric
    from maxmargin.registration.metrics import METRICS, class_counts, patch_classes, unary_costs
    from maxmargin.registration.overlap import dice
    from maxmargin.registration.result import Registration, Step
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
