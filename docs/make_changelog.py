"""Writes `reference/changelog.md` from the notes in `changes/`. `make docs` runs this script."""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent / "tools"))

from changelog import changelog  # noqa: E402  # in the folder above

if __name__ == "__main__":
    # links in changes/ to pages: from the folder reference/
    page = DOCS / "reference" / "changelog.md"
    page.write_text(re.sub(r"\]\(\.\./docs/", "](../", changelog()), "utf-8")
