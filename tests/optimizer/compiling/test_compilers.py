"""Engines that call a C++ compiler, and the cache that spares it. Slow: one seeding and one build each per session."""

from __future__ import annotations

import dataclasses
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from optimizer.compiling.toolchain import Toolchain, toolchain_cache
from optimizer.errors import FuseworksError
from optimizer.sandbox import Child, ChildSpec, start
from tests.optimizer.compiling.support import (
    WORKLOAD,
    Builder,
    Built,
    Loaded,
    assert_held,
    assert_right,
    counting_compiler,
    inputs,
    truth,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """An environment whose compiler logs what it compiles, and the log."""
    return counting_compiler(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory, shim: tuple[dict[str, str], Path]) -> Toolchain:
    def start_logged(spec: ChildSpec) -> Child:
        return start(dataclasses.replace(spec, environment={**spec.environment, **shim[0]}))

    found = toolchain_cache(start_logged, tmp_path_factory.mktemp("cache"))
    assert found is not None
    return found


@pytest.fixture(scope="session")
def ahead_of_time(seeded: Toolchain, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Built under confinement, where the toolchain is a read-only bind."""
    with Builder({**models, "toolchain": seeded.folder}, trusted=False) as builder:
        return builder.build("ranker", tmp_path_factory.mktemp("aot"), "aot_inductor")


@pytest.fixture(scope="session")
def compiling(seeded: Toolchain, models: dict[str, Path], shim: tuple[dict[str, str], Path]) -> Iterator[Builder]:
    with Builder({**models, "toolchain": seeded.folder}, shim[0]) as builder:
        yield builder


@pytest.fixture(scope="session")
def when_called(compiling: Builder, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return compiling.build("ranker", tmp_path_factory.mktemp("jit"), "inductor")


def test_the_toolchain_is_seeded_once_and_holds_probes_and_headers(seeded: Toolchain) -> None:
    def refuse(spec: ChildSpec) -> Child:
        raise AssertionError("it was seeded again")

    again = toolchain_cache(refuse, seeded.folder.parent)
    assert again == Toolchain(seeded.folder, seeded.size_bytes, None)
    assert seeded.seeded_s is not None and seeded.seeded_s > 0
    names = sorted(p.name for p in seeded.folder.iterdir())
    assert any(re.fullmatch(r"cache__\w\w__\w+\.so", n) for n in names)
    assert any(n.startswith("headers__") and n.endswith(".gch") for n in names)
    assert not any("wrapper" in n or "main" in n for n in names), "a compiled model was kept"
    assert seeded.size_bytes > 50 << 20


def test_aot_inductor_answers_as_eager_without_compiler_or_probe_where_it_loads(
    ahead_of_time: Built, shim: tuple[dict[str, str], Path]
) -> None:
    environment, log = shim
    before = log.read_text()
    with Loaded(ahead_of_time, environment=environment) as loaded:
        assert_right(loaded)
        assert_held(loaded)
    assert log.read_text() == before
    assert ahead_of_time.reply is not None
    details = ahead_of_time.reply.fields["details"]
    assert details["headers_made"] == 0, "the seeded headers were not found under confinement"
    assert details["entry"] == "model.pt2" and details["built_for"]["device_key"] == "cpu"


def test_products_are_left_to_torchs_own_library_where_the_option_says_so(
    ahead_of_time: Built, compiling: Builder, tmp_path: Path
) -> None:
    """What calls a product is in the wrapper's source, which the package holds."""
    other = compiling.build("ranker", tmp_path, "aot_inductor", {"gemm": "blas"})
    with Loaded(other) as loaded:
        assert_right(loaded)
    assert calls_of(ahead_of_time.folder / "model.pt2") == {"oneDNN"}
    assert calls_of(other.folder / "model.pt2") == {"addmm"}


def calls_of(package: Path) -> set[str]:
    with zipfile.ZipFile(package) as archive:
        source = b"".join(archive.read(name) for name in archive.namelist() if name.endswith(".cpp"))
    names = {b"aoti_torch_cpu__linear_pointwise": "oneDNN", b"_mkl_linear": "MKL", b"aoti_torch_cpu_addmm_out": "addmm"}
    return {told for call, told in names.items() if call in source}


def test_a_package_for_another_processor_is_refused(ahead_of_time: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    from optimizer import machine
    from optimizer.compiling.backends import aot_inductor
    from optimizer.compiling.base import Context

    context = Context(WORKLOAD, 1, "cpu", Path("."), "pt2", ahead_of_time.model)
    metadata = aot_inductor._metadata(ahead_of_time.folder / "model.pt2")
    monkeypatch.setattr(machine, "cpu_isa", lambda: [])
    with pytest.raises(FuseworksError, match=r"no .*fma") as caught:
        aot_inductor._refuse_other_machine(metadata, context)
    assert caught.value.id == "compiling:user:other-machine"
    with pytest.raises(FuseworksError, match="sparc"):
        aot_inductor._refuse_other_machine({**metadata, "machine": "sparc"}, context)


def test_a_build_makes_no_header_and_no_probe_again(
    seeded: Toolchain, shim: tuple[dict[str, str], Path], request: pytest.FixtureRequest
) -> None:
    log = shim[1]
    before = len(log.read_text().splitlines())
    request.getfixturevalue("when_called")
    made = log.read_text().splitlines()[before:]
    assert len([line for line in made if "-shared" in line]) >= 2  # the model's own kernels
    assert not [line for line in made if "c++-header" in line]
    probe = next(p.name for p in seeded.folder.iterdir() if p.name.endswith(".so"))
    assert not [line for line in made if probe.rpartition("__")[2].removesuffix(".so") in line]


def test_torch_compile_answers_as_eager_and_a_fresh_process_compiles_nothing(
    when_called: Built, shim: tuple[dict[str, str], Path]
) -> None:
    environment, log = shim
    before = log.read_text()
    assert when_called.reply is not None
    assert when_called.reply.fields["details"]["compiles"] == 2  # one for all sizes, one for a batch of 1
    with Loaded(when_called, environment=environment) as loaded:
        assert_right(loaded)
        assert_held(loaded)
    assert log.read_text() == before


def test_max_autotune_times_and_compiles_when_it_is_built_and_not_where_it_loads(
    seeded: Toolchain, models: dict[str, Path], shim: tuple[dict[str, str], Path], tmp_path: Path
) -> None:
    """Under confinement: without a network, with few processes, in the scratch of the child."""
    environment, log = shim
    with Builder({**models, "toolchain": seeded.folder}, trusted=False) as builder:
        built = builder.build("ranker", tmp_path, "inductor", {"mode": "max-autotune", "freezing": True})
        left = [" ".join(p.cmdline()) for p in psutil.Process().children(recursive=True)]
    assert not [line for line in left if "compile_worker" in line or "cc1plus" in line]
    assert "CppMicroGemm" in "".join(sources_in(tmp_path / "inductor_cache.tar")), "no template was among the choices"
    before = log.read_text()
    with Loaded(built, environment=environment) as loaded:
        assert_right(loaded)
        assert_held(loaded)
    assert log.read_text() == before


@pytest.mark.parametrize("flow", ["quantize", "pt2e"])
def test_torchao_is_compiled_ahead_of_time_and_answers_near_eager(
    seeded: Toolchain, models: dict[str, Path], tmp_path: Path, flow: str
) -> None:
    pytest.importorskip("torchao")
    with Builder({**models, "toolchain": seeded.folder}, trusted=False) as builder:
        built = builder.build("ranker", tmp_path, "torchao", {"flow": flow}, precision={"precision": "int8"})
    with Loaded(built, trusted=False) as loaded:
        assert loaded.reply.fields["inference_precision"] == "int8"
        for batch in (4, 1, 16):
            given = inputs(batch, seed=batch)
            (answer,) = loaded.outputs(given)
            for got, wanted in zip(answer, truth(given), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=0, atol=0.1)
            np.testing.assert_array_equal(answer[2], given[0] + 1)


def sources_in(archive: Path) -> Iterator[str]:
    with tarfile.open(archive) as opened:
        for entry in opened:
            if entry.name.endswith(".cpp"):
                yield opened.extractfile(entry).read().decode()  # type: ignore[union-attr]


def test_torch_compile_is_refused_when_it_compiles_too_often(
    compiling: Builder, when_called: Built, tmp_path: Path
) -> None:
    with pytest.raises(
        FuseworksError, match="compiles 2 times over 4 sizes of the workload, and 1 are allowed"
    ) as caught:
        compiling.build("ranker", tmp_path, "inductor", {"max_compiles": 1})
    assert caught.value.id == "compiling:user:refused"


def test_torch_compile_is_refused_where_it_would_silently_go_on_in_eager(compiling: Builder, tmp_path: Path) -> None:
    document = WORKLOAD.model_dump(by_alias=True, mode="json")
    document["dims"]["batch"]["serve"] = [4, 8, 12, 16]
    with pytest.raises(FuseworksError, match="compiles 3 times over 3 sizes") as caught:
        compiling.build(
            "ranker",
            tmp_path,
            "inductor",
            {"max_compiles": 1, "shapes": "static"},
            workload=type(WORKLOAD).model_validate(document),
        )
    assert caught.value.id == "compiling:user:refused"


def test_cuda_graphs_are_refused_on_a_cpu(compiling: Builder, tmp_path: Path) -> None:
    with pytest.raises(FuseworksError, match="CUDA graphs need a CUDA GPU") as caught:
        compiling.build("ranker", tmp_path, "inductor", {"cuda_graphs": True})
    assert caught.value.id == "compiling:user:refused"
