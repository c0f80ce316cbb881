"""Messages on the real Valkey, read with its own client."""

from __future__ import annotations

import base64
import json
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings
from kombu.utils import functional
from pydantic import HttpUrl, SecretStr

from fuseworks.embedded.valkey import free_port
from fuseworks.fleet.sender import Broker, BrokerDown
from workers.messages import TRANSPORT, RunMessage, queue_of

TARGET = "cuda:sm_90"
MESSAGE = RunMessage(
    run_id=uuid.uuid4(), attempt=2, api=HttpUrl("http://site.example/api/v1/"), token=SecretStr("t" * 43)
)


@pytest.fixture
def valkey() -> Iterator[Any]:
    client = redis.Redis.from_url(settings.REDIS_URL)
    client.delete(queue_of(TARGET))
    yield client
    client.delete(queue_of(TARGET))
    client.close()


def test_a_message_lies_in_its_targets_queue_as_the_worker_reads_it(valkey: Any) -> None:
    Broker().send(MESSAGE, TARGET)
    (raw,) = valkey.lrange("fuseworks.cuda:sm_90", 0, -1)
    envelope = json.loads(raw)
    arguments, fields, _ = json.loads(base64.b64decode(envelope["body"]))
    assert (envelope["headers"]["task"], arguments) == ("fuseworks.run", [])
    assert RunMessage.model_validate(fields) == MESSAGE
    assert envelope["headers"]["ignore_result"] is True


def test_the_token_is_in_the_body_alone(valkey: Any) -> None:
    Broker().send(MESSAGE, TARGET)
    envelope = json.loads(valkey.lrange(queue_of(TARGET), 0, -1)[0])
    assert "t" * 43 not in json.dumps({**envelope, "body": ""})
    assert str(MESSAGE.run_id) in envelope["headers"]["kwargsrepr"]


def test_a_broker_that_is_not_there_is_told_at_once_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(seconds: float) -> None:
        raise AssertionError("it waited")

    monkeypatch.setattr(functional, "sleep", never)
    with pytest.raises(BrokerDown) as caught:
        Broker(f"redis://127.0.0.1:{free_port()}/0").send(MESSAGE, TARGET)
    assert "refused" in str(caught.value)


def test_a_broker_that_asks_for_another_password_is_down_for_us(tmp_path: Any) -> None:
    from fuseworks.embedded.valkey import Valkey

    valkey = Valkey(tmp_path / "valkey", password="right")
    valkey.start()
    try:
        with pytest.raises(BrokerDown):
            Broker(valkey.url.replace("right", "wrong")).send(MESSAGE, TARGET)
        Broker(valkey.url).send(MESSAGE, TARGET)
    finally:
        valkey.stop()


def test_a_broker_that_was_restarted_is_found_again(tmp_path: Any) -> None:
    from fuseworks.embedded.valkey import Valkey

    valkey = Valkey(tmp_path / "valkey")
    valkey.start()
    broker = Broker(valkey.url)
    try:
        broker.send(MESSAGE, TARGET)
        valkey.stop()
        with pytest.raises(BrokerDown):
            broker.send(MESSAGE, TARGET)
        valkey.start()
        broker.send(MESSAGE, TARGET)
        client = redis.Redis.from_url(valkey.url)
        assert client.llen(queue_of(TARGET)) == 2
        client.close()
    finally:
        valkey.stop()


def test_a_broker_that_takes_the_connection_and_answers_nothing_is_down_within_seconds(tmp_path: Any) -> None:
    from fuseworks.embedded.valkey import Valkey

    valkey = Valkey(tmp_path / "valkey")
    valkey.start()
    assert valkey.process is not None
    try:
        valkey.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(BrokerDown):
            Broker(valkey.url).send(MESSAGE, TARGET)
        # the reaper of the same thread promises a pass a second; the workers' own patience is half a minute
        assert time.monotonic() - began < TRANSPORT["socket_timeout"] / 2
    finally:
        valkey.process.send_signal(signal.SIGCONT)
        valkey.stop()
