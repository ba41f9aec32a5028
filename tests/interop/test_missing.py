"""Adapters without their libraries: one line names the extra to install; everything else works without them."""

import subprocess
import sys
from importlib import import_module

import pytest

INSTALL = "run: pip install"
ADAPTERS = [
    ("gymnax", "gymnax", "gymnax"),
    ("gymnasium", "gymnasium", "train,gymnasium"),
    ("recorder", "gymnasium", "gymnasium"),
    ("safety_gymnasium", "gymnasium", "train,gymnasium"),
    ("sb3", "stable_baselines3", "sb3"),
]


@pytest.mark.parametrize(("adapter", "library", "extra"), ADAPTERS)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, adapter, library, extra):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)  # how Python marks a module as missing
    monkeypatch.delitem(sys.modules, f"perepisode.interop.{adapter}", raising=False)
    with pytest.raises(ModuleNotFoundError) as message:
        import_module(f"perepisode.interop.{adapter}")
    assert str(message.value) == f"perepisode.interop.{adapter} needs {library}; {INSTALL} 'perepisode[{extra}]'"


@pytest.mark.processes
def test_a_light_installation_names_the_extras_of_the_adapters():
    """The extra `gymnasium` alone brings no JAX, which the environments need and the recorder does not."""
    code = """
import sys
for name in ("jax", "gymnax"):
    sys.modules[name] = None
import perepisode.interop.recorder
for adapter in ("gymnax", "gymnasium"):
    try:
        __import__(f"perepisode.interop.{adapter}")
    except ModuleNotFoundError as error:
        print(error)
"""
    pytest.importorskip("gymnasium")
    message = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert message.splitlines() == [
        f"perepisode.interop.gymnax needs gymnax; {INSTALL} 'perepisode[gymnax]'",
        f"perepisode.interop.gymnasium needs jax; {INSTALL} 'perepisode[train,gymnasium]'",
    ]


def test_the_shared_auto_reset_needs_no_library():
    autoreset = import_module("perepisode.interop.autoreset")
    assert not {"gymnax", "gymnasium"} & set(vars(autoreset))
    assert autoreset.AutoResetEnv.of("temptation", None, "task", None, {}).features == 3
