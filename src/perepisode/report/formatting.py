"""How figures, tables and sentences write numbers and names."""

import re
from collections.abc import Iterable

_SMALL = dict(enumerate(("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")))


def slug(text: str) -> str:
    """A name that is safe in file names and in HTML ids."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-") or "unnamed"


def number(value: float, digits: int = 2) -> str:
    """Fixed digits; a dash for NaN."""
    return "–" if value != value else f"{value:.{digits}f}".replace("-", "−")


def plus_minus(mean: float, half: float, digits: int = 2) -> str:
    """ "1.04 ± 0.07", or the mean alone without an interval (one seed); fewer digits from 100 on."""
    digits = min(digits, 1) if abs(mean) >= 100 else digits
    return number(mean, digits) if half != half else f"{number(mean, digits)}\u00a0±\u00a0{number(half, digits)}"


def signed(value: float, text: str) -> str:
    """The text of a difference with its sign; a minus is already there."""
    return f"+{text}" if value > 0 else text


def difference(mean: float, half: float) -> str:
    """ "+0.35 ± 0.60"."""
    return signed(mean, plus_minus(mean, half))


def percent(share: float, half: float = float("nan"), digits: int = 1) -> str:
    """ "4.0 %", or with an interval "4.0 % ± 3.5" or "1.0 % (0 – 3.4)", never below zero."""
    text = "–" if share != share else f"{100 * share:.{digits}f}\u00a0%"
    if half > share:
        return f"{text}\u00a0(0\u00a0–\u00a0{100 * (share + half):.{digits}f})"
    return text if half != half else f"{text}\u00a0±\u00a0{100 * half:.{digits}f}"


def factor(ratio: float) -> str:
    """ "1.9 times", in a sentence."""
    return f"{ratio:.{0 if ratio >= 10 else 1}f} times" if ratio < float("inf") else "–"


def multiple(ratio: float) -> str:
    """The same in a table: "2.0 ×", "11 ×"."""
    return f"{ratio:.{0 if ratio >= 10 else 1}f}\u00a0×" if ratio < float("inf") else "–"


def share_interval(mean: float, low: float, high: float) -> str:
    """ "13.5 % (12.1 – 14.9)"; the share alone without an interval."""
    return percent(mean) if low != low else f"{percent(mean)} ({100 * low:.1f}\u00a0–\u00a0{100 * high:.1f})"


def in_words(count: int) -> str:
    """A small number as a word."""
    return _SMALL.get(count, str(count))


def listed(parts: Iterable[str]) -> str:
    """ "a, b and c"."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def scientific(value: float) -> str:
    return "–" if value != value else "0" if value == 0 else f"{value:.1e}".replace("-", "−")


def count(value: float) -> str:
    """A count: below a million in full, from there on to three digits, "10⁸", "4.59 × 10⁷"."""
    if not value >= 1e6:
        return "–" if value != value else f"{value:,.0f}"
    return power_of_ten(value, 2)


def power_of_ten(value: float, digits: int = 1) -> str:
    """ "4.6 × 10⁷" or "10⁸"; the absolute value is 10 or larger."""
    mantissa, power = f"{value:.{digits}e}".split("e+")
    ten = "10" + power.lstrip("0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ten if float(mantissa) == 1 else f"{float(mantissa):g}\u00a0×\u00a0{ten}".replace("-", "−")


def p_value(p: float) -> str:
    return "–" if p != p else ("< 0.001" if p < 0.001 else f"{p:.3f}")


def p_equals(p: float) -> str:
    """ "= 0.012" or "< 0.001", after a p."""
    return p_value(p) if p < 0.001 else f"= {p_value(p)}"
