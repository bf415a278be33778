"""The words of a `nemo llm pretrain` command, without NeMo."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import llama3_8b, recipe_tree
from cloudai_run.recipes.nemo import schema as schemas
from cloudai_run.recipes.nemo.command import override_args, pretrain_argv
from tests.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
RECIPES = (
    *("llama3_8b", "llama3_70b", "llama31_8b", "llama31_70b", "llama31_405b"),
    *("nemotron4_15b", "nemotron4_340b", "mixtral_8x7b", "gpt3_175b"),
)
NSYS = "nemo.lightning.pytorch.callbacks.nsys.NsysCallback"
SQUAD = "nemo.collections.llm.gpt.data.squad.SquadDataModule"


def words(change: Any, recipe: str = "llama3_8b") -> list[str]:
    """The overrides of a recipe after a change of its tree."""
    tree: dict[str, Any] = recipe_tree(recipe)
    change(tree)
    return [*override_args(tree, recipe_tree(recipe), schemas.load())]


def typical(tree: dict[str, Any]) -> None:
    """What a benchmark commonly sets."""
    tree["trainer"] |= {"max_steps": 100, "num_nodes": 99, "devices": 99, "log_every_n_steps": 1}
    tree["trainer"]["strategy"] |= {"tensor_model_parallel_size": 2, "context_parallel_size": 4}
    tree["trainer"]["plugins"]["fp8"] = "hybrid"
    tree["trainer"]["callbacks"].append({"_target_": NSYS, "start_step": 10, "end_step": 15})
    tree["model"]["config"]["recompute_granularity"] = "selective"
    tree["model"]["config"]["recompute_modules"] = ["core_attn", "mlp"]
    tree["data"] |= {"global_batch_size": 256, "micro_batch_size": 2}
    tree["optim"]["config"]["lr"] = 1e-05
    tree["log"]["name"] = "it's a run; $(really)"
    tree["log"]["ckpt"] |= {"save_last": False, "save_on_train_epoch_end": False}
    tree["log"]["tensorboard"] = None


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", ["plain", "typical"])
def test_golden(recipe: str, kind: str) -> None:
    tree: dict[str, Any] = recipe_tree(recipe)
    if kind == "typical":
        typical(tree)
    argv = pretrain_argv(tree, 2, 8)
    assert_golden(GOLDEN / f"{recipe}.{kind}.txt", "".join(f"{word}\n" for word in argv))


def test_no_override_gives_the_sizes_alone() -> None:
    assert pretrain_argv(recipe_tree("llama3_8b"), 2, 4) == (
        *("nemo", "llm", "pretrain", "--yes", "--factory", "llama3_8b"),
        *("trainer.num_nodes=2", "trainer.devices=4"),
    )


def test_a_partial_gives_the_words_of_its_tree() -> None:
    recipe = llama3_8b()
    recipe.trainer.max_steps = 5
    recipe.optim.config.lr = 1e-4
    assert pretrain_argv(recipe, 1, 8)[6:] == (
        *("trainer.max_steps=5", "optim.config.lr=0.0001", "trainer.num_nodes=1", "trainer.devices=8"),
    )


def test_the_tree_stays_as_it_is() -> None:
    tree: dict[str, Any] = recipe_tree("llama3_8b")
    typical(tree)
    before = repr(tree)
    pretrain_argv(tree, 2, 8)
    assert repr(tree) == before


def test_the_words_survive_a_shell() -> None:
    tree: dict[str, Any] = recipe_tree("llama3_8b")
    typical(tree)
    argv = pretrain_argv(tree, 2, 8)
    assert shlex.split(shlex.join(argv)) == [*argv]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("trainer.max_steps", 5, ["trainer.max_steps=5"]),
        ("trainer.max_steps", 1168251, []),
        ("trainer.num_nodes", 5, []),
        ("trainer.devices", 5, []),
        ("trainer.limit_val_batches", 0.5, ["trainer.limit_val_batches=0.5"]),
        ("trainer.limit_val_batches", 32.0, ["trainer.limit_val_batches=32.0"]),
        ("trainer.callbacks", None, ["trainer.callbacks=None"]),
        ("trainer.strategy.new_arg", "a.b", ["trainer.strategy.new_arg='a.b'"]),
        ("trainer.strategy.new_arg", {"a": [1]}, ["trainer.strategy.new_arg={'a': [1]}"]),
        ("log.ckpt.save_on_train_epoch_end", False, ["log.ckpt.save_on_train_epoch_end=False"]),
        ("trainer.plugins.fp8", None, []),  # Declared as a text, with None as its default: so it is anyway.
        ("optim.lr_scheduler", None, ["optim.lr_scheduler=None"]),
        ("data.rampup_batch_size", [32, 32, 1000], ["data.rampup_batch_size=[32, 32, 1000]"]),
    ],
)
def test_values(path: str, value: Any, expected: list[str]) -> None:
    def change(tree: dict[str, Any]) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            tree = tree[parent]
        tree[name] = value

    assert words(change) == expected


def test_a_named_object() -> None:
    def change(tree: dict[str, Any]) -> None:
        flash = "megatron.core.transformer.enums.AttnBackend.flash"
        tree["model"]["config"]["attention_backend"] = {"_target_": flash, "_call_": False}
        tree["trainer"]["plugins"]["params_dtype"] = {"_target_": "torch.float32", "_call_": False}

    assert words(change) == [
        "model.config.attention_backend=pydoc.locate('megatron.core.transformer.enums.AttnBackend.flash')",
        "trainer.plugins.params_dtype=torch.float32",
    ]


def test_callbacks_are_added_behind_the_recipes() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["trainer"]["callbacks"][0]["log_tokens_per_sec"] = True
        tree["trainer"]["callbacks"] += [
            {"_target_": NSYS, "start_step": 3, "end_step": 5, "ranks": [0]},
            {"_target_": NSYS, "start_step": 3, "end_step": 5, "ranks": [0, 8]},
        ]

    assert words(change) == [
        "trainer.callbacks[0].log_tokens_per_sec=True",
        f"trainer.callbacks+=[{NSYS}(start_step=3, end_step=5, ranks=[0]), nemo_run.Config(pydoc.locate('{NSYS}'))]",
        "trainer.callbacks[2].start_step=3",
        "trainer.callbacks[2].end_step=5",
        "trainer.callbacks[2].ranks=[0, 8]",
    ]


def test_a_callback_in_the_place_of_the_recipes() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["trainer"]["callbacks"] = [{"_target_": NSYS, "start_step": 3, "end_step": 5}]

    assert words(change) == [f"trainer.callbacks=[{NSYS}(start_step=3, end_step=5)]"]


def test_a_partial_in_a_list_is_no_call() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["trainer"]["callbacks"] = [{"_target_": NSYS, "_partial_": True, "start_step": 3}]

    assert words(change) == [
        f"trainer.callbacks=[nemo_run.Partial(pydoc.locate('{NSYS}'))]",
        "trainer.callbacks[0].start_step=3",
    ]


def test_no_callbacks() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["trainer"]["callbacks"] = []

    assert words(change) == ["trainer.callbacks=[]"]


def test_a_node_of_a_factory() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["data"] = {"_target_": SQUAD, "_factory_": "squad"}
        tree["data"] |= {"seq_length": 128, "micro_batch_size": 2, "global_batch_size": 16}

    assert words(change) == ["data=squad", "data.seq_length=128"]


def test_a_node_of_a_factory_with_arguments() -> None:
    def change(tree: dict[str, Any]) -> None:
        made = schemas.load().find_factory("bert_110m", "nemo.collections.llm.bert.model.base.BertModel")
        assert made is not None
        assert isinstance(made.config, dict)
        tree["model"] = {**made.config, "_factory_": "bert_110m", "_factory_args_": {"bert_type": "megatron"}}

    assert words(change) == ["model=bert_110m(bert_type='megatron')"]


def test_a_factory_argument_that_a_call_cannot_hold() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["model"]["_target_"] = "nemo.collections.llm.bert.model.base.BertModel"
        tree["model"] |= {"_factory_": "bert_110m", "_factory_args_": {"bert_type": "a, b"}}

    assert refuse(change).endswith(": an argument of a call cannot hold a comma or a bracket")


def test_a_factory_that_nemo_does_not_have() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["data"] = {"_target_": SQUAD, "_factory_": "squid"}

    assert refuse(change) == f"NeMo has no factory squid that makes a {SQUAD}"


def test_a_node_of_another_class_and_one_within_it() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["data"] = {
            "_target_": SQUAD,
            "seq_length": 128,
            "tokenizer": {
                "_target_": "nemo.collections.common.tokenizers.tokenizer_utils.get_nmt_tokenizer",
                "library": "null",
            },
        }

    assert words(change) == [
        f"data=Config[{SQUAD}]",
        "data.seq_length=128",
        "data.tokenizer=Config[nemo.collections.common.tokenizers.tokenizer_utils.get_nmt_tokenizer]",
        "data.tokenizer.library='null'",
    ]


def test_what_is_taken_away_goes_back_to_its_default() -> None:
    def change(tree: dict[str, Any]) -> None:
        del tree["optim"]["config"]["adam_eps"], tree["log"]["ckpt"]["filename"]

    assert words(change) == ["log.ckpt.filename=None", "optim.config.adam_eps=1e-08"]


def refuse(change: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        words(change)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("resume", None, "resume=None: nothing is accepted there but a config or a name"),
        ("trainer.strategy", None, "trainer.strategy=None: it would arrive as the text 'None'"),
        ("model", None, "model=None: it would arrive as the path 'None'"),
        ("trainer.max_time", {"minutes": 5}, "trainer.max_time={'minutes': 5}: it would arrive as the text"),
        ("trainer.max_steps", 100.0, "trainer.max_steps=100.0: int is needed there"),
        ("trainer.max_steps", None, "trainer.max_steps=None: int is needed there"),
        ("model.config.rotary_base", 0.5, "model.config.rotary_base=0.5: int is needed there"),
        (
            "model.config.cp_comm_type",
            ["a", "b"],
            "model.config.cp_comm_type=['a', 'b']: it would arrive as the text",
        ),
        ("log.name", "a\nb", "log.name='a\\nb': a text is cut at a line break there"),
        ("log.name", "${x}", "log.name='${x}': ${...} in a text is filled in there"),
        ("log.name", "x" * 99, None),
        (
            "log.name",
            "x\n" * 99,
            "log.name='x\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\nx\\...: a text",
        ),
        (
            "log.ckpt.train_time_interval",
            {"_target_": "datetime.timedelta", "minutes": 5},
            "log.ckpt.train_time_interval.minutes=5: nothing is accepted there",
        ),
        (
            "trainer.callbacks",
            [{"_target_": NSYS, "start_step": 1}, 5],
            "trainer.callbacks=[{'_target_': 'nemo.lightning.pytorch.callbacks.nsys.Nsys...: "
            "a list with nodes in it cannot hold anything else",
        ),
    ],
)
def test_what_cannot_be_carried(path: str, value: Any, message: str | None) -> None:
    def change(tree: dict[str, Any]) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            tree = tree[parent]
        tree[name] = value

    if message is None:
        assert words(change) == [f"{path}='{value}'"]
        return
    said = refuse(change)
    assert said.startswith(f"NeMo's command line cannot carry {message}")
    assert "\n" not in said


def test_what_has_no_default_cannot_be_taken_away() -> None:
    def change(tree: dict[str, Any]) -> None:
        del tree["data"]

    assert (
        refuse(change) == "data cannot be left out: the recipe sets it, and it has no default to go back to"
    )


def test_a_class_that_nemo_does_not_have() -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["trainer"]["callbacks"].append({"_target_": "os.system", "command": "touch pwned"})

    assert refuse(change).startswith("NeMo 2.7.3 has no os.system that a recipe can use")


def test_a_tree_that_does_not_say_its_recipe() -> None:
    with pytest.raises(RecipeError, match=r"does not say which recipe it was made from \(workload.factory\)"):
        pretrain_argv({"_target_": "nemo.collections.llm.api.pretrain"}, 1, 1)
