"""Detector-only rollouts: trained agents act and detectors count, without reward shaping or enforcement.

One table serves two protocols: the paper's window (episodes that finish within `num_steps`), which is biased towards
short episodes, and the unbiased one (the first K episodes of every environment, however long they take).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from perepisode.algorithms import AGENTS
from perepisode.config import ConfigError, EvalConfig, canonical
from perepisode.environments import action_space, check_env
from perepisode.environments.base import EndCause
from perepisode.environments.episode_keys import hexadecimal
from perepisode.environments.reset_pool import episode_key, reset_key
from perepisode.evaluation import episodes
from perepisode.methods import Objective
from perepisode.runs import Run, flat_settings, versions
from perepisode.training import population, update
from perepisode.training.population import Population
from perepisode.training.train import acting_agent, load_params
from perepisode.zoo import AgentSource, find

CHUNK = 256  # steps in one jitted call
LOG_SECONDS = 20  # between two progress messages
MAX_STEPS = 16 * 4096  # episodes still running after this many steps are dropped with a warning


@dataclass(frozen=True)
class Agent:
    """A trained run with its weights."""

    run: Run
    weights: dict[str, np.ndarray]
    source: AgentSource | None = None  # where it was loaded from

    @classmethod
    def of(cls, source: AgentSource) -> Agent:
        return cls(*source.load(), source)

    @property
    def structure(self) -> str:
        """Agents with equal structure are evaluated by one program."""
        run = self.run
        acts_with = [getattr(run.config, name) for name in AGENTS[run.agent].acts_with]
        return canonical([run.env, dict(run.env_settings), run.agent, *acts_with])

    @property
    def files(self) -> dict[str, bytes]:
        return {} if self.source is None else self.run.files_from(self.source)

    @property
    def objective(self) -> Objective:
        return self.run.objective(self.files)


def accrued_obs_size(objective: Objective) -> int:
    """The number of network inputs that observe the accrued return and violations."""
    return jax.eval_shape(lambda o: o.features(population.Accrued.zeros(), env_inputs=1), objective).shape[-1]


def evaluate(
    paths: Sequence[str | Path],
    out: Path,
    num_envs: int = EvalConfig.num_envs,
    num_steps: int = EvalConfig.num_steps,
    episodes_per_env: int = EvalConfig.episodes_per_env,
    seed: int = EvalConfig.seed,
    log: Callable[[str], None] = print,
) -> Path:
    """Evaluate every finished agent in `paths`; runs that the table `out` already contains are skipped."""
    config = EvalConfig(num_envs, num_steps, episodes_per_env, seed).checked()
    existing = _read_existing(Path(out), config)
    agents = [Agent.of(source) for source in find_finished(paths, log)]
    for run, count in Counter(agent.run.id for agent in agents).items():
        if count > 1:
            raise ConfigError(
                f"run {run} is given {count} times, perhaps as a folder and as a file; evaluate one of them"
            )
    evaluated = set() if existing is None else set(existing["run"])
    if skipped := [agent for agent in agents if agent.run.id in evaluated]:
        log(f"{len(skipped)} of {len(agents)} agents are already in {out}; skipped")
    agents = [agent for agent in agents if agent.run.id not in evaluated]
    tables = [] if existing is None else [existing]
    ordered = sorted(agents, key=lambda agent: agent.structure)
    for _, group in groupby(ordered, key=lambda agent: agent.structure):
        group = list(group)
        methods = ", ".join(dict.fromkeys(agent.run.method for agent in group))
        log(f"evaluating {len(group)} agent{'s' * (len(group) > 1)} of {methods} on {group[0].run.env}")
        tables.append(evaluate_agents(group, config, log))
        provenance = {"protocol": vars(config), "versions": versions(), "device": jax.devices()[0].device_kind}
        episodes.write(pd.concat(tables, ignore_index=True), Path(out), provenance)
    return Path(out)


def find_finished(paths: Sequence[str | Path], log: Callable[[str], None]) -> list[AgentSource]:
    """The agents in these paths.  Unfinished runs in a folder of runs are skipped, one named itself is kept."""
    finished = []
    for path in paths:
        sources = find(path)
        named_itself = len(sources) == 1 and sources[0].path == Path(path)
        ready = [source for source in sources if source.done or named_itself]
        if len(ready) < len(sources):
            log(f"{len(sources) - len(ready)} of {len(sources)} runs below {path} are not finished; skipped")
        finished += ready
    if not finished:
        raise ConfigError(f"no finished run below {', '.join(map(str, paths))}; train a run first")
    return finished


def evaluate_agents(agents: Sequence[Agent], config: EvalConfig, log: Callable[[str], None] = print) -> pd.DataFrame:
    """Episodes table of agents with equal structure, evaluated by one program."""
    ranks = {run.id: rank for rank, run in enumerate(population.order([agent.run for agent in agents]))}
    agents = sorted(agents, key=lambda agent: ranks[agent.run.id])
    program, members, params = assemble(agents, config)
    stats, actions = collect(agent_actions, params, program, members, config, log)
    return _table(agents, config, program, members, stats, actions)


def collect(
    act: Callable, params: Any, program: update.Program, members: Population, config: EvalConfig, log=print
) -> tuple[population.EpisodeStats, np.ndarray]:
    """Roll out until the window is over and every environment has finished its first episodes.

    Returns the episode statistics and the actions of every step.  `act(program, members, params, runner)` returns
    actions [run, env] and the next hidden state; it can be any policy.
    """
    runner = jax.jit(partial(update.init_runner, program))(members)
    chunks, actions, steps, wanted = [], [], 0, config.episodes_per_env
    finished, logged = np.zeros(runner.episode_state.is_first.shape, int), time.monotonic()
    while steps < config.num_steps or (finished.min() < wanted and steps < max(MAX_STEPS, config.num_steps)):
        length = min(CHUNK, config.num_steps - steps) if steps < config.num_steps else CHUNK
        runner, (stats, action) = roll(act, program, length, members, params, runner)
        chunks.append(jax.device_get(stats))
        actions.append(np.asarray(action))
        finished += chunks[-1].ended.sum(axis=0)
        steps += length
        if time.monotonic() - logged > LOG_SECONDS:
            logged = time.monotonic()
            log(f"{np.minimum(finished, wanted).sum()} of {finished.size * wanted} episodes finished")
    if finished.min() < wanted:
        log(f"warning: some environments did not finish {wanted} episodes in {steps} steps; the rest is dropped")
    stats = jax.tree.map(lambda *x: np.concatenate(x), *chunks)
    for totals in (stats.totals.violations, stats.totals.paper_violations):
        check_env.check_totals(program.env, stats.ended, totals)
    return stats, np.concatenate(actions)


def agent_actions(program: update.Program, members: Population, params: Any, runner: update.RunnerState):
    """Actions of the trained agents."""
    choice = update.choose(program, members, jax.vmap(program.agent.policy)(params), runner)
    return choice.action, choice.hidden_state


def assemble(agents: Sequence[Agent], config: EvalConfig):
    """Program, population and stacked parameters of agents with equal structure, in the population's order."""
    first = agents[0].run
    trained = acting_agent(first)
    check_env.check(trained.env)
    program = update.Program(trained, config.num_envs, 1, min(config.num_envs, 64))
    files = {name: content for agent in agents for name, content in agent.files.items()}
    members = population.gather([agent.run for agent in agents], files)
    # runs with the same training seed play the same episodes, which pairs the comparison of methods
    keys = [jax.random.fold_in(jax.random.key(config.seed), agent.run.seed) for agent in agents]
    members = replace(members, keys=jnp.stack(keys), enforces=False)
    params = []
    for agent, extra in zip(agents, members.accrued_obs_sizes):
        own = load_params(agent.weights, trained.init(0, extra), trained.training_only)
        params.append(trained.widen(own, max(members.accrued_obs_sizes)))
    return program, members, jax.tree.map(lambda *x: jnp.stack(x), *params)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=5)
