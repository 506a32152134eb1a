"""The tests as other machines would run them: other BLAS kernels and vector units, loads, orders, and tests alone.

``python -m tests.processors`` runs the whole suite under every setting that this machine can run, and prints a table of what was
tried and what failed; ``--only NAME`` runs some of them, and arguments behind ``--`` are passed on to pytest.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITE = ["tests", "README.md", "docs", "src/maxmargin"]
AVAILABLE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
CORES, FIRST_CORE = len(AVAILABLE), str(AVAILABLE[0])
# What a processor must have for a kernel of OpenBLAS.
KERNELS = {"Prescott": "pni", "Nehalem": "sse4_2", "Sandybridge": "avx", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512f"}


def numpy_features() -> str:
    """All that numpy dispatches on here, in the names of this version of numpy."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])


NUMPY_PLAIN = {"NPY_DISABLE_CPU_FEATURES": numpy_features()}
TORCH_PLAIN = {"ATEN_CPU_CAPABILITY": "default"}
# Exponentials and logarithms of the C library have other last digits without fused multiplications.
LIBM_PLAIN = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"}
OWN_PLAIN = {"MAXMARGIN_CPU_CAPABILITY": "default"}


@dataclass(frozen=True)
class Setting:
    """Environment, number of processes, order of the tests, and one core or all."""

    kernel: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    processes: int = CORES
    seed: int | None = None
    one_core: bool = False

    def command(self, more: list[str]) -> list[str]:
        """The tests under this setting."""
        order = [] if self.seed is None else ["--random-order", f"--random-order-seed={self.seed}"]
        pinned = ["taskset", "-c", FIRST_CORE] if self.one_core else []
        return [*pinned, *pytest(), "-n", str(self.processes), *order, *(more or SUITE)]

    @property
    def variables(self) -> dict[str, str]:
        """Environment of the tests; one thread of BLAS and OpenMP each, as in `make test`."""
        kernel = {} if self.kernel is None else {"OPENBLAS_CORETYPE": self.kernel}
        return {**os.environ, "OMP_NUM_THREADS": "1", **kernel, **self.environment}


# Kernels are combined with the other conditions, so that all are tried in six runs of the suite.
SETTINGS = {
    "no vector units": Setting("Prescott", {**NUMPY_PLAIN, **TORCH_PLAIN, **LIBM_PLAIN, **OWN_PLAIN}),
    "random order": Setting("Nehalem", seed=1),
    "plain numpy": Setting("Sandybridge", NUMPY_PLAIN),
    "three processes per core": Setting("Haswell", processes=3 * CORES),
    "plain torch, random order": Setting("Zen", TORCH_PLAIN, seed=2),
    "one core": Setting("SkylakeX", processes=1, one_core=True),
}
ALONE = "each alone"


def pytest() -> list[str]:
    """Without a cache, which runs at the same time would share."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]


def runnable(setting: Setting) -> Setting:
    """The setting, with the usual kernel of this machine where its own cannot run."""
    flags = Path("/proc/cpuinfo")
    known = flags.read_text(encoding="utf-8").split() if flags.exists() else []
    return setting if KERNELS.get(setting.kernel or "") in known else replace(setting, kernel=None)


def kernel_of(setting: Setting) -> str:
    """What OpenBLAS calls the kernel that it runs; a library may have one for several processors."""
    program = "import numpy, threadpoolctl; print(threadpoolctl.threadpool_info()[0].get('architecture'))"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=setting.variables).stdout.strip()


def describe(setting: Setting) -> str:
    """The setting in one cell of the table."""
    parts = [f"{f'OPENBLAS_CORETYPE={setting.kernel}' if setting.kernel else 'usual BLAS'} (kernel {kernel_of(setting)})"]
    parts += [f"{name}={value}" for name, value in setting.environment.items()]
    parts.append(f"taskset -c {FIRST_CORE}" if setting.one_core else f"{setting.processes} processes on {CORES} cores")
    return ", ".join(parts + ([] if setting.seed is None else [f"random order, seed {setting.seed}"]))


def run_suite(name: str, setting: Setting, more: list[str]) -> tuple[str, str, list[str]]:
    """Description, summary, and the tests that failed."""
    if setting.one_core and shutil.which("taskset") is None:
        return describe(setting), "skipped: there is no taskset", []
    began = time.monotonic()
    done = subprocess.run(
        setting.command(more), cwd=ROOT, env=setting.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    log = ROOT / "build" / "processors" / f"{name.replace(' ', '-').replace(',', '')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(done.stdout, encoding="utf-8")
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not failed:
        failed = [f"exit code {done.returncode}, see {log.relative_to(ROOT)}"]
    return describe(setting), f"{lines[-1] if lines else ''} ({time.monotonic() - began:.0f} s)", failed


def run_alone(count: int, seed: int, more: list[str]) -> tuple[str, str, list[str]]:
    """A sample of tests, each in a process of its own."""
    command = [*pytest(), "--collect-only", *(more or SUITE)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    tests = [line for line in listed if "::" in line]
    sample = random.Random(seed).sample(tests, min(count, len(tests)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def one(test: str) -> str:
        done = subprocess.run([*pytest(), test], cwd=ROOT, env=environment, capture_output=True, text=True)
        # Nothing but skipped tests in a module is no failure.
        return "" if done.returncode in (0, 5) else f"FAILED {test}\n{done.stdout[-2000:]}"

    with ThreadPoolExecutor(CORES) as pool:
        failed = list(filter(None, pool.map(one, sample)))
    what = f"{len(sample)} of {len(tests)} tests, seed {seed}"
    return what, f"{len(failed)} failed, {len(sample) - len(failed)} passed", failed


def main() -> int:
    """Run the settings, print the table; 0 if nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SETTINGS, ALONE]
    parser.add_argument("--only", action="append", choices=names, help="a setting; may be given several times")
    parser.add_argument("--sample", type=int, default=200, help="how many tests are run alone")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("tests", nargs="*", help="behind --: what is passed on to pytest, all tests by default")
    options = parser.parse_args()
    table, wrong = ["| | setting | result |", "| --- | --- | --- |"], []
    for name in options.only or names:
        if name == ALONE:
            what, summary, failed = run_alone(options.sample, options.seed, options.tests)
        else:
            what, summary, failed = run_suite(name, runnable(SETTINGS[name]), options.tests)
        table.append(f"| {name} | {what} | {summary} |")
        wrong += [f"{name}: {line}" for line in failed]
        print(*itertools.chain(table[-1:], failed), sep="\n", flush=True)
    text = "\n".join([*table, "", *wrong, f"{len(wrong)} failed"])
    report = ROOT / "build" / "processors" / "table.md"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(text + "\n", encoding="utf-8")
    print("\n" + text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
