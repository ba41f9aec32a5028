"""Doors without their libraries: one line that says what to install; everything else works without them."""

import subprocess
import sys
from importlib import import_module

import pytest

INSTALL = "run this in the clone: pip install -c requirements.lock"
DOORS = [
    ("gymnax", "gymnax", "gymnax"),
    ("gymnasium", "gymnasium", "train,gymnasium"),
    ("recorder", "gymnasium", "gymnasium"),
    ("safety", "gymnasium", "train,gymnasium"),
    ("sb3", "stable_baselines3", "sb3"),
]


@pytest.mark.parametrize(("door", "library", "extra"), DOORS)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, door, library, extra):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)  # Python's own way to say that it is not there
    monkeypatch.delitem(sys.modules, f"perepisode.interop.{door}", raising=False)
    with pytest.raises(ModuleNotFoundError) as said:
        import_module(f"perepisode.interop.{door}")
    assert str(said.value) == f"perepisode.interop.{door} needs {library}; {INSTALL} '.[{extra}]'"


@pytest.mark.processes
def test_a_light_installation_is_told_which_extras_bring_the_worlds():
    """The Gymnasium extra alone brings no JAX: the recorder needs none, the worlds do."""
    code = """
import sys
for name in ("jax", "gymnax"):
    sys.modules[name] = None
import perepisode.interop.recorder
for door in ("gymnax", "gymnasium"):
    try:
        __import__(f"perepisode.interop.{door}")
    except ModuleNotFoundError as error:
        print(error)
"""
    pytest.importorskip("gymnasium")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        f"perepisode.interop.gymnax needs gymnax; {INSTALL} '.[gymnax]'",
        f"perepisode.interop.gymnasium needs jax; {INSTALL} '.[train,gymnasium]'",
    ]


def test_what_the_doors_share_needs_no_library():
    """None of them is asked for by name, and the world plays."""
    autoreset = import_module("perepisode.interop.autoreset")
    assert not {"gymnax", "gymnasium"} & set(vars(autoreset))
    assert autoreset.AutoResetEnv.of("temptation", None, "task", None, {}).features == 3
