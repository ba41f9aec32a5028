"""A trained agent as portable files:

NAME.safetensors     the quantised policy (see `quantization`); its header contains the digest of NAME.json
NAME.json            run, training device and versions, evaluation statistics, licence, sha256 of the policy
NAME.md              model card for people
NAME.metrics.jsonl   thinned training curve; optional

In a folder for the Hugging Face Hub the same files are called model.safetensors, config.json, README.md, which begins
with metadata for the Hub, and metrics.jsonl.

The digests tie the first two files together.  All files are read as plain data; nothing in them is executed.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from perepisode import legacy, safe_io
from perepisode.algorithms import LearningAgent
from perepisode.config import ConfigError, canonical
from perepisode.runs import Run, parse_run, write_atomically
from perepisode.zoo import quantization

FORMAT = 2  # of agent files; format 1 is upgraded when read (legacy.py)
ENDING = ".safetensors"
LICENCE = "MIT"
MAX_BYTES = 256 * 2**20
HUB_NAMES = {ENDING: "model.safetensors", ".json": "config.json", ".md": "README.md", ".metrics.jsonl": "metrics.jsonl"}
FETCH = "download the agent again or export it again from its run"


@dataclass(frozen=True)
class AgentFile:
    """An exported agent; `path` ends in .safetensors."""

    path: Path

    done = True
    failed = None

    def sibling(self, ending: str) -> Path:
        """Another file of this agent.  Not `Path.with_suffix`, because names contain dots (`ser-w0.1`)."""
        return self.path.with_name(self.path.name.removesuffix(ENDING) + ending)

    @property
    def policy(self) -> Path:
        return self.sibling(ENDING)

    @property
    def metrics(self) -> Path:
        return self.sibling(".metrics.jsonl")

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The content of NAME.json; ConfigError unless both files are intact and belong together."""
        return self._read()[0]

    def read(self) -> Run:
        return parse_run(self.metadata["run"], self.sibling(".json"), FETCH)

    def stored_file(self, name: str) -> bytes | None:
        """The content of the file that a setting of the run names; None if it is not stored."""
        try:
            return base64.b64decode(self.metadata["files"][name], validate=True)
        except (KeyError, TypeError):
            return None
        except ValueError:
            raise ConfigError(f"{self.sibling('.json')} has no readable {name}; {FETCH}") from None

    @property
    def id(self) -> str:
        """The first digits of the policy's sha256."""
        return self.metadata["policy"]["sha256"][:12]

    def load(self) -> tuple[Run, dict[str, np.ndarray]]:
        """The run and its weights, float32."""
        from safetensors.numpy import load

        metadata, content = self._read()
        try:
            return self.read(), quantization.dequantize(load(content), metadata["policy"]["rows"])
        except ConfigError:
            raise
        except Exception as error:  # safetensors and NumPy raise many types
            raise ConfigError(f"{self.policy} is not a policy ({safe_io.first_line(error)}); {FETCH}") from None

    def _read(self) -> tuple[dict[str, Any], bytes]:
        metadata = _read_metadata(self.sibling(".json"))
        content = safe_io.read_bytes(self.policy, FETCH, MAX_BYTES)
        if hashlib.sha256(content).hexdigest() != metadata["policy"]["sha256"]:
            raise ConfigError(
                f"{self.policy} is damaged: its sha256 is not the one in {self.sibling('.json').name}; {FETCH}"
            )
        if _header_digest(content) != _digest(metadata):
            raise ConfigError(f"{self.sibling('.json')} was changed after {self.policy.name} was written; {FETCH}")
        return legacy.upgrade_agent(metadata) if metadata["format"] == 1 else metadata, content


class HubFolder(AgentFile):
    """An agent in a folder for the Hugging Face Hub, or downloaded from there; `path` is the folder."""

    @classmethod
    def is_at(cls, path: Path) -> bool:
        needed = (path / HUB_NAMES[ending] for ending in (ENDING, ".json"))
        return all(file.exists() for file in needed) and not (path / "run.json").exists()

    def sibling(self, ending: str) -> Path:
        """A file of this agent; a link to a file elsewhere is refused, because contents are shown to others.

        In the cache of the Hub, a snapshot consists of links to the blobs of its own repository.
        """
        path, home = self.path / HUB_NAMES[ending], self.path.resolve()
        blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
        if path.is_symlink() and path.resolve().parent not in (home, blobs):
            raise ConfigError(f"{path} is a link out of its folder; replace it with the file itself")
        return path


def write(
    path: Path,
    metadata: Mapping[str, Any],
    agent: type[LearningAgent],
    weights: quantization.Weights,
    initial: quantization.Weights,
) -> AgentFile:
    """Write both files; the policy comes last and completes the pair."""
    from safetensors.numpy import save

    tensors, sizes = quantization.quantize(weights, initial, agent.training_only, agent.input_kernels)
    policy = {"quantization": quantization.METHOD, "rows": sizes}
    metadata = {"format": FORMAT, **metadata, "licence": LICENCE, "policy": policy}
    content = save({name: np.ascontiguousarray(x) for name, x in tensors.items()}, metadata={"json": _digest(metadata)})
    policy["sha256"] = hashlib.sha256(content).hexdigest()
    file = AgentFile(path)
    write_atomically(file.sibling(".json"), json.dumps(metadata, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_atomically(path, content)
    return file


def _read_metadata(path: Path) -> dict[str, Any]:
    metadata = safe_io.read_json(path, FETCH)
    version = metadata.get("format")
    if version not in (1, FORMAT):
        raise ConfigError(
            f"{path} has format {version!r}, this version reads 1 and {FORMAT}; update perepisode or {FETCH}"
        )
    policy, evaluation = metadata.get("policy"), metadata.get("judged" if version == 1 else "evaluation")
    if not isinstance(policy, dict) or not isinstance(policy.get("rows"), dict) or "sha256" not in policy:
        raise ConfigError(f"{path} does not describe its policy; {FETCH}")
    if not isinstance(metadata.get("run"), dict) or not isinstance(evaluation, dict):
        raise ConfigError(f"{path} does not describe its run or its evaluation; {FETCH}")
    return metadata


def _digest(metadata: Mapping[str, Any]) -> str:
    """Digest of NAME.json without the policy's own digest, which depends on this one."""
    policy = {key: value for key, value in metadata["policy"].items() if key != "sha256"}
    return hashlib.sha256(canonical({**metadata, "policy": policy}).encode()).hexdigest()


def _header_digest(content: bytes) -> str | None:
    """The digest of NAME.json in the header of the policy."""
    try:
        length = int.from_bytes(content[:8], "little")
        return json.loads(content[8 : 8 + length])["__metadata__"]["json"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
