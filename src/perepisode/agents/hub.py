"""A folder for the Hugging Face Hub: an agent's files under the names that the Hub expects, and metadata for it.

Nothing is uploaded: `hf upload USER/NAME FOLDER` does that.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perepisode import metrics
from perepisode.agents import card
from perepisode.config import ConfigError
from perepisode.report.style import dilemma_name
from perepisode.runs import write_atomically
from perepisode.zoo import AgentFile, HubFolder

TASK = "reinforcement-learning"
METRICS = {  # entry of the evaluation, its type on the Hub and its name there
    "return": ("mean_reward", "Mean task return"),
    "violations": ("violations", "Mean violations per episode"),
    "p_any": ("p_any", "Share of episodes with a violation"),
    "p_over_1": ("p_over_1", "Share of episodes with more than one violation"),
    "cvar": ("cvar", f"{metrics.CVAR} of violations: mean over the worst episodes"),
    "worst": ("worst", "Violations of the worst episode"),
}


def write(file: AgentFile, folder: Path) -> HubFolder:
    """Write an agent's files into a folder, which must be new, empty, or hold an agent already."""
    hub = HubFolder(folder)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not HubFolder.is_at(folder))):
        raise ConfigError(f"{folder} exists and holds no agent; give a new folder")
    _ = file.metadata  # raises for files that are damaged or do not belong together
    curve = file.metrics.read_bytes() if file.metrics.exists() else b""
    for path, content in (
        (hub.sibling(".json"), file.sibling(".json").read_bytes()),
        (hub.policy, file.policy.read_bytes()),
        (hub.metrics, curve),
    ):
        write_atomically(path, content) if content else path.unlink(missing_ok=True)
    text = "\n".join(["---", card.checked(hub, _front_matter), "---", "", card.render(hub)])
    write_atomically(hub.sibling(".md"), text)
    return hub


def _front_matter(hub: AgentFile) -> str:
    """The metadata at the beginning of README.md, as YAML."""
    run, evaluation = hub.read(), hub.metadata["evaluation"]
    dataset = {"type": f"{run.env}-{run.dilemma}", "name": f"{run.env.capitalize()}, {dilemma_name(run.dilemma)}"}
    results = [
        {"type": kind, "value": evaluation[entry], "name": name} for entry, (kind, name) in METRICS.items()
    ]  # fmt: skip
    result = {"task": {"type": TASK, "name": TASK}, "dataset": dataset, "metrics": results}
    tags = [TASK, "deep-reinforcement-learning", "safe-rl", "jax", run.env, run.dilemma, run.method]
    metadata = {
        "library_name": "perepisode",
        "pipeline_tag": TASK,
        "license": str(hub.metadata["licence"]).lower(),
        "tags": list(dict.fromkeys(tags)),
        "model-index": [{"name": card.name_of(hub), "results": [result]}],
    }
    return "\n".join(_yaml(metadata))


def _yaml(value: Any) -> Iterator[str]:
    """The lines of a value in YAML; every text is quoted, so that none reads as a number or a date."""
    if isinstance(value, dict):
        for key, item in value.items():
            lines = list(_yaml(item))
            nested = isinstance(item, dict | list)
            yield f"{key}:" if nested else f"{key}: {lines[0]}"
            yield from (f"  {line}" for line in lines if nested)
    elif isinstance(value, list):
        for item in value:
            first, *others = _yaml(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    elif isinstance(value, float):
        yield f"{value:.6f}"  # YAML 1.1 reads 1e-06 as text
    else:
        yield json.dumps(value, ensure_ascii=False)
