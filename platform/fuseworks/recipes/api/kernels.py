"""`kernels/`: the library of fused kernels as the workers tell it, and one of them with the recipes that use it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.errors import PlatformError
from fuseworks.fleet.kernels import library
from fuseworks.recipes.kernel_users import recipes_with


class KernelSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    operation = serializers.CharField(help_text="the node's target in a graph")
    schema = serializers.CharField()
    summary = serializers.CharField()
    dtypes = serializers.ListField(child=serializers.CharField())
    targets = serializers.ListField(child=serializers.CharField())
    patterns = serializers.ListField(child=serializers.CharField(), help_text="empty: it is called by name")
    configurations = serializers.ListField(
        child=serializers.CharField(), help_text="of the first dtype; the first is the one that runs untuned"
    )
    differentiable = serializers.BooleanField()


class KernelToleranceSerializer(serializers.Serializer[Any]):
    dtype = serializers.CharField()
    absolute = serializers.FloatField(allow_null=True)
    relative = serializers.FloatField(allow_null=True)


class KernelCostSerializer(serializers.Serializer[Any]):
    dtype = serializers.CharField()
    sample = serializers.CharField(help_text="the arguments, of a size met in production")
    bytes = serializers.IntegerField(allow_null=True)
    flops = serializers.IntegerField(allow_null=True)


class KernelCompiledSerializer(serializers.Serializer[Any]):
    """One launch of the untuned configuration, compiled ahead of time: predicted, never measured."""

    dtype = serializers.CharField()
    target = serializers.CharField()
    device = serializers.CharField(help_text="the one that stands for the target")
    configuration = serializers.CharField()
    launch = serializers.IntegerField(allow_null=True)
    registers = serializers.IntegerField(allow_null=True, help_text="of one thread")
    spills = serializers.IntegerField(allow_null=True)
    shared_bytes = serializers.IntegerField(allow_null=True, help_text="of one block")
    occupancy = serializers.FloatField(allow_null=True)
    limited_by = serializers.CharField(allow_blank=True)
    vector_loads = serializers.IntegerField(allow_null=True, help_text="load instructions of 128 bits, of `loads`")
    loads = serializers.IntegerField(allow_null=True)
    tensor_core_instructions = serializers.IntegerField(allow_null=True)
    bound_us = serializers.FloatField(allow_null=True, help_text="roofline, of the whole call")
    bound_by = serializers.CharField(allow_blank=True)
    exceptions = serializers.ListField(child=serializers.CharField(), help_text="what one would not want of it")


class KernelExceptionPlaceSerializer(serializers.Serializer[Any]):
    dtype = serializers.CharField()
    target = serializers.CharField()
    configuration = serializers.CharField()
    because = serializers.CharField(help_text="the cause in words, with this place's figures")


class KernelExceptionSerializer(serializers.Serializer[Any]):
    """One cause of what one would not want of a compiled kernel, of all its configurations: predicted."""

    kind = serializers.CharField(help_text="spills, narrow_loads, few_bytes_in_flight, over_limit, does_not_compile")
    cause = serializers.CharField()
    launch = serializers.IntegerField(allow_null=True)
    function = serializers.CharField(help_text="the Triton function")
    reason = serializers.CharField(allow_blank=True, help_text="what the kernel's own file says of it")
    places = KernelExceptionPlaceSerializer(many=True)


class KernelOutcomeSerializer(serializers.Serializer[Any]):
    configuration = serializers.CharField()
    error_share = serializers.FloatField(allow_null=True, help_text="worst error by what is allowed; null when wrong")
    fault = serializers.CharField(allow_blank=True, help_text="what is wrong")


class KernelCellSerializer(serializers.Serializer[Any]):
    outcomes = KernelOutcomeSerializer(many=True)


class KernelMatrixRowSerializer(serializers.Serializer[Any]):
    sample = serializers.CharField()
    edge = serializers.BooleanField(help_text="arguments that are chosen to hurt")
    cells = serializers.ListField(child=KernelCellSerializer(allow_null=True), help_text="in the order of `dtypes`")


class KernelMatrixSerializer(serializers.Serializer[Any]):
    """Under Triton's interpreter, against the reference in float64."""

    date = serializers.CharField()
    triton = serializers.CharField()
    torch = serializers.CharField()
    current = serializers.BooleanField(help_text="false: the kernel was changed since")
    cases = serializers.IntegerField()
    right = serializers.IntegerField()
    dtypes = serializers.ListField(child=serializers.CharField())
    rows = KernelMatrixRowSerializer(many=True)


