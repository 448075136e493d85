# SPDX-License-Identifier: MIT
"""PyTorch's operations in those of rlx, as functions of rlx values, for test_opinfo.py. A function
gives a value, or a list of those that PyTorch returns; Skip is raised for forms that rlx does not
have."""
import itertools
import math

import rlx
from rlx import Value


class Skip(Exception):
    """A form of the operation that rlx does not have."""


OPS = {}


def torch_op(*names):
    def add(function):
        for name in names:
            OPS[name] = function
        return function
    return add


def need(condition, why):
    if not condition:
        raise Skip(why)


def is_float(v):
    return isinstance(v, Value) and v.dtype in ("f64", "f32", "f16", "bf16")


def floats(*values):
    need(all(is_float(v) for v in values if isinstance(v, Value)), "operands of several types")


def axis_of(v, dim):
    return dim % v.ndim if v.ndim else 0


def listed(v):
    return [int(i) for i in (v if isinstance(v, (list, tuple)) else [v])]


def pair(v, n):
    v = listed(v)
    return v * n if len(v) == 1 else v


# ---- Elementwise ---------------------------------------------------------------------------------

def unary(name, *torch_names):
    OPS.update({n: lambda x, name=name: x.op(name) for n in torch_names})


for _name in ("abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 floor log log2 neg "
              "reciprocal rsqrt sigmoid sign sin sinh sqrt tan tanh").split():
    unary(_name, _name)
for _name in "relu silu mish softsign".split():
    unary(_name, f"nn.functional.{_name}")
unary("log_sigmoid", "nn.functional.logsigmoid")
unary("hard_swish", "nn.functional.hardswish")
unary("round", "round")
unary("is_nan", "isnan")
unary("is_inf", "isinf")

OPS.update({
    "square": lambda x: x * x,
    "positive": lambda x: x.op("copy"),
    "clone": lambda x, **_: x.op("copy"),
    "expm1": lambda x: rlx.exp(x) - 1.0,
    "log1p": lambda x: rlx.log(x + 1.0),
    "log10": lambda x: rlx.log(x) * (1 / math.log(10)),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "erfc": lambda x: 1.0 - rlx.erf(x),
    "trunc": lambda x: x - x.op("mod", 1.0),
    "frac": lambda x: x.op("mod", 1.0),
    "nn.functional.tanhshrink": lambda x: x - rlx.tanh(x),
    "nn.functional.relu6": lambda x: rlx.clamp(x, 0.0, 6.0),
    "nn.functional.hardsigmoid": lambda x: x.op("hard_sigmoid", alpha=1 / 6, beta=0.5),
    "nn.functional.selu": lambda x, inplace=False: x.op("selu"),
    })


@torch_op("nn.functional.softplus")
def softplus(x, beta=1.0, threshold=20.0):
    need(threshold >= 20, "a threshold above which it is taken for a line")
    return x.op("softplus") if beta == 1 else (x * float(beta)).op("softplus") / float(beta)


@torch_op("nn.functional.gelu")
def gelu(x, approximate="none"):
    return x.op("gelu" if approximate == "none" else "gelu_tanh")


@torch_op("nn.functional.elu")
def elu(x, alpha=1.0, inplace=False):
    return x.op("elu", alpha=float(alpha))


@torch_op("nn.functional.celu")
def celu(x, alpha=1.0, inplace=False):
    return x.op("celu", alpha=float(alpha))


@torch_op("nn.functional.leaky_relu")
def leaky_relu(x, negative_slope=0.01, inplace=False):
    return x.op("leaky_relu", alpha=float(negative_slope))


@torch_op("nn.functional.threshold")
def threshold(x, threshold, value, inplace=False):
    need(value == 0, "a threshold with a value")
    return x.op("thresholded_relu", alpha=float(threshold))


@torch_op("nn.functional.hardtanh")
def hardtanh(x, min_val=-1.0, max_val=1.0, inplace=False):
    return rlx.clamp(x, float(min_val), float(max_val))


@torch_op("nn.functional.softshrink")
def softshrink(x, lambd=0.5):
    return x - rlx.clamp(x, -float(lambd), float(lambd))