def roll(
    act: Callable, program: update.Program, length: int, members: Population, params: Any, runner: update.RunnerState
):
    """`length` steps of every environment: the runner after them; statistics and actions of each, [time, run, env]."""

    def body(runner, _):
        runner = update.reset_ended(program, members, runner)
        actions, hidden_state = act(program, members, params, runner)
        episode_state, stats = population.advance(program.env, members, runner.episode_state, actions)
        runner = update.RunnerState(episode_state, runner.reset_pool, hidden_state)
        return runner, (stats, actions.astype(action_space.stored_dtype(program.env.actions)))

    return jax.lax.scan(body, runner, length=length)


def _table(agents, config: EvalConfig, program, members: Population, stats, actions) -> pd.DataFrame:
    tables = []
    for index, agent in enumerate(agents):
        steps, envs = np.nonzero(stats.ended[:, index])
        order = np.lexsort((steps, envs))
        steps, envs = steps[order], envs[order]
        totals = jax.tree.map(lambda x, i=index, t=steps, e=envs: x[t, i, e], stats.totals)
        table = pd.DataFrame({**_run_columns(agent.run), "env_index": envs})
        table["episode_index"] = table.groupby("env_index").cumcount()
        table["in_window"] = steps < config.num_steps
        table["in_first"] = table["episode_index"] < config.episodes_per_env
        table["return"] = totals.accrued.task_return.astype(float)
        table["length"] = totals.length
        causes = stats.end_cause[steps, index, envs]
        table["end_cause"] = [EndCause(cause).name.lower() for cause in causes]
        table["utility"] = _utility(agent, totals.accrued)
        dilemmas = program.env.dilemmas
        table["violations"] = totals.violations[:, dilemmas.index(agent.run.dilemma)]
        for i, name in enumerate(dilemmas):
            table[f"violations_{name}"] = totals.violations[:, i]
            table[f"violations_{name}_paper"] = totals.paper_violations[:, i]
        for name, counts in totals.info.items():
            table[f"info_{name}"] = counts
        keys = jax.vmap(partial(episode_key, members.keys[index]))(jnp.asarray(totals.episode_id))
        for name, drawn in (("reset_key", jax.vmap(reset_key)(keys)), ("episode_key", keys)):
            table[name] = hexadecimal(np.asarray(jax.random.key_data(drawn)))
        table["actions"] = [
            actions[t - n + 1 : t + 1, index, e].tobytes() for t, e, n in zip(steps, envs, totals.length)
        ]
        tables.append(table[table["in_window"] | table["in_first"]])
    return pd.concat(tables, ignore_index=True)


