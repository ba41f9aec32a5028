"""Files that may come from anybody, read as plain data: kind and size are looked at first, and nothing in them can run.

What is wrong with one is said in one line, which holds the file's name, the reason and a remedy, never its content.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perepisode.settings import ConfigError

MAX_BYTES = 256 * 2**20  # bytes; whatever this program writes as text is far smaller
MAX_LINE_LENGTH = 280  # characters of a line that refuses, but for who says it
SPACES = "\u00a0\u2009\u202f"  # that the program's own words hold
# what steers a terminal or turns the order of words about, and halves of characters, which cannot be printed at all
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def read_bytes(path: str | Path, remedy: str, most: int = MAX_BYTES) -> bytes:
    """The bytes of an ordinary file."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ConfigError(f"{path} is no ordinary file; {remedy}")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > most:
                raise ConfigError(f"{path} is larger than {most >> 20} MB; {remedy}")
            return file.read(most)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; {remedy}") from None


def read_text(path: str | Path, remedy: str, most: int = MAX_BYTES) -> str:
    return _decode(read_bytes(path, remedy, most), path, remedy)


def read_json(path: str | Path, remedy: str, kind: type = dict) -> Any:
    """What a JSON file holds: an object, unless another kind is wanted."""
    return parse_json(read_bytes(path, remedy), path, remedy, kind)


def parse_json(content: bytes, path: str | Path, remedy: str, kind: type = dict) -> Any:
    """The same of what was read already, from `path`."""
    try:
        found = json.loads(_decode(content, path, remedy))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is damaged ({first_line(error)}); {remedy}") from None
    if not isinstance(found, kind):
        raise ConfigError(f"{path} holds a {type(found).__name__} where a {kind.__name__} belongs; {remedy}")
    if any(map(CONTROL_CHARACTERS.search, _words(found))):
        raise ConfigError(f"{path} holds control characters, which no such file has; {remedy}")
    return found


def _words(found: Any) -> Iterator[str]:
    """Every text in it, names of entries too."""
    left = [found]
    while left:
        one = left.pop()
        left += [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else ()
        if isinstance(one, str):
            yield one


def _decode(content: bytes, path: str | Path, remedy: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text in UTF-8; {remedy}") from None


def parse_row(line: str) -> dict[str, Any] | None:
    """One line of a JSONL file; None where it is cut short, as by a kill, or is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def last_row(path: Path) -> dict[str, Any] | None:
    """The last whole line of a JSONL file."""
    return next((found for line in reversed(last_lines(path)) if (found := parse_row(line)) is not None), None)


def last_lines(path: Path, begin: int = 0) -> list[str]:
    """The end of a file, from `begin` on, without reading the rest."""
    try:
        if not path.is_file():
            return []
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(begin, end - 8192))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def as_float(value: Any) -> float:
    """A finite number of a sensible size, NaN for anything else."""
    return float(value) if isinstance(value, int | float) and abs(value) <= 1e30 else float("nan")


def printable(said: str) -> str:
    """On one line, and nothing that steers a terminal: control characters are written as `\\x1b`."""
    return "".join(c if c.isprintable() or c in SPACES else c.encode("unicode_escape").decode() for c in said)


def one_line(said: object) -> str:
    """What is wrong, in one line that can be read.  Of one that is too long, the middle of long words goes first."""
    line = printable(" ".join(str(said).split()) if "\n" in str(said) else str(said))
    if len(line) > MAX_LINE_LENGTH:
        line = re.sub(r"\S{60,}", lambda word: f"{word[0][:16]}…{word[0][-40:]}", line)
    return line if len(line) <= MAX_LINE_LENGTH else f"{line[: MAX_LINE_LENGTH - 123]} … {line[-120:]}"


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()[:12]


def is_plain_name(name: Any) -> bool:
    """Whether this names something directly below a folder, and a shell would not read anything else in it."""
    return isinstance(name, str) and re.fullmatch(r"[\w][\w.,=+-]*", name) is not None
