"""Options of methods through pictures: they reach the search, and those that fit nowhere are named before the work begins."""

import sys

import numpy as np
import pytest

from maxmargin.labeling import minimize
from maxmargin.vision import inpaint, segment, stereo, stereo_energy

RNG = np.random.default_rng(0)
RIGHT = RNG.integers(0, 256, (8, 12, 3))
LEFT = np.roll(RIGHT, 2, axis=1)
REGIONS = np.repeat([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]], 8, axis=0)
MASK = RNG.random((8, 12)) < 0.8


def test_options_of_a_method_reach_it(monkeypatch):
    heard = []

    def listening(energy, method, **options):
        heard.append((method, options))
        return minimize(energy, method, **options)

    # The function has the name of its module.
    monkeypatch.setattr(sys.modules["maxmargin.vision.stereo_matching"], "minimize", listening)
    how = {"n_trees": 2, "linkage": False, "random_state": 3, "max_sweeps": 2}
    found = stereo(LEFT, RIGHT, 5, regions=REGIONS, method="parsimonious", **how)
    assert heard == [("parsimonious", how)]
    alone = minimize(stereo_energy(LEFT, RIGHT, 5, regions=REGIONS), "parsimonious", **how)
    np.testing.assert_array_equal(found.labels, alone.labels)
    inpaint(LEFT[:, :, 0], MASK, 8, method="trws", tol=1e-2, smoothness=3.0)
    segment(LEFT, 3, method="expansion", init="constant", order="natural", random_state=1)
    # A name may be left to be chosen by the options.
    stereo(LEFT, RIGHT, 5, regions=None, method="auto", init="constant", truncate=True)
    assert heard[1:] == [
        ("trws", {"tol": 1e-2}),
        ("expansion", {"init": "constant", "order": "natural"}),
        ("auto", {"init": "constant", "truncate": True}),
    ]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_trees": 2}, TypeError, "'n_trees' is no option of the default search; pass method='parsimonious' with it"),
        ({"n_jobs": 2}, TypeError, "pass method='hierarchical' or method='parsimonious' with it"),
        ({"init": "unary"}, TypeError, "'init' is no option of the default search; pass a method by name with it"),
        ({"method": "swap", "n_trees": 2}, TypeError, "'n_trees' is no option of method 'swap', but of 'parsimonious'$"),
        ({"method": "swap", "tol": 1}, TypeError, "'tol' is no option of method 'swap', but of 'trws' and 'bp'$"),
        ({"smothness": 2}, TypeError, r"'smothness' is an option of neither the energy \(smoothness, .*nor a search \("),
        ({"method": "magic"}, ValueError, "method='magic' is unknown; choose one of 'auto', 'mincut'"),
    ],
)
def test_what_fits_nowhere_is_named_before_the_work(options, error, message):
    # The images are none, which nobody gets to see.
    for search, images in ((stereo, ("a", "b")), (inpaint, ("a", "b")), (segment, ("a",))):
        with pytest.raises(error, match=message):
            search(*images, **options)
