"""The names of all recipes, and importing a factory by its name."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import nemo_run as run
import pytest

import cloudai_run.recipes as recipes
from cloudai_run.recipes import catalogue
from cloudai_run.recipes.nemo import schema


def test_the_projects_recipes_come_first_and_nemos_nine_before_them() -> None:
    names = list(catalogue.descriptions())
    assert names[:9] == [
        *("llama3_8b", "llama3_70b", "llama31_8b", "llama31_70b", "llama31_405b"),
        *("nemotron4_15b", "nemotron4_340b", "mixtral_8x7b", "gpt3_175b"),
    ]
    assert {entry["framework"] for entry in catalogue.descriptions().values()} == {"nemo", "paxml"}
    everything = catalogue.descriptions(every=True)
    assert list(everything)[: len(names)] == names
    assert set(schema.load().recipes) < set(everything)
    assert list(catalogue.RECIPES) == list(everything)
    assert len(catalogue.RECIPES) == len(everything)


def test_descriptions_are_one_line() -> None:
    for name, entry in catalogue.descriptions(every=True).items():
        assert entry["description"], name
        assert "\n" not in entry["description"]


def test_every_named_factory_exists_and_makes_its_recipe() -> None:
    for name in catalogue.descriptions():
        module, _, function = catalogue.RECIPES[name].factory.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
    assert catalogue.find_factory("llama3_8b")(num_nodes=2).trainer.num_nodes == 2


def test_other_recipes_of_the_schema_are_made_by_name() -> None:
    recipe = catalogue.find_factory("qwen2_7b")(num_nodes=3)
    assert isinstance(recipe, run.Partial)
    assert (recipe.workload.factory, recipe.trainer.num_nodes) == ("qwen2_7b", 3)


def test_factories_are_attributes_of_the_package() -> None:
    from cloudai_run.recipes import llama3_8b, qwen2_7b
    from cloudai_run.recipes.nemo import llama3_8b as same

    assert llama3_8b is same
    assert qwen2_7b().workload.factory == "qwen2_7b"
    assert {"llama3_8b", "qwen2_7b", "grok1"} <= set(dir(recipes))
    with pytest.raises(AttributeError, match="has no attribute llama3_9b"):
        _ = recipes.llama3_9b
    with pytest.raises(KeyError):
        _ = catalogue.RECIPES["llama3_9b"]


def test_naming_recipes_loads_nothing_slow() -> None:
    program = (
        "import sys; from cloudai_run.recipes import catalogue; catalogue.descriptions(every=True)\n"
        "assert 'llama3_8b' in catalogue.RECIPES\n"
        "print(sorted({'nemo_run', 'fiddle', 'yaml', 'torch', 'numpy', 'typer'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
