"""Runs that are ended and go on from a file, with new shards and a new client."""

import json
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

from maxmargin import SavedFileError
from maxmargin.core import CheckpointFile
from maxmargin.core.checkpoint import KIND
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane
from maxmargin.distributed import Fault, LocalEngine, ShardedMean, ShardOf, split_rows
from maxmargin.io import read_archive, write_archive
from maxmargin.ranking.shards import ShardedRanking


def lists(n_shards=3, faults=(), scale=1.0, loss="ap"):
    rng = np.random.default_rng(0)
    X, qid = scale * rng.normal(size=(240, 12)), np.repeat(np.arange(30), 8)
    y = X[:, 0] / scale + rng.normal(size=240) > 0.5
    return ShardedRanking(
        LocalEngine([ShardOf(part, "ranking") for part in split_rows(X, y, n_shards, qid)], faults=faults), loss
    )


def classes():
    X, y = load_digits(return_X_y=True)
    return ShardedMean.classes(LocalEngine([ShardOf(part, "classes") for part in split_rows(X[:150] / 16, y[:150], 2)]))


def solve(make, lam, file=None, bounds=None, **settings):
    problem = make()
    checkpoint = None if file is None else CheckpointFile(file, problem, lam, bounds)
    return OneSlackCuttingPlane(checkpoint=checkpoint, **{"tol": 1e-4, **settings}).solve(problem, lam, bounds=bounds)


def assert_equal_bits(one, other):
    assert np.array_equal(one.weights, other.weights)
    assert (one.primal, one.dual, one.passes, one.status) == (other.primal, other.dual, other.passes, other.status)
    assert (one.history.primal, one.history.dual, one.history.passes) == (
        other.history.primal, other.history.dual, other.history.passes
    )  # fmt: skip
    assert one.certified == other.certified and one.dual_curve == other.dual_curve


