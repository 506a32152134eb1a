"""Images in, images out: stereo, inpainting, segmentation, superpixels, by energies of labelings.

Needs scikit-image (``pip install 'maxmargin[vision]'``).
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.vision.images import (
        ImageError,
        check_figure_name,
        format_of,
        read_image,
        read_mask,
        read_seeds,
        side_by_side,
        write_image,
    )
    from maxmargin.vision.inpainting import inpaint, inpainting_energy
    from maxmargin.vision.mean_shift import superpixels
    from maxmargin.vision.segmentation import segment, segmentation_energy
    from maxmargin.vision.stereo_matching import stereo, stereo_energy
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
