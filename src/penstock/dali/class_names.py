"""Names of the classes in `penstock.ops`, matched with operators of `penstock.fn` by their letters."""

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from penstock import fn as fn  # registers the operators
from penstock.core import user_call_site
from penstock.core.unsupported import ABSENT, explain_absence
from penstock.dali.operator_classes import class_of
from penstock.errors import UnknownNameError, did_you_mean
from penstock.fn._operator_aliases import OLDER, present
from penstock.graph.tracing.registry import available

# Words that class names do not simply capitalize.
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

# Operators that Python's syntax calls, without a class.
_SPELLED_BY_PYTHON = ("arithmetic.", "getitem")


def class_name(name: str) -> str:
    """Return the class name of an operator, without its module.

    >>> class_name("readers.coco"), class_name("crop_mirror_normalize")
    ('COCO', 'CropMirrorNormalize')
    """
    return "".join(_WORDS.get(word, word.capitalize()) for word in name.rpartition(".")[2].split("_"))


def lazy_class_module(part: str, *apart: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the module of a part of `penstock.fn`.

    Args:
        part: Path of the part, such as "" or "experimental.readers".
        apart: Names that the module defines itself.
    """
    prefix = f"{part}." if part else ""
    if not part:
        # `__getattr__` alone would not serve the import statement.
        for inner in _parts():  # `import penstock.ops.readers` looks in sys.modules
            _module(inner)

    def getattr_(name: str) -> Any:
        if name == "__all__":
            return dir_()
        if name.startswith("__"):
            raise AttributeError(name)  # the import system probes for these
        if (inner := prefix + name) in _parts():
            return _module(inner)
        kind = _kinds(prefix).get(name.lower()) if not name.islower() else None
        if kind is None:
            fix = _reason(prefix + name) or did_you_mean(name, dir_())
            raise UnknownNameError(f"there is no operator ops.{prefix}{name}", fix=fix, where=user_call_site())
        return class_of(name, kind, f"penstock.ops.{part}".rstrip("."))

    def dir_() -> list[str]:
        inner = (name.removeprefix(prefix) for name in _parts() if name.startswith(prefix))
        names = map(class_name, _names(prefix))
        return sorted({*apart, *names, *(name for name in inner if name and "." not in name)})

    return getattr_, dir_


def _all() -> Iterable[str]:
    """Return the names of all operators with a class, older names included."""
    names = {name for name in available() if not name.startswith(_SPELLED_BY_PYTHON)}
    return {*names, *(f"experimental.{name}" for name in names), *(old for old, new in OLDER.items() if new in names)}


def _names(prefix: str) -> list[str]:
    return [name for name in _all() if name.startswith(prefix) and "." not in name.removeprefix(prefix)]


def _kinds(prefix: str) -> dict[str, str]:
    """Return the operators of a part by the letters of their names."""
    return {name.removeprefix(prefix).replace("_", ""): present(name) for name in _names(prefix)}


def _reason(name: str) -> str | None:
    """Return the reason why the DALI operator of a class is absent, or None."""
    letters = name.lower().removeprefix("experimental.")
    operators = [name.removeprefix("fn.") for name in ABSENT if name.startswith("fn.")]
    return next(
        (explain_absence(f"fn.{present(o)}") for o in (*operators, *OLDER) if o.replace("_", "") == letters), None
    )


def _parts() -> set[str]:
    """Return all module paths: both `io` and `io.file` for `io.file.read`."""
    parts = (name.split(".")[:-1] for name in _all())
    return {".".join(words[: count + 1]) for words in parts for count in range(len(words))}


def _module(part: str) -> ModuleType:
    """Return the module of a part, which is created at first and then found by `import`."""
    name = f"penstock.ops.{part}"
    if name not in sys.modules:
        module = ModuleType(name, f"The classes of the operators in `penstock.fn.{part}`.")
        vars(module)["__getattr__"], vars(module)["__dir__"] = lazy_class_module(part)
        sys.modules[name] = module
    return sys.modules[name]
