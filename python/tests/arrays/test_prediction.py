"""Predictions, by `trainerd --predict` and by a daemon."""
import os
import pathlib
import unittest.mock
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import numpy as np

import trainerd
from daemon import LONG, PATIENCE_S, PROGRAMS, Daemon
from folders import N, FolderCase, random_data


class APrediction(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.data = random_data()
        self.path = trainerd.from_pyg(self.data, "data")
        self.trained = self.train(self.path)

    def predict(self, data: Any, **options: Any) -> trainerd.Result:
        return trainerd.predict(self.trained.folder, data, **{"program": PROGRAMS / "trainerd", "set": {"partition.parts": 2}, **options})

    def expect_trained(self, result: trainerd.Result) -> None:
        np.testing.assert_array_equal(result.logits(), self.trained.logits())
        np.testing.assert_array_equal(result.predictions(), self.trained.logits().argmax(1))

    def test_on_the_training_s_folder_has_its_logits(self) -> None:
        result = self.predict("data")
        self.expect_trained(result)
        self.assertEqual(result.test_metric, self.trained.test_metric)
        self.assertEqual(result.folder.parent, pathlib.Path(os.path.realpath("runs")))
        self.assertTrue(result.folder.name.startswith("data-gcn-predict-"))

    def test_of_a_file_of_weights_goes_where_it_is_told(self) -> None:
        result = trainerd.predict(self.trained.folder / "model.safetensors", "data", program=PROGRAMS / "trainerd", name="last", output="out")
        self.assertEqual(result.folder, pathlib.Path(os.path.abspath("out")))
        self.assertEqual(result.json["model"]["weights"], "model.safetensors")

    def test_of_a_graph_in_memory_needs_no_labels(self) -> None:
        self.data.y = None
        near = 1e-6  # without the splits rows may have another order
        np.testing.assert_allclose(self.predict(self.data).logits(), self.trained.logits(), rtol=0, atol=near)
        graph = dgl.graph(tuple(self.data.edge_index), num_nodes=N)
        graph.ndata["feat"] = self.data.x
        np.testing.assert_allclose(self.predict(graph).logits(), self.trained.logits(), rtol=0, atol=near)

    def test_has_embeddings_of_a_layer(self) -> None:
        self.assertEqual(self.predict("data", embeddings="convs.0").embeddings().shape, (N, 8))
        self.refused(trainerd.JobFileError, "the model has no layer of that name", self.predict, "data", embeddings="convs.7")

    def test_by_a_daemon_is_the_same(self) -> None:
        daemon = Daemon(self.folder)
        self.addCleanup(daemon.end)
        client = trainerd.Client(daemon.address)
        self.expect_trained(self.predict("data", client=client))
        self.data.y = None
        self.assertEqual(self.predict(self.data, client=client).logits().shape, (N, 3))
        self.refused(trainerd.DataError, "column", self.predict, {"generator": "karate"}, client=client)

    def test_that_waits_too_long_is_stopped(self) -> None:
        daemon = Daemon(self.folder)
        self.addCleanup(daemon.end)
        client = trainerd.Client(daemon.address)
        before = client.submit(LONG, set={"workers.count": 4, "partition.parts": 4})
        next(event for event in before.watch() if event["event"] == "epoch")
        self.refused(TimeoutError, "after 0.2 s", self.predict, self.data, client=client, timeout=0.2)
        self.assertEqual(client.jobs()[0]["state"], "CANCELLED")
        before.cancel()
        before.wait(PATIENCE_S, check=False)
        self.refused(TimeoutError, "has not ended after 0 s, and is stopped", self.predict, "data", timeout=0)

    def test_says_what_is_wrong(self) -> None:
        self.refused(trainerd.MissingInput, "dataset.path: ", self.predict, "nowhere")
        self.refused(trainerd.MissingInput, "/runs/none': No such file or directory, expected the folder of a training's results",
                     trainerd.predict, "runs/none", "data")
        self.refused(trainerd.JobFileError, "unknown key 'epoch'", self.predict, "data", set={"train.epoch": 3})
        self.refused(trainerd.UsageError, "data is a int, expected a folder's path", self.predict, 3)
        self.refused(trainerd.MissingInput, "cannot run '/none': No such file or directory", self.predict, "data", program="/none")
        with unittest.mock.patch.dict(os.environ, {"PATH": str(self.folder)}):
            self.refused(trainerd.MissingInput, "the program trainerd is not on PATH", self.predict, "data", program=None)
