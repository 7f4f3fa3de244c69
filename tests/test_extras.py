"""Optional packages: imports and public names that need one name the extra that installs it."""

import ast
import functools
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from penstock import DataIterator, Pipeline, fn, ops, show, tfrecord, train
from penstock.cli import main
from penstock.diagnose.benchmark import benchmark
from penstock.diagnose.process_usage import resident_bytes
from penstock.engine.input_hosts.host_metrics import serve_metrics
from penstock.errors import MissingExtraError
from penstock.graph.tracing import registry
from penstock.sources.formats.caffe.caffe2_source import write_caffe2
from penstock.sources.formats.caffe.caffe_source import write_caffe
from penstock.sources.storage.disk_cache import DiskCache
from penstock.train.iterator_checkpoint_handler import args_classes

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = re.compile(r"[\w.-]+")
# jaxlib belongs to jax; nothing else may be imported that a plain installation may lack
BASE = {"jaxlib", "penstock", "PIL"} | {NAME.match(item)[0].replace("-", "_") for item in PROJECT["dependencies"]}


def providers(extra):
    """The packages of an extra, as modules are spelled."""
    return [NAME.match(item)[0].replace("-", "_") for item in PROJECT["optional-dependencies"][extra]]


def typing_only(tree):
    """The nodes below `if TYPE_CHECKING:`."""
    guarded = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    return {inner for node in guarded for statement in node.body for inner in ast.walk(statement)}


