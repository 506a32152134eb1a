"""Files of images and volumes through SimpleITK, which knows NIfTI, MetaImage, PNG and more, and where their voxels are.

Axes are those of arrays, slices first: ``values[z, y, x]``; spacing and offsets are in the same order.
"""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Floats, replacing
from maxmargin.registration.result import Registration
from maxmargin.vision import ImageError

_ENDINGS = (".nii", ".nii.gz", ".mha", ".mhd", ".nrrd", ".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp")
# Those that hold bytes, and know of no millimetres.
_PICTURES = (".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp")
# The largest number in them; the others have 16 bits.
_BYTES = (".jpg", ".jpeg", ".bmp")
_TIFF = (".tif", ".tiff")
# Two files, of which one names the other.
_HEADERS = (".mhd",)


@dataclass(frozen=True, eq=False)
class Volume:
    """Voxels and where they are.

    Attributes
    ----------
    values : array of 2 or 3 dimensions
        In the type of the file.
    spacing : array of shape (ndim,)
        Size of a voxel along every axis, in millimetres; 1 where the file does not say.
    origin : array of shape (ndim,)
        Place of the first voxel, in the coordinates of the patient: x, y, z.
    direction : array of shape (ndim, ndim)
        Columns are the directions of the axes x, y, z of the file.
    """

    values: NDArray[Any]
    spacing: Floats
    origin: Floats
    direction: Floats

    def offset_from(self, target: Volume) -> Floats:
        """Place of the first voxel seen from that of the target along the axes of arrays; the axes must be parallel."""
        if self.direction.shape != target.direction.shape:
            ndim, other = len(self.direction), len(target.direction)
            raise ImageError(f"source has {ndim} dimensions, but target has {other}; take a slice of the volume")
        if not np.allclose(self.direction, target.direction, atol=1e-3):
            raise ImageError(
                "the axes of source and target have different directions, as their headers say; "
                "resample one onto the axes of the other first"
            )
        return np.asarray((target.direction.T @ (self.origin - target.origin))[::-1])


def _simpleitk() -> Any:
    try:
        import SimpleITK
    except ImportError as error:
        raise ImportError("files of volumes need SimpleITK; install it with: pip install 'maxmargin[registration]'") from error
    return SimpleITK


def check_volume_name(path: str | os.PathLike[str]) -> str:
    """The ending of a file that can be written."""
    name = os.fspath(path).lower()
    for ending in sorted(_ENDINGS, key=len, reverse=True):
        if name.endswith(ending) and ending not in _HEADERS:
            return ending
    known = ", ".join(ending for ending in _ENDINGS if ending not in _HEADERS)
    raise ImageError(f"{Path(path).name} has no ending of an image that can be written; use one of {known}")


def is_picture(path: str | os.PathLike[str]) -> bool:
    """Whether files with this ending know of no places."""
    return os.fspath(path).lower().endswith(_PICTURES)


def read_volume(path: str | os.PathLike[str], labels: bool = False) -> Volume:
    """Read an image or a volume.

    Parameters
    ----------
    path : path of a NIfTI, MetaImage, NRRD, PNG, TIFF or JPEG file, which may be packed (``.gz``)
    labels : bool
        Values are numbers of classes; colours are refused instead of averaged.
    """
    sitk = _simpleitk()
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "no such file", os.fspath(path))
    name = os.fspath(path).lower()
    if name.endswith((".nii", ".nii.gz")):
        _check_whole(path)
    try:
        with _silent(sitk):
            # Of packed files SimpleITK itself knows those of NIfTI.
            packed = name.endswith(".gz") and not name.endswith(".nii.gz")
            image = _unpacked(sitk, path) if packed else sitk.ReadImage(os.fspath(path))
    except RuntimeError as error:
        said = str(error).strip().splitlines()
        reason = said[-1].strip() if said else "no reason given"
        raise ImageError(f"{Path(path).name} is no image that can be read ({reason}); use NIfTI, MetaImage or PNG") from error
    values = sitk.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() > 1:
        if labels:
            raise ImageError(f"{Path(path).name} has colours, but classes are numbers; save it with one channel")
        values = values[..., :3].mean(axis=-1)
    spacing, origin = np.array(image.GetSpacing())[::-1], np.array(image.GetOrigin())
    direction = np.array(image.GetDirection()).reshape(len(origin), len(origin))
    if values.ndim == 3 and values.shape[0] == 1:
        # One slice is an image.
        values, spacing, origin, direction = values[0], spacing[1:], *_in_plane(origin, direction)
    if values.ndim not in (2, 3):
        raise ImageError(f"{Path(path).name} has {values.ndim} dimensions; take one volume of the series")
    if labels and values.dtype.kind == "f":
        if not np.array_equal(values, np.rint(values)):
            raise ImageError(f"{Path(path).name} has values that are no integers, but classes are numbered 0, 1, ...")
        values = values.astype(np.int64)
    if not (spacing > 0).all():
        raise ImageError(f"{Path(path).name} has a spacing of {tuple(spacing.tolist())}; pass spacing, which must be positive")
    return Volume(values, spacing, origin, direction)


def _unpacked(sitk: Any, path: str | os.PathLike[str]) -> Any:
    """Read a file that is packed by gzip."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / Path(path).stem
        try:
            with gzip.open(path) as packed, plain.open("wb") as file:
                shutil.copyfileobj(packed, file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ImageError(f"{Path(path).name} has been cut off or damaged ({error}); copy it again") from error
        return sitk.ReadImage(os.fspath(plain))


def _in_plane(origin: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Place and axes of a slice within its plane: those of the patient's x and y, or, in other planes, its own."""
    axes = direction[:2, :2]
    if np.allclose(axes @ axes.T, np.eye(2), atol=1e-3):
        return origin[:2], axes
    return (direction.T @ origin)[:2], np.eye(2)


