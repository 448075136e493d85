# SPDX-License-Identifier: MIT
"""The pictures of a comparison, as SVG: speed against size under the roof, the ratio to each peer
with its spread, and the time of models by kernel. Every mark has its numbers as a tooltip."""
import math
from xml.sax.saxutils import escape, quoteattr

from report import shown_ratio, short_time, verdict
from workers import SHOWN

COLOURS = {"rlx": "#1d4ed8", "numpy": "#d97706", "onnxruntime": "#7c3aed", "torch": "#dc2626",
           "llama.cpp": "#059669"}
SLICES = ("#1d4ed8", "#0891b2", "#059669", "#65a30d", "#d97706", "#dc2626", "#db2777", "#7c3aed",
          "#4f46e5", "#64748b")
WIDTH, MARGIN = 1000, 32
STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; fill: #1f2937 }
.title { font-size: 20px; font-weight: 600 }
.head { font-size: 15px; font-weight: 600 }
.small { font-size: 11px; fill: #6b7280 }
.value { font-size: 11px }
.short { font-size: 11px; fill: #b91c1c; font-weight: 600 }
.grid { stroke: #e5e7eb }
.axis { stroke: #6b7280 }
.roof { stroke: #111827; stroke-dasharray: 7 5; stroke-width: 1.5 }
"""


class Svg:
    def __init__(self, title, subtitle):
        self.parts, self.height = [], 84
        self.text(MARGIN, 38, title, "title")
        self.text(MARGIN, 60, subtitle, "small")

    def text(self, x, y, text, style="", anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">'
                          f"{escape(text)}</text>")

    def line(self, x1, y1, x2, y2, style="", colour=None, width=1.0):
        paint = f' stroke="{colour}" stroke-width="{width}"' if colour else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'class="{style}"{paint}/>')

    def mark(self, shape, tip):
        """A shape with its numbers."""
        self.parts.append(f"{shape}<title>{escape(tip)}</title></{shape[1:].split()[0]}>")

    def rect(self, x, y, w, h, colour, tip, opacity=1.0):
        self.mark(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0.5):.1f}" height="{h:.1f}" '
                  f'rx="2" fill="{colour}" opacity="{opacity}">', tip)

    def dot(self, x, y, colour, tip):
        self.mark(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">', tip)

    def path(self, points, colour):
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{text}" fill="none" stroke="{colour}" '
                          f'stroke-width="2.5" stroke-linejoin="round"/>')

    def legend(self, x, y, names):
        for name in names:
            self.rect(x, y - 10, 12, 12, COLOURS[name], SHOWN[name])
            self.text(x + 18, y, SHOWN[name])
            x += 46 + 7.5 * len(SHOWN[name])

    def save(self, path, title):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height:.0f}" '
                f'width="{WIDTH}" height="{self.height:.0f}" role="img" '
                f'aria-label={quoteattr(title)}>')
        back = '<rect width="100%" height="100%" fill="#ffffff"/>'
        path.write_text("\n".join([head, f"<style>{STYLE}</style>", back, *self.parts, "</svg>"])
                        + "\n", encoding="utf-8")
        return path


def subtitle(run):
    load = run["machine"]["load_average"]
    kind = "CPU time" if run["clock"] == "cpu" else "wall time"
    busy = f", load {load[0]:.1f}" if load and run["options"]["device"] == "cpu" else ""
    device = run["versions"].get("rlx", {}).get("device") or run["machine"]["cpu"]
    return f"{device}{busy} · {kind} · commit {run['commit']} · {run['date'][:10]}"


def nice_step(top, lines):
    rough = top / lines
    power = 10 ** math.floor(math.log10(rough))
    return next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= rough)


def seconds_of(row, name, clock):
    return row["seconds"][name][clock] or row["seconds"][name]["wall"]


# ---- Speed against size -------------------------------------------------------------------------

class SpeedPanel:
    """GFLOP/s of rlx and its peers against the size, for one number of threads."""

    def __init__(self, run, rows):
        self.clock = run["clock"]
        self.threads, self.section = rows[0]["threads"], rows[0]["section"]
        self.sizes = sorted({r["size"] for r in rows})
        self.lines = {}
        for row in sorted(rows, key=lambda r: r["size"]):
            for name in ("rlx", row["peer"]):
                t = seconds_of(row, name, self.clock)
                speed = [row["flops"] / t[k] * 1e-9 for k in ("median", "p90", "p10")]
                self.lines.setdefault(name, {})[row["size"]] = speed
        cores = 1 if self.clock == "cpu" else self.threads
        self.roof = run["roof"]["gflops"] * cores if run["roof"] else None
        self.top = 1.08 * max([self.roof or 0] + [s[2] for v in self.lines.values()
                                                  for s in v.values()])

    def place(self, size):
        if len(self.sizes) < 2:
            return 0.5
        low, high = math.log(self.sizes[0]), math.log(self.sizes[-1])
        return 0.05 + 0.9 * (math.log(size) - low) / (high - low)

    def draw(self, svg, x, y, w, h):
        unit = "GFLOP per CPU second" if self.clock == "cpu" else "GFLOP/s"
        svg.text(x, y - 12, f"{self.section}, {self.threads} thread"
                 f"{'s' if self.threads > 1 else ''}: {unit}", "head")
        step = nice_step(self.top, 6)
        for i in range(int(self.top / step) + 1):
            at = y + h * (1 - i * step / self.top)
            svg.line(x, at, x + w, at, "axis" if i == 0 else "grid")
            svg.text(x - 8, at + 4, f"{i * step:g}", "small", "end")
        last = -math.inf
        for size in self.sizes:
            at = x + w * self.place(size)
            svg.line(at, y + h, at, y + h + 4, "axis")
            if at - last > 26:
                svg.text(at, y + h + 18, f"{size}", "small", "middle")
                last = at
        if self.roof:
            at = y + h * (1 - self.roof / self.top)
            svg.line(x, at, x + w, at, "roof")
            svg.text(x + 8, at - 6, f"roof {self.roof:.0f}", "small")
        for name in sorted(self.lines, key=lambda n: n == "rlx"):
            self.draw_line(svg, name, (x, y, w, h))

    def draw_line(self, svg, name, box):
        x, y, w, h = box
        points, colour = [], COLOURS[name]
        for size, (mid, low, high) in self.lines[name].items():
            at = x + w * self.place(size)
            points.append((at, y + h * (1 - mid / self.top)))
            svg.line(at, y + h * (1 - low / self.top), at, y + h * (1 - high / self.top), "",
                     colour, 1.5)
        svg.path(points, colour)
        for (px, py), (size, speed) in zip(points, self.lines[name].items()):
            svg.dot(px, py, colour, f"{SHOWN[name]} {size}: {speed[0]:.4g} GFLOP/s "
                    f"({speed[1]:.4g} to {speed[2]:.4g})")


def draw_speed(run, path):
    rows = [r for r in run["rows"] if r["size"] and r["flops"]]
    groups = {}
    for row in rows:
        groups.setdefault((row["section"], row["threads"]), []).append(row)
    if not groups:
        return None
    title = "Speed against size"
    svg = Svg(title, subtitle(run))
    names = ["rlx"] + sorted({r["peer"] for r in rows})
    svg.legend(MARGIN, 90, names)
    columns, h, top, labels = min(2, len(groups)), 300, 146, 44
    w = (WIDTH - MARGIN) / columns - MARGIN - labels
    for i, group in enumerate(groups.values()):
        x = MARGIN + labels + i % columns * (w + MARGIN + labels)
        SpeedPanel(run, group).draw(svg, x, top + i // columns * (h + 80), w, h)
    svg.height = top + math.ceil(len(groups) / columns) * (h + 80)
    return svg.save(path, title)


# ---- Ratios -------------------------------------------------------------------------------------

class RatioAxis:
    """A logarithmic axis, so that twice as fast and half as fast are as far from 1."""

    def __init__(self, run, x, w):
        ratios = [shown_ratio(r, run["clock"]) for r in run["rows"]]
        self.low = min(0.5, min(r["p10"] for r in ratios) / 1.1)
        self.high = max(2.0, max(r["p90"] for r in ratios) * 1.1)
        self.x, self.w = x, w

    def at(self, ratio):
        span = math.log(self.high / self.low)
        return self.x + self.w * math.log(min(max(ratio, self.low), self.high) / self.low) / span

    def ticks(self):
        marks = (0.1, 0.2, 0.33, 0.5, 0.67, 1, 1.5, 2, 3, 5, 10, 20, 50)
        return [v for v in marks if self.low <= v <= self.high]


def draw_ratio_row(svg, run, axis, row, y):
    r = shown_ratio(row, run["clock"])
    colour = COLOURS[row["peer"]]
    left, right = sorted((axis.at(1), axis.at(r["median"])))
    tip = (f"{row['section']} {row['case']}, {row['threads']} threads\n{SHOWN[row['peer']]} / rlx: "
           f"{r['median']:.3f} ({r['p10']:.3f} to {r['p90']:.3f})")
    svg.text(axis.x - 12, y + 12, f"{row['case']} · {row['threads']}t", "", "end")
    svg.rect(left, y + 2, right - left, 12, colour, tip, 1 if r["median"] >= 1 else 0.55)
    svg.line(axis.at(r["p10"]), y + 8, axis.at(r["p90"]), y + 8, "", "#111827", 1.2)
    for end in ("p10", "p90"):
        svg.line(axis.at(r[end]), y + 5, axis.at(r[end]), y + 11, "", "#111827", 1.2)
    if row["goal"]:
        at = axis.at(row["goal"])
        svg.parts.append(f'<path d="M{at:.1f} {y:.1f}l4 -4h-8z" fill="#111827">'
                         f"<title>goal {row['goal']:.2f}</title></path>")
    bad = verdict(row, run["clock"]) == "short"
    svg.text(max(axis.at(r["p90"]), right) + 8, y + 12, f"{r['median']:.2f}",
             "short" if bad else "value")


def draw_ratios(run, path):
    if not run["rows"]:
        return None
    title = "Time of each peer divided by the time of rlx"
    svg = Svg(title, subtitle(run) + " · bars to the right: rlx is faster · lines: 10 to 90 % · "
              "triangles: goals, red: short of it")
    names = sorted({r["peer"] for r in run["rows"]})
    svg.legend(MARGIN, 90, names)
    axis = RatioAxis(run, 300, WIDTH - 300 - MARGIN - 40)
    y, top, section = 122, 112, None
    body = len(svg.parts)
    for row in run["rows"]:
        if row["section"] != section:
            section = row["section"]
            y += 14
            svg.text(MARGIN, y + 12, section, "head")
            y += 22
        draw_ratio_row(svg, run, axis, row, y)
        y += 21
    drawn, svg.parts[body:] = svg.parts[body:], []
    for tick in axis.ticks():
        at = axis.at(tick)
        svg.line(at, top, at, y, "axis" if tick == 1 else "grid")
        svg.text(at, top - 5, f"{tick:g}", "small", "middle")
        svg.text(at, y + 16, f"{tick:g}", "small", "middle")
    svg.parts += drawn
    svg.height = y + 36
    return svg.save(path, title)


# ---- Time by kernel -----------------------------------------------------------------------------

def draw_model(svg, model, y):
    kernels = sorted(model["kernels"], key=lambda k: -k["seconds"])
    total = sum(k["seconds"] for k in kernels) or 1
    named, rest = kernels[:len(SLICES) - 1], kernels[len(SLICES) - 1:]
    parts = [(f"{k['op']} · {k['kernel']}", k["seconds"]) for k in named]
    if rest:
        parts.append((f"{len(rest)} others", sum(k["seconds"] for k in rest)))
    svg.text(MARGIN, y + 12, model["model"], "head")
    svg.text(WIDTH - MARGIN, y + 12, f"{short_time(total)} in {len(kernels)} kernels", "small",
             "end")
    x, width = MARGIN, WIDTH - 2 * MARGIN
    for i, (name, seconds) in enumerate(parts):
        w = width * seconds / total
        svg.rect(x, y + 22, w - 1, 28, SLICES[i],
                 f"{name}: {short_time(seconds)}, {100 * seconds / total:.1f} %")
        x += w
    for i, (name, seconds) in enumerate(parts):
        column, line = i % 3, i // 3
        at, base = MARGIN + column * (width / 3), y + 70 + 18 * line
        svg.rect(at, base - 9, 10, 10, SLICES[i], name)
        svg.text(at + 16, base, f"{100 * seconds / total:4.1f} %  {name}"[:48], "value")
    return y + 70 + 18 * math.ceil(len(parts) / 3) + 22


def draw_kernels(run, path):
    if not run["kernels"]:
        return None
    title = "Where the time of a model goes"
    svg = Svg(title, subtitle(run) + " · one thread, step by step (wall time, median of 5)")
    y = 90
    for model in run["kernels"]:
        y = draw_model(svg, model, y)
    svg.height = y + 8
    return svg.save(path, title)


def draw_all(run, folder, name):
    drawn = (draw_speed(run, folder / f"{name}-speed.svg"),
             draw_ratios(run, folder / f"{name}-ratio.svg"),
             draw_kernels(run, folder / f"{name}-kernels.svg"))
    return [path for path in drawn if path]
