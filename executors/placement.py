"""Which container each stage runs in: the one place where an image's name becomes a container of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cloudai_run.executors.plan import Container, Stage

#: `Stage.container` of a stage that runs on the node itself although the executor has an image.
HOST = "host"
#: Name in the plan of the executor's own image.
MAIN = "main"


def place_stages(
    stages: Iterable[Stage], default: Container | None, images: Mapping[str, str], template: Container
) -> tuple[tuple[Stage, ...], dict[str, Container]]:
    """Puts each stage into its container.

    A stage's `container` is None for the default, HOST for none, a name of `images`, or an image itself.

    Args:
        stages: of the plan.
        default: the executor's image, None if it has none.
        images: further images by name.
        template: mounts and the like for every image.

    Returns:
        The stages, each with a name of the plan's containers or None, and those containers.
    """
    containers: dict[str, Container] = {}
    placed: list[Stage] = []
    by_image = {default.image: MAIN} if default else {}
    for stage in stages:
        wanted = stage.container
        if wanted == HOST or (wanted is None and default is None):
            placed.append(replace(stage, container=None))
            continue
        image = images.get(wanted, wanted) if wanted is not None else default.image if default else ""
        name = by_image.get(image)
        if name is None:
            name = wanted if wanted is not None and wanted in images else f"image{len(by_image)}"
            by_image[image] = name
        containers[name] = default if default and name == MAIN else replace(template, image=image, save=None)
        placed.append(replace(stage, container=name))
    return tuple(placed), containers
