"""The reference as the code states it: commands and their options, settings, the Python API, what modules say.

Each generator gets the words that follow its name in `<!-- generate: NAME WORDS -->` and returns Markdown.
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
from perepisode import config, environments, settings
from perepisode.methods import METHODS, PAPER


def _named(module: ModuleType, *names: str) -> Any:
    """What a module calls by the first of these names that it has."""
    return next(getattr(module, name) for name in names if hasattr(module, name))


ENVIRONMENTS = _named(environments, "ENVIRONMENTS", "WORLDS")
PPO = _named(config, "PPOConfig", "Learner")


# ---- the command line ---------------------------------------------------------------------------------------


def cli() -> str:
    """Every command with its options, as its own --help has them."""
    return "\n".join(_command(_parser(), "perepisode"))


def _parser() -> argparse.ArgumentParser:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the lock holds the version that has it
        return tyro.extras.get_parser(command_line._commands(), prog="perepisode")


def _command(parser: argparse.ArgumentParser, name: str) -> list[str]:
    inner = [action for action in parser._actions if isinstance(action.choices, dict)]
    words = name.split()
    given = [str(action.metavar) for action in parser._actions if not action.option_strings and action not in inner]
    usage = " ".join([name, *(_value(one) for one in given), "SUBCOMMAND" if inner else "[OPTIONS]"])
    lines = [f"{'#' * len(words)} `{name}`", "", _sentence(parser.description), "", f"    {usage}", ""]
    lines = lines if len(words) > 1 else []
    groups = [(group.title, group.description, group._group_actions) for group in parser._action_groups]
    for title, about, actions in groups:
        options = [action for action in actions if action.option_strings and action.dest != "help"]
        plain = [action for action in actions if not action.option_strings and action not in inner]
        if not options + plain:
            continue
        if title not in ("options", "positional arguments"):
            heading = title.removesuffix(" options").replace("-", " ").capitalize()
            lines += [f"**{heading}**", "", _sentence(about), ""]
        lines += ["| argument | value | |" if plain and not options else "| option | value | |", "|---|---|---|"]
        lines += [_option(action) for action in plain + options]
        lines += [""]
    for action in inner:
        for word, below in action.choices.items():
            lines += _command(below, f"{name} {word}")
    return lines


def _option(action: argparse.Action) -> str:
    help_, _, default = (action.help or "").strip().partition("(default: ")
    default = default.rstrip(") ")
    name = ", ".join(f"`{one}`" for one in action.option_strings) or f"`{action.metavar}`"
    value = "" if not action.option_strings or action.metavar is None else f"`{_value(str(action.metavar))}`"
    said = help_.strip() + (f" Default: `{default}`." if default not in ("", "None", "''", "False") else "")
    return f"| {name} | {cell(value)} | {cell(said)} |"


def _value(metavar: str) -> str:
    """`[INT [INT ...]]` as `INT ...`, `{None}|FLOAT` as `FLOAT`."""
    metavar = re.sub(r"^\[(\S+) \[\1 \.\.\.\]\]$", r"\1 ...", metavar)
    return metavar.replace("{None}|", "")


def exit_codes() -> str:
    """The numbers are the code's; what each means is said here."""
    rows = {
        0: "The command finished.",
        1: "Whoever read the output stopped reading, as `head` does; or a bug, shown with its traceback.",
        _named(
            command_line, "EXIT_USAGE", "WRONG_INPUT"
        ): "Wrong input: an option, a file or an environment variable. Nothing was started.",
        _named(command_line, "EXIT_DIVERGED", "DIVERGED"): "Training diverged in every run; the folders say why.",
        _named(
            command_line, "EXIT_DISK", "DISK"
        ): "The disk is full or unreadable. Free space and start the same command again.",
        _named(
            command_line, "EXIT_RESUME", "RESUME_ME"
        ): "Interrupted by Ctrl-C or a signal, after a checkpoint. The same command resumes.",
        130: "Interrupted by Ctrl-C in a command that keeps no checkpoints.",
    }
    return "\n".join(["| code | meaning |", "|---:|---|", *(f"| {code} | {text} |" for code, text in rows.items())])


# ---- settings -----------------------------------------------------------------------------------------------


