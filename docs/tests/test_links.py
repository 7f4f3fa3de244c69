"""Links of the built site: each leads to a file and an anchor that exist. `make docs` runs this after the build.

Links to other sites are not followed.
"""

import functools
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[1] / "_build" / "html"
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts)


class Page(HTMLParser):
    """The anchors of a page and the targets of its links and pictures."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.targets = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        self.targets |= {attributes[name] for name in ("href", "src") if attributes.get(name)}


@functools.cache
def parsed(path):
    return Page(path.read_text())


def test_the_site_is_built():
    assert "index.html" in PAGES


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    here, broken = SITE / page, []
    for target in parsed(here).targets:
        url = urlsplit(target)
        if url.scheme or url.netloc:
            continue
        path = (here.parent / unquote(url.path)).resolve() if url.path else here
        path = path / "index.html" if path.is_dir() else path
        anchor = unquote(url.fragment)
        if not path.is_file() or (path.suffix == ".html" and anchor and anchor not in parsed(path).anchors):
            broken.append(target)
    assert broken == []
