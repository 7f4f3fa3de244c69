"""Tests of invalid arguments: each public function returns a correct result or raises a PenstockError with the line.

The arguments are generated from the signatures of the functions.
"""

import inspect
import math
import os
import re
import tracemalloc
import typing
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from right_uses import ALSO_NEED, USES, files, images

import penstock
import penstock.math
from penstock import (
    DataIterator,
    LastBatchPolicy,
    Pipeline,
    data_iterator,
    fn,
    ops,
    peekable_data_iterator,
    tfrecord,
    train,
    types,
)
from penstock.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment
from penstock.auto_aug.core import Augmentation, Policy
from penstock.data_node import DataNode
from penstock.errors import (
    ArgumentTypeError,
    ContextError,
    DefinitionError,
    PenstockError,
    SampleError,
    SourceError,
    StateError,
    UnknownNameError,
    UsageError,
)
from penstock.graph.arguments.argument_checks import type_hints
from penstock.graph.arguments.argument_groups import CommonArguments, group_hints
from penstock.graph.tracing.registry import OperatorFunction, lookup, registered
from penstock.launch import detect_job, launch
from penstock.pipeline import do_not_convert
from penstock.plugin.jax import clu
from penstock.rocal.pipeline import Pipeline as RocalPipeline
from penstock.rocal.plugin.jax import ROCALJaxIterator, convert_to_jax_array
from penstock.rocal.types import data_type_function
from penstock.tensors import TensorCPU, TensorListCPU, TensorListGPU

# The folder that the programs read also has a database, which is no class.
pytestmark = pytest.mark.filterwarnings("ignore:.*class folder:penstock.errors.PenstockWarning")


