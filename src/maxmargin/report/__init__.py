"""Reports to look at: one HTML file about a ranking model or about a regularization path, for a browser, without a network."""

from __future__ import annotations

from maxmargin.report.contents import report_contents
from maxmargin.report.paths import path_contents
from maxmargin.report.writing import save_page, write_path_report, write_report

__all__ = ["path_contents", "report_contents", "save_page", "write_path_report", "write_report"]
