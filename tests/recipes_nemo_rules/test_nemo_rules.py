"""Each rule with its message and its boundary: the last value that passes beside the first that does not."""

from __future__ import annotations

import pytest

from cloudai_run.recipes.nemo.rules import Violation, check
from cloudai_run.recipes.nemo.schema import Tree, load

SHIPPED = [
    *("llama3_8b", "llama3_70b", "llama31_8b", "llama31_70b", "llama31_405b"),
    *("nemotron4_15b", "nemotron4_340b", "mixtral_8x7b", "gpt3_175b"),
]
# The fewest nodes of 8 GPUs that hold each recipe's own parallel sizes and divide its batch.
NODES = {
    "llama3_70b": 4,
    "llama31_70b": 4,
    "llama31_405b": 32,
    "nemotron4_340b": 768,
    "mixtral_8x7b": 8,
    "gpt3_175b": 4,
}


def broken(
    recipe: str, num_nodes: int = 1, num_gpus_per_node: int = 8, /, **settings: Tree
) -> list[Violation]:
    """Returns the broken rules of a recipe with settings such as `strategy__context_parallel_size=1`."""
    schema = load()
    tree = schema.recipe_tree(recipe)
    places = {
        "strategy": "trainer.strategy",
        "model": "model.config",
        "data": "data",
        "plugins": "trainer.plugins",
    }
    for key, value in settings.items():
        place, name = key.split("__")
        node: Tree = tree
        for part in places[place].split("."):
            assert isinstance(node, dict)
            node = node[part]
        assert isinstance(node, dict)
        node[name] = value
    return check(tree, schema, num_nodes, num_gpus_per_node)


def messages(recipe: str, num_nodes: int = 1, num_gpus_per_node: int = 8, /, **settings: Tree) -> list[str]:
    """Returns only the messages."""
    return [violation.message for violation in broken(recipe, num_nodes, num_gpus_per_node, **settings)]


@pytest.mark.parametrize("recipe", SHIPPED)
def test_shipped_recipe_obeys_the_rules_on_its_own_gpus(recipe: str) -> None:
    assert broken(recipe, NODES.get(recipe, 1)) == []


def test_model_parallel_size_divides_the_gpus() -> None:
    assert broken("llama3_8b", strategy__context_parallel_size=8) == []
    assert broken("llama3_8b", strategy__tensor_model_parallel_size=4) == []
    assert broken(
        "llama3_8b",
        strategy__tensor_model_parallel_size=3,
        model__num_attention_heads=33,
        model__num_query_groups=3,
        model__ffn_hidden_size=15,
    ) == [
        Violation(
            "model-parallel",
            "tensor x pipeline x context parallel size must divide the number of GPUs: "
            "3 x 1 x 2 = 6, on 1 node x 8 = 8 GPUs",
        )
    ]


def test_more_model_parallel_ranks_than_gpus() -> None:
    assert messages("llama3_8b", strategy__tensor_model_parallel_size=16, strategy__context_parallel_size=1)[
        0
    ] == (
        "tensor x pipeline x context parallel size must divide the number of GPUs: "
        "16 x 1 x 1 = 16, on 1 node x 8 = 8 GPUs"
    )
    assert messages("llama3_70b") == [
        "tensor x pipeline x context parallel size must divide the number of GPUs: "
        "4 x 4 x 2 = 32, on 1 node x 8 = 8 GPUs"
    ]
    assert "on 3 nodes x 8 = 24 GPUs" in messages("llama3_70b", 3)[0]


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("strategy__tensor_model_parallel_size", "trainer.strategy.tensor_model_parallel_size"),
        ("strategy__pipeline_model_parallel_size", "trainer.strategy.pipeline_model_parallel_size"),
        ("strategy__context_parallel_size", "trainer.strategy.context_parallel_size"),
        ("strategy__expert_model_parallel_size", "trainer.strategy.expert_model_parallel_size"),
        ("strategy__expert_tensor_parallel_size", "trainer.strategy.expert_tensor_parallel_size"),
        ("data__micro_batch_size", "data.micro_batch_size"),
        ("data__global_batch_size", "data.global_batch_size"),
        ("data__seq_length", "data.seq_length"),
        ("model__num_layers", "model.config.num_layers"),
        ("model__num_attention_heads", "model.config.num_attention_heads"),
    ],
)
def test_sizes_are_positive(setting: str, path: str, value: int) -> None:
    assert broken("llama3_8b", **{setting: value}) == [
        Violation("positive-sizes", f"{path} must be at least 1, it is {value}")
    ]


