"""Names of types: arrays, and what users hand in."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Booleans = NDArray[np.bool_]
# Of either precision; what kernels number samples with; booleans as kernels take them.
Reals = NDArray[np.floating[Any]]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]
# Hashes of 64 bits.
Keys = NDArray[np.uint64]

# Input `x` of a user's structure.
Input = Any
# Output `y` of a user's structure, the truth, or a hidden part of either.
Output = Any
# Joint feature of a user's structure: an array of shape (d,), or a sparse row of scipy.
JointFeature = Any
# Labels of samples or nodes, numbers or text.
Labels = NDArray[Any]
# Rows of features: an array or a sparse matrix, or a data frame where it has not been checked yet.
Matrix = Any
# Scores of a problem, linear in its weights, and gradients with respect to them: arrays, or handles of data on other machines.
Scores = Any
# Arrays of a file by name, of any dtype.
Arrays = dict[str, NDArray[Any]]
# `scoring(estimator, X, y, **params)`, of scikit-learn or of a user.
Scorer = Callable[..., float]
