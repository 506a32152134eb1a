"""Rank losses as torch modules: reduction, skipped queries, and the way a known gradient enters autograd."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch.autograd.forward_ad import unpack_dual

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Ints, Reals
from maxmargin.nn._lists import Lists, TransformedError, as_lists, wide_enough
from maxmargin.ranking import (
    NDCG,
    AveragePrecision,
    RankingLoss,
    checked_loss,
    direct_losses,
    gain_shares,
    ranking_loss,
    solve_lists,
)

Reduction = Literal["mean", "sum", "none"]
Gains = Literal["linear", "exponential"]
# Every grade but the lowest is a problem of its own.
_MOST_GRADES = 1000
# Scores of a list whose time is that of the calls.
_SHORT = 2**14


class ListwiseLoss(torch.nn.Module):
    """A function of each query's scores with a known value and gradient.

    Attributes
    ----------
    n_skipped : int
        Queries of the last call without a positive or without a negative. Every ranking of them is right: their value and
        gradient are zero.
    """

    n_skipped: int

    def __init__(self, loss: str | RankingLoss, reduction: Reduction) -> None:
        super().__init__()
        if reduction not in get_args(Reduction):
            raise ValueError(f"reduction={reduction!r} is unknown; choose one of {', '.join(map(repr, get_args(Reduction)))}")
        self.loss = ranking_loss(loss)
        self._checked = checked_loss(self.loss)
        self.reduction = reduction
        self.n_skipped = 0

    def forward(
        self, scores: torch.Tensor, relevant: torch.Tensor, mask: torch.Tensor | None = None, weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The loss of one query or of a batch.

        Parameters
        ----------
        scores : floating-point tensor of shape (n,) or (queries, documents)
            Higher is better. Must be finite, except where ``mask`` is False. Half precision (float16, bfloat16) is
            computed with, and returned, in single precision; the gradient has the precision of the scores.
        relevant : tensor of the same shape
            Booleans, or zeros and ones: the positives; grades, if the loss has gains.
        mask : boolean tensor of the same shape, optional
            False marks padding.
        weight : tensor of shape (queries,), optional
            What a query counts, not negative; a scalar for one-dimensional scores. The mean is divided by the weight of the
            queries that were not skipped.

        Returns
        -------
        tensor
            A scalar; with ``reduction="none"`` and two-dimensional scores, one value per query, shape (queries,).
        """
        if mask is None and weight is None and (found := self._plain_list(scores, relevant)) is not None:
            return found
        scores = wide_enough(scores)
        each: torch.Tensor
        counted: torch.Tensor
        try:
            lists = as_lists(scores, relevant, mask)
            if unpack_dual(scores).tangent is not None:  # type: ignore[no-untyped-call]
                raise TransformedError  # numbers that are replaced lose their tangent
        except TransformedError:
            attach: Any = _Transformed.apply
            each, _, counted = attach(self, scores, relevant, mask)
        else:
            value, gradient, skipped = self._solve(lists)
            self.n_skipped = int(np.count_nonzero(skipped))
            each = _with_gradient(scores, value, gradient, lists)
            if weight is None:
                if self.reduction == "none" or each.ndim == 0:
                    return each
                # Skipped queries are zero, so the mean over the others has no NaN even if all are skipped.
                return each.sum() / max(1, len(skipped) - self.n_skipped) if self.reduction == "mean" else each.sum()
            counted = lists.per_query((~skipped).astype(np.float64))
        if weight is not None:
            weight = _checked_weight(weight, each)
            each, counted = weight * each, weight * counted
        if self.reduction == "none":
            return each
        if self.reduction == "sum":
            return each.sum()
        total = counted.sum()
        return each.sum() / torch.where(total > 0, total, 1.0)

    def _plain_list(self, scores: torch.Tensor, relevant: torch.Tensor) -> torch.Tensor | None:
        """The loss of one list that needs no care, by a shorter way if there is one."""
        return None

    @abstractmethod
    def _solve(self, lists: Lists) -> tuple[Floats, Reals, Booleans]:
        """Value of each query, shape (q,), gradient, shape (n,), and which queries there is nothing to learn from, shape (q,)."""

    def extra_repr(self) -> str:
        """The loss and the reduction."""
        return f"{self.loss!r}, reduction={self.reduction!r}"


