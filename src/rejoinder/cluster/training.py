"""Training on a Ray cluster, through Ray Train."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.errors import InputError, MissingExtraError, RejoinderError, reason_of
from rejoinder.memory import keep_memory
from rejoinder.training.display import TerminalDisplay

if TYPE_CHECKING:
    from rejoinder.training.recipe.settings import Recipe
    from rejoinder.training.run.summary import RunSummary


def train_on_ray(
    recipe: Recipe, run: str | Path, *, workers: int, gpus: bool = False, restarts: int = 3
) -> RunSummary:
    """Train as `training.loop.train` does, in several processes that Ray places on a cluster.

    The cluster is the one that `ray.init` connected to; without that, Ray starts one on this
    machine. Rejoinder must be installed on all machines, and they must find the examples and the
    run folder under the same path: a shared file system. Relative paths start at the current
    folder. Ray keeps its own notes beside the run, in `NAME.ray`.

    A stage's batch size is that of all workers together. With `gpus` each worker gets a GPU of its
    own, else a CPU. After the loss of one, all are started again up to `restarts` times, to go on
    from the last checkpoint; then RejoinderError. InputError: recipe, data and folder do not fit
    each other.
    """
    try:
        from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchTrainer
    except ImportError:
        raise MissingExtraError("training on Ray", "cluster") from None
    from rejoinder.training.recipe_files import recipe_document
    from rejoinder.training.run.summary import RunSummary

    run_folder = Path(run).resolve()
    run_folder.parent.mkdir(parents=True, exist_ok=True)
    failures = FailureConfig(max_failures=restarts)
    trainer = TorchTrainer(
        _train,
        train_loop_config={
            "recipe": recipe_document(recipe),
            "run": str(run_folder),
            "folder": str(Path.cwd()),
        },
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpus),
        run_config=RunConfig(
            name=f"{run_folder.name}.ray",
            storage_path=str(run_folder.parent),
            failure_config=failures,
        ),
    )
    try:
        done = trainer.fit().return_value
    except TrainingFailedError as error:
        failed: dict[int, BaseException] = getattr(error, "worker_failures", {})
        reasons = [f"worker {rank}: {reason_of(failure)}" for rank, failure in failed.items()]
        raise RejoinderError(
            f"{run_folder}: training on Ray failed: {'; '.join(reasons) or reason_of(error)}"
        ) from None
    if "refused" in done:
        raise InputError(done["refused"])
    return RunSummary(**done["summary"])


def _train(config: dict[str, Any]) -> dict[str, Any]:
    """Train in a worker.

    Return what came out, or why the recipe was refused (Ray starts what raises again).
    """
    from rejoinder.training.distributed import RankZeroFailedError, is_first
    from rejoinder.training.loop import train
    from rejoinder.training.recipe_files import parse_recipe

    os.chdir(config["folder"])
    keep_memory()
    display = TerminalDisplay() if is_first() else None
    try:
        return {
            "summary": train(
                parse_recipe(config["recipe"]), config["run"], display=display
            ).to_json()
        }
    except (InputError, RankZeroFailedError) as error:
        if isinstance(error, InputError) or error.code == 2:
            return {"refused": str(error)}
        raise