@torch_op("nn.functional.prelu")
def prelu(x, weight):
    need(x.ndim or not weight.ndim, "a vector of weights for a number")
    shape = [1] * x.ndim
    if x.ndim > 1:
        shape[1] = -1
        weight = weight.op("reshape", shape=shape)
    return rlx.where(x > 0.0, x, x * weight)


def same_type(a, b):
    """Both as values of one float type, as PyTorch promotes them."""
    if isinstance(a, Value) and isinstance(b, Value):
        floats(a, b)
        return a, b
    need(not isinstance(a, complex) and not isinstance(b, complex), "complex numbers")
    return a, b


def binary(name, *torch_names, **attributes):
    def function(a, b, **kwargs):
        need(not kwargs.get("rounding_mode"), "rounding of quotients")
        a, b = same_type(a, b)
        alpha = kwargs.get("alpha", 1)
        if alpha != 1:
            b = b * float(alpha) if isinstance(b, Value) else b * alpha
        if not isinstance(a, Value):
            return b._on_right(name, float(a))
        return a.op(name, b if isinstance(b, Value) else float(b), **attributes)
    OPS.update({n: function for n in torch_names})


binary("add", "add", "__radd__")
binary("sub", "sub")
binary("mul", "mul", "__rmul__")
binary("div", "div/no_rounding_mode", "true_divide")
binary("max", "maximum", "max/binary")
binary("min", "minimum", "min/binary")
binary("pow", "pow", "float_power")
binary("atan2", "atan2")
binary("mod", "fmod")
binary("mod", "remainder", "__rmod__x", floored=True)
for _name, _torch in (("eq", "eq"), ("ne", "ne"), ("lt", "lt"), ("le", "le"), ("gt", "gt"),
                      ("ge", "ge")):
    binary(_name, _torch)
OPS["rsub"] = lambda a, b, alpha=1: OPS["sub"](b if isinstance(b, Value) else a.graph.constant(
    [float(b)], a.dtype).op("reshape", shape=[]), a, alpha=alpha)
OPS["__rsub__"] = lambda a, b: OPS["rsub"](a, b)
OPS["__rdiv__"] = lambda a, b: b / a if isinstance(b, Value) else a._on_right("div", float(b))
OPS["__rpow__"] = lambda a, b: b.op("pow", a) if isinstance(b, Value) \
    else a._on_right("pow", float(b))
OPS["hypot"] = lambda a, b: rlx.sqrt(a * a + b * b)
OPS["logaddexp"] = lambda a, b: rlx.maximum(a, b) + (-abs(a - b)).op("softplus")


@torch_op("clamp")
def clamp(x, min=None, max=None):
    if isinstance(min, Value) or isinstance(max, Value):
        floats(*(v for v in (min, max) if v is not None))
        x = x if min is None else rlx.maximum(x, min)
        return x if max is None else rlx.minimum(x, max)
    return rlx.clamp(x, -math.inf if min is None else float(min),
                     math.inf if max is None else float(max))


OPS["clamp_min"] = lambda x, low: rlx.maximum(x, low)
OPS["clamp_max"] = lambda x, high: rlx.minimum(x, high)


@torch_op("where")
def where(a, condition, b):
    a, b = same_type(a, b)
    return rlx.where(condition, a, b)


@torch_op("masked_fill")
def masked_fill(x, mask, value):
    if isinstance(value, Value):
        floats(value)
        return rlx.where(mask, value, x)
    return rlx.where(mask.op("not"), x, float(value))


@torch_op("addcmul")
def addcmul(x, a, b, value=1):
    return (a * b).op("fma", x.graph.constant(float(value), x.dtype), x) if value != 1 \
        else a.op("fma", b, x)


OPS["addcdiv"] = lambda x, a, b, value=1: x + a / b * float(value)
OPS["lerp"] = lambda a, b, weight: a + (b - a) * (weight if isinstance(weight, Value)
                                                  else float(weight))


# ---- Matrices ------------------------------------------------------------------------------------

for _name in ("matmul", "mm", "bmm", "mv"):
    OPS[_name] = lambda a, b: a @ b
OPS["__rmatmul__"] = lambda a, b: b @ a
OPS["dot"] = OPS["inner"] = lambda a, b: a.op("dot_general", b, contract_a=[a.ndim - 1],
                                              contract_b=[b.ndim - 1]) \
    if a.ndim and b.ndim else a * b
