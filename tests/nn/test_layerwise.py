"""Layer-wise SVM training: bounds that bound, steps that never climb, convex problems solved to their gap."""

import copy
import itertools

import numpy as np
import pytest
import torch
from tests.cases.brute_force import loss_by_definition
from tests.cases.reference_programs import convex_program
from torch import nn

import maxmargin as mm
from maxmargin.core.solvers import FrankWolfe, OneSlackCuttingPlane
from maxmargin.nn import LayerwiseSVM, RankingHinge, _layer_problem
from maxmargin.nn._layer_problem import LayerProblem, forward
from maxmargin.nn._piecewise import Affine, read_network
from maxmargin.nn._score_hinges import ScoreHinge, score_hinge
from maxmargin.ranking import Discounted


class RankBiased(Discounted):
    """A loss without a compiled version, and with a name that is the same in every process."""

    def __init__(self):
        super().__init__(lambda position: 0.8**position)

    def __repr__(self):
        return "RankBiased()"


LOSSES = ["ap", "ndcg", "auc", "mrr", "accuracy", "multiclass", RankBiased()]


@pytest.fixture(autouse=True)
def one_thread():
    """Small networks gain nothing from more, and wait for each other where cores are few."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def dense():
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 4), nn.ReLU(), nn.Linear(4, 3)), (5,)


def conv():
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, groups=2, bias=False), nn.ReLU(),
        nn.Sequential(nn.MaxPool2d(3, stride=2, padding=1), nn.AvgPool2d(2, padding=1)), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip
    return network, (1, 10, 10)


def pooled_first():
    """Pools before and after, windows that overlap, strides, dilation, an incomplete window at the border."""
    network = nn.Sequential(
        nn.MaxPool2d(2, stride=1), nn.Conv2d(2, 3, 2, stride=2, dilation=2), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU(),
        nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip
    return network, (2, 8, 8)


NETWORKS = {"dense": dense, "conv": conv, "pooled_first": pooled_first}


def case(name, seed=0, n=12, dtype=torch.float64, classes=3):
    """A network, inputs and one right class per row, every class present."""
    torch.manual_seed(seed)
    network, shape = NETWORKS[name]()
    labels = np.random.default_rng(seed).permutation(np.arange(n) % classes)
    return network.to(dtype), torch.randn(n, *shape, dtype=dtype), labels[:, None] == np.arange(classes)


def set_weights(network, name, vector):
    """A copy of the network with other weights in one layer."""
    network = copy.deepcopy(network)
    nn.utils.vector_to_parameters(torch.as_tensor(vector), network.get_submodule(name).parameters())
    return network


def plain_hinge(network, X, relevant, loss):
    """From the network itself and inference of one list at a time, or the definition."""
    with torch.no_grad():
        scores = network(X).double().numpy().reshape(len(X), -1)
    relevant = np.asarray(relevant).reshape(scores.shape)
    if isinstance(loss, str) and loss == "accuracy":
        return np.mean([max(0, 1 - (2 * r - 1) * s) for r, s in zip(relevant.ravel(), scores.ravel(), strict=True)])
    if isinstance(loss, str) and loss == "multiclass":
        return np.mean([max(s[k] - s[r][0] + (not r[k]) for k in range(len(s))) for r, s in zip(relevant, scores, strict=True)])
    columns = [k for k in range(scores.shape[1]) if 0 < relevant[:, k].sum() < len(relevant)]
    return np.mean([mm.most_violating_ranking(scores[:, k], relevant[:, k], loss).hinge for k in columns])


def objective(network, X, relevant, loss, C):
    weights = nn.utils.parameters_to_vector(p for p in network.parameters() if p.requires_grad).detach().double()
    return 0.5 * float(weights @ weights) + C * plain_hinge(network, X, relevant, loss)


def problems(network, X, relevant, loss):
    """The convex problem of each layer, with the layer's name and weights."""
    layers = read_network(network)
    for place, layer in enumerate(layers):
        if isinstance(layer, Affine):
            x = forward(layers[:place], X.double())
            yield layer.name, layer.weights.numpy(), LayerProblem(layer, layers[place + 1 :], x, score_hinge(loss, relevant))


