"""Images in, images out: depth from two views, holes filled in, regions found, by energies of labelings.

Needs scikit-image (``pip install 'maxmargin[vision]'``).
"""

from maxmargin.pictures.images import ImageError, read_image, read_mask, read_seeds, side_by_side, write_image
from maxmargin.pictures.inpainting import inpaint, inpainting_energy
from maxmargin.pictures.segmentation import segment, segmentation_energy
from maxmargin.pictures.stereo import stereo, stereo_energy
from maxmargin.pictures.superpixels import superpixels

__all__ = [
    "ImageError",
    "inpaint",
    "inpainting_energy",
    "read_image",
    "read_mask",
    "read_seeds",
    "segment",
    "segmentation_energy",
    "side_by_side",
    "stereo",
    "stereo_energy",
    "superpixels",
    "write_image",
]
