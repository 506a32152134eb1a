"""Compare the speed of two commits of this repository. ``python -m benchmarks.compare_commits OLD NEW``.

Each commit gets a worktree and a build of its own in build/compare, which later runs use again; ``--clean`` removes them. Each
repeat starts a process for each commit, which runs benchmarks/workloads.py of the present tree with one thread. The two take
turns at every workload, and the order changes from repeat to repeat. The exit status is 1 if a workload is slower, has other
counts or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.timing import markdown
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "compare"
# A workload is slower if the new median is this many times the old one, and above all times of the old commit.
LIMIT = 1.1
HEADER = ["workload", "old CPU, ms", "new CPU, ms", "new / old", "old CPU, min to max", "slower"]
HEADER += ["old wall, ms", "new wall, ms", "new / old", "counts equal"]
Replies = list[dict[str, Any]]


def git(*arguments: str) -> str:
    """Output of a command of git; it says itself what is wrong."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)} failed")
    return done.stdout.strip()


def build(commit: str) -> Path:
    """The folder that this commit is installed in, apart from the packages of the environment."""
    tree, partial, site = (FOLDER / commit / name for name in ("tree", "partial", "site"))
    if site.is_dir():
        return site
    print(f"building {commit} ...", file=sys.stderr, flush=True)
    # What is left of an interrupted run may not be complete.
    shutil.rmtree(partial, ignore_errors=True)
    if tree.is_dir():
        git("worktree", "remove", "--force", "--force", str(tree))
    git("worktree", "add", "--quiet", "--force", "--detach", str(tree), commit)
    options = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--target", str(partial)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(tree)], check=True, stdout=sys.stderr)
    return partial.rename(site)


def clean() -> None:
    """Remove the worktrees and the builds of all commits."""
    for tree in FOLDER.glob("*/tree"):
        git("worktree", "remove", "--force", "--force", str(tree))
    shutil.rmtree(FOLDER, ignore_errors=True)


def start(site: Path) -> subprocess.Popen[str]:
    """A process that answers names of workloads with their measurements, by the build of a commit."""
    packages = dict.fromkeys([str(site), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    threads = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], "1")
    environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(packages)}
    # -S ignores .pth files, so that the hook of an editable install does not find maxmargin first; -P ignores the folder of the
    # script, whose modules have names of other packages.
    command = [sys.executable, "-S", "-P", str(ROOT / "benchmarks" / "workloads.py"), str(site)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ask(process: Any, name: str) -> dict[str, Any]:
    """What a process measures; if it ends, so does the comparison."""
    try:
        print(name, file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())
    except (BrokenPipeError, json.JSONDecodeError):
        raise SystemExit(f"{name}: the process ended with status {process.wait()}: {' '.join(process.args)}") from None


def measure(sites: list[Path], names: list[str], repeats: int) -> dict[str, tuple[Replies, Replies]]:
    """For every workload the measurements of the old and of the new commit, one for each repeat."""
    replies: dict[str, tuple[Replies, Replies]] = {name: ([], []) for name in names}
    for repeat in range(repeats):
        processes = [start(site) for site in sites]
        try:
            for name in names:
                for side in (0, 1) if repeat % 2 == 0 else (1, 0):
                    replies[name][side].append(ask(processes[side], name))
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return replies


def different_counts(old: Replies, new: Replies) -> list[str]:
    """Counts that both commits have, but not the same in all runs."""
    wrong = []
    for key in [key for key in old[0]["counts"] if key in new[0]["counts"]]:
        before, after = ({reply["counts"][key] for reply in side} for side in (old, new))
        if len(before | after) > 1:
            wrong.append(f"{key} {sorted(before)} became {sorted(after)}")
    return wrong


def compare(old: Replies, new: Replies) -> tuple[list[str], list[str]]:
    """The columns after the name of a workload, and what is wrong with it."""
    errors = [f"{side}: {reply['error']}" for side, found in (("old", old), ("new", new)) for reply in found if "error" in reply]
    if errors:
        return ["failed", *[""] * (len(HEADER) - 2)], list(dict.fromkeys(errors))
    cpu, wall = ([median(reply[clock] for reply in side) for side in (old, new)] for clock in ("cpu", "wall"))
    spread = [pick(reply["cpu"] for reply in old) for pick in (min, max)]
    slower = cpu[1] > LIMIT * cpu[0] and cpu[1] > spread[1]
    wrong = different_counts(old, new)
    row = [*map(ms, cpu), f"{cpu[1] / cpu[0]:.2f}", " to ".join(map(ms, spread)), "**slower**" if slower else ""]
    row += [*map(ms, wall), f"{wall[1] / wall[0]:.2f}", "**no**" if wrong else "yes"]
    return row, wrong + [f"{cpu[1] / cpu[0]:.2f} times the processor time"] * slower


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


def report(commits: list[str], names: list[str], repeats: int) -> bool:
    """Measure, print the table and what is wrong; whether all is well."""
    rows, wrong = [], []
    for name, sides in measure([build(commit) for commit in commits], names, repeats).items():
        row, found = compare(*sides)
        rows.append([name, *row])
        wrong += [f"- {name}: {text}" for text in found]
    print(f"{commits[0]} (old) and {commits[1]} (new), {repeats} repeats, one thread\n\n{markdown(HEADER, rows)}")
    print("\n".join(["", *wrong]))
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the speed of two commits.")
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="the old and the new one: hashes, branches or tags")
    parser.add_argument("--repeats", type=int, default=7, help="processes per commit; medians of their times are compared")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[""], help="workloads whose names contain one of these")
    parser.add_argument("--clean", action="store_true", help="remove all worktrees and builds at the end; works without commits")
    options = parser.parse_args()
    if len(options.commits) != 2 and not (options.clean and not options.commits):
        parser.error("name two commits, OLD and NEW, before the options")
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats} must be at least 1")
    names = [name for name in WORKLOADS if any(part.lower() in name.lower() for part in options.only)]
    if not names:
        parser.error(f"no workload has a name with {' or '.join(options.only)}; there are: {'; '.join(WORKLOADS)}")
    for name in [name for name in names if any(find_spec(package) is None for package in WORKLOADS[name][0])]:
        print(f"{name}: skipped, needs {', '.join(WORKLOADS[name][0])}", file=sys.stderr)
        names.remove(name)
    fine = True
    if options.commits:
        commits = [git("rev-parse", "--short=10", "--verify", f"{commit}^{{commit}}") for commit in options.commits]
        fine = report(commits, names, options.repeats)
    if options.clean:
        clean()
    raise SystemExit(not fine)


if __name__ == "__main__":
    main()
