"""The certified regularization path: for every lambda, weights that are provably within epsilon of the optimum.

The objective at fixed weights is an affine function of lambda, and the optimum is a concave one that is never negative. So
weights that are good at one lambda are good nearby, and bounds at two values of lambda bound the optimum in between: finitely
many solves cover all of them.
"""

from maxmargin.path.result import Segment, TracedPath
from maxmargin.path.tracing import trace_path

__all__ = ["Segment", "TracedPath", "trace_path"]