def _with_gradient(scores: torch.Tensor, value: Floats, gradient: Reals, lists: Lists) -> torch.Tensor:
    """Values whose gradient with respect to the scores is known already.

    The product of scores and gradient has it too, and torch's own operations, whose numbers are then replaced, take a third of
    the time of a function written in Python.
    """
    if not (scores.requires_grad and torch.is_grad_enabled()):
        return lists.per_query(value)
    slopes = lists.per_document(gradient)
    product = torch.dot(scores, slopes) if scores.ndim == 1 else (scores * slopes).sum(dim=-1)
    product.detach().copy_(lists.per_query(value))
    return product


def _checked_weight(weight: torch.Tensor, each: torch.Tensor) -> torch.Tensor:
    weight = torch.as_tensor(weight, dtype=each.dtype, device=each.device)
    if weight.shape != each.shape:
        raise ValueError(f"weight has shape {tuple(weight.shape)}, but queries have {tuple(each.shape)}; give one for each")
    try:
        good = bool(torch.all(torch.isfinite(weight) & (weight >= 0)))
    except RuntimeError:
        return weight  # inside torch.func.vmap no number is known
    if not good:
        raise ValueError("weight must be finite and not negative; leave queries out by a weight of 0")
    return weight


@lru_cache(maxsize=64)
def _ends(n: int) -> Ints:
    """Where one list of n samples begins and ends."""
    return np.array((0, n), dtype=np.int64)


class _Transformed(torch.autograd.Function):
    """For :mod:`torch.func`, whose tensors have no numbers until they arrive here, and for forward mode."""

    @staticmethod
    def forward(
        module: ListwiseLoss, scores: torch.Tensor, relevant: torch.Tensor, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        lists = as_lists(scores, relevant, mask)
        value, gradient, skipped = module._solve(lists)
        module.n_skipped = int(np.count_nonzero(skipped))
        # Clones: a transformed function must not return views.
        counted = lists.per_query((~skipped).astype(np.float64))
        return lists.per_query(value).clone(), lists.per_document(gradient), counted.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        ctx.save_for_backward(output[1])
        ctx.save_for_forward(output[1])
        ctx.mark_non_differentiable(output[1], output[2])

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor, *_: Any) -> tuple[None, torch.Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return None, outer.unsqueeze(-1) * gradient, None, None

    @staticmethod
    def jvp(ctx: Any, module: None, tangent: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, None, None]:
        """The change of the values with the scores, for forward mode."""
        (gradient,) = ctx.saved_tensors
        return None if tangent is None else (tangent * gradient).sum(dim=-1), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], module: ListwiseLoss, *tensors: torch.Tensor | None) -> Any:
        """Queries in one more dimension are more queries."""

        def in_front(tensor: torch.Tensor | None, dim: int | None) -> torch.Tensor | None:
            if tensor is None:
                return None
            return tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)

        batched = [in_front(tensor, dim) for tensor, dim in zip(tensors, in_dims[1:], strict=True)]
        shape = batched[0].shape  # type: ignore[union-attr]  # scores are never None
        flat = [None if tensor is None else tensor.reshape(-1, shape[-1]) for tensor in batched]
        attach: Any = _Transformed.apply
        each, gradient, counted = attach(module, *flat)
        return (each.reshape(shape[:-1]), gradient.reshape(shape), counted.reshape(shape[:-1])), (0, 0, 0)


