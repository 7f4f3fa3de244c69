"""Table of rocAL's operators: their names, arguments and values in penstock.

`OPERATORS` has a row for every reader, decoder and operator of rocAL. The row lists the operators of penstock to call
in order, and maps the arguments. An operator without a counterpart has a row without steps. A test fails when penstock
gets an operator of that name and the row has neither steps nor the reason why it differs.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock import fn as core
from penstock.core import with_call_site
from penstock.errors import ArgumentTypeError, DefinitionError, UnknownNameError, did_you_mean
from penstock.graph.tracing.registry import lookup, registered

Convert = Callable[[Any], Any]


def meaning(value: Any) -> Any:
    """Return penstock's value for a member of rocAL's types. Other values are returned unchanged."""
    return value.value if isinstance(value, Enum) else value


def unless_zero(value: Any) -> Any:
    """Return None for zeros and empty lists, which mean "not given" in rocAL; other values as `meaning` does."""
    argument = meaning(value)
    zero = argument is None or (isinstance(argument, int | float) and not argument)
    return None if zero or (isinstance(argument, list | tuple) and not any(argument)) else argument


def unless_empty(value: Any) -> Any:
    """Return None for an empty list, which means "not given" in rocAL; other values, such as [0], as `meaning` does."""
    return None if isinstance(value, list | tuple) and not value else meaning(value)


def _window(crop: Any) -> Any:
    """Return (height, width) of a crop, or None. rocAL also accepts (depth, height, width); the depth must be 1."""
    size = unless_zero(crop)
    return size[1:] if isinstance(size, list | tuple) and len(size) == 3 and size[0] == 1 else size


def _flag(value: Any) -> Any:
    # rocAL also takes booleans. Nodes, such as a coin flip per sample, pass through.
    return int(bool(value)) if isinstance(value, int) else value


@dataclass(frozen=True)
class ArgumentMapping:
    """Mapping of an argument.

    Args:
        core: Name in penstock; "" for a hint that has no effect.
        convert: Conversion of the value. If it returns None, the argument is omitted.
    """

    core: str = ""
    convert: Convert = meaning


@dataclass(frozen=True)
class OperatorStep:
    """Call of an operator of penstock.

    Args:
        core: Name of the operator in `penstock.fn`.
        arguments: Mapping of each argument, by rocAL's name.
        preset: Defaults that differ from penstock's, by penstock's name.
        positional: Arguments of rocAL that become inputs, after the other inputs, with their defaults; None for those
            without one.
    """

    core: str
    arguments: Mapping[str, ArgumentMapping] = field(default_factory=dict[str, ArgumentMapping])
    preset: Mapping[str, Any] = field(default_factory=dict[str, Any])
    positional: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class OperatorMapping:
    """Mapping of an operator of rocAL.

    Args:
        steps: Calls of penstock's operators, in order; empty without a counterpart.
        differs: Reason why penstock's operator of the same name is not the counterpart, for a row without steps.
    """

    steps: tuple[OperatorStep, ...] = ()
    differs: str = ""

    @property
    def offered(self) -> bool:
        """True if penstock offers the operator."""
        return bool(self.steps) and all(step.core in registered() for step in self.steps)

    @property
    def arguments(self) -> frozenset[str]:
        """Names of the operator's own arguments."""
        return frozenset(name for step in self.steps for name in (*step.arguments, *step.positional))


def _same(*names: str) -> dict[str, ArgumentMapping]:
    """Map arguments that have the same name in rocAL and penstock."""
    return {name: ArgumentMapping(name) for name in names}


def _one(
    core: str,
    arguments: Mapping[str, ArgumentMapping] | None = None,
    preset: Mapping[str, Any] | None = None,
    positional: Mapping[str, Any] | None = None,
) -> OperatorMapping:
    """Map an operator to a single one of penstock. Takes the arguments of `OperatorStep`."""
    return OperatorMapping((OperatorStep(core, arguments or {}, preset or {}, positional or {}),))


