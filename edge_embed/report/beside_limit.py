"""Texts of a measured number beside its limit: they show on which side of the limit the number is."""

_MOST_DIGITS = 17  # these tell any two floats apart
_DIGITS_OF_LIMITS = 12  # a limit that was given has fewer; more show the rounding of a computed one


def beside_limit(got: float, limit: float, digits: int = 4) -> tuple[str, str]:
    """Return a number and its limit as texts.

    Args:
        got: the number.
        limit: its limit.
        digits: fewest significant digits of the number. It gets more if it would round to the limit or beyond it.
    """
    got, limit = float(got), float(limit)  # from numbers of numpy too
    shown = f"{limit:.{_DIGITS_OF_LIMITS}g}"
    for text in (f"{got:.{count}g}" for count in range(digits, _MOST_DIGITS + 1)):
        if _order(float(text), float(shown)) == _order(got, limit):
            return text, shown
    return f"{got:.{_MOST_DIGITS}g}", f"{limit:.{_MOST_DIGITS}g}"


def _order(one: float, other: float) -> int:
    return (one > other) - (one < other)
