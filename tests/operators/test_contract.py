"""Every operator passes the contract suite in its uses in `cases`. A new operator needs an entry there.

Digests of their outputs on the host are in `golden/digests.txt`; PENSTOCK_UPDATE_GOLDEN=1 writes them again.
"""

import hashlib
import importlib
import inspect
import os
import pkgutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from case_data import INTEGERS
from cases import CASES

import penstock.operators
from penstock import fn
from penstock.graph import BatchKernel, Operator, apply
from penstock.graph.tracing.registry import _operators, registered
from penstock.testing import OperatorCase, check_docstring, check_operator
from penstock.testing.operator_checks import host_outputs


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What cases write goes to a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{name}-{n}", marks=pytest.mark.slow if n else ())
        for name, cases in CASES.items()
        for n, case in enumerate(cases)
    ],
)
def test_operator_keeps_the_contract(case):
    check_operator(case)


NOT_PINNED = (
    "audio_resample",
    "mel_filter_bank",
    "mfcc",
    "power_spectrum",
    "spectrogram",
    "to_decibels",
    "arithmetic.atan2",
    "arithmetic.fpow",
    "arithmetic.pow",
    "decoders.",
    "math.",
    "jax_function",
    "jpeg_compression_distortion",
    "noise.gaussian",
    "noise.shot",
    "peek_image_shape",
    "random.normal",
)
"""Operators whose bits are those of a library: of images, of XLA, or of mathematical functions."""


def digest(outputs):
    """Of the dtypes, shapes and bytes of samples. Zeros are alike, and so are all that are not numbers."""
    found = hashlib.sha256()
    for sample in (sample for samples in outputs for sample in samples):
        plain = sample
        if sample.dtype.kind == "f":
            plain = np.where(np.isnan(sample), sample.dtype.type(np.nan), sample + sample.dtype.type(0))
        found.update(f"{plain.dtype.str}{plain.shape}".encode() + plain.tobytes())
    return found.hexdigest()[:16]


def takes_files(case):
    return any(isinstance(column, list) and column[0].ndim == 1 and column[0].dtype == "u1" for column in case.inputs)


def test_host_outputs_are_as_they_were():
    path = Path(__file__).parent / "golden" / "digests.txt"
    digests = {
        f"{name}-{number}": digest(host_outputs(case))
        for name, cases in sorted(CASES.items())
        if not name.startswith(NOT_PINNED)
        for number, case in enumerate(cases)
        if not takes_files(case)
    }
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        path.write_text("".join(f"{name} {digest}\n" for name, digest in digests.items()))
    pinned = dict(line.split() for line in path.read_text().splitlines())
    moved = [name for name in pinned.keys() | digests.keys() if pinned.get(name) != digests.get(name)]
    assert sorted(moved) == []


@dataclass(frozen=True)
class OneMoreOnTheDevice(Operator, BatchKernel):
    """Its two ways differ by one."""

    def infer(self, numbers):
        return numbers

    def batch(self, context, numbers):
        return numbers if context.xp is np else numbers + numbers.dtype.type(1)


def test_integers_are_the_same_on_the_device_unless_a_case_rounds():
    def build(numbers):
        return apply(OneMoreOnTheDevice(), numbers)

    with pytest.raises(AssertionError, match="on the device"):
        check_operator(OperatorCase(build, [INTEGERS]))
    check_operator(OperatorCase(build, [INTEGERS], rounds=True))


def test_every_operator_has_a_case():
    built_in = {name for name in registered() if not name.startswith("test.")}
    assert built_in == set(CASES)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("arithmetic.", "math."))])
def test_operator_is_documented(name):
    check_docstring(name)


def test_fn_offers_every_operator_under_its_own_name():
    for module in pkgutil.walk_packages(penstock.operators.__path__, "penstock.operators."):
        importlib.import_module(module.name)

    def offered(part, prefix=""):
        found = {name: getattr(part, name) for name in dir(part) if not name.startswith("_") and name != "experimental"}
        parts = {name: value for name, value in found.items() if inspect.ismodule(value)}
        inner = (offered(value, f"{prefix}{name}.") for name, value in parts.items())
        return {prefix + name for name in found.keys() - parts.keys()}.union(*inner)

    spelled_otherwise = ("arithmetic.", "math.", "getitem", "test.")
    assert offered(fn) == {name for name in _operators if not name.startswith(spelled_otherwise)}
