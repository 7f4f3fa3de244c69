"""Small files of every format that Penstock reads, and the code that reads them, for tests that damage the files.

`ENCODED` are formats of one sample, which an operator decodes. `CONTAINERS` are formats of a data set.
"""

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import av
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from astropy.io import fits
from case_data import MOVIES, lz4_block, npy, photograph

from penstock import fn, types
from penstock.sources.files.file_selection import FileSelection
from penstock.sources.formats.array_record_source import ArrayRecordSource
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.formats.caffe.caffe2_source import Caffe2Source, write_caffe2
from penstock.sources.formats.caffe.caffe_source import CaffeSource, write_caffe
from penstock.sources.formats.cifar10_files import open_cifar10
from penstock.sources.formats.coco.coco_annotations import CocoOptions
from penstock.sources.formats.coco.coco_source import CocoSource
from penstock.sources.formats.fits_source import FitsSource
from penstock.sources.formats.idx_files import read_idx
from penstock.sources.formats.nemo_source import NemoSource
from penstock.sources.formats.npy.npy_source import NpySource
from penstock.sources.formats.parquet_source import ParquetSource
from penstock.sources.formats.recordio_source import RecordIOSource, encode_record
from penstock.sources.formats.tar.webdataset_source import Components, WebdatasetSource
from penstock.sources.formats.tfrecord.example_message import encode_example
from penstock.sources.formats.tfrecord.feature_specs import FixedLenFeature, VarLenFeature, float32, int64, string
from penstock.sources.formats.tfrecord.tfrecord_source import TFRecordSource, masked_crc32c, write_tfrecord
from penstock.sources.formats.video.video_list import videos_in
from penstock.sources.formats.video.video_source import ClipOptions, VideoSource
from penstock.sources.source import Source
from penstock.types import LabelType

UINT8 = np.dtype(np.uint8)


def _unchanged(data):
    return data


@dataclass(frozen=True)
class Encoded:
    """Format of one sample.

    Args:
        originals: Files without damage.
        decode: Function from a node or batch of encoded samples to a dense one.
        repair: Function that recomputes the checksums of a damaged file, so that the damage behind them is reached.
    """

    originals: list[bytes]
    decode: Callable
    repair: Callable[[bytes], bytes] = _unchanged


@dataclass(frozen=True)
class Container:
    """Format of a data set.

    Args:
        write: Function that writes a data set into a folder, without damage.
        file: Name of the file to damage.
        read: Function from the folder to a source.
        repair: Same as for `Encoded`.
    """

    write: Callable
    file: str
    read: Callable[..., Source]
    repair: Callable[[bytes], bytes] = _unchanged


def _image(mode="RGB", kind="JPEG", **options):
    return bytes(photograph(1, mode, kind, **options))


def _pixels(data):
    return fn.resize(fn.decoders.image(data, output_type=types.RGB), size=[8, 8])


def _sound(kind, subtype=None, channels=2):
    file = io.BytesIO()
    signal = np.random.default_rng(1).normal(size=(300, channels)) / 9
    soundfile.write(file, signal, 8000, format=kind, subtype=subtype)
    return file.getvalue()


def _signal(data):
    return fn.shapes(fn.decoders.audio(data, downmix=True)[0])


def _video(container, codec):
    file = io.BytesIO()
    with av.open(file, "w", container) as output:
        stream = output.add_stream(codec, rate=25, width=64, height=48, pix_fmt="yuv420p")
        for shade in range(6):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((48, 64, 3), 40 * shade, np.uint8))))
        output.mux(stream.encode())
    return file.getvalue()


def _frames(data):
    return fn.shapes(fn.decoders.video(data))


def _png_checksums(data):
    """Recompute the CRC of each chunk."""
    out, at = bytearray(data), 8
    while at + 12 <= len(out):
        (length,) = struct.unpack_from(">I", out, at)
        if length > len(out) - at - 12:
            break
        struct.pack_into(">I", out, at + 8 + length, zlib.crc32(out[at + 4 : at + 8 + length]))
        at += 12 + length
    return bytes(out)


