#!/usr/bin/python3
"""Launches of a GCN's epoch, emulated, by step of `--plan --roofline`; and those that leave an H100 idle. Run by scripts/check-emulated.

    launches.py PROGRAMS      the folder of an emulated build's programs

The job of docs/gpu-results.md (3 × 256, 128 features, 47 classes) is trained for one epoch on two small graphs. EMULATOR_LAUNCHES writes its
launches, output.trace its steps; both have the same clock, so that a launch belongs to the step that asked for it. Fused steps are one row.

At full size a step's floor (rows gathered) and a launch's blocks are what a line through both sizes says; of steps that run on windows a
launch has a window's rows, and the floor is divided by the number of windows. A launch's work is 2 m n k / peak where it is a product of
cuBLAS, which is taken to have a block for each 128 × 128 numbers; all others of a step share what the floor leaves, in the proportion of
the least processor time that the emulator took for them in three epochs. A launch is idle where it has fewer than two blocks for each multiprocessor and works for more
than 2 µs. Bars: at most 8 launches for a step (of k fused ones 8 k) and window, and no more idle ones than IDLE_MOST. Both are also asked of
logs with a planted fault. And of jobs of GCN and GraphSAGE in BF16, stored and multiplied: no launch that only changes numbers' type; those
that multiply float32 have some.
"""
import collections
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NODES, DEGREE = 2083333, 12  # full size; degree before reverse edges
SMALL = 2048, 4096  # nodes; within a window, and products of more than one piece of 1024 rows
LAUNCHES_MOST = 8
IDLE_S = 2e-6
IDLE_MOST = 1  # of a window, or a step that has none: a column sum of 47, in the cpu's chunks of rows
ROOT = pathlib.Path(__file__).resolve().parents[2]
H100 = ROOT / "configs/devices/h100.toml"

JOB = """name = "launches"
[dataset]
generator = "sbm"
nodes = %d
degree = %d
features = 128
classes = 47
[partition]
parts = 1
cache = "off"
[model]
kind = "gcn"
hidden = 256
layers = 3
[train]
epochs = 1
eval_every = 0
[workers]
count = 1
threads = 1
device = "cuda-emulated"
[output]
trace = true
"""

Launch = collections.namedtuple("Launch", "asked_s run_s blocks threads kernel")


class Step:
    def __init__(self, what, n_step, floor_s, launches):
        self.what, self.n_step, self.floor_s, self.launches = what, n_step, floor_s, launches


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{command[0]}: exit {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


def epoch(programs, folder, nodes, kernel="own"):
    """The steps of an epoch, fused ones as one, with their launches."""
    job, out, log = folder / "job.toml", folder / "out", folder / f"{nodes}.txt"
    job.write_text((JOB % (nodes, DEGREE)).replace('kind = "gcn"', f'kind = "gcn"\nkernel = "{kernel}"'))
    plan = json.loads(run([programs / "trainerd", "--plan", job, "--json", "--roofline", "--device", H100]))["roofline"]
    run([programs / "trainerd", "--config", job, "--set", f"output.dir={out}"], env={**os.environ, "EMULATOR_LAUNCHES": str(log)})
    trace = json.loads((out / "trace.json").read_text())
    start_s = trace["otherData"]["start_s"]
    launches = []
    for line in log.read_text().splitlines():
        asked_s, run_s, blocks, threads, kernel = line.split(" ", 4)
        launches.append(Launch(float(asked_s), float(run_s), int(blocks), int(threads), kernel))
    groups = []  # of the plan: those that run as one
    for step in plan["workers"][0]["steps"]:
        if step["fused"]:
            groups[-1].append(step)
        else:
            groups.append([step])
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "step" and e["args"]["phase"] == "train"]
    if [re.sub(r"  \+ \d+ fused$", "", e["name"]) for e in spans] != [g[0]["what"] for g in groups]:
        sys.exit(f"the trace has the steps {[e['name'] for e in spans]}, the plan {[g[0]['what'] for g in groups]}")
    steps, n_found = [], 0
    for span, group in zip(spans, groups):
        begin_s = start_s + 1e-6 * span["ts"]
        end_s = begin_s + 1e-6 * span["dur"]
        own = [one for one in launches if begin_s - 1e-8 <= one.asked_s <= end_s + 1e-8]
        n_found += len(own)
        steps.append(Step(" + ".join(s["what"] for s in group), len(group), 1e-3 * sum(s["floor_gathered_ms"] for s in group), own))
    if n_found != sum(start_s + 1e-6 * spans[0]["ts"] <= one.asked_s <= end_s for one in launches) or n_found == 0:
        sys.exit(f"{n_found} launches belong to steps: others, or none, were asked for in the epoch")
    return steps, plan


def least(runs):
    """The steps of one of several epochs, whose launches have the least time that they took in any."""
    for same in zip(*runs):
        same[0].launches = [min(ones, key=lambda one: one.run_s) for ones in zip(*(step.launches for step in same))]
    return runs[0]


def behind_sums(steps):
    """Launches of row-local operations, but products, in chains behind a forward sum, whose epilogue has them."""
    chains = [after.launches for sum_, after in zip(steps, steps[1:]) if sum_.what.startswith("halo forward") and after.what.startswith("forward")]
    return sum(not re.search("product|cublas", one.kernel) for launches in chains for one in launches)


