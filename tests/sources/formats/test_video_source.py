"""Clips of videos, against what decoding a file from its beginning gives; tests/dali/test_video.py has DALI's."""

import enum
import fractions
import re
import shutil
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from av.video import reformatter

from penstock import Pipeline, fn, ops, types
from penstock.errors import DefinitionError, MissingExtraError, SourceError, SourceNotFoundError
from penstock.operators.readers.video import VideoArguments
from penstock.sources.formats.video import video_decoder
from penstock.sources.formats.video.video_decoder import VideoDecoder, index_video
from penstock.sources.formats.video.video_list import Entry, videos_in, videos_of
from penstock.sources.formats.video.video_source import ClipOptions, VideoSource
from penstock.testing import check_bad_samples, check_source

HOW = 0x2 | 0x40000 | 0x2000  # SWS_BILINEAR, SWS_ACCURATE_RND and SWS_FULL_CHR_H_INT of libswscale


def write(path, count=20, codec="libx264", pixels="yuv420p", size=(64, 48), ticks=None, **options):
    """Frames that differ everywhere; `ticks` are their times in units of 1/100 s."""
    width, height = size
    rows, columns = np.mgrid[:height, :width]
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=25, width=width, height=height, pix_fmt=pixels)
        stream.gop_size = 8
        stream.options = options
        if ticks:
            stream.codec_context.time_base = fractions.Fraction(1, 100)
        for number in range(count):
            image = np.stack([columns * 2 + number * 9, rows * 3 + number * 7, 0 * rows + number * 12], -1) % 256
            frame = av.VideoFrame.from_ndarray(image.astype(np.uint8))
            if ticks:
                frame.pts, frame.time_base = ticks[number], fractions.Fraction(1, 100)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return str(path)


def decoded(path):
    with av.open(str(path)) as file:
        return np.stack([f.reformat(format="rgb24", interpolation=HOW).to_ndarray() for f in file.decode(video=0)])


def source(*paths, length=3, **options):
    return VideoSource(
        tuple(Entry(str(path), number) for number, path in enumerate(paths)), ClipOptions(length, **options)
    )


KINDS = {
    "b-frames.mp4": {"bf": "3"},
    "open.mkv": {"bf": "2", "x264-params": "open-gop=1:keyint=6:min-keyint=6"},
    "mpeg4.avi": {"codec": "mpeg4"},
    "vp8.webm": {"codec": "libvpx", "auto-alt-ref": "1", "lag-in-frames": "10"},
    "vp9.webm": {"codec": "libvpx-vp9", "auto-alt-ref": "1", "lag-in-frames": "10"},
    "stream.ts": {"codec": "mpeg2video"},
    "b-frames.avi": {"bf": "3"},
    "b-frames.asf": {"bf": "3"},
    "program.mpg": {"bf": "0"},
    "mpeg4.ts": {"codec": "mpeg4", "bf": "2"},
    "stream.h264": {"bf": "3"},
    "uneven.mp4": {"ticks": np.cumsum([4, 1, 9, 4, 2] * 4).tolist()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_frame_is_what_decoding_from_the_beginning_gives(tmp_path, kind):
    path = write(tmp_path / kind, **KINDS[kind])
    right, index = decoded(path), index_video(path)
    assert len(index) == len(right) == 20
    if kind == "uneven.mp4":
        steps = np.diff(index.times * index.tick)
        np.testing.assert_allclose(steps, np.diff(KINDS[kind]["ticks"]) / 100, rtol=0, atol=1e-9)
    if kind.startswith("b-frames"):
        np.testing.assert_allclose(np.diff(index.times * index.tick), 0.04, rtol=0, atol=1e-9)
    decoder = VideoDecoder(path, index)
    rng = np.random.default_rng(1)
    for numbers in (
        range(20),
        [19],
        [3],
        [4, 5, 13],
        *(sorted(rng.choice(20, 3, replace=False).tolist()) for _ in range(6)),
    ):
        for number, frame in decoder.frames(list(numbers)):
            assert np.array_equal(frame, right[number]), (numbers, number)


@pytest.mark.parametrize(
    ("name", "options", "skipped"),
    [
        ("a.mkv", {"bf": "3"}, 4),
        ("a.ts", {"bf": "3"}, 4),
        ("a.ts", {"codec": "mpeg2video", "bf": "2"}, 7),
    ],
)
def test_videos_begin_with_the_first_frame_that_can_be_decoded(tmp_path, name, options, skipped):
    path = str(tmp_path / f"cut.{name}")
    with av.open(write(tmp_path / name, 40, **options)) as whole, av.open(path, "w") as file:
        stream = file.add_stream_from_template(whole.streams.video[0])
        for packet in [packet for packet in whole.demux(video=0) if packet.size][skipped:]:
            packet.stream = stream
            file.mux(packet)
        del packet
    right, index = decoded(path), index_video(path)
    assert len(index) == len(right) < 40 - skipped
    for number in (0, 1, 11, 25):
        assert [np.array_equal(frame, right[number]) for _, frame in VideoDecoder(path, index).frames([number])] == [
            True
        ]
    assert len(source(path, length=5)) == len(right) // 5


@pytest.mark.parametrize("name", ["a.avi", "a.mp4"])
def test_videos_that_are_cut_short_are_refused(tmp_path, name):
    path = tmp_path / name
    with av.open(str(path), "w", options={"movflags": "faststart"} if name == "a.mp4" else {}) as file:
        stream = file.add_stream("mjpeg", rate=25, width=64, height=48, pix_fmt="yuvj420p")
        for number in range(12):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 * number, np.uint8))))
        file.mux(stream.encode())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 7 // 10])
    with pytest.raises(SourceError, match="the file is cut short"):
        source(path)