def settings_of(kind: str) -> str:
    """Settings of all methods, of all environments, or of PPO, as they are declared."""
    lines: list[str] = []
    if kind == "methods":
        for name, method in METHODS.items():
            stated = getattr(method, "constraint", None) or method.family
            where = "" if name in PAPER else " This method is not in the paper."
            lines += [
                f"### `{name}`: {method.label}",
                "",
                f"{_first(method)} Constraint type: {stated}.{where}",
                "",
                *_settings(method),
            ]
    elif kind == "environments":
        for name, environment in ENVIRONMENTS.items():
            dilemmas = ", ".join(f"`{one}`" for one in environment.dilemmas)
            lines += [f"### `{name}`", "", f"{_first(environment)} Dilemmas: {dilemmas}.", "", *_settings(environment)]
    else:
        lines += _settings(PPO)
    return "\n".join(lines)


def _settings(cls: Any) -> list[str]:
    rows = []
    for name, one in settings.of(cls).items():
        default = "required" if one.needed else "" if one.default is None else f"`{_plain(one.default)}`"
        choices = f" ({', '.join(f'`{choice}`' for choice in one.choices)})" if one.choices else ""
        rows.append(f"| `{name}` | {default} | {cell(one.help + choices)} |")
    return ["| setting | default | |", "|---|---|---|", *rows, ""] if rows else ["No settings.", ""]


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


# ---- Python -------------------------------------------------------------------------------------------------


def api(name: str) -> str:
    """What a module offers: the names of its `__all__`, else its public functions and classes."""
    module = import_module(name)
    lines = []
    for word in _offered(module):
        lines += _entry(getattr(module, word), word, 2 if name == "perepisode" else 3)
    return "\n".join(lines)


def modules(package: str) -> str:
    """Every public module of a package that defines something public, under its own heading."""
    lines = []
    home = import_module(package)
    for path in sorted(_folder(home).glob("[!_]*.py")):
        name = f"{package}.{path.stem}"
        try:
            module = import_module(name)
        except ModuleNotFoundError:  # a library that the site is built without: read, not imported
            module = None
        text = _module_text(module) if module else ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        lines += [f"## `{name}`", "", text or "", ""]
        if module:
            for word in _offered(module):
                lines += _entry(getattr(module, word), word, 3)
        else:
            lines += _parsed(path.read_text(encoding="utf-8"))
    return "\n".join(lines)


def docstring(name: str) -> str:
    """What a module says of itself; of `package:Class`, the module that defines the class."""
    module, _, cls = name.partition(":")
    found = import_module(module)
    return _module_text(import_module(getattr(found, cls).__module__) if cls else found)


def replays(root: str) -> str:
    """A list of the committed replay pages; `root` leads from the page to the repository."""
    home = Path(__file__).parents[2]
    lines = []
    for titles in sorted(home.glob("results/*/watch/*/titles.json")):
        address = f"{root}{titles.parent.relative_to(home).as_posix()}/index.html"
        experiment, agent = titles.parts[-4], titles.parts[-2]
        said = "; ".join(json.loads(titles.read_text(encoding="utf-8")))
        lines.append(f"| `{experiment}` | `{agent}` | [{said}]({address}) |")
    return "\n".join(["| experiment | agent | episode |", "|---|---|---|", *lines])


def _folder(module: ModuleType) -> Path:
    return Path(module.__file__ or "").parent


def _offered(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, one in vars(module).items()
        if not name.startswith("_") and getattr(one, "__module__", None) == module.__name__
        and (inspect.isfunction(one) or inspect.isclass(one))
    ]  # fmt: skip


def _entry(one: Any, name: str, level: int) -> list[str]:
    mark = "#" * level
    if isinstance(one, ModuleType) and not callable(one):
        lines = [f"{mark} `{name}`", "", _module_text(one), ""]
        for word in _offered(one):
            lines += _entry(getattr(one, word), word, level + 1)
        return lines
    if isinstance(one, ModuleType):  # a package that can be called, as perepisode.report
        one = getattr(one, name)
    if inspect.isclass(one):
        return _class(one, name, level)
    if callable(one):
        return [f"{mark} `{name}`", "", *_signature(one, name), _text(one), ""]
    return []


