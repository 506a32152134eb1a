"""Pictures of docs/labelings.md, one for each method: ``python -m benchmarks.labeling.labeling_figures [method ...]``.

All scenes are samples of scikit-image or drawn here, so that nothing else is needed; they are small, and all of it takes
a minute.
"""

from __future__ import annotations

import argparse
from functools import cache

import numpy as np
from benchmarks import FOLDER
from benchmarks.montage import montage, save_small
from benchmarks.vision.pictures import mean_colours

from maxmargin.labeling import HST, Cliques, Diameter, Energy, PnPotts, minimize
from maxmargin.vision import segmentation_energy, stereo_energy, superpixels

IMAGES = FOLDER.parent / "docs" / "images"
N_DISPARITIES = 18


def show(method, pictures, columns=3, width=2.6, zoom=False):
    """One figure."""
    montage(pictures, IMAGES / f"labeling_{method}.png", columns, width, zoom)


@cache
def views():
    """A motorcycle from two places, every fourth pixel of the means of 4 x 4."""
    from skimage import data

    def smaller(image):
        height, width = (extent // 4 * 4 for extent in image.shape[:2])
        return image[:height, :width].astype(float).reshape(height // 4, 4, width // 4, 4, 3).mean(axis=(1, 3))

    left, right, _ = data.stereo_motorcycle()
    return smaller(left), smaller(right)


@cache
def motorcycle(regions=False):
    """Its energy: pixels of the same colour, neighbours and, if asked, regions of similar depth."""
    left, right = views()
    found = superpixels(left, min_size=15) if regions else None
    return stereo_energy(left, right, N_DISPARITIES, limit=4, cost_limit=60, smoothness=6.0, regions=found, region_scale=40.0)


def depth(labels):
    """From far to near as numbers from 0 to 1."""
    return labels / (N_DISPARITIES - 1)


def cheapest(energy):
    """The best label of every node by itself."""
    return energy.unary.argmin(axis=1).reshape(energy.shape)


def named(name, energy, labels):
    """A caption with an energy."""
    return f"{name}: {energy.energy(labels):,.0f}"


def mincut():
    """Coins on a dark ground."""
    from skimage import data

    image = data.coins()[70:, :320].astype(float)
    energy = segmentation_energy(image, 2, smoothness=15.0)
    alone, found = cheapest(energy), minimize(energy, "mincut")
    flip = image[found.labels == 0].mean() > image[found.labels == 1].mean()
    paint = {True: lambda labels: 255.0 * (1 - labels), False: lambda labels: 255.0 * labels}[bool(flip)]
    show(
        "mincut",
        {
            "image": image,
            named("grey values alone", energy, alone): paint(alone),
            named("the least energy", energy, found.labels): paint(found.labels),
        },
    )


def bp():
    """Every row of the motorcycle for itself, which is exact, and all of them."""
    energy = motorcycle()
    height, width = energy.shape
    rows = np.flatnonzero(np.abs(np.diff(energy.edges, axis=1)).ravel() == 1)
    chains = Energy(energy.unary, energy.edges[rows], energy.table, weights=energy.weights[rows])
    found = minimize(chains, "bp").labels.reshape(height, width)
    whole = minimize(energy, "expansion").labels
    show(
        "bp", {"left view": views()[0], "rows as chains, exact by bp": depth(found), "the whole grid by expansion": depth(whole)}
    )


def expansion():
    """Both kinds of moves."""
    energy = motorcycle()
    found = {method: minimize(energy, method).labels for method in ("swap", "expansion")}
    found = {"colours alone": cheapest(energy), **found}
    show("expansion", {named(name, energy, labels): depth(labels) for name, labels in found.items()})


def trws():
    """Labels, and how energy and bound approach each other."""
    from matplotlib.figure import Figure

    energy, seen = motorcycle(), []
    found = minimize(energy, "trws", max_sweeps=60, callback=lambda value, bound: seen.append((value, bound)))
    moves = minimize(energy, "expansion").energy
    figure = Figure(figsize=(7.8, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.3))
    left.imshow(depth(found.labels), vmin=0, vmax=1, interpolation="nearest")
    left.set_axis_off()
    left.set_title(f"TRW-S: {found.energy:,.0f}", fontsize=9)
    values, bounds = np.array(seen, dtype=float).T
    sweeps = np.arange(1, len(values) + 1)
    right.plot(sweeps, np.minimum.accumulate(values), label="least energy so far")
    right.plot(sweeps, bounds, label="no labels are below")
    right.axhline(moves, color="grey", linestyle=":", label="expansion moves")
    right.set_ylim(bounds[-1] - 0.3 * (values[2] - bounds[-1]), values[1])
    right.set_xlabel("sweeps", fontsize=8)
    right.tick_params(labelsize=7)
    right.legend(fontsize=8, frameon=False)
    for side in ("top", "right"):
        right.spines[side].set_visible(False)
    save_small(figure, IMAGES / "labeling_trws.png")


HEAVY = 10.0
FAMILIES = np.array(
    [
        [120, 190, 90],
        [150, 210, 110],
        [90, 160, 70],
        [180, 200, 100],
        [60, 120, 200],
        [90, 150, 220],
        [40, 90, 170],
        [110, 180, 230],
    ]
)


@cache
def families():
    """Greens and blues: a clique may mix the colours of one family cheaply, and both families at a price.

    Returns the energy, the true labels and what was seen.
    """
    rng = np.random.default_rng(3)
    rows, columns = np.indices((48, 64))
    water = (rows - 0.4 * columns + 6 * np.sin(columns / 7)) > 10
    patches = (rows // 12 + columns // 16) % 4
    truth = np.where(water, 4, 0) + patches
    seen = FAMILIES[truth] + rng.normal(0, 65, (48, 64, 3))
    costs = ((seen[:, :, None, :] - FAMILIES) ** 2).sum(axis=3) / 1000
    tree = HST([8] * 4 + [9] * 4 + [10, 10, -1], lengths=[0.5] * 8 + [4.0, 4.0, 0.0])
    cliques = Cliques.windows((48, 64), 4, Diameter(tree), 0.8)
    return Energy.grid(costs, "potts", weights=2.5, cliques=cliques), truth, seen


def painted(labels):
    """In the colours of the families."""
    return FAMILIES[labels].astype(float)


def hierarchical():
    """Windows that prefer one family of labels."""
    energy, truth, seen = families()
    potts = energy.replaced(cliques=[some.with_cost(PnPotts(9.0)) for some in energy.cliques])
    flat, found = minimize(potts, "expansion").labels, minimize(energy, "hierarchical").labels
    show(
        "hierarchical",
        {
            "seen": seen,
            named("all labels equally unlike", energy, flat): painted(flat),
            named("two families: hierarchical", energy, found): painted(found),
            named("truth", energy, truth): painted(truth),
        },
        4,
        2.2,
        True,
    )


def cooccurrence():
    """Where the moves start matters."""
    energy = families()[0]
    heavy = energy.replaced(cliques=[some.with_cost(some.cost, HEAVY) for some in energy.cliques])
    found = {
        "from the cheapest labels": minimize(heavy, "cooccurrence", init="unary").labels,
        "from one label": minimize(heavy, "cooccurrence", init="constant").labels,
        "hierarchical": minimize(heavy, "hierarchical").labels,
    }
    show("cooccurrence", {named(name, heavy, labels): painted(labels) for name, labels in found.items()}, 3, 2.6, True)


def parsimonious():
    """Regions of the motorcycle that prefer similar depths."""
    left, _ = views()
    energy = motorcycle(True)
    regions = superpixels(left, min_size=15)
    without = minimize(motorcycle(), "expansion").labels
    found = minimize(energy, "parsimonious", random_state=0, n_trees=3).labels
    show(
        "parsimonious",
        {
            "left view": left,
            "superpixels": mean_colours(left, regions),
            named("without regions", energy, without): depth(without),
            named("parsimonious", energy, found): depth(found),
        },
        4,
        2.3,
    )


def exhaustive():
    """Twelve pixels."""
    rng = np.random.default_rng(6)
    energy = Energy.grid(rng.uniform(0, 2, (3, 4, 2)), "potts", weights=0.4)
    alone, found = cheapest(energy), minimize(energy, "exhaustive").labels
    pictures = {"cheapest labels": alone, "the best of 4,096 labelings": found}
    show(
        "exhaustive",
        {f"{name}: {energy.energy(labels):.2f}": labels * 0.8 + 0.1 for name, labels in pictures.items()},
        2,
        2.2,
        True,
    )


FIGURES = {one.__name__: one for one in (mincut, bp, expansion, trws, hierarchical, parsimonious, cooccurrence, exhaustive)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=list(FIGURES))
    IMAGES.mkdir(exist_ok=True)
    for name in parser.parse_args().methods:
        FIGURES[name]()


if __name__ == "__main__":
    main()