OPS["outer"] = lambda a, b: a.op("dot_general", b)
OPS["linalg.multi_dot"] = lambda v: __import__("functools").reduce(lambda a, b: a @ b, v)


@torch_op("addmm", "addmm/decomposed", "baddbmm", "addmv")
def addmm(x, a, b, beta=1.0, alpha=1.0):
    y = a @ b
    return y * float(alpha) if beta == 0 else x * float(beta) + y * float(alpha)


@torch_op("addbmm")
def addbmm(x, a, b, beta=1.0, alpha=1.0):
    y = (a @ b).sum(axis=0) * float(alpha)
    return y if beta == 0 else x * float(beta) + y


@torch_op("addr")
def addr(x, a, b, beta=1.0, alpha=1.0):
    y = a.op("dot_general", b) * float(alpha)
    return y if beta == 0 else x * float(beta) + y


@torch_op("nn.functional.linear")
def linear(x, w, bias=None):
    need(w.ndim == 2, "a weight that is a vector")
    return x.op("matmul", w, bias, trans_b=True)


@torch_op("tensordot")
def tensordot(a, b, dims=2):
    if isinstance(dims, int):
        dims = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    need(all(a.shape[d] == b.shape[e] for d, e in zip(*dims)), "axes that broadcast")
    return a.op("dot_general", b, contract_a=[axis_of(a, d) for d in dims[0]],
                contract_b=[axis_of(b, d) for d in dims[1]])


@torch_op("einsum")
def einsum(operands, equation):
    need(len(operands) == 2 and "..." not in equation and "->" in equation, "other sums")
    left, out = equation.replace(" ", "").split("->")
    p, q = left.split(",")
    need(len(set(p)) == len(p) and len(set(q)) == len(q), "diagonals")
    need(all((c in p and c in q) or c in out for c in p + q), "sums over one operand")
    both = [c for c in p if c in q and c in out]
    gone = [c for c in p if c in q and c not in out]
    y = operands[0].op("dot_general", operands[1], batch_a=[p.index(c) for c in both],
                       batch_b=[q.index(c) for c in both], contract_a=[p.index(c) for c in gone],
                       contract_b=[q.index(c) for c in gone])
    have = both + [c for c in p if c not in q] + [c for c in q if c not in p]
    return y.op("transpose", perm=[have.index(c) for c in out]) if out else y


# ---- Norms ---------------------------------------------------------------------------------------

def over_last(x, shape, name, weights, eps):
    shape = listed(shape)
    need(eps > 0, "an eps that is not above 0")
    return x.op(name, *weights, axis=-len(shape), eps=float(eps))


@torch_op("nn.functional.layer_norm")
def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    return over_last(x, shape, "layer_norm", [weight, bias], eps)


@torch_op("nn.functional.rms_norm")
def rms_norm(x, shape, weight=None, eps=None):
    return over_last(x, shape, "rms_norm", [weight], 2.220446049250313e-16 if eps is None else eps)


@torch_op("nn.functional.group_norm")
def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    need(eps > 0, "an eps that is not above 0")
    return x.op("group_norm", weight, bias, groups=groups, eps=float(eps))


@torch_op("nn.functional.instance_norm")
def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None,
                  use_input_stats=True, momentum=0.1, eps=1e-5, **_):
    need(use_input_stats and running_mean is None, "running statistics")
    return x.op("instance_norm", weight, bias, eps=float(eps))


@torch_op("nn.functional.batch_norm")
def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    need(not training and mean is not None, "statistics of the batch")
    need(x.ndim > 1, "a vector")
    return x.op("batch_norm_inference", weight, bias, mean, var, eps=float(eps))


OPS["softmax"] = lambda x, dim=-1, **k: ranked(x).op("softmax", axis=dim).op(
    "reshape", shape=list(x.shape))
OPS["log_softmax"] = lambda x, dim=-1, **k: ranked(x).op("log_softmax", axis=dim).op(
    "reshape", shape=list(x.shape))
OPS["nn.functional.softmin"] = lambda x, dim=-1, **k: ranked(-x).op("softmax", axis=dim).op(
    "reshape", shape=list(x.shape))


def ranked(x):
    """A number as a vector."""
    return x if x.ndim else x.op("reshape", shape=[1])


