"""Exporting a finished run as an agent file: quantised policy, metadata, statistics and a model card."""

import base64
import json
from pathlib import Path
from typing import Any

from perepisode import safe_io
from perepisode.agents import card, statistics
from perepisode.algorithms import AGENTS
from perepisode.config import ConfigError
from perepisode.evaluation import episodes
from perepisode.evaluation.rollout import Agent, accrued_obs_size
from perepisode.report.statistics.curves import row_of
from perepisode.runs import RunFolder, write_atomically
from perepisode.training.train import agent_of, weights
from perepisode.zoo import agent_file
from perepisode.zoo.agent_file import ENDING, AgentFile

MAX_ROWS = 300  # of the exported training curve
CURVE = ("steps", "episodes", "return", "violations", "p_any", "cvar", "lambda")


def export(folder: RunFolder, table: Path, out: Path) -> AgentFile:
    """Write `out` and its sibling files; the run must be finished and its episodes must be in `table`."""
    if not out.name.endswith(ENDING) or out.name == ENDING:
        raise ConfigError(f"--out {out} does not end in {ENDING}; give the name of an agent file")
    _refuse_to_overwrite(AgentFile(out))
    agent = Agent.of(folder)
    # the weights before training, recomputed from the seed
    initial = weights(agent_of(agent.run).init(agent.run.seed, accrued_obs_size(agent.objective)))
    evaluation = statistics.summarize(episodes.read(table, without=episodes.REPLAY_COLUMNS), agent.run.id)
    run_json = safe_io.read_json(folder.path / "run.json", "train the run again")
    return write(out, run_json, evaluation, agent, initial, folder.metrics)


def write(
    out: Path, run_json: dict[str, Any], evaluation: dict[str, Any], agent: Agent, initial, metrics: Path
) -> AgentFile:
    """Write the files of an agent; `initial` are its weights before training."""
    run = agent.run
    metadata = {
        "run": {"id": run.id, "arm": run.arm, **run.to_json()},
        "trained": {"device": run_json.get("device"), "versions": run_json.get("versions")},
        "evaluation": {"policy": "before quantization", **evaluation},
    }
    if agent.files:
        files = {name: base64.b64encode(agent.files[digest]).decode() for name, digest in run.files.items()}
        metadata["files"] = files
    curve = _thinned(metrics) if metrics.exists() else ""
    file = agent_file.write(out, metadata, AGENTS[run.agent], agent.weights, initial)
    if curve:
        write_atomically(file.metrics, curve)
    else:
        file.metrics.unlink(missing_ok=True)  # of an agent exported here before
    write_atomically(file.sibling(".md"), card.render(file))
    return file


def _refuse_to_overwrite(file: AgentFile) -> None:
    """Only an agent's own files may be replaced by exporting it again."""
    paths = (file.path, *map(file.sibling, (".json", ".md", ".metrics.jsonl")))
    existing = [path for path in paths if path.exists()]
    if not existing:
        return
    try:
        AgentFile(file.path).load()
    except ConfigError:
        raise ConfigError(f"{existing[0]} exists and belongs to no agent; choose another --out") from None


def _thinned(metrics: Path) -> str:
    lines = safe_io.read_text(metrics, "train the run again").splitlines()
    kept = lines[:: -(-len(lines) // MAX_ROWS) or 1]
    kept += [] if not lines or kept[-1] is lines[-1] else lines[-1:]
    rows = [row for line in kept if (row := row_of(line)) is not None]
    return "".join(json.dumps({key: _short(row[key]) for key in CURVE if key in row}) + "\n" for row in rows)


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