# Arguments of every operator except readers. `device` is a hint. rocAL's defaults of layout and dtype are NHWC and
# UINT8, which would destroy normalized values; here, an output has the layout and dtype of the input by default.
# Some of rocAL's operators call their dtype `rocal_tensor_output_type`.
FORM = ("output_layout", "output_dtype", "rocal_tensor_output_type", "device")

_CROP = {
    "crop": ArgumentMapping("crop", _window),
    "crop_h": ArgumentMapping("crop_h", unless_zero),
    "crop_w": ArgumentMapping("crop_w", unless_zero),
    **_same("crop_pos_x", "crop_pos_y"),
}
_MIRROR = ArgumentMapping("mirror", _flag)
# Images have no depth: `crop_d` is accepted without effect.
_CENTER = {"crop": _CROP["crop"], "crop_h": _CROP["crop_h"], "crop_w": _CROP["crop_w"], "crop_d": ArgumentMapping()}
_NORMALIZED = {**_same("mean", "std", "output_layout"), "mirror": _MIRROR, "output_dtype": ArgumentMapping("dtype")}
# A size of 0 means "not given" in rocAL. It ignores `antialias`; penstock uses it.
_RESIZE = {
    "resize_width": ArgumentMapping("resize_x", unless_zero),
    "resize_height": ArgumentMapping("resize_y", unless_zero),
    "resize_shorter": ArgumentMapping("resize_shorter", unless_zero),
    "resize_longer": ArgumentMapping("resize_longer", unless_zero),
    "max_size": ArgumentMapping("max_size", unless_zero),
    "scaling_mode": ArgumentMapping("mode"),
    "interpolation_type": ArgumentMapping("interp_type"),
    **_same("antialias"),
}
_RANDOM_AREA = _same("random_area", "random_aspect_ratio", "num_attempts")
# penstock's default for this operator is DALI's, CHW. A program for rocAL keeps the layout of its input.
_KEEP_LAYOUT = {"output_layout": ""}

# Arguments of the decoders without effect: the reader knows the path, and each image has its own size.
DECODER_HINTS = (
    "annotations_file",
    "decode_size_policy",
    "decoder_type",
    "file_root",
    "max_decoded_height",
    "max_decoded_width",
    "path",
)
_DECODER = {**_same("output_type"), **dict.fromkeys(DECODER_HINTS, ArgumentMapping())}
_READER = {**_same("pad_last_batch"), "stick_to_shard": ArgumentMapping()}

# Operators of which penstock has none of the same name.
_MISSING = (
    "decoders.image_raw blend box_iou_matcher color_temp exposure fish_eye fog gamma_correction lens_correction log1p "
    "pixelate rain resize_crop roi_resize snow vignette"
)
# Operators of which penstock has one of the same name that is not a counterpart, by the reason.
_DIFFERING = {
    "penstock's reader returns nodes, in a definition of penstock.pipeline_def; rocAL's is a note for a decoder": (
        "readers.coco readers.mxnet readers.numpy readers.sequence_reader readers.tfrecord readers.video "
        "readers.video_resize readers.webdataset"
    ),
    "rocAL changes colors in HSV and draws the numbers that are not given, penstock changes RGB linearly": (
        "color_twist hue saturation"
    ),
    "rocAL draws the numbers that are not given, and shifts in units of values": "brightness brightness_fixed contrast",
    "rocAL keeps sound in padded batches, and its numbers have not been compared with penstock's": (
        "decoders.audio mel_filter_bank nonsilent_region preemphasis_filter resample spectrogram to_decibels"
    ),
    "rocAL draws the window that is not given, and documents no weights": "blur",
    "rocAL does not document the order and the form of what it encodes": "box_encoder",
    "its JAX iterators feed no external source": "external_source",
    "rocAL does not document how its kernel_size counts, nor what lies outside": "jitter",
    "it gets whole batches, and penstock's gets samples": "python_function",
    "rocAL's search for windows is another, and its boxes come from its reader": "random_bbox_crop",
    "rocAL does not document how its window is drawn; see fn.random_crop_generator of penstock": "random_crop",
    "rocAL does not document which way it turns, and on which canvas": "rotate",
    "rocAL does not document in which range its values lie": "snp_noise",
    "rocAL does not document its thresholds": "ssd_random_crop",
    "rocAL does not document which way its matrix maps, and about which point": "warp_affine",
}

