"""``maxmargin inspect``: what the file of a model or of a path holds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from maxmargin.cli.evaluate import format_table, shortened
from maxmargin.cli.options import JSON, MODEL, with_exit_codes
from maxmargin.cli.reading import notes_about_data
from maxmargin.io import Label, SavedFileError, read_label

if TYPE_CHECKING:
    from maxmargin.core import RegularizationPath, SavedModel

_CERTIFICATE = ("primal_objective_", "dual_objective_", "dual_gap_", "certified_", "n_iter_")
# Of the classifier and of refinement: what was found on held-out samples.
_FOUND = ("C_", "refined_", "accepted_", "gain_", "gain_error_", "n_steps_", "threshold_", "held_out_", "classes_")


@click.command()
@MODEL
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, help="How many of the largest weights.")
@JSON
@with_exit_codes
def inspect(model_file: Path, top: int, as_json: bool) -> None:
    """What a model file holds: class and settings, certificate, training data, columns, the features with the largest weights.

    Of a path that path --save wrote: its range of lambda and C, how many models, and what is proved.

    \b
    Example: maxmargin inspect ranker.model --top 20
    """
    from maxmargin.core import RegularizationPath, read_model

    label = read_label(model_file)
    if label.kind == "path":
        answer = describe_path(RegularizationPath.load(model_file), model_file, label)
        words = _path_words
    elif label.kind == "model":
        answer, words = describe(read_model(model_file), model_file, label, top), _words
    else:
        raise SavedFileError(
            f"{model_file}: holds a {label.kind[:40]}, written by maxmargin {label.version[:40]} in format {label.format}; "
            "inspect reads models (--model) and paths (path --save): name one of these"
        )
    click.echo(json.dumps(answer, indent=2) if as_json else words(answer))


def _file(model_file: Path, label: Label) -> dict[str, Any]:
    size = model_file.stat().st_size
    return {"file": str(model_file), "kind": label.kind, "bytes": size, "written_by": label.version, "format": label.format}


def describe_path(path: RegularizationPath, model_file: Path, label: Label) -> dict[str, Any]:
    """What there is to say about a regularization path, as JSON can hold it."""
    template, end = path.template, float(path.lambda_end)
    return {
        **_file(model_file, label),
        "class": None if template is None else type(template).__name__,
        "settings": {} if template is None else _settings(template),
        "models": len(path),
        "features": path.store.n_features,
        "blocks": path.n_blocks,
        "lambda": [float(path.lambdas[0]), end],
        "C": [1.0 / (float(path.lambdas[0]) * path.n_blocks), 1.0 / (end * path.n_blocks) if end > 0 else None],
        "epsilon": path.epsilon,
        "rule": path.rule,
        "passes": path.total_passes,
        "certified": path.certified,
        "complete": path.complete,
    }


def _settings(estimator: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in estimator.get_params(deep=False).items() if name != "callback"}


def _first_lines(answer: dict[str, Any], what: str) -> list[str]:
    settings = ", ".join(f"{name} {value}" for name, value in answer["settings"].items() if value is not None)
    written = f"written by maxmargin {answer['written_by']}, format {answer['format']}"
    return [f"{answer['file']}: {what}, {answer['bytes']} bytes, {written}", *([f"settings: {settings}"] if settings else [])]


def _path_words(answer: dict[str, Any]) -> str:
    of = "" if answer["class"] is None else f" of {answer['class']}"
    (first, last), (low, high) = answer["lambda"], answer["C"]
    up = f"{high:.4g}" if high is not None else "infinity"
    proof = "certified" if answer["certified"] else "not certified"
    ended = "" if answer["complete"] else "; it ended early"
    return "\n".join(
        [
            *_first_lines(answer, f"path{of}"),
            f"{answer['models']} models of {answer['features']} features, {answer['passes']:.0f} passes, rule {answer['rule']}",
            f"lambda from {first:.4g} to {last:.4g}, C from {low:.4g} to {up}{ended}",
            f"everywhere within {answer['epsilon']:g} of the optimum ({proof})",
        ]
    )


def describe(saved: SavedModel, model_file: Path, label: Label, top: int) -> dict[str, Any]:
    """What there is to say, as JSON can hold it."""
    model = saved.estimator
    fitted = {name: value for name, value in sorted(vars(model).items()) if name.endswith("_") and not name.startswith("_")}
    return {
        **_file(model_file, label),
        "class": type(model).__name__,
        "settings": _settings(model),
        "features": getattr(model, "n_features_in_", None),
        "relevant_above": _plain(getattr(model, "relevance_thresholds_", None)),
        "certificate": {name.rstrip("_"): _plain(fitted[name]) for name in _CERTIFICATE if name in fitted},
        "found": {name.rstrip("_"): _plain(fitted[name]) for name in _FOUND if name in fitted},
        "arrays": {name: list(value.shape) for name, value in fitted.items() if isinstance(value, np.ndarray)},
        "data": notes_about_data(saved),
        "weights": _largest(saved, top),
    }


def _plain(value: Any) -> Any:
    """As JSON can hold it; what it cannot becomes text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else repr(value)


