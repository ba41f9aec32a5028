"""A finished run as an agent file: rounded policy, what it is, what it does, a card to read."""

import base64
import json
from pathlib import Path
from typing import Any

from perepisode import environments, safe_io
from perepisode.agents import card, statistics
from perepisode.config import ConfigError
from perepisode.evaluation import episodes
from perepisode.evaluation.rollout import Agent, accrued_obs_size
from perepisode.report.statistics.curves import row_of
from perepisode.runs import Run, RunFolder, write_atomically
from perepisode.training import network
from perepisode.training.train import weights
from perepisode.zoo import agent_file
from perepisode.zoo.agent_file import ENDING, AgentFile

MAX_ROWS = 300  # of the training curve that travels
CURVE = ("steps", "episodes", "return", "violations", "p_any", "cvar", "lambda")


def export(folder: RunFolder, table: Path, out: Path) -> AgentFile:
    """Write `out` and what lies beside it; the run must be finished and its episodes be in `table`."""
    if not out.name.endswith(ENDING) or out.name == ENDING:
        raise ConfigError(f"--out {out} would not be an agent's file; let it be a name that ends in {ENDING}")
    _refuse_to_overwrite(AgentFile(out))
    agent = Agent.of(folder)
    initial = weights(initial_params(agent.run, accrued_obs_size(agent.objective)))
    judged = episodes.read(table, without=episodes.REPLAY_COLUMNS)
    told = safe_io.read_json(folder.path / "run.json", "train the run again")
    return write(out, told, statistics.of(judged, agent.run.id), agent, initial, folder.metrics)


def write(out: Path, told: dict[str, Any], judged: dict[str, Any], agent: Agent, initial, metrics: Path) -> AgentFile:
    """The files of an agent; `told` is its run.json, `initial` the weights that its training began with."""
    run = agent.run
    about = {
        "run": {"id": run.id, "arm": run.arm, **run.to_json()},
        "trained": {"device": told.get("device"), "versions": told.get("versions")},
        "evaluation": {"policy": "before rounding", **judged},
    }
    if agent.files:
        about["files"] = {name: base64.b64encode(agent.files[digest]).decode() for name, digest in run.files.items()}
    curve = _thinned(metrics) if metrics.exists() else ""
    file = agent_file.write(out, about, agent.weights, initial)
    if curve:
        write_atomically(file.metrics, curve)
    else:
        file.metrics.unlink(missing_ok=True)  # of an agent that stood here before
    write_atomically(file.sibling(".md"), card.text(file))
    return file


def _refuse_to_overwrite(file: AgentFile) -> None:
    """An agent may be exported again over itself; nothing else is replaced."""
    there = [path for path in (file.path, *map(file.sibling, (".json", ".md", ".metrics.jsonl"))) if path.exists()]
    if not there:
        return
    try:
        AgentFile(file.path).load()
    except ConfigError:
        raise ConfigError(f"{there[0]} is there already and no agent of that name is; choose another --out") from None


def initial_params(run: Run, extra: int) -> network.Params:
    """The weights that training began with, drawn again from the run's seed."""
    env = environments.make(run.env, **run.env_settings)
    return network.init(run.seed, network.input_sizes(env, extra), run.ppo.hidden_size, env.actions)


def _thinned(metrics: Path) -> str:
    lines = safe_io.read_text(metrics, "train the run again").splitlines()
    kept = lines[:: -(-len(lines) // MAX_ROWS) or 1]
    kept += [] if not lines or kept[-1] is lines[-1] else lines[-1:]
    rows = [row for line in kept if (row := row_of(line)) is not None]
    return "".join(json.dumps({key: _short(row[key]) for key in CURVE if key in row}) + "\n" for row in rows)


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