def points(weights, rng, count=6):
    """Weights near and far."""
    return [weights + scale * rng.normal(size=len(weights)) for scale in np.geomspace(1e-3, 10, count)]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_bound_lies_above_the_hinge_and_touches_it(name, loss):
    rng = np.random.default_rng(1)
    network, X, relevant = case(name)
    for layer, weights, problem in problems(network, X, relevant, loss):
        value, gradient = problem.bound_and_gradient(weights)
        assert value == pytest.approx(plain_hinge(network, X, relevant, loss), rel=1e-12)
        seen = [(weights, value, gradient)]
        for point in points(weights, rng):
            bound, slope = problem.bound_and_gradient(point)
            true = plain_hinge(set_weights(network, layer, point), X, relevant, loss)
            assert bound >= true - 1e-12 * (1 + abs(true))
            seen.append((point, bound, slope))
        # Convex, with subgradients: every tangent plane lies below the function.
        for (a, at_a, slope), (b, at_b, _) in itertools.permutations(seen, 2):
            assert at_b >= at_a + slope @ (b - a) - 1e-9 * (1 + abs(at_a) + np.abs(slope) @ np.abs(b - a))


@pytest.mark.parametrize("name", NETWORKS)
def test_last_layer_is_exact(name):
    rng = np.random.default_rng(2)
    network, X, relevant = case(name)
    *_, (layer, weights, problem) = problems(network, X, relevant, "ap")
    for point in points(weights, rng):
        true = plain_hinge(set_weights(network, layer, point), X, relevant, "ap")
        assert problem.bound_and_gradient(point)[0] == pytest.approx(true, rel=1e-10, abs=1e-12)


class Published:
    """The difference of convex functions of the paper: every unit is g - h, with weights split by sign."""

    def __init__(self, layer, following, x):
        self.layer, self.following, self.x = layer, following, x

    def pair(self, weights):
        g = self.layer.forward_with(self.x, weights)
        h = torch.zeros_like(g)
        for layer in self.following:
            if isinstance(layer, Affine):
                weight, bias = layer.module.weight.detach(), layer.module.bias
                up, down = weight.clamp(min=0), (-weight).clamp(min=0)
                g, h = (
                    layer._apply(g, up, None if bias is None else bias.detach()) + layer._apply(h, down, None),
                    layer._apply(h, up, None) + layer._apply(g, down, None),
                )
            elif type(layer).__name__ == "Rectifier":
                g = torch.maximum(g, h)
            elif type(layer).__name__ == "MaxPool":
                # max(g_i - h_i) = max(g_i + sum of the other h) - sum of h
                pool = layer._pool
                total = nn.functional.avg_pool2d(h, pool.kernel_size, pool.stride, pool.padding, divisor_override=1)
                g, h = layer.forward(g - h) + total, total
            else:
                g, h = layer.forward(g), layer.forward(h)
        return g, h

    def bound(self, current, weights, hinge):
        current, weights = torch.tensor(current), torch.tensor(weights)
        (g, h), (dg, dh) = torch.autograd.functional.jvp(self.pair, current, weights - current)
        at_g, at_h = self.pair(weights)
        table = torch.where(torch.tensor(hinge.relevant), g + dg - at_h, at_g - h - dh)
        return hinge(table.detach().numpy())[0]


@pytest.mark.parametrize("name", ["dense", "conv"])
def test_bound_is_at_least_as_good_as_the_published_one(name):
    rng = np.random.default_rng(3)
    network, X, relevant = case(name)
    tighter = 0
    for _, weights, problem in problems(network, X, relevant, "ap"):
        published = Published(problem.layer, problem.following, problem.x)
        assert published.bound(weights, weights, problem.hinge) == pytest.approx(problem.bound_and_gradient(weights)[0])
        for point in points(weights, rng):
            ours, theirs = problem.bound_and_gradient(point)[0], published.bound(weights, point, problem.hinge)
            assert ours <= theirs + 1e-9 * (1 + theirs)
            tighter += ours < 0.99 * theirs
    assert tighter > 0


