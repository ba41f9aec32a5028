"""Names of version 0.1 and their current equivalents, in one place.

Files of version 0.1 (run folders, agent files, episodes tables, studies, benchmarks) are upgraded where they are read,
and its options still work on the command line.  The rest of the package knows only current names.

A run's id is the hash of its configuration in the names of version 0.1 (`identity`), so renaming changes no id.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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
ENV_VARIABLE = "PEREPISODE_USE"  # now PEREPISODE_PLUGINS
# Values, by the current name of their setting or option.
VALUES = {"accrued_obs": {"loud": "scaled"}, "cost_per": {"count": "event"}, "only": {"twins": "gamma1"}}
MEMBER = {"steps": "total_timesteps"}  # of a study's task
METRICS = {"worst_decile": "cvar"}
COLUMNS = {"steps": "total_timesteps", "policy_key": "episode_key"}  # of an episodes table
TASKS = {"judge": "evaluate"}  # kinds of a study's tasks
AGENT = {"judged": "evaluation"}
POLICY = {"rounding": "quantization"}
OWNERS = {"world": "env", "learner": "ppo"}  # prefixes of settings, in an episodes table and in --set
BENCH = {"worlds": "num_envs", "hidden": "hidden_size"}
ATTRIBUTES = {  # of classes that plugins declare
    "environment": {
        "learner": "ppo",
        "steps": "total_timesteps",
        "protocol": "eval_config",
        "shape": "sweep",
        "pack": "population_size",
        "audits": "info_keys",
        "harms": "violation_names",
        "longest": "max_episode_steps",
        "within_reach": "violation_possible",
    },
    "method": {
        "initial_dual": "init_dual",
        "worth": "episode_utility",
        "pressure": "penalty_trace",
        "family": "constraint",
        "asks": "tagline",
        "kin": "variant_of",
    },
}
OPTIONS = {  # of the command line, by command; `train` also takes the settings in the tables above
    "train": {"penalty": "cost-per"},
    "evaluate": {**EVALUATION},
    "report": {"cvar": "alpha", "limit": "cost-limit"},
    "watch": {"restraint": "abstaining"},
    "bench": {"envs": "num-envs", "hidden": "hidden-size"},
    "matrix": {"beyond": "extra-baselines"},
    "study": {"beyond": "extra-baselines"},
}


# ---- files ----------------------------------------------------------------------------------------------------------


def upgrade_run(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration in current names."""
    run = _upgrade(plain, RUN)
    for section, names in _sections(run):
        if isinstance(run.get(section), Mapping):
            run[section] = _upgrade(run[section], names)
    return {**run, "arm": upgrade_arm(run["arm"])} if isinstance(run.get("arm"), str) else run