def _largest(saved: SavedModel, top: int) -> list[dict[str, Any]] | None:
    """The features with the largest weights; None for models that have not one weight for each."""
    weights = np.asarray(getattr(saved.estimator, "coef_", np.empty((0, 0))))
    weights = weights[0] if weights.ndim == 2 and len(weights) == 1 else weights
    if weights.ndim != 1 or len(weights) != getattr(saved.estimator, "n_features_in_", -1):
        return None
    names = getattr(saved.estimator, "feature_names_in_", None)
    first = 0 if notes_about_data(saved).get("zero_based") else 1
    order = np.argsort(-np.abs(weights), kind="stable")[:top]
    return [
        {"feature": str(names[j]) if names is not None else f"feature {j + first}", "weight": float(weights[j])}
        for j in order
        if weights[j] != 0
    ]


def _words(answer: dict[str, Any]) -> str:
    lines = _first_lines(answer, answer["class"])
    proof = answer["certificate"]
    if "primal_objective" in proof:
        relative = proof["dual_gap"] / max(abs(proof["primal_objective"]), 1e-300)
        gap = f"relative gap {relative:.1e}" if relative >= 0 else "the dual objective exceeds the primal one"
        word = "certified" if proof["certified"] else "not certified"
        objective = f"primal {proof['primal_objective']:.6g}, dual {proof['dual_objective']:.6g}"
        lines.append(f"certificate: {objective}, {gap} ({word}), {proof['n_iter']} passes")
    else:
        lines.append("certificate: none, nothing is proved about the weights")
    if answer["found"]:
        lines.append("found: " + ", ".join(f"{name} {_short(value)}" for name, value in answer["found"].items()))
    if answer["relevant_above"]:
        lines.append(f"relevant: labels above {', '.join(f'{value:g}' for value in answer['relevant_above'])}")
    data = answer["data"]
    if data:
        columns = "".join(f", {name} in column {data[name]!r}" for name in ("label", "query") if name in data)
        lines.append(f"trained on: {data.get('file')}, {data.get('samples')} samples{columns}")
        for column, kind in data.get("kinds", {}).items():
            words = "true or false" if kind == "boolean" else f"{len(kind)} categories, " + ", ".join(map(repr, kind[:8]))
            lines.append(f"column {column!r}: {words}{', ...' if isinstance(kind, list) and len(kind) > 8 else ''}")
    if answer["weights"] is None:
        shapes = ", ".join(f"{name} {tuple(shape)}" for name, shape in answer["arrays"].items())
        return "\n".join([*lines, f"arrays: {shapes}"])
    lines.append(f"{answer['features']} features, {_SCALES.get(answer['settings'].get('scale', 'none'))}; the largest weights:")
    rows = [[shortened(row["feature"]), f"{row['weight']:+.6g}"] for row in answer["weights"]]
    return "\n".join([*lines, format_table(["feature", "weight"], rows)])


_SCALES = {
    "none": "as they came",
    "standard": "standardised in training, weights for them as they came",
    "query": "standardised within every query",
}


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_short(entry)}" for key, entry in value.items()) + ")"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
