"""Every refused command line: one message of at most six printable lines, pinned, and nothing executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run.errors import UserError
from cloudai_run.overrides import apply, parse, split_run
from cloudai_run.overrides.text import shown
from cloudai_run.recipes.nemo.schema import load
from tests.golden import assert_golden
from tests.overrides.bad_words import BAD

GOLDEN = Path(__file__).parent / "golden"


def message(words: list[str]) -> str:
    """Returns the message with which the words are refused."""
    schema = load()
    with pytest.raises(UserError) as caught:
        apply(parse(split_run(words).recipe), schema.recipe_tree("llama3_8b"), schema, "llama3_8b")
    return str(caught.value)


@pytest.mark.parametrize("category", BAD)
def test_bad_words_are_refused_with_their_text(
    category: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks: list[str] = []
    for words in BAD[category]:
        text = message(words)
        assert len(text.splitlines()) <= 6, text
        assert all(line.isprintable() for line in text.split("\n")), text
        assert max(map(len, text.splitlines())) <= 260, text
        blocks.append(f"$ {' '.join(shown(word, 100) for word in words)}\nerror: {text}\n")
    assert_golden(GOLDEN / f"{category}.txt", "\n".join(blocks))
    assert list(tmp_path.iterdir()) == []


def test_there_are_many_of_them() -> None:
    assert sum(map(len, BAD.values())) >= 60


def test_a_refusal_imports_nothing_that_the_user_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *args: object, **kwargs: object) -> None:
        raise AssertionError(f"imported {name}")

    load()
    message(["data=sqad"])
    monkeypatch.setattr("importlib.import_module", refuse)
    message(["trainer.callbacks+=[antigravity.fly()]"])
    message(["data=antigravity"])
    message(["model.config.activation_func=antigravity.fly"])
