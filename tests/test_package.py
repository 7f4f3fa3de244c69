"""The package as a whole: what it offers, what importing it costs, what it leaves in memory."""

import gc
import importlib
import inspect
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock import Pipeline, data_iterator, fn, types
from penstock.plugin.base_iterator import LastBatchPolicy as DALIsPolicy


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_the_public_names():
    assert dir(penstock) == [
        "Batch",
        "DALIGenericIterator",
        "DALIGenericPeekableIterator",
        "DataIterator",
        "Generator",
        "LastBatchPolicy",
        "PeekableDataIterator",
        "Pipeline",
        "__version__",
        "backend",
        "backend_impl",
        "data_iterator",
        "data_node",
        "dynamic",
        "errors",
        "experimental",
        "extend",
        "fn",
        "math",
        "newaxis",
        "ops",
        "peekable_data_iterator",
        "pipeline",
        "pipeline_def",
        "plugin",
        "show",
        "tensors",
        "tfrecord",
        "trace",
        "train",
        "types",
    ]
    for name in dir(penstock):
        assert getattr(penstock, name) is not None
    with pytest.raises(AttributeError):
        penstock.nothing  # noqa: B018  # it must raise


def test_the_facade_has_the_same_objects():
    import penstock.plugin.jax as facade

    assert inspect.signature(facade.data_iterator) == inspect.signature(data_iterator)
    assert facade.DALIGenericIterator is penstock.DALIGenericIterator is penstock.DataIterator
    assert DALIsPolicy is penstock.LastBatchPolicy is types.LastBatchPolicy


@pytest.mark.parametrize(
    "module",
    ["penstock", "penstock.sources.source", "penstock.graph.tracing.trace", "penstock.engine.host.host_loader"],
)
def test_the_first_stages_do_not_import_jax(module):
    slow = {"jax", "jaxlib", "llvmlite", "numba"} | ({"numpy"} if module == "penstock" else set())
    done = run(f"import sys, {module}; sys.exit(bool({slow} & {{name.split('.')[0] for name in sys.modules}}))")
    assert done.returncode == 0, done.stderr


