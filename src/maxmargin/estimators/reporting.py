"""The page about a trained ranking model, as a method."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike


class ReportMixin:
    """``report`` for estimators that rank the rows of a matrix."""

    def report(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        path: str | os.PathLike[str] = "report.html",
        baselines: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] | None = None,
        query_names: Mapping[Any, str] | None = None,
        name: str | None = None,
        title: str | None = None,
        notes: Sequence[str] = (),
    ) -> Path:
        """Write one HTML page about the model, judged on labelled samples; see :func:`maxmargin.report.write_report`.

        Parameters
        ----------
        X, y, qid
            Samples as in :meth:`fit`, preferably others.
        path : path, default="report.html"
            Where to write.
        baselines : mapping of str to estimator or array of shape (n,), optional
            Fitted estimators or scores to compare with, by name.
        feature_names : sequence of str, optional
            One name per feature.
        query_names : mapping of query to str, optional
            What to call queries instead of their ids.
        name : str, optional
            What to call the model; by default its class.
        title : str, optional
            Heading.
        notes : sequence of str, optional
            Sentences to end with.

        Returns
        -------
        pathlib.Path
            Where the page is.
        """
        from maxmargin.report import write_report

        return write_report(
            self,
            X,
            y,
            qid,
            path=path,
            baselines=baselines,
            feature_names=feature_names,
            query_names=query_names,
            name=name,
            title=title,
            notes=notes,
        )