class RankingHinge(ListwiseLoss):
    """The largest value, over all rankings, of their loss plus the difference of their score to that of the true ranking.

    An upper bound of the loss of the ranking by score, convex and piecewise linear in the scores. Value and gradient are
    exact; they are computed on the processor, in about a tenth of the time of ``torch.sort``, and moved to the device of the
    scores.

    Parameters
    ----------
    loss : str or RankingLoss
        ``"ap"``, ``"ndcg@10"`` or another name, or a loss object; see :func:`maxmargin.most_violating_ranking`.
    reduction : {"mean", "sum", "none"}
        The mean is that of the queries with a positive and a negative.
    gains : {"linear", "exponential"}, optional
        For ``"ndcg"``, with or without a cut-off: ``relevant`` holds grades, and the hinge bounds 1 - NDCG with these gains. It
        is the sum of the hinges for "grade > g" over all grades g, each with its share of the ideal DCG.

    Notes
    -----
    The score of a ranking is a mean over pairs, so that the gradient of a single score is small, of the order of ``2/N``.
    The gradient is that of one maximiser; where several rankings are equally good it is one of many subgradients. The
    second derivative is zero wherever there is one. Several queries are shared out among ``torch.get_num_threads()`` threads.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([2.0, 1.0, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    >>> value = RankingHinge("ap")(scores, torch.tensor([True, False, True, False]))
    >>> value.backward()
    >>> print(f"{value.item():.4f}", scores.grad)
    0.4167 tensor([ 0.0000,  0.5000, -0.5000,  0.0000], dtype=torch.float64)

    Two queries, the second one shorter:

    >>> hinge = RankingHinge("auc", reduction="none")
    >>> scores = torch.tensor([[0.5, 0.2, 0.1], [0.0, 1.0, 0.0]])
    >>> relevant = torch.tensor([[1, 0, 1], [1, 0, 0]])
    >>> hinge(scores, relevant, mask=torch.tensor([[True, True, True], [True, True, False]]))
    tensor([0.8000, 3.0000])
    """

    def __init__(self, loss: str | RankingLoss = "ap", reduction: Reduction = "mean", *, gains: Gains | None = None) -> None:
        super().__init__(loss, reduction)
        if gains is not None:
            if gains not in get_args(Gains):
                raise ValueError(f"gains={gains!r} is unknown; choose 'linear' or 'exponential', or None for zeros and ones")
            if type(self.loss) is not NDCG or self.loss.native_name() is None:
                raise ValueError(f"gains={gains!r} are known to NDCG only, not to loss={self.loss!r}; use loss='ndcg' or none")
        self.gains = gains
        # The compiled loss, where short lists may take the short way.
        self._name = self.loss.native_name() if gains is None else None

    def _plain_list(self, scores: torch.Tensor, relevant: torch.Tensor) -> torch.Tensor | None:
        # Booleans on the processor, in few steps: they are what takes the time of short lists. Arrays are asked, not tensors,
        # whose answers take longer; the kernel itself refuses types and layouts that are not its own.
        if self._name is None:
            return None
        try:
            if relevant.dtype is not torch.bool:
                return None
            values, marks = scores.detach().numpy(), relevant.numpy()
            if values.shape != marks.shape or values.ndim != 1 or len(values) > _SHORT:
                return None
            truth = marks.view(np.uint8)
            if not 0 < np.count_nonzero(truth) < len(truth):
                return None
            _, hinge, gradient = _core.solve_lists(values, truth, _ends(len(values)), self._name, 1.0, 1)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            return None  # no tensors, another device or type, inside torch.func, no numbers: the long way takes them or says why
        if self.n_skipped:
            self.n_skipped = 0
        # As in _with_gradient; `hinge` is an array of one number.
        product = torch.dot(scores, torch.from_numpy(gradient))
        product.detach().fill_(hinge.item())
        return product

    def _solve(self, lists: Lists) -> tuple[Floats, Reals, Booleans]:
        if self.gains is not None:
            return self._solve_grades(lists, self.gains)
        relevant = lists.relevant()
        threads = torch.get_num_threads()
        _, hinge, gradient = solve_lists(lists.values, relevant, lists.offsets, self._checked, 1.0, threads)
        return hinge, gradient, lists.skipped(relevant)

    def _solve_grades(self, lists: Lists, gains: Gains) -> tuple[Floats, Reals, Booleans]:
        grades = np.asarray(lists.labels, dtype=np.float64)
        if not np.isfinite(grades).all():
            raise ValueError("relevant must be finite grades, but contains NaN or infinity; mask padding out")
        sizes = np.diff(lists.offsets)
        value, gradient, skipped = np.zeros(len(sizes)), np.zeros_like(lists.values), np.ones(len(sizes), dtype=bool)
        levels = np.unique(grades)
        if len(levels) > _MOST_GRADES:
            raise ValueError(f"relevant has {len(levels)} different grades; at most {_MOST_GRADES} can be told apart, round them")
        if len(levels) < 2:
            return value, gradient, skipped
        filled = np.flatnonzero(sizes)
        offsets = lists.offsets[np.append(filled, len(sizes))]
        shares = np.zeros((len(levels) - 1, len(sizes)))
        shares[:, filled] = gain_shares(grades, offsets, levels[:-1], gains, self.loss.at)
        threads = torch.get_num_threads()
        for level, share in zip(levels, shares, strict=False):
            relevant = (grades > level).view(np.uint8)
            _, hinge, slopes = solve_lists(lists.values, relevant, lists.offsets, self._checked, 1.0, threads)
            value += share * hinge
            gradient += (np.repeat(share, sizes) * slopes).astype(gradient.dtype)
            skipped &= lists.skipped(relevant)
        return value, gradient, skipped

    def extra_repr(self) -> str:
        """The loss, its gains and the reduction."""
        gains = "" if self.gains is None else f", gains={self.gains!r}"
        return super().extra_repr() + gains


