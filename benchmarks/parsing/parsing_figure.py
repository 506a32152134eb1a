"""The picture of docs/parsing.md: a sentence as ``ParserSVM`` parses it.

It is from the development part of UD English. Arcs go from heads to their words; those that differ from the treebank are dashed.
"""

from __future__ import annotations

import warnings
from html import escape
from typing import Any

from benchmarks import FOLDER
from benchmarks.parsing.parsing import treebank

from maxmargin import ParserSVM
from maxmargin.core.solvers import ConvergenceWarning

TARGET = FOLDER.parent / "docs" / "images" / "parsed_sentence.svg"
LEVEL, GAP, SIZE = 26, 26, 15


def drawing(words: list[str], tags: list[str], heads: Any, labels: Any, right: list[bool]) -> str:
    """An SVG of the sentence with its arcs above the words."""
    widths = [max(9 * len(word), 7.5 * len(tag)) + GAP for word, tag in zip(words, tags, strict=True)]
    middle = [sum(widths[:k]) + widths[k] / 2 for k in range(len(words))]
    spans = sorted((abs(int(head) - 1 - k), k) for k, head in enumerate(heads) if head)
    height = [0] * len(words)
    for _, k in spans:
        # Above every arc that lies within.
        low, high = sorted((k, int(heads[k]) - 1))
        inside = [
            height[m] for _, m in spans if m != k and height[m] and low <= min(m, heads[m] - 1) and max(m, heads[m] - 1) <= high
        ]
        height[k] = 1 + max(inside, default=0)
    base = (max(height) + 1.6) * LEVEL
    parts = []
    for k, head in enumerate(heads):
        style = 'stroke-dasharray="5 4" ' if not right[k] else ""
        if head == 0:
            top = base - (max(height) + 1.2) * LEVEL
            parts.append(f'<path {style}d="M{middle[k]:.0f} {top:.0f} V{base - 6:.0f}" marker-end="url(#tip)"/>')
            parts.append(f'<text class="label" x="{middle[k] + 6:.0f}" y="{top + 10:.0f}" text-anchor="start">root</text>')
            continue
        start, end = middle[int(head) - 1], middle[k]
        start += 6 if end > start else -6
        top, bend = base - 8 - height[k] * LEVEL, 12 if end > start else -12
        path = (
            f"M{start:.0f} {base - 6:.0f} V{top + 12:.0f} q0 -12 {bend} -12 H{end - bend:.0f} q{bend} 0 {bend} 12 V{base - 6:.0f}"
        )
        parts.append(f'<path {style}d="{path}" marker-end="url(#tip)"/>')
        parts.append(f'<text class="label" x="{(start + end) / 2:.0f}" y="{top - 3:.0f}">{escape(str(labels[k]))}</text>')
    for k, (word, tag) in enumerate(zip(words, tags, strict=True)):
        parts.append(f'<text x="{middle[k]:.0f}" y="{base + 14:.0f}">{escape(word)}</text>')
        parts.append(f'<text class="tag" x="{middle[k]:.0f}" y="{base + 32:.0f}">{escape(tag)}</text>')
    style = (
        f"text{{font:{SIZE}px sans-serif;text-anchor:middle;fill:#222}}.label{{font-size:11px;fill:#1f5a99}}"
        ".tag{font-size:11px;fill:#777}path{fill:none;stroke:#1f5a99;stroke-width:1.3}"
    )
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip += '<path d="M0 0 L8 4 L0 8 z" style="fill:#1f5a99;stroke:none"/></marker>'
    size = f"{sum(widths):.0f} {base + 42:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{sum(widths):.0f}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="white"/><defs>{tip}</defs>' + "".join(parts) + "</svg>\n"
    )


def main() -> None:
    """Write docs/images/parsed_sentence.svg."""
    train, dev = treebank("train")[:2000], treebank("dev")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ParserSVM(C=0.1, max_iter=10, random_state=0).fit(train, train)
    sentence = next(own for own in dev if 8 <= len(own) <= 10 and own.tags.count("PUNCT") == 1 and "VERB" in own.tags)
    heads, labels = model.predict([sentence])[0]
    right = [head == own for head, own in zip(heads, sentence.heads, strict=True)]
    TARGET.write_text(drawing(sentence.words, sentence.tags, heads, labels, right))


if __name__ == "__main__":
    main()
