"""docs/settings.md says what the declarations say: `python tests/test_docs.py > docs/settings.md` writes it again."""

from pathlib import Path

from perepisode import settings
from perepisode.config import PPOConfig
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS, PAPER

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"


def page() -> str:
    """Every method, world and learner setting, as declared."""
    lines = ["# Settings", "", "Written from the declarations; every one is an option of `perepisode train`.", ""]
    for name, method in METHODS.items():
        where = "" if name in PAPER else ", beyond the paper"
        lines += [f"## `--method {name}`: {method.label} ({method.constraint}{where})", "", _first(method), ""]
        lines += _table(method)
    for name, env in ENVIRONMENTS.items():
        lines += [f"## `--env {name}`: {', '.join(env.dilemmas)}", "", _first(env), "", *_table(env)]
    lines += ["## The learner", "", "Defaults are the paper's; the miniature has its own.", "", *_table(PPOConfig)]
    return "\n".join(lines).rstrip() + "\n"


def _first(cls) -> str:
    return " ".join(line.strip() for line in cls.__doc__.split("\n\n")[0].splitlines())


def _table(cls) -> list[str]:
    known = settings.of(cls)
    if not known:
        return []
    rows = [f"| `{name}` | {one.described.replace('|', chr(92) + '|')} |" for name, one in known.items()]
    return ["| setting | |", "|---|---|", *rows, ""]


def test_the_page_says_what_is_declared():
    assert PAGE.read_text(encoding="utf-8") == page()


if __name__ == "__main__":
    print(page(), end="")
