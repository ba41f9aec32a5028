"""Model cards: what an agent is, what it does in its worst episodes, how to load it and what it is not for."""

from collections.abc import Callable
from pathlib import Path

from jinja2 import TemplateError

from perepisode import safe_io
from perepisode.config import ConfigError
from perepisode.report import formatting, links
from perepisode.report.style import dilemma_name, look
from perepisode.zoo import quantization
from perepisode.zoo.agent_file import ENDING, FETCH, AgentFile, HubFolder
from perepisode.zoo.registry import BUNDLED


def render(file: AgentFile) -> str:
    """The card of an agent, from its JSON alone."""
    return checked(file, _render)


def checked(file: AgentFile, text_of: Callable[[AgentFile], str]) -> str:
    """A text about an agent, without control characters; ConfigError if its JSON lacks what the text needs."""
    try:
        return "\n".join(map(safe_io.printable, text_of(file).split("\n")))
    except (KeyError, TypeError, AttributeError, ArithmeticError, ValueError, TemplateError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{file.sibling('.json')} lacks entries of an agent file ({error!r}); {FETCH}") from None


def _render(file: AgentFile) -> str:
    metadata, run = file.metadata, file.read()
    evaluation, trained = metadata["evaluation"], metadata["trained"]
    detected, exact = evaluation.get("seen_by_paper_detector", evaluation["violations"]), evaluation["violations"]
    card = links.render(
        Path(__file__).with_name("card_template.md"),
        formatting=formatting,
        name=name_of(file),
        run=run,
        metadata=metadata,
        evaluation=evaluation,
        config=evaluation.get("protocol", {}),
        device=_device(trained.get("device")),
        version=(trained.get("versions") or {}).get("perepisode", "of an unknown version"),
        missed=1 - detected / exact if detected < exact else 0,
        quantization=quantization.METHOD.capitalize(),
        look=look,
        dilemma_name=dilemma_name,
        hub=isinstance(file, HubFolder),
    )
    return card.replace("\u00a0", " ") + "\n"


def name_of(file: AgentFile) -> str:
    """How a user names the agent: a bundled agent's name, or the name of the file or folder."""
    bundled = file.path.is_relative_to(BUNDLED)
    return file.path.relative_to(BUNDLED).as_posix().removesuffix(ENDING) if bundled else file.path.resolve().name


def _device(recorded: str | None) -> str:
    """ "gpu: NVIDIA H200 x 1" → "NVIDIA H200"."""
    platform, _, name = (recorded or "an unknown device").removesuffix(" x 1").partition(": ")
    return name if name and name != platform else f"a {platform}" if name else platform
