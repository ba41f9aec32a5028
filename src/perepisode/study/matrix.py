"""The paper's matrix of runs as values, by family, at any scale.

    family       its runs                                                              runs of the paper
    erm          3 dilemmas x 3 enforcements, and the unconstrained agent                     30
    ser          3 dilemmas x 5 weights                                                       45
    lagrangian   3 dilemmas x 4 budgets                                                       36
    esr          3 dilemmas x {stated k = 0, distilled}                                       18
    budget       the two binding dilemmas x k in {1, 2, 4}                                    18
    ser_racc     3 dilemmas x the two weights matched to the ESR arms                         18
    gamma1       the γ = 1 ablation of `esr`                                                  18

Every arm has 3 seeds.  The paper states neither the two matched weights nor the arms of the ablation.  Here they are
w = 0.1 and 0.3, whose returns are nearest to those of the budget arms, and both arms of `esr` on all three dilemmas.
ESR stands for expected scalarised returns, SER for scalarised expected returns.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perepisode import algorithms, settings
from perepisode.config import ConfigError, SweepGrid, canonical, check_choice
from perepisode.environments import ENVIRONMENTS, Environment
from perepisode.methods import METHODS, PAPER, ConstraintType
from perepisode.methods.erm import TOLERATED
from perepisode.methods.esr_distilled import POOL
from perepisode.runs import Run


@dataclass(frozen=True)
class Matrix:
    """An environment and the grid that its matrix is built from."""

    env: type[Environment]
    sweep: SweepGrid

    @property
    def binding(self) -> tuple[str, ...]:
        return self.sweep.binding or self.env.dilemmas

    @property
    def total_timesteps(self) -> int:
        return self.sweep.total_timesteps or self.env.total_timesteps

    def arms(self, method: str, sweep: Iterable[Mapping[str, Any]], dilemmas: Iterable[str] = ()) -> list[Run]:
        """One method on these dilemmas (by default all), at each of these settings, with every seed."""
        env, grid = self.env, self.sweep
        agent = algorithms.default_agent(env)
        learned_by = {"agent": agent, "config": algorithms.default_config(env, agent)}
        return [
            Run(env.name, dilemma, method, values, seed, grid.gamma, self.total_timesteps, **learned_by)
            for dilemma in dilemmas or env.dilemmas
            for values in sweep
            for seed in grid.seeds
        ]

    def swept(self, method: str) -> list[dict[str, Any]]:
        """The settings of a method's arms: the values that the method declares, or the grid's budgets."""
        cls = METHODS[method]
        budgets = {
            ConstraintType.MEAN: self.sweep.mean_budgets,
            ConstraintType.EPISODE: self.sweep.episode_budgets,
        }
        if values := cls.swept_values or (budgets.get(cls.constraint) if cls.symbol else None):
            return [{cls.swept: value} for value in values]
        if cls.swept and settings.of(cls)[cls.swept].required:
            raise ConfigError(f"{method} has no values of {cls.swept} to sweep; declare swept_values in its class")
        return [{}]


def of(env: str, total_timesteps: int = 0, seeds: Iterable[int] = ()) -> Matrix:
    """The matrix of an environment, with other steps or seeds if given."""
    check_choice("env", env, ENVIRONMENTS)
    sweep, seeds = ENVIRONMENTS[env].sweep, tuple(seeds)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {' '.join(map(str, seeds))} names a seed twice")
    sweep = replace(sweep, total_timesteps=total_timesteps or sweep.total_timesteps, seeds=seeds or sweep.seeds)
    return Matrix(ENVIRONMENTS[env], sweep)


def paper() -> list[Run]:
    """The paper's 183 runs."""
    return flat(families(of("craftax")))


