"""Sizes of the source tree: ``make shape``."""

from __future__ import annotations

import ast
import inspect
import io
import re
import subprocess
import tokenize
from pathlib import Path

from maxmargin._api import NAMES, find, public_names

ROOT = Path(__file__).resolve().parents[1]
COMPLEX = 15
_BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp)
_SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def files(*folders: str) -> list[Path]:
    """Source files that git knows below some folders."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", *folders], capture_output=True, text=True, check=True).stdout
    endings = (".py", ".pyi", ".js", ".css", ".html", ".hpp", ".cpp")
    return [ROOT / name for name in listed.splitlines() if name.endswith(endings) and (ROOT / name).exists()]


def n_lines(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def code_lines(path: Path) -> int:
    """Lines without docstrings, comments, imports and blank lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".hpp", ".cpp"):
        lines = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).splitlines()
        return sum(bool(line.strip()) and not line.strip().startswith(("//", "#include", "#pragma")) for line in lines)
    if path.suffix != ".py":
        return sum(bool(line.strip()) for line in text.splitlines())
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found -= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            found -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(found)


def complexity(function: ast.AST) -> int:
    """Cyclomatic complexity: one more than the number of branches."""
    total = 1
    for node in ast.walk(function):
        total += isinstance(node, _BRANCHES)
        total += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        total += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return total


def most_parameters() -> tuple[int, str]:
    """The public class of maxmargin whose constructor has the most parameters."""
    classes = [cls for name in public_names("") if inspect.isclass(cls := find(name)) and not issubclass(cls, Exception)]
    return max((len(inspect.signature(cls).parameters), cls.__name__) for cls in classes)


def main() -> None:
    source, python = files("src", "cpp"), [path for path in files("src") if path.suffix == ".py"]
    functions = [
        (complexity(node), f"{path.relative_to(ROOT)}:{node.name}")
        for path in python
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    table = {
        "lines of src + cpp": n_lines(source),
        "of these code": sum(map(code_lines, source)),
        "lines of tests": n_lines(files("tests")),
        "lines of benchmarks": n_lines(files("benchmarks")),
        "Python files": len(python),
        f"functions of complexity > {COMPLEX} (Python)": sum(size > COMPLEX for size, _ in functions),
        "most complex function": max(functions),
        "public names": len({name for package in NAMES for name in public_names(package)}),
        "most parameters of a constructor": most_parameters(),
    }
    for name, value in table.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
