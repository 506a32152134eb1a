"""The figure of a path says what the path says."""

import numpy as np
import pytest

from maxmargin import RankingSVM, regularization_path

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def traced():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)) * [1, 2, 3, 4]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=120) > 1).astype(int)
    path = regularization_path(RankingSVM("ap"), X[:60], y[:60], epsilon=0.05, lambda_min=1e-3)
    return path, path.select(X[60:], y[60:]), path.select(X[:60], y[:60])


def lines(panel):
    return {str(line.get_label()): np.asarray(line.get_xydata()) for line in panel.lines}


def test_panels(traced):
    path, selection, training = traced
    figure = path.plot(selection=selection, training=training, feature_names=["a", "b", "c", "d"]).figure
    scores, objective, weights = figure.axes
    assert all(panel.get_xscale() == "log" for panel in figure.axes)
    upper, lower = (next(xy for name, xy in lines(objective).items() if word in name) for word in ("upper", "lower"))
    for (C, top), (_, bottom) in zip(upper[1:-1], lower[1:-1], strict=True):
        # At the end of a range two weights meet; both have their objective and bound there.
        near = [path.estimator(1 / C * (1 + e)) for e in (-1e-9, 1e-9) if path.lambda_end <= 1 / C * (1 + e) < path.lambdas[0]]
        assert any(top == pytest.approx(m.primal_objective_ / C, rel=1e-5) for m in near)
        assert any(bottom == pytest.approx(m.dual_objective_ / C, rel=1e-5) for m in near)
        assert -1e-12 <= top - bottom <= path.epsilon + 1e-12
    drawn = lines(scores)
    assert drawn["chosen"].tolist() == [[1 / selection.lam, selection.score]]
    middle = np.sqrt(drawn["validation"][::2, 0] * drawn["validation"][1::2, 0])
    values = [selection.scores[path.model_at(1 / C)] for C in middle]
    np.testing.assert_array_equal(drawn["validation"][::2, 1], values)
    assert drawn["validation"][:, 1].max() == selection.score and len(drawn["training"]) == len(drawn["validation"])
    found = lines(weights)
    for k, name in enumerate("abcd"):
        np.testing.assert_allclose(found[name][::2, 1], [path.weights(1 / C)[k] for C in middle], rtol=1e-12)
    assert "certified" in " ".join(text.get_text() for text in objective.get_legend().get_texts())


def test_own_axes_and_no_scores(traced):
    from matplotlib.figure import Figure

    path, selection, _ = traced
    own = Figure().add_subplot()
    assert path.plot(own) is own and own.get_xlabel() == "C" and len(own.lines) == 5
    assert len(path.plot().figure.axes) == 2
    assert len(path.plot(selection=selection).figure.axes) == 3
    with pytest.raises(ValueError, match="feature_names has 2 names, but the path has 4 weights"):
        path.plot(feature_names=["a", "b"])


def test_path_of_zero_weights():
    """Nothing to learn: one model for every lambda."""
    X, y = np.zeros((4, 2)), [0, 1, 0, 1]
    path = regularization_path(RankingSVM("ap"), X, y, epsilon=0.1, lambda_min=1e-2)
    ax = path.plot(selection=path.select(X, y))
    ax.figure.canvas.draw()