@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_by_finite_differences(name):
    rng = np.random.default_rng(4)
    network, X, relevant = case(name)
    for _, weights, problem in problems(network, X, relevant, "ndcg"):
        point, direction = weights + 0.1 * rng.normal(size=len(weights)), rng.normal(size=len(weights))
        h = 1e-7
        ahead, behind = (problem.bound_and_gradient(point + s * h * direction)[0] for s in (1, -1))
        assert (ahead - behind) / (2 * h) == pytest.approx(problem.bound_and_gradient(point)[1] @ direction, rel=1e-5, abs=1e-7)


def test_gradient_at_the_current_weights_is_that_of_backpropagation():
    network, X, relevant = case("conv", seed=5)
    RankingHinge("ap")(network(X).T, torch.tensor(relevant.T)).backward()
    for layer, weights, problem in problems(network, X, relevant, "ap"):
        expected = torch.cat([p.grad.reshape(-1) for p in network.get_submodule(layer).parameters()])
        assert np.allclose(problem.bound_and_gradient(weights)[1], expected, rtol=1e-10, atol=1e-14)


def test_ties_everywhere():
    """Whole numbers: pre-activations at zero, equal entries in windows, equal scores."""
    rng = np.random.default_rng(6)
    network, X, relevant = case("conv", seed=6)
    for parameter in network.parameters():
        parameter.data = torch.tensor(rng.integers(-1, 2, parameter.shape), dtype=torch.float64)
    X = X.round()
    assert (network[0](X) == 0).any()
    for loss in ("ap", "multiclass"):
        for layer, weights, problem in problems(network, X, relevant, loss):
            value, gradient = problem.bound_and_gradient(weights)
            assert value == pytest.approx(plain_hinge(network, X, relevant, loss), rel=1e-12)
            for point in [weights + rng.integers(-1, 2, len(weights)) for _ in range(5)]:
                bound = problem.bound_and_gradient(point)[0]
                assert bound >= plain_hinge(set_weights(network, layer, point), X, relevant, loss) - 1e-9
                assert bound >= value + gradient @ (point - weights) - 1e-9


def test_samples_may_go_in_any_pieces(monkeypatch):
    network, X, relevant = case("conv", n=29)
    once = [problem.bound_and_gradient(1.1 * weights) for _, weights, problem in problems(network, X, relevant, "ap")]
    monkeypatch.setattr(_layer_problem, "_ROWS", 7)
    pieces = [problem.bound_and_gradient(1.1 * weights) for _, weights, problem in problems(network, X, relevant, "ap")]
    for (value, gradient), (other, other_gradient) in zip(once, pieces, strict=True):
        assert value == pytest.approx(other, rel=1e-12) and np.allclose(gradient, other_gradient, atol=1e-13)


def reference_optimum(W1, w2, X, relevant, lam):
    """The convex problem of the first of two dense layers with all rankings written out.

    Variables: the first layer, an upper bound of every hidden unit, and the hinge.
    """
    (n, d), h = X.shape, len(w2)
    pattern = X @ W1.T > 0
    n_w, size = h * d, h * d + n * h + 1
    rows, least = [], []
    scores = np.zeros((n, size))
    for k in range(n):
        for u in range(h):
            unit = n_w + k * h + u
            linear = np.zeros(size)
            linear[u * d : (u + 1) * d] = X[k]
            above, below = np.zeros(size), pattern[k, u] * linear
            above[unit] = 1.0
            rows += [above - linear, above]
            least += [0.0, 0.0]
            wanted = (below if relevant[k] else above) if w2[u] > 0 else (above if relevant[k] else below)
            scores[k] += w2[u] * wanted
    positives, negatives = np.flatnonzero(relevant), np.flatnonzero(~relevant)
    for order in itertools.permutations(range(n)):
        place = np.argsort(order)
        row = np.zeros(size)
        row[-1] = 1.0
        for i, j in itertools.product(positives, negatives):
            if place[j] < place[i]:
                row -= 2 / (len(positives) * len(negatives)) * (scores[j] - scores[i])
        rows.append(row)
        least.append(loss_by_definition("ap", relevant[list(order)]))
    rows, least = np.array(rows), np.array(least)
    # Weights of zero have a hinge of at most 1, which bounds the hinge, the weights and the units at the optimum.
    highest = np.concatenate([np.full(n_w, np.inf), np.repeat(np.linalg.norm(X, axis=1) * np.sqrt(2 / lam), h), [1.0]])
    lowest = np.concatenate([np.full(n_w, -np.inf), np.zeros(n * h + 1)])
    return convex_program(
        np.eye(size)[-1], np.repeat([lam, 0.0], [n_w, n * h + 1]), rows=(rows, least), bounds=(lowest, highest), tol=1e-11
    )


