"""PPO-PID: PPO-Lag with a proportional-integral-derivative (PID) controlled multiplier (Stooke et al., 2020)."""

from __future__ import annotations

from perepisode.methods.cost_critic import CostCritic
from perepisode.methods.objective import register_method
from perepisode.methods.pid_lagrangian import PidLagrangian


@register_method
class PPOPid(CostCritic, PidLagrangian):
    """A = (A_r - λ A_c) / (1 + λ), where λ is the output of the controller in `pid_lagrangian`."""

    name, label, colour, marker = "ppo_pid", "PPO-PID", "", ""
    explanation = (
        "PPO-Lag whose price is set by a proportional-integral-derivative (PID) controller, for a mean of d violations "
        "per episode."
    )
