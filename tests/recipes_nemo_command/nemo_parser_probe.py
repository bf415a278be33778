"""Sends words through NeMo's own command line parser and says what arrives: run inside an environment with NeMo.

Reads a JSON list of [recipe, words, paths] on standard input. For each it writes one line of JSON after the mark
`ARRIVED `: the values at the paths, or the error. A value that JSON has no form for is tagged by its type.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import io
import json
import logging
import pathlib
import sys


def tagged(value: object) -> object:
    """Returns a value in JSON's terms, with its type where JSON would lose it."""
    import fiddle as fdl
    import torch

    if isinstance(value, fdl.Buildable):
        target = value.__fn_or_cls__
        kind = "Partial" if isinstance(value, fdl.Partial) else "Config"
        arguments = {name: tagged(item) for name, item in value.__arguments__.items()}
        return {kind: f"{target.__module__}.{target.__qualname__}", **arguments}
    if isinstance(value, enum.Enum):
        return {"named": f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"}
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, list):
        return [tagged(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [tagged(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[tagged(key), tagged(item)] for key, item in value.items()]}
    if isinstance(value, pathlib.PurePath):
        return {"path": str(value)}
    if isinstance(value, torch.dtype):
        return {"named": str(value)}
    if isinstance(value, datetime.timedelta):
        return {"timedelta": value.total_seconds()}
    if callable(value) and hasattr(value, "__name__"):
        return {"named": f"{value.__module__}.{value.__name__}"}
    plain = {name: item for name, item in vars(value).items() if isinstance(item, (bool, int, str, list))}
    return {"instance": f"{type(value).__module__}.{type(value).__qualname__}", **plain}


def at(value: object, path: str) -> object:
    """Returns what lies at a path such as `trainer.callbacks[1].ranks`."""
    for part in path.split("."):
        name, *indices = part.replace("]", "").split("[")
        value = getattr(value, name)
        for index in indices:
            value = value[int(index)]  # type: ignore[index]
    return value


def arrived(recipe: str, words: list[str], paths: list[str]) -> object:
    """Returns what NeMo makes of the words, as `nemo llm pretrain --factory RECIPE WORDS...` does."""
    from nemo.collections import llm
    from nemo_run.cli import cli_parser
    from nemo_run.cli.lazy import LazyEntrypoint

    # It remembers texts by type, and takes unions of the same types in another order for equal.
    cli_parser.parse_value.cache_clear()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            partial = LazyEntrypoint(llm.pretrain, factory=recipe, overwrites=words).resolve()
        return {"values": [tagged(at(partial, path)) for path in paths]}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    """Answers all requests on standard input."""
    logging.disable(logging.CRITICAL)
    for recipe, words, paths in json.load(sys.stdin):
        print("ARRIVED", json.dumps(arrived(recipe, words, paths)))


if __name__ == "__main__":
    main()
