"""Half precision, grades with gains, cut-offs, weights of queries and torch.func: each against what it should equal."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

import maxmargin as mm
from maxmargin.nn import APLoss, DirectLoss, NDCGLoss, RankingHinge
from maxmargin.ranking import Discounted

LOSSES = [APLoss(), NDCGLoss(at=3), NDCGLoss(gains="linear"), RankingHinge("p@2"), DirectLoss("ap", 0.5)]


def graded(shape, seed, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 4, shape)
    return torch.tensor(rng.normal(size=shape) + 0.3 * grades, dtype=dtype, requires_grad=True), torch.tensor(grades)


def labels_for(loss, grades):
    return grades if getattr(loss, "gains", None) else grades > 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_half_precision_is_that_of_the_same_numbers(loss, dtype):
    scores, grades = graded((4, 9), 0)
    low = scores.detach().to(dtype).requires_grad_()
    same = low.detach().float().requires_grad_()
    truth = labels_for(loss, grades)
    value, exact = loss(low, truth), loss(same, truth.to(dtype) if truth.dtype != torch.bool else truth)
    assert value.dtype == torch.float32 and value == exact
    value.backward()
    exact.backward()
    assert low.grad.dtype == dtype and torch.equal(low.grad, same.grad.to(dtype))


def test_autocast():
    torch.manual_seed(0)
    network, X, y = torch.nn.Linear(5, 1), torch.randn(40, 5), torch.arange(40) < 6
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = network(X).squeeze(1)
        value = APLoss()(scores, y)
    assert scores.dtype == torch.bfloat16 and value.dtype == torch.float32
    value.backward()
    assert torch.isfinite(network.weight.grad).all() and torch.any(network.weight.grad != 0)


@pytest.mark.parametrize("gains", ["linear", "exponential"])
@pytest.mark.parametrize("at", [None, 1, 3, 20])
def test_grades_are_what_the_estimator_trains_for(gains, at):
    """The mean of the hinges is the objective of a RankingSVM without its regulariser; and it bounds 1 - NDCG."""
    X = np.random.default_rng(1).normal(size=(60, 3))
    noise = np.random.default_rng(2).normal(size=60)
    grades, qid = np.digitize(2 * X[:, 0] + noise, [0, 1.5, 3]), np.repeat(np.arange(6), 10)
    name = "ndcg" if at is None else f"ndcg@{at}"
    model = mm.RankingSVM(name, grades=gains, C=0.3, tol=1e-9).fit(X, grades, qid)
    loss = NDCGLoss(at=at, gains=gains)
    hinge = loss(torch.tensor(X @ model.coef_).reshape(6, 10), torch.tensor(grades).reshape(6, 10))
    assert 0.5 * model.coef_ @ model.coef_ + 0.3 * 6 * hinge.item() == pytest.approx(model.primal_objective_, rel=1e-9)
    lost = 1 - mm.metrics.ndcg(grades, X @ model.coef_, k=at, gains=gains, qid=qid)
    assert hinge.item() >= lost - 1e-12
    scores, some = graded((3, 7), 3)
    assert torch.autograd.gradcheck(lambda s: NDCGLoss(at=at, gains=gains)(s, some), scores, eps=1e-7)


def test_grades_of_zero_and_one_need_no_gains():
    scores, grades = graded((5, 8), 4)
    truth = (grades > 1).long()
    for gains in ("linear", "exponential"):
        for at in (None, 3):
            loss, plain = NDCGLoss("none", at=at, gains=gains), NDCGLoss("none", at=at)
            assert torch.allclose(loss(scores, truth), plain(scores, truth), rtol=1e-14) and loss.n_skipped == plain.n_skipped


def test_grades_with_padding_and_queries_that_teach_nothing():
    scores, grades = graded((4, 6), 5)
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[1], mask[2, 3:], grades[3] = False, False, 2
    loss = NDCGLoss("none", gains="linear")
    each = loss(scores, grades, mask)
    assert loss.n_skipped == 2 and each[1] == each[3] == 0
    assert each[2] == loss(scores[2, :3], grades[2, :3])
    mean = NDCGLoss(gains="linear")
    assert mean(scores, grades, mask).item() == pytest.approx(each.sum().item() / 2)


def test_weights_of_queries():
    scores, grades = graded((4, 6), 6)
    truth, weight = grades > 1, torch.tensor([1.0, 0.0, 2.5, 3.0])
    truth[3] = False  # skipped, so its weight does not count
    each = APLoss("none")(scores, truth)
    assert torch.equal(APLoss("none")(scores, truth, weight=weight), weight.double() * each)
    assert APLoss("sum")(scores, truth, weight=weight).item() == pytest.approx((weight * each).sum().item())
    mean = APLoss()(scores, truth, weight=weight)
    assert mean.item() == pytest.approx((weight * each).sum().item() / 3.5)
    expected = torch.autograd.grad((weight.double() * each).sum() / 3.5, scores)[0]
    assert torch.allclose(torch.autograd.grad(mean, scores)[0], expected)
    assert APLoss()(scores, truth, weight=torch.zeros(4)) == 0
    assert APLoss()(scores[0], truth[0], weight=2.0) == each[0]
    with pytest.raises(ValueError, match=r"weight has shape \(3,\)"):
        APLoss()(scores, truth, weight=torch.ones(3))
    for bad in (-1.0, torch.nan, torch.inf):
        with pytest.raises(ValueError, match="weight must be finite and not negative"):
            APLoss()(scores, truth, weight=torch.tensor([1.0, 1.0, bad, 1.0]))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_func(loss):
    scores, grades = graded((5, 8), 7)
    truth = labels_for(loss, grades)
    plain = scores.detach()
    value = loss(scores, truth)
    expected = torch.autograd.grad(value, scores)[0]
    assert torch.equal(grad(loss)(plain, truth), expected)
    each = torch.stack([loss(plain[k], truth[k]) for k in range(5)])
    assert torch.equal(vmap(loss)(plain, truth), each)
    assert torch.equal(vmap(loss, in_dims=(1, 1))(plain.T, truth.T), each)
    assert torch.equal(vmap(loss, in_dims=(0, None))(plain, truth[0])[0], each[0])
    slopes = vmap(grad(loss))(plain, truth)
    for k in range(5):
        alone = plain[k].clone().requires_grad_()
        assert torch.equal(slopes[k], torch.autograd.grad(loss(alone, truth[k]), alone)[0])
    # Batches of batches, with padding that is not a number.
    many, mask = torch.stack([plain, plain + 1]), torch.ones(2, 5, 8, dtype=torch.bool)
    many[1, 2, 3], mask[1, 2, 3] = torch.nan, False
    found = vmap(lambda s, m: loss(s, truth, m))(many, mask)
    assert found[0] == value.detach() and found[1] == pytest.approx(loss(many[1], truth, mask[1]).item(), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_forward_mode(loss):
    scores, grades = graded((4, 7), 5)
    truth, mask = labels_for(loss, grades), torch.arange(7) < torch.tensor([[7], [5], [6], [7]])
    weight = torch.tensor([1.0, 2.0, 0.5, 0.0])
    assert torch.autograd.gradcheck(lambda s: loss(s, truth, mask, weight), scores, check_forward_ad=True)
    assert torch.autograd.gradcheck(lambda s: loss(s, truth[0]), scores.detach()[0].requires_grad_(), check_forward_ad=True)
    assert torch.equal(jacfwd(loss)(scores.detach(), truth), torch.autograd.grad(loss(scores, truth), scores)[0])


@pytest.mark.parametrize(
    "second", [hessian, lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f))]
)
def test_second_derivatives_of_functions_of_the_loss(second):
    scores, grades = graded((9,), 6)
    slope = torch.autograd.grad(APLoss()(scores, grades > 1), scores)[0]
    found = second(lambda s: APLoss()(s, grades > 1) ** 2)(scores.detach())
    assert torch.allclose(found, 2 * torch.outer(slope, slope))


def test_func_of_a_network_with_weights():
    torch.manual_seed(0)
    network, X = torch.nn.Linear(3, 1), torch.randn(4, 6, 3)
    y, weight = torch.tensor([[1, 0, 0, 1, 0, 0]] * 4), torch.tensor([1.0, 2.0, 0.0, 1.0])
    parameters = dict(network.named_parameters())

    def risk(values, X, y, w):
        return APLoss("sum")(functional_call(network, values, (X,)).squeeze(-1), y, weight=w)

    each = vmap(grad(risk), in_dims=(None, 0, 0, 0))(parameters, X, y, weight)
    whole = grad(risk)(parameters, X, y, weight)
    assert torch.allclose(each["weight"].sum(0), whole["weight"], atol=1e-6)
    assert torch.all(each["weight"][2] == 0)


def test_wrong_gains():
    scores, grades = graded((2, 5), 8)
    with pytest.raises(ValueError, match="gains='cubic' is unknown"):
        NDCGLoss(gains="cubic")
    with pytest.raises(ValueError, match=r"known to NDCG only.*use loss='ndcg'"):
        RankingHinge("ap", gains="linear")
    with pytest.raises(ValueError, match="known to NDCG only"):
        RankingHinge(Discounted(lambda p: 1 / p), gains="linear")
    with pytest.raises(ValueError, match="only 0 and 1"):
        NDCGLoss()(scores, grades)
    with pytest.raises(ValueError, match="finite grades"):
        NDCGLoss(gains="linear")(scores, torch.full((2, 5), torch.nan))
    with pytest.raises(ValueError, match=r"at=0|first places"):
        NDCGLoss(at=0)
