"""`import perepisode`, and docs/how-to/python.md from top to bottom."""

import dataclasses
import hashlib
import importlib
import inspect
import linecache
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import perepisode
from perepisode import plugins
from perepisode.cli import Evaluate, Train, TrainOptions, Watch
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "python.md"
EXPORTED = {
    "make", "register_env", "register_method", "Environment", "Objective", "Outcome", "EndCause", "Box", "train",
    "evaluate", "report", "compare", "watch", "agents", "metrics",
}  # fmt: skip
SMALL = ("num_envs=16", "num_steps=20", "num_minibatches=2", "hidden_size=8", "precision=fp32", "weight=0.02,0.1")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """The code of the page as one module, imported in an empty folder."""
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


@pytest.mark.parametrize(
    ("function", "command", "only_on_the_command_line"),
    [
        (perepisode.train, TrainOptions, {"set"}),
        (perepisode.evaluate, Evaluate, {"config", "print_config"}),
        (perepisode.watch, Watch, set()),
    ],
)
def test_functions_have_the_options_of_their_commands_with_the_same_defaults(
    function, command, only_on_the_command_line
):
    """The functions repeat the options so that editors show them."""
    given = inspect.signature(function).parameters
    options = {option.name: option for option in dataclasses.fields(command)}
    assert set(options) - only_on_the_command_line == set(given) - {"quiet", "settings"}
    for name, option in options.items():
        if name not in only_on_the_command_line and option.default is not dataclasses.MISSING:
            default = given[name].default
            assert default in (option.default, str(option.default)) or (default,) == option.default, name


@pytest.mark.processes
def test_the_import_is_lazy_and_no_name_needs_jax():
    program = (
        "import sys, perepisode\n"
        "assert not {'jax', 'numpy', 'perepisode.environments'} & set(sys.modules), 'the import loads more'\n"
        "assert set(perepisode.__all__) <= set(dir(perepisode))\n"
        "from perepisode import *\n"
        "assert callable(train) and callable(report) and not {'jax', 'pandas', 'matplotlib'} & set(sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


def test_the_package_exports_these_names():
    assert set(perepisode.__all__) == EXPORTED
    assert perepisode.Environment is ENVIRONMENTS["temptation"].__mro__[1]
    assert perepisode.report is sys.modules["perepisode.report"]  # in any order of imports
    with pytest.raises(AttributeError, match="has no attribute 'trian'; it has Box, "):
        _ = perepisode.trian


def test_an_environment_is_stepped(story):
    assert story.end_cause is perepisode.EndCause.TIMEOUT
    assert story.env.horizon == 10


def test_training_from_python_trains_the_runs_of_the_command(story):
    command = Train(env="orchard", method=("ser",), set=SMALL, total_timesteps=3200, seeds=(1, 2))
    assert sorted(path.name.rsplit(".", 1)[1] for path in story.runs) == sorted(run.id for run in command.runs()[0])
    assert all((path / "done").exists() for path in story.runs)


def test_the_table_counts_violations_in_the_orchard(story):
    assert story.table == Path("out/episodes.parquet")
    assert set(story.episodes["length"]) == {5}
    assert (story.episodes["return"] == 5 + 0.5 * story.episodes["violations"]).all()
    assert story.episodes["in_first"].all()
    for arm in ("w=0.02", "w=0.1"):
        worst, many = [], []  # per seed; the numbers of the agent are the means
        for seed in (1, 2):
            own = story.episodes[(story.episodes["arm"] == arm) & (story.episodes["seed"] == seed)]
            counts = np.sort(own["violations"])[::-1]
            worst.append(counts[: int(np.ceil(len(counts) / 10))].mean())
            many.append((counts > 1).mean())
        assert story.cvar["ser", arm] == pytest.approx(np.mean(worst))
        assert story.p_over_1["ser", arm] == pytest.approx(np.mean(many))


def test_the_pages_are_written(story):
    assert (story.report.path, story.replay) == (Path("report/index.html"), Path("watch/index.html"))
    assert "SER (w=0.02)" in story.report.path.read_text()
    assert story.replay.read_text().count("reproduced exactly") >= 2


def test_the_agent_acts_until_the_end(story):
    assert story.steps == 5


def test_errors_have_the_message_of_the_command_line(story):
    assert story.message == "budget=-1 is out of range; budget must be a number, at least 0"
    errors = [
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
    for call, message in errors:
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


def test_numpy_numbers_are_accepted(story):
    with pytest.raises(ConfigError, match="total_timesteps=320 is less than one rollout of 64 environments"):
        perepisode.train("temptation", "ser", weight=np.float64(0.5), seeds=np.arange(2), total_timesteps=np.int64(320))


CELL = """
class Cell(perepisode.Environment):
    def reset(self, key): ...
"""


def sources_of(file: str) -> dict[str, str]:
    """The sources of a class typed into `file`, which is not on disk."""
    space = {"perepisode": perepisode, "__name__": "typed"}
    exec(compile(CELL, file, "exec"), space)
    plugins.record_sources(space["Cell"])
    return plugins.sources(space["Cell"])


def test_notebook_cells_are_sources_and_lost_code_is_refused(monkeypatch):
    cached = (len(CELL), None, CELL.splitlines(keepends=True), "<cell 1>")  # as IPython does
    monkeypatch.setitem(linecache.cache, "<cell 1>", cached)
    assert sources_of("<cell 1>") == {"typed": "sha256:" + hashlib.sha256(CELL.encode()).hexdigest()[:12]}
    lost = sources_of("<string>")
    assert lost == {"typed": ""}
    monkeypatch.setattr(plugins, "sources", lambda *classes: lost)
    with pytest.raises(ConfigError, match="defined in typed, whose source cannot be read; move it into a file"):
        Train(env="temptation", method=("ser:weight=1",)).runs()
