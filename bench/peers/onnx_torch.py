# SPDX-License-Identifier: MIT
"""ONNX models as calls of PyTorch, for torch_peer.py: a reader of the format and the operators that
the models of bench/driver/onnx_models.py have. What follows from shapes alone is computed once, on
the host; the rest are calls on the device, fit for a CUDA graph."""
import struct

import numpy as np
import torch
import torch.nn.functional as F

TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_,
         10: np.float16, 11: np.float64}


# ---- The format ----------------------------------------------------------------------------------

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: values} of a message; numbers are int, float (32 bits) or bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
        else:
            n = 8 if kind == 1 else 4
            value, at = struct.unpack("<d" if n == 8 else "<f", data[at:at + n])[0], at + n
        found.setdefault(key >> 3, []).append(value)
    return found


def integers(values):
    """Signed numbers, packed or one by one."""
    out = []
    for v in values:
        if isinstance(v, int):
            out.append(v)
            continue
        at = 0
        while at < len(v):
            number, at = varint(v, at)
            out.append(number)
    return [v - (1 << 64) if v >> 63 else v for v in out]


def floats(values):
    out = []
    for v in values:
        out += [v] if isinstance(v, float) else np.frombuffer(v, "<f4").tolist()
    return out


def text(message, number):
    return bytes(message.get(number, [b""])[0]).decode()


def tensor(data):
    t = fields(data)
    shape, dtype = integers(t.get(1, [])), TYPES.get(t.get(2, [1])[0])
    if dtype is None:
        raise ValueError(f"a tensor of type {t[2][0]}")
    if 9 in t:
        array = np.frombuffer(bytes(t[9][0]), dtype)
    else:
        array = np.array(floats(t[4]) if 4 in t else integers(t.get(5, []) or t.get(7, [])), dtype)
    return torch.from_numpy(array.reshape(shape).copy())


def attribute(data):
    a = fields(data)
    kind = a.get(20, [0])[0]
    read = {1: lambda: a.get(2, [0.0])[0], 2: lambda: integers(a.get(3, [0]))[0],
            3: lambda: text(a, 4), 4: lambda: tensor(a[5][0]), 6: lambda: floats(a.get(7, [])),
            7: lambda: integers(a.get(8, []))}
    return text(a, 1), read.get(kind, lambda: None)()


class Node:
    def __init__(self, data):
        n = fields(data)
        self.op = text(n, 4)
        self.inputs = [bytes(v).decode() for v in n.get(1, [])]
        self.outputs = [bytes(v).decode() for v in n.get(2, [])]
        self.attributes = dict(attribute(a) for a in n.get(5, []))

    def get(self, key, default=None):
        return self.attributes.get(key, default)


# ---- Operators -----------------------------------------------------------------------------------

def listed(v):
    return None if v is None else [int(x) for x in v.flatten().tolist()]


def symmetric(n, rank):
    """The pads of a window, which must be the same on both sides."""
    pads = n.get("pads", [0] * (2 * rank))
    if n.get("auto_pad", "NOTSET") != "NOTSET" or pads[:rank] != pads[rank:]:
        raise ValueError(f"{n.op} with pads {pads}")
    return pads[:rank]


def conv(n, x, w, bias=None):
    rank = w.dim() - 2
    call = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    pads, both = n.get("pads", [0] * (2 * rank)), None
    if n.get("auto_pad", "NOTSET") != "NOTSET":
        raise ValueError(f"Conv with auto_pad {n.get('auto_pad')}")
    if pads[:rank] == pads[rank:]:
        both = pads[:rank]
    else:
        x = F.pad(x, [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])])
    return call(x, w, bias, n.get("strides", [1] * rank), both or 0, n.get("dilations", [1] * rank),
                n.get("group", 1))


def conv_transpose(n, x, w, bias=None):
    return F.conv_transpose2d(x, w, bias, n.get("strides", [1, 1]), symmetric(n, 2),
                              n.get("output_padding", [0, 0]), n.get("group", 1),
                              n.get("dilations", [1, 1]))


def pool(n, x):
    k = n.get("kernel_shape")
    strides, ceil = n.get("strides", [1] * len(k)), bool(n.get("ceil_mode", 0))
    if n.op == "MaxPool":
        return F.max_pool2d(x, k, strides, symmetric(n, 2), 1, ceil)
    return F.avg_pool2d(x, k, strides, symmetric(n, 2), ceil, bool(n.get("count_include_pad", 0)))


def reshape(n, x, shape):
    sizes = listed(shape)
    return x.reshape([x.shape[i] if s == 0 else s for i, s in enumerate(sizes)])


def narrow(n, x, starts, ends, axes=None, steps=None):
    starts, ends = listed(starts), listed(ends)
    axes, steps = listed(axes) or list(range(len(starts))), listed(steps) or [1] * len(starts)
    at = [slice(None)] * x.dim()
    for axis, a, b, step in zip(axes, starts, ends, steps):
        at[axis] = slice(a, b, step)
    return x[tuple(at)]


def squeeze(n, x, axes=None):
    for axis in sorted(listed(axes) or n.get("axes"), reverse=True):
        x = x.squeeze(axis)
    return x


def unsqueeze(n, x, axes=None):
    for axis in sorted(listed(axes) or n.get("axes")):
        x = x.unsqueeze(axis)
    return x


def reduce(n, x, axes=None):
    axes = listed(axes) or n.get("axes") or list(range(x.dim()))
    call = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}[n.op]
    return call(x, dim=axes, keepdim=bool(n.get("keepdims", 1)))