CASES = {
    "lists": (lists, 1e-3, None),
    "bounds": (lists, 1e-3, (np.zeros(12), np.full(12, 0.5))),
    "classes": (classes, 0.05, None),
    "large features": (lambda: lists(scale=1e6), 1e-3, None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_from_wherever_a_run_was_ended(case, tmp_path):
    make, lam, bounds = CASES[case]
    settings = {"tol": 1e-2} if case == "classes" else {}
    clean = solve(make, lam, bounds=bounds, **settings)
    assert clean.certified and len(clean.history) > 5
    for end in (1, 2, len(clean.history) // 2, len(clean.history) - 1):
        file = tmp_path / f"{end}.ckpt"
        begun = solve(make, lam, file, bounds, **settings, callback=lambda history, end=end: len(history) >= end)
        assert begun.status == ("callback" if end < len(clean.history) else "converged")
        assert_equal_bits(solve(make, lam, file, bounds, **settings), clean)
        # Once more: nothing is left to do.
        assert_equal_bits(solve(make, lam, file, bounds, **settings), clean)


def test_ended_again_and_again(tmp_path):
    clean, file = solve(lists, 1e-3, tol=3e-2), tmp_path / "run.ckpt"
    for _ in range(100):
        begun = len(read_archive(file, "training checkpoint").arrays["history.primal"]) if file.exists() else 0
        found = solve(lists, 1e-3, file, tol=3e-2, callback=lambda history, begun=begun: len(history) > begun)
        if found.converged:
            break
    assert_equal_bits(found, clean)


def test_ctrl_c_writes_what_was_reached(tmp_path):
    clean, file = solve(lists, 1e-3), tmp_path / "run.ckpt"
    calls = 0

    def press(history):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt

    assert solve(lists, 1e-3, file, callback=press).status == "interrupted"
    # The round that was interrupted is done again.
    assert len(read_archive(file, "training checkpoint").arrays["history.primal"]) == 5
    assert_equal_bits(solve(lists, 1e-3, file), clean)


def test_lost_shards_before_and_after(tmp_path):
    clean, file = solve(lists, 1e-3), tmp_path / "run.ckpt"
    solve(lambda: lists(faults=[Fault("lost before", 12, 1)]), 1e-3, file, callback=lambda history: len(history) >= 4)
    assert_equal_bits(solve(lambda: lists(faults=[Fault("lost before", 9, 2)]), 1e-3, file), clean)


def test_another_number_of_shards_goes_on_too(tmp_path):
    clean, file = solve(lists, 1e-3), tmp_path / "run.ckpt"
    solve(lists, 1e-3, file, callback=lambda history: len(history) >= 4)
    found = solve(lambda: lists(5), 1e-3, file)
    assert found.certified and found.passes == clean.passes and found.primal == pytest.approx(clean.primal, rel=1e-9)


def test_pauses_between_writes(tmp_path):
    problem, file = lists(), tmp_path / "run.ckpt"
    written = []

    class Counted(CheckpointFile):
        def close(self):
            written.append(self._pending is not None)
            super().close()

    OneSlackCuttingPlane(tol=0.1, checkpoint=Counted(file, problem, 1e-3, pause=1e9)).solve(problem, 1e-3)
    assert sum(written) == 1
    file.unlink()
    written.clear()
    found = OneSlackCuttingPlane(tol=0.1, checkpoint=Counted(file, problem, 1e-3, pause=0)).solve(problem, 1e-3)
    assert sum(written) == len(found.history)


@pytest.mark.parametrize(
    ("make", "lam", "bounds", "message"),
    [
        (lists, 2e-3, None, "lam=0.001, not 0.002"),
        (classes, 1e-3, None, "n_blocks="),
        (lambda: lists(loss="ndcg"), 1e-3, None, "other data or for another loss"),
        (lists, 1e-3, (np.zeros(12), np.ones(12)), "other bounds of the weights"),
    ],
)
def test_checkpoints_of_other_runs_are_refused(make, lam, bounds, message, tmp_path):
    file = tmp_path / "run.ckpt"
    solve(lists, 1e-3, file, max_passes=3)
    with pytest.raises(SavedFileError, match=message):
        solve(make, lam, file, bounds)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda numbers, arrays: numbers.pop("calls"),
        lambda numbers, arrays: numbers.update(primal="1"),
        lambda numbers, arrays: numbers.update(curve=[1.0]),
        lambda numbers, arrays: numbers.update(exact=1),
        lambda numbers, arrays: numbers.update(bound="x"),
        lambda numbers, arrays: arrays.pop("cuts.rows"),
        lambda numbers, arrays: arrays.update({"cuts.rows": arrays["cuts.rows"][:, 1:]}),
        lambda numbers, arrays: arrays.update({"cuts.losses": arrays["cuts.losses"][1:]}),
        lambda numbers, arrays: arrays.update({"cuts.idle": arrays["cuts.losses"]}),
        lambda numbers, arrays: arrays.update({"best.psi": np.full(12, np.nan)}),
        lambda numbers, arrays: arrays.update({"cuts.solution": -arrays["cuts.solution"]}),
        lambda numbers, arrays: arrays.update({"cuts.support": arrays["cuts.support"] + 1000}),
        lambda numbers, arrays: arrays.update({"cuts.support": 0 * arrays["cuts.support"]}),
        lambda numbers, arrays: arrays.update({"cuts.factor": 0 * arrays["cuts.factor"]}),
        lambda numbers, arrays: arrays.update({"roots.weights": arrays["roots.weights"][:, 1:]}),
        lambda numbers, arrays: arrays.update({"roots.coefficients": np.zeros(0)}),
        lambda numbers, arrays: arrays.update({"cuts.free": np.ones(3, dtype=bool)}),
        lambda numbers, arrays: [arrays.update({k: v[:0]}) for k, v in list(arrays.items()) if k.startswith("history")],
    ],
)
def test_damaged_checkpoints(spoil, tmp_path):
    file = tmp_path / "run.ckpt"
    solve(lists, 1e-3, file, max_passes=3)
    content, arrays, _ = read_archive(file, "training checkpoint")
    spoil(content["numbers"], arrays)
    write_archive(file, "training checkpoint", content, arrays)
    with pytest.raises(SavedFileError, match=r"is not a sound checkpoint .* remove it to begin anew"):
        solve(lists, 1e-3, file)


def test_files_hold_no_pickles(tmp_path):
    file = tmp_path / "run.ckpt"
    solve(lists, 1e-3, file, max_passes=3)
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        assert all(name == "header.json" or name.endswith(".npy") for name in names)
        assert json.loads(archive.read("header.json"))["kind"] == "training checkpoint"
    for name in names:
        if name.endswith(".npy"):
            with zipfile.ZipFile(file) as archive, archive.open(name) as member:
                np.lib.format.read_array(member, allow_pickle=False)
    write_archive(file, "model", {}, {})
    with pytest.raises(SavedFileError, match="name another file for the checkpoint"):
        solve(lists, 1e-3, file)


def test_other_solvers_have_none():
    with pytest.raises(TypeError, match="checkpoint"):
        BCFW(checkpoint=None)


def test_other_data_in_a_column_that_is_small_beside_others(tmp_path):
    """Marks compare vectors by their largest entry; what was found tells."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.3).astype(float)
    noise, good, bad = 1e7 * rng.normal(size=400), 1e-4 * (y + 0.3 * rng.normal(size=400)), 1e-4 * 0.3 * rng.normal(size=400)

    def make(column, n_shards=2):
        parts = split_rows(np.stack([noise, column], axis=1), y, n_shards)
        return ShardedRanking(LocalEngine([ShardOf(part, "ranking") for part in parts]), "ap")

    file = tmp_path / "run.ckpt"
    found = solve(lambda: make(good), 1e-10, file, tol=1e-3)
    assert found.certified
    with pytest.raises(SavedFileError, match="other data"):
        solve(lambda: make(bad), 1e-10, file, tol=1e-3)
    again = solve(lambda: make(good, 5), 1e-10, file, tol=1e-3)
    assert again.certified and again.passes == found.passes


@pytest.mark.parametrize("mark", ["mark.psi", "mark.levels"])
def test_marks_tell_data_apart_where_nothing_was_found_yet(tmp_path, mark):
    """At weights of zero the hinge is that of any data."""
    file = tmp_path / "run.ckpt"
    solve(lists, 1e-3, file, max_passes=2)
    content, arrays, _ = read_archive(file, KIND)
    write_archive(file, KIND, content, {**arrays, mark: arrays[mark] * (1 + 1e-12)})
    solve(lists, 1e-3, file, max_passes=2)
    write_archive(file, KIND, content, {**arrays, mark: arrays[mark] * (1 + 1e-6)})
    with pytest.raises(SavedFileError, match="other data"):
        solve(lists, 1e-3, file, max_passes=2)
