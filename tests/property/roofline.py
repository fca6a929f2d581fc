#!/usr/bin/python3
"""trainerd --plan --roofline against formulas: random jobs and devices, whose arithmetic, bytes and least times follow here from layers,
widths, nodes and edges alone, without steps, operands or lives of arrays. Run by scripts/check-roofline.

    roofline.py TRAINERD [--seed S] [--draws N]
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

FLOAT = 4
DEVICES = pathlib.Path("configs/devices")


class Failure(Exception):
    pass


def expect(what, value, wanted, slack=0.0):
    if not abs(value - wanted) <= slack + 1e-9 * abs(wanted):
        raise Failure(f"{what} is {value!r}, expected {wanted!r}" + (f" within {slack}" if slack else ""))


# --- what a job has to do ---

class Work:
    """Sums by kind: [flops, bytes, bytes with a row for each edge]."""

    def __init__(self, job, edges):
        self.job, self.n, self.edges, self.kinds = job, job["nodes"], edges, {}
        self.loops = self.n if job["kind"] in ("gcn", "gat") else 0

    def add(self, kind, flops=0, once=0, gathered=None):
        sums = self.kinds.setdefault(kind, [0, 0, 0])
        for k, more in enumerate((flops, once, once if gathered is None else gathered)):
            sums[k] += more

    def product(self, rows_in, rows_out, times):
        self.add("linear", flops=times * 2 * self.n * rows_in * rows_out)

    def neighbours(self, kind, width, scaled, times=2):
        """A sum over neighbours, and its transpose: rows in, rows out, the structure, a scale a row."""
        structure = 8 * self.n + 4 * self.edges + (FLOAT * self.n if scaled else 0)
        rows, every = FLOAT * self.n * width, FLOAT * (self.edges + self.loops) * width
        self.add(kind, times * 2 * (self.edges + self.loops) * width, times * (min(rows, every) + rows + structure),
                 times * (every + rows + structure))


def widths_of(job):
    return [job["features"]] + [job["hidden"]] * (job["layers"] - 1) + [job["classes"]]


def gcn_chains(job):
    """Ops between sums: lists of ("linear", in, out), ("bias", width), ("act", width); a sum is ("sum", width)."""
    widths, ops = widths_of(job), []
    for layer, (a, b) in enumerate(zip(widths, widths[1:])):
        if layer == 0:  # its sum is made once
            ops.append(("linear", a, b))
        elif b <= a:
            ops += [("linear", a, b), ("sum", b), ("bias", b)]
        else:
            ops += [("sum", a), ("linear", a, b)]
        if layer + 1 < job["layers"]:
            ops.append(("act", b))
    return ops


def chains(ops):
    """Runs of ops without a sum, with the number of the first."""
    at, run = 0, []
    for i, op in enumerate(ops + [("sum",)]):
        if op[0] == "sum":
            if run:
                yield at, run
            at, run = i + 1, []
        else:
            run.append(op)


def gcn_bytes(job):
    """Bytes of the rows that chains read and write: what a chain takes from elsewhere, and leaves for others, once each. Without weights.
    Array i is the input of op i, array i + 1 its output; backward reads what products multiplied, and what activations made."""
    ops, n = gcn_chains(job), job["nodes"]
    width = [ops[0][1]] + [op[-1] for op in ops]
    kept = {i for i, op in enumerate(ops) if op[0] == "linear"} | {i + 1 for i, op in enumerate(ops) if op[0] == "act"}
    total = 0
    for at, run in chains(ops):
        end = at + len(run)
        written = {i for i in range(at + 1, end) if i in kept} | {end}  # the last one is a sum's, or the loss's
        total += FLOAT * n * (width[at] + sum(width[i] for i in written))
        read = {i for i in range(at, end + 1) if i in kept and (i < end or run[-1][0] == "act")}
        total += FLOAT * n * (width[end] + sum(width[i] for i in read))
        changes = any(op[0] != "bias" for op in run)
        total += FLOAT * n * width[at] if at > 0 and changes else 0  # the gradient that a sum takes on; nobody wants the first one
        in_place = run[-1][0] == "act" and (at == 0 or any(op[0] == "linear" for op in run))
        total += FLOAT * n * width[end] if in_place else 0  # a sum's gradient is changed where it lies, and read no more
        total += 2 * FLOAT * n if job["dropout"] > 0 and any(op[0] == "act" for op in run) else 0  # nodes, by which it draws
    return total + FLOAT * n * (2 * width[-1] + 1)  # the loss: logits, labels, gradient


def work_of(job, edges):
    work, widths = Work(job, edges), widths_of(job)
    for layer, (a, b) in enumerate(zip(widths, widths[1:])):
        back = 2 if layer == 0 else 3  # forward, the weight's gradient, the input's
        if job["kind"] == "gcn":
            work.product(a, b, back)
            if layer > 0:
                work.neighbours("gcn", min(a, b), True)
        elif job["kind"] == "sage":
            work.product(a, b, 2 * back)
            kind = job["aggregator"]
            if layer > 0 and kind != "max":
                work.neighbours(kind, min(a, b), kind == "mean")
        elif job["kind"] == "gin":
            work.product(a, job["hidden"], back)
            work.product(job["hidden"], b, 3)
            if layer > 0:
                work.neighbours("sum", min(a, job["hidden"]), False)
        elif job["kind"] == "gat":
            last = layer + 1 == job["layers"]
            heads, a = 1 if last else job["heads"], a if layer == 0 else a * job["heads"]
            work.product(a, heads * b, back)
            reads = heads * (b + 1), heads * (b + 3)  # values and keys; gradients, queries and softmax
            work.add("gat", flops=2 * (edges + work.n) * sum(reads))
    return work


# --- a draw ---

def draw(rng):
    kind = rng.choice(["gcn", "gcn", "sage", "gin", "gat"])
    return {"kind": kind, "nodes": rng.randint(50, 3000), "degree": rng.choice([0.3, 2, 5]), "features": rng.randint(2, 70), "classes": rng.randint(2, 40),
            "hidden": rng.randint(1, 70), "layers": rng.randint(1, 4), "dropout": rng.choice([0, 0.5]), "heads": rng.randint(1, 4),
            "aggregator": rng.choice(["mean", "sum"])}


def job_text(job):
    heads = f"heads = {job['heads']}" if job["kind"] == "gat" else f"aggregator = \"{job['aggregator']}\"" if job["kind"] == "sage" else ""
    return f"""name = "roofline"
