"""The report in a real browser: nothing fetched, nothing logged, everything drawn, and every way to use it."""

import json

import numpy as np
import pytest

from maxmargin import RankingSVM
from maxmargin.report import write_report

NASTY = "<script>document.title='injected'</script><img src=x onerror=\"document.title='injected'\">"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def one_list(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 30)) * 10.0 ** np.linspace(0, -3, 30)
    y = (X[:, 0] - X[:, 1] + rng.normal(size=300) > 1.2).astype(int)
    baseline = RankingSVM("accuracy", C=0.01).fit(X, y)
    model = RankingSVM("ap", C=10).fit(X, y)
    slices = {"size of what is measured": X[:, 5]}
    return model.report(X, y, path=folder / "list.html", baselines={"ordinary SVM": baseline}, slices=slices)


@pytest.fixture(scope="module")
def many_queries(folder):
    """Grades, and names that nobody should trust."""
    rng = np.random.default_rng(1)
    X, qid = rng.normal(size=(500, 5)), np.repeat(np.arange(50), 10)
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=500)), 0, 2)
    model = RankingSVM("ndcg", C=1).fit(X, y, qid)
    return model.report(
        X,
        y,
        qid,
        path=folder / "queries.html",
        baselines={NASTY: X[:, 1]},
        feature_names=[f"{NASTY} feature {k}" for k in range(5)],
        query_names={k: f"{NASTY} query {k}" for k in range(50)},
        title=NASTY,
        notes=[NASTY],
        slices={NASTY: np.repeat([f"{NASTY} kind {k % 3}" for k in range(50)], 10)},
    )


def plot(chart):
    return f"#{chart} .canvas > svg"


def text(page, selector):
    return page.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")


def ticks(page, chart, axis="x"):
    return text(page, f"#{chart} .tick.{axis}")


def numbers(page, chart, axis="x"):
    return [float(tick.replace(",", "").replace("\N{MINUS SIGN}", "-")) for tick in ticks(page, chart, axis)]


CHARTS = ["chart-precision-recall", "chart-gain", "chart-scores", "chart-objective", "chart-gap"]


def test_everything_is_drawn_and_nothing_fetched(browser, one_list, many_queries):
    for path, charts in ((one_list, CHARTS), (many_queries, [*CHARTS, "chart-queries"])):
        page = browser.open(path)
        assert page.problems == []
        assert page.requests == [path.as_uri()]
        assert sorted(page.run("[...document.querySelectorAll('figure.chart')].map(e => e.id)")) == sorted(charts)
        for chart in charts:
            curves = page.run(f"[...document.querySelectorAll('#{chart} .canvas .curve')].map(e => e.getTotalLength())")
            assert curves and all(length > 100 for length in curves), chart
            assert len(ticks(page, chart)) >= 3 and len(ticks(page, chart, "y")) >= 3
            assert all(text(page, f"#{chart} .title"))
        # No label of an axis stands on another one.
        overlaps = """[...document.querySelectorAll('figure.chart')].flatMap(f => ['.tick.x', '.tick.y'].flatMap(s => {
            const boxes = [...f.querySelectorAll(s)].map(e => e.getBoundingClientRect());
            return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => a.left < b.right && b.left < a.right
                && a.top < b.bottom && b.top < a.bottom).map(() => f.id + s));
        }))"""
        assert page.run(overlaps) == []
        page.resize(390)
        assert page.run(overlaps) == []


def test_headline_and_tables(browser, one_list, many_queries):
    page = browser.open(one_list)
    lead = " ".join(text(page, "header .lead"))
    assert "RankingSVM reaches AP" in lead and "ordinary SVM" in lead and "certified." in lead
    assert len(text(page, "#samples tbody tr")) == 40 and len(text(page, "#features tbody tr")) == 20
    assert text(page, "#metrics tbody th") == ["RankingSVM", "ordinary SVM", "random", "ordinary SVM"]
    assert "95\xa0% interval" in lead and "not about how good the ranking is" in lead
    page = browser.open(many_queries)
    column = (
        "[...document.querySelectorAll('#queries .card:not(#documents) tbody tr')].map(r => Number(r.children[4].textContent))"
    )
    values = page.run(column)
    assert values == sorted(values) and len(values) == 20
    page.run("document.querySelector('#queries thead th:nth-child(5) button').click()")
    assert page.run(column) == values[::-1]
    assert page.run("document.querySelector('#queries thead th:nth-child(5)').getAttribute('aria-sort')") == "descending"


