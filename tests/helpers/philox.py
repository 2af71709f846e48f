"""An independent Philox4x32-10 in Python's integers, a thread's stream of words, and the seeds of launches."""

from __future__ import annotations

__all__ = ["Stream", "launch_seed", "philox4x32"]

_MASK = 2**32 - 1
_MASK64 = 2**64 - 1


def philox4x32(counter: tuple[int, ...], key: tuple[int, int], rounds: int = 10) -> tuple[int, int, int, int]:
    """The four words of a counter and a key, as the paper's text has it: multiply, swap, exclusive-or, bump."""
    left0, right0, left1, right1 = counter
    for number in range(rounds):
        k0 = (key[0] + number * 0x9E3779B9) & _MASK
        k1 = (key[1] + number * 0xBB67AE85) & _MASK
        high0, low0 = divmod(0xD2511F53 * left0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * left1, 2**32)
        left0, right0, left1, right1 = high1 ^ right0 ^ k0, low1, high0 ^ right1 ^ k1, low0
    return left0, right0, left1, right1


class Stream:
    """The words that a thread draws in a launch."""

    def __init__(self, thread: int, seed: int) -> None:
        self.thread, self.key = thread, (seed & _MASK, seed >> 32)
        self.block, self.ready = 0, []

    def word(self) -> int:
        """The next one."""
        if not self.ready:
            counter = (self.block & _MASK, self.block >> 32, self.thread & _MASK, self.thread >> 32)
            self.ready = list(philox4x32(counter, self.key))
            self.block += 1
        return self.ready.pop(0)


def _scrambled(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK64
    return x ^ x >> 31


def launch_seed(seed: int, launch: int) -> int:
    """Key of the launch with this number since `sterna.seed(seed)`."""
    return _scrambled((_scrambled(seed) + (launch + 1) * 0x9E3779B97F4A7C15) & _MASK64)
