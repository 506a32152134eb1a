"""The page about a path in a real browser: the slider, what it shows, and what it moves."""

import json

import numpy as np
import pytest
from tests.report.test_path_report import samples
from tests.report.test_report_browser import NASTY, contrast, luminance, numbers, text, ticks

from maxmargin import RankingSVM, regularization_path
from maxmargin.report import paths, write_path_report

CHARTS = ["chart-gap-bound", "chart-profiles", "chart-score"]


@pytest.fixture(scope="module")
def path():
    return regularization_path(RankingSVM("ap"), *samples(0), epsilon=0.01, lambda_min=1e-3)


@pytest.fixture(scope="module")
def file(path, tmp_path_factory):
    return write_path_report(path, *samples(6), training=samples(0), file=tmp_path_factory.mktemp("path") / "p.html")


def number(shown):
    """The number that the page writes for people."""
    shown = shown.replace(",", "").replace("\N{MINUS SIGN}", "-")
    mantissa, _, power = shown.partition(" \N{MULTIPLICATION SIGN} 10")
    digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    return float(mantissa) * 10.0 ** int(power.translate(digits) or 0)


def now(page, key):
    return text(page, f"#now-{key}")[0]


def step(page):
    return int(page.run("document.querySelector('#lambda').value"))


def marker(page, chart):
    return page.run(f"Number(document.querySelector('#{chart} .marker').getAttribute('x1'))")


def edges(page, chart):
    """Pixels where the axis begins and ends."""
    return page.run(f"(e => ['x1', 'x2'].map(k => Number(e.getAttribute(k))))(document.querySelector('#{chart} .axis'))")


def set_slider(page, value):
    page.run(f"(e => {{ e.value = {value}; e.dispatchEvent(new Event('input')); }})(document.querySelector('#lambda'))")


def markers(page):
    return page.run("[...document.querySelectorAll('.marker')].map(e => Number(e.getAttribute('x1')))")


def test_everything_is_drawn_and_nothing_fetched(browser, file):
    page = browser.open(file)
    assert page.problems == [] and page.requests == [file.as_uri()]
    assert sorted(page.run("[...document.querySelectorAll('figure.chart')].map(e => e.id)")) == CHARTS
    for chart in CHARTS:
        lengths = page.run(f"[...document.querySelectorAll('#{chart} .canvas .curve')].map(e => e.getTotalLength())")
        assert lengths and all(length > 100 for length in lengths)
        # The path begins on the left, with the largest lambda: ticks come in ascending order.
        places = page.run(f"[...document.querySelectorAll('#{chart} .tick.x')].map(e => Number(e.getAttribute('x')))")
        assert (np.diff(places) < 0).all() and len(places) >= 3
        assert text(page, f"#{chart} .flag text") == ["best"]
    assert (
        page.run("document.querySelectorAll('#chart-gap-bound .rug').length") == page.run("contents.path.breakpoints.length") > 10
    )
    assert text(page, "h2") == ["Move along the path", "All models", "What was run?"]


def test_read_outs_are_what_the_path_says(browser, path, file):
    page = browser.open(file)
    assert number(now(page, "lambda")) == pytest.approx(path.select(*samples(6)).lam, rel=1e-3)
    for value in (0, 137, 500, 812, 1000):
        set_slider(page, value)
        share = value / 1000
        lam = float(np.clip(path.lambdas[0] ** (1 - share) * path.lambda_end**share, path.lambda_end, path.lambdas[0]))
        model = path.estimator(lam)
        assert number(now(page, "lambda")) == pytest.approx(lam, rel=1e-3)
        assert number(now(page, "lambda-detail").removeprefix("C = ")) == pytest.approx(model.C, rel=1e-3)
        assert int(now(page, "model")) == path.model_at(lam)
        assert number(now(page, "gap")) == pytest.approx(path.gap_bound(lam), rel=1e-2)
        assert float(now(page, "training")) == pytest.approx(model.score(*samples(0)), abs=6e-4)
        assert float(now(page, "validation")) == pytest.approx(model.score(*samples(6)), abs=6e-4)
        order = np.argsort(-np.abs(model.coef_))[:12]
        assert text(page, "#path .weights tbody th") == [f"column {j}" for j in order]
        values = [number(shown) for shown in text(page, "#path .weights td.number")]
        assert values == pytest.approx(model.coef_[order], rel=2e-2)
        # Every chart is marked at that lambda.
        for chart, place in zip(
            page.run("[...document.querySelectorAll('figure.chart')].map(e => e.id)"), markers(page), strict=True
        ):
            assert place == pytest.approx(np.interp(share, [0, 1], edges(page, chart)), abs=0.5)
        spoken = page.run("document.querySelector('#lambda').getAttribute('aria-valuetext')")
        assert f"model {1 + page.run('contents.path.models.number').index(path.model_at(lam))} of" in spoken