def test_untrusted_names_stay_text(browser, many_queries):
    page = browser.open(many_queries)
    assert page.run("document.title") == NASTY
    assert page.run("document.querySelectorAll('img, iframe, script:not([type])').length") == 1
    assert text(page, "h1") == [NASTY] and NASTY in text(page, "#metrics tbody th")
    assert page.run("document.querySelector('#features tbody th').textContent").startswith(NASTY)
    assert page.run("document.querySelector('#queries tbody th').textContent").startswith(NASTY)
    # Even a script that got in would not run.
    page.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'})), 0")
    page.settle()
    assert page.run("window.ran") is None
    assert any("Content Security Policy" in problem for problem in page.problems)


@pytest.mark.parametrize("chart", CHARTS)
def test_hover_reads_values(browser, one_list, chart):
    page = browser.open(one_list)
    assert page.run(f"document.querySelector('#{chart} .readout').hidden")
    x, y, width, height = page.box(plot(chart))
    page.mouse("mouseMoved", x + 0.6 * width, y + 0.5 * height)
    page.settle()
    assert not page.run(f"document.querySelector('#{chart} .readout').hidden")
    values = text(page, f"#{chart} .readout b")
    assert len(values) == len(text(page, f"#{chart} .legend button")) and all(values)
    before = text(page, f"#{chart} .readout .where")
    page.mouse("mouseMoved", x + 0.9 * width, y + 0.5 * height)
    page.settle()
    assert text(page, f"#{chart} .readout .where") != before
    inside = f"""(r => r.left >= {x - 1} && r.right <= {x + width + 1})(
        document.querySelector('#{chart} .readout').getBoundingClientRect())"""
    assert page.run(inside)
    page.mouse("mouseMoved", 5, 5)
    page.settle()
    assert page.run(f"document.querySelector('#{chart} .readout').hidden")


def test_axes_are_where_they_say(browser, one_list):
    page = browser.open(one_list)
    place = "[...document.querySelectorAll('#chart-precision-recall .tick.{0}')].map(e => Number(e.getAttribute('{0}')))"
    line = page.run("(e => ['x1', 'x2', 'y1'].map(k => Number(e.getAttribute(k))))(document.querySelector('.axis'))")
    xs, ys = page.run(place.format("x")), page.run(place.format("y"))
    assert [xs[0], xs[-1], ys[0]] == pytest.approx(line, abs=0.1)
    assert numbers(page, "chart-precision-recall") == pytest.approx(np.interp(xs, line[:2], [0, 1]))
    # The line of a random ranking lies at the share of relevant samples.
    share = page.run("contents.data.relevant / contents.data.samples")
    drawn = page.run("document.querySelector('#chart-precision-recall .canvas .curve.random').getBBox().y")
    assert drawn == pytest.approx(np.interp(share, numbers(page, "chart-precision-recall", "y"), ys), abs=0.2)


def test_read_out_is_the_data(browser, one_list):
    """The value shown for a recall is that of the step which covers it."""
    page = browser.open(one_list)
    x, y, width, height = page.box(plot("chart-precision-recall"))
    page.mouse("mouseMoved", x + 0.5 * width, y + 0.5 * height)
    page.settle()
    recall = float(text(page, "#chart-precision-recall .readout .where")[0].split()[-1])
    hair = page.run("Number(document.querySelector('#chart-precision-recall .hair line').getAttribute('x1'))")
    ends = page.run("(e => ['x1', 'x2'].map(k => Number(e.getAttribute(k))))(document.querySelector('.axis'))")
    assert hair == pytest.approx(0.5 * width, abs=1) and recall == pytest.approx(np.interp(hair, ends, [0, 1]), abs=1e-3)
    curve = page.run("contents.precision_recall.curves[0]")
    k = int(np.searchsorted(curve["x"], recall))
    shown = float(text(page, "#chart-precision-recall .readout b")[0])
    assert shown == pytest.approx(curve["y"][k], abs=1e-4)


