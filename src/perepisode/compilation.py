"""How JAX compiles here: what was compiled is kept in a per-user folder, and on a CPU LLVM does not try its hardest."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

LEVEL = "--xla_backend_optimization_level"


def prepare() -> None:
    """To be called before the first use of a device; a user's own settings stay as they are."""
    _on_a_cpu_compile_quickly()
    _keep_what_was_compiled()


def _on_a_cpu_compile_quickly() -> None:
    """LLVM's second level instead of its third: a quarter less time to compile, and loops that even run faster."""
    flags = os.environ.get("XLA_FLAGS", "")
    platforms = os.environ.get("JAX_PLATFORMS", "")
    only_cpu = platforms.split(",")[0] == "cpu" or not (platforms or find_spec("jax_plugins"))
    if only_cpu and LEVEL not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {LEVEL}=2".strip()


def _keep_what_was_compiled() -> None:
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