def text_of(node, tree):
    """The text of a literal, of the beginning of an f-string, or of a constant of the module."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0]
    if isinstance(node, ast.Name):
        assigned = [a.value for a in tree.body if isinstance(a, ast.Assign) and ast.unparse(a.targets[0]) == node.id]
        node = assigned[0] if assigned else node
    return node.value if isinstance(node, ast.Constant) else None


def imports(path):
    """Modules that a file imports, with the extra that the import names or None."""
    tree = ast.parse(path.read_text())
    for node in set(ast.walk(tree)) - typing_only(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module, None
        elif isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            if function == "optional_import.import_extra":
                yield text_of(node.args[0], tree), text_of(node.args[1], tree)
            elif function.endswith("import_module"):
                yield text_of(node.args[0], tree) or "penstock", None  # a computed name is one of the package's


# Dynamic mode converts to tensors of PyTorch for programs that use it. Its wheels depend on the accelerator.
NO_EXTRA = {"torch"}


@functools.cache
def all_imports():
    return list(_all_imports())


def _all_imports():
    for path in sorted((ROOT / "src").rglob("*.py")):
        for module, extra in imports(path):
            root = module.partition(".")[0]
            if root not in sys.stdlib_module_names | BASE | NO_EXTRA and path.name != "optional_import.py":
                yield path.relative_to(ROOT), root, extra


def test_every_import_of_an_optional_package_names_its_extra():
    found = all_imports()
    assert [(path, package) for path, package, extra in found if extra is None] == []
    for path, package, extra in found:
        assert any(name.startswith(package) for name in providers(extra)), (path, package, extra)
    assert {extra for _, _, extra in found} == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize(
    "text",
    [
        "import lmdb",
        "def f():\n    from lmdb import open",
        "import importlib\nimportlib.import_module('lmdb.x')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import lmdb\nelse:\n    import lmdb",
    ],
)
def test_the_search_sees_every_form_of_an_import(text, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(text)
    assert any(module.startswith("lmdb") and extra is None for module, extra in imports(file))


def measure():
    pipeline = Pipeline(batch_size=2)
    with pipeline:
        pipeline.set_outputs(fn.readers.arrays([1, 2]))
    return benchmark(DataIterator(pipeline, ["x"]), 1.0)


def encoded():
    return fn.constant(np.zeros(4, np.uint8))


FEATURES = {"x": tfrecord.FixedLenFeature([], tfrecord.int64, 0)}
CLIP = {"filenames": ["a.mp4"], "sequence_length": 2}
RECORDS = [(b"jpeg", 0)]
NEEDS = [
    ("array_record", "fn.readers.array_record", lambda: fn.readers.array_record(paths="a")),
    ("soundfile", "fn.readers.nemo_asr", lambda: fn.readers.nemo_asr(manifest_filepaths=["a.json"])),
    ("soundfile", "fn.decoders.audio", lambda: fn.decoders.audio(encoded())),
    ("soundfile", "ops.decoders.Audio", lambda: ops.decoders.Audio()(encoded())),
    (
        "pycocotools",
        "fn.readers.coco",
        lambda: fn.readers.coco(file_root=".", annotations_file="a.json", pixelwise_masks=True),
    ),
    ("astropy", "fn.readers.fits", lambda: fn.readers.fits(files=["a.fits"])),
    ("astropy", "fn.experimental.readers.fits", lambda: fn.experimental.readers.fits(files=["a.fits"])),
    ("lmdb", "write_caffe", lambda: write_caffe("none", RECORDS)),
    ("lmdb", "write_caffe2", lambda: write_caffe2("none", RECORDS)),
    ("lz4", "fn.decoders.inflate", lambda: fn.decoders.inflate(encoded(), shape=3)),
    ("lz4", "fn.experimental.inflate", lambda: fn.experimental.inflate(encoded(), shape=3)),
    ("nvidia", "fn.decoders.image", lambda: fn.decoders.image(encoded(), backend="nvimgcodec")),
    ("nvidia", "fn.decoders.image_crop", lambda: fn.decoders.image_crop(encoded(), backend="nvimgcodec", crop=(1, 1))),
    ("nvidia", "fn.decoders.image_slice", lambda: fn.decoders.image_slice(encoded(), 0.0, 1.0, backend="nvimgcodec")),
    (
        "nvidia",
        "fn.decoders.image_random_crop",
        lambda: fn.decoders.image_random_crop(encoded(), backend="nvimgcodec"),
    ),
    ("cloudpickle", "fn.external_source(parallel=True)", lambda: fn.external_source(lambda n: n, parallel=True)),
    ("pyarrow", "fn.readers.parquet", lambda: fn.readers.parquet(paths="a.parquet")),
    ("grpc", "input_hosts", lambda: Pipeline(batch_size=1, input_hosts=["127.0.0.1:1"])),
    ("prometheus_client", "penstock serve --metrics", lambda: serve_metrics(None, 0, "127.0.0.1")),
    ("obstore", "fn.readers.file(s3)", lambda: fn.readers.file(files=["s3://bucket/a.jpg"])),
    ("obstore", "fn.readers.file(gs)", lambda: fn.readers.file(file_root="gs://bucket/a")),
    ("obstore", "fn.readers.file(az)", lambda: fn.readers.file(file_list="az://bucket/a.txt")),
    ("obstore", "fn.readers.file(https)", lambda: fn.readers.file(files=["https://host/a.jpg"])),
    ("obstore", "fn.readers.numpy(s3)", lambda: fn.readers.numpy(files=["s3://bucket/a.npy"])),
    ("obstore", "fn.readers.webdataset(s3)", lambda: fn.readers.webdataset(paths=["s3://bucket/a.tar"], ext=["jpg"])),
    ("obstore", "fn.readers.tfrecord(s3)", lambda: fn.readers.tfrecord(path=["s3://bucket/a"], features=FEATURES)),
    ("obstore", "fn.readers.caffe(s3)", lambda: fn.readers.caffe(path="s3://bucket/a")),
    ("obstore", "fn.readers.caffe2(s3)", lambda: fn.readers.caffe2(path="s3://bucket/a")),
    ("obstore", "fn.readers.mxnet(s3)", lambda: fn.readers.mxnet(path=["s3://bucket/a"], index_path=["s3://bucket/b"])),
    (
        "obstore",
        "fn.readers.coco(s3)",
        lambda: fn.readers.coco(file_root="s3://bucket/a", annotations_file="s3://bucket/a.json"),
    ),
    ("xxhash", "Cache", lambda: DiskCache("none", 1)),
    ("gilknocker", "penstock bench (GIL)", lambda: measure()),
    ("psutil", "penstock bench (memory)", resident_bytes),
    ("matplotlib", "show", lambda: show(np.zeros((1, 2, 2, 3), np.uint8))),
    ("matplotlib", "train.History.plot", lambda: train.History().plot("none.png")),
    ("orbax", "train.Checkpoint", lambda: train.Checkpoint("none")),
    ("orbax", "train.IteratorCheckpointHandler", args_classes.__wrapped__),  # an earlier test may have called it
    ("orbax", "train.restore_weights", lambda: train.restore_weights("none", np.zeros(1))),
    ("tqdm", "train.ProgressBar", train.ProgressBar),
    ("tensorboardX", "train.TensorBoardLogger", lambda: train.TensorBoardLogger("none")),
    ("wandb", "train.WandbLogger", train.WandbLogger),
    ("av", "fn.decoders.video", lambda: fn.decoders.video(encoded())),
    ("av", "fn.experimental.decoders.video", lambda: fn.experimental.decoders.video(encoded())),
    ("av", "fn.inputs.video", lambda: fn.inputs.video(sequence_length=2)),
    ("av", "fn.experimental.inputs.video", lambda: fn.experimental.inputs.video(sequence_length=2)),
    ("av", "fn.readers.video", lambda: fn.readers.video(**CLIP)),
    ("av", "fn.experimental.readers.video", lambda: fn.experimental.readers.video(**CLIP)),
    ("av", "fn.readers.video_resize", lambda: fn.readers.video_resize(**CLIP, size=3)),
    ("av", "ops.readers.Video", lambda: ops.readers.Video(**CLIP)()),
]
"""The package that is missing, the public name that needs it, and a use of the name."""


def extras_of(package):
    return {extra for _, imported, extra in all_imports() if imported == package}


def hide(monkeypatch, package):
    """Make the imports of a package fail, as where it is not installed."""
    monkeypatch.setitem(sys.modules, package, None)
    for module in [*sys.modules]:
        if module.startswith(f"{package}."):
            monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.parametrize(("package", "use"), [pytest.param(package, use, id=name) for package, name, use in NEEDS])
def test_a_use_without_the_extra_names_it(package, use, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    hide(monkeypatch, package)
    with Pipeline(batch_size=1, num_threads=1), pytest.raises(MissingExtraError) as error:
        use()
    assert f"needs the package '{package}" in str(error.value)
    assert any(f'pip install "penstock[{extra}]"' in str(error.value) for extra in extras_of(package))
    assert not list(tmp_path.iterdir())


def test_every_optional_package_has_a_use():
    assert {package for package, _, _ in NEEDS} == {package for _, package, _ in all_imports()}


def test_every_name_whose_help_tells_of_an_extra_has_a_use():
    names = {name.partition("(")[0] for _, name, _ in NEEDS}
    assert fn.flip
    operators = {f"fn.{name}": inspect.unwrap(registry.lookup(name)) for name in registry.registered()}
    offered = {f"train.{name}": getattr(train, name) for name in train.__all__}
    offered |= {"train.History.plot": train.History.plot}
    needy = {
        name
        for name, value in {**operators, **offered}.items()
        if re.search("Needs the extra|MissingExtraError", getattr(value, "__doc__", None) or "")
    }
    assert len(needy) >= 12
    assert needy <= names


def test_packing_names_the_extra_of_its_format(monkeypatch, tmp_path, capsys, jpeg):
    (tmp_path / "photos" / "class").mkdir(parents=True)
    (tmp_path / "photos" / "class" / "0.jpg").write_bytes(jpeg(np.zeros((8, 8, 3), np.uint8)))
    hide(monkeypatch, "array_record")
    arguments = ["pack", str(tmp_path / "photos"), str(tmp_path / "packed"), "--names", "jpg,cls", "--threads", "1"]
    assert main([*arguments, "--format", "array_record"]) != 0
    assert 'pip install "penstock[array-record]"' in capsys.readouterr().err
    hide(monkeypatch, "tqdm")
    assert main([*arguments, "--format", "tar"]) == 0


def test_importing_everything_needs_no_extra():
    packages = {package for _, package, _ in all_imports()}
    code = (
        "import importlib, pkgutil, sys\n"
        f"sys.modules.update(dict.fromkeys({packages}))\n"
        "import penstock\n"
        "for found in pkgutil.walk_packages(penstock.__path__, 'penstock.'):\n"
        "    found.name.endswith('__main__') or importlib.import_module(found.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
