"""The listing of docs/gate.md, run as it stands there, against the real web site; the worker's part is played."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from fuseworks.runs.models import Run
from tests.client.conftest import ROOT
from tests.client.site import Play, Site, ends, problem
from tests.client.test_curl_story import Scripts, scripts, speedup  # noqa: F401  (a fixture)

(LISTING,) = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "gate.md").read_text(), re.DOTALL)
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="the listing needs curl and jq"),
]


def listing(scripts: Scripts, **environment: str) -> subprocess.CompletedProcess[str]:  # noqa: F811
    given = {**scripts.environment, "NAME": "my model".replace(" ", "%20"), "POLL_S": "0.1", **environment}
    folder = given["TMPDIR"]
    return subprocess.run(
        ["bash", "-c", LISTING],
        env=given,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("play", "code", "outcome"),
    [
        (speedup(0.97, 1.01), 0, "pass: 1.0"),
        (speedup(0.80, 0.90), 1, "fail: 1.17"),
        (speedup(0.90, 1.00), 2, "cannot_tell: 1.05"),
        (ends({**problem("ours"), "purpose": "compare"}), 3, "no_result: null"),
        (ends({**problem("user"), "purpose": "compare"}), 4, "no_result: null"),
    ],
    ids=["pass", "too slow", "cannot tell", "errored", "failed"],
)
def test_it_ends_with_the_gates_code(site: Site, scripts: Scripts, play: Play, code: int, outcome: str):  # noqa: F811
    before = site.version(b"class Model: old\n", "my model")
    site.answers("compare", play)
    done = listing(scripts, AGAINST=str(before.pk))
    assert done.returncode == code, done.stderr
    run = Run.objects.get(purpose="compare")
    page, told = done.stdout.splitlines()
    assert page == f"{site.url}/runs/{run.pk}/"
    assert told.startswith(outcome)
    assert run.against == before

    assert listing(scripts, AGAINST=str(before.pk)).returncode == code  # the same bytes once more
    assert Run.objects.filter(purpose="compare", version=run.version).count() == 2


def test_what_the_server_refuses_never_ends_as_a_gates_answer(site: Site, scripts: Scripts):  # noqa: F811
    assert listing(scripts, AGAINST="nothing").returncode == 3
    assert listing(scripts, AGAINST="nothing", FUSEWORKS_TOKEN="fw_nobodys").returncode == 3
    assert listing(scripts, AGAINST="nothing", MODEL="absent.py").returncode == 3
    assert not Run.objects.filter(purpose="compare").exists()