def test_a_plain_program_does_not_import_what_it_does_not_use():
    done = run(
        "import sys; from penstock import data_iterator, fn, types\n"
        "fn.readers.file, fn.decoders.image, fn.resize\n"
        "unused = ('PIL', 'google_crc32c', 'matplotlib', 'obstore', 'penstock.display.batch_html',\n"
        "    'penstock.engine.host.process_executor', 'penstock.engine.input_hosts.host_connection',\n"
        "    'penstock.image.execute.canvas_packing', 'penstock.plan.explain', 'penstock.sources.external.processes',\n"
        "    'penstock.sources.formats', 'penstock.pictures', 'penstock.train')\n"
        "print([name for name in unused if name in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_an_operator_is_loaded_when_it_is_first_used():
    done = run(
        "import sys; from penstock import fn\n"
        "def loaded(name): return f'penstock.operators.{name}' in sys.modules\n"
        "assert {'flip', 'readers'} <= set(dir(fn)) and not loaded('cropping.flip') and not loaded('readers.file')\n"
        "from penstock.fn import flip\n"
        "assert loaded('cropping.flip') and fn.flip is flip and not loaded('cropping.crop')\n"
        "from penstock.fn.readers import *\n"
        "assert fn.readers.file is file and loaded('readers.webdataset')\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_parts_of_modules_are_imported_as_dalis():
    done = run(
        "from penstock import fn, ops, tfrecord, types\n"
        "from penstock.backend_impl.tfrecord import FixedLenFeature\n"
        "from penstock.backend_impl.types import INTERP_LINEAR\n"
        "from penstock.fn.experimental.decoders import video\n"
        "from penstock.ops.experimental.readers import Video\n"
        "from penstock.ops.readers import File\n"
        "from penstock.ops import *\n"
        "assert (FixedLenFeature, INTERP_LINEAR) == (tfrecord.FixedLenFeature, types.INTERP_LINEAR)\n"
        "assert (video, File, Video) == (fn.decoders.video, ops.readers.File, ops.experimental.readers.Video)\n"
        "assert Crop is ops.Crop and random.CoinFlip is ops.random.CoinFlip\n"
    )
    assert done.returncode == 0, done.stderr


def test_importing_starts_no_device_and_warns_of_nothing():
    done = run(
        "import warnings; warnings.simplefilter('error')\n"
        "import penstock.plugin.jax, penstock.fn, jax\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"  # an error once a backend has started
        "assert len(jax.devices()) == 3\n"
    )
    assert done.returncode == 0, done.stderr


def test_importing_does_not_load_what_notebooks_and_images_need():
    heavy = ["PIL", "matplotlib", "IPython", "tqdm", "orbax", "numba", "scipy", "jax.extend"]
    done = run(
        "import sys\n"
        "from penstock import Batch, Pipeline, data_iterator, fn, pipeline_def\n"
        "assert fn.readers.file and fn.decoders.image and fn.resize\n"
        "assert 'penstock.pictures' not in sys.modules\n"
        "from penstock import train\n"
        f"assert not [name for name in {heavy} if name in sys.modules], sys.modules.keys()\n"
    )
    assert done.returncode == 0, done.stderr


def test_types_are_dalis():
    assert [int(types.UINT8), int(types.FLOAT), int(types.BOOL)] == [0, 9, 11]
    for kind in types.DALIDataType:
        if 0 <= kind <= types.BOOL:
            assert types.as_dtype(kind) == kind.numpy == types.as_dtype(int(kind)) == types.as_dtype(kind.numpy)


def test_memory_is_flat_over_epochs(digits):
    psutil = pytest.importorskip("psutil", reason="psutil is not installed (dependency group test)")
    images, labels = digits
    wide = np.repeat(np.repeat(images, 4, axis=1), 4, axis=2)[..., None]

    @data_iterator(output_map=["x", "y"], reader_name="r")
    def pictures():
        x, y = fn.readers.arrays((wide, labels), layout=("HWC", ""), name="r", random_shuffle=True)
        return fn.crop_mirror_normalize(x, std=255.0, mirror=fn.random.coin_flip()), y

    iterator = pictures(batch_size=32, seed=0)
    process = psutil.Process()
    resident = []
    for _ in range(60):
        for batch in iterator:
            batch["x"].block_until_ready()
        resident.append(process.memory_info().rss)
    batch_bytes = 32 * wide[0].size * 4
    # threads may take time to be ahead as far as they can be: some batches' memory, where a leak takes one per epoch
    assert resident[-1] - resident[9] < 10 * batch_bytes, [r >> 20 for r in resident]


@pytest.mark.slow
@pytest.mark.parametrize("exec_async", [False, True])
def test_nothing_of_ragged_photographs_is_kept_by_run(exec_async, jpeg):
    """What Python and NumPy hold, to the byte; what a process has beyond it is free memory of the allocator's."""
    rng = np.random.default_rng(0)
    files = [jpeg(rng.integers(0, 256, (*rng.integers(40, 400, 2), 3), np.uint8)) for _ in range(12)]
    with Pipeline(batch_size=4, num_threads=2, exec_async=exec_async) as pipeline:
        images = fn.decoders.image(fn.readers.items([np.frombuffer(file, np.uint8) for file in files]))
        pipeline.set_outputs(images, fn.resize(images, resize_shorter=100))
    held = []
    tracemalloc.start()
    for _ in range(8):
        for _ in range(3):
            outputs = pipeline.run()
        pipeline.close()
        del outputs
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held[-1] - held[3] < 50_000, held  # an image has more


def test_an_exiting_program_does_not_hang():
    done = run(
        "import numpy as np\nfrom penstock import data_iterator, fn\n"
        "make = data_iterator(lambda: fn.readers.arrays(np.arange(1000), name='r') * 2, ['x'], reader_name='r')\n"
        "iterator = make(batch_size=4)\nnext(iterator)\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_left_of_a_program_that_fails():
    done = run(
        "from penstock import data_iterator, fn\n"
        "import os\n"
        "make = data_iterator(lambda: fn.decoders.image(fn.readers.file(files=[os.__file__])[0]), ['x'])\n"
        "make(batch_size=4)\n"
    )
    assert done.returncode == 1
    assert "decoders.image failed on sample 0" in done.stderr


def test_every_folder_is_a_stage_of_the_design():
    stages = (Path(penstock.__file__).parent).iterdir()
    names = {path.stem for path in stages if path.is_dir() or path.suffix == ".py"} - {"__pycache__", "__init__"}
    text = (Path(__file__).parents[1] / "docs" / "explanation" / "how-a-batch-is-made.md").read_text()
    for name in names:
        assert f"`{name}" in text, f"how-a-batch-is-made.md does not mention {name}"


AUGMENTATION = ("augmentations", "auto_augment", "core", "rand_augment", "trivial_augment")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "errors",
        "extend",
        "launch",
        "math",
        "testing",
        "tfrecord",
        "train",
        "types",
        *(f"auto_aug.{x}" for x in AUGMENTATION),
    ],
)
def test_public_modules_list_their_names(name):
    module = importlib.import_module(f"penstock.{name}".rstrip("."))
    assert len({*module.__all__}) == len(module.__all__)
    for public in module.__all__:
        assert not public.startswith("_")
        assert getattr(module, public) is not None
