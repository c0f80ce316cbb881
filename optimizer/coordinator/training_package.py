"""The package of a training step: written from the rewritten step, with a few steps that its self-test repeats."""

from __future__ import annotations

from pathlib import Path

from optimizer import machine, runtime_settings
from optimizer.coordinator.prepare import Bench, drawing
from optimizer.coordinator.workshop import Plan
from optimizer.packaging.training import Checked, write_training_package
from optimizer.result import Candidate
from optimizer.verifying.training.asking import train

CHECKED_STEPS = 3
# its own kernels on another start: what rounding alone may do, many times over, and far from what a fault does
ALLOWED_ERROR = 1e-4
SELF_TEST = ("train_step.py", "--self-test", "--eager")  # compiling anew would take minutes


def write(bench: Bench, winner: Candidate) -> Path:
    """`package/` and `package.zip` below the run's folder; the path of the latter. Raises FuseworksError."""
    context, plan = bench.context, Plan.of(winner)
    built, draw = bench.shop.build(winner), drawing(bench, 14)
    batches = [draw() for _ in range(CHECKED_STEPS)]
    loaded = bench.shop.load(built, plan.settings, name="package")
    with loaded.child as child:
        losses = train(child, batches, list(range(CHECKED_STEPS)), timeout_s=120.0).losses
    threads = context.threads_of(plan.settings)
    _, archive = write_training_package(
        context.out,
        name=bench.captured.upload.stem,
        step=built.model,
        workload=bench.workload,
        steps=winner.steps,
        compiled=plan.backend.backend == "inductor_step",
        compiled_optimizer=plan.backend.options.get("optimizer") == "compiled",
        torch=machine.library_versions(("torch",))["torch"],
        environment=runtime_settings.environment(plan.settings, threads),
        threads=threads,
        model_sha256=bench.captured.inspection.sha256,
        recipe_digest=bench.answer.recipe_digest,
        speedup=bench.answer.summary,
        checked=Checked(batches, [float(loss) for loss in losses], ALLOWED_ERROR),
    )
    return archive
