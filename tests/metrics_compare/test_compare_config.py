"""What differs between two runs, path by path."""

from __future__ import annotations

import pytest

from cloudai_run.metrics.compare_config import (
    ABSENT,
    Difference,
    RunFacts,
    run_differences,
    show_value,
    tree_differences,
)
from tests.metrics_compare.runs import config_tree, record


def paths(before: object, after: object) -> list[tuple[str, object, object]]:
    return list(tree_differences(before, after))


def test_equal_trees_have_no_difference() -> None:
    assert paths(config_tree(), config_tree()) == []


def test_a_changed_value_is_named_as_fiddle_names_it() -> None:
    assert paths(config_tree(), config_tree(num_layers=4)) == [(".model.config.num_layers", 32, 4)]


def test_a_key_that_one_side_lacks_is_absent_and_not_none() -> None:
    node = {"_target_": "A", "x": None}
    assert paths(node, {"_target_": "A"}) == [(".x", None, ABSENT)]
    assert paths({"_target_": "A"}, node) == [(".x", ABSENT, None)]


def test_a_changed_target() -> None:
    assert paths({"m": {"_target_": "A"}}, {"m": {"_target_": "B"}}) == [("['m'].__fn_or_cls__", "A", "B")]


def test_plain_dicts_have_keys_and_lists_have_numbers() -> None:
    before = {"_target_": "A", "env": {"X": "1"}, "mesh": [1, 8, 1]}
    after = {"_target_": "A", "env": {"X": "2"}, "mesh": [1, 4, 1]}
    assert paths(before, after) == [(".env['X']", "1", "2"), (".mesh[1]", 8, 4)]


def test_one_inserted_callback_is_one_difference() -> None:
    timing = {"_target_": "Timing"}
    flops = {"_target_": "Flops", "model_name": "llama3"}
    memory = {"_target_": "Memory", "every_n_steps": 10}
    assert paths([timing, memory], [flops, timing, memory]) == [("[0]", ABSENT, flops)]
    slower = {"_target_": "Memory", "every_n_steps": 20}
    assert paths([timing, memory], [timing, slower]) == [("[1].every_n_steps", 10, 20)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"_target_": "torch.bfloat16", "_call_": False}, {"_target_": "torch.float16", "_call_": False}),
        ({"_tuple_": [1, 2]}, {"_tuple_": [1, 3]}),
        ({"_tuple_": [1]}, [1]),
        (True, 1),
        (0, False),
    ],
)
def test_values_that_stand_for_one_thing_are_not_taken_apart(before: object, after: object) -> None:
    assert paths({"_target_": "A", "x": before}, {"_target_": "A", "x": after}) == [(".x", before, after)]


def facts(**changes: object) -> RunFacts:
    return RunFacts(record=record(**changes), config=config_tree())


def test_an_override_is_named_with_its_side() -> None:
    before = facts()
    after = RunFacts(record=record(overrides=["model.config.num_layers=4"]), config=config_tree(num_layers=4))
    assert run_differences(before, after) == [
        Difference(
            category="configuration",
            path=".model.config.num_layers",
            before=32,
            after=4,
            overridden=("after",),
        )
    ]


@pytest.mark.parametrize(
    "word", ["+trainer.max_steps=9", "trainer.max_steps*=3", "trainer=x", "trainer.max_steps = 9"]
)
def test_every_spelling_of_an_override_is_recognised(word: str) -> None:
    after = RunFacts(record=record(overrides=[word]), config=config_tree(max_steps=9))
    found = run_differences(facts(), after)
    assert [(one.path, one.overridden) for one in found] == [(".trainer.max_steps", ("after",))]


def test_an_override_of_another_path_is_not_credited() -> None:
    after = RunFacts(record=record(overrides=["trainer.max=9"]), config=config_tree(max_steps=9))
    assert run_differences(facts(), after)[0].overridden == ()


def test_everything_else_has_its_category() -> None:
    before = RunFacts(
        record=record(xla_flags={"perf": {"xla_gpu_graph_level": 0}}, env={"NCCL_DEBUG": "WARN", "A": "1"}),
        config=config_tree(),
        nodes=("node1", "node2"),
    )
    after = RunFacts(
        record=record(
            xla_flags={"perf": {"xla_gpu_graph_level": 1}, "profile": {"xla_x": True}},
            env={"NCCL_DEBUG": "INFO"},
            num_nodes=2,
            container_image="nvcr.io/nvidia/nemo:25.07",
            versions={"nemo_run": "0.11.2"},
            executor={"name": "slurm", "kind": "slurm", "nodes": 2, "partition": "batch"},
        ),
        config=config_tree(env={"NCCL_DEBUG": "INFO"}),
        nodes=("node3", "node2"),
    )
    found = [(one.category, one.path, one.before, one.after) for one in run_differences(before, after)]
    assert found == [
        ("environment", "A", "1", ABSENT),
        ("environment", "NCCL_DEBUG", "WARN", "INFO"),
        ("XLA flags", "perf.xla_gpu_graph_level", 0, 1),
        ("XLA flags", "profile.xla_x", ABSENT, True),
        ("layout", "num_nodes", 1, 2),
        ("container", "container_image", "nvcr.io/nvidia/nemo:25.04", "nvcr.io/nvidia/nemo:25.07"),
        ("versions", "nemo_run", "0.11.1", "0.11.2"),
        ("executor", "nodes", 1, 2),
        ("nodes", "nodes", "node1, node2", "node2, node3"),
    ]


def test_the_same_nodes_in_another_order_are_the_same() -> None:
    one = RunFacts(record=record(), config=config_tree(), nodes=("a", "b"))
    other = RunFacts(record=record(), config=config_tree(), nodes=("b", "a"))
    assert run_differences(one, other) == []


def test_bare_logs_have_nothing_to_compare() -> None:
    assert run_differences(RunFacts(record={}), RunFacts(record={})) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (ABSENT, "(absent)"),
        (None, "null"),
        (True, "true"),
        ("text", "text"),
        ([1, 2], "[1, 2]"),
        ({"_target_": "torch.bfloat16", "_call_": False}, "torch.bfloat16"),
        ({"_target_": "a.b.Trainer", "x": 1}, "Trainer(...)"),
        ("x" * 80, "x" * 57 + "..."),
    ],
)
def test_values_are_shown_in_one_short_line(value: object, shown: str) -> None:
    assert show_value(value) == shown
