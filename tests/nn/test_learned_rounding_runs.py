"""Learned rounding: what is said of a run, when it is cut short, and of input that is no good; figures."""

import warnings

import numpy as np
import pytest
from tests.cases.learned_rounding_cases import frustrated

from maxmargin._utils import save_figure
from maxmargin._utils.figures import plot_draws
from maxmargin.labeling import Cliques, Energy, FractionalLabeling, PnPotts, relax
from maxmargin.nn import LearnedRounding, VarianceCollapseWarning, _rounding_training
from maxmargin.nn._rounding_inputs import prepare
from maxmargin.nn._rounding_training import costs, measure
from maxmargin.nn.figures import plot_rounding_history

# ---- variance, time, Ctrl-C ---------------------------------------------------------------------------------------------------


def test_collapsing_variance_is_noticed():
    energy = frustrated(np.random.default_rng(3))
    settings = {"epochs": 60, "hidden": 32, "learning_rate": 3e-2, "samples": 16, "collapse": 0.5}
    with pytest.warns(VarianceCollapseWarning, match=r"fell from .* pass min_sigma=0.1") as caught:
        model = LearnedRounding("graph", min_sigma=1e-6, **settings).fit([energy])
    assert len(caught) == 1 and caught[0].filename == __file__
    assert model.history_[-1].sigma < 0.5 * model.history_[0].sigma
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        floored = LearnedRounding("graph", min_sigma=0.25, **settings).fit([energy])  # the remedy
    assert floored.history_[-1].sigma >= 0.2499


def test_ctrl_c_keeps_the_best_weights(trained, monkeypatch):
    _, problems = trained
    calls = []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return costs(*args)

    monkeypatch.setattr(_rounding_training, "costs", interrupted)
    model = LearnedRounding("graph", epochs=50, learning_rate=1e-2).fit(problems)
    assert model.status_ == "interrupted" and 1 < len(model.history_) < 20
    inputs = [prepare(relax(energy), energy, "y") for energy in problems]
    best = min(row.relative_energy for row in model.history_)
    assert measure(model.network_, inputs, 0)[1] == pytest.approx(best, abs=1e-6)
    assert len(model.round(problems[0], 10).energies) == 10


def test_ctrl_c_keeps_the_best_weights_of_the_longest_training(trained, monkeypatch):
    """However many epochs were planned, some that were trained are among those that were measured."""
    _, problems = trained
    calls = []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 50:
            raise KeyboardInterrupt
        return costs(*args)

    monkeypatch.setattr(_rounding_training, "costs", interrupted)
    model = LearnedRounding("graph", epochs=10**6, learning_rate=1e-2, hidden=8).fit(problems[:1])
    assert model.status_ == "interrupted" and [row.epoch for row in model.history_] == [0, 20, 40]
    assert min(row.energy for row in model.history_) < model.history_[0].energy


def test_time_is_shared_by_problems_and_training(monkeypatch):
    rng = np.random.default_rng(0)
    limits = []

    def spied(energy, method, time_limit):
        limits.append(time_limit)
        return relax(energy, method=method)

    monkeypatch.setattr("maxmargin.nn.learned_rounding.relax", spied)
    LearnedRounding("graph", epochs=1, hidden=4, time_limit=1000).fit([frustrated(rng) for _ in range(4)])
    np.testing.assert_allclose(limits, [125, 1000 / 6, 250, 500], atol=10)


def test_no_step_is_taken_when_time_is_over_before_training(trained, monkeypatch):
    _, problems = trained
    monkeypatch.setattr(_rounding_training, "costs", lambda *_: pytest.fail("a step was taken"))
    model = LearnedRounding("graph", time_limit=0).fit(problems[:1], [np.full((4, 4), 0.25)])
    assert model.status_ == "time_limit" and [row.epoch for row in model.history_] == [0]
    assert len(model.round(problems[0], 5).energies) == 5


