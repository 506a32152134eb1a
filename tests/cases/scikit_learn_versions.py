"""What versions of scikit-learn that the package allows cannot do."""

import pytest
import sklearn
from packaging.version import Version

needs_1_9 = pytest.mark.skipif(
    Version(sklearn.__version__) < Version("1.9.dev0"),
    reason="scikit-learn before 1.9 scores only classifiers by name, and passes no metadata to scores of pipelines",
)
