"""Base types that every folder shares."""

from penstock.core.call_site import CallSite as CallSite
from penstock.core.call_site import user_call_site as user_call_site
from penstock.core.call_site import with_call_site as with_call_site
from penstock.core.columns import Array as Array
from penstock.core.columns import Column as Column
from penstock.core.columns import Indices as Indices
from penstock.core.columns import RowSelection as RowSelection
from penstock.core.digests import short_digest as short_digest
from penstock.core.spec import ONE_SHAPE_FIX as ONE_SHAPE_FIX
from penstock.core.spec import Shape as Shape
from penstock.core.spec import ShapeKind as ShapeKind
from penstock.core.spec import Spec as Spec
from penstock.core.spec import bounds_or_none as bounds_or_none
