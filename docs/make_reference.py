"""Write the generated pages of the reference: one page per operator with its pictures, and an index of them.

``make docs`` runs it before Sphinx. What it writes, docs/reference/operators/, is not in the repository.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
OPERATORS = DOCS / "reference" / "operators"


def main() -> None:
    """Write the pages."""
    sys.path.insert(0, str(DOCS / "_generate"))
    import operator_facts  # noqa: PLC0415  # found on the path that the line above extends
    import operator_page  # noqa: PLC0415
    import operator_pictures  # noqa: PLC0415

    shutil.rmtree(OPERATORS, ignore_errors=True)
    operator_pictures.write_pictures(OPERATORS / "pictures")
    found = operator_facts.operators()
    pages = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts and path.name != "README.md"]
    uses, rows = operator_page.uses_of_operators(pages), operator_page.dali_rows()
    for facts in found:
        page = operator_page.operator_page(facts, uses.get(facts.name, ()), rows.get(facts.name))
        (OPERATORS / f"{facts.name}.md").write_text(page)
    (OPERATORS / "index.md").write_text(operator_page.index_page(found))
    print(f"wrote the pages of {len(found)} operators")


if __name__ == "__main__":
    main()
