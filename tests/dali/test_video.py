"""Videos against DALI's reader and decoder on the CPU, bit by bit: VP8, VP9 and MJPEG are what it decodes there."""

import av
import numpy as np
import pytest

import penstock

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")


def write(path, count, codec="libvpx", pixels="yuv420p", gop=8):
    rows, columns = np.mgrid[:48, :64]
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=25, width=64, height=48, pix_fmt=pixels)
        stream.gop_size = gop
        for number in range(count):
            image = np.stack([columns * 2 + number * 5, rows * 3 + number * 7, 0 * rows + number * 10], -1) % 256
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image.astype(np.uint8))))
        file.mux(stream.encode())
    return str(path)


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    root = tmp_path_factory.mktemp("videos")
    for folder in ("b", "a"):
        (root / folder).mkdir()
    write(root / "b" / "1.webm", 20)
    write(root / "b" / "0.mp4", 13, "libvpx-vp9")
    write(root / "a" / "z.avi", 12, "mjpeg", "yuvj420p")
    return root


def same(both, define, rows):
    actual, expected = both(define, rows=rows, told=True)
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert np.array_equal(a, b) if a.dtype != np.float64 else np.allclose(a, b, rtol=0, atol=1e-9)


ALL = {"enable_frame_num": "sequence", "enable_timestamps": True}


@pytest.mark.parametrize(
    "options",
    [
        {"sequence_length": 6, **ALL},
        {"sequence_length": 3, "stride": 2, "enable_frame_num": "scalar"},
        {"sequence_length": 3, "stride": 2, "step": 2},
        {"sequence_length": 4, "step": 3, **ALL},
        {"sequence_length": 3, "stride": 2, "step": 5, **ALL},
        {"sequence_length": 3, "stride": 4, "step": 1, "pad_mode": "edge", **ALL},
        {"sequence_length": 5, "stride": 3, "pad_mode": "constant", "fill_value": [1, 2, 3], **ALL},
        {"sequence_length": 5, "stride": 3, "pad_mode": "edge", **ALL},
        {"sequence_length": 5, "stride": 3, "pad_mode": "reflect", **ALL},
        {"sequence_length": 5, "stride": 3, "pad_mode": "symmetric", **ALL},
        {"sequence_length": 30, "pad_mode": "reflect_1001", **ALL},
        {"sequence_length": 5, "uniform_sample": True, **ALL},
        {"sequence_length": 20, "uniform_sample": True, **ALL},
    ],
    ids=str,
)
def test_clips(both, videos, options):
    names = [str(videos / name) for name in ("b/1.webm", "b/0.mp4")]
    same(both, lambda lib: lib.fn.experimental.readers.video(filenames=names, **options), rows=9)


def test_labels(both, videos):
    name = str(videos / "a/z.avi")
    same(both, lambda lib: lib.fn.experimental.readers.video(file_root=str(videos), sequence_length=6), rows=8)
    labels = {"filenames": [name, name], "labels": [4, 9]}
    same(both, lambda lib: lib.fn.experimental.readers.video(sequence_length=6, **labels), rows=5)