class KernelSpeedSerializer(serializers.Serializer[Any]):
    dtype = serializers.CharField()
    sample = serializers.CharField()
    best = serializers.CharField(allow_blank=True, help_text="the configuration")
    best_us = serializers.FloatField(allow_null=True)
    untuned_us = serializers.FloatField(allow_null=True)
    reference_us = serializers.FloatField(allow_null=True, help_text="the formula in plain torch")
    bound_us = serializers.FloatField(allow_null=True)
    bound_by = serializers.CharField(allow_blank=True)
    roofline_share = serializers.FloatField(allow_null=True)
    gigabytes_per_s = serializers.FloatField(allow_null=True)
    teraflops_per_s = serializers.FloatField(allow_null=True)


class KernelMeasuredSerializer(serializers.Serializer[Any]):
    """Of one device."""

    device = serializers.CharField()
    target = serializers.CharField()
    torch = serializers.CharField()
    triton = serializers.CharField()
    driver = serializers.CharField(allow_blank=True)
    date = serializers.CharField()
    cases = serializers.IntegerField(allow_null=True)
    right = serializers.IntegerField(allow_null=True)
    wrong = serializers.ListField(child=serializers.CharField())
    speeds = KernelSpeedSerializer(many=True)


class KernelUserSerializer(serializers.Serializer[Any]):
    recipe = serializers.UUIDField(source="version.recipe_id")
    version = serializers.UUIDField(source="version.pk")
    title = serializers.CharField(source="version.title")
    names_it = serializers.BooleanField(help_text="false: its step looks for every kernel of the library")


class KernelDetailSerializer(KernelSerializer):
    formula = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # the field of a kernel hides the attribute
    not_for = serializers.CharField()
    tolerances = KernelToleranceSerializer(many=True)
    costs = KernelCostSerializer(many=True)
    compiled = KernelCompiledSerializer(many=True)
    explained = KernelExceptionSerializer(many=True, help_text="every exception, of every configuration")
    correctness = KernelMatrixSerializer(allow_null=True)
    measured = KernelMeasuredSerializer(many=True, help_text="empty: no GPU has run it")


class KernelWithRecipesSerializer(serializers.Serializer[Any]):
    kernel = KernelDetailSerializer()
    recipes = KernelUserSerializer(many=True)


@endpoint("kernels/", name="kernel-list")
class Kernels(APIView):
    @extend_schema(operation_id="kernels_list", responses=KernelSerializer(many=True))
    def get(self, request: Request) -> Response:
        """By name. Empty until a worker has said hello."""
        return Response(KernelSerializer(library(), many=True).data)


@endpoint("kernels/<slug:name>/", name="kernel-detail")
class KernelDetail(APIView):
    @extend_schema(
        operation_id="kernel_detail",
        responses={200: KernelWithRecipesSerializer, 404: OpenApiResponse(description="no worker tells of such a one")},
    )
    def get(self, request: Request, name: str) -> Response:
        found = next((one for one in library() if one.name == name), None)
        if found is None:
            raise PlatformError("core:usage:not-found", what="kernel")
        users = recipes_with(actor=actor_of(request), kernel=name)
        return Response(KernelWithRecipesSerializer({"kernel": found, "recipes": users}).data)
