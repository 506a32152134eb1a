"""Draws docs/images/report.png, the beginning of a report on handwritten digits: ``python tests/report_screenshot.py``."""

import tempfile
from pathlib import Path

import browser
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split

from maxmargin import RankingSVM

TARGET = Path(__file__).parents[1] / "docs" / "images" / "report.png"


def best(model, grid, X, y):
    """The model with the C that gives the best AP."""
    search = GridSearchCV(model, {"C": grid}, scoring="average_precision", cv=StratifiedKFold(4, shuffle=True, random_state=0))
    return search.fit(X, y).best_estimator_


def main() -> None:
    """Train, write the page, photograph it while the mouse is over the gain curve."""
    X, digit = load_digits(return_X_y=True)
    train, test, known, new = train_test_split(X / 16, digit == 8, test_size=0.5, random_state=0, stratify=digit == 8)
    executable = browser.find()
    if executable is None:
        raise SystemExit(browser.HOW_TO_INSTALL)
    with tempfile.TemporaryDirectory() as folder, browser.started(executable) as running:
        # Both by the same cross-validation; the hinge of a list is a mean and that of an ordinary SVM a sum over samples.
        model = best(RankingSVM("ap"), 10.0 ** np.arange(0, 5), train, known)
        baseline = best(RankingSVM("accuracy", solver="bcfw"), 10.0 ** np.arange(-3, 2), train, known)
        path = model.report(
            test,
            new,
            path=f"{folder}/report.html",
            baselines={"ordinary SVM": baseline},
            feature_names=[f"pixel {row}, {column}" for row in range(8) for column in range(8)],
            title="Finding the eights among handwritten digits",
        )
        page = running.open(path, width=1180, height=1320, scale=1.5)
        x, y, width, height = page.run(
            "(r => [r.x, r.y, r.width, r.height])(document.querySelector('#chart-gain .canvas > svg').getBoundingClientRect())"
        )
        page.mouse("mouseMoved", x + 0.35 * width, y + 0.6 * height)
        page.settle()
        page.screenshot(Path(folder) / "shot.png", whole=False)
        TARGET.parent.mkdir(exist_ok=True)
        # Few colours are in it: a palette makes the file several times smaller.
        with Image.open(Path(folder) / "shot.png") as shot:
            shot.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(TARGET, optimize=True)
    print(f"{TARGET}: {TARGET.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
