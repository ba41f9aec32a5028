"""A per-episode budget for Gymnasium environments, single or vectorised.

    env = EpisodeBudget(gymnasium.make("MyEnv-v0"), budget=1)               # info["cost"] is the cost of a step
    envs = VectorEpisodeBudget(gymnasium.make_vec("MyEnv-v0", 64), budget=1)

- **Reward**: see `perepisode.wrappers.accounting`.  The rewards of an episode sum to the utility of its totals.
- **Observation**: the episode's return, its cost and the share of the return that still counts.  A vector (a Box with
  one axis) ends with them; a Dict gets them as its entry "accrued"; every other observation, such as an image, becomes
  Dict(observation=..., accrued=...).
- **Info**: `task_reward` and `cost` of the step, and `utility`, the sum of the rewards of the episode so far.
- **End**: a time limit ends an episode as everything else does (`terminated`), since the utility is that of the whole
  episode and nothing comes after it.  With `time_limit_ends=False` a trainer may bootstrap there.
- **Evaluation**: with `training=False` the reward is the task's own, and the observation stays that of training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.lazy import missing_message
from perepisode.methods import Accrued
from perepisode.wrappers.accounting import HIGH, KEY, LOW, Accounting, build

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode
except ModuleNotFoundError as error:
    needs = missing_message("perepisode.wrappers", [error.name or "gymnasium"], "gymnasium")
    raise ModuleNotFoundError(needs, name=error.name) from None

Box, Dict = gymnasium.spaces.Box, gymnasium.spaces.Dict
REWARD_WRAPPERS = (gymnasium.RewardWrapper, gymnasium.vector.VectorRewardWrapper)
CHANGE_REWARDS = ("NormalizeReward", "ClipRewardEnv")  # by name: in Gymnasium twice, in Stable-Baselines3
REPEAT_ACTIONS = {"MaxAndSkipObservation": "_skip", "MaxAndSkipEnv": "_skip", "AtariPreprocessing": "frame_skip"}


class _Extended:
    """The observations of a space, with what an episode has accrued."""

    def __init__(self, space: Any):
        accrued = Box(LOW, HIGH, dtype=np.float32)
        self.vector, self.dict = isinstance(space, Box) and len(space.shape) == 1, isinstance(space, Dict)
        if isinstance(space, Dict):
            if KEY in space.spaces:
                raise ConfigError(f"the observation has an entry {KEY!r} already: an environment is wrapped once")
            self.space = Dict({**space.spaces, KEY: accrued})
        elif self.vector:
            dtype: Any = np.result_type(space.dtype, np.float32)
            low, high = (np.append(of, own).astype(dtype) for of, own in ((space.low, LOW), (space.high, HIGH)))
            self.space = Box(low, high, dtype=dtype)
        else:
            self.space = Dict({"observation": space, KEY: accrued})

    def join(self, observation: Any, features: np.ndarray) -> Any:
        """An observation, or a batch of them."""
        if self.vector:
            return np.concatenate([observation, features], axis=-1, dtype=self.space.dtype)
        return {**(observation if self.dict else {"observation": observation}), KEY: features}


class _Episodes:
    """What the episode of each environment has accrued; `shape` is () for a single environment."""

    def __init__(self, accounting: Accounting, shape: tuple[int, ...]):
        self.accounting, self.shape = accounting, shape
        self.begin(np.ones(shape, bool))

    def begin(self, where: Any) -> None:
        if where.all():
            zeros: Any = np.zeros(self.shape)
            self.accrued, self.utility = Accrued(zeros, zeros), zeros
        elif where.any():
            kept = ~where
            self.accrued = Accrued(self.accrued.task_return * kept, self.accrued.violations * kept)
            self.utility = self.utility * kept

    def step(self, reward: Any, cost: Any) -> Any:
        valid = np.isfinite(cost) & (cost >= 0)
        if not valid.all():
            raise ConfigError(f"a step's cost is {cost[~valid].flat[0]}; costs are finite numbers from 0 on")
        self.accrued, gain = self.accounting.step(self.accrued, reward, cost)
        self.utility = self.utility + gain
        return gain

    @property
    def features(self) -> np.ndarray:
        return self.accounting.features(self.accrued)


class EpisodeBudget(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """One environment whose trainer is paid for whole episodes with at most `budget` of cost in each.

    `unit` is the smallest excess that counts as a breach: 1 for counts; for continuous costs a tenth of the budget, but
    not less than what a single step can cost.  `return_scale` is a typical return.  `cost` is the key of the cost in
    `info`.  `method` names another method of `perepisode.methods` that is a function of what has accrued ("saute";
    "ser_racc", "ser" and "esr_distilled" with budget=None); further keywords are its settings, of ESR `rho_u` (the
    reward that a violation costs within the budget, too) and `sharpness`.
    """

    def __init__(
        self,
        env: Any,
        budget: float | None = 1,
        *,
        unit: float = 1.0,
        method: Any = "esr",
        return_scale: float = 50.0,
        cost: str = "cost",
        training: bool = True,
        time_limit_ends: bool = True,
        **settings: Any,
    ):
        gymnasium.utils.RecordConstructorArgs.__init__(
            self, budget=budget, unit=unit, method=method, return_scale=return_scale, cost=cost, training=training,
            time_limit_ends=time_limit_ends, **settings,
        )  # fmt: skip
        if not isinstance(env, gymnasium.Env):
            what = (
                "is a vector: use VectorEpisodeBudget"
                if isinstance(env, gymnasium.vector.VectorEnv)
                else "is no Gymnasium environment: wrap each environment before a trainer vectorises it"
            )
            raise ConfigError(f"{type(env).__name__} {what}")
        super().__init__(env)
        _check_inside(layers(env))
        self._extended = _Extended(env.observation_space)
        self.observation_space = self._extended.space
        self._episodes = _Episodes(build(method, budget, unit, return_scale, settings), ())
        self._cost, self._training, self._time_limit_ends = cost, training, time_limit_ends
        self._resets_itself = any(type(layer).__name__ == "Autoreset" for layer in layers(env))
        self._over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = self.env.reset(seed=seed, options=options)
        self._begin()
        return self._extended.join(observation, self._episodes.features), info

    def step(self, action: Any):
        if self._over and not self._resets_itself:
            raise ConfigError("step() after the end of an episode: begin the next one with reset()")
        begins = self._over
        observation, reward, terminated, truncated, info = self.env.step(action)
        info = dict(info)
        if begins:  # Gymnasium's Autoreset inside: this step only began the next episode
            self._begin()
            gain = reward = 0.0
        else:
            _check_scalar(reward, 0)
            _check_present(self._cost in info, self._cost, info)
            _check_task_reward(reward, info.get("task_reward", reward))
            gain = float(self._episodes.step(np.float64(reward), np.float64(info[self._cost])))
            self._over = bool(terminated or truncated)
            info |= {"task_reward": float(reward), "cost": info[self._cost], "utility": float(self._episodes.utility)}
        observation = self._extended.join(observation, self._episodes.features)
        terminated = bool(terminated or (truncated and self._time_limit_ends))
        return observation, gain if self._training else float(reward), terminated, bool(truncated), info

    def _begin(self) -> None:
        self._episodes.begin(np.True_)
        self._over = False


class VectorEpisodeBudget(gymnasium.vector.VectorWrapper):
    """Many environments, in any of Gymnasium's autoreset modes; the arguments are those of `EpisodeBudget`."""

    def __init__(
        self,
        env: Any,
        budget: float | None = 1,
        *,
        unit: float = 1.0,
        method: Any = "esr",
        return_scale: float = 50.0,
        cost: str = "cost",
        training: bool = True,
        time_limit_ends: bool = True,
        **settings: Any,
    ):
        if not isinstance(env, gymnasium.vector.VectorEnv):
            raise ConfigError(f"{type(env).__name__} is no Gymnasium vector; use EpisodeBudget for one environment")
        super().__init__(env)
        _check_inside([*layers(env), *(layer for one in getattr(env.unwrapped, "envs", ()) for layer in layers(one))])
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._extended = _Extended(env.single_observation_space)
        self.single_observation_space = self._extended.space
        self.observation_space = gymnasium.vector.utils.batch_space(self._extended.space, env.num_envs)
        self._episodes = _Episodes(build(method, budget, unit, return_scale, settings), (env.num_envs,))
        self._cost, self._training, self._time_limit_ends = cost, training, time_limit_ends
        self._over = np.zeros(env.num_envs, bool)  # ended in the step before, and not begun anew yet

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None):
        begins = np.array((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))  # Gymnasium pops it
        observation, info = self.env.reset(seed=seed, options=options)
        self._episodes.begin(begins)
        self._over &= ~begins
        return self._extended.join(observation, self._episodes.features), info

    def step(self, actions: Any):
        if self._mode is AutoresetMode.DISABLED and self._over.any():
            raise ConfigError(
                f"environments {np.flatnonzero(self._over).tolist()} have ended: begin their next episodes with "
                "reset(options={'reset_mask': mask})"
            )
        begins = self._over  # NEXT_STEP: there this step only begins the next episode, at no reward and no cost
        observation, reward, terminated, truncated, info = self.env.step(actions)
        _check_scalar(reward, 1)
        ended, info = np.logical_or(terminated, truncated), dict(info)
        own = self._of_the_step(info, ended, ~begins, np.asarray(reward, float))
        self._episodes.begin(begins)
        gain = self._episodes.step(own["task_reward"], own["cost"])
        own["utility"] = self._episodes.utility.copy()
        for name, values in own.items():
            info |= {name: values, f"_{name}": ~begins}
        if self._mode is AutoresetMode.SAME_STEP:
            self._add_final(info, ended, own)
            self._episodes.begin(ended)
        else:
            self._over = ended
        observation = self._extended.join(observation, self._episodes.features)
        terminated = np.logical_or(terminated, truncated) if self._time_limit_ends else terminated
        return observation, gain if self._training else own["task_reward"].copy(), terminated, truncated, info

    def _of_the_step(self, info: dict[str, Any], ended: Any, played: Any, reward: Any) -> dict[str, np.ndarray]:
        """Task reward and cost of every environment that played, 0 elsewhere."""
        cost, known = self._read(info, self._cost, ended)
        _check_present((known | ~played).all(), self._cost, info)
        reward = np.where(played, reward, 0.0)
        stated, known = self._read(info, "task_reward", ended)
        _check_task_reward(reward, np.where(known & played, stated, reward))
        return {"task_reward": reward, "cost": np.where(played, cost, 0.0)}

    def _read(self, info: dict[str, Any], key: str, ended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An entry of info, and where it is stated; SAME_STEP keeps that of an episode's last step in `final_info`."""
        values, known = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        final = info.get("final_info", {}) if self._mode is AutoresetMode.SAME_STEP else {}
        sources = ((info, ~ended if key in final else True), (final, ended))
        for source, where in sources:
            if key in source:
                there = np.asarray(source.get(f"_{key}", True)) & where
                values[there] = np.asarray(source[key])[there].astype(float)
                known |= there
        return values, known

    def _add_final(self, info: dict[str, Any], ended: np.ndarray, own: dict[str, np.ndarray]) -> None:
        """SAME_STEP: the episodes that ended, in `final_obs` and `final_info`, where Gymnasium keeps them."""
        if not ended.any():
            return
        if "final_obs" in info:
            final, last = self._episodes.features, np.full(self.num_envs, None, object)
            for index in np.flatnonzero(ended):
                last[index] = self._extended.join(info["final_obs"][index], final[index])
            info["final_obs"] = last
        last = {name: np.where(ended, values, 0.0) for name, values in own.items()}
        info["final_info"] = {**info.get("final_info", {}), **last, **{f"_{name}": ended.copy() for name in last}}
        info["_final_info"] = ended.copy()


def layers(env: Any) -> Iterator[Any]:
    """An environment and all wrappers around it, the outermost first."""
    while env is not None:
        yield env
        env = env.__dict__.get("env")


def _check_inside(layers: Any) -> None:
    for layer in layers:
        name = type(layer).__name__
        if isinstance(layer, EpisodeBudget | VectorEpisodeBudget):
            raise ConfigError("the environment has a budget already: wrap it once")
        if isinstance(layer, REWARD_WRAPPERS) or name in CHANGE_REWARDS:
            raise ConfigError(f"{name} inside changes the rewards that R adds up: put it outside EpisodeBudget")
        if getattr(layer, REPEAT_ACTIONS.get(name, ""), 1) > 1:
            raise ConfigError(
                f"{name} inside sums rewards but keeps the last frame's cost: put it outside EpisodeBudget"
            )


def _check_scalar(reward: Any, axes: int) -> None:
    if np.ndim(reward) != axes:
        raise ConfigError(
            f"the reward has shape {np.shape(reward)}: a budget is about one task, whose reward is a scalar"
        )


def _check_present(present: Any, key: str, info: dict[str, Any]) -> None:
    if not present:
        found = ", ".join(name for name in info if not str(name).startswith("_")) or "nothing"
        raise ConfigError(f"a step's info has no {key!r}, only {found}: name its cost with cost=")


def _check_task_reward(reward: Any, stated: Any) -> None:
    differs = np.atleast_1d(~np.isclose(reward, stated, rtol=1e-4, atol=1e-6))
    if differs.any():
        reward, stated = (np.atleast_1d(of)[differs][0] for of in (reward, stated))
        raise ConfigError(
            f"a reward is {reward:g} where info['task_reward'] is {stated:g}: a budget needs the task's own reward; "
            "environments of perepisode have it with reward='task'"
        )
