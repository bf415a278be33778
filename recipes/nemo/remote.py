"""Stand-ins for the classes and functions of a NeMo that is not installed here.

`remote.nemo_2_7_3.nemo.lightning.pytorch.trainer.Trainer` stands for the class of that name in NeMo 2.7.3. It has
the signature that the schema knows, so that fiddle checks names against it, and it can be imported by its name, so
that NeMo-Run can store a config and read it in another process. It does nothing else: an instance only remembers
its arguments. The first name is a schema's id, as `schema.load` takes it.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import Any, TypeAlias

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import schema as schemas
from cloudai_run.recipes.nemo.schema import PRETRAIN, Factory, Schema
from cloudai_run.recipes.nemo.schema_model import hint
from cloudai_run.recipes.nemo.signatures import factory_signature, signature_of

FACTORIES = "factories"


class _StandInMeta(type):
    """Prints a stand-in as what it stands for, and gives a stand-in enum its members."""

    _nemo_name_: str
    _schema_id_: str
    _factory_: str | None

    def __repr__(cls) -> str:
        return cls._nemo_name_

    def __getattr__(cls, name: str) -> object:
        if not name.startswith("_"):
            schema = schemas.load(cls._schema_id_)
            if name in schema.enums.get(cls._nemo_name_, ()):
                return standin(cls._schema_id_, f"{cls._nemo_name_}.{name}")
        raise AttributeError(f"{cls._nemo_name_} has no attribute {name} here: it stands for a remote class")


class StandIn(metaclass=_StandInMeta):
    """What building a config node gives: the arguments, and the name of what would have been called."""

    _nemo_name_ = ""
    _schema_id_ = ""
    _factory_ = None

    def __init__(self, **arguments: object) -> None:
        self._arguments_ = arguments

    def __repr__(self) -> str:
        return f"<{self._nemo_name_} of {', '.join(self._arguments_) or 'no arguments'}>"


class Built:
    """What calling a stand-in function gives: the same as an instance of a stand-in class."""

    def __init__(self, function: FunctionType, arguments: Mapping[str, object]) -> None:
        self.function = function
        self._arguments_ = arguments

    @property
    def is_root(self) -> bool:
        """Whether this is a whole recipe, whose config is a Partial although it has been called."""
        return vars(self.function)["_nemo_name_"] == PRETRAIN


Remote: TypeAlias = "type[StandIn] | FunctionType"


class Namespace:
    """A package of a remote installation, whose attributes are stand-ins and further packages."""

    def __init__(self, schema_id: str, path: str) -> None:
        self._schema_id, self._path = schema_id, path

    def __repr__(self) -> str:
        return f"<{self._path or self._schema_id} of schema {self._schema_id}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        dotted = f"{self._path}.{name}" if self._path else name
        known, packages = _known_names(self._schema_id)
        if dotted in known:
            return standin(self._schema_id, dotted)
        if dotted in packages:
            return Namespace(self._schema_id, dotted)
        inside = [
            other.rpartition(".")[2] for other in known | packages if other.rpartition(".")[0] == self._path
        ]
        raise AttributeError(f"{self!r} has no {name}" + hint(name, inside))

    def __dir__(self) -> list[str]:
        known, packages = _known_names(self._schema_id)
        return sorted(n.rpartition(".")[2] for n in known | packages if n.rpartition(".")[0] == self._path)


def __getattr__(name: str) -> Namespace:
    if name.startswith("_") or name not in schemas.schema_files():
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return Namespace(name, "")


@cache
def _known_names(schema_id: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the dotted names that have stand-ins, and the packages that hold them."""
    schema = schemas.load(schema_id)
    members = {f"{name}.{member}" for name, given in schema.enums.items() for member in given}
    made = {f"{FACTORIES}.{space}.{name}" for space, given in schema.factories.items() for name in given}
    known = frozenset({*schema.targets, *schema.aliases, *schema.enums, *members, *schema.names, *made})
    parts = [name.split(".") for name in known]
    packages = {".".join(words[:count]) for words in parts for count in range(1, len(words))}
    return known, frozenset(packages - known)


def is_known(schema_id: str, dotted: str) -> bool:
    """Whether a dotted name has a stand-in: a target, a named object, or an alias of one."""
    schema = schemas.load(schema_id)
    name = schema.aliases.get(dotted, dotted)
    owner, _, member = name.rpartition(".")
    return (
        name in schema.targets
        or name in schema.enums
        or name in schema.names
        or member in schema.enums.get(owner, ())
    )


