"""Kernels, engine and readers under sanitizers: ``make sanitize`` builds the extension for it and runs this.

A fault in the extension ends the process with a report of where it was.
"""

import sys
from pathlib import Path

# The editable install would answer for the package; here the copy with the sanitized extension is wanted.
sys.meta_path = [finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildRedirectingFinder"]

TESTS = (
    "test_ranking_inference.py",
    "test_many_rankings.py",
    "test_cutoff_ranking.py",
    "test_own_losses_that_round.py",
    "test_scattered_lists.py",
    "test_recycled_memory.py",
    "test_threads.py",
    "test_row_products.py",
    "test_label_set_searches.py",
    "test_product_search.py",
    "test_noise.py",
    "test_reader_fuzz.py",
    "test_svmlight_reader.py",
    "test_named_features.py",
    "test_tree.py",
    "test_graphcut.py",
    "test_flow.py",
    "test_moves.py",
    "test_messages.py",
    "test_cooccurrence.py",
    "test_hierarchical.py",
    "test_fractional.py",
    "test_relax.py",
    "test_rounding.py",
    "test_max_marginals.py",
    "test_high_order_problems.py",
    "test_superpixels.py",
    "test_patch_costs.py",
    "test_fields.py",
    "test_block_engine.py",
    "test_decoders.py",
    "test_native.py",
    "test_python_oracles.py",
    "test_sparse_cuts.py",
    "test_oracle_faults.py",
    "test_bounded_oracles.py",
    "test_oracle_starts.py",
    "test_cutting_plane.py",
    "test_compiled_loop.py",
    "test_partial_linearization.py",
    "test_tree_problem.py",
    "test_closed_set_blocks.py",
    "test_label_set_blocks.py",
)
# Sanitizers need address space of their own; a loss in Python is asked by threads, and slow.
LEFT_OUT = "not run_out_of_memory and not (equals_single_calls and loss4)"


def main() -> int:
    """Run the tests of compiled code with little of everything else."""
    import pytest

    from maxmargin import _core

    assert "sanitize" in _core.__file__, f"{_core.__file__} is not the sanitized extension"
    here = Path(__file__).parent
    files = [str(path) for name in TESTS for path in sorted(here.rglob(name))]
    return int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--durations=10", "-k", LEFT_OUT, *files]))


if __name__ == "__main__":
    raise SystemExit(main())
