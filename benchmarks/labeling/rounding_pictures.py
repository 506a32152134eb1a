"""Energies from pictures and from the UAI competition that roundings are compared on."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import numpy as np
from benchmarks.datasets import find

from maxmargin.labeling import Energy, FractionalLabeling, read_uai, relax
from maxmargin.vision import inpainting_energy, read_image, read_mask

GREY_VALUES = 8
# Costs of inpainting are squares of grey values; at temperature 1 their min-marginals are all or nothing.
TEMPERATURE = 500.0


def uai_energies() -> dict[str, Energy]:
    """All instances by name, in its order."""
    with (
        zipfile.ZipFile(find("uai_grids_segmentation", "uai_grids_segmentation.zip")) as archive,
        tempfile.TemporaryDirectory() as folder,
    ):
        names = sorted(name for name in archive.namelist() if name.endswith(".uai"))
        return {Path(name).stem: read_uai(archive.extract(name, folder)) for name in names}


def uai_group(name: str, energy: Energy) -> str:
    """Instances of about the same energies: a family, and for grids the number of nodes."""
    family = name.split("_")[0]
    return f"Grids, {energy.n_nodes} nodes" if family == "Grids" else family


def house(n_levels: int = GREY_VALUES) -> Energy:
    """The whole inpainting energy of house, without regions."""
    image = read_image(find("inpaint_house", "house_damaged.png"), grey=True)
    return inpainting_energy(image, read_mask(find("inpaint_house", "house_mask.png")), n_levels)


def house_parts(n: int, side: int, rng: np.random.Generator, n_levels: int = GREY_VALUES) -> list[Energy]:
    """Parts of house at random places of which 30 to 80 % are known, as energies of their own."""
    image = read_image(find("inpaint_house", "house_damaged.png"), grey=True)
    mask = read_mask(find("inpaint_house", "house_mask.png"))
    found: list[Energy] = []
    while len(found) < n:
        top, left = (int(rng.integers(size - side + 1)) for size in mask.shape)
        place = slice(top, top + side), slice(left, left + side)
        if 0.3 <= mask[place].mean() <= 0.8:
            found.append(inpainting_energy(image[place], mask[place], n_levels))
    return found


def relaxed_picture(energy: Energy, source: str) -> FractionalLabeling:
    """A fractional solution of an inpainting energy."""
    return relax(energy, source, **({"temperature": TEMPERATURE} if source == "trws" else {}))
