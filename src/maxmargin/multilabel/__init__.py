"""Sets of labels with scores for pairs."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.multilabel.inference import BestSets as BestSets
    from maxmargin.multilabel.inference import LabelPairs as LabelPairs
    from maxmargin.multilabel.inference import RelaxedSets as RelaxedSets
    from maxmargin.multilabel.label_set_oracle import LabelSetOracle as LabelSetOracle
    from maxmargin.multilabel.label_set_searches import FoundSets as FoundSets
    from maxmargin.multilabel.label_set_searches import LabelSetSearches as LabelSetSearches
    from maxmargin.multilabel.problem import MultilabelProblem as MultilabelProblem
    from maxmargin.multilabel.readers import MultilabelData as MultilabelData
    from maxmargin.multilabel.readers import load_multilabel as load_multilabel
    from maxmargin.multilabel.readers import load_multilabel_svmlight as load_multilabel_svmlight
    from maxmargin.multilabel.readers import read_label_names as read_label_names
    from maxmargin.multilabel.structure import LabelSetStructure as LabelSetStructure
    from maxmargin.multilabel.structure import RelaxedLabelSets as RelaxedLabelSets
    from maxmargin.multilabel.svm import MultilabelSVM as MultilabelSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
