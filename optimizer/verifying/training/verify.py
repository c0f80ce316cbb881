"""Decides whether a candidate trains as the original does. The coordinator's side: numpy only, children do the work.

Losses, every parameter's gradient, its update and the optimizer's state after some steps are held against the same
steps in float64; so are single steps on unusual inputs (equal ids, zeros); a short training run is held against the
baseline's. The truth and the baseline's errors are worked out once (`prepare`). Not here: task metrics over labelled
samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import optimizer.verifying.errors  # noqa: F401  (fills the catalogue)
from optimizer.errors import FuseworksError
from optimizer.inputs import items
from optimizer.result import Probe, Verification
from optimizer.sandbox import Child
from optimizer.spec import Policy, Precision, Workload
from optimizer.verifying.edges import edge_sets
from optimizer.verifying.numerics import Rule
from optimizer.verifying.training.agreement import StepAgreement
from optimizer.verifying.training.asking import Trained, train
from optimizer.verifying.training.case import HOPELESS_ERROR, Case, shown
from optimizer.verifying.training.controls import run_controls
from optimizer.verifying.training.convergence import BATCHES, Curves, deviation, step_count
from optimizer.verifying.verify import Verifier

STEPS = 4
NUDGES = (1, 2)
REPEATED = 2
MOST_EDGES = 8
MOST_NAMED = 4

Draw = Callable[[], list[np.ndarray]]


class TrainingVerifier(Verifier):
    """One per captured step. `reference` has the float64 step loaded; `draw` gives the batches that are timed."""

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        rng: np.random.Generator,
        reference: Child,
        draw: Draw,
        *,
        timeout_s: float = 300.0,
    ) -> None:
        super().__init__(workload, policy, rng, reference, timeout_s=timeout_s)
        self.draw = draw
        self._batches: list[list[np.ndarray]] = []
        self._cases: list[Case] = []
        self._curves: Curves | None = None
        self._parameters: list[str] = []

    @property
    def curves(self) -> Curves:
        if self._curves is None:
            raise RuntimeError("prepare() has not been called")
        return self._curves

    def agreement(self, precision: Precision, *, timed: bool = True) -> StepAgreement:
        """For the check after timing. `timed` is of no account: what is timed is what is verified."""
        curves = self.curves
        return StepAgreement(self.rule(precision), curves.noise, curves.change_noise, self._parameters)

    # ---- once per run ----------------------------------------------------------------------------------------------

    def prepare(self, baseline: Child) -> None:
        """Raises FuseworksError: `verifying:user:original-fails`, `cannot-judge`, `no-reference`; ChildFailed."""
        batches = self._batches = [self.draw() for _ in range(BATCHES)]
        first = self._case("random", batches[:STEPS], list(range(STEPS)), baseline)
        self._cases = [first, *self._single_steps(baseline)]
        self._parameters = [shown(name) for name in first.truth.updates]
        step_s = max(first.baseline.seconds, first.truth.seconds) / STEPS
        order = [number % BATCHES for number in range(step_count(step_s))]
        run = self._run(baseline, batches, order)
        others = [self._run(self.reference, batches, order)]
        others += [self._run(baseline, batches, order, nudge) for nudge in NUDGES]
        self._curves = Curves.of(order, run, others)
        wrong = [probe.reason for probe in run_controls(first, self.rule("float32")) if not probe.passed]
        if first.loss_noise > HOPELESS_ERROR:
            wrong.append(f"the original's own loss is off by {first.loss_noise:.0%} of its spread by rounding alone")
        if wrong:
            raise FuseworksError("verifying:user:cannot-judge", text="; ".join(filter(None, wrong)))

    def _case(
        self, name: str, batches: list[list[np.ndarray]], order: list[int], baseline: Child, *, edge: bool = False
    ) -> Case:
        read_at = sorted({0, len(order) - 1})

        def outcome(child: Child, nudge: int | None = None) -> Trained:
            return train(child, batches, order, timeout_s=self.timeout_s, read_at=read_at, nudge=nudge, state=True)

        base = _asked("verifying:user:original-fails", lambda: outcome(baseline))
        truth = _asked("verifying:user:no-reference", lambda: outcome(self.reference))
        count = max(1, items(self.workload, self.workload.sizes()))
        nudged = [outcome(baseline, nudge) for nudge in NUDGES[: 1 if edge else None]]
        same = [list(one.of(kind)) for one in (base, truth) for kind in ("gradients", "updates", "state")]
        if same[:3] != same[3:]:
            raise FuseworksError("verifying:user:no-reference", text="its parameters are not the original's")
        return Case(name, batches, order, truth, base, nudged, count, "edge" if edge else "pooled")

    def _single_steps(self, baseline: Child) -> list[Case]:
        """One step on each. What the original itself fails on is no question."""
        found: list[Case] = []
        for edge in edge_sets(self.workload, self.rng):
            if edge.kind != "edge" or edge.amplifies or len(found) == MOST_EDGES:
                continue
            try:
                found.append(self._case(edge.name, [edge.arrays], [0], baseline, edge=True))
            except FuseworksError as error:
                if error.id not in {"verifying:user:original-fails", "verifying:user:no-reference"}:
                    raise
        return found

    def _run(
        self, child: Child, batches: Sequence[list[np.ndarray]], order: list[int], nudge: int | None = None
    ) -> Trained:
        return train(child, batches, order, timeout_s=self.timeout_s, nudge=nudge)

    # ---- for each candidate ----------------------------------------------------------------------------------------

    def verify(self, candidate: Child, precision: Precision = "float32") -> Verification:
        """Raises ChildFailed when the candidate raises or dies on ordinary inputs."""
        rule, first, curves = self.rule(precision), self._cases[0], self.curves
        outcome = self._outcome(candidate, first)
        controls = run_controls(first, rule)
        form = first.form_reason(outcome)
        if form is not None:
            probe = Probe(name=first.name, kind="random", passed=False, reason=form)
            return Verification(passed=False, probes=[probe, *controls], reason=form)
        rows = first.judge(outcome, rule)
        probes = [self._edge(candidate, case, rule) for case in self._cases[1:]]
        convergence = curves.judge(self._run(candidate, self._batches, curves.order), rule)
        steps = f"{len(curves.order)} steps of training"
        probes.append(Probe(name=steps, kind="convergence", passed=convergence.passed, reason=convergence.reason))
        probes.append(self._repeated(candidate, outcome))
        probes += [*self._untold(), *controls]
        wrong = [row for row in rows if not row.passed]
        # one wrong tensor soon makes all others wrong: the one that is furthest off tells most
        worst = max(wrong, key=lambda row: row.error / row.allowed, default=None)
        reason = None if worst is None else f"{worst.output}: {worst.reason}"
        for probe in probes:
            if reason is None and not probe.passed:
                prefix = "cannot be judged: " if probe.kind == "negative_control" else f"{probe.name}: "
                reason = prefix + str(probe.reason)
        return Verification(passed=reason is None, outputs=rows, probes=probes, reason=reason, convergence=convergence)

    def _outcome(self, candidate: Child, case: Case) -> Trained:
        read_at = sorted({0, len(case.order) - 1})
        return train(candidate, case.batches, case.order, timeout_s=self.timeout_s, read_at=read_at, state=True)

    def _edge(self, candidate: Child, case: Case, rule: Rule) -> Probe:
        try:
            outcome = self._outcome(candidate, case)
        except FuseworksError as error:
            if error.id != "child:user:exception":
                raise
            return Probe(name=case.name, kind="edge", passed=False, reason=f"it fails there: {error.message}"[:500])
        reason = case.form_reason(outcome)
        if reason is None:
            failed = next((row for row in case.judge(outcome, rule) if not row.passed), None)
            reason = None if failed is None else f"{failed.output}: {failed.reason}"
        return Probe(name=case.name, kind="edge", passed=reason is None, reason=reason)

    def _repeated(self, candidate: Child, outcome: Trained) -> Probe:
        """The first steps once more, after all the others: whatever a reset leaves behind would drift while it is
        timed."""
        again = self._run(candidate, self._cases[0].batches, list(range(REPEATED)))
        off, allowed = deviation(again.losses, outcome.losses[:REPEATED]), self.rule("float32").allowed(0.0)
        reason = f"from the beginning once more, the loss is off by {off:.2e} of its size" if off > allowed else None
        return Probe(name="the first steps again", kind="repeat", passed=reason is None, reason=reason)

    def _untold(self) -> list[Probe]:
        """What float32 itself gets wrong, named once."""
        names = self._cases[0].not_judged()
        if not names:
            return []
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        reason = f"the original's own are rounding alone: {', '.join(names[:MOST_NAMED])}{more}"
        return [Probe(name=f"{len(names)} tensors", kind="random", passed=True, judged=False, reason=reason)]


def _asked(id_: str, ask: Callable[[], Trained]) -> Trained:
    """What a child raises is told as what it means here."""
    try:
        return ask()
    except FuseworksError as error:
        if error.id != "child:user:exception":
            raise
        raise FuseworksError(id_, text=error.message, detail=error.detail) from error
