"""What is configured reaches each rank byte for byte, through the real bash."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudai_run.executors import machinery
from cloudai_run.executors.environment import exportable
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import Directives, NodeVar, Nsys, Plan, Stage, Word
from cloudai_run.executors.quoting import shell_word
from cloudai_run.executors.render import render_sbatch
from cloudai_run.executors.render_local import render_local
from cloudai_run.executors.slurm_options import names
from tests.executors_render.harness import Outcome, plan_of, run_plan, run_script, stage

# Signs that shells, Slurm and quoting by hand get wrong, more often than chance would have them.
_TEXT = (
    st.just(":")
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
    | st.text(
        st.sampled_from(
            [*"'\"\\$`!*?[]{}()<>|&;#~^%=,:@ \t\n\r", "\x01", "\x7f", "\x1b", "é", "🙂", "\u2028", "a", "0"]
        )
    )
)
_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(
    lambda name: not name.startswith(("FAKE_", "PYTHON", "LC_", "SLURM_"))
)
_ENVIRONMENTS = st.dictionaries(_NAMES, _TEXT, max_size=8)
_RANKS = {"SLURM_PROCID": ["0", "1", "2", "3"], "SLURM_LOCALID": ["0", "1", "0", "1"]}
_WORDS = st.lists(_TEXT | st.sampled_from([NodeVar(name) for name in _RANKS]), min_size=1, max_size=4).map(
    tuple
)
_SLOW = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Names that the shell, the loader or Slurm use for themselves.
_SPECIAL = sorted(
    names(
        "_ BASH_ENV BASHOPTS BASH_VERSINFO BASH_XTRACEFD CDPATH COLUMNS CUDA_VISIBLE_DEVICES DIRSTACK ENV "
        "EPOCHSECONDS EUID FUNCNAME GLOBIGNORE GROUPS HISTCMD HOME HOSTNAME IFS LANG LD_LIBRARY_PATH "
        "LD_PRELOAD LINENO LINES OLDPWD OPTARG OPTIND PATH PIPESTATUS POSIXLY_CORRECT PPID PS4 PWD RANDOM "
        "REPLY SECONDS SHELL SHELLOPTS SHLVL SLURM_CPU_BIND SLURM_JOB_ID SLURM_LOCALID SLURM_NNODES "
        "SLURM_NTASKS SLURM_PROCID SLURM_UNBUFFEREDIO SRANDOM TERM TIMEFORMAT TMOUT TMPDIR UID attempt code "
        "cr_attempt cr_logs cr_run_dir pid record run_dir srun "
    )
)


def program(outcome_bin: Path) -> str:
    """Path of the recording program: a PATH of the user's own may not lead to it."""
    return str(outcome_bin / "bin" / "nemo")


def expanded(word: Word, rank: int) -> str:
    """What a word is on a rank."""
    pieces = word if isinstance(word, tuple) else (word,)
    return "".join(piece if isinstance(piece, str) else _RANKS[piece.name][rank] for piece in pieces)


def assert_arrived(outcome: Outcome, arguments: list[Word], env: dict[str, Word], ranks: int = 4) -> None:
    """Asserts what each rank was given."""
    assert (outcome.code, outcome.stderr) == (0, "")
    found = [entry for entry in outcome.programs if entry["program"] == "nemo"]
    assert sorted(int(entry["rank"]) for entry in found if "SLURM_PROCID" not in env) == list(
        range(ranks)
    ) or ("SLURM_PROCID" in env)
    for entry in found:
        rank = int(entry["rank"]) if "SLURM_PROCID" not in env else 0
        assert entry["arguments"] == [expanded(word, rank) for word in arguments]
        assert {name: entry["env"].get(name) for name in env} == {
            name: expanded(word, rank) for name, word in env.items()
        }


def fresh(folder: Path) -> Path:
    """Empties the folder for the next example."""
    shutil.rmtree(folder / "case", ignore_errors=True)
    (folder / "case").mkdir()
    return folder / "case"


@_SLOW
@given(arguments=st.lists(_TEXT, max_size=6), shared=_ENVIRONMENTS, own=_ENVIRONMENTS)
def test_texts_arrive(
    tmp_path: Path, arguments: list[str], shared: dict[str, str], own: dict[str, str]
) -> None:
    folder = fresh(tmp_path)
    train = Stage(name="train", argv=(program(folder), *arguments), env=own)
    outcome = run_plan(plan_of(folder, train, env=shared), folder)
    assert_arrived(outcome, [*arguments], {**shared, **own})


@_SLOW
@given(
    arguments=st.lists(_WORDS | _TEXT, max_size=6),
    env=st.dictionaries(_NAMES, _WORDS | _TEXT, max_size=4),
    wrapped=st.booleans(),
)
def test_variables_of_the_rank_expand_and_nothing_else_does(
    tmp_path: Path, arguments: list[Word], env: dict[str, Word], wrapped: bool
) -> None:
    folder = fresh(tmp_path)
    train = Stage(
        name="train",
        argv=(program(folder), *arguments),
        env=env,
        nsys=Nsys(ranks=(0, 3)) if wrapped else None,
    )
    outcome = run_plan(plan_of(folder, train), folder)
    assert_arrived(outcome, arguments, env)


