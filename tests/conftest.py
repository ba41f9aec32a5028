"""Tests share one compilation cache, so that a program is compiled once however many processes ask for it."""

import os
import tempfile
from pathlib import Path

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
