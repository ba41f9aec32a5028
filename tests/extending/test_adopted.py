"""Environments with the gymnax interface: their pictures, detectors of rewards, and the files of their libraries."""

import contextlib
import importlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import guide
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from test_gymnax_adapter import LEDGE
from test_wrong_env import TINY

from perepisode import plugins
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.gymnax_adapter import from_gymnax

pytestmark = pytest.mark.xdist_group("extending-bare")

PICTURED = """
from ledge import Ledge, from_gymnax, jnp

def left(before, action, after, info):
    return info["left"]

def draw(state):
    return jnp.tile(jnp.where(jnp.arange(-4, 5) == state.x, 0, 255).astype(jnp.uint8)[None, :, None], (4, 1, 3))

def paid(before, action, after, info, reward):
    return (reward > 1).astype(jnp.int32)

Pictured = from_gymnax(Ledge(), detectors={"left": left, "paid": paid}, name="pictured", draw=draw)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an evaluated run of an environment with a picture and a detector of rewards."""
    with guide.folder(tmp_path_factory.mktemp("pictures"), ledge=LEDGE, pictured=PICTURED) as path:
        for words in (
            ["train", "--env", "pictured.py:Pictured", "--method", "ser:weight=1", "--out", "pictures", *TINY],
            ["evaluate", "pictures", "--num-envs", "8", "--num-steps", "24", "--episodes-per-env", "2"],
        ):
            code, out, err = guide.call(*words)
            assert code == 0, err
            (path / f"{words[0]}.log").write_text(out)
        yield path


@contextlib.contextmanager
def edited(old, new):
    """The file with a change, as a new process imports it."""
    known, module = ENVIRONMENTS.pop("pictured"), sys.modules.pop("pictured")
    assert old in PICTURED
    Path("pictured.py").write_text(PICTURED.replace(old, new))
    plugins._IMPORTED_FILES.pop(Path("pictured.py").resolve())
    importlib.invalidate_caches()
    shutil.rmtree("__pycache__", ignore_errors=True)
    try:
        yield
    finally:
        Path("pictured.py").write_text(PICTURED)
        ENVIRONMENTS["pictured"], sys.modules["pictured"] = known, module
        plugins._IMPORTED_FILES[Path("pictured.py").resolve()] = PICTURED.encode()


@pytest.mark.processes
def test_the_printed_next_command_runs_in_a_new_shell(home):
    command = Path("train.log").read_text().splitlines()[-1].removeprefix("next: ")
    assert command == "PEREPISODE_PLUGINS=pictured.py perepisode evaluate pictures"
    variable, _, *words = shlex.split(command)
    environment = {**os.environ, **dict([variable.split("=")])}
    words += ["--num-envs", "8", "--num-steps", "24", "--episodes-per-env", "2", "--out", "again.parquet"]
    done = subprocess.run([sys.executable, "-m", "perepisode", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pd.testing.assert_frame_equal(*map(pd.read_parquet, ("again.parquet", "pictures/episodes.parquet")))


def test_a_detector_may_look_at_the_reward(home):
    """Compared with positions by hand: the reward is the position."""
    table = pd.read_parquet("pictures/episodes.parquet")
    assert table["violations_paid"].sum() > 0
    for actions, paid in table[["actions", "violations_paid"]].to_numpy():
        assert paid == (np.cumsum([1 if action else -1 for action in actions]) > 1).sum()


def test_the_picture_is_that_of_the_wrapped_state(home):
    env = ENVIRONMENTS["pictured"]()
    state = env.reset(jax.random.key(0))
    for column, action in ((4, 1), (5, 1), (6, 0)):
        picture = np.asarray(env.draw(state))
        assert (picture.shape, picture.dtype) == ((4, 9, 3), np.uint8)
        np.testing.assert_array_equal(np.argwhere((picture == 0).all(axis=(0, 2))), [[column]])
        state, _ = env.step(jax.random.key(0), state, jnp.int32(action))
    code, out, err = guide.call("watch", "pictures/episodes.parquet", "--worst", "1", "--out", "watched")
    assert (code, out.count("reproduced exactly")) == (0, 1), err
    assert "data:image/webp" in Path("watched/index.html").read_text()


def test_a_corrected_picture_does_not_change_the_run(home):
    """No count depends on it; a changed detector is another run, as always."""
    with edited("jnp.arange(-4, 5) == state.x, 0, 255", "jnp.arange(-4, 5) == state.x,\n        9, 250"):
        code, out, err = guide.call("watch", "pictures/episodes.parquet", "--worst", "1", "--out", "watched")
        assert (code, out.count("reproduced exactly")) == (0, 1), err
    with edited("reward > 1", "reward > 2"):
        code, _, err = guide.call("watch", "pictures/episodes.parquet", "--worst", "1", "--out", "watched")
        assert (code, err.count("\n")) == (2, 1)
        assert "pictured.py has changed since this run was trained" in err


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        ("return state", "draw returns float32[], int32[]; it must return a picture, uint8[height,width,3]"),
        ("return jnp.zeros((4, 4, 3))", "draw returns float32[4,4,3]; it must return a picture"),
        ("return jnp.zeros((4, 4), jnp.uint8)", "draw returns uint8[4,4]; it must return a picture"),
        ("return state.env_state", "draw cannot be traced by JAX (AttributeError: "),
    ],
)
def test_a_wrong_picture_is_refused_before_training(home, draw, message):
    Path("odd_picture.py").write_text(
        f"from ledge import *\n\ndef draw(state):\n    {draw}\n\n"
        "Odd = from_gymnax(Ledge(), detectors=left, name='odd_picture', draw=draw)\n"
    )
    with forgotten("odd_picture"):
        code, _, err = guide.call("train", "--env", "odd_picture.py:Odd", "--out", "nothing", *TINY)
    assert (code, err.count("\n")) == (2, 1)
    assert f"odd_picture: {message}" in err
    assert not Path("nothing").exists()


@contextlib.contextmanager
def forgotten(name):
    """Afterwards, this environment and module may be defined again."""
    try:
        yield
    finally:
        ENVIRONMENTS.pop(name, None)
        sys.modules.pop(name, None)
        plugins._IMPORTED_FILES.pop(Path(f"{name}.py").resolve(), None)
        shutil.rmtree("__pycache__", ignore_errors=True)


def test_the_remedy_for_an_unknown_environment_names_no_file_of_its_library(home):
    """A run records gymnax's own file too, but importing it as a plugin fails."""
    from ledge import left

    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make("CartPole-v1")
    recorded = plugins.sources(from_gymnax(env, params, detectors=left, name="adopted_pole"))
    mine = Path(__file__).name  # where from_gymnax is called
    assert {mine, "cartpole.py", "ledge.py", "gymnax"} <= set(recorded)

    def named(recorded):
        return plugins.missing_class_hint(recorded).partition("PEREPISODE_PLUGINS=")[2].partition(" ")[0].split(",")

    assert named(recorded) == [mine, "ledge.py"]
    assert named({"cartpole.py": "", "gymnax": "1.0.1"}) == ["cartpole.py"]  # a plugin of the same name
    Path("cartpole.py").touch()
    assert named(recorded) == [mine, "cartpole.py", "ledge.py"]
    Path("cartpole.py").unlink()
    assert named({"a.py": "", "b.py": "", "no-such-package": "1", "the making of a": ""}) == ["a.py", "b.py"]
