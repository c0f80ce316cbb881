"""What can be wrong with an upload, a model, a version or a workload, and how to mend it."""

from __future__ import annotations

from fuseworks.core.errors import catalogue
from optimizer.uploads import refusals

catalogue(
    {
        # ---- the file itself --------------------------------------------------------------------------------------
        "registry:user:empty": (422, *refusals.EMPTY),
        "registry:user:foreign": (422, *refusals.FOREIGN),
        "registry:user:unknown-format": (422, *refusals.UNKNOWN),
        "registry:user:wrong-suffix": (422, *refusals.WRONG_SUFFIX),
        "registry:user:bad-zip": (422, *refusals.BAD_ZIP),
        "registry:user:bad-zip-content": (422, *refusals.BAD_ZIP_CONTENT),
        "registry:user:empty-trace": (422, *refusals.EMPTY_TRACE),
        "registry:user:no-trace": (422, *refusals.NO_TRACE),
        "registry:user:trace-zip": (422, *refusals.TRACE_ZIP),
        "registry:user:checksum": (
            422,
            "What arrived has the SHA-256 {found}, not {expected} as announced.",
            "Upload the file again; compare with `sha256sum FILE` first.",
        ),
        # ---- the upload -------------------------------------------------------------------------------------------
        "registry:usage:filename": (
            422,
            "{name!r} is no name of a file.",
            "Send the file's own name, with its suffix and without folders.",
        ),
        "registry:usage:long-filename": (
            422,
            "The file's name has {characters} characters; it may have {limit}.",
            "Give the file a shorter name and send it again.",
        ),
        "registry:usage:sha256": (
            422,
            "{text!r} is no SHA-256.",
            "Send its 64 hexadecimal digits, as `sha256sum FILE` prints them.",
        ),
        "registry:usage:too-large": (
            413,
            "The file has {size_mib} MiB; {limit_mib} MiB is the limit ({format}).",
            "Keep the weights in bfloat16, or upload a smaller variant of the same structure.",
        ),
        "registry:usage:large-trace": (
            413,
            "The trace has {size_mib} MiB; {limit_mib} MiB is the limit.",
            "Record fewer steps, without with_stack and profile_memory; or send it gzipped, or a zip of the ranks.",
        ),
        "registry:usage:quota": (
            507,
            "{team} has used {used_mib} of its {quota_mib} MiB; this file needs {size_mib} more.",
            "Delete versions that nobody needs any more, or ask for a larger quota.",
        ),
        "registry:ours:disk-full": (
            507,
            "The site's storage is full.",
            "Try again later; whoever runs this site must make room.",
        ),
        "registry:usage:length-required": (
            411,
            "The request does not say how long its body is.",
            "Send the header Content-Length: `curl -T FILE` does, a pipe cannot.",
        ),
        "registry:usage:wrong-offset": (
            409,
            "The upload stands at {offset_bytes} bytes, not at {given}.",
            "Ask for Upload-Offset with a HEAD request and continue there.",
        ),
        "registry:usage:past-end": (
            413,
            "{given_bytes} bytes at {offset_bytes} go past the announced length of {length_bytes}.",
            "Begin a new upload with the file's true length.",
        ),
        "registry:usage:busy": (
            423,
            "Another request is writing to this upload.",
            "Wait until it has ended, ask for Upload-Offset with a HEAD request and continue there.",
        ),
        "registry:usage:cut-off": (
            400,
            "The connection broke after {received_bytes} of {announced_bytes} bytes.",
            "What came is kept: ask for Upload-Offset with a HEAD request and continue there.",
        ),
        "registry:usage:chunk-checksum": (
            460,
            "The bytes that arrived do not have the checksum of the header Upload-Checksum.",
            "Send the same bytes again; the header reads `Upload-Checksum: sha256 BASE64`.",
        ),
        "registry:usage:upload-over": (
            410,
            "This upload is over: {why}.",
            "Begin a new one.",
        ),
        "registry:usage:incomplete": (
            409,
            "Only {offset_bytes} of {length_bytes} bytes have arrived.",
            "Send the rest first.",
        ),
        "registry:usage:same-bytes": (
            409,
            "These very bytes are version {number} of {model} already.",
            "Use that version: {address}",
        ),
        # ---- models and versions ----------------------------------------------------------------------------------
        "registry:usage:model-name": (
            422,
            "{name!r} cannot be a model's name.",
            "A name has 1 to 80 characters, a letter or digit among them, and no slash.",
        ),
        "registry:usage:model-exists": (
            409,
            "{team} has a model of this name already.",
            "Upload a new version of it: {address}",
        ),
        "registry:usage:deleted": (
            410,
            "The file of {version} was deleted.",
            "Upload it again as a new version.",
        ),
        "registry:usage:in-use": (
            409,
            "{count} runs of {version} are queued or at work.",
            "Wait until they have ended, or cancel them.",
        ),
        # ---- workloads --------------------------------------------------------------------------------------------
        "registry:user:workload": (
            422,
            "The workload is not valid: {text}",
            "Mend the named fields. The workload has `inputs` (name, dtype, shape, values), `dims` (serve, min, max) "
            "and the optional fields of its schema.",
        ),
        "registry:usage:workload-changed": (
            409,
            "Revision {number} of the workload was saved meanwhile.",
            "Look at it, then save yours again on top of it.",
        ),
        "registry:usage:no-workload": (
            409,
            "{version} has no workload yet to change single fields of.",
            "Wait until its inspection has ended, or write the whole workload as YAML.",
        ),
    }
)
