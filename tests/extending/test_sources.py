"""A run records the source of its plugins, and is never mistaken for a run of other code."""

import hashlib
import json
import os
import sys
from pathlib import Path

import guide
import pytest
from test_bare import TINY
from test_plugins import BARE, refused

from perepisode import plugins
from perepisode.cli import Train
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS

pytestmark = pytest.mark.xdist_group("extending-bare")

BOTH = {"env": "bare.py:Bare", "method": ("entropic.py:Entropic:beta=1",), "seeds": (1,)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of a plugin environment and a plugin method, given as files, and with its episodes."""
    with guide.folder(tmp_path_factory.mktemp("sources"), "A method", bare=BARE) as home:
        command = ("train", "--env", "bare.py:Bare", "--method", "entropic.py:Entropic:beta=1", *TINY)
        code, _, err = guide.call(*command)
        assert code == 0, err
        assert (
            os.environ["PEREPISODE_PLUGINS"] == f"{home}/bare.py,{home}/entropic.py"
        )  # for the processes that it starts
        code, _, err = guide.call("evaluate", "out", "--num-envs", "2", "--num-steps", "8", "--episodes-per-env", "1")
        assert code == 0, err
        yield home


@pytest.fixture
def home(trained, monkeypatch):
    """The folder as a new process finds it: nothing of it is imported."""
    files = {path: path.read_text() for path in trained.glob("*.py")}
    known = ENVIRONMENTS.pop("bare"), METHODS.pop("entropic")
    modules = {name: sys.modules.pop(name) for name in guide.imported_from(trained)}
    monkeypatch.setenv("PEREPISODE_PLUGINS", "")
    yield trained
    for path, text in files.items():
        path.write_text(text)
    ENVIRONMENTS["bare"], METHODS["entropic"] = known
    sys.modules.update(modules)


def digest(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new) + "# another size, so that Python recompiles it\n")


def run_file(home: Path) -> Path:
    (path,) = home.glob("out/*/run.json")
    return path


def test_a_run_records_the_digests_of_both_files(trained):
    plain = json.loads(run_file(trained).read_text())
    assert plain["source"] == {name: digest(trained / name) for name in ("bare.py", "entropic.py")}
    ours = Train(env="temptation", method=("ser:weight=1",), seeds=(1,)).runs()[0][0]
    assert "source" not in ours.to_json()


def test_the_same_class_is_the_same_run_however_it_is_named(trained):
    by_file = Train(**BOTH).runs()[0][0]
    by_module = Train(env="bare:Bare", method=("entropic:Entropic:beta=1",), seeds=(1,)).runs()[0][0]
    by_name = Train(env="bare", method=("entropic:beta=1",), seeds=(1,)).runs()[0][0]
    assert by_file.id == by_module.id == by_name.id


def test_a_changed_detector_is_another_run(home):
    before = json.loads(run_file(home).read_text())["source"]
    edit(home / "bare.py", "action == 1, action == 0", "action == 0, action == 0")
    run = Train(**BOTH).runs()[0][0]
    assert run.source == {**before, "bare.py": digest(home / "bare.py")} != before


@pytest.mark.parametrize("words", [("evaluate", "out", "--out", "new.parquet"), ("watch", "out/episodes.parquet")])
@pytest.mark.parametrize("file", ["bare.py", "entropic.py"])
def test_a_run_of_a_file_that_has_changed_is_refused(home, words, file, monkeypatch):
    then = digest(home / file)
    edit(home / file, "import", "import")
    monkeypatch.setenv("PEREPISODE_PLUGINS", "bare.py,entropic.py")
    message = refused(*words)
    changed = f"{file} has changed since this run was trained ({then} then, {digest(home / file)} now)"
    assert f"{run_file(home).relative_to(home)}: {changed}; restore it or train again" in message


def test_a_run_whose_plugin_is_not_loaded_gives_the_remedy(home, monkeypatch):
    remedy = "it is a plugin, name its file: PEREPISODE_PLUGINS=bare.py,entropic.py perepisode ..."
    assert remedy in refused("evaluate", "out", "--out", "new.parquet")
    assert "if it is a plugin, name its module" in refused("watch", "out/episodes.parquet")
    monkeypatch.setenv("PEREPISODE_PLUGINS", "bare.py,entropic.py")
    code, out, err = guide.call("evaluate", "out", "--num-envs", "2", "--num-steps", "8", "--episodes-per-env", "1")
    assert (code, err) == (0, "")
    assert "1 of 1 agents are already in out/episodes.parquet" in out


def test_sources_are_compared_in_both_directions():
    """A run that states fewer sources than its environment has was not trained with this code."""
    plugins.check_sources({"a.py": "1"}, {"a.py": "1"})
    for recorded, current, name in (
        ({}, {"a.py": "1"}, "a.py"),
        ({"a.py": "1"}, {}, "a.py"),
        ({"a.py": "1"}, {"a.py": "1", "the making of a": "2"}, "the making of a"),
        ({"a.py": "1"}, {"a.py": "2"}, "a.py"),
    ):
        with pytest.raises(plugins.SourceChanged, match=f"{name} has changed since this run was trained"):
            plugins.check_sources(recorded, current)


BASE = """
class Paid:
    def pay(self, action):
        return 1.0 + action
"""


def test_the_file_of_a_base_class_counts_too(tmp_path):
    text = "from paid import Paid\n" + BARE.replace("(Environment)", "(Paid, Environment)").replace('"bare"', '"based"')
    with guide.folder(tmp_path, based=text, paid=BASE) as home:
        run = Train(env="based.py:Bare", method=("ser:weight=1",)).runs()[0][0]
        assert run.source == {name: digest(home / name) for name in ("based.py", "paid.py")}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("odd.py", "def f(:", "odd.py cannot be imported (invalid syntax (odd.py, line 1))"),
        ("odd.py", "\nx = nothing + 1", "(NameError: name 'nothing' is not defined; line 2 of odd.py)"),
        ("odd.py", "import no_such_thing", "odd.py cannot be imported (No module named 'no_such_thing')"),
        ("odd.py", "raise SystemExit(0)", "odd.py cannot be imported (SystemExit: 0; line 1 of odd.py)"),
        (
            "odd.py",
            "class Environment: ...",
            "odd.py declares no env 'World' (docs/tutorials/bring-your-environment.md)",
        ),
        ("json.py", BARE, "json is the name of another module, "),
        ("other.py", "", "there is no file "),
        ("my.world.py", BARE, "a file with a dot in its name cannot be imported; rename my.world.py"),
    ],
)
def test_an_unusable_file_is_one_line(tmp_path, file, text, message):
    with guide.folder(tmp_path):
        if text:
            Path(file).write_text(text)
        assert message in refused("train", "--env", f"{file}:World")


MINE = BARE.replace('"bare"', '"mine"')


def test_two_files_of_one_name_are_both_recorded(tmp_path):
    entropic = guide.code("A method").replace('"entropic"', '"entropic_too"')
    with guide.folder(tmp_path) as home:
        for name, text in (("envs", MINE), ("meths", entropic)):
            (home / name).mkdir()
            (home / name / "core.py").write_text(text)
        both = {"env": "envs.core:Bare", "method": ("meths.core:Entropic:beta=1",)}
        source = Train(**both).runs()[0][0].source
        joined = (MINE + entropic).encode()
        assert source == {"core.py": "sha256:" + hashlib.sha256(joined).hexdigest()[:12]}


def test_a_file_named_like_a_module_of_python_is_recorded(tmp_path):
    assert "turtle" not in sys.modules
    with guide.folder(tmp_path, turtle=MINE) as home:
        run = Train(env="turtle.py:Bare", method=("ser:weight=1",)).runs()[0][0]
        assert run.source == {"turtle.py": digest(home / "turtle.py")}


FACTORY = """
import perepisode
from mine import *

def made(times):
    @register_env
    class Made(Bare):
        name = "made"

        def step(self, key, state, action):
            after, outcome = Bare.step(self, key, state, action)
            return after, Outcome(outcome.task_reward, outcome.violations * times, outcome.violations, {}, outcome.end_cause)

    return Made

One = made(1)
Seven = made(7)
"""  # noqa: E501


def test_classes_made_by_one_function_differ_in_what_they_hold(tmp_path):
    with guide.folder(tmp_path, mine=MINE, factory=FACTORY):
        seven = Train(env="factory.py:Seven", method=("ser:weight=1",)).runs()[0][0]
        again = "a later env is also named 'made'; give each a unique name"
        assert again in refused("train", "--env", "factory.py:One")
        import factory

        one = plugins.sources(factory.One)
        assert set(one) == set(seven.source) == {"factory.py", "mine.py", "the making of made"}
        assert one["the making of made"] != seven.source["the making of made"]
        assert plugins.sources(factory.made(7)) == seven.source


def test_a_file_changed_after_its_import_is_refused_and_a_deleted_one_is_not_needed(tmp_path):
    with guide.folder(tmp_path, mine=MINE) as home:
        Train(env="mine.py:Bare", method=("ser:weight=1",)).runs()
        edit(home / "mine.py", "action == 1", "action == 0")
        assert "mine.py has changed since this process imported it; restart Python" in refused(
            "train", "--env", "mine.py:Bare"
        )
        (home / "mine.py").unlink()
        plugins.load_plugins()


def test_a_path_with_a_comma_is_refused(tmp_path):
    (tmp_path / "a,b").mkdir()
    with guide.folder(tmp_path / "a,b", mine=MINE):
        assert "contains a comma, which separates plugins; rename or move it" in refused(
            "train", "--env", "mine.py:Bare"
        )
        assert "PEREPISODE_PLUGINS" not in os.environ