@pytest.mark.parametrize(
    ("part", "options"),
    [
        ("", {}),
        (" 0.1 0.3", {}),
        (" 0.1 0.3", {"file_list_rounding": "start_up_end_down"}),
        (" 0.1 0.3", {"file_list_rounding": "all_up", "file_list_include_end": False}),
        (" 0.1 0.3", {"file_list_rounding": "all_down"}),
        (" 2 5", {"file_list_format": "frames"}),
        (" -4 -2", {"file_list_format": "frames"}),
        (" 2.5 5.5", {"file_list_format": "frames"}),
        (" 2 7", {"file_list_format": "frames", "sequence_length": 9, "pad_mode": "reflect"}),
        (" 2 7", {"file_list_format": "frames", "sequence_length": 9, "pad_mode": "symmetric"}),
        (" 2 7", {"file_list_format": "frames", "sequence_length": 4, "uniform_sample": True}),
    ],
    ids=str,
)
def test_lists(both, videos, tmp_path, part, options):
    (tmp_path / "list.txt").write_text(f"\n{videos}/b/1.webm 3{part}\n\n{videos}/b/0.mp4 0\n")
    given = {"file_list": str(tmp_path / "list.txt"), "sequence_length": 1, **ALL, **options}
    same(both, lambda lib: lib.fn.experimental.readers.video(**given), rows=7)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"frames": [5, 3, 3, 0]},
        {"frames": 4},
        {"frames": [5, 25, -1]},
        {"frames": [5, 25], "pad_mode": "edge"},
        {"start_frame": 2, "end_frame": 9, "stride": 3},
        {"start_frame": 11},
        {"stride": 6},
        {"start_frame": 10, "end_frame": 24, "fill_value": [1, 2, 3]},
        {"start_frame": 10, "end_frame": 24, "pad_mode": "none"},
        {"start_frame": 10, "sequence_length": 5, "stride": 3, "pad_mode": "symmetric"},
        {"start_frame": 10, "sequence_length": 5, "pad_mode": "reflect"},
    ],
    ids=str,
)
def test_decoding(both, videos, options):
    files = [np.fromfile(videos / name, np.uint8) for name in ("b/1.webm", "b/0.mp4", "a/z.avi")]
    same_inputs = both(lambda lib, data: lib.fn.decoders.video(data, **options), files)
    for a, b in zip(*(result[0] for result in same_inputs), strict=True):
        assert a.shape == b.shape
        assert np.array_equal(a, b)


def test_numbers_that_differ_per_sample(both, videos):
    files = [np.fromfile(videos / name, np.uint8) for name in ("b/1.webm", "b/0.mp4")]

    def define(lib, data, frames, start):
        part = lib.fn.decoders.video(data, start_frame=start, sequence_length=3)
        return lib.fn.decoders.video(data, frames=frames), part

    starts = [np.array(9, np.int32), np.array(2, np.int32)]
    actual, expected = both(define, files, [np.array([1, 3], np.int32), np.array([11, 0], np.int32)], starts)
    for mine, theirs in zip(actual, expected, strict=True):
        assert all(map(np.array_equal, mine, theirs))


@pytest.mark.parametrize("policy", ["partial", "pad"])
def test_videos_that_are_fed(videos, policy):
    files = [np.fromfile(videos / name, np.uint8) for name in ("b/1.webm", "a/z.avi")]
    files[1] = files[1][np.newaxis]  # rows of an array of shape (1, 1, n), as DALI's own programs feed them
    results = []
    for library in (dali, penstock):
        with library.Pipeline(2, 1, None, prefetch_queue_depth=1) as pipeline:
            frames = library.fn.experimental.inputs.video(name="video", sequence_length=3, last_sequence_policy=policy)
            pipeline.set_outputs(frames, library.fn.shapes(frames))
        pipeline.build()
        for file in files:
            pipeline.feed_input("video", [file])
        results.append([[list(map(np.array, output)) for output in pipeline.run()] for _ in range(6)])
    for theirs, mine in zip(*results, strict=True):
        for a, b in zip(theirs, mine, strict=True):
            assert len(a) == len(b)
            assert all(map(np.array_equal, a, b))


def test_a_part_after_the_end_has_no_clip(videos, tmp_path):
    (tmp_path / "list.txt").write_text(f"{videos}/b/1.webm 1 5 6\n")
    for reader in (dali.fn.experimental.readers.video, penstock.fn.readers.video):
        with pytest.raises((RuntimeError, penstock.errors.SourceError)):  # noqa: PT012  # DALI reads when it runs
            with (dali if reader is dali.fn.experimental.readers.video else penstock).Pipeline(1, 1, None) as pipeline:
                pipeline.set_outputs(*reader(file_list=str(tmp_path / "list.txt"), sequence_length=1))
            pipeline.build()


def test_what_is_fed_must_be_one_video(videos):
    with penstock.Pipeline(2) as pipeline:
        pipeline.set_outputs(penstock.fn.inputs.video(name="video", sequence_length=3))
    file = np.fromfile(videos / "a" / "z.avi", np.uint8)
    for data, said in (([file, file], "one encoded video at a time"), ([file[:20]], "cannot be decoded as a video")):
        with pytest.raises(penstock.errors.SourceError, match=said):
            pipeline.feed_input("video", data)
