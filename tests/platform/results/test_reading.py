"""What the comparison page reads out of a document: sentences, tables and differences, against known figures."""

from __future__ import annotations

import pytest

from fuseworks.core.errors import PlatformError
from fuseworks.results.reading import conditions, contenders, headline, tables
from fuseworks.results.reading.document import parse
from fuseworks.results.reading.steps import step_words
from optimizer.result import Result, Verdict
from tests.platform.results.support import document, result

WINNER = "aot_inductor + rewrites - merge_embedding_tables"


# ---- headlines -----------------------------------------------------------------------------------------------------


def test_a_winner_is_told_under_equal_settings_as_deployed_and_over_the_best_peer():
    found = {one.key: one for one in headline.headlines(result("din"))}
    assert list(found) == ["equal_settings", "as_deployed", "best_peer"]
    assert round(found["equal_settings"].value, 2) == 3.04
    assert round(found["as_deployed"].value, 2) == 3.15
    assert round(found["best_peer"].value, 2) == 1.95
    assert all(one.verdict == Verdict.FASTER for one in found.values())
    assert headline.title(result("din")) == "3.04× as fast as the original"


def test_a_verdict_is_explained_with_its_numbers():
    why = headline.headlines(result("din"))[0].why
    assert "12 pairs of fresh processes" in why
    assert "99 % interval [2.50, 3.71]" in why
    assert "noise floor of 8.7 %" in why


def test_a_peer_that_wins_is_not_compared_with_itself():
    found = result("dlrm")
    assert [one.key for one in headline.headlines(found)] == ["equal_settings", "as_deployed"]
    assert contenders.winner_label(found) == "Winner: the best peer"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("faster", "as fast as the original"),
        ("slower", "No faster recipe found: the best candidate is slower"),
        ("same", "No faster recipe found: no difference beyond the noise"),
        ("cannot_tell", "Cannot tell"),
    ],
)
def test_only_what_is_faster_is_called_so(verdict: str, words: str):
    found = document("din")
    found["verdict"] = found["comparisons"][0]["verdict"] = verdict
    typed = parse(found)
    assert words in headline.title(typed)
    assert (contenders.winner_label(typed) == "Winner") == (verdict == "faster")
    assert headline.headlines(typed)[0].sentence.startswith("The winner") == (verdict == "faster")


def test_a_winner_in_default_settings_has_one_measurement_for_both_headlines():
    found = document("din")
    found["comparisons"] = [c for c in found["comparisons"] if c["same_settings"]]
    deployed = headline.headlines(parse(found))[1]
    assert "both headlines are one measurement" in deployed.sentence
    assert deployed.verdict == Verdict.FASTER and deployed.why == ""


def test_nothing_judged_is_said_so():
    found = Result(purpose="optimize", status="succeeded")
    assert headline.headlines(found) == []
    assert "no candidate was correct and measured" in headline.title(found)
    assert "without a verdict" in headline.title(Result(purpose="optimize", status="errored"))


# ---- side by side --------------------------------------------------------------------------------------------------


def test_baseline_best_peer_and_winner_stand_in_this_order():
    shown = contenders.contenders(result("din"))
    assert [(one.role, one.name) for one in shown] == [
        ("baseline", "baseline"),
        ("baseline_default", "baseline (default settings)"),
        ("best_peer", "aot_inductor"),
        ("winner", WINNER),
    ]
    rows = {str(row.label): row.cells for row in contenders.rows(shown)}
    assert rows["Median"] == ["10.7 ms", "11.8 ms", "7.11 ms", "3.60 ms"]
    assert rows["Compile time"][0] == "–" and rows["Compile time"][2] == "17 s"
    assert rows["Load time"][2] == "27.0 ms"
    assert rows["Artifact"][2] == "10.8 MiB"  # 11,320,943 bytes
    assert rows["Measured"] == ["550 calls, 12 processes"] * 4


def test_one_column_serves_a_winner_that_is_the_best_peer():
    assert [one.role for one in contenders.contenders(result("dlrm"))] == ["baseline", "baseline_default", "winner"]


def test_no_column_is_made_of_names_without_an_evaluation():
    assert contenders.contenders(Result(purpose="optimize", status="succeeded", winner="ghost")) == []


def test_each_output_has_the_errors_of_all_three_and_the_bound():
    (row,) = contenders.numerics(result("din"))
    assert (row.output, row.winner.passed) == ("out0", True)
    assert row.baseline == 1.8821703771731219e-06
    assert row.peer == 1.9604080613690525e-06
    assert row.winner.error == 1.9396387136771306e-06
    assert row.winner.allowed == pytest.approx(3 * row.baseline + 1e-5)  # the rule of verification
    assert contenders.numerics(result("dlrm"))[0].peer is None