@pytest.mark.parametrize("chart", CHARTS)
def test_zoom(browser, one_list, chart):
    page = browser.open(one_list)
    whole = ticks(page, chart), ticks(page, chart, "y")
    seen = np.ptp(numbers(page, chart))
    x, y, width, height = page.box(plot(chart))
    page.drag((x + 0.4 * width, y + 0.5 * height), (x + 0.6 * width, y + 0.5 * height))
    assert 0.05 * seen < np.ptp(numbers(page, chart)) < 0.3 * seen
    reset = f"document.querySelector('#{chart} .zoom button')"
    assert not page.run(f"{reset}.hidden")
    page.run(f"{reset}.click()")
    page.settle()
    assert (ticks(page, chart), ticks(page, chart, "y")) == whole and page.run(f"{reset}.hidden")
    # A box selects both axes; a double click shows all again.
    page.drag((x + 0.4 * width, y + 0.2 * height), (x + 0.6 * width, y + 0.5 * height))
    assert ticks(page, chart) != whole[0]
    for clicks in (1, 2):
        page.mouse("mousePressed", x + 0.5 * width, y + 0.4 * height, clicks)
        page.mouse("mouseReleased", x + 0.5 * width, y + 0.4 * height, clicks)
    page.settle()
    assert (ticks(page, chart), ticks(page, chart, "y")) == whole
    assert page.problems == []


def test_keyboard_alone(browser, one_list):
    page = browser.open(one_list)
    page.run(f"document.querySelector('{plot('chart-gain')}').focus()")
    page.press("ArrowRight")
    seen = text(page, "#chart-gain .readout .where")
    for _ in range(3):
        page.press("ArrowRight")
        now = text(page, "#chart-gain .readout .where")
        assert now != seen
        seen = now
    page.press("End")
    assert text(page, "#chart-gain .readout .where")[0].startswith("100 %")
    whole = ticks(page, "chart-gain")
    page.press("+")
    page.press("+")
    assert numbers(page, "chart-gain")[0] >= 0.7
    assert page.run(f"document.activeElement === document.querySelector('{plot('chart-gain')}')")
    page.press("-")
    page.press("Escape")
    assert ticks(page, "chart-gain") == whole
    # Everything that can be clicked can be reached and shows that it has the focus.
    stops = page.run("""[...document.querySelectorAll('button, input, svg[tabindex]')].filter(e => !e.closest('[hidden]'))
        .every(e => e.tabIndex >= 0)""")
    assert stops


def test_toggles(browser, one_list, many_queries):
    page = browser.open(one_list)
    assert text(page, "#chart-objective .title.x") == ["passes over the data"]
    page.run("document.querySelector('[name=training-axis][value=seconds]').click()")
    page.settle()
    assert text(page, "#chart-objective .title.x") == ["seconds"] == text(page, "#chart-gap .title.x")
    first = text(page, "#features tbody th")
    page.run("document.querySelector('[name=feature-order][value=by_effect]').click()")
    assert (
        text(page, "#features tbody th") != first
        and text(page, "#features thead th")[-1] == "weight \N{MULTIPLICATION SIGN} spread"
    )
    page.run("document.querySelector('[name=gain-axis][value=log]').click()")
    page.settle()
    decades = numbers(page, "chart-gain")
    assert decades[0] < 0.02 and decades[-1] == 1
    curves = "document.querySelectorAll('#chart-gain .canvas .curve').length"
    assert page.run(curves) == 3
    page.run("document.querySelector('#chart-gain .legend button').click()")
    assert page.run(curves) == 2
    assert page.run("document.querySelector('#chart-gain .legend button').getAttribute('aria-pressed')") == "false"
    page = browser.open(many_queries)
    before = page.run(f"document.querySelector('{plot('chart-gain')} .curve').getAttribute('d')")
    page.run("document.querySelector('[name=gain-kind][value=collected]').click()")
    page.settle()
    assert page.run(f"document.querySelector('{plot('chart-gain')} .curve').getAttribute('d')") != before
    assert text(page, "#chart-gain .title.y") == ["share of all grades collected"]
    assert page.problems == []


def type_into(page, field, value):
    script = "(e => { e.focus(); e.value = %s; e.dispatchEvent(new Event('input')); })(document.querySelector(%s))"
    page.run(script % (json.dumps(str(value)), json.dumps(field)))