def test_an_executor_without_gpus_is_no_division_by_zero() -> None:
    assert broken("llama3_8b", 1, 0) == [
        Violation("positive-sizes", "the number of GPUs per node must be at least 1, it is 0")
    ]
    assert broken("llama3_8b", 0, 8) == [
        Violation("positive-sizes", "the number of nodes must be at least 1, it is 0")
    ]


def test_virtual_size_of_zero() -> None:
    assert messages("llama3_70b", 4, strategy__virtual_pipeline_model_parallel_size=0) == [
        "trainer.strategy.virtual_pipeline_model_parallel_size must be at least 1, it is 0"
    ]


def test_global_batch_size() -> None:
    assert broken("llama3_8b", data__global_batch_size=4) == []
    assert broken("llama3_8b", data__global_batch_size=2) == [
        Violation(
            "global-batch",
            "global batch size must be divisible by micro batch size x data parallel size: "
            "2 is not divisible by 1 x 4 = 4",
        )
    ]
    assert messages("llama3_8b", data__global_batch_size=12, data__micro_batch_size=2) == [
        "global batch size must be divisible by micro batch size x data parallel size: "
        "12 is not divisible by 2 x 4 = 8"
    ]


def test_ramp_up_of_the_batch_size() -> None:
    assert broken("llama3_8b", data__rampup_batch_size=[32, 32, 1000]) == []
    assert messages("llama3_8b", data__rampup_batch_size=[32, 32]) == [
        "data.rampup_batch_size is [first batch size, increment, samples], the first at most the global batch size: "
        ""
        "[32, 32] with a global batch size of 512"
    ]
    assert messages("llama3_8b", data__rampup_batch_size=[1024, 32, 1000]) == [
        "data.rampup_batch_size is [first batch size, increment, samples], the first at most the global batch size: "
        ""
        "[1024, 32, 1000] with a global batch size of 512"
    ]
    assert messages("llama3_8b", data__rampup_batch_size=[2, 30, 1000]) == [
        "each batch size of a ramp-up must be divisible by micro batch size x data parallel size: "
        "from 2 by 30 to 512, with 1 x 4 = 4"
    ]


PIPELINE: dict[str, Tree] = {"strategy__pipeline_dtype": {"_target_": "torch.bfloat16", "_call_": False}}


def test_layers_by_pipeline_size() -> None:
    assert broken("llama3_8b", 1, 8, strategy__pipeline_model_parallel_size=4) == []
    assert broken(
        "llama3_8b", 3, 8, strategy__pipeline_model_parallel_size=3, data__global_batch_size=384
    ) == [Violation("pipeline-layers", "pipeline parallel size must divide the layers: 3 does not divide 32")]


def test_layers_with_embedding_and_loss_counted() -> None:
    settings: dict[str, Tree] = {
        "strategy__pipeline_model_parallel_size": 4,
        "strategy__account_for_embedding_in_pipeline_split": True,
        "strategy__account_for_loss_in_pipeline_split": True,
    }
    assert broken("llama3_8b", **settings, model__num_layers=30) == []
    assert messages("llama3_8b", **settings) == [
        "pipeline parallel size must divide the layers: "
        "32 layers and 2 for embedding and loss = 34 on 4 stages"
    ]


def test_layers_with_an_uneven_first_and_last_stage() -> None:
    settings: dict[str, Tree] = {
        "strategy__pipeline_model_parallel_size": 4,
        "strategy__num_layers_in_first_pipeline_stage": 7,
    }
    assert messages("llama3_8b", **settings) == [
        "pipeline parallel size must divide the layers: "
        "32 layers less 7 in the first and last stage = 25 on 3 stages"
    ]
    assert broken("llama3_8b", **settings, strategy__num_layers_in_last_pipeline_stage=5) == []
    two = settings | {
        "strategy__pipeline_model_parallel_size": 2,
        "strategy__num_layers_in_last_pipeline_stage": 25,
    }
    assert broken("llama3_8b", **two) == []
    assert messages("llama3_8b", **(two | {"strategy__num_layers_in_last_pipeline_stage": 26})) == [
        "32 layers less 7 and 26 in the first and last stage do not fit on 2 pipeline stages"
    ]


