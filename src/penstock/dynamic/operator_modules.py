"""Modules of dynamic mode, such as `decoders` and `math`: their functions and classes are made on first use."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from penstock import math as node_math
from penstock.core import user_call_site, with_call_site
from penstock.core.unsupported import explain_absence
from penstock.dynamic import random_state
from penstock.dynamic.checkpoint_file import Checkpoint
from penstock.dynamic.dynamic_reader import Reader, reader_class
from penstock.dynamic.evaluation_context import current_checkpoint
from penstock.dynamic.function_call import function
from penstock.dynamic.loop_capture import invariant
from penstock.dynamic.tensor_arithmetic import apply_elementwise
from penstock.dynamic.tensor_conversion import as_tensor
from penstock.errors import UnknownNameError, did_you_mean
from penstock.fn._operator_aliases import present
from penstock.graph.tracing.registry import available, is_available

# Names of DALI's dynamic mode, by module. Operators that only `penstock.fn` has are not among them.
_NAMES: Mapping[str, str] = {
    "": (
        "audio_resample batch_permutation bb_flip bbox_paste bbox_rotate box_encoder brightness brightness_contrast "
        "cast cast_like cat clahe color_space_conversion color_twist contrast coord_flip coord_transform copy crop "
        "crop_mirror_normalize debayer dump_image element_extract equalize erase expand_dims filter flip full "
        "full_like gaussian_blur get_property grid_mask hsv hue jitter jpeg_compression_distortion laplacian "
        "lookup_table mel_filter_bank mfcc multi_paste nonsilent_region normalize one_hot ones ones_like optical_flow "
        "pad paste peek_image_shape per_frame permute_batch power_spectrum preemphasis_filter random_bbox_crop "
        "random_crop_generator random_resized_crop reinterpret reshape resize resize_crop_mirror roi_random_crop "
        "rotate saturation sequence_rearrange slice spectrogram sphere squeeze stack tensor_resize to_decibels "
        "transpose warp_affine water zeros zeros_like"
    ),
    "decoders": "audio image image_crop image_random_crop image_slice inflate numpy video",
    "experimental": "dilate erode median_blur peek_image_shape remap resize warp_perspective",
    "experimental.decoders": "image image_crop image_random_crop image_slice",
    "io": "",
    "io.file": "read",
    "noise": "gaussian salt_and_pepper shot",
    "random": "beta choice coin_flip normal uniform",
    "reductions": "max mean mean_square min rms std_dev sum variance",
    "segmentation": "random_mask_pixel random_object_bbox select_masks",
    "transforms": "combine crop rotation scale shear translation",
}

# Readers by module and class. Those from `Arrays` on are Penstock's.
_READERS: Mapping[str, Mapping[str, str]] = {
    "readers": {
        "COCO": "coco",
        "Caffe": "caffe",
        "Caffe2": "caffe2",
        "File": "file",
        "MXNet": "mxnet",
        "NemoAsr": "nemo_asr",
        "Numpy": "numpy",
        "TFRecord": "tfrecord",
        "Video": "video",
        "VideoResize": "video_resize",
        "Webdataset": "webdataset",
        "ArrayRecord": "array_record",
        "Arrays": "arrays",
        "Cifar10": "cifar10",
        "Items": "items",
        "Mnist": "mnist",
        "Parquet": "parquet",
    },
    "experimental.readers": {"Fits": "fits", "Video": "video"},
}

_OWN: Mapping[str, Mapping[str, Any]] = {
    "capture": {"invariant": invariant},
    "checkpoint": {"Checkpoint": Checkpoint, "current": current_checkpoint},
    "random": {key: getattr(random_state, key) for key in ("RNG", "get_default_rng", "set_seed")},
    "readers": {"Reader": Reader},
}

_PARTS = tuple(sorted({*_NAMES, *_READERS, *_OWN, "math"} - {""}))

# Names that programs may look for, and what to write.
_MISSING = {
    "python_function": "the function itself",
    "numba_function": "the function itself",
    "jax_function": "the function itself",
    "external_source": "ExternalSource(source)",
    "constant": "the value itself",
    "pytorch": "numpy.asarray(tensor), or tensor.torch()",
    "bfloat16": "penstock.fn.cast(..., dtype=penstock.types.BFLOAT16)",
    "experimental.inputs": "readers.Video",
}


def functions_of(part: str, module: ModuleType) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of the module of a part.

    Args:
        part: Path of the part, such as "" or "io.file".
        module: The module, which keeps what it has made.
    """
    prefix = f"{part}." if part else ""
    if not part:
        for inner in _PARTS:
            _module(inner)
    names, readers = frozenset(_NAMES.get(part, "").split()), _READERS.get(part, {})
    modules = {path.removeprefix(prefix) for path in _PARTS if path.startswith(prefix)}

    def getattr_(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # the import system probes for these
        if name in modules:
            return _module(prefix + name)
        if name in readers:
            result: Any = reader_class(name, f"readers.{readers[name]}")
        elif name in names and is_available(present(prefix + name)):
            result = function(present(prefix + name))
        else:
            raise UnknownNameError(
                f"dynamic mode has no {prefix}{name}", fix=_fix(prefix + name, dir_()), where=user_call_site()
            )
        setattr(module, name, result)
        return result

    def dir_() -> list[str]:
        operators = available()
        # Files of this package, such as `element_type`, are attributes of it, too.
        public = {key for key, value in vars(module).items() if key[0] != "_" and not isinstance(value, ModuleType)}
        offered = {name for name in names if present(prefix + name) in operators}
        return sorted({*public, *offered, *readers, *(name for name in modules if "." not in name)})

    return getattr_, dir_


def _fix(name: str, offered: list[str]) -> str | None:
    """Return what to write in place of a name."""
    if name in _MISSING:
        return _MISSING[name]
    now = present(name)
    part, _, last = now.rpartition(".")
    if part == "readers":
        same = [cls for cls, kind in _READERS["readers"].items() if kind == last]
        if same:
            return f"readers.{same[0]}(...).next_epoch(batch_size=...)"
    elif now != name and last in _NAMES.get(part, "").split():
        return now  # a name of DALI's older releases
    if (reason := explain_absence(f"fn.{now}")) is not None:
        return reason
    if is_available(now):
        return f"penstock.fn.{now}, which also computes on data"
    return did_you_mean(name.rpartition(".")[2], offered)


def _module(part: str) -> ModuleType:
    name = f"penstock.dynamic.{part}"
    if name not in sys.modules:
        module = ModuleType(name, f"Functions of dynamic mode: `{part}`.")
        vars(module).update(_OWN.get(part, {}))
        if part == "math":
            vars(module).update({key: _math_function(key) for key in node_math.__all__})
        else:
            vars(module)["__getattr__"], vars(module)["__dir__"] = functions_of(part, module)
        sys.modules[name] = sys.modules[name.replace("penstock.", "penstock.experimental.", 1)] = module
    return sys.modules[name]


def _math_function(name: str) -> Callable[..., Any]:
    compute = getattr(node_math, name)

    @functools.wraps(compute)
    def call(first: Any, *others: Any) -> Any:
        if isinstance(first, int | float) and not any(hasattr(other, "dtype") for other in others):
            first = as_tensor(first)
        return apply_elementwise(compute, first, *others)

    return with_call_site(call)
