"""The names that every package offers, with the modules that define them.

A package imports a module when one of its names is first used, so importing a package is cheap, and a task does not load the
modules of others. Packages import each other's names from the package, never from its modules: ``from maxmargin.core import
Cut``. Names to the left of ``|`` are public; those to the right are for other packages of maxmargin only.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec

NAMES: dict[str, dict[str, str]] = {
    "": {
        "core": "load_model PathSearchCV regularization_path RegularizationPath save_model",
        "core.solvers": (
            "BCFW ConvergenceWarning FrankWolfe NSlackCuttingPlane OneSlackCuttingPlane PartialLinearization Subgradient"
        ),
        "graphs": "GraphSVM GridSVM LatentGraphSVM LatentGridSVM",
        "hierarchy": "HierarchicalSVM",
        "io": "SavedFileError",
        "multiclass": "MulticlassSVM",
        "multilabel": "MultilabelSVM",
        "parsing": "ParserSVM",
        "ranking": (
            "ApproximateRankingSVM DirectLossMinimizer HighOrderRankingSVM LatentRankingSVM most_violating_ranking "
            "most_violating_rankings RankingSVM ViolatingRanking ViolatingRankings"
        ),
        "rare_events": "RankingClassifier",
        "sequences": "ChainSVM TreeSVM",
        "structured": "LatentStructuredSVM StructuredSVM",
    },
    "_utils": {
        "atomic": "| check_writable is_special Path replacing",
        "deadline": "| seconds_left time_limit",
        "figures": "| new_axes plot_precision_recall save_figure",
        "progress": "| StatusLine",
        "types": "| Arrays Booleans Bytes Floats Input Int32s Ints JointFeature Keys Labels Matrix Output Reals Scorer Scores",
        "validation": (
            "| ArgumentError check_both_classes check_choice check_labels check_matrix check_memory check_relevant "
            "check_scores check_unmasked MAX_SAMPLES Setting thread_count threads_for tree_fault tree_of with_constant "
            "Words"
        ),
        "warnings": "| warn",
    },
    "boosting": {
        "blending": "BoostedRanker BoostedRankingClassifier",
        "evaluations": "evaluation RankEvaluation",
        "objectives": "objective RankObjective",
    },
    "core": {
        "arrays": "| ArrayProblem compiled_features",
        "cccp": "concave_convex Descent",
        "calibrated": "| probabilities",
        "certificate": "Certificate | cancellation_error",
        "checkpoint": "CheckpointFile",
        "cuts": "Cut SparseVector | Bounds dot entries size Vector",
        "digest": "| fingerprint same_sketch sketch",
        "estimator": "Estimator | BLOCKWISE CERTIFICATE Facility limits_of LISTWISE SampleEstimator SAMPLEWISE SOLVERS",
        "latent_estimator": "| LatentEstimator",
        "latent_problem": "LatentProblem | OneBlockLatentProblem Plane",
        "latent_structure": "LatentStructure",
        "model_files": "load_model save_model | read_model register_codec register_history SavedModel",
        "moments": "| merged Moments moments_of",
        "native": "| function_address numba_types WithFunction",
        "node_labels": "| check_node_labels mean_accuracy outside_label",
        "path": "trace_path | PathProgress",
        "path_estimators": "regularization_path RegularizationPath Selection",
        "path_result": "Segment TracedPath",
        "path_search": "PathSearchCV",
        "problem": (
            "Audit Problem supports SupportsCheckpoint SupportsCompiledExpectations SupportsExactSteps SupportsExpectations "
            "SupportsLinearScores SupportsMeanCut Tangent | CheckedProblem compiled_blocks overridden warn_of_override why_not"
        ),
        "rows": (
            "| as_rows bad_row check_costs check_rows column_peaks huge_column is_sparse LARGEST_FEATURE row_norms row_of "
            "stack sum_of_rows times"
        ),
        "scaling": "| folded Scale SCALES standardized standardized_within",
        "standardizing": "| center_and_scale divided feature_scale",
        "streaming": "| is_streamed row_pieces rows_between",
        "structure": (
            "Decoded predict Structure SupportsBestByLoss SupportsCone SupportsEnumeration SupportsFastProblem SupportsKBest "
            "SupportsListing SupportsLossValues SupportsSetSize | check_decoder check_not_overridden encoded"
        ),
        "vectors": "| as_vector difference in_order",
        "weighted_problem": "WeightedProblem | check_weights weighted",
    },
    "core.solvers": {
        "base": "Solver | check_bounds",
        "bcfw": "BCFW NSlackCuttingPlane",
        "constrained": "ConstrainedCuttingPlane Margins",
        "cutting_plane": "KnownCuts OneSlackCuttingPlane | RunNumbers",
        "frank_wolfe": "FrankWolfe Subgradient",
        "partial_linearization": "ExponentiatedGradient PartialLinearization",
        "simplex_qp": "SimplexQP",
        "solution": "ConvergenceWarning History InexactOracleWarning Solution | Curve Rows",
    },
    "dask": {"chains": "DaskChainSVM", "multiclass": "DaskMulticlassSVM", "ranking": "DaskRankingSVM"},
    "distributed": {
        "client": "| Conversation MOST_REPEATS",
        "dask_cluster": "| Cluster connect find_client n_cores own_cluster",
        "dask_collections": "| gathered is_frame kept_whole numeric_features rows_of_chunks Shards shards_of trained_columns",
        "dask_engine": "DaskEngine",
        "engine": "Engine PROTOCOL Reply Shard ShardError ShardSource",
        "kinds": "ShardOf | Kind",
        "local": "Fault LocalEngine",
        "means": "ShardedMean",
        "moments": "column_moments feature_scaling",
        "packed": "CachedRows open_packed PackedRows row_sources | feature_names",
        "packed_meta": "| packed_reading read_meta",
        "packing": "pack",
        "problem_shard": "ProblemSource | Answer Context LabelShard MissingError TaskShard",
        "ray_engine": "RayEngine",
        "rounds": "| Rounds run_rounds",
        "rows": "ArrayRows Rows RowSource split_rows | RowShard with_columns",
        "scoring": "ScoresOf write_scores",
        "sharded_problem": "| all_labels n_columns ShardedProblem",
        "sources": "share_out | Reading",
        "status": "| ClusterLine numbers",
        "sums": "| tree_sum",
    },
    "graphs": {
        "graph_sets": "GraphSetStructure",
        "latent": "LatentGraphSVM LatentGridSVM",
        "latent_problem": "LatentGraphProblem",
        "latent_structure": "LatentGraphStructure PartlyHidden",
        "problem": "GraphProblem",
        "relaxed": "RelaxedGraphStructure",
        "structure": "Graph GraphStructure",
        "svm": "GraphSVM GridSVM",
    },
    "hierarchy": {
        "closed_sets": "LabelSets Program",
        "hierarchy": "Hierarchy MinimalGraph paths_of",
        "norms": "heaviest_antichain node_norm shared_norm shared_weights structured_shared_norm tree_norm",
        "problem": "HierarchyProblem HierarchySetProblem RecursiveProblem",
        "readers": "HierarchicalData load_hierarchical",
        "structure": "HierarchyLoss HierarchySetStructure HierarchyStructure",
        "svm": "HierarchicalSVM",
        "weights": "NodeWeights tree_weights",
    },
    "io": {
        "archive": "| can_store is_archive Label read_archive read_label SavedFileError write_archive",
        "arff": "ArffTable read_arff | feature_columns Row",
        "byte_ranges": "| bytes_between glance load_svmlight_part owned",
        "columns": "Wanted | choose Table",
        "encoding": "Encoding UnseenCategoryWarning",
        "label_columns": "| columns_of filled Missing",
        "loading": "is_table load READERS",
        "one_column": "| read_column",
        "parquet": "| read_parquet row_group_bytes RowGroups",
        "places": "| expand Files is_compressed is_url opened opened_raw stamp",
        "queries": "| Codes counts_in_lists first_split in_input_order Names query_offsets",
        "ranking_data": "RankingData",
        "source": "DataError read_scores | blocks finite_score format_suffix lines name_of number open_binary Source",
        "svmlight": "FeatureIndexError load_svmlight read_labels | check_numbering file_of_queries load_svmlight_lines",
        "table": "load_table load_wanted read_table | column_names SVMLIGHT_LINE true_or_false",
    },
    "labeling": {
        "cliques": "Cliques PnPotts",
        "cooccurrence_moves": "cooccurrence",
        "descents": "| ForestSearch",
        "distances": "Metric minkowski shortest_paths why_no_metric",
        "diversities": "Cardinality Diameter Diversity FunctionDiversity L1 TreeLength why_no_diversity",
        "energy": "Energy | grid_edges",
        "flow": "FlowGraph minimum_cut MinimumCut | check_edges GRID_STEPS real_array",
        "fractional": "expected_energy FractionalLabeling | marginals_for pairwise_slopes",
        "graphcut": "best_binary_labeling BinaryLabeling",
        "hierarchical_moves": "hierarchical",
        "k_best": "| k_best_labelings Listed listed_by_parts",
        "label_trees": "HST linkage_tree random_hst random_tree refit_heights star",
        "local_polytope": "| Marginals minimize_relaxation",
        "max_marginals": "binary_max_marginals MaxMarginals | Components Labelings",
        "messages": "bp trws",
        "minimization": "minimize | METHODS options_of",
        "moves": "NotSubmodularError",
        "parsimonious_moves": "parsimonious ParsimoniousLabeling",
        "relaxations": "relax | RelaxationName",
        "result": "Labeling",
        "rounding": "round_labeling Roundings | draw_in_parts",
        "tree_inference": "best_labeling BestLabeling label_marginals LabelMarginals",
        "uai": "read_uai UAIError write_uai",
    },
    "metrics": {
        "parsing": "attachment_scores",
        "ranking": "auc average_precision evaluate interpolated_average_precision ndcg per_query precision reciprocal_rank",
        "sequences": "chunk_scores",
    },
    "multiclass": {
        "problem": "MulticlassProblem",
        "shards": "| ClassShard",
        "structure": "ClassStructure",
        "surrogate_problem": "SurrogateMulticlassProblem",
        "svm": "MulticlassSVM",
    },
    "multilabel": {
        "inference": "BestSets LabelPairs RelaxedSets",
        "label_set_oracle": "LabelSetOracle",
        "label_set_searches": "FoundSets LabelSetSearches",
        "problem": "MultilabelProblem",
        "readers": "load_multilabel load_multilabel_svmlight MultilabelData read_label_names",
        "structure": "LabelSetStructure RelaxedLabelSets",
        "svm": "MultilabelSVM",
    },
    "nn": {
        "_rounding_training": "RoundingEpoch VarianceCollapseWarning",
        "bilstm_parser": "BiLSTMParser ParsedSentence ParserEpoch train_parser",
        "expected_energy": "ExpectedEnergyLoss",
        "layerwise": "LayerStep LayerwiseSVM",
        "learned_rounding": "LearnedRounding",
        "rank_losses": "APLoss AUCLoss DirectLoss NDCGLoss RankingHinge",
        "rounding_network": "RoundingNetwork",
        "tree_losses": "TreeLoss",
    },
    "parsing": {
        "conllu": "read_conllu Sentence write_conllu",
        "inference": "best_tree best_trees k_best_trees ScoredTree",
        "metrics": "attachment_scores AttachmentScores",
        "problem": "ParseProblem SurrogateParseProblem Treebank",
        "structure": "DependencyStructure SentenceArcs | check_tree",
        "svm": "Parse ParserSVM",
    },
    "ranking": {
        "approximate": "ApproximateRankingSVM",
        "bags": "Bags supervised_share",
        "base": "| loss_of_ranking scaling_advice trained_metric",
        "binary": "BinaryProblem",
        "checked": "| checked_loss",
        "descent": "| Attempt checkpoints_of descend DirectHistory DirectLists Steps Trial try_descents",
        "direct": "DirectLossMinimizer",
        "direct_inference": "| direct_losses losses_by_score",
        "direct_problem": "| DirectRanking",
        "high_order": "HighOrderRankingSVM",
        "high_order_problem": "HighOrderBinaryProblem HighOrderRankingProblem LinkedSamples",
        "inference": "most_violating_ranking most_violating_rankings ViolatingRanking ViolatingRankings | solve_lists",
        "latent": "LatentRankingSVM",
        "latent_problem": "JointLatentRankingProblem LatentBinaryProblem LatentRankingProblem",
        "losses": (
            "AUC AveragePrecision Discounted NDCG Precision RankBiasedPrecision ranking_loss RankingLoss Recall "
            "ReciprocalRank | loss_names"
        ),
        "metrics": (
            "auc average_precision evaluate interpolated_average_precision ndcg per_query precision reciprocal_rank "
            "| DEFAULT_METRICS discounts Gains ideal_gain metric_named plain_name RankedLists ratio"
        ),
        "problem": "RankingProblem | gain_shares gain_steps ideal_gains shares_of_counts shares_of_thresholds",
        "sharded": "| ranking_over",
        "structure": "Interleaving RankingStructure",
        "suitability": "check_qs_suitable Failure Suitability",
        "svm": "RankingSVM",
        "trec": "judged_run JudgedRun read_qrels read_run run_lines",
    },
    "ranking.shards": {
        "list_inference": "| ScatteredList",
        "metrics": "evaluate",
        "problem": "ShardedRanking",
        "shard": "| RankingShard",
        "split_list": "| check_together",
    },
    "rare_events": {"classifier": "RankingClassifier", "thresholds": "| check_aim"},
    "registration": {
        "alignment": "register",
        "figure": "plot_registration",
        "files": "read_volume Volume write_field write_volume | check_field_name check_fits check_volume_name is_picture",
        "grid": "ControlGrid displacement_labels",
        "learned": "LearnedMetric",
        "metrics": "class_counts METRICS patch_classes unary_costs",
        "overlap": "dice",
        "result": "Registration Step",
    },
    "report": {
        "contents": "report_contents",
        "headline": "| percent reported_metric",
        "intervals": "| DrawnLists how_drawn interval p_value redraws",
        "paths": "path_contents",
        "writing": "save_page write_path_report write_report",
    },
    "sequences": {
        "conll": "read_conll",
        "features": "window_features",
        "forest": "ChainWeights TreeWeights",
        "metrics": "check_bio Chunk chunk_scores chunks ChunkScores sentence_f1",
        "native": "DecodedProblem decoder_signature",
        "problem": "ChainProblem TreeProblem",
        "shards": "| ChainShard",
        "structure": "ChainStructure Tree TreeStructure",
        "surrogate_problem": "SurrogateTreeProblem",
        "svm": "ChainSVM TreeSVM | AUTO_C",
    },
    "structured": {
        "latent": "LatentStructuredSVM",
        "latent_classes": "LatentClasses",
        "native": "native_signature NativeProblem",
        "svm": "StructuredSVM",
    },
    "surrogates": {
        "base": "Surrogate",
        "compiled": "| compiled_search compiled_surrogate CompiledSurrogate",
        "cone_search": "angular",
        "convexity": "| check_convex",
        "hull": "hull_search recover | MOST_HULL_CALLS",
        "latent_problem": "LatentStructuredProblem | convex_surrogate",
        "make": "make_surrogate SURROGATES",
        "margin": "Margin",
        "micro_f1": "MicroF1",
        "oracle": "Answer Candidate LambdaOracle PointOracle",
        "result": "SearchResult Step | ROUNDING",
        "sample": "Sample",
        "scaling": "BetaScaling GeneralizedScaling Slack",
        "slack_searches": "binary_search bisecting sarawagi | MOST_CALLS TOLERANCE",
        "smooth": "LogLoss ProbLoss",
        "structured_problem": "make_problem StructuredProblem",
    },
    "vision": {
        "images": "ImageError read_image read_mask read_seeds side_by_side write_image | check_figure_name format_of",
        "inpainting": "inpaint inpainting_energy",
        "mean_shift": "superpixels",
        "segmentation": "segment segmentation_energy",
        "stereo_matching": "stereo stereo_energy",
    },
}

# Packages that are not installed with maxmargin but imported by some of its modules, with the extras that install them.
EXTRAS = {"dask": "dask", "distributed": "dask", "ray": "ray", "torch": "nn"}
# Modules that need one of these, beside packages that need it as a whole.
NEEDS = {"distributed.dask_engine": "distributed", "distributed.ray_engine": "ray"}
# Packages that are attributes of maxmargin, imported when first used.
PACKAGES = {key.partition(".")[0] for key in NAMES if key} | {"cli"}


def names_of(package: str) -> dict[str, str]:
    """Return the names that a package offers, each with the module that defines it; ``package`` as in :data:`NAMES`."""
    return {name: module for module, names in NAMES[package].items() for name in names.replace("|", " ").split()}


def public_names(package: str) -> list[str]:
    """Return the sorted public names of a package."""
    return sorted(name for names in NAMES[package].values() for name in names.partition("|")[0].split())


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package."""
    key = package.partition(".")[2]
    modules, public = names_of(key), public_names(key)
    inner = [other.partition(".")[2] for other in NAMES if other.startswith(f"{key}.")] if key else sorted(PACKAGES)
    # The metrics are collected from packages beside them.
    parent = "maxmargin" if key == "metrics" else package

    def load(name: str) -> object:
        if name in inner:
            return importlib.import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_elsewhere(name)}")
        try:
            module = importlib.import_module(f"{parent}.{modules[name]}")
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in EXTRAS:
                raise
            remedy = f"pip install 'maxmargin[{EXTRAS[missing]}]'"
            raise ImportError(f"{package}.{name} needs {missing}; install it with: {remedy}") from error
        value = getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    # A star imports what can be imported.
    installed = [name for name in public if find_spec(NEEDS.get(f"{key}.{modules[name]}", "sys")) is not None]
    return load, lambda: sorted([*public, *inner]), installed


def _elsewhere(name: str) -> str:
    """Where else a name is, as the end of a sentence."""
    found = [f"maxmargin.{key}" for key in NAMES if key and name in public_names(key)]
    return f"; it is in {found[0]}" if found else ""


def find(name: str) -> object:
    """Import an object by its public name, such as an estimator that a file names."""
    return lazy_names("maxmargin")[0](name)
