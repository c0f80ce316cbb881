"""A recipe's steps carry every option of their backend."""

from __future__ import annotations

import pytest

from optimizer.compiling.base import BACKENDS
from optimizer.coordinator.steps import steps_in_full
from optimizer.errors import FuseworksError
from optimizer.spec import BackendStep, PassStep


def test_the_backends_defaults_are_written_out_and_what_is_given_stays():
    steps = [PassStep(pass_="a", options={"x": 1}), BackendStep(backend="onnxruntime", options={"level": "basic"})]
    first, last = steps_in_full(steps)
    assert first is steps[0]
    assert last.options["level"] == "basic"
    assert set(last.options) == set(BACKENDS.get("onnxruntime").Options.model_fields)


def test_openvinos_one_option_has_its_default():
    assert steps_in_full([BackendStep(backend="openvino")])[0].options == {"static": False}


def test_an_option_that_the_backend_does_not_know_is_refused():
    with pytest.raises(FuseworksError) as bad:
        steps_in_full([BackendStep(backend="openvino", options={"statik": True})])
    assert bad.value.id == "compiling:user:bad-options"
