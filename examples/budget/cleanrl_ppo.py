"""CleanRL's ppo.py with a per-episode budget, on the miniature.

CleanRL is a collection of scripts, none of which can be imported.  This is the algorithm of its `cleanrl/ppo.py`
(vwxyzjn/cleanrl, commit 020cf0e), in as many functions as are needed here, with `--num-envs 64 --num-steps 160
--learning-rate 3e-3 --ent-coef 0.1 --clip-vloss False`.  In your copy, the only lines to change are those that make the
environments.
"""

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical

from perepisode.interop.gymnasium import VectorEnv
from perepisode.wrappers import VectorEpisodeBudget

STEPS = 480_000
NUM_ENVS, NUM_STEPS, NUM_MINIBATCHES, UPDATE_EPOCHS = 64, 160, 4, 4
LEARNING_RATE, GAMMA, GAE_LAMBDA, CLIP_COEF, ENT_COEF, VF_COEF, MAX_GRAD_NORM = 3e-3, 0.99, 0.95, 0.2, 0.1, 0.5, 0.5


def layer(inputs: int, outputs: int, std: float = np.sqrt(2)) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, std)
    nn.init.constant_(made.bias, 0.0)
    return made


def mlp(inputs: int, outputs: int, std: float) -> nn.Sequential:
    return nn.Sequential(layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, std))


def advantages_of(rewards, values, dones, next_value, next_done):
    """Generalised advantage estimation; `dones[t]` says that an episode began at step t."""
    found, last = torch.zeros_like(rewards), 0.0
    for t in reversed(range(NUM_STEPS)):
        following = (next_value, next_done) if t == NUM_STEPS - 1 else (values[t + 1], dones[t + 1])
        goes_on = 1.0 - following[1]
        delta = rewards[t] + GAMMA * following[0] * goes_on - values[t]
        found[t] = last = delta + GAMMA * GAE_LAMBDA * goes_on * last
    return found


def update(actor, critic, optimizer, obs, actions, logprobs, advantages, returns) -> None:
    size = len(obs)
    for _ in range(UPDATE_EPOCHS):
        for batch in torch.randperm(size).split(size // NUM_MINIBATCHES):
            policy = Categorical(logits=actor(obs[batch]))
            ratio = (policy.log_prob(actions[batch]) - logprobs[batch]).exp()
            advantage = advantages[batch]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = torch.clamp(ratio, 1 - CLIP_COEF, 1 + CLIP_COEF)
            policy_loss = torch.max(-advantage * ratio, -advantage * clipped).mean()
            value_loss = 0.5 * ((critic(obs[batch])[:, 0] - returns[batch]) ** 2).mean()
            loss = policy_loss - ENT_COEF * policy.entropy().mean() + VF_COEF * value_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], MAX_GRAD_NORM)
            optimizer.step()


def train(budget: float, seed: int, steps: int = STEPS):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    envs = VectorEnv("temptation", NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = VectorEpisodeBudget(envs, budget=budget)
    (inputs,), choices = envs.single_observation_space.shape, envs.single_action_space.n
    actor, critic = mlp(inputs, int(choices), 0.01), mlp(inputs, 1, 1.0)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=LEARNING_RATE, eps=1e-5)
    next_obs, next_done = torch.as_tensor(envs.reset(seed=seed)[0]), torch.zeros(NUM_ENVS)
    updates = steps // (NUM_ENVS * NUM_STEPS)
    for number in range(updates):
        optimizer.param_groups[0]["lr"] = (1.0 - number / updates) * LEARNING_RATE
        rollout = []
        for _ in range(NUM_STEPS):
            with torch.no_grad():
                policy, value = Categorical(logits=actor(next_obs)), critic(next_obs)[:, 0]
                action = policy.sample()
            observation, reward, terminated, truncated, _ = envs.step(action.numpy())
            reward = torch.as_tensor(reward, dtype=torch.float32)
            rollout.append((next_obs, action, policy.log_prob(action), reward, next_done, value))
            next_obs, next_done = torch.as_tensor(observation), torch.as_tensor(terminated | truncated).float()
        obs, actions, logprobs, rewards, dones, values = map(torch.stack, zip(*rollout))
        with torch.no_grad():
            advantages = advantages_of(rewards, values, dones, critic(next_obs)[:, 0], next_done)
        batch = (obs, actions, logprobs, advantages, advantages + values)
        update(actor, critic, optimizer, *(tensor.flatten(0, 1) for tensor in batch))

    def act(observation: np.ndarray, starts: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return Categorical(logits=actor(torch.as_tensor(observation))).sample().numpy()

    return act
