"""Budgets are set in one place: on the estimator beside the name of a solver, on the solver if it is an object."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from tests.cases.reference_cases import BAG_LABELS, BAGS, HIERARCHY, LEAVES, RELEVANT, X, problems

from maxmargin import ApproximateRankingSVM, HierarchicalSVM, LatentStructuredSVM, MulticlassSVM, MultilabelSVM, RankingSVM
from maxmargin.core.estimator import BUDGETS
from maxmargin.core.solvers import BCFW, ConvergenceWarning, History, OneSlackCuttingPlane, Subgradient
from maxmargin.structured import LatentClasses

IRIS, KINDS = load_iris(return_X_y=True)
EASY = OneSlackCuttingPlane()


def stop_at_once(history: History) -> bool:
    return True


OTHERS = {"tol": 0.5, "max_iter": 7, "time_limit": 60.0, "random_state": 3, "callback": stop_at_once}


def warning_of(task):
    """The text of its only ConvergenceWarning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task()
    texts = [str(one.message) for one in caught if issubclass(one.category, ConvergenceWarning)]
    assert len(texts) == 1, texts
    return texts[0]


# ---- a Solver object and the parameters of the estimator ----------------------------------------------------------------------


def test_every_budget_of_the_estimator_is_looked_at():
    assert OTHERS.keys() == BUDGETS.keys()


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("make", [MulticlassSVM, RankingSVM])
def test_a_budget_beside_a_solver_object_is_refused(name, make):
    model = make(solver=BCFW(steps="exact") if make is MulticlassSVM else EASY, **{name: OTHERS[name]})
    kind, field = type(model.solver), BUDGETS[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        model.fit(X, RELEVANT)
    text, known = str(caught.value), {BCFW: "bcfw", OneSlackCuttingPlane: "one_slack"}[kind]
    assert text.startswith(
        f"{name}={OTHERS[name]!r} would be ignored: solver={kind.__name__}({field}={getattr(model.solver, field)!r})"
    )
    assert f"use {kind.__name__}({field}={OTHERS[name]!r}), or name the solver, such as solver={known!r}" in text


@pytest.mark.parametrize("name", OTHERS)
def test_a_budget_beside_a_named_solver_is_used(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MulticlassSVM(solver="bcfw", **{name: OTHERS[name]})
        chosen = model.fit(X, RELEVANT)._solver(problems()["binary"])
    assert getattr(chosen, BUDGETS[name]) == OTHERS[name]


def test_budgets_that_agree_are_not_refused():
    given = {"tol": 0.2, "max_iter": 50, "time_limit": 60.0, "random_state": 3, "callback": len}
    solver = BCFW(tol=0.2, max_passes=50, time_limit=60.0, random_state=3, callback=lambda history: False)
    with pytest.raises(ValueError, match="callback="):
        MulticlassSVM(solver=solver, **given).fit(X, RELEVANT)
    assert MulticlassSVM(solver=solver, **(given | {"callback": solver.callback})).fit(X, RELEVANT).certified_


def test_defaults_are_those_of_the_class_that_is_trained():
    class Patient(MulticlassSVM):
        def __init__(self, C=1.0, solver="auto", max_iter=77):
            super().__init__(C=C, solver=solver, max_iter=max_iter)

    assert MulticlassSVM().max_iter != 77
    assert Patient(solver=EASY).fit(X, RELEVANT).certified_
    with pytest.raises(ValueError, match="max_iter=10000 would be ignored"):
        Patient(solver=EASY, max_iter=10_000).fit(X, RELEVANT)


def test_loops_around_a_solver_object_keep_their_budgets():
    latent = LatentStructuredSVM(LatentClasses(2), solver=EASY, tol=0.1, time_limit=60.0, random_state=1).fit(BAGS, BAG_LABELS)
    assert latent.certified_
    with pytest.raises(ValueError, match="max_iter=5 would be ignored"):
        clone(latent).set_params(max_iter=5).fit(BAGS, BAG_LABELS)
    shared = HierarchicalSVM(HIERARCHY, norm="shared", solver=BCFW(), tol=0.1, time_limit=60.0, callback=lambda history: False)
    assert shared.fit(X, LEAVES).certified_
    with pytest.raises(ValueError, match="random_state=5 would be ignored"):
        clone(shared).set_params(random_state=5).fit(X, LEAVES)
    with pytest.raises(ValueError, match=r"tol=0\.1 would be ignored"):
        clone(shared).set_params(norm="flat").fit(X, LEAVES)


def test_scikit_learn_sets_and_searches_budgets():
    model = MulticlassSVM(solver=BCFW(), tol=0.1)
    same = clone(model)
    assert same.get_params() == model.get_params() and same.tol == 0.1
    # What is refused by fit alone can still be set right.
    assert same.set_params(solver="bcfw").fit(X, RELEVANT).certified_
    search = GridSearchCV(MulticlassSVM(solver="bcfw"), {"tol": [0.5, 1e-4]}, cv=3, error_score="raise").fit(X, RELEVANT)
    assert search.best_params_["tol"] in (0.5, 1e-4)
    loose, tight = (MulticlassSVM(solver="bcfw", tol=tol).fit(X, RELEVANT) for tol in (0.5, 1e-4))
    assert tight.dual_gap_ <= 1e-4 * tight.primal_objective_ < loose.dual_gap_
    solvers = {"solver": [BCFW(tol=0.5), BCFW(tol=1e-3)]}
    assert GridSearchCV(MulticlassSVM(), solvers, cv=3, error_score="raise").fit(X, RELEVANT).best_estimator_.certified_


# ---- warnings -----------------------------------------------------------------------------------------------------------------


def test_a_warning_names_the_budget_that_was_in_force():
    named = MulticlassSVM(C=100, solver="bcfw", max_iter=2, tol=1e-9)
    assert "stopped (max_iter)" in (text := warning_of(lambda: named.fit(IRIS, KINDS)))
    assert "; raise max_iter, lower C" in text and "max_passes" not in text
    own = MulticlassSVM(C=100, solver=BCFW(max_passes=2, tol=1e-9))
    assert "stopped (max_passes)" in (text := warning_of(lambda: own.fit(IRIS, KINDS)))
    assert "; raise max_passes of BCFW(max_passes=2), lower C" in text and "max_iter" not in text
    hurried = {"tol": 1e-300, "time_limit": 1e-9}
    named = MulticlassSVM(C=100, solver="bcfw", **hurried)
    assert "raise time_limit, " in warning_of(lambda: named.fit(IRIS, KINDS))
    own = MulticlassSVM(C=100, solver=BCFW(**hurried))
    assert "raise time_limit of BCFW(time_limit=1e-09), " in warning_of(lambda: own.fit(IRIS, KINDS))


def test_a_warning_names_the_time_limit_of_the_loop_around_a_solver_object():
    model = HierarchicalSVM(HIERARCHY, norm="shared", solver=BCFW(tol=1e-300, time_limit=60.0), time_limit=1e-9)
    text = warning_of(lambda: model.fit(X, LEAVES))
    assert "raise time_limit, " in text and "BCFW" not in text


def test_a_warning_after_a_callback_names_no_budget():
    text = warning_of(lambda: MulticlassSVM(C=100, tol=1e-9, callback=stop_at_once).fit(IRIS, KINDS))
    assert "stopped (callback)" in text and "raise" not in text and "; lower C" in text


# ---- zero weights -------------------------------------------------------------------------------------------------------------


def test_zero_weights_after_the_whole_budget_are_a_failure_to_train():
    model = MulticlassSVM(C=10, solver=Subgradient(average="rising", max_passes=200))
    text = warning_of(lambda: model.fit(IRIS, KINDS))
    assert not model.coef_.any() and model.score(IRIS, KINDS) < 0.4
    assert (
        "stopped (max_passes) after 200 passes" in text and "did not train: all weights are zero after the whole budget;" in text
    )
    assert "; raise max_passes of Subgradient(max_passes=200), use solver='auto', lower C" in text
    # What is proved is no more than that: the optimum lies between the two.
    best = MulticlassSVM(C=10).fit(IRIS, KINDS)
    assert model.dual_objective_ <= best.dual_objective_ and model.dual_gap_ >= 0.9 * model.primal_objective_
    assert model.primal_objective_ >= best.primal_objective_ and model.certified_


def test_no_solver_is_advised_where_there_is_no_choice():
    model = ApproximateRankingSVM(C=1e3, tol=1e-6, easy_fraction=1, time_limit=1e-9)
    text = warning_of(lambda: model.fit(X, RELEVANT))
    assert "did not train: all weights are zero" in text and "; raise time_limit, lower C" in text and "solver" not in text


def test_other_weights_after_the_whole_budget_are_no_failure_to_train():
    model = MulticlassSVM(C=10, solver=BCFW(max_passes=3))
    text = warning_of(lambda: model.fit(IRIS, KINDS))
    assert model.coef_.any() and "stopped" in text and "zero" not in text


def test_zero_weights_that_are_optimal_are_no_failure_to_train():
    X, y = np.vstack([IRIS, IRIS]), np.concatenate([KINDS, (KINDS + 1) % 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MulticlassSVM(bounds=(0, 0)).fit(X, y)
    assert not model.coef_.any() and model.n_iter_ >= 1


def test_zero_weights_of_a_cut_off_are_an_optimum_only_if_proved():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 6 == 0
    X[0], y[0] = 50.0, False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = RankingSVM("ndcg@5", C=10.0, tol=1e-300, max_iter=1, solver="fw").fit(X, y)
    texts = [str(one.message) for one in caught]
    assert not model.coef_.any() and any("did not train: all weights are zero" in text for text in texts)
    assert any("may have its optimum at zero weights" in text for text in texts)
    assert not any("has its optimum" in text for text in texts)


def test_large_features_are_named_when_zero_weights_are_reported():
    Y = np.column_stack([RELEVANT, 1 - RELEVANT])
    solver = Subgradient(average="rising", max_passes=3)
    text = warning_of(lambda: MultilabelSVM(C=1e6, solver=solver).fit(X, Y))
    assert "did not train: all weights are zero" in text and "The features are too large for C=1e+06" in text