def test_older_versions_of_pyav_lack_names_of_flags(tmp_path, monkeypatch):
    path = write(tmp_path / "a.mp4", 3)
    right = decoded(path)
    monkeypatch.setattr(reformatter, "Interpolation", enum.IntFlag("Interpolation", {"BILINEAR": 2}))
    for number, frame in VideoDecoder(path, index_video(path)).frames(range(3)):
        assert np.array_equal(frame, right[number])


def test_frames_of_one_time(tmp_path):
    path = write(tmp_path / "program.mpg", 40, "mpeg2video", bf="3")
    with av.open(path) as file:
        times = [frame.pts for frame in file.decode(video=0)]
    right, index = decoded(path), index_video(path)
    assert len(set(times)) < len(times) == len(index)
    assert np.all(np.diff(index.times) > 0)
    decoder = VideoDecoder(path, index)
    for numbers in (range(40), [39], [3, 21], [17, 20, 22]):
        for number, frame in decoder.frames(list(numbers)):
            assert np.array_equal(frame, right[number]), (numbers, number)
    check_source(source(path, timestamps=True))


def test_packets_of_one_time_may_be_one_frame(tmp_path, monkeypatch):
    path = write(tmp_path / "a.mp4", bf="2")
    index, unique = index_video(path), np.unique
    monkeypatch.setattr(video_decoder.np, "unique", lambda values: unique(values)[: -1 if len(values) == 20 else None])
    found = index_video(path)
    assert not found.counted
    assert (found.times.tolist(), found.keys.tolist()) == (index.times.tolist(), index.keys.tolist())


def test_clips_pass_the_suite(tmp_path):
    one, other = write(tmp_path / "a.mp4", bf="2"), write(tmp_path / "b.avi", 7, "mpeg4", size=(32, 32))
    check_source(source(one, stride=2, pad_mode="edge", labels=True, frame_num="sequence", timestamps=True))
    found = source(one, other, length=4, labels=True, frame_num="scalar")
    check_source(found)
    assert [len(found), str(found.specs[0]), found.describe(5)] == [
        6,
        "uint8[4, ?, ?, 3] FHWC",
        f"{other} from frame 0",
    ]
    right = decoded(one)
    clips, labels, numbers = found.read(np.array([5, 2, 1]), [None] * 3)
    assert [clip.shape for clip in clips] == [(4, 32, 32, 3), (4, 48, 64, 3), (4, 48, 64, 3)]
    assert np.array_equal(clips[1], right[8:12])
    assert (labels.ravel().tolist(), numbers.ravel().tolist()) == ([1, 0, 0], [0, 8, 4])
    assert found.reads_same_samples(source(one, other, length=4, labels=True, frame_num="scalar"))
    assert not found.reads_same_samples(source(one, other, length=4))


def test_clips_in_order_are_decoded_once(tmp_path, monkeypatch):
    found = source(write(tmp_path / "a.mp4", 20, **{"x264-params": "keyint=20"}), length=4)
    decoded_times, advance = [], VideoDecoder._advance

    def counting(decoder, number):
        decoded_times.append((decoder.position, number))
        return advance(decoder, number)

    monkeypatch.setattr(VideoDecoder, "_advance", counting)
    for index in range(5):
        found.read(np.array([index]), [None])
    assert [position for position, _ in decoded_times] == list(range(20)), (
        "each goes on where the one before it stopped"
    )


