"""The torchx scheduler behind SlurmExecutor: dry run, submission, state, logs and cancelling."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from nemo_run.config import get_nemorun_home
from nemo_run.core.execution.base import Executor
from nemo_run.core.execution.slurm import get_packaging_job_key
from nemo_run.core.packaging.base import Packager
from nemo_run.core.tunnel.client import PackagingJob, SSHTunnel
from nemo_run.run import experiment as nemo_run_experiment
from nemo_run.run.torchx_backend.schedulers.slurm import SlurmTunnelScheduler
from torchx.schedulers.api import DescribeAppResponse, Stream, filter_regex
from torchx.specs import AppDef

from cloudai_run.executors.dry_run import ScriptDryRun, SlurmRequest
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.jobs import cancel, current_state, forget_secrets
from cloudai_run.executors.logs import follow_lines
from cloudai_run.executors.lookup import find_submission
from cloudai_run.executors.plan import Plan
from cloudai_run.executors.planning import SCRIPT_FILE, slurm_plan
from cloudai_run.executors.render import render_sbatch
from cloudai_run.executors.responses import described
from cloudai_run.executors.secret_files import secret_values, write_secret_file
from cloudai_run.executors.shell import LocalShell, Shell, TunnelShell
from cloudai_run.executors.slurm import SlurmExecutor
from cloudai_run.executors.submission import (
    SshTarget,
    Submission,
    add_to_index,
    write_submission,
)
from cloudai_run.executors.submit import sbatch_words, submit


class SlurmScheduler(SlurmTunnelScheduler):
    """NeMo-Run's scheduler with this project's script, submission and view of a job's state."""

    def _submit_dryrun(self, app: AppDef, cfg: Executor) -> ScriptDryRun[SlurmRequest]:
        assert isinstance(cfg, SlurmExecutor)
        executor = cfg
        self._initialize_tunnel(executor.tunnel)
        assert self.tunnel is not None
        executor.tunnel = self.tunnel  # pyright: ignore[reportAttributeAccessIssue]
        _package(executor)
        plan = slurm_plan(app, executor)
        script = render_sbatch(plan)
        Path(executor.job_dir, SCRIPT_FILE).write_text(script, encoding="utf-8")
        return ScriptDryRun(SlurmRequest(executor, plan, script))

    def schedule(  # pyright: ignore[reportIncompatibleMethodOverride]  # it gets what _submit_dryrun returned
        self, dryrun_info: ScriptDryRun[SlurmRequest]
    ) -> str:
        executor, plan = dryrun_info.request.executor, dryrun_info.request.plan
        self._initialize_tunnel(executor.tunnel)
        shell = self._shell()
        secrets = plan.secrets
        if secrets is not None and secrets.remove:
            write_secret_file(shell, secrets.path, secret_values(secrets.names, os.environ))
        words = sbatch_words(
            f"{plan.run_dir}/{SCRIPT_FILE}",
            secrets=executor.secrets,
            dependencies=executor.parse_deps(),
            dependency_type=executor.dependency_type,
        )
        job_id, cluster = submit(shell, words)
        submission = _submission(executor, plan, job_id, cluster, shell)
        write_submission(submission)
        add_to_index(get_nemorun_home(), submission)
        return job_id

    def _cancel_existing(self, app_id: str) -> None:
        found = self._find(app_id)
        if found is not None:
            cancel(*found)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        found = self._find(app_id)
        if found is None:
            return None
        submission, shell = found
        now = current_state(submission, shell)
        if now.settled:
            forget_secrets(submission, shell)
        if now.lost:
            return None  # or NeMo-Run would wait for ever
        return described(submission, now)

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        found = self._find(app_id)
        if found is None:
            raise ExecutorError(f"no job {app_id} was submitted from here")
        submission, shell = found
        lines = follow_lines(
            submission, shell, ended=lambda: not should_tail or current_state(submission, shell).state.ended
        )
        whole = (f"{line}\n" for line in lines)
        return filter_regex(regex, whole) if regex else whole

    def _find(self, app_id: str) -> tuple[Submission, Shell] | None:
        """The submission of a job, and where its commands run."""
        submission = find_submission(app_id, self.experiment)
        if submission is None:
            return None
        if submission.ssh is None:
            return submission, LocalShell()
        if self.tunnel is None or self.tunnel.key != f"{submission.ssh.user}@{submission.ssh.host}":
            self.tunnel = None
            self._initialize_tunnel(submission.ssh.tunnel())
        return submission, self._shell()

    def _shell(self) -> Shell:
        return TunnelShell(self.tunnel) if isinstance(self.tunnel, SSHTunnel) else LocalShell()


def create_scheduler(session_name: str, **kwargs: object) -> SlurmScheduler:
    """torchx's entry point."""
    experiment = kwargs.get("experiment")
    assert experiment is None or isinstance(experiment, nemo_run_experiment.Experiment)
    return SlurmScheduler(session_name=session_name, experiment=experiment)


def _package(executor: SlurmExecutor) -> None:
    """NeMo-Run's packaging, which runs shell commands on unquoted paths; the plain packager ships nothing."""
    name = Path(executor.job_dir).name
    if type(executor.packager) is not Packager or executor.packager.symlink_from_remote_dir:
        executor.package(packager=executor.packager, job_name=name)
        return
    Path(executor.job_dir, "code").mkdir(parents=True, exist_ok=True)
    assert executor.experiment_id is not None
    key = get_packaging_job_key(executor.experiment_id, name)
    executor.tunnel.packaging_jobs[key] = PackagingJob(symlink=False)


def _submission(
    executor: SlurmExecutor, plan: Plan, job_id: str, cluster: str | None, shell: Shell
) -> Submission:
    tunnel = executor.tunnel
    ssh = None
    if isinstance(tunnel, SSHTunnel):
        ssh = SshTarget(
            host=tunnel.host,
            user=tunnel.user,
            job_dir=tunnel.job_dir,
            port=tunnel.port,
            identity=tunnel.identity,
            pre_command=tunnel.pre_command,
        )
    # By the clock of the machine that has Slurm's commands.
    clock = shell.run(["date", "+%s"]).stdout.strip() if ssh else ""
    return Submission(
        kind="slurm",
        job_id=job_id,
        cluster=cluster,
        task=executor.job_name,
        job_name=plan.job_name,
        run_dir=os.path.abspath(executor.job_dir),
        cluster_dir=plan.run_dir,
        stages=tuple(stage.name for stage in plan.stages),
        retries=plan.retries,
        submitted_unix_s=float(clock) if clock.isdigit() else time.time(),
        secret_file=plan.secrets.path if plan.secrets and plan.secrets.remove else None,
        ssh=ssh,
    )
