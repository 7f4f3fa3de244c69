"""HTML that notebooks show of batches, iterators and pipelines."""

from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import penstock
from penstock import Batch, Pipeline, data_iterator, fn, pipeline_def

HOSTILE = "<script>alert(1)</script>"


class Tables(HTMLParser):
    """Rows of the tables, and the images, of an HTML text."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.captions, self.images, self.tags = [], [], [], set()
        self._cell = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag == "img":
            self.images.append(dict(attrs))
        elif tag in ("td", "th", "caption"):
            self._cell = ""

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(self._cell)
        elif tag == "caption":
            self.captions.append(self._cell)

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (10, 12, 16, 3), np.uint8)


def test_a_batch_is_a_table_with_its_first_images(images):
    shown = Tables(Batch(images, "HWC")._repr_html_())
    assert shown.captions == ["Batch"]
    assert shown.rows == [["samples", "dtype", "shape", "layout"], ["10", "uint8", "[12, 16, 3]", "HWC"]]
    assert [image["alt"] for image in shown.images] == ["image of 16 x 12 pixels"] * 8
    ragged = Tables(Batch([images[0], images[1, :5]], "HWC")._repr_html_())
    assert ragged.rows[1] == ["2", "uint8", "[?, 16, 3]", "HWC"]
    assert len(ragged.images) == 2


@pytest.mark.parametrize(
    "samples",
    [
        [1, 2, 3],
        np.zeros((2, 0)),
        np.zeros((2, 4, 4)),
        [np.zeros((0, 4, 3), np.uint8)],
        jnp.zeros((2, 5), jnp.bfloat16),
    ],
)
def test_numbers_have_no_images(samples):
    shown = Tables(Batch(samples)._repr_html_())
    assert len(shown.rows) == 2
    assert not shown.images


def test_outputs_of_a_pipeline_are_tables(images):
    @pipeline_def(batch_size=3, num_threads=1, seed=1)
    def two():
        data = fn.readers.arrays(images, layout="HWC")
        return data, fn.cast(data, dtype=np.float32) / 255

    for output, dtype in zip(two().run(), ("uint8", "float32"), strict=True):
        shown = Tables(output._repr_html_())
        assert shown.rows[1] == ["3", dtype, "[12, 16, 3]", "HWC"]
        assert len(shown.images) == 3


def test_an_iterator_tells_outputs_position_and_operators(images):
    @data_iterator(output_map=["images", HOSTILE], reader_name="reader")
    def pairs(data):
        pixels, labels = fn.readers.arrays(data, layout=["HWC", ""], name="reader")
        return fn.flip(pixels, horizontal=fn.random.coin_flip(), vertical=1), labels

    iterator = pairs(data=(images, np.arange(10)), batch_size=5, seed=1)
    next(iterator)
    before = iterator.get_state()
    text = iterator._repr_html_()
    assert iterator.get_state() == before
    assert "script" not in Tables(text).tags
    shown = Tables(text)
    assert shown.captions == ["DataIterator pairs: epoch 0, batch 1 of 2", "operators of pairs"]
    assert shown.rows[1:3] == [["images", "uint8", "[5, 12, 16, 3]", "HWC"], [HOSTILE, "int32", "[5]", "none"]]
    flip = next(row for row in shown.rows if row[0] == "flip")
    assert flip[1] == "readers.arrays[0], horizontal=random.coin_flip, vertical=1"
    assert flip[2] == "uint8[12, 16, 3] HWC"
    assert flip[3].startswith("test_notebook_html.py:")
    assert not shown.images


def test_a_mask_is_an_output_of_an_iterator(images):
    from penstock import LastBatchPolicy

    @data_iterator(output_map=["images"], reader_name="reader", last_batch_policy=LastBatchPolicy.PAD)
    def padded():
        return fn.readers.arrays(images, layout="HWC", name="reader")

    assert Tables(padded(batch_size=4)._repr_html_()).rows[1:3] == [
        ["images", "uint8", "[4, 12, 16, 3]", "HWC"],
        ["valid", "bool", "[4]", "none"],
    ]


def test_a_pipeline_is_shown_without_running_its_definition(images):
    runs = []

    class Late(Pipeline):
        def define_graph(self):
            runs.append(1)
            return fn.flip(fn.readers.arrays(images, layout="HWC"))

    pipeline = Late(batch_size=2, num_threads=1, seed=7)
    assert "has not run" in pipeline._repr_html_()
    assert runs == []
    pipeline.build()
    shown = Tables(pipeline._repr_html_())
    assert shown.captions == ["Late Late", "outputs", "operators of Late"]
    assert shown.rows[:2] == [["batch size", "threads", "seed"], ["2", "1", "7"]]
    assert ["0", "uint8[12, 16, 3] HWC", "flip"] in shown.rows
    assert [row[0] for row in shown.rows[-2:]] == ["readers.arrays", "flip"]


def test_the_extension_shows_batches_and_samples():
    from IPython.core.interactiveshell import InteractiveShell

    @data_iterator
    def training():
        images = fn.readers.arrays(np.zeros((10, 16, 20, 3), np.uint8), layout="HWC")
        return {"images": fn.crop_mirror_normalize(images, std=64.0), HOSTILE: fn.random.coin_flip()}

    batch = next(iterator := training(batch_size=10))
    shell = InteractiveShell()
    show = shell.display_formatter.format
    assert "text/html" not in show(batch)[0]
    shell.run_line_magic("load_ext", "penstock")
    html = Tables(show(batch)[0]["text/html"])
    assert html.captions == ["batch of 10"]
    assert html.rows[1:] == [["images", "float32", "[10, 3, 16, 20]", "1"], [HOSTILE, "int32", "[10]", "1"]]
    assert len(html.images) == 8
    assert "script" not in html.tags
    html = Tables(show(iterator.sample(3))[0]["text/html"])
    assert html.captions == ["sample"]
    assert len(html.images) == 1
    keys = jax.random.split(jax.random.key(0), (9, 3, 3))
    deleted = jnp.zeros(3)
    deleted.delete()
    assert Tables(show({"keys": keys, "a": deleted})[0]["text/html"]).captions == ["sample"]
    assert Tables(show({"images": jnp.zeros((16, 20, 3))})[0]["text/html"]).captions == ["sample"]
    for other in ({}, {"a": 1}, {"a": np.zeros((9, 9))}):
        assert "text/html" not in show(other)[0]
    shell.run_line_magic("unload_ext", "penstock")
    assert "text/html" not in show(batch)[0]
    assert "load_ipython_extension" not in dir(penstock)