def test_damaged_videos_are_named(tmp_path):
    path = write(tmp_path / "a.avi", 12, "mjpeg", "yuvj420p")
    data = (tmp_path / "a.avi").read_bytes()
    places = [
        at for at in range(len(data) - 4) if data[at : at + 4] == b"00dc" and data[at + 8 : at + 10] == b"\xff\xd8"
    ]
    broken = bytearray(data)
    broken[places[4] + 8 : places[5]] = bytes(places[5] - places[4] - 8)
    (tmp_path / "broken.avi").write_bytes(broken)
    check_bad_samples(source(tmp_path / "broken.avi"), [1])
    found = source(path)
    (tmp_path / "a.avi").write_bytes(data[:-1])
    with pytest.raises(Exception, match=r"sample 0 .*a\.avi from frame 0.* has been written to") as caught:
        found.read(np.array([0]), [None])
    assert caught.value.path == path
    (tmp_path / "text.mp4").write_text("no video" * 100)
    (tmp_path / "short.mp4").write_bytes((tmp_path / "broken.avi").read_bytes()[:300])
    (tmp_path / "empty.mp4").write_bytes(b"")
    unknown = Path(write(tmp_path / "b.mp4", 3)).read_bytes().replace(b"avc1", b"zzzz")
    (tmp_path / "unknown.mp4").write_bytes(unknown)
    for name in ("text.mp4", "short.mp4", "empty.mp4", "unknown.mp4"):
        with pytest.raises(SourceError, match=rf"{name}' cannot be read as a video"):
            source(tmp_path / name)
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        source(tmp_path / "none.mp4")
    with pytest.raises(SourceError, match="shorter than 60 frames"):
        source(tmp_path / "broken.avi", length=20, stride=3)


def test_lists(tmp_path):
    (tmp_path / "list").write_text("\ufeffa.mp4 3\n\nb.mp4 4 0.5\nc.mp4 5 1 -2.5\n")
    entries = (Entry("a.mp4", 3), Entry("b.mp4", 4, 0.5), Entry("c.mp4", 5, 1.0, -2.5))
    assert videos_of(str(tmp_path / "list")) == entries
    for line in ("a.mp4", "a.mp4 x", "a.mp4 -1", "a.mp4 1 2 3 4", "a.mp4 1 nan", "a.mp4 99999999999"):
        (tmp_path / "list").write_text(f"ok.mp4 1\n{line}\n")
        with pytest.raises(SourceError, match="list:2 is not a path, a label"):
            videos_of(str(tmp_path / "list"))
    (tmp_path / "list").write_text("\n")
    with pytest.raises(SourceError, match="does not list any videos"):
        videos_of(str(tmp_path / "list"))
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        videos_of(str(tmp_path / "none"))


def test_definitions(tmp_path, monkeypatch):
    (tmp_path / "cats").mkdir()
    path = write(tmp_path / "cats" / "a.mp4", 7)
    many = {"filenames": path, "sequence_length": 2}
    for options, message in (
        ({"sequence_length": 2}, "one of filenames, file_root and file_list"),
        ({**many, "file_root": tmp_path}, "one of filenames, file_root and file_list"),
        ({**many, "labels": [1, 2]}, "labels must have one entry per file"),
        ({"file_root": tmp_path, "sequence_length": 2, "labels": [1]}, "labels can only be combined with filenames"),
        ({**many, "sequence_length": 0}, "sequence_length is out of range"),
        ({**many, "pad_mode": "edges"}, "no such pad_mode"),
        ({**many, "file_list_rounding": "up"}, "no such file_list_rounding"),
        ({**many, "enable_frame_num": "all"}, "no such enable_frame_num"),
        ({**many, "fill_value": [1, 2]}, "fill_value must be one number"),
        ({**many, "dtype": types.INT32}, "dtype is not supported"),
        ({**many, "image_type": types.YCbCr}, r"image_type must be RGB(.|\n)*fix: .*output_type=types.YCbCr\)"),
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match=message):
            fn.readers.video(**options)
    with Pipeline(batch_size=4) as pipeline:
        clips, labels = fn.readers.video(**many, labels=[], dtype=types.FLOAT, normalized=True, pad_sequences=True)
        same, _ = fn.experimental.readers.video(file_root=tmp_path, sequence_length=2, pad_mode="constant")
        small, numbers = ops.VideoReaderResize(**many, enable_frame_num=True, size=[8, 12], step=5)()
        part = fn.decoders.video(fn.io.file.read(np.frombuffer(path.encode(), np.uint8)), frames=[6, 0])
        pipeline.set_outputs(clips, labels, same, small, numbers, part)
    clips, labels, same, small, numbers, part = (each.as_array() for each in pipeline.run())
    right = decoded(path)
    np.testing.assert_allclose(clips[:3].reshape(6, 48, 64, 3), right[:6] / 255, rtol=1e-6)
    assert not clips[3, 1].any()
    assert labels.ravel().tolist() == [0] * 4
    assert np.array_equal(same[:3].reshape(6, 48, 64, 3), right[:6])
    assert (small.shape, numbers.ravel().tolist()) == ((4, 2, 8, 12, 3), [0, 5, 0, 5])
    assert np.array_equal(part[3], right[[6, 0]])
    monkeypatch.setitem(sys.modules, "av", None)
    with Pipeline(batch_size=1), pytest.raises(MissingExtraError, match=r"penstock\[video\]"):
        fn.readers.video(**many)


