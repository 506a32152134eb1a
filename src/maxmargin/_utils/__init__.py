"""Helpers without a task: types, checks of arguments, warnings, progress, time limits, atomic writes, figures."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin._utils.atomic import Path, check_writable, is_special, replacing
    from maxmargin._utils.deadline import seconds_left, time_limit
    from maxmargin._utils.figures import new_axes, plot_precision_recall, save_figure
    from maxmargin._utils.progress import StatusLine
    from maxmargin._utils.types import (
        Arrays,
        Booleans,
        Bytes,
        Floats,
        Input,
        Int32s,
        Ints,
        JointFeature,
        Keys,
        Labels,
        Matrix,
        Output,
        Reals,
        Scorer,
        Scores,
    )
    from maxmargin._utils.validation import (
        MAX_SAMPLES,
        ArgumentError,
        Setting,
        Words,
        check_both_classes,
        check_choice,
        check_labels,
        check_matrix,
        check_memory,
        check_relevant,
        check_scores,
        check_unmasked,
        thread_count,
        threads_for,
        tree_fault,
        tree_of,
        with_constant,
    )
    from maxmargin._utils.warnings import warn
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
