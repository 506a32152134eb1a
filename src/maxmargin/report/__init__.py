"""HTML reports in one file, without a network: about a ranking model or about a regularization path."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.report.contents import report_contents as report_contents
    from maxmargin.report.headline import percent, reported_metric
    from maxmargin.report.intervals import DrawnLists, how_drawn, interval, p_value, redraws
    from maxmargin.report.paths import path_contents as path_contents
    from maxmargin.report.writing import save_page as save_page
    from maxmargin.report.writing import write_path_report as write_path_report
    from maxmargin.report.writing import write_report as write_report
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
