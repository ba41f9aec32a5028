"""The reference, generated from the code: commands and options, settings, the Python API, module docstrings.

A generator receives the words that follow its name in `<!-- generate: NAME WORDS -->` and returns Markdown.
"""

import argparse
import ast
import enum
import inspect
import io
import json
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tyro

from perepisode import cli as command_line
from perepisode import settings
from perepisode.algorithms import AGENTS
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS, PAPER

# ---- the command line ---------------------------------------------------------------------------------------


def cli() -> str:
    """Every command with its options, as in its --help."""
    return "\n".join(_command(_parser(), "perepisode"))


def _parser() -> argparse.ArgumentParser:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # requirements.lock pins a version that has the function
        return tyro.extras.get_parser(command_line._commands(), prog="perepisode")


def _command(parser: argparse.ArgumentParser, name: str) -> list[str]:
    subcommands = [action for action in parser._actions if isinstance(action.choices, dict)]
    positional = [action for action in parser._actions if not action.option_strings and action not in subcommands]
    lines = []
    if depth := name.count(" "):  # the program itself has the heading of the page
        arguments = [_value(str(action.metavar)) for action in positional]
        usage = " ".join([name, *arguments, "SUBCOMMAND" if subcommands else "[OPTIONS]"])
        lines = [f"{'#' * (depth + 1)} `{name}`", "", _sentence(parser.description), "", f"    {usage}", ""]
    for group in parser._action_groups:
        options = [action for action in group._group_actions if action.option_strings and action.dest != "help"]
        arguments = [action for action in group._group_actions if action in positional]
        if not options + arguments:
            continue
        if group.title not in ("options", "positional arguments"):
            heading = str(group.title).removesuffix(" options").replace("-", " ").capitalize()
            lines += [f"**{heading}**", "", _sentence(group.description), ""]
        lines += [f"| {'option' if options else 'argument'} | value | |", "|---|---|---|"]
        lines += [*map(_option, arguments + options), ""]
    for action in subcommands:
        for word, subparser in action.choices.items():
            lines += _command(subparser, f"{name} {word}")
    return lines


