"""Names that version 0.1 used, translated in one place.

Run folders, agent files, episodes tables, studies and benchmarks written by version 0.1 are translated where they are
read; options of version 0.1 still work on the command line.  Everything else in the package knows only today's names.

A run's id is the hash of its configuration as version 0.1 spelled it (`identity`), so the renaming changed no id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RUN = {
    "settings": "method_settings",
    "world": "env_settings",
    "learner": "ppo",
    "steps": "total_timesteps",
    "penalty": "cost_per",
}
PPO = {
    "envs": "num_envs",
    "rollout": "num_steps",
    "epochs": "update_epochs",
    "minibatches": "num_minibatches",
    "anneal": "anneal_lr",
    "clip": "clip_eps",
    "entropy": "ent_coef",
    "value": "vf_coef",
    "hidden": "hidden_size",
    "bootstrap": "bootstrap_on_truncation",
}
EVALUATION = {"envs": "num_envs", "steps": "num_steps", "first": "episodes_per_env"}
_ACCRUED = {"told": "accrued_obs"}
METHODS = {
    "esr": {"charge": "rho_u", **_ACCRUED},
    "esr_distilled": _ACCRUED,
    "ser_racc": _ACCRUED,
    "saute": _ACCRUED,
    "lagrangian": {"rate": "lambda_lr", "ceiling": "lambda_max", "initial": "lambda_init"},
    "pid_lagrangian": {"proportional": "kp", "integral": "ki", "derivative": "kd"},
    "cvar": {"fraction": "alpha", "rate": "lambda_lr", **_ACCRUED},
    "chance": {"level": "delta", "rate": "lambda_lr", "ceiling": "lambda_max", **_ACCRUED},
}
ENVIRONMENTS = {"temptation": {"chance": "offer_prob", "gain": "max_gain"}, "craftax": {"draws": "rng"}}
VALUES = {"accrued_obs": {"loud": "scaled"}, "cost_per": {"count": "event"}}  # of today's names
METRICS = {"worst_decile": "cvar"}
AGENT = {"judged": "evaluation"}
POLICY = {"rounding": "quantization"}
BENCH = {"worlds": "num_envs", "hidden": "hidden_size"}
OPTIONS = {  # of the command line, by command; settings of methods and environments are in the tables above
    "train": {"penalty": "cost-per"},
    "evaluate": {**EVALUATION},
    "report": {"cvar": "alpha", "limit": "cost-limit"},
    "watch": {"restraint": "abstaining"},
    "bench": {"envs": "num-envs", "hidden": "hidden-size"},
    "matrix": {"beyond": "extra-baselines"},
    "study": {"beyond": "extra-baselines"},
}


# ---- files ----------------------------------------------------------------------------------------------------------


def run(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration in today's names."""
    found = _translated(plain, RUN)
    for part, names in _parts(found):
        if isinstance(found.get(part), Mapping):
            found[part] = _translated(found[part], names)
    return {**found, "arm": arm(found["arm"])} if isinstance(found.get("arm"), str) else found