@pytest.mark.parametrize("seed", range(3))
def test_convex_problem_against_a_proved_optimum(seed):
    rng = np.random.default_rng(seed)
    X, relevant = rng.normal(size=(5, 2)), np.array([True, False, True, False, False])
    network = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 1, bias=False)).double()
    W1, w2 = rng.normal(size=(3, 2)), rng.normal(size=3)
    network[0].weight.data, network[2].weight.data = torch.tensor(W1), torch.tensor(w2[None])
    _, _, problem = next(problems(network, torch.tensor(X), relevant[:, None], "ap"))
    best = reference_optimum(W1, w2, X, relevant, 0.05)
    for solver in (OneSlackCuttingPlane(tol=1e-7), FrankWolfe(tol=2e-2, max_passes=3000)):
        solution = solver.solve(problem, 0.05)
        assert solution.converged and solution.certified
        assert solution.dual <= best.value + 1e-11 and best.bound <= solution.primal + 1e-11


@pytest.mark.parametrize("proximal", [0.0, 3.0])
def test_a_step_reports_its_convex_problem(proximal):
    network, X, relevant = case("conv", seed=7)
    for parameter in network[3].parameters():
        parameter.requires_grad_(False)
    before = copy.deepcopy(network)
    _, current, problem = next(problems(before, X, relevant, "ap"))
    model = LayerwiseSVM(network, C=50.0, proximal=proximal, order="forward", max_epochs=1, max_iter=200).fit(X, relevant)
    first, second = model.history_
    assert (first.layer, second.layer) == ("0", "7") and first.taken and second.taken
    new = nn.utils.parameters_to_vector(network[0].parameters()).detach().numpy()
    rest = nn.utils.parameters_to_vector(before[7].parameters()).detach().numpy()

    def convex(weights):
        others = 0.5 * (weights @ weights + rest @ rest)
        return others + proximal / 2 * np.sum((weights - current) ** 2) + 50.0 * problem.bound_and_gradient(weights)[0]

    assert first.primal == pytest.approx(convex(new), rel=1e-10)
    assert first.dual <= first.primal <= convex(current) == pytest.approx(model.initial_objective_, rel=1e-12)
    rng = np.random.default_rng(7)
    assert all(first.dual <= convex(new + scale * rng.normal(size=len(new))) for scale in (0, 1e-3, 1e-2, 0.1))
    assert first.objective <= first.primal + 1e-9
    assert torch.equal(network[3].weight, before[3].weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", ["ap", "ndcg", "accuracy", "multiclass"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_step_climbs(name, loss, dtype):
    network, X, relevant = case(name, seed=8, n=40, dtype=dtype)
    start = objective(copy.deepcopy(network).double(), X.double(), relevant, loss, 200.0)
    model = LayerwiseSVM(network, loss, C=200.0, proximal=1.0, max_epochs=3, max_iter=20).fit(X, relevant)
    assert model.initial_objective_ == pytest.approx(start, rel=1e-12)
    objectives = [model.initial_objective_, *(step.objective for step in model.history_)]
    assert np.all(np.diff(objectives) <= 0) and objectives[-1] < 0.9 * objectives[0]
    for step, last in zip(model.history_, objectives[:-1], strict=True):
        assert (step.objective < last) == step.taken
        assert step.certified and step.gap >= 0 and step.dual <= last * (1 + 1e-12)
        assert not step.taken or step.objective <= step.primal * (1 + 1e-6)
    # What is reported is the objective of the network that was left.
    end = objective(copy.deepcopy(network).double(), X.double(), relevant, loss, 200.0)
    assert model.objective_ == objectives[-1] == pytest.approx(end, rel=1e-12)
    assert all(p.dtype == dtype for p in network.parameters())


@pytest.mark.parametrize("scale", [1e-9, 1e6])
def test_scales_of_the_input(scale):
    network, X, relevant = case("conv", seed=8, n=20)
    model = LayerwiseSVM(network, C=100.0, max_epochs=2, max_iter=20).fit(scale * X, relevant)
    objectives = [model.initial_objective_, *(step.objective for step in model.history_)]
    assert np.all(np.diff(objectives) <= 0) and objectives[-1] < objectives[0] and np.isfinite(objectives).all()
    assert all(step.certified for step in model.history_)


def test_scores_that_overflow():
    network, X, relevant = case("dense")
    with pytest.raises(ValueError, match="scores that are NaN or infinite"):
        LayerwiseSVM(network).fit(1e308 * X.sign(), relevant)


def test_two_samples():
    network = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1), nn.Flatten(0))
    model = LayerwiseSVM(network, "auc", C=10).fit(torch.tensor([[1.0], [-1.0]]), torch.tensor([1, 0]))
    assert model.objective_ <= model.initial_objective_


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc"])
def test_last_layer_alone_is_the_ranking_svm(loss):
    rng = np.random.default_rng(9)
    X, relevant = torch.tensor(rng.normal(size=(80, 4))), rng.random(80) < 0.3
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1, bias=False), nn.Flatten(0)).double()
    network[0].requires_grad_(False)
    features = torch.relu(network[0](X)).numpy()
    svm = mm.RankingSVM(loss, C=30, tol=1e-5).fit(features, relevant)
    model = LayerwiseSVM(network, loss, C=30, proximal=0, tol=1e-5, step_tol=0, max_iter=1000, max_epochs=1).fit(X, relevant)
    (step,) = model.history_
    assert step.status == "converged" and step.objective == pytest.approx(step.primal)
    assert max(step.dual, svm.dual_objective_) <= min(step.primal, svm.primal_objective_) + 1e-9
    assert model.objective_ == pytest.approx(svm.primal_objective_, rel=3e-5)
    # The objective bends by one in every direction: no weights are farther from the best ones than the root of twice their gap.
    most = np.sqrt(2 * svm.dual_gap_) + np.sqrt(2 * (step.primal - step.dual))
    assert np.linalg.norm(network[2].weight.detach().numpy()[0] - svm.coef_) <= most + 1e-6


