"""What NeMo's own parser makes of our words: every value arrives, or is refused here because it would not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import schema as schemas
from cloudai_run.recipes.nemo.cli_spell import NotCarriedError, plain
from cloudai_run.recipes.nemo.command import is_node, override_args
from cloudai_run.recipes.nemo.smoke import cpu_smoke

pytestmark = pytest.mark.nemo

PROBE = Path(__file__).with_name("nemo_parser_probe.py")
RECIPE = "llama3_8b"
NSYS = "nemo.lightning.pytorch.callbacks.nsys.NsysCallback"


RECIPES = {"llama3_8b", "llama3_70b", "llama31_8b", "llama31_70b", "llama31_405b"} | {
    *("nemotron4_15b", "nemotron4_340b", "mixtral_8x7b", "gpt3_175b")
}


def named(name: str) -> dict[str, Any]:
    return {"_target_": name, "_call_": False}


BATTERY: list[Any] = [
    *(None, True, 0, 1, -1, 1000, 0.5, 1.0, 1e-05, float("inf")),
    *("a", "5", "None", "True", "os.getcwd", "it's", ""),
    *([], [1, 0], ["a"], ["a", "none"], [0.5], [["a"], ["b", "c"]]),
    *({"a": 1}, {"a": {"b": [1, "5"]}}, {"_items_": [[0, 4]]}, {"_tuple_": [1, 2]}),
    *(named("torch.bfloat16"), named("megatron.core.transformer.enums.AttnBackend.flash")),
    *(named("torch.nn.functional.gelu"), named(NSYS)),
]
HOSTILE = [
    "os.system(touch pwned)",
    "os.mkdir(path=pwned)",
    "os.mkdir",
    "$(touch pwned)",
    "`touch pwned`; touch pwned",
    "__import__('os').system('touch pwned')",
    "lambda: open('pwned', 'w')",
    "1 if open('pwned', 'w') else 2",
    "[x for x in [open('pwned', 'w')]]",
    "dict(a=1)",
    "pydoc.locate('os.getcwd')",
    "Config[os.getcwd]",
    "<Config[os.getcwd()]>",
    "Partial",
    "@recipe.yaml",
    "squad",
    "${oc.env:HOME}",
    "\\${oc.env:HOME}",
    "{model_name}--{val_loss:.2f}-{step}",
    *(
        "'",
        '"',
        "''",
        '""',
        "'a'",
        '"a"',
        "it's",
        "'a' 'b'",
        'a"b',
        "'a\",\"b'",
        "\\",
        "a\\",
        "a\\nb",
        "a\nb",
        "\n",
    ),
    *(
        "None",
        "null",
        "True",
        "false",
        "5",
        "1e2",
        "[1]",
        "{}",
        "{'a': 1}",
        "(1, 2)",
        "???",
        "!!python/name:os.system",
    ),
    *(
        " a ",
        "  ",
        "\t",
        "a=b",
        "+=1",
        "a,b",
        "--yes",
        "héllo wörld ☃ 日本",
        "😀",
        "a\x07b",
        "a\x1b[31m",
        "%s %(a)s",
    ),
]
HOSTILE_PATHS = [
    "log.name",
    "log.log_dir",
    "log.tensorboard.save_dir",
    "trainer.default_root_dir",
    "trainer.strategy.new_arg",
    "trainer.callbacks[0].timer_kwargs",
    "model.config.cp_comm_type",
    "log.ckpt.new_arg",
]


PARTS = ["model", "data", "trainer", "log", "resume", "optim"]


def trees() -> dict[str, tuple[str, dict[str, Any]]]:
    """Whole configurations by name, each with the recipe that it is made from."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in sorted(RECIPES):
        tree = schemas.load().recipe_tree(name)
        tree["workload"] = {"_target_": "Workload", "factory": name}
        found[f"{name} shrunk"] = (name, cpu_smoke(tree)[0])
    for name, change in CHANGES.items():
        tree = recipe()
        change(tree)
        found[name] = (RECIPE, tree)
    return found


def append_callbacks(tree: dict[str, Any]) -> None:
    tree["trainer"]["callbacks"][0]["log_tokens_per_sec"] = True
    tree["trainer"]["callbacks"] += [
        {"_target_": NSYS, "start_step": 3, "end_step": 5, "ranks": [0]},
        {"_target_": NSYS, "start_step": 3, "end_step": 5, "ranks": [0, 8]},
        {"_target_": "nemo.lightning.pytorch.callbacks.garbage_collection.GarbageCollectionCallback"}
        | {"gc_interval_train": 100, "gc_interval_val": 100},
    ]


def replace_callbacks(tree: dict[str, Any]) -> None:
    tree["trainer"]["callbacks"] = [{"_target_": NSYS, "start_step": 1, "end_step": 2, "ranks": [1, 2]}]


