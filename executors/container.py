"""Container images, and the options by which srun starts ranks in them (pyxis)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.words import check_line, check_path

_MOUNT = re.compile(r"[^:,\n]+:/[^:,\n]*(:[^:,\n]+)?")


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container image and how stages run in it.

    Attributes:
        image: as pyxis takes it: `nvcr.io#nvidia/nemo:25.04`, or the path of a squashfs file.
        mounts: `SOURCE:TARGET[:FLAGS]`; the run folder is mounted at its own path besides.
        workdir: directory inside, absolute; None leaves the image's.
        writable: None leaves the cluster's setting.
        mount_home: False keeps packages in the user's home (~/.local) out of the run; None leaves the
            cluster's setting.
        remap_root: None leaves the cluster's setting.
        save: squashfs file that keeps the container's state after the last stage in it.

    Raises:
        ExecutorError: for a mount that is none, or a path that is not absolute.
    """

    image: str
    mounts: tuple[str, ...] = ()
    workdir: str | None = None
    writable: bool | None = None
    mount_home: bool | None = False
    remap_root: bool | None = None
    save: str | None = None

    def __post_init__(self) -> None:
        check_line(self.image, "Container.image")
        for mount in self.mounts:
            check_line(mount, "Container.mounts")
            if not _MOUNT.fullmatch(mount):
                raise ExecutorError(
                    f"{mount!r} in Container.mounts is no mount"
                    "\n  right: SOURCE:TARGET or SOURCE:TARGET:FLAGS, TARGET absolute, no comma within"
                )
        if self.workdir is not None:
            check_path(self.workdir, "Container.workdir")
        if self.save is not None:
            check_path(self.save, "Container.save")


def container_flags(container: Container) -> dict[str, str | None]:
    """Returns the flags that every srun in a container repeats."""
    flags = {
        "container-writable": container.writable is True,
        "container-readonly": container.writable is False,
        "container-mount-home": container.mount_home is True,
        "no-container-mount-home": container.mount_home is False,
        "container-remap-root": container.remap_root is True,
        "no-container-remap-root": container.remap_root is False,
    }
    return {name: None for name, given in flags.items() if given}


def all_mounts(container: Container, run_dir: str) -> str:
    """Returns the mounts of a container, the run folder's among them, as pyxis takes them.

    Raises:
        ExecutorError: if the run folder's path cannot be written as a mount.
    """
    own = f"{run_dir}:{run_dir}"
    if not _MOUNT.fullmatch(own):
        raise ExecutorError(
            f"the run folder {run_dir!r} cannot be mounted: a path in a mount has no ':' and no ','"
        )
    return ",".join((*container.mounts, *(() if own in container.mounts else (own,))))
