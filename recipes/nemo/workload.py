"""What a NeMo recipe says beside NeMo's own configuration: which recipe it is and how to start it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Workload:
    """The part of a recipe that is this project's.

    Attributes:
        factory: The recipe's name for `nemo llm pretrain --factory`.
        schema_id: The schema that the configuration is checked against.
        container_image: The container image that the recipe names; None leaves it to the executor.
        env: Environment variables of the training process.
        smoke: Whether to run on CPU, shrunk: not a benchmark.
    """

    factory: str
    schema_id: str
    container_image: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    smoke: bool = False