def test_last_layer_alone_is_the_classifier():
    rng = np.random.default_rng(10)
    X, labels = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    common = {"proximal": 0, "tol": 1e-4, "step_tol": 0, "max_iter": 2000, "max_epochs": 1}
    model = LayerwiseSVM(nn.Sequential(nn.Linear(3, 3, bias=False)).double(), "multiclass", C=60, **common)
    model.fit(torch.tensor(X), labels[:, None] == np.arange(3))
    svm = mm.MulticlassSVM(C=1, tol=1e-4, fit_intercept=False).fit(X, labels)
    assert model.objective_ == pytest.approx(svm.primal_objective_, rel=3e-4)
    # The bias counts as a weight in both.
    model = LayerwiseSVM(nn.Sequential(nn.Linear(3, 1)).double(), "accuracy", C=60, **common).fit(torch.tensor(X), labels == 1)
    svm = mm.RankingSVM("accuracy", C=1, tol=1e-4).fit(X, labels == 1)
    assert model.objective_ == pytest.approx(svm.primal_objective_, rel=3e-4)


def test_outputs_with_one_class_do_not_count():
    network, X, relevant = case("dense")
    network = nn.Sequential(*network, nn.Linear(3, 5).double())
    more = np.column_stack([relevant, np.ones(len(X), bool), np.zeros(len(X), bool)])
    model = LayerwiseSVM(network, C=10, max_epochs=2).fit(X, more)
    assert model.hinge_ == pytest.approx(plain_hinge(network, X, more, "ap"))


