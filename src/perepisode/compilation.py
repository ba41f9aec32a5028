"""The user's cache: what was compiled or judged once need not be again.  Used when it can be, never required."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path:
    """A folder of the user's cache, or a temporary one where that cannot be written."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "perepisode" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="perepisode-"))


def use_cache() -> None:
    """Keep what JAX compiles."""
    import jax

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    jax.config.update("jax_compilation_cache_dir", str(cache_folder("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
