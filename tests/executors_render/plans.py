"""One plan for each feature of the scripts; the golden files are made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cloudai_run.executors.nsys import report_path
from cloudai_run.executors.plan import (
    Artifact,
    Container,
    Directives,
    Gate,
    Layout,
    LocalLauncher,
    Mpi,
    NodeVar,
    Nsys,
    NsysCapture,
    Plan,
    Secrets,
    Stage,
)

RUN_DIR = "/runs/llama3_8b/llama3_8b_1700000000/train"
SECRETS = "/secrets/4711"
HOSTILE = {
    "SPACES": "--xla_a=1 --xla_b=2",
    "QUOTES": """it's "both" 'kinds'""",
    "DOLLAR": "$HOME ${HOME} $(date) `date` \\$",
    "SEMICOLON": "a;echo X && b | c > d &",
    "json": '{"a": 1, "b": "it\'s"}',
    "TEXT": "first\nsecond\r\nthird\ttab",
    "EMPTY": "",
    "NON_ASCII": "é ü 漢字 🙂",
    "GLOB": "* ? [a-z] ~ !",
    "no_proxy": "localhost,127.0.0.1",
}


def minimal(run_dir: str) -> Plan:
    """One stage, no container, nothing else."""
    return Plan(
        job_name="llama3_8b",
        run_dir=run_dir,
        directives=Directives(nodes=2),
        stages=(Stage(name="train", argv=("nemo", "llm", "pretrain", "--yes", "trainer.max_steps=5")),),
    )


def quoting(run_dir: str) -> Plan:
    """Values of every kind, as arguments and in the environment; what Slurm and the shell set themselves."""
    return Plan(
        job_name="quoting",
        run_dir=run_dir,
        directives=Directives(nodes=2, ntasks_per_node=2),
        env={"NCCL_DEBUG": "INFO", **HOSTILE},
        stages=(
            Stage(
                name="plain",
                argv=("nemo", *HOSTILE.values()),
                env={"NCCL_DEBUG": "WARN", "ONLY_HERE": "1"},
            ),
            Stage(
                name="on-the-rank",
                argv=("nemo", "first", ("--host_idx=", NodeVar("SLURM_PROCID")), "last $HOME"),
                env={
                    "CUDA_VISIBLE_DEVICES": NodeVar("SLURM_LOCALID"),
                    "CACHE": ("/tmp/it's here/", NodeVar("SLURM_PROCID"), "/cache"),
                    "LD_PRELOAD": "",
                    "UID": "5",
                },
            ),
            Stage(name="script", script='echo "$SPACES"\nnemo --from "$0" \'in a script\'\n'),
        ),
    )


def containers(run_dir: str) -> Plan:
    """Two images: one for a single stage, one that three stages share."""
    return Plan(
        job_name="containers",
        run_dir=run_dir,
        directives=Directives(nodes=2, ntasks_per_node=2, srun={"reservation": "maintenance"}),
        containers={
            "nccl": Container(image="nvcr.io#nvidia/pytorch:24.09-py3"),
            "nemo": Container(
                image="/images/nemo 25.04.sqsh",
                mounts=("/data/c4:/data:ro", "/scratch:/scratch"),
                workdir="/workspace",
                writable=True,
                mount_home=None,
                remap_root=True,
                save="/scratch/nemo-used.sqsh",
            ),
        },
        env={"XLA_FLAGS": "--xla_a=1 --xla_b=2"},
        stages=(
            Stage(name="preflight", argv=("all_reduce_perf",), container="nccl", mpi=Mpi.PMIX, nodes=1),
            Stage(name="first", argv=("nemo",), container="nemo"),
            Stage(
                name="second", argv=("nemo",), container="nemo", env={"NCCL_DEBUG": "INFO"}, workdir="/opt"
            ),
            Stage(name="third", argv=("nemo",), container="nemo", layout=Layout.ONCE, srun={"overlap": None}),
        ),
    )


