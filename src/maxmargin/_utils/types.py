"""Names of array types."""

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
