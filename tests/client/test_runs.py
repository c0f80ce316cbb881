"""Verbs that work a run: what they ask, show, print and leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from optimizer.spec import RunSpec
from tests.client.conftest import Command
from tests.optimizer.reporting.sample import document


def seen(fuseworks: Command, out: str = "out") -> dict[str, object]:
    found: dict[str, object] = json.loads((fuseworks.folder / out / "seen.json").read_text())
    return found


def test_optimize_shows_the_answer_and_where_things_lie(fuseworks: Command):
    done = fuseworks("optimize", fuseworks.model("ok"), "--out", "out")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "8.20 ms before, 5.06 ms after" in text
    assert "1.62x (99 % interval 1.55 to 1.69)" in text
    assert "2.31x (99 % interval 2.20 to 2.43), against the original in default settings" in text
    assert "openvino: 1.11x (99 % interval 1.06 to 1.16); the winner over it: 1.46x" in text
    assert "pass split_target_attention +38.0 % (+31.0 % to +45.0 %), faster" in text
    assert "faster, measured on aot_inductor + all rewrites" in text
    assert "not measured: the budget was spent" in text
    assert "split_target_attention at din.py:41: split [q, k, q-k, q*k] in two" in text
    assert "merge_embedding_tables at din.py:33: the tables differ in width" in text
    assert "EmbeddingBag has no export <b>&" in text
    assert "out/package.zip" in text
    assert "out/result.json" in text


def test_progress_goes_to_stderr_as_plain_lines_without_escape_sequences(fuseworks: Command):
    done = fuseworks("optimize", fuseworks.model("ok"), "--out", "out")
    assert "[    1.0 s] capturing     Capturing the graph" in done.stderr
    assert "openvino: building ]0;owned now (1/4)" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "noise on stdout" not in done.stderr + done.stdout
    assert "noise on stdout" in (fuseworks.folder / "out" / "log.txt").read_text()


def test_json_prints_the_document_and_nothing_else_on_stdout(fuseworks: Command):
    done = fuseworks("optimize", fuseworks.model("ok"), "--out", "out", "--json")
    assert json.loads(done.stdout) == document()
    assert "capturing" in done.stderr


def test_every_option_arrives_in_a_spec_that_the_optimizer_accepts(fuseworks: Command):
    workload = {"inputs": [{"name": "x", "dtype": "float32", "shape": [4, 2]}]}
    (fuseworks.folder / "w.yaml").write_text("inputs: [{name: x, dtype: float32, shape: [4, 2]}]\n")
    done = fuseworks(
        *("optimize", fuseworks.model("ok"), "--out", "out", "--workload", "w.yaml", "--budget", "1m30s"),
        *("--precision", "float32", "--precision", "bfloat16", "--backend", "openvino", "--threads", "2"),
        *("--max-error-ratio", "2.5", "--no-ablation", "--no-runtime-settings", "--trusted", "--seed", "7"),
        *("--target", "cuda:sm_90", "--max-pairs", "9"),
    )
    assert done.returncode == 0, done.stderr
    spec = RunSpec.model_validate(seen(fuseworks))
    assert spec.purpose == "optimize"
    assert spec.model == str(fuseworks.folder / "model.py")
    assert spec.out == str(fuseworks.folder / "out")
    assert spec.workload is not None
    assert spec.workload.model_dump(exclude_defaults=True) == workload
    assert (spec.target, spec.trusted) == ("cuda:sm_90", True)
    assert spec.policy.model_dump() == {
        "budget_s": 90.0,
        "precisions": ["float32", "bfloat16"],
        "backends": ["openvino"],
        "threads": 2,
        "runtime_settings": False,
        "max_error_ratio": 2.5,
        "max_pairs": 9,
        "rivals": "best",
        "ablation": False,
        "seed": 7,
    }


def test_what_is_not_given_keeps_the_optimizers_own_defaults(fuseworks: Command):
    fuseworks("optimize", fuseworks.model("ok"), "--out", "out")
    spec = seen(fuseworks)
    assert spec["policy"] == {"budget_s": 290.0}
    assert "workload" not in spec
    assert RunSpec.model_validate(spec).policy.precisions == ["float32"]


def test_apply_and_compare_name_their_files(fuseworks: Command):
    model = fuseworks.model("ok")
    (fuseworks.folder / "r.yaml").write_text("kind: Recipe\n")
    assert fuseworks("apply", "r.yaml", model, "--out", "a").returncode == 0
    spec = RunSpec.model_validate(seen(fuseworks, "a"))
    assert (spec.purpose, spec.recipe) == ("replay", str(fuseworks.folder / "r.yaml"))
    assert fuseworks("compare", model, fuseworks.model("ok", "other.py"), "--out", "c").returncode == 0
    spec = RunSpec.model_validate(seen(fuseworks, "c"))
    assert (spec.purpose, spec.against) == ("compare", str(fuseworks.folder / "other.py"))


def test_inspect_shows_the_inputs_and_leaves_no_files(fuseworks: Command):
    (fuseworks.folder / "fake.json").write_text(json.dumps(document(purpose="inspect", candidates=[], verdict=None)))
    before = set(fuseworks.folder.iterdir()) | {fuseworks.folder / "model.py"}
    done = fuseworks("inspect", fuseworks.model("ok"))
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "history: int64 [batch, 50]" in text
    assert "batch: 1 to 2048, served at 256" in text
    assert "6 linear, 3 embedding" in text
    assert "Files" not in text
    assert set(fuseworks.folder.iterdir()) == before


def test_without_out_a_folder_named_after_the_model_is_used(fuseworks: Command):
    fuseworks("optimize", fuseworks.model("ok", "ranker.onnx"))
    (folder,) = (fuseworks.folder / "fuseworks-out").iterdir()
    assert folder.name.startswith("ranker-20")
    assert (folder / "result.json").exists()


def test_the_models_fault_is_code_4_with_place_remedy_and_id(fuseworks: Command):
    done = fuseworks("optimize", fuseworks.model("user"), "--out", "out")
    assert done.returncode == 4
    text = " ".join(done.stderr.split())
    assert "The model's fault: No export at model.py:41 remedy Mend it. id capture:user:x" in text


def test_our_fault_is_code_3_and_shows_the_end_of_the_log(fuseworks: Command):
    done = fuseworks("optimize", fuseworks.model("ours"), "--out", "out", "--json")
    assert done.returncode == 3
    assert "| line 9" in " ".join(done.stderr.split())
    assert json.loads(done.stdout)["status"] == "errored"


def test_a_coordinator_that_dies_is_our_fault_and_an_older_result_is_not_shown(fuseworks: Command):
    (fuseworks.folder / "out").mkdir()
    (fuseworks.folder / "out" / "result.json").write_text(json.dumps(document()))
    done = fuseworks("optimize", fuseworks.model("crash"), "--out", "out", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["problem"]["id"] == "client:ours:no-result"
    assert "Segmentation fault in here" in done.stderr
    assert "fuseworks doctor" in " ".join(done.stderr.split())


def test_a_spec_that_the_optimizer_refuses_is_usage(fuseworks: Command):
    done = fuseworks("optimize", fuseworks.model("usage"), "--out", "out")
    assert done.returncode == 64
    assert "workload.inputs: Field required" in done.stderr


def test_cannot_tell_is_said_with_what_would_help(fuseworks: Command):
    (fuseworks.folder / "fake.json").write_text(json.dumps(document(verdict="cannot_tell")))
    done = fuseworks("optimize", fuseworks.model("ok"), "--out", "out")
    assert done.returncode == 0
    assert "Try a quieter machine, or --budget and --max-pairs." in " ".join(done.stdout.split())


def hanging(fuseworks: Command, behaviour: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = fuseworks.start("optimize", fuseworks.model(behaviour), "--out", "out")
    pids = fuseworks.folder / "out" / "pids"
    deadline = time.monotonic() + 30
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.2)
    return process, [int(pid) for pid in pids.read_text().split()]


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_the_run_politely_and_leaves_nothing_running(fuseworks: Command, sent: signal.Signals):
    process, pids = hanging(fuseworks, "hang")
    process.send_signal(sent)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted" in error
    assert all(gone(pid) for pid in pids)
    result = json.loads((fuseworks.folder / "out" / "result.json").read_text())
    assert result["status"] == "cancelled"


def test_a_second_interrupt_ends_a_coordinator_that_does_not_listen(fuseworks: Command):
    process, pids = hanging(fuseworks, "stubborn")
    os.kill(process.pid, signal.SIGINT)
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert all(gone(pid) for pid in pids)


def test_no_spec_is_left_in_the_temporary_folder(fuseworks: Command):
    fuseworks("optimize", fuseworks.model("ok"), "--out", "out")
    assert [p for p in Path(fuseworks.folder).iterdir() if p.name.startswith("fuseworks-")] == []
