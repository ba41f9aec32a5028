"""Finding trained agents: by the name of a bundled agent, by exported file or by run folder."""

from functools import cache
from pathlib import Path

from perepisode.config import ConfigError
from perepisode.runs import RunFolder, find_run_folders
from perepisode.zoo.agent_file import ENDING, HUB_NAMES, AgentFile, HubFolder

BUNDLED = Path(__file__).parent / "bundled"  # <dilemma>/<agent>.safetensors, part of the package
AgentSource = RunFolder | AgentFile


def names() -> tuple[str, ...]:
    """The names of the bundled agents."""
    return tuple(
        path.relative_to(BUNDLED).as_posix().removesuffix(ENDING) for path in sorted(BUNDLED.glob(f"*/*{ENDING}"))
    )


def find(name: str | Path) -> list[AgentSource]:
    """Every trained agent of this name: the run folders in a folder, an exported file or folder, or a bundled agent.

    Existing paths take precedence, so a local folder is never mistaken for a bundled agent.
    """
    path = Path(name)
    if HubFolder.is_at(path):
        return [HubFolder(path)]
    if path.name in HUB_NAMES.values() and HubFolder.is_at(path.parent):
        return [HubFolder(path.parent)]
    if path.is_dir():
        return list(find_run_folders(path))
    if path.name.endswith((ENDING, ".json")):
        file = AgentFile(path.with_name(path.name.removesuffix(".json").removesuffix(ENDING) + ENDING))
        if file.path.is_file():
            return [file]
    known = names()
    if path.as_posix() in known:
        return [bundled_agent(path.as_posix())]
    problem = "is neither a run folder nor an agent file" if path.exists() else "does not exist"
    raise ConfigError(f"{name} {problem}; the bundled agents are {', '.join(known)}")


def bundled_agent(name: str) -> AgentFile:
    return AgentFile(BUNDLED / f"{name}{ENDING}")


def find_one(name: str | Path) -> AgentSource:
    """The only agent of this name."""
    found = find(name)
    if not found:
        raise ConfigError(f"{name} has no run folder; name a run folder, an agent file or one of {', '.join(names())}")
    if len(found) > 1:
        raise ConfigError(f"{name} has {len(found)} runs; name one of them")
    return found[0]


@cache
def bundled() -> dict[str, AgentFile]:
    """The bundled agents by the id of their run; starts no device."""
    return {file.metadata["run"]["id"]: file for file in map(bundled_agent, names())}
