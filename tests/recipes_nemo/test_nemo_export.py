"""The shipped schema is what the exporter finds in the installed NeMo."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cloudai_run.recipes import catalogue
from cloudai_run.recipes.nemo import exporter, schema
from cloudai_run.recipes.nemo.schema import Schema, Tree
from cloudai_run.recipes.nemo.tree import to_tree

NAMES = list(catalogue.descriptions())[:9]
# One process for all, since importing NeMo takes 10 to 20 s. The script is a copy: it has to stand alone.
PROGRAM = """
import json, sys
import exporter
from nemo.collections import llm

exporter.main(["--recipe", "llama3_8b", "--image", "an/image:1", "--output", "mine.jsonl.xz"])
trees = {
    name: exporter.encode(getattr(llm, name).pretrain_recipe(num_nodes=3, num_gpus_per_node=5))
    for name in sys.argv[1:]
}
with open("trees.json", "w") as file:
    json.dump(trees, file)
exporter.main(["--recipe", "llama3_9b", "--output", "none.jsonl.xz"])
"""


@dataclass(frozen=True)
class Exported:
    """What the exporter made of the installed NeMo.

    Attributes:
        schema: The schema of llama3_8b alone.
        trees: NeMo's own recipes for 3 nodes of 5 GPUs, by name.
        exit_code: Of an export of a recipe that does not exist.
        stderr: Its last line.
    """

    schema: Schema
    trees: dict[str, dict[str, Tree]]
    exit_code: int
    stderr: str


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("export")
    (folder / "exporter.py").write_bytes(Path(exporter.__file__).read_bytes())
    (folder / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py", *NAMES], cwd=folder, capture_output=True, text=True)
    assert (folder / "trees.json").is_file(), done.stderr
    assert not (folder / "none.jsonl.xz").exists()
    return Exported(
        schema=schema.read_schema("mine", folder / "mine.jsonl.xz"),
        trees=json.loads((folder / "trees.json").read_text()),
        exit_code=done.returncode,
        stderr=done.stderr.splitlines()[-1],
    )


@pytest.mark.nemo
def test_llama3_8b_is_as_shipped(exported: Exported) -> None:
    shipped, found = schema.load(), exported.schema
    assert found.recipes["llama3_8b"] == shipped.recipes["llama3_8b"]
    assert set(found.recipes) == {"llama3_8b"}
    for name in found.targets:
        assert found.targets[name] == shipped.targets[name], name
    assert len(found.targets) >= 17
    for name, members in found.enums.items():
        assert members == shipped.enums[name]
    assert found.image == "an/image:1"
    assert found.versions["nemo_toolkit"] == shipped.versions["nemo_toolkit"]


@pytest.mark.nemo
def test_an_unknown_recipe_is_named(exported: Exported) -> None:
    assert exported.exit_code == 2
    assert exported.stderr.startswith("error: NeMo has no recipe llama3_9b; it has baichuan2_7b, ")


@pytest.mark.nemo
@pytest.mark.parametrize("name", NAMES)
def test_the_factories_give_what_nemos_own_give_for_any_size(exported: Exported, name: str) -> None:
    ours = to_tree(catalogue.find_factory(name)(num_nodes=3, num_gpus_per_node=5))
    del ours["workload"]
    assert ours == exported.trees[name]


def test_lines_hold_a_header_and_then_what_it_names() -> None:
    whole = {
        "schema_version": 1,
        "recipes": {"r": {"description": "d", "config": {}}},
        "factories": {"t": {"f": {"returns": "x"}}},
        "targets": {"a.B": {"kind": "class"}},
    }
    lines = [json.loads(line) for line in exporter.to_lines(whole)]
    assert lines == [
        {"schema_version": 1, "recipes": {"r": "d"}, "factories": {"t": ["f"]}, "targets": ["a.B"]},
        {"description": "d", "config": {}},
        {"returns": "x"},
        {"kind": "class"},
    ]


def test_targets_are_folded_only_where_that_loses_nothing() -> None:
    one, two = {"type": "int"}, {"type": "str"}
    base = {"kind": "class", "dataclass": True, "bases": [], "params": {"a": one, "b": one}}
    described = {
        "Base": base,
        "Same": {**base, "bases": ["Base"], "params": {"a": one, "b": two, "c": one}},
        "Reordered": {**base, "bases": ["Base"], "params": {"b": one, "a": one}},
        "Without": {**base, "bases": ["Base"], "params": {"a": one}},
        "Mixed": {**base, "bases": ["Mixin", "Base"], "params": {"a": one, "b": one}},
    }
    folded = exporter.fold(described)
    assert folded["Same"]["like"] == "Base"
    assert folded["Same"]["params"] == {"b": two, "c": one}
    assert "bases" not in folded["Same"]
    assert [name for name, target in folded.items() if "like" in target] == ["Same", "Mixed"]
    assert folded["Mixed"]["bases"] == ["Mixin", "Base"]


def test_types_are_structural() -> None:
    assert exporter._members(["union", "int", "none"]) == ["int", "none"]
    assert exporter._members("int") == ["int"]


def test_the_shipped_file_is_deterministic_and_small() -> None:
    path = schema.schema_files()[schema.DEFAULT_ID]
    assert path.stat().st_size < 64 * 1024
    lines = lzma.decompress(path.read_bytes()).decode().split("\n")
    for line in lines[:-1]:
        assert json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=False) == line
    assert lines[-1] == ""
