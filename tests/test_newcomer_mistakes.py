"""Mistakes of newcomers: each message names the mistake and the fix, and the traceback shows the user's lines."""

import pickle
import traceback
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import penstock
from penstock import LastBatchPolicy, data_iterator, fn, types

PACKAGE = str(Path(penstock.__file__).parent)
IMAGES = np.zeros((8, 10, 12, 3), np.uint8)


def defines(body, **options):
    """Return a program whose definition applies `body` to images."""

    def program(folder):
        @data_iterator(output_map=["images"], reader_name="reader")
        def training():
            return body(fn.readers.arrays(IMAGES, layout="HWC", name="reader"))

        list(training(batch_size=4, **options))

    return program


def reads(body):
    """Return a program whose definition applies `body` to a folder."""

    def program(folder):
        @data_iterator(output_map=["images"], reader_name="reader")
        def training():
            return body(folder)

        list(training(batch_size=1))

    return program


def iterates(batch_size=4, output_map=("images",), reader_name="reader", **options):
    """Return a program with other arguments of the iterator."""

    def program(folder):
        @data_iterator(output_map=list(output_map), reader_name=reader_name)
        def training():
            return fn.readers.arrays(IMAGES, layout="HWC", name="reader")

        sizes = {} if batch_size is None else {"batch_size": batch_size}
        return training(**sizes, **options)

    return program


def pickled(folder):
    pickle.dumps(iterates()(folder))


def without_parentheses(folder):
    @data_iterator
    def training():
        return fn.readers.arrays(IMAGES, name="reader")

    training(batch_size=2)


def readable():
    return {"images": fn.readers.arrays(IMAGES)}


def unpacked(images):
    image, _ = images
    return image