def resize(n, x, _roi, scales=None, sizes=None):
    if n.get("mode") != "nearest" or n.get("coordinate_transformation_mode") != "asymmetric":
        raise ValueError("Resize in other modes than nearest, asymmetric")
    if sizes is not None and sizes.numel():
        return F.interpolate(x, size=listed(sizes)[2:], mode="nearest")
    return F.interpolate(x, scale_factor=scales.flatten().tolist()[2:], mode="nearest")


def batch_norm(n, x, gamma, beta, mean, var):
    return F.batch_norm(x, mean, var, gamma, beta, False, 0.0, n.get("epsilon", 1e-5))


def clip(n, x, low=None, high=None):
    low = n.get("min") if low is None else low.item()
    high = n.get("max") if high is None else high.item()
    return x.clamp(low, high)


def hard_sigmoid(n, x):
    return (x * n.get("alpha", 0.2) + n.get("beta", 0.5)).clamp(0, 1)


def unary(call):
    return lambda n, x: call(x)


def binary(call):
    return lambda n, a, b: call(a, b)


def device_type(t):
    return torch.from_numpy(np.zeros(1, TYPES[t])).dtype


OPS = {
    "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": pool, "AveragePool": pool,
    "BatchNormalization": batch_norm, "Reshape": reshape, "Slice": narrow, "Squeeze": squeeze,
    "Unsqueeze": unsqueeze, "Resize": resize, "Clip": clip, "HardSigmoid": hard_sigmoid,
    "ReduceMean": reduce, "ReduceSum": reduce, "ReduceMax": reduce,
    "GlobalAveragePool": lambda n, x: x.mean(list(range(2, x.dim())), keepdim=True),
    "GlobalMaxPool": lambda n, x: x.amax(list(range(2, x.dim())), keepdim=True),
    "HardSwish": unary(F.hardswish), "Relu": unary(F.relu), "Sigmoid": unary(torch.sigmoid),
    "Tanh": unary(torch.tanh), "Exp": unary(torch.exp), "Sqrt": unary(torch.sqrt),
    "Reciprocal": unary(torch.reciprocal), "Identity": unary(lambda x: x),
    "Add": binary(torch.add), "Sub": binary(torch.sub), "Mul": binary(torch.mul),
    "Pow": binary(torch.pow), "Equal": binary(torch.eq), "Max": binary(torch.maximum),
    "Div": binary(lambda a, b: torch.div(a, b, rounding_mode=None if a.is_floating_point()
                                         else "trunc")),
    "MatMul": binary(torch.matmul), "Softmax": lambda n, x: F.softmax(x, n.get("axis", -1)),
    "Concat": lambda n, *x: torch.cat(x, n.get("axis")),
    "Transpose": lambda n, x: x.permute(n.get("perm", list(reversed(range(x.dim()))))),
    "Expand": lambda n, x, shape: x.expand(np.broadcast_shapes(tuple(x.shape),
                                                               tuple(listed(shape)))),
    "Cast": lambda n, x: x.to(device_type(n.get("to"))),
    "Shape": lambda n, x: torch.tensor(list(x.shape)), "Constant": lambda n: n.get("value"),
}
# Operands that are read on the host: shapes, axes, limits.
ON_HOST = {"Reshape": (1,), "Slice": (1, 2, 3, 4), "Squeeze": (1,), "Unsqueeze": (1,),
           "Expand": (1,), "Resize": (1, 2, 3), "Clip": (1, 2), "ReduceMean": (1,),
           "ReduceSum": (1,), "ReduceMax": (1,)}


# ---- The model -----------------------------------------------------------------------------------

class Model:
    """Values on the host are known; the steps are what the device computes."""

    def __init__(self, path, given, device):
        self.device, self.steps = torch.device(device), []
        with open(path, "rb") as f:
            graph = fields(fields(memoryview(f.read()))[7][0])
        nodes = [Node(n) for n in graph[1]]
        missing = sorted({n.op for n in nodes} - set(OPS))
        if missing:
            raise NotImplementedError(f"no call for {', '.join(missing)}")
        self.values = {text(fields(t), 8): tensor(t) for t in graph.get(5, [])}
        self.on_device = {name: torch.from_numpy(a).to(self.device) for name, a in given.items()}
        self.copies, self.outputs = {}, [text(fields(o), 1) for o in graph[12]]
        for n in nodes:
            self.add(n)

    def add(self, n):
        made = any(v in self.on_device for v in n.inputs) and n.op != "Shape"
        operands = [self.operand(n, i, name, made) for i, name in enumerate(n.inputs)]
        result = OPS[n.op](n, *operands)
        if made:
            self.on_device[n.outputs[0]] = result
            self.steps.append((OPS[n.op], n, operands))
        else:
            self.values[n.outputs[0]] = result

    def operand(self, n, i, name, made):
        if not name:
            return None
        if name in self.on_device:
            return self.on_device[name]
        if not made or i in ON_HOST.get(n.op, ()):
            return self.values[name]
        if name not in self.copies:
            self.copies[name] = self.values[name].to(self.device)
        return self.copies[name]

    def run(self):
        """Computes all steps again, from the inputs; gives the outputs."""
        made = {}
        for call, n, operands in self.steps:
            made[n.outputs[0]] = call(n, *[made.get(name, v) for name, v in
                                           zip(n.inputs, operands)])
        return [made[name] for name in self.outputs]
