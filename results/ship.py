"""How the bundled agents were exported from the long runs.

    python results/ship.py LONG_RUN

LONG_RUN is the output of that training: agents/<method>.npz (policies in half precision), curves/<run>/ (run.json,
metrics.jsonl) and episodes512.parquet.  All three agents were trained in one program, in which SER and the Lagrangian
also had the two inputs of ESR's accrued observation: theirs were always zero, never changed, and are dropped here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from perepisode import legacy
from perepisode.agents import export, statistics
from perepisode.evaluation import episodes
from perepisode.evaluation.rollout import Agent, accrued_obs_size
from perepisode.runs import RunFolder
from perepisode.training.train import weights
from perepisode.zoo.registry import BUNDLED

NAMES = {"esr": "esr-k1", "ser": "ser-w0.1", "lagrangian": "lagrangian-d0.5"}
ACCRUED_OBS = 2  # inputs of the accrued observation


def main(long_run: Path) -> None:
    table = episodes.read(long_run / "episodes512.parquet", without=episodes.REPLAY_COLUMNS)
    for folder in map(RunFolder, sorted((long_run / "curves").iterdir())):
        run = folder.read()
        with np.load(long_run / "agents" / f"{run.method}.npz") as file:
            found = {name: file[name].astype(np.float32) for name in file.files}
        drawn = weights(export.initial_params(run, ACCRUED_OBS))
        agent = Agent(run, found)
        if accrued_obs_size(agent.objective) == 0:
            inputs = max(name for name in found if name.startswith("embedding."))
            assert np.array_equal(found.pop(inputs), drawn.pop(inputs).astype(np.float16)), "its inputs were not zero"
        out = BUNDLED / run.dilemma / f"{NAMES[run.method]}.safetensors"
        plain = legacy.upgrade_run(json.loads((folder.path / "run.json").read_text()))
        file = export.write(out, plain, statistics.summarize(table, run.id), agent, drawn, folder.metrics)
        sizes = file.metadata["policy"]["rows"]
        print(f"{file.path}: {file.path.stat().st_size / 1e6:.2f} MB, {sum(sizes.values())} inputs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
