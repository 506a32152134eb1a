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
    Mutant("cpp/blocks/weights.hpp", "std::min(largest, slope / (lambda * squared))", "largest", "test_block_engine.py"),
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
        self.build()

    def build(self) -> None:
        """The extension, as far as it has changed."""
        command = ["cmake", "--build", self.folder / "build", "--parallel"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
        assert done.returncode in (0, 1, 2), done.stdout[-2000:] + done.stderr[-2000:]
        return done.returncode == 0

    def notices(self, mutant: Mutant) -> bool:
        """Whether the tests fail with the wrong line, which is mended afterwards."""
        path = self.folder / mutant.file
        text = path.read_text()
        assert text.count(mutant.right) == 1, f"{mutant.file}: {mutant.right!r} is there {text.count(mutant.right)} times"
        path.write_text(text.replace(mutant.right, mutant.wrong))
        try:
            if path.suffix != ".py":
                self.build()
            return not self.passes(mutant.tests)
        finally:
            path.write_text(text)
            if path.suffix != ".py":
                self.build()


def main(words: list[str]) -> int:
    """Try all mutants, or those of files whose names contain a word given."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.file for word in words)]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for mutant in chosen:
            found = copy.notices(mutant)
            survivors += not found
            print(f"{'killed  ' if found else 'SURVIVED'}  {mutant.file}: {mutant.right!r} -> {mutant.wrong!r}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