@torch_op("nn.functional.normalize")
def normalize(x, p=2.0, dim=1, eps=1e-12):
    need(p == 2, "other norms")
    return x / rlx.maximum(x.op("reduce_l2", axes=[dim], keepdims=True), float(eps))


@torch_op("nn.functional.scaled_dot_product_attention")
def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    need(dropout_p == 0, "dropout")
    need(q.dtype != "f64", "attention in f64")
    need(q.ndim == 4, "attention of rank 3")
    need(not is_causal or q.shape[2] == k.shape[2], "causal from the first key on")
    return q.op("attention", k, v, attn_mask, causal=is_causal, scale=scale)


@torch_op("nn.functional.glu")
def glu(x, dim=-1):
    half = x.shape[axis_of(x, dim)] // 2
    a, b = x.graph.op("split", x, axis=dim, sizes=[half, half])
    return a * rlx.sigmoid(b)


# ---- Shape ---------------------------------------------------------------------------------------

@torch_op("reshape", "view", "_unsafe_view")
def reshape(x, *shape):
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    need(all(isinstance(n, int) for n in shape), "a view as another type")
    return x.op("reshape", shape=list(shape))


OPS["reshape_as"] = OPS["view_as"] = lambda x, y: x.op("reshape", shape=list(y.shape))
OPS["ravel"] = lambda x: x.op("reshape", shape=[-1])
OPS["flatten"] = lambda x, start_dim=0, end_dim=-1: x.op("reshape", shape=flat(x, start_dim,
                                                                               end_dim))


def flat(x, start, end):
    if not x.ndim:
        return [1]
    start, end = axis_of(x, start), axis_of(x, end)
    return [*x.shape[:start], math.prod(x.shape[start:end + 1]), *x.shape[end + 1:]]


@torch_op("squeeze", "squeeze/multiple")
def squeeze(x, dim=None):
    dims = range(x.ndim) if dim is None else [axis_of(x, d) for d in listed(dim)]
    return x.op("reshape", shape=[n for i, n in enumerate(x.shape) if i not in dims or n != 1])


@torch_op("unsqueeze")
def unsqueeze(x, dim):
    shape = list(x.shape)
    shape.insert(dim % (x.ndim + 1), 1)
    return x.op("reshape", shape=shape)


@torch_op("unflatten")
def unflatten(x, dim, sizes):
    dim = axis_of(x, dim)
    return x.op("reshape", shape=[*x.shape[:dim], *sizes, *x.shape[dim + 1:]])


@torch_op("permute")
def permute(x, dims):
    return x.op("transpose", perm=[axis_of(x, d) for d in dims]) if x.ndim else x


@torch_op("transpose")
def transpose(x, a, b):
    perm = list(range(x.ndim))
    if perm:
        a, b = axis_of(x, a), axis_of(x, b)
        perm[a], perm[b] = perm[b], perm[a]
    return permute(x, perm)


OPS["t"] = OPS["T"] = lambda x: permute(x, range(x.ndim - 1, -1, -1))
OPS["mT"] = lambda x: transpose(x, -1, -2)


@torch_op("movedim")
def movedim(x, source, target):
    source = [axis_of(x, d) for d in listed(source)]
    target = [axis_of(x, d) for d in listed(target)]
    rest = iter(d for d in range(x.ndim) if d not in source)
    return permute(x, [source[target.index(i)] if i in target else next(rest)
                       for i in range(x.ndim)])


@torch_op("narrow")
def narrow(x, dim, start, length):
    need(isinstance(start, int), "a start that is a tensor")
    dim = axis_of(x, dim)
    return x.op("narrow", axis=dim, start=start % (x.shape[dim] + 1) if start >= 0
                else start + x.shape[dim], length=length)


@torch_op("select")
def select(x, dim, index):
    dim = axis_of(x, dim)
    y = x.op("narrow", axis=dim, start=index % x.shape[dim], length=1)
    return y.op("reshape", shape=[n for i, n in enumerate(x.shape) if i != dim])


@torch_op("slice")
def slice_(x, dim=0, start=None, end=None, step=1):
    return x.op("slice", axes=[dim], starts=[0 if start is None else start],
                stops=[2 ** 40 if end is None else end], steps=[step])


@torch_op("expand", "broadcast_to")
def expand(x, *shape):
    shape = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    lead = len(shape) - x.ndim
    return x.op("expand", shape=[x.shape[i - lead] if n == -1 else n
                                 for i, n in enumerate(shape)])


