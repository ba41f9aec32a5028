"""A result: one agent, one training seed, one protocol, as one JSON file.

| entry | content |
|---|---|
| format | version of this format |
| protocol | the full content of the protocol, with its `id` |
| agent | method, arm, seed, gamma, total_timesteps; `run` (the training run) or `trained_on` (as its author states); `source` and `sha256` of the policy or of the table |
| episodes | columns with one entry per episode: env_index, episode_index, episode_key, violations, return, length |
| actions | every action of every episode in this order, as bytes, compressed by zlib, in base64; null if unknown |
| statistics | the protocol's measures of these episodes |
| versions, device | of the machine that played them |
| digest | SHA-256 of all other entries as canonical JSON |

The digest notices damage, not forgery: whoever changes a file can compute it again.  `verify` therefore recomputes
everything else too.
"""  # noqa: E501

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perepisode import safe_io
from perepisode.benchmark.protocol import PROTOCOLS, BenchmarkProtocol
from perepisode.config import ConfigError, canonical
from perepisode.environments import ENVIRONMENTS, action_space
from perepisode.report.style import label
from perepisode.runs import write_atomically

FORMAT = 1
REMEDY = "run `perepisode benchmark` again"
COLUMNS = {  # of the episodes, and the type of their values
    "env_index": int,
    "episode_index": int,
    "episode_key": str,
    "violations": int,
    "return": float,
    "length": int,
}
ENTRIES = ("format", "protocol", "agent", "episodes", "actions", "statistics", "versions", "device", "digest")
MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, eq=False)
class BenchmarkResult:
    """A result file as read.  Types are checked, contents are not: `verify` does that."""

    path: Path
    content: dict[str, Any]

    @cached_property
    def protocol(self) -> BenchmarkProtocol:
        """The protocol of this id; ConfigError unless the file states it exactly as it is."""
        stated = self.content["protocol"]
        known = PROTOCOLS.get(str(stated.get("id")))
        if known is None:
            raise self.refused(f"its protocol {stated.get('id')!r} is not one of {', '.join(PROTOCOLS)}")
        if canonical(stated) != canonical(known.to_json()):
            raise self.refused(f"its protocol differs from {known.id}; a protocol's content is fixed")
        return known

    @property
    def agent(self) -> dict[str, Any]:
        return self.content["agent"]

    @property
    def name(self) -> str:
        """The agent as tables show it, without its training seed."""
        arm = self.agent["arm"]
        return label(self.agent["method"]) + (f" ({arm})" if arm else "")

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """The columns as arrays."""
        return pd.DataFrame({name: np.array(values) for name, values in self.content["episodes"].items()})

    @cached_property
    def actions(self) -> list[np.ndarray] | None:
        """The actions of each episode; None if they were not recorded."""
        if self.content["actions"] is None:
            return None
        env = ENVIRONMENTS[self.protocol.env]
        lengths = self.episodes["length"].to_numpy()
        size = int(lengths.sum()) * action_space.bytes_per_action(env.actions)
        try:
            unpack = zlib.decompressobj()
            content = unpack.decompress(base64.b64decode(self.content["actions"], validate=True), size + 1)
        except (ValueError, zlib.error):
            raise self.refused("its actions cannot be read") from None
        if len(content) != size:
            raise self.refused(f"it has {len(content)} bytes of actions for {size} steps")
        try:
            taken = action_space.from_bytes(env.actions, content, "its actions", self.protocol.env)
        except ConfigError as error:
            raise self.refused(str(error)) from None
        return np.split(taken, np.cumsum(lengths)[:-1])

    def refused(self, reason: str) -> ConfigError:
        return ConfigError(f"{self.path} is refused: {reason}; {REMEDY}")


def seal(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content without its digest, as canonical JSON."""
    return hashlib.sha256(canonical({k: v for k, v in content.items() if k != "digest"}).encode()).hexdigest()


def pack_actions(actions: list[bytes]) -> str:
    return base64.b64encode(zlib.compress(b"".join(actions), 9)).decode()


def write(path: Path, content: Mapping[str, Any]) -> None:
    """One line per entry, and per column of the episodes."""
    sealed = {"format": FORMAT, **content}
    sealed["digest"] = seal(sealed)
    columns = ",\n".join(f'  "{name}": {json.dumps(values)}' for name, values in sealed["episodes"].items())
    lines = [
        f' "{name}": {{\n{columns}\n }}' if name == "episodes" else f' "{name}": {json.dumps(value, allow_nan=False)}'
        for name, value in sealed.items()
    ]
    write_atomically(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read(path: str | Path) -> BenchmarkResult:
    """A result; ConfigError if the file is none."""
    path = Path(path)
    content = safe_io.read_json(path, REMEDY, parse_float=_exactly_written)
    result = BenchmarkResult(path, content)
    if content.get("format") != FORMAT:
        raise ConfigError(f"{path} has format {content.get('format')!r}, this version reads {FORMAT}; {REMEDY}")
    if set(content) != set(ENTRIES):
        named = sorted(set(content) ^ set(ENTRIES))[0]
        raise result.refused(f"it must have the entries {', '.join(ENTRIES)}, but {named!r} is missing or unknown")
    expected = {"protocol": dict, "agent": dict, "episodes": dict, "statistics": dict, "actions": str | None}
    for name, kind in expected.items():
        if not isinstance(content[name], kind):
            raise result.refused(f"its entry {name!r} is a {type(content[name]).__name__}")
    _check_agent(result)
    _check_columns(result)
    return result


def _exactly_written(text: str) -> float:
    """A float with the digits that `write` gives it: the digest covers its value, and other digits may be the same."""
    if repr(value := float(text)) != text:
        raise ValueError(f"the number {text[:40]} is not written as {value!r}")
    return value


def _check_agent(result: BenchmarkResult) -> None:
    agent, number = result.agent, int | float
    kinds = {"method": str, "arm": str, "seed": int, "gamma": number | None, "total_timesteps": number | None}
    kinds |= {"run": dict | None, "trained_on": str | None, "source": str, "sha256": str}
    for name, kind in kinds.items():
        if name not in agent or not isinstance(agent[name], kind) or isinstance(agent[name], bool):
            raise result.refused(f"its agent's {name} is {str(agent.get(name))[:40]!r}")


def _check_columns(result: BenchmarkResult) -> None:
    columns, episodes = result.content["episodes"], result.protocol.episodes
    for name, kind in COLUMNS.items():
        values = columns.get(name)
        if not isinstance(values, list) or len(values) != episodes:
            raise result.refused(f"its column {name} must be a list of {episodes} entries")
        if not all(_fits(value, kind) for value in values):
            raise result.refused(f"its column {name} has an entry that is no {kind.__name__} of sensible size")
    if unknown := sorted(set(columns) - set(COLUMNS)):
        raise result.refused(f"its column {unknown[0]!r} is unknown")


def _fits(value: Any, kind: type) -> bool:
    if kind is str:
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        return False
    return 0 <= value <= MAX_COUNT if kind is int else abs(value) <= MAX_COUNT
