"""The random words that layouts are drawn from, MT19937-64, and the draws that C++ programs make of them.

The draws are those of GCC's standard library up to version 10: the seeds of published episodes count on them.
"""

from typing import Any

import numpy as np

_LARGEST = 2**64 - 1
_SIZE, _MIDDLE = 312, 156  # of the state; from a word to the one that it is mixed with
_MULTIPLIER = 6364136223846793005
# As arrays: NumPy is slower with its scalars.
_UPPER, _LOWER, _TWIST, _ONE = (
    np.array(value, np.uint64) for value in (0xFFFFFFFF80000000, 0x7FFFFFFF, 0xB5026F5AA96619E9, 1)
)
_TEMPERING = tuple(
    (shift, np.array(bits, np.uint64), np.array(mask, np.uint64))
    for shift, bits, mask in (
        (np.right_shift, 29, 0x5555555555555555),
        (np.left_shift, 17, 0x71D67FFFEDA60000),
        (np.left_shift, 37, 0xFFF7EEE000000000),
        (np.right_shift, 43, _LARGEST),
    )
)


class _Scales(dict[int, int]):
    """What a word is divided by for a number below each count."""

    def __missing__(self, count: int) -> int:
        self[count] = _LARGEST // count
        return self[count]


_SCALES = _Scales()


class Words:
    """An endless stream of words from 0 to 2**64 - 1."""

    def __init__(self, seed: int) -> None:
        word = int(seed) & _LARGEST
        words = [word]
        for index in range(1, _SIZE):
            word = (_MULTIPLIER * (word ^ word >> 62) + index) & _LARGEST
            words.append(word)
        # The words that the next ones follow from, with views: slicing takes longer than the arithmetic.
        self._state = np.array(words, np.uint64)
        self._first, self._rest, self._late = self._state[:-1], self._state[1:], self._state[_MIDDLE:]
        self._next, self._odd = np.empty_like(self._rest), np.empty_like(self._rest)
        self._next_early, self._next_late = self._next[:_MIDDLE], self._next[_MIDDLE:]
        self._next_earliest = self._next[: _MIDDLE - 1]
        self._ready: list[int] = []  # words to take, the next one last

    def word(self) -> int:
        """The next word."""
        return (self._ready or self._make_ready()).pop()

    def real(self) -> float:
        """A number from 0 to 1."""
        return self.word() * 2.0**-64

    def below(self, count: int) -> int:
        """A number from 0 to count - 1; takes a word for a count of 1 too."""
        number = (self._ready or self._make_ready()).pop() // _SCALES[count]
        return number if number < count else self.below(count)

    def pick(self, low: int, high: int) -> int:
        """A number from low to high; `low`, without taking a word, if there is no other."""
        return low if low >= high else low + self.below(high - low + 1)

    def shuffle(self, items: list[Any]) -> None:
        """Shuffles in place: one draw decides two swaps."""
        below, start = self.below, 1
        if items and len(items) % 2 == 0:
            other = below(2)
            items[1], items[other] = items[other], items[1]
            start = 2
        for index in range(start, len(items), 2):
            first, second = divmod(below((index + 1) * (index + 2)), index + 2)
            items[index], items[first] = items[first], items[index]
            items[index + 1], items[second] = items[second], items[index + 1]

    def skip(self, count: int) -> None:
        """Passes words over without looking at them."""
        left = count - len(self._ready)
        if left <= 0:
            del self._ready[len(self._ready) - count :]
            return
        blocks, rest = divmod(left, len(self._next))
        for _ in range(blocks):
            self._advance()
        self._ready = []
        if rest:
            self._make_ready()
            self.skip(rest)

    def _make_ready(self) -> list[int]:
        """The next 311 words, as they are given out."""
        self._advance()
        words = self._next[::-1].copy()
        for shift, bits, mask in _TEMPERING:
            words ^= shift(words, bits) & mask
        self._ready = words.tolist()
        return self._ready

    def _advance(self) -> None:
        """Goes on by 311 words."""
        np.bitwise_and(self._rest, _LOWER, out=self._next)
        np.bitwise_and(self._rest, _ONE, out=self._odd)
        self._next |= self._first & _UPPER
        self._next >>= _ONE
        self._odd *= _TWIST
        self._next ^= self._odd
        self._next_early ^= self._late
        self._next_late ^= self._next_earliest
        self._state[0] = self._state[-1]
        self._rest[:] = self._next
