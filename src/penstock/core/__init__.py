"""Base types that every folder shares."""

from penstock.core.call_site import CallSite, user_call_site, with_call_site
from penstock.core.columns import Array, Column, Indices, RowSelection
from penstock.core.digests import short_digest
from penstock.core.spec import ONE_SHAPE_FIX, Shape, ShapeKind, Spec, bounds_or_none

__all__ = [
    "ONE_SHAPE_FIX",
    "Array",
    "CallSite",
    "Column",
    "Indices",
    "RowSelection",
    "Shape",
    "ShapeKind",
    "Spec",
    "bounds_or_none",
    "short_digest",
    "user_call_site",
    "with_call_site",
]
