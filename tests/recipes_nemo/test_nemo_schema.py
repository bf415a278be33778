"""The shipped schema and schemas of other NeMo versions in the user's folder."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import nemo_recipe, remote, schema
from cloudai_run.recipes.nemo.schema import Schema
from cloudai_run.recipes.nemo.tree import from_tree, to_tree
from tests.recipes_nemo.trees import node_at

TRAINER = "nemo.lightning.pytorch.trainer.Trainer"
STRATEGY = "nemo.lightning.pytorch.strategies.megatron_strategy.MegatronStrategy"
LLAMA3_8B = "nemo.collections.llm.gpt.model.llama.Llama3Config8B"


@pytest.fixture
def known() -> Schema:
    return schema.load()


def lines_of_shipped() -> list[str]:
    path = schema.schema_files()[schema.DEFAULT_ID]
    return lzma.decompress(path.read_bytes()).decode().split("\n")


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress("\n".join(lines).encode()))


@pytest.fixture
def other_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Puts a schema of a made-up NeMo 9.9 into the user's folder: max_steps is gone, max_updates is new."""
    lines = lines_of_shipped()
    header = json.loads(lines[0])
    header["versions"]["nemo_toolkit"], header["image"] = "9.9", "registry/nemo:9.9"
    row = len(lines) - 1 - len(header["targets"]) + header["targets"].index(TRAINER)
    trainer = json.loads(lines[row])
    assert "max_steps" in trainer["params"]
    trainer["params"]["max_updates"] = trainer["params"].pop("max_steps")
    lines[0], lines[row] = json.dumps(header), json.dumps(trainer)
    recipe_row = 1 + list(header["recipes"]).index("llama3_8b")
    recipe = json.loads(lines[recipe_row])
    recipe["config"]["trainer"]["max_updates"] = recipe["config"]["trainer"].pop("max_steps")
    lines[recipe_row] = json.dumps(recipe)
    write(tmp_path / "nemo-9.9.jsonl.xz", lines)
    monkeypatch.setenv("CLOUDAI_RUN_SCHEMA_DIR", str(tmp_path))
    return "nemo_9_9"


def test_versions_are_marked(known: Schema) -> None:
    assert known.id == "nemo_2_7_3"
    assert known.title == "NeMo 2.7.3"
    assert known.image is None
    assert known.versions["megatron-core"] == "0.15.3"
    assert known.versions["lightning"] == "2.4.0"


def test_parameters_have_type_default_and_requirement(known: Schema) -> None:
    trainer = known.target(TRAINER)
    assert trainer.params["max_steps"] == schema.Param("max_steps", "int", -1, False)
    assert trainer.params["devices"].type == ["union", ["list", "int"], "str", "int"]
    assert known.target("nemo.lightning.pytorch.callbacks.nsys.NsysCallback").params["start_step"].required
    assert known.target(LLAMA3_8B).params["hidden_size"].default == 4096
    assert known.target(LLAMA3_8B).params["params_dtype"] == schema.Param(
        "params_dtype", "dtype", {"_target_": "torch.float32", "_call_": False}, False, parser="text"
    )
    assert known.target(LLAMA3_8B).params["window_size"].type == ["union", ["tuple", "int", "int"], "none"]
    assert known.target(LLAMA3_8B).params["attention_backend"].type == [
        "enum",
        "megatron.core.transformer.enums.AttnBackend",
    ]
    assert known.target(STRATEGY).params["fsdp"].type == ["union", ["literal", "megatron", "pytorch"], "none"]
    assert known.enums["megatron.core.transformer.enums.AttnBackend"] == (
        "flash",
        "fused",
        "unfused",
        "local",
        "auto",
    )


def test_inherited_parameters_and_bases_are_whole(known: Schema) -> None:
    target = known.target(LLAMA3_8B)
    assert len(target.params) == 222
    assert target.is_a("megatron.core.transformer.transformer_config.TransformerConfig")
    assert target.is_a("megatron.core.model_parallel_config.ModelParallelConfig")
    assert not target.is_a(TRAINER)
    assert target.params["num_layers"].default == 32
    assert known.target("nemo.collections.llm.gpt.model.llama.Llama3Config").params["num_layers"].default == 0


@pytest.mark.parametrize(
    ("path", "takes_kwargs"),
    [
        ("trainer.strategy", True),
        ("log.ckpt", True),
        ("log.tensorboard", True),
        ("data", False),
        ("trainer", False),
    ],
)
def test_nodes_that_take_any_name_are_known(known: Schema, path: str, takes_kwargs: bool) -> None:
    node = node_at(known.recipe_tree("llama3_8b"), path)
    assert known.target(str(node["_target_"])).var_kwargs is takes_kwargs


def test_a_class_without_signature_has_its_documented_parameters(known: Schema) -> None:
    timedelta = known.target("datetime.timedelta")
    assert timedelta.no_signature
    assert list(timedelta.params) == [
        "days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"
    ]  # fmt: skip


def test_factories_are_listed_by_type(known: Schema) -> None:
    data = known.factories["lightning.pytorch.core.datamodule.LightningDataModule"]
    assert list(data) == ["dolly", "hf_dataset", "mock", "squad"]
    squad = data["squad"]
    assert squad.returns == "nemo.collections.llm.gpt.data.squad.SquadDataModule"
    assert squad.config == {
        "_target_": squad.returns,
        "seq_length": 4096,
        "micro_batch_size": 2,
        "global_batch_size": 16,
    }
    assert known.find_factory("squad", squad.returns) == squad
    assert known.find_factory("squad", TRAINER) is None


