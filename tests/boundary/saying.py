"""The command line in this process, and what a refusal must look like."""

import contextlib
import io
from typing import Any

from perepisode.cli import main


def answer(*words: object) -> tuple[Any, str, str]:
    """Exit code, stdout and stderr; anything that is not an exit gets through as the traceback that it would be."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            return end.code or 0, out.getvalue(), err.getvalue()
    raise AssertionError("the command line did not end")


def is_one_line(said: str) -> bool:
    """At most 300 characters, and nothing in them that steers a terminal."""
    line = said.removesuffix("\n")
    return 0 < len(line) <= 300 and all(c.isprintable() or c in "\u00a0\u2009\u202f" for c in line)


def refused(*words: object) -> str:
    """The one line with which it ends."""
    code, _, err = answer(*words)
    assert code == 2, (code, err)
    assert is_one_line(err), err
    assert err.startswith("perepisode: ")
    return err


def works_or_one_line(*words: object) -> bool:
    """Whether it worked; if not, it said why in one line."""
    code, _, err = answer(*words)
    assert code in (0, 2), (code, err)
    assert code == 0 or is_one_line(err), err
    return code == 0


def works(function, *given) -> bool:
    """Whether it works; if not, it refuses in one line, as a ValueError: the command line says any of them."""
    try:
        function(*given)
        return True
    except ValueError as error:
        said = str(error)
    assert "\n" not in said, said
    return False
