"""A trained run on the miniature, evaluated and exported as an agent file."""

from dataclasses import replace

import pytest

from perepisode.agents.export import export
from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.evaluation.rollout import evaluate
from perepisode.runs import Run, RunFolder
from perepisode.training.train import TrainingOptions, train

CONFIG = replace(TEMPTATION_PPO, num_envs=16, num_steps=40, update_epochs=2, num_minibatches=2, hidden_size=8)
WORLD = {"wage": 0.5, "offer_prob": 0.4}  # not the defaults: they must be read from the agent file


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> RunFolder:
    """A finished run of expected scalarised returns (ESR), with its episodes table."""
    out = tmp_path_factory.mktemp("runs")
    run = Run("temptation", "temptation", "esr", {"budget": 1}, 3, 1.0, 4 * CONFIG.steps_per_update,
              env_settings=WORLD, config=CONFIG)  # fmt: skip
    (folder,) = train([run], TrainingOptions(out))
    evaluate([out], out / "episodes.parquet", num_envs=8, num_steps=160, episodes_per_env=3, log=lambda _: None)
    return folder


@pytest.fixture
def agent(folder, tmp_path):
    return export(folder, folder.path.parent / "episodes.parquet", tmp_path / "esr-k1.0.safetensors")