def test_slider_by_mouse(browser, file):
    page = browser.open(file)
    x, y, width, height = page.box("#lambda")
    at = x + 8 + (width - 16) * step(page) / 1000
    before, seen = markers(page), [now(page, key) for key in ("lambda", "model", "gap")]
    page.drag((at, y + height / 2), (x + 0.2 * width, y + height / 2))
    assert 150 < step(page) < 250
    assert all(new < old for new, old in zip(markers(page), before, strict=True))
    assert all(new != old for new, old in zip([now(page, key) for key in ("lambda", "model", "gap")], seen, strict=True))
    assert page.problems == []


def test_slider_by_keyboard(browser, file):
    page = browser.open(file)
    page.run("document.querySelector('#lambda').focus()")
    began, lam = step(page), number(now(page, "lambda"))
    page.press("ArrowRight")
    assert step(page) == began + 1 and number(now(page, "lambda")) < lam
    place = markers(page)
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    assert step(page) == began - 1 and number(now(page, "lambda")) > lam and markers(page) < place
    page.press("Home")
    assert step(page) == 0 and page.run("document.querySelector('#previous-model').disabled")
    page.press("End")
    assert step(page) == 1000 and page.run("document.querySelector('#next-model').disabled")
    assert number(now(page, "lambda")) == pytest.approx(1e-3, rel=1e-3)


def test_buttons_go_from_model_to_model(browser, path, file):
    page = browser.open(file)
    models = page.run("contents.path.models")
    set_slider(page, 0)
    for k in range(1, len(models["number"])):
        page.run("document.querySelector('#next-model').click()")
        assert int(now(page, "model")) == models["number"][k]
        assert number(now(page, "lambda")) == pytest.approx(path.lambdas[models["number"][k]], rel=1e-3)
    assert page.run("document.querySelector('#next-model').disabled")
    page.run("document.querySelector('#previous-model').click()")
    assert int(now(page, "model")) == models["number"][-2]
    page.run("document.querySelector('#best-model').click()")
    assert now(page, "validation-detail") == "the best" and int(now(page, "model")) == path.model_at(path.select(*samples(6)).lam)
    page.run("document.querySelector('#next-model').click()")
    assert now(page, "validation-detail").endswith("below the best")


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_are_read_zoomed_and_clicked(browser, path, file, chart):
    page = browser.open(file)
    x, y, width, height = page.box(f"#{chart} .canvas > svg")
    page.mouse("mouseMoved", x + 0.7 * width, y + 0.5 * height)
    page.settle()
    assert text(page, f"#{chart} .readout .where")[0].startswith("λ ")
    assert len(text(page, f"#{chart} .readout b")) == len(text(page, f"#{chart} .legend button"))
    # A click moves the slider there.
    page.mouse("mousePressed", x + 0.7 * width, y + 0.5 * height)
    page.mouse("mouseReleased", x + 0.7 * width, y + 0.5 * height)
    page.settle()
    place = marker(page, chart)
    assert place == pytest.approx(0.7 * width, abs=1.5)
    assert int(now(page, "model")) == path.model_at(number(now(page, "lambda")))
    whole = ticks(page, chart)
    page.drag((x + 0.5 * width, y + 0.5 * height), (x + 0.8 * width, y + 0.5 * height))
    assert ticks(page, chart) != whole and (np.diff(numbers(page, chart)) > 0).all()
    # What was at 0.7 of the picture is now at two thirds of it.
    assert marker(page, chart) == pytest.approx(np.interp(2 / 3, [0, 1], edges(page, chart)), abs=3)
    # Arrow keys go where they point, Enter moves the slider.
    page.run(f"document.querySelector('#{chart} .canvas > svg').focus()")
    page.press("Escape")
    assert ticks(page, chart) == whole
    hair = f"Number(document.querySelector('#{chart} .hair line').getAttribute('x1'))"
    page.press("ArrowRight")
    page.press("ArrowRight")
    right = page.run(hair)
    page.press("ArrowRight")
    assert page.run(hair) > right
    page.press("Enter")
    place = marker(page, chart)
    assert place == pytest.approx(page.run(hair), abs=0.5)
    assert page.problems == []


def test_weights_relative_to_the_largest(browser, file):
    page = browser.open(file)
    page.run("document.querySelector('[name=profile-scale][value=relative]').click()")
    page.settle()
    assert text(page, "#chart-profiles .title.y") == ["weight / largest weight"]
    values = numbers(page, "chart-profiles", "y")
    assert min(values) >= -1.1 and max(values) <= 1.1
    place = marker(page, "chart-profiles")
    set_slider(page, 0)
    assert marker(page, "chart-profiles") < place


def test_table_of_models(browser, path, file):
    page = browser.open(file)
    page.run("document.querySelector('#models details').open = true")
    rows = page.run("[...document.querySelectorAll('#models tbody tr')].map(r => [...r.children].map(c => c.textContent))")
    assert len(rows) == page.run("contents.path.models.number.length")
    for number_, lam, *_ in rows:
        assert number(lam) == pytest.approx(path.lambdas[int(number_)], rel=1e-3)
    best = max(float(row[-1]) for row in rows)
    page.run("document.querySelector('#models thead th:last-child button').click()")
    page.run("document.querySelector('#models thead th:last-child button').click()")
    assert float(text(page, "#models tbody tr:first-child td:last-child")[0]) == best