def _run_columns(run: Run) -> dict[str, Any]:
    return {
        "run": run.id,
        "environment": run.env,
        "dilemma": run.dilemma,
        "method": run.method,
        "arm": run.arm,
        "value": run.value,
        "seed": run.seed,
        "gamma": run.gamma,
        "detector": run.detector,
        "total_timesteps": run.total_timesteps,
        "settings": json.dumps(flat_settings(run.to_json())),
    }


def _utility(agent: Agent, totals) -> np.ndarray:
    """Each episode's utility under the agent's own objective; NaN if it depends on a multiplier."""
    objective = agent.objective
    dual = objective.init_dual()
    if np.isfinite(objective.multiplier(dual)):
        return np.full(totals.task_return.shape, np.nan)
    return np.asarray(objective.episode_utility(dual, jax.tree.map(jnp.asarray, totals)), float)


def _read_existing(out: Path, config: EvalConfig) -> pd.DataFrame | None:
    """The existing table; ConfigError if its evaluation settings differ."""
    if not out.exists():
        return None
    table = episodes.read_raw(out)
    recorded = table.attrs["provenance"][0].get("protocol")
    if recorded != vars(config):
        raise ConfigError(f"{out} was evaluated with {recorded}, not {vars(config)}; choose another --out")
    return table
