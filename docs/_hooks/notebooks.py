"""A Jupyter notebook as a Markdown page and its figures.

nbconvert would do this too, but it adds a dozen packages, and its HTML brings a theme and scripts of its own.  As
Markdown, a notebook has the headings, search, code highlighting and palette of every other page.
"""

import base64
import html
import json
import posixpath
import re
from typing import Any

from mkdocs.exceptions import PluginError

FIGURES = {"image/svg+xml": ".svg", "image/png": ".png"}


def rendered(text: str, path: str) -> tuple[str, dict[str, str | bytes]]:
    """The Markdown of the notebook at `path` with its committed outputs, and its figures by path."""
    stem = posixpath.splitext(path)[0]
    introduction, *cells = json.loads(text)["cells"]
    lines = ["".join(introduction["source"]), "", f"[Download this notebook]({posixpath.basename(path)})", ""]
    figures: dict[str, str | bytes] = {}
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += ["```python", source, "```", ""]
        for data in map(_data, cell["outputs"]):
            if media_type := next((one for one in FIGURES if one in data), None):
                if not (alt := cell["metadata"].get("alt")):
                    raise PluginError(
                        f"{path}: cell {cell['id']} has a figure without a description; add alt to its metadata"
                    )
                figure = f"{stem}_{cell['id']}{FIGURES[media_type]}"
                content = "".join(data[media_type])
                figures[figure] = content if media_type == "image/svg+xml" else base64.b64decode(content)
                lines += [f"![{html.escape(alt)}]({posixpath.basename(figure)})", ""]
            elif "text/html" in data:
                lines += [_table("".join(data["text/html"])), ""]
            else:
                lines += ["``` { .text .output }", "".join(data["text/plain"]).rstrip(), "```", ""]
    return "\n".join(lines), figures


def _data(output: dict[str, Any]) -> dict[str, Any]:
    """An output by media type; tests/test_notebooks.py sees to it that none is an error."""
    return output["data"] if "data" in output else {"text/plain": output["text"]}


def _table(frame: str) -> str:
    """The HTML of a pandas table without pandas's own style, on one line, as Markdown needs it."""
    frame = re.sub(r"<style.*?</style>|</?div[^>]*>", "", frame, flags=re.S)
    return re.sub(r"\n\s*", "", re.sub(r' (border|class|style)="[^"]*"', "", frame))
