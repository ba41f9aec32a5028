"""What MkDocs does not do by itself: four small changes to pages on their way from docs/ to site/.

- Links may leave docs/ as they do on GitHub (`../../results/craftax/report/index.html`).  What they lead to becomes a
  part of the site: Markdown as a page, any other file as it is; the committed reports and replays come as a whole.
- `<!-- generate: NAME ARGUMENTS -->` is replaced by what `reference.py` or `architecture.py` writes from the code.
- Equations become MathML, which browsers show without a script or a font of ours.
- SVG figures are put into the page, where they follow its colours; a reader may choose dark on a light system.

An address is written as on GitHub: relative to the page's own file.
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
import reference

from perepisode.report.drawing.canvas import dark_colours, following

ROOT = Path(__file__).parents[2]
REPORTS = re.compile(r"results/[^/]+/(report|watch)/")
HEAVY = (".parquet", ".safetensors")  # data that stays in the repository: a site only names it
GENERATE = re.compile(r"^<!-- generate: (\S+)(.*?) -->$", re.M)
GENERATORS = {**reference.GENERATORS, **architecture.GENERATORS}
# Code is left as it is: fenced, indented after an empty line, or in a line
CODE = re.compile(
    r"^(?P<fence>[ ]*(`{3,}|~{3,})).*?^(?P=fence)[ ]*$|(?<=\n\n)(?:(?: {4}|\t).*\n)+|`[^`\n]+`", re.M | re.S
)
LINK = re.compile(r"(\]\(|(?:href|src)=\")(?![a-z][a-z0-9+.-]*:|#|/)([^)\s\"#]+)")
LIST = re.compile(r"^(?!\s*(?:[-*+]|\d+\.)\s|\s*$|\s{2,}|[|#>]|<!--)(.+)\n(?=(?:[-*+]|\d+\.) )", re.M)
MATH = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)
FIGURE = re.compile(r'<img alt="([^"]*)" src="([^"]+\.svg)"[^>]*?/?>')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Reports, replays, and whatever a page links to outside docs/."""
    committed = _committed()
    wanted = {path for path in committed if REPORTS.match(path)}
    seen: set[str] = set()
    folders: set[str] = set()
    unread = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    unread += [path for path in sorted(wanted) if path.endswith(".md")]
    while unread:
        page = unread.pop()
        if page in seen or page.startswith("docs/_hooks/"):
            continue
        seen.add(page)
        for target in _targets(page):
            path = _document(target, committed)
            if path not in committed and (inside := {one for one in committed if one.startswith(f"{path}/")}):
                folders.add(path)
                wanted |= {one for one in inside if not one.endswith(HEAVY)}
            if path in committed and not path.startswith("docs/") and path != "README.md":
                wanted.add(path)
                unread += [path] if path.endswith(".md") else []
    for path in sorted(wanted):
        if path.startswith("results/") and path.endswith("index.html"):
            files.append(File.generated(config, path, content=_with_way_back(path)))
        else:
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    for folder in sorted(folders):
        inside = sorted(path.removeprefix(f"{folder}/") for path in committed if path.startswith(f"{folder}/"))
        lines = [f"- `{one}`" if one.endswith(HEAVY) else f"- [`{one}`]({one})" for one in inside]
        files.append(File.generated(config, f"{folder}/index.md", content="\n".join([f"# {folder}", "", *lines])))
    config.extra_css.append("stylesheets/figures.css")
    files.append(File.generated(config, config.extra_css[-1], content=_dark_figures(files)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    own = page.file.src_uri
    if page.parent is None:  # a page that stands alone has nothing to navigate between
        page.meta.setdefault("hide", ["navigation"])
    if own.startswith("results/") and not (ROOT / "docs" / own).exists():  # not in the navigation
        home = posixpath.relpath("docs/results/index.md", posixpath.dirname(own))
        markdown = f"[← Results]({home})\n\n{markdown}"
    markdown = GENERATE.sub(lambda found: _generated(found, own), markdown)
    committed = _committed()

    def relinked(found: re.Match) -> str:
        path = _document(_resolved(_repository_path(own), found[2]), committed)
        if files.get_file_from_path(f"{_site_path(path)}/index.md"):
            path += "/index.md"
        return found[1] + posixpath.relpath(_site_path(path), posixpath.dirname(own) or ".")

    def prose(text: str) -> str:
        return LIST.sub(r"\1\n\n", LINK.sub(relinked, text))  # GitHub needs no empty line before a list

    pieces, end = [], 0
    for code in CODE.finditer(markdown):
        pieces += [markdown[end : code.start()], code[0]]
        end = code.end()
    pieces.append(markdown[end:])
    # a link's text may hold code: what is replaced are addresses, so each piece of prose stands alone
    return "".join(piece if number % 2 else prose(piece) for number, piece in enumerate(pieces))


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    content = MATH.sub(_mathml, content)
    content = FIGURE.sub(lambda found: _inline(found, page, files), content)
    # a wide table scrolls by itself, the page does not; on a telephone an option stands above what is said of it
    kind = "table stacked" if page.file.src_uri.startswith("reference/") else "table"
    return content.replace("<table>", f'<div class="{kind}"><table>').replace("</table>", "</table></div>")


# ---- addresses ----------------------------------------------------------------------------------------------


def _committed() -> set[str]:
    """Every file of the repository that is committed, or that git does not ignore: what a site may be made from."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return {path for path in listed.stdout.splitlines() if (ROOT / path).is_file()}
    folders = ("docs", "results", "examples", "benchmarks")  # of an unpacked archive
    return {
        path.relative_to(ROOT).as_posix() for name in folders for path in (ROOT / name).rglob("*") if path.is_file()
    }


def _targets(page: str) -> set[str]:
    """The paths in the repository that a Markdown file links to."""
    text = CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return {_resolved(page, found[2]) for found in LINK.finditer(text)}


def _resolved(page: str, address: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), address))


def _document(path: str, committed: set[str]) -> str:
    """What stands for a folder: its README or index, or a list of its files."""
    for name in ("README.md", "index.md", "index.html"):
        if f"{path}/{name}" in committed:
            return f"{path}/{name}"
    return path


def _site_path(path: str) -> str:
    """Of a file of the repository: docs/ is the root of the site, README.md its first page."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def _repository_path(own: str) -> str:
    return f"docs/{own}" if (ROOT / "docs" / own).is_file() else own


# ---- what is replaced ---------------------------------------------------------------------------------------


def _generated(found: re.Match, page: str) -> str:
    if found[1] not in GENERATORS:
        raise PluginError(f"{page}: nothing generates {found[1]!r}; there are {', '.join(GENERATORS)}")
    return GENERATORS[found[1]](*found[2].split())


def _mathml(found: re.Match) -> str:
    display = "block" if found[2] == "[" else "inline"
    made = convert(html.unescape(found[3]).strip(), display=display).replace(
        ' xmlns="http://www.w3.org/1998/Math/MathML"', ""
    )
    return f'<div class="equation">{made}</div>' if display == "block" else made


def _inline(found: re.Match, page: Page, files: Files) -> str:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), found[2]))
    file = files.get_file_from_path(path)
    if file is None:
        return found[0]  # MkDocs says so
    name = re.sub(r"\W", "-", path)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", following(file.content_string))
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg[svg.index("<svg") :]).replace("xlink:href", "href")
    return svg.replace("<svg", f'<svg class="figure" role="img" aria-label="{found[1]}"', 1)


def _dark_figures(files: Files) -> str:
    """A style sheet: every colour of every figure as a dark page has it."""
    colours = dark_colours(file.content_string for file in files if file.src_uri.endswith(".svg"))
    rules = "".join(f"--{colour[1:]}:{dark};" for colour, dark in colours.items())
    return f'[data-md-color-scheme="slate"]{{{rules}--ffffff:var(--md-default-bg-color)}}\n'


def _with_way_back(path: str) -> str:
    """A report or a replay with a line above it that leads to the site."""
    text = (ROOT / path).read_text(encoding="utf-8")
    home = os.path.relpath("results/index.html", posixpath.dirname(path)).replace(os.sep, "/")
    line = (
        '<p style="margin:0;padding:.5rem 1.25rem;font:14px/1.4 system-ui,sans-serif">'
        f'<a href="{home}">← perepisode documentation: results</a></p>'
    )
    return re.sub(r"(<body[^>]*>)", lambda body: body[1] + "\n" + line, text, count=1)
