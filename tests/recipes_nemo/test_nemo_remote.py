"""Stand-ins: names, identity, and what is refused."""

from __future__ import annotations

import inspect
import pickle

import fiddle as fdl
import nemo_run as run
import pytest

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import remote, schema

TRAINER = "nemo.lightning.pytorch.trainer.Trainer"


def test_attribute_access_gives_the_one_stand_in() -> None:
    trainer = remote.nemo_2_7_3.nemo.lightning.pytorch.trainer.Trainer
    assert trainer is remote.standin("nemo_2_7_3", TRAINER)
    assert trainer is remote.nemo_2_7_3.nemo.lightning.Trainer, "an alias"
    assert trainer.__module__ == "cloudai_run.recipes.nemo.remote"
    assert trainer.__qualname__ == f"nemo_2_7_3.{TRAINER}"
    assert repr(trainer) == remote.name_of(trainer) == TRAINER


def test_signature_is_the_schemas() -> None:
    parameters = inspect.signature(remote.nemo_2_7_3.nemo.lightning.Trainer).parameters
    assert list(parameters) == list(schema.load().target(TRAINER).params)
    assert parameters["max_steps"].default == -1
    strategy = remote.standin("nemo_2_7_3", "nemo.lightning.MegatronStrategy")
    assert inspect.signature(strategy).parameters["kwargs"].kind is inspect.Parameter.VAR_KEYWORD


def test_every_name_of_the_schema_has_a_stand_in_that_pickles() -> None:
    known = schema.load()
    members = [f"{name}.{member}" for name, given in known.enums.items() for member in given]
    names = [*known.targets, *known.names, *known.enums, *members]
    for name in names:
        found = remote.standin("nemo_2_7_3", name)
        assert remote.name_of(found) == name
        assert pickle.loads(pickle.dumps(found)) is found
    for registered in known.factories.values():
        for factory in registered.values():
            found = remote.factory_standin("nemo_2_7_3", factory)
            assert pickle.loads(pickle.dumps(found)) is found
            assert remote.factory_of(found) == factory.name


def test_enum_members_are_attributes() -> None:
    backend = remote.nemo_2_7_3.megatron.core.transformer.enums.AttnBackend
    assert backend.flash is remote.standin("nemo_2_7_3", "megatron.core.transformer.enums.AttnBackend.flash")
    with pytest.raises(AttributeError, match=r"AttnBackend has no attribute flesh here"):
        _ = backend.flesh


def test_wrong_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = remote.nemo_2_7_3.nemo.lightning.Trainr
    assert str(raised.value) == (
        "<nemo.lightning of schema nemo_2_7_3> has no Trainr\n  did you mean Trainer?"
    )
    with pytest.raises(RecipeError, match=r"^NeMo 2.7.3 has no os.system that a recipe can use"):
        remote.standin("nemo_2_7_3", "os.system")
    with pytest.raises(AttributeError, match="has no attribute nemo_1_0"):
        _ = remote.nemo_1_0


def test_packages_can_be_listed() -> None:
    assert "lightning" in dir(remote.nemo_2_7_3.nemo)
    assert "Trainer" in dir(remote.nemo_2_7_3.nemo.lightning)


def test_building_only_remembers() -> None:
    trainer = remote.nemo_2_7_3.nemo.lightning.Trainer
    built = fdl.build(run.Config(trainer, max_steps=5))
    assert isinstance(built, trainer)
    assert repr(built) == f"<{TRAINER} of max_steps>"


def test_calling_a_function_only_remembers() -> None:
    tokenizer = remote.nemo_2_7_3.nemo.collections.common.tokenizers.tokenizer_utils.get_nmt_tokenizer
    built = fdl.build(run.Config(tokenizer, library="null"))
    assert isinstance(built, remote.Built)
    assert built.function is tokenizer


def test_names_of_real_objects() -> None:
    assert remote.name_of(inspect.Parameter) == "inspect.Parameter"
    assert remote.name_of(inspect._ParameterKind.VAR_KEYWORD) == "inspect._ParameterKind.VAR_KEYWORD"
    with pytest.raises(RecipeError, match="cannot be part of a recipe: it has no name to import it by"):
        remote.name_of(lambda: 1)
