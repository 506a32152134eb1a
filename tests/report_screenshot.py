"""Draws the pictures of pages in docs/images, all about handwritten digits: ``python tests/report_screenshot.py``."""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from tests import browser

from maxmargin import RankingSVM, regularization_path
from maxmargin._utils import save_figure

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PIXELS = [f"pixel {row}, {column}" for row in range(8) for column in range(8)]


def best(model, grid, X, y):
    """The model with the C that gives the best AP."""
    search = GridSearchCV(model, {"C": grid}, scoring="average_precision", cv=StratifiedKFold(4, shuffle=True, random_state=0))
    return search.fit(X, y).best_estimator_


def report(running, folder, train, known, test, new):
    """The beginning of a report, while the mouse is over the gain curve."""
    # Both by the same cross-validation; the hinge of a list is a mean and the loss of the other a sum over samples.
    model = best(RankingSVM("ap"), 10.0 ** np.arange(0, 5), train, known)
    baseline = best(LogisticRegression(max_iter=1000), 10.0 ** np.arange(-3, 3), train, known)
    path = model.report(
        test,
        new,
        path=folder / "report.html",
        baselines={"logistic regression": baseline},
        feature_names=PIXELS,
        title="Finding the eights among handwritten digits",
    )
    page = running.open(path, width=1180, height=1640, scale=1.5)
    x, y, width, height = page.run(
        "(r => [r.x, r.y, r.width, r.height])(document.querySelector('#chart-gain .canvas > svg').getBoundingClientRect())"
    )
    page.mouse("mouseMoved", x + 0.35 * width, y + 0.6 * height)
    photograph(page, folder, "report.png")


def along_the_path(running, folder, train, known, test, new):
    """The slider of a path, a little beyond the best lambda; and the figure of the same path."""
    path = regularization_path(RankingSVM("ap"), train, known, epsilon=0.01, lambda_min=1e-4)
    file = path.report(
        test,
        new,
        training=(train, known),
        file=folder / "path.html",
        feature_names=PIXELS,
        title="Finding the eights: every C at once",
    )
    page = running.open(file, width=1180, height=1180, scale=1.5)
    for _ in range(4):
        page.run("document.querySelector('#next-model').click()")
    page.run("scrollTo({ top: document.querySelector('#path').offsetTop - 20, behavior: 'instant' })")
    photograph(page, folder, "path.png")
    chosen, known_scores = path.select(test, new), path.select(train, known)
    save_figure(path.plot(selection=chosen, training=known_scores, feature_names=PIXELS), IMAGES / "path_plot.png")
    shrink(IMAGES / "path_plot.png", IMAGES / "path_plot.png")


def photograph(page, folder, name):
    page.settle()
    page.screenshot(folder / "shot.png", whole=False)
    shrink(folder / "shot.png", IMAGES / name)


def shrink(source, target):
    """Few colours are in it: a palette makes the file several times smaller."""
    with Image.open(source) as shot:
        small = shot.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    small.save(target, optimize=True)
    print(f"{target}: {target.stat().st_size // 1000} kB")


def main() -> None:
    """All of them."""
    X, digit = load_digits(return_X_y=True)
    train, test, known, new = train_test_split(X / 16, digit == 8, test_size=0.5, random_state=0, stratify=digit == 8)
    executable = browser.find()
    if executable is None:
        raise SystemExit(browser.HOW_TO_INSTALL)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser.started(executable) as running:
        for draw in (report, along_the_path):
            draw(running, Path(folder), train, known, test, new)


if __name__ == "__main__":
    main()
