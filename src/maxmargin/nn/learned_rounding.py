"""Rounding that is learned: a network makes marginals which complete rounding turns into labels of little energy.

No labels are needed for training, since the mean energy of complete rounding is known exactly for any marginals, with its
gradient. Networks are in ``rounding_network``, training is in ``_rounding_training``.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import numbers
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Floats, StatusLine, check_choice
from maxmargin.io import SavedFileError, read_archive, write_archive
from maxmargin.labeling import Energy, FractionalLabeling, RelaxationName, Roundings, draw_in_parts, relax
from maxmargin.nn._rounding_inputs import RoundingInput, complete_labels, energies_of, prepare
from maxmargin.nn._rounding_training import Gradient, Plan, RoundingEpoch, Schedule, train
from maxmargin.nn.rounding_network import Noise, RoundingNetwork

_KIND = "learned rounding"
_RATES = {"dense": 1e-3, "grid": 1e-3, "graph": 1e-2}
# Numbers that are held at once while drawing.
_NUMBERS = 16_000_000


@dataclass(repr=False)
class LearnedRounding:
    """Learn from problems alone how to round their fractional solutions.

    Parameters
    ----------
    network : {"auto", "dense", "grid", "graph"} or RoundingNetwork
        ``"auto"`` is ``"grid"`` for images with one number of labels, else ``"graph"``. A network that is given is trained in
        place.
    relaxation : {"auto", "lp", "first_order", "qp", "convex_qp", "trws"}
        By which :func:`maxmargin.labeling.relax` makes fractional solutions that are not given.
    costs, residual, noise, min_sigma, hidden, latent, n_layers
        As in :class:`RoundingNetwork`, if one is to be made.
    gradient : {"reparameterized", "score"}
        How the encoder learns: through the draws of the latent variables, or, for signs too, by the logarithm of their density
        times how much more the draw costs than others. Both are unbiased; the latter needs more samples.
    samples : int
        Draws of the latent variables per problem and step.
    entropy : float
        Weight of the negative entropy of the marginals. It keeps them from becoming integral too soon.
    entropy_schedule : {"linear", "constant"}
        Whether this weight falls to zero until the last epoch.
    normalize : bool
        Train on energies relative to what simple rounding finds, and on entropies from 0 to 1, so that ``entropy`` means about
        the same for all problems; otherwise on sums as they are.
    epochs, batch_size : int
        Passes over all problems, problems per step.
    learning_rate : float, optional
        Of Adam; 0.01 for ``"graph"``, which has few weights, and 0.001 for others.
    clip : float
        The longest gradient; longer ones are scaled down.
    collapse : float
        Warn if the latent standard deviations fall below this part of their first value.
    time_limit : float, optional
        Seconds for :meth:`fit`, which then ends with the best weights so far, as after Ctrl-C. Fractional solutions that are not
        given have half of them.
    random_state : int
        Of first weights, latent variables and the order of problems.
    verbose : bool
        Say how far it is.

    Attributes
    ----------
    network_ : RoundingNetwork
    history_ : list of RoundingEpoch
        What was measured while training; after :meth:`tune`, while tuning.
    status_ : {"done", "time_limit", "interrupted"}

    Examples
    --------
    >>> from maxmargin.labeling import Energy
    >>> rng = np.random.default_rng(0)
    >>> edges = [(a, b) for a in range(6) for b in range(a)]
    >>> problems = [Energy(rng.random((6, 3)), edges, "potts", weights=0.12) for _ in range(8)]
    >>> model = LearnedRounding("graph", epochs=30, random_state=0).fit(problems)
    >>> bool(model.history_[-1].energy < model.history_[0].energy)
    True
    >>> drawn = model.round(problems[0], draws=100, random_state=0)
    >>> drawn.method, len(drawn.energies)
    ('learned', 100)
    """

    network: str | RoundingNetwork = "auto"
    _: dataclasses.KW_ONLY
    relaxation: RelaxationName = "auto"
    costs: bool = True
    residual: bool = True
    noise: Noise = "gaussian"
    min_sigma: float = 0.1
    hidden: int | None = None
    latent: int | None = None
    n_layers: int | None = None
    gradient: Gradient = "reparameterized"
    samples: int = 2
    entropy: float = 0.1
    entropy_schedule: Schedule = "linear"
    normalize: bool = True
    epochs: int = 50
    batch_size: int = 4
    learning_rate: float | None = None
    clip: float = 10.0
    collapse: float = 0.05
    time_limit: float | None = None
    random_state: int = 0
    verbose: bool = False

    @classmethod
    def as_published(cls, network: str | RoundingNetwork = "dense", **settings: Any) -> Self:
        """As the thesis describes it: fractional solutions in, marginals out, sums as they are, an entropy of constant weight."""
        own: dict[str, Any] = {"costs": False, "residual": False, "normalize": False, "min_sigma": 1e-6}
        own |= {"entropy": 1.0, "entropy_schedule": "constant"}
        return cls(network, **(own | settings))

    def __repr__(self) -> str:
        made = getattr(self, "network_", self.network)
        return f"LearnedRounding({made!r}{', trained' if hasattr(self, 'network_') else ''})"

    # ---- training -----------------------------------------------------------------------------------------------------------

    def fit(
        self, problems: Sequence[Energy], fractional: Sequence[Any] | None = None, *, validation: Sequence[Energy] = (),
        validation_fractional: Sequence[Any] | None = None,
    ) -> Self:  # fmt: skip
        """Train on problems.

        Parameters
        ----------
        problems : sequence of Energy
            Without cliques.
        fractional : sequence of FractionalLabeling or arrays of shape (N, L) or (H, W, L), optional
            Their fractional solutions; found by ``relaxation`` if they are not given.
        validation, validation_fractional : optional
            Problems by which the best weights are chosen; by default those of the training.
        """
        self._check()
        ends = math.inf if self.time_limit is None else time.perf_counter() + self.time_limit
        _check_problems(problems, "problems")
        if len(problems) == 0:
            raise ValueError("problems are empty; give at least one Energy")
        network = self._network(problems)
        with StatusLine("learned rounding", shown=self.verbose) as line:
            inputs = self._inputs(problems, fractional, "problems", "fractional", network, line, ends)
            _check_problems(validation, "validation")
            judged = self._inputs(validation, validation_fractional, "validation", "validation_fractional", network, line, ends)
            self.history_, self.status_ = train(network, inputs, judged or inputs, self._plan(ends, network), line)
        self.network_ = network
        return self

    def tune(
        self,
        problem: Energy,
        steps: int = 20,
        *,
        fractional: FractionalLabeling | ArrayLike | None = None,
        learning_rate: float | None = None,
        entropy: float | None = None,
        time_limit: float | None = None,
    ) -> LearnedRounding:
        """A copy that was trained some more, on this problem alone; the model itself stays as it is.

        The copy has the best weights on the way, those of the model among them: its mean energy, as ``history_`` has it, is not
        larger than the model's.

        Parameters
        ----------
        problem : Energy
        steps : int
        fractional : FractionalLabeling, or array of shape (N, L) or (H, W, L), optional
        learning_rate : float, optional
            That of the model by default.
        entropy : float, optional
            Constant weight of the entropy; by default that of the last epoch of training, which is 0 but for
            ``entropy_schedule="constant"``.
        time_limit : float, optional
            Seconds.
        """
        network = self._trained()
        if not _whole(steps) or steps < 1:
            raise ValueError(f"steps={steps!r} must be a positive whole number")
        last = self.entropy if self.entropy_schedule == "constant" else 0.0
        changed: dict[str, Any] = {"epochs": int(steps), "entropy": last if entropy is None else entropy}
        changed["entropy_schedule"] = "constant"
        changed["time_limit"] = time_limit
        changed["learning_rate"] = self.learning_rate if learning_rate is None else learning_rate
        made = dataclasses.replace(self, **changed)
        made._check()
        ends = math.inf if time_limit is None else time.perf_counter() + time_limit
        made.network_ = copy.deepcopy(network)
        if isinstance(made.network, RoundingNetwork):
            made.network = made.network_
        _check_problems([problem], "problem")
        with StatusLine("tuning", shown=self.verbose) as line:
            given = None if fractional is None else [fractional]
            inputs = self._inputs([problem], given, "problem", "fractional", network, line, ends)
            plan = made._plan(ends, network, measurements=int(steps))
            made.history_, made.status_ = train(made.network_, inputs, inputs, plan, line)
        return made

    # ---- rounding -----------------------------------------------------------------------------------------------------------

    def marginals(
        self,
        problem: Energy,
        draws: int = 1,
        random_state: int | np.random.Generator | None = None,
        *,
        fractional: FractionalLabeling | ArrayLike | None = None,
    ) -> Floats:
        """What the network makes of a problem: marginals of shape (draws, N, L), one set for every draw of latent variables."""
        self._trained()
        (one,) = self._one(problem, fractional)
        if not _whole(draws) or draws < 1:
            raise ValueError(f"draws={draws!r} must be a positive whole number")
        return self._marginals(one, int(draws), _generator(np.random.default_rng(random_state)))

    def round(
        self,
        problem: Energy,
        draws: int = 1000,
        random_state: int | np.random.Generator | None = None,
        *,
        fractional: FractionalLabeling | ArrayLike | None = None,
        time_limit: float | None = None,
    ) -> Roundings:
        """Draw latent variables and labels, each time anew, and keep the best.

        Parameters
        ----------
        problem : Energy
        draws : int
            Labelings to draw.
        random_state : int, Generator or None
            The same labels come from the same seed.
        fractional : FractionalLabeling, or array of shape (N, L) or (H, W, L), optional
            Found by ``relaxation`` if it is not given.
        time_limit : float, optional
            Seconds; what was drawn until then is returned, as after Ctrl-C.
        """
        self._trained()
        if not _whole(draws) or draws < 1:
            raise ValueError(f"draws={draws!r} must be a positive whole number")
        limit: Any = 0 if time_limit is None else time_limit
        if not (isinstance(limit, numbers.Real) and float(limit) >= 0):
            raise ValueError(f"time_limit={time_limit!r} must be zero or a positive number")
        begin = time.perf_counter()
        ends = math.inf if time_limit is None else begin + time_limit
        (one,) = self._one(problem, fractional, ends)
        rng = np.random.default_rng(random_state)
        generator = _generator(rng)
        at_once = max(1, min(128, _NUMBERS // self.network_.numbers_per_draw(one)))

        def draw(_: int, count: int) -> tuple[Floats, int, NDArray[np.int64]]:
            labels = complete_labels(self._marginals(one, count, generator), rng.random(count))
            energies = energies_of(problem, labels)
            least = int(energies.argmin())
            return energies, least, labels[least]

        energies, best, status = draw_in_parts(draw, int(draws), at_once, ends, self.verbose)
        seconds = time.perf_counter() - begin
        return Roundings(best.reshape(problem.shape), problem.energy(best), energies, "learned", seconds=seconds, status=status)

    def _marginals(self, one: RoundingInput, draws: int, generator: torch.Generator) -> Floats:
        with torch.no_grad():
            (own,) = self.network_([one], draws, generator)
        if not torch.isfinite(own.marginals).all():
            raise FloatingPointError("the network makes numbers that are not finite; train it again with a lower learning_rate")
        return np.asarray(own.marginals.numpy())

    # ---- files --------------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write a trained model to a file: numbers and text, nothing that runs when it is read."""
        network = self._trained()
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "network"}
        own = {name: value.item() if isinstance(value, np.generic) else value for name, value in own.items()}
        # A network that was given is the one that is saved; one that was asked for by name is made anew by another fit.
        own |= {"network": self.network} if isinstance(self.network, str) else {}
        content = {"settings": own, "network": network.settings, "status": self.status_}
        arrays = {f"weight {name}": value.detach().cpu().numpy() for name, value in network.state_dict().items()}
        arrays["history"] = np.array([dataclasses.astuple(row) for row in self.history_])
        write_archive(path, _KIND, content, arrays)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read what `save` wrote; :class:`maxmargin.io.archive.SavedFileError` says what is wrong with another file."""
        archive = read_archive(path, _KIND)
        try:
            content, arrays = archive.content, archive.arrays
            network = _read_network(content["network"], arrays)
            settings = {"network": network} | content["settings"]
            model = cls(settings.pop("network"), **settings)
            model._check()
            model.network_, model.status_ = network, str(content["status"])
            model.history_ = [RoundingEpoch(int(row[0]), *row[1:]) for row in arrays["history"].tolist()]
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError, OverflowError) as error:
            raise SavedFileError(f"{path}: is no sound model ({error}); write it again by LearnedRounding.save") from error
        return model

    # ---- what is given ------------------------------------------------------------------------------------------------------

    def _trained(self) -> RoundingNetwork:
        if not hasattr(self, "network_"):
            raise ValueError("the model is not trained; call fit(problems) first")
        return self.network_

    def _network(self, problems: Sequence[Energy]) -> RoundingNetwork:
        if isinstance(self.network, RoundingNetwork):
            return self.network
        sizes: dict[str, Any] = {"hidden": self.hidden, "latent": self.latent, "n_layers": self.n_layers}
        settings = {"costs": self.costs, "residual": self.residual, "noise": self.noise, "min_sigma": self.min_sigma}
        return RoundingNetwork.for_problems(problems, self.network, **settings, **sizes, seed=int(self.random_state))

    def _one(self, problem: Energy, fractional: Any, ends: float = math.inf) -> list[RoundingInput]:
        _check_problems([problem], "problem")
        given = None if fractional is None else [fractional]
        return self._inputs([problem], given, "problem", "fractional", self.network_, StatusLine(shown=False), ends)

    def _inputs(
        self, problems: Sequence[Energy], fractional: Any, name: str, given: str, network: RoundingNetwork, line: StatusLine,
        ends: float = math.inf,
    ) -> list[RoundingInput]:  # fmt: skip
        """Problems with fractional solutions, all of which the network takes."""
        if fractional is not None and (not hasattr(fractional, "__len__") or len(fractional) != len(problems)):
            raise ValueError(f"{given} must be a sequence with one entry for each of the {len(problems)} {name}")
        made = []
        alone = len(problems) == 1 and name == "problem"
        for k, energy in enumerate(problems):
            network.check(energy, name if alone else f"{name}[{k}]")
        for k, energy in enumerate(problems):
            if fractional is None and not alone:
                line.show(f"fractional solution {k + 1} of {len(problems)}")
            own = fractional[k] if fractional is not None else self._relaxed(energy, ends, len(problems) - k)
            made.append(prepare(own, energy, given if alone else f"{given}[{k}]"))
        return made

    def _relaxed(self, energy: Energy, ends: float, n_left: int) -> FractionalLabeling:
        # Half of the time is for what comes after, and the first of many problems must not use up that of the others.
        left = None if ends == math.inf else max(0.0, ends - time.perf_counter()) / (2 * n_left)
        found = relax(energy, method=self.relaxation, time_limit=left)
        if found.status == "interrupted":
            raise KeyboardInterrupt
        return found

    def _plan(self, ends: float, network: RoundingNetwork, measurements: int | None = None) -> Plan:
        rate = self.learning_rate if self.learning_rate is not None else _RATES[network.kind]
        return Plan(
            self.epochs, self.batch_size, self.samples, self.gradient, float(self.entropy), self.entropy_schedule, self.normalize,
            rate, self.clip, self.collapse, ends, int(self.random_state), measurements,
        )  # fmt: skip

    def _check(self) -> None:
        for name, choices in (("relaxation", RelaxationName), ("gradient", Gradient), ("entropy_schedule", Schedule)):
            check_choice(name, getattr(self, name), get_args(choices))
        if not isinstance(self.network, str | RoundingNetwork):
            raise TypeError(f"network must be a name or a RoundingNetwork, but is a {type(self.network).__name__}")
        if isinstance(self.network, str):
            check_choice("network", self.network, ("auto", "dense", "grid", "graph"))
        noise = self.network.noise if isinstance(self.network, RoundingNetwork) else self.noise
        if noise == "bernoulli" and self.gradient == "reparameterized":
            raise ValueError("noise='bernoulli' has no reparameterized gradients; pass gradient='score'")
        for name in ("epochs", "batch_size", "samples"):
            if not _whole(getattr(self, name)) or getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r} must be a positive whole number")
        for name in ("learning_rate", "clip", "entropy", "collapse", "time_limit"):
            value = getattr(self, name)
            zero = name in ("entropy", "collapse", "time_limit")
            number = float(value) if isinstance(value, numbers.Real) else math.nan
            if value is None and name in ("time_limit", "learning_rate"):
                continue
            if not (0 < number < math.inf or (zero and number == 0)):
                raise ValueError(f"{name}={value!r} must be {'zero or ' if zero else ''}a positive number")
        if not _whole(self.random_state) or not 0 <= self.random_state < 2**63:
            raise ValueError(f"random_state={self.random_state!r} must be a whole number from 0 to 2**63 - 1")


def _check_problems(problems: Any, name: str) -> None:
    if isinstance(problems, Energy) or not hasattr(problems, "__len__"):
        raise TypeError(f"{name} must be a sequence of Energy; write [{name}] for one")
    for k, energy in enumerate(problems):
        place = name if name == "problem" else f"{name}[{k}]"
        if not isinstance(energy, Energy):
            remedy = "make it by Energy(unary, edges, pairwise)"
            raise TypeError(f"{place} must be an Energy, but is a {type(energy).__name__}; {remedy}")
        if energy.cliques:
            raise ValueError(f"{place} has cliques, which have no fractional part; leave them out by energy.replaced(cliques=())")


def _read_network(settings: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> RoundingNetwork:
    """A network with the weights of a file; memory is taken for those only, whatever sizes the file speaks of."""
    if (n_layers := settings["n_layers"]) > len(arrays):
        raise ValueError(f"n_layers={n_layers!r}, but there are {len(arrays)} arrays")
    with torch.device("meta"):
        network = RoundingNetwork(**settings)
    weights = {name: torch.from_numpy(np.array(arrays[f"weight {name}"], np.float32)) for name in network.state_dict()}
    if wrong := [name for name, value in weights.items() if not torch.isfinite(value).all()]:
        raise ValueError(f"the weights {wrong[0]} are not finite")
    network.load_state_dict(weights, assign=True)
    return network


def _whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _generator(rng: np.random.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(rng.integers(2**63)))
