"""Check: one line of a diagnosis, and the table of several."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One fact about an installation, with its problem if there is one.

    Args:
        section: Section of the table, such as "caches".
        name: Name of the fact, with its unit.
        value: Its value.
        problem: What is wrong; "" if nothing is.
        fix: Command or setting that fixes the problem, or that adds what is missing.
    """

    section: str
    name: str
    value: str | float
    problem: str = ""
    fix: str = ""


def as_table(checks: Sequence[Check]) -> str:
    """Return the checks as text by section, followed by the problems and their fixes.

    >>> print(as_table([Check("limits", "open files", 256, "too few for read_threads", "ulimit -n 4096")]))
    limits
      open files  256
    <BLANKLINE>
    1 problem
      open files: too few for read_threads
        fix: ulimit -n 4096
    """
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    section = ""
    for check in checks:
        if check.section != section:
            section = check.section
            lines += ["", section]
        value = check.value if isinstance(check.value, str | int) else f"{check.value:,.1f}"
        # The fix of a problem is in the list at the end.
        hint = f"    {check.fix}" if check.fix and not check.problem else ""
        lines.append(f"  {check.name:<{width}}  {value}{hint}")
    problems = [check for check in checks if check.problem]
    lines += ["", f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"]
    for check in problems:
        lines.append(f"  {check.name}: {check.problem}")
        if check.fix:
            lines.append(f"    fix: {check.fix}")
    return "\n".join(lines[1:])


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    """Return the checks as plain JSON."""
    return {"ok": not any(check.problem for check in checks), "checks": [asdict(check) for check in checks]}
