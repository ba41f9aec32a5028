"""Shared by the pages of reports and of replays: templates, and the links from one to the other."""

import re
from pathlib import Path

from perepisode import safe_io
from perepisode.config import ConfigError

_LINK = re.compile(r"\[(?P<text>[^][]+)\]\((?P<address>(https://)?[\w.~#%-][\w./~#%-]*)\)")
TITLES = "titles.json"  # next to a page of replays, for reports that link to it


def render(template: Path, **variables) -> str:
    """A page from its template; HTML is escaped, and a missing variable is an error."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent), autoescape=jinja2.select_autoescape(),
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return environment.get_template(template.name).render(**variables)


def links_in(text: str) -> list[tuple[str, str]]:
    """The text in pieces with the address of each, "" for plain text: `[text](address)` as in Markdown.

    An author's text is untrusted: an address is a relative path or begins with https://.
    """
    pieces, end = [], 0
    for found in _LINK.finditer(text):
        pieces += [(text[end : found.start()], ""), (found["text"], found["address"])]
        end = found.end()
    return [piece for piece in (*pieces, (text[end:], "")) if piece[0]]


def titles(page: Path) -> list[str]:
    """The titles of the episodes on a page of replays."""
    try:
        return [str(title) for title in safe_io.read_json(page / TITLES, "make them with `perepisode watch`", list)]
    except ConfigError as error:
        raise ConfigError(f"{page} contains no replays: {error}") from None
