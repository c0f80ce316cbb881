"""The graph optimizers of ONNX Runtime's CPU build, by the names under which a session can leave them out.

A name that a version does not know does nothing. What only serves quantized models, training or other devices is left
out here. Imports no runtime.
"""

from __future__ import annotations

LEAVE_OUT = "optimization.disable_specified_optimizers"  # the session's setting: names with `;` between them

BASIC = [
    "EliminateIdentity",
    "EliminateSlice",
    "UnsqueezeElimination",
    "EliminateDropout",
    "ExpandElimination",
    "FuseReluClip",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "NotWhereFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "ConvBNFusion",
    "Pad_Fusion",
    "MatMul_BatchNormalization_Fusion",
    "LabelEncoderFusion",
    "NoopElimination",
    "CastElimination",
    "CastChainElimination",
    "PreShapeNodeElimination",
    "DivMulFusion",
    "CommonSubexpressionElimination",
    "ConstantSharing",
    "ConstantFolding",
    "MatMulAddFusion",
    "ReshapeFusion",
    "TransposeOptimizer",
    "LayerNormFusionL1",
    "GeluFusionL1",
]
EXTENDED = [
    "GemmActivationFusion",
    "ConvActivationFusion",
    "GeluFusionL2",
    "LayerNormFusionL2",
    "SimplifiedLayerNormFusion",
    "AttentionFusion",
    "EmbedLayerNormFusion",
    "GatherSliceToSplitFusion",
    "GatherToSliceFusion",
    "MatmulTransposeFusion",
    "BiasGeluFusion",
    "BiasSoftmaxFusion",
    "BiasDropoutFusion",
    "SkipLayerNormFusion",
    "BiasSkipLayerNormFusion",
    "FastGeluFusion",
    "QuickGeluFusion",
    "MatMulScaleFusion",
    "MatMulActivationFusion",
    "GroupQueryAttentionFusion",
    "MatMulNBitsFusion",
    "SwiGluFusion",
    "SliceConcatToSpaceToDepthFusion",
]
LAYOUT = ["NchwcTransformer", "NhwcTransformer", "ConvAddActivationFusion"]
OPTIMIZERS = (*BASIC, *EXTENDED, *LAYOUT)