def _check_whole(path: str | os.PathLike[str]) -> None:
    """Complain about a NIfTI file that has been cut off: its reader would take zeros for what is missing."""
    opened: Any = gzip.open if os.fspath(path).lower().endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            head = file.read(348)
            needed, length = _nifti_length(head), len(head)
            while chunk := file.read(1 << 20):
                length += len(chunk)
    except gzip.BadGzipFile:
        # No NIfTI file at all, which its reader finds out.
        return
    except (EOFError, zlib.error) as error:
        raise ImageError(f"{Path(path).name} has been cut off or damaged ({error}); copy it again") from error
    if length < needed:
        raise ImageError(f"{Path(path).name} has been cut off: {length} of {needed} bytes are there; copy it again")


def _nifti_length(head: bytes) -> int:
    """Bytes that a NIfTI file must have, by its header; 0 if that is none, or of two files."""
    for order in "<>":
        for size, dims, bits, first in ((348, (40, "8h"), (72, "h"), (108, "f")), (540, (16, "8q"), (14, "h"), (168, "q"))):
            if len(head) < 348 or struct.unpack_from(f"{order}i", head)[0] != size:
                continue
            n, *shape = struct.unpack_from(order + dims[1], head, dims[0])
            voxels = int(np.prod([max(k, 1) for k in shape[: max(0, min(n, 7))]], dtype=object))
            per_voxel, begin = (struct.unpack_from(order + kind, head, at)[0] for at, kind in (bits, first))
            single = head[344:347] == b"n+1" if size == 348 else head[4:7] == b"n+2"
            return int(begin) + voxels * int(per_voxel) // 8 if single and np.isfinite(begin) else 0
    return 0


def write_volume(path: str | os.PathLike[str], values: NDArray[Any], like: Volume) -> None:
    """Write voxels that are where those of another volume are, in one step; in pictures they are rounded, and must fit."""
    stored = check_fits(path, values)
    _check_shape(path, values.shape, like)
    _write(path, check_volume_name(path), stored, like, vectors=False)


def _check_shape(path: str | os.PathLike[str], shape: tuple[int, ...], like: Volume) -> None:
    if len(shape) != len(like.spacing):
        raise ImageError(f"{Path(path).name}: values have shape {shape}, but like has {len(like.spacing)} dimensions")


def check_fits(path: str | os.PathLike[str], values: NDArray[Any]) -> NDArray[Any]:
    """The values as a file with this name holds them; complains if it cannot."""
    ending = check_volume_name(path)
    if ending in _PICTURES and values.ndim == 3 and ending not in _TIFF:
        raise ImageError(f"{Path(path).name} cannot hold a volume; use .nii.gz or .mha")
    return as_stored(values, ending)


def write_field(path: str | os.PathLike[str], found: Registration, target: Volume) -> None:
    """Write displacements for SimpleITK's ``DisplacementFieldTransform``, or everything for ``Registration.load`` (.npz)."""
    if check_field_name(path) == ".npz":
        found.save(path)
        return
    _check_shape(path, found.shape, target)
    # Components x, y, z in the coordinates of the patient.
    components = found.displacement[..., ::-1] @ target.direction.T
    _write(path, check_volume_name(path), components, target, vectors=True)


def check_field_name(path: str | os.PathLike[str]) -> str:
    """The ending of a file of displacements."""
    if os.fspath(path).lower().endswith(".npz"):
        return ".npz"
    ending = check_volume_name(path)
    if ending in _PICTURES:
        raise ImageError(f"{Path(path).name} cannot hold displacements; use .nii.gz, .mha or .npz")
    return ending


def as_stored(values: NDArray[Any], ending: str) -> NDArray[Any]:
    """Values in a type that a format has."""
    if ending in _PICTURES and values.dtype.kind in "fiu" and not (values.dtype.kind == "f" and ending in _TIFF):
        low, high = values.min(initial=0), values.max(initial=0)
        whole = np.rint(values)
        # Of values between 0 and 1 nothing would be left.
        lost = high <= 1 and not np.array_equal(whole, values)
        # So is what is no number.
        if lost or not (low >= 0 and high <= (255 if ending in _BYTES else 65535)):
            remedy = "use .nii.gz or .mha, or rescale them first"
            raise ImageError(f"values from {low:g} to {high:g} do not fit into a {ending} file; {remedy}")
        return np.asarray(whole.astype(np.uint8 if high <= 255 else np.uint16))
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def _write(path: str | os.PathLike[str], ending: str, values: NDArray[Any], like: Volume, vectors: bool) -> None:
    sitk = _simpleitk()
    image = sitk.GetImageFromArray(np.ascontiguousarray(values), isVector=vectors)
    image.SetSpacing(like.spacing[::-1].tolist())
    image.SetOrigin(like.origin.tolist())
    image.SetDirection(like.direction.ravel().tolist())
    # Made elsewhere under a name with the ending, then put in place in one step.
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"volume{ending}"
        with _silent(sitk):
            sitk.WriteImage(image, str(made), useCompression=ending not in _PICTURES)
        with replacing(path) as file:
            file.write(made.read_bytes())


class _silent:
    """No warnings of readers on standard error; what matters is checked here."""

    def __init__(self, sitk: Any) -> None:
        self.process = sitk.ProcessObject

    def __enter__(self) -> None:
        self.before = self.process.GetGlobalWarningDisplay()
        self.process.SetGlobalWarningDisplay(False)

    def __exit__(self, *what: object) -> None:
        self.process.SetGlobalWarningDisplay(self.before)
