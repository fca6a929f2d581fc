"""Parquet files as folders, beside the same tables of pandas."""
import random
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet

import trainerd
from folders import PEAK, FolderCase, arrays_in, json_in

COLUMNS: dict[str, Any] = {"source": "from", "target": "to", "id": "name", "weight": "sum", "relation": "how", "features": ["age"], "draw": (0.5, 0.2, 0.2)}


class Parquet(FolderCase):
    def write(self, name: str, table: dict[str, Any], row_group: int = 7) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=row_group)
        return str(path)

    def test_at_random_are_the_folder_of_the_same_tables(self) -> None:
        for seed in range(12):
            rng = random.Random(seed)
            n, names = rng.choice([1, 30, 200]), rng.choice(["texts", "numbers", "places"])
            known = [f"n{k}" if names == "texts" else 7 * k - 50 if names == "numbers" else k for k in range(n)]
            rng.shuffle(known)
            nodes: dict[str, Any] = {"name": known, "age": [rng.random() for _ in known], "label": [rng.choice(["a", "b", None]) for _ in known[1:]] + ["a"]}
            relations: list[Any] = rng.choice([["x", "y", "z"], [3, 1, 40]])
            edges: dict[str, Any] = {"from": rng.choices(known, k=300), "to": rng.choices(known, k=300), "sum": [rng.randrange(9) for _ in range(300)],
                                     "how": rng.choices(relations, k=300)}
            with self.subTest(seed=seed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = trainerd.from_pandas(pandas.DataFrame(edges), pandas.DataFrame(nodes), self.folder / f"pandas{seed}", **COLUMNS)
                cuts = sorted(rng.choices(range(301), k=3))
                for k, (first, end) in enumerate(zip([0, *cuts], [*cuts, 300], strict=True)):
                    self.write(f"{seed}/edges/{k}.parquet", {key: column[first:end] for key, column in edges.items()} if first < end else
                               {key: pyarrow.array([], pyarrow.array(column).type) for key, column in edges.items()})
                half = rng.randrange(n + 1)
                of_nodes = [self.write(f"{seed}/n{k}.parquet", {key: pyarrow.array(column[first:end], pyarrow.array(column).type)
                                                                for key, column in nodes.items()}) for k, (first, end) in enumerate([(0, half), (half, n)])]
                found = trainerd.from_parquet([*of_nodes, self.folder / f"{seed}/edges"], self.folder / f"made{seed}", **COLUMNS)
                self.assert_same_arrays(arrays_in(found), arrays_in(expected))
                self.assertEqual(json_in(found, "relation_names"), json_in(expected, "relation_names"))

    def test_of_many_edges_take_the_memory_of_their_arrays(self) -> None:
        n, m = 100_000, 20_000_000
        rng = np.random.default_rng(1)
        self.write("nodes.parquet", {"id": np.arange(n) * 3, "x": rng.random(n), "label": rng.integers(0, 3, n)}, n)
        for k in range(2):
            self.write(f"edges/{k}.parquet", {key: rng.integers(0, n, m // 2) * 3 for key in ("source", "target")}, (1 << 20, m)[k])
        program = PEAK + """
import sys, trainerd, pyarrow.parquet
before = peak()
trainerd.from_parquet(sys.argv[1:3], sys.argv[3], draw=(0.6, 0.2, 0.2))
print(peak() - before)
"""
        done = subprocess.run([sys.executable, "-c", program, self.folder / "nodes.parquet", self.folder / "edges", self.folder / "made"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(arrays_in(self.folder / "made")["edges"].shape, (2, m))
        self.assertLess(int(done.stdout) * 1024, 8 * m + 150e6)  # the array of both ends, and what a batch takes

    def test_that_do_not_fit_are_named(self) -> None:
        nodes = self.write("nodes.parquet", {"id": [1, 2], "x": [0.5, 1.0], "label": [0, 1]})
        edges = self.write("edges/0.parquet", {"source": [1, 2, 1], "target": [2, 1, 2]})
        far = self.write("far/0.parquet", {"source": [1, 2, 9], "target": [2, 1, 2]}, 1)
        (self.folder / "text.parquet").write_text("no columns")
        (self.folder / "empty").mkdir()
        for paths, kind, words in (([nodes, edges, far], trainerd.DataError, "column 'source' of the edges: 9 (row 5) is not the name of a node"),
                                   ([nodes], trainerd.DataError, "expected files of edges, with the columns 'source' and 'target'"),
                                   ([edges], trainerd.DataError, "and files of nodes: '"),
                                   ([nodes, edges, self.folder / "text.parquet"], trainerd.DataError, "text.parquet': "),
                                   ([nodes, self.folder / "empty"], trainerd.MissingInput, "empty': no such file, or a folder without .parquet files"),
                                   ([nodes, edges, "none.parquet"], trainerd.MissingInput, "none.parquet': no such file")):
            with self.subTest(words):
                self.refused(kind, words, trainerd.from_parquet, paths, self.folder / "x", draw=(1, 0, 0))
        self.refused(trainerd.DataError, "0.parquet' has no column 'sum', expected one of 'source', 'target'", trainerd.from_parquet, [nodes, edges],
                     self.folder / "x", weight="sum")
        self.assertFalse((self.folder / "x").exists())
        done = subprocess.run([sys.executable, "-m", "trainerd", "convert", "parquet", "nodes.parquet", "edges", "made", "--draw", "1,0,0"], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        np.testing.assert_array_equal(arrays_in(self.folder / "made")["edges"], [[0, 1, 0], [1, 0, 1]])
