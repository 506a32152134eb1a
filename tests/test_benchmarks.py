"""Benchmarks take long and are run by hand; at least every name they use must still be there."""

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks.registry import BENCHMARKS

ROOT = Path(__file__).parents[1]
NAMES = sorted(
    ".".join(path.relative_to(ROOT / "benchmarks").with_suffix("").parts)
    for path in (ROOT / "benchmarks").rglob("*.py")
    if path.stem != "__init__"
)


@pytest.mark.parametrize("name", NAMES)
def test_the_names_a_benchmark_uses_exist(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    try:
        module = import_module(f"benchmarks.{name}")
    except ImportError as error:
        if str(error.name).startswith(("maxmargin", "benchmarks")):
            raise
        pytest.skip(f"needs {error.name or error}, which an extra installs")
    finally:
        # Not the place to import from for whoever comes next.
        for loaded in [key for key in sys.modules if key.split(".")[0] == "benchmarks"]:
            del sys.modules[loaded]
    tree = ast.parse(ROOT.joinpath("benchmarks", *name.split(".")).with_suffix(".py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = getattr(module, node.value.id, None)
            if isinstance(owner, ModuleType) and owner.__name__.startswith("maxmargin"):
                assert hasattr(owner, node.attr), f"line {node.lineno}: {owner.__name__} has no {node.attr}"


def test_registered_benchmarks_exist():
    assert {one.split()[0] for one in BENCHMARKS} <= set(NAMES)
