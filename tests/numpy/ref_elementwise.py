# SPDX-License-Identifier: MIT
"""References of the elementwise operations, with NumPy and SciPy only.

Floats are computed in float64 and rounded to the type of the result; integers wrap as NumPy's do.
"""
import re

import numpy as np
from scipy import special

INT_TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
             "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


def round_bf16(x):
    """float64 to the nearest bf16 (ties to even), as float32, scaled by exact powers of two."""
    x = np.asarray(x, np.float64)
    mantissa, exponent = np.frexp(x)
    exponent = np.maximum(exponent, -125)  # subnormals share the exponent of the smallest normal
    with np.errstate(all="ignore"):
        y = np.ldexp(np.rint(np.ldexp(x, 8 - exponent)), exponent - 8)
    y = np.where(np.isfinite(x), y, x)
    big = np.abs(y) >= 2.0**128
    return np.where(big, np.copysign(np.inf, y), y).astype(np.float32)


def to_float_type(x, name):
    if name == "f64":  # also between the instructions of a region
        return np.asarray(x, np.float64)
    if name == "bf16":
        return round_bf16(x)
    return np.asarray(x).astype(np.float16 if name == "f16" else np.float32)


def finish(attrs, y):
    """Rounds or wraps to the type of the result."""
    name = attrs["_out"][0]
    if name == "bool":
        return np.asarray(y).astype(bool)
    if name in INT_TYPES:
        return np.asarray(y).astype(INT_TYPES[name])
    return to_float_type(y, name)


def is_float(name):
    return name in ("f64", "f32", "f16", "bf16")


def quiet(fn):
    def wrapped(attrs, *x):
        with np.errstate(all="ignore"):
            return finish(attrs, fn(attrs, *x))
    return wrapped


# ---- one operand --------------------------------------------------------------------------------

def gelu_tanh(x):
    # (1 + tanh(u)) / 2 is expit(2 u), which does not cancel where x is negative.
    return x * special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


FLOAT_UNARY = {
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_tanh": gelu_tanh,
    "silu": lambda x: x * special.expit(x),
    "sigmoid": special.expit,
    "tanh": np.tanh, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan,
    "round": np.rint, "reciprocal": np.reciprocal, "floor": np.floor, "ceil": np.ceil,
    "softplus": lambda x: np.logaddexp(0, x),
    "erf": special.erf,
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp2": np.exp2, "log2": np.log2,
    "is_nan": np.isnan, "is_inf": np.isinf,
}

PARAMETRIC = {
    "elu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(x)),
    "celu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(x / a)),
    "leaky_relu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "selu": lambda x, a, b: b * np.where(x > 0, x, a * np.expm1(x)),
    "hard_sigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "thresholded_relu": lambda x, a, b: np.where(x > a, x, 0),
    "soft_cap": lambda x, a, b: a * np.tanh(x / a),
}

# Also defined for integers: NumPy's functions wrap as ours do.
ANY_UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "relu": lambda x: np.maximum(x, np.zeros_like(x)),
    "not": lambda x: np.logical_not(x) if x.dtype == bool else np.invert(x),
}


def clamp(attrs, x):
    lo, hi = attrs.get("lo", 0.0), attrs.get("hi", 0.0)
    if attrs["_in"][0] in INT_TYPES:
        info = np.iinfo(x.dtype)
        lo, hi = (info.min if b <= info.min else info.max if b >= info.max else int(b)
                  for b in (lo, hi))
        return np.minimum(np.maximum(x, x.dtype.type(lo)), x.dtype.type(hi))
    return np.minimum(np.maximum(x.astype(np.float64), lo), hi)


# ---- two operands -------------------------------------------------------------------------------

def exact(fn, a, b):
    """fn on Python integers, wrapped to 64 bits."""
    def wrapped(x, y):
        z = fn(int(x), int(y)) & (2**64 - 1)
        return z - 2**64 if z >= 2**63 else z
    a, b = np.broadcast_arrays(a, b)
    out = [wrapped(x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist())]
    return np.array(out, np.int64).reshape(a.shape)


def truncated_quotient(x, y):
    if y == 0:
        return 0
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


def integer_power(x, y):
    if y >= 0:
        return pow(x, y, 2**64)
    return x ** (-y % 2) if x in (1, -1) else 0


def div(attrs, a, b):
    if is_float(attrs["_in"][0]):
        return np.true_divide(a.astype(np.float64), b.astype(np.float64))
    return exact(truncated_quotient, a, b)


