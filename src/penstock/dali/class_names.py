"""Which class of `penstock.ops` is which operator of `penstock.fn`: those whose names have the same letters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from penstock import fn as fn  # registers the operators
from penstock.core.call_site import user_call_site
from penstock.core.unsupported import ABSENT, explain_absence
from penstock.dali.operator_classes import class_of
from penstock.errors import UnknownNameError, did_you_mean
from penstock.fn.operator_aliases import OLDER, present
from penstock.graph.tracing.registry import available

_WORDS = {
    "bbox": "BBox",
    "coco": "COCO",
    "dl": "DL",
    "mfcc": "MFCC",
    "mxnet": "MXNet",
    "nvjpeg": "nvJPEG",
    "rms": "RMS",
    "roi": "ROI",
    "ssd": "SSD",
    "tfrecord": "TFRecord",
}
"""Words of names that are not merely capitalized in those of classes."""

_SPELLED_BY_PYTHON = ("arithmetic.", "getitem")


def class_name(name: str) -> str:
    """What the class of an operator is called, without its module.

    >>> class_name("readers.coco"), class_name("crop_mirror_normalize")
    ('COCO', 'CropMirrorNormalize')
    """
    return "".join(_WORDS.get(word, word.capitalize()) for word in name.rpartition(".")[2].split("_"))


def lazy_class_module(part: str, *apart: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A module's `__getattr__` and `__dir__`: the classes of a part of `penstock.fn`, and the parts of it.

    Args:
        part: "" or "decoders", "experimental.readers".
        apart: names that the module defines itself.
    """
    prefix = f"{part}." if part else ""
    if not part:
        for inner in _parts():  # so that `import penstock.ops.readers` finds it
            _module(inner)

    def getattr_(name: str) -> Any:
        if name == "__all__":
            return dir_()
        if name.startswith("__"):
            raise AttributeError(name)  # Python looks for these itself
        if (inner := prefix + name) in _parts():
            return _module(inner)
        kind = _kinds(prefix).get(name.lower()) if not name.islower() else None
        if kind is None:
            fix = _reason(prefix + name) or did_you_mean(name, dir_())
            raise UnknownNameError(f"there is no operator ops.{prefix}{name}", fix=fix, where=user_call_site())
        return class_of(name, kind, f"penstock.ops.{part}".rstrip("."))

    def dir_() -> list[str]:
        inner = (each.removeprefix(prefix) for each in _parts() if each.startswith(prefix))
        names = map(class_name, _names(prefix))
        return sorted({*apart, *names, *(each for each in inner if each and "." not in each)})

    return getattr_, dir_


def _all() -> Iterable[str]:
    """The names of all operators that have a class, older ones included."""
    names = {name for name in available() if not name.startswith(_SPELLED_BY_PYTHON)}
    return {*names, *(f"experimental.{name}" for name in names), *(old for old, new in OLDER.items() if new in names)}


def _names(prefix: str) -> list[str]:
    return [name for name in _all() if name.startswith(prefix) and "." not in name.removeprefix(prefix)]


def _kinds(prefix: str) -> dict[str, str]:
    """The operators of a part by the letters of their names."""
    return {name.removeprefix(prefix).replace("_", ""): present(name) for name in _names(prefix)}


def _reason(name: str) -> str | None:
    """Why DALI's operator is absent whose class has this name, by its letters."""
    letters = name.lower().removeprefix("experimental.")
    operators = [each.removeprefix("fn.") for each in ABSENT if each.startswith("fn.")]
    return next(
        (explain_absence(f"fn.{present(o)}") for o in (*operators, *OLDER) if o.replace("_", "") == letters), None
    )


def _parts() -> set[str]:
    """The modules: `decoders`, and for `io.file.read` both `io` and `io.file`."""
    parts = (name.split(".")[:-1] for name in _all())
    return {".".join(each[: count + 1]) for each in parts for count in range(len(each))}


def _module(part: str) -> ModuleType:
    """A part as a module, which `import` finds once it was made."""
    name = f"penstock.ops.{part}"
    if name not in sys.modules:
        module = ModuleType(name, f"The classes of the operators in `penstock.fn.{part}`.")
        vars(module)["__getattr__"], vars(module)["__dir__"] = lazy_class_module(part)
        sys.modules[name] = module
    return sys.modules[name]