# Name of the mistake: program, what the message says of the mistake, what it says of the fix.
MISTAKES = {
    "misspelled operator": (lambda _: fn.rezise, "no operator 'rezise'", "'resize'"),
    "misspelled reader": (lambda _: fn.readers.fille, "no operator 'readers.fille'", "'readers.file'"),
    "misspelled type": (lambda _: types.FLOT, "no attribute 'FLOT'", "'FLOAT'"),
    "misspelled function": (lambda _: penstock.data_iterater, "no attribute 'data_iterater'", "'data_iterator'"),
    "torchvision's ToTensor": (lambda _: fn.ToTensor, "a name of torchvision", "crop_mirror_normalize"),
    "torchvision's flip": (lambda _: fn.RandomHorizontalFlip, "a name of torchvision", "fn.flip(images, horizontal="),
    "torchvision's ColorJitter": (lambda _: fn.ColorJitter, "a name of torchvision", "fn.color_twist"),
    "torchvision's Compose": (lambda _: fn.Compose, "a name of torchvision", "one after another"),
    "albumentations' CoarseDropout": (lambda _: fn.CoarseDropout, "a name of albumentations", "fn.erase"),
    "tf.image's decode_jpeg": (lambda _: fn.decode_jpeg, "a name of tf.image", "fn.decoders.image"),
    "tf.data's map": (lambda _: fn.map, "a name of tf.data", "fn.python_function"),
    "PyTorch's DataLoader": (lambda _: fn.DataLoader, "a name of PyTorch", "data_iterator"),
    "misspelled argument": (
        defines(lambda x: fn.resize(x, sise=4)),
        "fn.resize: there is no argument 'sise'",
        "'size'",
    ),
    "option of the pipeline": (
        lambda folder: data_iterator(output_map=["images"], device_id=0),
        "unexpected keyword argument 'device_id'",
        "training(batch_size=..., device_id=...)",
    ),
    "batch size of the decorator": (
        lambda _: data_iterator(output_map=["images"], batch_size=4),
        "unexpected keyword argument 'batch_size'",
        "training(batch_size=...)",
    ),
    "option of the decorator": (
        lambda _: data_iterator(readable)(batch_size=2, last_batch_policy=LastBatchPolicy.PAD),
        "last_batch_policy is an option of the decorator",
        "@data_iterator(last_batch_policy=...)",
    ),
    "own batch size": (
        lambda _: data_iterator(lambda batch_size: {"images": fn.readers.arrays(IMAGES)})(batch_size=2),
        "takes batch_size itself",
        "rename that parameter",
    ),
    "nested outputs": (
        lambda _: data_iterator(lambda: {"view": {"a": readable()["images"]}})(batch_size=2),
        "output 'view' is a dict of nodes",
        '{"view_a": ...}',
    ),
    "list of outputs": (
        lambda _: data_iterator(lambda: {"views": [readable()["images"]]})(batch_size=2),
        "output 'views' is a list of nodes",
        '{"views_0": ...}',
    ),
    "dict of JAX": (
        defines(fn.jax_function(lambda x: {"mean": x.mean(1)})),
        "must return arrays, one per output",
        "return a tuple of arrays",
    ),
    "no size": (defines(fn.resize), "fn.resize: the size is missing", "resize_shorter"),
    "size as text": (defines(lambda x: fn.resize(x, size="224")), "fn.resize: size", "a finite number"),
    "unknown dtype": (
        defines(lambda x: fn.cast(x, dtype="flaot32")),
        "fn.cast: dtype: no such data type",
        "types.FLOAT",
    ),
    "positional argument": (reads(lambda folder: fn.readers.file(folder)), "too many positional", "file_root="),
    "missing folder": (
        reads(lambda _: fn.readers.file(file_root="/no/such/folder")[0]),
        "fn.readers.file: file_root",
        "/no/such/folder",
    ),
    "empty folder": (
        reads(lambda folder: fn.readers.file(file_root=folder)[0]),
        "no files found",
        "one sub-folder per class",
    ),
    "decoding an image": (defines(fn.decoders.image), "fn.decoders.image", "uint8["),
    "numbers per channel": (
        defines(lambda x: fn.crop_mirror_normalize(x, mean=[1, 2, 3, 4])),
        "fn.crop_mirror_normalize: mean",
        "1 or 3",
    ),
    "large crop": (defines(lambda x: fn.crop(x, crop=(99, 99))), "larger than the image", 'out_of_bounds_policy="pad"'),
    "function of JAX": (defines(jnp.sin), "DataNode", "fn.jax_function(f)(node)"),
    "addition of JAX": (defines(lambda x: jnp.add(x, 1)), "DataNode", "fn.jax_function(f)(node)"),
    "function of NumPy": (defines(np.sin), "DataNode", "penstock.math"),
    "array of a node": (defines(np.asarray), "must consist of numbers", "fn.python_function"),
    "mean of a node": (defines(np.mean), "np.mean needs the values of", "fn.reductions.mean"),
    "float of a node": (defines(float), "the number of readers.arrays", "fn.cast"),
    "int of a node": (defines(int), "the integer value of readers.arrays", "fn.cast"),
    "len of a node": (defines(len), "the length of readers.arrays", "spec"),
    "if on a node": (defines(lambda x: x or x), "the truth of readers.arrays", "enable_conditionals=True"),
    "and on nodes": (defines(lambda x: x and x), "the truth of readers.arrays", "enable_conditionals=True"),
    "loop over a node": (defines(lambda x: list(x)), "not iterable", "node[0]"),
    "unpacking a node": (defines(unpacked), "not iterable", "return a list of nodes"),
    "method of NumPy": (defines(lambda x: x.astype(np.float32)), "no attribute 'astype'", "fn.cast"),
    "method of PyTorch": (defines(lambda x: x.numpy()), "no attribute 'numpy'", "iterate"),
    "nothing returned": (defines(lambda x: None), "returns nothing", "return images"),
    "strings": (defines(lambda x: fn.constant(["a", "b"])), "must consist of numbers", "dtype <U1"),
    "extents differ": (
        defines(lambda x: fn.cat(x, np.zeros((3, 3, 3), np.uint8), axis=0)),
        "fn.cat: the extents of the inputs differ",
        "fn.resize",
    ),
    "function that fails": (
        defines(lambda x: fn.python_function(x, function=lambda image: image.foo)),
        "no attribute 'foo'",
        "dtype= and ndim=",
    ),
    "iterator as data set": (defines(lambda x: fn.readers.items(iter([1]))), "fn.readers.items", "fn.external_source"),
    "misspelled reader_name": (iterates(reader_name="raeder"), "no reader named 'raeder'", "'reader'"),
    "more names than outputs": (iterates(output_map=["images", "labels"]), "output_map", "2 names"),
    "fewer names than outputs": (
        defines(lambda x: (x, x + 1)),
        "output_map has fewer names than the definition has outputs",
        'return {"images": images, ...}',
    ),
    "no batch size": (iterates(batch_size=None), "batch_size is needed", "batch_size=..."),
    "misspelled option": (iterates(num_thread=2), "'num_thread'", "'num_threads'"),
    "no threads": (iterates(num_threads=0), "num_threads must be at least 1", "exec_async=False"),
    "sharding as text": (
        lambda _: data_iterator(output_map=["images"], sharding="batch"),
        "sharding",
        "a NamedSharding",
    ),
    "decorator without parentheses": (without_parentheses, "output_map", 'output_map=["images"]'),
    "pickled iterator": (pickled, "cannot be pickled", "get_state()"),
    "device of PyTorch": (defines(lambda x: fn.copy(x, device="cuda")), "fn.copy: no such device", "gpu"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_names_mistake_and_fix(mistake, tmp_path):
    program, problem, fix = MISTAKES[mistake]
    with pytest.raises(Exception) as info:  # noqa: PT011  # the classes differ
        program(str(tmp_path))
    lines = traceback.format_exception(info.value)
    frames = [line for line in lines if f'File "{PACKAGE}' in line]
    assert len(frames) <= 3, frames
    message = "".join(traceback.format_exception_only(info.value))
    assert problem in message
    assert fix in message


def test_a_bad_file_is_named_without_internal_frames(tmp_path):
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.jpg").write_text("no image")
    program = reads(
        lambda folder: fn.resize(fn.decoders.image(fn.readers.file(file_root=folder, name="reader")[0]), size=4)
    )
    with pytest.raises(penstock.errors.SampleError, match=r"cats/1\.jpg") as info:
        program(str(tmp_path))
    text = "".join(traceback.format_exception(info.value))
    assert PACKAGE not in text
    assert text.count("Traceback") == 1


def test_frames_of_the_users_functions_stay():
    def fails(image):
        raise KeyError("mine")

    with pytest.raises(penstock.errors.PenstockError) as info:
        defines(lambda x: fn.python_function(x, function=fails, dtype=types.UINT8, ndim=3))(None)
    text = "".join(traceback.format_exception(info.value))
    assert "in fails" in text
    assert 'raise KeyError("mine")' in text
    assert PACKAGE not in text


def test_a_variable_shows_all_frames(monkeypatch):
    monkeypatch.setenv("PENSTOCK_TRACEBACK_FILTERING", "off")
    with pytest.raises(penstock.errors.DefinitionError) as info:
        defines(fn.resize)(None)
    assert "".join(traceback.format_exception(info.value)).count(f'File "{PACKAGE}') > 3


def test_defects_keep_their_frames(monkeypatch):
    from penstock.image import image_fusion

    def broken(*_args, **_options):
        raise RuntimeError("defect")

    monkeypatch.setattr(image_fusion.ImageFusion, "describe", broken)
    with pytest.raises(Exception, match="defect") as info:
        defines(lambda x: fn.resize(x, size=4))(None)
    assert any("broken" in line for line in traceback.format_exception(info.value))
