"""What to say to a mistyped word."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str], others: str = "") -> str:
    """The nearest name as a question, or all names and what else there is."""
    names = list(names)
    spelled = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), spelled, n=1)
    return f"did you mean {spelled[near[0]]!r}?" if near else f"choose from {', '.join(names)}{others}"
