"""Refuses numbers that nothing can be done with, before anything is done. None is a number not given."""

import math

Number = int | float | None


def check_least(least: float, **numbers: Number) -> None:
    """Refuses what is below some least number, infinite or NaN."""
    for name, number in numbers.items():
        if number is not None and not least <= number < math.inf:
            raise ValueError(f"{name} must be at least {least:g}: got {number}")


def check_above(bound: float, **numbers: Number) -> None:
    """Refuses what is not above a number, infinite or NaN."""
    for name, number in numbers.items():
        if number is not None and not bound < number < math.inf:
            raise ValueError(f"{name} must be above {bound:g}: got {number}")


def check_between(least: float, most: float, **numbers: Number) -> None:
    """Refuses what is outside of both, or NaN."""
    for name, number in numbers.items():
        if number is not None and not least <= number <= most:
            raise ValueError(f"{name} must be from {least:g} to {most:,g}: got {number}")
