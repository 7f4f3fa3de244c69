"""The page of `penstock view`: its values are those of batches, its text is data, and it works in a browser."""

import base64
import io
import re
import shutil
import webbrowser
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from penstock import data_iterator, fn, pipeline_def
from penstock.cli import main
from penstock.iterate.dry_run import dry_run
from penstock.iterate.iterator_effects import iterator_effects
from penstock.pictures.view_page import view_page

HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;"

PROGRAM = """
import sys, tempfile
import numpy as np
from penstock import data_iterator, fn

@data_iterator(output_map=["images"], reader_name="reader")
def training(folder):
    images = fn.readers.numpy(file_root=folder, file_filter="*.npy", random_shuffle=True, name="reader")
    images = fn.reshape(images, shape=[24, 32, 3], layout="HWC")
    return fn.flip(fn.brightness(images, brightness=fn.random.uniform(range=(0.5, 1.5))), horizontal=1)

@data_iterator(output_map=["images"], reader_name="reader")
def evaluation(folder):
    images = fn.readers.numpy(file_root=folder, file_filter="*.npy", name="reader")
    return fn.flip(fn.reshape(images, shape=[24, 32, 3], layout="HWC"), horizontal=0)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            np.save(f"{folder}/{number}.npy", np.full((24, 32, 3), 20 * number + 40, np.uint8))
        iterators = [make(folder=folder, batch_size=2, seed=5) for make in (training, evaluation)]
        for batch in iterators[0]:
            print("trained", sys.argv[1:])
"""