def identity(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration in the names of version 0.1, which its id is the hash of."""
    sections = {s: _downgrade(plain[s], names) for s, names in _sections(plain) if s in plain}
    return _downgrade({**plain, **sections}, RUN)


def upgrade_arm(label: str) -> str:
    """ "k=1, told loud" → "k=1, scaled obs"."""
    return re.sub(r"\btold (loud|paper|remaining)$", lambda match: f"{new_value('accrued_obs', match[1])} obs", label)


def upgrade_evaluation(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an evaluation."""
    return _upgrade(plain, EVALUATION)


def upgrade_agent(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of an agent file."""
    agent = _upgrade(metadata, AGENT)
    agent["run"] = upgrade_run(agent["run"])
    agent["policy"] = _upgrade(agent["policy"], POLICY)
    if isinstance(protocol := agent["evaluation"].get("protocol"), Mapping):
        agent["evaluation"] = {**agent["evaluation"], "protocol": upgrade_evaluation(protocol)}
    return agent


def upgrade_study(plain: Mapping[str, Any], runs: Path) -> dict[str, Any]:
    """The content of study.json.  Run folders that exist below `runs` keep their names."""

    def upgrade_member(member: Mapping[str, Any]) -> dict[str, Any]:
        folder = member["folder"]
        if not (runs / folder).is_dir():
            folder = re.sub(r"told-(\w+)", lambda match: f"{new_value('accrued_obs', match[1])}-obs", folder)
        return {**_upgrade(member, MEMBER), "folder": folder, "plain": upgrade_run(member["plain"])}

    tasks = [
        {**task, "kind": TASKS.get(task["kind"], task["kind"]), "members": list(map(upgrade_member, task["members"]))}
        for task in plain["tasks"]
    ]
    return {**plain, "tasks": tasks, "evaluation": upgrade_evaluation(plain["evaluation"])}


def upgrade_metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of metrics.jsonl."""
    return _upgrade(row, METRICS)


def upgrade_bench(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of a file that `perepisode bench` wrote."""
    return _upgrade(row, BENCH)


def renamed_columns(names: Iterable[str]) -> dict[str, str]:
    """Columns of an episodes table of version 0.1, old → current; empty for the table of another program."""
    columns = set(names)
    if not columns & {"in_first", "detector"}:  # another program's `steps` means something else
        return {}
    renamed = {name: f"info_{name.removeprefix('audit_')}" for name in columns if name.startswith("audit_")}
    renamed |= {old: new for old, new in COLUMNS.items() if old in columns}
    return {old: new for old, new in renamed.items() if new not in columns}


def upgrade_settings(text: Any, method: str, env: str) -> Any:
    """The `settings` of an episodes table: JSON of one run, where a name that two owners share carries its owner.

    Renaming separates most of these names, which then stand alone, as in a current table.
    """
    try:
        plain = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return text
    if not isinstance(plain, dict) or not {"rollout", "learner.rollout"} & set(plain):
        return text
    if {"cost_per", "total_timesteps"} <= set(plain):  # a current table, of a plugin with a setting called `rollout`
        return text
    tables = {"method": METHODS.get(method, {}), "world": ENVIRONMENTS.get(env, {}), "learner": PPO}
    entries = []
    for old, value in plain.items():
        owner, _, name = old.rpartition(".")
        if owner not in tables or name == "py":  # "world.py" is the source file of a plugin
            name = str(old)
            owner = next((owner for owner, table in tables.items() if name in table), "")
        table = tables[owner] if owner else {name: RUN[name] for name in ("steps", "penalty")}
        new = table.get(name, name)
        entries.append((OWNERS.get(owner, owner), new, new_value(new, value) if name in table else value))
    counts = Counter(name for _, name, _ in entries)
    return json.dumps(
        {f"{owner}.{name}" if owner and counts[name] > 1 else name: value for owner, name, value in entries}
    )


# ---- the command line -----------------------------------------------------------------------------------------------


def upgrade_options(arguments: Sequence[str], current: Collection[str] = ()) -> tuple[list[str], dict[str, str]]:
    """Command-line words with current options, and the options replaced, old → new.

    `current` names options that exist today, such as settings of plugins, and therefore keep their meaning.
    """
    command = next(iter(arguments), "")
    names = dict(OPTIONS.get(command, {}))
    if command == "train":
        for table in (PPO, *METHODS.values(), *ENVIRONMENTS.values()):
            names |= {old: new.replace("_", "-") for old, new in table.items() if old not in current}
    upgraded, replaced, option = [], {}, ""
    for word in arguments:
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            negation, name = ("--no-", flag[5:]) if flag.startswith("--no-") else ("--", flag[2:])
            option = names.get(name, name).replace("_", "-")
            if name in names:
                replaced[flag] = flag = f"{negation}{option}"
            word = f"{flag}{equals}{new_value(option, value)}"
        else:
            word = new_value(option, word)
        upgraded.append(word)
    return upgraded, replaced


def new_setting(name: str, owner: str) -> str:
    """The current name of a setting of this method, of this environment or of PPO; "" if it was not renamed."""
    return {**PPO, **METHODS.get(owner, {}), **ENVIRONMENTS.get(owner, {})}.get(name, "")


def new_value(name: str, value: Any) -> Any:
    """The current value of a setting, given its current name; values in a text may be separated by commas."""
    values = VALUES.get(name.replace("-", "_"))
    return ",".join(values.get(part, part) for part in value.split(",")) if values and isinstance(value, str) else value


def _sections(plain: Mapping[str, Any]) -> list[tuple[str, Mapping[str, str]]]:
    """The sections of a current configuration that hold settings, each with its table of names."""
    method, env = (name if isinstance(name, str) else "" for name in (plain.get("method"), plain.get("env")))
    return [("method_settings", METHODS.get(method, {})), ("env_settings", ENVIRONMENTS.get(env, {})), ("ppo", PPO)]


def _upgrade(plain: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        names.get(old, old): new_value(names[old], value) if old in names else value for old, value in plain.items()
    }


def _downgrade(plain: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    old_names, downgraded = {new: old for old, new in names.items()}, {}
    for name, value in plain.items():
        old_values = {new: old for old, new in VALUES.get(name, {}).items()} if name in old_names else {}
        downgraded[old_names.get(name, name)] = old_values.get(value, value) if isinstance(value, str) else value
    return downgraded