def _class(cls: type, name: str, level: int) -> list[str]:
    lines = [f"{'#' * level} `{name}`", "", _text(cls), ""]
    if issubclass(cls, enum.Enum):
        return [*lines, *(f"- `{one.name}` = {one.value}" for one in cls), ""]
    if fields := list(_fields(cls)):
        lines += ["| attribute | type | |", "|---|---|---|"]
        lines += [f"| `{word}` | {cell(f'`{kind}`')} | {cell(said)} |" for word, kind, said in fields]
        lines += [""]
    for word, member in vars(cls).items():
        inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if word.startswith("_") or not (inspect.isfunction(inner) or isinstance(inner, property)):
            continue
        if isinstance(inner, property):
            said = _text(inner)
            lines += [f"**`{name}.{word}`** (property). {said}", ""] if said else []
        else:
            lines += [f"**`{name}.{word}`**", "", *_signature(inner, word), _text(inner), ""]
    return lines


def _fields(cls: type) -> Iterator[tuple[str, str, str]]:
    """Annotated attributes with the comment behind or above each, which is where this code says what they are."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return
    yield from _stated(source)


def _stated(source: str) -> Iterator[tuple[str, str, str]]:
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    comments = {
        token.start[0]: (token.string.lstrip("# "), token.line.strip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            said, alone = comments.get(node.end_lineno or 0, ("", False))
            if isinstance(node.value, ast.Call) and not said:  # setting("what it is")
                texts = [one.value for one in node.value.args[1:2] if isinstance(one, ast.Constant)]
                texts += [
                    one.value.value
                    for one in node.value.keywords
                    if one.arg == "help" and isinstance(one.value, ast.Constant)
                ]
                said = str(texts[0]) if texts else ""
            kind = re.sub(r"^ClassVar\[(.*)\]$", r"\1", ast.unparse(node.annotation))
            yield node.target.id, kind, "" if alone else said


def _signature(one: Any, name: str) -> list[str]:
    try:
        signature = inspect.signature(one)
    except (TypeError, ValueError):
        return []
    words = _starred(signature)
    whole = f"{name}({', '.join(words)}){_returns(signature)}"
    if len(whole) > 80:
        listed = "".join(f"    {word},\n" for word in words)
        whole = f"{name}(\n{listed}){_returns(signature)}"
    return ["```python", whole, "```", ""]


def _starred(signature: inspect.Signature) -> list[str]:
    """Parameters as they are written, the bare star among them."""
    words, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind == parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        starred = starred or parameter.kind == parameter.VAR_POSITIONAL
        default = parameter.default
        shown = default if default is parameter.empty else _Written(_constant(default))
        words.append(_unquoted(parameter.replace(default=shown)))
    return words


class _Written:
    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _constant(value: Any) -> str:
    """A default, short: a function is `...`, as its address would change with every build."""
    return "..." if callable(value) else repr(value)


def _unquoted(parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    if isinstance(kind, str):  # postponed: text already
        head, _, default = str(parameter.replace(annotation=inspect.Parameter.empty)).partition("=")
        return f"{head}: {kind}" + (f" = {default}" if default else "")
    return _without_modules(str(parameter))


def _without_modules(kind: str) -> str:
    return re.sub(r"\b(pathlib|typing|collections\.abc|perepisode(\.[a-z_0-9]+)*)\.(?=[A-Z])", "", kind)


def _returns(signature: inspect.Signature) -> str:
    kind = signature.return_annotation
    if kind is signature.empty:
        return ""
    return f" -> {kind if isinstance(kind, str) else _without_modules(inspect.formatannotation(kind))}"


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


def _first(cls: Any) -> str:
    return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


def _text(one: Any) -> str:
    found = getattr(one, "__doc__", None)
    if not found or found.startswith(f"{getattr(one, '__name__', '')}("):  # a dataclass without its own words
        return ""
    return _markdown(inspect.cleandoc(found))


def _module_text(module: ModuleType) -> str:
    return _markdown(inspect.cleandoc(module.__doc__ or ""))


def _markdown(text: str) -> str:
    """A docstring: an indented part, or lines that begin with <, is shown as it is; lists keep their lines."""
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
