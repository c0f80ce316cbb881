# The API by curl, for story.sh and gate.sh, which source this. It needs bash, curl 7.76 or later, and jq to read JSON.
#
# Whatever ends a script here ends it with one of these codes: 3 Fuseworks' or a machine's fault, 4 the model's fault,
# 64 wrong usage. Never with 1 or 2: those are a gate's answers.

# need NAME...: variables that must be set.
need() {
    local name
    for name in "$@"; do
        [[ -n ${!name:-} ]] || { echo "$0: set $name (the head of the script tells what it is)" >&2 && exit 64; }
    done
}

need FUSEWORKS_URL FUSEWORKS_TOKEN
for program in curl jq; do
    command -v "$program" >/dev/null || { echo "$0: needs $program, which is not here" >&2 && exit 3; }
done
API="${FUSEWORKS_URL%/}/api/v1"
BUDGET_S="${BUDGET_S:-480}"
RETRY_S="${RETRY_S:-120}" # how long a server that does not answer is asked again
[[ $RETRY_S =~ ^[0-9]+$ ]] || { echo "$0: RETRY_S is a number of seconds" >&2 && exit 64; }
ANSWERS=$(mktemp -d) || exit 3
trap 'rm -rf "$ANSWERS"' EXIT

# field FILTER: what this filter of jq finds in the JSON on standard input, nothing where that is null:
# `field .headline.speedup`, `field '.results[0].id'`.
field() { jq --raw-output "$1 // empty" || return 3; }

# encoded TEXT: as a part of an address.
encoded() { jq --null-input --raw-output --arg text "$1" '$text | @uri' || return 3; }

# For the filters of jq that show figures: `fixed(2)` is the number with two digits after the point.
FIXED='def fixed($digits): pow(10; $digits) as $unit | (. * $unit | round) as $whole
    | "\($whole / $unit | floor).\($whole % $unit + $unit | tostring | .[1:])";'

# call TOKEN METHOD PATH [JSON or @FILE]: the answer on standard output; a problem's document on standard error.
# ALSO=409 takes a conflict for an answer: its document names what is there already.
call() {
    local file="$ANSWERS/answer" again=() body=() status
    : >"$file"
    ((RETRY_S)) && again=(--retry 8 --retry-connrefused --retry-max-time "$RETRY_S")
    # Not a file's, of which curl would read again what is not there. A second try of what starts something the site
    # knows by its key, and does not do it twice.
    ((RETRY_S)) && [[ $2 != PUT ]] && again+=(--retry-all-errors)
    [[ $2 == POST ]] && again+=(--header "Idempotency-Key: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')")
    case ${4:-} in
    "") ;;
    # a file's name is added to the address by curl itself
    @*) body=(--upload-file "${4#@}") ;;
    *) body=(--header 'Content-Type: application/json' --data "$4") ;;
    esac
    # The token comes by a file of its own: arguments can be read by everybody on the machine.
    status=$(curl --silent --show-error --output "$file" --write-out '%{http_code}' --request "$2" \
        --connect-timeout 20 --speed-time 120 --speed-limit 1 \
        --config <(printf 'header = "Authorization: Bearer %s"\n' "$1") --header 'Accept: application/json' \
        ${again[@]+"${again[@]}"} ${body[@]+"${body[@]}"} "$API/$3") || return 3
    if [[ $status == 2* || $status == "${ALSO:-}" ]]; then
        cat "$file"
        return 0
    fi
    printf '%s %s answered HTTP %s:\n' "$2" "$API/$3" "$status" >&2
    cat "$file" >&2 && echo >&2
    case $(field .id <"$file" 2>/dev/null) in
    *:user:*) return 4 ;;
    *:usage:*) return 64 ;;
    *) return 3 ;;
    esac
}

# upload TOKEN TEAM FILE [NAME]: the id of the model version, an earlier one when it has these very bytes. The file is
# streamed in one request; for large files and bad lines there are resumable uploads (`uploads/` in the API's pages).
upload() {
    local name answer id
    name=$(basename "$3")
    name=$(encoded "${4:-${name%.*}}") || return
    answer=$(ALSO=409 call "$1" PUT "uploads/$2/$name/" "@$3") || return
    id=$(field '.version // .id' <<<"$answer") || return # a conflict has the earlier version's id there
    if [[ $id == *:* ]]; then                            # a conflict of another kind: this is the problem's own id
        printf '%s\n' "$answer" >&2
        return 64
    fi
    printf '%s\n' "$id"
}

# wait_for TOKEN RUN: until it is over, its events on standard error. The server answers as soon as there is a new one.
# Returns 0 for a run that succeeded, 4 where the model is at fault, else 3.
wait_for() {
    local after=0 page status more
    local shown='def left($width): . + " " * ($width - length); def right($width): " " * ($width - length) + .;
        .events[] | "  [\(.at_s | fixed(1) | right(6)) s] \(.kind | left(13)) \(.message)"'
    while :; do
        page=$(call "$1" GET "runs/$2/events/?after=$after&wait=20") || return
        jq --raw-output "$FIXED $shown" <<<"$page" >&2 || return 3
        read -r after status more < <(jq --raw-output '"\(.next) \(.status) \(.more)"' <<<"$page") || return 3
        [[ $more == true ]] && continue
        case $status in
        succeeded) return 0 ;;
        failed | errored | cancelled | timed_out)
            page=$(call "$1" GET "runs/$2/") || return
            echo "  The run is $status. $(field .problem.message <<<"$page") $(field .problem.remedy <<<"$page")" >&2
            [[ $status == failed ]] && return 4
            return 3
            ;;
        esac
    done
}
