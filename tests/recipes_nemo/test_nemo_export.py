"""The shipped schema is what the exporter finds in the installed NeMo."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from cloudai_run.recipes import catalogue
from cloudai_run.recipes.nemo import exporter, schema
from cloudai_run.recipes.nemo.schema import Schema
from cloudai_run.recipes.nemo.tree import to_tree


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    """Exports llama3_8b in a process of its own: importing NeMo changes the process."""
    folder = tmp_path_factory.mktemp("export")
    # The script is copied: it has to stand alone.
    script = folder / "exporter.py"
    script.write_bytes(Path(exporter.__file__).read_bytes())
    output = folder / "mine.jsonl.xz"
    subprocess.run(
        [
            sys.executable,
            str(script),
            "--recipe",
            "llama3_8b",
            "--image",
            "an/image:1",
            "--output",
            str(output),
        ],
        cwd=folder,
        check=True,
    )
    return schema.read_schema("mine", output)


@pytest.mark.nemo
def test_llama3_8b_is_as_shipped(exported: Schema) -> None:
    shipped = schema.load()
    assert exported.recipes["llama3_8b"] == shipped.recipes["llama3_8b"]
    assert set(exported.recipes) == {"llama3_8b"}
    for name in exported.targets:
        assert exported.targets[name] == shipped.targets[name], name
    assert len(exported.targets) >= 17
    for name, members in exported.enums.items():
        assert members == shipped.enums[name]
    assert exported.image == "an/image:1"
    assert exported.versions["nemo_toolkit"] == shipped.versions["nemo_toolkit"]


@pytest.mark.nemo
def test_an_unknown_recipe_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, exporter.__file__, "--recipe", "llama3_9b", "--output", str(tmp_path / "x")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "error: NeMo has no recipe llama3_9b; it has baichuan2_7b, " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()


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


@pytest.mark.nemo
def test_the_factories_give_what_nemos_own_give_for_any_size(tmp_path: Path) -> None:
    program = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import exporter\n"
        "from nemo.collections import llm\n"
        "trees = {name: exporter.encode(getattr(llm, name).pretrain_recipe(num_nodes=3, num_gpus_per_node=5))\n"
        "         for name in sys.argv[3:]}\n"
        "open(sys.argv[2], 'w').write(json.dumps(trees))\n"
    )
    output, names = tmp_path / "trees.json", list(catalogue.descriptions())[:9]
    folder = str(Path(exporter.__file__).parent)
    subprocess.run([sys.executable, "-c", program, folder, str(output), *names], cwd=tmp_path, check=True)
    nemos = json.loads(output.read_text())
    for name in names:
        ours = to_tree(catalogue.find_factory(name)(num_nodes=3, num_gpus_per_node=5))
        del ours["workload"]
        assert ours == nemos[name], name
