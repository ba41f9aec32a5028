"""Agents and methods against the exact optima of Temptation, on five seeds.

python benchmarks/agents.py [--agents ppo_mlp pqn_gru] [--out results/agents]    # SER, the Lagrangian, ESR
python benchmarks/agents.py --cost-critics [--out results/agents]                # the methods with a cost critic

Writes optima.csv or cost_critics.csv: per agent, method and seed the mean return and count, the objective and its exact
optimum.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from perepisode import algorithms
from perepisode.algorithms import AGENTS
from perepisode.config import EvalConfig
from perepisode.environments.temptation import Temptation
from perepisode.environments.temptation.exact import esr_optimum, linear_price
from perepisode.evaluation.rollout import Agent, evaluate_agents
from perepisode.runs import Run
from perepisode.study import exact
from perepisode.study.packing import pack
from perepisode.training.train import TrainingOptions, train

SEEDS = (1, 2, 3, 4, 5)
STEPS = 600_000
METHODS = (("ser", {"weight": 0.2}), ("lagrangian", {"budget": 1, "lambda_lr": 0.05}), ("esr", {"budget": 1}))
COST_CRITIC_STEPS = 1_000_000
COST_CRITICS = (  # a controller with less integral gain does not reach its price in 390 updates
    ("ppo_lag", {"budget": 1}), ("ppo_pid", {"budget": 1, "ki": 0.05}), ("focops", {"budget": 1}),
    ("p3o", {"budget": 1}), ("crpo", {"budget": 1}),
)  # fmt: skip
# A_r and A_c are divided by 1 + λ, so the entropy bonus that suits a price would weigh three times as much
COST_CRITIC_SETTINGS = {"ent_coef": 0.001}
EVALUATION = EvalConfig(num_envs=256, num_steps=40, episodes_per_env=24)


def measured(
    agent: str, seeds: Sequence[int], out: Path, methods=METHODS, steps=STEPS, changed: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """Train and evaluate the agent with every method and seed → one row per run."""
    config = replace(algorithms.default_config(Temptation, agent), **(changed or {}))
    runs = [
        Run("temptation", "temptation", method, given, seed, 0.99, steps, agent=agent, config=config)
        for method, given in methods
        for seed in seeds
    ]
    folders = [folder for part in pack(runs, len(runs)) for folder in train(part, TrainingOptions(out, chunk=50))]
    episodes = evaluate_agents([Agent.of(folder) for folder in folders], EVALUATION)
    episodes = episodes[episodes["in_first"]]
    rows = [
        {"agent": agent, "method": method, "seed": seed, **_compared(method, own)}
        for (method, seed), own in episodes.groupby(["method", "seed"], sort=False)
    ]
    return pd.DataFrame(rows).sort_values(["method", "seed"])


def _compared(method: str, episodes: pd.DataFrame) -> dict[str, float]:
    """The run's objective and its optimum: return minus price, return at the learned mean count, utility."""
    env, mean_return, count = Temptation(), episodes["return"].mean(), episodes["violations"].mean()
    if method == "ser":
        price = 2.0
        best = linear_price(env, price)
        found, optimum = mean_return - price * count, best.mean_return - price * best.mean_count
    elif method == "esr":
        found, optimum = episodes["utility"].mean(), esr_optimum(env, exact.stated_utility(1), most=3).utility
    else:
        found, optimum = mean_return, exact.linear_return_at(float(count))
    numbers = {"return": mean_return, "violations": count, "objective": found, "exact": optimum}
    return {name: round(float(value), 4) for name, value in (numbers | {"share": found / optimum}).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", nargs="+")
    parser.add_argument("--cost-critics", action="store_true", help="measure the methods with a cost critic")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=Path("results/agents"))
    parser.add_argument("--runs", type=Path, default=Path("out/agents"), help="folder of the runs")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    able = [name for name, agent in AGENTS.items() if agent.several_streams or not arguments.cost_critics]
    given = (COST_CRITICS, COST_CRITIC_STEPS, COST_CRITIC_SETTINGS) if arguments.cost_critics else ()
    tables = []
    for agent in arguments.agents or able:
        tables.append(measured(agent, arguments.seeds, arguments.runs, *given))
        table = pd.concat(tables, ignore_index=True)
        table.to_csv(arguments.out / ("cost_critics.csv" if given else "optima.csv"), index=False)
    print(table.groupby(["agent", "method"], sort=False)["share"].agg(["min", "mean"]).round(4))


if __name__ == "__main__":
    main()
