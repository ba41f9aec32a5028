"""Shared set-up: all test processes use one compilation cache, so that each program is compiled once."""

import gc
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import browser  # noqa: F401  (a fixture for all tests)

# no deadline: the first example of a test compiles, which takes long on a busy machine
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# several test processes share few cores, where spinning BLAS threads would slow each other down
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"perepisode-tests-{os.getuid()}"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")

MAX_MAPS = 20_000  # Linux kills a process with more than 65,530 memory maps


@pytest.fixture(scope="module", autouse=True)
def limit_memory_maps():
    """Clear JAX's caches before a process exceeds its memory maps.

    JAX keeps every compiled program, each in several maps.  Programs that are needed again come from the disk cache.
    """
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and len(maps.read_bytes().splitlines()) > MAX_MAPS:
        sys.modules["jax"].clear_caches()
        gc.collect()
