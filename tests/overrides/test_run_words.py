"""The words for the run are split off, and everything else stays as it was typed."""

from __future__ import annotations

from cloudai_run.overrides import split_run
from cloudai_run.overrides.expr import Scalar


def test_split_keeps_the_order_of_both_sides() -> None:
    words = split_run(
        [
            "trainer.max_steps=5",
            "run.executor=my-cluster",
            "+trainer.strategy.x=1",
            "run.executor.nodes=4",
            "run.executor.container_mounts+=['/a:/b']",
            "runner=5",
        ]
    )
    assert words.recipe == ("trainer.max_steps=5", "+trainer.strategy.x=1", "runner=5")
    assert words.executor == "my-cluster"
    assert [(o.path, o.operator, o.raw) for o in words.executor_overrides] == [
        (("nodes",), "=", "4"),
        (("container_mounts",), "+=", "['/a:/b']"),
    ]
    assert (words.env, words.plugins, words.plugin_overrides) == ({}, None, ())


def test_arguments_of_an_executor_are_overrides_of_its_fields() -> None:
    words = split_run(["run.executor=slurm(nodes=4, account='a b')", "run.executor.partition=main"])
    assert words.executor == "slurm"
    assert [(str(o), o.path, o.value) for o in words.executor_overrides[:2]] == [
        ("run.executor.nodes=4", ("nodes",), Scalar("4", 4)),
        ("run.executor.account='a b'", ("account",), Scalar("'a b'", "a b", quoted=True)),
    ]
    assert words.executor_overrides[2].path == ("partition",)


def test_environment_values_are_what_was_typed() -> None:
    values = {
        "XLA_FLAGS": "--a=1 --b=x=y",
        "NCCL_IB_HCA": "mlx5_0,mlx5_1",
        "QUOTED": "'already quoted'",
        "SPACES": "  two  ",
        "JSON": '{"a":1}',
        "EMPTY": "",
        "EQUALS": "==",
        "AT": "@file.yaml",
        "NONE": "None",
        "RANK": "$SLURM_LOCALID",
        "LINES": "a\nb\tc",
        "no_proxy": "é,世界",
        "_X1": "$(touch pwned); `touch pwned`",
    }
    assert split_run([f"run.env.{name}={value}" for name, value in values.items()]).env == values


def test_equal_repeats_are_harmless() -> None:
    words = split_run(
        ["run.executor=a", "run.env.A=1", "run.executor=a", "run.env.A=1", "run.plugins=p", "run.plugins=p"]
    )
    assert (words.executor, words.env) == ("a", {"A": "1"})
    assert words.plugins is not None
    assert [plugin.name for plugin in words.plugins] == ["p"]


def test_plugins_by_name_with_arguments_and_overrides() -> None:
    words = split_run(
        ["run.plugins=[nsys(start=5,end=8), my.memory]", "run.plugins[0].ranks=[0]", "run.plugins.level=2"]
    )
    assert words.plugins is not None
    assert [(p.name, [name for name, _ in p.arguments]) for p in words.plugins] == [
        ("nsys", ["start", "end"]),
        ("my.memory", []),
    ]
    assert [o.path for o in words.plugin_overrides] == [(0, "ranks"), ("level",)]
    assert split_run(["run.plugins=[]"]).plugins == ()
    assert split_run([]).plugins is None
