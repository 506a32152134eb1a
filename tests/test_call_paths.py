"""Use cases run few packages and load no task but their own."""

import subprocess
import sys

import pytest
from tests.call_paths import CASES, LIMITS, measure

from maxmargin._api import NAMES

TASKS = {"ranking", "rare_events", "multiclass", "sequences", "multilabel", "hierarchy", "parsing", "graphs", "structured"}
OWN_TASKS = {
    "LETOR file to model": {"ranking"},
    "ChainSVM.fit": {"sequences"},
    "RankingClassifier.fit": {"ranking", "rare_events"},
    "maxmargin stereo": set(),
    "Dask fit": {"ranking"},
}


@pytest.mark.parametrize("case", CASES)
def test_a_use_case_does_not_grow(case):
    pytest.importorskip({"maxmargin stereo": "skimage", "Dask fit": "distributed"}.get(case, "numpy"))
    found = measure(case)
    sizes = len(found.packages), len(found.modules), len(found.loaded)
    assert all(size <= most for size, most in zip(sizes, LIMITS[case], strict=True)), f"{sizes} exceeds {LIMITS[case]}: {found}"
    assert {name.partition(".")[0] for name in found.loaded} & TASKS == OWN_TASKS[case]


def loaded_by(code):
    """Modules of maxmargin that are loaded when a process runs the code."""
    code += "; import sys; print(*(name for name in sys.modules if name.startswith('maxmargin.')))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("package", [name for name in NAMES if name])
def test_importing_a_package_loads_none_of_its_modules(package):
    parents = {"maxmargin._api", f"maxmargin.{package}", f"maxmargin.{package.partition('.')[0]}"}
    assert loaded_by(f"import maxmargin.{package}") == parents
