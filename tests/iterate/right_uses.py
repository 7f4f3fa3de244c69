"""Valid uses of the operators that need more than an image. Tests change one argument at a time."""

import atexit
import functools
import io
import json
import shutil
import tarfile
import tempfile
import wave
from pathlib import Path

import numpy as np
from astropy.io import fits
from PIL import Image

from penstock import fn, tfrecord, types
from penstock.graph import lookup
from penstock.sources.formats.caffe.caffe2_source import write_caffe2

ROWS = 4
IMAGES = np.arange(ROWS * 6 * 5 * 3, dtype=np.uint8).reshape(ROWS, 6, 5, 3)
FRAMES = np.arange(ROWS * 3 * 6 * 5 * 3, dtype=np.uint16).astype(np.uint8).reshape(ROWS, 3, 6, 5, 3)
BOX = np.float32([[0.1, 0.2, 0.4, 0.6], [0.5, 0.5, 0.9, 0.7]])


def each(value, layout=""):
    """Return a node with the same value for each sample."""
    return fn.readers.arrays(np.stack([np.asarray(value)] * ROWS), layout=layout)


def images():
    return fn.readers.arrays(IMAGES, layout="HWC", name="r")


def frames():
    return fn.readers.arrays(FRAMES, layout="FHWC", name="r")


def png():
    file = io.BytesIO()
    Image.fromarray(IMAGES[0]).save(file, "PNG")
    return file.getvalue()


def files():
    return each(np.frombuffer(png(), np.uint8))


def boxes():
    return each(BOX)


def labels():
    return each(np.int32([1, 2]))


def signal():
    return each(np.sin(np.arange(600, dtype=np.float32)))


def matrix():
    return each(np.eye(2, 3, dtype=np.float32))


@functools.cache
def folder():
    """Create a folder with data sets of most formats."""
    root = Path(tempfile.mkdtemp(prefix="penstock-uses-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    (root / "c").mkdir()
    for number in range(ROWS):
        (root / "c" / f"{number}.png").write_bytes(png())
        np.save(root / "c" / f"{number}.npy", IMAGES[number])
    with wave.open(str(root / "s.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(1600))
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.zeros((2, 3)))]).writeto(root / "no.fits")
    (root / "speech.json").write_text('{"audio_filepath": "s.wav", "duration": 0.05, "text": "a"}\n' * ROWS)
    write_caffe2(root / "caffe2", ((png(), number) for number in range(ROWS)))
    with tarfile.open(root / "a.tar", "w") as archive:
        for number in range(ROWS):
            archive.add(root / "c" / f"{number}.png", f"{number}.png")
    (root / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(16))
    (root / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 4]) + bytes(4))
    (root / "data_batch_1.bin").write_bytes(bytes(ROWS * 3073))
    about = [{"id": n, "file_name": f"{n}.png", "width": 5, "height": 6} for n in range(ROWS)]
    found = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 3, 3], "iscrowd": 0} for n in range(ROWS)]
    coco = {"images": about, "annotations": found, "categories": [{"id": 1, "name": "a"}]}
    (root / "coco.json").write_text(json.dumps(coco))
    return root


def like(kind, make, **usual):
    """Return a use of an operator with its required arguments, which callers can override."""

    def use(**arguments):
        function = functools.reduce(getattr, kind.split("."), fn)
        inputs = make()
        inputs = inputs if isinstance(inputs, tuple | list) else (inputs,)
        return function(*inputs, **{**usual, **arguments})

    return use


def nothing():
    return ()


def of_files(kind, **usual):
    """Return a use of a reader with paths below `folder`."""

    def use(**arguments):
        paths = {key: str(folder() / value[1:]) if str(value)[:1] == "/" else value for key, value in usual.items()}
        return functools.reduce(getattr, kind.split("."), fn)(**{**paths, **arguments})

    return use


FEATURES = {"x": tfrecord.FixedLenFeature([], tfrecord.int64, 0)}

