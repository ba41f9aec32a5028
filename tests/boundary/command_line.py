"""The command line in this process, and the form of its errors."""

import contextlib
import io
from typing import Any

from perepisode.cli import main


def answer(*words: object) -> tuple[Any, str, str]:
    """Exit code, stdout and stderr; any exception but SystemExit passes through."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            return end.code or 0, out.getvalue(), err.getvalue()
    raise AssertionError("main() must raise SystemExit")


def is_one_line(message: str) -> bool:
    """At most 300 characters, and none that controls a terminal."""
    line = message.removesuffix("\n")
    return 0 < len(line) <= 300 and all(c.isprintable() or c in "\u00a0\u2009\u202f" for c in line)


def refused(*words: object) -> str:
    """The one line of the error."""
    code, _, err = answer(*words)
    assert code == 2, (code, err)
    assert is_one_line(err), err
    assert err.startswith("perepisode: ")
    return err


def works_or_one_line(*words: object) -> bool:
    """Whether the command works; otherwise its error is one line."""
    code, _, err = answer(*words)
    assert code in (0, 2), (code, err)
    assert code == 0 or is_one_line(err), err
    return code == 0


def works(function, *given) -> bool:
    """Whether the call works; otherwise it raises a ValueError of one line, which the command line prints."""
    try:
        function(*given)
        return True
    except ValueError as error:
        message = str(error)
    assert "\n" not in message, message
    return False
