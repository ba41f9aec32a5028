"""Pages of replays that a report links to."""

from __future__ import annotations

import json
from pathlib import Path

TITLES = "titles.json"  # beside a page of replays, for reports that link to it


def titles(page: Path) -> list[str]:
    """What is to be seen on a page of replays."""
    path = page / TITLES
    try:
        return [str(title) for title in json.loads(path.read_text())]
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{page} holds no episodes to watch ({error}); make them with `perepisode watch`") from None
