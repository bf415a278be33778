"""Names and one-line descriptions of the PAXML recipes, without importing anything that is slow."""

from __future__ import annotations

from typing import TypedDict


class Entry(TypedDict):
    """A recipe: where its factory is (`module:function`), and what it runs."""

    factory: str
    framework: str
    description: str


def _h100(name: str, precisions: tuple[str, ...] = ("bf16", "fp8")) -> dict[str, str]:
    with_pgle = {"bf16": "bfloat16, without PGLE", "fp8": "FP8, with PGLE"}
    return {
        f"{name}_h100_{precision}": f"{name} for H100s in {with_pgle[precision]}" for precision in precisions
    }


_DESCRIPTIONS: dict[str, dict[str, str]] = {
    "gpt_recipes": {
        "gpt": "GPT-3 5B on synthetic data, with PGLE (the same as gpt_5b)",
        "gpt_126m": "GPT-3 126M on synthetic data, with PGLE",
        "gpt_5b": "GPT-3 5B on synthetic data, with PGLE",
        "gpt_175b": "GPT-3 175B on synthetic data, with PGLE",
        "gpt_nvidia5b": "NVIDIA5B: pipeline and tensor parallel",
        "gpt_nvidia175b": "NVIDIA175B: pipeline and tensor parallel",
        **_h100("gpt_126m"),
        **_h100("gpt_5b"),
        **_h100("gpt_175b"),
        **_h100("gpt_nvidia5b", ("bf16",)),
        **_h100("gpt_nvidia175b", ("bf16",)),
    },
    "grok_recipes": {
        "grok1": "Grok-1 314B, mixture of 8 experts, with PGLE",
        "grok_proxy": "Grok-1 with 16 of its 64 layers, with PGLE",
        **_h100("grok1"),
        **_h100("grok_proxy"),
    },
    "nemotron_recipes": {
        "nemotron": "Nemotron-4 340B, with PGLE (the same as nemotron_340b)",
        "nemotron_15b": "Nemotron-4 15B, with PGLE",
        "nemotron_340b": "Nemotron-4 340B, with PGLE",
        **_h100("nemotron_15b"),
        **_h100("nemotron_340b"),
    },
    "any_recipe": {"paxml": "any PAXML experiment class: fdl_config=my_package.MyClass"},
}

RECIPES: dict[str, Entry] = {
    name: Entry(
        factory=f"cloudai_run.recipes.paxml.{module}:{name}", framework="paxml", description=description
    )
    for module, entries in _DESCRIPTIONS.items()
    for name, description in entries.items()
}
