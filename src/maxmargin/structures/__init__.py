"""What outputs look like: features, losses and inference, without any data."""

from maxmargin.structures.latent import LatentClasses, LatentStructure

__all__ = ["LatentClasses", "LatentStructure"]