def test_a_step_that_fails_is_tried_more_cautiously():
    network, X, relevant = case("dense", seed=11)
    LayerwiseSVM(network, C=100, max_epochs=2).fit(X, relevant)
    # Two passes see the hinge at zero weights and at those of a single cut.
    model = LayerwiseSVM(network, C=100, proximal=0, order="forward", max_epochs=8, max_iter=2).fit(X, relevant)
    first = [step for step in model.history_ if step.layer == "0"]
    assert not first[0].taken and first[0].status == "max_passes"
    for step, following in itertools.pairwise(first):
        quick = step.passes <= 1
        assert following.proximal == (step.proximal / (2 if quick else 1) if step.taken else max(1.0, 10 * step.proximal))
    assert model.objective_ < model.initial_objective_


def test_a_step_that_was_easy_is_followed_by_a_bolder_one():
    network, X, relevant = case("dense", seed=11)
    model = LayerwiseSVM(network, C=100, proximal=1e4, max_epochs=3).fit(X, relevant)
    last = [step for step in model.history_ if step.layer == "4"]
    assert [step.proximal for step in last] == [1e4, 5e3, 2.5e3]


def test_training_converges_and_says_so():
    network, X, relevant = case("dense", seed=12)
    model = LayerwiseSVM(network, C=5, proximal=1, max_epochs=200).fit(X, relevant)
    assert model.status_ == "converged" and model.n_epochs_ < 200
    last = [step for step in model.history_ if step.epoch == model.n_epochs_]
    before = model.history_[-1 - len(last)].objective
    assert before - model.objective_ <= 1e-3 * before


def test_same_seed_same_weights():
    def train(seed):
        network, X, relevant = case("conv", seed=13)
        model = LayerwiseSVM(network, order="random", random_state=seed, max_epochs=3, max_iter=10).fit(X, relevant)
        return nn.utils.parameters_to_vector(network.parameters()), [step.layer for step in model.history_]

    (first, order), (again, same) = train(0), train(0)
    assert torch.equal(first, again) and order == same
    assert any(train(seed)[1] != order for seed in range(1, 4))


@pytest.mark.parametrize("calls", [2, 3, 5, 12, 13, 30])
def test_interrupt_leaves_the_best_network(calls, monkeypatch):
    network, X, relevant = case("conv", seed=14)
    made = score_hinge("ap", relevant)

    class Interrupted(ScoreHinge):
        left = calls

        def __call__(self, scores):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return made(scores)

    monkeypatch.setattr("maxmargin.nn.layerwise.score_hinge", lambda loss, truth: Interrupted(truth))
    model = LayerwiseSVM(network, C=100).fit(X, relevant)
    assert model.status_ == "interrupted"
    assert model.objective_ == pytest.approx(objective(network, X, relevant, "ap", 100.0), rel=1e-12)
    assert model.objective_ <= model.initial_objective_
    assert (model.objective_ < model.initial_objective_) or calls < 12


def test_an_error_leaves_the_best_network(monkeypatch):
    network, X, relevant = case("conv", seed=14)
    made, seen = score_hinge("ap", relevant), []

    class Broken(ScoreHinge):
        def __call__(self, scores):
            seen.append(None)
            if len(seen) == 40:
                raise ZeroDivisionError
            return made(scores)

    monkeypatch.setattr("maxmargin.nn.layerwise.score_hinge", lambda loss, truth: Broken(truth))
    start = objective(network, X, relevant, "ap", 100.0)
    with pytest.raises(ZeroDivisionError):
        LayerwiseSVM(network, C=100).fit(X, relevant)
    assert objective(network, X, relevant, "ap", 100.0) < start


def test_time_limit():
    network, X, relevant = case("dense")
    model = LayerwiseSVM(network, time_limit=1e-6).fit(X, relevant)
    assert model.status_ == "time_limit" and len(model.history_) == 1


def test_verbose_prints_a_line_per_step(capsys):
    network, X, relevant = case("dense")
    model = LayerwiseSVM(network, max_epochs=2, verbose=1).fit(X, relevant)
    assert len(capsys.readouterr().out.splitlines()) == len(model.history_)
    LayerwiseSVM(network, max_epochs=1).fit(X, relevant)
    assert capsys.readouterr().out == ""


def test_modules_without_weights_may_be_used_twice():
    network, X, relevant = case("dense", seed=16)
    network[3] = network[1]
    assert len(read_network(network)) == 5
    assert LayerwiseSVM(network, max_epochs=1).fit(X, relevant).hinge_ == pytest.approx(plain_hinge(network, X, relevant, "ap"))


