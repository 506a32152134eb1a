"""Reading svmlight/LETOR files, against scikit-learn.

The files are made for the run and thrown away after it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import exponent, markdown, write_report
from sklearn.datasets import load_svmlight_file

from maxmargin.io import load_svmlight

FEATURES, LIST = 46, 20
# What is written for a value: LETOR's six places, and what scikit-learn's writer gives.
STYLES = {"LETOR, 6 places": "%.6f", "16 digits": "%.16g"}


def write_letor(path: Path, megabytes: float, style: str, seed: int = 0) -> None:
    """Dense lists of 20 documents with 46 features, four in ten of them zero, and a comment."""
    rng = np.random.default_rng(seed)
    line = "%d qid:%d " + " ".join(f"{k}:{style}" for k in range(1, FEATURES + 1)) + " #docid = GX%03d-%02d-%07d inc = 1\n"
    with open(path, "w") as file:
        query = 0
        while file.tell() < megabytes * 1e6:
            for _ in range(50):
                values = rng.random((LIST, FEATURES)) * (rng.random((LIST, FEATURES)) < 0.6)
                grades = rng.integers(0, 3, LIST)
                names = rng.integers(0, [1000, 100, 10**7], (LIST, 3))
                file.writelines(line % (g, query, *v, *n) for g, v, n in zip(grades, values, names, strict=True))
                query += 1


def check_equal(path: Path) -> None:
    ours = load_svmlight(path)
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    same = all(np.array_equal(getattr(ours.X, part), getattr(X, part)) for part in ("data", "indices", "indptr"))
    if not (same and np.array_equal(ours.y, y) and np.array_equal(np.array(ours.query_names)[ours.qid], qid)):
        raise AssertionError("the readers do not agree")


def seconds(tasks, repeats):
    """Smallest wall and processor seconds of each task; tasks take turns, so that a slow spell hits all of them."""
    best = {name: [np.inf, np.inf] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            wall, used = time.perf_counter(), time.process_time()
            task()
            now = [time.perf_counter() - wall, time.process_time() - used]
            best[name] = np.minimum(best[name], now).tolist()
    return best


def peak_of(reader: str, path: Path) -> tuple[float, float]:
    """Megabytes that reading adds to a fresh process at its peak, and those of the result."""
    code = f"""
import sys
from pathlib import Path
from sklearn.datasets import load_svmlight_file
from maxmargin.io import load_svmlight
path = Path(sys.argv[1])
def ours(): data = load_svmlight(path); return data.X, data.y, data.qid
def peer(): return load_svmlight_file(str(path), query_id=True)
load_svmlight(b"1 qid:1 1:1\\n")  # loads what is loaded on first use
# Not getrusage, which starts from the peak of the parent process.
def peak(): return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024 / 1e6
before = peak()
X, y, qid = {reader}()
print(peak() - before, sum(a.nbytes for a in (X.data, X.indices, X.indptr, y, qid)) / 1e6)
"""
    out = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True).stdout
    peak, result = map(float, out.split())
    return peak, result


def compare(folder: Path, megabytes: float, title: str, repeats: int):
    path = folder / "data.txt"
    write_letor(path, megabytes, STYLES[title])
    size = path.stat().st_size / 1e6
    check_equal(path)
    tasks = {"ours": lambda: load_svmlight(path), "one": lambda: load_svmlight(path, n_threads=1)}
    times = seconds(tasks | {"peer": lambda: load_svmlight_file(str(path), query_id=True)}, repeats)
    peaks = {name: peak_of(name, path) for name in ("ours", "peer")}
    path.unlink()
    ours, one, peer = times["ours"], times["one"], times["peer"]
    row = [
        f"{title}, {size:.0f} MB",
        f"{size / ours[0]:.0f} MB/s",
        f"{peer[0] / ours[0]:.1f}",
        f"{peer[1] / one[1]:.1f}",
        f"{peaks['ours'][0] / peaks['ours'][1]:.2f}",
        f"{peaks['peer'][0] / peaks['peer'][1]:.2f}",
    ]
    print(row, flush=True)
    return row, size, one[1]


def huge(folder: Path, megabytes: float) -> str:
    """A file as large as they come, read once by each; it repeats itself, queries and all."""
    path, piece = folder / "huge.txt", folder / "piece.txt"
    write_letor(piece, megabytes / 20, STYLES["LETOR, 6 places"])
    text = piece.read_bytes()
    with open(path, "wb") as file:
        for _ in range(20):
            file.write(text)
    size = path.stat().st_size / 1e6
    found: dict[str, tuple[object, float]] = {}
    for name, read in (
        ("ours", lambda: load_svmlight(path, split_queries="keep")),
        # With queries it copies all of them at every line, which takes ten minutes for such a file.
        ("peer", lambda: load_svmlight_file(str(path))),
    ):
        start = time.perf_counter()
        found[name] = read(), time.perf_counter() - start
    (ours, seconds), ((X, y), others) = found["ours"], found["peer"]
    same = all(np.array_equal(getattr(ours.X, part), getattr(X, part)) for part in ("data", "indices", "indptr"))
    if not (same and np.array_equal(ours.y, y) and np.array_equal(ours.qid, np.tile(load_svmlight(piece).qid, 20))):
        raise AssertionError("the readers do not agree")
    path.unlink()
    return (
        f"A file of {size:,.0f} MB, read once by each: {size / seconds:.0f} MB/s against {size / others:.0f} MB/s, "
        f"{others / seconds:.1f} times as fast (wall time, all cores), and the same arrays. Here scikit-learn leaves out the "
        "queries, which it would copy at every line."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200, help="size of the largest file")
    parser.add_argument("--repeats", type=int, default=4, help="timings per entry; the best counts")
    parser.add_argument("--huge", type=float, default=1000, help="size of one more file that is read only once")
    options = parser.parse_args()
    rows, slopes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for title in STYLES:
            shares = (16, 4, 1) if title == "LETOR, 6 places" else (16, 4)
            parts = [compare(Path(folder), options.megabytes / k, title, options.repeats) for k in shares]
            rows += [row for row, _, _ in parts]
            slopes.append(f"{title}: {exponent([size for _, size, _ in parts], [used for _, _, used in parts]):.2f}")
        largest = huge(Path(folder), options.huge)
        print(largest)
    header = [
        "file",
        "ours, all cores",
        "scikit-learn / ours, wall",
        "scikit-learn / ours on one thread, processor",
        "peak memory / result, ours",
        "peak memory / result, scikit-learn",
    ]
    text = (
        f"`load_svmlight` against `sklearn.datasets.load_svmlight_file` in the same run; files with {FEATURES} features per "
        "line, queries and comments. Both give the same arrays, bit for bit. Wall time with all cores, processor time (user and "
        "system) with one thread; files are in the system's cache. Peak memory is what reading adds to the resident memory "
        "of a fresh process (Linux), over the bytes of the arrays returned. The two take turns; the best of "
        f"{options.repeats} counts."
    )
    growth = "Exponent of our processor time over the size of the file, one thread: " + "; ".join(slopes) + "."
    path = FOLDER / "results" / "reader.md"
    write_report(path, "Reading svmlight files", [text, markdown(header, rows), growth, largest])


if __name__ == "__main__":
    main()
