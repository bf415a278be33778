"""The layout: every package folder is declared, and imports go one way."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TREES = ("cloudai_run", "recipes", "executors")


def python_files(*trees: str) -> Iterator[Path]:
    for tree in trees:
        yield from sorted((ROOT / tree).rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package_of(folder: Path) -> str:
    relative = folder.relative_to(ROOT).parts
    return ".".join(relative if relative[0] == "cloudai_run" else ("cloudai_run", *relative))


def test_every_package_folder_is_declared():
    folders = {path.parent for path in python_files(*TREES) if path.name == "__init__.py"}
    assert {package_of(folder) for folder in folders} == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_folder_with_modules_is_a_package():
    for path in python_files(*TREES):
        assert (path.parent / "__init__.py").is_file(), f"{path.parent} has no __init__.py"


def test_every_data_file_is_declared():
    declared = PROJECT["tool"]["setuptools"]["package-data"]
    for tree in TREES:
        for path in (ROOT / tree).rglob("*"):
            if not path.is_file() or path.suffix == ".py" or "__pycache__" in path.parts:
                continue
            owners = [
                folder
                for folder in path.parents
                if (folder / "__init__.py").is_file() and folder.is_relative_to(ROOT)
            ]
            patterns = declared.get(package_of(owners[0]), [])
            assert any(path.match(str(owners[0] / pattern)) for pattern in patterns), (
                f"{path} is not declared"
            )


@pytest.mark.parametrize(
    ("tree", "forbidden"),
    [("recipes", "cloudai_run.executors"), ("executors", "cloudai_run.recipes")],
)
def test_recipes_and_executors_know_nothing_of_each_other(tree: str, forbidden: str):
    for path in python_files(tree):
        assert not any(name.startswith(forbidden) for name in imported_names(path)), path


@pytest.mark.parametrize("tree", ["recipes", "executors"])
def test_recipes_and_executors_do_not_import_the_face(tree: str):
    for path in python_files(tree):
        for name in imported_names(path):
            if name.split(".")[0] == "cloudai_run":
                assert name.startswith(f"cloudai_run.{tree}"), f"{path} imports {name}"


def test_no_file_imports_the_bare_names():
    for path in python_files(*TREES, "tests", "benchmarks"):
        heads = {name.split(".")[0] for name in imported_names(path)}
        assert not heads & {"recipes", "executors"}, path


# What is carried into the container stands alone there.
@pytest.mark.parametrize("name", ["recipes/nemo/cpu_shim.py", "recipes/nemo/exporter.py"])
def test_what_runs_in_the_container_imports_nothing_of_the_project(name: str):
    assert not any(module.startswith("cloudai_run") for module in imported_names(ROOT / name))