def _tfrecord_checksums(data):
    out, at = bytearray(data), 0
    while at + 16 <= len(out):
        (length,) = struct.unpack_from("<Q", out, at)
        struct.pack_into("<I", out, at + 8, masked_crc32c(bytes(out[at : at + 8])))
        if length > len(out) - at - 16:
            break
        struct.pack_into("<I", out, at + 12 + length, masked_crc32c(bytes(out[at + 12 : at + 12 + length])))
        at += 16 + length
    return bytes(out)


def _tar_checksums(data):
    """Recompute the checksum of each header that can be found by its magic number."""
    out = bytearray(data)
    at = out.find(b"ustar")
    while at >= 0:
        start = at - 257
        if start >= 0 and start + 512 <= len(out):
            out[start + 148 : start + 156] = b" " * 8
            out[start + 148 : start + 156] = b"%06o\0 " % sum(out[start : start + 512])
        at = out.find(b"ustar", at + 1)
    return bytes(out)


ENCODED = {
    "jpeg": Encoded(
        [_image(), _image(progressive=True), _image("CMYK"), _image("L", restart_marker_blocks=2)], _pixels
    ),
    "png": Encoded([_image(kind="PNG"), _image("P", "PNG"), _image("1", "PNG"), _image("RGBA", "PNG")], _pixels,
                   _png_checksums),
    "webp": Encoded([_image(kind="WEBP"), _image(kind="WEBP", lossless=True), _image("RGBA", "WEBP")], _pixels),
    "tiff": Encoded(
        [_image(kind="TIFF")]
        + [_image(kind="TIFF", compression=name) for name in ("tiff_lzw", "jpeg", "tiff_adobe_deflate", "packbits")]
        + [_image("1", "TIFF", compression="group4"), _image("L", "TIFF", big_tiff=True)], _pixels),
    "bmp": Encoded([_image(kind="BMP"), _image("P", "BMP"), _image("1", "BMP")], _pixels),
    "pnm": Encoded([_image(kind="PPM"), _image("L", "PPM"), _image("1", "PPM")], _pixels),
    "jpeg 2000": Encoded([_image(kind="JPEG2000"), _image(kind="JPEG2000", no_jp2=True)], _pixels),
    "wav": Encoded([_sound("WAV"), _sound("WAV", "FLOAT"), _sound("WAV", "IMA_ADPCM", 1)], _signal),
    "flac": Encoded([_sound("FLAC")], _signal),
    "ogg": Encoded([_sound("OGG"), _sound("OGG", "OPUS")], _signal),
    "video": Encoded([_video("mp4", "mpeg4"), _video("avi", "mpeg4"), _video("matroska", "mpeg4"), bytes(MOVIES[0])],
                     _frames),
    "numpy": Encoded([bytes(npy(np.arange(24.0).reshape(2, 3, 4))), bytes(npy(np.ones((4, 5, 2), order="F")))],
                     lambda data: fn.shapes(fn.decoders.numpy(data, dtype=np.float64, ndim=3))),
    "lz4": Encoded([lz4_block.compress(bytes(range(90)), store_size=False)],
                   lambda data: fn.shapes(fn.decoders.inflate(data, shape=[90]))),
}  # fmt: skip

_FEATURES = (
    ("box", VarLenFeature([4], float32, 0.0)),
    ("image", FixedLenFeature((), string, "")),
    ("label", FixedLenFeature([1], int64, -1)),
    ("words", VarLenFeature(int64, 0)),
)


def _example(number):
    features = {"image": b"jpeg" * number, "label": [number - 2], "words": list(range(-1, 5 * number))}
    return encode_example({**features, "box": list(np.arange(4.0 * number))} if number % 2 else features)


