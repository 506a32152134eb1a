"""Fitted estimators in files: parameters, weights and the certificate, as numbers and text.

A file holds what the public attributes of a fitted estimator say; the estimator that is loaded predicts the same bits. It
cannot go on training where the first one stopped. Loading makes an object of one of the classes below and runs no code from
the file (see :mod:`maxmargin.io.archive`).
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin._api import find, public_names
from maxmargin.core.certificate import Certificate
from maxmargin.core.estimator import CERTIFICATE, Estimator
from maxmargin.core.solvers import (
    BCFW,
    ConstrainedCuttingPlane,
    ExponentiatedGradient,
    FrankWolfe,
    History,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Solver,
    Subgradient,
)
from maxmargin.io import SavedFileError, can_store, read_archive, read_label, write_archive

__all__ = ["SavedModel", "load_model", "read_model", "register_codec", "save_model"]

Path = str | os.PathLike[str]

_SOLVERS: dict[str, type[Solver]] = {
    cls.__name__: cls
    for cls in (
        BCFW,
        ConstrainedCuttingPlane,
        ExponentiatedGradient,
        FrankWolfe,
        NSlackCuttingPlane,
        OneSlackCuttingPlane,
        PartialLinearization,
        Subgradient,
    )
}
# Estimators that are not public names of maxmargin, with their modules.
_ELSEWHERE = {"LearnedMetric": "maxmargin.registration.learned"}
# Kinds of files that other packages write, with the class whose subclasses do.
_OTHER_FILES = {"boosted ranking": ("maxmargin.boosting.blending", "Blend")}
# Matrices of so many numbers are written without their zeros if a part between these is not zero.
_LARGE, _SPARSEST, _SPARSE = 10_000, 0.005, 0.3
# Parameters that say nothing about the model.
_DROPPED = ("callback",)


def _classes(base: type[Any] = Estimator) -> dict[str, type[Any]]:
    """Estimators that files can hold, by name: those that say themselves what files hold of them."""
    own = {base.__name__: base} if vars(base).get("holds") else {}
    return {name: cls for kind in (own, *map(_classes, base.__subclasses__())) for name, cls in sorted(kind.items())}


def _all_classes() -> dict[str, type[Any]]:
    """The same, with all estimators that have not been imported."""
    for name in public_names(""):
        find(name)
    return _classes()


class _Codec(NamedTuple):
    """How files hold objects of a class."""

    cls: type[Any]
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


_CODECS: dict[str, _Codec] = {}


def register_codec(tag: str, cls: type[Any], pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
    """Let model files hold objects of a class, as attributes and parameters of estimators.

    Parameters
    ----------
    tag : str
        Name of the form in the file.
    cls : type
        The class; subclasses are packed as well, and `pack` refuses those it does not know.
    pack : callable
        Object to a value of which files hold the parts: numbers, text, arrays, lists, or a dictionary of them by name. It raises
        TypeError for an object that cannot be stored.
    unpack : callable
        The way back; it raises ValueError or TypeError for what `pack` does not write.
    """
    _CODECS[tag] = _Codec(cls, pack, unpack)


class SavedModel(NamedTuple):
    """A model, what was written about it, and the version of the library that wrote it."""

    estimator: Any
    about: dict[str, Any]
    version: str


def save_model(estimator: Any, path: Path, *, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator to a file, in one step.

    Parameters
    ----------
    estimator : Estimator
        Fitted; those of :mod:`maxmargin.boosting` too. A loss, a structure or a solver of one's own is not code that a file can
        hold: it is noted, and :func:`load_model` asks for it.
    path : path
        Any name.
    about : mapping, optional
        Notes to keep with the model, of what JSON can hold.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import RankingSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankingSVM(loss="ap").fit(X / X.max(axis=0), y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, os.path.join(folder, "tumours.model"))
    ...     same = load_model(os.path.join(folder, "tumours.model"))
    >>> same, bool(np.all(same.predict(X) == model.predict(X))), same.dual_gap_ == model.dual_gap_
    (RankingSVM(), True, True)
    """
    if getattr(estimator, "file_kind", None) in _OTHER_FILES:
        estimator.save(path, about=about)
        return
    content, arrays = pack_estimator(estimator)
    check_is_fitted(estimator)
    write_archive(path, "model", {**content, "about": dict(about or {})}, arrays)


