"""Training with hidden parts, by rounds of imputation and convex problems."""

from maxmargin.latent.cccp import Descent, concave_convex

__all__ = ["Descent", "concave_convex"]
