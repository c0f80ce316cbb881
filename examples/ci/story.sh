#!/usr/bin/env bash
# The whole story over REST, by curl: a team uploads a model, waits for its run, reads before and after, saves the
# recipe and publishes it; another business unit finds it, applies it to its own model; its outcome is evidence.
#
#   FUSEWORKS_URL            http://127.0.0.1:8000
#   FUSEWORKS_TOKEN, TEAM    an API token with the scopes read, submit and recipes, of an owner of TEAM
#   OTHER_TOKEN, OTHER_TEAM  the same (submit and read suffice) of a team in another business unit
#   MODEL, OTHER_MODEL       the file to optimize, and the file that the recipe is applied to
#   BUDGET_S                 of each run: 480
#
# Exit codes are those of `fuseworks submit`: 0 done, 3 Fuseworks' or a machine's fault, 4 the model's fault, 64 usage.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/api.sh"
need TEAM MODEL OTHER_TOKEN OTHER_TEAM OTHER_MODEL
POLICY="{\"budget_s\": $BUDGET_S}"

echo "==> Uploading $MODEL for $TEAM"
VERSION=$(upload "$FUSEWORKS_TOKEN" "$TEAM" "$MODEL")
ANSWER=$(call "$FUSEWORKS_TOKEN" POST runs/ \
    "{\"version\": \"$VERSION\", \"purpose\": \"optimize\", \"policy\": $POLICY}")
RUN=$(field .id <<<"$ANSWER")
echo "==> Run ${FUSEWORKS_URL%/}/runs/$RUN/"
wait_for "$FUSEWORKS_TOKEN" "$RUN"

RESULT=$(call "$FUSEWORKS_TOKEN" GET "runs/$RUN/result/")
echo "==> $(field .headline.summary <<<"$RESULT")"
jq --raw-output "$FIXED"'.headline | select(.baseline_ms != null and .best_ms != null)
    | "    before \(.baseline_ms | fixed(2)) ms, after \(.best_ms | fixed(2)) ms"' <<<"$RESULT" || exit 3
if [[ -z $(field .document.recipe.kind <<<"$RESULT") ]]; then
    echo "==> There is no recipe to share: nothing faster was found"
    exit 0
fi

echo "==> Saving and publishing the recipe"
ANSWER=$(call "$FUSEWORKS_TOKEN" POST "runs/$RUN/recipe/" '{}')
RECIPE=$(field .id <<<"$ANSWER")
# A run that finds the very same steps again becomes evidence of the version that there is.
if [[ $(field .state <<<"$ANSWER") == draft ]]; then
    ANSWER=$(call "$FUSEWORKS_TOKEN" POST "recipe-versions/$RECIPE/publish/" '{"visibility": "company"}')
fi
NAME=$(field .name <<<"$ANSWER")
echo "    $NAME $(field .version <<<"$ANSWER") is $(field .state <<<"$ANSWER")"

echo "==> $OTHER_TEAM finds it"
FOUND=$(call "$OTHER_TOKEN" GET "recipes/?q=$(encoded "$NAME")")
[[ $FOUND == *"$RECIPE"* ]] || { echo "the catalog does not show it" >&2 && exit 3; }

echo "==> and applies it to $OTHER_MODEL"
OTHER_VERSION=$(upload "$OTHER_TOKEN" "$OTHER_TEAM" "$OTHER_MODEL")
ANSWER=$(call "$OTHER_TOKEN" POST "recipe-versions/$RECIPE/apply/" \
    "{\"version\": \"$OTHER_VERSION\", \"policy\": $POLICY}")
REPLAY=$(field .id <<<"$ANSWER")
wait_for "$OTHER_TOKEN" "$REPLAY" || [[ $? == 4 ]] || exit 3 # a refusal is evidence too

echo "==> The evidence, as $TEAM sees it (models of other teams without their names)"
EVIDENCE=$(call "$FUSEWORKS_TOKEN" GET "recipe-versions/$RECIPE/evidence/")
jq --raw-output "$FIXED"'.results[]
    | "    \(.outcome) \(if .speedup == null then "no speedup" else "\(.speedup | fixed(2))x" end)"
    + " \(.model // "(a model of another team: \(.family))")"' <<<"$EVIDENCE" || exit 3
