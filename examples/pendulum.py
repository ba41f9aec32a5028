"""A pendulum that must not swing too fast: continuous actions, from gymnax, with a detector.

Pendulum-v1 applies a torque between -2 and 2 to swing a pendulum up and hold it there.  Every step that ends with more
than six radians per second is a violation.  examples/README.md has the commands.
"""

import jax.numpy as jnp
from gymnax.environments.classic_control import pendulum

from perepisode.config import EvalConfig, PPOConfig
from perepisode.environments.gymnax_adapter import from_gymnax

LIMIT = 6.0  # radians per second
COSTLIEST = jnp.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2  # of a step: hanging, at full speed and torque


class Swing(pendulum.Pendulum):
    """Pays 0 to 0.05 per step, since breaking a budget would cancel a negative return."""

    def step_env(self, key, state, action, params):
        observation, after, reward, done, info = super().step_env(key, state, action, params)
        return observation, after, (1.0 + reward / COSTLIEST) / 20, done, info


def speeding(before, action, after, info):
    return jnp.abs(after.theta_dot) > LIMIT


def describe(self, action, outcome):
    return f"torque {action[0]:+.2f}" + ", too fast" * bool(outcome.violations[0])


def draw(state):
    """A rod of 24 pixels that ends in a disc; upwards is the goal."""
    row, column = jnp.mgrid[-32:32, -32:32]
    along = column * jnp.sin(state.theta) - row * jnp.cos(state.theta)
    across = column * jnp.cos(state.theta) + row * jnp.sin(state.theta)
    rod = (jnp.abs(across) < 2) & (along > 0) & (along < 24)
    disc = (along - 24) ** 2 + across**2 < 25
    colours = jnp.array([[245, 245, 245], [110, 110, 110], [40, 90, 170]])
    return colours[jnp.where(disc, 2, rod)].astype(jnp.uint8)


Pendulum = from_gymnax(
    env := Swing(),
    env.default_params,
    detectors=speeding,
    draw=draw,
    name="pendulum",
    violation_names={"speeding": "steps above six radians per second"},
    describe=describe,
    agent="ppo_mlp",
    ppo=PPOConfig(num_envs=64, num_steps=50, num_minibatches=4, update_epochs=8, learning_rate=1e-3, gae_lambda=0.95,
                  ent_coef=0.0, hidden_size=64, precision="fp32"),
    total_timesteps=500_000,
    eval_config=EvalConfig(num_envs=64, num_steps=2400),
)  # fmt: skip
