"""The knobs that experiment classes have, as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml import schema, spec

NVIDIA = "paxml.tasks.lm.params.nvidia"
CONFIGS = "paxml.contrib.gpu.scripts_gpu.configs"


@pytest.fixture
def user_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CLOUDAI_RUN_SCHEMA_DIR", str(tmp_path))
    schema._file.cache_clear()
    schema.load.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    schema._file.cache_clear()
    schema.load.cache_clear()


@pytest.mark.parametrize(
    ("experiment", "knob", "value"),
    [
        (f"{NVIDIA}.Grok", "NUM_LAYERS", 64),
        (f"{NVIDIA}.Grok_Proxy", "NUM_LAYERS", 16),
        (f"{NVIDIA}.Grok", "DCN_MESH_SHAPE", [1, 32, 1, 1]),
        (f"{NVIDIA}.NVIDIA175B", "PERCORE_BATCH_SIZE", 0.0625),
        # The two sources differ here: 600000 in the wheel.
        (f"{CONFIGS}.Synthetic126M", "MAX_STEPS", 100),
        (f"{CONFIGS}.Synthetic5B", "CHECKPOINT_POLICY", "save_dot_with_no_batch_dims"),
        ("cloudai_run_paxml.Nemotron4_340B", "HIDDEN_DIMS", 73728),
    ],
)
def test_defaults_are_those_of_the_class(experiment: str, knob: str, value: object) -> None:
    assert schema.experiments()[experiment].knobs[knob] == value


def test_every_type_holds_every_default() -> None:
    for name, found in schema.experiments().items():
        for knob, default in found.knobs.items():
            assert spec.fits(default, schema.knob_type(knob)), (name, knob, default)


def test_an_unknown_knob_is_refused_with_suggestions() -> None:
    with pytest.raises(RecipeError) as error:
        schema.check_knob(f"{NVIDIA}.Grok", "max_stepz")
    assert str(error.value) == (
        f"{NVIDIA}.Grok has no knob fdl.max_stepz\n"
        "  it reads 70 knobs (as of source 2024-08-20)\n"
        "  did you mean max_steps or max_seq_len?"
    )


def test_a_knob_that_other_classes_have_is_refused() -> None:
    with pytest.raises(RecipeError) as error:
        schema.check_knob(f"{NVIDIA}.NVIDIA5B", "max_steps")
    assert str(error.value) == (
        f"{NVIDIA}.NVIDIA5B ignores fdl.max_steps: other experiment classes have MAX_STEPS, this one has not\n"
        "  it reads 70 knobs (as of source 2024-08-20)\n"
        "  fdl_config=cloudai_run_paxml.NVIDIA5B is the same model and ends after max_steps"
    )


def test_a_knob_that_the_class_has_and_never_reads_is_refused() -> None:
    with pytest.raises(RecipeError) as error:
        schema.check_knob(f"{NVIDIA}.Grok", "num_gpus")
    assert str(error.value) == (
        f"{NVIDIA}.Grok ignores fdl.num_gpus: the class has NUM_GPUS and never reads it\n"
        "  it reads 70 knobs (as of source 2024-08-20)\n"
        "  the devices are the product of the meshes: set ici_mesh_shape, dcn_mesh_shape, num_groups"
    )
    with pytest.raises(RecipeError, match="has USE_FP8 and never reads it"):
        schema.check_knob(f"{NVIDIA}.NVIDIA175B", "use_fp8")


def test_nothing_is_refused_of_a_class_that_is_not_known() -> None:
    schema.check_knob("my_package.Mine", "my_window")


def test_targets_have_the_knobs_as_typed_parameters() -> None:
    params = schema.load().target(schema.knobs_target(f"{NVIDIA}.Grok")).params
    assert params["max_steps"].type == "int"
    assert params["percore_batch_size"].type == "float"
    assert params["dcn_mesh_shape"].type == ["union", ["list", "int"], "none"]
    assert params["num_layers"].default == 64
    assert "num_gpus" not in params


def test_nodes_are_described_by_their_own_fields() -> None:
    targets = schema.load().targets
    pgle = targets["cloudai_run.recipes.paxml.nodes.Pgle"].params
    assert pgle["mode"].type == ["literal", "nsys", "auto"]
    assert pgle["mode"].default == "nsys"
    perf = targets["cloudai_run.recipes.paxml.nodes.StageFlags"].params
    assert perf["xla_gpu_graph_level"].type == ["union", "int", "none"]
    assert targets[schema.ROOT_TARGET].params["xla"].type == [
        "object",
        "cloudai_run.recipes.paxml.nodes.XlaFlags",
    ]


def test_a_file_of_the_users_adds_a_class(user_schemas: Path) -> None:
    entry = {"exported": {"knobs": {"NUM_LAYERS": 3, "MY_WINDOW": 7}, "ignored": []}}
    content = {"schema_version": 1, "experiments": {"my_package.Mine": entry}}
    (user_schemas / "paxml-mine.json").write_text(json.dumps(content))
    assert schema.experiments()["my_package.Mine"].settable == ["num_layers", "my_window"]
    assert schema.knob_type("my_window") == "int"
    with pytest.raises(RecipeError, match="did you mean my_window"):
        schema.check_knob("my_package.Mine", "my_windo")


def test_a_broken_file_of_the_users_is_named(user_schemas: Path) -> None:
    (user_schemas / "paxml-mine.json").write_text("{")
    with pytest.raises(RecipeError, match=r"paxml-mine\.json is no file of recipes/paxml/exporter\.py"):
        schema.experiments()


def test_retarget_takes_the_knobs_along_and_checks_them() -> None:
    tree = {"fdl_config": f"{NVIDIA}.Grok", "fdl": {"_target_": "x", "max_steps": 3}}
    moved = schema.retarget(tree, f"{NVIDIA}.Grok_Proxy")
    assert moved == {
        "fdl_config": f"{NVIDIA}.Grok_Proxy",
        "fdl": {"_target_": f"cloudai_run.recipes.paxml.knobs.{NVIDIA}.Grok_Proxy", "max_steps": 3},
    }
    with pytest.raises(RecipeError, match=r"NVIDIA5B ignores fdl\.max_steps"):
        schema.retarget(tree, f"{NVIDIA}.NVIDIA5B")
    assert schema.retarget(tree, "my.Class")["fdl"] == {"_target_": schema.OPEN_KNOBS_TARGET, "max_steps": 3}


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, "float", True),
        (True, "int", False),
        (1, "bool", False),
        (None, ["union", "int", "none"], True),
        ([1, 2], ["list", "int"], True),
        ([1, "2"], ["list", "int"], False),
        ("x", "any", True),
    ],
)
def test_fits(value: object, kind: object, fits: bool) -> None:
    assert spec.fits(value, kind) is fits
