"""Recipes as YAML, JSON and TOML: equal when read back, and a hostile file does nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import nemo_run as run
import pytest
from hypothesis import given, settings

from cloudai_run.recipes import serialize, yaml_text
from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import llama3_8b, nemo_recipe, schema
from cloudai_run.recipes.nemo.tree import to_tree
from tests.golden import assert_golden
from tests.recipes_nemo.test_nemo_tree import exact, small
from tests.recipes_nemo.values import values

GOLDEN = Path(__file__).parent / "golden"
WRITE: dict[str, Callable[[run.Partial], str]] = {
    "yaml": serialize.to_yaml,
    "json": serialize.to_json,
    "toml": serialize.to_toml,
}
READ: dict[str, Callable[[str], run.Partial]] = {
    "yaml": serialize.from_yaml,
    "json": serialize.from_json,
    "toml": serialize.from_toml,
}
KINDS = pytest.mark.parametrize("kind", WRITE)


@KINDS
def test_text_is_as_reviewed(kind: str) -> None:
    recipe = llama3_8b(container_image="nvcr.io/nvidia/nemo:25.09", env={"A": "b c"})
    recipe.resume = None
    recipe.model.config.window_size = (128, 0)
    assert_golden(GOLDEN / "files" / f"llama3_8b.{kind}", WRITE[kind](recipe))


@KINDS
def test_recipes_of_each_family_are_equal_when_read_back(kind: str) -> None:
    for name in list(schema.load().recipes)[::4]:
        recipe = nemo_recipe(name, env={"LIMIT": "1e-4", "EMPTY": ""})
        again = READ[kind](WRITE[kind](recipe))
        assert again == recipe
        assert exact(to_tree(again)) == exact(to_tree(recipe))


@KINDS
@given(value=values)
@settings(deadline=None, max_examples=60)
def test_any_value_is_equal_when_read_back(kind: str, value: object) -> None:
    recipe = small(value)
    assert exact(to_tree(READ[kind](WRITE[kind](recipe)))) == exact(to_tree(recipe))


@KINDS
def test_numbers_without_end_are_kept(kind: str) -> None:
    recipe = small([math.inf, -math.inf, math.nan])
    again = READ[kind](WRITE[kind](recipe)).trainer.strategy.value_of_any_kind
    assert again[:2] == [math.inf, -math.inf]
    assert math.isnan(again[2])


@KINDS
def test_files_are_read_by_their_suffix(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"recipe.{kind}"
    path.write_text(WRITE[kind](llama3_8b()))
    assert exact(serialize.read_tree(path)) == exact(to_tree(llama3_8b()))


def test_a_number_in_exponent_form_is_a_number() -> None:
    assert yaml_text.load("lr: 1e-4") == {"lr": 1e-4}
    assert yaml_text.load("lr: '1e-4'") == {"lr": "1e-4"}
    assert yaml_text.load(yaml_text.dump({"lr": "1e-4"})) == {"lr": "1e-4"}


def test_null_in_toml_is_the_documented_table() -> None:
    text = serialize.to_toml(llama3_8b())
    assert "[log.wandb]\n_null_ = true\n" in text
    assert serialize.from_toml(text).log.wandb is None
    inline = text.replace("[log.wandb]\n_null_ = true\n", "").replace(
        "[log]\n", "[log]\nwandb = { _null_ = true }\n"
    )
    assert serialize.from_toml(inline) == llama3_8b()


GOOD = serialize.to_yaml(llama3_8b())


def bomb() -> str:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40))]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", "!!python/object/apply:os.system ['touch pwned']", "is no YAML: could not determine a constructor "
                   "for the tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
        ("a.yaml", bomb(), "line 2: references (*a0) are not allowed"),
        ("a.yaml", "a: [1", "is no YAML: while parsing a flow sequence"),
        ("a.yaml", "a: 1\na: 2", "line 1: the key a is given twice"),
        ("a.yaml", "a: &x\n  <<: *x", "line 2: references (*x) are not allowed"),
        ("a.yaml", "", "is no recipe: it has no `_target_` at the top"),
        ("a.yaml", "- 1", "is no recipe: it has no `_target_` at the top"),
        ("a.yaml", "a:\n  1: 2", "a has the key 1, which is no text: write _items_: [[key, value], ...]"),
        ("a.yaml", "a:\n  - day: 2024-01-01", "a[0].day is a date, which no recipe holds: put text in quotes"),
        ("a.yaml", "a: !!binary aGk=", "a is a bytes, which no recipe holds: put text in quotes"),
        ("a.yaml", "a: !!set {b}", "a is a set, which no recipe holds: put text in quotes"),
        ("a.yaml", "[" * 100_000, "is nested too deep"),
        ("a.yaml", GOOD.replace("max_steps", "max_step"), "trainer (nemo.lightning.pytorch.trainer.Trainer) has no "
                   "parameter max_step"),
        ("a.yaml", GOOD.replace("nemo.utils.exp_manager.TimingCallback", "os.system"),
         "trainer.callbacks[0]: NeMo 2.7.3 has no os.system that a recipe can use"),
        ("a.yaml", GOOD.replace("schema_id: nemo_2_7_3", "schema_id: nemo_1_0"), "no schema nemo_1_0 in "),
        ("a.yaml", GOOD.replace("schema_id: nemo_2_7_3", "schema_id: ../../etc/passwd"),
         "no schema ../../etc/passwd in "),
        ("a.json", "{", "Expecting property name enclosed in double quotes"),
        ("a.json", '{"a": 1, "a": 2}', "has the key a twice"),
        ("a.json", "[" * 100_000, "is nested too deep"),
        ("a.json", '{"a": ' * 100 + "1" + "}" * 100, f"{'a.' * 30} is nested too deep"),
        ("a.json", "null", "is no recipe: it has no `_target_` at the top"),
        ("a.json", '{"a": {"_null_": false}}', "a: null is written { _null_ = true }, with nothing else in the table"),
        ("a.toml", "a = ", "Invalid value (at end of document)"),
        ("a.toml", "a = 1\na = 2", "Cannot overwrite a value (at end of document)"),
        ("a.toml", "a = 2024-01-01", "a is a date, which no recipe holds: put text in quotes"),
        ("a.toml", "a = { _null_ = true, b = 1 }", "a: null is written { _null_ = true }"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(RecipeError) as raised:
        serialize.read_tree(path)
    text = str(raised.value)
    assert text.startswith((f"{path}: {message}", f"{path} {message}"))
    assert len(text.splitlines()) <= 3
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "has none of the endings .yaml, .yml, .json, .toml"),
        ("a.yaml", None, "cannot be read: No such file or directory"),
        ("a.yaml", b"\xff\xfe", "is not valid UTF-8"),
        ("a.yaml", b"#" * (serialize.MAX_BYTES + 1), "is larger than 4 MiB, which no recipe is"),
    ],
)
def test_an_unreadable_file_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecipeError) as raised:
        serialize.read_tree(path)
    assert str(raised.value) == f"{path} {message}"


def test_the_source_is_named() -> None:
    with pytest.raises(RecipeError, match=r"^my notes is no recipe"):
        serialize.from_json(json.dumps({}), "my notes")


def test_paxml_recipes_are_written_too() -> None:
    from cloudai_run.recipes import catalogue

    recipe = catalogue.find_factory("grok1")()
    for kind in WRITE:
        assert READ[kind](WRITE[kind](recipe)) == recipe
