"""A finished run, an agent file and a study, created without training, to test how they are read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from perepisode.algorithms import AGENTS
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation
from perepisode.runs import Run, RunFolder, save_policy
from perepisode.study import matrix, plan
from perepisode.training.train import weights
from perepisode.zoo import agent_file

CONFIG = replace(TEMPTATION_PPO, num_envs=16, num_steps=20, hidden_size=8, num_minibatches=2, update_epochs=1)
RUN = Run("temptation", "temptation", "ser", {"weight": 0.3}, 3, 1.0, 4 * CONFIG.steps_per_update, config=CONFIG)
EVALUATION = {
    "episodes": 4, "return": 30.0, "length": 40.0, "violations": 1.0, "p_any": 0.5, "p_over_1": 0.25, "cvar": 3.0,
    "worst": 3.0, "distribution": [2, 1, 0, 1], "protocol": {"envs": 2, "steps": 80, "first": 2, "seed": 0},
}  # fmt: skip
UTILITY = {
    "kind": "distilled", "inputs_mean": [10.0, -5.0], "inputs_std": [5.0, 2.0], "offset": 0.3, "scale": 2.0,
    "layers": [{"kernel": [[1.0], [0.5]], "bias": [0.1]}, {"kernel": [[3.0]], "bias": [0.2]}],
}  # fmt: skip


def policy() -> dict:
    return weights(AGENTS["ppo_gru"](Temptation(), CONFIG).init(3, 0))


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """A finished run folder below `runs`."""
    found = RunFolder.of(tmp_path / "runs", RUN)
    found.open(RUN, "cpu")
    rows = [{"update": n, "steps": 320 * n, "return": 1.0 * n, "violations": 0.5, "lambda": None} for n in range(1, 5)]
    found.append_metrics(rows)
    found.finish(RUN, save_policy(found.path, RUN, policy()))
    return found


@pytest.fixture
def agent(tmp_path) -> agent_file.AgentFile:
    about = {"run": {"id": RUN.id, "arm": RUN.arm, **RUN.to_json()}, "evaluation": EVALUATION}
    about["trained"] = {"device": "cpu: cpu x 1", "versions": {"perepisode": "0.1.0"}}
    initial = {name: value + 1 for name, value in policy().items()}
    return agent_file.write(tmp_path / "ser-w0.3.safetensors", about, AGENTS["ppo_gru"], policy(), initial)


@pytest.fixture
def study(tmp_path) -> Path:
    """The folder of a study with a failed task and a finished one."""
    runs = matrix.flat(matrix.families(matrix.of("temptation", seeds=[7])))
    plan.save(plan.compose(runs, 8), tmp_path / "study")
    for task, name, content in (("train-01", "failed", {"reason": "the disk"}), ("exact", "done", {"after": []})):
        path = tmp_path / "study" / "tasks" / task / name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    return tmp_path / "study"
