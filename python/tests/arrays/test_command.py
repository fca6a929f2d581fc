"""python3 -m trainerd convert."""
import os
import subprocess
import sys
import unittest.mock

import numpy as np

import trainerd
from folders import FolderCase, arrays_in, json_in


class Convert(FolderCase):
    def convert(self, code: int, words: str, *arguments: object) -> str:
        done = subprocess.run([sys.executable, "-m", "trainerd", "convert", *map(str, arguments)], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)
        return done.stderr

    def test_writes_an_archive_with_all_its_splits(self) -> None:
        masks = {"train_masks": [[1, 0, 0], [0, 1, 0]], "val_masks": [[0, 1, 0], [0, 0, 1]], "test_masks": [[0, 0, 1], [1, 0, 0]]}
        np.savez(self.folder / "two.npz", edges=[[0, 1], [1, 2], [1, 0]], node_features=np.eye(3), node_labels=[1, 0, 1], **masks)
        self.convert(0, "", "yandex", "two.npz", "data/two")
        found = arrays_in(self.folder / "data/two")
        np.testing.assert_array_equal(found["edges"], [[0, 1, 1, 2], [1, 0, 2, 1]])
        np.testing.assert_array_equal(found["val_mask"], np.array(masks["val_masks"], bool).T)
        self.convert(73, "already exists", "yandex", "two.npz", "data/two")
        self.convert(0, "", "yandex", "two.npz", "data/two", "--overwrite")
        self.assertEqual(self.train(self.folder / "data/two", dataset={"split": 1}).json["dataset"]["split"]["of"], 2)

    def test_says_what_is_missing(self) -> None:
        self.convert(66, "'none.npz': No such file or directory", "yandex", "none.npz", "x")
        np.savez(self.folder / "odd.npz", edges=np.zeros((2, 2), int))
        self.convert(65, "is not such an archive", "yandex", "odd.npz", "x")
        self.convert(66, "'ogb.nodeproppred' cannot be imported", "ogb", "ogbn-arxiv", "x")
        self.convert(2, "'Planetarium' is not in torch_geometric.datasets", "pyg", "Planetarium:Cora", "x")
        self.convert(2, "KarateClub takes no name", "pyg", "KarateClub:Cora", "x")
        self.convert(2, "expected CLASS:NAME", "pyg", "Planetoid", "x")
        self.convert(2, "invalid choice: 'spektral'", "spektral", "x", "y")
        self.convert(2, "--weight names a column of tables, expected csv", "pyg", "KarateClub", "x", "--weight", "w")
        self.convert(2, "argument --draw: invalid", "pyg", "KarateClub", "x", "--draw", "a,b")

    def test_without_internet_says_so_in_a_line_and_leaves_no_folder(self) -> None:
        nowhere = {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
        with unittest.mock.patch.dict(os.environ, nowhere):
            said = self.convert(66, "trainerd: CoraGraphDataset cannot be had: HTTPSConnectionPool", "dgl", "CoraGraphDataset", "data/cora")
        self.assertNotIn("Traceback", said)
        self.assertIn("expected internet, or an earlier download in 'data/downloads' (--root)\n", said)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_writes_a_data_set_of_pyg_and_one_of_dgl(self) -> None:
        self.convert(0, "", "pyg", "KarateClub", "data/pyg")
        self.assertEqual(arrays_in(self.folder / "data/pyg")["features"].shape, (34, 34))
        self.assertEqual(self.train(self.folder / "data/pyg").json["dataset"]["nodes"], 34)
        self.convert(65, "the graph has no training nodes", "dgl", "KarateClubDataset", "data/dgl")
        self.convert(0, "", "dgl", "KarateClubDataset", "data/dgl", "--predict-only")
        self.assertEqual(arrays_in(self.folder / "data/dgl")["edges"].shape, arrays_in(self.folder / "data/pyg")["edges"].shape)


class Table(FolderCase):
    def test_of_a_links_prediction_prints_partners_by_names(self) -> None:
        names = [f"n{i}" for i in range(6)]
        data = trainerd.from_arrays(self.folder / "data", ids=names, edges=[[f"n{i}" for i in range(5)], names[1:]], features=np.eye(6),
                                    predict_only=True)
        np.save(self.folder / "nodes.npy", np.array([0, 3]))
        task = {"kind": "link", "channels": 4}
        done = self.train(data, task=task)
        job = {"dataset": {"path": str(data)}, "task": task, "predict": {"nodes": "nodes.npy", "best": 2}, "output": {"dir": "out"}}
        (self.folder / "job.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        self.assertEqual(self.run_program("--predict", done.folder, "--config", "job.toml").returncode, 0)
        partners, scores = np.load(self.folder / "out/partners.npy"), np.load(self.folder / "out/partner_scores.npy")
        said = subprocess.run([sys.executable, "-m", "trainerd", "table", "out"], cwd=self.folder, capture_output=True, text=True, check=True).stdout
        expected = [[f"n{node}", f"n{partners[i, k]}", str(k + 1), float(scores[i, k])] for i, node in enumerate((0, 3)) for k in range(2)]
        lines = [line.split(",") for line in said.splitlines()]
        self.assertEqual(lines[0], ["id", "partner", "rank", "score"])
        self.assertEqual([[*line[:3], float(line[3])] for line in lines[1:]], expected)

    def test_prints_a_row_for_each_node_by_names(self) -> None:
        data = trainerd.from_arrays(self.folder / "data", ids=["a", "b", "c"], edges=[["a", "b"], ["b", "c"]], labels=["x", "y, z", "x"],
                                    features=np.eye(3), train=["a", "b"])
        done = self.train(data)
        said = subprocess.run([sys.executable, "-m", "trainerd", "table", str(done.folder)], capture_output=True, text=True, check=True).stdout
        lines = said.splitlines()
        self.assertEqual((len(lines), lines[0]), (4, 'id,class,probability,p_x,"p_y, z"'))
        table = done.table()
        self.assertEqual(lines[2].split(",")[0], "b")
        self.assertEqual(float(lines[3].split(",")[-1]), table["p_y, z"][2])
        (self.folder / "e.csv").write_text("source,target\n7,8\n", encoding="ascii")
        (self.folder / "n.csv").write_text("id,label\n7,x\n8,\n", encoding="ascii")
        subprocess.run([sys.executable, "-m", "trainerd", "convert", "csv", "e.csv:n.csv", "new", "--classes-of", str(done.folder), "--predict-only"],
                       cwd=self.folder, check=True)
        self.assertEqual(json_in(self.folder / "new", "class_names"), ["x", "y, z"])
        ended = subprocess.run(f"{sys.executable} -m trainerd table {done.folder} | true", shell=True, capture_output=True, text=True, check=False)
        self.assertEqual(ended.stderr, "")
        self.assertEqual(subprocess.run([sys.executable, "-m", "trainerd", "table", "none"], capture_output=True, check=False).returncode, 66)
