"""Which passes only say what they find, by target and threads."""

from __future__ import annotations

import pytest

from optimizer.optimizing.pass_targets import matched_only

KERNELS, PADDING = "fuse_operations", "skip_padded_rows"


@pytest.mark.parametrize(
    ("target", "threads", "unused"),
    [
        ("cpu", 1, {KERNELS}),
        ("cpu", 2, {KERNELS, PADDING}),
        ("cpu", None, {KERNELS, PADDING}),
        ("cuda:sm_90", None, {PADDING}),
        ("cuda:sm_90", 1, {PADDING}),
    ],
)
def test_kernels_are_a_gpus_and_padding_is_skipped_on_one_thread(
    target: str, threads: int | None, unused: set[str]
) -> None:
    assert matched_only(target, threads) == unused