def test_budget(browser, one_list):
    page = browser.open(one_list)
    found = page.run("contents.budgets")
    for k in (1, 7, 300):
        type_into(page, "#budget-number", k)
        hits = [method[k - 1] for method in found["hits"]]
        assert text(page, ".budget-now dd:not(.detail)")[:2] == [f"{hits[0] / k:.3f}", f"{hits[0] / found['total']:.3f}"]
        assert text(page, "#budget .card:first-child tbody td")[3] == str(hits[1])
        assert page.run("document.querySelector('#budget-slider').value") == str(k - 1)
    page.run("document.activeElement.blur()")
    type_into(page, "#budget-slider", 49)
    assert page.run("document.querySelector('#budget-number').value") == "50"
    type_into(page, "#budget-number", "9999")
    assert text(page, ".budget-now dd")[2] == "1.000"
    type_into(page, "#budget-number", "")
    assert text(page, ".budget-now dd")[2] == "1.000" and page.problems == []
    assert text(page, "#budget .card:last-child tbody th") == ["3", "10", "15", "30", "50", "100"]


def test_costs(browser, one_list):
    """The cheapest threshold of the page is that of all thresholds."""
    page = browser.open(one_list)
    corners, total, samples = (page.run(f"contents.thresholds.{name}") for name in ("corners", "total", "samples"))
    for miss, alarm in ((1, 1), (10, 1), (1, 100), (1000, 0.5)):
        type_into(page, "#cost-miss", miss)
        type_into(page, "#cost-alarm", alarm)
        cost = min(miss * (total - hits) + alarm * alarms for _, alarms, hits in corners)
        values = text(page, ".cost-now dd:not(.detail)")
        assert float(values[1].replace(",", "")) == pytest.approx(cost, rel=1e-4)
        assert float(values[2].replace(",", "")) == pytest.approx(min(miss * total, alarm * (samples - total)), rel=1e-4)
    type_into(page, "#cost-miss", 0)
    assert text(page, ".cost-now dd:not(.detail)")[1] == "0"
    for bad in ("-1", ""):
        type_into(page, "#cost-miss", bad)
        assert "not negative" in text(page, "#thresholds [aria-live]")[0]
    assert page.problems == []


def test_documents_of_a_query(browser, many_queries):
    page = browser.open(many_queries)
    found = page.run("contents.documents.queries")
    heading = "#documents h3"
    assert text(page, heading) == [f"Documents of {found[0]['name']}"]
    page.run("document.querySelectorAll('#queries button.link')[3].click()")
    page.settle()
    assert text(page, heading) == [f"Documents of {found[3]['name']}"]
    assert page.run("document.activeElement === document.querySelector('#documents h3')")
    ranks = text(page, "#documents tbody th")
    assert ranks == [str(row[0]) for row in found[3]["rows"]]
    marked = page.run("[...document.querySelectorAll('#documents tbody tr')].map(r => r.classList.contains('hit'))")
    assert marked == [row[2] > 0 for row in found[3]["rows"]]
    page.run("document.querySelector('#documents thead th:nth-child(2) button').click()")
    samples = [row[1] for row in found[3]["rows"]]
    assert text(page, "#documents tbody td:nth-child(2)") == [str(k) for k in sorted(samples)]
    by_sample = sorted(found[3]["rows"], key=lambda row: row[1])
    marked = page.run("[...document.querySelectorAll('#documents tbody tr')].map(r => r.classList.contains('hit'))")
    assert marked == [row[2] > 0 for row in by_sample]
    type_into(page, "#query-search", "QUERY 17")
    assert text(page, "#query-choice option") == [f"{NASTY} query 17"] and text(page, heading)[0].endswith("query 17")
    type_into(page, "#query-search", "no such")
    assert page.run("document.querySelector('#query-choice').disabled")
    type_into(page, "#query-search", "")
    page.run("(e => { e.value = 5; e.dispatchEvent(new Event('change')); })(document.querySelector('#query-choice'))")
    assert text(page, heading) == [f"Documents of {found[5]['name']}"] and page.problems == []
    assert f"of all {len(found)} queries" in text(page, "#documents .note")[0]