OPERATORS: Mapping[str, OperatorMapping] = {
    **dict.fromkeys(_MISSING.split(), OperatorMapping()),
    **{name: OperatorMapping(differs=reason) for reason, names in _DIFFERING.items() for name in names.split()},
    "readers.caffe": _one("readers.caffe", {**_same("path"), **_READER}),
    "readers.caffe2": _one("readers.caffe2", {**_same("path"), **_READER}),
    "readers.cifar10": _one("readers.cifar10", {**_same("file_root", "filename_prefix"), **_READER}),
    "readers.file": _one(
        "readers.file",
        {
            **_same("file_root", "file_filters"),
            # rocAL's default is an empty string.
            "file_list": ArgumentMapping("file_list", lambda value: value or None),
            **_READER,
        },
    ),
    "decoders.image": _one("decoders.image", _DECODER),
    "decoders.image_random_crop": _one(
        "decoders.image_random_crop",
        {**_DECODER, **_RANDOM_AREA},
        # The defaults of rocAL's two decoders differ from each other, so both are spelled out.
        {"num_attempts": 10, "random_area": (0.08, 1.0), "random_aspect_ratio": (0.8, 1.25)},
    ),
    # Despite its name, rocAL's decoder cuts a random window.
    "decoders.image_slice": _one(
        "decoders.image_random_crop",
        {**_DECODER, **_RANDOM_AREA},
        {"num_attempts": 100, "random_area": (0.08, 1.0), "random_aspect_ratio": (0.75, 4 / 3)},
    ),
    "random.coin_flip": _one("random.coin_flip", _same("probability")),
    "random.normal": _one("random.normal", _same("mean", "stddev")),
    "random.uniform": _one("random.uniform", _same("range"), {"range": (-1.0, 1.0)}),
    "center_crop": _one("crop", _CENTER),
    "copy": _one("copy"),
    "crop": _one("crop", {**_CROP, "crop_d": ArgumentMapping(), "crop_pos_z": ArgumentMapping()}),
    "crop_mirror_normalize": _one("crop_mirror_normalize", {**_CROP, **_NORMALIZED}, _KEEP_LAYOUT),
    "flip": _one(
        "flip",
        {"horizontal": ArgumentMapping("horizontal", _flag), "vertical": ArgumentMapping("vertical", _flag)},
        # penstock's default is DALI's, 1.
        {"horizontal": 0},
    ),
    "nop": _one("copy"),
    "normalize": _one(
        "normalize",
        {
            "axes": ArgumentMapping("axes", unless_empty),
            **{name: ArgumentMapping(name, unless_zero) for name in ("axis_names", "mean", "stddev")},
            **_same("batch", "ddof", "epsilon", "scale", "shift"),
            **dict.fromkeys(("bytes_per_sample_hint", "seed"), ArgumentMapping()),
        },
    ),
    "one_hot": _one("one_hot", _same("num_classes")),
    "resize": _one("resize", _RESIZE),
    "resize_crop_mirror": _one(
        "resize_crop_mirror",
        {**_RESIZE, "crop_h": _CROP["crop_h"], "crop_w": _CROP["crop_w"], "mirror": _MIRROR},
    ),
    "resize_mirror_normalize": OperatorMapping(
        (OperatorStep("resize", _RESIZE), OperatorStep("crop_mirror_normalize", _NORMALIZED, _KEEP_LAYOUT))
    ),
    "slice": _one(
        "slice",
        _same("out_of_bounds_policy", "fill_values"),
        {"normalized_anchor": False, "normalized_shape": False},
        {"anchor": None, "shape": None},
    ),
    "tensor_add_tensor_float": _one("arithmetic.add"),
    "tensor_mul_scalar_float": _one("arithmetic.mul", positional={"scalar": 1.0}),
    "transpose": _one("transpose", {"perm": ArgumentMapping("perm", unless_empty)}),
    "uniform": _one("random.uniform", _same("range"), {"range": (-1.0, 1.0)}),
}


