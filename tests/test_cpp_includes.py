"""Includes of C++ files follow the layers of the architecture, as imports of Python packages do."""

import re
from pathlib import Path

CPP = Path(__file__).resolve().parents[1] / "cpp"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Lowest first. A file includes files of its own directory and of lower layers; directories of one layer are independent.
LAYERS = (
    {"numeric"},
    {"python"},
    {"io"},
    {"core"},
    {"surrogates"},
    {"labeling"},
    {"ranking", "multiclass", "sequences", "multilabel", "hierarchy", "parsing"},
    {"vision", "registration"},
    {""},  # module.cpp
)
HEIGHT = {directory: height for height, layer in enumerate(LAYERS) for directory in layer}


def directory_of(path: str) -> str:
    return path.rpartition("/")[0]


def is_allowed(path: str, included: str) -> bool:
    own, other = directory_of(path), directory_of(included)
    # The helpers in python/ use memory of numeric/, whose bindings use the helpers.
    if other == "python" and path.endswith("bindings.cpp"):
        return True
    return own == other or HEIGHT[other] < HEIGHT[own]


def find_violations(includes: dict[str, list[str]]) -> list[str]:
    """Check the includes of all files, whose paths begin below cpp/."""
    found = [f"{path}: directory without a layer" for path in includes if directory_of(path) not in HEIGHT]
    if found:
        return found
    for path, names in includes.items():
        for name in names:
            if name not in includes:
                found.append(f"{path}: {name} does not exist; name the path below cpp/")
            elif not is_allowed(path, name):
                found.append(f"{path}: {name} is in a higher layer or in another directory of the same layer")
    return found


def read_includes() -> dict[str, list[str]]:
    files = [path for path in sorted(CPP.rglob("*")) if path.is_file()]
    return {path.relative_to(CPP).as_posix(): INCLUDE.findall(path.read_text(encoding="utf-8")) for path in files}


def test_includes_follow_the_layers():
    includes = read_includes()
    assert {directory_of(path) for path in includes} == HEIGHT.keys()
    assert find_violations(includes) == []


def test_forbidden_includes_are_found():
    kernels: dict[str, list[str]] = {"core/blocks.hpp": [], "ranking/list.hpp": ["core/blocks.hpp"], "python/arrays.hpp": []}
    assert find_violations(kernels | {"numeric/bindings.cpp": ["python/arrays.hpp"]}) == []
    upwards = find_violations(kernels | {"io/svmlight.hpp": ["core/blocks.hpp"], "numeric/sum.hpp": ["python/arrays.hpp"]})
    assert [line.split(":")[0] for line in upwards] == ["io/svmlight.hpp", "numeric/sum.hpp"]
    assert "same layer" in find_violations(kernels | {"parsing/eisner.hpp": ["ranking/list.hpp"]})[0]
    assert "does not exist" in find_violations(kernels | {"ranking/table.hpp": ["list.hpp"]})[0]
    assert "without a layer" in find_violations(kernels | {"blocks/sampler.hpp": []})[0]
