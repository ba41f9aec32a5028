"""What the pages of reports and of replays share: how a template is filled in, and how one links to the other."""

from pathlib import Path

from perepisode import safe_io
from perepisode.config import ConfigError

TITLES = "titles.json"  # beside a page of replays, for reports that link to it


def filled(template: Path, **content) -> str:
    """A page from its template: in HTML all text is escaped, and nothing may be missing."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent), autoescape=jinja2.select_autoescape(),
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return environment.get_template(template.name).render(**content)


def titles(page: Path) -> list[str]:
    """What is to be seen on a page of replays."""
    try:
        return [str(title) for title in safe_io.read_json(page / TITLES, "make them with `perepisode watch`", list)]
    except ConfigError as error:
        raise ConfigError(f"{page} holds no episodes to watch: {error}") from None