def pack_estimator(estimator: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Parameters and public attributes of an estimator, as JSON and arrays."""
    cls = type(estimator)
    if not vars(cls).get("holds"):
        raise TypeError(f"{cls.__name__} cannot be saved; files hold {', '.join(sorted(_all_classes()))}")
    pack = _Packer()
    content = {
        "class": cls.__name__,
        "parameters": {
            name: pack.parameter(name, value) for name, value in estimator._saved_parameters().items() if name not in _DROPPED
        },
        "fitted": {
            name: pack.value(name, value)
            for name, value in sorted(vars(estimator).items())
            if _is_fitted_name(name) and name not in cls.not_saved
        },
    }
    return content, pack.arrays


def load_model(path: Path, **objects: Any) -> Any:
    """The estimator in a file that :func:`save_model` wrote.

    Parameters
    ----------
    path : path
        The file.
    **objects
        Parameters that the file could not hold, such as ``loss=MyLoss()`` or ``structure=MyStructure()``; only these.

    Returns
    -------
    estimator
        Fitted, with the same predictions, score and certificate.

    Raises
    ------
    SavedFileError
        A ValueError: the file, what is wrong with it, what to do.
    """
    try:
        return read_model(path, **objects).estimator
    except SavedFileError:
        others = _loader(path)
        if others is None:
            raise
    if objects:
        raise ValueError(f"{', '.join(objects)} cannot be passed for {os.fspath(path)}, which holds all it needs; leave it out")
    return others(path)


def _loader(path: Path) -> Callable[[Path], Any] | None:
    """What reads the files that other rooms write; None for any other file."""
    try:
        kind = read_label(path).kind
    except SavedFileError:
        return None
    if kind not in _OTHER_FILES:
        return None
    module, name = _OTHER_FILES[kind]
    load: Callable[[Path], Any] = getattr(importlib.import_module(module), name).load
    return load


def read_model(path: Path, **objects: Any) -> SavedModel:
    """The estimator, the notes saved with it, and the version that wrote it; arguments as in :func:`load_model`."""
    archive = read_archive(path, "model")
    file = os.fspath(path)
    estimator = unpack_estimator(file, archive.content, archive.arrays, objects, archive.version)
    estimator._supplement()
    _check(estimator, file)
    estimator._restore()
    return SavedModel(estimator, _Unpacker(file, archive.arrays).mapping(archive.content, "about"), archive.version)


def unpack_estimator(
    file: str, content: dict[str, Any], arrays: dict[str, NDArray[Any]], objects: dict[str, Any], version: str
) -> Any:
    """The way back from :func:`pack_estimator`; whether it is fitted is for the caller to see."""
    unpack = _Unpacker(file, arrays)
    name = str(content.get("class"))
    if name in public_names(""):
        find(name)
    elif name in _ELSEWHERE:
        importlib.import_module(_ELSEWHERE[name])
    known = _classes()
    if content.get("class") not in list(known):
        known = _all_classes()
        raise SavedFileError(
            f"{unpack.file}: holds a model of class {name[:60]!r} from maxmargin {version[:40]}, "
            f"unknown to this version; it knows {', '.join(sorted(known))}"
        )
    cls = known[name]
    estimator = cls(**_parameters(cls, unpack.mapping(content, "parameters"), unpack, objects))
    for name, packed in unpack.mapping(content, "fitted").items():
        if not _is_fitted_name(name):
            raise SavedFileError(f"{unpack.file}: {name[:60]!r} is not an attribute of a fitted {cls.__name__}; {_AGAIN}")
        setattr(estimator, name, unpack.value(name, packed))
    return estimator


_AGAIN = "copy or write the file again"


def _is_fitted_name(name: str) -> bool:
    """The convention of scikit-learn."""
    return name.isidentifier() and name.endswith("_") and not name.startswith("_")


def _parameters(cls: type[Any], packed: dict[str, Any], unpack: _Unpacker, objects: dict[str, Any]) -> dict[str, Any]:
    known = cls._get_param_names()
    missing = {name: value["repr"] for name, value in packed.items() if isinstance(value, dict) and "repr" in value}
    for name, value in packed.items():
        if name not in known:
            raise SavedFileError(
                f"{unpack.file}: {cls.__name__} has no parameter {name[:60]!r} in this version; upgrade maxmargin or train again"
            )
        if name in missing and name not in objects:
            raise SavedFileError(
                f"{unpack.file}: was trained with {name}={str(value['repr'])[:200]}, an object that files cannot hold; pass it "
                f"again, load_model(path, {name}=...)"
            )
    for name in objects:
        if name not in missing:
            raise ValueError(f"{name} was passed, but {unpack.file} holds it already; pass only what the file could not hold")
    values = {name: objects[name] if name in objects else unpack.value(name, value) for name, value in packed.items()}
    for name, words in (("fit_intercept", ()), ("grades", ("linear", "exponential"))):
        if name in values and not isinstance(values[name], bool | int) and values[name] not in words:
            raise SavedFileError(f"{unpack.file}: {name}={values[name]!r} is neither true nor false; {_AGAIN}")
    return values


# ---- values to JSON and arrays, and back --------------------------------------------------------------------------------------


class _Packer:
    """Values become JSON; arrays are put aside, and JSON names them."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}

    def parameter(self, name: str, value: Any) -> Any:
        if type(value) in _SOLVERS.values():
            settings = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            if all(setting is None or isinstance(setting, bool | int | float | str) for setting in settings.values()):
                return {"solver": type(value).__name__, "settings": {key: self.value(key, v) for key, v in settings.items()}}
        try:
            return self.value(f"parameters.{name}", value)
        except TypeError:
            return {"repr": repr(value)}

    def value(self, name: str, value: Any) -> Any:
        """A value by its type; a TypeError if files cannot hold it."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        for tag, codec in _CODECS.items():
            if isinstance(value, codec.cls):
                packed = codec.pack(value)
                if isinstance(packed, dict):
                    return {tag: {key: self.value(f"{name}.{key}", part) for key, part in packed.items()}}
                return {tag: self.value(name, packed)}
        if isinstance(value, np.ndarray):
            # What scikit-learn makes of names of columns, and of labels from a table.
            if value.dtype == object and value.ndim == 1 and all(isinstance(text, str) for text in value):
                return {"texts": [str(text) for text in value]}
            if value.dtype == object and value.ndim == 1 and all(isinstance(entry, bool | int | np.bool_) for entry in value):
                return {"objects": [self.value(name, entry) for entry in value]}
            if not can_store(value.dtype):
                raise TypeError(f"{name} is an array of dtype {value.dtype}, which model files cannot hold")
            return self._array(name, value)
        if isinstance(value, list | tuple):
            return [self.value(f"{name}.{k}", entry) for k, entry in enumerate(value)]
        if isinstance(value, dict) and all(isinstance(key, bool | int | float | str | np.generic) for key in value):
            return {"mapping": [[self.value(name, key), self.value(f"{name}.{key}", entry)] for key, entry in value.items()]}
        raise TypeError(f"{name} is a {type(value).__name__}, which model files cannot hold")

    def _array(self, name: str, value: NDArray[Any]) -> Any:
        """As it is, or without its zeros if nearly all are: weights of many features that few labels have in common."""
        if value.dtype == np.float64 and value.ndim == 2 and value.size >= _LARGE:
            rows = np.ascontiguousarray(value)
            # By their bits: a negative zero is not left out.
            (places,) = np.nonzero(rows.view(np.int64).ravel())
            if _SPARSEST * value.size <= len(places) <= _SPARSE * value.size:
                small = np.int32 if value.size <= np.iinfo(np.int32).max else np.int64
                self.arrays[f"{name}.places"] = places.astype(small)
                self.arrays[f"{name}.values"] = rows.ravel()[places]
                return {"sparse": name, "shape": list(value.shape)}
        self.arrays[name] = value
        return {"array": name}


class _Unpacker:
    """The way back, with errors that name the file."""

    def __init__(self, file: str, arrays: dict[str, NDArray[Any]]) -> None:
        self.file = file
        self.arrays = arrays

    def mapping(self, content: dict[str, Any], key: str) -> dict[str, Any]:
        found = content.get(key)
        if not isinstance(found, dict):
            raise SavedFileError(f"{self.file}: its header has no {key}; {_AGAIN}")
        return found

    def value(self, name: str, packed: Any) -> Any:
        match packed:
            case list():
                return [self.value(name, entry) for entry in packed]
            case {"float": "inf" | "-inf" | "nan" as text}:
                return float(text)
            case {"array": key}:
                return self._array(name, key)
            case {"sparse": str(key), "shape": [int(rows), int(columns)]}:
                return self._sparse(name, key, rows, columns)
            case {"texts": list(texts)} if all(isinstance(text, str) for text in texts):
                found = np.empty(len(texts), dtype=object)
                found[:] = texts
                return found
            case {"objects": list(entries)} if all(isinstance(entry, int) for entry in entries):
                found = np.empty(len(entries), dtype=object)
                found[:] = entries
                return found
            case {"mapping": list(pairs)} if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                try:
                    return {self.value(name, key): self.value(name, value) for key, value in pairs}
                except TypeError as error:
                    raise SavedFileError(f"{self.file}: {name} has a key that is neither number nor text; {_AGAIN}") from error
            case {"solver": str(kind), "settings": dict(settings)} if kind in _SOLVERS:
                try:
                    return _SOLVERS[kind](**{key: self.value(key, value) for key, value in settings.items()})
                except (TypeError, ValueError) as error:
                    text = f"{self.file}: {name} cannot be made ({error}); upgrade maxmargin, or train again"
                    raise SavedFileError(text) from error
            case dict() if len(packed) == 1 and next(iter(packed)) in _CODECS:
                ((tag, content),) = packed.items()
                return self._coded(name, tag, content)
            case dict():
                raise SavedFileError(f"{self.file}: {name[:60]} is not of a form that maxmargin writes; {_AGAIN}")
        return packed

    def _coded(self, name: str, tag: str, content: Any) -> Any:
        """An object of a class that has a codec."""
        if isinstance(content, dict) and not any(key in content for key in ("array", "sparse")):
            value: Any = {key: self.value(f"{name}.{key}", part) for key, part in content.items()}
        else:
            value = self.value(name, content)
        try:
            return _CODECS[tag].unpack(value)
        except (ValueError, TypeError, KeyError) as error:
            raise SavedFileError(f"{self.file}: {name} is no {tag} ({error}); {_AGAIN}") from error

    def _array(self, name: str, key: Any) -> NDArray[Any]:
        if not isinstance(key, str) or key not in self.arrays:
            raise SavedFileError(f"{self.file}: the array of {name[:60]} is missing; {_AGAIN}")
        return self.arrays[key]

    def _sparse(self, name: str, key: str, rows: int, columns: int) -> NDArray[Any]:
        places, values = self._array(name, f"{key}.places"), self._array(name, f"{key}.values")
        fine = places.dtype.kind == "i" and places.ndim == 1 and values.dtype == np.float64 and values.shape == places.shape
        # A short file must not ask for all of the memory.
        size = rows * columns
        if not fine or min(rows, columns) < 0 or len(places) < _SPARSEST * size:
            raise SavedFileError(f"{self.file}: {name} is not a matrix of {rows} x {columns} without its zeros; {_AGAIN}")
        if len(places) and (places[0] < 0 or places[-1] >= size or (np.diff(places) <= 0).any()):
            raise SavedFileError(f"{self.file}: the places of {name} do not rise from 0 to {size - 1}; {_AGAIN}")
        found = np.zeros(size)
        found[places] = values
        return found.reshape(rows, columns)


def register_history(tag: str, cls: type[Any]) -> None:
    """Let model files hold a dataclass whose fields are columns of numbers, all of the same length."""
    wanted = len(dataclasses.fields(cls))

    def pack(history: Any) -> NDArray[Any]:
        return np.array(list(vars(history).values()), dtype=np.float64)

    def unpack(columns: Any) -> Any:
        if not isinstance(columns, np.ndarray) or columns.dtype != np.float64 or columns.ndim != 2 or len(columns) != wanted:
            raise ValueError(f"it has shape {np.shape(columns)}, but must have {wanted} rows")
        return cls(*columns.tolist())

    register_codec(tag, cls, pack, unpack)


register_history("history", History)


# ---- what must be there ------------------------------------------------------------------------------------------------------


def _check(estimator: Any, file: str) -> None:
    """Complain about attributes that are missing, of the wrong type or shape, or not finite; certify only what holds."""
    sizes: dict[str, int] = {}
    for name, wanted in type(estimator).holds.items():
        if name not in vars(estimator):
            raise SavedFileError(f"{file}: {name} is missing; {_AGAIN}")
        value = getattr(estimator, name)
        if isinstance(wanted, tuple):
            _check_array(np.asarray(value), name, wanted, estimator, sizes, file)
        elif not isinstance(value, wanted) or (wanted is int and (isinstance(value, bool) or value < 0)):
            raise SavedFileError(f"{file}: {name} is {str(value)[:60]}, but must be of type {wanted.__name__}; {_AGAIN}")
    if CERTIFICATE.keys() <= type(estimator).holds.keys():
        wrong = [name for name in ("primal_objective_", "dual_objective_", "dual_gap_") if math.isnan(getattr(estimator, name))]
        if wrong:
            raise SavedFileError(f"{file}: {wrong[0]} is not a number; {_AGAIN}")
        shown = Certificate.of_attributes(vars(estimator)).attributes()
        for name in ("dual_objective_", "dual_gap_", "certified_"):
            setattr(estimator, name, shown[name])
    # Two classes share one row of weights.
    if "rows" in sizes and sizes["rows"] != (1 if sizes["classes"] == 2 else sizes["classes"]):
        raise SavedFileError(f"{file}: coef_ has {sizes['rows']} rows for {sizes['classes']} classes; {_AGAIN}")
    names = vars(estimator).get("feature_names_in_")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (estimator.n_features_in_,)):
        raise SavedFileError(f"{file}: feature_names_in_ must name {estimator.n_features_in_} features; {_AGAIN}")
    try:
        estimator._check_parameters()
        estimator._check_fitted()
    except (ValueError, TypeError) as error:
        raise SavedFileError(f"{file}: {error}; {_AGAIN}") from error


def _check_array(
    array: NDArray[Any], name: str, wanted: tuple[int | str, ...], estimator: Any, sizes: dict[str, int], file: str
) -> None:
    found = dict(zip(wanted, array.shape, strict=False))
    expected = tuple(
        word if isinstance(word, int) else vars(estimator).get(word, sizes.get(word, found.get(word))) for word in wanted
    )
    if array.shape != expected:
        raise SavedFileError(f"{file}: {name} has shape {array.shape}, but must have {expected}; {_AGAIN}")
    sizes.update({word: size for word, size in found.items() if isinstance(word, str)})
    if name == "classes_":
        if array.dtype.kind not in "biufUSO":
            raise SavedFileError(f"{file}: {name} has dtype {array.dtype}, but must be labels; {_AGAIN}")
        if len(set(array.tolist())) < len(array):
            raise SavedFileError(f"{file}: {name} holds a label twice; {_AGAIN}")
        return
    if array.dtype.kind not in "fiu":
        raise SavedFileError(f"{file}: {name} has dtype {array.dtype}, but must be numbers; {_AGAIN}")
    if not np.isfinite(array).all():
        raise SavedFileError(f"{file}: {name} holds NaN or infinity, so its predictions would mean nothing; train again")
