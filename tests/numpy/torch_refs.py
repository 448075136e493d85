# SPDX-License-Identifier: MIT
"""Second references, from PyTorch, where it is installed: convolution, pooling, norms, softmax,
attention and recurrent networks. NotImplemented: PyTorch has not this form of the operation."""
import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)

# F.gelu computes 1 + erf(u) and 1 + tanh(u), which cancel where x is negative: below about -6 all
# that is left is rounding. These forms do not.
def gelu(x):
    return x / 2 * torch.erfc(-x / 2**0.5)


def gelu_tanh(x):
    return x * torch.sigmoid(2 * (2 / np.pi)**0.5 * (x + 0.044715 * x**3))


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hard_swish": F.hardswish,
}


def wide(inputs, n):
    """n float64 tensors; absent ones are None. None where a tensor is empty."""
    inputs = list(inputs) + [None] * (n - len(inputs))
    return [None if a is None else torch.from_numpy(np.asarray(a, np.float64)) for a in inputs]


def is_empty(*tensors):
    return any(t is not None and t.numel() == 0 for t in tensors)


def each_axis(attrs, name, n, default=1):
    return tuple(attrs.get(name) or [default] * n)


def torch_pads(pads):
    """[begin.., end..] of each axis to the pairs of F.pad, last axis first."""
    n = len(pads) // 2
    return [pads[side * n + axis] for axis in reversed(range(n)) for side in (0, 1)]


# ---- Convolution and pooling ---------------------------------------------------------------------


def finish(attrs, y, residual):
    act = ACTIVATIONS[attrs.get("act", "none")]
    if residual is None:
        return act(y)
    return act(y + residual) if attrs.get("act_last") else act(y) + residual


def conv(n):
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]

    def run(attrs, *inputs):
        x, w, bias, residual = wide(inputs, 4)
        pads = attrs.get("pads") or [0] * (2 * n)
        if is_empty(x, w) or (any(pads) and not w.isfinite().all()):
            return NotImplemented  # PyTorch multiplies padding by weights: 0 * infinity is NaN
        x = F.pad(x, torch_pads(pads))
        y = function(x, w, bias, each_axis(attrs, "stride", n), 0, each_axis(attrs, "dilation", n),
                     attrs.get("groups", 1))
        return finish(attrs, y, residual).numpy()
    return run


def conv_transpose2d(attrs, *inputs):
    x, w, bias = wide(inputs, 3)
    pads = attrs.get("pads") or [0] * 4
    if is_empty(x, w) or pads[:2] != pads[2:]:
        return NotImplemented
    stride, dilation = each_axis(attrs, "stride", 2), each_axis(attrs, "dilation", 2)
    extra = each_axis(attrs, "output_pad", 2, 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
        return NotImplemented
    y = F.conv_transpose2d(x, w, bias, stride, tuple(pads[:2]), extra, attrs.get("groups", 1),
                           dilation)
    return finish(attrs, y, None).numpy()


def pool(n):
    largest = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[n]
    average = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[n]

    def run(attrs, *inputs):
        (x,) = wide(inputs, 1)
        kernel = tuple(attrs.get("kernel") or x.shape[2:])
        stride, dilation = each_axis(attrs, "stride", n), each_axis(attrs, "dilation", n)
        pads = attrs.get("pads") or [0] * (2 * n)
        kind = attrs.get("kind", "max")
        narrow = any(2 * p > k for p, k in zip(pads, kernel))
        if is_empty(x) or pads[:n] != pads[n:] or narrow or kind == "lp":
            return NotImplemented
        ceil = bool(attrs.get("ceil_mode"))
        if kind == "max":
            y = largest(x, kernel, stride, tuple(pads[:n]), dilation, ceil)
        elif max(dilation) > 1 or ceil:
            return NotImplemented
        else:
            y = average(x, kernel, stride, tuple(pads[:n]), ceil,
                        bool(attrs.get("count_include_pad")))
        return y.numpy()
    return run


# ---- Norms and softmax ---------------------------------------------------------------------------


def layer_norm(attrs, *inputs):
    x, gamma, beta = wide(inputs, 3)
    axis = attrs.get("axis", 0) or -1
    shape = x.shape[axis:]
    if is_empty(x) or shape.numel() == 1:
        return NotImplemented  # PyTorch leaves rounding errors in rows of one element
    return F.layer_norm(x, shape, gamma, beta, attrs.get("eps", 1e-5)).numpy()


def group_norm(attrs, *inputs):
    x, gamma, beta = wide(inputs, 3)
    groups = attrs.get("groups") or (x.shape[1] if attrs["_op"] == "instance_norm" else 1)
    if is_empty(x) or x.numel() == x.shape[0] * groups:
        return NotImplemented  # one number a group is an error in PyTorch
    return F.group_norm(x, groups, gamma, beta, attrs.get("eps", 1e-5)).numpy()


def batch_norm(attrs, *inputs):
    x, gamma, beta, mean, var = wide(inputs, 5)
    if is_empty(x) or not all(t is None or t.isfinite().all() for t in (gamma, beta)):
        return NotImplemented  # PyTorch joins them first: infinity - infinity
    return F.batch_norm(x, mean, var, gamma, beta, False, 0, attrs.get("eps", 1e-5)).numpy()


def softmax(attrs, *inputs):
    (x,) = wide(inputs, 1)
    if is_empty(x) or torch.isneginf(x).all(attrs.get("axis", 0)).any():
        return NotImplemented  # a row of -inf is NaN in PyTorch
    function = F.softmax if attrs["_op"] == "softmax" else F.log_softmax
    return function(x, attrs.get("axis", 0)).numpy()


# ---- Attention ----------------------------------------------------------------------------------


def attention(attrs, *inputs):
    absent = [a is None for a in list(inputs) + [None] * (7 - len(inputs))]
    other = any(attrs.get(name) for name in ("soft_cap", "window", "page"))
    if other or not all(absent[4:]) or not hasattr(F, "scaled_dot_product_attention"):
        return NotImplemented  # PyTorch 1 has no such function
    mask = None if absent[3] else torch.from_numpy(np.asarray(inputs[3]))
    q, k, v = wide(inputs[:3], 3)
    if attrs.get("layout") == "bshd":
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    n_queries, n_keys = q.shape[2], k.shape[2]
    if is_empty(q, k, v) or (attrs.get("causal") and n_queries > n_keys):
        return NotImplemented  # rows without a visible key are NaN in PyTorch
    bias = torch.zeros(q.shape[0], q.shape[1], n_queries, n_keys, dtype=torch.float64)
    if attrs.get("causal"):
        hidden = torch.ones(n_queries, n_keys, dtype=torch.bool).triu(n_keys - n_queries + 1)
        bias = bias.masked_fill(hidden, -torch.inf)
    if mask is not None:
        bias = bias.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else bias + mask
    if torch.isneginf(bias).all(-1).any():
        return NotImplemented
    repeat = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(repeat, 1) for t in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=attrs.get("scale") or None)
    return (y.transpose(1, 2) if attrs.get("layout") == "bshd" else y).numpy()


