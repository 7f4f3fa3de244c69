"""What a release consists of agrees: versions, metadata, changelog, workflows and hooks."""

import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

import penstock
from penstock.cli import main

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"].values()]
STEPS = [step for _, job in JOBS for step in job["steps"]]


def text_of(name):
    return (ROOT / name).read_text("utf-8")


def citation():
    return yaml.safe_load(text_of("CITATION.cff"))


def test_the_version_is_the_same_everywhere(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"penstock {penstock.__version__}\n"
    assert PROJECT["version"] == citation()["version"] == penstock.__version__
    assert (ROOT / "changes" / f"{penstock.__version__}.md").exists()


def test_the_addresses_are_the_same_everywhere():
    (repository,) = re.findall(r'^repository_url = "(.*)"', text_of("docs/conf.py"), re.MULTILINE)
    urls = PROJECT["urls"]
    assert repository == urls["Source"] == citation()["repository-code"]
    assert urls["Issues"] == f"{repository}/issues"
    assert urls["Documentation"] == urls["Homepage"] == citation()["url"]
    assert urls["Changelog"] == f"{urls['Documentation']}reference/changelog.html"
    assert f"{repository}/security/advisories/new" in text_of("SECURITY.md")


def test_the_citation_is_valid():
    fields = citation()
    assert fields["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= fields.keys()
    assert fields["type"] == "software"
    assert fields["license"] == PROJECT["license"]
    assert all(author["name"] for author in fields["authors"])


def test_the_classifiers_name_the_versions_of_python_that_get_wheels():
    stated = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert PROJECT["requires-python"] == f">={stated[0]}"
    numbers = ",".join(version.removeprefix("3.") for version in stated)
    assert PYPROJECT["tool"]["cibuildwheel"]["build"] == f"cp3{{{numbers}}}-manylinux_x86_64"
    matrix = WORKFLOWS["release.yml"]["jobs"]["compiled"]["strategy"]["matrix"]["python"]
    assert matrix == [f"cp{version.replace('.', '')}" for version in stated]


def test_every_note_of_a_change_is_in_the_changelog():
    done = subprocess.run([sys.executable, ROOT / "tools/changelog.py"], capture_output=True, text=True, check=True)
    headings = re.findall(r"^#+ .*", done.stdout, re.MULTILINE)
    notes = {path for path in (ROOT / "changes").glob("*.*.md") if not path.stem[0].isdigit()}
    assert headings[0] == "# Changelog"
    assert ("## Unreleased" in headings) == bool(notes)
    assert f"## {penstock.__version__}" in headings
    lines = {line.strip().removeprefix("* ") for line in done.stdout.splitlines()}
    for path in [*notes, *(ROOT / "changes").glob("[0-9]*.md")]:
        shown = {line.strip().removeprefix("* ") for line in path.read_text("utf-8").splitlines() if line[:1] != "#"}
        assert shown <= lines, path


def test_a_release_merges_the_notes_of_changes(tmp_path):
    for folder in ("tools", "changes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tools/changelog.py").write_text(text_of("tools/changelog.py"))
    changes = tmp_path / "changes"
    (changes / "README.md").write_text("# Changes\n")
    (changes / "1.9.0.md").write_text("# Penstock 1.9.0\n\nOld.\n\n## Data\n")
    (changes / "a.fix.md").write_text("A is\nmended.\n")
    (changes / "b.feature.md").write_text("* One\n  and a half.\n* Two.\n")

    def run(*arguments):
        command = [sys.executable, tmp_path / "tools/changelog.py", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    sections = "## Features\n\n* One\n  and a half.\n* Two.\n\n## Fixes\n\n* A is\n  mended.\n"
    assert run("--release", "1.10.0").returncode == 0
    assert {path.name for path in changes.iterdir()} == {"README.md", "1.9.0.md", "1.10.0.md"}
    assert (changes / "1.10.0.md").read_text() == f"# Penstock 1.10.0\n\n{sections}"
    nested = sections.replace("## ", "### ")
    assert run().stdout == f"# Changelog\n\n## 1.10.0\n\n{nested}\n## 1.9.0\n\nOld.\n\n### Data\n\n"
    assert "there are no changes to release" in run("--release", "1.11.0").stderr
    (changes / "c.improvement.md").write_text("C.\n")
    assert "the name must end with one of .removal.md, " in run().stderr


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_their_commits(name):
    uses = re.findall(r"uses: (.*)", text_of(f".github/workflows/{name}"))
    assert uses
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use) for use in uses)


def test_an_action_has_one_version():
    uses = {step["uses"] for step in STEPS if "uses" in step}
    assert len({use.partition("@")[0] for use in uses}) == len(uses)


def test_workflows_call_what_exists():
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    words = [step["run"].split() for step in STEPS if "run" in step]
    called = {after for command in words for word, after in pairwise(command) if word == "make"}
    assert called
    assert called <= targets
    groups = {after for command in words for word, after in pairwise(command) if word == "--group"}
    assert groups <= PYPROJECT["dependency-groups"].keys()
    commands = [*words, PYPROJECT["tool"]["cibuildwheel"]["test-command"].replace("{project}/", "").split()]
    paths = [word for command in commands for word in command if word.startswith((".ci/", "tests/"))]
    assert ".ci/run" in paths
    assert all((ROOT / path).exists() for path in paths)
    assert set(re.search(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)[1].split()) <= targets


def test_permissions_are_those_of_each_job():
    assert all(workflow["permissions"] == {} for workflow in WORKFLOWS.values())
    allowed = [{"contents": "read"}]
    environments = [job["environment"]["name"] for _, job in JOBS if job["permissions"] not in allowed]
    assert sorted(environments) == ["github-pages", "pypi"]
    assert WORKFLOWS["release.yml"]["jobs"]["publish"]["permissions"] == {"id-token": "write", "attestations": "write"}


def test_hooks_run_what_lint_runs():
    rules = (rf"^{target}:.*\n((?:\t.*\n)+)" for target in (r"\$\(VENV\)/\.types", "lint"))
    recipes = "".join(re.search(rule, MAKEFILE, re.MULTILINE)[1] for rule in rules)
    lint = recipes.replace("\ttouch $@\n", "").replace("$(BIN)", ".venv/bin")
    hooks = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    entries = [hook["entry"].removesuffix(" --fix").removesuffix(" --force-exclude") for hook in hooks]
    commands = lint.replace("ruff format --check", "ruff format").split("\n")
    assert all(any(entry in command for command in commands) for entry in entries)
    assert len(entries) == len(commands) - 1