def power(attrs, a, b):
    if is_float(attrs["_in"][0]):
        return np.power(a.astype(np.float64), b.astype(np.float64))
    return exact(integer_power, a, b)


def mod(attrs, a, b):
    fn = np.mod if attrs.get("floored") else np.fmod
    if is_float(attrs["_in"][0]):
        a, b = a.astype(np.float64), b.astype(np.float64)
    return fn(a, b)


def shift(left):
    def fn(x, count, bits):
        if count < 0:
            return 0
        if count >= bits:
            return -1 if x < 0 and not left else 0
        return x << count if left else x >> count

    def run(attrs, a, b):
        return exact(lambda x, y: fn(x, y, 8 * a.dtype.itemsize), a, b)
    return run


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "atan2": np.arctan2,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}


# ---- the others ---------------------------------------------------------------------------------

def fma(attrs, a, b, c):
    return a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)


def cast(attrs, x):
    to = attrs["to"]
    if to == "bool":
        return x != 0
    if to not in INT_TYPES:
        if is_float(attrs["_in"][0]):
            return x.astype(np.float64)
        # One rounding: to f32 and f64 straight from the integer; f16 and bf16 have few enough bits.
        if to in ("f32", "f64"):
            return x.astype(np.float32 if to == "f32" else np.float64)
        return x.astype(np.longdouble).astype(np.float64)
    if not is_float(attrs["_in"][0]):
        return x.astype(INT_TYPES[to])
    dtype = INT_TYPES[to]
    info = np.iinfo(dtype)
    y = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0, posinf=np.inf, neginf=-np.inf))
    inside = (y > float(info.min)) & (y < float(info.max))
    z = np.where(inside, y, 0).astype(dtype)
    ends = np.where(y <= info.min, dtype(info.min), np.where(y > 0, dtype(info.max), dtype(0)))
    return np.where(inside, z, ends)


def widen(fn):
    """fn on float64 where the operands are floats, on the type itself otherwise."""
    def run(attrs, *x):
        if is_float(attrs["_in"][0]):
            x = [v.astype(np.float64) for v in x]
        return fn(*x)
    return run


def with_parameters(fn):
    return lambda attrs, x: fn(x.astype(np.float64), attrs.get("alpha", 0), attrs.get("beta", 0))


REFS = {"clamp": clamp, "div": div, "pow": power, "mod": mod, "shl": shift(True),
        "shr": shift(False), "fma": fma, "cast": cast,
        "where": lambda attrs, cond, a, b: np.where(cond, a, b)}
REFS.update({name: widen(fn) for table in (FLOAT_UNARY, ANY_UNARY, BINARY)
             for name, fn in table.items()})
REFS.update({name: with_parameters(fn) for name, fn in PARAMETRIC.items()})
REFS = {name: quiet(fn) for name, fn in REFS.items()}


# ---- regions ------------------------------------------------------------------------------------

STATEMENT = re.compile(r"t(\d+) = (\w+)\((.*?)\): (\w+)")


def region_attributes(op, parameters):
    if op == "clamp":
        return {"lo": parameters[0], "hi": parameters[1]}
    if op == "mod":
        return {"floored": parameters[0] != 0}
    return dict(zip(("alpha", "beta"), parameters))


def region(attrs, *inputs):
    """attrs["body"] is the text of the program: t0 = add(a0, a1): f32; ...; return t0."""
    body, result = attrs["body"].rstrip("} ").split("return ")
    values = {f"a{i}": (x, t) for i, (x, t) in enumerate(zip(inputs, attrs["_in"]))}
    for index, op, arguments, dtype in STATEMENT.findall(body):
        words = [w.strip() for w in arguments.split(",")]
        args = [values[w] for w in words if w in values]
        own = region_attributes(op, [float(w) for w in words if w not in values])
        unrounded = is_float(dtype) and op != "cast"
        own.update(_in=[t for _, t in args], _out=["f64" if unrounded else dtype], to=dtype)
        if op == "where":
            own["_in"] = own["_in"][1:]
        values[f"t{index}"] = (REFS[op](own, *(x for x, _ in args)), dtype)
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    results = [values[w.strip()] for w in result.split(",")]
    with np.errstate(all="ignore"):
        rounded = [to_float_type(x, t) if is_float(t) else x for x, t in results]
    return tuple(np.broadcast_to(x, shape) for x in rounded)


REFS["region"] = region
