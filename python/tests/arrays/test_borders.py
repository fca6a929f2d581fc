"""What is not a number, and slopes where a function has none: jobs beside PyTorch, which shares no code with them."""
import math
import unittest
from typing import Any

import numpy as np
import torch
from torch_geometric.utils import add_remaining_self_loops

import trainerd
from folders import C, N, FolderCase, random_data

# Two rows are equal, so that their difference is 0, where the root of its square has no slope.
NO_SLOPE = """def layer(v, out):
    v.z = linear("lin", v.x, out)
    v.y = softmax_of(v)
    return linear("last", v.y, out)

def softmax_of(v):
    return sum(softmax(root(e)) * e.src.z for e in v.in_edges)

def root(e):
    return sqrt(sum_columns((e.src.z - e.dst.z) * (e.src.z - e.dst.z)))
"""
LAST = "the gradient of 'convs.1.lin.bias' (line 2 of model.program) is not finite in epoch 0: lower train.lr"


class WhatIsNotANumber(FolderCase):
    def stopped(self, **sections: Any) -> str:
        """Why a job ended, with a graph that has loops."""
        model = {"program": trainerd.Program(NO_SLOPE), "hidden": 8, **sections.pop("model", {})}
        job = {"name": "job", "dataset": {"path": str(self.path), "self_loops": "yes", **sections.pop("dataset", {})},
               "partition": {"parts": 3, "cache": "off"}, "model": {"kind": "program", **model},
               "train": {"epochs": 3, **sections.pop("train", {})}, **sections}
        (self.folder / "job.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        done = self.run_program("--config", "job.toml")
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def setUp(self) -> None:
        super().setUp()
        self.path = trainerd.from_pyg(random_data(), self.folder / "data")

    def test_of_a_gradient_ends_the_job_in_its_epoch_on_any_workers(self) -> None:
        for device in ("cpu", "reference"):
            for count in (1, 2, 3):
                with self.subTest(device=device, count=count):
                    self.assertIn(LAST, self.stopped(workers={"count": count, "threads": 1, "device": device}))

    def test_of_a_clipped_gradient_or_of_weights_that_lie_with_parts_does_too(self) -> None:
        self.assertIn(LAST, self.stopped(train={"clip_norm": 1.0}))
        learned = self.stopped(dataset={"features": "learned"}, model={"layers": 1}, workers={"count": 2, "threads": 1})
        self.assertIn("the gradient of 'convs.0.lin.bias' (line 2 of model.program) is not finite in epoch 0", learned)

    def test_goes_back_as_a_loss_does(self) -> None:
        said = self.stopped(train={"on_nan": "rollback", "max_rollbacks": 2})
        self.assertIn(LAST, said)
        self.assertIn("2 rollbacks (train.max_rollbacks) did not help", said)

    def test_in_logits_is_a_remark_where_loss_and_weights_are_finite(self) -> None:
        data = random_data()
        data.x[:, 0] = torch.where(data.train_mask, 1.0, -1.0)
        path = trainerd.from_pyg(data, self.folder / "negative")
        text = 'def layer(v, out):\n    return linear("lin", v.x, out) + sqrt(v.x[:, 0:1])\n'
        job = {"name": "job", "dataset": {"path": str(path)}, "model": {"kind": "program", "program": trainerd.Program(text), "layers": 1},
               "train": {"epochs": 2}}
        (self.folder / "job.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        done = self.run_program("--config", "job.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        n = int((~data.train_mask).sum())
        self.assertIn(f"logits.npy: {n} of {N} rows are not finite, the first one is of node 1", done.stderr + done.stdout)
        again = self.run_program("--predict", self.folder / "runs/job", "--config", "job.toml", "--set", "output.dir=again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(f"logits.npy: {n} of {N} rows are not finite", again.stderr + again.stdout)


# What is made of z, which is of each node, where every column of z is the number beside it.
BORDERS = [
    ("relu(z)", 0), ("leaky_relu(z, 0.2)", 0), ("elu(z)", 0), ("gelu(z)", 0), ("silu(z)", 0), ("sigmoid(z)", 0), ("tanh(z)", 0), ("softplus(z)", 0),
    ("exp(z)", 0), ("log(z)", 0), ("log(z + 1)", 0), ("sqrt(z)", 0), ("sqrt(z + 1)", 0), ("abs(z)", 0), ("clamp(z, -1, 0)", 0), ("clamp(z, 0, 1)", 0),
    ("clamp(z, 0.5, 1)", 0), ("z ** 2", 0), ("z ** 3", 0), ("z ** 1", 0), ("z ** 0", 0), ("z ** 0.5", 0), ("z ** 1.5", 0), ("z ** 2", -1), ("z ** 3", -1),
    ("z ** -1", 0), ("1 / z", 0), ("z / (z + 1)", 0), ("z * z", 0), ("minimum(z, z * 2)", 0), ("maximum(z, z * 2)", 0), ("maximum(z, 0)", 0),
    ("minimum(z, 1)", 1), ("maximum(v.x, z)", 1), ("norm(z) + z", 0), ("norm(z) * z", 0), ("norm(z - v.x) + z", 1), ("dot(z, z) + z", 0),
    ("normalize(z) * 1e-9", 0), ("layer_norm('n', z) + z", 0), ("layer_norm('n', z) + z", 1), ("sqrt(z * z) + z", 0)]
OF_EDGES = [
    "norm(e.src.z - e.dst.z)", "norm(e.src.z - e.dst.z) * e.src.z", "abs(e.src.z - e.dst.z)", "e.src.z * relu(e.dst.z - e.src.z)",
    "sqrt(e.src.z - e.dst.z)", "maximum(e.src.z, e.dst.z)", "minimum(e.src.z, e.dst.z)", "clamp(e.src.z - e.dst.z, 0, 1)", "elu(e.src.z - e.dst.z)",
    "leaky_relu(e.src.z - e.dst.z, 0.2)", "softmax(norm(e.src.z - e.dst.z)) * e.src.z", "(e.src.z - e.dst.z) ** 2"]
# A slope that is infinite, times a gradient of 0: NaN in PyTorch, and no number should come of what nothing reads.
ZERO_HERE = [("sqrt(z * z) * 0 + z", 0), ("(z * z) ** 0.5 * 0 + z", 0), ("(std(sqrt(e.src.z - e.dst.z) for e in v.in_edges) + z)", 1),
             ("(var(sqrt(e.src.z - e.dst.z) for e in v.in_edges) + z)", 1)]


class ASlopeAtABorder(FolderCase):
    def compare(self, value: str, at: float, device: str, expected: float | None = None) -> None:
        """The step of a weight that is added to every row, against PyTorch's gradient; or that both stop, as it is no number. expected: where
        PyTorch's is none, the slope that is to be there."""
        text = f"def model(v, classes):\n    v.z = v.x + param('p', {C}, init=zeros)\n    z = v.z\n    return {value} + z * 0\n"
        data = random_data()
        data.x = torch.full((N, C), float(at))
        loops = "in_edges" in value
        path = trainerd.from_pyg(data, self.folder / "data", overwrite=True)
        job = {"name": "job", "dataset": {"path": str(path), "self_loops": "yes" if loops else "no"}, "partition": {"parts": 2, "cache": "off"},
               "model": {"kind": "program", "program": trainerd.Program(text)}, "workers": {"threads": 1, "device": device},
               "train": {"epochs": 1, "optimizer": "sgd", "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0}}
        (self.folder / "job.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        done = self.run_program("--config", "job.toml")
        module = trainerd.Program(text).torch(C, C)
        edges = add_remaining_self_loops(data.edge_index, num_nodes=N)[0] if loops else data.edge_index
        logits = module(data.x, edges)
        loss = torch.nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        loss.backward()
        gradient = dict(module.named_parameters())["p"].grad
        if not math.isfinite(loss.item()):
            self.assertIn("the loss is", done.stderr)
        elif expected is None and not bool(gradient.isfinite().all()):
            self.assertIn("the gradient of 'p' (line 2 of model.program) is not finite in epoch 0", done.stderr)
        else:
            self.assertEqual(done.returncode, 0, done.stderr)
            found = -trainerd.Result(self.folder / "runs/job").weights("model.safetensors")["p"]
            if expected is not None:
                self.assertFalse(bool(gradient.isfinite().all()), "PyTorch's is a number now")
                gradient = torch.autograd.grad(torch.nn.functional.cross_entropy(
                    (z := torch.zeros(N, C, requires_grad=True))[data.train_mask], data.y[data.train_mask]), z)[0].sum(0) * expected
            np.testing.assert_allclose(found, gradient.numpy(), rtol=1e-5, atol=1e-6, err_msg=text)

    def test_is_pytorch_s(self) -> None:
        for value, at in BORDERS:
            for device in ("cpu", "reference"):
                with self.subTest(value, at=at, device=device):
                    self.compare(value, at, device)

    def test_of_edges_is_pytorch_s_where_an_edge_is_between_equals(self) -> None:
        for value in OF_EDGES:
            for how in ("sum",) if "softmax" in value else ("sum", "mean", "max") if "sqrt" in value else ("sum", "mean", "max", "std", "var"):
                with self.subTest(value, how=how):
                    self.compare(f"({how}({value} for e in v.in_edges) + z)", 1, "cpu")

    def test_of_a_root_that_nothing_reads_is_0(self) -> None:
        for value, at in ZERO_HERE:
            for device in ("cpu", "reference"):
                with self.subTest(value, device=device):
                    self.compare(value, at, device, 1.0)


if __name__ == "__main__":
    unittest.main()