@with_call_site
def row(name: str) -> OperatorMapping:
    """Return the mapping of an operator of rocAL.

    Raises:
        UnknownNameError: rocAL does not have the operator, or penstock does not have a counterpart.
    """
    if name not in OPERATORS:
        raise UnknownNameError(f"rocAL has no fn.{name}", fix=did_you_mean(name, OPERATORS))
    rocal_operator = OPERATORS[name]
    if not rocal_operator.offered:
        raise UnknownNameError(
            f"rocAL's fn.{name} has no counterpart in penstock yet",
            fix="write it: docs/how-to/extend/operators.md shows how; or compute it with arithmetic on nodes",
        )
    return rocal_operator


def passed_on(name: str, step: OperatorStep, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a step's operator, converted from rocAL's.

    Raises:
        ArgumentTypeError: The table does not have the argument for rocAL's operator.
    """
    known = OPERATORS[name].arguments | (set() if name.startswith("readers.") else set(FORM))
    for argument in arguments:
        if argument not in known:
            raise ArgumentTypeError(
                f"rocAL's fn.{name} has no argument {argument!r} that penstock knows",
                given=argument,
                fix=did_you_mean(argument, known),
            )
    converted = {
        argument.core: argument.convert(arguments[key])
        for key, argument in step.arguments.items()
        if key in arguments and argument.core
    }
    return {**step.preset, **{argument: value for argument, value in converted.items() if value is not None}}


@with_call_site
def call(name: str, *inputs: Any, **arguments: Any) -> Any:
    """Call one of rocAL's operators in a definition.

    Raises:
        PenstockError: See the operator of penstock. The error names the line of the definition.
    """
    mapping = row(name)
    required = [key for step in mapping.steps for key, default in step.positional.items() if default is None]
    if missing := [key for key in required if key not in arguments]:
        raise DefinitionError(f"rocAL's fn.{name} needs {', '.join(missing)}", fix=f"{missing[0]}=...")
    result = inputs
    for step in mapping.steps:
        positional = [meaning(arguments.get(key, default)) for key, default in step.positional.items()]
        result = (lookup(step.core)(*result, *positional, **passed_on(name, step, arguments)),)
    # Operators that take the layout or dtype themselves have applied it. The others get a transpose or a cast.
    used = {key for step in mapping.steps for key in step.arguments}
    return _formed(result[0], {key: arguments[key] for key in FORM if key in arguments and key not in used})


def _formed(node: Any, form: Mapping[str, Any]) -> Any:
    """Return a node in the requested layout and dtype."""
    layout = meaning(form.get("output_layout"))
    dtype = meaning(form.get("output_dtype", form.get("rocal_tensor_output_type")))
    if layout and layout != node.layout:
        node = core.transpose(node, output_layout=layout)
    return node if dtype is None or dtype.numpy == node.dtype else core.cast(node, dtype=dtype)


def offer(part: str, *apart: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module of rocAL's `fn`.

    Args:
        part: Path of the module in `fn`: "", "decoders" or "random".
        apart: Names that the module defines itself.
    """
    prefix = f"{part}." if part else ""

    def getattr_(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # Python looks for these itself
        return _function(prefix + name, row(prefix + name))

    def dir_() -> list[str]:
        names = (
            name.removeprefix(prefix) for name, item in OPERATORS.items() if name.startswith(prefix) and item.offered
        )
        return sorted({*apart, *(name for name in names if "." not in name)})

    return getattr_, dir_


def _function(name: str, mapping: OperatorMapping) -> Callable[..., Any]:
    def function(*inputs: Any, **arguments: Any) -> Any:
        return call(name, *inputs, **arguments)

    function.__name__ = name.rpartition(".")[2]
    function.__doc__ = f"rocAL's fn.{name}: {' and '.join(f'fn.{step.core}' for step in mapping.steps)} of penstock."
    parameters = [inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL)]
    parameters += [
        inspect.Parameter(item, inspect.Parameter.KEYWORD_ONLY) for item in sorted({*mapping.arguments, *FORM})
    ]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what help() reads
    return function