def _option(action: argparse.Action) -> str:
    text, _, default = (action.help or "").strip().partition("(default: ")
    default = default.rstrip(") ")
    name = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar}`"
    value = "" if not action.option_strings or action.metavar is None else f"`{_value(str(action.metavar))}`"
    text = text.strip() + (f" Default: `{default}`." if default not in ("", "None", "''", "False") else "")
    return f"| {name} | {cell(value)} | {cell(text)} |"


def _value(metavar: str) -> str:
    """`[INT [INT ...]]` as `INT ...`, `{None}|FLOAT` as `FLOAT`."""
    metavar = re.sub(r"^\[(\S+) \[\1 \.\.\.\]\]$", r"\1 ...", metavar)
    return metavar.replace("{None}|", "")


def exit_codes() -> str:
    """The numbers come from the code, their meanings from here."""
    rows = {
        0: "The command finished.",
        1: "A task of `study run` or `demo` failed; the last line names it and its log. "
        "Or the program that reads the output stopped reading, as `head` does. Or a bug, shown with its traceback.",
        command_line.EXIT_USAGE: "Wrong input: an option, a file or an environment variable. Nothing was started. "
        "Or `benchmark verify` refuses a result.",
        command_line.EXIT_DIVERGED: "Training diverged in every run. Each run folder states the reason.",
        command_line.EXIT_DISK: "The disk is full or unreadable. Free space and start the same command again.",
        command_line.EXIT_RESUME: "Interrupted by Ctrl-C or a signal, after a checkpoint. The same command resumes.",
        130: "Interrupted by Ctrl-C while nothing was training. Start the same command again.",
    }
    return "\n".join(["| code | meaning |", "|---:|---|", *(f"| {code} | {text} |" for code, text in rows.items())])


# ---- settings -----------------------------------------------------------------------------------------------


def settings_of(owner: str) -> str:
    """Settings of all methods, of all environments, or of all agents, as they are declared."""
    lines: list[str] = []
    if owner == "methods":
        for name, method in METHODS.items():
            note = "" if name in PAPER else " This method is not in the paper."
            about = f"{_first_paragraph(method)} Constraint type: {method.constraint}.{note}"
            lines += [f"### `{name}`: {method.label}", "", about, "", *_settings(method)]
    elif owner == "environments":
        for name, environment in ENVIRONMENTS.items():
            dilemmas = ", ".join(f"`{dilemma}`" for dilemma in environment.dilemmas)
            about = f"{_first_paragraph(environment)} Dilemmas: {dilemmas}."
            lines += [f"### `{name}`", "", about, "", *_settings(environment)]
    else:
        for config_type in dict.fromkeys(agent.config_type for agent in AGENTS.values()):
            names = ", ".join(f"`{name}`" for name, agent in AGENTS.items() if agent.config_type is config_type)
            lines += [f"### {names}", "", _first_paragraph(config_type), "", *_settings(config_type)]
    return "\n".join(lines)


def _settings(cls: Any) -> list[str]:
    rows = []
    for name, declared in settings.of(cls).items():
        default = (
            "required" if declared.required else "" if declared.default is None else f"`{_plain(declared.default)}`"
        )
        choices = f" ({', '.join(f'`{choice}`' for choice in declared.choices)})" if declared.choices else ""
        rows.append(f"| `{name}` | {default} | {cell(declared.help + choices)} |")
    return ["| setting | default | |", "|---|---|---|", *rows, ""] if rows else ["No settings.", ""]


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


# ---- Python -------------------------------------------------------------------------------------------------


def api(name: str) -> str:
    """The public names of a module: its `__all__`, else its public functions and classes."""
    module = import_module(name)
    lines = []
    for public in _public(module):
        lines += _entry(getattr(module, public), public, 2 if name == "perepisode" else 3)
    return "\n".join(lines)


def modules(package: str) -> str:
    """Every public module of a package, under its own heading."""
    lines = []
    folder = Path(import_module(package).__file__ or "").parent
    for path in sorted(folder.glob("[!_]*.py")):
        name = f"{package}.{path.stem}"
        try:
            module = import_module(name)
        except ModuleNotFoundError:  # the site is built without its library: parse the file instead
            module = None
        text = _module_text(module) if module else ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        lines += [f"## `{name}`", "", text or "", ""]
        if module:
            for public in _public(module):
                lines += _entry(getattr(module, public), public, 3)
        else:
            lines += _parsed(path.read_text(encoding="utf-8"))
    return "\n".join(lines)


def docstring(name: str) -> str:
    """The docstring of a module; for `package:Class`, that of the module which defines the class."""
    name, _, cls = name.partition(":")
    module = import_module(name)
    return _module_text(import_module(getattr(module, cls).__module__) if cls else module)


def replays(root: str) -> str:
    """A list of the committed replay pages; `root` leads from the page to the repository."""
    home = Path(__file__).parents[2]
    lines = []
    for titles in sorted(home.glob("results/*/watch/*/titles.json")):
        address = f"{root}{titles.parent.relative_to(home).as_posix()}/index.html"
        experiment, agent = titles.parts[-4], titles.parts[-2]
        title = "; ".join(json.loads(titles.read_text(encoding="utf-8")))
        lines.append(f"| `{experiment}` | `{agent}` | [{title}]({address}) |")
    return "\n".join(["| experiment | agent | episode |", "|---|---|---|", *lines])


def _public(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        and (inspect.isfunction(value) or inspect.isclass(value))
    ]  # fmt: skip


def _entry(value: Any, name: str, level: int) -> list[str]:
    heading = [f"{'#' * level} `{name}`", ""]
    if isinstance(value, ModuleType) and not callable(value):
        lines = [*heading, _module_text(value), ""]
        for public in _public(value):
            lines += _entry(getattr(value, public), public, level + 1)
        return lines
    if isinstance(value, ModuleType):  # a callable package, such as perepisode.report
        value = getattr(value, name)
    if inspect.isclass(value):
        return [*heading, *_class(value, name)]
    if callable(value):
        return [*heading, *_signature(value, name), _text(value), ""]
    return []


def _class(cls: type, name: str) -> list[str]:
    lines = [_text(cls), ""]
    if issubclass(cls, enum.Enum):
        return [*lines, *(f"- `{member.name}` = {member.value}" for member in cls), ""]
    if attributes := list(_attributes(cls)):
        lines += ["| attribute | type | |", "|---|---|---|"]
        lines += [f"| `{attribute}` | {cell(f'`{type_}`')} | {cell(text)} |" for attribute, type_, text in attributes]
        lines += [""]
    for attribute, member in vars(cls).items():
        member = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if attribute.startswith("_"):
            continue
        if inspect.isfunction(member):
            lines += [f"**`{name}.{attribute}`**", "", *_signature(member, attribute), _text(member), ""]
        elif isinstance(member, property) and (text := _text(member)):
            lines += [f"**`{name}.{attribute}`** (property). {text}", ""]
    return lines


def _attributes(cls: type) -> Iterator[tuple[str, str, str]]:
    """Annotated attributes, the type of each, and its description: the comment on its line, or its setting's help."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    comments = {
        token.start[0]: (token.string.lstrip("# "), token.line.strip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            text, on_own_line = comments.get(node.end_lineno or 0, ("", False))
            if isinstance(node.value, ast.Call) and not text:  # setting(default, "help") or setting(help="help")
                values = node.value.args[1:2] + [word.value for word in node.value.keywords if word.arg == "help"]
                text = next((str(value.value) for value in values if isinstance(value, ast.Constant)), "")
            type_ = re.sub(r"^ClassVar\[(.*)\]$", r"\1", ast.unparse(node.annotation))
            yield node.target.id, type_, "" if on_own_line else text


def _signature(function: Any, name: str) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    parameters, returns = _parameters(signature), _returns(signature)
    text = f"{name}({', '.join(parameters)}){returns}"
    if len(text) > 80:
        lines = "".join(f"    {parameter},\n" for parameter in parameters)
        text = f"{name}(\n{lines}){returns}"
    return ["```python", text, "```", ""]


def _parameters(signature: inspect.Signature) -> list[str]:
    """Parameters as in the source, including the bare star."""
    texts, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind == parameter.KEYWORD_ONLY and not starred:
            texts.append("*")
            starred = True
        starred = starred or parameter.kind == parameter.VAR_POSITIONAL
        texts.append(_parameter(parameter))
    return texts


def _parameter(parameter: inspect.Parameter) -> str:
    name = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
    annotated, has_default = parameter.annotation is not parameter.empty, parameter.default is not parameter.empty
    text = f"{name}: {_annotation(parameter.annotation)}" if annotated else name
    if not has_default:
        return text
    default = "..." if callable(parameter.default) else repr(parameter.default)  # a function's repr holds its address
    return f"{text} = {default}" if annotated else f"{text}={default}"


def _annotation(annotation: Any) -> str:
    """An annotation as in the source: names without the module that they come from."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(pathlib|typing|collections\.abc|perepisode(\.[a-z_0-9]+)*)\.(?=[A-Z])", "", text)


def _returns(signature: inspect.Signature) -> str:
    annotation = signature.return_annotation
    return "" if annotation is signature.empty else f" -> {_annotation(annotation)}"


def _parsed(source: str) -> list[str]:
    """Public functions and classes of a module that cannot be imported here."""
    lines = []
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            lines += [f"### `{node.name}`", ""]
            if isinstance(node, ast.FunctionDef):
                returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                lines += ["```python", f"{node.name}({ast.unparse(node.args)}){returns}", "```", ""]
            lines += [_markdown(ast.get_docstring(node) or ""), ""]
    return lines


def _first_paragraph(cls: Any) -> str:
    return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


def _text(value: Any) -> str:
    text = getattr(value, "__doc__", None)
    if not text or text.startswith(f"{getattr(value, '__name__', '')}("):  # the docstring that dataclasses generate
        return ""
    return _markdown(inspect.cleandoc(text))


def _module_text(module: ModuleType) -> str:
    return _markdown(inspect.cleandoc(module.__doc__ or ""))


def _markdown(text: str) -> str:
    """A docstring as Markdown: paragraphs that are indented, partly indented or begin with < become code blocks."""
    parts = []
    for part in re.split(r"\n{2,}", text):
        raw = part.startswith(("    ", "<")) or "\n    " in part
        if part.startswith("    "):
            language = "python" if re.search(r"[=(]", part) and not re.search(r" {4}\S+ {3,}\S", part) else "text"
            parts.append(f"```{language}\n{textwrap.dedent(part)}\n```")
        elif raw:
            parts.append(f"```text\n{part}\n```")
        else:
            parts.append(re.sub(r"<(\w+)>", r"&lt;\1&gt;", part))
    return "\n\n".join(parts)


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())


def cell(text: str) -> str:
    parts = " ".join(text.split()).split("`")
    prose = [re.sub(r"<(\w+)>", r"&lt;\1&gt;", part).replace("|", "\\|") for part in parts[::2]]
    return "`".join(part for pair in zip(prose, [*parts[1::2], None]) for part in pair if part is not None)


GENERATORS = {
    "cli": cli,
    "exit_codes": exit_codes,
    "settings": settings_of,
    "api": api,
    "modules": modules,
    "docstring": docstring,
    "replays": replays,
}
