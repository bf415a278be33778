"""Values that are accepted: what each text becomes in the tree of llama3_8b."""

from __future__ import annotations

import json

import pytest

from cloudai_run.overrides import apply, parse
from cloudai_run.overrides.schema import Tree
from cloudai_run.recipes.nemo.schema import load

BF16: Tree = {"_target_": "torch.bfloat16", "_call_": False}
FLASH: Tree = {"_target_": "megatron.core.transformer.enums.AttnBackend.flash", "_call_": False}
NSYS = "nemo.lightning.pytorch.callbacks.nsys.NsysCallback"
NSYS_NODE: Tree = {"_target_": NSYS, "start_step": 5, "end_step": 6}
TIMING: Tree = {"_target_": "nemo.utils.exp_manager.TimingCallback"}

GOOD: list[tuple[str, str, Tree]] = [
    ("trainer.max_steps", "5", 5),
    ("trainer.max_steps", " 5 ", 5),
    ("trainer.max_steps", "1_000", 1000),
    ("trainer.max_steps", "1e2", 100),
    ("trainer.max_steps", "5.0", 5),
    ("trainer.max_steps", "-1", -1),
    ("trainer.max_steps", "+7", 7),
    ("trainer.max_steps", "007", 7),
    ("trainer.max_steps", "(5)", 5),
    ("trainer.max_steps", "9223372036854775807", 2**63 - 1),
    ("model.config.rotary_base", "1e6", 1000000),
    ("optim.config.lr", "5", 5.0),
    ("optim.config.lr", "1e-3", 0.001),
    ("optim.config.lr", ".5", 0.5),
    ("optim.config.lr", "5.", 5.0),
    ("optim.config.lr", "null", None),
    ("trainer.limit_val_batches", "1", 1),
    ("trainer.limit_val_batches", "1.0", 1.0),
    ("trainer.limit_val_batches", "None", None),
    ("trainer.strategy.sequence_parallel", "True", True),
    ("trainer.strategy.sequence_parallel", "true", True),
    ("trainer.strategy.sequence_parallel", "FALSE", False),
    ("trainer.strategy.sequence_parallel", "yes", True),
    ("trainer.strategy.sequence_parallel", "off", False),
    ("trainer.strategy.sequence_parallel", "1", True),
    ("log.name", "a b", "a b"),
    ("log.name", "  a b  ", "a b"),
    ("log.name", "' a b '", " a b "),
    ("log.name", "it's", "it's"),
    ("log.name", "''", ""),
    ("log.name", "'None'", "None"),
    ("log.name", "5", "5"),
    ("log.name", "1_000", "1_000"),
    ("log.name", "True", "True"),
    ("log.name", "[draft] run", "[draft] run"),
    ("log.name", "[a]", "[a]"),
    ("log.name", "(a)", "(a)"),
    ("log.name", "os.getcwd", "os.getcwd"),
    ("log.name", "os.system(touch pwned)", "os.system(touch pwned)"),
    ("log.name", "f'{x}'", "f'{x}'"),
    ("log.name", "a=b==c", "a=b==c"),
    ("log.name", r"'tab\tline\nquote\' \x41 é \d'", "tab\tline\nquote' A é \\d"),
    ("log.name", '"it\'s"', "it's"),
    ("log.name", "héllo 世界", "héllo 世界"),
    ("log.log_dir", "/data/my runs", "/data/my runs"),
    ("trainer.devices", "auto", "auto"),
    ("trainer.devices", "4", 4),
    ("trainer.devices", "'4'", "4"),
    ("trainer.devices", "[0, 1,]", [0, 1]),
    ("trainer.precision", "32", 32),
    ("trainer.precision", "'32'", "32"),
    ("trainer.precision", "bf16-mixed", "bf16-mixed"),
    ("trainer.strategy.ddp", "megatron", "megatron"),
    ("trainer.accelerator", "cpu", "cpu"),
    ("trainer.strategy.pipeline_dtype", "torch.bfloat16", BF16),
    ("trainer.strategy.pipeline_dtype", "bfloat16", BF16),
    ("trainer.strategy.pipeline_dtype", "torch.half", {"_target_": "torch.float16", "_call_": False}),
    ("model.config.attention_backend", "flash", FLASH),
    ("model.config.attention_backend", "'flash'", FLASH),
    ("model.config.attention_backend", "AttnBackend.flash", FLASH),
    (
        "model.config.activation_func",
        "torch.nn.functional.gelu",
        {
            "_target_": "torch.nn.functional.gelu",
            "_call_": False,
        },
    ),
    ("model.config.window_size", "(128, 0)", {"_tuple_": [128, 0]}),
    ("model.config.window_size", "[128, 0]", {"_tuple_": [128, 0]}),
    ("data.rampup_batch_size", "[32,32,1000]", [32, 32, 1000]),
    ("data.rampup_batch_size", "(32,32,1000)", [32, 32, 1000]),
    ("data.rampup_batch_size", "[]", []),
    ("model.config.recompute_modules", "['core_attn', mlp]", ["core_attn", "mlp"]),
    ("trainer.max_time", "{'minutes': 5}", {"minutes": 5}),
    ("trainer.max_time", "{minutes: 5}", {"minutes": 5}),
    ("trainer.max_time", "00:12:00:00", "00:12:00:00"),
    ("trainer.max_time", "timedelta(hours=1)", {"_target_": "datetime.timedelta", "hours": 1}),
    (
        "log.ckpt.train_time_interval",
        "datetime.timedelta(minutes=1.5)",
        {
            "_target_": "datetime.timedelta",
            "minutes": 1.5,
        },
    ),
    ("log.ckpt.train_time_interval.minutes", "30", 30),
    ("log.ckpt", "None", None),
    ("trainer.callbacks", "[]", []),
    ("trainer.callbacks", f"[{NSYS}(start_step=5,end_step=6)]", [NSYS_NODE]),
    ("trainer.callbacks", "[NsysCallback(start_step=5, end_step=6)]", [NSYS_NODE]),
    ("trainer.callbacks", "NsysCallback(start_step=5,end_step=6)", NSYS_NODE),
    ("trainer.callbacks", "nemo.utils.exp_manager.TimingCallback", TIMING),
    ("trainer.strategy.gradient_as_bucket_view", "False", False),
    ("+trainer.strategy.new_argument", "nccl", "nccl"),
    ("+trainer.strategy.new_argument", "[1, 'a', {b: (2,)}]", [1, "a", {"b": {"_tuple_": [2]}}]),
    ("+trainer.strategy.new_argument", "os.getcwd", "os.getcwd"),
    ("+trainer.strategy.new_argument", "torch.bfloat16", BF16),
    ("+trainer.strategy.new_argument", "timedelta(hours=2)", {"_target_": "datetime.timedelta", "hours": 2}),
    ("+trainer.max_steps", "5", 5),
]


