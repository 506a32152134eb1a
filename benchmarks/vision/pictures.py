"""Stereo and inpainting of section 3.6.2 of Dokania's thesis: the same energy by every method, and what the pictures look like.

``python -m benchmarks.vision.pictures [tsukuba] [teddy] [house]``, with its parameters: regions are superpixels of mean shift.
Needs the images in MAXMARGIN_DATA.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.montage import montage
from benchmarks.timing import markdown, update_report

from maxmargin.labeling import minimize
from maxmargin.vision import inpainting_energy, read_image, read_mask, stereo_energy, superpixels
from maxmargin.vision.inpainting import levels

RESULTS = FOLDER / "results"
TEDDY = {"cost_limit": 16.0, "edge": 10.0, "edge_factor": 3.0, "limit": 1.0}
# Labels, grey values per disparity in the file of the truth, parameters, scales of the regions, random trees.
STEREO = {"tsukuba": (16, 16.0, {}, (1.0, 50.0), 10), "teddy": (60, 4.0, TEDDY, (1.0,), 0)}
# Grey values and random trees.
HOUSE = {64: 1, 256: 0}


def methods(energy, n_trees):
    """Labels and processor seconds by name. Those that start where another one ended include its time."""
    found = {}

    def run(name, task, before=0.0):
        start = time.process_time()
        result = task()
        found[name] = result, time.process_time() - start + before
        print(f"  {name}: {energy.energy(result.labels):,.0f}, {found[name][1]:.1f} s", flush=True)
        return result

    without = energy.replaced(cliques=())
    first = run("expansion, regions ignored", lambda: minimize(without, "expansion"))
    run("TRW-S, regions ignored", lambda: minimize(without, "trws", max_sweeps=30))
    run("co-occurrence, from the cheapest labels", lambda: minimize(energy, "cooccurrence", init="unary"))
    run("co-occurrence, from one label", lambda: minimize(energy, "cooccurrence", init="constant"))
    seconds = found["expansion, regions ignored"][1]
    run("co-occurrence, from expansion", lambda: minimize(energy, "cooccurrence", init=first.labels), seconds)
    trees = run(
        "trees alone", lambda: minimize(energy, "parsimonious", random_state=0, n_trees=n_trees, costs="tree", refine=False)
    )
    run("parsimonious", lambda: minimize(energy, "parsimonious", random_state=0, n_trees=n_trees))
    print(f"  energies of the trees: {np.array(trees.energies).round().tolist()}", flush=True)
    return found


def table(energy, found, quality, how):
    """Energies, with and without regions, seconds, and how far from the truth."""
    least = min(energy.energy(result.labels) for result, _ in found.values())
    rows = []
    for name, (result, seconds) in found.items():
        value, of_regions = energy.energy(result.labels), energy.parts(result.labels)[2]
        rows.append([name, f"{value:,.0f}", f"{100 * (value / least - 1):.2f} %", f"{of_regions:,.0f}", f"{seconds:.1f} s"])
        rows[-1].append(quality(result.labels))
    return markdown(["method", "energy", "above the least", "of it for regions", "time", how], rows)


def stereo(name):
    """One section, and one figure with the first and the last scale of regions."""
    n_labels, unit, parameters, scales, n_trees = STEREO[name]
    left, right = (read_image(find(f"stereo_{name}", f"{side}.png")) for side in ("left", "right"))
    truth = read_image(find(f"stereo_{name}", "disp_left.png"), grey=True) / unit
    known = truth > 0
    regions = superpixels(left)

    def wrong(labels):
        return f"{100 * (np.abs(labels - truth)[known] > 1).mean():.1f} %"

    shown = {"left": left, "superpixels of mean shift": mean_colours(left, regions), "truth": truth / (n_labels - 1)}
    sections = []
    for scale in scales:
        print(f"{name}, regions count {scale:g} times", flush=True)
        energy = stereo_energy(left, right, n_labels, regions=regions, region_scale=scale, **parameters)
        found = methods(energy, n_trees)
        trees = (
            f"{n_trees} random trees and that of complete linkage"
            if n_trees
            else "the tree of complete linkage, a star as all are"
        )
        sections += [
            f"Regions count {scale:g} times; {len(energy.cliques[0])} of them; {trees}.",
            table(energy, found, wrong, "wrong by more than 1"),
        ]
        names = ("expansion, regions ignored", "co-occurrence, from expansion", "parsimonious")
        for method in names[0 if scale == scales[0] else 1 :]:
            shown[f"{method}" + (f", x {scale:g}" if method != names[0] else "")] = found[method][0].labels / (n_labels - 1)
    montage({key: np.asarray(value) for key, value in shown.items()}, RESULTS / f"pictures_{name}.png", 4, 2.4)
    size = f"{left.shape[1]} x {left.shape[0]} pixels, {n_labels} labels."
    return "\n\n".join([f"## Stereo, {name}", size, *sections, f"![{name}](pictures_{name}.png)"])


def house():
    """One section for the grey values of the thesis and for fewer."""
    image = read_image(find("inpaint_house", "house_damaged.png"), grey=True)
    mask = read_mask(find("inpaint_house", "house_mask.png"))
    truth = read_image(find("inpaint_house", "house_ground_truth.png"), grey=True)
    regions = superpixels(image)
    shown, sections = {"damaged": image, "superpixels of mean shift": mean_colours(image, regions), "undamaged": truth}, []
    for n_levels, n_trees in HOUSE.items():
        print(f"house, {n_levels} grey values", flush=True)
        energy = inpainting_energy(image, mask, n_levels, regions=regions)
        found = methods(energy, n_trees)
        grey = levels(n_levels)

        def far(labels, grey=grey):
            error = np.abs(grey[labels] - truth)
            return f"{error[mask].mean():.2f}, {error[~mask].mean():.2f}"

        sections += [
            f"{n_levels} grey values; {len(energy.cliques[0])} regions; random trees ({n_trees}) and that of complete linkage.",
            table(energy, found, far, "mean error, known and missing"),
        ]
        for method in ("expansion, regions ignored", "TRW-S, regions ignored", "parsimonious"):
            shown[f"{method}, {n_levels}"] = grey[found[method][0].labels]
    montage(shown, RESULTS / "pictures_house.png", 3, 2.6)
    return "\n\n".join(["## Inpainting, house", "256 x 256 pixels.", *sections, "![house](pictures_house.png)"])


def mean_colours(pixels, regions):
    """Every pixel in the mean colour of its region."""
    flat, counts = regions.ravel(), np.bincount(regions.ravel())
    channels = pixels.reshape(flat.size, -1).T
    means = np.stack([np.bincount(flat, channel) / counts for channel in channels], axis=1)
    return means[flat].reshape(pixels.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", default=["tsukuba", "teddy", "house"])
    options = parser.parse_args()
    introduction = (
        "Energies with the parameters of the thesis; processor seconds of one thread. TRW-S: 30 sweeps. Trees alone: the best of "
        "the refitted trees before any move on the energy itself."
    )
    for scene in options.scenes:
        section = house() if scene == "house" else stereo(scene)
        update_report(RESULTS / "pictures.md", "Stereo and inpainting with superpixels", introduction, [section])


if __name__ == "__main__":
    main()
