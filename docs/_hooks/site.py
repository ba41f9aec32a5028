"""MkDocs hooks: four changes to the pages of docs/ on their way to site/.

- Links may leave docs/, as they do on GitHub (`../../results/craftax/report/index.html`).  Their targets become part
  of the site: Markdown and notebooks as pages, other files unchanged.  Committed reports and replays are included too.
- `<!-- generate: NAME ARGUMENTS -->` is replaced by the Markdown that `reference.py` or `architecture.py` generates
  from the code.
- Equations become MathML, which browsers render without scripts or web fonts.
- SVG figures are inlined, so that they follow the palette that the reader has chosen.

Addresses are written as GitHub needs them: relative to the page's own file.
"""

import html
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import architecture
import notebooks
import reference

from perepisode.report.drawing.canvas import dark_colours, following

ROOT = Path(__file__).parents[2]
REPORTS = re.compile(r"results/[^/]+/(report|watch)/")
DATA = (".parquet", ".safetensors")  # stays in the repository; the site only lists it
GENERATE = re.compile(r"^<!-- generate: (\S+)(.*?) -->$", re.M)
GENERATORS = {**reference.GENERATORS, **architecture.GENERATORS}
# Code stays unchanged: fenced, indented after an empty line, or inline
CODE = re.compile(
    r"^(?P<fence>[ ]*(`{3,}|~{3,})).*?^(?P=fence)[ ]*$|(?<=\n\n)(?:(?: {4}|\t).*\n)+|`[^`\n]+`", re.M | re.S
)
PAGES = (".md", ".ipynb")  # files that become pages, and may link to further files
LINK = re.compile(r"(\]\(|(?:href|src)=\")(?![a-z][a-z0-9+.-]*:|#|/)([^)\s\"#]+)")
LIST = re.compile(r"^(?!\s*(?:[-*+]|\d+\.)\s|\s*$|\s{2,}|[|#>]|<!--)(.+)\n(?=(?:[-*+]|\d+\.) )", re.M)
MATH = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)
FIGURE = re.compile(r'<img alt="([^"]*)" src="([^"]+\.svg)"[^>]*?/?>')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds reports, replays, and every file outside docs/ that a page links to."""
    committed = _committed()
    wanted = {path for path in committed if REPORTS.match(path)}
    folders: set[str] = set()
    seen: set[str] = set()
    unread = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    unread += [path for path in sorted(wanted) if path.endswith(PAGES)]
    while unread:
        page = unread.pop()
        if page in seen or page.startswith("docs/_hooks/") or not (ROOT / page).is_file():
            continue
        seen.add(page)
        for target in _targets(page):
            path = _document(target, committed)
            if path not in committed and (inside := {file for file in committed if file.startswith(f"{path}/")}):
                folders.add(path)
                wanted |= {file for file in inside if not file.endswith(DATA)}
            if path in committed and not path.startswith("docs/") and path != "README.md":
                wanted.add(path)
                unread += [path] if path.endswith(PAGES) else []
    for path in sorted(wanted):
        if path.startswith("results/") and path.endswith("index.html"):
            files.append(File.generated(config, path, content=_with_link_back(path)))
            continue
        files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
        if path.endswith(".ipynb"):
            page, figures = notebooks.rendered((ROOT / path).read_text(encoding="utf-8"), path)
            for name, content in {_site_path(path): page, **figures}.items():
                files.append(File.generated(config, name, content=content))
    for folder in sorted(folders):
        inside = sorted(path.removeprefix(f"{folder}/") for path in committed if path.startswith(f"{folder}/"))
        lines = [f"- `{file}`" if file.endswith(DATA) else f"- [`{file}`]({file})" for file in inside]
        files.append(File.generated(config, f"{folder}/index.md", content="\n".join([f"# {folder}", "", *lines])))
    config.extra_css.append("stylesheets/figures.css")
    files.append(File.generated(config, config.extra_css[-1], content=_dark_figures(files)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    own = page.file.src_uri
    if page.parent is None:  # no neighbours to navigate to
        page.meta.setdefault("hide", ["navigation"])
    if own.startswith("results/") and not (ROOT / "docs" / own).exists():  # not in the navigation
        home = posixpath.relpath("docs/results/index.md", posixpath.dirname(own))
        markdown = f"[← Results]({home})\n\n{markdown}"
    markdown = GENERATE.sub(lambda match: _generated(match, own), markdown)
    committed = _committed()

    def relinked(match: re.Match) -> str:
        path = _document(_resolved(_repository_path(own), match[2]), committed)
        if files.get_file_from_path(f"{_site_path(path)}/index.md"):
            path += "/index.md"
        address = _site_path(path) if _site_path(path) != own else path  # a notebook's page links to the notebook
        return match[1] + posixpath.relpath(address, posixpath.dirname(own) or ".")

    def prose(text: str) -> str:
        return LIST.sub(r"\1\n\n", LINK.sub(relinked, text))  # GitHub needs no empty line before a list

    pieces, end = [], 0
    for code in CODE.finditer(markdown):
        pieces += [markdown[end : code.start()], code[0]]
        end = code.end()
    pieces.append(markdown[end:])
    # the text of a link may contain code; only addresses are replaced, so each piece of prose can be treated alone
    return "".join(piece if number % 2 else prose(piece) for number, piece in enumerate(pieces))


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    content = MATH.sub(_mathml, content)
    content = FIGURE.sub(lambda match: _inline(match, page, files), content)
    # a wide table scrolls instead of the page; on a narrow screen the cells of a row of the reference are stacked
    style = "table stacked" if page.file.src_uri.startswith("reference/") else "table"
    return content.replace("<table>", f'<div class="{style}"><table>').replace("</table>", "</table></div>")


# ---- addresses ----------------------------------------------------------------------------------------------


def _committed() -> set[str]:
    """Every file of the repository that git tracks or would track; the site is built from these only."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return {path for path in listed.stdout.splitlines() if (ROOT / path).is_file()}
    folders = ("docs", "results", "examples", "benchmarks")  # an unpacked archive without git
    return {
        path.relative_to(ROOT).as_posix() for name in folders for path in (ROOT / name).rglob("*") if path.is_file()
    }


