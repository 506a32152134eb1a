"""From tensors of scores to lists for the kernels, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin._utils import MAX_SAMPLES, Booleans, Bytes, Floats, Ints, Reals, check_relevant

_HALVES = (torch.float16, torch.bfloat16)


class TransformedError(Exception):
    """The tensors stand for others, as inside ``torch.func.grad`` and ``torch.func.vmap``, and have no numbers of their own."""


@dataclass
class Lists:
    """The queries of a batch, one after the other and without padding."""

    values: Reals  # finite scores of the documents that count, shape (n,)
    labels: NDArray[Any]  # what was given as relevance, shape (n,)
    offsets: Ints  # query k is offsets[k]:offsets[k + 1], shape (q + 1,)
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    mask: torch.Tensor | None

    def relevant(self) -> Bytes:
        """1 for positives, shape (n,); an error if labels are anything else than booleans, zeros and ones."""
        return check_relevant(self.labels, len(self.values))

    def skipped(self, relevant: Bytes | Booleans) -> Booleans:
        """Which queries have no positive or no negative, shape (q,)."""
        if len(self.offsets) == 2:
            n_pos = np.count_nonzero(relevant)
            return np.array([n_pos == 0 or n_pos == len(relevant)])
        sizes = np.diff(self.offsets)
        counts = np.zeros(len(sizes), dtype=np.int64)
        filled = np.flatnonzero(sizes)
        if len(filled):
            counts[filled] = np.add.reduceat(relevant, self.offsets[filled], dtype=np.int64)
        return np.asarray((counts == 0) | (counts == sizes))

    def per_query(self, numbers: Floats) -> torch.Tensor:
        """Numbers of shape (q,) as a tensor like the scores; a scalar for one-dimensional scores."""
        tensor = torch.from_numpy(numbers).to(device=self.device, dtype=self.dtype)
        return tensor[0] if len(self.shape) == 1 else tensor

    def per_document(self, numbers: Reals) -> torch.Tensor:
        """Numbers of shape (n,) as a tensor of the scores' shape, zero where there is padding."""
        tensor = torch.from_numpy(numbers)
        if tensor.dtype != self.dtype:
            tensor = tensor.to(self.dtype)
        if self.mask is None:
            # Lists of some hundred scores are over in microseconds; so are operations that change nothing.
            tensor = tensor if len(self.shape) == 1 else tensor.reshape(self.shape)
        else:
            tensor = torch.zeros(self.shape, dtype=tensor.dtype).masked_scatter_(self.mask, tensor)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)


def wide_enough(scores: torch.Tensor) -> torch.Tensor:
    """Half precision, as networks under autocast return it, in single precision; other scores as they are."""
    if not isinstance(scores, torch.Tensor):
        raise TypeError(f"scores must be a tensor, not {type(scores).__name__}")
    return scores.float() if scores.dtype in _HALVES else scores


def as_lists(scores: torch.Tensor, relevant: torch.Tensor, mask: torch.Tensor | None) -> Lists:
    """Check a batch, tensors of shape (n,) or (queries, documents), and take out the padding, where ``mask`` is False."""
    if scores.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"scores must be floating-point numbers, but has dtype {scores.dtype}; convert it with scores.float()")
    shape = scores.shape
    if len(shape) not in (1, 2):
        raise ValueError(f"scores must have shape (n,) or (queries, documents), but has shape {tuple(shape)}")
    if mask is None and len(shape) == 2 and shape[1] == 1 and shape[0] > 1:
        # What a network with one output returns; nothing would be learned from it.
        raise ValueError(
            f"scores has shape {tuple(shape)}, queries of one document each, which cannot be ranked; flatten scores and "
            "relevant if they are one list"
        )
    if shape[-1] > MAX_SAMPLES:
        raise ValueError(f"scores has {shape[-1]} documents in a query; at most {MAX_SAMPLES} fit into one list")
    if not isinstance(relevant, torch.Tensor):
        relevant = torch.as_tensor(relevant)
    _check_shape("relevant", relevant, shape)
    on_cpu, truth = scores.detach(), relevant.detach()
    if scores.device.type != "cpu" or relevant.device.type != "cpu":
        on_cpu, truth = on_cpu.cpu(), truth.cpu()
    if mask is not None:
        mask = torch.as_tensor(mask).detach().cpu()
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must be boolean, but has dtype {mask.dtype}")
        _check_shape("mask", mask, shape)
    try:
        if mask is not None:
            lengths = mask.sum(dim=-1).reshape(-1).numpy()
            on_cpu, truth = on_cpu[mask], truth[mask]
            offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        elif len(shape) == 1:
            offsets = np.array((0, shape[0]), dtype=np.int64)
        else:
            offsets = np.arange(shape[0] + 1, dtype=np.int64) * shape[1]
        values = np.ascontiguousarray(on_cpu.numpy()).reshape(-1)
        labels = (truth.float() if truth.dtype in _HALVES else truth).numpy().reshape(-1)
    except RuntimeError as error:
        raise TransformedError from error
    finite = np.isfinite(values)
    if not finite.all():
        # The kernels would notice as well, but not in queries that they skip, nor could they tell the place in the batch.
        kept = torch.ones(shape, dtype=torch.bool) if mask is None else mask
        place = kept.nonzero()[int(np.argmin(finite))].tolist()
        raise ValueError(
            f"scores must be finite, but scores[{', '.join(map(str, place))}] is NaN or infinite; "
            "the network may have diverged, try a smaller learning rate, or mask padding out"
        )
    return Lists(values, labels, offsets, shape, scores.dtype, scores.device, mask)


def _check_shape(name: str, tensor: torch.Tensor, shape: torch.Size) -> None:
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, but scores has {tuple(shape)}; they must be equal")
