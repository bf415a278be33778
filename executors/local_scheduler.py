"""The torchx scheduler behind LocalExecutor: NeMo-Run's own, with a script in place of the command."""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from nemo_run.config import get_nemorun_home
from nemo_run.core.execution.base import Executor
from nemo_run.run import experiment as nemo_run_experiment
from nemo_run.run.torchx_backend.schedulers.local import PersistentLocalScheduler
from torchx.schedulers.api import AppDryRunInfo, DescribeAppResponse, Stream, filter_regex
from torchx.schedulers.local_scheduler import CWDImageProvider, PopenRequest
from torchx.specs import AppDef

from cloudai_run.executors.dry_run import LocalRequest, ScriptDryRun
from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.jobs import cancel, current_state
from cloudai_run.executors.local import LocalExecutor
from cloudai_run.executors.logs import follow_lines
from cloudai_run.executors.lookup import find_submission
from cloudai_run.executors.planning import LOCAL_SCRIPT_FILE, local_plan
from cloudai_run.executors.render_local import render_local
from cloudai_run.executors.responses import described
from cloudai_run.executors.shell import LocalShell
from cloudai_run.executors.submission import Submission, add_to_index, write_submission


class LocalScheduler(PersistentLocalScheduler):
    """NeMo-Run's local scheduler, running a plan's script and reading its records."""

    def _submit_dryrun(  # pyright: ignore[reportIncompatibleMethodOverride]  # a PopenRequest all the same
        self, app: AppDef, cfg: Executor
    ) -> ScriptDryRun[LocalRequest]:
        assert isinstance(cfg, LocalExecutor)
        plan = local_plan(app, cfg)
        script = render_local(plan)
        path = Path(cfg.job_dir, LOCAL_SCRIPT_FILE)
        path.write_text(script, encoding="utf-8")
        app = copy.deepcopy(app)
        (role,) = app.roles
        # The script sets the environment; its words would not survive here as they are.
        role.entrypoint, role.args, role.env = "bash", [str(path.absolute())], {}
        options = dataclasses.asdict(cfg)
        options["log_dir"] = options.pop("job_dir")
        request = self._to_popen_request(app, options)  # pyright: ignore[reportArgumentType]  # as NeMo-Run calls it
        fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
        return ScriptDryRun(LocalRequest(**fields, executor=cfg, plan=plan, script=script))

    def schedule(self, dryrun_info: AppDryRunInfo[PopenRequest]) -> str:
        request = dryrun_info.request
        assert isinstance(request, LocalRequest)
        app_id = super().schedule(dryrun_info)
        ((replica,),) = self._apps[app_id].role_replicas.values()
        submission = Submission(
            kind="local",
            job_id=app_id,
            task=replica.role_name,
            job_name=request.plan.job_name,
            run_dir=os.path.abspath(request.executor.job_dir),
            cluster_dir=request.plan.run_dir,
            stages=tuple(stage.name for stage in request.plan.stages),
            submitted_unix_s=time.time(),
            pid=replica.proc.pid,
        )
        write_submission(submission)
        add_to_index(get_nemorun_home(), submission)
        return app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        if app_id in self._apps:
            return super().describe(app_id)  # it also reaps the processes
        submission = find_submission(app_id, self.experiment)
        return described(submission, current_state(submission, LocalShell())) if submission else None

    def _cancel_existing(self, app_id: str) -> None:
        submission = find_submission(app_id, self.experiment)
        if app_id in self._apps:
            super()._cancel_existing(app_id)
        elif submission is not None:
            cancel(submission, LocalShell())

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
        submission = find_submission(app_id, self.experiment)
        if submission is None:
            raise ExecutorError(f"no task {app_id} was started from here")
        shell = LocalShell()
        lines = follow_lines(
            submission, shell, ended=lambda: not should_tail or current_state(submission, shell).state.ended
        )
        whole = (f"{line}\n" for line in lines)
        return filter_regex(regex, whole) if regex else whole


def create_scheduler(session_name: str, **kwargs: object) -> LocalScheduler:
    """torchx's entry point."""
    experiment = kwargs.get("experiment")
    assert experiment is None or isinstance(experiment, nemo_run_experiment.Experiment)
    return LocalScheduler(
        session_name=session_name, image_provider_class=CWDImageProvider, experiment=experiment
    )