def test_layers_with_a_layout_of_their_own_are_not_counted() -> None:
    assert (
        broken(
            "llama3_8b",
            strategy__pipeline_model_parallel_size=4,
            model__num_layers=5,
            strategy__pipeline_model_parallel_layout="Et*3|(tt|)*29,m|L",
        )
        == []
    )


def test_layers_by_virtual_pipeline_size() -> None:
    assert broken("llama3_70b", 4, strategy__virtual_pipeline_model_parallel_size=10) == []
    assert broken("llama3_70b", 4, strategy__virtual_pipeline_model_parallel_size=6) == [
        Violation(
            "virtual-pipeline",
            "virtual pipeline size must divide the layers of a pipeline stage: 6 does not divide 80 / 4 = 20",
        )
    ]


def test_uneven_stages_by_virtual_pipeline_size() -> None:
    settings: dict[str, Tree] = {
        "strategy__num_layers_in_first_pipeline_stage": 10,
        "strategy__num_layers_in_last_pipeline_stage": 10,
    }
    assert broken("llama3_70b", 4, **settings) == []
    settings["strategy__num_layers_in_last_pipeline_stage"] = 12
    assert messages("llama3_70b", 4, **settings) == [
        "virtual pipeline size must divide the layers of a pipeline stage: 5 does not divide 58 / 2 = 29",
        "virtual pipeline size must divide the layers of a pipeline stage: 5 does not divide 12",
    ]


def test_uneven_stages_exclude_counted_embeddings() -> None:
    assert messages(
        "llama3_8b",
        strategy__pipeline_model_parallel_size=4,
        strategy__num_layers_in_first_pipeline_stage=8,
        strategy__account_for_loss_in_pipeline_split=True,
    ) == [
        "trainer.strategy takes either account_for_embedding_in_pipeline_split and "
        "account_for_loss_in_pipeline_split or num_layers_in_first_pipeline_stage and "
        "num_layers_in_last_pipeline_stage: 32 layers and 1 for embedding and loss less 8 in the first and last stage"
    ]


def test_virtual_pipeline_without_a_pipeline_is_dropped_by_nemo() -> None:
    assert broken("llama3_8b", strategy__virtual_pipeline_model_parallel_size=7) == []


def test_microbatches_of_an_interleaved_schedule() -> None:
    assert broken("llama3_70b", 4, data__global_batch_size=4) == []
    assert broken("llama3_70b", 4, data__global_batch_size=3) == [
        Violation(
            "interleaved-schedule",
            "with a virtual pipeline, a step needs at least as many microbatches as pipeline stages: "
            "3 microbatches in groups of 4 on 4 stages",
        )
    ]
    assert messages("llama3_70b", 4, data__global_batch_size=10) == [
        "with a virtual pipeline, the last group of microbatches must be full or hold one a stage: "
        "10 in groups of 4 leaves 2 for 4 stages"
    ]
    assert (
        broken("llama3_70b", 4, data__global_batch_size=10, strategy__microbatch_group_size_per_vp_stage=6)
        == []
    )
    assert messages(
        "llama3_70b", 4, data__global_batch_size=8, strategy__microbatch_group_size_per_vp_stage=3
    ) == [
        "with a virtual pipeline, a step needs at least as many microbatches as pipeline stages: "
        "8 microbatches in groups of 3 on 4 stages"
    ]


def test_pipeline_dtype_comes_from_the_precision_plugin() -> None:
    schema = load()
    tree = schema.recipe_tree("llama3_8b")
    trainer = tree["trainer"]
    assert isinstance(trainer, dict)
    strategy = trainer["strategy"]
    assert isinstance(strategy, dict)
    strategy["pipeline_model_parallel_size"] = 2
    assert check(tree, schema, 1, 8) == []
    trainer["plugins"] = None
    assert check(tree, schema, 1, 8) == [
        Violation(
            "pipeline-dtype",
            "pipeline parallel size 2 needs trainer.strategy.pipeline_dtype or a mixed precision plugin, "
            "both are None: set trainer.strategy.pipeline_dtype=torch.bfloat16",
        )
    ]
    strategy["pipeline_dtype"] = {"_target_": "torch.bfloat16", "_call_": False}
    assert check(tree, schema, 1, 8) == []


