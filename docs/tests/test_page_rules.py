"""How pages are written: docs/README.md states these rules."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts
}
BLOCK = re.compile(r"^(`{3,}|:{3,})\{?([\w-]*)\}?(.*)\n((?:.*\n)*?)\1$", re.MULTILINE)
STATIC = {"console", "text", "yaml", "toml"}
# These pages describe a subject as a whole; all other pages in how-to/ are recipes.
LONG = {
    "how-to/augment/boxes-and-masks.md",
    "how-to/augment/jax-functions.md",
    "how-to/data/formats-and-stores.md",
    "how-to/data/sources.md",
    "how-to/debug/eager.md",
    "how-to/debug/pictures.md",
    "how-to/extend/operators.md",
    "how-to/run/processes.md",
    "how-to/train/training.md",
    "how-to/tune/diagnosis.md",
}
RECIPES = [name for name in PAGES if name.startswith("how-to/") and name not in LONG and "/migrate/" not in name]
# What needs an extra, in code that runs.
EXTRAS = {
    "array-record": r"readers\.array_record\(",
    "audio": r"decoders\.audio\(|nemo_asr\(",
    "coco": r"pixelwise_masks=True",
    "fits": r"readers\.fits\(",
    "hosts": r"input_hosts=\w+|\"serve\"",
    "lmdb": r"readers\.caffe2?\(|write_caffe2?\(",
    "parquet": r"readers\.parquet\(|import pyarrow",
    "pictures": r"\b(?:iterator|penstock)\.show\(",
    "stores": r"\"(?:s3|gs)://|\"https?://",
    "tensorboard": r"TensorBoardLogger\(",
    "train": r"train\.(?:Checkpoint|ProgressBar|IteratorSave|restore_weights)\(|history\.plot\(",
    "video": r"readers\.video|decoders\.video\(|inputs\.video\(",
    "wandb": r"WandbLogger\(",
}


def cells(text):
    """The code that runs, without options."""
    for _, kind, _, body in BLOCK.findall(text):
        if kind == "code-cell":
            yield re.sub(r"^:.*\n", "", body, flags=re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in PAGES if name not in {"README.md", "index.md"}])
def test_code_runs_or_is_marked_as_static(name):
    kinds = {(fence, kind) for fence, kind, _, _ in BLOCK.findall(PAGES[name])}
    languages = {kind for fence, kind in kinds if fence.startswith("`")}
    if name.startswith("how-to/migrate/"):
        languages -= {"python"}  # programs of other libraries
    assert languages & {"", "python", "py"} == set(), f"blocks that do not run are {', '.join(sorted(STATIC))}"
    assert PAGES[name].startswith("---\nfile_format: mystnb\n") or "code-cell" not in languages


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_one_short_program(name):
    lines = [line for code in cells(PAGES[name]) for line in code.splitlines() if line.strip()]
    assert len(lines) <= 40


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if any(cells(text)) and name != "index.md"])
def test_a_page_names_its_extras_first(name):
    code = "\n".join(cells(PAGES[name]))
    first = PAGES[name].partition("\n# ")[2].partition("\n\n")[2].partition("\n\n")[0]
    missing = [
        extra for extra, use in EXTRAS.items() if re.search(use, code) and not re.search(rf"[\[,]{extra}[\],]", first)
    ]
    assert missing == [], f'the first line of the page must say: pip install "penstock[{",".join(missing)}]"'