[dataset]
generator = "sbm"
nodes = {job['nodes']}
degree = {job['degree']}
features = {job['features']}
classes = {job['classes']}
[partition]
parts = 1
cache = "off"
[model]
kind = "{job['kind']}"
layers = {job['layers']}
hidden = {job['hidden']}
dropout = {job['dropout']}
{heads}
[train]
prune = "never"
[memory]
recompute = "never"
[workers]
count = 1
device = "cpu"
"""


def plan_of(trainerd, folder, text, *arguments):
    (folder / "job.toml").write_text(text)
    done = subprocess.run([trainerd, "--plan", folder / "job.toml", "--json", "--roofline", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def floors_check(roofline, device):
    """Least times from the bytes and flops of the plan itself: of a chain the longer of its sums; sums by kind."""
    peak, rate = device["fp32_tflops"] * 1e9, device["bandwidth_gbs"] * 1e6
    for worker in roofline["workers"]:
        kinds = {}
        for column, bytes_key, of in (("floor_ms", "bytes", 0), ("floor_gathered_ms", "bytes_gathered", 1)):
            flops = moved = before = 0.0
            for step in worker["steps"]:
                if not step["fused"]:
                    flops = moved = before = 0.0
                flops, moved = flops + step["flops"], moved + step[bytes_key]
                now = max(flops / peak, moved / rate)
                expect(f"{column} of {step['what']}", step[column], now - before, 1e-9 * now)
                before = now
        for step in worker["steps"]:
            for name in (step["kind"], "all"):
                sums = kinds.setdefault(name, dict.fromkeys(["steps", "flops", "bytes", "bytes_gathered", "floor_ms", "floor_gathered_ms"], 0))
                for key in sums:
                    sums[key] += step[key]
        if {kind["kind"] for kind in worker["kinds"]} != set(kinds):
            raise Failure(f"kinds are {[kind['kind'] for kind in worker['kinds']]}, expected {sorted(kinds)}")
        for kind in worker["kinds"]:
            for key, value in kinds[kind["kind"]].items():
                expect(f"{key} of {kind['kind']}", kind[key], value, 1e-9)


def sums_of(worker):
    return {kind["kind"]: kind for kind in worker["kinds"]}


def case_check(trainerd, folder, rng, job):
    device = {"fp32_tflops": 10 ** rng.uniform(-2, 2), "bandwidth_gbs": 10 ** rng.uniform(0, 4)}
    (folder / "device.toml").write_text(f"name = 'drawn'\nfp32_tflops = {device['fp32_tflops']}\nbf16_tflops = 1\nbandwidth_gbs = {device['bandwidth_gbs']}\n")
    plan = plan_of(trainerd, folder, job_text(job), "--device", folder / "device.toml")
    edges, roofline = plan["dataset"]["edges"], plan["roofline"]
    expect("fp32_tflops", roofline["fp32_tflops"], device["fp32_tflops"])
    if roofline["device"] != "drawn" or roofline["sms"] is not None or roofline["precision"] != "fp32":
        raise Failure(f"the device is {roofline['device']}, {roofline['sms']}, {roofline['precision']}")
    floors_check(roofline, device)
    work, found = work_of(job, edges), sums_of(roofline["workers"][0])
    expect("flops in all", plan["flops_per_epoch"], found["all"]["flops"])
    passes = [step for step in roofline["workers"][0]["steps"] if step["what"].startswith("halo ")]
    for kind, (flops, once, gathered) in work.kinds.items():
        expect(f"flops of {kind}", found[kind]["flops"], flops)
        if once:
            expect(f"bytes of {kind}", sum(step["bytes"] for step in passes if step["kind"] == kind), once)
            expect(f"gathered bytes of {kind}", sum(step["bytes_gathered"] for step in passes if step["kind"] == kind), gathered)
    expect("flops", found["all"]["flops"], sum(flops for flops, *_ in work.kinds.values()))
    if job["kind"] == "gcn":
        rows = gcn_bytes(job) + work.kinds.get("gcn", [0, 0, 0])[1]
        weights = sum(a * b + b for a, b in zip(widths_of(job), widths_of(job)[1:]))
        # Weights are read forward and backward, and their gradients written; the update reads both, and writes weights, padded as they lie.
        expect("bytes of all", found["all"]["bytes"], rows + 3 * FLOAT * (weights + plan["weights"]))
    # Cut into parts, on any number of workers: the same arithmetic, and the same rows for edges.
    text = job_text(job).replace("parts = 1", "parts = 4").replace("[partition]", "[exchange]\nstore_inputs = false\n[partition]\nmethod = \"block\"")
    for count in (1, 2, 4):
        several = plan_of(trainerd, folder, text.replace("count = 1", f"count = {count}"))["roofline"]["workers"]
        if len(several) != count:
            raise Failure(f"{len(several)} workers, expected {count}")
        expect(f"flops on {count} workers", sum(sums_of(worker)["all"]["flops"] for worker in several), found["all"]["flops"])
        for kind in set(work.kinds) & {"gcn", "mean", "sum"}:
            moved = sum(step["bytes_gathered"] for worker in several for step in worker["steps"] if step["kind"] == kind and step["what"].startswith("halo "))
            expect(f"gathered bytes of {kind} on {count} workers", moved, work.kinds[kind][2])


# --- what is refused ---

GOOD = "name = 'a'\nfp32_tflops = 1\nbf16_tflops = 2.5\nbandwidth_gbs = 3\n"
BAD = [  # file, arguments, exit code, text
    ("", [], 78, "device.toml: 'bandwidth_gbs' is missing"),
    (GOOD.replace("name = 'a'\n", ""), [], 78, "device.toml: 'name' is missing"),
    (GOOD.replace("bf16_tflops = 2.5\n", ""), [], 78, "device.toml: 'bf16_tflops' is missing; expected name, a text, and"),
    (GOOD.replace("2.5", "-2.5"), [], 78, "device.toml:3:1: the value of 'bf16_tflops'; expected name"),
    (GOOD.replace("2.5", "0"), [], 78, "device.toml:3:1: the value of 'bf16_tflops'"),
    (GOOD.replace("2.5", "nan"), [], 78, "device.toml:3:1: the value of 'bf16_tflops'"),
    (GOOD.replace("2.5", "inf"), [], 78, "device.toml:3:1: the value of 'bf16_tflops'"),
    (GOOD.replace("2.5", "'2.5'"), [], 78, "device.toml:3:1: the value of 'bf16_tflops'"),
    (GOOD.replace("2.5", "true"), [], 78, "device.toml:3:1: the value of 'bf16_tflops'"),
    (GOOD.replace("'a'", "5"), [], 78, "device.toml:1:1: the value of 'name'"),
    (GOOD.replace("'a'", "''"), [], 78, "device.toml:1:1: the value of 'name'"),
    (GOOD.replace("'a'", "\"a\\u001b\""), [], 78, "device.toml:1:1: the value of 'name'"),
    (GOOD + "sms = -1\n", [], 78, "device.toml:5:1: the value of 'sms'"),
    (GOOD + "tflops = 1\n", [], 78, "device.toml:5:1: unknown key 'tflops'; expected name"),
    (GOOD + "[more]\nsms = 1\n", [], 78, "device.toml:5:"),
    (GOOD + "name = 'b'\n", [], 78, "device.toml:5:"),
    (GOOD + "sms = \n", [], 78, "device.toml:5:"),
    (GOOD + "# " + "x" * 4096, [], 65, "device.toml: has 4161 bytes, expected at most 4096"),
    (GOOD, ["--device", "missing.toml"], 66, "missing.toml"),
    (GOOD, ["--device", "/"], 65, "/: is a folder"),
]


def refusals_check(trainerd, folder):
    (folder / "job.toml").write_text(job_text(draw(random.Random(1))))
    n = 0

    def refused(arguments, code, text):
        nonlocal n
        done = subprocess.run([trainerd, *arguments], capture_output=True, text=True, cwd=folder)
        if done.returncode != code or text not in done.stderr:
            raise Failure(f"{arguments}: exit {done.returncode}, {done.stderr.strip()!r}, expected {code}, {text!r}")
        n += 1

    for text, arguments, code, said in BAD:
        (folder / "device.toml").write_text(text)
        refused(["--plan", "job.toml", "--roofline", *(arguments or ["--device", "device.toml"])], code, said)
    refused(["--plan", "job.toml", "--device", "device.toml"], 2, "--device does not go with this command")
    refused(["--config", "job.toml", "--roofline"], 2, "--roofline goes with --plan")
    refused(["--plan", "job.toml", "--roofline", "--device"], 2, "--device needs a value")
    return n


def devices_check(trainerd, folder):
    """A file's numbers are the ones that are built in."""
    text = job_text(draw(random.Random(2)))
    plain, named = (plan_of(trainerd, folder, text, *more)["roofline"] for more in ([], ["--device", (DEVICES / "cpu.toml").resolve()]))
    for path in DEVICES.glob("*.toml"):
        if plan_of(trainerd, folder, text, "--device", path.resolve())["roofline"]["device"] != path.stem:
            raise Failure(f"{path} is a device of another name")
    if plain != named:
        raise Failure("without --device another cpu than that of configs/devices/cpu.toml")
    return 1