def test_heads_by_tensor_size() -> None:
    settings: dict[str, Tree] = {
        "strategy__tensor_model_parallel_size": 4,
        "strategy__context_parallel_size": 1,
    }
    assert broken("llama3_8b", **settings) == []
    assert broken("llama3_8b", **settings, model__num_attention_heads=30) == [
        Violation("heads", "tensor parallel size must divide the attention heads: 4 does not divide 30")
    ]
    assert broken("llama3_8b", **settings, model__num_query_groups=6) == [
        Violation("query-groups", "tensor parallel size must divide the query groups: 4 does not divide 6")
    ]
    assert messages("llama3_8b", 2, **(settings | {"strategy__tensor_model_parallel_size": 16})) == [
        "tensor parallel size must divide the query groups: 16 does not divide 8"
    ]


def test_feed_forward_size_by_tensor_size() -> None:
    settings: dict[str, Tree] = {"strategy__tensor_model_parallel_size": 4}
    assert broken("llama3_8b", **settings, model__ffn_hidden_size=14338) == [
        Violation("ffn", "tensor parallel size must divide the feed-forward size: 4 does not divide 14338")
    ]


def test_sequence_parallel_needs_tensor_parallel() -> None:
    assert broken("llama3_8b", strategy__sequence_parallel=True, strategy__tensor_model_parallel_size=2) == []
    assert broken("llama3_8b", strategy__sequence_parallel=True) == [
        Violation(
            "sequence-parallel",
            "sequence parallel needs tensor parallel size > 1, it is 1: "
            "set trainer.strategy.sequence_parallel=False or trainer.strategy.tensor_model_parallel_size",
        )
    ]


def test_sequence_parallel_splits_the_sequence() -> None:
    settings: dict[str, Tree] = {
        "strategy__sequence_parallel": True,
        "strategy__tensor_model_parallel_size": 4,
    }
    assert broken("llama3_8b", **settings, data__seq_length=8) == []
    assert broken("llama3_8b", **settings, data__seq_length=4) == [
        Violation(
            "sequence-parallel",
            "with sequence parallel, tensor x context parallel size must divide the sequence length: "
            "4 x 2 = 8 does not divide 4",
        )
    ]


def test_context_parallel_splits_the_sequence_in_twice_its_size() -> None:
    assert broken("llama3_8b", data__seq_length=4) == []
    assert broken("llama3_8b", data__seq_length=6) == [
        Violation(
            "context-parallel",
            "data.seq_length must be divisible by 2 x context parallel size: 6 is not divisible by 2 x 2 = 4",
        )
    ]
    assert messages("llama3_8b", model__seq_length=8190) == [
        "model.config.seq_length must be divisible by 2 x context parallel size: "
        "8190 is not divisible by 2 x 2 = 4"
    ]
    assert broken("llama3_8b", data__seq_length=5, strategy__context_parallel_size=1) == []


def test_expert_parallel() -> None:
    assert broken("mixtral_8x7b", 8, strategy__expert_model_parallel_size=4) == []
    assert messages("mixtral_8x7b", 8, strategy__expert_model_parallel_size=3) == [
        "expert parallel size must divide the experts: 3 does not divide 8",
        "expert tensor x expert x pipeline parallel size must divide the number of GPUs: "
        "1 x 3 x 4 = 12, on 8 nodes x 8 = 64 GPUs",
    ]
    assert broken("mixtral_8x7b", 2) == [
        Violation(
            "expert-parallel",
            "expert tensor x expert x pipeline parallel size must divide the number of GPUs: "
            "1 x 8 x 4 = 32, on 2 nodes x 8 = 16 GPUs",
        )
    ]
    assert broken("mixtral_8x7b", 4) == []
    assert broken("llama3_8b", strategy__expert_model_parallel_size=2) == [
        Violation("expert-parallel", "expert parallel size must be 1 for a model without experts, it is 2")
    ]


def test_expert_tensor_parallel_size_is_the_tensor_size_unless_set() -> None:
    settings: dict[str, Tree] = {
        "strategy__tensor_model_parallel_size": 2,
        "strategy__sequence_parallel": True,
    }
    assert messages("mixtral_8x7b", 4, **settings) == [
        "expert tensor x expert x pipeline parallel size must divide the number of GPUs: "
        "2 x 8 x 4 = 64, on 4 nodes x 8 = 32 GPUs"
    ]
    assert broken("mixtral_8x7b", 4, **settings, strategy__expert_tensor_parallel_size=1) == []


