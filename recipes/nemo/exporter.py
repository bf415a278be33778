"""Writes the configuration trees of the installed NeMo's recipes as data.

The launcher runs where NeMo is not installed, so it knows recipes from a file that this script writes inside an
environment (a container, usually) that has NeMo:

    python exporter.py --output nemo-2.7.3.jsonl.xz

The file stands alone on purpose: it needs nothing but the standard library and NeMo itself, so that it can be
copied into any container. Equal installations give equal bytes.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import datetime
import enum
import functools
import importlib
import importlib.metadata
import inspect
import json
import lzma
import math
import pathlib
import pkgutil
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping

SCHEMA_VERSION = 1
PRETRAIN = "nemo.collections.llm.api.pretrain"
DISTRIBUTIONS = ("nemo_toolkit", "megatron-core", "lightning", "nemo_run", "torch")
# Packages whose public classes a user may name in an override although no recipe uses them.
OPEN_PACKAGES = (
    "nemo.lightning.pytorch.callbacks",
    "nemo.lightning.pytorch.optim",
    "nemo.lightning.pytorch.plugins",
    "nemo.lightning.pytorch.strategies",
    "nemo.collections.llm.gpt.data",
    "nemo.collections.llm.peft",
    "lightning.pytorch.callbacks",
    "lightning.pytorch.loggers",
)
# Packages that re-export targets under shorter names.
ALIAS_PACKAGES = (*OPEN_PACKAGES, "nemo.collections.llm", "nemo.lightning", "nemo.lightning.pytorch")
# Registries that hold no value of a recipe: recipes themselves, other tasks and executors.
OTHER_REGISTRIES = ("nemo.collections.llm.api.", "nemo_run.")
# Some classes carry a whole architecture file as a default: of no use here, and most of the file's size.
LONGEST_TEXT = 1000
# inspect finds no signature for these; the parameters are those of the Python documentation.
SIGNATURELESS: Mapping[type, tuple[str, ...]] = {
    datetime.timedelta: (
        "days",
        "seconds",
        "microseconds",
        "milliseconds",
        "minutes",
        "hours",
        "weeks",
    ),
}

Json = typing.Any  # A JSON value: what json.dumps accepts.


def dotted_name(value: object) -> str:
    """Returns the name by which a class, function, enum member or dtype can be imported, or ''."""
    if isinstance(value, enum.Enum):
        return f"{dotted_name(type(value))}.{value.name}"
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    for module in (getattr(value, "__module__", None), "torch.nn.functional"):
        found: object = sys.modules.get(module or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value and not str(module).startswith("torch._C"):
            return f"{module}.{name}"
    return ""


def encode(value: object) -> Json:
    """Returns the tree of a configured value (see the project's schema documentation)."""
    import fiddle as fdl

    if value is None or (isinstance(value, (bool, int, str)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"_repr_": repr(value)}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"_tuple_": [encode(item) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, fdl.Buildable):
        node: dict[str, Json] = {"_target_": dotted_name(value.__fn_or_cls__)}
        if isinstance(value, fdl.Partial):
            node["_partial_"] = True
        return {**node, **{str(key): encode(item) for key, item in value.__arguments__.items()}}
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if isinstance(value, datetime.timedelta):
        return {"_target_": "datetime.timedelta", "seconds": value.total_seconds()}
    if name := dotted_name(value):
        return {"_target_": name, "_call_": False}
    text = repr(value)
    # An address would make two exports of one installation differ.
    return {"_repr_": f"<{type(value).__qualname__}>" if " at 0x" in text else text}


class TypeReader:
    """Turns annotations into the schema's types and collects the classes and enums that they name."""

    def __init__(self) -> None:
        self.classes: dict[str, type] = {}
        self.enums: dict[str, list[str]] = {}

    def read(self, annotation: object) -> Json:
        """Returns the schema's type of a resolved annotation; what has no counterpart is "any"."""
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return self.read(args[0])
        if origin is typing.Union or isinstance(annotation, types.UnionType):
            members: list[Json] = []
            for member in map(self.read, args):
                members += [part for part in _members(member) if part not in members]
            return members[0] if len(members) == 1 else ["union", *members]
        if origin is typing.Literal:
            return ["literal", *(encode(item) for item in args)]
        if isinstance(annotation, typing.TypeVar):
            return self.read(annotation.__bound__) if annotation.__bound__ else "any"
        return self._read_class(annotation if origin is None else origin, args)

    def _read_class(self, cls: object, args: tuple[object, ...]) -> Json:
        import torch  # pyright: ignore[reportMissingImports]

        atoms = {int: "int", float: "float", bool: "bool", str: "str", type(None): "none", None: "none"}
        atoms |= {torch.dtype: "dtype", datetime.timedelta: "timedelta"}
        if not isinstance(cls, type):
            return "callable" if cls is Callable or cls is typing.Callable else atoms.get(cls, "any")
        if cls in atoms:
            return atoms[cls]
        if issubclass(cls, pathlib.PurePath) or cls.__name__ == "PathLike":
            return "path"
        if cls.__module__ == "collections.abc" and cls.__name__ == "Callable":
            return "callable"
        if issubclass(cls, tuple) and not hasattr(cls, "_fields"):
            items = [item if item is not Ellipsis else "..." for item in args] or [typing.Any, "..."]
            return ["tuple", *(item if item == "..." else self.read(item) for item in items)]
        if issubclass(cls, dict) or cls.__name__ in ("Mapping", "MutableMapping"):
            key, item = args if len(args) == 2 else (typing.Any, typing.Any)
            return ["dict", self.read(key), self.read(item)]
        if issubclass(cls, list) or cls.__module__ == "collections.abc":
            return ["list", self.read(args[0]) if args else "any"]
        if cls is type:
            return ["type", self._note(args[0]) if args and isinstance(args[0], type) else "builtins.object"]
        if issubclass(cls, enum.Enum):
            self.enums[dotted_name(cls)] = list(cls.__members__)
            return ["enum", dotted_name(cls)]
        name = "" if cls.__module__ in ("builtins", "typing") else self._note(cls)
        return ["object", name] if name else "any"

    def _note(self, cls: type) -> str:
        name = dotted_name(cls)
        if name:
            self.classes[name] = cls
        return name


def _members(schema_type: Json) -> list[Json]:
    is_union = isinstance(schema_type, list) and schema_type[0] == "union"
    return schema_type[1:] if is_union else [schema_type]


# Thousands of annotations come from a few modules: each source is parsed once.
@functools.cache
def type_checking_names(module_name: str) -> dict[str, object]:
    """Imports what a module imports only under `if TYPE_CHECKING`, to resolve its string annotations."""
    found: dict[str, object] = {}
    try:
        source = inspect.getsource(sys.modules[module_name])
    except (OSError, TypeError, KeyError):
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                    for name in statement.names:
                        try:
                            module = importlib.import_module(statement.module)
                            found[name.asname or name.name] = getattr(module, name.name)
                        except (ImportError, AttributeError):
                            continue  # The annotation that needs it is exported as "any".
    return found


def resolve_annotation(target: Callable[..., object], name: str, annotation: object) -> object:
    """Returns an annotation with its strings resolved where its module allows, typing.Any elsewhere."""
    if annotation is inspect.Parameter.empty:
        return typing.Any
    definers: list[object] = [target]
    if isinstance(target, type):
        owners = [base for base in target.__mro__ if name in inspect.get_annotations(base)]
        definers = [*owners, inspect.unwrap(target.__init__), target]
    for definer in definers:
        module_name = str(getattr(definer, "__module__", ""))
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        names = {**type_checking_names(module_name), **vars(sys.modules.get(module_name, types))}
        try:
            return typing.get_type_hints(holder, globalns=names, localns=names)[name]
        except (NameError, TypeError, AttributeError, SyntaxError):
            continue
    return typing.Any


def parser_view(target: Callable[..., object], param: inspect.Parameter) -> str:
    """Says how NeMo-Run's command line reads this parameter.

    Returns:
        "typed"; "inferred" (by the value's looks); "text" (what names nothing importable arrives as a string); or
        "refused" (resolving the annotation fails there, so that no value is accepted).
    """
    from nemo_run.cli import cli_parser

    if param.annotation is inspect.Parameter.empty:
        return "inferred"
    resolve = getattr(cli_parser, "_maybe_resolve_annotation", lambda _target, _name, annotation: annotation)
    try:
        annotation = resolve(target, param.name, param.annotation)
    except (IndexError, TypeError):
        return "refused"
    parser = cli_parser.type_parser.get_parser(annotation)
    is_text = parser == cli_parser.type_parser.parse_unknown and annotation is not typing.Any
    return "text" if is_text else "typed"


def default_factories(target: object) -> dict[str, Callable[[], object]]:
    """Returns the factories of a dataclass's defaults by field, whose signature shows only a placeholder."""
    fields = dataclasses.fields(target) if dataclasses.is_dataclass(target) else ()
    return {f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING}


def is_dataclass(target: object) -> bool:
    """Whether a target is a dataclass (a plain bool: the type guard of the library would narrow it)."""
    return dataclasses.is_dataclass(target)


def describe(target: Callable[..., object], reader: TypeReader) -> dict[str, Json]:
    """Returns what the schema says of one class or function: its kind, its bases and its parameters.

    Flags that are false are left out, and a parameter without a default is a required one.
    """
    from fiddle._src import signatures

    params: dict[str, Json] = {}
    described: dict[str, Json] = {"kind": "class" if isinstance(target, type) else "function"}
    if isinstance(target, type):
        described["bases"] = [dotted_name(base) for base in target.__mro__[1:-1]]
        if target in SIGNATURELESS:
            units = {name: {"type": "float", "default": 0} for name in SIGNATURELESS[target]}
            return {**described, "no_signature": True, "params": units}
    if is_dataclass(target):
        described["dataclass"] = True
    factories = default_factories(target)
    for name, param in signatures.get_signature(target).parameters.items():
        if param.kind is param.VAR_KEYWORD:
            described["var_kwargs"] = True
        if param.kind in (param.VAR_KEYWORD, param.VAR_POSITIONAL, param.POSITIONAL_ONLY):
            continue
        entry: dict[str, Json] = {"type": reader.read(resolve_annotation(target, name, param.annotation))}
        if name in factories:
            entry |= {"default": encode(factories[name]()), "default_factory": True}
        elif isinstance(param.default, str) and len(param.default) > LONGEST_TEXT:
            entry["default"] = {"_repr_": f"<text of {len(param.default)} characters>"}
        elif param.default is not param.empty:
            entry["default"] = encode(param.default)
        if (view := parser_view(target, param)) != "typed":
            entry["parser"] = view
        params[name] = entry
    return {**described, "params": params}


def first_line(target: object) -> str:
    """Returns the first line of an object's documentation, or ''."""
    return next(iter((inspect.getdoc(target) or "").strip().splitlines()), "").strip()


def buildables(value: object) -> Iterator[Callable[..., object]]:
    """Yields the target of each config node inside a value."""
    import fiddle as fdl
    from fiddle import daglish

    for node, _ in daglish.iterate(value):
        if isinstance(node, fdl.Buildable):
            yield node.__fn_or_cls__


def open_classes() -> Iterator[type]:
    """Yields the concrete classes of the packages whose content a user may name freely."""
    for package_name in OPEN_PACKAGES:
        package = importlib.import_module(package_name)
        modules: list[types.ModuleType] = [package]
        for info in pkgutil.iter_modules(getattr(package, "__path__", [])):
            try:
                modules.append(importlib.import_module(f"{package_name}.{info.name}"))
            except ImportError:
                continue  # A module whose own requirements are not installed cannot be used either.
        for module in modules:
            for name, value in sorted(vars(module).items()):
                is_own = isinstance(value, type) and value.__module__.startswith(package_name)
                if is_own and not name.startswith("_") and not inspect.isabstract(value):
                    yield value


class Export:
    """Collects recipes, factories and, from both, every target that they reach."""

    def __init__(self) -> None:
        self.reader = TypeReader()
        self.targets: dict[str, Callable[..., object]] = {}

    def add(self, target: Callable[..., object]) -> str:
        """Notes a target and returns its name."""
        name = dotted_name(target)
        if name and not issubclass(type(target), enum.EnumMeta):
            self.targets.setdefault(name, target)
        return name

    def recipe(self, factory: Callable[..., object]) -> dict[str, Json]:
        """Returns the entry of one recipe, called with its defaults."""
        config = factory()
        for target in buildables(config):
            self.add(target)
        maker = inspect.unwrap(factory)
        params = describe(factory, TypeReader())["params"]
        return {
            "description": first_line(factory),
            "factory": f"{maker.__module__}.{maker.__qualname__}",
            "defaults": {name: param["default"] for name, param in params.items() if name != "fn"},
            "config": encode(config),
        }

    def factory(self, factory: Callable[..., object]) -> dict[str, Json]:
        """Returns the entry of one registered factory, with its tree where it needs no argument."""
        entry = describe(factory, self.reader)
        config: object = None
        if all("default" in param for param in entry["params"].values()):
            try:
                config = factory()
            except ImportError as error:  # It needs a package of GPU machines: its tree stays unknown.
                print(f"no tree for {dotted_name(factory)}: {error}", file=sys.stderr)
        reached = list(buildables(config))
        for target in reached:
            self.add(target)
        returns = typing.get_args(typing.get_type_hints(inspect.unwrap(factory)).get("return"))
        returned = reached[0] if reached else (returns[0] if returns else None)
        maker = inspect.unwrap(factory)
        return {
            "target": f"{maker.__module__}.{maker.__qualname__}",
            "description": first_line(factory),
            "returns": dotted_name(returned),
            "params": entry["params"],
            "config": encode(config) if config is not None else None,
        }

    def described_targets(self) -> dict[str, Json]:
        """Describes all targets and those configuration classes that their parameters name in turn."""
        described: dict[str, Json] = {}
        while pending := sorted(set(self.targets) - set(described)):
            for name in pending:
                described[name] = describe(self.targets[name], self.reader)
                bases = getattr(self.targets[name], "__mro__", ())
                self.reader.classes.update({dotted_name(base): base for base in bases if is_dataclass(base)})
            for name, cls in sorted(self.reader.classes.items()):
                is_config = is_dataclass(cls) or "Config" in cls.__name__
                if is_config and not inspect.isabstract(cls) and not name.startswith("nemo_run."):
                    self.targets.setdefault(name, cls)
        return dict(sorted(described.items()))


def fold(described: Mapping[str, dict[str, Json]]) -> dict[str, Json]:
    """Returns the targets with those of dataclasses told by their difference from a base class.

    The configuration class of each model repeats some 220 parameters: whole, they would take ten times as long
    to load. `like` names the base, whose bases and parameters hold unless said otherwise.
    """
    folded: dict[str, Json] = {}
    for name, target in described.items():
        base = next((base for base in target.get("bases", ()) if base in described), "")
        inherited = described.get(base, {}).get("params", {})
        params = target["params"]
        changed = {key: param for key, param in params.items() if param != inherited.get(key)}
        if base and target.get("dataclass") and list({**inherited, **changed}) == list(params):
            target = {**target, "like": base, "params": changed}
            if target["bases"] == [base, *described[base]["bases"]]:
                del target["bases"]
        folded[name] = target
    return folded


def registries() -> dict[str, dict[str, Callable[..., object]]]:
    """Returns NeMo-Run's registered factories by namespace and name, both sorted."""
    import catalogue

    found: dict[str, dict[str, Callable[..., object]]] = {}
    for key, factory in sorted(catalogue.REGISTRY.items(), key=lambda item: item[0]):
        if len(key) == 2:
            found.setdefault(key[0], {})[key[1]] = factory
    return found


def named_objects(*values: Json) -> Iterator[str]:
    """Yields the name of each object that is named and not called inside some trees."""
    for value in values:
        if isinstance(value, dict):
            if value.get("_call_") is False:
                yield value["_target_"]
            yield from named_objects(*value.values())
        elif isinstance(value, list):
            yield from named_objects(*value)


def dtypes() -> dict[str, str]:
    """Returns the name of each torch dtype by each name that it has in torch (`half` is `float16`)."""
    import torch  # pyright: ignore[reportMissingImports]

    found = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return {f"torch.{name}": str(value) for name, value in sorted(found.items())}


def aliases(targets: Mapping[str, Callable[..., object]]) -> dict[str, str]:
    """Returns the shorter names under which NeMo's packages re-export the targets."""
    found: dict[str, str] = {}
    for package_name in ALIAS_PACKAGES:
        for name, value in sorted(vars(importlib.import_module(package_name)).items()):
            dotted = dotted_name(value) if callable(value) else ""
            if dotted in targets and dotted != f"{package_name}.{name}":
                found[f"{package_name}.{name}"] = dotted
    return found


def versions() -> dict[str, str]:
    """Returns the versions of the packages that decide what the schema says."""
    return {name: importlib.metadata.version(name) for name in DISTRIBUTIONS}


def export(only: list[str], image: str | None) -> dict[str, Json]:
    """Returns the schema of the installed NeMo: of all its recipes, or of those named in `only`.

    Raises:
        LookupError: NeMo has no recipe of that name.
    """
    from nemo.collections import llm  # pyright: ignore[reportMissingImports]

    collected, found = Export(), registries()
    makers = found.pop(PRETRAIN)
    if unknown := sorted(set(only) - set(makers)):
        raise LookupError(f"NeMo has no recipe {', '.join(unknown)}; it has {', '.join(makers)}")
    collected.add(llm.pretrain)
    recipes: dict[str, Json] = {}
    for name in only or makers:
        try:
            recipes[name] = collected.recipe(makers[name])
        except NotImplementedError as error:
            print(f"left out {name}: {error}", file=sys.stderr)
    factories: dict[str, Json] = {}
    for namespace, registered in found.items():
        if not namespace.startswith(OTHER_REGISTRIES) and not only:
            factories[namespace] = {name: collected.factory(maker) for name, maker in registered.items()}
    if not only:
        for cls in open_classes():
            collected.add(cls)
    described = collected.described_targets()
    return {
        "schema_version": SCHEMA_VERSION,
        "framework": "nemo",
        "versions": versions(),
        "image": image,
        "enums": dict(sorted(collected.reader.enums.items())),
        "aliases": aliases(collected.targets)
        | {name: dtype for name, dtype in dtypes().items() if name != dtype},
        "names": sorted({*dtypes().values(), *named_objects(described, recipes, factories)}),
        "recipes": recipes,
        "factories": factories,
        "targets": fold(described),
    }


def to_lines(schema: Mapping[str, Json]) -> list[str]:
    """Returns the schema as lines of JSON: a header, then one line for each recipe, factory and target.

    The header holds everything else and, in the order of the lines, their names; a reader parses only the lines
    that it needs.
    """
    recipes, factories, targets = schema["recipes"], schema["factories"], schema["targets"]
    header = {
        **schema,
        "recipes": {name: recipe["description"] for name, recipe in recipes.items()},
        "factories": {namespace: list(registered) for namespace, registered in factories.items()},
        "targets": list(targets),
    }
    made = [factory for registered in factories.values() for factory in registered.values()]
    lines = [header, *recipes.values(), *made, *targets.values()]
    return [json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines]


def main(argv: list[str] | None = None) -> int:
    """Runs the exporter as a command and returns its exit code."""
    parser = argparse.ArgumentParser(description="Write the recipes of the installed NeMo as data.")
    parser.add_argument("--output", type=pathlib.Path, help="file to write (default: nemo-VERSION.jsonl.xz)")
    parser.add_argument("--image", help="the container image that this environment is, to be found by it")
    parser.add_argument("--recipe", action="append", default=[], help="only this recipe (may be repeated)")
    options = parser.parse_args(argv)
    try:
        schema = export(options.recipe, options.image)
    except LookupError as error:
        parser.exit(2, f"error: {error.args[0]}\n")
    output = options.output or pathlib.Path(f"nemo-{schema['versions']['nemo_toolkit']}.jsonl.xz")
    text = "\n".join(to_lines(schema)) + "\n"
    output.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"wrote {output}: {len(schema['recipes'])} recipes, {len(schema['targets'])} targets")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