def _targets(page: str) -> set[str]:
    """The paths in the repository that a Markdown file links to."""
    text = CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return {_resolved(page, match[2]) for match in LINK.finditer(text)}


def _resolved(page: str, address: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), address))


def _document(path: str, committed: set[str]) -> str:
    """The file that represents a folder, its README or index; any other path as it is."""
    for name in ("README.md", "index.md", "index.html"):
        if f"{path}/{name}" in committed:
            return f"{path}/{name}"
    return path


def _site_path(path: str) -> str:
    """Where a file of the repository is on the site: docs/ is its root, README.md its first page."""
    return "index.md" if path == "README.md" else re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))


def _repository_path(own: str) -> str:
    return f"docs/{own}" if (ROOT / "docs" / own).is_file() else own


# ---- replacements ---------------------------------------------------------------------------------------


def _generated(match: re.Match, page: str) -> str:
    name, arguments = match[1], match[2].split()
    if name not in GENERATORS:
        raise PluginError(f"{page}: no generator {name!r}; choose from {', '.join(GENERATORS)}")
    return GENERATORS[name](*arguments)


def _mathml(match: re.Match) -> str:
    display = "block" if match[2] == "[" else "inline"
    mathml = convert(html.unescape(match[3]).strip(), display=display)
    mathml = mathml.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    return f'<div class="equation">{mathml}</div>' if display == "block" else mathml


def _inline(match: re.Match, page: Page, files: Files) -> str:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), match[2]))
    file = files.get_file_from_path(path)
    if file is None:
        return match[0]  # MkDocs reports the broken link
    name = re.sub(r"\W", "-", path)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", following(file.content_string))
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg[svg.index("<svg") :]).replace("xlink:href", "href")
    return svg.replace("<svg", f'<svg class="figure" role="img" aria-label="{match[1]}"', 1)


def _dark_figures(files: Files) -> str:
    """A style sheet with the dark counterpart of every colour of every figure."""
    colours = dark_colours(file.content_string for file in files if file.src_uri.endswith(".svg"))
    rules = "".join(f"--{colour[1:]}:{dark};" for colour, dark in colours.items())
    return f'[data-md-color-scheme="slate"]{{{rules}--ffffff:var(--md-default-bg-color)}}\n'


def _with_link_back(path: str) -> str:
    """A report or a replay, with a link to the site above it."""
    text = (ROOT / path).read_text(encoding="utf-8")
    home = os.path.relpath("results/index.html", posixpath.dirname(path)).replace(os.sep, "/")
    line = (
        '<p style="margin:0;padding:.5rem 1.25rem;font:14px/1.4 system-ui,sans-serif">'
        f'<a href="{home}">← perepisode documentation: results</a></p>'
    )
    return re.sub(r"(<body[^>]*>)", lambda body: body[1] + "\n" + line, text, count=1)