def test_experts_with_tensor_parallel_need_sequence_parallel() -> None:
    assert broken("mixtral_8x7b", 8, strategy__tensor_model_parallel_size=2) == [
        Violation(
            "moe-sequence-parallel",
            "a model with experts and tensor parallel size > 1 needs sequence parallel: "
            "tensor parallel size is 2, trainer.strategy.sequence_parallel is False",
        )
    ]


def test_learned_positions_limit_the_sequence() -> None:
    assert broken("gpt3_175b", 4, data__seq_length=1024) == []
    assert broken("gpt3_175b", 4, data__seq_length=4096) == [
        Violation(
            "positions",
            "a model with learned positions takes no longer sequence than model.config.seq_length: "
            "data.seq_length 4096 > 2048",
        )
    ]
    assert broken("llama3_8b", data__seq_length=16384) == []


@pytest.mark.parametrize(
    ("granularity", "method", "layers", "wrong"),
    [
        ("fulll", None, None, "model.config.recompute_granularity must be 'full' or 'selective'"),
        ("full", "blocks", 1, "model.config.recompute_method must be 'block' or 'uniform'"),
        ("full", None, 1, "full recomputation needs recompute_method and recompute_num_layers"),
        ("full", "block", None, "full recomputation needs recompute_method and recompute_num_layers"),
        ("selective", None, 1, "selective recomputation takes no recompute_num_layers"),
        ("full", "block", 1, None),
        ("selective", None, None, None),
        (None, None, None, None),
    ],
)
def test_recomputation(
    granularity: str | None, method: str | None, layers: int | None, wrong: str | None
) -> None:
    found = broken(
        "llama3_8b",
        model__recompute_granularity=granularity,
        model__recompute_method=method,
        model__recompute_num_layers=layers,
    )
    said = (
        f"recompute_granularity {granularity!r}, recompute_method {method!r}, recompute_num_layers {layers}"
    )
    assert found == ([Violation("recompute", f"{wrong}: {said}")] if wrong else [])


def test_fp8_formats_and_shapes() -> None:
    assert broken("llama3_8b", plugins__fp8="hybrid") == []
    assert messages("llama3_8b", plugins__fp8="fp8") == [
        "trainer.plugins.fp8 must be 'e4m3' or 'hybrid', it is 'fp8'"
    ]
    assert messages("llama3_8b", plugins__fp8="hybrid", model__hidden_size=4104) == [
        "with FP8, model.config.hidden_size on one GPU must be divisible by 16: 4104 is not"
    ]
    assert messages(
        "llama3_8b", plugins__fp8="e4m3", model__ffn_hidden_size=14352, strategy__tensor_model_parallel_size=2
    ) == [
        "with FP8, model.config.ffn_hidden_size on one GPU must be divisible by 16: 14352 / 2 = 7176 is not"
    ]


def test_settings_that_nemo_overwrites() -> None:
    assert messages("llama3_8b", model__tensor_model_parallel_size=2, model__fp8="hybrid") == [
        "model.config.tensor_model_parallel_size has no effect, it is overwritten with "
        "trainer.strategy.tensor_model_parallel_size: 2 against 1",
        "model.config.fp8 has no effect, it is overwritten with trainer.plugins.fp8: 'hybrid' against None",
    ]
    assert broken("llama3_8b", model__context_parallel_size=2) == []


def test_another_strategy_has_other_rules() -> None:
    schema = load()
    tree = schema.recipe_tree("llama3_8b")
    trainer = tree["trainer"]
    assert isinstance(trainer, dict)
    trainer["strategy"] = "ddp"
    trainer["num_nodes"] = 7
    assert check(tree, schema, 7, 8) == []
    trainer["strategy"] = {"_target_": "nemo.lightning.pytorch.strategies.fsdp2_strategy.FSDP2Strategy"}
    assert check(tree, schema, 7, 8) == []


def test_every_recipe_of_the_schema_can_be_checked() -> None:
    schema = load()
    for name in schema.recipes:
        for num_nodes in (1, 3):
            assert all(
                "\n" not in violation.message
                for violation in check(schema.recipe_tree(name), schema, num_nodes, 8)
            )


def test_the_tree_is_left_alone() -> None:
    schema = load()
    tree = schema.recipe_tree("llama3_70b")
    check(tree, schema, 1, 8)
    assert tree == schema.recipe_tree("llama3_70b")
