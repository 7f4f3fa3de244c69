"""Write the generated parts of the reference: a page per operator with its pictures, and the help of the commands.

``make docs`` runs it before Sphinx. What it writes, docs/reference/operators/ and docs/reference/commands/, is not in
the repository.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
OPERATORS = DOCS / "reference" / "operators"
COMMANDS = DOCS / "reference" / "commands"


def main() -> None:
    """Write the pages."""
    sys.path.insert(0, str(DOCS / "_generate"))
    import command_help  # noqa: PLC0415
    import operator_facts  # noqa: PLC0415  # found on the path that the line above extends
    import operator_page  # noqa: PLC0415
    import operator_pictures  # noqa: PLC0415

    for folder in (OPERATORS, COMMANDS):
        shutil.rmtree(folder, ignore_errors=True)
    command_help.write_help(COMMANDS)
    operator_pictures.write_pictures(OPERATORS / "pictures")
    found = operator_facts.operators()
    pages = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts and path.name != "README.md"]
    uses, rows = operator_page.uses_of_operators(pages), operator_page.dali_rows()
    for facts in found:
        page = operator_page.operator_page(facts, uses.get(facts.name, ()), rows.get(facts.name))
        (OPERATORS / f"{facts.name}.md").write_text(page)
    (OPERATORS / "index.md").write_text(operator_page.index_page(found))


if __name__ == "__main__":
    main()
