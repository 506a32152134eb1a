"""One label out of K, with costs."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.multiclass.problem import MulticlassProblem as MulticlassProblem
    from maxmargin.multiclass.shards import ClassShard
    from maxmargin.multiclass.structure import ClassStructure as ClassStructure
    from maxmargin.multiclass.surrogate_problem import SurrogateMulticlassProblem as SurrogateMulticlassProblem
    from maxmargin.multiclass.svm import MulticlassSVM as MulticlassSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
