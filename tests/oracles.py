"""Slow, plain NumPy in float64, the reference for the fast code."""

import numpy as np
from scipy import stats


def gae_by_loop(rewards, values, done, last_value, gamma, lam):
    """Advantages [time, env], one at a time, by definition (generalised advantage estimation)."""
    steps, envs = rewards.shape
    advantages = np.zeros((steps, envs))
    for env in range(envs):
        following_advantage, following_value = 0.0, float(last_value[env])
        for t in reversed(range(steps)):
            alive = 0.0 if done[t, env] else 1.0
            error = rewards[t, env] + gamma * alive * following_value - values[t, env]
            following_advantage = error + gamma * lam * alive * following_advantage
            advantages[t, env] = following_advantage
            following_value = values[t, env]
    return advantages


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def policy_by_loop(params, vectors, hidden_state, is_first):
    """Logits [time, env, action] and values [time, env] of the agent, one step and one environment at a time."""
    steps, envs = is_first.shape
    logits, values = [], np.zeros((steps, envs))
    hidden = np.array(hidden_state, float)
    for t in range(steps):
        row = []
        for env in range(envs):
            x = np.concatenate([vector[t, env] for vector in vectors])
            kernel = np.concatenate([np.asarray(k, float) for k in params.embedding])
            embedded = np.maximum(0.0, x @ kernel + np.asarray(params.embedding_bias, float))
            h = np.zeros_like(hidden[env]) if is_first[t, env] else hidden[env]
            hidden[env] = gru_cell(params, embedded, h)
            row.append(mlp(params.actor, hidden[env]))
            values[t, env] = mlp(params.critic, hidden[env])[0]
        logits.append(row)
    return np.array(logits), values


def gru_cell(params, x, h):
    (w_in, b_in), (w_hidden, b_hidden) = params.gru_input, params.gru_hidden
    n = len(h)
    incoming = x @ np.asarray(w_in, float) + np.asarray(b_in, float)
    recurrent = h @ np.asarray(w_hidden, float)
    reset = sigmoid(incoming[:n] + recurrent[:n])
    update = sigmoid(incoming[n : 2 * n] + recurrent[n : 2 * n])
    candidate = np.tanh(incoming[2 * n :] + reset * (recurrent[2 * n :] + np.asarray(b_hidden, float)))
    return (1.0 - update) * candidate + update * h


def mlp(layers, x):
    for kernel, bias in layers[:-1]:
        x = np.maximum(0.0, x @ np.asarray(kernel, float) + np.asarray(bias, float))
    kernel, bias = layers[-1]
    return x @ np.asarray(kernel, float) + np.asarray(bias, float)


def ppo_loss(outputs, values, batch, advantage, target, clip_eps, vf_coef, ent_coef, log_std=None):
    """The loss of one minibatch, entry by entry; the outputs are logits, or means if there is a `log_std`."""
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy, value, entropy = [], [], []
    for index in np.ndindex(*values.shape):
        probability, spread = of_policy(outputs[index], batch["action"][index], log_std)
        ratio = probability / np.exp(batch["log_prob"][index])
        clipped = min(max(ratio, 1 - clip_eps), 1 + clip_eps)
        policy.append(-min(ratio * advantage[index], clipped * advantage[index]))
        near = batch["value"][index] + min(max(values[index] - batch["value"][index], -clip_eps), clip_eps)
        value.append(0.5 * max((values[index] - target[index]) ** 2, (near - target[index]) ** 2))
        entropy.append(spread)
    return np.mean(policy) + vf_coef * np.mean(value) - ent_coef * np.mean(entropy)


def of_policy(output, action, log_std):
    """Probability, or density, of an action, and the policy's entropy."""
    if log_std is not None:
        normal = stats.multivariate_normal(output, np.diag(np.exp(2.0 * np.asarray(log_std, float))))
        return normal.pdf(action), normal.entropy()
    probabilities = np.exp(output - output.max())
    probabilities /= probabilities.sum()
    return probabilities[action], -(probabilities * np.log(probabilities)).sum()