@_SLOW
@given(
    arguments=st.lists(_WORDS | _TEXT, max_size=4), env=st.dictionaries(_NAMES, _WORDS | _TEXT, max_size=4)
)
def test_local_run_is_given_the_same(tmp_path: Path, arguments: list[Word], env: dict[str, Word]) -> None:
    folder = fresh(tmp_path)
    train = Stage(name="train", argv=(program(folder), *arguments), env=env)
    plan = plan_of(folder, train, directives=Directives(ntasks_per_node=2))
    assert_arrived(run_local(plan, folder), arguments, env, ranks=2)


def run_local(plan: Plan, folder: Path) -> Outcome:
    """Runs a plan without Slurm."""
    return run_script(render_local(plan), folder, run_dir=Path(plan.run_dir))


@pytest.mark.parametrize("shell_on_the_rank", [False, True])
@pytest.mark.parametrize("local", [False, True])
def test_names_that_others_use_arrive_too(tmp_path: Path, local: bool, shell_on_the_rank: bool) -> None:
    env: dict[str, Word] = {name: f"/of the user's/{name}" for name in _SPECIAL}
    last = (NodeVar("HOME"),) if shell_on_the_rank else ()
    train = Stage(name="train", argv=(program(tmp_path), *last), env=env)
    plan = plan_of(tmp_path, train, directives=Directives(ntasks_per_node=1))
    outcome = (
        run_local(plan, tmp_path)
        if local
        else run_script(render_sbatch(plan), tmp_path, run_dir=tmp_path / "run", nodes=1)
    )
    assert outcome.code == 0
    found = outcome.programs[-1]["env"]
    assert {name: found.get(name) for name in env} == env


def test_list_of_the_shells_own_names_is_that_of_this_bash() -> None:
    listed = subprocess.run(
        ["bash", "-c", "compgen -v"], env={}, capture_output=True, text=True
    ).stdout.split()
    harmless = {"HOSTTYPE", "MACHTYPE", "OSTYPE", "TERM", "HOSTNAME", "SHELL"}
    assert [name for name in listed if exportable(name) and name not in harmless] == []


@pytest.mark.parametrize("sign", ["x", "'", "\n", "é", "\x01"])
def test_100_kilobytes_in_one_value_and_one_argument(tmp_path: Path, sign: str) -> None:
    text = sign * (100_000 // len(sign.encode()))
    train = Stage(
        name="train", argv=(program(tmp_path), text, (text, NodeVar("SLURM_PROCID"))), env={"LONG": text}
    )
    outcome = run_plan(plan_of(tmp_path, train, env={"ALSO": text}), tmp_path)
    assert_arrived(outcome, [text, (text, NodeVar("SLURM_PROCID"))], {"LONG": text, "ALSO": text})


@pytest.mark.parametrize("nsys", [None, Nsys()])
def test_a_lone_colon_is_an_argument_and_no_second_job(tmp_path: Path, nsys: Nsys | None) -> None:
    arguments = [":", "a:b", ":", NodeVar("SLURM_PROCID"), ":"]
    train = Stage(name="train", argv=(program(tmp_path), *arguments), nsys=nsys)
    assert_arrived(run_plan(plan_of(tmp_path, train), tmp_path), arguments, {})


def test_a_long_value_stands_once_in_the_script(tmp_path: Path) -> None:
    text = "0123456789" * 10_000
    stages = [Stage(name=name, argv=("nemo",)) for name in ("one", "two", "three")]
    assert render_sbatch(plan_of(tmp_path, *stages, env={"LONG": text})).count(text) == 1
    argument = Stage(name="one", argv=("nemo", (text, NodeVar("SLURM_PROCID"))), nsys=Nsys())
    assert render_sbatch(plan_of(tmp_path, argument)).count(text) == 1


def test_what_no_program_can_be_given_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ExecutorError, match=r"^stage a: argument 1 has 131073 bytes, and Linux passes at most 131071"
    ):
        stage("a", "x" * 131_073)
    with pytest.raises(ExecutorError, match=r"^Plan.env\['A'\] has 131072 bytes"):
        plan_of(tmp_path, stage("a"), env={"A": "x" * 131_070})
    many = stage("a", *["x" * 100_000] * 20)
    with pytest.raises(
        ExecutorError, match=r"^stage a: its arguments and environment have 2000\d+ bytes together"
    ):
        render_sbatch(plan_of(tmp_path, many))
    stages = [stage(f"s{at}", "x" * 131_000) for at in range(40)]
    with pytest.raises(ExecutorError, match=r"^the script has \d+ bytes, and Slurm takes 4194304\n"):
        render_sbatch(plan_of(tmp_path, *stages))


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(_TEXT, min_size=1, max_size=20))
def test_a_quoted_word_is_the_text(texts: list[str]) -> None:
    script = "printf '%s\\0' " + " ".join(shell_word(text) for text in texts)
    assert "\r" not in script
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == texts


@settings(max_examples=100, deadline=None)
@given(text=_TEXT)
def test_reasons_are_json_whatever_they_say(text: str) -> None:
    script = f"{machinery.RECORD}\njson_text {shell_word(text)}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert json.loads(done.stdout) == "".join(
        " " if ord(sign) < 32 or ord(sign) == 127 else sign for sign in text
    )
