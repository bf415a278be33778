"""Options of sbatch and srun, times and node lists."""

from __future__ import annotations

import pytest

from cloudai_run.executors.directives import Directives, time_limit_s
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.nodelist import expand_nodelist
from cloudai_run.executors.nsys import Nsys, NsysCapture, merged_options
from cloudai_run.executors.plan import Plan, Stage
from cloudai_run.executors.render import render_sbatch
from cloudai_run.executors.slurm_options import check_options


def lines(directives: Directives) -> list[str]:
    """Returns the #SBATCH lines of a plan, without those that every script has."""
    plan = Plan(job_name="j", run_dir="/r", stages=(Stage(name="a", argv=("x",)),), directives=directives)
    every = ("--job-name", "--no-requeue", "--open-mode", "--output", "--ntasks-per-node")
    found = [
        line.removeprefix("#SBATCH ")
        for line in render_sbatch(plan).splitlines()
        if line.startswith("#SBATCH")
    ]
    return [line for line in found if not line.startswith(every)]


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("60", 3600),
        ("60:00", 3600),
        ("0:30", 30),
        ("1:00:00", 3600),
        ("1-12", 129_600),
        ("1-12:00", 129_600),
        ("1-12:30", 131_400),
        ("1-12:00:05", 129_605),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_every_form_of_time_is_taken_as_slurm_reads_it(time: str, seconds: int | None) -> None:
    assert time_limit_s(time) == seconds
    assert lines(Directives(time=time)) == ["--nodes=1", f"--time={time}"]


@pytest.mark.parametrize("time", ["", "1h", "1:2:3:4", "-5", "1-", "1-12:00:00:00", "\uff11"])
def test_no_other_form_of_time_is_taken(time: str) -> None:
    with pytest.raises(ExecutorError, match="is no time of Slurm's\n  right: MINUTES, MINUTES:SECONDS"):
        Directives(time=time)


def test_a_node_list_and_a_node_count_are_never_both_there() -> None:
    assert lines(Directives(nodes=3)) == ["--nodes=3"]
    assert lines(Directives(nodelist="n[1-3]")) == ["--nodelist=n[1-3]"]
    assert lines(Directives(nodes=3, nodelist="n[1-3]")) == ["--nodelist=n[1-3]"]
    assert Directives(nodelist="n[1-3],m1").num_nodes == 4
    with pytest.raises(ExecutorError) as refused:
        Directives(nodes=2, nodelist="n[1-3]")
    assert str(refused.value) == (
        "nodes=2 contradicts nodelist='n[1-3]', which names 3 nodes"
        "\n  give the list alone: its length is the number of nodes"
    )
    with pytest.raises(ExecutorError, match=r"^nodelist and exclude both name n2, n3$"):
        Directives(nodelist="n[1-3]", exclude="n[2-5]")


def test_gpus_are_asked_for_in_one_way_or_not_at_all() -> None:
    assert lines(Directives(gres="gpu:8")) == ["--gres=gpu:8", "--nodes=1"]
    assert lines(Directives(gpus_per_node=8)) == ["--gpus-per-node=8", "--nodes=1"]
    with pytest.raises(
        ExecutorError, match=r"^gres='gpu:8' and gpus_per_node=8 both ask for GPUs: give one$"
    ):
        Directives(gres="gpu:8", gpus_per_node=8)


def test_values_are_written_as_slurm_reads_them() -> None:
    found = lines(Directives(comment='a "b" \\ # $x', sbatch={"hold": True}))
    assert found == ['--comment="a \\"b\\" \\\\ # $x"', "--hold", "--nodes=1"]


def test_options_of_a_plugin_pass_and_others_are_checked() -> None:
    assert check_options({"--site-x": "1", "cpu_bind": "none", "overlap": None}, "srun", "here") == {
        "site-x": "1",
        "cpu-bind": "none",
        "overlap": None,
    }
    with pytest.raises(ExecutorError) as refused:
        Directives(sbatch={"netwrk": "sharp"})
    message = str(refused.value).splitlines()
    assert message[0] == "sbatch has no option --netwrk (Directives.sbatch)"
    assert message[1] == "  did you mean network?"
    assert message[2].startswith("  valid: acctg-freq, batch, ")
    assert message[3] == '  an option of a plugin or a later Slurm: write "--netwrk"'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "1"}, "Directives.sbatch cannot hold time: Directives has the field time"),
        (
            {"array": "0-3"},
            "Directives.sbatch cannot hold array: one job runs one plan; launch one run per variant instead",
        ),
        (
            {"requeue": None},
            "Directives.sbatch cannot hold requeue: Plan.retries says how often a job may start again",
        ),
        (
            {"hold": False},
            "Directives.sbatch['hold'] is False: give a string, an integer, or None for a bare flag",
        ),
        (
            {"network": "a\nb"},
            "Directives.sbatch['network'] holds a line break or a NUL, which no option can carry",
        ),
        ({"mail-type": "END", "mail_type": "ALL"}, "Directives.sbatch gives --mail-type twice"),
    ],
)
def test_options_that_cannot_be_given_are_refused(options: dict[str, str | int | None], message: str) -> None:
    with pytest.raises(ExecutorError) as refused:
        Directives(sbatch=options)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("nodelist", "names"),
    [
        ("node1", ["node1"]),
        ("node1,node2", ["node1", "node2"]),
        ("node[1-3,7]", ["node1", "node2", "node3", "node7"]),
        ("node[08-10]", ["node08", "node09", "node10"]),
        ("rack[1-2]n[1,3],login-a.b", ["rack1n1", "rack1n3", "rack2n1", "rack2n3", "login-a.b"]),
        ("gpu[1-2]-ib", ["gpu1-ib", "gpu2-ib"]),
    ],
)
def test_node_lists_are_read_as_slurm_writes_them(nodelist: str, names: list[str]) -> None:
    assert list(expand_nodelist(nodelist)) == names


@pytest.mark.parametrize("nodelist", ["", "a,,b", "a[1-", "a[3-1]", "a[x]", "a b", "a]", "/file", "a[]"])
def test_no_other_node_list_is_read(nodelist: str) -> None:
    with pytest.raises(ExecutorError, match="is no node list of Slurm's\n  right: node1,node2 or node"):
        expand_nodelist(nodelist)


def test_a_node_twice_is_refused() -> None:
    with pytest.raises(ExecutorError, match=r"^the node list 'n\[1-2\],n2' names n2 more than once$"):
        expand_nodelist("n[1-2],n2")


@pytest.mark.parametrize(
    ("nsys", "options"),
    [
        (
            Nsys(),
            {
                "s": "none",
                "capture-range": "cudaProfilerApi",
                "capture-range-end": "stop",
                "cuda-graph-trace": "node",
                "force-overwrite": "true",
            },
        ),
        (
            Nsys(options={"--sample": "cpu", "f": "false", "cuda_graph_trace": None, "trace": "cuda,nvtx"}),
            {
                "capture-range": "cudaProfilerApi",
                "capture-range-end": "stop",
                "sample": "cpu",
                "f": "false",
                "trace": "cuda,nvtx",
            },
        ),
        (
            Nsys(capture=NsysCapture.WHOLE, options={"delay": "30"}),
            {"s": "none", "cuda-graph-trace": "node", "force-overwrite": "true", "delay": "30"},
        ),
    ],
)
def test_options_of_nsys_merge_by_name(nsys: Nsys, options: dict[str, str]) -> None:
    assert merged_options(nsys) == options