def test_ctrl_c_before_anything_is_known(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_rounding_training, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LearnedRounding("graph", epochs=2).fit([frustrated(np.random.default_rng(0))])


def test_ctrl_c_while_drawing(trained, monkeypatch):
    model, problems = trained
    calls = []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return LearnedRounding._marginals(model, *args)

    monkeypatch.setattr(model, "_marginals", interrupted)
    drawn = model.round(problems[0], 1000, 0)
    assert drawn.status == "interrupted" and len(drawn.energies) == 256


def test_time_limits(trained):
    model, problems = trained
    stopped = LearnedRounding("graph", epochs=10**6, time_limit=0.2).fit(problems, [relax(energy) for energy in problems])
    assert stopped.status_ == "time_limit" and stopped.history_
    assert model.tune(problems[0], 10**6, time_limit=0.2).status_ == "time_limit"
    drawn = model.round(problems[0], 10**9, time_limit=0.2)
    assert drawn.status == "time_limit" and 0 < len(drawn.energies) < 10**9


def test_progress_is_said(trained, capsys):
    _, problems = trained
    LearnedRounding("graph", epochs=2, verbose=True).fit(problems[:2])
    assert "learned rounding: epoch 2 of 2, mean energy" in capsys.readouterr().err


# ---- bad input ----------------------------------------------------------------------------------------------------------------


def test_problems_of_another_size_are_refused(trained):
    _, problems = trained
    model = LearnedRounding("dense", epochs=1, hidden=4).fit(problems)
    larger = frustrated(np.random.default_rng(0), 5)
    with pytest.raises(ValueError, match=r"problem has 5 nodes, but the network is for 4; .*kind='graph'"):
        model.round(larger)
    with pytest.raises(ValueError, match=r"problem has 3 labels, but the network is for 4"):
        model.tune(Energy(np.zeros((4, 3))))
    with pytest.raises(ValueError, match=r"problems\[1\] has 5 nodes"):
        LearnedRounding("dense", epochs=1).fit([problems[0], larger], [np.full((4, 4), 0.25), np.full((5, 5), 0.2)])
    grid = LearnedRounding("grid", epochs=1).fit([Energy.grid(np.random.default_rng(0).random((3, 3, 2)), "potts")])
    with pytest.raises(ValueError, match=r"problem is no image; make it by Energy.grid, or take kind='graph'"):
        grid.round(Energy(np.zeros((9, 2))))
    with pytest.raises(ValueError, match="problem has 3 labels"):
        grid.round(Energy.grid(np.zeros((3, 3, 3)), "potts"))
    with pytest.raises(ValueError, match=r"validation\[0\] has 5 nodes"):
        LearnedRounding("dense", epochs=1).fit(problems, validation=[larger])


def test_fractional_solutions_that_are_none_are_refused(trained):
    model, problems = trained
    y = np.full((4, 4), 0.25)
    nan = y.copy()
    nan[2, 1] = np.nan
    for wrong, message in [
        (1.1 * y, r"fractional\[0\] add up to 1.1, not to 1; divide"),
        (nan, r"fractional\[2, 1\] = nan"),
        (y[:3], r"fractional has shape \(3, 4\)"),
        (y[None], r"fractional has shape \(1, 4, 4\), but the energy needs \(4, 4\)"),
        (y - np.eye(4), r"fractional\[0, 0\] = -0.75"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.round(problems[0], fractional=wrong)
        with pytest.raises(ValueError, match=message.replace("fractional", r"fractional\[1\]", 1)):
            LearnedRounding("graph", epochs=1).fit(problems[:2], [y, wrong])
    with pytest.raises(ValueError, match="fractional must be a sequence with one entry for each of the 4 problems"):
        LearnedRounding("graph", epochs=1).fit(problems, [y])
    shut = Energy(np.where(np.eye(4) > 0, np.inf, 0.0), problems[0].edges, "potts")
    with pytest.raises(ValueError, match=r"fractional\[0\] has forbidden labels only"):
        model.round(shut, fractional=np.eye(4))
    # Objects of the library are as good as arrays.
    a, b = (model.round(problems[0], 20, 0, fractional=own) for own in (y, FractionalLabeling(y)))
    np.testing.assert_array_equal(a.energies, b.energies)


def test_energies_that_cannot_be_used_are_refused(trained):
    model, problems = trained
    cliques = Energy(np.zeros((3, 2)), cliques=Cliques([[0, 1, 2]], PnPotts()))
    with pytest.raises(ValueError, match=r"problem has cliques, which have no fractional part; leave them out"):
        model.round(cliques)
    with pytest.raises(ValueError, match=r"problems\[1\] has cliques"):
        LearnedRounding().fit([problems[0], cliques])
    with pytest.raises(TypeError, match=r"problems must be a sequence of Energy; write \[problems\]"):
        LearnedRounding().fit(problems[0])
    with pytest.raises(TypeError, match=r"problems\[0\] must be an Energy, but is a ndarray"):
        LearnedRounding().fit([np.zeros((3, 2))])
    with pytest.raises(ValueError, match="problems are empty"):
        LearnedRounding().fit([])
    for call in ("round", "tune", "marginals"):
        with pytest.raises(ValueError, match=r"not trained; call fit\(problems\) first"):
            getattr(LearnedRounding(), call)(problems[0])
    with pytest.raises(ValueError, match="not trained"):
        LearnedRounding().save("nowhere")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"network": "cnn"}, "network='cnn' is unknown"),
        ({"relaxation": "sdp"}, "relaxation='sdp' is unknown"),
        ({"gradient": "exact"}, "gradient='exact' is unknown"),
        ({"noise": "bernoulli"}, "pass gradient='score'"),
        ({"epochs": 0}, "epochs=0"),
        ({"random_state": 2**64}, r"random_state=18446744073709551616 must be a whole number from 0 to 2\*\*63 - 1"),
        ({"samples": 1.5}, "samples=1.5"),
        ({"batch_size": True}, "batch_size=True"),
        ({"learning_rate": 0}, "learning_rate=0 must be a positive number"),
        ({"entropy": float("nan")}, "entropy=nan"),
        ({"entropy_schedule": "cosine"}, "entropy_schedule='cosine' is unknown"),
        ({"time_limit": -1}, "time_limit=-1"),
        ({"random_state": -1}, "random_state=-1"),
        ({"hidden": 0}, "hidden=0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        LearnedRounding(**wrong).fit([frustrated(np.random.default_rng(0))])


def test_numbers_of_draws_and_steps_are_checked(trained):
    model, problems = trained
    for draws in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"draws={draws!r} must be a positive whole number"):
            model.round(problems[0], draws)
    with pytest.raises(ValueError, match="steps=0"):
        model.tune(problems[0], 0)
    with pytest.raises(ValueError, match="learning_rate=-1"):
        model.tune(problems[0], learning_rate=-1)
    with pytest.raises(ValueError, match="time_limit=-1"):
        model.round(problems[0], time_limit=-1)


# ---- figures ------------------------------------------------------------------------------------------------------------------


def test_figures(trained, tmp_path):
    pytest.importorskip("matplotlib")
    model, problems = trained
    ax = plot_rounding_history(model.history_)
    assert [line.get_label() for line in ax.get_lines()][:1] == ["mean energy"]
    drawn = {"learned": model.round(problems[0], 50, 0).energies, "always the same": np.full(3, 4.0)}
    ax = plot_draws(drawn, lower_bound=3.0)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(drawn)
    save_figure(ax, tmp_path / "draws.png")
    with pytest.raises(ValueError, match="energies are empty"):
        plot_draws({})
    for wrong in ([], [1.0, np.nan], [np.inf], [[1.0]]):
        with pytest.raises(ValueError, match=r"energies\['b'\] must be an array of finite numbers"):
            plot_draws({"a": [1.0, 2.0], "b": wrong})
    assert plot_draws({"a": [1.0, 2.0]}).get_lines()
    with pytest.raises(ValueError, match="history is empty"):
        plot_rounding_history([])
