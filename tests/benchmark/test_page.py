"""docs/how-to/benchmark.md: its example and its commands run, and its table is that of the protocols."""

import re
import shlex
from pathlib import Path

import pytest

from perepisode import cli
from perepisode.benchmark import PROTOCOLS
from perepisode.report.formatting import in_words

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "benchmark.md").read_text()


def test_an_agent_of_another_library_as_shown(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in commands.splitlines():
        program, *words = shlex.split(line)
        assert program == "perepisode"
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
    assert "| picky | 3 |" in Path("leaderboard.md").read_text()


def test_its_numbers_are_those_of_the_protocols():
    for protocol in PROTOCOLS.values():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{protocol.id}` |"))
        assert f"| {protocol.max_episode_steps:,} |" in row
        assert (protocol.num_envs, protocol.episodes_per_env, protocol.episodes) == (64, 12, 768)
        assert (protocol.seed, protocol.delta, protocol.budget) == (35_000_000, 0.05, 1)
        assert f"At least {in_words(protocol.min_seeds)} training seeds" in PAGE
    assert "first 12 episodes of 64 environments, 768 per training seed" in PAGE
    assert "seed 35,000,000 + i" in PAGE
    assert "at most 5 % of episodes have more than k = 1 violations" in PAGE
