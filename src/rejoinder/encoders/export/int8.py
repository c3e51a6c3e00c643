"""Products of 8-bit integers in an ONNX program, in place of a linear layer's in float32.

A weight gets a scale for each of its rows, and so does each row of a layer's input: what is
computed beside a text does not change its vector. All operators are of the ONNX standard. The
program holds no copy of the weights: those that are stored in 8 bits are taken as they are, others
are rounded once, when onnxruntime opens it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LIMIT = 127.0  # largest 8-bit weight, and largest input before the zero point
ZERO_POINT = 128  # of inputs: processors multiply unsigned by signed integers
TINY = 1e-30  # largest number of a row of zeros, by which it is divided


def use_int8(model: Any) -> int:
    """Let linear layers of an `onnx_ir` model multiply in 8 bits, in place; return how many do.

    Layers are Gemm nodes, as PyTorch exports them: x (n, in), weight (out, in), bias (out,).
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    layers = [node for node in model.graph if node.op_type == "Gemm"]
    for layer in layers:
        _replace(model.graph, layer)
    RemoveUnusedNodesPass()(model)  # what made a weight that is taken as it is stored
    return len(layers)


def _replace(graph: Any, layer: Any) -> None:
    import onnx_ir

    def add(operation: str, inputs: Sequence[Any], attributes: Mapping[str, Any] = {}) -> Any:
        node = onnx_ir.node(operation, inputs, attributes)
        graph.insert_before(layer, node)
        return node.outputs[0]

    float32 = onnx_ir.DataType.FLOAT
    int8 = onnx_ir.DataType.INT8
    limit = _constant(graph, "int8.limit", LIMIT, float32)
    one = _constant(graph, "int8.one", 1.0, float32)
    zero_point = _constant(graph, "int8.zero_point", ZERO_POINT, onnx_ir.DataType.UINT8)
    zero = _constant(graph, "int8.zero", 0, int8)
    flat = _constant(graph, "int8.flat", [-1], onnx_ir.DataType.INT64)

    def largest(rows: Any) -> Any:
        """(n, d) -> the largest absolute number of each row, (n, 1)."""
        axes = _constant(graph, "int8.axes", [1], onnx_ir.DataType.INT64)
        tiny = _constant(graph, "int8.tiny", TINY, float32)
        maximum = add("ReduceMax", [add("Abs", [rows]), axes], {"keepdims": 1})
        return add("Max", [maximum, tiny])

    x, weight, bias = layer.inputs
    stored = _stored(weight)
    if stored is None:
        scales = add("Div", [largest(weight), limit])
        rounded = add("Cast", [add("Round", [add("Div", [weight, scales])])], {"to": int8})
    else:
        rounded, scales = stored
    weight_8 = add("Transpose", [rounded], {"perm": [1, 0]})
    range_x = largest(x)  # (n, 1)
    # Its scale is 1, since the operator takes no scales of rows whose number varies.
    x_8 = add("QuantizeLinear", [add("Mul", [x, add("Div", [limit, range_x])]), one, zero_point])
    product = add("MatMulInteger", [x_8, weight_8, zero_point, zero])
    scale_out = add("Div", [add("Reshape", [scales, flat]), limit])  # (out,)
    y = add("Mul", [add("Cast", [product], {"to": float32}), scale_out])
    y = add("Add", [add("Mul", [y, range_x]), bias])
    layer.outputs[0].replace_all_uses_with(y)
    graph.remove(layer, safe=True)


def _stored(weight: Any) -> tuple[Any, Any] | None:
    """Return the 8-bit numbers (out, in) of a weight and its scales (out, 1); None: it has none."""
    import onnx_ir

    product = weight.producer()
    if product is None or product.op_type != "Mul":
        return None
    cast, scales = product.inputs
    source = cast.producer()
    if source is None or source.op_type != "Cast":
        return None
    is_int8 = source.inputs[0].dtype == onnx_ir.DataType.INT8
    return (source.inputs[0], scales) if is_int8 else None


def _constant(graph: Any, name: str, value: object, dtype: Any) -> Any:
    import onnx_ir

    if name not in graph.initializers:
        tensor = onnx_ir.tensor(value, dtype=dtype, name=name)
        graph.register_initializer(onnx_ir.val(name, const_value=tensor))
    return graph.initializers[name]
