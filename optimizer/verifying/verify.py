"""Decides whether a candidate answers as the original does. The coordinator's side: numpy only, children do the work.

The reference's answers and the baseline's errors are worked out once (`prepare`); `verify` then puts the same questions
to each candidate. Not here: gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import optimizer.verifying.errors  # noqa: F401  (fills the catalogue)
from optimizer.capturing.samples import Samples
from optimizer.errors import FuseworksError
from optimizer.inputs import draw, items
from optimizer.result import OutputNumerics, Probe, Verification
from optimizer.sandbox import Child
from optimizer.spec import Policy, Precision, Workload
from optimizer.verifying import probing
from optimizer.verifying.agreement import Agreement
from optimizer.verifying.asking import Answers, ask
from optimizer.verifying.broken_promises import broken_promises
from optimizer.verifying.controls import run_controls
from optimizer.verifying.edges import EDGE_GROWTH, SURE_GROWTH, edge_sets
from optimizer.verifying.explaining import explain
from optimizer.verifying.judging import form_reason, judge_pooled
from optimizer.verifying.numerics import Rule, is_float, rule_for
from optimizer.verifying.questions import Question, Truths
from optimizer.verifying.task_metric import CannotScore, TaskJudge, told

MIN_SAMPLES, MIN_SETS = 64, 3
MAX_POOLED_BYTES = 1 << 30
LARGER_BATCH = 16
EDGE_TRUTH_BYTES = 128 << 20
EDGE_SECONDS = 5.0  # for the reference, in each set that is not `sure`
NUDGE = 2.0**-22


class Verifier:
    """One per captured model. `reference` has `verifying.load_reference` done."""

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        rng: np.random.Generator,
        reference: Child,
        *,
        output_names: Sequence[str] | None = None,
        samples: Samples | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        self.workload = workload
        self.policy = policy
        self.rng = rng
        self.reference = reference
        self.timeout_s = timeout_s
        self.samples = samples
        self._names = output_names
        self._captured: Truths | None = None
        self._truths: Truths | None = None
        self._habits = probing.Habits()
        self.meanings: dict[Path, Probe] = {}  # what is known of each rewritten graph in float64
        self._task: TaskJudge | None = None
        self.no_task_metric = ""  # why the metric that the workload asks for is not computed

    @property
    def truths(self) -> Truths:
        if self._truths is None:
            raise RuntimeError("prepare() has not been called")
        return self._truths

    @property
    def captured(self) -> Truths | None:
        """On the workload's samples, where it has any."""
        return self._captured

    def rule(self, precision: Precision) -> Rule:
        return rule_for(precision, self.policy.max_error_ratio, self.workload.limits.max_error)

    def agreement(
        self, precision: Precision, *, timed: bool = True
    ) -> Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], str | None]:
        """For the check after timing: `(answer, the baseline's) -> reason or None`. A new one for each measurement.
        `timed`: on the inputs that are timed, which are captured ones where there are any; else on drawn ones."""
        return Agreement((self._captured if timed else None) or self.truths, self.rule(precision))

    # ---- once per run ----------------------------------------------------------------------------------------------

    def prepare(self, baseline: Child) -> None:
        """Asks the reference and the baseline everything that candidates will be asked.

        Raises FuseworksError: `verifying:user:original-fails`, `verifying:user:cannot-judge`; ChildFailed.
        """
        self._try_out(baseline, draw(self.workload, self.workload.sizes(), self.rng))
        pooled, seconds = self._pooled()
        base = ask(baseline, [question.arrays for question in pooled], timeout_s=self.timeout_s)
        truth_bytes = sum(array.nbytes for array in pooled[0].truth)
        edges = self._edges(truth_bytes, seconds)
        asked = [question.arrays for question in edges if question.not_judged is None]
        edge_truth = ask(self.reference, asked, timeout_s=self.timeout_s, tolerant=True)
        edge_base = ask(baseline, asked, timeout_s=self.timeout_s, tolerant=True)
        for question, answer in zip(pooled, base.whole(), strict=True):
            _give(question, question.truth, answer)
        for index, question in enumerate(q for q in edges if q.not_judged is None):
            _give_edge(question, index, edge_truth, edge_base)
        names = list(self._names or [])
        if len(names) != len(pooled[0].truth):
            names = [f"output {i}" for i in range(len(pooled[0].truth))]
        truths = Truths(names, [i.name for i in self.workload.inputs], pooled, edges)
        if not names:
            raise FuseworksError("verifying:user:cannot-judge", text="the model has no outputs")
        self._mark_ties(truths)
        truths.measure_baseline()
        self._truths = truths
        self._captured = self._captured_truths(baseline)
        self._habits = probing.observe(baseline, truths, self.rule("float32"), base, edge_base, self.timeout_s)
        accepted = [probe.reason for probe in run_controls(truths, self.rule("float32")) if not probe.passed]
        if accepted:
            raise FuseworksError("verifying:user:cannot-judge", text="; ".join(filter(None, accepted)))
        self._prepare_task(baseline)

    def _prepare_task(self, baseline: Child) -> None:
        labels, samples = self.workload.labels, self.samples
        if labels is None:
            return
        try:
            if samples is None:
                raise CannotScore("the workload names no samples")
            task = TaskJudge(samples, labels, self.truths.names, self.timeout_s)
            task.prepare(baseline)
            self._task = task
        except CannotScore as error:
            self.no_task_metric = f"{labels.metric} is not computed: {error}."

    def _captured_truths(self, baseline: Child) -> Truths | None:
        """Captured samples are a pool of their own: drawn inputs may spread the answers far wider, and would hide what
        is wrong on those that serving sees."""
        samples = self.samples
        if samples is None:
            return None
        count = max(1, items(self.workload, self.workload.sizes()))
        sets = max(MIN_SETS, -(-min(MIN_SAMPLES, samples.count) // samples.per_set))
        asked = [Question(f"captured {n}", "random", samples.captured(n), count) for n in range(sets)]
        self._try_out(baseline, asked[0].arrays, self.workload.samples)
        truth = ask(self.reference, [question.arrays for question in asked], timeout_s=self.timeout_s)
        base = ask(baseline, [question.arrays for question in asked], timeout_s=self.timeout_s)
        for question, true, given in zip(asked, truth.whole(), base.whole(), strict=True):
            _give(question, true, given)
        truths = Truths(self.truths.names, self.truths.inputs, asked, [])
        self._mark_ties(truths)
        truths.measure_baseline()
        return truths

    def _try_out(self, baseline: Child, arrays: list[np.ndarray], place: str | None = None) -> None:
        """A workload that the original cannot be called with is told apart from a graph that has no float64 form."""
        try:
            ask(baseline, [arrays], timeout_s=self.timeout_s)
        except FuseworksError as error:
            if error.id != "child:user:exception":
                raise
            raise FuseworksError(
                "verifying:user:original-fails", place=place, text=error.message, detail=error.detail
            ) from error

    def _pooled(self) -> tuple[list[Question], float]:
        """At least MIN_SAMPLES samples in at least MIN_SETS sets, with the reference's answers; seconds of one set."""
        sizes = self.workload.sizes()
        questions: list[Question] = []
        answers: list[list[np.ndarray]] = []
        seconds: list[float] = []
        got = held_bytes = 0
        while got < MIN_SAMPLES or len(questions) < MIN_SETS:
            batch_sizes = sizes if len(questions) < MIN_SETS else self._larger(sizes, MIN_SAMPLES - got)
            arrays = draw(self.workload, batch_sizes, self.rng)
            try:
                answer = ask(self.reference, [arrays], timeout_s=self.timeout_s)
            except FuseworksError as error:
                if error.id != "child:user:exception":
                    raise
                raise FuseworksError("verifying:user:no-reference", text=error.message, detail=error.detail) from error
            answers += answer.whole()
            seconds += answer.seconds
            count = max(1, items(self.workload, batch_sizes))
            questions.append(Question(f"random {len(questions)}", "random", arrays, count))
            got += count
            held_bytes += sum(array.nbytes for array in answers[-1])
            if len(questions) >= MIN_SETS and held_bytes > MAX_POOLED_BYTES:
                break
        for question, truth in zip(questions, answers, strict=True):
            question.truth = truth
        return questions, float(np.median(seconds[:MIN_SETS]))

    def _edges(self, truth_bytes: int, seconds: float) -> list[Question]:
        """What is drawn depends on the seed and the model alone. The time, `seconds` for one served set, only cuts off
        what the reference would take too long for; the result says so."""
        growth = min(EDGE_GROWTH, max(SURE_GROWTH, EDGE_TRUTH_BYTES / max(truth_bytes, 1)))
        edges = []
        broken = broken_promises(self.workload, self.rng.spawn(1)[0])
        for edge in [*edge_sets(self.workload, self.rng, max_growth=growth), *broken]:
            count = items(self.workload, edge.sizes)
            question = Question(
                edge.name, edge.kind, edge.arrays, count, edge.amplifies, edge.breaks_promise, edge.fine
            )
            if not edge.sure and edge.growth * seconds > EDGE_SECONDS:
                question.not_judged = (
                    f"the float64 reference would take some {edge.growth * seconds:.0f} s there, "
                    f"and {EDGE_SECONDS:.0f} s are given to it"
                )
            edges.append(question)
        return edges

    def _larger(self, sizes: dict[str, int], missing: int) -> dict[str, int]:
        """Small batches leave many sets to ask for: take a larger one where the batch may grow."""
        batch = self.workload.inputs[0].shape[0] if self.workload.inputs[0].shape else None
        if not isinstance(batch, str):
            return sizes
        return {**sizes, batch: max(sizes[batch], min(LARGER_BATCH, missing, self.workload.dims[batch].max))}

    def _mark_ties(self, truths: Truths) -> None:
        """Nudges the inputs by a rounding error: an integer that changes is a tie."""
        everyone = [*truths.pooled, *truths.edges]
        questions = [question for question in everyone if question.truth]
        integral = any(not is_float(array) for array in truths.pooled[0].truth)
        floating = any(is_float(array) for array in truths.pooled[0].arrays)
        rounds: list[Answers] = []
        if integral and floating:
            for _ in range(2):
                # each has a generator of its own, so that a set that was cut off changes nothing for the others
                rngs = zip(everyone, self.rng.spawn(len(everyone)), strict=True)
                nudged = [[_nudged(array, rng) for array in q.arrays] for q, rng in rngs if q.truth]
                rounds.append(ask(self.reference, nudged, timeout_s=self.timeout_s, tolerant=True))
        for index, question in enumerate(questions):
            moved = [r.sets[index] for r in rounds]
            question.mark_ties([answer for answer in moved if answer is not None])

    # ---- for each candidate ----------------------------------------------------------------------------------------

    def verify(self, candidate: Child, precision: Precision = "float32") -> Verification:
        """Raises ChildFailed when the candidate raises or dies on ordinary inputs."""
        truths, rule = self.truths, self.rule(precision)
        pooled = ask(candidate, [question.arrays for question in truths.pooled], timeout_s=self.timeout_s)
        for answer, question in zip(pooled.whole(), truths.pooled, strict=True):
            form = form_reason(answer, question, truths.names)
            if form is not None:
                probe = Probe(name=question.name, kind="random", passed=False, reason=form)
                return Verification(passed=False, probes=[probe, *run_controls(truths, rule)], reason=form)
        outputs = judge_pooled(pooled.whole(), truths, rule)
        for index, row in enumerate(outputs):
            if not row.passed:
                guess = explain(pooled.whole(), truths, index, row.allowed) if precision != "int8" else None
                row.reason = f"{row.reason}; {guess}" if guess else row.reason
        on_samples, probes = self._on_samples(candidate, rule)
        outputs += on_samples
        probes += probing.probe(candidate, truths, rule, pooled, self._habits, self.timeout_s)
        probes += run_controls(truths, rule)
        reason = next((f"{row.output}: {row.reason}" for row in outputs if not row.passed), None)
        for probe in probes:
            if reason is None and not probe.passed:
                prefix = "cannot be judged: " if probe.kind == "negative_control" else f"{probe.name}: "
                reason = prefix + str(probe.reason)
        metric = self._task.judge(candidate, precision) if self._task is not None else None
        if metric is not None and not metric.passed and reason is None:
            reason = told(metric)
        return Verification(passed=reason is None, outputs=outputs, probes=probes, reason=reason, task_metric=metric)

    def _on_samples(self, candidate: Child, rule: Rule) -> tuple[list[OutputNumerics], list[Probe]]:
        """A row for each output on the captured samples; a probe instead when an answer has not even the right form."""
        truths = self._captured
        if truths is None:
            return [], []
        answers = ask(candidate, [question.arrays for question in truths.pooled], timeout_s=self.timeout_s).whole()
        for answer, question in zip(answers, truths.pooled, strict=True):
            form = form_reason(answer, question, truths.names)
            if form is not None:
                return [], [Probe(name=question.name, kind="random", passed=False, reason=form)]
        rows = judge_pooled(answers, truths, rule)
        for row in rows:
            row.inputs = "captured"
            row.reason = f"{row.reason}, on the captured samples" if row.reason else None
        return rows, []


def _give(question: Question, truth: list[np.ndarray], base: list[np.ndarray]) -> None:
    """Files the answers. Raises when reference and baseline do not even have the same form."""
    question.truth, question.baseline = truth, base
    shapes = [a.shape for a in truth], [a.shape for a in base]
    kinds = [is_float(a) for a in truth], [is_float(a) for a in base]
    if shapes[0] != shapes[1] or kinds[0] != kinds[1]:
        text = f"the reference answers {shapes[0]} where the original answers {shapes[1]}"
        raise FuseworksError("verifying:user:no-reference", place=question.name, text=text)


def _give_edge(question: Question, index: int, truth: Answers, base: Answers) -> None:
    mine, theirs = truth.sets[index], base.sets[index]
    if mine is None or theirs is None:
        side = "the original itself" if theirs is None else "the float64 reference"
        question.not_judged = f"{side} fails there: {base.failed.get(index) or truth.failed.get(index)}"
        return
    _give(question, mine, theirs)


def _nudged(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if not is_float(array):
        return array
    return (array * (1 + NUDGE * rng.choice([-1.0, 1.0], size=array.shape))).astype(np.float64)
