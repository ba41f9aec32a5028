"""Checkpoints of a population, written with orbax: complete or absent, and verified on restore."""

import errno
import logging
import shutil
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

logging.getLogger("absl").setLevel(logging.ERROR)  # orbax reports every save at INFO


class Checkpoints:
    """The most recent states of one population, by update number.

    Writes in the background: sixteen runs take gigabytes, and the device should not idle while the disk writes.
    """

    def __init__(self, folder: Path, keep: int = 2):
        import orbax.checkpoint as ocp

        self.folder = Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, enable_async_checkpointing=False)
        self._ocp = ocp
        self._manager = ocp.CheckpointManager(self.folder, options=options)

        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future | None = None

    def save(self, update: int, state: Any) -> None:
        """Copy the state to the host and write it while training continues; waits for the previous write."""
        self.wait()
        if update not in self._manager.all_steps():
            # copy, because the next chunk donates the state's buffers
            leaves = {name: np.array(_data(leaf)) for name, leaf in _named(state).items()}
            self._writing = self._writer.submit(self._write, update, leaves)

    def _write(self, update: int, leaves: dict[str, np.ndarray]) -> None:
        args = self._ocp.args.Composite(
            state=self._ocp.args.StandardSave(leaves),
            sums=self._ocp.args.JsonSave({name: _checksum(value) for name, value in leaves.items()}),
        )
        try:
            self._manager.save(update, args=args)
            self._manager.wait_until_finished()
        except Exception as error:  # a full disk raises various types, few of them OSError
            reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
            raise OSError(errno.EIO, f"checkpoint {update} was not written ({reason})") from error

    def raise_write_error(self) -> None:
        """Raise the error of the background write, if it has failed."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Block until the last checkpoint is on disk."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def restore(self, like: Any, log: Callable[[str], None]) -> Any | None:
        """The most recent intact state, with the structure of `like`; None if there is none."""
        for update in sorted(self._manager.all_steps(), reverse=True):
            try:
                return self._read(update, like)
            except Exception as error:  # orbax and tensorstore raise many types for a damaged folder
                reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
                log(f"checkpoint {update} is damaged ({reason}); falling back to the one before")
                shutil.rmtree(self.folder / str(update), ignore_errors=True)
                self._manager.reload()
        return None

    def _read(self, update: int, like: Any) -> Any:
        shapes = {}
        for name, leaf in _named(like).items():
            plain = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
            shapes[name] = jax.ShapeDtypeStruct(plain.shape, plain.dtype, sharding=getattr(plain, "sharding", None))
        args = self._ocp.args.Composite(state=self._ocp.args.StandardRestore(shapes), sums=self._ocp.args.JsonRestore())
        restored = self._manager.restore(update, args=args)
        for name, value in restored["state"].items():
            if _checksum(np.asarray(value)) != restored["sums"][name]:
                raise ValueError(f"checksum of {name} differs")
        leaves = [_as(leaf, restored["state"][name]) for name, leaf in _named(like).items()]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def close(self) -> None:
        self._writer.shutdown()
        self._manager.close()

    def remove(self) -> None:
        """Delete all checkpoints, which are useless once every policy is exported."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _named(state: Any) -> dict[str, Any]:
    leaves = jax.tree.leaves(state)
    return {f"{i:04d}": leaf for i, leaf in enumerate(leaves)}


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _data(leaf: Any) -> Any:
    """A leaf as plain numbers: the state of an environment may have random keys."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _as(like: Any, data: Any) -> Any:
    """The inverse of `_data`."""
    return jax.random.wrap_key_data(data) if _is_key(like) else data


def _checksum(value: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
