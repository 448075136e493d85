# SPDX-License-Identifier: MIT
"""From raw samples to rows: ratios with their spread, the table, the machine, the results."""
import datetime
import json
import os
import platform
import subprocess
from pathlib import Path

from workers import SHOWN

CLOCKS = ("wall", "cpu")


def quantile(values, q):
    """Between the two nearest values, by how near each is."""
    values = sorted(values)
    at = (len(values) - 1) * q
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def round_times(rounds, clock):
    """The median of each round; None where the worker has no such clock."""
    index = CLOCKS.index(clock)
    times = [[s[index] for s in samples] for samples in rounds]
    if not times or any(t is None for samples in times for t in samples):
        return None
    return [median(samples) for samples in times]


def spread(values):
    return {"median": median(values), "p10": quantile(values, 0.1), "p90": quantile(values, 0.9)}


def ratio(ours, theirs, clock):
    """Peer time / rlx time, round by round; above 1 rlx is the faster one."""
    a, b = round_times(ours, clock), round_times(theirs, clock)
    if not a or not b:
        return None
    return spread([y / max(x, 1e-12) for x, y in zip(a, b)])


def best_ratio(ours, theirs):
    """Of the least wall times: what is left when other work happened not to be in the way."""
    least = [min(s[0] for samples in rounds for s in samples) for rounds in (ours, theirs)]
    return least[1] / max(least[0], 1e-12)


def request_text(request):
    """Of files only their names."""
    return " ".join(Path(word).name if "/" in word else word for word in request.split())


def make_row(case, threads, work, samples, peer):
    """One line of the table. `samples` are {worker: [[[wall, cpu], ...] for each round]}."""
    row = {"section": case.section, "case": case.label, "request": request_text(case.request),
           "threads": threads, "peer": peer, "goal": case.goals[peer], "size": case.size,
           "flops": work.get("flops") or None, "bytes": work.get("bytes") or None, "seconds": {},
           "ratio": {}, "best": best_ratio(samples["rlx"], samples[peer])}
    for clock in CLOCKS:
        row["ratio"][clock] = ratio(samples["rlx"], samples[peer], clock)
        for name in ("rlx", peer):
            times = round_times(samples[name], clock)
            row["seconds"].setdefault(name, {})[clock] = spread(times) if times else None
    return row


def shown_ratio(row, clock):
    return row["ratio"][clock] or row["ratio"]["wall"]


def verdict(row, clock):
    """Short of the goal or not. With several threads on a busy machine nobody can say: the CPU time
    counts threads that wait in a loop for one that does not run."""
    if row["goal"] is None:
        return ""
    if clock == "cpu" and row["threads"] > 1:
        return "?"
    return "ok" if shown_ratio(row, clock)["median"] >= row["goal"] else "short"


# ---- The table ----------------------------------------------------------------------------------

def short_time(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    return ""


HEADER = (f"{'case':36} {'thr':>3} {'peer':13} {'rlx':>9} {'peer':>9} {'ratio':>6} "
          f"{'10-90 %':>13} {'other':>6} {'best':>6} {'goal':>5}")


def row_text(row, clock):
    other = "wall" if clock == "cpu" else "cpu"
    main, second = shown_ratio(row, clock), row["ratio"][other]
    times = [(row["seconds"][n][clock] or row["seconds"][n]["wall"])["median"]
             for n in ("rlx", row["peer"])]
    between = f"{main['p10']:.2f} - {main['p90']:.2f}"
    goal = "" if row["goal"] is None else f"{row['goal']:.2f}"
    second_text = f"{second['median']:.2f}" if second else "-"
    name = f"{row['section']} {row['case']}"
    return (f"{name[:36]:36} {row['threads']:3} {SHOWN[row['peer']]:13} "
            f"{short_time(times[0]):>9} {short_time(times[1]):>9} {main['median']:6.2f} "
            f"{between:>13} {second_text:>6} {row['best']:6.2f} {goal:>5} "
            f"{verdict(row, clock)}").rstrip()


def markdown(rows, clock):
    lines = ["| case | threads | peer | rlx | peer's time | ratio | 10-90 % | best wall | goal |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        r = shown_ratio(row, clock)
        times = [short_time((row["seconds"][n][clock] or row["seconds"][n]["wall"])["median"])
                 for n in ("rlx", row["peer"])]
        goal = "" if row["goal"] is None else f"{row['goal']:.2f}"
        mark = {"short": " **short**", "?": " ?"}.get(verdict(row, clock), "")
        lines.append(f"| {row['section']} {row['case']} | {row['threads']} | {SHOWN[row['peer']]} "
                     f"| {times[0]} | {times[1]} | {r['median']:.2f} | {r['p10']:.2f} to "
                     f"{r['p90']:.2f} | {row['best']:.2f} | {goal}{mark} |")
    return "\n".join(lines) + "\n"


def markdown_page(run):
    """The table with what a reader must know about the run."""
    machine, roof = run["machine"], run["roof"]
    load = machine["load_average"]
    lines = [f"# rlx and its peers, {run['date'][:10]}", "",
             f"- {machine['cpu']}, {machine['cores']} cores, {machine['system']}",
             f"- commit {run['commit']}" + (" with changes" if run["changed_files"] else "")]
    if load:
        after = run["load_after"][0]
        lines.append(f"- load average {load[0]:.1f} before, {after:.1f} after")
    if roof:
        lines.append(f"- one core at best: {roof['gflops']:.0f} GFLOP/s f32, "
                     f"{roof['gbps']:.0f} GB/s copy")
    lines += [f"- {SHOWN[name]}: {said['version']}" for name, said in run["versions"].items()]
    lines.append(f"- times and ratios are of {'CPU' if run['clock'] == 'cpu' else 'wall'} time; "
                 "above 1 rlx is faster")
    lines += [f"- {text}" for text in [run["note"]] + run["notes"] if text]
    return "\n".join(lines) + "\n\n" + markdown(run["rows"], run["clock"])


# ---- The machine --------------------------------------------------------------------------------

def cpu_model():
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def load_average():
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else None


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def is_loaded(load):
    """More work than a core's share of others: wall times are then not ours to compare."""
    return bool(load) and load[0] > 0.5


def git(root, *words):
    try:
        said = subprocess.run(["git", "-C", str(root), *words], text=True, capture_output=True,
                              check=True)
        return said.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def describe_run(root, options, roof, load):
    paths = {"rlx", "llama", "smollm2", "out"}
    said = {k: Path(v).name if k in paths and v else v for k, v in vars(options).items()}
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": git(root, "rev-parse", "--short=10", "HEAD") or "unknown",
        "changed_files": git(root, "status", "--porcelain", "-uno") != "",
        "machine": {"cpu": cpu_model(), "cores": cores(), "system": platform.platform(),
                    "python": platform.python_version(), "load_average": load},
        "roof": roof, "options": said,
    }


def save(run, folder, name):
    """A row and a measurement on a line each, so that the file can be read and compared."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    parts = []
    for key, value in compact(run).items():
        if isinstance(value, list):
            lines = ",\n".join("  " + json.dumps(v) for v in value)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return path


def compact(value):
    """Six digits are more than any clock has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: compact(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [compact(v) for v in value]
    return value