def value_at(tree: Tree, path: str) -> Tree:
    """Returns the value at a dotted path without indexes."""
    for name in path.lstrip("+").split("."):
        assert isinstance(tree, dict)
        tree = tree[name]
    return tree


@pytest.mark.parametrize(("path", "text", "expected"), GOOD, ids=[f"{p}={t}"[:60] for p, t, _ in GOOD])
def test_value_becomes_its_tree(path: str, text: str, expected: Tree) -> None:
    schema = load()
    tree = apply(parse([f"{path}={text}"]), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")
    found = value_at(tree, path)
    # JSON tells 1, 1.0 and True apart, which == does not.
    assert json.dumps(found) == json.dumps(expected)


def test_factory_brings_its_own_values_and_its_name() -> None:
    schema = load()
    tree = apply(parse(["data=squad", "data.seq_length=128"]), schema.recipe_tree("llama3_8b"), schema, "x")
    assert tree["data"] == {
        "_target_": "nemo.collections.llm.gpt.data.squad.SquadDataModule",
        "seq_length": 128,
        "micro_batch_size": 2,
        "global_batch_size": 16,
        "_factory_": "squad",
    }


def test_choosing_a_factory_keeps_its_other_values() -> None:
    schema = load()
    words = ["model=llama3_70b", "model.config.num_layers=4"]
    tree = apply(parse(words), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")
    assert tree["model"] == {
        "_target_": "nemo.collections.llm.gpt.model.llama.LlamaModel",
        "config": {"_target_": "nemo.collections.llm.gpt.model.llama.Llama3Config70B", "num_layers": 4},
        "_factory_": "llama3_70b",
    }


@pytest.mark.parametrize(
    "name", ["pytorch_sgd_with_flat_lr", "nemo.collections.llm.recipes.optim.sgd.pytorch_sgd_with_flat_lr"]
)
def test_factory_takes_arguments_under_either_name(name: str) -> None:
    schema = load()
    tree = apply(parse([f"optim={name}(lr=1)"]), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")
    assert value_at(tree, "optim._factory_") == "pytorch_sgd_with_flat_lr"
    assert value_at(tree, "optim._factory_args_") == {"lr": 1.0}
    assert value_at(tree, "optim._target_") == "nemo.lightning.pytorch.optim.pytorch.PytorchOptimizerModule"


def test_argument_that_a_factory_hands_on_arrives_in_the_tree() -> None:
    schema = load()
    tree = apply(
        parse(["resume=default_resume(resume_if_exists=False)"]),
        schema.recipe_tree("llama3_8b"),
        schema,
        "llama3_8b",
    )
    assert value_at(tree, "resume.resume_if_exists") is False
    assert value_at(tree, "resume.resume_ignore_no_checkpoint") is True
