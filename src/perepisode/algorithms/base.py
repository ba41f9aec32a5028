"""The agent interface: a learning algorithm with its network, as functions of ONE run; the caller vmaps over runs.

    @register_agent
    class PPOGru(LearningAgent):
        name, config_type = "ppo_gru", PPOConfig
        diagnostics = ("entropy", "kl", "clip_fraction", "grad_norm", "value_loss")

        def init(self, seed, extra): ...                             # → params, drawn on the host
        def init_hidden_state(self, envs): ...                       # → what acting remembers
        def policy(self, params, progress=None): ...                 # → what `act` reads
        def act(self, policy, hidden_state, is_first, observation, features, keys): ...  # → PolicyOutput
        def init_optimizer(self, params): ...                        # → opt_state
        def learn(self, params, opt_state, hidden_state, batch, last_value, gamma, key, progress): ...

        training_only = ("critic",)                                  # parameters that are not exported

Training, evaluation, replays and exported agents know an agent only by this interface
(docs/tutorials/add-an-agent.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from perepisode import plugins, settings
from perepisode.algorithms import fitting
from perepisode.config import PPOConfig
from perepisode.environments.base import Environment, Observation
from perepisode.lazy import jax
from perepisode.methods.objective import ONE_STREAM, Streams
from perepisode.pytree import pytree

if TYPE_CHECKING:
    from perepisode.algorithms import network
else:
    from perepisode.lazy import lazy_module

    network = lazy_module("perepisode.algorithms.network")


@pytree
class PolicyOutput:
    """One step of an agent in every environment, [env, ...]."""

    action: jax.Array  # as the environment's step takes it
    hidden_state: Any  # before the next step
    value: jax.Array  # float32[env] or [env, stream], estimate of the discounted rewards from here
    stored: Any = ()  # what learning needs of this step besides


@pytree
class Batch:
    """A rollout as the learner receives it, [time, env, ...] for one run."""

    observation: Any
    features: Any  # the accrued observation, a `network.PaddedFeatures` where lengths differ
    is_first: jax.Array
    action: jax.Array
    stored: Any
    value: jax.Array
    reward: jax.Array  # with bootstrap_on_truncation plus the bootstrap value at a timeout
    done: jax.Array  # True if THIS step ended the episode


@dataclass(frozen=True)
class LearningAgent:
    """An agent for an environment: functions of arrays without a state of its own."""

    env: Environment
    config: Any  # hyperparameters, of `config_type`
    streams: Streams = ONE_STREAM  # the rewards that it learns from

    name: ClassVar[str]  # on the command line and in files
    config_type: ClassVar[type]  # a dataclass of settings; its `section` names them in run.json
    diagnostics: ClassVar[tuple[str, ...]] = ()  # entries of what `learn` returns that metrics.jsonl records
    training_only: ClassVar[tuple[str, ...]] = ()  # parameters that acting does not use, which are not exported
    input_kernels: ClassVar[str] = "embedding"  # parameter: a kernel per feature vector, then one for accrued inputs
    box_actions: ClassVar[bool] = False  # whether it can act in an environment with a `Box`
    several_streams: ClassVar[bool] = False  # whether it can learn from several rewards
    acts_with: ClassVar[tuple[str, ...]] = ("hidden_size", "precision")  # settings that acting depends on

    def init(self, seed: int, extra: int) -> Any:
        """Initial parameters on the host, with `extra` inputs for the accrued observation."""
        raise NotImplementedError

    def init_hidden_state(self, envs: int) -> Any:
        """The hidden state [env, ...] before the first step."""
        return ()

    def policy(self, params: Any, progress: jax.Array | None = None) -> Any:
        """What `act` reads, prepared once per rollout.

        `progress` is the share of training that is done; None in evaluation, where an agent need not explore.
        """
        return params

    def act(self, policy: Any, hidden_state: Any, is_first, observation: Observation, features, keys) -> PolicyOutput:
        """The next action in every environment, each with its own key; `is_first` marks the start of an episode,
        before which nothing may be remembered."""
        raise NotImplementedError

    def init_optimizer(self, params: Any) -> Any:
        raise NotImplementedError

    def learn(self, params: Any, opt_state: Any, hidden_state: Any, batch: Batch, last_value, gamma, key, progress):
        """One update from a rollout that began with this hidden state → parameters, optimizer state, diagnostics.

        The diagnostics contain `finite`: whether the run may continue.  An agent for several streams has a further
        argument, `mixture`, and `batch.reward`, `batch.value` and `last_value` have a last axis of streams.
        """
        raise NotImplementedError

    def widen(self, params: Any, extra: int) -> Any:
        """One run's parameters with `extra` accrued inputs; the inputs it does not have get zero weights."""
        kernels = getattr(params, self.input_kernels)
        return replace(params, **{self.input_kernels: network.widen(kernels, self.env, extra)})

    def narrow(self, params: Any, extra: int) -> Any:
        """The inverse of `widen`: one run's parameters without padding."""
        kernels = getattr(params, self.input_kernels)
        return replace(params, **{self.input_kernels: network.narrow(kernels, self.env, extra)})


AGENTS: dict[str, type[LearningAgent]] = {}
DEFAULT = "ppo_gru"  # the paper's; run ids do not mention it


def default_agent(env: type[Environment]) -> str:
    """The agent that the environment declares; the paper's if it declares PPO's settings; else one that fits."""
    if env.agent or env.ppo:
        return env.agent or DEFAULT
    return fitting.agent_for(env, fitting.device())


def default_config(env: type[Environment], agent: str) -> Any:
    """The agent's hyperparameters in this environment: declared, fitting, or their defaults."""
    config_type, declared = AGENTS[agent].config_type, env.agent_settings.get(agent, {})
    if config_type is not PPOConfig:
        return config_type(**declared)
    return replace(env.ppo or fitting.config_for(env, fitting.device()), **declared)


@dataclass_transform(frozen_default=True)
def register_agent(cls):
    """Make the class a frozen dataclass and register it by its name."""
    agent = dataclass(frozen=True)(cls)
    plugins.record_sources(agent)
    settings.declare("agent", agent, ("name", "config_type"), AGENTS)
    return agent
