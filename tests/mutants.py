"""Does a test notice? ``make mutants`` breaks one line after the other in a copy of the project and runs the tests that guard it.

A mutant is a place in a file, what to write there instead, and the tests that must fail then. All rooms have some; a change
that survives shows a line that nobody checks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """One wrong line."""

    file: str
    right: str
    wrong: str
    tests: str


MUTANTS = (
    # ---- in Python, room by room
    Mutant("src/maxmargin/core/certificate.py", "finite and self.proved and", "finite and", "test_certificate.py"),
    Mutant("src/maxmargin/core/certificate.py", "<= self.gap + self._rounding", "", "test_certificate.py"),
    Mutant(
        "src/maxmargin/core/certificate.py",
        "self.dual - self.primal > self._rounding",
        "self.dual > self.primal",
        "test_certificate.py",
    ),
    Mutant("src/maxmargin/core/certificate.py", "found.proved and consistent", "found.proved", "test_certificate.py"),
    Mutant(
        "src/maxmargin/labeling/local_polytope.py",
        "self.left.pairs <= 2 * price,",
        "self.left.pairs <= 0.2 * price,",
        "test_local_polytope.py",
    ),
    Mutant(
        "src/maxmargin/labeling/local_polytope.py",
        "program.marginals(answer.x).repaired(self.edges)",
        "program.marginals(answer.x)",
        "test_local_polytope.py",
    ),
    Mutant(
        "src/maxmargin/labeling/frank_wolfe.py", "-slope / (2 * curvature)", "-slope / curvature", "test_relax.py -k line_search"
    ),
    Mutant(
        "src/maxmargin/labeling/frank_wolfe.py",
        "0.5 * np.abs(energy.weights)",
        "0.1 * np.abs(energy.weights)",
        "test_relax.py -k convex",
    ),
    Mutant(
        "src/maxmargin/graphs/relaxed.py",
        "self.costs[labels] @ (1.0 - right)",
        "(1.0 - right).sum()",
        "test_relaxed_graph.py -k features",
    ),
    Mutant("src/maxmargin/core/certificate.py", "if self.relaxed:", "if False:", "test_relaxed_graph.py -k weights_of"),
    Mutant(
        "src/maxmargin/surrogates/latent_problem.py", "if not self.structure.exact:", "if False:", "test_latent_graph.py -k loopy"
    ),
    Mutant(
        "src/maxmargin/graphs/latent_structure.py",
        "allowed[n_visible:] = self.label_of < 0",
        "pass",
        "test_latent_graph.py -k enumeration",
    ),
    # When refinement is taken, and on which scale a cut is chosen.
    Mutant(
        "src/maxmargin/ranking/descent.py",
        "return self.gain > self.error",
        "return self.gain > 0",
        "test_ranking_classifier.py -k verdicts",
    ),
    Mutant(
        "src/maxmargin/ranking/descent.py",
        "own.std(ddof=1) / np.sqrt(len(own))",
        "own.std(ddof=1)",
        "test_ranking_classifier.py -k verdicts",
    ),
    Mutant("src/maxmargin/ranking/descent.py", 'else float("inf")', "else 0.0", "test_ranking_classifier.py -k verdicts"),
    Mutant(
        "src/maxmargin/rare_events/classifier.py",
        'if not tried.verdict.accepted and self.refine != "always":',
        'if self.refine != "always":',
        "test_ranking_classifier.py -k refinement",
    ),
    Mutant("src/maxmargin/rare_events/held_out.py", "_ROUNDING = 1e-12", "_ROUNDING = 0.0", "test_held_out_scores.py -k exactly"),
    Mutant(
        "src/maxmargin/rare_events/held_out.py", "(scores - center) * stretch", "(scores - center)", "test_held_out_scores.py"
    ),
    Mutant(
        "src/maxmargin/rare_events/held_out.py", "own[train], whole[train]", "own[train], own[train]", "test_held_out_scores.py"
    ),
    Mutant(
        "src/maxmargin/rare_events/start.py",
        "_FIRST_STEPS if seconds_left() > 0 else 1",
        "_FIRST_STEPS",
        "test_ranking_classifier.py -k time",
    ),
    Mutant("src/maxmargin/io/queries.py", "np.argsort(np.argsort(first))", "np.argsort(first)", "test_queries.py"),
    Mutant(
        "src/maxmargin/io/queries.py",
        "setdefault(name, len(self._known))",
        "setdefault(name, len(self._codes))",
        "test_queries.py",
    ),
    Mutant("src/maxmargin/io/queries.py", "starts[again[0] + 1]", "starts[again[0]]", "test_queries.py"),
    Mutant(
        "src/maxmargin/core/problem.py",
        "for cls, names in found:",
        "for cls, names in ():",
        "test_problems.py -k replaced_decoder",
    ),
    Mutant(
        "src/maxmargin/core/problem.py",
        "if callable(value)} & relied",
        "if False} & relied",
        "test_problems.py -k replaced_on_an_object",
    ),
    Mutant("src/maxmargin/core/problem.py", "self.worse_than_truth += 1", "pass", "test_solvers.py -k wrong_oracle"),
    Mutant(
        "src/maxmargin/ranking/losses.py",
        "-i / (position * (position - 1))",
        "-i / (position * position)",
        "test_losses.py -k value_equals",
    ),
    Mutant("src/maxmargin/ranking/problem.py", "discounts[at:] = 0.0", "pass", "test_ranking_svm.py -k graded_ndcg"),
    Mutant(
        "src/maxmargin/ranking/problem.py",
        "steps[1:, None] * ideal[relevant]",
        "steps[1:, None] * np.ones(relevant.shape)",
        "test_objectives.py -k shares",
    ),
    Mutant("src/maxmargin/boosting/graded.py", "np.add.reduceat(shares,", "np.maximum.reduceat(shares,", "test_objectives.py"),
    Mutant("src/maxmargin/boosting/graded.py", "1.0 / scale", "scale", "test_objectives.py -k sums_over"),
    Mutant("src/maxmargin/boosting/objectives.py", "not at_start, self._round + 1", "not at_start, 0", "test_objectives.py"),
    Mutant("src/maxmargin/boosting/objectives.py", "at_start and self._moved", "False", "test_with_xgboost.py -k twice"),
    Mutant("src/maxmargin/boosting/objectives.py", "and np.array_equal(a, b)", "", "test_objectives.py -k last_row"),
    Mutant("src/maxmargin/boosting/training.py", "_NEIGHBOURS = 2", "_NEIGHBOURS = 1", "test_blending.py -k smoothing"),
    Mutant("src/maxmargin/boosting/blending.py", "raw_score=True) / spread", "raw_score=True)", "test_blending.py -k sum_of"),
    Mutant("src/maxmargin/sequences/forest.py", "truth] -= costs", "truth] -= 0 * costs", "test_structures.py -k decoding"),
    Mutant("src/maxmargin/surrogates/audit.py", "_ROUNDING = 1e-7", "_ROUNDING = 0.0", "test_audit.py -k rounding"),
    Mutant(
        "src/maxmargin/surrogates/audit.py",
        "max(map(self.gain, seen), default=0.0), 0.0",
        "0.0, 0.0",
        "test_audit.py -k remembered",
    ),
    Mutant(
        "src/maxmargin/core/cuts.py",
        "None if self.bound is None else factor * self.bound",
        "self.bound",
        "test_problems.py -k weights_of_samples",
    ),
    Mutant(
        "src/maxmargin/core/solvers/cutting_plane.py",
        "ridge = self.run.lam * float(",
        "ridge = -self.run.lam * float(",
        "test_cutting_plane.py -k slopes",
    ),
    Mutant(
        "src/maxmargin/core/solvers/cutting_plane.py",
        'getattr(start, "certified", False)',
        "True",
        "test_cutting_plane.py -k caught",
    ),
    Mutant(
        "src/maxmargin/core/solvers/solution.py",
        "return self.problem.same_as(problem)",
        "return True",
        "test_oracle_starts.py -k other_data",
    ),
    Mutant(
        "src/maxmargin/core/solvers/solution.py",
        "self.fingerprint == problem.fingerprint()",
        "problem.fingerprint() is not None",
        "test_oracle_starts.py -k pickled_solutions",
    ),
    Mutant(
        "src/maxmargin/core/path.py", "return place, max(inside, *", "return place, max(*", "test_path.py -k multiclass-fw-free"
    ),
    Mutant("src/maxmargin/core/path.py", "place <= lam <= ratio * place", "True", "test_path.py -k chain-pairwise-free"),
    Mutant(
        "src/maxmargin/core/path_start.py",
        "(squared + slope) / (gap - missed)",
        "squared / (gap - missed)",
        "test_path.py -k closed_form",
    ),
    Mutant("src/maxmargin/core/cccp.py", "problem.descends and not fall > 0", "False", "test_latent.py -k got_worse"),
    Mutant(
        "src/maxmargin/core/model_files.py",
        "Certificate.of_attributes(vars(estimator)).attributes()",
        "vars(estimator)",
        "test_damaged_models.py -k certif",
    ),
    Mutant(
        "cpp/parsing/tree_search.hpp",
        "place.h = std::min(place.h, most - lambda * place.g);",
        "place.h = -1e9;",
        "test_parse_surrogates.py -k hull",
    ),
    Mutant(
        "cpp/parsing/tree_search.hpp",
        "if (std::isinf(lambda)) lambda = most_lambda();",
        "if (std::isinf(lambda)) lambda = 1;",
        "test_parse_surrogates.py -k wins",
    ),
    Mutant(
        "cpp/surrogates/psi.hpp",
        "if (h > 0 && kind != Kind::raw_probability) return g + h",
        "if (h > 0) return g + h",
        "test_parse_surrogates.py -k maxima",
    ),
    Mutant("src/maxmargin/nn/tree_losses.py", "gradient[heads[own], word, tags[own]] -= slope[k]", "pass", "test_tree_losses.py"),
    Mutant(
        "src/maxmargin/nn/_rounding_training.py",
        "(known.sum() - known) / (k - 1)",
        "known.sum() / k",
        "test_learned_rounding.py -k score_function_gradient_is_unbiased",
    ),
    Mutant(
        "src/maxmargin/nn/_rounding_training.py",
        "history[-1].relative_energy < least",
        "True",
        "test_learned_rounding.py -k never_worse",
    ),
    Mutant(
        "src/maxmargin/nn/learned_rounding.py", "copy.deepcopy(network)", "network", "test_learned_rounding.py -k never_worse"
    ),
    Mutant(
        "src/maxmargin/nn/expected_energy.py",
        "slopes[~np.isfinite(slopes)] = 0.0",
        "pass",
        "test_rounding_network.py -k finite_differences",
    ),
    Mutant("src/maxmargin/nn/rounding_network.py", "weights.zero_()", "pass", "test_rounding_network.py -k start_at"),
    Mutant(
        "src/maxmargin/nn/rounding_network.py",
        "torch.matmul(self.tables.T, to_b)",
        "torch.matmul(self.tables, to_b)",
        "test_rounding_network.py -k other_ends",
    ),
    Mutant(
        "src/maxmargin/nn/rounding_network.py",
        "ctx.transposed @ outward[0]",
        "ctx.transposed.T @ outward[0]",
        "test_learned_rounding.py -k same_noise",
    ),
    Mutant("src/maxmargin/nn/_score_hinges.py", "gradient[rows, self._right] -= 1.0", "pass", "test_layerwise.py -k bound_lies"),
    Mutant("src/maxmargin/ranking/trec.py", ".astype(np.float32).tolist()", ".tolist()", "test_trec_files.py -k trec_eval"),
    Mutant("src/maxmargin/report/chance.py", "return (p - 1) / (n - 1)", "return p / n", "test_report.py -k expectation"),
    Mutant("src/maxmargin/cli/signals.py", "128 + seen[-1]", "130", "test_command_training.py -k interruption"),
    Mutant("src/maxmargin/graphs/structure.py", "-min(search.bound, search.energy)", "-search.energy", "test_graph_labels.py"),
    Mutant("src/maxmargin/labeling/descents.py", "& (change < 0)[part]", "", "test_descents.py -k parts"),
    Mutant("src/maxmargin/labeling/elimination.py", "costs.T, labels)", "costs, labels)", "test_elimination.py"),
    Mutant("src/maxmargin/labeling/elimination.py", "if total > _MAX_TOTAL:", "if False:", "test_elimination.py -k orders"),
    Mutant("src/maxmargin/graphs/structure.py", "np.sign(second - first)", "np.ones((K, K))", "test_graph_labels.py"),
    Mutant("src/maxmargin/labeling/max_marginals.py", "self.edges - first[:, None]", "self.edges", "test_max_marginals.py"),
    Mutant(
        "src/maxmargin/ranking/high_order_problem.py",
        "np.sqrt(self.costs[samples.parts.edges].prod(axis=1))",
        "self.costs[samples.parts.edges].mean(axis=1)",
        "test_high_order_problems.py -k enumeration",
    ),
    Mutant("src/maxmargin/ranking/high_order_problem.py", ") - plane.rest)", ") + plane.rest)", "test_high_order_problems.py"),
    Mutant("src/maxmargin/ranking/high_order_problem.py", "(own.sum() - own)", "own", "test_high_order_problems.py"),
    Mutant(
        "src/maxmargin/ranking/high_order_problem.py",
        "np.maximum(0.0, -scores[self.n_samples :])",
        "-scores[self.n_samples :]",
        "test_high_order_problems.py -k rounding",
    ),
    Mutant(
        "src/maxmargin/registration/alignment.py",
        "if after + part * price < data -",
        "if after < data + 1e9 -",
        "test_register.py -k large_steps",
    ),
    Mutant(
        "src/maxmargin/registration/alignment.py",
        "if not least_jacobian(field, images.frame.spacing, self.settings.n_threads) > 0:",
        "if False:",
        "test_register.py -k dense",
    ),
    Mutant(
        "src/maxmargin/registration/alignment.py",
        "self.field, self.moved, paid = field, True, paid + taken * price",
        "self.field, self.moved, paid = field, True, paid",
        "test_register.py -k energy",
    ),
    Mutant(
        "src/maxmargin/registration/alignment.py", "own.weights[most]", "own.weights[0 * most]", "test_register.py -k classes"
    ),
    Mutant(
        "src/maxmargin/registration/alignment.py",
        "return unfolded(sample_field(field, frame, other.places(), order=3), other.spacing, n_threads)",
        "return sample_field(field, frame, other.places(), order=3)",
        "test_register.py -k coarse_level",
    ),
    Mutant(
        "src/maxmargin/registration/fields.py",
        "increment + through(field, frame, increment",
        "increment + through(field, frame, 0 * increment",
        "test_register.py -k composed",
    ),
    Mutant(
        "src/maxmargin/registration/files.py",
        "found.displacement[..., ::-1] @ target.direction.T",
        "found.displacement[..., ::-1]",
        "test_register_command.py -k simpleitk",
    ),
    Mutant("src/maxmargin/vision/stereo_matching.py", "shift] = moved[:, :1]", "shift] = 0", "test_pictures.py"),
    Mutant("src/maxmargin/vision/mean_shift.py", "large = np.bincount(numbers) >= 2", "large = n >= 2", "test_pictures.py"),
    Mutant("src/maxmargin/vision/stereo_matching.py", "max(limit - spent, 1e-3)", "limit", "test_pictures.py -k second_half"),
    Mutant("src/maxmargin/io/byte_ranges.py", "    at = place - 1\n", "    at = place\n", "test_sources.py -k every_split"),
    Mutant(
        "src/maxmargin/io/byte_ranges.py",
        'text[text.find(b"\\n") + 1 or len(text) :] if begin else text',
        "text",
        "test_sources.py -k far_behind",
    ),
    Mutant(
        "src/maxmargin/io/parquet.py", "if found != known), None)", "if found == known), None)", "test_sources.py -k row_groups"
    ),
    Mutant(
        "src/maxmargin/distributed/sources.py", "goes_on = bool(names) and", "goes_on = False and", "test_sources.py -k goes_on"
    ),
    Mutant(
        "src/maxmargin/distributed/sources.py", 'zero_based == "auto" and seen.has_zero', "False", "test_sources.py -k from_zero"
    ),
    Mutant(
        "src/maxmargin/distributed/packed.py",
        'if len({meta.get("packing") for meta in metas}) > 1:',
        "if False:",
        "test_packed.py -k two_packings",
    ),
    Mutant(
        "src/maxmargin/distributed/packed_meta.py",
        'if _queries_beside(part.file) != entry.get("queries"):',
        "if False:",
        "test_packed.py -k beside",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/split_list.py",
        "if count != 2 * often.get(name, 0) + 1]",
        "if count > 2 * often.get(name, 0) + 2]",
        "test_command_engine.py -k come_back",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/problem.py",
        "self._pass(point.scores, loss_scale, chosen, starts)",
        "self._pass(point.scores, loss_scale, chosen)",
        "test_scattered_training.py -k few_negatives",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/list_inference.py",
        "if self._N <= _SHORT or self._P > _MOST_POSITIVES:",
        "if self._N <= _SHORT:",
        "test_scattered_lists.py -k single_precision",
    ),
    Mutant(
        "src/maxmargin/core/checkpoint.py",
        "<= _SAME_HINGE * max(hinge, abs(cut.loss)):",
        "<= 1e9:",
        "test_checkpoint.py -k small_beside",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/problem.py",
        "if any(not ScatteredList.is_guess(array) for",
        "if any(False for",
        "test_scattered_training.py -k guesses",
    ),
    Mutant("src/maxmargin/distributed/dask_engine.py", 'if "lost" in one:', "if False:", "test_dask_engine.py -k gone"),
    Mutant("src/maxmargin/dask/base.py", "self.__dict__.update(before)", "pass", "test_dask_inputs.py -k fails_leaves"),
    Mutant(
        "src/maxmargin/distributed/dask_collections.py",
        "features = tuple(trained_columns(frame, trained))",
        "pass",
        "test_dask_inputs.py -k by_their_names",
    ),
    Mutant(
        "src/maxmargin/ranking/inference.py",
        "slopes = self.gradient if self._slopes is None else self._slopes",
        "slopes = self.gradient",
        "test_ranking_inference.py -k single_precision",
    ),
    Mutant(
        "src/maxmargin/distributed/packed_meta.py",
        "if thorough or now.modified != part.modified:",
        "if thorough:",
        "test_packed.py -k sources_that_changed",
    ),
    Mutant("src/maxmargin/distributed/packed.py", "        os.rename(folder, target)\n", "", "test_packed.py -k the_folder"),
    Mutant(
        "src/maxmargin/distributed/packed.py",
        "        shutil.rmtree(folder, ignore_errors=True)\n",
        "",
        "test_packed.py -k full_disk",
    ),
    Mutant("src/maxmargin/core/streaming.py", "and memoryview(array).readonly", "", "test_streaming.py -k left_alone"),
    Mutant("src/maxmargin/core/streaming.py", "_release(places[k])", "pass", "test_streaming.py -k memory_stays"),
    Mutant(
        "src/maxmargin/core/streaming.py",
        "max(rows // _core.ROWS_OF_BLOCK * _core.ROWS_OF_BLOCK, min(rows, _core.ROWS_OF_BLOCK))",
        "rows",
        "test_streaming.py -k the_bits",
    ),
    # ---- compiled
    Mutant("cpp/labeling/max_marginals.hpp", "if (!within[other]) edge", "edge", "test_max_marginals.py -k dense"),
    Mutant(
        "cpp/labeling/max_marginals.hpp",
        "const auto [from, to] = known_.equal_range(hash);",
        "const auto from = known_.end(), to = known_.end();",
        "test_max_marginals.py -k stored",
    ),
    Mutant(
        "cpp/labeling/max_marginals.hpp",
        "return expected == changed.end();",
        "return true;",
        "test_max_marginals.py -k recognised",
    ),
    Mutant("cpp/io/vocabulary.hpp", "slot.tag == tag &&", "slot.tag != tag &&", "test_named_features.py"),
    Mutant(
        "cpp/io/vocabulary_bindings.cpp",
        "cells_[to - 1].value += cells_[a].value",
        "cells_[to - 1].value = 1",
        "test_named_features.py",
    ),
    Mutant("src/maxmargin/sequences/svm.py", "if self.normalize and", "if", "test_labeling_defaults.py -k usual"),
    Mutant(
        "src/maxmargin/sequences/svm.py",
        "constant = self.intercept_",
        "constant = self.transition_[0]",
        "test_labeling_defaults.py -k scores",
    ),
    Mutant("src/maxmargin/core/estimator.py", "self.C_ = value", "pass", "test_labeling_defaults.py -k paths"),
    Mutant("src/maxmargin/core/estimator.py", "        self._check_budgets()\n", "", "test_budgets.py -k refused"),
    Mutant(
        "src/maxmargin/core/estimator.py", "if budget and not solution.weights.any()", "if False", "test_budgets.py -k failure"
    ),
    Mutant("cpp/registration/patch_metrics.hpp", "joint - other -", "joint -", "test_patch_costs.py -k plain"),
    Mutant("cpp/registration/patch_metrics.hpp", "pairs + single;", "pairs;", "test_patch_costs.py -k plain"),
    Mutant("cpp/registration/warp.hpp", "high[k] = std::min(low[k] + 1, shape[k] - 1)", "high[k] = low[k]", "test_fields.py"),
    Mutant("cpp/vision/mean_shift.hpp", "near - dy * dy", "near", "test_superpixels.py -k definition"),
    Mutant(
        "cpp/core/weights.hpp", "std::min(largest, slope / (lambda * squared))", "largest", "test_block_engine.py -k dual_rises"
    ),
    Mutant(
        "cpp/sequences/labeling_blocks.hpp",
        "{ return active_score_[c]; });",
        "{ return -active_score_[c]; });",
        "test_block_engine.py -k forgotten",
    ),
    Mutant(
        "cpp/core/blocks.hpp",
        "std::sort(idle.begin(), idle.end());",
        "std::sort(idle.rbegin(), idle.rend());",
        "test_python_oracles.py -k forgotten",
    ),
    Mutant(
        "cpp/core/engine.hpp",
        "std::isnan(h.mean) ? h.mean : h.bound",
        "std::isnan(h.mean) ? h.mean : h.target",
        "test_bounded_oracles.py -k steps_and_the_oracles",
    ),
    Mutant("cpp/core/engine.hpp", "std::max(h.target, h.mean)", "h.target", "test_bounded_oracles.py -k steps_and_the_oracles"),
    Mutant("cpp/core/engine.hpp", "+ (1 - part) * earlier->means_[i]", "", "test_path_transport.py -k item_7_states"),
    Mutant("cpp/core/blocks.hpp", "worst.alpha / worst.rest", "1", "test_compiled_loop.py -k single_step"),
    Mutant(
        "cpp/core/blocks.hpp",
        "gain < -1e-15 * std::abs(dual)",
        "gain < -1e-3 * std::abs(dual)",
        "test_partial_linearization.py -k single_step",
    ),
    Mutant(
        "cpp/surrogates/set_blocks.hpp",
        "if (other < part.at && y[other] != truth[other]) return;",
        "",
        "test_label_set_blocks.py",
    ),
    Mutant(
        "cpp/surrogates/set_blocks.hpp",
        "point[m].cut.a * (squared_[i] * labels + pairs)",
        "point[m].cut.a * squared_[i] * labels",
        "test_label_set_blocks.py",
    ),
    Mutant(
        "cpp/surrogates/set_blocks.hpp",
        "if (proving_ && hinge > average) find_slot(i);",
        "",
        "test_label_set_blocks.py -k inside",
    ),
    Mutant(
        "cpp/surrogates/product_search.hpp",
        "if (old) find_best();",
        "if (false) find_best();",
        "test_product_search.py -k compiled_hull",
    ),
    Mutant(
        "cpp/surrogates/product_search.hpp",
        "low == 0 ? 0.5 * lambda",
        "low == 0 ? 0.25 * lambda",
        "test_product_search.py -k bisecting",
    ),
    Mutant(
        "cpp/surrogates/product_search.hpp",
        "reach_.lower(a, b, answer.point.along(a, b));",
        "reach_.lower(a, b, answer.upper);",
        "test_product_search.py -k tolerance",
    ),
    Mutant(
        "cpp/multilabel/product_set_search.hpp",
        "if (point.g == g && std::equal(",
        "if (false && std::equal(",
        "test_label_set_searches.py -k one_by_one",
    ),
    Mutant(
        "cpp/multilabel/set_plane.hpp",
        "a * h + b * g : b * g) + excess",
        "a * h + b * g : b * g)",
        "test_product_search.py -k may_be_missed",
    ),
    Mutant("cpp/surrogates/hull_search.hpp", "kEnough = 0.2", "kEnough = 1.0", "test_short_searches.py"),
    Mutant("cpp/surrogates/hull_search.hpp", "kEnough = 0.2", "kEnough = 0.0", "test_short_searches.py"),
    Mutant("cpp/surrogates/hull_search.hpp", "part * (value - floor)", "part * value", "test_short_searches.py"),
    Mutant("cpp/multilabel/set_search.hpp", "h + p.g + excess;", "h + p.g;", "test_label_set_blocks.py -k may_miss"),
    Mutant("cpp/multilabel/set_search.hpp", "b * p.g + excess});", "b * p.g});", "test_label_set_blocks.py -k may_miss"),
    Mutant(
        "cpp/hierarchy/closed_set_search.hpp", "!surrogate_.hull_only) list();", "false) list();", "test_closed_set_blocks.py"
    ),
    Mutant("cpp/hierarchy/closed_sets.hpp", "&& !tree.may_end(k)", "", "test_closed_set_blocks.py"),
    Mutant("cpp/hierarchy/closed_sets.hpp", "max(0.0, ideal - decoder_.below(k))", "max(0.0, 0.0)", "test_closed_set_blocks.py"),
    Mutant("cpp/multilabel/label_sets.hpp", "            left -= own;\n", "", "test_multilabel_svm.py -k violating"),
    Mutant("cpp/multilabel/label_sets.hpp", "most_)[other] +=", "most_)[other] += 2 *", "test_multilabel_svm.py -k decide"),
    Mutant("cpp/multilabel/label_sets.hpp", "least_)[other] -=", "least_)[other] -= 2 *", "test_multilabel_svm.py -k decide"),
    Mutant("cpp/multilabel/label_sets.hpp", "+= 0.5 * std::max", "+= 0.4 * std::max", "test_multilabel_svm.py -k branches"),
    Mutant("cpp/multilabel/label_sets.hpp", "table[10] = table[14]", "table[10]", "test_multilabel_svm.py -k relaxation"),
    Mutant("cpp/core/sampler.hpp", "random_.unit() * tree_[1]", "0.5 * tree_[1]", "test_block_engine.py -k in_proportion"),
    Mutant("cpp/core/sampler.hpp", "target -= tree_[at++]", "++at", "test_block_engine.py -k in_proportion"),
    Mutant("cpp/numeric/compensated_sum.hpp", "return sum_ + lost_", "return sum_", "test_ranking_inference.py -k long_sums"),
    Mutant(
        "cpp/numeric/simplex_qp.hpp",
        "if (room < step) step = room, blocking = k;",
        "if (room < step) step = room;",
        "test_cutting_plane.py -k simplex",
    ),
    Mutant("cpp/ranking/table.hpp", "value > leader", "value >= leader", "test_ranking_inference.py -k ties"),
    Mutant("cpp/ranking/table.hpp", "total_.add(part_), done_", "done_", "test_ranking_inference.py -k table"),
    # How many positives are within the first places, and what those that are not have to give up.
    Mutant(
        "cpp/ranking/cutoff.hpp", "improved = value > leader;", "improved = value >= leader;", "test_cutoff_ranking.py -k ties"
    ),
    Mutant(
        "cpp/ranking/cutoff.hpp", "if (value > leader) leader", "if (value >= leader) leader", "test_cutoff_ranking.py -k ties"
    ),
    Mutant("cpp/ranking/cutoff.hpp", "if (fewer > m + 1)", "if (fewer < 0)", "test_cutoff_ranking.py -k thousands"),
    Mutant("cpp/ranking/cutoff.hpp", "beyond.empty() ? 0.0 :", "true ? 0.0 :", "test_cutoff_ranking.py -k enumeration"),
    Mutant("cpp/ranking/cutoff.hpp", "static_cast<double>(threshold));", "0.0);", "test_cutoff_ranking.py -k lowest"),
    Mutant("cpp/ranking/cutoff.hpp", "p > at() ? 0 : places()[p]", "p > at() + 1 ? 0 : places()[p]", "test_cutoff_ranking.py"),
    Mutant("cpp/ranking/cutoff.hpp", "case Counted::ap: return static_cast<double>(found);", "", "test_cutoff_ranking.py"),
    Mutant(
        "cpp/ranking/cutoff.hpp",
        "last = std::min(n_neg_, at_ - i), out",
        "last = std::min(n_neg_, at_), out",
        "test_cutoff_ranking.py",
    ),
    # Products of float32: sums in doubles, the last few numbers, vectors that are not looked at.
    Mutant(
        "cpp/numeric/row_products.cpp",
        "rest += static_cast<double>(x[k]) * y[k];",
        "rest += static_cast<float>(x[k] * static_cast<T>(y[k]));",
        "test_row_products.py",
    ),
    Mutant("cpp/numeric/row_products.cpp", "even += odd;", "", "test_row_products.py"),
    Mutant(
        "cpp/numeric/row_products.cpp",
        "for (; k < used; ++k) add_one",
        "for (; k + 1 < used; ++k) add_one",
        "test_row_products.py",
    ),
    Mutant(
        "cpp/ranking/buckets.hpp",
        "aside_.count < n_neg_ && search_.rank(aside_.count + 1, floor, 1, last_) != last_",
        "aside_.count > n_neg_",
        "test_ranking_inference.py -k too_many_negatives",
    ),
    # One list over shards: what limits decide, how ties are dealt, where the pieces of a split lie.
    Mutant(
        "src/maxmargin/distributed/client.py",
        "elif self._pinned[k] != reply.incarnation:",
        "elif False:",
        "test_scattered_training.py -k every_fault",
    ),
    Mutant("src/maxmargin/distributed/client.py", "if k in self._doubted:", "if False:", "test_sharded_ranking.py -k no_number"),
    Mutant(
        "src/maxmargin/distributed/client.py", "if before != now:", "if False:", "test_sharded_ranking.py -k changes_is_refused"
    ),
    Mutant(
        "src/maxmargin/distributed/client.py",
        "self._watch.lost(k, self._passes, self.engine.describe(k))",
        "pass",
        "test_sharded_ranking.py -k again_and_again",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/handles.py", "        other._settle()\n", "", "test_sharded_ranking.py -k too_many_roots"
    ),
    Mutant(
        "src/maxmargin/ranking/shards/handles.py", "return self.sign * float(sum(", "return float(sum(", "test_sharded_ranking.py"
    ),
    Mutant(
        "src/maxmargin/ranking/shards/problem.py",
        'answer.get("loss") != loss or losses != point.losses',
        "losses != point.losses",
        "test_sharded_ranking.py -k other_bits",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/problem.py",
        "dead = sorted(held - alive)",
        "dead = []",
        "test_sharded_ranking.py -k too_many_roots",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/problem.py",
        "Cut(self.unscaled(cut.psi), cut.loss, cut.bound)",
        "Cut(cut.psi, cut.loss, cut.bound)",
        "test_sharded_ranking.py -k scaled",
    ),
    Mutant(
        "src/maxmargin/core/moments.py",
        "variance = np.maximum(self.second / n - (self.first / n) ** 2, 0.0)",
        "variance = np.maximum(self.second / n, 0.0)",
        "test_moments.py",
    ),
    Mutant(
        "src/maxmargin/distributed/means.py",
        'self.worse_than_truth += sum(int(answer["worse"]) for answer in found)',
        "pass",
        "test_means.py -k hide_in_a_mean",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/shard.py",
        "found.gradient[part.positives] -= factor",
        "found.gradient[part.positives] += factor",
        "test_sharded_ranking.py",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/lists.py",
        "ordered[self.order] = gradient",
        "ordered[:] = gradient",
        "test_scattered_training.py -k one_list",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/split_list.py",
        "shares: Floats = mixed / np.maximum(mixed.sum(axis=0), 1)",
        "shares: Floats = mixed * 1.0",
        "test_scattered_training.py -k cut_anywhere",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/split_list.py",
        "return [name for name, times in seen.items() if times > 1]",
        "return list(seen)[1:]",
        "test_scattered_training.py -k cut_anywhere",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/judging.py",
        'return counted("right"), counted("left")',
        'return counted("left"), counted("right")',
        "test_sharded_metrics.py",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/judging.py",
        "order = np.lexsort((grades, -scores))",
        "order = np.lexsort((-grades, -scores))",
        "test_sharded_metrics.py",
    ),
    Mutant("src/maxmargin/distributed/rows.py", "Rows(*aligned(tuple(rows)))", "Rows(*rows)", "test_dask_engine.py -k any_byte"),
    Mutant(
        "src/maxmargin/distributed/dask_engine.py", "self._shunned[k] = place.address", "pass", "test_dask_engine.py -k renewed"
    ),
    Mutant(
        "src/maxmargin/distributed/dask_engine.py", "> silence and not asked.done()", "> 1e9", "test_dask_engine.py -k gets_lost"
    ),
    Mutant(
        "src/maxmargin/distributed/dask_engine.py",
        "if not await self._is_idle(place, number):",
        "if False:",
        "test_dask_engine.py -k takes_long",
    ),
    Mutant(
        "src/maxmargin/distributed/dask_engine.py",
        "self.client.direct_to_workers = self._was_direct",
        "pass",
        "test_dask_engine.py -k is_closed",
    ),
    Mutant(
        "src/maxmargin/distributed/dask_collections.py",
        "found.head if goes_on and owner != own else 0",
        "0",
        "test_dask_structures.py -k wherever",
    ),
    Mutant(
        "src/maxmargin/distributed/dask_collections.py",
        "if len(np.unique(heads)) < len(heads):",
        "if False:",
        "test_dask_structures.py -k in_pieces",
    ),
    Mutant(
        "src/maxmargin/distributed/dask_collections.py",
        "X, y = X[order], y[order]",
        "y = y[order]",
        "test_dask_estimators.py -k one_process",
    ),
    Mutant(
        "src/maxmargin/distributed/dask_collections.py",
        "array = array.rechunk({0: tuple(like.rows)})",
        "pass",
        "test_dask_estimators.py -k one_process",
    ),
    Mutant(
        "src/maxmargin/core/checkpoint.py",
        "<= 1e-9 * np.abs(own).max(initial=0.0)",
        "<= np.inf",
        "test_checkpoint.py -k marks_tell",
    ),
    Mutant(
        "src/maxmargin/core/solvers/cutting_plane.py",
        'made._qp.set_factor(found["support"], found["factor"], float(found["shift"][0]))',
        "pass",
        "test_checkpoint.py -k same_bits",
    ),
    Mutant(
        "src/maxmargin/core/solvers/cutting_plane.py",
        'return cls(cuts, best, numbers["reach"])',
        "return cls(cuts, best, 1.0)",
        "test_checkpoint.py -k same_bits",
    ),
    Mutant("cpp/ranking/shard.hpp", "score > verdict.high", "score >= verdict.high", "test_scattered_lists.py"),
    # Threads and memory that outlive a call.
    Mutant("cpp/numeric/threads.cpp", "|| found->process != this_process()", "", "test_threads.py -k fork"),
    Mutant("cpp/numeric/threads.cpp", "sigfillset", "sigemptyset", "test_threads.py -k signals"),
    Mutant("cpp/numeric/threads.cpp", "&& n_threads_ + 1 < cores", "", "test_threads.py -k cores"),
    Mutant("cpp/ranking/buckets.hpp", "if (!cleared_) shard_.clear", "if (cleared_) shard_.clear", "test_recycled_memory.py"),
    Mutant("cpp/ranking/buckets.hpp", "[k] = index[waiting.index[k]];", "[k] += 0;", "test_ranking_inference.py -k far_more"),
    Mutant("cpp/ranking/buckets.hpp", "+ kept.count, last)", "+ kept.count, last - 1)", "test_ranking_inference.py -k far_more"),
    Mutant("cpp/ranking/buckets.hpp", "placement_.total() = before", "", "test_ranking_inference.py -k sample"),
    Mutant("cpp/numeric/recycled.cpp", "best ? std::exchange(*best, {})", "best ? *best", "test_recycled_memory.py -k two"),
    Mutant("cpp/ranking/shard.hpp", "total.add(sum);\n        join", "join", "test_scattered_lists.py"),
    Mutant("cpp/ranking/split_list.hpp", "groups_[g].first_rank += all.above;", "", "test_scattered_lists.py"),
    Mutant("cpp/ranking/split_list.hpp", "position += members;", "", "test_scattered_lists.py"),
    Mutant("cpp/ranking/split_list.hpp", "at(k + 1), at(k + 2), other", "at(k + 1), at(k + 1), other", "test_scattered_lists.py"),
    Mutant("cpp/ranking/split_list.hpp", "take(merge_.last(), search_.n_neg() - count);", "", "test_scattered_lists.py"),
    Mutant(
        "cpp/ranking/split_list.hpp",
        "if (count < search_.n_neg() && search_.rank",
        "if (false && search_.rank",
        "test_scattered_lists.py",
    ),
    Mutant(
        "src/maxmargin/ranking/shards/lists.py", "total += sum_of_rows(", "total = sum_of_rows(", "test_scattered_training.py"
    ),
    Mutant(
        "src/maxmargin/distributed/rounds.py",
        "send(requests) if requests else {}",
        "send(requests)",
        "test_scattered_training.py",
    ),
    # Memory that is used again belongs to nobody.
    Mutant("cpp/ranking/merge.hpp", "first_rank + k + 1, 0, 0, 0", "first_rank + k, 0, 0, 0", "test_scattered_lists.py"),
    # New trees on the same flow, capacities before the first cut and of all edges of a grid.
    Mutant("cpp/labeling/maxflow.hpp", "if (steps_left_ < 0) plant();", "", "test_flow.py"),
    Mutant("cpp/labeling/maxflow.hpp", "if (!solved_ && forward >= 0", "if (forward >= 0", "test_flow.py"),
    Mutant("cpp/labeling/maxflow.hpp", "found |= is_free(layout_.head(i, s)) & leads_away<sink>(i, s);", "", "test_flow.py"),
    Mutant("cpp/labeling/maxflow.hpp", "!sinks_wait & leads_away<false>(i, s) :", "false :", "test_flow.py"),
    Mutant("cpp/labeling/flow_network.hpp", "found |= !(x[k] >= 0);", "", "test_flow.py -k refused"),
    # Integers of 32 bits that do not hold the sum of all capacities.
    Mutant("src/maxmargin/labeling/flow.py", "narrow = total <= np.iinfo(np.int32).max", "narrow = True", "test_integer_cuts.py"),
    # Arcs that are laid out with their capacities, or without.
    Mutant("cpp/labeling/flow_network.hpp", "if (waits_) lay_out(nullptr, nullptr);", "", "test_flow.py"),
    Mutant("cpp/labeling/flow_layouts.hpp", "(backward ? backward[e] : Real{0})", "Real{0}", "test_flow.py"),
    Mutant("cpp/labeling/flow_layouts.hpp", "loop |= a == b;", "", "test_graphcut.py"),
    # Levels behind an arc that is full, and the other side, where no flow of a forced node belongs.
    Mutant("cpp/labeling/maxflow.hpp", "closed_ = std::min(closed_, distance_[at(i)]);", "", "test_flow.py -k other_side"),
    Mutant(
        "cpp/labeling/maxflow.hpp",
        "== *side ? kNeither : kOutside",
        "== *side ? kNeither : kNeither",
        "test_flow.py -k other_side",
    ),
    Mutant("cpp/labeling/flow_network.hpp", "refused = first + i", "refused = i", "test_flow.py"),
    Mutant("src/maxmargin/labeling/energy.py", 'self.__dict__.pop("table_facts", None)', "pass", "test_scales.py -k range_of"),
    # An orphan that nobody adopts: who might reach it does not come.
    Mutant(
        "cpp/labeling/maxflow.hpp",
        "if (leads_away<!sink>(i, s)) activate(j);\n            if (parent_[at(j)].slot == layout_.back(i, s)) {",
        "if (parent_[at(j)].slot == layout_.back(i, s)) {",
        "test_graphcut.py -k random_graphs",
    ),
    # The same when a node changes trees between two solves.
    Mutant(
        "cpp/labeling/maxflow.hpp",
        "if (leads_away<!sink>(i, s)) activate(j);\n            if (parent_[at(j)].slot == layout_.back(i, s)) make_orphan(j);",
        "if (parent_[at(j)].slot == layout_.back(i, s)) make_orphan(j);",
        "test_flow.py -k changed_capacities",
    ),
    # Distances with a negative weight, a share of what is known that is too large, a forest with cycles.
    Mutant(
        "cpp/labeling/messages.hpp",
        "pairs.kind != TableKind::dense && weight >= 0",
        "pairs.kind != TableKind::dense",
        "test_messages.py",
    ),
    Mutant("cpp/labeling/messages.hpp", "tree[s] || !reweighted ? 1.0", "true ? 1.0", "test_messages.py -k bound"),
    Mutant(
        "cpp/labeling/messages.hpp",
        "fits = std::find(roots.begin(), roots.end(), root) == roots.end();",
        "",
        "test_messages.py -k forests",
    ),
    # Expansions: the smallest of equally good ones; costs of labels that have changed since.
    Mutant("cpp/labeling/moves.hpp", "flow.complete_sinks();", "", "test_moves.py -k largest"),
    Mutant("cpp/labeling/moves.hpp", "if (largest && value < 0) {", "if (false) {", "test_moves.py -k largest"),
    Mutant("cpp/labeling/tables.hpp", "if (!is_old(first)) return;", "if (seen_of_label_ > 0) return;", "test_moves.py -k again"),
    Mutant("cpp/labeling/tables.hpp", "now_.swap(next_);", "", "test_moves.py -k again"),
    Mutant("cpp/labeling/tables.hpp", "kRounding = 2 *", "kRounding = 1e3 *", "test_moves.py -k facts"),
    # Roundings: one side of a kink only; a label that is absent drawn; too few windows. Steps without clipping.
    Mutant("cpp/labeling/roundings.hpp", "if (!gradient || !done.tied) return;", "return;", "test_fractional.py -k kink"),
    Mutant(
        "cpp/labeling/roundings.hpp",
        "i = last; i < n_labels; ++i) to[i] = 1.0",
        "i = last; false;) ",
        "test_fractional.py -k absent",
    ),
    Mutant("cpp/labeling/roundings.hpp", "n_labels_ + length - 1;", "n_labels_;", "test_rounding.py -k means_of"),
    Mutant("cpp/labeling/primal_dual.hpp", "clip(m[i], e);\n                }", "}", "test_relax.py -k fractional_points"),
    # Moves of cliques: a pair of which both move, counted as if one stayed; who stays pays for the wrong label.
    Mutant(
        "cpp/labeling/clique_moves.hpp",
        "u >= 0 ? both - first : second - neither",
        "second - neither",
        "test_cooccurrence.py test_hierarchical.py test_parsimonious.py",
    ),
    Mutant(
        "cpp/labeling/clique_moves.hpp",
        "if (stays && stays[labels_[i]] > 0)",
        "if (stays && stays[0] > 0)",
        "test_cooccurrence.py test_hierarchical.py test_parsimonious.py",
    ),
    Mutant("cpp/io/decimal.hpp", "digits <= 19 && mantissa", "mantissa", "test_svmlight_reader.py -k hard_decimals"),
    Mutant("cpp/io/query_lines.hpp", "if (same_query(query, known)) return true;", "", "test_sources.py -k every_split"),
    Mutant("cpp/io/query_lines.hpp", "p == end || *p == '#') return", "p == end) return", "test_sources.py -k begins"),
)


class Copy:
    """The project in a folder of its own, with an extension that is built there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("src", "cpp", "tests", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        for name in ("CMakeLists.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)
        nanobind = subprocess.check_output([sys.executable, "-m", "nanobind", "--cmake_dir"], text=True).strip()
        options = ["-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind}"]
        subprocess.run(["cmake", "-S", folder, "-B", folder / "build", *options], check=True, stdout=subprocess.DEVNULL)
        self.built = False

    def build(self) -> None:
        """The extension, as far as it has changed."""
        command = ["cmake", "--build", self.folder / "build", "--parallel"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.built = True
        for library in (self.folder / "build").glob("_core*.so"):
            shutil.copy(library, self.folder / "src" / "maxmargin")

    def passes(self, tests: str) -> bool:
        """Whether the tests notice nothing."""
        words = tests.split(" -k ")
        files = [str(path) for name in words[0].split() for path in sorted((self.folder / "tests").rglob(name))]
        assert files, f"no test file is called {words[0]}"
        chosen = ["-k", words[1]] if len(words) > 1 else []
        # The editable install would answer for the package.
        start = (
            "import sys, pytest; "
            "sys.meta_path = [f for f in sys.meta_path if type(f).__name__ != 'ScikitBuildRedirectingFinder']; "
            "raise SystemExit(pytest.main(sys.argv[1:]))"
        )
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", start, "-x", "-q", "-p", "no:cacheprovider", *chosen, *files]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode != 5, f"no test is called {tests}"
        assert done.returncode in (0, 1, 2), done.stdout[-2000:] + done.stderr[-2000:]
        self.output = done.stdout
        return done.returncode == 0

    def notices(self, mutant: Mutant) -> bool:
        """Whether the tests fail with the wrong line, which is mended afterwards."""
        path = self.folder / mutant.file
        text = path.read_text()
        assert text.count(mutant.right) == 1, f"{mutant.file}: {mutant.right!r} is there {text.count(mutant.right)} times"
        if path.suffix == ".py" and not self.built:
            self.build()
        path.write_text(text.replace(mutant.right, mutant.wrong))
        try:
            if path.suffix != ".py":
                self.build()
            return not self.passes(mutant.tests)
        finally:
            path.write_text(text)
            # Not at once: the next one may be compiled, too.
            self.built = path.suffix == ".py"


def main(words: list[str]) -> int:
    """Try all mutants, or those of files whose names contain a word given."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.file for word in words)]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        copy.build()
        # Tests that fail anyway notice nothing.
        failing = {tests for tests in sorted({mutant.tests for mutant in chosen}) if not copy.passes(tests)}
        for mutant in chosen:
            began = time.perf_counter()
            found = mutant.tests not in failing and copy.notices(mutant)
            survivors += not found
            fate = "killed  " if found else "fails anyway" if mutant.tests in failing else "SURVIVED"
            seconds = time.perf_counter() - began
            print(f"{fate} {seconds:4.0f} s  {mutant.file}: {mutant.right!r} -> {mutant.wrong!r}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