def test_a_thinned_page_never_gets_stuck(browser, path, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "MAX_MODELS", 6)
    page = browser.open(write_path_report(path, *samples(6), file=tmp_path / "p.html"))
    assert "6 of" in text(page, "#path > .note")[0]
    # As keys do it: one step further, then the event; all the way to both ends.
    walk = """(end => {
        const slider = document.querySelector('#lambda'), { models } = contents.path, seen = [];
        const set = (value) => { slider.value = value; slider.dispatchEvent(new Event('input')); };
        set(1000 - end);
        while (Number(slider.value) !== end) {
            const before = Number(slider.value);
            set(before + Math.sign(end - before));
            seen.push([before, Number(slider.value), Number(document.querySelector('#now-model').textContent)]);
            if (seen.length > 1001) break;
        }
        return seen;
    })"""
    for end, sign in ((1000, 1), (0, -1)):
        seen = np.array(page.run(f"{walk}({end})"))
        assert (sign * (seen[:, 1] - seen[:, 0]) > 0).all() and seen[-1, 1] == end
        assert set(seen[:, 2]) == set(page.run("contents.path.models.number")) and (sign * np.diff(seen[:, 2]) >= 0).all()


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    X, y = samples(0, d=5)
    path = regularization_path(RankingSVM("ap"), X, y, epsilon=0.05, lambda_min=1e-2)
    names = [f"{NASTY} feature {k}" for k in range(5)]
    file = tmp_path_factory.mktemp("nasty") / "p.html"
    return write_path_report(path, X, y, file=file, feature_names=names, title=NASTY, notes=[NASTY], held_out=NASTY, metric=NASTY)


def test_untrusted_names_stay_text(browser, nasty):
    page = browser.open(nasty)
    assert page.run("document.title") == NASTY and page.problems == []
    assert page.run("document.querySelectorAll('img, iframe, script:not([type])').length") == 1
    assert text(page, "#path .weights tbody th")[0].startswith(NASTY) and text(page, "footer p")[0] == NASTY
    assert text(page, "#chart-score .legend .name") == [NASTY]
    assert NASTY in text(page, "#chart-profiles .legend .name")[0]


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 2200])
def test_no_sideways_scrolling(browser, file, nasty, width):
    for shown in (file, nasty):
        page = browser.open(shown, width=width)
        page.run("document.querySelector('#models details').open = true")
        page.settle()
        assert page.run("document.documentElement.scrollWidth") <= width
        x, _, wide, _ = page.box("#lambda")
        assert x >= 0 and x + wide <= width and wide > 100
        # Buttons do not stand on the slider.
        rectangle = "(r => [r.left, r.top, r.right, r.bottom])(e.getBoundingClientRect())"
        boxes = page.run(f"[...document.querySelectorAll('.slide > *')].map(e => {rectangle})")
        for k, (left, top, right, bottom) in enumerate(boxes):
            assert all(left >= box[2] or right <= box[0] or top >= box[3] or bottom <= box[1] for box in boxes[k + 1 :])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(browser, file, scheme):
    page = browser.open(file, scheme=scheme)

    def colour(selector, name):
        return page.run(f"getComputedStyle(document.querySelector({json.dumps(selector)})).getPropertyValue('{name}')")

    card = colour(".card", "background-color")
    assert (luminance(card) > 0.5) == (scheme == "light")
    for selector, name in (
        (".slide button:not(:disabled)", "color"),
        (".ends", "color"),
        (".flag text", "fill"),
        ("details > summary", "color"),
    ):
        assert contrast(colour(selector, name), card) >= 4.5, selector
    for selector in (".marker", ".flag line", ".rug", "#chart-profiles .canvas .curve"):
        assert contrast(colour(selector, "stroke"), card) >= 3, selector


def test_print(browser, file):
    page = browser.open(file, scheme="dark")
    assert page.pdf().startswith(b"%PDF")
    page.prefer("dark", media="print")
    assert page.run("getComputedStyle(document.querySelector('.control')).display") == "none"
    assert luminance(page.run("getComputedStyle(document.body).backgroundColor")) == 1


def test_without_any_data(browser, path, tmp_path):
    page = browser.open(write_path_report(path, file=tmp_path / "p.html"))
    assert page.problems == [] and page.run("document.querySelector('#best-model')") is None
    assert page.run("[...document.querySelectorAll('figure.chart')].map(e => e.id)") == ["chart-gap-bound", "chart-profiles"]
    lam = number(now(page, "lambda"))
    assert lam == pytest.approx(np.sqrt(path.lambdas[0] * path.lambda_end), rel=1e-3)
