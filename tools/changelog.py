"""Changelog of releases, assembled from the notes in `changes/`.

    python tools/changelog.py                    prints it, the unreleased changes first
    python tools/changelog.py --release 0.2.0    merges the notes of changes into the note of a release

Needs only Python.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

CHANGES = Path(__file__).resolve().parents[1] / "changes"
KINDS = {"removal": "Removals", "feature": "Features", "fix": "Fixes", "doc": "Documentation"}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Changelog of releases.")
    parser.add_argument("--release", metavar="VERSION", help="merge the notes of changes into the note of this release")
    version = parser.parse_args().release
    if version is None:
        print(changelog())
        return
    note, sections = CHANGES / f"{version}.md", unreleased()
    if note.exists():
        parser.error(f"{note} exists")
    if not sections:
        parser.error("there are no changes to release")
    note.write_text(f"# Penstock {version}\n\n{sections}", "utf-8")
    for path in fragments():
        path.unlink()


def changelog() -> str:
    """Return the changelog as Markdown: a section per release, the newest first."""
    sections = unreleased()
    parts = [f"# Unreleased\n\n{sections}"] if sections else []
    parts += [path.read_text("utf-8").replace("# Penstock ", "# ", 1) for path in releases()]
    return "# Changelog\n\n" + "\n".join(re.sub(r"^#", "##", part, flags=re.MULTILINE) for part in parts)


def releases() -> list[Path]:
    """Return the notes of releases, the newest first."""
    notes = [path for path in CHANGES.glob("*.md") if re.fullmatch(r"\d+(\.\d+)+", path.stem)]
    return sorted(notes, key=lambda path: [int(part) for part in path.stem.split(".")], reverse=True)


def fragments() -> list[Path]:
    """Return the notes of changes after the last release."""
    released = {CHANGES / "README.md", *releases()}
    return [path for path in sorted(CHANGES.glob("*.md")) if path not in released]


def unreleased() -> str:
    """Return the notes of changes as Markdown: a section per kind, a bullet per change."""
    notes: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for path in fragments():
        _, _, kind = path.stem.rpartition(".")
        if kind not in notes:
            raise SystemExit(f"{path}: the name must end with one of .{'.md, .'.join(KINDS)}.md")
        notes[kind] += bullets(path.read_text("utf-8").strip())
    return "\n".join(f"## {KINDS[kind]}\n\n" + "\n".join(items) + "\n" for kind, items in notes.items() if items)


def bullets(text: str) -> Iterator[str]:
    """Yield the bullets of a note, which is a paragraph or a list."""
    items = re.split(r"^\* ", text, flags=re.MULTILINE)[1:] if text.startswith("* ") else [text]
    for item in items:
        yield "* " + re.sub(r"\n\s*", "\n  ", item.strip())


if __name__ == "__main__":
    main()