# ---- tables --------------------------------------------------------------------------------------------------------


def test_every_candidate_has_its_role():
    roles = {row.evaluation.candidate.name: row.role for row in tables.candidates(result("din"))}
    assert roles[WINNER] == "winner" and roles["aot_inductor"] == "best_peer" and roles["openvino"] == "peer"
    assert roles["baseline (default settings)"] == "baseline" and roles["openvino + rewrites"] == ""
    assert len(roles) == 12


def test_passes_that_found_nothing_are_told_apart_from_those_that_did():
    told, silent = tables.rewrites(result("din"))
    assert [one.pass_ for one in told] == ["hoist_constants", "split_target_attention", "merge_embedding_tables"]
    assert len(silent) == 7


def test_only_measured_steps_are_drawn():
    found = document("din")
    found["ablation"][1].update(gain=None, interval=None, verdict=None, reason="no room")
    gains = tables.ablation(parse(found))
    assert len(gains) == 3
    bars = tables.ablation_bars(gains)
    assert [bar["label"] for bar in bars] == [
        "runtime allocator=glibc-no-trim, huge_pages=True",
        "pass hoist_constants",
    ]
    assert bars[0]["low"] < bars[0]["middle"] < bars[0]["high"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"pass": "fuse_attention", "options": {}}, "pass fuse_attention"),
        ({"backend": "aot_inductor", "options": {"freezing": True}}, "backend aot_inductor (freezing=True)"),
        ({"precision": "bfloat16", "keep_float32": {"last_linears": 1}}, "precision bfloat16 (last_linears=1)"),
        (
            {"precision": "int8", "keep_float32": {"layers": [{"inputs": 8, "outputs": 16, "nth": [2]}]}},
            "precision int8 (layers=8 to 16 (2))",
        ),
        (
            {"precision": "int8", "rest": "bfloat16", "rest_keep_float32": {"layers": [{"op": "matmul", "inputs": 8}]}},
            "precision int8 (rest=bfloat16, rest_layers=matmul 8 to any)",
        ),
        ({"passes": ["remove_noops", "hoist_constants"]}, "passes remove_noops, hoist_constants"),
        ({"runtime": {"threads": 2}}, "runtime threads=2"),
        ({"runtime": {}}, "runtime default settings"),
    ],
)
def test_steps_are_written_as_recipes_write_them(document: dict[str, object], words: str):
    assert str(step_words(document)) == words


def test_judged_bars_are_called_by_the_parts_that_both_play():
    assert [bar["label"] for bar in tables.judged_bars(result("din"))] == [
        "Winner / Baseline",
        "Winner / Best peer",
        "Best peer / Baseline",
        "Winner / Baseline, default settings",
        "Best peer / Baseline, default settings",
    ]


# ---- conditions ----------------------------------------------------------------------------------------------------


def test_nested_conditions_become_dotted_keys():
    assert conditions.flat({"a": 1, "libraries": {"torch": "2.13"}, "settings": {}}) == {
        "a": 1,
        "libraries.torch": "2.13",
        "settings": {},
    }
    assert conditions.flat({"inputs": [{"name": "x", "shape": [4]}]}) == {"inputs.x.name": "x", "inputs.x.shape": [4]}


def test_only_what_differs_is_named():
    one, other = {"cores": 2, "libraries": {"torch": "2.13"}}, {"cores": 4, "libraries": {"torch": "2.13"}}
    assert conditions.differences([one, other], "conditions.") == [
        conditions.Difference("conditions.cores", ["2", "4"])
    ]
    assert conditions.differences([one, one]) == []


def test_of_long_lists_of_flags_only_the_flags_that_not_all_have_are_shown():
    (found,) = conditions.differences([{"isa": ["avx2", "fma"]}, {"isa": ["avx2", "avx512f", "fma"]}])
    assert found.values == ["", "avx512f"]


def test_a_key_that_one_lacks_differs_even_from_nothing():
    (found,) = conditions.differences([{"governor": None}, {}])
    assert found == conditions.Difference("governor", ["–", "–"])


# ---- documents -----------------------------------------------------------------------------------------------------


def test_a_document_of_another_schema_is_named_and_not_guessed_at():
    with pytest.raises(PlatformError) as caught:
        parse({**document("din"), "from_the_future": 1})
    assert caught.value.id == "results:ours:unreadable"
    assert "from_the_future" in caught.value.message