def layouts(run_dir: str) -> Plan:
    """Every layout, MPI, and a part of the nodes and of the ranks."""
    return Plan(
        job_name="layouts",
        run_dir=run_dir,
        directives=Directives(nodes=2, ntasks_per_node=4, cpus_per_task=2),
        stages=(
            Stage(name="all", argv=("nemo",)),
            Stage(name="per-node", argv=("nemo",), layout=Layout.ONCE_PER_NODE, mpi=Mpi.PMI2),
            Stage(name="once", argv=("nemo",), layout=Layout.ONCE),
            Stage(name="part", argv=("nemo",), nodes=1, ntasks_per_node=2, mpi=Mpi.PMIX, workdir="/tmp"),
        ),
    )


def nsys(run_dir: str) -> Plan:
    """Two ranks of four under nsys, with options of the user's; rank 0 from beginning to end."""
    return Plan(
        job_name="nsys",
        run_dir=run_dir,
        directives=Directives(nodes=2, ntasks_per_node=2),
        stages=(
            Stage(
                name="perf",
                argv=("nemo", "--rank", NodeVar("SLURM_PROCID")),
                env={"CUDA_VISIBLE_DEVICES": NodeVar("SLURM_LOCALID")},
                nsys=Nsys(
                    ranks=(0, 3), options={"sample": "cpu", "trace": "cuda,nvtx", "cuda-graph-trace": None}
                ),
            ),
            Stage(name="whole", argv=("nemo",), nsys=Nsys(capture=NsysCapture.WHOLE)),
        ),
    )


def checks(run_dir: str) -> Plan:
    """Gates, expected files and a time limit."""
    return Plan(
        job_name="checks",
        run_dir=run_dir,
        directives=Directives(nodes=2, ntasks_per_node=2),
        stages=(
            Stage(
                name="preflight",
                argv=("all_reduce_perf", "--print", "# Avg bus bandwidth    : 389.6"),
                gate=Gate(text="Avg bus bandwidth"),
                timeout_s=600,
            ),
            Stage(
                name="perf",
                argv=("paxml", "--print", "E2E time: 13.4", "--write", f"{run_dir}/out/it's.txt"),
                gate=Gate(text="E2E time", every_rank=True),
                expects=(
                    Artifact(path="out/it's.txt", hint="see the converter's output in logs/perf"),
                    Artifact(path=f"{run_dir}/stages.jsonl"),
                ),
            ),
        ),
    )


def secrets(run_dir: str) -> Plan:
    """Secrets, set-up lines and a second attempt."""
    return Plan(
        job_name="secrets",
        run_dir=run_dir,
        directives=Directives(nodes=2),
        secrets=Secrets(names=("HF_TOKEN", "WANDB_API_KEY"), path=SECRETS),
        setup="ulimit -c 0\nexport FROM_SET_UP='of the set-up'",
        retries=2,
        containers={"nemo": Container(image="nvcr.io#nvidia/nemo:25.04")},
        stages=(Stage(name="train", argv=("nemo",), container="nemo", env={"NCCL_DEBUG": "INFO"}),),
    )


def directives(run_dir: str) -> Plan:
    """Every option that sbatch can be given."""
    return Plan(
        job_name="directives",
        run_dir=run_dir,
        directives=Directives(
            nodelist="node[1-2]",
            ntasks_per_node=8,
            exclude="node[7-9],login",
            reservation="maintenance",
            constraint="h100&ib",
            segment=2,
            switches="1@30:00",
            time="1-12:00:00",
            account="coreai",
            partition="batch,backfill",
            qos="high",
            gpus_per_node="h100:8",
            mem="0",
            exclusive=True,
            comment='a "comment" with \\ and #',
            output=f"{run_dir}/job %j.out",
            sbatch={"network": "sharp", "kill_on_invalid_dep": "yes", "hold": None, "--site-option": 3},
            srun={"cpu-bind": "none"},
        ),
        stages=(Stage(name="train", argv=("nemo",)),),
    )