def identity(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration in the names that its id is made of."""
    found = {**plain, **{part: _untranslated(plain[part], names) for part, names in _parts(plain)}}
    return _untranslated(found, RUN)


def arm(label: str) -> str:
    """ "k=1, scaled obs", which was "k=1, told loud"."""
    return re.sub(r"\btold (\w+)", lambda found: f"{_value('accrued_obs', found[1])} obs", label)


def evaluation(plain: Mapping[str, Any]) -> dict[str, Any]:
    return _translated(plain, EVALUATION)


def agent(about: Mapping[str, Any]) -> dict[str, Any]:
    """What the JSON of an agent file says."""
    found = _translated(about, AGENT)
    found["run"] = run(found["run"])
    found["policy"] = _translated(found["policy"], POLICY)
    if isinstance(judged := found["evaluation"].get("protocol"), Mapping):
        found["evaluation"] = {**found["evaluation"], "protocol": evaluation(judged)}
    return found


def study(plain: Mapping[str, Any], runs: Path) -> dict[str, Any]:
    """What study.json says; `runs` is the folder of its run folders, which keep the names that they have."""

    def member(one: Mapping[str, Any]) -> dict[str, Any]:
        folder = one["folder"]
        if not (runs / folder).is_dir():
            folder = re.sub(r"told-(\w+)", lambda found: f"{_value('accrued_obs', found[1])}-obs", folder)
        return {**_translated(one, {"steps": "total_timesteps"}), "folder": folder, "plain": run(one["plain"])}

    tasks = [{**task, "members": list(map(member, task["members"]))} for task in plain["tasks"]]
    return {**plain, "tasks": tasks, "evaluation": evaluation(plain["evaluation"])}


def metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of metrics.jsonl."""
    return _translated(row, METRICS)


def bench(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of what `perepisode bench` measured."""
    return _translated(row, BENCH)


def columns(names: Iterable[str]) -> dict[str, str]:
    """Columns of an episodes table that are called otherwise today."""
    known = set(names)
    found = {name: f"info_{name.removeprefix('audit_')}" for name in known if name.startswith("audit_")}
    found |= {"steps": "total_timesteps"} if "steps" in known else {}
    return {old: new for old, new in found.items() if new not in known}


def settings(text: Any, method: str, env: str) -> Any:
    """The column of that name: what a run was trained with, as JSON."""
    if not isinstance(text, str) or '"rollout":' not in text:  # every table of version 0.1 says so of its runs
        return text
    try:
        plain = json.loads(text)
    except ValueError:
        return text
    owners = {"method": METHODS.get(method, {}), "world": ENVIRONMENTS.get(env, {}), "learner": PPO}
    found = {}
    for name, value in plain.items() if isinstance(plain, dict) else ():
        owner, dot, bare = name.rpartition(".")
        tables = [owners.get(owner, {})] if dot else [*owners.values(), RUN]
        new = next((table[bare] for table in tables if bare in table), bare)
        prefix = {"world": "env.", "learner": "ppo."}.get(owner, f"{owner}{dot}")
        found[prefix + new] = _value(new, value)
    return json.dumps(found) if found else text


# ---- the command line -----------------------------------------------------------------------------------------------


def options(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words of a command line with today's options, and which were called otherwise."""
    command, renamed, found = next(iter(arguments), ""), {}, []
    names = OPTIONS.get(command, {})
    if command == "train":
        for table in (PPO, *METHODS.values(), *ENVIRONMENTS.values()):
            names = names | {old: new for old, new in table.items() if old != "steps"}
    option = ""
    for word in arguments:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            option = names.get(name[2:].replace("-", "_"), "").replace("_", "-")
            renamed |= {name: f"--{option}"} if option else {}
            new = _value(option.replace("-", "_"), value)
            found.append(f"--{option}{equals}{new}" if option else word)
        else:
            found.append(_value(option.replace("-", "_"), word))
    return found, renamed


def setting(name: str, owner: str) -> str:
    """Today's name of a setting of this method, of this environment or of PPO; "" if it has no other."""
    return {**PPO, **METHODS.get(owner, {}), **ENVIRONMENTS.get(owner, {})}.get(name, "")


def value(name: str, text: str) -> str:
    """A value of today's setting as it is called today."""
    return VALUES.get(name, {}).get(text, text)


def _parts(plain: Mapping[str, Any]) -> list[tuple[str, Mapping[str, str]]]:
    """The parts of a configuration in today's names that hold settings, and the names of version 0.1 in each."""
    method, env = (name if isinstance(name, str) else "" for name in (plain.get("method"), plain.get("env")))
    return [("method_settings", METHODS.get(method, {})), ("env_settings", ENVIRONMENTS.get(env, {})), ("ppo", PPO)]


def _translated(plain: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    found = {names.get(name, name): value for name, value in plain.items()}
    return {name: _value(name, value) for name, value in found.items()}


def _untranslated(plain: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    old_names = {new: old for old, new in names.items()}
    found = {}
    for name, value in plain.items():
        old_values = {new: old for old, new in VALUES.get(name, {}).items()} if name in old_names else {}
        found[old_names.get(name, name)] = old_values.get(value, value) if isinstance(value, str) else value
    return found


def _value(name: str, value: Any) -> Any:
    return VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value
