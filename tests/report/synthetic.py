"""Made-up studies with the shape of real ones, so that a report can be looked at without training anything.

Linear methods take every opportunity with one probability, so their counts are binomial; the per-episode
methods stop at their budget, but for a small leak.  All agents share one mean frontier by construction.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

SEEDS = (42, 123, 7)
OPPORTUNITIES = {"no_killing": 6, "sustainability": 12, "proportional_force": 6}
TAKEN = {"no_killing": 0.40, "sustainability": 0.42, "proportional_force": 0.0008}
GAIN = {"no_killing": 6.0, "sustainability": 5.0, "proportional_force": 0.2}
CALM = {"no_killing": 0.9, "sustainability": 2.5, "proportional_force": 1.0}
SER_PART = {0.1: 0.45, 0.3: 0.16, 1.0: 0.05, 3.0: 0.01, 10.0: 0.002}
LAGRANGIAN_MEAN = {0.5: 0.5, 1.0: 1.0, 2.0: 1.9, 4.0: 2.4}


def craftax(episodes: int = 200, seeds=SEEDS, dilemmas=tuple(OPPORTUNITIES)) -> pd.DataFrame:
    """A small copy of the paper's run matrix, with γ = 1 twins and the paper's blind spot of 8 %."""
    generator = np.random.default_rng(0)
    parts = [
        _run(generator, dilemma, seed, episodes, *arm)
        for dilemma in dilemmas
        for arm in _arms(dilemma)
        for seed in seeds
        if arm[0] != "unconstrained" or dilemma == dilemmas[0]
    ]
    table = pd.concat(parts, ignore_index=True)
    table["environment"] = "craftax"
    return table


def temptation(episodes: int = 300, seeds=SEEDS) -> pd.DataFrame:
    """The 40-step miniature: one dilemma, fixed length, and a cost of a few points."""
    generator = np.random.default_rng(1)
    arms = [arm for arm in _arms("no_killing") if arm[3] != 1.0 and arm[0] != "esr_distilled"]
    parts = [_run(generator, "no_killing", seed, episodes, *arm) for arm in arms for seed in seeds]
    table = pd.concat(parts, ignore_index=True)
    table = table.drop(columns=[name for name in table if name.startswith("violations_")])
    table["violations_temptation"] = table["violations_temptation_paper"] = table["violations"]
    return table.assign(environment="temptation", dilemma="temptation", length=40, in_window=True)


def external(episodes: int = 150) -> pd.DataFrame:
    """Somebody else's agents: four columns and nothing more."""
    generator = np.random.default_rng(2)
    rows = []
    for method, level in (("PPO", 40.0), ("PPO-Lag", 24.0), ("CPO", 26.0)):
        for seed in range(5):
            costs = generator.poisson(generator.gamma(2.0, level / 2.0, episodes))
            rows.append(pd.DataFrame({"method": method, "seed": seed, "return": 15 + level / 8, "violations": costs}))
    table = pd.concat(rows, ignore_index=True)
    table["return"] += generator.normal(0, 3, len(table))
    return table


def exact_optima() -> list[dict]:
    linear = [(0.5, 30.8, 0.2), (1.5, 33.0, 0.5), (2.5, 36.0, 1.6)]
    items = [
        {
            "label": f"price {price}",
            "kind": "linear",
            "return": r,
            "mean_violations": m,
            "cvar": m + 1.1,
            "p_over": 0.1,
        }
        for price, r, m in linear
    ]
    esr = {"label": "k=1", "kind": "esr", "return": 34.2, "mean_violations": 0.8, "cvar": 1.0, "p_over": 0.0}
    return [*items, {**esr, "distribution": [0.2, 0.8]}]


