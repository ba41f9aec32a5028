"""The Lagrangian with its multiplier under PID control."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods.objective import ConstraintType, Objective, cost, register_method, task_reward
from perepisode.pytree import pytree
from perepisode.settings import setting


@pytree
class PidDual:
    integral: jax.Array
    smoothed: jax.Array  # exponential mean of the error
    history: jax.Array  # recent mean costs, newest last
    multiplier: jax.Array


@register_method
class PidLagrangian(Objective):
    """PID control of λ; the reward is divided by (1 + λ) so that its scale stays put."""

    budget: jax.Array | float = setting(help="d, violations an episode on average", low=0)
    kp: jax.Array | float = setting(0.1, "gain on the smoothed error", low=0)
    ki: jax.Array | float = setting(0.01, "gain on the summed error", low=0)
    kd: jax.Array | float = setting(0.01, "gain on the rise of the mean cost", low=0)

    name, label, colour, marker = "pid_lagrangian", "PID Lagrangian", "#804e00", "<"
    swept, symbol, constraint = "budget", "d", ConstraintType.MEAN

    def init_dual(self):
        return PidDual(jnp.zeros(()), jnp.zeros(()), jnp.full((10,), self.budget, jnp.float32), jnp.zeros(()))

    def reward(self, dual, before, after):
        return (task_reward(before, after) - dual.multiplier * cost(before, after)) / (1.0 + dual.multiplier)

    def next_dual(self, dual, finished):
        mean_cost = finished.mean(finished.violations, otherwise=dual.history[-1])
        error = mean_cost - self.budget
        integral = jnp.maximum(0.0, dual.integral + self.ki * error)
        smoothed = 0.95 * dual.smoothed + 0.05 * error
        slope = jnp.maximum(0.0, mean_cost - dual.history[0])
        multiplier = jnp.maximum(0.0, self.kp * smoothed + integral + self.kd * slope)
        moved = PidDual(integral, smoothed, jnp.append(dual.history[1:], mean_cost), multiplier)
        return finished.select(moved, dual)

    def multiplier(self, dual):
        return dual.multiplier
