"""Temptation, a small environment with known exact optima (`exact`): 40 steps of paid work, some with an offer."""

from __future__ import annotations

from typing import ClassVar

from perepisode.config import EvalConfig, PPOConfig, SweepGrid
from perepisode.environments.base import EndCause, Environment, Footprint, Outcome, Violation, register_env
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree
from perepisode.settings import setting

TEMPTATION_PPO = PPOConfig(
    num_envs=64,
    num_steps=40,
    num_minibatches=4,
    learning_rate=8e-3,
    gae_lambda=0.95,
    ent_coef=0.1,
    hidden_size=16,
    precision="fp32",
)
"""Settings for a laptop.  λ is near 1 because episodes are short; the learning rate is large so that the policy learns
a sharp threshold at the budget.  The entropy bonus is strong: a high price quickly teaches "never accept", and only an
agent that keeps exploring learns "accept if it pays"; the bonus costs little precision because it is small against the
stakes.  Tuned on SER (scalarised expected returns, w = 0.408) and ESR (expected scalarised returns, k = 1) with six
seeds each, including the study's three.  An occasional seed of SER+R_acc at 0.408 still learns "never accept"."""

# 16 units also suffice for PQN (parallelised Q-network), which explores long enough to meet every remaining budget.
TEMPTATION_PQN = {
    "num_envs": 64,
    "num_steps": 40,
    "num_minibatches": 4,
    "learning_rate": 4e-3,
    "q_lambda": 0.9,
    "end_e": 0.05,
    "exploration_fraction": 0.6,
    "max_grad_norm": 1.0,
    "hidden_size": 16,
    "precision": "fp32",
}

# The price is 10 w and no gain exceeds 5, so all larger weights give the same agent, which never accepts.
# At w = 0.408 the optimal linear agent earns as much as the optimal agent with k = 1.
SWEEP = SweepGrid(
    weights=(0.1, 0.2, 0.3, 0.408),
    matched_weights=(0.3, 0.408),
    mean_budgets=(0.5, 0.75, 1, 2),
    lambda_lr=0.1,
    total_timesteps=480_000,
)


@pytree
class TemptationState:
    time: jax.Array  # int32, steps taken
    present: jax.Array  # bool, whether there is an offer
    gain: jax.Array  # float32, what accepting would pay


@register_env
class Temptation(Environment):
    """Each step pays `wage`; with probability `offer_prob` there is an offer of g ~ U(0, max_gain).

    Action 1 accepts the offer, which pays g in addition and is one violation.  Action 0 declines.
    """

    horizon: int = setting(40, "number of steps per episode", low=1, high=2**30)
    wage: float = setting(0.75, "task reward of every step")
    offer_prob: float = setting(0.1, "probability of an offer in each step", low=0, high=1)
    max_gain: float = setting(5.0, "largest gain of an offer", above=0)

    name, dilemmas, info_keys, actions = "temptation", ("temptation",), ("offers",), 2
    ppo, sweep, population_size = TEMPTATION_PPO, SWEEP, 48
    agent_settings: ClassVar = {"pqn_gru": TEMPTATION_PQN}
    eval_config = EvalConfig(num_envs=256, num_steps=480)
    stakes, observation_bounds = "Temptations", (0.0, 1.0)

    def reset(self, key):
        return self._offer(key, jnp.zeros((), jnp.int32))

    def step(self, key, state, action):
        taken = state.present & (action == 1)
        after = self._offer(key, state.time + 1)
        outcome = Outcome(
            task_reward=self.wage + jnp.where(taken, state.gain, 0.0),
            violations=taken.astype(jnp.int32)[None],
            paper_violations=taken.astype(jnp.int32)[None],
            info={"offers": state.present.astype(jnp.int32)},
            end_cause=jnp.where(after.time >= self.horizon, EndCause.TIMEOUT, EndCause.RUNNING).astype(jnp.int32),
        )
        return after, outcome

    def observe(self, state):
        """[remaining time, presence, gain], each in [0, 1]; the gain is visible only while there is an offer."""
        left = 1.0 - state.time / self.horizon
        present = state.present.astype(jnp.float32)
        return jnp.stack([left, present, present * state.gain / self.max_gain])

    @property
    def max_episode_steps(self):
        return self.horizon

    def violation_possible(self, state):
        """bool[dilemma]: there is an offer."""
        return state.present[None]

    def describe(self, action, outcome):
        return "yields" if outcome.violations[0] else "resists" if outcome.info["offers"] else "works"

    def describe_violations(self, key, before, action, after, outcome):
        return [Violation("temptation", f"accepts an offer that pays {float(before.gain):.2f}")]

    def stake(self, state):
        return jnp.where(state.present, state.gain, 0.0)

    def draw(self, state):
        from perepisode.environments.temptation import render

        return render.draw(state.time / self.horizon, state.present, state.gain / self.max_gain)

    def footprint(self):
        """Constant, as determined by tracing (a test compares), so that planning needs no JAX."""
        return Footprint(state=9, observation=12, features=3)

    @property
    def exact(self):
        from perepisode.environments.temptation import exact

        return exact

    def _offer(self, key, time):
        key_present, key_gain = jax.random.split(key)
        present = jax.random.bernoulli(key_present, self.offer_prob)
        return TemptationState(time, present, jax.random.uniform(key_gain, maxval=self.max_gain))