class Page(HTMLParser):
    """Elements of a page as (tag, attributes, text of its own)."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])

    def handle_data(self, data):
        if self.elements:
            self.elements[-1][2] += data

    def all(self, tag):
        return [(attributes, text) for name, attributes, text in self.elements if name == tag]


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (10, 12, 16, 3), np.uint8)


def effects_of(iterator, count=3, seed=None):
    return iterator_effects(iterator, count, seed, None)


def outputs(sample):
    """Outputs of the definition by name."""
    return {name: value.array for effect in sample.effects for value in effect.values for name in value.outputs}


@data_iterator(output_map=["images", "labels"], reader_name="reader")
@pipeline_def(enable_conditionals=True)
def conditional(data):
    images = fn.readers.arrays(data, layout="HWC", random_shuffle=True, name="reader")
    brighter = fn.random.coin_flip()
    if brighter:  # statements are what conditionals rewrite
        images = fn.brightness(images, brightness=fn.random.uniform(range=(1.5, 2.5)))
    else:
        images = fn.flip(images, horizontal=1)
    return fn.noise.gaussian(fn.random_resized_crop(images, size=[8, 8]), stddev=9.0), fn.cast(
        brighter, dtype=np.float32
    )


@data_iterator(output_map=["mixed"], reader_name="reader")
def whole_batches(data):
    images = fn.readers.arrays(data, layout="HWC", name="reader")
    return fn.permute_batch(images, indices=fn.batch_permutation())


@data_iterator(output_map=["mixed"], reader_name="reader")
def on_device(data):
    images = fn.readers.arrays(data, layout="HWC", name="reader")
    floats = fn.cast(images, dtype=np.float32) * fn.random.uniform()
    return fn.jax_function(lambda values: values - values.mean(0, keepdims=True))(floats)


@data_iterator(output_map=["images"])
def fed(data):
    return fn.external_source(iter([data[:5], data[5:]]), layout="HWC", dtype=np.uint8) * 2


@pytest.mark.parametrize("make", [conditional, whole_batches, on_device, fed])
def test_values_are_those_of_batches(make, images):
    iterators = []
    # As the command does: an iterator that prepares batches would call the external source first.
    with dry_run(iterators.append):
        make(data=images, batch_size=5, seed=3)
    effects = effects_of(*iterators, 7)
    iterator = make(data=images, batch_size=5, seed=3)
    batches = [next(iterator), next(iterator)]
    assert len(effects.samples) == 7
    for number, sample in enumerate(effects.samples):
        assert not sample.error
        for name, array in outputs(sample).items():
            expected = np.asarray(batches[number // 5][name][number % 5])
            # Only the device program may round in another order.
            np.testing.assert_allclose(
                array, expected, rtol=1e-5 if make is on_device else 0, atol=1e-3 * (make is on_device)
            )
        assert outputs(sample).keys() == batches[0].keys()


def test_the_iterator_does_not_move(images):
    iterator = conditional(data=images, batch_size=5, seed=3)
    next(iterator)
    before = iterator.get_state()
    effects_of(iterator)
    assert iterator.get_state() == before
    np.testing.assert_array_equal(
        next(iterator)["images"], conditional(data=images, batch_size=5, seed=3).batch_at(0, 1)["images"]
    )


def test_draws_and_arguments_have_their_values(images):
    for sample in effects_of(conditional(data=images, batch_size=5, seed=3), 10).samples:
        calls = {effect.name: effect for effect in sample.effects}
        flip = dict(calls["random.coin_flip"].draws)["coin_flip"]
        assert calls["cast"].arguments[0] == ("", f"{flip} (random.coin_flip)")
        assert [bool(calls[name].values) for name in ("brightness", "flip")] == [flip == "1", flip == "0"]
        # A value that was not computed has no number.
        noise = dict(calls["random.uniform"].draws)
        assert bool(noise) == (flip == "1")
        assert (("brightness", f"{noise.get('uniform')} (random.uniform)") in calls["brightness"].arguments) == (
            flip == "1"
        )
        assert (("brightness", "random.uniform") in calls["brightness"].arguments) == (flip == "0")
        assert ("size", "(8, 8)") in calls["random_resized_crop"].arguments
        top, left, height, width = (int(text) for _, text in calls["random_resized_crop"].draws)
        assert 0 <= top <= top + height <= 12
        assert 0 <= left <= left + width <= 16
        assert calls["flip"].line.startswith("test_view.py:")


def test_the_window_is_the_one_that_is_cut_out():
    coded = np.indices((40, 50)).transpose(1, 2, 0).astype(np.uint8)
    files = []
    for _ in range(3):
        file = io.BytesIO()
        Image.fromarray(np.concatenate([coded, coded[..., :1]], axis=2)).save(file, "PNG")
        files.append(np.frombuffer(file.getvalue(), np.uint8))

    @data_iterator(output_map=["size"], reader_name="reader")
    def windows():
        images = fn.decoders.image_random_crop(fn.readers.items([(file,) for file in files], name="reader"))
        return fn.shapes(images)

    for sample in effects_of(windows(batch_size=3, seed=1)).samples:
        call = next(effect for effect in sample.effects if effect.name == "decoders.image_random_crop")
        top, left, height, width = (int(text) for _, text in call.draws)
        np.testing.assert_array_equal(call.values[0].array[..., :2], coded[top : top + height, left : left + width])


def test_a_bad_sample_is_shown_with_its_error(tmp_path):
    for number in range(3):
        Image.new("RGB", (9, 9)).save(tmp_path / f"{number}.png")
    (tmp_path / "1.png").write_bytes(b"no image")

    @data_iterator(output_map=["images"], reader_name="reader", on_error="replace")
    def pictures():
        encoded, _ = fn.readers.file(files=[str(tmp_path / f"{number}.png") for number in range(3)], name="reader")
        return fn.resize(fn.decoders.image(encoded), size=[4, 4])

    effects = effects_of(pictures(batch_size=3))
    assert [bool(sample.error) for sample in effects.samples] == [False, True, False]
    assert "1.png" in effects.samples[1].error
    errors = [text for attributes, text in Page(view_page(effects)).all("p") if attributes.get("class") == "error"]
    assert [text.strip() for text in errors] == [effects.samples[1].error]


def test_hostile_names_are_text(tmp_path):
    folder = tmp_path / HOSTILE
    folder.mkdir()
    Image.new("RGB", (9, 9)).save(folder / f"{HOSTILE}.png")

    @data_iterator(output_map=[HOSTILE, "path"], reader_name="reader")
    def hostile():
        encoded, _ = fn.readers.file(file_root=str(tmp_path), name="reader")
        images = fn.resize(fn.decoders.image(encoded), size=[4, 4])
        return images, fn.pad(fn.get_property(encoded, key="source_info"), shape=[400])

    hostile.__wrapped__.__name__ = HOSTILE
    effects = effects_of(hostile(batch_size=1), 1)
    page = Page(view_page(effects, effects))
    assert len(page.all("script")) == 1
    assert all(set(attributes) == {"alt", "title", "width", "height", "src"} for attributes, _ in page.all("img"))
    assert all(attributes["src"].startswith("data:image/png;base64,") for attributes, _ in page.all("img"))
    assert not [name for _, attributes, _ in page.elements for name in attributes if name.startswith("on")]
    origins = [text for _, text in page.all("small")]
    assert f"{folder}/{HOSTILE}.png" in [text.strip() for text in origins]
    assert f"output {HOSTILE}" in [text for _, text in page.all("b")]


def test_kinds_of_values():
    sound = np.sin(np.arange(4000) / 9).astype(np.float32)
    data = {
        "sound": sound[None],
        "video": np.zeros((1, 10, 9, 9, 3), np.uint8),
        "boxes": np.array([[[1.5, 2, 3, 4], [5, 6, 7, 8]]], np.float32),
        "bytes": np.arange(200, dtype=np.uint8)[None],
        "large": np.zeros((1, 600, 300, 3), np.uint8),
    }

    @data_iterator(output_map=list(data), reader_name="reader")
    def kinds():
        layouts = {"sound": "t", "video": "FHWC", "boxes": "", "bytes": "", "large": "HWC"}
        nodes = fn.readers.arrays(data, layout=layouts, name="reader")
        return tuple(nodes[name] for name in data)

    page = Page(view_page(effects_of(kinds(batch_size=1), 1)))
    assert len(page.all("path")) == 1
    assert len(page.all("img")) == 8 + 1
    assert page.all("img")[-1][0]["alt"] == "image of 300 x 600 pixels"
    assert (page.all("img")[-1][0]["width"], page.all("img")[-1][0]["height"]) == ("128", "256")
    texts = [text for _, text in page.all("code")]
    assert texts[0].replace("\n", "") == "[[1.5, 2. , 3. , 4. ], [5. , 6. , 7. , 8. ]]"
    assert texts[1].startswith("00 01 02")
    assert "and 2 more frames" in [text for _, text in page.all("p")]


def test_masks_have_a_color_per_number():
    mask = np.zeros((1, 8, 9, 1), np.uint8)
    mask[0, 0, :4, 0] = 0, 2, 12, 255

    @data_iterator(output_map=["mask"], reader_name="reader")
    def masks():
        return fn.readers.arrays(mask, layout="HWC", name="reader")

    ((attributes, _),) = Page(view_page(effects_of(masks(batch_size=1), 1))).all("img")
    with Image.open(io.BytesIO(base64.b64decode(attributes["src"].partition(",")[2]))) as image:
        first, second, twelfth, ignored = np.asarray(image)[0, :4].tolist()
    assert first == [0, 0, 0]
    assert second == twelfth == [255, 127, 14]
    assert ignored == [255, 255, 255]


def test_two_seeds_differ_where_they_draw(images):
    iterator = conditional(data=images, batch_size=5, seed=3)
    mine, same, theirs = (effects_of(iterator, 4, seed) for seed in (3, 3, 4))
    assert not [
        attributes for attributes, _ in Page(view_page(mine, same)).all("section") if "data-differs" in attributes
    ]
    page = Page(view_page(mine, theirs))
    differing = {attributes["data-operator"] for attributes, _ in page.all("section") if "data-differs" in attributes}
    assert "noise.gaussian" in differing
    assert "readers.arrays" not in differing
    marked = [text for attributes, text in page.all("dd") if "differs" in attributes.get("class", "")]
    assert marked
    assert len([1 for attributes, _ in page.all("section")]) == 4 * len(mine.samples[0].effects)


def view(program, *options, behind=()):
    return main(["view", "--no-browser", *map(str, options), str(program), *behind])


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_the_command_writes_a_page(program, tmp_path, capsys):
    assert view(program, "--output", tmp_path / "page.html", "--samples", 3) == 0
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    assert len(page.all("article")) == 3
    assert "trained" not in capsys.readouterr().out
    titles = [element for element in page.elements if element[0] == "h2"]
    assert [title[2].split()[0] for title in titles] == ["sample"] * 3
    # Nothing is loaded from elsewhere.
    assert not re.search(r"(src|href)=.?https?:", text)
    assert not page.all("link")


def test_the_command_compares_definitions_and_seeds(program, tmp_path):
    output = tmp_path / "page.html"
    assert view(f"{program}:training", "--compare", f"{program}:evaluation", "--output", output) == 0
    missing = [text for attributes, text in Page(output.read_text()).all("p") if attributes.get("class") == "none"]
    assert missing.count("not in this definition") == 4 * 2
    assert view(program, "--seed", 1, "--compare-seed", 2, "--output", output) == 0
    page = Page(output.read_text())
    differing = [attributes["data-operator"] for attributes, _ in page.all("section") if "data-differs" in attributes]
    assert sorted(set(differing)) == ["brightness", "flip", "random.uniform"]


def test_mistakes_of_the_command(program, tmp_path, capsys):
    assert view(f"{program}:train") == 1
    assert (
        "made no iterator of 'train' before its first batch; it made those of training, evaluation"
        in capsys.readouterr().err
    )
    assert view(f"{program}:train", behind=["--samples=3", "--data", "x"]) == 1
    assert "--samples=3 goes to the program; options of the command come before it" in capsys.readouterr().err
    assert view(program, "--output", tmp_path / "none" / "page.html") == 2
    assert "there is no folder" in capsys.readouterr().err
    assert view(program, "--output", tmp_path) == 2
    assert "is a folder; name a file" in capsys.readouterr().err
    assert view(program, "--output", tmp_path / ("x" * 300)) == 2
    assert "cannot be written: File name too long" in capsys.readouterr().err
    if Path("/dev/full").exists():
        assert view(program, "--output", "/dev/full") == 1
        assert "/dev/full cannot be written: No space left on device" in capsys.readouterr().err
    program.write_text("from penstock import fn\nfn.readers.file(file_root='none')\n")
    assert view(program) == 1
    assert capsys.readouterr().err.startswith("penstock view: fn.readers.file: ")
    program.write_text(
        "import numpy as np\n"
        "from penstock import data_iterator, fn, types\n"
        "@data_iterator(output_map=['x'])\n"
        "def empty():\n"
        "    return fn.external_source(iter([]), dtype=types.UINT8, ndim=0)\n"
        "empty(batch_size=2)\n"
    )
    assert view(program) == 1
    assert "the data of empty end before the first sample" in capsys.readouterr().err
    for wrong in (["none.py"], ["--samples", "0", str(program)], ["--compare", "none.py:x", str(program)]):
        with pytest.raises(SystemExit) as ended:
            main(["view", *wrong])
        assert ended.value.code == 2
    assert "no file 'none.py'" in capsys.readouterr().err


def test_the_page_is_opened(program, monkeypatch, capsys, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address)))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["view", str(program), "--epochs", "3"]) == 0
    (page,) = tmp_path.glob("penstock-view-*.html")
    assert opened == [page.as_uri()]
    assert "there is no browser" in capsys.readouterr().err


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.mark.skipif(chromium() is None, reason="needs chromium or google-chrome")
def test_the_page_in_a_browser(program, tmp_path):
    from playwright.sync_api import sync_playwright

    output = tmp_path / "page.html"
    assert view(program, "--seed", 1, "--compare-seed", 2, "--samples", 3, "--output", output) == 0
    problems = []
    with sync_playwright() as playwright:
        # Chromium has no sandbox for root, which runs tests in containers.
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 700})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(output.as_uri())

        def shown():
            return page.locator("section:visible").evaluate_all("nodes => nodes.map(node => node.dataset.operator)")

        everything = ["readers.numpy", "reshape", "random.uniform", "brightness", "flip"]
        assert shown() == everything
        assert page.locator("#place").text_content() == "sample 1 of 3"
        first = page.locator("h2:visible").text_content()
        page.get_by_label("Filter by operator name").fill("random, FLIP")
        assert shown() == ["random.uniform", "flip"]
        page.get_by_role("button", name="Next sample").click()
        assert shown() == ["random.uniform", "flip"]
        assert page.locator("#place").text_content() == "sample 2 of 3"
        assert page.locator("h2:visible").text_content() != first
        page.get_by_label("Filter by operator name").fill("nothing")
        assert page.get_by_text("No operator to show.").is_visible()
        page.get_by_label("Filter by operator name").fill("")
        page.get_by_label("only differences").check()
        assert shown() == ["random.uniform", "brightness", "flip"]
        page.get_by_label("only differences").uncheck()
        page.locator("h1").click()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("button", name="Next sample").is_disabled()
        page.get_by_role("button", name="Previous sample").click()
        page.keyboard.press("ArrowLeft")
        assert page.locator("#place").text_content() == "sample 1 of 3"
        assert page.get_by_role("button", name="Previous sample").is_disabled()
        # No part is wider than the window, and each image has pixels.
        assert page.evaluate("document.documentElement.scrollWidth") <= 1000
        assert page.evaluate("Array.from(document.images).every(image => image.naturalWidth > 0)")
        browser.close()
    assert problems == []
