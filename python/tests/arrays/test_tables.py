"""Tables of edges and nodes as folders: DataFrames of pandas and CSV files."""
import gzip
import random
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas

import trainerd
from folders import FolderCase, arrays_in, json_in, meta_in

EDGES: dict[str, Any] = {"source": ["a1", "b2", "b2", "007"], "target": ["b2", "007", "a1", "a1"],
                         "sum": [1.5, 2.0, 3.0, 0.5], "how": ["cash", "card", "card", "cash"]}
NODES: dict[str, Any] = {"id": ["a1", "b2", "007", "z"], "age": [30, 41, 25, 19],
                         "city": ["Rome", "Oslo", "Rome", "Bern"], "rich": [True, False, False, True],
                         "label": ["honest", "fraud", "honest", None], "split": ["train", "train", "val", None]}


class Tables(FolderCase):
    def make(self, name: str = "made", *, edges: Any = None, nodes: Any = None, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return trainerd.from_pandas(pandas.DataFrame({**EDGES, **(edges or {})}), pandas.DataFrame({**NODES, **(nodes or {})}),
                                        self.folder / name, **options)

    def test_of_pandas_have_names_classes_splits_and_columns_of_numbers(self) -> None:
        with self.assertWarnsRegex(UserWarning, "columns of the nodes that are no numbers are left out: 'city'"):
            folder = trainerd.from_pandas(pandas.DataFrame(EDGES), pandas.DataFrame(NODES), self.folder / "all", weight="sum", relation="how")
        found = arrays_in(folder)
        np.testing.assert_array_equal(found["edges"], [[0, 1, 1, 2], [1, 2, 0, 0]])
        np.testing.assert_array_equal(found["features"], [[30, 1], [41, 0], [25, 0], [19, 1]])
        np.testing.assert_array_equal(found["labels"], [1, 0, 1, -1])
        np.testing.assert_array_equal(found["edge_weight"], np.array(EDGES["sum"], np.float32))
        np.testing.assert_array_equal(found["edge_type"], [1, 0, 0, 1])
        np.testing.assert_array_equal(found["node_names"], NODES["id"])
        self.assertEqual([found[f"{split}_idx"].tolist() for split in ("train", "valid", "test")], [[0, 1], [2], []])
        self.assertEqual((json_in(folder, "class_names"), json_in(folder, "relation_names")), (["fraud", "honest"], ["card", "cash"]))
        self.assertEqual(meta_in(folder), {"name": "all", "nodes": 4, "classes": 2, "features": 2, "relations": 2})
        self.assertEqual(self.train(folder).json["state"], "SUCCEEDED")

    def test_may_call_their_columns_otherwise(self) -> None:
        edges = pandas.DataFrame(EDGES).rename(columns={"source": "from", "target": "to"})
        nodes = pandas.DataFrame(NODES).rename(columns={"id": "account", "label": "kind", "split": "part"})
        found = arrays_in(trainerd.from_pandas(edges, nodes, self.folder / "x", source="from", target="to", id="account", label="kind", split="part",
                                               features=["age"]))
        self.assertEqual((found["features"].tolist(), found["train_idx"].tolist()), ([[30], [41], [25], [19]], [0, 1]))
        with self.assertWarnsRegex(UserWarning, "no numbers are left out: 'city', 'since'; one_hot="):
            trainerd.from_pandas(pandas.DataFrame(EDGES), pandas.DataFrame(NODES).assign(since=pandas.Timestamp(0)), self.folder / "times")
        several = arrays_in(self.make("several", nodes={"p": [0, 1, 0, 1], "q": [1.0, None, 0, 1]}, label=["p", "q"], features=["age"]))
        np.testing.assert_array_equal(several["labels"], np.array([[0, 1], [1, np.nan], [0, 0], [1, 1]], np.float32))
        self.assertEqual(json_in(self.folder / "several", "class_names"), ["p", "q"])
        numbers = arrays_in(self.make("numbers", label="age", numbers=True, draw=(0.5, 0.25, 0.25)))
        self.assertEqual((numbers["labels"].tolist(), numbers["features"].tolist()), ([30, 41, 25, 19], [[1], [0], [0], [1]]))
        nullable = {"id": pandas.array([5, 6, 7, 2**40], "Int64"), "age": pandas.array([1, 2, 3, 4], "Int64"),
                    "label": pandas.Categorical(["x", "y", "x", None])}
        ids = arrays_in(self.make("ids", nodes=nullable, edges={"source": [5, 6, 7, 2**40], "target": [6.0, 7.0, 5.0, 5.0]}))
        np.testing.assert_array_equal(ids["node_names"], [5, 6, 7, 2**40])
        np.testing.assert_array_equal(ids["edges"], [[0, 1, 2, 3], [1, 2, 0, 0]])

    def test_may_have_a_feature_of_each_value_of_a_column(self) -> None:
        folder = self.make(one_hot=["city", "id"], features=["age"])
        found = arrays_in(folder)
        self.assertEqual(meta_in(folder)["features"], 1 + 3 + 4)
        np.testing.assert_array_equal(found["feat_indices"], [0, 1, 4, 0, 2, 5, 0, 1, 6, 0, 3, 7])
        np.testing.assert_array_equal(found["feat_data"], [30, 1, 1, 41, 1, 1, 25, 1, 1, 19, 1, 1])
        self.assertEqual(self.train(folder).json["dataset"]["features"], 8)
        missing = arrays_in(self.make("missing", nodes={"city": ["Rome", None, "Rome", ""]}, one_hot=["city"], features=[]))
        np.testing.assert_array_equal(missing["feat_indptr"], [0, 1, 1, 2, 2])

    def test_that_are_wrong_are_refused_by_their_columns(self) -> None:
        for changed, words in (
                ({"source": "from"}, "the edges have no column 'from' for source (--source), expected one of 'source', 'target', 'sum', 'how'"),
                ({"label": "class"}, "the nodes have no column 'class' for label (--label)"),
                ({"edges": {"target": ["b2", "no", "a1", "a1"]}}, "column 'target' of the edges: 'no' (row 1) is not the name of a node"),
                ({"edges": {"source": ["a1", None, "b2", "a1"]}}, "column 'source' of the edges: row 1 has none"),
                ({"nodes": {"id": ["a1", "b2", "007", "a1"]}}, "column 'id' of the nodes: 'a1' is there twice, in row 0 and in row 3"),
                ({"nodes": {"age": [1, 2, None, 4]}}, "column 'age' of the nodes: row 2 is empty, expected a number"),
                ({"features": ["city"]}, "column 'city' of the nodes: row 0 is 'Rome', expected a number"),
                ({"nodes": {"split": ["train", "dev", None, None]}}, "column 'split' of the nodes: row 1 is 'dev', expected 'train', 'valid', 'test' or"),
                ({"edges": {"how": ["cash", None, "card", "cash"]}, "relation": "how"}, "column 'how' of the edges: row 1 is empty, expected a relation"),
                ({"label": ["city", "age"]}, "column 'city' of the nodes: row 0 is 'Rome', expected a number"),
                ({"nodes": {"age": pandas.to_datetime(["2020-01-01"] * 4)}, "features": ["age"]}, "column 'age' of the nodes: row 0 is '2020-01-01T00"),
                ({"nodes": {"age": [[1, 2], [3], [4, 5], [6, 7]]}, "features": ["age"]}, "column 'age' of the nodes: row 1 is [3], expected 2 numbers"),
                ({"nodes": {"label": [None] * 4}}, "column 'label' of the nodes: no row has a label"),
                ({"weight": "how"}, "column 'how' of the edges: row 0 is 'cash', expected a number"),
                ({"nodes": {"split": [None] * 4}}, "the graph has no training nodes, expected a train mask or split; draw=(0.6, 0.2, 0.2)")):
            with self.subTest(words):
                self.refused(trainerd.DataError, words, self.make, **changed)
        twice = pandas.DataFrame(NODES).rename(columns={"age": "city"})
        self.refused(trainerd.DataError, "the nodes have the column 'city' twice", trainerd.from_pandas, pandas.DataFrame(EDGES), twice, self.folder / "x")
        self.refused(trainerd.UsageError, "'lable' is not an option, expected one of source, target, id, label", self.make, lable="x")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_for_predictions_need_no_labels(self) -> None:
        nodes = pandas.DataFrame(NODES)[["id", "age"]]
        found = arrays_in(trainerd.from_pandas(pandas.DataFrame(EDGES), nodes, self.folder / "new", predict_only=True, classes=["fraud", "honest"]))
        self.assertEqual(set(found), {"edges", "features", "node_names"})
        self.assertEqual((meta_in(self.folder / "new")["classes"], json_in(self.folder / "new", "class_names")), (2, ["fraud", "honest"]))

    def csv(self, name: str, text: str) -> Any:
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    def test_of_csv_are_the_same_folder(self) -> None:
        expected = arrays_in(self.make(weight="sum"))
        edges, nodes = self.folder / "edges.csv", self.folder / "nodes.csv.gz"
        pandas.DataFrame(EDGES).to_csv(edges, index=False)
        pandas.DataFrame({**NODES, "rich": [1, 0, 0, 1]}).to_csv(nodes, index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assert_same_arrays(arrays_in(trainerd.from_csv(edges, nodes, self.folder / "csv", weight="sum")), expected)
        done = subprocess.run([sys.executable, "-W", "ignore", "-m", "trainerd", "convert", "csv", "edges.csv:nodes.csv.gz", "command", "--weight", "sum"],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_same_arrays(arrays_in(self.folder / "command"), expected)

    def test_of_csv_at_random_are_what_pandas_reads(self) -> None:
        for seed in range(20):
            rng = random.Random(seed)
            pools: list[list[Any]] = [["b", "a", "c_1", "d e"], ["1_0", "2", "10"], [3, 1, 2, 40], [1.5, -2.0, 1e-3]]
            n, share = rng.choice([2, 30]), rng.choice([0.0, 0.5])
            names: list[Any] = [f"n{k}" if seed % 2 else 100 + k for k in range(n)]
            nodes: dict[str, list[Any]] = {"id": names, "label": ["a", *self.drawn(rng, n - 1, pools[0], share)],
                                           "split": ["train", *self.drawn(rng, n - 1, ["valid", "test"], share)],
                     "of": self.drawn(rng, n, pools[seed % 4], share), "x": [rng.random() for _ in range(n)]}
            edges: dict[str, list[Any]] = {key: rng.choices(names, k=40) for key in ("source", "target")} | {"how": rng.choices(pools[rng.randrange(4)], k=40)}
            for name, table in (("e.csv", edges), ("n.csv", nodes)):
                pandas.DataFrame(table, dtype=object).to_csv(self.folder / name, index=False)
            read = [pandas.read_csv(self.folder / name, keep_default_na=False, na_values=[""]) for name in ("e.csv", "n.csv")]
            with self.subTest(seed=seed):
                options: Any = {"one_hot": ["of"], "relation": "how"}
                expected = arrays_in(trainerd.from_pandas(read[0], read[1], self.folder / f"pandas{seed}", **options))
                self.assert_same_arrays(arrays_in(trainerd.from_csv(self.folder / "e.csv", self.folder / "n.csv", self.folder / f"csv{seed}", **options)),
                                        expected)
                self.assertEqual(expected["feat_indices"].size - n, sum(value is not None for value in nodes["of"]))

    def test_of_csv_keep_names_as_they_are_written(self) -> None:
        edges = self.csv("e.tsv", "\ufeffsource\ttarget\n7\t007\n\n 12 \t7\n")
        nodes = self.csv("n.tsv", 'id\tlabel\tx\n7\t"a\nb"\t1\n007\tNA\t2e3\n12\t\t-1\n')
        found = arrays_in(trainerd.from_csv(edges, nodes, self.folder / "x", separator="\t", draw=(1, 0, 0)))
        np.testing.assert_array_equal(found["node_names"], ["7", "007", "12"])
        np.testing.assert_array_equal(found["edges"], [[0, 2], [1, 0]])
        np.testing.assert_array_equal(found["features"], [[1], [2000], [-1]])
        self.assertEqual((json_in(self.folder / "x", "class_names"), found["labels"].tolist()), (["NA", "a\nb"], [1, 0, -1]))

    def test_of_csv_that_are_broken_are_named_with_their_line(self) -> None:
        edges = self.csv("edges.csv", "source,target\n1,2\n")
        for text, kind, words in (("id,label\n1,0\n2\n", trainerd.DataError, "nodes.csv', line 3: has 1 values, expected 2 as in the first line"),
                                  ("", trainerd.DataError, "expected a first line with a name for each column, each once"),
                                  ("id,id\n", trainerd.DataError, "expected a first line with a name for each column, each once"),
                                  ('id,label\n1,"x\n', trainerd.DataError, "unexpected end of data, expected CSV in UTF-8"),
                                  ("1,0\n2,1\n", trainerd.DataError, "the nodes have no column 'id' for id (--id), expected one of '1', '0'")):
            with self.subTest(words):
                self.refused(kind, words, trainerd.from_csv, edges, self.csv("nodes.csv", text), self.folder / "x")
        (self.folder / "nodes.csv").write_bytes(b"id,label\n\xff,1\n")
        self.refused(trainerd.DataError, "expected CSV in UTF-8", trainerd.from_csv, edges, self.folder / "nodes.csv", self.folder / "x")
        with gzip.open(self.folder / "nodes.csv.gz", "wt") as file:
            file.write("id,label\n" + "1,0\n" * 1000)
        (self.folder / "cut.csv.gz").write_bytes((self.folder / "nodes.csv.gz").read_bytes()[:-20])
        self.refused(trainerd.DataError, "cut.csv.gz': Compressed file ended", trainerd.from_csv, edges, self.folder / "cut.csv.gz", self.folder / "x")
        self.refused(trainerd.MissingInput, "none.csv': No such file or directory", trainerd.from_csv, edges, "none.csv", self.folder / "x")
