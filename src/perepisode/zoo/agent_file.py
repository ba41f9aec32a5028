"""One trained agent as files that travel:

NAME.safetensors     the rounded policy (see `rounding`); its header holds the digest of NAME.json
NAME.json            what it is: run, device, code; what it does: the statistics of its judged episodes; licence;
                     the policy's sha256.  Each file vouches for the other
NAME.md              the same for people: a model card
NAME.metrics.jsonl   its training curve, thinned; may be missing

All of it is read as plain data: nothing in it can run.
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
from perepisode.config import ConfigError, canonical
from perepisode.runs import Run, parse_run, write_atomically
from perepisode.zoo import quantization

FORMAT = 2  # of agent files; 1 is read too (legacy.py), any other refused
ENDING = ".safetensors"
LICENCE = "MIT"
LARGEST = 256 * 2**20  # bytes; a file beyond it is not an agent's
FETCH = "fetch the agent again, or export it again from its run"


@dataclass(frozen=True)
class AgentFile:
    """A trained agent on disk; `path` ends in .safetensors."""

    path: Path

    done = True
    failed = None

    def sibling(self, ending: str) -> Path:
        """A file of the same agent.  Names hold dots (`ser-w0.1`), so an ending is never taken for one of them."""
        return self.path.with_name(self.path.name.removesuffix(ENDING) + ending)

    @property
    def metrics(self) -> Path:
        return self.sibling(".metrics.jsonl")

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What NAME.json says, both files being whole and belonging together; ConfigError otherwise."""
        return self._read()[0]

    def read(self) -> Run:
        return parse_run(self.metadata["run"], self.sibling(".json"), FETCH)

    def stored_file(self, name: str) -> bytes | None:
        """The content of the file that a setting of the run names; None where there is none."""
        try:
            return base64.b64decode(self.metadata["files"][name], validate=True)
        except (KeyError, TypeError):
            return None
        except ValueError:
            raise ConfigError(f"{self.beside('.json')} holds no readable {name}; {FETCH}") from None

    @property
    def id(self) -> str:
        """Of the policy itself: the first digits of its sha256."""
        return self.metadata["policy"]["sha256"][:12]

    def load(self) -> tuple[Run, dict[str, np.ndarray]]:
        """The run and its weights, float32."""
        from safetensors.numpy import load

        about, content = self._read()
        try:
            return self.read(), quantization.dequantize(load(content), about["policy"]["rows"])
        except ConfigError:
            raise
        except Exception as error:  # safetensors raises its own kinds, NumPy others
            raise ConfigError(f"{self.path} is no agent's policy ({safe_io.first_line(error)}); {FETCH}") from None

    def _read(self) -> tuple[dict[str, Any], bytes]:
        about = _about(self.sibling(".json"))
        content = safe_io.read_bytes(self.path, FETCH, LARGEST)
        if hashlib.sha256(content).hexdigest() != about["policy"]["sha256"]:
            raise ConfigError(
                f"{self.path} is damaged: its sha256 is not the one in {self.beside('.json').name}; {FETCH}"
            )
        if _stated(content) != _digest(about):
            raise ConfigError(f"{self.beside('.json')} was changed after {self.path.name} was written for it; {FETCH}")
        return legacy.upgrade_agent(about) if about["format"] == 1 else about, content


def write(
    path: Path, about: Mapping[str, Any], weights: quantization.Weights, initial: quantization.Weights
) -> AgentFile:
    """Both files, the policy last: it alone makes the pair complete."""
    from safetensors.numpy import save

    tensors, sizes = quantization.quantize(weights, initial)
    policy = {"quantization": quantization.METHOD, "rows": sizes}
    about = {"format": FORMAT, **about, "licence": LICENCE, "policy": policy}
    content = save({name: np.ascontiguousarray(x) for name, x in tensors.items()}, metadata={"json": _digest(about)})
    policy["sha256"] = hashlib.sha256(content).hexdigest()
    file = AgentFile(path)
    write_atomically(file.sibling(".json"), json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_atomically(path, content)
    return file


def _about(path: Path) -> dict[str, Any]:
    about = safe_io.read_json(path, FETCH)
    if about.get("format") not in (1, FORMAT):
        stated = about.get("format")
        raise ConfigError(
            f"{path} has format {stated!r}, this version reads 1 and {FORMAT}; update perepisode or {FETCH}"
        )
    policy = about.get("policy")
    if not isinstance(policy, dict) or not isinstance(policy.get("rows"), dict) or "sha256" not in policy:
        raise ConfigError(f"{path} says nothing of its policy; {FETCH}")
    if not isinstance(about.get("run"), dict) or not isinstance(about.get("evaluation", about.get("judged")), dict):
        raise ConfigError(f"{path} says nothing of its run or of its episodes; {FETCH}")
    return about


def _digest(about: Mapping[str, Any]) -> str:
    """Of everything that NAME.json says but the policy's own digest, which depends on this one."""
    policy = {key: value for key, value in about["policy"].items() if key != "sha256"}
    return hashlib.sha256(canonical({**about, "policy": policy}).encode()).hexdigest()


def _stated(content: bytes) -> str | None:
    """The digest of NAME.json in the policy's header."""
    try:
        length = int.from_bytes(content[:8], "little")
        return json.loads(content[8 : 8 + length])["__metadata__"]["json"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
