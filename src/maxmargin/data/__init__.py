"""Readers of the file formats that rankings come in."""

from maxmargin.data.text import DataError, read_columns, read_labels, read_scores

__all__ = ["DataError", "read_columns", "read_labels", "read_scores"]