def _write_tar(folder):
    for name, form in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT)):
        with tarfile.open(folder / name, "w", format=form) as file:
            for number in range(4):
                for kind in ("jpg", "cls"):
                    entry = tarfile.TarInfo(f"{'é' * 60 if number == 2 else 'd'}/{number}.{kind}")
                    entry.size = 300 if kind == "jpg" else 1
                    file.addfile(entry, io.BytesIO(b"7" * entry.size))


def _tar(name):
    components = Components((frozenset({"jpg"}), frozenset({"cls"})), True, "empty")
    return lambda folder: WebdatasetSource((str(folder / name),), (), components, (UINT8, UINT8))


def _write_array_record(folder):
    library = pytest.importorskip("array_record.python.array_record_module", reason="not built for this system")
    for name, options in (("plain", "group_size:2,uncompressed"), ("packed", "group_size:1,brotli:3")):
        writer = library.ArrayRecordWriter(str(folder / name), options)
        for number in range(6):
            writer.write(_example(number))
        writer.close()


def _array_record(name, features=()):
    return lambda folder: ArrayRecordSource((str(folder / name),), features)


def _write_lmdb(folder):
    write_caffe2(folder / "caffe2", ((bytes(50 * number), number) for number in range(30)))
    write_caffe(folder / "caffe", ((bytes(50 * number), number) for number in range(30)))
    environment = lmdb.open(str(folder / "deep"), map_size=1 << 24)
    with environment.begin(write=True) as transaction:
        for number in range(120):
            transaction.put(b"%04d" % number + b"k" * (3 * number), bytes(number % 7 * 300))
    environment.close()


