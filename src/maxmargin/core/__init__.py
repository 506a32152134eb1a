"""Cuts, problems, structures, solvers, certificates, the regularization path, model files.

Nothing here depends on a task. A task turns its data into a :class:`Problem`, which returns cuts; a solver combines cuts until
the duality gap certifies the weights.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.core.arrays import ArrayProblem, compiled_features
    from maxmargin.core.calibrated import probabilities
    from maxmargin.core.cccp import Descent as Descent
    from maxmargin.core.cccp import concave_convex as concave_convex
    from maxmargin.core.certificate import Certificate as Certificate
    from maxmargin.core.certificate import cancellation_error
    from maxmargin.core.checkpoint import CheckpointFile as CheckpointFile
    from maxmargin.core.cuts import Bounds, Vector, dot, entries, size
    from maxmargin.core.cuts import Cut as Cut
    from maxmargin.core.cuts import SparseVector as SparseVector
    from maxmargin.core.digest import fingerprint, same_sketch, sketch
    from maxmargin.core.estimator import (
        BLOCKWISE,
        CERTIFICATE,
        LISTWISE,
        SAMPLEWISE,
        SOLVERS,
        Facility,
        SampleEstimator,
        limits_of,
    )
    from maxmargin.core.estimator import Estimator as Estimator
    from maxmargin.core.latent_estimator import LatentEstimator
    from maxmargin.core.latent_problem import LatentProblem as LatentProblem
    from maxmargin.core.latent_problem import OneBlockLatentProblem, Plane
    from maxmargin.core.latent_structure import LatentStructure as LatentStructure
    from maxmargin.core.model_files import SavedModel, read_model, register_codec, register_history
    from maxmargin.core.model_files import load_model as load_model
    from maxmargin.core.model_files import save_model as save_model
    from maxmargin.core.moments import Moments, merged, moments_of
    from maxmargin.core.native import WithFunction, function_address, numba_types
    from maxmargin.core.node_labels import check_node_labels, mean_accuracy, outside_label
    from maxmargin.core.path import PathProgress
    from maxmargin.core.path import trace_path as trace_path
    from maxmargin.core.path_estimators import RegularizationPath as RegularizationPath
    from maxmargin.core.path_estimators import Selection as Selection
    from maxmargin.core.path_estimators import regularization_path as regularization_path
    from maxmargin.core.path_result import Segment as Segment
    from maxmargin.core.path_result import TracedPath as TracedPath
    from maxmargin.core.path_search import PathSearchCV as PathSearchCV
    from maxmargin.core.problem import Audit as Audit
    from maxmargin.core.problem import CheckedProblem, compiled_blocks, overridden, warn_of_override, why_not
    from maxmargin.core.problem import Problem as Problem
    from maxmargin.core.problem import SupportsCheckpoint as SupportsCheckpoint
    from maxmargin.core.problem import SupportsCompiledExpectations as SupportsCompiledExpectations
    from maxmargin.core.problem import SupportsExactSteps as SupportsExactSteps
    from maxmargin.core.problem import SupportsExpectations as SupportsExpectations
    from maxmargin.core.problem import SupportsLinearScores as SupportsLinearScores
    from maxmargin.core.problem import SupportsMeanCut as SupportsMeanCut
    from maxmargin.core.problem import Tangent as Tangent
    from maxmargin.core.problem import supports as supports
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
    from maxmargin.core.structure import Decoded as Decoded
    from maxmargin.core.structure import Structure as Structure
    from maxmargin.core.structure import SupportsBestByLoss as SupportsBestByLoss
    from maxmargin.core.structure import SupportsCone as SupportsCone
    from maxmargin.core.structure import SupportsEnumeration as SupportsEnumeration
    from maxmargin.core.structure import SupportsFastProblem as SupportsFastProblem
    from maxmargin.core.structure import SupportsKBest as SupportsKBest
    from maxmargin.core.structure import SupportsListing as SupportsListing
    from maxmargin.core.structure import SupportsLossValues as SupportsLossValues
    from maxmargin.core.structure import SupportsSetSize as SupportsSetSize
    from maxmargin.core.structure import check_decoder, check_not_overridden, encoded
    from maxmargin.core.structure import predict as predict
    from maxmargin.core.vectors import as_vector, difference, in_order
    from maxmargin.core.weighted_problem import WeightedProblem as WeightedProblem
    from maxmargin.core.weighted_problem import check_weights, weighted
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
