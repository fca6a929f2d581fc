#!/usr/bin/env python3
"""The property test: a random job gives the same bits however it is run, the oracle's losses and gradients, and takes what it plans.

    property.py RUN [--seed S] [--first N] [--draws N] [--seconds S] [--devices cpu|reference|cuda-emulated ...] [--whole N] [--keep FOLDER]

RUN is build/…/bin/property-run. Each draw is trained in several ways (workers, which of them has which part, threads, schedule,
prefetch, recomputation, spill, device) for some epochs, and once for one step of SGD without anything approximate, whose weights
tell the gradient. A draw that fails is shrunk to its smallest graph, and its folder and job are kept. `--first N --draws 1`
repeats draw N of a seed. Closing line: tests: N passed, N failed, N skipped.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import oracle
import steps
from draw import draw_case, draw_way

STEP = 1024.0  # learning rate of the step that tells the gradient: float32 weights have its digits, not those of the weights before
SGD = {"optimizer": "sgd", "lr": STEP, "epochs": 1, "weight_decay": 0.0, "momentum": 0.0, "clip_norm": 0.0}
LOSS, ROWS = 1e-6, 1e-5  # relative, as in tests/support/tolerance.h
SPREAD = 8  # a result may be as many times as far from float64 as PyTorch's float32 is, or as float64 whose layers are rounded at random
N_NEAR = 2  # of the latter
FLOOR = 1e-5  # of all gradients together: one that cancels out to nothing keeps their rounding
LEAST = 0.01  # of all gradients of links: slopes of scores add up to 2 in size, and where rows are alike they all cancel out
DIVERGED = 100.0  # a weight beyond it: what float32 computes of such says nothing
MOST_SHRINKS, SHRINK_S = 400, 120.0


class Failed(Exception):
    """what: a few words that stay the same while a case is shrunk"""

    def __init__(self, what, text):
        super().__init__(f"{what}: {text}")
        self.what = what


class Runner:
    def __init__(self, program, folder):
        self.program, self.folder, self.process = program, folder, None
        self.n_uncompared = 0  # cases whose gradients say more of rounding than of the job

    def run(self, case, way, train=None):
        job, out = os.path.join(self.folder, "job.toml"), os.path.join(self.folder, "out")
        with open(job, "w") as file:
            file.write(case.job(self.folder, way, train))
        if self.process is None:
            self.log = open(os.path.join(self.folder, "log"), "w+")
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.log.seek(0)
        self.log.truncate()
        self.process.stdin.write(f"{job} {out} {way['memory']} {','.join(map(str, way['ranks']))}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process = None
            raise Failed("the runner ended", self.said())
        result = json.loads(line)
        if result["exit"] != 0:
            raise Failed(f"exit code {result['exit']}", f"{self.said()}\n{way}")
        if result["unplanned"] != 0 or result["allocations"] != 0:
            raise Failed("memory", f"{result['unplanned']} categories not as planned, {result['allocations']} allocations in epochs: {way}")
        floats = np.fromfile(out, np.float32)
        sizes = [result["weights"], result["embeddings"]] * 2
        initial, embedded, last, embedded_last, rows = np.split(floats, np.cumsum(sizes))
        result["initial"], result["last"] = (tensors(case, result["param"], *of) for of in ((initial, embedded), (last, embedded_last)))
        result["rows"] = rows
        if case.task:
            order = np.fromfile(out + ".order", np.int64)
            case.order = order[:case.n], order[case.n:]
        result["bits"] = floats.tobytes() + json.dumps([result["loss"], result["score"]]).encode()
        return result

    def end(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()

    def said(self):
        self.log.seek(0)
        return self.log.read()[-2000:]


def tensors(case, params, weights, embeddings):
    found = {}
    for param in params:
        at, width, row = param["embedding"]
        shared = weights[param["offset"]:param["offset"] + param["shared"]]
        if at < 0:
            found[param["name"]] = shared.reshape(param["shape"] or [1])
        else:
            own = embeddings.reshape(case.n, -1)[:, at:at + width].reshape(case.n, width // row, row)
            found[param["name"]] = own.transpose(1, 0, 2).reshape(param["shape"])
    return found


def is_rounded(case):
    """Rounding to BF16 may turn the sign of an activation, and so a gradient: such jobs are held to golden results instead."""
    return "bf16" in (case.train.get("precision"), case.train.get("products"))


def far(a, b):
    return float(np.linalg.norm(np.asarray(a - b).ravel()))


def nearly(compute, case, weights):
    """What float64 computes, and others that float32 might as well."""
    return [compute(case, weights), compute(case, weights, torch.float32), *(compute(case, weights, seed=k) for k in range(N_NEAR))]


def check_gradients(run, case, way):
    result = run.run(case, way, SGD)
    initial = result["initial"]
    if is_rounded(case):
        return
    try:
        (loss, right), *near = nearly(oracle.gradients, case, initial)
    except oracle.IllConditioned:
        run.n_uncompared += 1
        return
    found, spread = float.fromhex(result["loss"][0]), max(far(other, loss) for other, _ in near)
    if not abs(found - loss) <= LOSS * abs(loss) + SPREAD * spread:
        raise Failed("the loss", f"{found:.9g}, expected {loss:.9g}: {way}")
    whole = float(np.sqrt(sum(np.sum(right[p["name"]] ** 2) for p in result["param"] if p["trains"])))
    whole = max(whole, LEAST) if case.task else whole
    for param in result["param"]:
        name = param["name"]
        if param["trains"]:
            found = (initial[name].astype(np.float64) - result["last"][name]) / STEP
            spread = max(far(other[name], right[name]) for _, other in near)
            most = ROWS * np.linalg.norm(right[name]) + SPREAD * spread + FLOOR * whole
            most += 6e-8 * float(np.linalg.norm(initial[name])) / STEP
            if not far(found, right[name]) <= most:
                raise Failed("a gradient", f"of {name}: {far(found, right[name]):.3g} off, of {np.linalg.norm(right[name]):.3g}, "
                                           f"at most {most:.3g}: {way}")


def check_logits(result, case):
    stays = all(np.abs(w).max(initial=0.0) <= DIVERGED for w in result["last"].values())
    if case.model.get("label_input") or not stays or is_rounded(case):
        return
    right, *near = nearly(oracle.logits, case, result["last"])
    found = result["rows"].reshape(right.shape).astype(np.float64)
    most = ROWS * np.linalg.norm(right) + SPREAD * max(far(other, right) for other in near)
    if not far(found, right) <= most:
        raise Failed("logits of an evaluation", f"{far(found, right):.3g} off, of {np.linalg.norm(right):.3g}, at most {most:.3g}")


def check_bits(run, case, ways):
    first = run.run(case, ways[0])
    check_logits(first, case)
    for way in ways[1:]:
        if run.run(case, way)["bits"] != first["bits"]:
            raise Failed("bits", f"of {way} differ from those of {ways[0]}")


def check_job(run, case, ways):
    """The same by trainerd itself, whose coordinator decides on covers, stored inputs and places."""
    bits = []
    for way in ways:
        out = os.path.join(run.folder, "results")
        with open(os.path.join(run.folder, "job.toml"), "w") as file:
            file.write(case.job(run.folder, {**way, "spill": False}) + f"[output]\ndir = {json.dumps(out)}\n")
        shutil.rmtree(out, ignore_errors=True)
        program = os.path.join(os.path.dirname(run.program), "trainerd")
        done = subprocess.run([program, "--config", file.name], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Failed(f"a job's exit code {done.returncode}", f"{done.stderr[-2000:]}\n{way}")
        with open(os.path.join(out, "model.safetensors"), "rb") as model, open(os.path.join(out, "metrics.jsonl")) as metrics:
            bits.append((model.read(), [[json.loads(line)[k] for k in ("loss", "train_metric", "valid_metric")] for line in metrics]))
    if bits[0] != bits[-1]:
        raise Failed("a job's bits", f"of {ways[-1]} differ from those of {ways[0]}: losses {bits[0][1]}, {bits[-1][1]}")


def check_case(run, case, ways, way, whole):
    case.write(run.folder)
    check_gradients(run, case, way)
    check_bits(run, case, ways)
    if whole:
        check_job(run, case, ways[:2])


def keep_nodes(case, kept):
    """The case of some of its nodes, or None where nothing is left to train."""
    other = case.copy()
    number = np.cumsum(kept) - 1
    there = kept[case.edges].all(0) if case.edges.size else np.zeros(0, bool)
    other.n = int(kept.sum())
    other.part = case.part[kept]
    other.labels = case.labels[kept]
    other.features = None if case.features is None else case.features[kept]
    other.splits = {name: number[idx[kept[idx]]] for name, idx in case.splits.items()}
    keep_edges(other, there)
    other.edges = number[other.edges].reshape(2, -1)
    return other if other.trains() and len(set(other.part.tolist())) == other.n_part else None


def keep_edges(case, there):
    case.edges = case.edges[:, there]
    case.edge_weight, case.edge_features = case.edge_weight[there], case.edge_features[there]
    case.edge_type = np.unique(case.edge_type[there], return_inverse=True)[1].reshape(-1)
    return case


def smaller(case):
    """Cases with less in them, the boldest first."""
    n, n_edge = case.n, case.edges.shape[1]
    for size in (n // 2, n // 4, n // 8, 1):
        for begin in range(0, n, size) if 0 < size < n else ():
            kept = np.ones(n, bool)
            kept[begin:begin + size] = False
            yield keep_nodes(case, kept)
    for size in (n_edge // 2, n_edge // 4, 1):
        for begin in range(0, n_edge, size) if 0 < size < n_edge else ():
            there = np.ones(n_edge, bool)
            there[begin:begin + size] = False
            yield keep_edges(case.copy(), there)
    for section in ("model", "train", "exchange", "dataset", "task"):
        for key in getattr(case, section):
            if key not in ("kind", "epochs", "loss", "valid_share", "test_share"):
                other = case.copy()
                del getattr(other, section)[key]
                yield other


def shrink(run, case, ways, way, whole, failed):
    """The smallest case that still fails in the same way, and how it does."""
    n_left, found, end = MOST_SHRINKS, True, time.monotonic() + SHRINK_S
    while found and n_left > 0:
        found = False
        for other in smaller(case):
            n_left -= 1
            if other is None or not other.trains() or n_left < 0 or time.monotonic() > end:
                continue
            try:
                check_case(run, other, ways, way, whole)
            except Failed as failure:
                if failure.what == failed.what:
                    case, failed, found = other, failure, True
                    break
            except Exception:  # an oracle that has nothing to compute with
                pass
    return case, failed


def report(number, case, ways, way, failed, kept):
    """Keep the case's folder, with a job file of each way in which it was run, the gradient's last."""
    shutil.rmtree(kept, ignore_errors=True)
    case.write(kept)
    for i, one in enumerate([*ways, way]):
        with open(os.path.join(kept, f"job-{i}.toml"), "w") as file:
            file.write(case.job(kept, one, SGD if one is way else None))
    keys = {name: getattr(case, name) for name in ("dataset", "task", "partition", "model", "train", "exchange")}
    print(f"FAIL draw {number}: {failed}\n  {case.n} nodes, edges {case.edges.T.tolist()}, parts {case.part.tolist()}, train "
          f"{case.splits['train'].tolist()}\n  {json.dumps(keys)}\n  kept in {kept}", flush=True)


def draw(seed, number, devices):
    case, rng = draw_case(seed, number)
    device = devices[number % len(devices)]
    if device not in ("cpu", "reference"):
        case.train.pop("products", None)
    alike = {"cpu": [("cpu", "narrow"), ("cpu", "narrow"), ("cpu", "strict")]}.get(device, [(device, "job")])
    workers = lambda: int(rng.integers(1, min(4, case.n_part) + 1))
    first = draw_way(rng, case, 1, alike)
    ways = [first] + [draw_way(rng, case, n, alike) for n in (min(2, case.n_part), workers())]
    return case, ways, draw_way(rng, case, workers(), alike)


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("program")
    ask.add_argument("--seed", type=int, default=int(time.time()))
    ask.add_argument("--first", type=int, default=0)
    ask.add_argument("--draws", type=int, default=60)
    ask.add_argument("--seconds", type=float, default=float("inf"))
    ask.add_argument("--devices", nargs="+", default=["cpu", "cpu", "reference"])
    ask.add_argument("--whole", type=int, default=10, help="every so many draws are also run as whole jobs")
    ask.add_argument("--keep", default="property-failures")
    said = ask.parse_args()
    torch.set_num_threads(1)
    end, passed, failed = time.monotonic() + said.seconds, 0, 0
    print(f"property: seed {said.seed}, draws {said.first} to {said.first + said.draws - 1}", flush=True)
    with tempfile.TemporaryDirectory(prefix="property-") as folder:
        run = Runner(os.path.abspath(said.program), folder)
        if said.first == 0 and "cpu" in said.devices:
            try:
                passed += steps.check(run, Failed)
            except Failed as failure:
                failed += 1
                print(f"FAIL {failure}", flush=True)
        for number in range(said.first, said.first + said.draws):
            if time.monotonic() > end:
                break
            case, ways, way = draw(said.seed, number, said.devices)
            whole = number % said.whole == 0
            try:
                check_case(run, case, ways, way, whole)
                passed += 1
            except Failed as failure:
                failed += 1
                case, failure = shrink(run, case, ways, way, whole, failure)
                kept = os.path.abspath(os.path.join(said.keep, f"{said.seed}-{number}"))
                report(f"{number} of seed {said.seed}", case, ways, way, failure, kept)
        run.end()
    print(f"property: the bits alone of {run.n_uncompared} cases, in which a norm divides by next to nothing")
    print(f"tests: {passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