def _write_parquet(folder):
    numbers = range(7)
    images = [{"bytes": b"i" * number, "path": f"{number}.jpg"} for number in numbers]
    table = pa.table({
        "image": pa.array(images, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "text": pa.array([f"é{number}" for number in numbers]).dictionary_encode(),
        "label": pa.array(numbers, pa.int16()),
        "boxes": pa.array([[0.5 * number] * (number % 3) for number in numbers], pa.list_(pa.float32())),
    })  # fmt: skip
    for name in ("none", "snappy", "zstd"):
        pq.write_table(table, folder / name, row_group_size=3, compression=name)


def _parquet(name):
    columns = ("image.bytes", "image.path", "text", "label", "boxes")
    return lambda folder: ParquetSource((str(folder / name),), columns)


def _write_npy(folder):
    for number in range(4):
        (folder / f"{number}.npy").write_bytes(bytes(npy(np.arange(6 * number + 6).reshape(2, -1))))


def _write_idx(folder):
    (folder / "images").write_bytes(bytes([0, 0, 8, 3]) + np.array([4, 3, 5], ">u4").tobytes() + bytes(60))
    (folder / "doubles").write_bytes(bytes([0, 0, 14, 1]) + np.array([9], ">u4").tobytes() + bytes(72))


def _write_recordio(folder):
    records = (encode_record(b"\x0a\x23\xd7\xce" * (n % 2) + bytes(n), [1.0] * (n % 3 + 2)) for n in range(6))
    (folder / "a.rec").write_bytes(b"".join(records))


def _write_fits(folder):
    units = [fits.PrimaryHDU(), fits.ImageHDU(np.ones((6, 5), np.int16))]
    fits.HDUList([*units, fits.CompImageHDU(np.ones((9, 8), np.int16))]).writeto(folder / "a.fits", checksum=False)


def _write_video(folder):
    (folder / "class").mkdir()
    (folder / "class" / "a.mp4").write_bytes(_video("mp4", "mpeg4"))


def _write_coco(folder):
    images = [{"id": n + 3, "file_name": f"{n}.jpg", "width": 90, "height": 40} for n in range(4)]
    objects = [
        {"id": n, "image_id": n % 3 + 3, "category_id": 5, "bbox": [1.5, 2, 20, 9], "area": 1, "iscrowd": n % 2,
         "segmentation": {"size": [40, 90], "counts": [100, 50, 3450]} if n == 3 else [[1.0, 2.0, 9.5, 2.0, 3.0, 8.0]]}
        for n in range(5)
    ]  # fmt: skip
    for image in images:
        (folder / image["file_name"]).write_bytes(_image())
    content = {"images": images, "annotations": objects, "categories": [{"id": 5, "name": "x"}]}
    (folder / "annotations.json").write_text(json.dumps(content))


def _coco(**options):
    return lambda folder: CocoSource(str(folder), str(folder / "annotations.json"), None, CocoOptions(**options))


def _write_nemo(folder):
    soundfile.write(folder / "a.wav", np.zeros(90, np.float32), 8000)
    entries = [{"audio_filepath": "a.wav", "duration": 0.005, "offset": 0.001 * n, "text": "é"} for n in range(4)]
    (folder / "m.json").write_text("\n".join(map(json.dumps, entries)))


def _write_cifar10(folder):
    (folder / "data_batch_1.bin").write_bytes(bytes(2 * 3073))


CONTAINERS = {
    "tar": Container(_write_tar, "pax", _tar("pax"), _tar_checksums),
    "tar gnu": Container(_write_tar, "gnu", _tar("gnu"), _tar_checksums),
    "tfrecord": Container(
        lambda folder: write_tfrecord(folder / "a", [_example(number) for number in range(5)]),
        "a", lambda folder: TFRecordSource((str(folder / "a"),), (), _FEATURES), _tfrecord_checksums,
    ),
    "array record": Container(_write_array_record, "plain", _array_record("plain")),
    "array record of examples": Container(_write_array_record, "packed", _array_record("packed", _FEATURES)),
    "caffe2": Container(_write_lmdb, "caffe2/data.mdb", lambda folder: Caffe2Source(
        (str(folder / "caffe2"),), LabelType.SINGLE_LABEL, 1, 0, False, True)),
    "caffe": Container(_write_lmdb, "caffe/data.mdb", lambda folder: CaffeSource((str(folder / "caffe"),), True, True)),
    "parquet": Container(_write_parquet, "none", _parquet("none")),
    "parquet snappy": Container(_write_parquet, "snappy", _parquet("snappy")),
    "parquet zstd": Container(_write_parquet, "zstd", _parquet("zstd")),
    "npy": Container(_write_npy, "0.npy",
                     lambda folder: NpySource(FileSelection(str(folder), None, None, "*.npy"))),
    "idx": Container(_write_idx, "images", lambda folder: ArraySource((read_idx(folder / "images"),), [""], "idx")),
    "idx doubles": Container(_write_idx, "doubles",
                             lambda folder: ArraySource((read_idx(folder / "doubles"),), [""], "idx")),
    "recordio": Container(_write_recordio, "a.rec", lambda folder: RecordIOSource((str(folder / "a.rec"),), ())),
    "fits": Container(_write_fits, "a.fits", lambda folder: FitsSource(
        FileSelection(str(folder), None, None, "*.fits"), (2, 3), None)),
    "video clips": Container(_write_video, "class/a.mp4",
                             lambda folder: VideoSource(videos_in(str(folder)), ClipOptions(2))),
    "coco": Container(_write_coco, "annotations.json", _coco(polygon_masks=True, ratio=True)),
    "coco masks": Container(_write_coco, "annotations.json", _coco(pixelwise_masks=True)),
    "nemo": Container(_write_nemo, "m.json", lambda folder: NemoSource(
        (str(folder / "m.json"),), 0.0, 0.0, True, np.dtype(np.float32))),
    "nemo sound": Container(_write_nemo, "a.wav", lambda folder: NemoSource(
        (str(folder / "m.json"),), 0.0, 0.0, True, np.dtype(np.float32))),
    "cifar10": Container(_write_cifar10, "data_batch_1.bin", lambda folder: open_cifar10(str(folder), "data_batch")),
}  # fmt: skip