def test_how_nemos_command_line_reads_a_parameter_is_known(known: Schema) -> None:
    params = known.target(LLAMA3_8B).params
    assert params["num_layers"].parser == "typed"
    assert params["activation_func"].parser == "text"


def test_recipe_trees_are_copies(known: Schema) -> None:
    tree = known.recipe_tree("llama3_8b")
    tree["trainer"] = None
    assert known.recipe_tree("llama3_8b")["trainer"] is not None


def test_aliases_lead_to_the_same_target(known: Schema) -> None:
    assert known.target("nemo.lightning.Trainer") is known.target(TRAINER)
    assert known.aliases["torch.half"] == "torch.float16"
    assert "torch.bfloat16" in known.dtypes


def test_unknown_target_is_refused_with_the_nearest(known: Schema) -> None:
    with pytest.raises(RecipeError) as raised:
        known.target("nemo.lightning.pytorch.trainer.Trainr")
    assert str(raised.value).startswith(
        "NeMo 2.7.3 has no nemo.lightning.pytorch.trainer.Trainr that a recipe can use\n"
        "  did you mean nemo.lightning.pytorch.trainer.Trainer"
    )


def test_loading_needs_neither_nemo_run_nor_fiddle() -> None:
    program = (
        "import sys; from cloudai_run.recipes import catalogue\n"
        "from cloudai_run.recipes.nemo import schema\n"
        "schema.load().targets['datetime.timedelta'], catalogue.descriptions()\n"
        "print(sorted({'nemo_run', 'fiddle', 'yaml', 'torch', 'numpy'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_two_versions_live_in_one_process(other_schema: str) -> None:
    other, shipped = nemo_recipe("llama3_8b", schema_id=other_schema), nemo_recipe("llama3_8b")
    other.trainer.max_updates = 5
    shipped.trainer.max_steps = 5
    with pytest.raises(AttributeError, match="No parameter named 'max_updates'"):
        shipped.trainer.max_updates = 5
    with pytest.raises(AttributeError, match="No parameter named 'max_steps'"):
        other.trainer.max_steps = 5
    assert other != shipped
    assert from_tree(to_tree(other)) == other
    assert node_at(to_tree(other), "workload")["schema_id"] == "nemo_9_9"
    assert remote.nemo_9_9.nemo.lightning.Trainer is not remote.nemo_2_7_3.nemo.lightning.Trainer


def test_an_image_finds_the_schema_that_was_exported_in_it(other_schema: str) -> None:
    assert schema.for_image("registry/nemo:9.9") == other_schema
    assert schema.for_image("registry/nemo:9.8") == schema.for_image(None) == schema.DEFAULT_ID
    assert nemo_recipe("llama3_8b", container_image="registry/nemo:9.9").workload.schema_id == other_schema
    assert nemo_recipe("llama3_8b").workload.schema_id == schema.DEFAULT_ID


def test_a_changed_file_is_read_again(other_schema: str, tmp_path: Path) -> None:
    assert schema.load(other_schema).image == "registry/nemo:9.9"
    path = tmp_path / "nemo-9.9.jsonl.xz"
    lines = lzma.decompress(path.read_bytes()).decode().split("\n")
    write(path, [lines[0].replace("registry/nemo:9.9", "registry/nemo:9.10"), *lines[1:]])
    assert schema.load(other_schema).image == "registry/nemo:9.10"


def test_unknown_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDAI_RUN_SCHEMA_DIR", str(tmp_path))
    with pytest.raises(RecipeError) as raised:
        schema.load("nemo_2_7_4")
    assert str(raised.value) == f"no schema nemo_2_7_4 in {tmp_path}\n  did you mean nemo_2_7_3?"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no xz", "is not a schema file: Input format not supported by decoder"),
        (lzma.compress(b"[1]"), "is not a schema file: list indices must be integers or slices, not str"),
        (lzma.compress(b"{"), "is not a schema file: Expecting property name"),
        (lzma.compress(b'{"schema_version": 7}'), "has schema version 7; this release reads version 1"),
        (lzma.compress(b'{"schema_version": 1}'), "is not a schema file: 'recipes'"),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    path = tmp_path / "mine.jsonl.xz"
    path.write_bytes(content)
    monkeypatch.setenv("CLOUDAI_RUN_SCHEMA_DIR", str(tmp_path))
    with pytest.raises(RecipeError) as raised:
        schema.load("mine")
    assert str(raised.value).startswith(f"{path} {message}")


def test_a_file_cut_short_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "mine.jsonl.xz", lines_of_shipped()[:50])
    monkeypatch.setenv("CLOUDAI_RUN_SCHEMA_DIR", str(tmp_path))
    with pytest.raises(RecipeError, match="is not a schema file: it ends too early"):
        schema.load("mine")


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CLOUDAI_RUN_SCHEMA_DIR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert schema.schema_folder() == tmp_path / "cloudai-run" / "schemas"


def test_another_image_of_the_shipped_version_has_a_schema_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_of_shipped()
    header = json.loads(lines[0]) | {"image": "registry/nemo:mine"}
    write(tmp_path / "nemo-2.7.3.jsonl.xz", [json.dumps(header), *lines[1:]])
    monkeypatch.setenv("CLOUDAI_RUN_SCHEMA_DIR", str(tmp_path))
    assert schema.for_image("registry/nemo:mine") == "user_nemo_2_7_3"
    assert schema.load().image is None
    assert (
        nemo_recipe("llama3_8b", container_image="registry/nemo:mine").workload.schema_id == "user_nemo_2_7_3"
    )
