"""Sets of labels with scores for pairs."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.multilabel.inference import BestSets, LabelPairs, RelaxedSets
    from maxmargin.multilabel.label_set_oracle import LabelSetOracle
    from maxmargin.multilabel.label_set_searches import FoundSets, LabelSetSearches
    from maxmargin.multilabel.problem import MultilabelProblem
    from maxmargin.multilabel.readers import MultilabelData, load_multilabel, load_multilabel_svmlight, read_label_names
    from maxmargin.multilabel.structure import LabelSetStructure, RelaxedLabelSets
    from maxmargin.multilabel.svm import MultilabelSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
