"""Compiled oracles of one's own: the same optima as the built-in models, whatever the solver; faults are noticed."""

import ctypes
import itertools
from functools import lru_cache

import numpy as np
import pytest
from tests.cases.native_oracles import COMPILER, HAVE_NUMBA, c_library, numba_chains, numba_classes

from maxmargin import _core
from maxmargin.core.solvers import BCFW, FrankWolfe, InexactOracleWarning, NSlackCuttingPlane, OneSlackCuttingPlane, Subgradient
from maxmargin.multiclass import MulticlassProblem
from maxmargin.sequences import ChainProblem
from maxmargin.structured import NativeProblem, native_signature

LAM = 0.05
BOX = (-0.15, 0.3)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no C compiler (gcc or cc) is installed")
    return c_library(tmp_path_factory.mktemp("oracles"))


@lru_cache
def classes_in_numba():
    if not HAVE_NUMBA:
        pytest.skip("numba is not installed")
    return numba_classes()


@lru_cache
def data(n=24, p=5, n_classes=4):
    rng = np.random.default_rng(3)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n, p)) + 0.7 * rng.normal(size=(n_classes, p))[y], y, n_classes


@pytest.fixture(params=["numba", "c", "pieces"])
def problem(request):
    function = classes_in_numba() if request.param == "numba" else None
    if function is None:
        functions = request.getfixturevalue("library")
        function = functions.classes if request.param == "c" else functions.pieces
    X, y, n_classes = data()
    return NativeProblem(function, len(y), X.size // len(y) * n_classes, X, [n_classes, X.shape[1], *y], max_entries=4100)


@lru_cache
def builtin():
    return MulticlassProblem(*data())


@lru_cache
def optimum(bounds):
    return BCFW(tol=1e-9, steps="pairwise", max_passes=100_000).solve(builtin(), LAM, bounds=bounds)


def test_cuts_are_those_of_the_model(problem):
    rng = np.random.default_rng(0)
    for _ in range(5):
        weights = rng.normal(size=problem.n_features)
        blocks = range(problem.n_blocks)
        for ours, theirs in zip(problem.cuts(blocks, weights), builtin().cuts(blocks, weights), strict=True):
            np.testing.assert_allclose(ours.psi, theirs.psi, rtol=1e-14)
            assert ours.loss == theirs.loss


@pytest.mark.parametrize("bounds", [None, BOX], ids=["free", "box"])
@pytest.mark.parametrize("cache", [0, 20])
@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all"])
@pytest.mark.parametrize("sampling", ["gap", "uniform", "permutation"])
def test_every_setting_reaches_the_optimum(problem, sampling, steps, cache, bounds):
    # Plain steps converge slowly: there the optimum must lie within the gap, elsewhere the gap itself is tiny.
    tol = 1e-3 if steps == "fw" else 1e-6
    solver = BCFW(sampling=sampling, steps=steps, cache=cache, tol=tol, max_passes=20_000)
    solution = solver.solve(problem, LAM, bounds=bounds)
    best = optimum(bounds)
    assert solution.converged and solution.certified
    assert solution.dual <= best.primal + 1e-9 and best.dual <= solution.primal + 1e-9
    assert solution.primal - best.primal <= tol * solution.primal + 1e-9
    if steps != "fw":
        assert solution.primal == pytest.approx(best.primal, rel=1e-6)
    assert (np.diff(solution.history.dual) >= 0).all()
    # The objective at the weights, by the built-in model.
    hinges = [cut.hinge(solution.weights) for cut in builtin().cuts(range(problem.n_blocks), solution.weights)]
    expected = LAM / 2 * solution.weights @ solution.weights + np.mean(hinges)
    assert solution.primal == pytest.approx(expected, rel=1e-12)
    if bounds is not None:
        assert (solution.weights >= bounds[0]).all() and (solution.weights <= bounds[1]).all()


@pytest.mark.parametrize("bounds", [None, BOX], ids=["free", "box"])
@pytest.mark.parametrize(("steps", "cache"), list(itertools.product(["fw", "pairwise", "away", "all"], [0, 20])))
def test_dual_never_falls_between_visits(problem, steps, cache, bounds):
    limits = (None, None) if bounds is None else (np.full(problem.n_features, b) for b in bounds)
    engine = _core.BlockEngine(problem.block_data, LAM, *limits, _core.BlockSettings.frank_wolfe("gap", steps, cache, 1), None)
    duals = []
    for visit in range(1500):
        engine.run(1, 1, 10**9, -1.0, 0.0)
        duals.append(engine.dual)
        if visit % 100 == 99:
            # The dual that was added up step by step is that of the distributions.
            running = engine.dual
            primal, exact, gap, _ = engine.gap_pass()
            assert running == pytest.approx(exact, abs=1e-12)
            assert gap == pytest.approx(primal - exact, abs=1e-11)
    assert (np.diff(duals) >= -1e-14).all()


def test_plain_steps_are_those_of_the_builtin_model(problem):
    for sampling in ("gap", "permutation"):
        engines = [
            _core.BlockEngine(p.block_data, LAM, None, None, _core.BlockSettings.frank_wolfe(sampling, "fw", 0, 7), None)
            for p in (problem, builtin())
        ]
        for engine in engines:
            engine.run(500, 500, 10**9, -1.0, 0.0)
        np.testing.assert_allclose(engines[0].weights(), engines[1].weights(), rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(engines[0].gaps(), engines[1].gaps(), rtol=1e-6, atol=1e-12)


def test_hybrid_and_heuristic(problem):
    best = optimum(None)
    for cache in (0, 20):
        hybrid = BCFW(steps="fw", hybrid=True, cache=cache, tol=1e-3, check_every=2, max_passes=20_000).solve(problem, LAM)
        assert hybrid.converged and hybrid.certified
        assert hybrid.dual <= best.primal + 1e-9 and best.dual <= hybrid.primal + 1e-9
        assert (np.diff(hybrid.history.dual) >= 0).all()
    # Every block once per pass, so that no estimate is older than that.
    quick = BCFW(stop="heuristic", sampling="permutation", steps="pairwise", tol=1e-8, max_passes=20_000).solve(problem, LAM)
    assert quick.converged and not quick.certified
    assert quick.primal == pytest.approx(best.primal, rel=1e-6)


@pytest.mark.parametrize("bounds", [None, BOX], ids=["free", "box"])
def test_warm_starts(problem, bounds):
    for first, second in itertools.product([BCFW(tol=1e-3), BCFW(tol=1e-5, steps="all", cache=20)], repeat=2):
        start = first.solve(problem, LAM, bounds=bounds)
        # The second run must not disturb the first one's state.
        before = start.state.engine.dual
        again = second.solve(problem, LAM * 0.5, bounds=bounds, start=start)
        cold = second.solve(problem, LAM * 0.5, bounds=bounds)
        assert again.converged and start.state.engine.dual == before
        assert again.dual <= cold.primal + 1e-12 and cold.dual <= again.primal + 1e-12
    same = first.solve(problem, LAM, bounds=bounds, start=start)
    assert same.passes <= start.passes


@pytest.mark.parametrize(
    "solver",
    [
        OneSlackCuttingPlane(tol=1e-7),
        NSlackCuttingPlane(tol=1e-5),
        FrankWolfe(tol=1e-2, max_passes=5000),
        Subgradient(average="rising", tol=2e-2, max_passes=5000),
    ],
    ids=lambda solver: type(solver).__name__,
)
def test_other_solvers(problem, solver):
    solution = solver.solve(problem, LAM)
    best = optimum(None)
    assert solution.converged and solution.certified
    assert solution.dual <= best.primal + 1e-9
    assert 0 <= solution.primal - best.dual <= solver.tol * solution.primal + 1e-9


def test_many_outputs_are_folded():
    """Chains: an output rarely comes twice, so without a memory most of a block's point is one average."""
    if not HAVE_NUMBA:
        pytest.skip("numba is not installed")
    rng = np.random.default_rng(0)
    K, p, lengths = 6, 40, rng.integers(1, 9, 30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    y = rng.integers(0, K, offsets[-1])
    X = rng.normal(size=(offsets[-1], p)) + 0.5 * rng.normal(size=(K, p))[y]
    model = ChainProblem(X, y, offsets, K)
    problem = NativeProblem(
        numba_chains(),
        model.n_blocks,
        model.n_features,
        X,
        np.concatenate([[K, p, model.n_blocks], offsets, y]),
        max_entries=2 * max(lengths) * (p + 3),
    )
    weights = 0.1 * rng.normal(size=model.n_features)
    for ours, theirs in zip(problem.cuts(range(30), weights), model.cuts(range(30), weights), strict=True):
        assert ours.hinge(weights) == pytest.approx(theirs.hinge(weights), abs=1e-12)
    lam = 0.02
    for bounds in (None, (-0.05, 0.05)):
        reference = BCFW(tol=1e-5, steps="pairwise", cache=20, max_passes=5000).solve(model, lam, bounds=bounds)
        for solver in (BCFW(tol=1e-5, steps="pairwise", max_passes=3000), BCFW(tol=1e-5, steps="all", cache=20, max_passes=3000)):
            solution = solver.solve(problem, lam, bounds=bounds)
            assert solution.converged and solution.certified
            assert (np.diff(solution.history.dual) >= 0).all()
            assert solution.dual <= reference.primal + 1e-9 and reference.dual <= solution.primal + 1e-9
        # Plain steps are the model's own, one by one.
        for solver in (BCFW(steps="fw", max_passes=150), BCFW(steps="fw", hybrid=True, max_passes=150)):
            ours, theirs = (solver.solve(p, lam, bounds=bounds).history for p in (problem, model))
            np.testing.assert_allclose(ours.dual, theirs.dual, rtol=1e-7)
            np.testing.assert_allclose(ours.primal, theirs.primal, rtol=1e-7)
    # Many visits leave the running dual where the distributions say it is.
    engine = _core.BlockEngine(problem.block_data, lam, None, None, _core.BlockSettings.frank_wolfe("uniform", "fw", 0, 1), None)
    engine.run(6000, 6000, 10**9, -1.0, 0.0)
    running = engine.dual
    assert running == pytest.approx(engine.gap_pass()[1], abs=1e-12)


FAULTS = {
    0: "the oracle returned the index 3, but features are numbered from 0 to 2; block 0",
    1: "the oracle returned the index -1",
    2: "the oracle returned the loss -1.0+, but a loss must be finite and not negative",
    3: "the oracle returned the loss -?nan",
    4: "the oracle returned features that are not finite",
    5: "the oracle returned features that are not finite",
    6: "the oracle returned 3 entries, but there is room for 2 .max_entries.",
    7: "the oracle returned -1 entries",
    8: "the oracle returned the loss inf",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_errors(library, fault):
    problem = NativeProblem(library.faulty, 1, 3, integers=[fault], max_entries=2)
    with pytest.raises(ValueError, match=FAULTS[fault]):
        BCFW().solve(problem, 1.0)
    if fault not in (4, 5):
        with pytest.raises(ValueError, match=FAULTS[fault]):
            OneSlackCuttingPlane().solve(problem, 1.0)
    else:
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="NaN"):
            OneSlackCuttingPlane().solve(problem, 1.0)


def test_worse_than_the_truth(library):
    faulty = NativeProblem(library.faulty, 1, 3, integers=[9], max_entries=2)
    with pytest.warns(InexactOracleWarning, match="violate the margin less than the truth"):
        solution = BCFW(max_passes=5).solve(faulty, 1.0, bounds=(0.5, 1.0))
    assert not solution.certified
    with pytest.warns(InexactOracleWarning):
        assert not OneSlackCuttingPlane(max_passes=5).solve(faulty, 1.0, bounds=(0.5, 1.0)).certified


def test_an_inexact_oracle_certifies_nothing(library):
    X, y, n_classes = data()
    problem = NativeProblem(library.classes, len(y), 20, X, [n_classes, 5, *y], exact=False)
    solution = BCFW().solve(problem, LAM)
    assert solution.converged and not solution.certified


def test_address_object_and_subclass(library):
    X, y, n_classes = data()
    arguments = (len(y), 20, X, [n_classes, 5, *y])
    address = ctypes.cast(library.classes, ctypes.c_void_p).value

    class Loaded:
        def __init__(self):
            self.address = address

    for function in (address, np.int64(address), Loaded(), library.classes):
        problem = NativeProblem(function, *arguments)
        assert problem.function is function
        assert BCFW(tol=1e-2).solve(problem, LAM).converged

    class Counted(NativeProblem):
        calls = 0

        def cut(self, block, weights):
            self.calls += 1
            return super().cut(block, weights)

    counted = Counted(address, *arguments)
    assert counted.block_data is None
    assert BCFW(tol=1e-2).solve(counted, LAM).oracle_calls == counted.calls > 0
    with pytest.raises(
        TypeError, match=r"^NativeProblem does not support what BCFW needs \(SupportsExactSteps\): it has no exact_steps"
    ):
        BCFW(steps="exact").solve(problem, LAM)


def test_a_python_callback_takes_the_lock_itself():
    pointer = ctypes.POINTER(ctypes.c_double)
    types = (pointer, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, pointer, ctypes.POINTER(ctypes.c_int32), pointer, pointer)

    @ctypes.CFUNCTYPE(ctypes.c_int64, *types)
    def hinge(reals, integers, block, weights, indices, values, loss):
        if weights[0] * reals[block] >= 1:
            return 0
        loss[0], indices[0], values[0] = 1.0, 0, reals[block]
        return 1

    solution = BCFW(tol=1e-6, steps="pairwise").solve(NativeProblem(hinge, 2, 1, [2.0, 1.0]), 0.1)
    # max(0, 1 - 2w) / 2 + max(0, 1 - w) / 2 + 0.05 w^2 is least at w = 1.
    assert solution.weights[0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"function": 0}, ValueError, "function has the address 0"),
        ({"function": "oracle"}, TypeError, "function='oracle' must be an address, a ctypes function or an object"),
        ({"function": len}, TypeError, "is not compiled; compile it with @numba.cfunc"),
        ({"function": ctypes.pythonapi.Py_IsInitialized}, TypeError, r"ctypes\.PyDLL, but is called without"),
        ({"n_blocks": 0}, ValueError, "n_blocks=0 must lie between 1 and"),
        ({"n_blocks": 2.5}, TypeError, "n_blocks=2.5 must be an integer"),
        ({"n_features": 2**31}, ValueError, "n_features=2147483648 must lie between"),
        ({"max_entries": -1}, ValueError, "max_entries=-1 must lie between"),
        ({"reals": ["a"]}, TypeError, "reals must be an array of real numbers, but has dtype"),
        ({"integers": [0.5]}, TypeError, "integers must be an array of integers, but has dtype float64; convert it with astype"),
        ({"integers": np.array([2**63], dtype=np.uint64)}, ValueError, "integers contains 9223372036854775808"),
    ],
)
def test_bad_arguments(change, error, message):
    arguments = {"function": 1, "n_blocks": 1, "n_features": 1} | change
    with pytest.raises(error, match=message):
        NativeProblem(**arguments)


def test_bad_questions(library):
    problem = NativeProblem(library.faulty, 1, 3, integers=[0], max_entries=2)
    with pytest.raises(ValueError, match="block=1 must lie between 0 and 0"):
        problem.cut(1, np.zeros(3))
    with pytest.raises(ValueError, match=r"weights have shape \(2,\), but must have shape \(3,\)"):
        problem.cut(0, np.zeros(2))


def test_a_numba_function_with_another_signature():
    if not HAVE_NUMBA:
        pytest.skip("numba is not installed")
    import numba

    @numba.cfunc("float64(float64)")
    def other(x):
        return x

    with pytest.raises(TypeError, match=r"function has the signature .* use native_signature\(\)"):
        NativeProblem(other, 1, 1)


def test_numba_is_named_when_it_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r"native_signature\(\) needs numba; install it with `pip install numba`"):
        native_signature()
