"""The built site in a browser: search, narrow screens, light and dark. `make docs` runs this after the build."""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SITE = Path(__file__).parents[1] / "_build" / "html"
ALL_PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts)
# Pages of operators have one form, so every eighth is looked at.
OPERATOR_PAGES = [page for page in ALL_PAGES if page.startswith("reference/operators/")]
PAGES = sorted({*ALL_PAGES} - {*OPERATOR_PAGES} | {*OPERATOR_PAGES[::8]})
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
PYTORCH = (
    "ToTensor",
    "RandomResizedCrop",
    "Normalize",
    "ColorJitter",
    "DistributedSampler",
    "num_workers",
    "pin_memory",
)
# Wide elements scroll by themselves, so that the page does not. Lazy images load when they are scrolled into view.
FAULTS = """
async () => {
    const faults = [];
    for (const theme of ["light", "dark"]) {
        document.documentElement.dataset.theme = theme;
        const width = document.documentElement.scrollWidth;
        if (width > window.innerWidth) faults.push(`${theme}: ${width} pixels wide`);
    }
    for (const image of document.images) {
        image.loading = "eager";
        await image.decode().catch(() => faults.push(`${image.src} does not load`));
    }
    return faults;
}
"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium or google-chrome")


class Quiet(SimpleHTTPRequestHandler):
    """Server of the built files that does not log requests."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (dependency group docs)")
    with sync_api.sync_playwright() as playwright:
        # The pages reach the local server only. Rules for requests would do the same, but they turn off the cache.
        rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def narrow(browser):
    """A page of 400 pixels."""
    context = browser.new_context(viewport={"width": 400, "height": 800})
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_narrow_screen_and_its_images_load(narrow, address, page):
    narrow.goto(f"{address}/{page}")
    assert narrow.evaluate(FAULTS) == []


@pytest.mark.parametrize("word", PYTORCH)
def test_a_search_for_a_word_of_pytorch_finds_its_counterpart(narrow, address, word):
    narrow.goto(f"{address}/search.html?q={word}")
    narrow.wait_for_selector("#search-results .search-summary, #search-results li a")
    narrow.wait_for_function("!document.querySelector('#search-progress')?.textContent.includes('...')")
    links = narrow.eval_on_selector_all("#search-results li a", "links => links.map(link => link.href)")
    assert any("/how-to/migrate/pytorch.html" in link for link in links)