def test_frozen_parameters_stay():
    network, X, relevant = case("dense", seed=15)
    network[0].weight.requires_grad_(False)
    before = copy.deepcopy(network)
    model = LayerwiseSVM(network, max_epochs=2).fit(X, relevant)
    assert torch.equal(network[0].weight, before[0].weight) and not torch.equal(network[0].bias, before[0].bias)
    assert model.objective_ == pytest.approx(objective(network, X, relevant, "ap", 100.0), rel=1e-12)


class Bent(nn.ReLU):
    pass


def shared():
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def frozen():
    return nn.Sequential(nn.Linear(3, 3)).requires_grad_(False)


def infinite():
    network = nn.Sequential(nn.Linear(3, 3))
    network[0].weight.data[0, 0] = torch.inf
    return network


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(3, 3), "must be a torch.nn.Sequential, not Linear"),
        (nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh())), r"layer 1\.0 is a Tanh"),
        (nn.Sequential(nn.Linear(3, 3), Bent()), "layer 1 is a Bent"),
        (nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3)), "layer 0 is a BatchNorm1d"),
        (nn.Sequential(nn.ReLU()), "no weights to train"),
        (frozen(), "no weights to train"),
        (shared(), "shares weights between layers 0 and 2"),
        (infinite(), "layer 0 has NaN or infinity in its weight"),
        (nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")), "padding_mode='reflect'"),
        (nn.Sequential(nn.MaxPool2d(2, return_indices=True)), "returns indices"),
        (nn.Sequential(nn.Linear(4, 3)), r"layer 0 does not take an input of shape \(2, 3\)"),
        (nn.Sequential(nn.Linear(3, 3), nn.Flatten(0)), "layer 1 mixes samples"),
        (nn.Sequential(nn.Linear(3, 4)), r"output of shape \(4,\) per sample, but relevant has 3"),
    ],
)
def test_networks_that_cannot_be_trained(network, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LayerwiseSVM(network).fit(torch.randn(6, 3), np.eye(3, dtype=bool)[[0, 1, 2, 0, 1, 2]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0}, "C=0 must be a positive number"),
        ({"C": float("inf")}, "C=inf"),
        ({"tol": -1}, "tol=-1"),
        ({"proximal": -1}, "proximal=-1 must be zero or a positive number"),
        ({"step_tol": float("nan")}, "step_tol=nan"),
        ({"max_epochs": 0}, "max_epochs=0"),
        ({"max_iter": 1.5}, "max_iter=1.5"),
        ({"time_limit": 0}, "time_limit=0"),
        ({"order": "sideways"}, "order='sideways' is unknown"),
        ({"solver": "bcfw"}, "solver must be a Solver object"),
        ({"loss": "apple"}, "loss='apple' is unknown"),
        ({"X": np.zeros((6, 3))}, "X must be a tensor"),
        ({"X": torch.zeros(6)}, "X must have shape"),
        ({"X": torch.zeros(0, 3)}, "X must have shape"),
        ({"X": torch.zeros(6, 3, dtype=torch.int64)}, "X must be real numbers"),
        ({"X": torch.full((6, 3), torch.nan)}, "X must be finite"),
        ({"relevant": np.ones((6, 1), bool)}, "nothing to rank"),
        ({"relevant": np.ones(5, bool)}, r"relevant must have shape \(6,\) or \(6, k\)"),
        ({"relevant": np.arange(6)}, "relevant must contain only 0 and 1"),
        ({"relevant": np.ones((6, 2), bool), "loss": "multiclass"}, "marks 2 in row 0"),
        ({"loss": "multiclass"}, "has one column"),
    ],
)
def test_bad_arguments(change, message):
    data = {"X": torch.randn(6, 3), "relevant": np.arange(6) < 2}
    data.update({key: change[key] for key in data if key in change})
    parameters = {key: value for key, value in change.items() if key not in data}
    with pytest.raises((TypeError, ValueError), match=message):
        LayerwiseSVM(nn.Sequential(nn.Linear(3, 1)), **parameters).fit(**data)
