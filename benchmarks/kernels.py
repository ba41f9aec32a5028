"""Where the time of a GPU goes: launched kernels and busy time of one engine step and one training update.

python benchmarks/kernels.py [--runs 3] [--num-envs 1024] [--top 25] [--only engine rollout update]
"""

import argparse
import collections
import glob
import tempfile
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from perepisode.config import PPOConfig
from perepisode.environments.craftax import engine
from perepisode.runs import Run
from perepisode.study.bench import seconds_of
from perepisode.training import update
from perepisode.training.train import prepare


def profile(name, call, per, top):
    """Run `call` with and without the profiler, and print its time and its kernels per step."""
    jax.block_until_ready(call())
    wall = seconds_of(call)
    folder = tempfile.mkdtemp()
    with jax.profiler.trace(folder):
        jax.block_until_ready(call())
    data = jax.profiler.ProfileData.from_file(glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)[0])
    counts, busy = collections.Counter(), collections.Counter()
    for plane in data.planes:
        if "GPU" not in plane.name:
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue
            for event in line.events:
                counts[event.name[:60]] += 1
                busy[event.name[:60]] += event.duration_ns
    print(
        f"\n== {name}: wall {1e3 * wall / per:.3f} ms, busy {sum(busy.values()) / 1e6 / per:.3f} ms, "
        f"{sum(counts.values()) / per:.0f} kernels"
    )
    for kernel, spent in busy.most_common(top):
        print(f"  {spent / 1e6 / per:8.4f} ms  {counts[kernel] / per:7.1f} x  {kernel}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--top", type=int, default=25)
    parser.add_argument("--only", nargs="*", default=["engine", "rollout", "update"])
    parser.add_argument("--hlo", type=Path, help="file to write the compiled program of the update to")
    arguments = parser.parse_args()
    if "engine" in arguments.only:
        profile_engine(arguments)
    if {"rollout", "update"} & set(arguments.only):
        profile_training(arguments)


def profile_engine(arguments):
    make = jax.jit(jax.vmap(lambda key: engine.lit_only(engine.generate(key))))
    states = make(jax.random.split(jax.random.key(0), 256))
    states = jax.tree.map(lambda x: jnp.concatenate([x] * (arguments.num_envs // 256)), states)

    def step(states, key):
        keys = jax.random.split(key, arguments.num_envs)
        actions = jax.random.randint(key, (arguments.num_envs,), 0, 43)
        draw_and_step = jax.vmap(lambda k, s, a: engine.step(engine.bulk_draws(k), s, a)[0])
        return draw_and_step(keys, states, actions), None

    steps = jax.jit(lambda s, k: jax.lax.scan(step, s, jax.random.split(k, 64))[0])
    profile(
        f"engine, {arguments.num_envs} environments, per step",
        lambda: steps(states, jax.random.key(0)),
        64,
        arguments.top,
    )


def profile_training(arguments):
    config = PPOConfig()
    runs = [
        Run("craftax", "no_killing", "lagrangian", {"budget": 1}, seed=s, total_timesteps=10**8, config=config)
        for s in range(arguments.runs)
    ]
    program, members = prepare(runs)
    params = update.initial_params(program, members, [run.seed for run in runs])
    state = jax.jit(partial(update.init, program))(members, params)
    if "rollout" in arguments.only:
        runner = jax.jit(lambda m, s: update.rollout(program, m, s))
        profile(
            f"rollout, {arguments.runs} runs, per step", lambda: runner(members, state), config.num_steps, arguments.top
        )
    if "update" in arguments.only:
        updating = jax.jit(lambda m, s: update.update(program, m, s)).lower(members, state).compile()
        if arguments.hlo:
            arguments.hlo.write_text(updating.as_text())
        profile(f"update, {arguments.runs} runs", lambda: updating(members, state), 1, arguments.top)


if __name__ == "__main__":
    main()
