"""`{% load fuseworks %}`: filters for figures and tags for badges, intervals, times and digests.

{{ result.baseline_ms|ms }}  {{ version.size_bytes|bytes_ }}  {{ result.speedup|speedup }}  {{ floor|percent }}
{{ run.worked_s|seconds }}   {% interval low high %}  {% status_badge run.status %}  {% verdict_badge verdict %}
{% ago run.created_at %}     {% digest version.sha256 %}  {{ run.stage|stage }}  {{ run.purpose|purpose }}
{{ run.compared_as|compared_as }}  {{ one.verdict|verdict }}
{{ run.problem|message_of }}  {{ error|remedy_of }}
"""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.contrib.humanize.templatetags.humanize import naturaltime
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fuseworks.core import badges, figures, telling

register = template.Library()

register.filter("ms", figures.milliseconds)
register.filter("bytes_", figures.size)
register.filter("speedup", figures.speedup)
register.filter("percent", figures.percent)
register.filter("seconds", figures.duration)
register.filter("status", badges.status)
register.filter("verdict", badges.verdict)
register.filter("stage", badges.stage)
register.filter("purpose", badges.purpose)
register.filter("compared_as", badges.compared_as)
register.filter("message_of", telling.message_of)
register.filter("remedy_of", telling.remedy_of)
register.simple_tag(figures.interval, name="interval")
register.simple_tag(badges.status_badge, name="status_badge")
register.simple_tag(badges.verdict_badge, name="verdict_badge")

DIGEST_SHOWN = 12


@register.simple_tag
def ago(when: datetime | None) -> str | SafeString:
    """How long ago, with the moment itself (UTC) for machines and on hovering."""
    if when is None:
        return figures.MISSING
    utc = when.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        utc.isoformat(timespec="seconds"),
        utc.strftime("%Y-%m-%d %H:%M:%S"),
        naturaltime(when),
    )


@register.simple_tag
def digest(sha: str | None) -> str | SafeString:
    """The first characters of a digest; the whole one on hovering."""
    if not sha:
        return figures.MISSING
    return format_html('<code title="{}">{}</code>', sha, sha[:DIGEST_SHOWN])
