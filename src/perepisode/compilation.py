"""JAX's compilation cache in a per-user folder: used when it can be, never required."""

from __future__ import annotations

import os
from pathlib import Path


def use_cache() -> None:
    import jax

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "perepisode" / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