def windows_of(step, rows):
    """A step's windows at full size, and the rows of one."""
    is_fused = step.n_step > 1 or re.match(r"(forward|backward) ", step.what)
    return (-(-NODES // rows), min(rows, NODES)) if is_fused else (1, NODES)


def at_full_size(first, second, plan, rows):
    """Each step's launches as (kernel, blocks, seconds of work), per window."""
    peak = plan["fp32_tflops"] * 1e12
    for a, b in zip(first, second):
        if [one.kernel.split()[0] for one in a.launches] != [one.kernel.split()[0] for one in b.launches]:
            sys.exit(f"{a.what}: other launches with other sizes")
        n_window, n_row = windows_of(b, rows)

        def grown(x, y, n):
            return y + (y - x) * (n - SMALL[1]) / (SMALL[1] - SMALL[0])

        found, left_s = [], grown(a.floor_s, b.floor_s, NODES) / n_window
        for x, y in zip(a.launches, b.launches):
            name, work_s = re.sub(r"[(<].*", "", y.kernel.lstrip("(")), None
            if name.startswith("cublas "):
                sizes = [round(grown(int(p), int(q), n_row)) for p, q in zip(x.kernel.split()[1:], y.kernel.split()[1:])]
                name, work_s = "cublas " + " × ".join(map(str, sizes)), 2 * math.prod(sizes) / peak
                left_s -= work_s
            found.append([name, grown(x.blocks, y.blocks, n_row), work_s])
        own_s = sum(one.run_s for one in b.launches)
        for one, y in zip(found, b.launches):
            one[2] = max(0.0, left_s) * y.run_s / own_s if one[2] is None else one[2]
        yield b, found


def judge(first, second, plan, rows):
    """What misses a bar; a line for each step."""
    said, lines, n_idle = [], [], 0
    for step, found in at_full_size(first, second, plan, rows):
        idle = [one for one in found if one[1] < 2 * plan["sms"] and one[2] > IDLE_S]
        n_idle += len(idle)
        lines.append(f"| {step.what} | {len(found)} | {'; '.join(f'{k}: {b:.0f} blocks, {1e6 * s:.1f} µs' for k, b, s in idle) or '–'} |")
        if len(found) > LAUNCHES_MOST * step.n_step:
            said.append(f"{step.what}: {len(found)} launches, at most {LAUNCHES_MOST * step.n_step}")
    if n_idle > IDLE_MOST:
        said.append(f"{n_idle} launches of few blocks, at most {IDLE_MOST}")
    return said, lines


def planted(steps, more):
    """The same with launches more in the step that has most work."""
    most = max(range(len(steps)), key=lambda s: steps[s].floor_s)
    return [Step(s.what, s.n_step, s.floor_s, s.launches + (more if i == most else [])) for i, s in enumerate(steps)]


def conversions(programs, folder, kind, products):
    """Launches of a job in BF16 that only change the type of rows."""
    job, log = folder / "types.toml", folder / f"types-{kind}-{products}.txt"
    job.write_text(JOB % (512, 4))
    settings = [f"output.dir={folder / 'types'}", f"model.kind={kind}", "train.precision=bf16", f"train.products={products}"]
    run([programs / "trainerd", "--config", job, *(word for s in settings for word in ("--set", s))], env={**os.environ, "EMULATOR_LAUNCHES": str(log)})
    return sum("convert_map" in line for line in log.read_text().splitlines())


def main(programs):
    programs = pathlib.Path(programs).resolve()
    rows = eval(re.search(r"CUDA_N_WINDOW_FLOAT \(\(int64_t\)(1 << \d+)\)", (ROOT / "models/cuda/sizes.h").read_text())[1]) // 256
    with tempfile.TemporaryDirectory() as place:
        (first, _), *larger = (epoch(programs, pathlib.Path(place), nodes) for nodes in (SMALL[0], *[SMALL[1]] * 3))
        second, plan = least([steps for steps, _ in larger]), larger[0][1]
        passes = {(k, p): conversions(programs, pathlib.Path(place), k, p) for k in ("gcn", "sage") for p in ("bf16", "fp32")}
        apart = behind_sums(epoch(programs, pathlib.Path(place), SMALL[0], "cusparse")[0])
    said, lines = judge(first, second, plan, rows)
    said += [f"{behind_sums(first)} launches behind sums, 0 expected"] * (behind_sums(first) > 0)
    said += ["where sums have no epilogue, none is found behind them"] * (apart == 0)
    said += [f"{kind} with products in {p}: {n} launches only change a type" for (kind, p), n in passes.items() if (n > 0) != (p == "fp32")]
    print(*(f"{kind}, products in {p}: {n} launches that only change a type" for (kind, p), n in passes.items()), sep="\n")
    print("| step | launches of a window | with few blocks, and their work at full size |\n|---|---|---|")
    print(*lines, sep="\n")
    longest = max(one.run_s for step in second for one in step.launches)
    for name, one, n in (("launches", Launch(0, 0, 10**6, 256, "planted"), 8 * 24 + 1), ("a launch of few blocks", Launch(0, longest, 32, 256, "planted"), 1)):
        more = judge(planted(first, [one] * n), planted(second, [one] * n), plan, rows)[0]
        if more == said:
            said.append(f"planted {name} are not found")
    print(*said, sep="\n")
    return len(said) > 0


sys.exit(main(sys.argv[1]))