def replace_nodes(tree: dict[str, Any]) -> None:
    tree["data"] = {"_target_": "nemo.collections.llm.gpt.data.squad.SquadDataModule", "_factory_": "squad"}
    tree["data"] |= {"seq_length": 128, "micro_batch_size": 2, "global_batch_size": 16}
    tree["optim"] = {
        "_target_": "nemo.lightning.pytorch.optim.megatron.MegatronOptimizerModule",
        "config": {
            "_target_": "megatron.core.optimizer.optimizer_config.OptimizerConfig",
            "lr": 0.5,
            "optimizer": "sgd",
        },
        "lr_scheduler": {"_target_": "nemo.lightning.pytorch.optim.lr_scheduler.WarmupHoldPolicyScheduler"}
        | {"warmup_steps": 4},
    }
    tree["log"]["tensorboard"] = None
    tree["log"]["ckpt"]["train_time_interval"] = None


def take_away(tree: dict[str, Any]) -> None:
    """Goes back to defaults; they are given in full, for the recipe has set something else."""
    del tree["optim"]["config"]["adam_eps"], tree["trainer"]["strategy"]["context_parallel_size"]
    tree["trainer"]["callbacks"] = []
    tree["resume"]["resume_if_exists"] = False


CHANGES = {
    "callbacks appended": append_callbacks,
    "callbacks replaced": replace_callbacks,
    "nodes replaced": replace_nodes,
    "taken away": take_away,
}


@dataclass(frozen=True)
class Case:
    """A value at a path, the words for it or why there are none, and what NeMo made of which words."""

    path: str
    value: Any
    words: tuple[str, ...]
    refusal: str
    answers: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.path}={self.value!r} {self.refusal} {[*self.words]} -> {self.answers}"


def recipe() -> dict[str, Any]:
    return schemas.load().recipe_tree(RECIPE)


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for part in parents:
        key, *indices = part.replace("]", "").split("[")
        tree = tree[key]
        for index in indices:
            tree = tree[int(index)]  # type: ignore[index]
    tree[name] = value


def nodes(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each node of a tree with its path."""
    yield path, node
    for name, value in node.items():
        at = f"{path}.{name}" if path else name
        if is_node(value):
            yield from nodes(value, at)
        for index, item in enumerate(value if isinstance(value, list) else []):
            if is_node(item):
                yield from nodes(item, f"{at}[{index}]")


def pairs() -> Iterator[tuple[str, Any]]:
    """Yields values for a parameter of every type that the recipe has, and each parameter's own default."""
    schema, seen = schemas.load(), set()
    for path, node in nodes(recipe()):
        for name, param in schema.target(str(node["_target_"])).params.items():
            at = f"{path}.{name}" if path else name
            if at in ("trainer.devices", "trainer.num_nodes"):
                continue
            if (kind := repr((param.type, param.parser))) not in seen:
                seen.add(kind)
                yield from ((at, value) for value in BATTERY)
            elif param.default is not None and not isinstance(param.default, dict):
                yield at, param.default
    yield from (("trainer.strategy.new_arg", value) for value in BATTERY)
    yield from ((path, value) for path in HOSTILE_PATHS for value in HOSTILE)
    yield from (("model.config.recompute_modules", ["mlp", value]) for value in HOSTILE)
    yield from (("log.ckpt.new_arg", {value: value}) for value in HOSTILE)


def natural(path: str, value: Any) -> list[str]:
    """The words that one would try for a value that we refuse."""
    if isinstance(value, dict) and "_call_" in value:
        name = value["_target_"]
        return [f"{path}={text}" for text in (name, f"'{name}'", name.rpartition(".")[2])]
    try:
        value = plain(value)
    except NotCarriedError:
        return []
    texts = [repr(value), f"'{value}'"] if isinstance(value, str) else [repr(value)]
    return [f"{path}={text}" for text in dict.fromkeys(texts) if "\0" not in text and text]


def ask(requests: list[tuple[str, tuple[str, ...], list[str]]], cwd: Path) -> list[dict[str, Any]]:
    asked = json.dumps([[name, list(words), paths] for name, words, paths in requests])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROBE)],
        input=asked,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [
        line.removeprefix("ARRIVED ") for line in done.stdout.splitlines() if line.startswith("ARRIVED ")
    ]
    assert len(lines) == len(requests)
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nothing is written here")


@pytest.fixture(scope="module")
def answered(empty_folder: Path) -> tuple[list[Case], dict[str, dict[str, Any]]]:
    """Everything asked of one NeMo process: values one by one, and whole trees by name."""
    schema, base = schemas.load(), recipe()
    planned: list[tuple[str, Any, tuple[str, ...], str, list[tuple[str, ...]]]] = []
    for path, value in pairs():
        tree = recipe()
        put(tree, path, value)
        try:
            words, refusal = override_args(tree, base, schema), ""
        except RecipeError as error:
            words, refusal = (), str(error)
        sent = [(word,) for word in natural(path, value)] if refusal else [words]
        planned.append((path, value, words, refusal, sent))
    requests = [(RECIPE, words, [case[0]]) for case in planned for words in case[4]]
    whole = {
        name: (of, override_args(tree, schema.recipe_tree(of), schema))
        for name, (of, tree) in trees().items()
    }
    answers = iter(ask(requests + [(of, words, PARTS) for of, words in whole.values()], empty_folder))
    cases = [
        Case(path, value, words, refusal, [next(answers) for _ in sent])
        for path, value, words, refusal, sent in planned
    ]
    return cases, dict(zip(whole, answers, strict=True))


