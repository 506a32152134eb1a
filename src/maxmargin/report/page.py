"""One self-contained HTML file from a dictionary of contents: nothing is fetched, ever.

Names of features and queries come from files and are not to be trusted. They reach the page as JSON in a data block, where
no character can end it, and the script writes them as text, never as HTML. A content security policy allows exactly the one
script and the one style sheet of the page, by their hashes, and no connection at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

# Characters with a meaning in HTML become escapes of JSON; all else beyond ASCII, U+2028 among it, json has escaped.
_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def render(contents: Mapping[str, Any]) -> str:
    """The page."""
    style = _asset("report.css")
    script = "".join(map(_asset, ("charts.js", "parts.js", "path.js" if contents.get("page") == "path" else "report.js")))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(contents["title"]),
        "style": style,
        "script": script,
        "lead": html.escape(" ".join([contents["headline"].get("warning") or "", *contents["headline"]["sentences"]]).strip()),
        "data": as_json(contents),
    }
    page = _asset("template.html")
    # In one go: what is put in is not searched again, whatever it contains.
    pieces = page.split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:]))


def as_json(value: Any) -> str:
    r"""JSON that is safe between ``<script>`` tags.

    >>> print(as_json("</script><!--"))
    "\u003c/script\u003e\u003c!--"
    """
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


def _asset(name: str) -> str:
    return files("maxmargin.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
