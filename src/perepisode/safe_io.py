"""Reading files from untrusted sources as plain data.

Type and size are checked before reading, and nothing in a file is ever executed.  Every error is one line with the
file's name, the reason and a remedy; it never quotes the file's content.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from perepisode.settings import ConfigError

MAX_BYTES = 256 * 2**20  # larger than any text file that this package writes
MAX_LINE_LENGTH = 280  # characters of an error message
SPACES = "\u00a0\u2009\u202f"  # not printable to Python, but used in messages of this package
# terminal control codes, marks that reverse the text direction, and surrogates, which cannot be printed
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def read_bytes(path: str | Path, remedy: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ConfigError(f"{path} is not a regular file; {remedy}")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > max_bytes:
                raise ConfigError(f"{path} is larger than {max_bytes >> 20} MB; {remedy}")
            return file.read(max_bytes)
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; {remedy}") from None


def read_text(path: str | Path, remedy: str, max_bytes: int = MAX_BYTES) -> str:
    return _decode(read_bytes(path, remedy, max_bytes), path, remedy)


def read_json(path: str | Path, remedy: str, expected: type = dict, parse_float: Callable[[str], float] = float) -> Any:
    """The value in a JSON file; by default it must be an object."""
    return parse_json(read_bytes(path, remedy), path, remedy, expected, parse_float)


def parse_json(
    content: bytes,
    path: str | Path,
    remedy: str,
    expected: type = dict,
    parse_float: Callable[[str], float] = float,
) -> Any:
    """`read_json` for content that was already read from `path`."""
    try:
        value = json.loads(_decode(content, path, remedy), parse_float=parse_float)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is damaged ({first_line(error)}); {remedy}") from None
    if not isinstance(value, expected):
        raise ConfigError(f"{path} contains a {type(value).__name__} instead of a {expected.__name__}; {remedy}")
    if any(map(CONTROL_CHARACTERS.search, _strings(value))):
        raise ConfigError(f"{path} contains control characters, which no such file needs; {remedy}")
    return value


def _strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, including keys."""
    stack = [value]
    while stack:
        item = stack.pop()
        stack += [*item, *item.values()] if isinstance(item, dict) else item if isinstance(item, list) else ()
        if isinstance(item, str):
            yield item


def _decode(content: bytes, path: str | Path, remedy: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; {remedy}") from None


def parse_row(line: str) -> dict[str, Any] | None:
    """One line of a JSONL file; None if it is not a complete object, for example because a kill truncated it."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def last_row(path: Path) -> dict[str, Any] | None:
    """The last complete row of a JSONL file."""
    return next((row for line in reversed(last_lines(path)) if (row := parse_row(line)) is not None), None)


def last_lines(path: Path, begin: int = 0) -> list[str]:
    """The last lines of a file after byte `begin`, without reading the rest."""
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
    """The value as a float; NaN if it is not a number of sensible size."""
    return float(value) if isinstance(value, int | float) and abs(value) <= 1e30 else float("nan")


def printable(text: str) -> str:
    """The text with newlines and control characters escaped, as in `\\x1b`, so that none reaches a terminal."""
    return "".join(c if c.isprintable() or c in SPACES else c.encode("unicode_escape").decode() for c in text)


def one_line(message: object) -> str:
    """The message on one readable line; if it is too long, the middle of long words is cut first."""
    line = printable(" ".join(str(message).split()) if "\n" in str(message) else str(message))
    if len(line) > MAX_LINE_LENGTH:
        line = re.sub(r"\S{60,}", lambda word: f"{word[0][:16]}…{word[0][-40:]}", line)
    return line if len(line) <= MAX_LINE_LENGTH else f"{line[: MAX_LINE_LENGTH - 123]} … {line[-120:]}"


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()[:12]


def is_plain_name(name: Any) -> bool:
    """Whether this is a name within one folder that needs no quoting in a shell."""
    return isinstance(name, str) and re.fullmatch(r"[\w][\w.,=+-]*", name) is not None
