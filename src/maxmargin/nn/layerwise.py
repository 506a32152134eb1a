"""Layer-wise SVM training of piecewise-linear networks, LW-SVM (Berrada, Zisserman and Kumar, ICLR 2017), for rank losses.

All layers but one are fixed, and the objective ``F = 1/2 ||W||^2 + C * hinge`` is made convex in the weights w of that one:

1. Its output is linear in w, and every unit after it gets a convex bound above and a concave one below that meet at the current
   weights (``_piecewise``).
2. The hinge (``_score_hinges``) of the *upper* bounds of irrelevant and the *lower* bounds of relevant scores is convex in w,
   lies above the hinge of the network everywhere, and touches it at the current weights (``_layer_problem``).
3. With 1/2 ||w||^2 and a proximal term ``p/2 ||w - current||^2`` it is a structured SVM; exact loss-augmented inference gives its
   cuts, a solver its minimum to a duality gap.

A solution that is better than the current weights in 3 has a lower F: ``F(new) <= bound(new) < bound(current) = F(current)``.
Whatever the solver returns is taken only if F itself is lower, so that F never rises, not even by rounding.

The paper writes the score as a difference of convex functions g - h and linearises h. The bounds here linearise unit by unit;
they are never looser and at times tighter: with ``h_lin <= h`` the linearised h, the paper's upper bound of a ReLU is
``max(g, h) - h_lin = max(g - h_lin, h - h_lin)``, here it is ``max(g - h_lin, 0)``. The published method takes mini-batches and
block-coordinate Frank-Wolfe; here a ranking is one of all samples, and a step uses all of them.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import time
from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import torch

from maxmargin._utils import Booleans, check_relevant
from maxmargin.core.solvers import History, OneSlackCuttingPlane, Solution, Solver
from maxmargin.nn._layer_problem import LayerProblem, as_table, forward
from maxmargin.nn._piecewise import Affine, Layer, read_network
from maxmargin.nn._score_hinges import ScoreHinge, score_hinge
from maxmargin.ranking import RankingLoss

Order = Literal["backward", "forward", "random"]


@dataclasses.dataclass(frozen=True)
class LayerStep:
    """What one layer's turn brought.

    Attributes
    ----------
    epoch : int
        Counted from 1.
    layer : str
        Name of the layer in the network, as in ``named_modules``.
    objective, hinge : float
        ``F`` of the network after the step, and the hinge in it.
    primal, dual : float
        Of the convex problem of the layer, with the proximal term and the regulariser of all layers: the value of the best
        weights found, and a lower bound of its minimum. ``objective <= primal`` for a step that was taken, up to the rounding
        of the network's weights.
    certified : bool
        Whether the gap is proved, which needs exact inference.
    taken : bool
        Whether the step lowered the objective; otherwise the weights are as before.
    passes : int
        Passes over the data, one loss-augmented inference each.
    status : str
        Why the solver stopped: "converged" (``tol``), "step_tol", "max_passes", "time_limit" or "interrupted".
    proximal : float
        Weight of the proximal term.
    seconds : float
        Since the start of ``fit``.
    """

    epoch: int
    layer: str
    objective: float
    hinge: float
    primal: float
    dual: float
    certified: bool
    taken: bool
    passes: int
    status: str
    proximal: float
    seconds: float

    @property
    def gap(self) -> float:
        """How far the convex problem can be from its minimum."""
        return self.primal - self.dual


@dataclasses.dataclass(eq=False)
class LayerwiseSVM:
    """Train a piecewise-linear network for a rank loss, one layer at a time and without a learning rate.

    Minimises ``F = 1/2 ||W||^2 + C * hinge``, W all trained weights and biases, where the hinge is the mean over the outputs of
    the network of the structured hinge of the loss, as in :class:`RankingHinge`. The problem is not convex: every step
    minimises a convex upper bound of F in one layer's weights, to a certified gap, and no step raises F. The network is
    trained in place; it should have been warm-started, by a few epochs of cross-entropy for instance.

    Parameters
    ----------
    network : torch.nn.Sequential
        Of Linear, Conv2d, ReLU, MaxPool2d, AvgPool2d and Flatten. Its output has shape (n,) or (n, k), higher is better. Layers
        whose parameters have ``requires_grad=False`` stay as they are.
    loss : str or RankingLoss, default="ap"
        ``"ap"``, ``"ndcg"``, ``"auc"``, ``"mrr"`` or a loss object. Two baselines bound the 0-1 loss instead:
        ``"accuracy"``, the mean over samples and outputs of ``max(0, 1 - y s)``, and ``"multiclass"``, the mean over samples of
        the hinge of Crammer and Singer.
    C : float, default=100.0
        Weight of the hinge against the regulariser.
    proximal : float, default=10.0
        A step pays ``proximal/2 ||w - current weights||^2``: larger values keep it where the bound is good, and make it cheaper.
        This is the first value; a layer whose passes ended before its objective fell gets ten times as much the next time,
        one that needed at most half of its passes half as much. Zero is allowed.
    max_epochs : int, default=10
        Most rounds over the layers.
    order : {"backward", "forward", "random"}, default="backward"
        Order of the layers in a round: last one first, first one first, or drawn anew each time.
    tol : float, default=1e-3
        Rounds end when one lowers F by at most ``tol * F``. A convex problem ends at ``gap <= tol * primal``.
    step_tol : float, default=0.1
        A convex problem also ends when its gap is at most this share of what the step has gained; 0 waits for ``tol``.
    max_iter : int, default=50
        Most passes over the data per step.
    solver : Solver, optional
        Of the convex problems; :class:`~maxmargin.OneSlackCuttingPlane` by default. Its ``tol`` and budgets are replaced.
    time_limit : float, optional
        Seconds after which training stops with what it has.
    random_state : int, optional
        Seed of the random order and of solvers that draw.
    verbose : int, default=0
        One line per step if 1.

    Attributes
    ----------
    objective_, hinge_ : float
        F at the end, and the hinge in it.
    history_ : list of LayerStep
        One entry per step.
    initial_objective_ : float
        F before the first step.
    n_epochs_ : int
        Rounds that were begun.
    status_ : str
        Why training stopped: "converged", "max_epochs", "time_limit" or "interrupted" (Ctrl-C; the network has its best weights).

    Notes
    -----
    Everything is computed in double precision on the processor. What counts is the objective of the weights as the network can
    hold them, so that it never rises for a network in single precision either. A pass costs about eight forward passes of the
    layers from the trained one on, over all data. The inputs of that layer and the patterns of all units after it are kept in
    memory.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> X = torch.randn(200, 2)
    >>> inside = (X**2).sum(dim=1) < 1                    # a disc: no linear score ranks it first
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    >>> model = LayerwiseSVM(network, loss="ap", C=1000).fit(X, inside)
    >>> from maxmargin.ranking import average_precision
    >>> print(f"{average_precision(inside.numpy(), network(X).detach().numpy()[:, 0]):.2f}")
    1.00
    >>> objectives = [step.objective for step in model.history_]
    >>> objectives == sorted(objectives, reverse=True)
    True
    """

    network: torch.nn.Sequential
    loss: str | RankingLoss = "ap"
    C: float = 100.0
    _: dataclasses.KW_ONLY
    proximal: float = 10.0
    max_epochs: int = 10
    order: Order = "backward"
    tol: float = 1e-3
    step_tol: float = 0.1
    max_iter: int = 50
    solver: Solver | None = None
    time_limit: float | None = None
    random_state: int | None = None
    verbose: int = 0

    def fit(self, X: torch.Tensor, relevant: Any) -> Self:
        """Train the network in place.

        Parameters
        ----------
        X : tensor of shape (n, ...)
            All samples; they form one list.
        relevant : booleans (or zeros and ones) of shape (n,) or (n, k)
            The positives for each output of the network; an output without positives or without negatives does not count for rank
            losses.

        Returns
        -------
        self
        """
        self._check_parameters()
        layers = read_network(self.network)
        x = _check_input(X)
        hinge = score_hinge(self.loss, _check_relevant(relevant, len(x)))
        _check_network(layers, x, hinge.relevant.shape[1])
        run = _Run(layers, x, hinge, self.C, float(self.proximal))
        self.initial_objective_ = run.objective
        try:
            self._epochs(run)
        except KeyboardInterrupt:
            run.status = "interrupted"
        finally:
            run.store()
        self.objective_, self.hinge_ = run.objective, run.hinge_value
        self.history_, self.status_, self.n_epochs_ = run.history, run.status, run.epoch
        return self

    def _check_parameters(self) -> None:
        limits = [] if self.time_limit is None else ["time_limit"]
        for name in ("C", "tol", "proximal", "step_tol", *limits):
            value, zero_allowed = getattr(self, name), name in ("proximal", "step_tol")
            number = float(value) if isinstance(value, numbers.Real) else math.nan
            if not (0 < number < math.inf or (zero_allowed and number == 0)):
                raise ValueError(f"{name}={value!r} must be {'zero or ' if zero_allowed else ''}a positive number")
        for name in ("max_epochs", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name}={value!r} must be a positive integer")
        if self.order not in get_args(Order):
            raise ValueError(f"order={self.order!r} is unknown; choose one of {', '.join(map(repr, get_args(Order)))}")
        if self.solver is not None and not isinstance(self.solver, Solver):
            raise TypeError(f"solver must be a Solver object such as OneSlackCuttingPlane(), not {type(self.solver).__name__}")

    def _epochs(self, run: _Run) -> None:
        """Rounds over the layers until nothing is gained or a budget ends."""
        rng = np.random.default_rng(self.random_state)
        places = list(run.trained)
        for epoch in range(1, self.max_epochs + 1):
            run.epoch = epoch
            if self.order == "backward":
                places.sort(reverse=True)
            elif self.order == "random":
                rng.shuffle(places)
            before, steps = run.objective, []
            for place in places:
                steps.append(self._step(run, place))
                if steps[-1].status == "interrupted":
                    raise KeyboardInterrupt
                if self._seconds_left(run) == 0:
                    run.status = "time_limit"
                    return
            # A step that failed for want of passes is tried again, more cautiously.
            if before - run.objective <= self.tol * before and all(step.taken or step.status == "converged" for step in steps):
                run.status = "converged"
                return

    def _step(self, run: _Run, place: int) -> LayerStep:
        """Minimise the convex bound in the weights of one layer, and take the result if it is better."""
        layer, proximal = run.trained[place], run.proximal[place]
        current = layer.weights
        # 1/2 ||w||^2 + p/2 ||w - current||^2 = (1 + p)/2 ||w - centre||^2 + constant
        squared = float(current @ current)
        centre = current.numpy() * (proximal / (1.0 + proximal))
        constant = run.squared_norm / 2 - squared / 2 + 0.5 * squared * proximal / (1.0 + proximal)
        x = forward(run.layers[:place], run.x)
        problem = LayerProblem(layer, run.layers[place + 1 :], x, run.hinge, centre)
        solution = self._solve(problem, (1.0 + proximal) / self.C, (run.objective - constant) / self.C, self._seconds_left(run))
        found = layer.rounded(torch.from_numpy(centre + solution.weights))
        taken = run.take(place, x, found)
        if taken and solution.passes <= self.max_iter / 2:
            run.proximal[place] = proximal / 2
        elif not taken and not solution.converged:
            run.proximal[place] = max(10.0 * proximal, 1.0)
        step = LayerStep(
            epoch=run.epoch, layer=layer.name, objective=run.objective, hinge=run.hinge_value,
            primal=self.C * solution.primal + constant, dual=self.C * solution.dual + constant, certified=solution.certified,
            taken=taken, passes=round(solution.passes), status="step_tol" if solution.status == "callback" else solution.status,
            proximal=proximal, seconds=time.perf_counter() - run.began,
        )  # fmt: skip
        run.history.append(step)
        if self.verbose:
            print(
                f"{type(self).__name__}: epoch {step.epoch}, layer {step.layer}, objective {step.objective:.6g}, "
                f"hinge {step.hinge:.4g}, gap {step.gap:.2g}, {step.passes} passes"
            )
        return step

    def _solve(self, problem: LayerProblem, lam: float, start: float, seconds: float | None) -> Solution:
        """The convex problem, whose value at the current weights is ``start``."""

        def enough(history: History) -> bool:
            best = min(history.primal)
            return best - max(history.dual) <= self.step_tol * (start - best)

        solver = dataclasses.replace(
            self.solver if self.solver is not None else OneSlackCuttingPlane(),
            tol=self.tol,
            epsilon=None,
            max_passes=self.max_iter,
            time_limit=None if seconds is None else max(seconds, 1e-9),
            callback=enough if self.step_tol > 0 else None,
            random_state=self.random_state or 0,
        )
        return solver.solve(problem, lam)

    def _seconds_left(self, run: _Run) -> float | None:
        return None if self.time_limit is None else max(0.0, self.time_limit - (time.perf_counter() - run.began))


class _Run:
    """The network during training: its weights, their objective, and the record."""

    def __init__(self, layers: list[Layer], x: torch.Tensor, hinge: ScoreHinge, C: float, proximal: float) -> None:
        self.began = time.perf_counter()
        self.layers = layers
        self.trained = {k: layer for k, layer in enumerate(layers) if isinstance(layer, Affine) and layer.trained}
        self.proximal = dict.fromkeys(self.trained, proximal)
        self.x = x
        self.hinge = hinge
        self.C = C
        self.history: list[LayerStep] = []
        self.epoch = 0
        self.status = "max_epochs"
        self.hinge_value = self._hinge_from(0, x)
        self.objective = self._objective(self.hinge_value)
        if not math.isfinite(self.objective):
            raise ValueError("network gives scores that are NaN or infinite for X; scale X, or start from smaller weights")

    @property
    def squared_norm(self) -> float:
        """Of all trained weights."""
        return sum(float(layer.weights @ layer.weights) for layer in self.trained.values())

    def _objective(self, hinge: float) -> float:
        return 0.5 * self.squared_norm + self.C * hinge

    def _hinge_from(self, place: int, x: torch.Tensor) -> float:
        """The hinge of the network, given the input of one of its layers."""
        scores = as_table(forward(self.layers[place:], x)).numpy()
        return self.hinge(scores)[0] if np.isfinite(scores).all() else math.inf

    def take(self, place: int, x: torch.Tensor, weights: torch.Tensor) -> bool:
        """Replace the weights of a layer with input ``x`` if that lowers the objective."""
        layer = self.trained[place]
        before = layer.weights
        better = False
        try:
            layer.keep(weights)
            hinge = self._hinge_from(place, x)
            objective = self._objective(hinge)
            better = objective < self.objective
        finally:
            if not better:
                layer.keep(before)
        if better:
            self.objective, self.hinge_value = objective, hinge
        return better

    def store(self) -> None:
        """Hand all weights over to the network."""
        for layer in self.trained.values():
            layer.store()


def _check_input(X: Any) -> torch.Tensor:
    if not isinstance(X, torch.Tensor):
        raise TypeError(f"X must be a tensor, not {type(X).__name__}; convert it with torch.as_tensor(X)")
    if X.ndim < 2 or len(X) == 0:
        raise ValueError(f"X must have shape (n, ...) with at least one sample, but has shape {tuple(X.shape)}")
    if not X.dtype.is_floating_point:
        raise TypeError(f"X must be real numbers, but has dtype {X.dtype}; convert it with X.float()")
    x = X.detach().to("cpu", torch.float64)
    if not torch.isfinite(x).all():
        raise ValueError("X must be finite, but contains NaN or infinity; impute or remove these samples")
    return x


def _check_relevant(relevant: Any, n: int) -> Booleans:
    """A boolean array of shape (n, k)."""
    array = torch.as_tensor(relevant).detach().cpu().numpy()
    if array.ndim not in (1, 2) or len(array) != n or array.size == 0:
        raise ValueError(f"relevant must have shape ({n},) or ({n}, k) for {n} samples in X, but has shape {array.shape}")
    table = array.reshape(n, -1)
    return check_relevant(table.ravel(), table.size).astype(bool).reshape(table.shape)


def _check_network(layers: Sequence[Layer], x: torch.Tensor, n_outputs: int) -> None:
    """Send two samples through the network, to find what does not fit before hours of training do."""
    z = x[:2]
    with torch.no_grad():
        for layer in layers:
            given = tuple(z.shape)
            try:
                z = layer.forward(z)
            except RuntimeError as error:
                raise ValueError(f"network layer {layer.name} does not take an input of shape {given}: {error}") from error
            if len(z) != min(2, len(x)):
                raise ValueError(
                    f"network layer {layer.name} mixes samples: it makes {tuple(z.shape)} of {given}; it must keep the first axis"
                )
    if z.ndim > 2 or as_table(z).shape[1] != n_outputs:
        raise ValueError(
            f"network has an output of shape {tuple(z.shape[1:])} per sample, but relevant has {n_outputs} column(s); it must "
            "have one score for each"
        )
