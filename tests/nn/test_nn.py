"""Rank losses for networks: values of the inference, gradients that are derivatives, batches that are loops."""

import copy
import pickle
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
import torch
from tests.cases.brute_force import loss_by_definition

import maxmargin as mm
from maxmargin.nn import APLoss, AUCLoss, DirectLoss, NDCGLoss, RankingHinge
from maxmargin.ranking import Discounted

NAMES = ["ap", "ndcg", "auc", "mrr"]
MODULES = {"ap": APLoss, "ndcg": NDCGLoss, "auc": AUCLoss}


@pytest.fixture(autouse=True)
def one_thread():
    """Small networks gain nothing from more, and wait for each other where cores are few."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def convex_discount(position):
    return 0.8**position


class Biased(Discounted):
    """A loss without a compiled version, and with a name that is the same in every process."""

    def __init__(self):
        super().__init__(convex_discount)

    def __repr__(self):
        return "Biased()"


def query(n, seed, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    relevant = rng.random(n) < 0.3
    relevant[:2] = [True, False]
    return torch.tensor(rng.normal(size=n) + relevant, dtype=dtype, requires_grad=True), torch.tensor(relevant)


def batch(sizes, width, seed, dtype=torch.float64):
    """Padded scores and relevance, and the mask; padding holds NaN and labels that are none."""
    scores = torch.full((len(sizes), width), torch.nan, dtype=dtype)
    relevant = torch.full((len(sizes), width), -1)
    mask = torch.zeros(len(sizes), width, dtype=torch.bool)
    rng = np.random.default_rng(seed)
    for k, size in enumerate(sizes):
        at = torch.tensor(np.sort(rng.permutation(width)[:size]))  # padding anywhere, not only at the end
        scores[k, at] = torch.tensor(rng.normal(size=size), dtype=dtype)
        relevant[k, at] = torch.tensor((rng.random(size) < 0.4).astype(int))
        mask[k, at] = True
    return scores.requires_grad_(), relevant, mask


def all_rankings(scores, relevant, name):
    """Loss and F of every ranking with both classes in order of score, from the definition of F."""
    high, low = np.sort(scores[relevant])[::-1], np.sort(scores[~relevant])[::-1]
    n = len(scores)
    for pattern in combinations(range(n), len(high)):
        is_positive = np.isin(np.arange(n), pattern)
        place_pos, place_neg = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
        sign = np.where(place_pos[:, None] < place_neg[None, :], 1.0, -1.0)
        yield loss_by_definition(name, is_positive), float(np.mean(sign * (high[:, None] - low[None, :])))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_query_is_the_inference(name, dtype):
    for n in (2, 7, 500):
        scores, relevant = query(n, n, dtype)
        value = RankingHinge(name)(scores, relevant)
        value.backward()
        found = mm.most_violating_ranking(scores.detach().numpy(), relevant.numpy(), name)
        assert value.dtype == scores.grad.dtype == dtype and value.shape == ()
        assert value.item() == pytest.approx(found.hinge, rel=1e-6 if dtype == torch.float32 else 1e-14)
        assert np.array_equal(scores.grad.numpy(), found.gradient)
        if name in MODULES:
            assert MODULES[name]()(scores, relevant) == value


@pytest.mark.parametrize("loss", [*NAMES, Biased()], ids=str)
def test_gradcheck(loss):
    scores, relevant = query(12, 3)
    mask = torch.arange(12) < 10
    assert torch.autograd.gradcheck(lambda s: RankingHinge(loss)(s, relevant, mask), scores, eps=1e-7)
    many, truth = scores.detach().reshape(2, 6).clone().requires_grad_(), relevant.reshape(2, 6)
    assert torch.autograd.gradcheck(lambda s: RankingHinge(loss, "none")(s, truth) ** 2, many, eps=1e-7)
    for sign in (1, -1):
        assert torch.autograd.gradcheck(lambda s, sign=sign: DirectLoss(loss, 0.7, sign)(s, relevant, mask), scores, eps=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "module", [RankingHinge("ap", "none"), RankingHinge(Biased(), "none")]
    + [DirectLoss("ndcg", 0.5, sign, "none") for sign in (1, -1)], ids=str,
)  # fmt: skip
def test_batch_is_a_loop(module, dtype):
    scores, relevant, mask = batch([5, 0, 9, 1, 30, 2], 30, 1, dtype)
    each = module(scores, relevant, mask)
    weights = torch.arange(1.0, 7, dtype=dtype)
    (weights * each).sum().backward()
    for k in range(6):
        alone = scores.detach()[k][mask[k]].clone().requires_grad_()
        value = module(alone, relevant[k][mask[k]])
        (weights[k] * value).backward()
        assert value == each[k]
        assert torch.equal(scores.grad[k][mask[k]], alone.grad)
        assert torch.all(scores.grad[k][~mask[k]] == 0)


def test_no_mask_is_a_full_mask():
    scores, relevant, mask = batch([8] * 5, 8, 2)
    assert mask.all()
    plain, masked = APLoss("sum")(scores, relevant), APLoss("sum")(scores, relevant, mask)
    assert plain == masked
    assert torch.equal(*(torch.autograd.grad(v, scores)[0] for v in (plain, masked)))


@pytest.mark.parametrize("layout", [lambda s: s.T.contiguous().T, lambda s: s[:, ::2], lambda s: s.flip(1)])
def test_strides_do_not_matter(layout):
    scores, relevant, _ = batch([8] * 5, 8, 3)
    odd, odd_truth = layout(scores), layout(relevant)
    odd.retain_grad()
    value = APLoss()(odd, odd_truth)
    value.backward()
    straight = odd.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    same = APLoss()(straight, odd_truth.contiguous())
    same.backward()
    assert value == same and torch.equal(odd.grad, straight.grad)


def test_reductions_and_skipped_queries():
    scores = torch.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [5.0, 3.0, 4.0], [1.0, 2.0, 0.0]], requires_grad=True)
    relevant = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
    none, total, mean = RankingHinge("ap", "none"), RankingHinge("ap", "sum"), RankingHinge("ap")
    each = none(scores, relevant)
    assert none.n_skipped == 2
    assert each[1] == each[2] == 0 and each[0] > 0 and each[3] > 0
    assert total(scores, relevant).item() == pytest.approx(each.sum().item())
    assert mean(scores, relevant).item() == pytest.approx(each.sum().item() / 2)
    mean(scores, relevant).backward()
    assert torch.all(scores.grad[1:3] == 0) and torch.any(scores.grad[0] != 0)


def test_columns_of_scores_are_refused():
    """A network with one output returns (n, 1), which would be n queries of one document; a mask says that it is so."""
    column, relevant = torch.zeros(4, 1), torch.tensor([[1], [0], [1], [0]])
    with pytest.raises(ValueError, match=r"shape \(4, 1\).*flatten scores and relevant"):
        APLoss()(column, relevant)
    loss = APLoss()
    assert loss(column, relevant, mask=torch.ones(4, 1, dtype=torch.bool)) == 0 and loss.n_skipped == 4


@pytest.mark.parametrize("module", [APLoss(), DirectLoss("ap", 1.0, 1), DirectLoss("ap", 1.0, -1)], ids=str)
@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (3, 0), (3, 2)])
def test_nothing_to_rank(module, shape):
    scores = torch.ones(shape, requires_grad=True)
    value = module(scores, torch.ones(shape, dtype=torch.bool))
    value.backward()
    assert value == 0 and torch.all(scores.grad == 0)
    assert module.n_skipped == (1 if len(shape) == 1 else shape[0])


def test_long_batch_on_several_threads():
    scores, relevant, mask = batch(np.random.default_rng(0).integers(0, 60, 300), 60, 4)
    values = []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        value = NDCGLoss()(scores, relevant, mask)
        values.append((value.item(), torch.autograd.grad(value, scores)[0]))
    assert values[0][0] == values[1][0] and torch.equal(values[0][1], values[1][1])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("module", [APLoss(), DirectLoss("auc", 0.1, -1)], ids=str)
def test_scores_that_are_no_numbers(module, bad):
    scores = torch.zeros(3, 4)
    scores[1, 2] = bad
    for relevant in (torch.eye(3, 4, dtype=torch.bool), torch.zeros(3, 4, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"scores\[1, 2\] is NaN or infinite"):
            module(scores, relevant)
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[0, 1] = False
    with pytest.raises(ValueError, match=r"scores\[1, 2\]"):
        module(scores, torch.eye(3, 4), mask)
    mask[1, 2] = False
    assert torch.isfinite(module(scores, torch.eye(3, 4), mask))


def test_wrong_arguments():
    scores, relevant = query(5, 0)
    hinge = APLoss()
    with pytest.raises(TypeError, match=r"scores\.float\(\)"):
        hinge(scores.long(), relevant)
    with pytest.raises(TypeError, match="must be a tensor"):
        hinge([1.0, 2.0], relevant)
    with pytest.raises(ValueError, match="shape"):
        hinge(scores.reshape(1, 1, 5), relevant)
    with pytest.raises(ValueError, match="relevant has shape"):
        hinge(scores, relevant[:3])
    with pytest.raises(ValueError, match="only 0 and 1"):
        hinge(scores, torch.tensor([1, -1, 1, -1, 1]))
    with pytest.raises(TypeError, match="mask must be boolean"):
        hinge(scores, relevant, torch.ones(5))
    with pytest.raises(ValueError, match="mask has shape"):
        hinge(scores, relevant, torch.ones(4, dtype=torch.bool))
    with pytest.raises(ValueError, match="reduction"):
        RankingHinge("ap", "average")
    with pytest.raises(ValueError, match="unknown"):
        RankingHinge("accuracy")
    for epsilon in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="epsilon"):
            DirectLoss("ap", epsilon)
    with pytest.raises(ValueError, match="sign"):
        DirectLoss("ap", 1.0, 0)


def test_second_derivatives_of_something_piecewise_linear():
    scores, relevant = query(6, 1)
    first = torch.autograd.grad(APLoss()(scores, relevant), scores)[0]
    assert torch.any(first != 0)
    (gradient,) = torch.autograd.grad(APLoss()(scores, relevant) ** 2, scores, create_graph=True)
    (second,) = torch.autograd.grad(gradient[0], scores)
    assert torch.allclose(second, 2 * first[0] * first)


def test_inputs_are_left_alone_and_backward_repeats():
    scores, relevant = query(300, 5)
    before = scores.detach().clone()
    value = APLoss()(scores, relevant)
    first = torch.autograd.grad(value, scores, retain_graph=True)[0].clone()
    assert torch.equal(torch.autograd.grad(value, scores)[0], first)
    assert torch.equal(scores, before)
    total = APLoss("none")(scores, relevant)
    total += scores.sum()  # as training loops do
    assert torch.allclose(torch.autograd.grad(total, scores)[0], first + 1)
    with torch.no_grad():
        assert not APLoss()(scores, relevant).requires_grad


@pytest.mark.parametrize("module", [APLoss("none"), RankingHinge(Biased()), DirectLoss("auc", 0.3, -1)], ids=str)
def test_copies(module):
    scores, relevant = query(20, 6)
    assert module.state_dict() == {}
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(twin) == repr(module)
        assert twin(scores, relevant) == module(scores, relevant)


def test_a_network_learns():
    torch.manual_seed(0)
    X = torch.randn(400, 2)
    y = (X**2).sum(1) < 0.5  # a disc, which no linear score ranks first
    for loss in (APLoss(), NDCGLoss(), AUCLoss(), DirectLoss("ap", 1.0, 1), DirectLoss("ap", 1.0, -1)):
        network = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.Adam(network.parameters(), 0.03)
        before = mm.metrics.average_precision(y.numpy(), network(X).squeeze(1).detach().numpy())
        for _ in range(80):
            optimizer.zero_grad()
            loss(network(X).squeeze(1), y).backward()
            optimizer.step()
        after = mm.metrics.average_precision(y.numpy(), network(X).squeeze(1).detach().numpy())
        assert after > 0.9 > before, loss


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
def test_direct_loss_is_its_definition(name, sign, epsilon):
    rng = np.random.default_rng(7)
    for n in (2, 3, 5, 8):
        for tied in (False, True):
            relevant = rng.random(n) < 0.5
            relevant[:2] = [True, False]
            scores = rng.integers(-2, 3, n).astype(float) if tied else rng.normal(size=n)
            rankings = list(all_rankings(scores, relevant, name))
            moved = max(f + sign * epsilon * delta for delta, f in rankings)
            plain = max(f for _, f in rankings)
            value = DirectLoss(name, epsilon, sign)(torch.tensor(scores), torch.tensor(relevant))
            assert value.item() == pytest.approx(sign * (moved - plain) / epsilon, abs=1e-10)
            # The loss of the ranking by score, ties in either order, lies on the promised side.
            predicted = [delta for delta, f in rankings if f > plain - 1e-12]
            assert value.item() >= max(predicted) - 1e-10 if sign == 1 else value.item() <= min(predicted) + 1e-10


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sign", [1, -1])
def test_direct_loss_gradient_is_a_difference_of_rankings(name, sign):
    """Against finite differences of the two maxima over all rankings."""
    rng = np.random.default_rng(8)
    epsilon, step = 0.6, 1e-6
    for _ in range(5):
        scores, relevant = rng.normal(size=7), np.arange(7) < 3

        def value(s, relevant=relevant):
            rankings = list(all_rankings(s, relevant, name))
            difference = max(f + sign * epsilon * delta for delta, f in rankings) - max(f for _, f in rankings)
            return sign * difference / epsilon

        tensor = torch.tensor(scores, requires_grad=True)
        DirectLoss(name, epsilon, sign)(tensor, torch.tensor(relevant)).backward()
        slopes = [(value(scores + step * e) - value(scores - step * e)) / (2 * step) for e in np.eye(7)]
        assert np.allclose(tensor.grad.numpy(), slopes, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_direct_loss_tends_to_the_loss(name):
    scores, relevant = query(200, 9)
    order = np.argsort(-scores.detach().numpy())
    predicted = loss_by_definition(name, relevant.numpy()[order])
    below, above = (DirectLoss(name, 1e-9, sign)(scores, relevant).item() for sign in (-1, 1))
    assert below == pytest.approx(predicted, abs=1e-5) and above == pytest.approx(predicted, abs=1e-5)


def test_large_epsilon_is_the_hinge_of_shrunk_scores():
    scores, relevant = query(300, 10)
    direct = DirectLoss("ap", 1e3)(scores, relevant)
    inversions = scores.detach()[~relevant] - scores.detach()[relevant][:, None]
    plain = 2 * inversions.clamp(min=0).mean().item()
    assert direct.item() == pytest.approx(APLoss()(scores / 1e3, relevant).item() - plain / 1e3, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_table_agrees_with_the_kernels(name):
    """The dynamic programme holds for either sign; for positive ones there is another method to compare with."""
    for seed in range(5):
        scores, relevant = (t.detach().numpy() for t in query(60, seed))
        table = mm.most_violating_ranking(scores, relevant, name, method="table")
        found = mm.most_violating_ranking(scores, relevant, name)
        assert table.hinge == pytest.approx(found.hinge, abs=1e-12)
        assert table.loss == pytest.approx(found.loss, abs=1e-12)
        assert np.allclose(table.gradient, found.gradient, atol=1e-15)


def test_truncated_ndcg_is_exact():
    """Not QS-suitable: 108 of 200 such lists came out wrong."""
    rng = np.random.default_rng(0)
    hinge = RankingHinge(Discounted(lambda p: np.where(p <= 10, 1 / np.log2(1.0 + p), 0)), reduction="none")
    for _ in range(50):
        n_pos, n_neg = rng.integers(1, 4), rng.integers(8, 13)
        scores = rng.normal(size=(2, n_pos + n_neg))
        relevant = rng.permuted(np.tile(np.arange(n_pos + n_neg) < n_pos, (2, 1)), axis=1)
        found = hinge(torch.tensor(scores), torch.tensor(relevant))
        for k in range(2):
            best = mm.most_violating_ranking(scores[k], relevant[k], hinge.loss, method="exhaustive")
            assert found[k].item() == pytest.approx(best.hinge, abs=1e-13)


@pytest.mark.parametrize("code", ["from maxmargin.nn import APLoss", "import maxmargin; maxmargin.nn.APLoss"])
def test_without_torch(code):
    out = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['torch'] = None; {code}"], capture_output=True, text=True
    )
    assert out.returncode == 1
    assert "ImportError: maxmargin.nn.APLoss needs torch; install it with: pip install 'maxmargin[nn]'" in out.stderr


def test_loaded_on_demand():
    assert mm.nn.APLoss is APLoss
    code = "import maxmargin, maxmargin.labeling, sys; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