def standin(schema_id: str, dotted: str) -> Remote:
    """Returns the stand-in of a dotted name (or alias); equal names give the same object.

    Raises:
        RecipeError: The schema knows no such name.
    """
    schema = schemas.load(schema_id)
    return _standin(schema_id, schema.aliases.get(dotted, dotted))


@cache
def _standin(schema_id: str, dotted: str) -> Remote:
    schema = schemas.load(schema_id)
    if dotted in schema.targets:
        target = schema.targets[dotted]
        make = _make_function if target.kind == "function" else _make_class
        return make(schema_id, dotted, dotted, signature_of(target, partial(standin, schema_id)), None)
    if is_known(schema_id, dotted):
        return _make_class(schema_id, dotted, dotted, inspect.Signature(), None)
    space, _, name = dotted.removeprefix(f"{FACTORIES}.").rpartition(".")
    if dotted.startswith(f"{FACTORIES}.") and name in schema.factories.get(space, {}):
        return _make_factory(schema, dotted, schema.factories[space][name])
    known = [*schema.targets, *schema.names, *schema.aliases]
    raise RecipeError(f"{schema.title} has no {dotted} that a recipe can use" + hint(dotted, known))


def factory_standin(schema_id: str, factory: Factory) -> Remote:
    """Returns the stand-in of a node that a registered factory makes, such as `squad`."""
    return standin(schema_id, f"{FACTORIES}.{factory.type}.{factory.name}")


def _make_class(
    schema_id: str, path: str, nemo_name: str, signature: inspect.Signature, factory: str | None
) -> type[StandIn]:
    body = {
        "__module__": __name__,
        "__qualname__": f"{schema_id}.{path}",
        "__signature__": signature,
        "__doc__": f"Stands for {nemo_name}.",
        "_nemo_name_": nemo_name,
        "_schema_id_": schema_id,
        "_factory_": factory,
    }
    _teach_yaml()
    return _StandInMeta(path.rpartition(".")[2], (StandIn,), body)


@cache
def _teach_yaml() -> None:
    """Lets NeMo-Run's YAML hold a stand-in class as it holds any class: it looks for `type` itself alone."""
    import yaml

    def represent(dumper: yaml.SafeDumper, value: _StandInMeta) -> yaml.Node:
        return dumper.represent_data(
            {"_target_": f"{value.__module__}.{value.__qualname__}", "_call_": False}
        )

    yaml.SafeDumper.add_representer(_StandInMeta, represent)


def _make_function(
    schema_id: str, path: str, nemo_name: str, signature: inspect.Signature, factory: str | None
) -> FunctionType:
    def stand_in(**arguments: object) -> object:
        if nemo_name == PRETRAIN:
            from cloudai_run.recipes.nemo.inplace import run_in_place

            return run_in_place(Built(stand_in, arguments))
        return Built(stand_in, arguments)

    stand_in.__name__, stand_in.__qualname__ = path.rpartition(".")[2], f"{schema_id}.{path}"
    stand_in.__doc__ = f"Stands for {nemo_name}."
    attributes = {"__signature__": signature, "_nemo_name_": nemo_name, "_schema_id_": schema_id}
    stand_in.__dict__.update(attributes, _factory_=factory)
    if nemo_name == PRETRAIN:
        # Executors that run stages import this name; those that know nothing of it call the function.
        stand_in.__dict__["stages_from"] = "cloudai_run.stages:nemo_stages"
    return stand_in


def _make_factory(schema: Schema, path: str, factory: Factory) -> Remote:
    signature = factory_signature(factory, schema, partial(standin, schema.id))
    returned = schema.targets.get(factory.returns)
    make = _make_function if returned is not None and returned.kind == "function" else _make_class
    return make(schema.id, path, factory.returns or factory.target, signature, factory.name)


def is_standin(value: object) -> bool:
    """Whether a value is a stand-in class or function."""
    return isinstance(value, (type, FunctionType)) and "_nemo_name_" in vars(value)


def name_of(value: object) -> str:
    """Returns the name of what a stand-in stands for, or the importable name of a real object.

    Raises:
        RecipeError: The object has no name by which it could be imported.
    """
    if isinstance(value, (type, FunctionType)) and is_standin(value):
        return str(vars(value)["_nemo_name_"])
    if isinstance(value, enum.Enum):
        return f"{name_of(type(value))}.{value.name}"
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or not name or "<" in name:
        raise RecipeError(f"{value!r} cannot be part of a recipe: it has no name to import it by")
    return f"{module}.{name}"


def factory_of(value: Callable[..., object]) -> str | None:
    """Returns the registered name of the factory that a stand-in was made for, or None."""
    return vars(value)["_factory_"] if is_standin(value) else None
