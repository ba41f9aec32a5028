"""Does the test suite notice bugs?  Each bug is planted in a copy of the tree, and the tests of its rule are run.

    python benchmarks/planted_bugs.py --out results/planted_bugs.md         # all bugs, about twenty minutes
    python benchmarks/planted_bugs.py --only gae                            # bugs whose rule contains the word
    python benchmarks/planted_bugs.py --check                               # only whether code and tests are found

A bug is noticed if its tests fail.  Before any bug is planted, all of these tests must pass.  Code that is no longer
found is an error: update the list when the code changes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Bug(NamedTuple):
    """Replacing `old` by `new` in `file` breaks `rule`; `tests` should notice."""

    rule: str
    file: str
    old: str
    new: str
    tests: str


RESET, T_GYMNAX = "interop/autoreset.py", "tests/interop/test_gymnax.py"
GYMNASIUM, RECORDER, RECORDING = (f"interop/{name}.py" for name in ("gymnasium", "recorder", "recording"))
T_GYMNASIUM, T_VIDEO = "tests/interop/test_gymnasium.py", "tests/interop/test_video.py"
ADAPTER, PLUGINS, T_ADOPTED = "environments/gymnax_adapter.py", "plugins.py", "tests/extending/test_adopted.py"
PPO, ON_POLICY, PQN = (f"algorithms/{name}.py" for name in ("ppo_gru", "on_policy", "pqn_gru"))
DISTRIBUTIONS, ACTIONS = "algorithms/distributions.py", "environments/action_space.py"
UPDATE, POP = "training/update.py", "training/population.py"
COMPARE, DETECTORS = "evaluation/compare.py", "environments/craftax/detectors.py"
T_TRAINING = "tests/training/test_"
T_PPO, T_OBJ, T_POP = f"{T_TRAINING}ppo.py", f"{T_TRAINING}objectives.py", f"{T_TRAINING}population.py"
T_TRAIN, T_RULES, T_DISTILL = f"{T_TRAINING}train.py", f"{T_TRAINING}rules.py", f"{T_TRAINING}distill.py"
T_UTIL, T_STREAMS = f"{T_TRAINING}utilities.py", f"{T_TRAINING}streams.py"
COST_CRITIC = "methods/cost_critic.py"
T_CONTINUOUS, T_BOX, T_BOX_DOORS = (
    f"tests/{folder}/test_continuous.py" for folder in ("training", "extending", "interop")
)
T_COMPARE, T_METRICS = "tests/evaluation/test_compare.py", "tests/test_metrics.py"
T_REPLAY, T_SHOWN = "tests/replay/test_replay.py", "tests/replay/test_violations.py"
KILLS, T_KILLS = "environments/craftax/violations.py", "tests/environments/test_craftax_violations.py"
T_POINTS, T_PAIRS, T_MEASURE = (f"tests/report/test_{name}.py" for name in ("points", "pairs", "cost_measure"))
T_DET = "tests/environments/test_craftax_detectors.py"
T_LABELS, T_FIT, T_PAIR, T_AGREE, T_BT = (
    f"tests/preferences/test_{name}.py" for name in ("labels", "fit", "pairs", "agreement", "bradley_terry")
)
T_BENCHMARK = "tests/benchmark/test_benchmark.py"
T_PACK, T_MATRIX = "tests/study/test_packing.py", "tests/study/test_matrix.py"

BUGS = (
    # ---- learning
    Bug(
        "gae: γ weighs the next value",
        ON_POLICY,
        "rewards + gamma * keep",
        "rewards + keep",
        f"{T_PPO}::test_gae_against_the_loop",
    ),
    Bug(
        "gae: λ weighs the next advantage",
        ON_POLICY,
        "error + gamma * lam * keep",
        "error + gamma * keep",
        f"{T_PPO}::test_gae_against_the_loop",
    ),
    Bug(
        "gae: nothing is carried over an end",
        ON_POLICY,
        "error + gamma * lam * keep",
        "error + gamma * lam",
        f"{T_PPO}::test_gae_against_the_loop",
    ),
    Bug(
        "gae: the last value follows the last step",
        ON_POLICY,
        "values[1:], last_value[None]",
        "values[1:], values[:1]",
        f"{T_PPO}::test_gae_against_the_loop",
    ),
    Bug(
        "loss: the smaller of the two surrogates",
        COST_CRITIC,
        "-jnp.minimum(ratio",
        "-jnp.maximum(ratio",
        f"{T_PPO}::test_loss_against_the_loop",
    ),
    Bug(
        "loss: the ratio is clipped on both sides",
        COST_CRITIC,
        "jnp.clip(ratio, 1.0 - clip_eps",
        "jnp.clip(ratio, 0.0",
        f"{T_PPO}::test_loss_against_the_loop",
    ),
    Bug(
        "loss: the larger of the two value errors",
        PPO,
        "squared = jnp.maximum((value",
        "squared = jnp.minimum((value",
        f"{T_PPO}::test_loss_against_the_loop",
    ),
    Bug(
        "loss: entropy is rewarded",
        PPO,
        "- config.ent_coef * entropy",
        "+ config.ent_coef * entropy",
        f"{T_PPO}::test_loss_against_the_loop",
    ),
    Bug(
        "loss: advantages are centred",
        PPO,
        "(targets.advantage - targets.advantage.mean())",
        "(targets.advantage)",
        f"{T_PPO}::test_loss_against_the_loop",
    ),
    Bug(
        "learn: targets are advantages plus values",
        ON_POLICY,
        "Targets(advantage, advantage + batch.value)",
        "Targets(advantage, advantage)",
        f"{T_PPO}::test_one_update_against_the_loop",
    ),
    Bug(
        "learn: the learning rate falls with the updates done",
        ON_POLICY,
        "(1.0 - progress)",
        "(1.0 - 0 * progress)",
        T_RULES,
    ),
    Bug(
        "learn: a minibatch has whole environments, permuted in every epoch",
        ON_POLICY,
        "jax.random.permutation(k, config.num_envs)",
        "jnp.arange(config.num_envs)",
        T_RULES,
    ),
    Bug(
        "learn: a diverged run keeps its last good parameters",
        UPDATE,
        "params=_where_alive(alive, params, before.params)",
        "params=params",
        f"{T_POP}::test_a_diverged_member_is_frozen_and_the_others_continue",
    ),
    Bug(
        "bootstrap: only timeouts",
        UPDATE,
        "record.end_cause == EndCause.TIMEOUT",
        "record.ended",
        f"{T_TRAINING}bootstrap.py::test_only_timeouts_are_bootstrapped",
    ),
    Bug(
        "hidden state: cleared where an episode starts",
        "algorithms/network.py",
        "jnp.where(is_first[:, None], 0.0, hidden_state)",
        "hidden_state",
        f"{T_PPO}::test_one_step_at_a_time_equals_the_sequence",
    ),
    Bug(
        "metrics: counts of finished episodes alone",
        UPDATE,
        "jnp.where(ended, own, -1)",
        "jnp.where(ended, own, 0)",
        T_RULES,
    ),
    Bug(
        "loss: the ratio is the new probability over the old",
        PPO,
        "self.distribution.log_prob(outputs, log_std, sample) - log_prob",
        "log_prob - self.distribution.log_prob(outputs, log_std, sample)",
        f"{T_TRAINING}agents.py::test_the_learner_computes_what_the_rollout_did",
    ),
    Bug(
        "hidden state: the learner begins where the rollout began",
        ON_POLICY,
        "jax.tree.map(lambda x: x[envs], hidden_state)",
        "jax.tree.map(lambda x: 0 * x[envs], hidden_state)",
        f"{T_PPO}::test_one_update_against_the_loop",
    ),
    Bug(
        "pqn: the value is that of the best action",
        "algorithms/pqn_gru.py",
        "PolicyOutput(action, hidden_state, q.max(-1))",
        "PolicyOutput(action, hidden_state, q.mean(-1))",
        f"{T_TRAINING}agents.py::test_the_learner_computes_what_the_rollout_did",
    ),
    Bug(
        "pqn: evaluation is greedy",
        "algorithms/pqn_gru.py",
        "falling = 0.0 if progress is None",
        "falling = 1.0 if progress is None",
        f"{T_TRAINING}agents.py::test_exploration_falls_and_evaluation_does_not_explore",
    ),
    Bug(
        "ppo: nothing is remembered of the last episode while acting",
        PPO,
        "policy, self.env, hidden_state, is_first,",
        "policy, self.env, hidden_state, jnp.zeros_like(is_first),",
        f"{T_TRAINING}agents.py::test_the_learner_computes_what_the_rollout_did",
    ),
    Bug(
        "ppo: nothing is remembered of the last episode while learning",
        PPO,
        "params, self.env, hidden_state, batch.is_first,",
        "params, self.env, hidden_state, batch.done,",
        f"{T_TRAINING}agents.py::test_the_learner_computes_what_the_rollout_did",
    ),
    Bug(
        "pqn: nothing is remembered of the last episode while acting",
        PQN,
        "network.recur_once(params, x, hidden_state, is_first,",
        "network.recur_once(params, x, hidden_state, jnp.zeros_like(is_first),",
        f"{T_TRAINING}agents.py::test_the_learner_computes_what_the_rollout_did",
    ),
    Bug(
        "pqn: nothing is remembered of the last episode while learning",
        PQN,
        "network.recur(params, x, hidden_state, batch.is_first,",
        "network.recur(params, x, hidden_state, batch.done,",
        f"{T_TRAINING}agents.py::test_the_learner_computes_what_the_rollout_did",
    ),
    Bug(
        "rollout: the last value follows the last step",
        UPDATE,
        "last = choose(program, members, policy, runner)",
        "last = choose(program, members, policy, state.runner)",
        f"{T_TRAINING}agents.py::test_the_last_value_is_that_of_the_next_rollouts_first_step",
    ),
    # ---- continuous actions
    Bug(
        "continuous: the log-probability is that of the sample",
        DISTRIBUTIONS,
        "Sampled(sample, self.log_prob(mean, log_std, sample))",
        "Sampled(sample, self.log_prob(mean, log_std, jnp.clip(sample, -1.0, 1.0)))",
        T_CONTINUOUS,
    ),
    Bug(
        "continuous: learning uses the sample, not the clipped action",
        DISTRIBUTIONS,
        "return stored.sample, stored.log_prob",
        "return action, stored.log_prob",
        f"{T_CONTINUOUS}::test_the_learner_computes_what_the_rollout_did",
    ),
    Bug(
        "continuous: samples are clipped as actions alone",
        DISTRIBUTIONS,
        "return self.to_box(sample), Sampled(sample, self.log_prob(mean, log_std, sample))",
        "sample = jnp.clip(sample, -1.0, 1.0)\n"
        "        return self.to_box(sample), Sampled(sample, self.log_prob(mean, log_std, sample))",
        f"{T_CONTINUOUS}::test_samples_are_independent_normals",
    ),
    Bug(
        "continuous: the log-probability has the standard deviation",
        DISTRIBUTIONS,
        "- log_std - 0.5 * LOG_2PI",
        "- 0.5 * LOG_2PI",
        f"{T_CONTINUOUS}::test_log_probability_and_entropy_against_scipy",
    ),
    Bug(
        "continuous: the entropy has its constant",
        DISTRIBUTIONS,
        "0.5 * (1.0 + LOG_2PI)",
        "0.5",
        f"{T_CONTINUOUS}::test_log_probability_and_entropy_against_scipy",
    ),
    Bug(
        "continuous: actions are scaled around the centre of the box",
        DISTRIBUTIONS,
        "np.float32(centre) + np.float32(half) * sample",
        "np.float32(half) * sample",
        f"{T_CONTINUOUS}::test_an_action_is_the_sample_scaled_to_the_box_and_clipped",
    ),
    Bug(
        "continuous: every number has its own random numbers",
        DISTRIBUTIONS,
        "jax.random.normal(key, mean.shape[1:])",
        "jax.random.normal(key, (1,))",
        f"{T_CONTINUOUS}::test_samples_are_independent_normals",
    ),
    Bug(
        "continuous: the bytes of actions are read step by step",
        ACTIONS,
        "reshape(-1, *shape(actions))",
        'reshape(-1, *shape(actions), order="F")',
        f"{T_BOX}::test_every_episode_is_replayed_to_the_bit",
    ),
    Bug(
        "continuous: actions are stored in full",
        ACTIONS,
        'return "float32" if isinstance(actions, Box) else "uint8"',
        'return "float16" if isinstance(actions, Box) else "uint8"',
        f"{T_BOX}::test_counts_equal_a_recount_from_the_stored_actions",
    ),
    Bug(
        "continuous: numbers that are not finite are refused",
        ACTIONS,
        "~((taken >= low) & (taken <= high) & np.isfinite(taken))",
        "(taken < low) | (taken > high)",
        f"{T_BOX_DOORS}::test_an_action_that_does_not_fit_is_refused",
    ),
    Bug(
        "continuous: a recorder stores the action that the environment used",
        ACTIONS,
        "return clip(actions, np.asarray(taken))",
        "return np.asarray(taken)",
        f"{T_BOX_DOORS}::test_the_recorder_of_jax_loops_stores_the_clipped_actions_that_the_environment_used",
    ),
    Bug(
        "continuous: every program rounds a step alike",
        "environments/stepping.py",
        "if not isinstance(env.actions, Box)",
        "if True or not isinstance(env.actions, Box)",
        f"{T_BOX}::test_every_episode_is_replayed_to_the_bit",
    ),
    Bug(
        "continuous: the adapter of gymnax restores the shape of an action",
        ADAPTER,
        "jnp.reshape(action, self.action_shape)",
        'jnp.reshape(action, self.action_shape, order="F")',
        f"{T_BOX}::test_the_adapter_flattens_actions_of_any_shape",
    ),
    Bug(
        "continuous: a Q-network is refused",
        "runs.py",
        "and not AGENTS[self.agent].box_actions",
        "and not AGENTS[self.agent]",
        f"{T_BOX}::test_an_agent_without_continuous_actions_is_refused_in_one_line",
    ),
    # ---- reward streams
    Bug(
        "streams: rewards come first, then costs",
        COST_CRITIC,
        "jnp.stack([task_reward(before, after), cost(before, after)], axis=-1)",
        "jnp.stack([cost(before, after), task_reward(before, after)], axis=-1)",
        f"{T_STREAMS}::test_the_stream_of_costs_is_the_violations_and_the_other_the_task_reward",
    ),
    Bug(
        "streams: the cost critic has a γ of its own",
        COST_CRITIC,
        "jnp.stack([gamma, self.cost_gamma])",
        "jnp.stack([gamma, gamma])",
        f"{T_STREAMS}::test_advantages_and_targets_of_ppo_lag_against_loops",
    ),
    Bug(
        "streams: the cost critic has a λ of GAE of its own",
        COST_CRITIC,
        "jnp.stack([gae_lambda, self.cost_gae_lambda])",
        "jnp.stack([gae_lambda, gae_lambda])",
        f"{T_STREAMS}::test_advantages_and_targets_of_ppo_lag_against_loops",
    ),
    Bug(
        "streams: a combined advantage is not normalised again",
        COST_CRITIC,
        "return clipped_surrogate(ratio, (coefficients * advantages).sum(-1), clip_eps)",
        "advantage = (coefficients * advantages).sum(-1)\n"
        "    return clipped_surrogate(ratio, (advantage - advantage.mean()) / advantage.std(), clip_eps)",
        f"{T_STREAMS}::test_ppo_lag_by_hand",
    ),
    Bug(
        "streams: the advantages are divided by 1 + λ",
        COST_CRITIC,
        "-multiplier]) / (1.0 + multiplier)",
        "-multiplier])",
        f"{T_STREAMS}::test_ppo_lag_by_hand",
    ),
    Bug(
        "streams: λ moves before the update that uses it",
        UPDATE,
        '{"mixture": mixtures(program, members, duals)}',
        '{"mixture": mixtures(program, members, state.duals)}',
        f"{T_STREAMS}::test_the_multiplier_moves_before_the_update_that_uses_it",
    ),
    Bug(
        "streams: costs keep their scale, rewards are standardised",
        ON_POLICY,
        "jnp.ones_like(mixture.gamma).at[0].set(advantage[..., 0].std() + 1e-8)",
        "advantage.std((0, 1)) + 1e-8",
        f"{T_STREAMS}::test_advantages_and_targets_of_ppo_lag_against_loops",
    ),
    Bug(
        "streams: advantages are centred",
        ON_POLICY,
        "centred = advantage - advantage.mean((0, 1))",
        "centred = advantage",
        f"{T_STREAMS}::test_advantages_and_targets_of_ppo_lag_against_loops",
    ),
    Bug(
        "streams: every value head learns",
        PPO,
        "squared.mean((0, 1)).sum() if several",
        "squared[..., 0].mean() if several",
        f"{T_STREAMS}::test_the_value_loss_is_the_sum_over_streams",
    ),
    Bug(
        "streams: every stream has a head of its own",
        "algorithms/network.py",
        "heads = (params.actor, params.critic, *params.more_critics)",
        "heads = (params.actor, params.critic, *[params.critic for _ in params.more_critics])",
        f"{T_STREAMS}::test_each_stream_has_a_head_of_its_own",
    ),
    Bug(
        "streams: a timeout is bootstrapped with each stream's γ",
        UPDATE,
        "mixtures(program, members, duals).gamma if program.agent.streams.several else members.gamma",
        "jnp.stack([members.gamma] * 2, -1) if program.agent.streams.several else members.gamma",
        f"{T_STREAMS}::test_bootstrapping_at_a_timeout_uses_each_streams_discount",
    ),
    Bug(
        "streams: KL is that of the new policy from the old",
        "algorithms/distributions.py",
        "(jnp.exp(log_probs) * (log_probs - old_log_probs)).sum(-1)",
        "(jnp.exp(old_log_probs) * (old_log_probs - log_probs)).sum(-1)",
        f"{T_STREAMS}::test_kl_of_both_distributions_against_scipy",
    ),
    Bug(
        "streams: FOCOPS learns inside the trust region",
        "methods/focops.py",
        "jax.lax.stop_gradient(kl) <= radius",
        "jax.lax.stop_gradient(kl) <= 2 * radius",
        f"{T_STREAMS}::test_focops_by_hand",
    ),
    Bug(
        "streams: P3O does not reward a mean below the budget",
        "methods/p3o.py",
        "jnp.maximum(0.0, (ratio * advantages[..., 1]).mean() + excess)",
        "(ratio * advantages[..., 1]).mean() + excess",
        f"{T_STREAMS}::test_p3o_by_hand",
    ),
    Bug(
        "streams: CRPO minimises costs above the budget",
        "methods/crpo.py",
        "jnp.array([0.0, -1.0])",
        "jnp.array([0.0, 1.0])",
        f"{T_STREAMS}::test_crpo_maximises_rewards_or_minimises_costs",
    ),
    Bug(
        "streams: runs with other policy losses are other programs",
        "runs.py",
        "([str(streams)] if streams.several else [])",
        "([str(streams.names)] if streams.several else [])",
        f"{T_STREAMS}::test_methods_with_one_policy_loss_share_a_program",
    ),
    Bug(
        "streams: an agent with one value is refused",
        "runs.py",
        "streams.several and not AGENTS[self.agent].several_streams",
        "streams.several and not AGENTS[self.agent].name",
        f"{T_STREAMS}::test_agents_with_one_value_are_refused_in_one_line",
    ),
    # ---- objectives
    Bug("esr: τ = k + 0.5", "methods/esr.py", "self.budget + 0.5 - v", "self.budget - v", f"{T_UTIL} {T_OBJ}"),
    Bug(
        "esr: the return counts within the budget, not beyond",
        "methods/esr.py",
        "(self.budget + 0.5 - v)",
        "(v - self.budget - 0.5)",
        f"{T_UTIL} {T_OBJ}",
    ),
    Bug(
        "esr: strict charge at k = 0",
        "methods/esr.py",
        "BUDGET_RHO_U if self.budget else STRICT_RHO_U",
        "BUDGET_RHO_U",
        f"{T_UTIL} {T_OBJ}",
    ),
    Bug(
        "esr: rewards are increments",
        "methods/esr.py",
        "- self.u(before.task_return, before.ethical_return)",
        "",
        T_OBJ,
    ),
    Bug(
        "distilled: tanh between layers",
        "methods/esr_distilled.py",
        "xp.tanh(hidden @ kernel + bias)",
        "hidden @ kernel + bias",
        T_UTIL,
    ),
    Bug(
        "distilled: shifted, then scaled",
        "methods/esr_distilled.py",
        "(self.raw(r_ext, r_eth) - self.offset) * self.scale",
        "self.raw(r_ext, r_eth) * self.scale - self.offset",
        T_UTIL,
    ),
    Bug(
        "distil: beyond tolerance fewer violations win",
        "evaluation/distill.py",
        "np.sign(v_b - v_a)",
        "np.sign(v_a - v_b)",
        f"{T_DISTILL}::test_the_rule_by_hand",
    ),
    Bug(
        "lagrangian: λ rises above the budget",
        "methods/lagrangian.py",
        "mean_cost - self.budget)",
        "self.budget - mean_cost)",
        T_OBJ,
    ),
    Bug(
        "lagrangian: λ is never negative",
        "methods/lagrangian.py",
        "0.0, self.lambda_max)",
        "-1.0, self.lambda_max)",
        T_OBJ,
    ),
    Bug(
        "lagrangian: held where no episode ended",
        "methods/lagrangian.py",
        "otherwise=self.budget",
        "otherwise=0.0",
        T_OBJ,
    ),
    Bug("pid: the reward keeps its scale", "methods/pid_lagrangian.py", " / (1.0 + dual.multiplier)", "", T_OBJ),
    Bug(
        "pid: only a rise is charged by the slope",
        "methods/pid_lagrangian.py",
        "jnp.maximum(0.0, mean_cost - dual.history[0])",
        "(mean_cost - dual.history[0])",
        T_OBJ,
    ),
    Bug(
        "sauté: no reward beyond the budget",
        "methods/saute.py",
        "where(remaining > 0, reward, 0.0)",
        "where(remaining > 0, reward, 0.5)",
        T_OBJ,
    ),
    Bug(
        "sauté: the budget is kept up to k", "methods/saute.py", "(self.budget + 0.5)\n", "(self.budget + 1.5)\n", T_OBJ
    ),
    Bug(
        "chance: one breach an episode",
        "methods/chance.py",
        "        breach -= (before.violations > self.budget).astype(jnp.float32)\n",
        "",
        T_OBJ,
    ),
    Bug(
        "cvar method: the excess over q, divided by α",
        "methods/cvar.py",
        "dual.multiplier * excess / self.alpha",
        "dual.multiplier * excess",
        T_OBJ,
    ),
    Bug(
        "cvar method: q follows its quantile",
        "methods/cvar.py",
        "self.lambda_lr * (self.alpha - tail)",
        "self.lambda_lr * (tail - self.alpha)",
        T_OBJ,
    ),
    Bug("enforcement: absolute ends at the first", "methods/erm.py", '"absolute": 0.0', '"absolute": 1.0', T_OBJ),
    Bug(
        "enforcement: calculated ends at the fourth", "methods/erm.py", '"calculated": 3.0', '"calculated": 4.0', T_OBJ
    ),
    Bug(
        "accrued observation: v / 5",
        "methods/accrued_obs.py",
        "accrued.violations / 5.0",
        "accrued.violations / 50.0",
        f"{T_OBJ} tests/training/test_accrued_obs.py",
    ),
    # ---- episodes
    Bug("costs: once per step", POP, "jnp.minimum(count, 1)", "count", f"{T_POP}::test_costs"),
    Bug(
        "charging: the run's own dilemma",
        POP,
        "outcome.violations)[self.dilemma]",
        "outcome.violations)[0]",
        T_RULES,
    ),
    Bug(
        "leak: what was accrued is cleared at an end",
        POP,
        "_zero_where(record.ended, x), totals)",
        "x, totals)",
        f"{T_POP}::test_totals_are_recorded_before_the_reset_and_cleared_after_it",
    ),
    Bug(
        "evaluation enforces nothing",
        POP,
        "population.enforces & population.map_runs",
        "population.map_runs",
        f"{T_POP}::test_enforcement_ends_episodes_in_training_but_not_in_evaluation",
    ),
    Bug(
        "reset pool: every state is used once",
        "environments/reset_pool.py",
        "next_id=pool.next_id + count",
        "next_id=pool.next_id",
        f"{T_POP}::test_every_episode_gets_its_own_reset_state_in_order_even_when_the_pool_runs_out",
    ),
    Bug("keys: an action has its own at every step", "environments/reset_pool.py", "2 * time + 2", "2", T_RULES),
    Bug(
        "keys: environment and action do not share one",
        "environments/reset_pool.py",
        "2 * time + 2",
        "2 * time + 1",
        T_RULES,
    ),
    Bug(
        "detector: two deaths are two", DETECTORS, "slots.sum(dtype=jnp.int32)", "slots.any().astype(jnp.int32)", T_DET
    ),
    Bug("detector: wood beyond the budget alone", DETECTORS, "(excess_after - excess_before)", "excess_after", T_DET),
    Bug(
        "detector: farther than the distance",
        DETECTORS,
        "jnp.abs(offset).sum(-1) > distance",
        "jnp.abs(offset).sum(-1) >= distance",
        T_DET,
    ),
    # ---- judging and replay
    Bug(
        "evaluate: each dilemma has its own column",
        "evaluation/rollout.py",
        'table[f"violations_{name}"] = totals.violations[:, i]',
        'table[f"violations_{name}"] = totals.violations[:, 0]',
        T_RULES,
    ),
    Bug(
        "evaluate: runs of one seed meet the same worlds",
        "evaluation/rollout.py",
        "agent.run.seed) for agent in agents]",
        "place) for place, agent in enumerate(agents)]",
        T_RULES,
    ),
    Bug(
        "replay: each step has its own key",
        "replay/episode.py",
        "step_key(episode, time)",
        "step_key(episode, 0)",
        f"{T_REPLAY}::test_steps_against_stepping_by_hand",
    ),
    Bug(
        "replay: every column is compared",
        "replay/episode.py",
        "if name in row and row[name] != value]",
        'if name == "return" and row[name] != value]',
        f"{T_REPLAY}::test_a_changed_number_in_the_row_is_detected",
    ),
    Bug(
        "shown: a violation is described by the states around its step",
        "replay/episode.py",
        "key, states[step], action, states[step + 1]",
        "key, states[step + 1], action, states[step + 1]",
        f"{T_SHOWN}::test_the_description_sees_one_step_as_it_was_played",
    ),
    Bug(
        "shown: a violation is described with the key of its step",
        "replay/episode.py",
        "step_key(self.episode, jnp.int32(step))",
        "step_key(self.episode, jnp.int32(step + 1))",
        f"{T_SHOWN}::test_the_description_sees_one_step_as_it_was_played",
    ),
    Bug(
        "shown: as many violations are described as counted",
        "replay/episode.py",
        "if found != count:",
        "if found > count:",
        f"{T_SHOWN}::test_words_that_disagree_with_the_count_are_refused",
    ),
    Bug(
        "shown: violations are numbered in the course of the episode",
        "replay/captions.py",
        "first, total = total + 1, total + sum(one.count for one in violations)",
        "first, total = total + 1, total + 1",
        f"{T_SHOWN}::test_captions_number_the_violations_of_each_dilemma",
    ),
    Bug(
        "shown: the creature is the one that died",
        KILLS,
        "those.type_id[floor, slot]",
        "those.type_id[floor, 0]",
        f"{T_KILLS}::test_a_blow",
    ),
    Bug(
        "shown: the ring is where the creature was",
        KILLS,
        "those.position[floor, slot]) if",
        "before.player_position) if",
        f"{T_KILLS}::test_a_blow",
    ),
    Bug(
        "shown: rows and columns of the picture",
        "environments/craftax/render.py",
        "Region(column * BLOCK, row * BLOCK",
        "Region(row * BLOCK, column * BLOCK",
        f"{T_KILLS}::test_a_blow",
    ),
    Bug(
        "shown: the place on the frame after the step is where it died",
        KILLS,
        "region(after, events.died_at[mobs][slot])",
        "region(after, those.position[floor, slot])",
        f"{T_KILLS}::test_a_projectile_hits_a_creature_that_moved_while_the_player_moved",
    ),
    Bug(
        "shown: a mob of another floor is on no frame of this one",
        KILLS,
        "if int(before.player_level) == floor else None",
        "",
        f"{T_KILLS}::test_a_mob_on_another_floor_is_not_marked_before_the_step",
    ),
    Bug(
        "shown: wood comes from the tree that the player faces",
        KILLS,
        "tree = game.player_position + ",
        "tree = game.player_position - ",
        f"{T_KILLS}::test_wood_is_of_the_tree_that_the_player_faces",
    ),
    # ---- statistics
    Bug(
        "cvar: ⌈α N⌉ episodes",
        "metrics.py",
        "math.ceil(round(alpha * episodes, 9))",
        "max(1, int(alpha * episodes))",
        T_METRICS,
    ),
    Bug("P(> k): more than k", "metrics.py", "> budget).mean()", ">= budget).mean()", T_METRICS),
    Bug("std: divisor N", "metrics.py", "_vector(values).std()", "_vector(values).std(ddof=1)", T_METRICS),
    Bug(
        "welch: degrees of freedom",
        COMPARE,
        "(error_a**2 / (n_a - 1) + error_b**2 / (n_b - 1))",
        "(error_a**2 / n_a + error_b**2 / n_b)",
        T_COMPARE,
    ),
    Bug("welch: two-sided", COMPARE, "float(2 * stdtr(df", "float(stdtr(df", T_COMPARE),
    Bug("interval: over √n", COMPARE, "values.std(ddof=1) / np.sqrt(values.size)", "values.std(ddof=1)", T_COMPARE),
    Bug(
        "bootstrap: seeds are drawn too",
        COMPARE,
        "generator.integers(len(tails), size=len(tails))",
        "range(len(tails))",
        f"{T_COMPARE}::test_bootstrap_covers_between_seed_spread",
    ),
    Bug(
        "bootstrap: 95 %",
        COMPARE,
        "[(1 - level) / 2, (1 + level) / 2]",
        "[1 - level, level]",
        f"{T_COMPARE}::test_bootstrap_of_one_seed_equals_the_plain_bootstrap",
    ),
    Bug(
        "holm: every test counts",
        COMPARE,
        "(len(order) - rank) * values[index]",
        "values[index]",
        f"{T_COMPARE}::test_holm_by_hand",
    ),
    Bug(
        "pairs: without a specified comparison, all are compared",
        "report/statistics/pairs.py",
        "list(itertools.combinations(view.main, 2))",
        "[(chosen, other) for other in view.main if other is not chosen]",
        f"{T_PAIRS}::test_pairs_that_differ_in_both_means_are_left_out_and_p_is_holms",
    ),
    Bug(
        "pairs: means within the seeds' error are matched",
        "report/statistics/matched.py",
        "if found.half == found.half:",
        "if False:",
        f"{T_PAIRS}::test_means_differ_beyond_the_seeds_error",
    ),
    Bug(
        "least tail: ⌈α N⌉ episodes",
        "metrics.py",
        "alpha if episodes is None else tail_share(episodes, alpha)",
        "alpha",
        T_MEASURE,
    ),
    Bug(
        "costs: “at least one” is for counts",
        "report/cost_measure.py",
        '"P(≥1)" if self.is_count else "P(>0)"',
        '"P(≥1)"',
        T_MEASURE,
    ),
    Bug(
        "matched: interpolated by distance",
        COMPARE,
        "(target - returns[low]) / spread",
        "(returns[high] - target) / spread",
        T_COMPARE,
    ),
    Bug(
        "hypervolume: fewer violations are better",
        COMPARE,
        "maximise=[True, False]",
        "maximise=[True, True]",
        T_COMPARE,
    ),
    Bug(
        "frontier: beaten by no other",
        COMPARE,
        "counts[None] <= counts[:, None]",
        "counts[None] >= counts[:, None]",
        T_COMPARE,
    ),
    Bug(
        "points: γ = 1 twins stand apart",
        "report/statistics/points.py",
        "if gamma == self.main_gamma else",
        "if True else",
        T_POINTS,
    ),
    Bug(
        "matched: the focal agent's error is along the frontier",
        "report/statistics/matched.py",
        "tails - tails.slope *",
        "tails + tails.slope *",
        "tests/report/test_tables.py::test_a_focal_agent_whose_tails_rise_with_its_returns_is_less_uncertain",
    ),
    Bug(
        "tables: episodes of evaluation come before those of training",
        "evaluation/episodes.py",
        '"metrics/testepcost", "metrics/epcost", "testepcost", "epcost"',
        '"metrics/epcost", "metrics/testepcost", "epcost", "testepcost"',
        "tests/evaluation/test_episodes.py",
    ),
    Bug(
        "tables: a copy does not count twice",
        "evaluation/episodes.py",
        "if content in first else []",
        "if False else []",
        "tests/evaluation/test_episodes.py",
    ),
    # ---- runs, packs, files
    Bug(
        "run id: the seed is part of it",
        "runs.py",
        "canonical(legacy.identity(self.to_json())).encode()",
        'canonical({**legacy.identity(self.to_json()), "seed": 0}).encode()',
        T_MATRIX,
    ),
    Bug(
        "run id: 1.0 is 1",
        "config.py",
        "return int(value)\n    return value",
        "return value\n    return value",
        f"{T_TRAIN}::test_run_ids_do_not_depend_on_how_numbers_are_written",
    ),
    Bug("packing: agents of one program alone", "study/packing.py", "t(run.structure", "t(run.env", T_PACK),
    Bug(
        "packing: none larger than fits",
        "study/packing.py",
        "math.ceil(len(runs) / size)",
        "max(1, len(runs) // size)",
        T_PACK,
    ),
    Bug("resume: metrics after the checkpoint are dropped", "runs.py", "<= updates:", "<= updates + 5:", T_RULES),
    Bug(
        "resume: the newest whole checkpoint",
        "training/checkpoints.py",
        "self._manager.all_steps(), reverse=True)",
        "self._manager.all_steps())",
        T_RULES,
    ),
    Bug(
        "policy: its checksum is compared",
        "runs.py",
        "hashlib.sha256(content).hexdigest() != safe_io",
        "False and safe_io",
        f"{T_TRAIN}::test_a_damaged_or_unfinished_policy_is_refused",
    ),
    Bug(
        "agent file: the digest covers its metadata",
        "zoo/agent_file.py",
        "_header_digest(content) != _digest(metadata)",
        "False",
        "tests/agents/test_files.py::test_an_edited_number_is_refused",
    ),
    Bug(
        "packing: a benchmark's size is limited to what fits",
        "study/packing.py",
        "min(bench.runs or ENVIRONMENTS[run.env].population_size, fits)",
        "(bench.runs or min(ENVIRONMENTS[run.env].population_size, fits))",
        "tests/study/test_packing.py",
    ),
    Bug(
        "hopper: compute capability 9 alone",
        "algorithms/hopper.py",
        ' and str(getattr(device, "compute_capability", "")).startswith("9.")',
        "",
        "tests/training/test_hopper.py",
    ),
    Bug(
        "tasks: SLURM's warning requeues the job",
        "study/run_task.py",
        '_requeue(task, Path(out), log) if "SIGUSR1" in str(error) else RESUME',
        "RESUME",
        "tests/study/test_slurm.py",
    ),
    Bug(
        "tasks: a supervisor's signal does not requeue",
        "study/run_task.py",
        '_requeue(task, Path(out), log) if "SIGUSR1" in str(error) else RESUME',
        "_requeue(task, Path(out), log)",
        "tests/study/test_slurm.py",
    ),
    # ---- adapters
    Bug(
        "auto-reset: the next episode has the next id",
        RESET,
        "state.episode_id + assigned",
        "state.episode_id",
        T_GYMNAX,
    ),
    Bug(
        "auto-reset: a spare is for the next episode",
        RESET,
        "state.episode_id[indices] + 1)",
        "state.episode_id[indices])",
        T_GYMNAX,
    ),
    Bug("auto-reset: time starts at zero", RESET, "jnp.where(assigned, 0, state.time)", "state.time", T_GYMNAX),
    Bug("auto-reset: the cost starts at zero", RESET, "jnp.where(assigned, 0, state.cost)", "state.cost", T_GYMNAX),
    Bug("auto-reset: a spare is used once", RESET, "ready=state.ready & ~assigned", "ready=state.ready", T_GYMNAX),
    Bug("auto-reset: a timeout does not terminate", RESET, "~(running | timeout)", "~running", T_GYMNAX),
    Bug(
        "auto-reset: the caller's limit truncates",
        RESET,
        "(running & (self.time >= max_episode_steps))",
        "timeout",
        T_GYMNAX,
    ),
    Bug(
        "auto-reset: no more spares are assigned than are moved",
        RESET,
        "jnp.cumsum(available) <= len(indices)",
        "True",
        T_GYMNAX,
    ),
    Bug(
        "adapters: the price is subtracted",
        RESET,
        "task - self.price * cost",
        "task + self.price * cost",
        "tests/interop",
    ),
    Bug(
        "adapters: the step after an end ignores its action",
        "interop/gymnasium.py",
        "jnp.where(ended, jnp.zeros_like(leaf), leaf), timestep)",
        "leaf, timestep)",
        "tests/interop/test_gymnasium.py",
    ),
    Bug(
        "recorder: the step that only begins an episode belongs to none",
        "interop/recorder.py",
        "np.array(self._recording.ended) & (self._mode is NEXT_STEP)",
        "np.zeros(self.num_envs, bool)",
        "tests/interop",
    ),
    Bug(
        "adopted: a detector sees the state before the step",
        "environments/gymnax_adapter.py",
        "given = state.env_state, action",
        "given = after.env_state, action",
        "tests/extending/test_gymnax_adapter.py",
    ),
    Bug(
        "recorder: another agent's table is kept",
        RECORDING,
        "sorted(set(map(str, values)) - {own})",
        "sorted(set())",
        "tests/interop/test_gymnasium.py",
    ),
    Bug(
        "recorder: costs do not overflow",
        "interop/recorder.py",
        "number = first.item()",
        "number = first[0]",
        "tests/interop/test_gymnasium.py",
    ),
    Bug(
        "auto-reset: all words of a long key count",
        RESET,
        "jax.random.fold_in(_key(data), word)",
        "_key(data)",
        T_GYMNAX,
    ),
    Bug(
        "auto-reset: a timeout of the environment truncates",
        RESET,
        "timeout | (running &",
        "(running &",
        T_GYMNAX,
    ),
    Bug(
        "auto-reset: the next episode has not ended",
        RESET,
        "cause=jnp.where(assigned, EndCause.RUNNING, state.cause)",
        "cause=state.cause",
        T_GYMNAX,
    ),
    Bug(
        "adopted: what it was given is part of what it is",
        "environments/gymnax_adapter.py",
        "dict(_held(env)), params, max_episode_steps",
        "dict(_held(env)), max_episode_steps",
        "tests/extending/test_gymnax_adapter.py",
    ),
    Bug(
        "adopted: a wrapper is not passed over",
        "environments/gymnax_adapter.py",
        "    _refuse_wrapper(env)\n",
        "",
        "tests/extending/test_gymnax_adapter.py",
    ),
    Bug(
        "sources: files of the same name are both recorded",
        "plugins.py",
        "_join(contents, name, content)\n        more",
        "contents[name] = content\n        more",
        "tests/extending/test_sources.py",
    ),
    Bug(
        "sources: a plugin may have the name of a standard module",
        "plugins.py",
        "    if file is None:\n        return module in sys.stdlib_module_names\n",
        "    if module in sys.stdlib_module_names:\n        return True\n    if file is None:\n        return False\n",
        "tests/extending/test_sources.py",
    ),
    Bug(
        "adapters: another price is another program",
        RESET,
        "price: float | None = None\n\n",
        "price: float | None = __import__('dataclasses').field(default=None, compare=False)\n\n",
        f"{T_GYMNASIUM}::test_two_prices_in_one_process",
    ),
    Bug(
        "adapters: the parameters' limit truncates",
        "interop/gymnax.py",
        "end_flags(params.max_steps_in_episode)[1]",
        "end_flags(self.default_params.max_steps_in_episode)[1]",
        f"{T_GYMNAX}::test_step_env_is_truncated_by_the_parameters",
    ),
    Bug(
        "adapters: without automatic reset nothing is reset",
        "interop/gymnax.py",
        "self.autoreset.step if self.auto_reset else",
        "self.autoreset.step if True else",
        f"{T_GYMNAX}::test_without_automatic_reset_the_library_resets",
    ),
    Bug(
        "adapters: a reset forgets that episodes have ended",
        GYMNASIUM,
        "self._ended = self._ended & ~mask",
        "self._ended = self._ended",
        f"{T_GYMNASIUM}::test_a_seed_gives_the_same_episodes_whatever_was_played_before",
    ),
    Bug(
        "adapters: a masked reset leaves the others alone",
        GYMNASIUM,
        '_begun(self._state, "reset_mask"), keys, mask)',
        '_begun(self._state, "reset_mask"), keys, mask | True)',
        f"{T_GYMNASIUM}::test_a_masked_reset_equals_gymnasiums_own",
    ),
    Bug(
        "adapters: a masked reset draws keys where it resets",
        GYMNASIUM,
        "_draw_key(own) if reset else unused",
        "_draw_key(own)",
        f"{T_GYMNASIUM}::test_a_masked_reset_equals_gymnasiums_own",
    ),
    Bug(
        "adapters: a masked reset begins the first episode of its key",
        RESET,
        "jnp.where(where, -1, state.episode_id)",
        "state.episode_id",
        f"{T_GYMNASIUM}::test_a_masked_reset_equals_gymnasiums_own",
    ),
    Bug(
        "adapters: a masked reset discards the spare of the old key",
        RESET,
        "ready=state.ready & ~where",
        "ready=state.ready",
        f"{T_GYMNASIUM}::test_a_masked_reset_equals_gymnasiums_own",
    ),
    Bug(
        "adapters: an episode that has ended takes no step",
        GYMNASIUM,
        "self._ended = terminated or truncated",
        "self._ended = False",
        f"{T_GYMNASIUM}::test_an_episode_that_has_ended_takes_no_step",
    ),
    Bug(
        "adapters: negative counts are refused",
        GYMNASIUM,
        '(info[f"violations_{name}"] < 0).any()',
        'info["cost"].sum() < 0',
        f"{T_GYMNASIUM}::test_negative_counts_are_refused",
    ),
    Bug(
        "adapters: a picture is that of its environment",
        GYMNASIUM,
        "jax.jit(jax.vmap(self._draw))",
        "jax.jit(lambda state: jax.vmap(self._draw)(state)[::-1])",
        f"{T_VIDEO}::test_a_picture_is_that_of_the_state",
    ),
    Bug(
        "temptation: the gauge shows the gain",
        "environments/temptation/render.py",
        "bottom - present * gain * (bottom - top)",
        "bottom - present * (bottom - top)",
        f"{T_VIDEO}::test_temptation_shows_the_offer_and_the_time",
    ),
    Bug(
        "sb3: the last observation of the episode, not the first of the next",
        "interop/sb3.py",
        'info["final_obs"][i]',
        "observation[i]",
        "tests/interop/test_sb3.py",
    ),
    Bug(
        "recorder: a masked reset interrupts the masked alone",
        RECORDER,
        '(options or {}).get("reset_mask", np.ones(self.num_envs, bool))',
        "np.ones(self.num_envs, bool)",
        f"{T_GYMNASIUM}::test_a_recorder_drops_the_episodes_that_a_masked_reset_interrupts",
    ),
    Bug(
        "recorder: short episodes are not over-represented",
        RECORDING,
        'table["episode_index"] < min(self.finished)',
        'table["episode_index"] < max(self.finished)',
        f"{T_GYMNASIUM}::test_a_recording_of_a_fixed_number_of_steps_is_reported_without_length_bias",
    ),
    Bug(
        "recorder: sums of a JAX loop begin again with an episode",
        "interop/jax_recorder.py",
        "                sums[ends] = 0",
        "                sums[ends] *= 1",
        "tests/interop/test_jax_recorder.py",
    ),
    Bug(
        "recorder: an episode goes on from one part of a JAX loop to the next",
        "interop/jax_recorder.py",
        "        if not self._sums:",
        "        if True:",
        "tests/interop/test_jax_recorder.py",
    ),
    Bug(
        "recorder: nothing is complete before an episode",
        RECORDING,
        "(self.episodes_per_env or 1)",
        "(self.episodes_per_env or 0)",
        f"{T_GYMNASIUM}::test_a_recording_of_a_fixed_number_of_steps_is_reported_without_length_bias",
    ),
    Bug(
        "adopted: the picture is that of the wrapped state",
        ADAPTER,
        "lambda self, state: draw(state.env_state)",
        "lambda self, state: draw(state)",
        f"{T_ADOPTED}::test_the_picture_is_that_of_the_wrapped_state",
    ),
    Bug(
        "adopted: a detector of rewards gets the reward",
        ADAPTER,
        '{"reward": reward} if _takes_reward(count)',
        '{"reward": state.time} if _takes_reward(count)',
        f"{T_ADOPTED}::test_a_detector_may_look_at_the_reward",
    ),
    Bug(
        "adopted: a corrected picture changes no run",
        ADAPTER,
        '"display_functions": (draw,) if draw else ()',
        '"display_functions": ()',
        f"{T_ADOPTED}::test_a_corrected_picture_does_not_change_the_run",
    ),
    Bug(
        "sources: only the picture may change",
        PLUGINS,
        'lines[first - 1 : first - 1 + len(block)] = [b""] * len(block)',
        "lines = []",
        f"{T_ADOPTED}::test_a_corrected_picture_does_not_change_the_run",
    ),
    Bug(
        "sources: the remedy names no file of a library",
        PLUGINS,
        "if name not in packaged or Path(name).is_file()",
        "if True",
        f"{T_ADOPTED}::test_the_remedy_for_an_unknown_environment_names_no_file_of_its_library",
    ),
    Bug(
        "sources: compared in both directions",
        PLUGINS,
        "for name in {**recorded, **current}:",
        "for name in recorded:",
        "tests/extending/test_sources.py",
    ),
    # ---- relatives: interop, wrappers, statistics, studies, replays
    Bug(
        "jax recorder: infinite costs are refused",
        "interop/jax_recorder.py",
        '        check_cost(columns["violations"].max())\n',
        "",
        "tests/interop/test_jax_recorder.py::test_what_cannot_be_recorded_is_refused",
    ),
    Bug(
        "recorder: no more episodes than episodes_per_env",
        "interop/recording.py",
        "self.finished[env_index] < self.episodes_per_env:",
        "self.finished[env_index] <= self.episodes_per_env:",
        "tests/interop/test_gymnasium.py::test_the_first_episodes_of_every_environment_are_those_of_a_longer_recording",
    ),
    Bug(
        "recorder: the last cost of an episode is in final_info",
        "interop/recorder.py",
        'if "final_info" in infos and infos["_final_info"][env_index]:',
        "if False:",
        "tests/interop/test_gymnasium.py::test_a_recording_of_a_fixed_number_of_steps_is_reported_without_length_bias",
    ),
    Bug(
        "adapters: a vector's limit holds in every mode",
        "interop/gymnasium.py",
        "program.step_same(state, actions, self._max_episode_steps)",
        "program.step_same(state, actions, UNLIMITED_STEPS)",
        "tests/interop/test_gymnasium.py::test_a_vector_can_truncate_episodes_early",
    ),
    Bug(
        "adapters: a final observation is that of its environment",
        "interop/gymnasium.py",
        "final[i] = np.array(observations[i])",
        "final[i] = np.array(observations[ended.argmax()])",
        "tests/interop/test_gymnasium.py::test_episodes_equal_their_replays",
    ),
    Bug(
        "adapters: a death terminates, a timeout does not",
        "interop/gymnax.py",
        "end_flags(UNLIMITED_STEPS)[0]",
        "end_flags(UNLIMITED_STEPS)[1]",
        "tests/interop/test_gymnax.py::test_step_env_says_how_an_episode_ended",
    ),
    Bug(
        "adapters: six values are wrapped once",
        "interop/safety_gymnasium.py",
        "class _Vector(gymnasium.vector.VectorWrapper, SixValues):",
        "class _Vector(gymnasium.vector.VectorWrapper):",
        "tests/interop/test_safety_gymnasium.py::test_a_step_of_six_values_is_not_wrapped_again",
    ),
    Bug(
        "command line: the printed next command names the plugin",
        "plugins.py",
        'if listed != _EXPORTED else ""',
        'if False else ""',
        "tests/extending/test_adopted.py::test_the_printed_next_command_runs_in_a_new_shell",
    ),
    Bug(
        "wrappers: an episode that a time limit ends leaves nothing behind",
        "wrappers/gymnax.py",
        "over = ends[0] if len(ends) == 1 else ends[0] | ends[1]",
        "over = ends[0]",
        "tests/wrappers/test_gymnax.py::test_a_time_limit_that_is_no_end_for_the_trainer_begins_the_next_episode_too",
    ),
    Bug(
        "wrappers: a final observation is that of its environment",
        "wrappers/gymnasium.py",
        '(info["final_obs"][index], final[index])',
        '(info["final_obs"][index], final[0])',
        "tests/wrappers/test_gymnasium.py::test_a_final_observation_shows_what_its_own_episode_accrued",
    ),
    Bug(
        "wrappers: a masked reset begins no other episode",
        "wrappers/gymnasium.py",
        "self._over &= ~begins",
        "self._over[:] = False",
        "tests/wrappers/test_gymnasium.py::test_a_masked_reset_lets_no_other_environment_go_on",
    ),
    Bug(
        "wrappers: the utility of an episode begins at zero",
        "wrappers/gymnax.py",
        "utility=jnp.where(where, self.utility, 0.0)",
        "utility=self.utility",
        "tests/wrappers/test_gymnax.py::test_rewards_of_an_episode_sum_to_the_utility_of_its_totals",
    ),
    Bug(
        "verdicts: equivalent means may differ detectably",
        "evaluation/verdicts.py",
        "if self.p_equivalent < SIGNIFICANT:",
        "if self.p_equivalent < SIGNIFICANT and not self.detectable:",
        "tests/evaluation/test_verdicts.py::test_the_three_words",
    ),
    Bug(
        "verdicts: Newcombe's interval takes opposite sides",
        "evaluation/verdicts.py",
        "math.hypot(b.mean - b.low, a.high - a.mean)",
        "math.hypot(b.high - b.mean, a.mean - a.low)",
        "tests/evaluation/test_verdicts.py::test_the_test_of_shares_is_welchs_on_freeman_and_tukeys_transform",
    ),
    Bug(
        "pairs: a reversed ratio is its inverse",
        "evaluation/verdicts.py",
        "1 / self.ratio, self.p",
        "self.ratio, self.p",
        "tests/report/test_pairs.py::test_a_pair_reads_the_same_from_both_sides",
    ),
    Bug(
        "pairs: a reversed test names the other agent",
        "evaluation/verdicts.py",
        "heavier=-self.heavier",
        "heavier=self.heavier",
        "tests/report/test_pairs.py::test_a_pair_reads_the_same_from_both_sides",
    ),
    Bug(
        "pairs: reversed returns change their sign",
        "report/statistics/pairs.py",
        "self.returns.reversed, self.means.reversed",
        "self.returns, self.means.reversed",
        "tests/report/test_pairs.py::test_a_pair_reads_the_same_from_both_sides",
    ),
    Bug(
        "pairs: without a difference, the contrast is the pair with the least p",
        "report/statistics/pairs.py",
        "return 1, self._primary.p if stated(self.p) else math.inf, -self.ratio",
        "return 1, -self.ratio",
        "tests/report/test_headline.py::test_agents_that_are_alike_show_no_difference",
    ),
    Bug(
        "pairs: a share describes a pair only if it is significant",
        "report/statistics/pairs.py",
        " and not over.p >= verdicts.SIGNIFICANT",
        "",
        "tests/report/test_pairs.py::test_a_share_describes_a_pair_only_if_it_shows_the_same",
    ),
    Bug(
        "points: the margin of costs is a share of the smaller mean",
        "report/statistics/points.py",
        "verdicts.MARGIN_SHARE * min(",
        "verdicts.MARGIN_SHARE * max(",
        "tests/report/test_pairs.py::test_margins_are_stated_or_come_from_the_agents",
    ),
    Bug(
        "frontiers: interpolated at the agent's violations",
        "report/statistics/frontiers.py",
        "between.weight * (high - low) - point.mean_return",
        "(1 - between.weight) * (high - low) - point.mean_return",
        "tests/report/test_tables.py::test_how_far_esr_is_below_the_others_frontier",
    ),
    Bug(
        "curves: smoothed over the last steps alone",
        "report/statistics/curves.py",
        "starts = np.maximum(0, ends - width)",
        "starts = np.zeros_like(ends)",
        "tests/report/test_inputs.py::test_smoothing_keeps_a_straight_line_and_thinning_the_ends",
    ),
    Bug(
        "study: a worker whose heartbeat is old is dead",
        "study/task_folder.py",
        "time.time() - when < STALE_SECONDS",
        "True",
        "tests/study/test_local.py::test_a_worker_lives_while_its_process_or_its_heartbeat_does",
    ),
    Bug(
        "study: a process that nobody has waited for is dead",
        "study/task_folder.py",
        '!= "Z"',
        '!= ""',
        "tests/study/test_local.py::test_a_worker_lives_while_its_process_or_its_heartbeat_does",
    ),
    Bug(
        "study: a task whose worker alone was stopped resumes",
        "study/local.py",
        "elif code == run_task.RESUME and not self.stop_reason:",
        "elif False:",
        "tests/study/test_local.py::test_a_task_whose_worker_alone_was_stopped_resumes_in_the_same_start",
    ),
    Bug(
        "packing: the smallest of the GPUs decides",
        "study/packing.py",
        "min(memories[i] for i in chosen)",
        "max(memories[i] for i in chosen)",
        "tests/study/test_packing.py::test_packs_fit_the_smallest_gpu_that_is_used",
    ),
    Bug(
        "packing: hidden GPUs do not count",
        "study/packing.py",
        "return [int(word) for word in named if int(word) < count] or list(range(count))",
        "return list(range(count))",
        "tests/study/test_packing.py::test_packs_fit_the_smallest_gpu_that_is_used",
    ),
    Bug(
        "replay: abstentions are those of agents with a budget",
        "replay/selection.py",
        "(single if budgeted.empty else budgeted)",
        "single",
        "tests/replay/test_replay.py::test_abstentions_are_looked_for_in_long_episodes_of_agents_with_a_budget",
    ),
    Bug(
        "replay: of equal violations the lowest return is worst",
        "replay/selection.py",
        "ascending=[False, True]",
        "ascending=[False, False]",
        "tests/replay/test_replay.py::test_the_worst_come_first",
    ),
    Bug(
        "progress: means over seeds count zeros",
        "training/progress.py",
        "if row.get(name) is not None]",
        "if row.get(name)]",
        "tests/training/test_progress.py::test_a_mean_over_seeds_counts_zeros_and_no_missing_values",
    ),
    Bug(
        "progress: the time left counts down between updates",
        "training/progress.py",
        "(self.updates - self.done) * self.seconds_per_update - since_note",
        "(self.updates - self.done) * self.seconds_per_update",
        "tests/training/test_progress.py::test_the_remaining_time_counts_down_between_notes_and_excludes_compilation",
    ),
    # ---- the command line
    Bug(
        "command line: an option without a value does not take its default",
        "cli.py",
        "if value == ()",
        "if value is None",
        "tests/test_cli.py",
    ),
    Bug(
        "tables: shares are per cent",
        "report/tables.py",
        "percent if spec.share else plus_minus",
        "plus_minus",
        T_MEASURE,
    ),
    # ---- preferences from people
    Bug(
        "preferences: labels: a line that a kill cut short is closed off",
        "preferences/labels.py",
        'line = b"\\n" + line',
        "pass",
        f"{T_LABELS}::test_a_line_cut_short_by_a_kill_is_closed_off",
    ),
    Bug(
        "preferences: labels: on disk when append returns",
        "preferences/labels.py",
        "        os.fsync(file.fileno())",
        "        pass",
        f"{T_LABELS}::test_an_answer_is_on_disk_when_append_returns",
    ),
    Bug(
        "preferences: labels: what a full disk took in part is taken out",
        "preferences/labels.py",
        "            file.truncate(end)",
        "            pass",
        f"{T_LABELS}::test_what_a_full_disk_takes_in_part_leaves_no_trace",
    ),
    Bug(
        "preferences: labels: nothing is written behind another server's back",
        "preferences/labels.py",
        "        if size not in (None, end):",
        "        if False:",
        f"{T_LABELS}::test_a_label_is_not_written_if_somebody_else_wrote_meanwhile",
    ),
    Bug(
        "preferences: labels: an undo takes back",
        "preferences/labels.py",
        "            del found[undo.undoes]",
        "            pass",
        f"{T_LABELS}::test_an_undo_takes_back_a_label_of_the_same_rater",
    ),
    Bug(
        "preferences: labels: only of the same rater",
        "preferences/labels.py",
        " and found[undo.undoes].rater == undo.rater",
        "",
        f"{T_LABELS}::test_an_undo_takes_back_a_label_of_the_same_rater",
    ),
    Bug(
        "preferences: labels: the digest names the keys",
        "preferences/labels.py",
        '.encode() + row["actions"]',
        '.encode()[:0] + row["actions"]',
        f"{T_LABELS}::test_the_digest_names_keys_and_actions",
    ),
    Bug(
        "preferences: pairs: another seed asks other pairs",
        "preferences/pairs.py",
        "[self.seed, zlib",
        "[0, zlib",
        f"{T_PAIR}::test_the_next_pair_follows_from_seed_rater_and_labels",
    ),
    Bug(
        "preferences: pairs: the order of a repeat is random",
        "preferences/pairs.py",
        "left, right = random.permutation([self.rows[label.left.digest], self.rows[label.right.digest]])",
        "left, right = self.rows[label.left.digest], self.rows[label.right.digest]",
        f"{T_PAIR}::test_the_share_of_repeats_and_their_order",
    ),
    Bug(
        "preferences: pairs: candidates from the whole plane",
        "preferences/pairs.py",
        "np.where(random.random(size) < 0.5, pairs, spread)",
        "pairs",
        f"{T_PAIR}::test_active_pairs_are_spread_over_the_plane",
    ),
    Bug(
        "preferences: pairs: rejected pairs are avoided",
        "preferences/pairs.py",
        "(1 - rejects) * (",
        "(",
        f"{T_PAIR}::test_pairs_that_would_be_rejected_are_avoided",
    ),
    Bug(
        "preferences: fit: a tie is the geometric mean",
        "preferences/bradley_terry.py",
        "left, right, (left + right) / 2",
        "left, right, left + right",
        f"{T_BT}::test_the_probabilities_by_hand",
    ),
    Bug(
        "preferences: fit: weights stay positive",
        "preferences/bradley_terry.py",
        "np.append(np.full(features.number, monotone), (False, False))",
        "np.zeros(features.number + 2, bool)",
        T_BT,
    ),
    Bug(
        "preferences: fit: features fall with violations",
        "preferences/bradley_terry.py",
        "np.broadcast_arrays(returns, -ETHICAL_PENALTY * violations)",
        "np.broadcast_arrays(returns, ETHICAL_PENALTY * violations)",
        T_BT,
    ),
    Bug(
        "preferences: fit: repeats stay in the fold",
        "preferences/fit.py",
        "permutation(answers.pairs.max() + 1)[answers.pairs] % FOLDS",
        "permutation(len(answers)) % FOLDS",
        f"{T_FIT}::test_labels_of_a_pair_stay_in_one_fold",
    ),
    Bug(
        "preferences: fit: held out",
        "preferences/fit.py",
        "bradley_terry.fit(features, answers[~own], monotone, prior_std).log",
        "bradley_terry.fit(features, answers, monotone, prior_std).log",
        T_FIT,
    ),
    Bug(
        "preferences: fit: units of return",
        "preferences/fit.py",
        "scale=1.0 / slope",
        "scale=slope",
        f"{T_FIT}::test_units",
    ),
    Bug(
        "preferences: fit: an inversion within the support is refused",
        "preferences/fit.py",
        "if refused and not allow_inversion:",
        "if False:",
        f"{T_FIT}::test_an_inverted_fit_is_refused_with_its_place",
    ),
    Bug(
        "preferences: support: both counts of an inversion",
        "preferences/support.py",
        "held[low] & held[high]",
        "held[low] | held[high]",
        f"{T_FIT}::test_an_inversion_without_labels_is_shown_and_not_refused",
    ),
    Bug(
        "preferences: support: all low counts are examined",
        "preferences/bradley_terry.py",
        "    lowest = LOWEST_COUNTS if are_counts(values) else 0",
        "    lowest = 0",
        f"{T_FIT}::test_low_counts_are_told_apart_whatever_the_worst_episode",
    ),
    Bug(
        "preferences: support: large counts are near within a tenth",
        "preferences/support.py",
        "np.maximum(NEAR_COUNT, NEAR * violations)",
        "NEAR_COUNT + 0 * violations",
        f"{T_FIT}::test_large_counts_are_near_within_a_tenth",
    ),
    Bug(
        "preferences: support: compared across counts",
        "preferences/support.py",
        " & (near & self.across).any(axis=-1)",
        "",
        f"{T_FIT}::test_support_by_hand",
    ),
    Bug(
        "preferences: support: skipped pairs are no evidence",
        "preferences/support.py",
        'if label.answer != "skip"]',
        "if label.answer]",
        f"{T_FIT}::test_support_by_hand",
    ),
    Bug(
        "preferences: agreement: α without chance",
        "preferences/agreement.py",
        "return float(1 - disagreeing / expected)",
        "return float(1 - disagreeing / totals.sum())",
        T_AGREE,
    ),
    Bug(
        "preferences: agreement: whatever the order on the page",
        "preferences/agreement.py",
        "    if label.left.digest == label.pair[0]:",
        "    if label:",
        T_AGREE,
    ),
    # ---- the benchmark
    Bug(
        "benchmark: episodes are the protocol's",
        "benchmark/submissions.py",
        "    if found == expected:",
        "    if len(found) == len(expected):",
        f"{T_BENCHMARK}::test_episodes_chosen_by_hand_are_refused",
    ),
    Bug(
        "benchmark: the digest is compared",
        "benchmark/verification.py",
        'results.seal(result.content) != result.content["digest"]',
        "False",
        f"{T_BENCHMARK}::test_one_changed_digit_is_refused",
    ),
    Bug(
        "benchmark: a number has the digits of its value",
        "benchmark/results.py",
        "repr(value := float(text)) != text",
        "not (value := float(text)) and not text",
        f"{T_BENCHMARK}::test_a_changed_digit_that_leaves_the_number_as_it_was_is_refused",
    ),
    Bug(
        "benchmark: counts are replayed",
        "benchmark/verification.py",
        '("length", "violations", "return")',
        '("length", "return")',
        f"{T_BENCHMARK}::test_a_careful_forger_is_noticed_by_replay",
    ),
    Bug(
        "benchmark: returns are replayed to the last bit",
        "benchmark/verification.py",
        "max(apart) <= FLOAT32 and not _played_here(result)",
        "max(apart) <= FLOAT32",
        f"{T_BENCHMARK}::test_a_careful_forger_is_noticed_by_replay",
    ),
    Bug(
        "benchmark: statistics to the last decimal",
        "benchmark/verification.py",
        "abs(stated - value) <= ROUNDED",
        "abs(stated - value) <= 1e-6",
        f"{T_BENCHMARK}::test_one_changed_digit_is_refused_with_a_new_digest",
    ),
    Bug(
        "benchmark: a run's id is that of its configuration",
        "benchmark/verification.py",
        '    if run_id != run.get("id"):',
        "    if False:",
        f"{T_BENCHMARK}::test_one_changed_digit_is_refused_with_a_new_digest",
    ),
    Bug(
        "benchmark: training for another dilemma",
        "benchmark/protocol.py",
        "(env, dilemma, version) == (self.env, self.dilemma, self.env_version)",
        "(env, version) == (self.env, self.env_version)",
        f"{T_BENCHMARK}::test_an_agent_trained_on_another_protocol_is_refused",
    ),
    Bug(
        "benchmark: the agent's own actions",
        "benchmark/verification.py",
        "    if same == len(rows):",
        "    if rows is not None:",
        f"{T_BENCHMARK}::test_selected_attempts_are_noticed_when_the_agent_plays_again",
    ),
    Bug(
        "benchmark: an agent starts every episode afresh",
        "benchmark/play.py",
        "jnp.where(timestep.ended, new, old)",
        "jnp.where(False, new, old)",
        f"{T_BENCHMARK}::test_agents_play_as_in_evaluation",
    ),
    Bug(
        "benchmark: an action's random numbers are its step's",
        "benchmark/play.py",
        "action_key(state.episode_key, state.time)",
        "action_key(state.episode_key, 0)",
        f"{T_BENCHMARK}::test_agents_play_as_in_evaluation",
    ),
    Bug(
        "benchmark: the verdict follows the interval",
        "benchmark/leaderboard.py",
        "over.high <= self.protocol.delta",
        "over.mean <= self.protocol.delta",
        f"{T_BENCHMARK}::test_verdicts_follow_the_interval_of_the_share",
    ),
    Bug(
        "benchmark: no policy counts twice",
        "benchmark/leaderboard.py",
        'f"{protocol} {result.agent[\'sha256\']}", "policy"',
        'f"{protocol} {result.path}", "policy"',
        f"{T_BENCHMARK}::test_no_seed_counts_twice",
    ),
    Bug(
        "benchmark: keys without JAX",
        "environments/episode_keys.py",
        "np.uint32(group + 1)",
        "np.uint32(group)",
        f"{T_BENCHMARK}::test_keys_are_those_of_jax_and_of_gymnasiums_seeds",
    ),
    Bug(
        "benchmark: an episode's recorded actions are its own",
        "interop/recorder.py",
        "= {}, False, [], keys[i]",
        "= {}, False, self.actions[i], keys[i]",
        f"{T_BENCHMARK}::test_a_recorders_table_is_accepted",
    ),
    Bug(
        "benchmark: recorded actions go on where parts join",
        "interop/jax_recorder.py",
        "np.concatenate([*self._actions[env_index], last])",
        "np.concatenate([last])",
        "tests/interop/test_jax_recorder.py::test_with_keys_and_actions_it_has_what_a_replay_needs",
    ),
)


def outdated(tree: Path) -> list[str]:
    """The bugs whose code or tests are not found."""
    missing = []
    for bug in BUGS:
        path = tree / "src" / "perepisode" / bug.file
        count = path.read_text().count(bug.old) if path.exists() else 0
        missing += [f"{bug.rule}: {bug.file} has {bug.old!r} {count} times"] if count != 1 else []
        for test in bug.tests.split():
            file, _, name = test.partition("::")
            text = "" if (tree / file).is_dir() else (tree / file).read_text() if (tree / file).exists() else None
            if text is None or (name and f"def {name}(" not in text):
                missing.append(f"{bug.rule}: there is no test {test}")
    return missing


def passes(tree: Path, tests: str) -> tuple[bool, str]:
    """Whether these tests pass in the tree, and the first that fails."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow and not browser", "-p", "no:cacheprovider"]
    ended = subprocess.run([*command, *tests.split()], cwd=tree, env=environment, capture_output=True, text=True)
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ended.returncode not in (0, 1, 2):
        sys.exit(f"the tests could not be run: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.returncode == 0, failed[0].split(" - ")[0].split("::")[-1].split("[")[0] if failed else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only bugs whose rule contains this")
    parser.add_argument("--out", type=Path, help="table to write (Markdown)")
    parser.add_argument("--check", action="store_true", help="only check that the code and the tests are found")
    arguments = parser.parse_args()
    if missing := outdated(ROOT):
        sys.exit("\n".join(missing))
    if arguments.check:
        return
    bugs = [bug for bug in BUGS if arguments.only in bug.rule]
    lines = ["| rule | file | noticed by |", "|---|---|---|"]
    start, missed = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for name in ("src", "tests", "docs", "benchmarks"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, tree)
        passed, first = passes(tree, " ".join(dict.fromkeys(" ".join(bug.tests for bug in bugs).split())))
        if not passed:
            sys.exit(f"the tests fail before anything is planted: {first}")
        for bug in bugs:
            path = tree / "src" / "perepisode" / bug.file
            before = path.read_text()
            path.write_text(before.replace(bug.old, bug.new))
            unnoticed, first = passes(tree, bug.tests)
            path.write_text(before)
            missed += [bug] if unnoticed else []
            lines.append(f"| {bug.rule} | {bug.file} | {'**not noticed**' if unnoticed else first} |")
            print(f"{'NOT NOTICED' if unnoticed else 'noticed'}: {bug.rule} ({first})", flush=True)
    summary = f"{len(bugs) - len(missed)} of {len(bugs)} planted bugs are noticed"
    print(f"{summary}; {(time.monotonic() - start) / 60:.0f} min")
    if arguments.out:
        arguments.out.write_text(
            "\n".join(["# Planted bugs", "", f"{summary} (`{Path(__file__).name}`).", "", *lines, ""])
        )
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
