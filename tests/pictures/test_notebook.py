"""Interactive use in a notebook: pictures, interrupts, and cells that run again and again."""

import nbformat
import pytest
from nbclient import NotebookClient

SETUP = """
import gc, os, signal, threading
import numpy as np, psutil
import penstock
from penstock import data_iterator, fn

@data_iterator(output_map=["images", "labels"], reader_name="reader")
def training(data):
    images, labels = fn.readers.arrays(data, random_shuffle=True, name="reader")
    images = fn.random_resized_crop(images, size=[128, 128])
    return fn.crop_mirror_normalize(images, mean=128.0, std=64.0, mirror=fn.random.coin_flip()), labels

pixels = np.random.default_rng(0).integers(0, 256, (256, 160, 160, 3), np.uint8)
data = pixels, np.arange(256) % 10

def penstock_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock")]
"""


class Notebook:
    """A running kernel. Its cells are executed one by one."""

    def __init__(self, client):
        self._client = client
        self._client.nb.cells = []

    def run(self, source):
        """Execute a cell and return its outputs."""
        cell = nbformat.v4.new_code_cell(source)
        self._client.nb.cells.append(cell)
        return self._client.execute_cell(cell, len(self._client.nb.cells) - 1).outputs

    def evaluate(self, expression):
        """Return the value of an expression, from its text."""
        # A kernel may send a line in several parts.
        return "".join(output["text"] for output in self.run(f"print({expression})")).strip()


@pytest.fixture(scope="module")
def notebook():
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=120, kernel_name="python3", allow_errors=True)
    with client.setup_kernel():
        running = Notebook(client)
        assert running.run(SETUP) == []
        yield running


def test_a_figure_is_shown_as_an_image(notebook):
    notebook.run("iterator = training(data=data, batch_size=32, seed=1)")
    (output,) = notebook.run("iterator.show(n=4)")
    assert output["data"]["image/png"].startswith("iVBOR")
    (output,) = notebook.run("penstock.show(next(iterator))")
    assert output["data"]["image/png"].startswith("iVBOR")


def test_the_last_line_of_a_cell_shows_the_iterator(notebook):
    notebook.run("iterator = training(data=data, batch_size=32, seed=1)\n_ = next(iterator)")
    (output,) = notebook.run("iterator")
    expected = (
        "DataIterator(training: images float32[32, 3, 128, 128], labels int32[32]; 256 samples; epoch 0, batch 1 of 8)"
    )
    assert output["data"]["text/plain"] == expected
    assert notebook.evaluate("iterator.batches_delivered") == "1"


def test_errors_and_tables_name_the_cell_and_the_line(notebook):
    (output,) = notebook.run("image = np.zeros((4, 4, 3), np.uint8)\nfn.noise.gaussian(image, stddev=20.0)")
    cell = notebook.evaluate("len(In) - 2")
    line = "<module>: fn.noise.gaussian(image, stddev=20.0)"
    assert output["evalue"].splitlines()[-1] == f"  at:       Cell In[{cell}], line 2 in {line}"
    (output,) = notebook.run("training(data=data, batch_size=32)")
    assert ">Cell In[1]:10<" in output["data"]["text/html"]


def test_an_interrupted_cell_leaves_a_usable_iterator(notebook):
    notebook.run("iterator = training(data=data, batch_size=32, seed=1)")
    # The signal that the button of a notebook sends arrives while the loop is running.
    outputs = notebook.run(
        "taken = 0\n"
        "while True:\n"
        "    for batch in iterator.epoch():\n"
        "        taken += 1\n"
        "        if taken == 12:\n"
        "            os.kill(os.getpid(), signal.SIGINT)"
    )
    assert [output.get("ename") for output in outputs] == ["KeyboardInterrupt"]
    # Twelve batches are an epoch of eight and four more; the signal may arrive some batches later.
    assert int(notebook.evaluate("iterator.get_state()['epoch']")) >= 1
    compare = "(next(iterator)['images'] == training(data=data, batch_size=32, seed=1).replay(state)['images']).all()"
    notebook.run("state = iterator.get_state()")
    assert notebook.evaluate(compare) == "True"


@pytest.mark.slow
# Notebooks keep the value of a cell's last line in `Out`: here a figure, or an iterator that was closed.
@pytest.mark.parametrize(
    "cell",
    [
        "iterator = training(data=data, batch_size=64, seed=1)\niterator.show(n=4)",
        "iterator = training(data=data, batch_size=64, seed=1)\nfor batch in iterator:\n    pass",
        "iterator = training(data=data, batch_size=64, seed=1)\nfor batch in iterator:\n    break",
        "with training(data=data, batch_size=64, seed=1) as iterator:\n    batch = next(iterator)\niterator",
    ],
    ids=["show", "loop", "break", "with"],
)
def test_a_cell_that_runs_again_keeps_neither_threads_nor_memory(notebook, cell):
    threads, memory = [], []
    for _ in range(12):
        assert not [output for output in notebook.run(cell) if output["output_type"] == "error"]
        threads.append(int(notebook.evaluate("len(penstock_threads())")))
        memory.append(int(notebook.evaluate("psutil.Process().memory_info().rss")))
    assert max(threads[3:]) <= max(threads[:3])
    # A batch has 12.6 MB, and an iterator keeps several: one of either in each run would be 63 MB or more. The number
    # of batches at the moment of measuring varies, so the least of three runs counts. Memory grows by 50 MB in the
    # first four runs of a kernel that has not yet read ahead, and then stays.
    assert min(memory[-3:]) - min(memory[4:7]) < 50e6, memory