@pytest.fixture(autouse=True, scope="module")
def elsewhere(tmp_path_factory):
    """Run in a temporary folder, because some operators write files."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("written"))
    yield
    os.chdir(before)


def pipeline(build=images, **arguments):
    with Pipeline(**{"batch_size": 2, "exec_async": False, **arguments}) as result:
        result.set_outputs(build())
    return result


def first(build=images, iterator=(), **arguments):
    """Return the first batch of an iterator."""
    return next(DataIterator(pipeline(build, **arguments), ["x"], **{"reader_name": "r", **dict(iterator)}))


def step(state, batch):
    return state


def fit(**arguments):
    return train.fit(step, np.float32(0), train.batches(np.ones(16, np.float32), 8), **arguments)


def foreign():
    with Pipeline(batch_size=2):
        node = images()
    return fn.flip(node)


def fed(**arguments):
    """Return the fed batch of a pipeline."""
    one = pipeline(lambda: fn.external_source(name="s", dtype=types.FLOAT64, ndim=1))
    one.feed_input(**arguments)
    return one.run()


def restored(**arguments):
    one = DataIterator(pipeline(), ["x"], reader_name="r")
    one.set_state(**{"state": one.get_state(), **arguments})
    return next(one)


NAN = math.nan
MISTAKES = {
    "a text for a flag": (lambda: first(lambda: fn.crop_mirror_normalize(images(), mirror="no")), ArgumentTypeError),
    "NaN for a flag": (lambda: first(lambda: fn.crop_mirror_normalize(images(), mirror=NAN)), DefinitionError),
    "a fraction for a flag": (lambda: first(lambda: fn.flip(images(), horizontal=0.5)), ArgumentTypeError),
    "no such device": (lambda: first(device_id=99), UsageError),
    "a fraction of an epoch": (lambda: fit(epochs=1.5), UsageError),
    "fewer than no epochs": (lambda: fit(epochs=-1), UsageError),
    "True for a number of epochs": (lambda: fit(epochs=True), UsageError),
    "a class for a callback": (lambda: fit(epochs=1, callbacks=[train.StopOnSignal]), UsageError),
    "a seed of 65 bits": (lambda: first(seed=2**64), UsageError),
    "a fraction for a seed": (lambda: first(seed=1.5), UsageError),
    "a text for a seed": (lambda: first(seed="a"), UsageError),
    "a negative size": (lambda: first(lambda: fn.crop(images(), crop=(-1, 4))), DefinitionError),
    "windows of no area": (
        lambda: first(lambda: fn.random_resized_crop(images(), size=4, random_area=[0, 0])),
        DefinitionError,
    ),
    "a node of another pipeline": (lambda: first(foreign), ContextError),
    "no depth": (lambda: first(prefetch_queue_depth=None), UsageError),
    "a negative depth": (lambda: first(prefetch_queue_depth=-1), UsageError),
    "a negative depth in a dict": (lambda: first(prefetch_queue_depth={"cpu_size": -3}), UsageError),
    "an epoch of NaN": (lambda: first(iterator={"size": NAN, "reader_name": None}), UsageError),
    "an epoch of fractions": (lambda: first(iterator={"size": 2.5, "reader_name": None}), UsageError),
    "too many classes": (lambda: first(lambda: fn.one_hot(images(), num_classes=10**10)), DefinitionError),
    "too many numbers": (lambda: first(lambda: fn.random.uniform(shape=10**12)), DefinitionError),
    "too many attempts": (
        lambda: first(lambda: fn.random_resized_crop(images(), size=4, num_attempts=10**7)),
        DefinitionError,
    ),
    "too many iterations": (lambda: first(lambda: fn.dilate(images(), iterations=10**7)), DefinitionError),
    "a file's name with a character 0": (lambda: train.Checkpoint("saves\0"), UsageError),
    "three numbers for two": (
        lambda: first(lambda: rand_augment.rand_augment(images(), n=1, m=3, max_translate_abs=(1, 2, 3))),
        ArgumentTypeError,
    ),
    "a bin of another kind": (
        lambda: first(lambda: trivial_augment.trivial_augment_wide(images(), num_magnitude_bins="many")),
        ArgumentTypeError,
    ),
    "too long a window": (lambda: first(lambda: fn.spectrogram(images(), window_length=2**45)), DefinitionError),
    "too many outputs": (lambda: first(lambda: fn.external_source(num_outputs=2**45)), DefinitionError),
    "a data type for a number": (lambda: first(lambda: fn.rotate(images(), angle=types.FLOAT)), ArgumentTypeError),
    "a number for a data type": (lambda: first(lambda: fn.cast(images(), dtype=np.float32(0.5))), ArgumentTypeError),
    "texts for a data type": (lambda: first(lambda: fn.cast(images(), dtype=["a"] * 10**5)), ArgumentTypeError),
    "True for a data type": (lambda: first(lambda: fn.cast(images(), dtype=True)), ArgumentTypeError),
    "what has a place by a name": (lambda: first(lambda: fn.readers.mix(images(), readers=5)), ArgumentTypeError),
    "a text for a list": (lambda: first(lambda: fn.readers.items("no")), ArgumentTypeError),
    "no devices": (lambda: train.replicate_for_pmap(np.ones(2), devices=[]), UsageError),
    "a device twice": (lambda: train.data_mesh(jax.devices()[:1] * 2), UsageError),
    "a ragged matrix": (lambda: first(lambda: fn.coord_transform(images(), M=[[1], [2, 3]])), ArgumentTypeError),
    "numbers that are none": (lambda: first(lambda: fn.slice(images(), [[1], [2, 3]], [2, 2])), ArgumentTypeError),
    "too large a mask": (lambda: pipeline(lambda: fn.dilate(images(), mask_size=10**9)).run(), DefinitionError),
    "an unhashable device": (lambda: first(lambda: fn.copy(types.Constant(1, device=[]))), ArgumentTypeError),
    "too large a constant": (lambda: first(lambda: fn.copy(types.Constant(1, shape=10**12))), DefinitionError),
    "what cannot be shown": (lambda: first(lambda: fn.rotate(images(), angle=[Unfriendly()])), ArgumentTypeError),
    "a keyword that cannot be shown": (
        lambda: first(lambda: fn.flip(images(), horizontal={1: Unfriendly()})),
        ArgumentTypeError,
    ),
    "no type of a library": (lambda: types.to_dali_type(Unfriendly()), ArgumentTypeError),
    "no type of NumPy": (lambda: types.to_numpy_type(types.STRING), ArgumentTypeError),
    "a feature of no type": (lambda: tfrecord.FixedLenFeature([], Unfriendly(), 0), DefinitionError),
    "a feature of a fraction": (lambda: tfrecord.FixedLenFeature([2.5], tfrecord.int64, 0), ArgumentTypeError),
    "a feature without a default": (lambda: tfrecord.VarLenFeature(tfrecord.int64), ArgumentTypeError),
    "samples that are no arrays": (lambda: TensorListCPU([Unfriendly()]), ArgumentTypeError),
    "a layout of another length": (lambda: TensorListCPU([np.ones(2)], "HWC"), DefinitionError),
    "ragged samples": (lambda: np.asarray(TensorListCPU([np.ones(2), np.ones(3)])), DefinitionError),
    "no array of a device": (lambda: TensorListGPU(None), ArgumentTypeError),
    "a number for a function": (lambda: do_not_convert(3), ArgumentTypeError),
    "no serialized pipeline": (lambda: Pipeline.deserialize(Unfriendly()), StateError),
    "a name that only DALI has": (lambda: types.unique, UnknownNameError),
    "no array of another library": (lambda: convert_to_jax_array(3), ArgumentTypeError),
    "labels before a batch": (lambda: RocalPipeline(batch_size=2).get_image_labels(), ContextError),
    "samples of two kinds": (
        lambda: pipeline(lambda: fn.external_source([1.5, 2], batch=False)).run(),
        SourceError,
    ),
    "too many rows": (lambda: first(batch_size=10**9), UsageError),
    "too many threads": (lambda: first(num_threads=10**9), UsageError),
    "a word that is near": (lambda: first(placement="hots"), UsageError),
    "a definition without its argument": (
        lambda: data_iterator(lambda path: images(), ["x"], reader_name="r")(batch_size=2),
        ArgumentTypeError,
    ),
    "an unknown argument": (lambda: train.batches(np.ones(8), 8, shufle=True), ArgumentTypeError),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_invalid_arguments_raise_before_anything_runs(name):
    make, error = MISTAKES[name]
    with pytest.raises(error) as caught:
        make()
    assert f"{__file__}:" in str(caught.value)


def test_refused_arguments_allocate_little_memory():
    """Functions that refuse an argument do not allocate memory for it first."""
    for name, (make, error) in MISTAKES.items():
        tracemalloc.start()
        with pytest.raises(error):
            make()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 26, name


def test_message_names_wrong_element_and_expected_value():
    with pytest.raises(UsageError) as caught:
        fit(epochs=1, callbacks=[train.StopOnSignal])
    assert "at [0]" in str(caught.value)
    assert "an instance: StopOnSignal(...)" in str(caught.value)
    with pytest.raises(UsageError, match="did you mean 'host'"):
        first(placement="hots")


def test_none_means_not_given():
    mirrored = first(lambda: fn.crop_mirror_normalize(images(), mirror=None))["x"]
    assert mirrored.tolist() == first(lambda: fn.crop_mirror_normalize(images()))["x"].tolist()


def test_integral_floats_are_accepted():
    def labels():
        return fn.readers.arrays([1, 2, 3, 0], name="r")

    whole, floats = (first(lambda n=n: fn.one_hot(labels(), num_classes=n))["x"] for n in (4, 4.0))
    assert whole.tolist() == floats.tolist()


def test_arrays_are_on_selected_device():
    device = jax.local_devices()[3]
    assert first(device_id=3)["x"].devices() == {device}
    assert first(lambda: fn.cast(images(), dtype=types.FLOAT), device_id=3, placement="device")["x"].devices() == {
        device
    }


def test_exception_without_message_is_named_by_type():
    def fails_later(x):
        if x.any():
            raise KeyError
        return x

    with pytest.raises(SampleError, match="KeyError"):
        first(lambda: fn.python_function(images(), function=fails_later))


OPERATORS = [name for name in registered() if not name.startswith(("arithmetic.", "getitem", "testing."))]


def _list(made):
    return made if isinstance(made, tuple | list) else list(made.values()) if isinstance(made, dict) else [made]


def used(name, arguments):
    """Build a pipeline with one use of an operator."""
    if name in USES:
        return pipeline(lambda: _list(USES[name](**arguments))[0])
    function = lookup(name)
    return pipeline(
        lambda: _list(
            function(**arguments)
            if name.startswith("random.")
            else function(files() if name.startswith(("decoders", "peek")) else images(), **arguments)
        )[0]
    )


class Unfriendly:
    """Object without a usable repr, comparison or length."""

    def __repr__(self):
        raise RuntimeError("no")

    def __array__(self, *_):
        raise RuntimeError("no")


WRONG = [
    *(None, True, False, 0, 1, -1, 2.0, 2.5, -0.5, NAN, math.inf, 2**45, 2**63, 2**64, -(2**64)),
    *(
        "",
        "no",
        "HWC",
        "\0",
        b"bytes",
        [],
        (),
        [1],
        [1.5, 2],
        [NAN],
        ["a"],
        [[1], [2, 3]],
        [None],
        (1, 2, 3, 4, 5),
        [2**64],
    ),
    *({}, {"a": 1}, {1, 2}, object(), Unfriendly(), int, len, types.FLOAT, types.RGB, LastBatchPolicy.PAD, 1j),
    *(np.float32(0.5), np.array(3), np.array([1, 2]), np.array(["a"]), np.array([], np.float32), np.zeros((2, 2))),
]


def names_of(function):
    functions = {"fn", "function", "metric", "pipeline_fn", "step"}  # None asks for a decorator, any other may be one
    others = {"return", "common", "arguments", "loader", "options", "self", "hints"}
    named = isinstance(function, OperatorFunction) and not function.name.startswith(("math.", "jax_function"))
    common = {*group_hints(CommonArguments)} - {"seed"} if named else set()
    return sorted({*type_hints(inspect.unwrap(function)), *common} - functions - others)


@st.composite
def mistakes(draw, functions):
    """Draw a function and one or two arbitrary arguments."""
    name, function = draw(st.sampled_from(sorted(functions.items())))
    chosen = draw(st.lists(st.sampled_from(names_of(function)), min_size=1, max_size=2, unique=True))
    return name, {argument: draw(st.sampled_from(WRONG)) for argument in chosen}


def check(run):
    """Check that a call succeeds or raises a PenstockError with a line of this file."""
    try:
        run()
    except PenstockError as error:
        said = str(error)
    else:
        return
    assert re.search(r"(test_iterator_options|right_uses)\.py:\d", said), said
    assert "internal error" not in said, said


SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(mistakes({name: lookup(name) for name in OPERATORS}))
def test_operators_accept_or_refuse_any_argument(mistake):
    name, arguments = mistake
    check(lambda: used(name, arguments).run())


def augmented(function, **usual):
    """Return a use of an augmentation function."""
    return function, lambda a: pipeline(lambda: function(**{"data": images(), **usual, **a})).run()


def rocal(**arguments):
    made = RocalPipeline(**{"batch_size": 2, "num_threads": 1, **arguments})
    with made:
        made.set_outputs(images())
    return made


def computed(function):
    """Return a use of a function of `penstock.math` on floats."""

    def use(arguments):
        def build():
            floats = fn.cast(images(), dtype=types.FLOAT)
            return function(**{**dict.fromkeys(inspect.signature(function).parameters, floats), **arguments})

        return pipeline(build).run()

    return function, use


AUGMENT = {
    "auto_augment": augmented(auto_augment.auto_augment),
    "apply_auto_augment": augmented(auto_augment.apply_auto_augment, policy=auto_augment.get_image_net_policy()),
    "rand_augment": augmented(rand_augment.rand_augment, n=1, m=3),
    "apply_rand_augment": augmented(
        rand_augment.apply_rand_augment, augmentations=rand_augment.get_rand_augment_suite(), n=1, m=3
    ),
    "trivial_augment_wide": augmented(trivial_augment.trivial_augment_wide),
    "apply_trivial_augment": augmented(
        trivial_augment.apply_trivial_augment, augmentations=trivial_augment.get_trivial_augment_wide_suite()
    ),
    **{
        name: (function, lambda a, function=function: function(**a))
        for name, function in {
            "get_image_net_policy": auto_augment.get_image_net_policy,
            "get_reduced_cifar10_policy": auto_augment.get_reduced_cifar10_policy,
            "get_svhn_policy": auto_augment.get_svhn_policy,
            "get_rand_augment_suite": rand_augment.get_rand_augment_suite,
            "get_rand_augment_non_monotonic_suite": rand_augment.get_rand_augment_non_monotonic_suite,
            "get_trivial_augment_wide_suite": trivial_augment.get_trivial_augment_wide_suite,
        }.items()
    },
    "Policy": (
        Policy.__init__,
        lambda a: Policy(
            **{"name": "p", "num_magnitude_bins": 4, "sub_policies": [[(augmentations.rotate, 1, 3)]], **a}
        ),
    ),
    "Augmentation": (
        Augmentation.__call__,
        lambda a: pipeline(
            lambda: augmentations.shear_x(**{"data": images(), "magnitude_bin": 3, "num_magnitude_bins": 11, **a})
        ).run(),
    ),
}

CALLS = {
    **AUGMENT,
    **{
        f"math.{name}": computed(function)
        for name, function in vars(penstock.math).items()
        if inspect.isfunction(function) and function.__module__ == "penstock.math"
    },
    "Compose": (ops.Compose.__init__, lambda a: ops.Compose(**{"op_list": [ops.Flip()], **a})),
    "rocal.Pipeline": (RocalPipeline.__init__, lambda a: rocal(**a).core.run()),
    "ROCALJaxIterator": (ROCALJaxIterator.__init__, lambda a: next(ROCALJaxIterator(**{"pipelines": rocal(), **a}))),
    "DataNode.shape": (DataNode.shape, lambda a: pipeline(lambda: images().shape(**a)).run()),
    "DataNode.property": (
        DataNode.property,
        lambda a: pipeline(lambda: images().property(**{"key": "source_info", **a})).run(),
    ),
    "set_layout": (TensorCPU.set_layout, lambda a: pipeline().run()[0][0].set_layout(**{"layout": "HWC", **a})),
    "ProgressBar": (train.ProgressBar.__init__, lambda a: train.ProgressBar(**a)),
    "Pipeline": (Pipeline.__init__, lambda a: pipeline(**a).run()),
    "DataIterator": (
        DataIterator.__init__,
        lambda a: next(DataIterator(**{"pipelines": pipeline(), "output_map": ["x"], "reader_name": "r", **a})),
    ),
    **{
        name: (
            make,
            lambda a, make=make: next(
                make(**{"pipeline_fn": images, "output_map": ["x"], "reader_name": "r", **a})(
                    batch_size=8, exec_async=False
                )
            ),
        )
        for name, make in {"data_iterator": data_iterator, "peekable": peekable_data_iterator}.items()
    },
    "pipeline_def": (
        penstock.pipeline_def,
        lambda a: penstock.pipeline_def(**{"fn": images, "batch_size": 2, "exec_async": False, **a})().run(),
    ),
    "fit": (train.fit, lambda a: fit(**{"steps": 1, **a}) if "step" not in a and "iterator" not in a else None),
    "batches": (train.batches, lambda a: next(train.batches(**{"arrays": np.ones(16), "batch_size": 8, **a}))),
    "data_parallel": (train.data_parallel, lambda a: train.data_parallel(**{"step": step, **a})),
    "data_mesh": (train.data_mesh, lambda a: train.data_mesh(**a)),
    "batch_sharding": (train.batch_sharding, lambda a: train.batch_sharding(**a)),
    "replicated_sharding": (train.replicated_sharding, lambda a: train.replicated_sharding(**a)),
    "replicate": (train.replicate, lambda a: train.replicate(**{"tree": np.ones(2), **a})),
    "replicate_for_pmap": (train.replicate_for_pmap, lambda a: train.replicate_for_pmap(**{"tree": np.ones(2), **a})),
    "TerminateOnNaN": (train.TerminateOnNaN.__init__, lambda a: train.TerminateOnNaN(**a)),
    "EarlyStopping": (
        train.EarlyStopping.__init__,
        lambda a: train.EarlyStopping(**{"monitor": "loss", "mode": "min", **a}),
    ),
    "LogMetrics": (train.LogMetrics.__init__, lambda a: train.LogMetrics(**{"loggers": [], **a})),
    "CSVLogger": (train.CSVLogger.__init__, lambda a: train.CSVLogger(**{"path": "metrics.csv", **a})),
    "TensorBoardLogger": (
        train.TensorBoardLogger.__init__,
        lambda a: train.TensorBoardLogger(**{"directory": "events", **a}),
    ),
    "accumulate_gradients": (
        train.accumulate_gradients,
        lambda a: train.accumulate_gradients(**{"gradient": step, "accumulate": 2, **a}),
    ),
    "restore_weights": (
        train.restore_weights,
        lambda a: train.restore_weights(**{"directory": "saves", "target": np.ones(2), **a}),
    ),
    "StopOnSignal": (train.StopOnSignal.__init__, lambda a: train.StopOnSignal(**a)),
    "Evaluate": (
        train.Evaluate.__init__,
        lambda a: train.Evaluate(**{"metric": step, "iterator": [], **a}),
    ),
    "Checkpoint": (train.Checkpoint.__init__, lambda a: train.Checkpoint(**{"folder": "saves", **a})),
    "StallMonitor": (train.StallMonitor.__init__, lambda a: train.StallMonitor(**{"iterator": [], **a})),
    "plot": (train.History.plot, lambda a: train.History().plot(**{"path": "curves.png", **a})),
    "evaluate": (
        train.evaluate,
        lambda a: train.evaluate(
            **{"metric": lambda _, batch: batch["x"], "state": 0, "iterator": train.batches(np.ones(8), 8), **a}
        ),
    ),
    "unreplicate": (train.unreplicate, lambda a: train.unreplicate(**{"tree": np.ones(2), **a})),
    "unreplicate_from_pmap": (
        train.unreplicate_from_pmap,
        lambda a: train.unreplicate_from_pmap(**{"tree": train.replicate_for_pmap(np.ones(2)), **a}),
    ),
    "feed_input": (Pipeline.feed_input, lambda a: fed(**{"data_node": "s", "data": [np.ones(2)] * 2, **a})),
    "build": (Pipeline.build, lambda a: Pipeline(batch_size=2).build(**{"define_graph": images, **a})),
    "reader_meta": (Pipeline.reader_meta, lambda a: pipeline().reader_meta(**a)),
    "epoch_size": (Pipeline.epoch_size, lambda a: pipeline().epoch_size(**a)),
    "restore": (DataIterator.set_state, lambda a: restored(**a)),
    "get_spec_for_array": (
        clu.get_spec_for_array,
        lambda a: clu.get_spec_for_array(**{"array": jax.numpy.ones(2), **a}),
    ),
    "launch": (launch, lambda a: launch(**{"command": ["true"], "processes": 1, **a})),
    "detect": (detect_job, lambda a: detect_job(**a)),
    "to_numpy_type": (types.to_numpy_type, lambda a: types.to_numpy_type(**a)),
    "to_dali_type": (types.to_dali_type, lambda a: types.to_dali_type(**a)),
    "data_type_function": (data_type_function, lambda a: data_type_function(**a)),
    "Constant": (
        types.Constant,
        lambda a: pipeline(lambda: fn.copy(types.Constant(**{"value": 3, **a}))).run(),
    ),
    "Feature": (
        tfrecord.Feature.__init__,
        lambda a: tfrecord.FixedLenFeature(**{"shape": [], "dtype": tfrecord.int64, "default_value": 0, **a}),
    ),
    "TensorListCPU": (TensorListCPU.__init__, lambda a: TensorListCPU(**{"samples": np.ones((2, 3)), **a})),
    "broadcast": (
        TensorListCPU.broadcast,
        lambda a: TensorListCPU.broadcast(**{"tensor": np.ones(2), "num_samples": 2, **a}),
    ),
    "as_reshaped_tensor": (
        TensorListCPU.as_reshaped_tensor,
        lambda a: TensorListCPU(np.ones((2, 3))).as_reshaped_tensor(**{"shape": [6], **a}),
    ),
    "serialize": (Pipeline.serialize, lambda a: pipeline().serialize(**a)),
    "deserialize": (Pipeline.deserialize, lambda a: Pipeline.deserialize(**{"serialized_pipeline": "{}", **a})),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_function_arguments_are_accepted_or_refused(name):
    """Tests every third value for one argument at a time; neighbors test the values between."""
    function, call = CALLS[name]
    for number, argument in enumerate(names_of(function)):
        for wrong in WRONG[(number + list(CALLS).index(name)) % 3 :: 3]:
            long = argument in {"steps", "epochs"} and type(wrong) is int and wrong == 2**45
            own = argument == "define_graph" and callable(wrong)
            if not long and not own:
                check(lambda argument=argument, wrong=wrong: call({argument: wrong}))


@SETTINGS
@given(mistakes({name: function for name, (function, _) in CALLS.items()}))
def test_functions_accept_or_refuse_any_argument(mistake):
    name, arguments = mistake
    check(lambda: CALLS[name][1](arguments))


@pytest.mark.parametrize("name", USES)
def test_valid_uses_run(name):
    if name not in ALSO_NEED:
        used(name, {}).run()


@pytest.mark.parametrize("turn", range(12))
def test_each_argument_is_checked_separately(turn):
    """Tests another value for one argument of each operator at a time."""
    for number, name in enumerate(OPERATORS):
        names = names_of(lookup(name))
        arguments = {names[(number + 5 * turn) % len(names)]: WRONG[(7 * number + turn) % len(WRONG)]}
        check(lambda name=name, arguments=arguments: used(name, arguments).run())


def test_every_public_function_is_covered():
    functions = {name for name in train.__all__ if callable(getattr(train, name))}
    # Their constructors take nothing, or what another package checks.
    free = {"Callback", "History", "IteratorCheckpointHandler", "Logger", "TrainLoop", "WandbLogger"}
    assert functions - set(CALLS) == free
    for module in (auto_augment, rand_augment, trivial_augment):
        own = {name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
        public = {name for name in own if not name.startswith("_")}
        assert public - set(CALLS) <= {"auto_augment_image_net", "get_reduced_image_net_policy", "without"}
    for name in OPERATORS:
        assert "self" not in names_of(lookup(name))
        assert all(typing.get_origin(hint) is not str for hint in type_hints(inspect.unwrap(lookup(name))).values())
