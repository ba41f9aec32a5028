"""`perepisode label`: a rater compares episodes of a table on a local page, and each answer is a line of a file."""

import os
import secrets
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from perepisode.config import ConfigError
from perepisode.evaluation import episodes
from perepisode.preferences import server
from perepisode.preferences.labels import Label, check_rater
from perepisode.preferences.pairs import PairChooser
from perepisode.preferences.session import Session
from perepisode.report.links import render
from perepisode.report.style import dilemma_name


def label(
    tables: Sequence[Path],
    out: Path,
    pairs: int,
    rater: str,
    dilemma: str | None,
    strategy: str,
    seed: int,
    port: int,
    browser: bool,
    log: Callable[[str], None] = print,
) -> list[Label]:
    """Serve the page until Ctrl-C; the labels that the file then has."""
    if out.is_dir():
        raise ConfigError(f"{out} is a folder; give a file in it, for example --out {out / 'labels.jsonl'}")
    folder = out.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"the folder {folder} does not exist; create it, or give another --out")
    if not os.access(out if out.exists() else folder, os.W_OK):
        raise ConfigError(f"{out} cannot be written; give another --out")
    table = episodes.read(tables)
    chooser = PairChooser(table, dilemma or only_dilemma(table), seed, strategy)  # pyright: ignore[reportArgumentType]
    session = Session(table, chooser, out, pairs)
    names = [table["environment"].iloc[0], dilemma_name(chooser.dilemma), *(path.name for path in tables)]
    page = render(Path(__file__).with_name("page.html"), kicker=" · ".join(names), rater=rater and check_rater(rater))
    token = secrets.token_urlsafe(24)
    listening = server.bind(port)
    address = f"http://{server.HOST}:{listening.getsockname()[1]}/{token}/"
    log(f"label in a browser: {address}\nevery answer is in {out} at once; Ctrl-C ends")
    sys.stdout.flush()  # the address is needed at once, also in a pipe
    if browser:
        webbrowser.open(address)
    server.serve(server.app(session, token, page), listening)
    if session.films.worker.busy:
        log("\nending as soon as the film that is being made is finished")
    session.close()
    return session.labels()


def only_dilemma(table: pd.DataFrame) -> str:
    """The dilemma of the table's runs."""
    trained = sorted(table["dilemma"].unique())
    if len(trained) > 1:
        raise ConfigError(f"the episodes are of several dilemmas; give --dilemma, one of {', '.join(trained)}")
    return str(trained[0])