def bf16_check(trainerd, folder):
    """On a GPU GCN moves at most 0.55 of float32's bytes in BF16 (D100)."""
    job = dict(draw(random.Random(3)), kind="gcn", nodes=20000, features=128, classes=47, hidden=256, layers=3, dropout=0.0)
    bytes_of = {}
    for precision in ("fp32", "bf16"):
        text = job_text(job).replace('"cpu"', '"cuda"').replace("[train]", f'[train]\nprecision = "{precision}"\nproducts = "{precision}"')
        roofline = plan_of(trainerd, folder, text, "--device", (DEVICES / "h100.toml").resolve())["roofline"]
        bytes_of[precision] = sums_of(roofline["workers"][0])["all"]["bytes"]
    if bytes_of["bf16"] > 0.55 * bytes_of["fp32"]:
        raise Failure(f"a GCN moves {bytes_of} bytes, expected in BF16 at most 0.55 of float32's")
    return 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trainerd", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=30)
    options = parser.parse_args()
    trainerd, passed, failed = options.trainerd.resolve(), 0, 0
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for i in range(options.draws):
            rng = random.Random(options.seed * 1000003 + i)
            job = draw(rng)
            try:
                case_check(trainerd, folder, rng, job)
                passed += 1
            except Failure as failure:
                failed += 1
                print(f"FAIL: draw {i}: {failure}\n  {job}")
        for check in (refusals_check, devices_check, bf16_check):
            try:
                passed += check(trainerd, folder)
            except Failure as failure:
                failed += 1
                print(f"FAIL: {failure}")
    print(f"tests: {passed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
