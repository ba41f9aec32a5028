"""`import perepisode`, and docs/how-to/python.md from top to bottom."""

import hashlib
import importlib
import linecache
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import perepisode
from perepisode import plugins
from perepisode.cli import Train
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "python.md"
OFFERED = {
    "make", "register_env", "register_method", "Environment", "Objective", "Outcome", "EndCause", "train", "evaluate",
    "report", "watch", "agents", "metrics",
}  # fmt: skip
SMALL = ("num_envs=16", "num_steps=20", "num_minibatches=2", "hidden_size=8", "precision=fp32", "weight=0.02,0.1")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """The page's code, as one file that is imported in a folder of its own."""
    home = tmp_path_factory.mktemp("python")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (home / "story.py").write_text("\n\n".join(blocks))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.syspath_prepend(home)
        patch.delenv("PEREPISODE_PLUGINS", raising=False)
        yield importlib.import_module("story")
    ENVIRONMENTS.pop("orchard", None)
    sys.modules.pop("story", None)


@pytest.mark.processes
def test_the_import_brings_nothing_and_asking_for_all_starts_no_jax():
    program = (
        "import sys, perepisode\n"
        "assert not {'jax', 'numpy', 'perepisode.environments'} & set(sys.modules), 'the import brings more'\n"
        "assert set(perepisode.__all__) <= set(dir(perepisode))\n"
        "from perepisode import *\n"
        "assert callable(train) and callable(report) and not {'jax', 'pandas', 'matplotlib'} & set(sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


def test_what_is_offered_is_what_it_is_called():
    assert set(perepisode.__all__) == OFFERED
    assert perepisode.Environment is ENVIRONMENTS["temptation"].__mro__[1]
    assert perepisode.report is sys.modules["perepisode.report"]  # whatever was imported first
    with pytest.raises(AttributeError, match="has no attribute 'trian'; it offers EndCause, "):
        _ = perepisode.trian


def test_the_temptation_is_played(story):
    assert story.end_cause is perepisode.EndCause.TIMEOUT
    assert story.env.horizon == 10


def test_training_from_python_trains_the_runs_of_the_command(story):
    asked = Train(env="orchard", method=("ser",), set=SMALL, total_timesteps=3200, seeds=(1, 2))
    assert sorted(path.name.rsplit(".", 1)[1] for path in story.runs) == sorted(run.id for run in asked.runs()[0])
    assert all((path / "done").exists() for path in story.runs)


def test_its_table_counts_what_the_orchard_pays(story):
    assert story.table == Path("out/episodes.parquet")
    assert set(story.episodes["length"]) == {5}
    assert (story.episodes["return"] == 5 + 0.5 * story.episodes["violations"]).all()
    assert story.episodes["in_first"].all()
    for arm in ("w=0.02", "w=0.1"):
        worst, many = [], []  # of each seed; the agent's is their mean
        for seed in (1, 2):
            own = story.episodes[(story.episodes["arm"] == arm) & (story.episodes["seed"] == seed)]
            counts = np.sort(own["violations"])[::-1]
            worst.append(counts[: int(np.ceil(len(counts) / 10))].mean())
            many.append((counts > 1).mean())
        assert story.cvar["ser", arm] == pytest.approx(np.mean(worst))
        assert story.p_over_1["ser", arm] == pytest.approx(np.mean(many))


def test_its_pages_are_written(story):
    assert (story.page, story.replay) == (Path("report/index.html"), Path("watch/index.html"))
    assert "SER (w=0.02)" in story.page.read_text()
    assert story.replay.read_text().count("reproduced exactly") >= 2


def test_its_agent_acts_until_the_end(story):
    assert story.steps == 5


def test_what_the_command_refuses_is_refused_by_the_same_sentence(story):
    assert story.message == "budget=-1 is out of range; budget must be a number, at least 0"
    refusals = [
        (lambda: perepisode.train("temptation", "ser", weight=1, seeds=-1), "seeds=-1 is out of range"),
        (lambda: perepisode.train("temptation", "ser", weight="much"), "weight='much' is not a number"),
        (lambda: perepisode.train("temptation", "ser", wieght=1), "no setting is called 'wieght' here"),
        (lambda: perepisode.train("tempation", "ser", weight=1), "env 'tempation' is unknown; choose from"),
        (lambda: perepisode.train(perepisode.Environment), "Environment is not a registered env; add its decorator"),
        (lambda: perepisode.make("temptation", horzion=1), "temptation has no setting 'horzion'; it has horizon"),
        (lambda: perepisode.evaluate([]), "no run given"),
        (lambda: perepisode.evaluate("out", num_envs=0), "num_envs=0 is out of range"),
        (lambda: perepisode.watch("out/episodes.parquet", worst=-1), "worst=-1 is out of range"),
        (lambda: perepisode.report("nowhere.csv"), "nowhere.csv"),
    ]
    for call, said in refusals:
        with pytest.raises(ValueError, match=re.escape(said)):
            call()


def test_numbers_of_numpy_are_numbers(story):
    with pytest.raises(ConfigError, match="steps=320 is less than one rollout of 64 worlds"):
        perepisode.train("temptation", "ser", weight=np.float64(0.5), seeds=np.arange(2), total_timesteps=np.int64(320))


CELL = """
class Cell(perepisode.Environment):
    def reset(self, key): ...
"""


def made_of(file: str) -> dict[str, str]:
    """What a class is made of that was typed in `file`, which is none on disk."""
    space = {"perepisode": perepisode, "__name__": "typed"}
    exec(compile(CELL, file, "exec"), space)
    plugins.record_sources(space["Cell"])
    return plugins.sources(space["Cell"])


def test_the_lines_of_a_notebook_are_a_source_and_what_nobody_kept_is_none(monkeypatch):
    kept = (len(CELL), None, CELL.splitlines(keepends=True), "<cell 1>")  # as IPython does
    monkeypatch.setitem(linecache.cache, "<cell 1>", kept)
    assert made_of("<cell 1>") == {"typed": "sha256:" + hashlib.sha256(CELL.encode()).hexdigest()[:12]}
    lost = made_of("<string>")
    assert lost == {"typed": ""}
    monkeypatch.setattr(plugins, "sources", lambda *classes: lost)
    with pytest.raises(ConfigError, match="declared in typed, whose source cannot be read; put it into a file"):
        Train(env="temptation", method=("ser:weight=1",)).runs()
