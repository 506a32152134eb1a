"""Deformable registration of images and volumes by a discrete energy of patches, with one metric or several.

Files need SimpleITK, figures matplotlib (``pip install 'maxmargin[registration]'``); arrays need neither.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.registration.alignment import register as register
    from maxmargin.registration.figure import plot_registration as plot_registration
    from maxmargin.registration.files import Volume as Volume
    from maxmargin.registration.files import check_field_name, check_fits, check_volume_name, is_picture
    from maxmargin.registration.files import read_volume as read_volume
    from maxmargin.registration.files import write_field as write_field
    from maxmargin.registration.files import write_volume as write_volume
    from maxmargin.registration.grid import ControlGrid as ControlGrid
    from maxmargin.registration.grid import displacement_labels as displacement_labels
    from maxmargin.registration.learned import LearnedMetric as LearnedMetric
    from maxmargin.registration.metrics import METRICS as METRICS
    from maxmargin.registration.metrics import class_counts as class_counts
    from maxmargin.registration.metrics import patch_classes as patch_classes
    from maxmargin.registration.metrics import unary_costs as unary_costs
    from maxmargin.registration.overlap import dice as dice
    from maxmargin.registration.result import Registration as Registration
    from maxmargin.registration.result import Step as Step
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