def test_a_video_of_bytes_that_is_none():
    with Pipeline(batch_size=1) as pipeline:
        pipeline.set_outputs(fn.decoders.video(fn.constant(np.arange(100, dtype=np.uint8))))
    with pytest.raises(RuntimeError, match="not a video"):
        pipeline.run()
    for options, message in (
        ({"frames": [1], "stride": 2}, "frames cannot be combined with stride"),
        ({"end_frame": 3, "sequence_length": 2}, "end_frame and sequence_length cannot be combined"),
        ({"pad_mode": "x"}, "no such pad_mode"),
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match=message):
            fn.decoders.video(fn.constant(np.zeros(9, np.uint8)), **options)
    assert video_decoder.padded_frame_indices(np.arange(5), 1, "reflect").tolist() == [0] * 5


def test_extensions_of_videos_in_folders(tmp_path):
    documented = re.search(r"left out: (.*) are read", " ".join(VideoArguments.__doc__.split()))
    extensions = re.split(", | and ", documented[1])
    assert {"mp4", "m2ts", "vob", "asf", "mxf"} < set(extensions)
    (tmp_path / "cats").mkdir()
    for extension in extensions:
        (tmp_path / "cats" / f"{extension}.{extension}").touch()
        (tmp_path / "cats" / f"{extension}.{extension.upper()}").touch()
    (tmp_path / "cats" / "notes.txt").touch()
    assert len(videos_in(str(tmp_path))) == 2 * len(extensions) == 52


def test_times_begin_at_zero(tmp_path):
    path = write(tmp_path / "a.mp4", 3, ticks=[150, 160, 180])
    assert index_video(path).times[0] > 0
    with Pipeline(batch_size=1) as pipeline:
        pipeline.set_outputs(*fn.readers.video(filenames=path, sequence_length=3, enable_timestamps=True))
    np.testing.assert_allclose(pipeline.run()[1].at(0), [0, 0.1, 0.3], rtol=0, atol=1e-9)


def test_relative_paths_may_contain_colons(tmp_path, monkeypatch):
    (tmp_path / "b:c.mkv").write_bytes(Path(write(tmp_path / "a.mkv", 3)).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert len(source("b:c.mkv")) == 1


def test_videos_of_one_name_in_several_folders_are_told_apart(tmp_path):
    for folder in ("a", "b", "moved"):
        (tmp_path / folder).mkdir()
    first, second = tmp_path / "a" / "x.mp4", tmp_path / "b" / "x.mp4"
    write(first)
    shutil.copy(first, second)
    moved = (
        shutil.copytree(tmp_path / "a", tmp_path / "moved" / "a"),
        shutil.copytree(tmp_path / "b", tmp_path / "moved" / "b"),
    )
    fingerprint = source(first, second).fingerprint()
    assert source(second, first).fingerprint() != fingerprint
    assert source(*(folder / "x.mp4" for folder in moved)).fingerprint() == fingerprint


def test_class_names_are_those_of_the_folders(tmp_path):
    for name in ("dog", "cat"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "1.mp4")
    labeled = VideoSource(videos_in(str(tmp_path)), ClipOptions(3, labels=True, frame_num="scalar"))
    assert [dict(labeled.class_names(value)) for value in range(3)] == [{}, {0: "cat", 1: "dog"}, {}]
    assert not source(tmp_path / "cat" / "1.mp4", labels=True).class_names(1)
