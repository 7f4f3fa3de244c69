"""Seeds of the attacks: one in continuous integration, a range in long runs."""

import os

_FIRST, _, _LAST = os.environ.get("PENSTOCK_ATTACK_SEEDS", "0").partition("-")
SEEDS = range(int(_FIRST), int(_LAST or _FIRST) + 1)
