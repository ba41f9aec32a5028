"""The miniature: forty working steps, now and then a temptation.  Its exact optima stand in `exact`."""

from __future__ import annotations

from perepisode.config import EvalConfig, PPOConfig, SweepGrid
from perepisode.environments.base import EndCause, Environment, Footprint, Outcome, register_env
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree
from perepisode.settings import setting

MINIATURE = PPOConfig(
    num_envs=64,
    num_steps=40,
    num_minibatches=4,
    learning_rate=8e-3,
    gae_lambda=0.95,
    ent_coef=0.1,
    hidden_size=16,
    precision="fp32",
)
"""For a laptop.  Small; λ near 1 because episodes are short; a large step size for a sharp edge at the budget.  And a
strong entropy bonus: a high price soon teaches "never", and only an agent that still tries learns "only if it pays"; it
costs little precision, because what is at stake in a choice is large against it.  Chosen on SER(0.408) and ESR(k=1),
six seeds each, the study's three among them; now and then a seed of SER + R_acc at 0.408 still stays at "never"."""

# Prices are 10 w and no gain is above 5: heavier weights would all give the same agent, which takes nothing.
# w = 0.408 is the price at which a linear agent earns what the best k = 1 agent earns.
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
    present: jax.Array  # bool, whether this step tempts
    gain: jax.Array  # float32, what yielding would pay now


@register_env
class Temptation(Environment):
    """Each step pays `wage`; with probability `chance` a temptation of g ~ U(0, gain) appears.

    Action 1 takes it: it pays g on top and is one violation.  Action 0 works on.
    """

    horizon: int = setting(40, "steps of an episode", low=1, high=2**30)
    wage: float = setting(0.75, "what each step pays")
    offer_prob: float = setting(0.1, "how often a step tempts", low=0, high=1)
    max_gain: float = setting(5.0, "the most that yielding pays", above=0)

    name, dilemmas, info_keys, actions = "temptation", ("temptation",), ("offers",), 2
    ppo, sweep, population_size = MINIATURE, SWEEP, 48
    eval_config = EvalConfig(num_envs=256, num_steps=480)
    stakes = "Temptations"

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
        """[time left, presence, gain], each in [0, 1]; the gain is seen only while a temptation is there."""
        left = 1.0 - state.time / self.horizon
        present = state.present.astype(jnp.float32)
        return jnp.stack([left, present, present * state.gain / self.max_gain])

    @property
    def max_episode_steps(self):
        return self.horizon

    def violation_possible(self, state):
        """bool[dilemma]: a temptation is there to be taken."""
        return state.present[None]

    def describe(self, action, outcome):
        return "yields" if outcome.violations[0] else "resists" if outcome.info["offers"] else "works"

    def stake(self, state):
        return jnp.where(state.present, state.gain, 0.0)

    def footprint(self):
        """As tracing finds it (a test compares): planning needs no JAX."""
        return Footprint(state=9, observation=12, features=3)

    @property
    def exact(self):
        from perepisode.environments.temptation import exact

        return exact

    def _offer(self, key, time):
        key_present, key_gain = jax.random.split(key)
        present = jax.random.bernoulli(key_present, self.offer_prob)
        return TemptationState(time, present, jax.random.uniform(key_gain, maxval=self.max_gain))
