"""What the recipes take for granted of PAXML, held against the installed one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import cloudai_run.recipes.paxml as package
from cloudai_run.recipes.paxml import knobs, schema
from tests.recipes_paxml import paxml_env

pytestmark = pytest.mark.paxml

HERE = Path(package.__file__).parent
WHEEL = "wheel 1.4.0"
# What configs.py and its neighbours import and the wheel lacks, or reads when it is imported.
STUBS = (
    "praxis.contrib",
    "saxml",
    "paxml.contrib.gpu.scripts_gpu.saxml_layers",
    "paxml.contrib.gpu.scripts_gpu.tasks",
)
MODULES = (
    "paxml.tasks.lm.params.nvidia",
    "paxml.tasks.lm.params.lm_cloud",
    "paxml.tasks.lm.params.c4",
    "paxml.contrib.gpu.scripts_gpu.configs",
    "cloudai_run_paxml",
)


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    """A folder with the file of experiment classes alone, as it lies in a run folder."""
    (tmp_path / "cloudai_run_paxml.py").write_text((HERE / "cloudai_run_paxml.py").read_text())
    return tmp_path


def test_the_knobs_are_those_of_the_installed_classes(carried: Path) -> None:
    stubs = [word for stub in STUBS for word in ("--stub", stub)]
    done = paxml_env.run([str(HERE / "exporter.py"), *stubs, *MODULES], PYTHONPATH=str(carried))
    assert done.returncode == 0, done.stderr[-2000:]
    exported = json.loads(done.stdout[done.stdout.index("{\n") :])["experiments"]
    package_data = json.loads((HERE / "data" / "experiments.json").read_text())["experiments"]
    held = {
        name: sources.get(WHEEL) or sources.get("cloudai_run")
        for name, sources in package_data.items()
        if WHEEL in sources or "cloudai_run" in sources
    }
    assert len(held) > 70
    assert {name: exported[name]["exported"] for name in held} == held


# Reads arguments by the functions that paxml.main reads them with; the experiment class holds what arrives.
PARSER = """\
import json, sys
from fiddle import absl_flags
class Experiment:
    pass
absl_flags.flags_parser(["paxml.main", "--fdl_config=__main__.Experiment", *sys.argv[1:]])
print(json.dumps(vars(absl_flags.create_buildable_from_flags(module=None, allow_imports=True))))
"""


def test_values_come_back_equal_through_paxml_s_own_parser() -> None:
    values: dict[str, object] = {
        "text": "bfloat16",
        "quotes": """it's a "quoted" \\ text""",
        "looks_like_a_bool": "true",
        "looks_like_a_number": "12",
        "equals": "a=b=c",
        "unicode": "größe ✓ 模型",
        "newline": "a\nb\tc",
        "empty": "",
        "yes": True,
        "no": False,
        "nothing": None,
        "number": -3,
        "large": 10**18,
        "ratio": 0.0625,
        "tiny": 1e-08,
        "mesh": [1, 32, 1, 1],
        "names": ["stage", "replica"],
        "nested": [[1, 2], ["a", None], []],
    }
    arguments = knobs.knob_args(values)
    done = paxml_env.run(["-c", PARSER, *arguments])
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {name.upper(): value for name, value in values.items()}


# Builds each model without memory for it and counts its parameters.
COUNT = """\
import json, math, sys
import jax
from praxis import base_layer, pax_fiddle
import cloudai_run_paxml as own
found = {}
for name in sys.argv[1:]:
    experiment = getattr(own, name.removesuffix(":fp8"))()
    experiment.USE_FP8 = name.endswith(":fp8")
    task = experiment.task()
    task.model.ici_mesh_shape = None
    lm = task.model.lm_tpl
    atten = lm.stacked_transformer_tpl.block.transformer_layer_params_tpl.tr_atten_tpl
    layer = lm.stacked_transformer_tpl.block.transformer_layer_params_tpl.tr_fflayer_tpl
    experiment_task = pax_fiddle.instantiate(task)
    model = experiment_task.model
    batch, length = 1, 8
    inputs = dict(
        ids=jax.numpy.zeros((batch, length), jax.numpy.int32),
        labels=jax.numpy.zeros((batch, length), jax.numpy.int32),
        paddings=jax.numpy.zeros((batch, length)),
        weights=jax.numpy.ones((batch, length)),
        segment_ids=jax.numpy.ones((batch, length), jax.numpy.int32),
        segment_pos=jax.numpy.tile(jax.numpy.arange(length), (batch, 1)),
    )
    from praxis import py_utils
    shapes = model.abstract_init_with_metadata(py_utils.NestedMap(**inputs))
    scales = [path for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0] if "amax_history" in str(path)]
    leaves = jax.tree_util.tree_leaves(
        shapes["params"], is_leaf=lambda leaf: isinstance(leaf, base_layer.WeightHParams)
    )
    count = sum(math.prod([*(leaf.repeat_prefix or ()), *leaf.shape]) for leaf in leaves)
    found[name] = {
        "parameters": count,
        "activation": layer.activation_tpl.cls.__name__,
        "gated": layer.use_gated_activation,
        "kv_heads": atten.num_kv_heads,
        "rotary": atten.use_rotary_position_emb,
        "untied": lm.separate_embedding_tpl is not None,
        "position": lm.position_emb_tpl is not None,
        "steps": task.train.num_train_steps,
        "fp8": len(scales) > 0,
    }
print(json.dumps(found))
"""


def test_nemotron_is_the_published_model(carried: Path) -> None:
    done = paxml_env.run(["-c", COUNT, "Nemotron4_15B", "Nemotron4_340B"], PYTHONPATH=str(carried))
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    # 341.0e9 and 15.6e9: arXiv 2406.11704 and 2402.16819.
    assert found["Nemotron4_340B"].pop("parameters") == pytest.approx(341.0e9, rel=1e-3)
    assert found["Nemotron4_15B"].pop("parameters") == pytest.approx(15.6e9, rel=5e-3)
    for shape in found.values():
        assert shape == {
            "activation": "SquaredReLU",
            "gated": False,
            "kv_heads": 8,
            "rotary": True,
            "untied": True,
            "position": False,
            "steps": 20,
            "fp8": False,
        }


def test_nemotron_in_fp8(carried: Path) -> None:
    done = paxml_env.run(["-c", COUNT, "Nemotron4_15B:fp8"], PYTHONPATH=str(carried))
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["Nemotron4_15B:fp8"]["fp8"] is True


def test_the_environment_is_the_one_that_the_smoke_run_names() -> None:
    from cloudai_run.recipes.paxml.smoke import CPU_JAXLIB

    done = paxml_env.run(["-c", "import jaxlib; print(jaxlib.__version__)"])
    assert done.stdout.strip() == CPU_JAXLIB
    assert os.path.isabs(paxml_env.python())


def test_types_of_the_schema_are_known() -> None:
    for name in schema.experiments():
        for knob in schema.experiments()[name].knobs:
            assert schema.knob_type(knob) != "any", (name, knob)