# ---- Recurrent networks --------------------------------------------------------------------------


def copy_layer(net, layer, direction, weights):
    """weights: w_ih, w_hh, b_ih, b_hh of all directions; an absent bias is zero."""
    suffix = f"_l{layer}" + ("_reverse" if direction else "")
    for name, value in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights):
        parameter = getattr(net, name + suffix)
        parameter.data = (torch.zeros_like(parameter) if value is None
                          else value[direction].clone())


def recurrent(kind, n_states):
    def run(attrs, *inputs):
        layers, hidden = attrs.get("layers", 1), attrs["hidden"]
        values = wide(inputs, 1 + n_states + 4 * layers)
        x, states, weights = values[0], values[1:1 + n_states], values[1 + n_states:]
        both, batch_first = bool(attrs.get("bidirectional")), bool(attrs.get("batch_first"))
        if is_empty(x, *weights):
            return NotImplemented
        options = {"nonlinearity": "relu"} if attrs.get("relu") else {}
        net = kind(x.shape[2], hidden, layers, batch_first=batch_first, bidirectional=both,
                   dtype=torch.float64, **options)
        for layer in range(layers):
            for direction in range(1 + both):
                copy_layer(net, layer, direction, weights[4 * layer:4 * layer + 4])
        batch = x.shape[0 if batch_first else 1]
        zero = torch.zeros(layers * (1 + both), batch, hidden, dtype=torch.float64)
        states = [zero if state is None else state for state in states]
        time = 1 if batch_first else 0
        if attrs.get("reverse"):
            if layers > 1:
                return NotImplemented
            x = x.flip(time)
        with torch.no_grad():
            y, last = net(x, tuple(states) if n_states == 2 else states[0])
        y = y.flip(time) if attrs.get("reverse") else y
        return tuple(t.numpy() for t in (y, *(last if n_states == 2 else (last,))))
    return run


REFS = {
    "lstm": recurrent(torch.nn.LSTM, 2), "gru": recurrent(torch.nn.GRU, 1),
    "rnn": recurrent(torch.nn.RNN, 1),
    "conv1d": conv(1), "conv2d": conv(2), "conv3d": conv(3), "conv_transpose2d": conv_transpose2d,
    "pool1d": pool(1), "pool2d": pool(2), "pool3d": pool(3),
    "layer_norm": layer_norm, "group_norm": group_norm, "instance_norm": group_norm,
    "batch_norm_inference": batch_norm, "softmax": softmax, "log_softmax": softmax,
    "attention": attention,
}
