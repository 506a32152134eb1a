"""Images in, images out: stereo, inpainting, segmentation, superpixels, by energies of labelings.

Needs scikit-image (``pip install 'maxmargin[vision]'``).
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.vision.images import ImageError as ImageError
    from maxmargin.vision.images import check_figure_name, format_of
    from maxmargin.vision.images import read_image as read_image
    from maxmargin.vision.images import read_mask as read_mask
    from maxmargin.vision.images import read_seeds as read_seeds
    from maxmargin.vision.images import side_by_side as side_by_side
    from maxmargin.vision.images import write_image as write_image
    from maxmargin.vision.inpainting import inpaint as inpaint
    from maxmargin.vision.inpainting import inpainting_energy as inpainting_energy
    from maxmargin.vision.mean_shift import superpixels as superpixels
    from maxmargin.vision.segmentation import segment as segment
    from maxmargin.vision.segmentation import segmentation_energy as segmentation_energy
    from maxmargin.vision.stereo_matching import stereo as stereo
    from maxmargin.vision.stereo_matching import stereo_energy as stereo_energy
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
