"""`path=@file`: values and whole nodes from YAML, JSON and TOML, and what a bad file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run.errors import UserError
from cloudai_run.overrides import apply, parse
from cloudai_run.overrides.schema import Tree
from cloudai_run.recipes.nemo.schema import load
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
SQUAD = "nemo.collections.llm.gpt.data.squad.SquadDataModule"

BF16: Tree = {"_target_": "torch.bfloat16", "_call_": False}
GOOD: list[tuple[str, str, str, Tree]] = [
    ("trainer.max_steps", "n.yaml", "5\n", 5),
    ("trainer.max_steps", "n.json", "5", 5),
    ("optim.config.lr", "n.yaml", "1e-4", 0.0001),
    ("optim.config.lr", "n.yaml", "null", None),
    ("log.name", "n.yaml", "'1e-4'", "1e-4"),
    ("log.name", "n.yml", "a b: it's\n".replace(": ", "; "), "a b; it's"),
    ("log.name", "n.json", '"[a]"', "[a]"),
    ("data.rampup_batch_size", "n.yaml", "- 32\n- 32\n- 1000\n", [32, 32, 1000]),
    ("trainer.max_time", "n.toml", "minutes = 5\n", {"minutes": 5}),
    ("model.config.window_size", "n.json", '{"_tuple_": [128, 0]}', {"_tuple_": [128, 0]}),
    ("trainer.strategy.pipeline_dtype", "n.yaml", "torch.bfloat16", BF16),
    ("data", "n.yaml", f"_target_: {SQUAD}\nseq_length: 64\n", {"_target_": SQUAD, "seq_length": 64}),
    (
        "+trainer.strategy.options",
        "n.toml",
        "a = [1, 2.5]\nb = { _null_ = true }\n",
        {"a": [1, 2.5], "b": None},
    ),
    ("+trainer.strategy.when", "n.yaml", "2025-01-31\n", "2025-01-31"),
]

BAD: list[tuple[str, str, bytes]] = [
    ("trainer.max_steps", "text.txt", b"5"),
    ("trainer.max_steps", "abc.yaml", b"abc"),
    ("trainer.max_steps", "broken.json", b"{"),
    ("trainer.max_steps", "broken.toml", b"5"),
    ("trainer.max_steps", "broken.yaml", b"a: [1\nb: 2"),
    ("trainer.max_steps", "tag.yaml", b"!!python/object/apply:os.system ['touch pwned']"),
    ("trainer.max_steps", "bytes.yaml", b"\xff\xfe\xff"),
    ("trainer.max_steps", "empty.yaml", b""),
    ("trainer.max_steps", "huge.json", b"9" * 5000),
    ("trainer.max_steps", "deep.json", b"[" * 100_000),
    ("optim.config.lr", "nan.json", b"NaN"),
    ("optim.config.lr", "inf.yaml", b".inf"),
    ("+trainer.strategy.options", "twice.json", b'{"a": 1, "a": 2}'),
    ("+trainer.strategy.options", "key.yaml", b"1: 2"),
    ("+trainer.strategy.options", "set.yaml", b"!!set {a, b}"),
    ("+trainer.strategy.options", "repr.yaml", b"_repr_: <object>"),
    ("+trainer.strategy.options", "name.yaml", b"_target_: os.system\n_call_: false\n"),
    ("+trainer.strategy.options", "call.yaml", b"_target_: os.system\ncommand: touch pwned\n"),
    ("data", "class.yaml", b"_target_: os.system\ncommand: touch pwned\n"),
    ("data", "factory.yaml", b"_target_: x\n_factory_: sqad\n"),
    ("data", "type.yaml", f"_target_: {SQUAD}\nseq_length: long\n".encode()),
]


@pytest.mark.parametrize(("path", "name", "content", "expected"), GOOD)
def test_value_from_a_file(
    path: str, name: str, content: str, expected: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content, encoding="utf-8")
    schema = load()
    tree: Tree = apply(parse([f"{path}=@{name}"]), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")
    for part in path.lstrip("+").split("."):
        assert isinstance(tree, dict)
        tree = tree[part]
    assert tree == expected
    assert type(tree) is type(expected)


def test_named_object_and_partial_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dtype.yaml").write_text("_target_: torch.bfloat16\n_call_: false\n")
    schema = load()
    words = ["trainer.strategy.pipeline_dtype=@dtype.yaml"]
    trainer = apply(parse(words), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")["trainer"]
    assert isinstance(trainer, dict)
    assert isinstance(trainer["strategy"], dict)
    assert trainer["strategy"]["pipeline_dtype"] == {"_target_": "torch.bfloat16", "_call_": False}


def test_file_in_a_folder_whose_name_has_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "my files"
    folder.mkdir()
    (folder / "n.json").write_text("5")
    schema = load()
    tree = apply(
        parse([f"trainer.max_steps=@{folder}/n.json"]), schema.recipe_tree("llama3_8b"), schema, "llama3_8b"
    )
    assert isinstance(tree["trainer"], dict)
    assert tree["trainer"]["max_steps"] == 5


def refusal(word: str) -> str:
    """Returns the message with which a word is refused."""
    schema = load()
    with pytest.raises(UserError) as caught:
        apply(parse([word]), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")
    return str(caught.value)


def test_bad_files_are_refused_with_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks: list[str] = []
    for path, name, content in BAD:
        (tmp_path / name).write_bytes(content)
        text = refusal(f"{path}=@{name}")
        assert len(text.splitlines()) <= 6, text
        blocks.append(f"$ {path}=@{name}\nerror: {text}\n")
    (tmp_path / "folder.yaml").mkdir()
    for word in ("data=@none.yaml", "data=@", "data=@folder.yaml", "data=@/dev/null"):
        blocks.append(f"$ {word}\nerror: {refusal(word)}\n")
    assert_golden(GOLDEN / "files.txt", "\n".join(blocks).replace(str(tmp_path), "FOLDER"))
    assert not (tmp_path / "pwned").exists()


def test_multiplying_references_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (tmp_path / "bomb.yaml").write_text("\n".join(lines))
    assert "holds more than 50000 values" in refusal("+trainer.strategy.options=@bomb.yaml")
    (tmp_path / "loop.yaml").write_text("&a [*a]")
    assert "is nested too deep" in refusal("+trainer.strategy.options=@loop.yaml")