USES = {
    "audio_resample": like("audio_resample", signal, scale=0.5),
    "batch_permutation": like("batch_permutation", nothing),
    "bb_flip": like("bb_flip", boxes),
    "bbox_paste": like("bbox_paste", boxes, ratio=2.0),
    "bbox_rotate": like("bbox_rotate", boxes, angle=30.0, input_shape=[6, 5]),
    "box_encoder": like("box_encoder", lambda: (boxes(), labels()), anchors=BOX.ravel().tolist()),
    "cache": like("cache", images, memory="1 MiB"),
    "cast": like("cast", images, dtype=types.FLOAT),
    "cast_like": like("cast_like", lambda: (images(), signal())),
    "clahe": like("clahe", images, tiles_x=1, tiles_y=1, clip_limit=2.0),
    "color_space_conversion": like("color_space_conversion", images, image_type=types.RGB, output_type=types.YCbCr),
    "constant": lambda **a: fn.constant(**{"value": [1, 2], **a}),
    "coord_flip": like("coord_flip", lambda: each(BOX[:, :2])),
    "coord_transform": like("coord_transform", lambda: each(BOX[:, :2]), M=[[1, 0], [0, 1]]),
    "crop": like("crop", images, crop=(2, 2)),
    "debayer": like("debayer", lambda: each(IMAGES[0, :, :4, 0]), blue_position=[0, 0]),
    "decoders.image_crop": like("decoders.image_crop", files, crop=(2, 2)),
    "decoders.image_slice": lambda **a: fn.decoders.image_slice(files(), **({"start": (1, 1)} | a)),
    "dl_tensor_python_function": like("dl_tensor_python_function", images, function=lambda x: x),
    "element_extract": like("element_extract", frames, element_map=[0]),
    "expand_dims": like("expand_dims", images, axes=[0]),
    "external_source": lambda **a: fn.external_source(**{"source": lambda info: IMAGES[0], "batch": False, **a}),
    "fast_resize_crop_mirror": like("fast_resize_crop_mirror", images, size=(4, 4)),
    "filter": like("filter", lambda: (images(), each(np.ones((3, 3), np.float32)))),
    "follow.boxes": lambda **a: fn.follow.boxes(boxes(), fn.flip(images()), **a),
    "follow.masks": lambda **a: fn.follow.masks(each(IMAGES[0, :, :, 0], "HW"), fn.flip(images()), **a),
    "follow.points": lambda **a: fn.follow.points(each(BOX[:, :2]), fn.flip(images()), **a),
    "full_like": like("full_like", images, fill_value=1),
    "gaussian_blur": like("gaussian_blur", images, sigma=1.0),
    "get_property": like("get_property", images, key="layout"),
    "io.file.read": lambda **a: fn.io.file.read(each(np.frombuffer(str(folder() / "s.wav").encode(), np.uint8)), **a),
    "jax_function": lambda **a: fn.jax_function(lambda x: x, **a)(images()),
    "math.clamp": lambda **a: lookup("math.clamp")(images(), **{"low": 1, "high": 3, **a}),
    "mel_filter_bank": like("mel_filter_bank", lambda: each(np.ones((9, 3), np.float32)), nfilter=3),
    "mfcc": like("mfcc", lambda: each(np.ones((9, 3), np.float32)), n_mfcc=3),
    "nonsilent_region": like("nonsilent_region", signal),
    "one_hot": like("one_hot", labels, num_classes=4),
    "ones": like("ones", nothing, shape=[2]),
    "paste": like("paste", images, ratio=2.0, fill_value=1),
    "per_frame": like("per_frame", frames),
    "permute_batch": like("permute_batch", images, indices=[1, 0]),
    "preemphasis_filter": like("preemphasis_filter", signal),
    "python_function": like("python_function", images, function=lambda x: x),
    "random.choice": like("random.choice", nothing, a=3),
    "random_bbox_crop": like("random_bbox_crop", boxes),
    "random_crop_generator": like("random_crop_generator", lambda: each(np.int64([20, 30]))),
    "random_resized_crop": like("random_resized_crop", images, size=4),
    "readers.arrays": like("readers.arrays", nothing, data=IMAGES, name="r"),
    "readers.array_record": of_files("readers.array_record", paths="/no.array_record"),
    "readers.caffe": of_files("readers.caffe", path="/caffe2"),
    "readers.caffe2": of_files("readers.caffe2", path="/caffe2", name="r"),
    "readers.cifar10": of_files("readers.cifar10", file_root="/", filename_prefix="data_batch_"),
    "readers.coco": of_files("readers.coco", file_root="/c", annotations_file="/coco.json"),
    "readers.file": of_files("readers.file", file_root="/", file_filters="*.png"),
    "readers.fits": of_files("readers.fits", files="/no.fits"),
    "readers.items": like("readers.items", nothing, items=list(IMAGES)),
    "readers.mix": lambda **a: fn.readers.mix(images(), fn.readers.arrays(IMAGES, layout="HWC"), **a),
    "readers.mnist": of_files("readers.mnist", path="/", split="train"),
    "readers.mxnet": of_files("readers.mxnet", path="/no.rec"),
    "readers.nemo_asr": of_files("readers.nemo_asr", manifest_filepaths="/speech.json"),
    "readers.numpy": of_files("readers.numpy", file_root="/"),
    "readers.parquet": of_files("readers.parquet", paths="/no.parquet"),
    "readers.sequence": of_files("readers.sequence", file_root="/", sequence_length=2),
    "readers.tfrecord": of_files("readers.tfrecord", path="/no.tfrecord", features=FEATURES),
    "readers.video": of_files("readers.video", filenames="/no.mp4", sequence_length=2),
    "readers.video_resize": of_files("readers.video_resize", filenames="/no.mp4", sequence_length=2, size=(4, 4)),
    "readers.webdataset": of_files("readers.webdataset", paths="/a.tar", ext=["png"]),
    "reductions.std_dev": lambda **a: fn.reductions.std_dev(images(), **{"mean": 1.0, **a}),
    "reductions.variance": lambda **a: fn.reductions.variance(images(), **{"mean": 1.0, **a}),
    "remap": like("remap", lambda: (images(), *[each(np.ones((6, 5), np.float32))] * 2)),
    "reshape": like("reshape", images, shape=[90]),
    "resize": lambda **a: fn.resize(images(), **({"size": (4, 4)} | a)),
    "resize_crop_mirror": lambda **a: fn.resize_crop_mirror(images(), **({"size": (4, 4)} | a)),
    "roi_random_crop": like("roi_random_crop", nothing, crop_shape=[10, 4], roi_start=[3, 3], roi_end=[9, 9]),
    "rotate": like("rotate", images, angle=10.0),
    "segmentation.select_masks": like(
        "segmentation.select_masks",
        lambda: (each(np.int32([0])), each(np.int32([[0, 0, 3]])), each(np.zeros((3, 2), np.float32))),
    ),
    "sequence_rearrange": like("sequence_rearrange", frames, new_order=[1, 0]),
    "slice": lambda **a: fn.slice(images(), **({"start": (1, 1)} | a)),
    "spectrogram": like("spectrogram", signal),
    "squeeze": like("squeeze", lambda: each(IMAGES[:1]), axes=[0]),
    "ssd_random_crop": like("ssd_random_crop", lambda: (images(), boxes(), labels())),
    "tensor_resize": like("tensor_resize", images, sizes=[3, 3, 3]),
    "transforms.combine": like("transforms.combine", lambda: (matrix(), matrix())),
    "transforms.crop": like("transforms.crop", nothing),
    "transforms.rotation": like("transforms.rotation", nothing, angle=10.0),
    "transforms.scale": like("transforms.scale", nothing, scale=[2.0, 2.0]),
    "transforms.shear": like("transforms.shear", nothing, shear=[1.0, 2.0]),
    "transforms.translation": like("transforms.translation", nothing, offset=[1.0, 2.0]),
    "warp_perspective": like("warp_perspective", images, matrix=np.eye(3).tolist()),
    "zeros": like("zeros", nothing, shape=[2]),
}
"""By the operator's name; those that are not here take an image, or an encoded one, alone."""

ALSO_NEED = {"decoders.audio", "decoders.inflate", "decoders.numpy", "decoders.video", "numba_function"} | {
    f"readers.{name}" for name in ("array_record", "caffe", "mxnet", "parquet", "tfrecord", "video", "video_resize")
}
"""What is used wrong here, for want of a file of its kind or a package."""
