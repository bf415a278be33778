"""The fields of a dataclass are checked like a recipe's parameters."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest

from cloudai_run.errors import UserError
from cloudai_run.overrides import check_fields, fields_of, split_run
from cloudai_run.overrides.schema import Tree
from tests.golden import assert_golden


class Gpus(enum.Enum):
    H100 = "h100"
    B200 = "b200"


@dataclass
class Cluster:
    """An executor's fields of every kind."""

    kind: ClassVar[str] = "slurm"
    account: str = "none"
    nodes: int = 1
    exclusive: bool | str | None = None
    time: str | None = None
    layout: Literal["block", "cyclic"] = "block"
    gpus: Gpus = Gpus.H100
    container_mounts: list[str] = field(default_factory=list)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    script: Path = Path("x")
    shares: tuple[int, ...] = ()
    weights: Annotated[Sequence[float], "per node"] = ()
    tunnel: object = None
    _private: int = 0
    ready: bool = field(default=False, init=False)


FIELDS = fields_of(Cluster)
BAD = [
    ["run.executor.nodez=4"],
    ["run.executor.nodes=four"],
    ["run.executor.nodes=4", "run.executor.nodes=5"],
    ["run.executor=slurm(nodes=4)", "run.executor.nodes=5"],
    ["run.executor.layout=cyclc"],
    ["run.executor.gpus=H200"],
    ["run.executor.container_mounts=/a:/b"],
    ["run.executor.env_vars.A=None"],
    ["+run.executor.reservation=x"],
    ["run.executor.nodes.x=1"],
    ["run.executor.kind=local"],
]


def checked(*words: str, values: Mapping[str, Tree] | None = None) -> dict[str, Tree]:
    """Returns the fields that the words set."""
    return check_fields("slurm", FIELDS, split_run(words).executor_overrides, values)


def test_types_of_fields() -> None:
    assert FIELDS == {
        "account": "str",
        "nodes": "int",
        "exclusive": ["union", "bool", "str", "none"],
        "time": ["union", "str", "none"],
        "layout": ["literal", "block", "cyclic"],
        "gpus": ["literal", "h100", "b200"],
        "container_mounts": ["list", "str"],
        "env_vars": ["dict", "str", "str"],
        "script": "path",
        "shares": ["tuple", "int", "..."],
        "weights": ["list", "float"],
        "tunnel": "any",
    }


def test_only_fields_that_were_set_come_back() -> None:
    assert checked("run.executor.nodes=1e1", "run.executor.time=01:00:00", "run.executor.gpus=b200") == {
        "nodes": 10,
        "time": "01:00:00",
        "gpus": "b200",
    }
    assert checked() == {}


def test_earlier_values_are_what_operators_and_paths_change() -> None:
    values: dict[str, Tree] = {
        "container_mounts": ["/a:/b"],
        "nodes": 2,
        "env_vars": {"A": "1"},
        "account": "x",
    }
    assert checked(
        "run.executor.container_mounts+=/c:/d",
        "run.executor.nodes*=2",
        "run.executor.env_vars.B='2'",
        values=values,
    ) == {"container_mounts": ["/a:/b", "/c:/d"], "nodes": 4, "env_vars": {"A": "1", "B": "2"}}
    assert values["container_mounts"] == ["/a:/b"]


def test_bad_fields_are_refused_with_their_text() -> None:
    blocks: list[str] = []
    for words in BAD:
        with pytest.raises(UserError) as caught:
            checked(*words)
        blocks.append(f"$ {' '.join(words)}\nerror: {caught.value}\n")
    assert_golden(Path(__file__).parent / "golden" / "fields.txt", "\n".join(blocks))
