"""What a newcomer writes for something new: it works, and is as short as docs/architecture.md says."""

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from tests.cases.command_runner import CliRunner

from maxmargin import RankingSVM, StructuredSVM
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane
from maxmargin.io import READERS, load
from maxmargin.multiclass import MulticlassProblem
from maxmargin.structured import NativeProblem
from maxmargin.surrogates import StructuredProblem

RECIPES = {
    "rank loss": "rank_loss",
    "structure, in Python": "structure",
    "structure, compiled": "compiled_structure",
    "solver": "solver",
    "file format": "file_format",
    "command": "command",
}
HERE = Path(__file__).resolve().parent
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 4)), RNG.integers(0, 3, 40)
LAM = 0.1


def recipe(name):
    return import_module(f"tests.recipes.{RECIPES[name]}")


def optimum():
    return BCFW(steps="exact", tol=1e-6, max_passes=5000).solve(MulticlassProblem(X, Y, 3), LAM)


@pytest.mark.parametrize("name", RECIPES)
def test_the_table_counts_what_is_written(name):
    """Lines of code in the one file of the recipe, imports and blank lines aside."""
    table = (HERE.parent / "docs" / "architecture.md").read_text()
    files, lines = map(int, re.search(rf"\| {re.escape(name)} \| (\d+) \| (\d+) \|", table).groups())
    code = (HERE / "recipes" / f"{RECIPES[name]}.py").read_text().splitlines()
    written = [line for line in code if line.strip() and not re.match(r"(from|import) ", line)]
    assert (files, lines) == (1, len(written))


def test_a_rank_loss():
    loss = recipe("rank loss").RankBiased()
    model = RankingSVM(loss, C=10).fit(X, X[:, 0] + 0.5 * RNG.normal(size=40) > 0.5)
    assert model.certified_ and model.dual_gap_ <= 1e-3 * model.primal_objective_


def test_a_structure():
    structure = recipe("structure, in Python").ThreeClasses()
    solution = BCFW(steps="pairwise", tol=1e-6, max_passes=5000).solve(StructuredProblem(structure, X, Y), LAM)
    assert solution.certified and solution.primal == pytest.approx(optimum().primal, rel=1e-5)
    assert len(StructuredSVM(structure).fit(X, Y).predict(X[:3])) == 3


def test_a_compiled_structure():
    pytest.importorskip("numba")
    function = recipe("structure, compiled").three_classes
    problem = NativeProblem(function, 40, 12, reals=X, integers=np.concatenate([[4], Y]), max_entries=8)
    solution = BCFW(steps="pairwise", tol=1e-6, max_passes=5000).solve(problem, LAM)
    assert solution.certified and solution.primal == pytest.approx(optimum().primal, rel=1e-5)


@pytest.mark.parametrize("bounds", [None, (-0.2, 0.3)])
def test_a_solver(bounds):
    problem = MulticlassProblem(X, Y, 3)
    own = recipe("solver").Averaging(tol=1e-2, max_passes=2000).solve(problem, LAM, bounds=bounds)
    best = OneSlackCuttingPlane(tol=1e-6).solve(problem, LAM, bounds=bounds)
    assert own.converged and own.certified and best.dual <= own.primal <= 1.01 * best.primal


def test_a_file_format(tmp_path):
    assert recipe("file format").load_jsonl is READERS[".jsonl"]
    try:
        path = tmp_path / "samples.jsonl"
        path.write_text("".join(json.dumps({"x": x.tolist(), "y": int(y)}) + "\n" for x, y in zip(X, Y, strict=True)))
        np.testing.assert_array_equal(load(path).X, X)
        main = recipe("command").main
        model = str(tmp_path / "m")
        assert CliRunner().invoke(main, ["train", str(path), "--model", model]).exit_code == 0
        assert CliRunner().invoke(main, ["count", str(path)]).output == "40\n"
    finally:
        del READERS[".jsonl"]
        recipe("command").main.commands.pop("count")
