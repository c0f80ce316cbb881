"""The fleet page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fuseworks.fleet.leadership import LOCK
from fuseworks.fleet.manifests import Manifest
from tests.platform import factories
from tests.platform.runs.steps import claimed, queued, worker_row

MANIFEST: dict[str, Any] = {
    "format": 1,
    "devices": [{"target": "cpu", "name": "A fine CPU", "cores": 2, "memory_bytes": 8 << 30}],
    "backends": [
        {"name": "openvino", "summary": "Intel's engine.", "unavailable": None},
        {"name": "tensorrt", "summary": "NVIDIA's.", "unavailable": "no CUDA device"},
    ],
    "passes": [{"name": "merge_embedding_tables", "summary": "One table <b>of many."}],
    "onnx_passes": [{"name": "drop_casts", "summary": ""}],
    "kernels": [{"name": "rms_norm", "formula": "x / rms(x)"}],
    "libraries": {"torch": "2.13.0"},
}


@pytest.mark.django_db
class TestPage:
    @pytest.fixture
    def browser(self) -> Client:
        return factories.client_for(factories.make_user())

    def test_an_empty_fleet_says_how_to_start_a_worker(self, browser: Client) -> None:
        text = browser.get("/fleet/").content.decode()
        assert "No worker has said hello yet" in text
        assert "FUSEWORKS_WORKER_TOKEN" in text and "python -m workers" in text
        assert "No dispatcher is at work" in text and "python manage.py dispatch" in text

    def test_a_dispatcher_at_work_is_not_worth_a_word(self, browser: Client) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        assert "No dispatcher is at work" not in browser.get("/fleet/").content.decode()

    def test_workers_queues_and_manifests_are_shown(self, browser: Client) -> None:
        now = timezone.now()
        worker_row("host cpu", seen=now, noise_floor=0.073, manifest=MANIFEST)
        queued(target="cuda:sm_90")
        text = browser.get("/fleet/").content.decode()
        assert "host cpu" in text and "7.3 %" in text and 'data-word="idle"' in text
        assert "cuda:sm_90" in text and "none" in text
        assert "A fine CPU" in text and "2 cores" in text and "8.00 GiB" in text
        assert "openvino" in text and "no CUDA device" in text and "rms_norm" in text and "2.13.0" in text
        assert "One table &lt;b&gt;of many." in text
        assert 'hx-get="/fleet/live/"' in text

    @pytest.mark.parametrize(("count", "is_told"), [(2, False), (3, True)])
    def test_messages_that_no_worker_takes_are_told_with_what_to_look_at(
        self, browser: Client, count: int, is_told: bool
    ) -> None:
        worker_row("host cpu", seen=timezone.now())
        queued(unclaimed=count)
        text = browser.get("/fleet/").content.decode()
        said = "1 run for cpu was sent three times or more, and no worker took it"
        assert (said in text) is is_told

    @pytest.mark.parametrize(("seen_s_ago", "is_told"), [(10, False), (3600, True)])
    def test_a_queue_without_a_living_worker_is_told(self, browser: Client, seen_s_ago: int, is_told: bool) -> None:
        worker_row("host cpu", seen=timezone.now() - timedelta(seconds=seen_s_ago))
        queued()
        queued()
        said = "2 runs wait for cpu, and no worker of it is alive: start one."
        assert (said in browser.get("/fleet/").content.decode()) is is_told

    def test_another_teams_run_is_busy_and_no_more(self, browser: Client) -> None:
        now = timezone.now()
        worker_row("a", seen=now)
        run = queued()
        claimed(run, now, worker="a")
        for address in ("/fleet/", "/fleet/live/"):
            text = browser.get(address).content.decode()
            assert "a run of another team" in text
            assert str(run.pk) not in text and str(run.version) not in text
        member = factories.client_for(factories.make_member(run.team, "viewer"))
        assert f'href="/runs/{run.pk}/"' in member.get("/fleet/").content.decode()

    def test_what_asks_again_every_few_seconds_reads_no_manifest(self, browser: Client) -> None:
        worker_row("host cpu", seen=timezone.now(), manifest=MANIFEST)
        read = {}
        for address in ("/fleet/", "/fleet/live/"):
            with CaptureQueriesContext(connection) as asked:
                assert "host cpu" in browser.get(address).content.decode()
            read[address] = any('"fleet_worker"."manifest"' in query["sql"] for query in asked)
        assert read == {"/fleet/": True, "/fleet/live/": False}

    def test_strangers_must_sign_in(self) -> None:
        for address in ("/fleet/", "/fleet/live/"):
            assert Client().get(address).status_code == 302


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"devices": 3, "backends": "x", "passes": [1, None, {}], "kernels": {"a": 1}, "libraries": []},
        {"backends": [{"name": 7}], "devices": "abc"},
    ],
)
def test_a_manifest_of_another_version_is_read_as_far_as_it_can_be(odd: dict[str, Any]) -> None:
    assert not Manifest.of(odd)


def test_a_device_that_tells_odd_things_is_shown_by_what_makes_sense() -> None:
    (device,) = Manifest.of({"devices": [{"name": "GPU", "cores": "many", "memory_bytes": None}]}).devices
    assert (device.name, device.cores, device.memory_bytes) == ("GPU", None, None)
