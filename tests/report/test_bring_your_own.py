"""The snippet of docs/tutorials/judge-your-agents.md, run as it is."""

import re
from pathlib import Path

import pandas

import perepisode

DOCUMENT = Path(__file__).parents[2] / "docs" / "tutorials" / "judge-your-agents.md"


class Walk:
    """A Gymnasium-like environment of five steps in which the action is the cost."""

    def reset(self, seed):
        self.left = 5
        return seed % 3, {}

    def step(self, action):
        self.left -= 1
        return self.left, 1.0 + action, self.left == 0, False, {"cost": action}


def test_the_snippet_writes_a_table_that_can_be_reported(tmp_path, monkeypatch):
    snippet, reading = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    agents = {seed: (Walk(), lambda observation: observation % 2) for seed in (0, 1, 2)}
    exec(snippet, {"agents": agents, "pandas": pandas})
    table = pandas.read_csv("episodes.csv")
    assert len(table) == 600
    assert (table["return"] == 5 + table["cost"]).all()
    given = {"perepisode": perepisode}
    exec(reading, given)
    assert given["report"].headline.startswith("Lagrangian averages")
    both = perepisode.compare(table, table[table["seed"] == 0], names=("all seeds", "seed 0"))
    assert sorted(both.agents["agent"]) == ["all seeds", "seed 0"]
    assert "a cost of 3.00" in both.headline
    assert "Lagrangian" in given["report"].path.read_text()
