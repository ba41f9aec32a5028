"""One trained run on the miniature, judged, and exported as an agent file."""

from dataclasses import replace

import pytest

from perepisode.agents.export import export
from perepisode.environments.temptation import MINIATURE
from perepisode.evaluation.rollout import evaluate
from perepisode.runs import Run, RunFolder
from perepisode.training.train import Options, train

LEARNER = replace(MINIATURE, envs=16, rollout=40, epochs=2, minibatches=2, hidden=8)
WORLD = {"wage": 0.5, "chance": 0.4}  # not the defaults: whoever plays has to find them in the agent's file


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> RunFolder:
    """A finished ESR run with its table beside it."""
    out = tmp_path_factory.mktemp("runs")
    run = Run("temptation", "temptation", "esr", {"budget": 1}, 3, 1.0, 4 * LEARNER.steps_per_update,
              world=WORLD, learner=LEARNER)  # fmt: skip
    (folder,) = train([run], Options(out))
    evaluate([out], out / "episodes.parquet", envs=8, steps=160, first=3, say=lambda _: None)
    return folder


@pytest.fixture
def agent(folder, tmp_path):
    return export(folder, folder.path.parent / "episodes.parquet", tmp_path / "esr-k1.0.safetensors")
