"""How a team's use of its quota looks in the API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class UsageSerializer(serializers.Serializer[Any]):
    quota_bytes = serializers.IntegerField()
    quota_is_default = serializers.BooleanField(help_text="whether it is the site's default and none of the team's own")
    stored_bytes = serializers.IntegerField(help_text="the sum of the three below: what counts against the quota")
    versions = serializers.IntegerField(help_text="whose files were not deleted")
    versions_bytes = serializers.IntegerField()
    left = serializers.IntegerField(help_text="files that runs left")
    left_bytes = serializers.IntegerField()
    announced = serializers.IntegerField(help_text="uploads on their way")
    announced_bytes = serializers.IntegerField(help_text="at the length that they announced")
    runs_queued = serializers.IntegerField()
    runs_running = serializers.IntegerField()
