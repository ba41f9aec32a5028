"""The agents: learning algorithms with their networks, one file each, found by name in AGENTS.

    ppo_gru        the paper's: proximal policy optimisation (PPO) with a gated recurrent unit (GRU)
    ppo_mlp        PPO with a feed-forward network
    pqn_gru        a parallelised Q-network (PQN) with a GRU
    base           the interface: what an agent declares and computes
    on_policy      advantages, minibatches and the optimizer of agents that learn from their latest rollout
    network        layers
    distributions  over discrete actions, and over a `Box`
    fitting        agents for environments that declare none

An agent of your own is loaded as `--agent file.py:Class` (docs/tutorials/add-an-agent.md).
"""

from importlib import import_module

from perepisode.algorithms.base import AGENTS, DEFAULT, LearningAgent, default_agent, default_config

__all__ = ["AGENTS", "DEFAULT", "LearningAgent", "default_agent", "default_config"]

for _name in (DEFAULT, "ppo_mlp", "pqn_gru"):
    import_module(f"{__name__}.{_name}")
