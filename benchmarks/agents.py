"""Every agent against the exact optima of Temptation: SER, the Lagrangian and ESR on five seeds.

python benchmarks/agents.py [--agents ppo_mlp pqn_gru] [--seeds 1 2 3 4 5] [--out results/agents]

Writes optima.csv: per agent, method and seed the mean return and count, the objective and its exact optimum.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from perepisode import algorithms
from perepisode.algorithms import AGENTS
from perepisode.config import EvalConfig
from perepisode.environments.temptation import Temptation
from perepisode.environments.temptation.exact import esr_optimum, linear_price
from perepisode.evaluation.rollout import Agent, evaluate_agents
from perepisode.runs import Run
from perepisode.study import exact
from perepisode.training.train import TrainingOptions, train

SEEDS = (1, 2, 3, 4, 5)
STEPS = 600_000
METHODS = (("ser", {"weight": 0.2}), ("lagrangian", {"budget": 1, "lambda_lr": 0.05}), ("esr", {"budget": 1}))
EVALUATION = EvalConfig(num_envs=256, num_steps=40, episodes_per_env=24)


def measured(agent: str, seeds: Sequence[int], out: Path) -> pd.DataFrame:
    """Train and evaluate the agent with every method and seed in one program → one row per run."""
    config = algorithms.default_config(Temptation, agent)
    runs = [
        Run("temptation", "temptation", method, given, seed, 0.99, STEPS, agent=agent, config=config)
        for method, given in METHODS
        for seed in seeds
    ]
    folders = train(runs, TrainingOptions(out, chunk=50))
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
    elif method == "lagrangian":
        found, optimum = mean_return, exact.linear_return_at(float(count))
    else:
        found, optimum = episodes["utility"].mean(), esr_optimum(env, exact.stated_utility(1), most=3).utility
    numbers = {"return": mean_return, "violations": count, "objective": found, "exact": optimum}
    return {name: round(float(value), 4) for name, value in (numbers | {"share": found / optimum}).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", nargs="+", default=list(AGENTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=Path("results/agents"))
    parser.add_argument("--runs", type=Path, default=Path("out/agents"), help="folder of the runs")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tables = []
    for agent in arguments.agents:
        tables.append(measured(agent, arguments.seeds, arguments.runs))
        table = pd.concat(tables, ignore_index=True)
        table.to_csv(arguments.out / "optima.csv", index=False)
    print(table.groupby(["agent", "method"], sort=False)["share"].agg(["min", "mean"]).round(4))


if __name__ == "__main__":
    main()