OPS["expand_as"] = lambda x, y: x.op("expand", shape=list(y.shape))


@torch_op("cat")
def cat(values, dim=0, **_):
    values = [v for v in values if v.shape != (0,)]
    floats(*values)
    need(values, "nothing but empty tensors")
    return values[0].op("concat", *values[1:], axis=dim)


@torch_op("stack")
def stack(values, dim=0):
    return cat([unsqueeze(v, dim) for v in values], dim)


OPS["hstack"] = lambda v: cat([ranked(x) for x in v], 0 if v[0].ndim < 2 else 1)
OPS["vstack"] = lambda v: cat([x if x.ndim > 1 else x.op("reshape", shape=[1, -1]) for x in v], 0)


def pieces(x, dim, sizes):
    return list(x.graph.op("split", x, axis=dim, sizes=list(sizes)))


@torch_op("split", "split/list_args", "split_with_sizes", "unsafe_split")
def split(x, sizes, dim=0):
    n = x.shape[axis_of(x, dim)]
    if isinstance(sizes, int):
        sizes = [min(sizes, n - i) for i in range(0, n, sizes)]
    return pieces(x, dim, sizes)


@torch_op("chunk", "unsafe_chunk")
def chunk(x, chunks, dim=0):
    return split(x, max(1, -(-x.shape[axis_of(x, dim)] // chunks)), dim)


@torch_op("unbind")
def unbind(x, dim=0):
    return [select(x, dim, i) for i in range(x.shape[axis_of(x, dim)])]


@torch_op("tile", "repeat")
def repeat(x, *sizes):
    sizes = list(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)
    sizes = [1] * (x.ndim - len(sizes)) + sizes
    x = x.op("reshape", shape=[1] * (len(sizes) - x.ndim) + list(x.shape))
    return x.op("tile", repeats=sizes) if sizes else x


@torch_op("flip")
def flip(x, dims):
    return x.op("reverse", axes=listed(dims)) if dims and x.ndim else x.op("copy")


OPS["fliplr"] = lambda x: x.op("reverse", axes=[1])
OPS["flipud"] = lambda x: x.op("reverse", axes=[0])


@torch_op("roll")
def roll(x, shifts, dims=()):
    if not dims and dims != 0:
        return x.op("reshape", shape=[-1]).op("roll", axis=0, shift=listed(shifts)[0]).op(
            "reshape", shape=list(x.shape))
    for shift, dim in zip(listed(shifts), listed(dims)):
        x = x.op("roll", axis=dim, shift=shift)
    return x


OPS["tril"] = lambda x, diagonal=0: x.op("trilu", upper=False, k=diagonal)
OPS["triu"] = lambda x, diagonal=0: x.op("trilu", upper=True, k=diagonal)


def padded(x, pad, mode, value=None):
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = pad[2 * i], pad[2 * i + 1]
    need(mode == "constant" or all(n + min(b, 0) + min(a, 0) > 0
                                   for n, b, a in zip(x.shape, before, after)),
         "an axis that is cropped to nothing and then padded")
    return x.op("pad", before=before, after=after, mode=mode,
                value=None if value is None else float(value))


for _torch, _mode in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"),
                      ("replicate_negative", "edge"), ("circular", "wrap")):
    OPS["nn.functional.pad/" + _torch] = \
        lambda x, pad, mode=None, value=None, _mode=_mode: padded(x, pad, _mode, value)
OPS["constant_pad_nd"] = lambda x, pad, value=0.0: padded(x, pad, "constant", value)


@torch_op("nn.functional.pixel_shuffle")
def pixel_shuffle(x, upscale_factor):
    r = upscale_factor
    *lead, c, h, w = x.shape
    y = x.op("reshape", shape=[math.prod(lead), c // r ** 2, r, r, h, w])
    y = y.op("transpose", perm=[0, 1, 4, 2, 5, 3])
    return y.op("reshape", shape=[*lead, c // r ** 2, h * r, w * r])


# ---- Index ---------------------------------------------------------------------------------------

@torch_op("take_along_dim")
def take_along_dim(x, index, dim=None):
    return gather(x, dim, index, along=True)


@torch_op("gather")
def gather(x, dim, index, along=False):
    need(dim is not None and x.ndim == index.ndim > 0, "indices of another rank")
    if along:
        need(all(i == n for k, (i, n) in enumerate(zip(index.shape, x.shape))
                 if k != dim % x.ndim), "indices that broadcast")
    lead = [[0, n] for n in index.shape]
    for k in range(x.ndim):
        if k != dim % x.ndim and index.shape[k] < x.shape[k]:
            x = x.op("narrow", axis=k, start=0, length=lead[k][1])
    return x.op("gather_elements", index, axis=dim)


@torch_op("index_select")
def index_select(x, dim, index):
    need(x.ndim > 0, "a number")
    return x.op("gather", ranked(index), axis=dim)


@torch_op("nn.functional.embedding")
def embedding(weight, index, padding_idx=None, max_norm=None, scale_grad_by_freq=False,
              sparse=False, **_):
    need(padding_idx is None and max_norm is None and not scale_grad_by_freq and not sparse,
         "rows with rules of their own")
    need(weight.ndim == 2, "a table that is none")
    return weight.op("gather", index, axis=0)


@torch_op("index_add")
def index_add(x, dim, index, source, alpha=1):
    need(x.ndim > 0, "a number")
    need(source.ndim == x.ndim, "a source that is a number")
    return x.op("scatter_add", ranked(index), source * float(alpha), axis=dim)


MODES = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
         "amin": "min"}


@torch_op("scatter", "scatter_add", "scatter_reduce/sum", "scatter_reduce/amax",
          "scatter_reduce/amin", "scatter_reduce/prod")
def scatter(x, dim, index, src, mode=None, reduce=None, include_self=True):
    mode = mode or reduce
    need(include_self, "without the elements themselves")
    need(isinstance(src, Value), "updates that are one number")
    need(x.ndim == index.ndim == src.ndim > 0, "numbers")
    need(all(n <= m for k, (n, m) in enumerate(zip(index.shape, x.shape)) if k != dim % x.ndim),
         "more indices than elements")
    for k in range(x.ndim):
        if src.shape[k] > index.shape[k]:
            src = src.op("narrow", axis=k, start=0, length=index.shape[k])
    return x.op("scatter_elements", index, src, axis=dim, mode=MODES.get(mode, "none"))


OPS["scatter_add"] = lambda x, dim, index, src: scatter(x, dim, index, src, "sum")


# ---- Reductions and order ------------------------------------------------------------------------

def over(x, dim):
    if dim is None or dim == ():
        return list(range(x.ndim))
    return [axis_of(x, d) for d in listed(dim)]


def reduction(name, *torch_names, squared=False):
    def function(x, dim=None, keepdim=False, dtype=None, **_):
        axes = over(x, dim)
        if not x.ndim:
            return x.op("reshape", shape=[1]).op(name, axes=[0], keepdims=False)
        return x.op(name, axes=axes, keepdims=bool(keepdim))
    OPS.update({n: function for n in torch_names})


reduction("reduce_sum", "sum")
reduction("reduce_mean", "mean")
reduction("reduce_max", "amax", "max/reduction_no_dim")
reduction("reduce_min", "amin", "min/reduction_no_dim")
reduction("reduce_prod", "prod")
reduction("reduce_log_sum_exp", "logsumexp")


@torch_op("norm", "linalg.vector_norm")
def norm(x, ord=2, dim=None, keepdim=False, p=None, dtype=None):
    ord = ord if p is None else p
    need(ord in (1, 2) and x.ndim, "other norms")
    return x.op("reduce_l1" if ord == 1 else "reduce_l2", axes=over(x, dim), keepdims=keepdim)


def spread(x, dim=None, unbiased=None, keepdim=False, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = over(x, dim)
    need(x.ndim, "the variance of one number")
    c = 1 if unbiased is None and correction is None else correction if correction is not None \
        else int(unbiased)
    n = math.prod(x.shape[a] for a in axes)
    need(n > c, "fewer numbers than the correction")
    d = x - x.op("reduce_mean", axes=axes, keepdims=True)
    return (d * d).op("reduce_sum", axes=axes, keepdims=bool(keepdim)) / float(n - c)


OPS["var"] = OPS["var/unbiased"] = spread
OPS["std"] = OPS["std/unbiased"] = lambda *a, **k: rlx.sqrt(spread(*a, **k))


def running(name, *torch_names):
    def function(x, dim, dtype=None):
        return ranked(x).op(name, axis=dim).op("reshape", shape=list(x.shape))
    OPS.update({n: function for n in torch_names})


running("cumsum", "cumsum")
running("cumprod", "cumprod")


for _name in ("argmax", "argmin"):
    def _arg(x, dim=None, keepdim=False, _name=_name):
        need(dim is not None and x.ndim, "places in all of a tensor")
        return x.op(_name, axis=dim, keepdims=bool(keepdim))
    OPS[_name] = _arg


@torch_op("topk")
def topk(x, k, dim=-1, largest=True, sorted=True):
    need(x.ndim and k, "a number, or none")
    return list(x.graph.op("top_k", x, k=k, axis=dim, smallest=not largest))


@torch_op("sort")
def sort(x, dim=-1, descending=False, stable=False):
    need(x.ndim, "a number")
    return [x.op("sort", axis=dim, descending=descending),
            x.op("argsort", axis=dim, descending=descending)]


OPS["msort"] = lambda x: ranked(x).op("sort", axis=0).op("reshape", shape=list(x.shape))


@torch_op("argsort")
def argsort(x, dim=-1, descending=False, stable=False):
    return sort(x, dim, descending)[1]


# ---- Convolutions, pools, images -----------------------------------------------------------------

def batched(x, rank):
    """With an axis for the batch, and what takes that away."""
    if x.ndim == rank + 2:
        return x, lambda y: y
    return (x.op("reshape", shape=[1, *x.shape]),
            lambda y: y.op("reshape", shape=list(y.shape[1:])))


def pads_of(padding, rank, kernel, dilation, stride):
    if padding == "valid":
        return [0] * 2 * rank
    if padding == "same":
        whole = [d * (k - 1) for d, k in zip(dilation, kernel)]
        return [n // 2 for n in whole] + [n - n // 2 for n in whole]
    return pair(padding, rank) * 2


def conv(rank):
    def function(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        x, back = batched(x, rank)
        stride, dilation = pair(stride, rank), pair(dilation, rank)
        pads = pads_of(padding, rank, w.shape[2:], dilation, stride)
        return back(x.op(f"conv{rank}d", w, bias, stride=stride, pads=pads, dilation=dilation,
                         groups=groups))
    return function


for _rank in (1, 2, 3):
    OPS[f"nn.functional.conv{_rank}d"] = conv(_rank)


@torch_op("nn.functional.conv_transpose2d")
def conv_transpose2d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                     dilation=1):
    x, back = batched(x, 2)
    return back(x.op("conv_transpose2d", w, bias, stride=pair(stride, 2),
                     pads=pair(padding, 2) * 2, output_pad=pair(output_padding, 2),
                     groups=groups, dilation=pair(dilation, 2)))


def pool(kind, rank):
    def function(x, kernel_size, stride=None, padding=0, ceil_mode=False,
                 count_include_pad=True, divisor_override=None, dilation=1,
                 return_indices=False, **_):
        need(divisor_override is None and not return_indices, "divisors, or places of maxima")
        x, back = batched(x, rank)
        kernel = pair(kernel_size, rank)
        more = {"count_include_pad": count_include_pad} if kind == "average" else {}
        stride = kernel if stride is None or stride == () else pair(stride, rank)
        return back(x.op(f"pool{rank}d", kind=kind, kernel=kernel, stride=stride,
                         pads=pair(padding, rank) * 2, dilation=pair(dilation, rank),
                         ceil_mode=ceil_mode, **more))
    return function


for _rank in (1, 2, 3):
    OPS[f"nn.functional.avg_pool{_rank}d"] = pool("average", _rank)
    OPS[f"nn.functional.max_pool{_rank}d"] = \
        lambda x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, \
        return_indices=False, _f=pool("max", _rank): _f(
            x, kernel_size, stride, padding, ceil_mode, dilation=dilation,
            return_indices=return_indices)


@torch_op("nn.functional.unfold")
def unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    x, back = batched(x, 2)
    return back(x.op("im2col", kernel=pair(kernel_size, 2), stride=pair(stride, 2),
                     pads=pair(padding, 2) * 2, dilation=pair(dilation, 2)))


def interpolate(mode, nearest):
    def function(x, size=None, scale_factor=None, mode_=None, align_corners=None,
                 recompute_scale_factor=None, antialias=False, **_):
        rank = x.ndim - 2
        scale = [0.0] * x.ndim
        if size is not None:
            sizes = pair(size, rank)
        else:
            factors = [float(f) for f in (scale_factor if isinstance(scale_factor, (list, tuple))
                                          else [scale_factor] * rank)]
            sizes = [math.floor(n * f) for n, f in zip(x.shape[2:], factors)]
            if not recompute_scale_factor:
                scale = [0.0, 0.0, *factors]
        coord = "asymmetric" if nearest == "floor" else "align_corners" if align_corners \
            else "half_pixel"
        return x.op("resize", sizes=[*x.shape[:2], *sizes], mode=mode, coord=coord,
                    nearest=nearest, scale=scale if any(scale) else None,
                    antialias=bool(antialias))
    return function


for _torch, _mode, _nearest in (("nearest", "nearest", "floor"),
                                ("nearest-exact", "nearest", "round_prefer_ceil"),
                                ("linear", "linear", None), ("bilinear", "linear", None),
                                ("trilinear", "linear", None), ("bicubic", "cubic", None)):
    OPS["nn.functional.interpolate/" + _torch] = \
        lambda x, size=None, scale_factor=None, mode=None, *more, \
        _f=interpolate(_mode, _nearest), **k: _f(x, size, scale_factor, mode, *more, **k)


# ---- Fourier transforms: complex numbers have a last axis of size 2 ------------------------------

def fft(name):
    def function(x, n=None, dim=-1, norm=None):
        return x.op(name, axis=dim, n=n, norm=norm or "backward")
    return function


OPS["fft.rfft"] = fft("rfft")
for _name in ("fft", "ifft", "irfft"):
    OPS["fft." + _name] = fft(_name)
COMPLEX = {"fft.fft", "fft.ifft", "fft.irfft"}  # whose operand is complex


# ---- Losses --------------------------------------------------------------------------------------

def loss(function):
    def reduced(x, target, *more, reduction="mean", weight=None, **kwargs):
        need(reduction == "mean" and weight is None, "losses that are no mean")
        return function(x, target, *more, **kwargs)
    return reduced


OPS["nn.functional.mse_loss"] = loss(rlx.mse_loss)
OPS["nn.functional.l1_loss"] = loss(rlx.l1_loss)
OPS["nn.functional.huber_loss"] = loss(lambda x, t, delta=1.0: rlx.huber_loss(x, t, float(delta)))


@torch_op("nn.functional.smooth_l1_loss")
def smooth_l1_loss(x, target, reduction="mean", beta=1.0):
    need(reduction == "mean" and beta > 0, "losses that are no mean")
    return rlx.huber_loss(x, target, float(beta)) / float(beta)


@torch_op("nn.functional.binary_cross_entropy_with_logits")
def bce(x, target, weight=None, reduction="mean", pos_weight=None, **_):
    need(reduction == "mean" and weight is None and pos_weight is None, "losses that are no mean")
    return rlx.bce_loss(x, target)


@torch_op("nn.functional.kl_div")
def kl_div(x, target, reduction="mean", log_target=False):
    need(reduction == "batchmean" and not log_target and x.ndim == 2, "losses that are no mean")
    return rlx.kl_loss(x, target)


@torch_op("nn.functional.cross_entropy")
def cross_entropy(x, target, weight=None, reduction="mean", ignore_index=-100,
                  label_smoothing=0.0, **_):
    need(reduction == "mean" and weight is None, "losses that are no mean")
    need(isinstance(target, Value) and not is_float(target), "targets that are probabilities")
    if x.ndim > 2:
        x = x.op("transpose", perm=[0, *range(2, x.ndim), 1])
    if ignore_index >= 0:
        ignored = target.graph.constant(ignore_index, target.dtype)
        target = rlx.where(target == ignored, target * 0 - 1, target)
    return rlx.cross_entropy(x, target, smoothing=label_smoothing)


def names_of(op):
    """How an OpInfo is found in OPS."""
    variant = getattr(op, "variant_test_name", "")
    return f"{op.name}/{variant}" if variant else op.name


def flatten(value):
    """Values of lists within lists."""
    if isinstance(value, (list, tuple)):
        return list(itertools.chain.from_iterable(flatten(v) for v in value))
    return [value]
