"""Which packages and modules run in five use cases: ``make call-paths``.

Each case runs twice in a process of its own. The second run is profiled: a module counts if one of its functions is called, and
modules beside the packages count as one package. `loaded` counts all modules of maxmargin that were imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import maxmargin

ROOT = Path(maxmargin.__file__).parent
# Most packages, modules that run, and modules loaded. tests/test_call_paths.py fails when a use case exceeds them: lower them
# when you can, and raise one only for a reason that the commit names.
LIMITS: dict[str, tuple[int, int, int]] = {
    "LETOR file to model": (6, 39, 85),
    "ChainSVM.fit": (4, 21, 59),
    "RankingClassifier.fit": (5, 25, 87),
    "maxmargin stereo": (4, 21, 40),
    "Dask fit": (7, 42, 114),
}


class CallPath(NamedTuple):
    """Names of packages and modules whose functions were called, and of all modules that were loaded."""

    packages: list[str]
    modules: list[str]
    loaded: list[str]


def command(*arguments: str) -> None:
    from maxmargin.cli.main import main

    main(list(arguments), standalone_mode=False)


def letor(folder: Path) -> Callable[[], None]:
    file = folder / "train.letor"
    rows = (f"{(7 * k) % 3} qid:{k // 10} 1:{(3 * k) % 11} 2:{(5 * k) % 7}\n" for k in range(100))
    file.write_text("".join(rows))
    return lambda: command("train", str(file), "--loss", "ap", "--C", "0.01", "--model", str(folder / "ranker.model"))


def chains(folder: Path) -> Callable[[], None]:
    import numpy as np

    X = [np.arange(12.0).reshape(4, 3) % (k + 2) for k in range(8)]
    y = [(np.arange(4) + k) % 3 for k in range(8)]

    def fit() -> None:
        from maxmargin import ChainSVM

        ChainSVM(C=0.1).fit(X, y)

    return fit


def rare(folder: Path) -> Callable[[], None]:
    import numpy as np

    X = (np.arange(1200.0).reshape(300, 4) * 7919) % 101
    y = X[:, 0] + X[:, 1] % 13 > 96

    def fit() -> None:
        from maxmargin import RankingClassifier

        RankingClassifier().fit(X, y)

    return fit


def stereo(folder: Path) -> Callable[[], None]:
    import numpy as np
    from PIL import Image

    right = (np.arange(600).reshape(20, 30) * 37 % 251).astype(np.uint8)
    for name, image in (("left", np.roll(right, 2, axis=1)), ("right", right)):
        Image.fromarray(image).save(folder / f"{name}.png")
    files = str(folder / "left.png"), str(folder / "right.png")
    return lambda: command("stereo", *files, "--disparities", "4", "-o", str(folder / "depth.png"))


def dask(folder: Path) -> Callable[[], None]:
    import dask.array as da
    import numpy as np
    from distributed import Client

    client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)
    X = (np.arange(800.0).reshape(200, 4) * 7919) % 101
    y = (X[:, 0] > 60).astype(int)

    def fit() -> None:
        from maxmargin.dask import DaskRankingSVM

        DaskRankingSVM("ap", C=0.01, client=client).fit(da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=100))

    return fit


CASES: dict[str, Callable[[Path], Callable[[], None]]] = dict(zip(LIMITS, (letor, chains, rare, stereo, dask), strict=True))


def profiled(work: Callable[[], None]) -> CallPath:
    """Run the work twice and record the second run."""
    work()
    files: set[str] = set()

    def record(frame, event, argument):
        if event == "call":
            files.add(frame.f_code.co_filename)

    threading.setprofile_all_threads(record) if sys.version_info >= (3, 12) else threading.setprofile(record)
    sys.setprofile(record)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    own = [Path(file).relative_to(ROOT) for file in files if file.startswith(str(ROOT))]
    modules = sorted(".".join(path.with_suffix("").parts) for path in own if path.name not in ("__init__.py", "_api.py"))
    loaded = sorted(name.partition(".")[2] for name in sys.modules if name.startswith("maxmargin."))
    return CallPath(sorted({name.rpartition(".")[0].partition(".")[0] for name in modules}), modules, loaded)


def measure(case: str) -> CallPath:
    """The call path of a use case, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "tests.call_paths", case], capture_output=True, text=True, cwd=ROOT.parents[1])
    if done.returncode:
        raise RuntimeError(done.stderr)
    return CallPath(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            found = profiled(CASES[sys.argv[1]](Path(folder)))
        print(json.dumps(found), flush=True)
        return
    for case in CASES:
        found = measure(case)
        print(f"{case}: {len(found.packages)} packages, {len(found.modules)} modules, {len(found.loaded)} loaded")
        for package in found.packages:
            own = [name.partition(".")[2] for name in found.modules if name.startswith(f"{package}.")]
            print(f"    {package or 'maxmargin'}: {', '.join(own)}")


if __name__ == "__main__":
    main()
