"""Cuts, problems, structures, solvers, certificates, the regularization path, model files.

Nothing here depends on a task. A task turns its data into a :class:`Problem`, which returns cuts; a solver combines cuts until
the duality gap certifies the weights.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.core.arrays import ArrayProblem, compiled_features
    from maxmargin.core.calibrated import probabilities
    from maxmargin.core.cccp import Descent, concave_convex
    from maxmargin.core.certificate import Certificate, cancellation_error
    from maxmargin.core.checkpoint import CheckpointFile
    from maxmargin.core.cuts import Bounds, Cut, SparseVector, Vector, dot, entries, size
    from maxmargin.core.digest import fingerprint, same_sketch, sketch
    from maxmargin.core.enumerated import EnumeratedProblem
    from maxmargin.core.estimator import (
        BLOCKWISE,
        CERTIFICATE,
        LISTWISE,
        SAMPLEWISE,
        SOLVERS,
        Estimator,
        Facility,
        SampleEstimator,
        limits_of,
    )
    from maxmargin.core.latent_estimator import LatentEstimator
    from maxmargin.core.latent_problem import LatentProblem, OneBlockLatentProblem, Plane
    from maxmargin.core.latent_structure import LatentStructure
    from maxmargin.core.model_files import SavedModel, load_model, read_model, register_codec, register_history, save_model
    from maxmargin.core.moments import Moments, merged, moments_of
    from maxmargin.core.native import WithFunction, function_address, numba_types
    from maxmargin.core.node_labels import check_node_labels, mean_accuracy, outside_label
    from maxmargin.core.path import PathProgress, trace_path
    from maxmargin.core.path_estimators import RegularizationPath, Selection, regularization_path
    from maxmargin.core.path_result import Segment, TracedPath
    from maxmargin.core.path_search import PathSearchCV
    from maxmargin.core.problem import (
        Audit,
        CheckedProblem,
        Problem,
        SupportsCheckpoint,
        SupportsCompiledExpectations,
        SupportsExactSteps,
        SupportsExpectations,
        SupportsLinearScores,
        SupportsMeanCut,
        Tangent,
        compiled_blocks,
        overridden,
        supports,
        warn_of_override,
        why_not,
    )
    from maxmargin.core.rows import (
        LARGEST_FEATURE,
        as_rows,
        bad_row,
        check_costs,
        check_rows,
        column_peaks,
        huge_column,
        is_sparse,
        row_norms,
        row_of,
        stack,
        sum_of_rows,
        times,
    )
    from maxmargin.core.scaling import SCALES, Scale, folded, standardized, standardized_within
    from maxmargin.core.standardizing import center_and_scale, divided, feature_scale
    from maxmargin.core.streaming import is_streamed, row_pieces, rows_between
    from maxmargin.core.structure import (
        Decoded,
        Structure,
        SupportsBestByLoss,
        SupportsCone,
        SupportsEnumeration,
        SupportsFastProblem,
        SupportsKBest,
        SupportsListing,
        SupportsLossValues,
        SupportsSetSize,
        encoded,
        predict,
    )
    from maxmargin.core.vectors import as_vector, difference, in_order
    from maxmargin.core.weighted_problem import WeightedProblem, check_weights, weighted
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