@pytest.fixture(scope="module")
def cases(answered: tuple[list[Case], dict[str, dict[str, Any]]]) -> list[Case]:
    return answered[0]


def tagged(value: Any) -> Any:
    """A tree's value as the probe writes what has arrived."""
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, list):
        return [tagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "_call_" in value:
        name = value["_target_"]
        # What Python itself calls the function: it is built in.
        return {"named": {"torch.nn.functional.gelu": "torch._C._nn.gelu"}.get(name, name)}
    if "_tuple_" in value:
        return {"tuple": tagged(value["_tuple_"])}
    if "_target_" in value:
        arguments = {name: tagged(item) for name, item in value.items() if not name.startswith("_")}
        return {"Partial" if value.get("_partial_") else "Config": value["_target_"], **arguments}
    items = value.get("_items_", [list(item) for item in value.items()])
    return {"dict": [[tagged(key), tagged(item)] for key, item in items]}


def arrived_equal(value: Any, arrived: Any, case: Case) -> bool:
    """Says whether a value arrived, in its own type or in the declared float or path that stands for it."""
    if isinstance(arrived, list) and isinstance(value, list) and len(arrived) == len(value):
        return all(arrived_equal(one, other, case) for one, other in zip(value, arrived, strict=True))
    if isinstance(arrived, dict) and "path" in arrived:
        return arrived["path"] == value
    if isinstance(arrived, dict) and "float" in arrived and type(value) is int:
        return float(arrived["float"]) == value
    if case.path == "trainer.precision" and value in (16, 32, 64):
        return arrived in (value, str(value))  # Lightning declares both, and takes them for the same.
    same_type = type(value) is not bool or type(arrived) is bool
    return same_type and json.dumps(tagged(value), sort_keys=True) == json.dumps(arrived, sort_keys=True)


def test_there_are_enough_values_of_every_kind(cases: list[Case]) -> None:
    accepted = [case for case in cases if case.words]
    refused = [case for case in cases if case.refusal]
    assert len(accepted) >= 600
    assert len(refused) >= 600
    assert len({case.path for case in accepted}) >= 200


def test_every_accepted_value_arrives(cases: list[Case]) -> None:
    wrong = [
        str(case)
        for case in cases
        if case.words
        and not arrived_equal(case.value, case.answers[0].get("values", [{"refused": case.answers}])[0], case)
    ]
    assert not wrong, "\n".join(wrong[:40])


def test_nothing_is_refused_that_nemo_would_take(cases: list[Case]) -> None:
    taken = [
        str(case)
        for case in cases
        if case.refusal
        and any(
            arrived_equal(case.value, answer["values"][0], case)
            for answer in case.answers
            if "values" in answer
        )
    ]
    assert not taken, "\n".join(taken[:40])


def assert_arrived(arrived: Any, expected: Any, path: str) -> None:
    """Asserts that a tree arrived: nothing else is set but to its default, and a call gave what it should."""
    if path in ("trainer.devices", "trainer.num_nodes"):
        return  # The executor's, which are given as words of their own.
    if isinstance(expected, list) and isinstance(arrived, list):
        for index, (one, other) in enumerate(zip(arrived, expected, strict=True)):
            assert_arrived(one, other, f"{path}[{index}]")
    elif isinstance(expected, dict) and "instance" in arrived:
        attributes = {name.removeprefix("_nsys_profile_"): value for name, value in arrived.items()}
        assert attributes["instance"] == expected["Config"], path
        assert {name: attributes[name] for name in expected if name != "Config"} == {
            name: value for name, value in expected.items() if name != "Config"
        }, path
    elif isinstance(expected, dict) and "Config" in expected:
        params = schemas.load().target(expected["Config"]).params
        for name, value in arrived.items():
            wanted = expected[name] if name in expected else tagged(params[name].default)
            assert_arrived(value, wanted, f"{path}.{name}" if path else name)
        assert set(expected) <= set(arrived), path
    else:
        assert arrived == expected, path


@pytest.mark.parametrize("name", [*(f"{recipe} shrunk" for recipe in sorted(RECIPES)), *CHANGES])
def test_a_whole_configuration_arrives(
    name: str, answered: tuple[list[Case], dict[str, dict[str, Any]]]
) -> None:
    answer, (_, tree) = answered[1][name], trees()[name]
    assert "values" in answer, answer
    for part, arrived in zip(PARTS, answer["values"], strict=True):
        assert_arrived(arrived, tagged(tree[part]), part)


def test_a_name_without_quotes_is_called_there(tmp_path: Path) -> None:
    """Why texts go in quotes; without this the test below would prove nothing."""
    ask([(RECIPE, ("log.name=os.system(touch pwned)",), ["log.name"])], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pwned"]


def test_nothing_was_executed(cases: list[Case], empty_folder: Path) -> None:
    assert cases
    assert [path.name for path in empty_folder.iterdir()] == []