def pgle(run_dir: str) -> Plan:
    """Profile, conversion and perf as in a two-stage run."""
    report = report_path(run_dir, "grok1", "profile")
    ranks = ("--num_hosts=", NodeVar("SLURM_NTASKS")), ("--host_idx=", NodeVar("SLURM_PROCID"))
    return Plan(
        job_name="grok1",
        run_dir=run_dir,
        directives=Directives(nodes=2, ntasks_per_node=2, time="1:00:00"),
        containers={"paxml": Container(image="/images/paxml.sqsh")},
        env={"ENABLE_TE": "0"},
        stages=(
            Stage(
                name="profile",
                argv=("paxml", "--multiprocess_gpu", *ranks, "--print", "E2E time"),
                env={
                    "XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=false --xla_dump_hlo_pass_re=.*"
                },
                container="paxml",
                gate=Gate(text="E2E time", every_rank=True),
                nsys=Nsys(capture=NsysCapture.WHOLE),
                expects=(Artifact(path=report, hint="nsys wrote no report"),),
            ),
            Stage(
                name="convert",
                argv=("pgo_converter", "--profile_path", report, "--write", f"{run_dir}/pgle/profile.pbtxt"),
                layout=Layout.ONCE,
                container="paxml",
                expects=(Artifact(path="pgle/profile.pbtxt", hint="the converter failed"),),
            ),
            Stage(
                name="perf",
                argv=("paxml", "--multiprocess_gpu", *ranks, "--print", "E2E time"),
                env={
                    "XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true "
                    f"--xla_gpu_pgle_profile_file_or_directory_path={run_dir}/pgle/profile.pbtxt"
                },
                container="paxml",
                gate=Gate(text="E2E time", every_rank=True),
            ),
        ),
    )


def local(run_dir: str) -> Plan:
    """A run without Slurm: ranks, checks, nsys, the environment of the ranks."""
    return Plan(
        job_name="local",
        run_dir=run_dir,
        directives=Directives(ntasks_per_node=2),
        env=HOSTILE,
        setup="export FROM_SET_UP=1",
        stages=(
            Stage(
                name="profile",
                argv=("paxml", ("--host_idx=", NodeVar("SLURM_PROCID")), "--print", "E2E time"),
                env={"CUDA_VISIBLE_DEVICES": NodeVar("SLURM_LOCALID")},
                gate=Gate(text="E2E time", every_rank=True),
                nsys=Nsys(),
                timeout_s=60,
            ),
            Stage(
                name="convert",
                argv=("pgo_converter", "--write", f"{run_dir}/profile.pbtxt"),
                layout=Layout.ONCE,
                expects=(Artifact(path="profile.pbtxt"),),
                workdir="/tmp",
            ),
        ),
    )


def local_launchers(run_dir: str) -> Plan:
    """A run without Slurm whose ranks something else starts."""
    return Plan(
        job_name="launchers",
        run_dir=run_dir,
        directives=Directives(ntasks_per_node=2),
        stages=(
            Stage(name="self", argv=("nemo", "trainer.devices=2"), local_launcher=LocalLauncher.SELF),
            Stage(
                name="torchrun",
                argv=("nemo", ("--rank=", NodeVar("SLURM_PROCID"))),
                local_launcher=LocalLauncher.TORCHRUN,
                nsys=Nsys(ranks=(1,)),
            ),
        ),
    )


SBATCH_PLANS: Mapping[str, Callable[[str], Plan]] = {
    plan.__name__: plan
    for plan in (minimal, quoting, containers, layouts, nsys, checks, secrets, directives, pgle)
}
LOCAL_PLANS: Mapping[str, Callable[[str], Plan]] = {plan.__name__: plan for plan in (local, local_launchers)}
