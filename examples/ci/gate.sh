#!/usr/bin/env bash
# A gate for a pipeline, by curl: does this version of a model cost more latency than RATIO allows?
# `fuseworks submit MODEL --wait --against latest --max-latency-ratio RATIO` does the same.
#
#   FUSEWORKS_URL     https://fuseworks.example
#   FUSEWORKS_TOKEN   an API token with the scopes read and submit
#   TEAM, MODEL       whose it is, and its file; NAME is the model's name, by default the file's
#   AGAINST           the id of the version to compare with; by default the newest other version of the model
#   RATIO             the time of this version over the time of that one: 1.05 (the default) allows 5 % more
#   AS                what is measured: packaged (as deployed: both built by the steps that package the version before),
#                     uploaded, or auto (the default): packaged where that version has a package, else uploaded
#   BUDGET_S          how long the comparison may work: 480
#
# Exit codes: 0 pass, 1 too slow, 2 cannot tell, 3 Fuseworks' or a machine's fault, 4 the model's fault, 64 usage.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/api.sh"
need TEAM MODEL
RATIO="${RATIO:-1.05}"

VERSION=$(upload "$FUSEWORKS_TOKEN" "$TEAM" "$MODEL" "${NAME:-}")
if [[ -z ${AGAINST:-} ]]; then
    PAGE=$(call "$FUSEWORKS_TOKEN" GET "versions/$VERSION/")
    OWN_MODEL=$(field .model.id <<<"$PAGE")
    PAGE=$(call "$FUSEWORKS_TOKEN" GET "models/$OWN_MODEL/versions/?deleted=false&page_size=2") # newest first
    AGAINST=$(field '.results[0].id' <<<"$PAGE")
    [[ $AGAINST != "$VERSION" ]] || AGAINST=$(field '.results[1].id' <<<"$PAGE")
    [[ -n $AGAINST ]] || { echo "The model has no other version yet: the next one can be compared." >&2 && exit 64; }
fi

BODY="{\"version\": \"$VERSION\", \"purpose\": \"compare\", \"against\": \"$AGAINST\",
    \"max_latency_ratio\": $RATIO, \"compare_as\": \"${AS:-auto}\", \"policy\": {\"budget_s\": $BUDGET_S}}"
ANSWER=$(call "$FUSEWORKS_TOKEN" POST runs/ "$BODY")
RUN=$(field .id <<<"$ANSWER")
echo "${FUSEWORKS_URL%/}/runs/$RUN/"
CODE=0
wait_for "$FUSEWORKS_TOKEN" "$RUN" || CODE=$?

CHECK=$(call "$FUSEWORKS_TOKEN" GET "gates/$RUN/")
jq --raw-output "$FIXED"'"\(.outcome): " + if .latency_ratio == null then .reason else
    "latency_ratio \(.latency_ratio | fixed(3)) [\(.latency_ratio_low | fixed(3)), \(.latency_ratio_high | fixed(3))],"
    + " at most \(.max_latency_ratio) allowed" end + " (as \(.compared_as))"' <<<"$CHECK" || exit 3
FOUND=$(field .exit_code <<<"$CHECK")
exit "${FOUND:-$CODE}" # without an answer of the gate: why the run could not be awaited
