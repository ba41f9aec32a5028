"""The user's cache directory, which keeps compiled programs between processes.  Optional: it may be read-only."""

import os
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """A folder in the user's cache directory; None if it is not writable."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "perepisode" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder


def use_cache() -> None:
    """Enable JAX's persistent compilation cache."""
    import jax

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    if folder := cache_folder("jax"):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