def families(matrix: Matrix) -> dict[str, list[Run]]:
    """Every run of the matrix, by family in the paper's order."""
    sweep, arms, first = matrix.sweep, matrix.arms, matrix.env.dilemmas[:1]
    found = {
        # trained once: its reward is the task's alone, and evaluation counts the violations of every dilemma
        "erm": arms("unconstrained", [{}], first) + arms("erm", [{"enforcement": name} for name in TOLERATED]),
        "ser": arms("ser", [{"weight": weight} for weight in sweep.weights]),
        "lagrangian": arms("lagrangian", [{"budget": d, "lambda_lr": sweep.lambda_lr} for d in sweep.mean_budgets]),
    }
    found["esr"] = arms("esr", [{"budget": 0}]) + _distilled(matrix, found["erm"] + found["ser"])
    found["budget"] = arms("esr", [{"budget": k} for k in sweep.episode_budgets], matrix.binding)
    found["ser_racc"] = arms("ser_racc", [{"weight": weight} for weight in sweep.matched_weights])
    found["gamma1"] = [replace(run, gamma=sweep.ablation_gamma) for run in found["esr"]]
    return found


def extra_baselines(matrix: Matrix) -> dict[str, list[Run]]:
    """Every method that is not in the paper, on the binding dilemmas; those that it names as future work come first."""
    return {name: matrix.arms(name, matrix.swept(name), matrix.binding) for name in METHODS if name not in PAPER}


def flat(found: Mapping[str, list[Run]]) -> list[Run]:
    return [run for runs in found.values() for run in runs]


# ---- distilled arms and their pools -------------------------------------------------------------------------


def pool_of(runs: Iterable[Run], dilemma: str) -> list[Run]:
    """The agents whose episodes this dilemma's utility is fitted to; unconstrained agents are in every pool."""
    return [run for run in runs if run.method in POOL and (run.dilemma == dilemma or run.method == "unconstrained")]


def utility_label(pool: Iterable[Run]) -> str:
    """A name for a utility that does not exist yet: a function of its pool, the same on every machine."""
    ids = sorted(run.id for run in pool)
    return "pool:" + hashlib.sha256(canonical(ids).encode()).hexdigest()[:12]


def _distilled(matrix: Matrix, pool: list[Run]) -> list[Run]:
    arms = []
    for dilemma in matrix.env.dilemmas:
        label = utility_label(pool_of(pool, dilemma))
        arms += matrix.arms("esr_distilled", [{"utility": label}], [dilemma])
    return arms


def with_pools(chosen: list[Run], everything: list[Run]) -> list[Run]:
    """The chosen runs, and the pools of the distilled arms among them."""
    needed = {run.id for run in chosen}
    for dilemma in {run.dilemma for run in chosen if run.method == "esr_distilled"}:
        needed |= {run.id for run in pool_of(everything, dilemma)}
    return [run for run in everything if run.id in needed]


# ---- selection ----------------------------------------------------------------------------------------------


def only(found: Mapping[str, list[Run]], words: str) -> dict[str, list[Run]]:
    """The runs that `words` select, e.g. `no_killing,esr`: one of the dilemmas, one of the methods, and so on."""
    wanted: dict[str, set[str]] = {}
    for word in filter(None, (word.strip() for word in words.split(","))):
        wanted.setdefault(_attribute(found, word), set()).add(word)
    if not wanted:
        raise ConfigError(f"--only {words!r} selects nothing; omit it for all runs")
    chosen = {
        family: [run for run in runs if all(_label(name, family, run) in words for name, words in wanted.items())]
        for family, runs in found.items()
    }
    if not any(chosen.values()):
        listed = "; ".join(f"{name}: {', '.join(sorted(words))}" for name, words in wanted.items())
        raise ConfigError(f"--only {words} matches no run: none has all of {listed}")
    return {family: runs for family, runs in chosen.items() if runs}


def _label(attribute: str, family: str, run: Run) -> str:
    return family if attribute == "family" else getattr(run, attribute)


def _attribute(found: Mapping[str, list[Run]], word: str) -> str:
    """Whether a word is a dilemma, method, family or arm; a method's name selects the method in every family."""
    runs = flat(found)
    known = {
        "dilemma": {run.dilemma for run in runs},
        "method": {run.method for run in runs},
        "family": set(found),
        "arm": {run.arm for run in runs if run.arm},
    }
    for attribute, words in known.items():
        if word in words:
            return attribute
    elsewhere = {name for env in ENVIRONMENTS.values() for name in env.dilemmas}
    hint = " (a dilemma of another --env)" if word in elsewhere else ""
    raise ConfigError(
        f"--only {word!r} is unknown{hint}; give a dilemma, method, family or arm that `perepisode matrix` lists"
    )
