"""Detector-only rollouts: trained agents act, the detectors count, nothing is rewarded and nothing is ended.

Two protocols in one table: the paper's window (episodes that finish within `steps`), which favours short episodes,
and the unbiased one (the first K episodes of every world, however long they take).
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

from perepisode import environments
from perepisode.config import ConfigError, EvalConfig, canonical
from perepisode.environments import check_env
from perepisode.environments.base import EndCause, action_dtype
from perepisode.environments.reset_pool import episode_key, reset_key
from perepisode.evaluation import episodes
from perepisode.methods import Objective
from perepisode.runs import Run, flat_settings, versions
from perepisode.training import network, population, ppo
from perepisode.training.population import Population
from perepisode.training.train import load_params
from perepisode.zoo import AgentSource, find

CHUNK = 256  # steps in one jitted call
TELL_SECONDS = 20  # between two signs of life
PATIENCE = 16 * 4096  # steps after which episodes still running are left out, and said to be


@dataclass(frozen=True)
class Agent:
    """A trained run, loaded."""

    run: Run
    weights: dict[str, np.ndarray]
    trained: AgentSource | None = None  # where it was loaded from

    @classmethod
    def of(cls, trained: AgentSource) -> Agent:
        return cls(*trained.load(), trained)

    @property
    def structure(self) -> str:
        """Agents with equal structure are judged by one program."""
        config = self.run.ppo
        return canonical([self.run.env, dict(self.run.env_settings), config.hidden_size, config.precision])

    @property
    def files(self) -> dict[str, bytes]:
        return {} if self.trained is None else self.run.files_from(self.trained)

    @property
    def objective(self) -> Objective:
        return self.run.objective(self.files)


def accrued_obs_size(objective: Objective) -> int:
    """How many inputs tell an agent what it has accrued."""
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
    """Judge every finished agent that `paths` name; runs already in the table `out` are left as they are."""
    protocol = EvalConfig(num_envs, num_steps, episodes_per_env, seed).checked()
    known = _known(Path(out), protocol)
    agents = [Agent.of(trained) for trained in finished(paths, log)]
    for run, twice in Counter(agent.run.id for agent in agents).items():
        if twice > 1:
            raise ConfigError(
                f"run {run} is given {twice} times, perhaps as a folder and as a file; judge one at a time"
            )
    judged = set() if known is None else set(known["run"])
    if here := [agent for agent in agents if agent.run.id in judged]:
        log(f"{len(here)} of {len(agents)} agents are in {out} already and are left as they are")
    agents = [agent for agent in agents if agent.run.id not in judged]
    tables = [] if known is None else [known]
    ordered = sorted(agents, key=lambda agent: agent.structure)
    for _, group in groupby(ordered, key=lambda agent: agent.structure):
        group = list(group)
        methods = ", ".join(dict.fromkeys(agent.run.method for agent in group))
        log(f"judging {len(group)} agent{'s' * (len(group) > 1)} of {methods} on {group[0].run.env}")
        tables.append(evaluate_agents(group, protocol, log))
        about = {"protocol": vars(protocol), "versions": versions(), "device": jax.devices()[0].device_kind}
        episodes.write(pd.concat(tables, ignore_index=True), Path(out), about)
    return Path(out)


def finished(paths: Sequence[str | Path], log: Callable[[str], None]) -> list[AgentSource]:
    """What these name.  In a folder of runs the unfinished are passed over; one named by itself is not."""
    found = []
    for path in paths:
        all_ = find(path)
        alone = len(all_) == 1 and all_[0].path == Path(path)
        ready = [one for one in all_ if one.done or alone]
        if len(ready) < len(all_):
            log(f"{len(all_) - len(ready)} of {len(all_)} runs below {path} are not finished; passed over")
        found += ready
    if not found:
        raise ConfigError(f"no finished run below {', '.join(map(str, paths))}; train a run first")
    return found


def evaluate_agents(agents: Sequence[Agent], protocol: EvalConfig, log: Callable[[str], None] = print) -> pd.DataFrame:
    """Episodes of agents that share structure, in one program."""
    places = {run.id: place for place, run in enumerate(population.order([agent.run for agent in agents]))}
    agents = sorted(agents, key=lambda agent: places[agent.run.id])
    program, members, params = assemble(agents, protocol)
    record, actions = collect(network_actions, params, program, members, protocol, log)
    return _table(agents, protocol, program, members, record, actions)


def collect(
    act: Callable, params: Any, program: ppo.Program, members: Population, protocol: EvalConfig, log=print
) -> tuple[population.EpisodeStats, np.ndarray]:
    """Roll out until the window is over and every world has had its first episodes → record and actions of each step.

    `act(program, members, params, acting)` gives actions [run, env] and the next memory; any policy will do.
    """
    runner = jax.jit(partial(ppo.init_runner, program))(members)
    records, actions, done = [], [], 0
    finished, told = np.zeros(runner.episode_state.is_first.shape, int), time.monotonic()
    while done < protocol.num_steps or (
        finished.min() < protocol.episodes_per_env and done < max(PATIENCE, protocol.num_steps)
    ):
        length = min(CHUNK, protocol.num_steps - done) if done < protocol.num_steps else CHUNK
        runner, (record, action) = roll(act, program, length, members, params, runner)
        records.append(jax.device_get(record))
        actions.append(np.asarray(action))
        finished += records[-1].ended.sum(axis=0)
        done += length
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            played = np.minimum(finished, protocol.episodes_per_env).sum()
            log(f"{played} of {finished.size * protocol.episodes_per_env} episodes played")
    if finished.min() < protocol.episodes_per_env:
        log(
            f"warning: some worlds did not finish {protocol.episodes_per_env} episodes in {done} steps; theirs are left out"
        )
    record = jax.tree.map(lambda *x: np.concatenate(x), *records)
    for totals in (record.totals.violations, record.totals.paper_violations):
        check_env.check_totals(program.env, record.ended, totals)
    return record, np.concatenate(actions)


def network_actions(program: ppo.Program, members: Population, params: network.Params, runner: ppo.RunnerState):
    """The trained, stochastic policy."""
    policy_output = ppo.choose(program, members, params, runner)
    return policy_output.action, policy_output.hidden_state


def assemble(agents: Sequence[Agent], protocol: EvalConfig):
    """Program, population and stacked parameters of agents that share structure, in the population's order."""
    first = agents[0].run
    env = check_env.check(environments.make(first.env, **first.env_settings))
    config = replace(first.ppo, num_envs=protocol.num_envs, num_minibatches=1)
    program = ppo.Program(env, config, 1, min(protocol.num_envs, 64))
    files = {name: content for agent in agents for name, content in agent.files.items()}
    members = population.gather([agent.run for agent in agents], files)
    # every run of one training seed meets the same worlds, so that methods are compared on common ground
    keys = [jax.random.fold_in(jax.random.key(protocol.seed), agent.run.seed) for agent in agents]
    members = replace(members, keys=jnp.stack(keys), enforces=False)
    params = []
    for agent, extra in zip(agents, members.accrued_obs_sizes):
        like = network.init(0, network.input_sizes(env, extra), config.hidden_size, env.actions)
        params.append(network.widen(load_params(agent.weights, like), env, max(members.accrued_obs_sizes)))
    return program, members, jax.tree.map(lambda *x: jnp.stack(x), *params)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=5)
