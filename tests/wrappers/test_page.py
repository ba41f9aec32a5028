"""docs/how-to/episode-budget.md: its Python runs, but for as few steps of training as there can be."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "episode-budget.md"


def blocks(heading: str) -> str:
    """All Python between a heading and the next of the same level, and of the sections that it builds on."""
    parts = re.split(r"^##+ ", PAGE.read_text(), flags=re.MULTILINE)
    (part,) = (part for part in parts if part.startswith(f"{heading}\n"))
    return "\n".join(re.findall(r"```python\n(.*?)```", part, re.DOTALL)).replace("480_000", "10_240")


def test_gymnasium():
    pytest.importorskip("gymnasium")
    (first,) = re.findall(r"```python\n(.*?)```", PAGE.read_text().split("\n## ")[0], re.DOTALL)
    names = {}
    exec(first, names)
    assert names["observation"].shape == (7,)


def test_stable_baselines_and_the_recorder(tmp_path, monkeypatch):
    pytest.importorskip("stable_baselines3")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(blocks("Stable-Baselines3, PPO and RecurrentPPO"), names)
    assert names["agent"].num_timesteps == 10_240
    exec(blocks("Evaluation and report"), names)
    names["envs"].reset(seed=0)
    for _ in range(40):
        names["envs"].step([1] * 8)
    names["envs"].close()
    assert (tmp_path / "budget.parquet").exists()


def test_rejax():
    pytest.importorskip("rejax")
    names = {}
    exec(blocks("rejax"), names)
    assert names["agent"].env.accounting.objective.budget == 1
