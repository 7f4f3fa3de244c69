"""Random numbers of dynamic mode: generators, and the default generator of a thread."""

from __future__ import annotations

import re
import secrets
import threading
from typing import Any, NamedTuple

from penstock.core import with_call_site
from penstock.errors import ArgumentTypeError, StateError, UsageError, short_repr
from penstock.numerics.permutation import hash_words

# Draws that a call of a random operator consumes, as in DALI.
DRAWS_PER_CALL = 7
_STATE = re.compile(r"Hash_([0-9a-f]{1,16}):([0-9a-f]+)")


class RngState(NamedTuple):
    """State of a generator.

    Args:
        seed: Its seed, 64 bits.
        position: Number of draws since the seed was set.
    """

    seed: int
    position: int

    def advanced(self, draws: int) -> RngState:
        """Return the state after some draws."""
        return RngState(self.seed, self.position + draws)

    @property
    def call_seed(self) -> int:
        """Seed of a random operator that is called in this state."""
        return hash_words(self.seed, self.position, DRAWS_PER_CALL) >> 1


class RNG:
    """Generator of random numbers.

    A call of a random operator consumes seven draws, whatever its batch size. Sample i of a call depends on the state
    and i alone. The numbers differ from DALI's.

    Args:
        seed: Seed, of which 64 bits count; None draws one.
        state: State of another generator, in place of a seed.

    Raises:
        UsageError: Both seed and state are set.
        StateError: The state is malformed.

    >>> a, b = RNG(5), RNG(5)
    >>> a() == b(), a.clone()() == a(), RNG(state=a.state)() == a()
    (True, True, True)
    """

    @with_call_site
    def __init__(self, seed: int | None = None, state: str | None = None) -> None:
        if seed is not None and state is not None:
            raise UsageError("both seed and state are set", fix="one of them")
        self._seed, self._position = (secrets.randbits(64) if seed is None else int(seed) % 2**64), 0
        if state is not None:
            self.set_state(state)

    def __call__(self) -> int:
        """Draw an integer below 2**32."""
        self._position += 1
        return hash_words(self._seed, self._position - 1) >> 32

    @with_call_site
    def advance(self, n: int) -> None:
        """Skip some draws.

        Raises:
            UsageError: The number is negative.
        """
        if n < 0:
            raise UsageError("a generator cannot go back", given=n, expected="at least 0")
        self._position += n

    def clone(self) -> RNG:
        """Return a generator with the same state."""
        return RNG(state=self.state)

    def call_seed(self) -> int:
        """Consume the draws of a call, and return its seed."""
        seed = self.snapshot().call_seed
        self._position += DRAWS_PER_CALL
        return seed

    def snapshot(self) -> RngState:
        """Return the state as numbers."""
        return RngState(self._seed, self._position)

    def _set_seed(self, seed: int) -> None:
        """Begin again with another seed. As in DALI, the seed of a generator cannot be read."""
        self._seed, self._position = int(seed) % 2**64, 0

    seed = property(fset=_set_seed)

    @property
    def state(self) -> str:
        """State, as text."""
        return f"Hash_{self._seed:x}:{self._position:x}"

    @state.setter
    def state(self, state: str) -> None:
        self.set_state(state)

    def get_state(self, **_hints: Any) -> str:
        """Return the state, as text."""
        return self.state

    @with_call_site
    def set_state(self, state: str) -> None:
        """Continue at a state.

        Raises:
            StateError: It is not the state of a generator.
        """
        match = _STATE.fullmatch(str(state))
        if match is None:
            raise StateError("not the state of a generator", given=short_repr(state), expected="rng.state of Penstock")
        self._seed, self._position = int(match[1], 16), int(match[2], 16)

    def __repr__(self) -> str:
        return f"RNG(state={self.state!r})"


_thread = threading.local()


def get_default_rng() -> RNG:
    """Return the generator of this thread that calls without `rng=` use."""
    if not hasattr(_thread, "rng"):
        _thread.rng = RNG()
    return _thread.rng


def set_seed(seed: int) -> None:
    """Seed the generator of this thread."""
    _thread.rng = RNG(seed)


def check_rng(rng: Any) -> RNG:
    """Return the generator of a call.

    Raises:
        ArgumentTypeError: It is of another type.
    """
    if rng is None:
        return get_default_rng()
    if not isinstance(rng, RNG):
        raise ArgumentTypeError("rng must be a generator", given=f"a {type(rng).__name__}", expected="random.RNG")
    return rng