class APLoss(RankingHinge):
    """:class:`RankingHinge` of ``1 - AP``, or of AP at the first ``at`` places.

    Examples
    --------
    >>> import torch
    >>> APLoss()(torch.tensor([3.0, 2.0, 0.0]), torch.tensor([1, 1, 0]))
    tensor(0.)
    """

    def __init__(self, reduction: Reduction = "mean", *, at: int | None = None) -> None:
        super().__init__(AveragePrecision(at=at), reduction)


class NDCGLoss(RankingHinge):
    """:class:`RankingHinge` of ``1 - NDCG``, or of NDCG at the first ``at`` places; of grades, if there are ``gains``.

    Examples
    --------
    >>> import torch
    >>> loss = NDCGLoss(at=2, gains="exponential")
    >>> loss(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([2, 0, 1]))
    tensor(1.2712)
    """

    def __init__(self, reduction: Reduction = "mean", *, at: int | None = None, gains: Gains | None = None) -> None:
        super().__init__(NDCG(at=at), reduction, gains=gains)


class AUCLoss(RankingHinge):
    """:class:`RankingHinge` of ``1 - AUC``, the fraction of wrong pairs: the mean over pairs of a hinge with margin 1/2."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("auc", reduction)


class DirectLoss(ListwiseLoss):
    """Direct loss minimisation of a rank loss.

    The gradient is ``sign / epsilon`` times the difference of the gradients of the score ``F`` of two rankings: the best one
    for ``F + sign * epsilon * delta``, and the ranking by score. As ``epsilon`` vanishes, its expectation over samples
    becomes the gradient of the expected loss. With ``sign=1`` scores move away from a worse ranking, with ``sign=-1``
    towards a better one.

    The value is ``sign / epsilon`` times the difference of the two maxima, ``max(F + sign * epsilon * delta) - max(F)``,
    which has exactly this gradient. It lies above the loss of the ranking by score for ``sign=1`` and below for ``sign=-1``,
    and equals it in the limit. It is not convex, and flat wherever the two rankings agree.

    Parameters
    ----------
    loss : str or RankingLoss
        As in :class:`RankingHinge`.
    epsilon : float
        Weight of the loss in the perturbed inference, positive. Since ``F`` is a mean over pairs, 1 perturbs scores whose
        differences are about 1.
    sign : {1, -1}
        With -1 inference takes O(PN) time and PN bits per query, not almost linear ones: no negative finds its place
        alone when the loss is subtracted.
    reduction : {"mean", "sum", "none"}
        As in :class:`RankingHinge`.

    Examples
    --------
    >>> import torch
    >>> scores, relevant = torch.tensor([0.3, 0.2, 0.0]), torch.tensor([0, 1, 0])
    >>> for sign in (1, -1):                    # the loss is 1/2
    ...     print([round(DirectLoss("ap", epsilon, sign)(scores, relevant).item(), 3) for epsilon in (5.0, 0.5, 0.2)])
    [0.627, 0.5, 0.5]
    [0.02, 0.2, 0.5]
    """

    def __init__(
        self, loss: str | RankingLoss = "ap", epsilon: float = 1.0, sign: Literal[1, -1] = 1, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(loss, reduction)
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise ValueError(f"epsilon={epsilon} must be a positive number; the side is chosen by sign")
        if sign not in (1, -1):
            raise ValueError(f"sign={sign} must be 1 or -1")
        self.epsilon = epsilon
        self.sign = sign

    def _solve(self, lists: Lists) -> tuple[Floats, Reals, Booleans]:
        threads, relevant = torch.get_num_threads(), lists.relevant()
        found = direct_losses(lists.values, relevant, lists.offsets, self._checked, self.epsilon, self.sign, threads)
        return *found, lists.skipped(relevant)

    def extra_repr(self) -> str:
        """The loss, the perturbation and the reduction."""
        return f"{self.loss!r}, epsilon={self.epsilon}, sign={self.sign}, reduction={self.reduction!r}"