def curves(folder: Path, updates: int = 120, steps: float = 1e9) -> list[Path]:
    """Run folders with a configuration and metrics, as training writes them."""
    generator = np.random.default_rng(3)
    folders = []
    for method, arm, value, gamma, _ in _arms("no_killing"):
        if gamma == 1.0 or method == "ser_racc":
            continue
        for seed in SEEDS:
            name = folder / f"{method}-{arm or 'plain'}-{seed}"
            name.mkdir(parents=True)
            run = {"env": "craftax", "dilemma": "no_killing", "method": method, "settings": {}, "arm": arm}
            (name / "run.json").write_text(json.dumps({**run, "seed": seed, "gamma": gamma, "detector": "exact"}))
            rows = _curve(generator, method, value, updates, steps)
            (name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            folders.append(name)
    return folders


def utility(dilemma: str, top: float = 45.0) -> dict:
    """A hand-made network with the cliff of a distilled utility: u = 1[v = 0] R_ext - 4 v, smoothed."""
    r_ext, r_eth = np.meshgrid(np.linspace(0, top, 40), -10.0 * np.arange(0, 6))
    inputs = np.stack([r_ext.ravel(), r_eth.ravel()], axis=1)
    mean, std = inputs.mean(0), inputs.std(0)
    target = np.where(inputs[:, 1] == 0, inputs[:, 0], 0.1 * inputs[:, 0]) + 0.6 * inputs[:, 1]
    generator = np.random.default_rng(4)
    kernel, bias = generator.normal(size=(2, 64)) * 2, generator.normal(size=64) * 2
    hidden = np.tanh((inputs - mean) / std @ kernel + bias)
    weights = np.linalg.lstsq(np.c_[hidden, np.ones(len(hidden))], target, rcond=None)[0]
    layers = [
        {"kernel": kernel.tolist(), "bias": bias.tolist()},
        {"kernel": weights[:-1, None].tolist(), "bias": [weights[-1]]},
    ]
    scaling = {"inputs_mean": mean.tolist(), "inputs_std": std.tolist(), "offset": 0.0, "scale": 1.0}
    return {"kind": "distilled", "dilemma": dilemma, "layers": layers, **scaling}


def _arms(dilemma: str) -> list[tuple]:
    """(method, arm, value, γ, how it takes opportunities: a probability, or (budget, probability))."""
    free, chances = TAKEN[dilemma], OPPORTUNITIES[dilemma]
    arms = [("unconstrained", "", np.nan, 0.99, free)]
    arms += [("erm", name, np.nan, 0.99, free * 0.003) for name in ("absolute", "calculated", "heuristic")]
    arms += [("ser", f"w={w:g}", w, 0.99, free * part) for w, part in SER_PART.items()]
    arms += [("lagrangian", f"d={d:g}", d, 0.99, min(free, m / chances)) for d, m in LAGRANGIAN_MEAN.items()]
    arms += [("ser_racc", f"w={w:g}", w, 0.99, free * SER_PART[w] * 0.9) for w in (0.1, 0.3)]
    arms += [("esr", "k=0", 0.0, gamma, (0, free * 0.01)) for gamma in (0.99, 1.0)]
    arms += [("esr_distilled", "", np.nan, gamma, (0, free * 0.02)) for gamma in (0.99, 1.0)]
    if dilemma != "proportional_force":
        arms += [("esr", f"k={k}", float(k), 0.99, (k, free * 0.35)) for k in (1, 2, 4)]
    return arms


def _run(generator, dilemma, seed, episodes, method, arm, value, gamma, taking) -> pd.DataFrame:
    counts = {name: generator.binomial(OPPORTUNITIES[name], TAKEN[name], episodes) for name in OPPORTUNITIES}
    if method != "unconstrained":
        counts[dilemma] = _counts(generator, OPPORTUNITIES[dilemma], taking, episodes)
    lengths = generator.gamma(4.0, 82.0, episodes).astype(int) + 20
    own = counts[dilemma]
    drift = generator.normal(0, 0.25)
    gained = GAIN[dilemma] * (1 - np.exp(-own.mean() / CALM[dilemma]))
    returns = 31 + gained + drift + 0.8 * (own - own.mean()) + generator.normal(0, 3.0, episodes)
    table = pd.DataFrame(
        {
            "run": f"{dilemma[:4]}-{method}-{arm}-{gamma:g}-{seed}",
            "dilemma": dilemma,
            "method": method,
            "arm": arm,
            "value": value,
            "seed": seed,
            "gamma": gamma,
            "detector": "exact",
            "env_index": np.arange(episodes) % 64,
            "episode_index": np.arange(episodes) // 64,
            "in_window": generator.random(episodes) > lengths / 4096,
            "in_first": np.arange(episodes) // 64 < 10,
            "return": returns,
            "length": lengths,
            "end_cause": "death",
            "utility": returns - own,
            "violations": own,
            "total_timesteps": 1_000_000_000,
        }
    )
    for name, exact in counts.items():
        table[f"violations_{name}"] = exact
        table[f"violations_{name}_paper"] = generator.binomial(exact, 0.92)
    return table


def _counts(generator, chances: int, taking, episodes: int) -> np.ndarray:
    if not isinstance(taking, tuple):
        return generator.binomial(chances, taking, episodes)
    budget, probability = taking
    eager = probability * (1 + budget / 4) if budget else probability
    leak = generator.random(episodes) < (0.01 if budget else 0.001)
    return np.minimum(generator.binomial(chances, eager, episodes), budget) + leak


def _curve(generator, method: str, value: float, updates: int, steps: float) -> list[dict]:
    share = (np.arange(updates) + 1) / updates
    top = {"unconstrained": 37.0, "esr": 34.0, "lagrangian": 34.5, "ser": 33.0}.get(method, 31.5)
    returns = top * (1 - np.exp(-4 * share)) + generator.normal(0, 0.4, updates)
    violations = (2.4 if method == "unconstrained" else 0.6) * share + generator.normal(0, 0.03, updates)
    multiplier = max(0.0, 3.0 - value) * (1 - np.exp(-3 * share)) if method == "lagrangian" else None
    return [
        {
            "update": index,
            "steps": float(steps * share[index]),
            "return": float(returns[index]),
            "violations": float(max(0.0, violations[index])),
            "lambda": None if multiplier is None else float(multiplier[index]),
        }
        for index in range(updates)
    ]
