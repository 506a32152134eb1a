"""Pages in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from maxmargin._utils import replacing
from maxmargin.report.contents import report_contents
from maxmargin.report.page import render
from maxmargin.report.paths import path_contents


def write_report(
    estimator: Any,
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
    scores: ArrayLike | None = None,
    slices: Mapping[str, ArrayLike] | None = None,
    on_training_data: bool | None = None,
) -> Path:
    """Write one self-contained HTML page about a fitted ranking model, judged on labelled samples.

    It shows metrics with 95 % intervals and curves against the baselines and a random ranking, how close to optimal training
    came, what is found within a budget and which threshold to set (for one list) or the documents of queries, how slices of the
    data fare, how scores are distributed, what the model ranks worst, its largest weights and its parameters. The file needs no
    network and stays below 2 MB whatever the number of samples. It is written in one step: an interrupted run leaves no broken
    file.

    Parameters
    ----------
    estimator : fitted estimator
        Anything with ``decision_function``, such as :class:`maxmargin.RankingSVM`, or a scikit-learn pipeline that ends in
        one. ``coef_``, ``history_`` and the certificate are shown as far as they are there.
    X : array or sparse matrix of shape (n, d)
        Samples, preferably none that the model was trained on.
    y : array of shape (n,)
        Labels or grades; relevant is what the estimator learned to be (``relevance_thresholds_``).
    qid : array of shape (n,), optional
        Query of each sample.
    path : path, default="report.html"
        Where to write; missing folders are made.
    baselines : mapping of str to estimator or array of shape (n,), optional
        What to compare with, by name: fitted estimators, or scores.
    feature_names : sequence of d str, optional
        By default ``feature_names_in_`` of the estimator, or else numbers of columns.
    query_names : mapping of query to str, optional
        What to call queries instead of their ids.
    name : str, optional
        What to call the model; by default its class.
    title : str, optional
        Heading of the page.
    notes : sequence of str, optional
        Sentences to end with, say where the data come from.
    scores : array of shape (n,), optional
        Scores of the samples by the estimator, if they are known already.
    slices : mapping of str to array of shape (n,), optional
        Columns, by name, for whose values the metric is shown apart: text, booleans or numbers; of more than eight different
        numbers, quartiles.
    on_training_data : bool, optional
        Whether the model was trained on these samples, of which the page then warns. By default it is found out, where the
        estimator remembers (``training_sketch_``).

    Returns
    -------
    pathlib.Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import RankingSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankingSVM("ap", C=100).fit(scale(X), y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(model, scale(X), y, path=f"{folder}/report.html", baselines={"radius": -X[:, 0]})
    ...     "Training is optimal to within" in page.read_text()
    True
    """
    found = report_contents(
        estimator, X, y, qid, baselines=baselines, feature_names=feature_names, query_names=query_names, name=name,
        title=title, notes=notes, scores=scores, slices=slices, on_training_data=on_training_data,
    )  # fmt: skip
    return save_page(found, path)


def write_path_report(
    path: Any,
    X: Any = None,
    y: Any = None,
    qid: ArrayLike | None = None,
    *,
    training: Sequence[Any] | None = None,
    scoring: Callable[..., float] | None = None,
    metric: str | None = None,
    file: str | os.PathLike[str] = "path.html",
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    notes: Sequence[str] = (),
    selection: Any = None,
    held_out: str = "validation data",
) -> Path:
    """Write one self-contained HTML page about a regularization path, with a slider over lambda.

    For the lambda of the slider it shows C, the bound of the gap, the score on training and validation data, and the largest
    weights; over all lambda, how weights, scores and gap change, where the models change, and which one is best on the
    validation data. Of more than 300 models it shows 300, the best among them.

    Parameters
    ----------
    path : RegularizationPath
        As :func:`maxmargin.regularization_path` returns it.
    X, y, qid : optional
        Validation data, as ``score`` of the estimator takes them.
    training : tuple (X, y) or (X, y, qid), optional
        What the path was traced on, to show the score there too.
    scoring : callable, optional
        ``scoring(estimator, X, y)``, larger is better, with ``qid=...`` if there are queries; by default ``estimator.score``.
    metric : str, optional
        What to call the score; by default its name if it is that of a ranking.
    file : path, default="path.html"
        Where to write; missing folders are made.
    feature_names : sequence of str, optional
        One per feature; by default ``feature_names_in_`` of the estimator, or else numbers of columns.
    title : str, optional
        Heading of the page.
    notes : sequence of str, optional
        Sentences to end with, say where the data come from.
    selection : Selection, optional
        What ``path.select`` said, if it has been asked already; then X and y need not be given.
    held_out : str, default="validation data"
        What to call the data of the selection.

    Returns
    -------
    pathlib.Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import RankingSVM, regularization_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> path = regularization_path(RankingSVM("ap"), X[::2], y[::2], epsilon=0.01, lambda_min=1e-3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_path_report(path, X[1::2], y[1::2], training=(X[::2], y[::2]), file=f"{folder}/path.html")
    ...     "certified" in page.read_text()
    True
    """
    found = path_contents(
        path, X, y, qid, training=training, scoring=scoring, metric=metric, feature_names=feature_names, title=title,
        notes=notes, selection=selection, held_out=held_out,
    )  # fmt: skip
    return save_page(found, file)


def save_page(contents: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write a page of :func:`report_contents` or :func:`path_contents` in one step: an interrupted run leaves no broken file."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    page = render(contents).encode(errors="replace")  # names of files need not be text
    with replacing(target) as file:
        file.write(page)
    return target
