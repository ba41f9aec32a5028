"""The Lagrangian with a proportional-integral-derivative (PID) controlled multiplier."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods.objective import ConstraintType, Objective, cost, register_method, task_reward
from perepisode.pytree import pytree
from perepisode.settings import setting


@pytree
class PidDual:
    integral: jax.Array
    smoothed: jax.Array  # exponential moving average of the error
    history: jax.Array  # recent mean costs, newest last
    multiplier: jax.Array


@register_method
class PidLagrangian(Objective):
    """PID control of λ; dividing the reward by (1 + λ) keeps its scale constant."""

    budget: jax.Array | float = setting(help="d, mean violations allowed per episode", low=0)
    kp: jax.Array | float = setting(0.1, "K_P, gain of the smoothed error", low=0)
    ki: jax.Array | float = setting(0.01, "K_I, gain of the integrated error", low=0)
    kd: jax.Array | float = setting(0.01, "K_D, gain of the increase in mean cost", low=0)

    name, label, colour, marker = "pid_lagrangian", "PID Lagrangian", "#804e00", "<"
    swept, symbol, constraint = "budget", "d", ConstraintType.MEAN
    explanation = (
        "a Lagrangian whose price is set by a proportional-integral-derivative (PID) controller, for a mean "
        "of d violations per episode."
    )

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
        updated = PidDual(integral, smoothed, jnp.append(dual.history[1:], mean_cost), multiplier)
        return finished.select(updated, dual)

    def multiplier(self, dual):
        return dual.multiplier
