"""PPO-MLP: PPO with a feed-forward network, several times cheaper, for environments that need no memory."""

from __future__ import annotations

from perepisode.algorithms.base import network, register_agent
from perepisode.algorithms.ppo_gru import PPOGru


@register_agent
class PPOMlp(PPOGru):
    """The network of PPO-GRU without the recurrence: embedding, then actor and critic heads with two hidden layers."""

    name = "ppo_mlp"

    def init(self, seed, extra):
        sizes = network.input_sizes(self.env, extra)
        return network.init(seed, sizes, self.config.hidden_size, self.distribution, recurrent=False)

    def init_hidden_state(self, envs):
        return ()
