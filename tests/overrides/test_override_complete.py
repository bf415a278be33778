"""Completion of override paths and values."""

from __future__ import annotations

import pytest

from cloudai_run.overrides import apply, complete, complete_word, parse
from cloudai_run.recipes.nemo.schema import load


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("tr", ["trainer."]),
        ("trainer.max_st", ["trainer.max_steps="]),
        ("trainer.str", ["trainer.strategy."]),
        ("trainer.callb", ["trainer.callbacks=", "trainer.callbacks[0]"]),
        ("trainer.callbacks[0].log", ["trainer.callbacks[0].log_tokens_per_sec="]),
        (
            "trainer.strategy.sequence_parallel=",
            ["trainer.strategy.sequence_parallel=False", "trainer.strategy.sequence_parallel=True"],
        ),
        (
            "model.config.attention_backend=f",
            ["model.config.attention_backend=flash", "model.config.attention_backend=fused"],
        ),
        ("trainer.strategy.ddp=meg", ["trainer.strategy.ddp=megatron"]),
        ("trainer.strategy.pipeline_dtype=torch.b", ["trainer.strategy.pipeline_dtype=torch.bfloat16"]),
        ("data=s", ["data=squad"]),
        ("trainer.callbacks+=Nsys", ["trainer.callbacks+=NsysCallback"]),
        ("+trainer.max_st", ["+trainer.max_steps="]),
        ("run.", ["run.executor=", "run.executor.", "run.env.", "run.plugins="]),
        ("run.ex", ["run.executor=", "run.executor."]),
        ("res", ["resume."]),
        ("nothing.", []),
        ("trainer.max_steps.", []),
        ("trainer..x", []),
        ("é=", []),
    ],
)
def test_completion(prefix: str, expected: list[str]) -> None:
    assert complete(prefix, "llama3_8b") == expected


def test_empty_prefix_lists_the_roots() -> None:
    assert complete("", "llama3_8b") == ["data.", "log.", "model.", "optim.", "resume.", "trainer."]


def test_unknown_recipe_completes_nothing() -> None:
    assert complete("trainer.", "llama3_9b") == []


def test_completed_names_are_accepted() -> None:
    schema = load()
    tree = schema.recipe_tree("llama3_8b")
    found = complete_word("trainer.strategy.", tree, schema)
    assert len(found) > 50
    values = [
        value for word in found if word.endswith("=") for value in complete_word(word, tree, schema)[:1]
    ]
    assert len(values) > 20
    for value in values:
        apply(parse([value]), tree, schema, "llama3_8b")
