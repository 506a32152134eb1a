"""From tensors of scores to lists for the kernels, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from maxmargin._types import Booleans, Bytes, Floats, Ints, Reals
from maxmargin._validation import MAX_SAMPLES, check_relevant


@dataclass(frozen=True)
class Lists:
    """The queries of a batch, one after the other and without padding."""

    values: Reals  # finite scores of the documents that count, shape (n,)
    truth: Bytes  # 1 for positives, shape (n,)
    offsets: Ints  # query k is offsets[k]:offsets[k + 1], shape (q + 1,)
    _scores: torch.Tensor
    _mask: torch.Tensor | None

    def skipped(self) -> Booleans:
        """Which queries have no positive or no negative, shape (q,)."""
        sizes = np.diff(self.offsets)
        n_pos = np.zeros(len(sizes), dtype=np.int64)
        filled = np.flatnonzero(sizes)
        if len(filled):
            n_pos[filled] = np.add.reduceat(self.truth, self.offsets[filled], dtype=np.int64)
        return np.asarray((n_pos == 0) | (n_pos == sizes))

    def per_query(self, numbers: Floats) -> torch.Tensor:
        """Numbers of shape (q,) as a tensor like the scores; a scalar for one-dimensional scores."""
        tensor = torch.from_numpy(numbers).to(device=self._scores.device, dtype=self._scores.dtype)
        return tensor[0] if self._scores.ndim == 1 else tensor

    def per_document(self, numbers: Reals) -> torch.Tensor:
        """Numbers of shape (n,) as a tensor of the scores' shape, zero where there is padding."""
        tensor = torch.from_numpy(numbers).to(self._scores.dtype)
        if self._mask is None:
            tensor = tensor.reshape(self._scores.shape)
        else:
            tensor = torch.zeros(self._scores.shape, dtype=tensor.dtype).masked_scatter_(self._mask, tensor)
        return tensor.to(self._scores.device)


def as_lists(scores: torch.Tensor, relevant: torch.Tensor, mask: torch.Tensor | None) -> Lists:
    """Check a batch, tensors of shape (n,) or (queries, documents), and take out the padding, where ``mask`` is False."""
    if not isinstance(scores, torch.Tensor):
        raise TypeError(f"scores must be a tensor, not {type(scores).__name__}")
    if scores.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"scores must be float32 or float64, but has dtype {scores.dtype}; convert it with scores.float()")
    if scores.ndim not in (1, 2):
        raise ValueError(f"scores must have shape (n,) or (queries, documents), but has shape {tuple(scores.shape)}")
    if mask is None and scores.ndim == 2 and scores.shape[1] == 1 and scores.shape[0] > 1:
        # What a network with one output returns; nothing would be learned from it.
        raise ValueError(
            f"scores has shape {tuple(scores.shape)}, queries of one document each, which cannot be ranked; flatten scores and "
            "relevant if they are one list"
        )
    if scores.shape[-1] > MAX_SAMPLES:
        raise ValueError(f"scores has {scores.shape[-1]} documents in a query; at most {MAX_SAMPLES} fit into one list")
    relevant = torch.as_tensor(relevant)
    _check_shape("relevant", relevant, scores)
    on_cpu, truth = scores.detach().cpu(), relevant.detach().cpu()
    n_queries = 1 if scores.ndim == 1 else scores.shape[0]
    if mask is None:
        lengths = np.full(n_queries, scores.shape[-1])
    else:
        mask = torch.as_tensor(mask).detach().cpu()
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must be boolean, but has dtype {mask.dtype}")
        _check_shape("mask", mask, scores)
        lengths = mask.sum(dim=-1).reshape(-1).numpy()
        on_cpu, truth = on_cpu[mask], truth[mask]
    values = on_cpu.reshape(-1).contiguous().numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    finite = np.isfinite(values)
    if not finite.all():
        # The kernels would notice as well, but not in queries that they skip, nor could they tell the place in the batch.
        kept = torch.ones(scores.shape, dtype=torch.bool) if mask is None else mask
        place = kept.nonzero()[int(np.argmin(finite))].tolist()
        raise ValueError(
            f"scores must be finite, but scores[{', '.join(map(str, place))}] is NaN or infinite; "
            "the network may have diverged, try a smaller learning rate, or mask padding out"
        )
    return Lists(values, check_relevant(truth.reshape(-1).numpy(), len(values)), offsets, scores.detach(), mask)


def _check_shape(name: str, tensor: torch.Tensor, scores: torch.Tensor) -> None:
    if tensor.shape != scores.shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, but scores has {tuple(scores.shape)}; they must be equal")
