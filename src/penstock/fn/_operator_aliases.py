"""Names of operators in DALI's older releases and in its `experimental` module."""

from collections.abc import Mapping

# Names before DALI 1.0, and the present ones.
OLDER: Mapping[str, str] = {
    "audio_decoder": "decoders.audio",
    "caffe2_reader": "readers.caffe2",
    "caffe_reader": "readers.caffe",
    "coco_reader": "readers.coco",
    "coin_flip": "random.coin_flip",
    "file_reader": "readers.file",
    "host_decoder": "decoders.image",
    "host_decoder_crop": "decoders.image_crop",
    "host_decoder_random_crop": "decoders.image_random_crop",
    "host_decoder_slice": "decoders.image_slice",
    "image_decoder": "decoders.image",
    "image_decoder_crop": "decoders.image_crop",
    "image_decoder_random_crop": "decoders.image_random_crop",
    "image_decoder_slice": "decoders.image_slice",
    "inflate": "decoders.inflate",
    "mxnet_reader": "readers.mxnet",
    "nemo_asr_reader": "readers.nemo_asr",
    "normal_distribution": "random.normal",
    "numpy_reader": "readers.numpy",
    "nvjpeg_decoder": "decoders.image",
    "nvjpeg_decoder_crop": "decoders.image_crop",
    "nvjpeg_decoder_random_crop": "decoders.image_random_crop",
    "nvjpeg_decoder_slice": "decoders.image_slice",
    "sequence_reader": "readers.sequence",
    "tfrecord_reader": "readers.tfrecord",
    "transform_translation": "transforms.translation",
    "uniform": "random.uniform",
    "video_reader": "readers.video",
    "video_reader_resize": "readers.video_resize",
}


def present(name: str) -> str:
    """Return the present name of an operator, without the prefix `experimental`.

    >>> present("coin_flip"), present("experimental.decoders.image"), present("flip")
    ('random.coin_flip', 'decoders.image', 'flip')
    """
    plain = name.removeprefix("experimental.")
    return OLDER.get(plain, plain)
