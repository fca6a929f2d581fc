"""What is not a number, and slopes where a function has none: jobs beside PyTorch, which shares no code with them."""
import unittest
from typing import Any

import torch

import trainerd
from folders import N, FolderCase, random_data

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


if __name__ == "__main__":
    unittest.main()
