"""From what NeMo-Run hands to an executor (a Partial, or a command it made) to the stages of a plan."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

import fiddle as fdl
from nemo_run.config import RUNDIR_NAME, Partial
from nemo_run.core.execution.base import ExecutorMacros
from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer
from torchx.components import dist
from torchx.specs import Role

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import Allocation, Mpi, NodeVar, Stage, Word

StagesFrom = Callable[[fdl.Buildable, Allocation], tuple[Stage, ...]]

#: NeMo-Run's name for the first node's address, as its torchrun component writes it into the command.
HEAD_NODE = "head_node_ip"
#: Sets it in the job's shell. NeMo-Run's own way costs an srun and takes every address of the host for one.
HEAD_NODE_SETUP = (
    f'{HEAD_NODE}=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)\nexport {HEAD_NODE}\n'
)


def captured_task(configs: Sequence[tuple[str, str]], task: str) -> Partial | None:
    """The Partial among the files that NeMo-Run's `package` writes for a task; None for a Script."""
    for name, serialized in configs:
        if name == f"{task}_fn_or_script":
            return fdl.cast(Partial, ZlibJSONSerializer().deserialize(serialized))
    return None


def stages_from(task: Partial | None) -> StagesFrom | None:
    """The function that makes a recipe's stages: the one that its target names in `stages_from`.

    Returns:
        None for a Script and for a Partial of any other function.

    Raises:
        ExecutorError: the name cannot be imported.
    """
    if task is None:
        return None
    name = getattr(fdl.get_callable(task), "stages_from", None)
    if not isinstance(name, str):
        return None
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ExecutorError(
            f"the recipe's stages come from {name}, which cannot be imported: {error}"
        ) from error
    return function


def command_stage(
    role: Role,
    *,
    task: str,
    run_dir: str,
    macros: ExecutorMacros | None = None,
    mpi: Mpi = Mpi.NONE,
    workdir: str | None = None,
) -> Stage:
    """The one stage of a command that NeMo-Run made of a Script, or of a Partial that its own runner runs.

    Args:
        role: of torchx's AppDef: entrypoint, arguments and environment.
        task: id of the task.
        run_dir: the run folder, where NeMo-Run writes /nemo_run.
        macros: the executor's, None if it has none.
        mpi: what srun gets.
        workdir: where the program starts, None for where the script does.
    """
    words = [_unquoted(word, role.entrypoint) for word in role.args]
    return Stage(
        name=re.sub(r"[^A-Za-z0-9_.-]", "_", task).lstrip("._-") or "task",
        argv=(role.entrypoint, *(_in_run_dir(_macro_word(word, macros), task, run_dir) for word in words)),
        env={
            name: _macro_word(value, macros)
            for name, value in as_words({"PYTHONUNBUFFERED": "1", **role.env}).items()
        },
        mpi=mpi,
        workdir=workdir,
    )


def as_words(env: Mapping[str, object]) -> dict[str, Word]:
    """An environment with its numbers as text, as NeMo-Run would write them."""
    return {
        name: str(value) if isinstance(value, int | float) else value  # pyright: ignore[reportReturnType]
        for name, value in env.items()
    }


def _unquoted(word: str, entrypoint: str) -> str:
    """NeMo-Run's torchrun component quotes its arguments for a shell, but for those that expand there."""
    if entrypoint != "torchrun" or isinstance(word, dist._noquote):
        return word
    parts = shlex.split(word)
    return parts[0] if len(parts) == 1 else word


def _macro_word(word: Word, macros: ExecutorMacros | None) -> Word:
    """Puts NeMo-Run's macros into a word: `${num_nodes_var}` is a name, `$$${num_nodes_var}` its value.

    A value becomes a NodeVar. Every other `$` stays as it is.
    """
    if macros is None or not isinstance(word, str):
        return word
    names = {name: value for name, value in vars(macros).items() if name.endswith("_var")}
    pieces: list[str | NodeVar] = []
    for at, piece in enumerate(re.split(r"((?:\$\$)?\$\{\w+\})", word)):
        name = piece[piece.find("{") + 1 : -1] if at % 2 else ""
        if name not in names:
            pieces.append(piece)
        elif piece.startswith("$$"):
            pieces.append(NodeVar(names[name]))
        else:
            pieces.append(names[name])
    joined = _joined(pieces)
    return joined[0] if len(joined) == 1 else joined


def _joined(pieces: Iterable[str | NodeVar]) -> tuple[str | NodeVar, ...]:
    """Joins neighbouring texts; at least one piece."""
    joined: list[str | NodeVar] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "" or not joined:
            joined.append(piece)
    return tuple(piece for piece in joined if piece != "") or ("",)


def _in_run_dir(word: Word, task: str, run_dir: str) -> Word:
    """NeMo-Run's own two paths under /nemo_run, in the run folder, whose path is the same in a container."""
    for path in (f"configs/{task}_fn_or_script", f"scripts/{task}.sh"):
        if word == f"/{RUNDIR_NAME}/{path}":
            return f"{run_dir}/{path}"
    return word


def uses_head_node(stages: Iterable[Stage]) -> bool:
    """Whether a word of a stage is the first node's address."""
    words = [word for stage in stages for word in (*stage.argv, *stage.env.values())]
    return any(NodeVar(HEAD_NODE) in (word if isinstance(word, tuple) else (word,)) for word in words)
