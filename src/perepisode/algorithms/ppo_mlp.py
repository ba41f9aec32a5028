"""PPO-MLP: PPO with a feed-forward network, several times cheaper, for environments that need no memory."""

from __future__ import annotations

from perepisode.algorithms.base import register_agent
from perepisode.algorithms.ppo_gru import PPOGru


@register_agent
class PPOMlp(PPOGru):
    """The network of PPO-GRU without the recurrence: embedding, then actor and critic heads with two hidden layers."""

    name, recurrent = "ppo_mlp", False

    def init_hidden_state(self, envs):
        return ()
