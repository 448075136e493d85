# SPDX-License-Identifier: MIT
"""Recurrent networks and state space models with NumPy, in float64, one token after the other."""
import numpy as np
from scipy.special import expit


def wide(inputs, n):
    """The inputs in float64, n of them; absent ones are None."""
    padded = list(inputs) + [None] * (n - len(inputs))
    return [None if a is None else np.asarray(a, np.float64) for a in padded]


# ---- Recurrent networks --------------------------------------------------------------------------


def lstm_step(attrs, from_x, from_h, states):
    i, f, g, o = np.split(from_x + from_h, 4, -1)
    c = expit(f) * states[1] + expit(i) * np.tanh(g)
    return [expit(o) * np.tanh(c), c]


def gru_step(attrs, from_x, from_h, states):
    (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3, -1), np.split(from_h, 3, -1)
    r, z = expit(xr + hr), expit(xz + hz)
    return [(1 - z) * np.tanh(xn + r * hn) + z * states[0]]


def rnn_step(attrs, from_x, from_h, states):
    v = from_x + from_h
    return [np.maximum(v, 0) if attrs.get("relu") else np.tanh(v)]


def one_direction(attrs, step, x, weights, states, backward):
    """x [S, B, I] -> y [S, B, H] and the last states [B, H]."""
    w_ih, w_hh, b_ih, b_hh = weights
    order = range(len(x) - 1, -1, -1) if backward else range(len(x))
    y = np.zeros((*x.shape[:2], w_hh.shape[1]))
    for t in order:
        states = step(attrs, x[t] @ w_ih.T + b_ih, states[0] @ w_hh.T + b_hh, states)
        y[t] = states[0]
    return y, states


def recurrent(step, n_states):
    def run(attrs, *inputs):
        layers, dirs = attrs.get("layers", 1), 2 if attrs.get("bidirectional") else 1
        values = wide(inputs, 1 + n_states + 4 * layers)
        x, first, weights = values[0], values[1:1 + n_states], values[1 + n_states:]
        if attrs.get("batch_first"):
            x = x.swapaxes(0, 1)
        shape = (layers * dirs, x.shape[1], weights[1].shape[2])
        first = [np.zeros(shape) if s is None else s for s in first]
        last = [np.zeros(shape) for s in first]
        for layer in range(layers):
            parts = []
            for d in range(dirs):
                own = [0.0 if w is None else w[d] for w in weights[4 * layer:4 * layer + 4]]
                slot = layer * dirs + d
                y, states = one_direction(attrs, step, x, own, [s[slot] for s in first],
                                          attrs.get("reverse") or d == 1)
                parts.append(y)
                for target, state in zip(last, states):
                    target[slot] = state
            x = np.concatenate(parts, -1)
        return (x.swapaxes(0, 1) if attrs.get("batch_first") else x, *last)
    return run


# ---- State space models --------------------------------------------------------------------------


def selective_scan(attrs, *inputs):
    x, delta, a, b, c, skip, h = wide(inputs, 7)
    h = np.zeros((x.shape[0], *a.shape)) if h is None else h
    y = np.zeros_like(x)
    for t in range(x.shape[1]):
        dt = delta[:, t, :, None]
        h = np.exp(dt * a) * h + dt * b[:, t, None, :] * x[:, t, :, None]
        y[:, t] = np.sum(c[:, t, None, :] * h, -1)
    return (y if skip is None else y + skip * x), h


def mamba2(attrs, *inputs):
    x, dt, a, b, c, skip, s = wide(inputs, 7)
    repeat = x.shape[2] // b.shape[2]
    b, c = np.repeat(b, repeat, 2), np.repeat(c, repeat, 2)
    s = np.zeros((x.shape[0], *x.shape[2:], b.shape[3])) if s is None else s
    y = np.zeros_like(x)
    for t in range(x.shape[1]):
        s = (np.exp(dt[:, t] * a)[..., None, None] * s
             + np.einsum("bh,bhp,bhn->bhpn", dt[:, t], x[:, t], b[:, t]))
        y[:, t] = np.einsum("bhpn,bhn->bhp", s, c[:, t])
    return (y if skip is None else y + skip[:, None] * x), s


def gated_delta_net(attrs, *inputs):
    q, k, v, gate, beta, s = wide(inputs, 6)
    s = np.zeros((*q.shape[:1], q.shape[2], q.shape[3], v.shape[3])) if s is None else s
    gate = gate[..., None] if gate.ndim == 3 else gate
    y = np.zeros_like(v)
    for t in range(q.shape[1]):
        s = np.exp(gate[:, t])[..., None] * s
        known = np.einsum("bhnp,bhn->bhp", s, k[:, t])
        d = (v[:, t] - known) * beta[:, t, :, None]
        s = s + np.einsum("bhn,bhp->bhnp", k[:, t], d)
        y[:, t] = np.einsum("bhnp,bhn->bhp", s, q[:, t]) / np.sqrt(q.shape[3])
    return y, s


REFS = {
    "lstm": recurrent(lstm_step, 2), "gru": recurrent(gru_step, 1), "rnn": recurrent(rnn_step, 1),
    "selective_scan": selective_scan, "mamba2": mamba2, "gated_delta_net": gated_delta_net,
}