def roll(act: Callable, program: ppo.Program, length: int, members: Population, params: Any, runner: ppo.RunnerState):
    """`length` steps of every world; the record and the actions of each, [time, run, env]."""

    def body(runner, _):
        runner = ppo.reset_ended(program, members, runner)
        actions, hidden_state = act(program, members, params, runner)
        episode_state, _, record = population.advance(
            program.env, members, members.init_duals(), runner.episode_state, actions
        )
        return ppo.RunnerState(episode_state, runner.reset_pool, hidden_state), (
            record,
            actions.astype(action_dtype(program.env)),
        )

    return jax.lax.scan(body, runner, length=length)


def _table(agents, protocol: EvalConfig, program, members: Population, record, actions) -> pd.DataFrame:
    tables = []
    for index, agent in enumerate(agents):
        when, where = np.nonzero(record.ended[:, index])
        order = np.lexsort((when, where))
        when, where = when[order], where[order]
        totals = jax.tree.map(lambda x, i=index, t=when, e=where: x[t, i, e], record.totals)
        table = pd.DataFrame({**_constants(agent.run), "env_index": where})
        table["episode_index"] = table.groupby("env_index").cumcount()
        table["in_window"] = when < protocol.num_steps
        table["in_first"] = table["episode_index"] < protocol.episodes_per_env
        table["return"] = totals.accrued.task_return.astype(float)
        table["length"] = totals.length
        causes = record.end_cause[when, index, where]
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
        table["reset_key"] = _hex(jax.vmap(reset_key)(keys))
        table["policy_key"] = _hex(keys)
        table["actions"] = [
            actions[t - n + 1 : t + 1, index, e].tobytes() for t, e, n in zip(when, where, totals.length)
        ]
        tables.append(table[table["in_window"] | table["in_first"]])
    return pd.concat(tables, ignore_index=True)


def _constants(run: Run) -> dict[str, Any]:
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
    """Each episode's worth under the agent's own objective; NaN where that depends on a multiplier."""
    objective = agent.objective
    dual = objective.init_dual()
    if np.isfinite(objective.multiplier(dual)):
        return np.full(totals.task_return.shape, np.nan)
    return np.asarray(objective.episode_utility(dual, jax.tree.map(jnp.asarray, totals)), float)


def _hex(keys: jax.Array) -> list[str]:
    return [bytes(row).hex() for row in np.asarray(jax.random.key_data(keys)).astype(">u4").view(np.uint8)]


def _known(out: Path, protocol: EvalConfig) -> pd.DataFrame | None:
    """What is already in the table, if it was judged by the same protocol."""
    if not out.exists():
        return None
    table = episodes.read_raw(out)
    made_by = table.attrs["provenance"][0].get("protocol")
    if made_by != vars(protocol):
        raise ConfigError(f"{out} was made by the protocol {made_by}, not {vars(protocol)}; choose another --out")
    return table
