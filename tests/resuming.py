"""Training that is interrupted and resumed from a checkpoint, beside training without a break."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from perepisode.runs import Run
from perepisode.training import update
from perepisode.training.checkpoints import Checkpoints
from perepisode.training.train import prepare, run_chunk


def straight_and_resumed(run: Run, folder: Path) -> tuple[update.TrainState, update.TrainState]:
    """The run's state after four updates: at a stretch, and with a checkpoint after two that is restored."""
    program, members = prepare([run])
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [run.seed]))
    straight = run_chunk(program, 4, members, jax.tree.map(jnp.copy, state), 4)[0]
    half = run_chunk(program, 4, members, state, 2)[0]
    checkpoints = Checkpoints(folder)
    checkpoints.save(2, half)
    checkpoints.wait()
    restored = jax.device_put(checkpoints.restore(jax.eval_shape(lambda: half), print))
    checkpoints.close()
    return straight, run_chunk(program, 4, members, restored, 2)[0]
