"""Ranking with neighbours: SVM, AP-SVM, HOB-SVM and HOAP-SVM on linked samples.

The real data are superpixels of horses; scikit-image makes them.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
import zipfile
from functools import cache

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.timing import markdown, write_report

from maxmargin import HighOrderRankingSVM
from maxmargin.core.solvers import ConvergenceWarning

METHODS = {"SVM": ("accuracy", False), "AP-SVM": ("ap", False), "HOB-SVM": ("accuracy", True), "HOAP-SVM": ("ap", True)}
# Values of C and eta that validation chooses from.
WEIGHTS, SHARES = (0.1, 1.0, 10.0, 100.0), (0.1, 1.0, 10.0)


def groups(n, rng):
    """Groups of 1 to 4 samples, 30 % of them positive; a tenth of the members draws its label anew; 2 of 10 features help."""
    sizes = rng.integers(1, 5, n)
    y = np.repeat(rng.random(n) < 0.3, sizes)
    y = np.where(rng.random(len(y)) < 0.1, rng.random(len(y)) < 0.3, y)
    X = rng.normal(size=(len(y), 10))
    X[:, :2] += np.where(y, 0.6, -0.6)[:, None]
    return X, y, {"groups": np.repeat(np.arange(n), sizes)}


@cache
def superpixels(split):
    """Of every image: features (mean and spread of colour, place), which ones are mostly horse, and which ones touch."""
    from skimage.color import rgb2lab
    from skimage.io import imread
    from skimage.segmentation import slic

    found = []
    with zipfile.ZipFile(find("weizmann_horses", "weizmann_horses.zip")) as archive:
        for name in sorted(name for name in archive.namelist() if name.startswith(f"{split}/image-")):
            image = imread(io.BytesIO(archive.read(name)))
            image = np.repeat(image[..., None], 3, axis=2) if image.ndim == 2 else image[..., :3]
            mask = imread(io.BytesIO(archive.read(name.replace("image-", "mask-")))) > 127
            _, segments = np.unique(slic(image, n_segments=60, compactness=10), return_inverse=True)
            segments = segments.reshape(mask.shape)
            count = np.bincount(segments.ravel())
            place = np.moveaxis(np.indices(mask.shape) / np.array(mask.shape)[:, None, None] - 0.5, 0, -1)
            pixels = np.concatenate([rgb2lab(image), place, mask[..., None]], axis=2).reshape(-1, 6)
            means = np.stack([np.bincount(segments.ravel(), column) / count for column in pixels.T], axis=1)
            squares = np.stack([np.bincount(segments.ravel(), column**2) / count for column in pixels.T[:3]], axis=1)
            v, h = means[:, 3], means[:, 4]
            spread = np.sqrt(np.maximum(squares - means[:, :3] ** 2, 0))
            X = np.column_stack([means[:, :5], spread, v * v, h * h, v * h, np.log(count)])
            touching = [segments[:, 1:], segments[:, :-1]], [segments[1:], segments[:-1]]
            pairs = np.concatenate([np.stack([one.ravel(), other.ravel()], axis=1) for one, other in touching])
            edges = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
            found.append((X, means[:, 5] > 0.5, edges))
    return found


def horses(split, images):
    """The superpixels of some images as one list."""
    parts = [superpixels(split)[k] for k in images]
    first = np.cumsum([0] + [len(y) for _, y, _ in parts])
    edges = np.concatenate([edges + begin for (_, _, edges), begin in zip(parts, first, strict=False)])
    return np.concatenate([X for X, _, _ in parts]), np.concatenate([y for _, y, _ in parts]), {"edges": edges}


def best_of(method, train, valid, weights, shares):
    """The model that is best on validation data, and the processor seconds of its fit."""
    loss, linked = METHODS[method]
    best = None
    for C in weights:
        for eta in shares if linked else (1.0,):
            start = time.process_time()
            model = HighOrderRankingSVM(loss, C, eta=eta, random_state=0).fit(*train[:2], **(train[2] if linked else {}))
            seconds = time.process_time() - start
            score = model.score(*valid[:2], **(valid[2] if linked else {}))
            if best is None or score > best[0]:
                best = score, model, seconds
    return best[1], best[2]


def compare(draw, seeds, weights=WEIGHTS, shares=SHARES):
    """Rows: AP of every seed on test data, the mean, the difference to AP-SVM, and the cost of a fit."""
    scores, seconds = {name: [] for name in METHODS}, {name: [] for name in METHODS}
    for seed in range(seeds):
        train, valid, test = draw(seed)
        for name, (_, linked) in METHODS.items():
            model, spent = best_of(name, train, valid, weights, shares)
            scores[name].append(model.score(*test[:2], **(test[2] if linked else {})))
            seconds[name].append(spent)
        print({name: f"{values[-1]:.3f}" for name, values in scores.items()}, flush=True)
    rows = []
    for name, values in scores.items():
        gain = np.subtract(values, scores["AP-SVM"])
        error = gain.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
        rows.append([
            name,
            f"{100 * np.mean(values):.1f}",
            " ".join(f"{100 * value:.0f}" for value in values),
            str(sum(value == max(row) for value, *row in zip(values, *scores.values(), strict=True))),
            "" if name == "AP-SVM" else f"{100 * gain.mean():+.1f} ± {100 * error:.1f}",
            f"{np.mean(seconds[name]):.3f} s",
            f"{np.mean(seconds[name]) / np.mean(seconds['AP-SVM']):.1f}",
        ])  # fmt: skip
    return markdown(["method", "mean AP", "by seed", "best of all", "minus AP-SVM", "fit", "fit / AP-SVM"], rows)


def synthetic(size):
    """Training, validation and test data of a seed."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        return groups(size, rng), groups(size, rng), groups(500, rng)

    return draw


def horse_split(seed):
    """40 images to train on, 40 to validate, all 164 others to test."""
    order = np.random.default_rng(seed).permutation(164)
    return horses("train", order[:40]), horses("train", order[40:80]), horses("test", range(164))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--without-horses", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    text = (
        "AP on test data, in per cent. C is chosen from 0.1, 1, 10, 100 and eta from 0.1, 1, 10 on validation data; methods "
        "without neighbours have C only. *fit* is the processor time of the chosen fit; that of HOAP-SVM includes the two "
        "convex problems it begins with. *minus AP-SVM* has the standard error over the seeds."
    )
    sections = [text]
    for size in (60, 300):
        sections += [f"## Groups, {size} to train on", compare(synthetic(size), 2 * options.seeds)]
    if not options.without_horses:
        about = (
            "About 60 superpixels of each image, 12 features of colour and place, edges between those that touch, default "
            "features of edges. 40 images to train on, 40 to validate, the 164 images of the test split. Are "
            "superpixels of the horse ranked first?"
        )
        sections += ["## Horses", about, compare(horse_split, options.seeds, (0.1, 1.0, 10.0), (0.1, 1.0))]
    path = FOLDER / "results" / "high_order_ranking.md"
    write_report(path, "Ranking with neighbours", sections)


if __name__ == "__main__":
    main()
