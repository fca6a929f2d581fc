"""Predictions, by `trainerd --predict` and by a daemon."""
import os
import pathlib
import shutil
import unittest.mock
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import numpy as np
import torch
from torch_geometric.data import HeteroData

import trainerd
from daemon import LONG, PATIENCE_S, PROGRAMS, Daemon
from folders import N, FolderCase, random_data
from trainerd.nodes import node_columns


class APrediction(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.data = random_data()
        self.path = trainerd.from_pyg(self.data, "data")
        self.trained = self.train(self.path)

    def predict(self, data: Any, **options: Any) -> trainerd.Result:
        result: trainerd.Result = trainerd.predict(self.trained.folder, data, **{"program": PROGRAMS / "trainerd", "set": {"partition.parts": 2},
                                                                                 **options})
        return result

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

    def test_has_the_names_of_nodes_and_of_the_training_s_classes(self) -> None:
        ids = [f"account {i}" for i in range(N)]
        arrays: dict[str, Any] = {"edges": np.array(ids)[self.data.edge_index.numpy()], "features": self.data.x, "ids": ids, "train": ids[::3]}
        trainerd.from_arrays("named", labels=np.array(["ant", "bee", "cow"])[self.data.y.numpy()], **arrays)
        trained = self.train(pathlib.Path("named"))
        self.assertEqual(trained.class_names(), ["ant", "bee", "cow"])
        table = trained.table()
        self.assertEqual(list(table), ["id", "class", "probability", "p_ant", "p_bee", "p_cow"])
        self.assertEqual(list(table["id"]), ids)
        powers = np.exp(trained.logits().astype(np.float64))
        np.testing.assert_allclose(table[["p_ant", "p_bee", "p_cow"]], powers / powers.sum(1, keepdims=True))
        np.testing.assert_array_equal(table["class"], np.array(trained.class_names())[trained.logits().argmax(1)])
        np.testing.assert_array_equal(table["probability"], table[["p_ant", "p_bee", "p_cow"]].max(axis=1))
        shutil.rmtree("named")
        trainerd.from_arrays("new", **arrays, predict_only=True)
        result = trainerd.predict(trained.folder, "new", program=PROGRAMS / "trainerd", set={"partition.parts": 2})
        self.assertEqual(result.class_names(), ["ant", "bee", "cow"])
        self.assertEqual(list(result.table()["id"]), ids)
        self.assertEqual(list(trained.columns()["id"]), list(range(N)))  # its data are gone
        self.assertEqual(list(trained.columns("new")["id"]), ids)
        self.refused(trainerd.MissingInput, "'gone' is not there, expected the data folder", trained.columns, "gone")
        trainerd.from_arrays("other", labels=["bee"] * N, **arrays)
        self.refused(trainerd.DataError, 'class_names.json has ["bee"], expected ["ant","bee","cow"] as in the training of the model',
                     trainerd.predict, trained.folder, "other", program=PROGRAMS / "trainerd")
        trainerd.from_arrays("same", labels=["bee"] * N, classes=trained.class_names(), **arrays)
        trainerd.predict(trained.folder, "same", program=PROGRAMS / "trainerd")
        self.refused(trainerd.DataError, "'other/node_names.npy' has shape [40], expected [2]", node_columns, np.zeros((2, 1)), {}, "other")

    def test_has_the_names_of_a_graph_in_memory(self) -> None:
        ids = [f"account {i}" for i in range(N)]
        arrays: dict[str, Any] = {"edges": np.array(ids)[self.data.edge_index.numpy()], "features": self.data.x, "ids": ids, "train": ids[::3]}
        labels = np.array(["ant", "bee", "cow"])[self.data.y.numpy()]
        trained = trainerd.train({**arrays, "labels": labels}, epochs=1, output="named", progress=False, program=PROGRAMS / "trainerd")
        self.assertEqual(list(trained.columns()["id"]), ids)
        self.assertEqual(list(trainerd.predict(trained, arrays, program=PROGRAMS / "trainerd").table()["id"]), ids)
        self.assertEqual(list(trainerd.Result("named").columns()["id"]), list(range(N)))  # its data are gone
        graph = HeteroData()
        graph["paper"].x, graph["author"].x = torch.rand(3, 2), torch.rand(2, 2)
        graph["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [2, 0, 1]])
        graph["paper"].y, graph["paper"].train_mask = torch.tensor([0, 1, 0]), torch.ones(3, dtype=torch.bool)
        typed = trainerd.train(graph, model="rgcn", epochs=1, output="typed", progress=False, parts=1, program=PROGRAMS / "trainerd").columns()
        self.assertEqual(list(zip(typed["type"].tolist(), typed["id"].tolist())), [("paper", 0), ("paper", 1), ("paper", 2), ("author", 0), ("author", 1)])

    def test_has_columns_for_several_labels_for_numbers_and_for_types(self) -> None:
        several = node_columns(np.array([[0.0, -800.0], [2.0, 800.0]]), {"multi_label": True, "class_names": ["a", "b"]}, None)
        self.assertEqual({name: column.tolist() for name, column in several.items()},
                         {"id": [0, 1], "a": [False, True], "b": [False, True], "p_a": [0.5, 1 / (1 + np.exp(-2))], "p_b": [0, 1]})
        numbers = node_columns(np.array([[0.5], [2.0]]), {"outputs": 1}, None)
        self.assertEqual({name: column.tolist() for name, column in numbers.items()}, {"id": [0, 1], "value": [0.5, 2]})
        trainerd.from_arrays("plain", edges=[[0], [1]], nodes=4, node_type=[1, 0, 1, 1], predict_only=True)
        pathlib.Path("plain/type_names.json").write_text('["paper", "author"]', encoding="ascii")
        typed = node_columns(np.zeros((4, 1)), {}, "plain")
        self.assertEqual((typed["type"].tolist(), typed["id"].tolist()), (["author", "paper", "author", "author"], [0, 0, 1, 2]))

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
        self.refused(trainerd.UsageError, "data is 3, expected a folder's path", self.predict, 3)
        self.refused(trainerd.MissingInput, "cannot run '/none': No such file or directory", self.predict, "data", program="/none")
        with unittest.mock.patch.dict(os.environ, {"PATH": str(self.folder), "TRAINERD_BIN": ""}):
            self.refused(trainerd.MissingInput, "the program trainerd is neither in $TRAINERD_BIN", self.predict, "data", program=None)
