"""Shared by the tests of the labelling page: a table of recorded episodes and a session over it."""

from pathlib import Path

import pandas as pd

from perepisode.evaluation import episodes
from perepisode.preferences.pairs import PairChooser
from perepisode.preferences.session import Session

TABLE = Path(__file__).parents[2] / "examples" / "sb3" / "ours.parquet"  # Temptation, with keys and actions
HOSTILE = "<img src=x onerror=console.error(1)>"


def table(rows: int = 60) -> pd.DataFrame:
    """Episodes of every agent in the table."""
    whole = episodes.read(TABLE)
    return whole.iloc[:: len(whole) // rows].iloc[:rows].reset_index(drop=True)


def session_over(episodes: pd.DataFrame, path: Path, pairs: int = 20) -> Session:
    chooser = PairChooser(episodes, episodes["dilemma"].iloc[0], seed=0, strategy="random", repeat_share=0.0)
    return Session(episodes, chooser, path, pairs)


def of_another_program(episodes: pd.DataFrame, dilemma: str = "cost") -> pd.DataFrame:
    """What another library writes: numbers, and neither keys nor actions."""
    return episodes[["method", "seed", "return", "violations", "length"]].assign(dilemma=dilemma, environment="CarGoal")