def test_slices_and_training_data(browser, many_queries, one_list):
    page = browser.open(many_queries)
    assert "trained on" in text(page, "header .warning")[0]
    names = text(page, "#slices tbody th")
    assert len(names) == 3 and all(name.startswith(NASTY) for name in names)
    column = "[...document.querySelectorAll('#slices tbody tr')].map(r => parseFloat(r.children[1].textContent))"
    values = page.run(column)
    assert values == sorted(values)
    page.run("document.querySelector('#slices thead th:nth-child(2) button').click()")
    assert (
        page.run("[...document.querySelectorAll('#slices tbody tr')].map(r => parseFloat(r.children[1].textContent))")
        == values[::-1]
    )
    page = browser.open(one_list)
    assert len(text(page, "#slices tbody th")) == 4


def luminance(colour):
    channels = np.array([float(c) for c in colour[colour.index("(") + 1 : -1].split(",")[:3]]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(browser, one_list, scheme):
    page = browser.open(one_list, scheme=scheme)

    def colour(selector, name):
        return page.run(f"getComputedStyle(document.querySelector({json.dumps(selector)})).getPropertyValue('{name}')")

    card = colour(".card", "background-color")
    assert (luminance(card) > 0.5) == (scheme == "light")
    for selector in (".card h3", ".card .note", "thead th", ".proof"):
        back = card if selector != ".proof" else colour(".proof", "background-color")
        assert contrast(colour(selector, "color"), back) >= 4.5, selector
    for selector in (".canvas .tick", ".canvas .title"):
        assert contrast(colour(selector, "fill"), card) >= 4.5
    for look in ("model", "other-1", "random"):
        assert contrast(colour(f".canvas .curve.{look}", "stroke"), card) >= 3


@pytest.mark.parametrize("width", [320, 360, 768, 1200, 2200])
def test_no_sideways_scrolling(browser, one_list, many_queries, width):
    for path in (one_list, many_queries):
        page = browser.open(path, width=width)
        # Not innerWidth: a phone zooms out to see all of a page that is too wide.
        assert page.run("document.documentElement.scrollWidth") <= width
        widths = page.run("[...document.querySelectorAll('.canvas > svg')].map(e => e.getBoundingClientRect().width)")
        assert all(200 < w < width for w in widths)
        # Tables that are too wide move inside their own box, and every control is whole.
        outside = """[...document.querySelectorAll('table, input, select, .tiles, h2, p')].filter(e => {
            const r = e.getBoundingClientRect(), box = e.closest('.scroll');
            return !box && (r.right > innerWidth + 1 || r.left < -1) && getComputedStyle(e).opacity !== '0';
        }).map(e => e.outerHTML.slice(0, 80))"""
        assert page.run(outside) == []
        # Drawn for that width: a unit of the picture is a pixel, so text is as large as it says.
        units = page.run("[...document.querySelectorAll('.canvas > svg')].map(e => e.viewBox.baseVal.width)")
        assert units == pytest.approx(widths, abs=1)


def test_print(browser, one_list):
    page = browser.open(one_list, scheme="dark")
    document = page.pdf()
    assert document.startswith(b"%PDF") and 2 <= document.count(b"/Type /Page\n") + document.count(b"/Type /Page/") <= 10
    page.prefer("dark", media="print")
    back = page.run("getComputedStyle(document.body).backgroundColor")
    assert luminance(back) == 1
    assert page.run("getComputedStyle(document.querySelector('.zoom')).display") == "none"


def test_bare_scorer(browser, folder):
    """Sections that do not apply are left out; a history of losses gets its own."""

    class History:
        seconds, loss, best_loss = [0.1, 0.2, 0.3], [0.5, 0.6, 0.4], [0.5, 0.5, 0.4]

    class Scorer:
        history_ = History()

        def decision_function(self, X):
            return X[:, 0]

    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    page = browser.open(write_report(Scorer(), X, y, path=folder / "bare.html"))
    assert page.problems == [] and "Nothing is proved" in text(page, ".proof.uncertified")[0]
    sections = page.run("[...document.querySelectorAll('section')].map(e => e.id)")
    assert sections == ["metrics", "curves", "budget", "thresholds", "scores", "samples", "descent", "parameters"]
    page.run("document.querySelector('[name=descent-axis][value=seconds]').click()")
    page.settle()
    assert text(page, "#chart-descent .title.x") == ["seconds"]


def test_without_javascript(browser, one_list, folder):
    """Whoever blocks scripts still learns the result."""
    page = one_list.read_text()
    start = page.index("<noscript>")
    assert "RankingSVM reaches AP" in page[start : page.index("</noscript>")]
