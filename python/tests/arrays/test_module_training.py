"""A model of PyTorch Geometric trained on: from its weights, and back into it, beside PyTorch's own training."""
import os
import unittest
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

import trainerd
from folders import C, N, F as COLUMNS, FolderCase, random_data
from trainerd.fields import Epoch

LR = 0.1  # of SGD: Adam would enlarge the rounding of gradients that are 0, such as a bias's before a batch norm
KEYS: dict[str, Any] = {"progress": False, "parts": 2, "lr": LR, "optimizer": "sgd", "weight_decay": 0.0}
EPOCHS = 4


class Own(nn.Module):  # type: ignore[misc]
    """Attention, a norm over all nodes, and a convolution without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = pyg.GATConv(COLUMNS, 4, heads=2), nn.BatchNorm1d(8), pyg.GCNConv(8, C, bias=False)

    def forward(self, x: Any, edge_index: Any) -> Any:
        x = F.dropout(x, p=0.0, training=self.training)
        return F.log_softmax(self.last(F.relu(self.norm(self.first(x, edge_index))), edge_index), 1)


def models() -> list[Any]:
    degrees = torch.bincount(torch.arange(N) % 7)
    return [pyg.GCN(COLUMNS, 8, 2, C), pyg.GraphSAGE(COLUMNS, 8, 3, C, norm="batch"), pyg.GIN(COLUMNS, 8, 2, C, train_eps=True), Own(),
            pyg.PNA(COLUMNS, 6, 2, C, aggregators=["mean", "max"], scalers=["identity", "amplification"], deg=degrees),
            pyg.GAT(COLUMNS, 8, 2, C, heads=4, jk="cat"), pyg.GCNConv(COLUMNS, C),
            pyg.Sequential("x, edge_index", [(pyg.SAGEConv(COLUMNS, 8), "x, edge_index -> x"), nn.ReLU(), nn.Linear(8, C)])]


class AModule(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.go_inside()
        torch.manual_seed(1)
        self.data = random_data()
        self.data.x = torch.rand(N, COLUMNS)
        loops = self.data.edge_index[0] == self.data.edge_index[1]
        self.data.edge_index = self.data.edge_index[:, ~loops]
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore", trainerd.JobWarning)

    def trained_by_pytorch(self, model: Any) -> Any:
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        model.train()
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            out = model(self.data.x, self.data.edge_index)
            F.cross_entropy(out[self.data.train_mask], self.data.y[self.data.train_mask]).backward()
            optimizer.step()
        return model.state_dict()

    def test_is_trained_as_by_pytorch_and_has_the_weights_at_the_end(self) -> None:
        for model in models():
            with self.subTest(type(model).__name__):
                start = {name: value.clone() for name, value in model.state_dict().items()}
                result = trainerd.train(self.data, model=model, epochs=EPOCHS, **KEYS)
                for name, value in model.state_dict().items():
                    self.assertTrue(torch.equal(value, start[name]), name)  # until they are loaded
                expected = {name: value.clone() for name, value in self.trained_by_pytorch(model).items()}
                model.load_state_dict(start)
                trainerd.load_into_pyg(model, result, "model.safetensors")
                for name, value in model.state_dict().items():
                    if not name.endswith("num_batches_tracked"):
                        np.testing.assert_allclose(value.numpy(), expected[name].numpy(), atol=2e-4, err_msg=name)
                model.eval()
                trainerd.load_into_pyg(model, result)
                with torch.no_grad():
                    logits = model(self.data.x, self.data.edge_index)
                np.testing.assert_allclose(torch.log_softmax(logits, 1), torch.log_softmax(torch.tensor(result.logits()), 1), atol=1e-5)

    def test_drops_what_its_layers_drop(self) -> None:
        plain, dropping = pyg.GCN(COLUMNS, 8, 2, C), pyg.GCN(COLUMNS, 8, 2, C, dropout=0.9)
        dropping.load_state_dict(plain.state_dict())
        losses = [[epoch["loss"] for epoch in trainerd.train(self.data, model=model, epochs=2, **KEYS).epochs()] for model in (plain, dropping)]
        self.assertNotEqual(losses[0][0], losses[1][0])
        self.assertIn("dropout(v.h3, 0.9)", trainerd.train(self.data, model=dropping, epochs=0, **KEYS).json["job"]["model"]["program"])

    def test_that_cannot_be_trained_is_refused(self) -> None:
        frozen, same = pyg.GCN(COLUMNS, 8, 2, C), pyg.GCNConv(COLUMNS, COLUMNS)
        frozen.convs[0].bias.requires_grad_(False)
        twice = pyg.Sequential("x, edge_index", [(same, "x, edge_index -> x"), (same, "x, edge_index -> x"), nn.Linear(COLUMNS, C)])
        for model, kind, words in ((frozen, trainerd.UsageError, "'convs.0.bias' is frozen (requires_grad=False), and a job trains all weights"),
                                   (twice, trainerd.UsageError, "is used in several places of the job's text"),
                                   (nn.LSTM(3, 3), trainerd.UsageError, "model: "),
                                   (pyg.GCN(COLUMNS - 1, 8, 2, C), trainerd.UsageError, f"model: tensor 'convs.0.lin.weight' has shape [8, {COLUMNS - 1}], "
                                    f"expected [8, {COLUMNS}], since the data have {COLUMNS} columns of features"),
                                   (pyg.GCN(COLUMNS, 8, 2, C + 1), trainerd.UsageError, f"model: its output has {C + 1} columns, expected {C}, one for each class")):
            with self.subTest(words), self.assertRaises(kind) as caught:
                trainerd.train(self.data, model=model, epochs=1, **KEYS)
            self.assertIn(words, str(caught.exception))
        self.refused(trainerd.UsageError, "model is a module, and set={'model.init': 'x'} gives initial weights, too", trainerd.train, self.data,
                     model=pyg.GCN(COLUMNS, 8, 2, C), set={"model.init": "x"}, **KEYS)
        self.assertFalse(os.path.exists("runs"))

    def test_goes_on_after_an_interrupt(self) -> None:
        def stop(epoch: Epoch) -> None:
            raise KeyboardInterrupt
        model = pyg.GCN(COLUMNS, 8, 2, C)
        with self.assertRaises(trainerd.Interrupted) as caught:
            trainerd.train(self.data, model=model, output="out", epochs=100_000_000, **{**KEYS, "progress": stop})
        n_done = int(str(caught.exception).split()[2])
        os.rename("out", "moved")
        result = trainerd.resume("moved", epochs=n_done + 2, progress=False)
        straight = trainerd.train(self.data, model=model, epochs=n_done + 2, **KEYS)
        np.testing.assert_array_equal(result.logits(), straight.logits())


if __name__ == "__main__":
    unittest.main()
