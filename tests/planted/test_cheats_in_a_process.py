"""Uploads that are honest until they are timed, each in a sandboxed process of its own: their bursts are refused, or
what they answered meanwhile is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimizer.compiling.errors  # noqa: F401  (the coordinator knows what a child may report)
from optimizer.benchmarking.allowance import greedy
from optimizer.benchmarking.bursts import Burst, Entrant, Refused, answers, try_burst
from optimizer.errors import FuseworksError
from optimizer.inputs import draw
from optimizer.sandbox import Child, ChildFailed, ChildSpec, start
from optimizer.spec import Workload
from optimizer.verifying.asking import ask

CALLS, ROUNDS = 24, 5
WORKLOAD = Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [64, 256]}]})
HONEST = "return self.work(x)"
UPLOAD = """
import gc
import threading
import time

import torch

{before}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)) / 16
        self.last = None

    def work(self, x):
        for _ in range(12):
            x = torch.tanh(x @ self.weight)
        return x

    def timed(self, x):
        {timed}

    def forward(self, x):
        if not gc.isenabled():  # the clock is running
            return self.timed(x)
        self.last = self.work(x)
        return self.last
"""
LATER = """out = torch.zeros_like(x)
        threading.Thread(target=lambda: out.copy_(self.work(x.clone())), daemon=True).start()
        return out"""
LAZY = """
class Lazy(torch.Tensor):
    def detach(self):
        return self.model.work(self.x)
"""
OF_LAZY = """lazy = torch.zeros(64, 256).as_subclass(Lazy)
        lazy.model, lazy.x = self, x.clone()
        return lazy"""
HALF_A_CLOCK = "real = time.perf_counter_ns\ntime.perf_counter_ns = lambda: real() // 2"


@contextmanager
def loaded(folder: Path, timed: str = HONEST, before: str = "") -> Iterator[Child]:
    upload = folder / "model.py"
    upload.write_text(UPLOAD.format(timed=timed, before=before))
    spec = ChildSpec(name="contender", inputs={"upload": upload}, environment={"OMP_NUM_THREADS": "1"})
    with start(spec) as child:
        child.call(
            "compiling.load",
            timeout_s=200,
            backend="eager",
            model=child.path("upload"),
            upload=child.path("upload"),
            upload_format="py",
            format="pt2",
            workload=WORKLOAD.model_dump(by_alias=True, mode="json"),
            threads=1,
        )
        yield child


def drawing(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return lambda: draw(WORKLOAD, {}, rng)


def truth(x: np.ndarray) -> np.ndarray:
    import torch

    weight = (torch.randn(256, 256, generator=torch.Generator().manual_seed(0)) / 16).numpy().astype(np.float64)
    for _ in range(12):
        x = np.tanh(x @ weight)
    return x


def right_while_asked(child: Child) -> bool:
    [[given]] = ask(child, [fresh := drawing(1)()], timeout_s=60).whole()
    return float(np.abs(given - truth(fresh[0])).max()) < 1e-4


def wrong_answers(child: Child) -> list[float]:
    """The error of one answer of each burst, which the upload is not told beforehand, as a judgement asks for it."""
    entrant, fresh, rng, errors = Entrant("cheat", child), drawing(2), np.random.default_rng(3), []
    for _ in range(ROUNDS):
        sets, index = [fresh() for _ in range(CALLS)], int(rng.integers(CALLS))
        try:
            burst = try_burst(entrant, fresh, sets, [index])
            [[given]] = answers(entrant, burst, [index])
        except Refused:  # this is caught as well, and not what is asked here
            continue
        errors.append(float(np.abs(given - truth(sets[index][0])).max()))
    return errors


def test_an_honest_upload_answers_rightly_while_it_is_timed(tmp_path: Path) -> None:
    with loaded(tmp_path) as child:
        assert right_while_asked(child)
        errors = wrong_answers(child)
        assert errors and max(errors) < 1e-4


def test_an_answer_replayed_while_the_clock_runs_is_caught(tmp_path: Path) -> None:
    with loaded(tmp_path, "return self.last") as child:
        assert right_while_asked(child)
        assert min(wrong_answers(child)) > 0.1


def test_work_left_to_a_thread_while_the_clock_runs_is_caught(tmp_path: Path) -> None:
    with loaded(tmp_path, LATER) as child:
        assert right_while_asked(child)
        with pytest.raises(FuseworksError) as caught:
            wrong_answers(child)
        assert caught.value.id == "benchmarking:user:answers-changed"
        assert "an answer was another one once the burst was over" in caught.value.message


def test_work_left_to_the_reading_is_refused_as_such(tmp_path: Path) -> None:
    """A clock cannot tell it: nothing is done before somebody reads the answer."""
    with loaded(tmp_path, OF_LAZY, LAZY) as child:
        assert right_while_asked(child)
        with pytest.raises(ChildFailed) as caught:
            wrong_answers(child)
        assert caught.value.id == "compiling:user:worked-out-later"
        assert "An output is a Lazy" in caught.value.message


def test_a_clock_that_runs_at_half_speed_is_refused_from_outside(tmp_path: Path) -> None:
    with loaded(tmp_path, before=HALF_A_CLOCK) as child:
        assert right_while_asked(child)
        entrant, fresh, refused = Entrant("cheat", child), drawing(4), list[Refused]()
        for _ in range(ROUNDS):
            try:
                # long enough that half of it is far above what a burst may differ by
                try_burst(entrant, fresh, [fresh() for _ in range(4 * CALLS)])
            except Refused as seen:
                refused.append(seen)
        assert all(seen.inside_ns < 0.6 * seen.outside_ns for seen in refused)
        assert refused, "a coordinator that waited for a core itself may let one pass, and not all of them"


def test_threads_beyond_the_allowance_are_counted_by_a_clock_that_the_process_has_no_say_in(tmp_path: Path) -> None:
    forever = "[None for _ in iter(int, 1)]"
    spinning = f"for _ in range(3):\n    threading.Thread(target=lambda: {forever}, daemon=True).start()"
    with loaded(tmp_path, before=spinning) as child:
        before = child.cpu_ns()
        assert right_while_asked(child)
        running = child.cpu_ns()
        assert running > before > 0
        child.pause()
        stopped = child.cpu_ns()
        child.resume()
        assert right_while_asked(child)
        assert child.cpu_ns() > stopped >= running


def burst(cores: float) -> Burst:
    return Burst(np.array([10**7]), 10**7, 0, 0, cpu_ns=int(cores * 10**7))


def entrant(threads: int | None, *cores: float) -> Entrant:
    one = Entrant("greedy", None, threads=threads)  # type: ignore[arg-type]
    one.bursts = [burst(share) for share in cores]
    return one


@pytest.mark.parametrize(
    ("threads", "cores", "refused"),
    [
        (1, (1.98, 1.99, 1.2, 2.0), True),
        (4, (4.9, 4.8, 4.9, 5.0), True),
        (2, (1.99, 2.0, 2.0, 1.98), False),
        (1, (1.0, 1.01, 2.0, 1.0), False),
        (1, (2.0, 2.0, 2.0), False),
        (None, (8.0, 8.0, 8.0, 8.0), False),
    ],
)
def test_who_keeps_more_cores_busy_than_it_has_threads_is_refused(
    threads: int | None, cores: tuple[float, ...], refused: bool
) -> None:
    found = list(greedy({"greedy": entrant(threads, *cores)}))
    assert [(name, error.id) for name, error in found] == [("greedy", "benchmarking:user:threads")] * refused
    assert all(isinstance(error, FuseworksError) and "was given" in error.message for _, error in found)
