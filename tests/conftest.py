"""Tests share one compilation cache, so that a program is compiled once however many processes ask for it."""

import gc
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import browser  # noqa: F401  (a fixture of all tests)

# no test is timed: the first example of one compiles, which takes as long as the machine is busy
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# several test processes share few cores: BLAS threads that spin for each other would only slow one another down
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"perepisode-tests-{os.getuid()}"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")

MOST_MAPS = 20_000  # Linux allows a process 65,530 pieces of memory, and ends it at the next one


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """JAX keeps every program that a process compiled, each in pieces of memory of its own.

    A test process that has hundreds of them would be ended while it loads one more, so they are dropped now and then;
    what is needed again comes from the cache on disk.
    """
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and len(maps.read_bytes().splitlines()) > MOST_MAPS:
        sys.modules["jax"].clear_caches()
        gc.collect()
