"""Names and imports of packages: what import-linter cannot see through lazy names."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin
from maxmargin._api import NAMES, PACKAGES, names_of, public_names

ROOT = Path(maxmargin.__file__).parent
SOURCES = [path for path in sorted(ROOT.rglob("*.py")) if path.name not in ("_api.py", "__main__.py")]
# Packages within packages, which count as packages of their own.
INNER = {"core.solvers", "ranking.shards"}
# What packages must not import although the layers allow it: the reason is beside it.
FORBIDDEN = [
    ("distributed", "core.solvers", None),  # shards answer questions; clients choose the solver
    ("core", "io", {"arff", "columns", "encoding", "loading", "one_column", "parquet", "svmlight", "table"}),  # no file formats
]
needs_torch = pytest.param("nn", marks=pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch"))


def package_of(module):
    """The package of a module, both without ``maxmargin.``; modules beside packages belong to the root."""
    return next((name for name in INNER if module.startswith(f"{name}.") or module == name), module.partition(".")[0])


def is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(tree):
    """Modules of maxmargin and names that are imported from them, within functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "maxmargin":
            yield from ((node.module.partition(".")[2], alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name.partition(".")[2], None) for a in node.names if a.name.startswith("maxmargin."))


def faults(package, tree):
    """Imports that name a module inside another package, or something forbidden."""
    for module, name in imports_of(tree):
        other = package_of(module)
        if not module or module == "_api" or other == package:
            continue
        if module != other:
            yield f"{module} is inside another package; import {name} from maxmargin.{other}"
        elif name is not None and name not in names_of(module):
            yield f"{name} is not among the names that maxmargin.{module} offers in _api.py"
        for importer, imported, modules in FORBIDDEN:
            home = names_of(module).get(name) if module in NAMES else None
            if package_of(package) == importer and other == imported and (modules is None or home in modules):
                yield f"{importer} must not import {name} from {imported}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_packages_import_each_other_through_their_names(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert not list(faults(package_of(module), ast.parse(path.read_text())))


@pytest.mark.parametrize(
    "line",
    [
        "from maxmargin.core.cuts import Cut",
        "import maxmargin.core.cuts",
        "from maxmargin.core import NoSuchName",
        "from maxmargin.core.solvers import BCFW",
        "def f():\n    from maxmargin.core.solvers.bcfw import BCFW",
    ],
)
def test_bad_imports_are_found(line):
    assert list(faults("distributed", ast.parse(line)))


@pytest.mark.parametrize("package", [needs_torch if name == "nn" else name for name in NAMES])
def test_all_names_exist_where_the_table_says(package):
    owner = importlib.import_module(f"maxmargin.{package}".rstrip("."))
    for name, module in names_of(package).items():
        if module == "ray_engine" and not importlib.util.find_spec("ray"):
            continue
        parent = "maxmargin" if package in ("", "metrics") else owner.__name__
        assert getattr(owner, name) is getattr(importlib.import_module(f"{parent}.{module}"), name)
    needed = {"ray_engine": "ray", "dask_engine": "distributed"}
    missing = {name for name, module in names_of(package).items() if not importlib.util.find_spec(needed.get(module, "sys"))}
    assert set(public_names(package)) - missing == set(owner.__all__)


@pytest.mark.parametrize("package", NAMES)
def test_type_checkers_see_the_names_of_the_table(package):
    file = ROOT / "metrics.py" if package == "metrics" else ROOT.joinpath(*package.split("."), "__init__.py")
    checked = next(node for node in ast.parse(file.read_text()).body if is_type_checking(node))
    inside = "" if package in ("", "metrics") else f"{package}."
    found = {(module.removeprefix(inside), name) for module, name in imports_of(ast.Module(checked.body, []))}
    assert found == {(module, name) for name, module in names_of(package).items()}
    # Type checkers let users import what is imported under its own name.
    aliases = {a.asname for node in ast.walk(checked) if isinstance(node, ast.ImportFrom) for a in node.names if a.asname}
    assert aliases == set(public_names(package))


@pytest.mark.parametrize("package", NAMES)
def test_no_name_hides_a_module(package):
    """Python sets a module as an attribute of its package when it is imported; a name must not be replaced by it."""
    modules = {path.stem for path in ROOT.joinpath(*filter(None, package.split("."))).glob("*") if path.stem != "__init__"}
    assert modules.isdisjoint(names_of(package))


def test_every_package_is_in_the_table():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"metrics"} == PACKAGES


def test_packages_within_packages_are_attributes():
    assert maxmargin.core.solvers.BCFW is maxmargin.BCFW and {"solvers", "Cut"} <= set(dir(maxmargin.core))
    assert {"ranking", "cli", "RankingSVM"} <= set(dir(maxmargin))


def test_errors_say_where_a_name_is():
    with pytest.raises(AttributeError, match=r"'maxmargin\.core' has no attribute 'BCFW'; it is in maxmargin\.core\.solvers$"):
        maxmargin.core.BCFW  # noqa: B018


def test_a_star_does_not_need_packages_that_are_not_installed():
    code = "import sys; sys.modules['ray'] = None; from maxmargin.distributed import *; LocalEngine, DaskEngine"
    subprocess.run([sys.executable, "-c", code], check=True)
