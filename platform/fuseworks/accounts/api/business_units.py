"""GET business-units/: those of the caller's teams."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView

from fuseworks.accounts import selectors
from fuseworks.accounts.models import BusinessUnit
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint


class BusinessUnitSerializer(serializers.ModelSerializer[BusinessUnit]):
    class Meta:
        model = BusinessUnit
        fields = ("id", "slug", "name")


@endpoint("business-units/", name="business-units")
class BusinessUnits(ListAPIView[BusinessUnit]):
    serializer_class = BusinessUnitSerializer
    queryset = BusinessUnit.objects.none()  # tells the API's description the model

    @extend_schema(summary="The business units of your teams")
    def get(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[BusinessUnit]:
        return selectors.business_units(actor=actor_of(self.request))
