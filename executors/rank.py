"""The command of one rank: the program itself, and what has to be decided on the rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.nsys import Nsys, profile_words
from cloudai_run.executors.quoting import SRUN_SEPARATOR, RankScript, shell_lines, shell_word
from cloudai_run.executors.words import Word, literal, pieces_of


@dataclass(frozen=True, kw_only=True)
class RankCommand:
    """What every rank of a stage runs.

    Attributes:
        command: the program and its arguments.
        env: variables that only `env NAME=VALUE` on the rank can set.
        nsys: ranks to profile.
        nsys_words: what stands before the program on a profiled rank.
        prelude: lines for the shell on the rank, if there is one.
    """

    command: tuple[Word, ...]
    env: Mapping[str, Word]
    nsys: Nsys | None = None
    nsys_words: tuple[Word, ...] = ()
    prelude: tuple[str, ...] = ()

    def _assignments(self) -> tuple[Word, ...]:
        """Returns `NAME=VALUE` for each variable of the rank's own."""
        program = literal(self.command[0])
        if self.env and (program is None or "=" in program):
            raise ExecutorError(
                f"{self.command[0]!r} cannot be started with {', '.join(self.env)} set: give a plain path"
            )
        return tuple(_joined(f"{name}=", word) for name, word in sorted(self.env.items()))

    def quoted(self) -> list[str]:
        """Returns the command for the script: no shell on the rank unless something expands there."""
        assignments = self._assignments()
        words = (*(("env", *assignments) if assignments else ()), *self.command)
        texts = [literal(word) for word in words]
        if self.nsys is None and None not in texts and SRUN_SEPARATOR not in texts:
            return shell_lines(text for text in texts if text is not None)
        script = RankScript()
        program = ("env " if assignments else "") + script.words((*assignments, *self.command))
        if self.nsys is None:
            lines = [*self.prelude, f"exec {program}"]
        else:
            lines = [*self.prelude, *_nsys_lines(self.nsys, self.nsys_words, program, script)]
        everything = f'"${{@:1:{len(script.arguments)}}}"'
        body = "\n".join(f"      {line}" for line in lines) if len(lines) > 1 else lines[0]
        text = ("\n" if len(lines) > 1 else "") + body.replace(everything, '"$@"')
        return [f"bash -c {shell_word(text)} bash", *shell_lines(script.arguments)]


def _joined(prefix: str, word: Word) -> Word:
    text = literal(word)
    return prefix + text if text is not None else (prefix, *pieces_of(word))


def _nsys_lines(nsys: Nsys, before: tuple[Word, ...], program: str, script: RankScript) -> list[str]:
    ranks = " ".join(str(rank) for rank in sorted(nsys.ranks))
    return [
        f"program=({program})",
        f'if [[ " {ranks} " == *" $SLURM_PROCID "* ]]; then',
        f"  nsys={script.words([nsys.binary], inline_bare=True)}",
        '  if ! command -v "$nsys" >/dev/null; then',
        '    echo "error: no $nsys on $(hostname): rank $SLURM_PROCID was to be profiled" >&2',
        "    exit 127",
        "  fi",
        f"  program=({script.words(before[:-2], inline_bare=True)}",
        f'    {script.words(before[-2:], inline_bare=True)} "${{program[@]}}")',
        "fi",
        'exec "${program[@]}"',
    ]


def rank_command(
    command: tuple[Word, ...],
    env: Mapping[str, Word],
    nsys: Nsys | None,
    place: tuple[str, str, str],
    prelude: tuple[str, ...] = (),
) -> RankCommand:
    """Returns the command of a stage's ranks.

    Args:
        command: the program and its arguments.
        env: variables that only the rank can set.
        nsys: ranks to profile, or None.
        place: run folder, job name and stage name, which name the reports of nsys.
        prelude: lines for the shell on the rank, if there is one.
    """
    before = profile_words(nsys, *place) if nsys is not None else ()
    return RankCommand(command=command, env=env, nsys=nsys, nsys_words=before, prelude=prelude)
