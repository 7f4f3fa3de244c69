"""Roles of the values of a batch: images or sound, labels, boxes, masks and points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column
from penstock.display.sample_pixels import has_image_shape
from penstock.eager import Batch
from penstock.errors import UsageError, did_you_mean, short_repr
from penstock.pipeline.tensor_list import TensorList
from penstock.sources.external.array_conversion import to_column

# Parts of names, in the order in which roles are tried: "box_labels" are labels of boxes, not boxes.
_NAMES = {
    "labels": ("label", "class", "target"),
    "boxes": ("box",),
    "masks": ("mask", "segment"),
    "points": ("point", "landmark"),
}


@dataclass(frozen=True)
class BatchRoles:
    """Values of a batch by their role, each a column with an entry per sample.

    Args:
        image_name: Name of the images; "" if they have none.
        images: Images, videos or sound.
        layout: Layout of `images`, or "" if unknown.
        extras: Labels, boxes, masks and points, by the name of the role.
        names: Names of those extras that are values of the batch, by role.
    """

    image_name: str
    images: Column
    layout: str
    extras: Mapping[str, Column]
    names: Mapping[str, str]


def find_roles(
    data: Any, chosen: Mapping[str, Any], ndims: Mapping[str, int], related: Callable[[str, str], bool]
) -> BatchRoles:
    """Find the roles of the values of a batch.

    Args:
        data: A dict of columns, a list of outputs of `Pipeline.run`, or the images alone.
        chosen: By role, "image" included, the name of a value of a dict, or data; None to choose by name.
        ndims: Number of axes of a sample by name, where known.
        related: Receives the names of the images and of another value. Returns False if that value has no role unless
            it is chosen.

    Raises:
        UsageError: The batch has no samples, no images, or no value of a chosen name.
    """
    if not isinstance(data, Mapping):
        if isinstance(data, tuple) and data and all(isinstance(item, TensorList) for item in cast(Any, data)):
            named = {f"output {number}": item for number, item in enumerate(cast(Any, data))}
            return find_roles(named, chosen, ndims, related)
        name, layout, images = "", *samples_of(data)
        values: dict[str, Any] = {}
    else:
        values = dict(cast(Mapping[str, Any], data))
        name = chosen["image"] or _first_image(values, ndims)
        if name not in values:
            raise UsageError("the batch has no value of this name", given=f"image={name!r}", fix=_fix(name, values))
        layout, images = samples_of(values.pop(name), ndims.get(name))
    extras: dict[str, Column] = {}
    names: dict[str, str] = {}
    for role in _NAMES:
        picked = chosen[role]
        if isinstance(picked, str) and picked not in values:
            raise UsageError(
                "the batch has no value of this name", given=f"{role}={picked!r}", fix=_fix(picked, values)
            )
        key = picked if isinstance(picked, str) else None
        if picked is None:
            key = next((item for item in values if _role(item) == role and related(name, item)), None)
        if key is not None:
            extras[role], names[role] = samples_of(values.pop(key), ndims.get(key))[1], key
        elif picked is not None:
            extras[role] = samples_of(picked)[1]
        if role in extras and len(extras[role]) != len(images):
            raise UsageError(
                f"{role} needs an entry for each sample", given=len(extras[role]), expected=f"{len(images)} samples"
            )
    return BatchRoles(name, images, layout, extras, names)


def samples_of(data: Any, ndim: int | None = None) -> tuple[str, Column]:
    """Return the layout, or "", and the samples of a batch, in host memory.

    Args:
        data: A batch.
        ndim: Number of axes of a sample, if known. The arrays of `jax.pmap` have two axes before those of a sample.

    Raises:
        UsageError: The batch has no samples.
    """
    if isinstance(data, TensorList):
        return data.layout(), [np.asarray(sample) for sample in cast(Any, data.as_cpu())]
    if isinstance(data, Batch):
        return data.layout, data.column
    column = to_column(data)
    if not len(column):
        raise UsageError("the batch has no samples", given=short_repr(data), expected="at least one")
    if ndim is not None and isinstance(column, np.ndarray) and column.ndim > ndim + 1:
        column = column.reshape(-1, *column.shape[column.ndim - ndim :])
    return "", column


def sample_as_batch(values: Mapping[str, Any], layout: str | None, image: str | None) -> Mapping[str, Any]:
    """Return a dict as a batch: that of a single sample, such as of `iterator.sample`, becomes a batch of one.

    A dict does not say which of the two it is. The layout tells if the user gives it. Otherwise a sample has a label or
    another extra that is a single number, arrays of different lengths and an image, or images only.

    Args:
        values: Values by name.
        layout: The user's layout of a sample; None if it is unknown.
        image: The user's name of the images; None for the first value that can be images.

    >>> sample_as_batch({"images": np.zeros((8, 6, 3)), "labels": np.int32(3)}, None, None)["images"].shape
    (1, 8, 6, 3)
    """
    # Lists and batches have samples. Numbers of Python, such as that of a step, are not values of a sample.
    if any(isinstance(value, TensorList | Batch | list | tuple) for value in values.values()):
        return values
    arrays = {name: value for name, value in values.items() if hasattr(value, "ndim") and hasattr(value, "shape")}
    images = arrays.get(image or next((name for name in arrays if _role(name) is None), ""))
    if images is None:
        return values
    if layout:
        single = images.ndim == len(layout)
    else:
        shapes = [tuple(value.shape) for value in arrays.values()]
        single = (
            any(not value.ndim and _role(name) is not None for name, value in arrays.items())
            or all(map(has_image_shape, shapes))
            or (len({shape[:1] for shape in shapes}) > 1 and has_image_shape(images.shape))
        )
    return {**values, **{name: value[None] for name, value in arrays.items()}} if single else values


def label_text(label: Array, class_names: Sequence[str] | Mapping[int, str] | None) -> str:
    """Return the text of a label: a class name if there is one, otherwise a number.

    Args:
        label: A number, an array with one, or one number per class, of which the largest counts.
        class_names: Names by class.

    >>> label_text(np.array([3]), None), label_text(np.array([0.0, 1.0]), ["cat", "dog"])
    ('3', 'dog')
    """
    flat = np.ravel(label)
    if not flat.size:
        return ""
    number = flat[0] if flat.size == 1 else int(flat.argmax())
    if not float(number).is_integer():  # NaN and infinity are not, either
        return f"{float(number):.4g}"
    return _class_text(int(number), class_names)


def _class_text(number: int, class_names: Sequence[str] | Mapping[int, str] | None) -> str:
    """Return the name of a class, or its number if it has none."""
    if isinstance(class_names, Mapping):
        return str(class_names.get(number, number))
    return str(class_names[number]) if class_names is not None and 0 <= number < len(class_names) else str(number)


def _role(name: str) -> str | None:
    return next((role for role, parts in _NAMES.items() if any(part in name.lower() for part in parts)), None)


def _first_image(values: Mapping[str, Any], ndims: Mapping[str, int]) -> str:
    """Return the name of the first value that can be images, video or sound."""
    for name, data in values.items():
        axes = ndims.get(name)
        if axes is None:
            axes = data.ndim if isinstance(data, TensorList | Batch) else np.ndim(samples_of(data)[1][0])
        if _role(name) is None and axes >= 1:
            return name
    raise UsageError("the batch has no images", given=f"values {short_repr(list(values))}", fix="image=NAME")


def _fix(name: str, values: Mapping[str, Any]) -> str:
    return did_you_mean(name, list(values)) or f"one of {', '.join(map(repr, values))}"
