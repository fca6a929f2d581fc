"""Parquet files as folders, beside the same tables of pandas."""
import datetime
import decimal
import pathlib
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


TEXTS = ["b", "a", "d", "c"]
DAYS = [datetime.date(2020, 1, day) for day in (3, 1, 4, 2)]
TIMES = [datetime.datetime(2020, 1, day.day, 5, tzinfo=datetime.timezone.utc) for day in DAYS]
# Types of columns, and values that they may have.
KINDS: list[tuple[Any, list[Any]]] = [
    *((kind, TEXTS) for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int8(), pyarrow.string()),
                                 pyarrow.dictionary(pyarrow.int32(), pyarrow.large_string(), True))),
    *((kind, [3, 1, 100, 0]) for kind in (pyarrow.int8(), pyarrow.uint16(), pyarrow.int64(), pyarrow.uint64(),
                                          pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()))),
    *((kind, [1.5, -2.0, 0.0, 3.25]) for kind in (pyarrow.float32(), pyarrow.float64())),
    (pyarrow.int64(), [2**60, 2**60 + 1, 2**60 + 2, 0]), (pyarrow.bool_(), [True, False, True, False]), (pyarrow.binary(), [text.encode() for text in TEXTS]),
    (pyarrow.decimal128(5, 2), [decimal.Decimal(k) / 4 for k in (5, 1, 0, 3)]), (pyarrow.date32(), DAYS), (pyarrow.timestamp("ns"), TIMES),
    (pyarrow.timestamp("us", "UTC"), TIMES), (pyarrow.time64("us"), [datetime.time(k) for k in (3, 1, 0, 2)])]
SPLIT_NAMES = ["train", "val", "test"]


def typed(values: list[Any], kind: Any) -> Any:
    """Values as an array of this type."""
    if not pyarrow.types.is_dictionary(kind):
        return pyarrow.array(values, kind)
    entries = sorted({value for value in values if value is not None}, reverse=True)
    codes = pyarrow.array([None if value is None else entries.index(value) for value in values], kind.index_type)
    return pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(entries, kind.value_type), ordered=kind.ordered)


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

    def pieces(self, rng: random.Random, name: str, columns: dict[str, Any], n: int) -> list[pathlib.Path | str]:
        """A table in one to three files."""
        cuts = sorted(rng.choices(range(n + 1), k=rng.randrange(3)))
        return [self.write(f"{name}{k}.parquet", {key: column[first:end] for key, column in columns.items()}, rng.choice([3, 100]))
                for k, (first, end) in enumerate(zip([0, *cuts], [*cuts, n], strict=True))]

    def test_have_missing_values_where_null_is_whatever_the_type(self) -> None:
        """Beside what pandas numbers (factorize) of the values as Python has them."""
        for seed in range(60):
            rng = random.Random(seed)
            n, share = rng.choice([2, 20, 60]), rng.choice([0.0, 0.3, 0.9])
            kind, values = KINDS[seed % len(KINDS)]
            of = self.drawn(rng, n, values, share)
            texts = rng.choice([kind for kind, values in KINDS if values is TEXTS])
            labels = ["a", *self.drawn(rng, n - 1, TEXTS, share)]
            splits = ["train", *self.drawn(rng, n - 1, SPLIT_NAMES, share)]
            vectors = [[rng.randrange(9) for _ in range(3)] for _ in range(n)]
            width = rng.choice([pyarrow.list_(pyarrow.int8()), pyarrow.list_(pyarrow.float32(), 3), pyarrow.large_list(pyarrow.float64())])
            nodes = {"id": pyarrow.array(range(n)), "v": pyarrow.array(vectors, width), "of": typed(of, kind),
                     "label": typed(labels, texts), "split": typed(splits, texts)}
            edges = {key: pyarrow.array(rng.choices(range(n), k=30)) for key in ("source", "target")}
            with self.subTest(seed=seed, kind=str(kind), texts=str(texts)):
                files = self.pieces(rng, f"{seed}/n", nodes, n) + self.pieces(rng, f"{seed}/e", edges, 30)
                found = arrays_in(trainerd.from_parquet(files, self.folder / f"made{seed}", one_hot=["of"]))
                codes, _ = pandas.factorize(np.array(of, object))
                names = sorted({label for label in labels if label is not None})
                np.testing.assert_array_equal(found["labels"], [-1 if label is None else names.index(label) for label in labels])
                for name, file in zip(SPLIT_NAMES, ("train", "valid", "test"), strict=True):
                    np.testing.assert_array_equal(found[f"{file}_idx"], [row for row, split in enumerate(splits) if split == name])
                dense = np.zeros((n, 3 + codes.max() + 1), np.float32)
                for row in range(n):
                    dense[row, found["feat_indices"][found["feat_indptr"][row]:found["feat_indptr"][row + 1]]] = \
                        found["feat_data"][found["feat_indptr"][row]:found["feat_indptr"][row + 1]]
                np.testing.assert_array_equal(dense, np.hstack([vectors, codes[:, None] == np.arange(codes.max() + 1)]))

    def test_of_pandas_and_its_categories_are_the_folder_of_its_tables(self) -> None:
        edges = pandas.DataFrame({"source": [0, 1, 2], "target": [1, 2, 0]})
        nodes = pandas.DataFrame({"id": [0, 1, 2, 3], "label": pandas.Categorical(["x", None, "z", "x"], ["z", "x", "none of them"]),
                                  "split": pandas.Categorical(["train", "val", None, None]), "age": pandas.array([1, 2, 3, 4], "Int64"),
                                  "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]}, index=[7, 3, 5, 1])
        edges.to_parquet(self.folder / "e.parquet")
        nodes.to_parquet(self.folder / "n.parquet")  # with an index that is no column of the table
        expected = arrays_in(trainerd.from_pandas(edges, nodes, self.folder / "pandas"))
        self.assert_same_arrays(arrays_in(trainerd.from_parquet([self.folder / "n.parquet", self.folder / "e.parquet"], self.folder / "made")), expected)
        np.testing.assert_array_equal(expected["labels"], [0, -1, 1, 0])
        np.testing.assert_array_equal(expected["features"], [[1, 1, 2], [2, 3, 4], [3, 5, 6], [4, 7, 8]])
        self.assertEqual([expected[f"{split}_idx"].tolist() for split in ("train", "valid", "test")], [[0], [1], []])

    def test_whose_columns_cannot_be_read_say_file_and_column(self) -> None:
        plain = {"id": [1, 2, 3], "label": ["a", "b", "a"]}
        edges = self.write("e.parquet", {"source": [1, 2], "target": [2, 1]})
        ragged = {"x": [[1.0, 2.0], [3.0], [4.0, 5.0]]}
        for nodes, options, words in (
                (ragged, {"features": ["x"]}, "column 'x' of the nodes: row 1 of 'NAME' is [3.0], expected 2 numbers, as many as in the other rows"),
                ({"x": [[1.0, None]] * 3}, {"features": ["x"]}, "column 'x' of the nodes: row 0 of 'NAME' is [1.0, None], expected 2 numbers"),
                ({"x": [[1.0], None, [2.0]]}, {"features": ["x"]}, "column 'x' of the nodes: row 1 of 'NAME' is empty, expected 1 numbers"),
                ({"x": [{"a": 1}] * 3}, {"features": ["x"]}, "column 'x' of the nodes: row 0 of 'NAME' is \"{'a': 1}\", expected a number"),
                ({"x": [["p"]] * 3}, {"features": ["x"]}, "column 'x' of the nodes: row 0 of 'NAME' is ['p'], expected 1 numbers"),
                ({"x": [1, None, 2]}, {}, "column 'x' of the nodes: row 1 of 'NAME' is empty, expected a number"),
                ({"x": [b"\xff", b"a", b"b"]}, {}, "NAME', column 'x': Invalid UTF8"),
                (ragged, {"one_hot": ["x"]}, "column 'x' of the nodes: row 0 of 'NAME' is [1.0, 2.0], expected a number or a text"),
                (ragged, {"split": "x"}, "column 'x' of the nodes: row 0 of 'NAME' is [1.0, 2.0], expected a number or a text"),
                (ragged, {"id": "x"}, "column 'x' of the nodes: row 0 of 'NAME' is [1.0, 2.0], expected a number or a text"),
                (ragged, {"label": "x"}, "column 'x' of the nodes: row 1 of 'NAME' is [3.0], expected 2 numbers"),
                ({"x": DAYS[:3]}, {"label": "x"}, "column 'x' of the nodes: row 0 of 'NAME' is '2020-01-03', expected a class"),
                ({"label": [None] * 3}, {}, "column 'label' of the nodes: no row has a label"),
                ({"label": pyarrow.array([None] * 3, pyarrow.float64())}, {}, "column 'label' of the nodes: no row has a label"),
                ({"id": [1, None, 2]}, {}, "column 'id' of the nodes: row 1 of 'NAME' has none")):
            with self.subTest(words), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                name = self.write("n.parquet", {**plain, **nodes})
                self.refused(trainerd.DataError, words.replace("NAME", name), trainerd.from_parquet, [name, edges], self.folder / "x",
                             draw=(1, 0, 0), **options)
        other = self.write("m.parquet", {"id": [4], "label": ["a"], "more": [1]})
        self.refused(trainerd.DataError, "the files of the nodes differ: '", trainerd.from_parquet,
                     [self.write("n.parquet", plain), other, edges], self.folder / "x")
        pyarrow.parquet.write_table(pyarrow.table([[1, 2], ["a", "b"], [1, 2]], names=["id", "label", "id"]), self.folder / "twice.parquet")
        self.refused(trainerd.DataError, "twice.parquet' has the column 'id' twice", trainerd.from_parquet,
                     [self.folder / "twice.parquet", edges], self.folder / "x")
        with self.assertWarnsRegex(UserWarning, "no numbers are left out: 'x';"):
            found = trainerd.from_parquet([self.write("n.parquet", {**plain, **ragged, "y": [1, 2, 3]}), edges], self.folder / "left", draw=(1, 0, 0))
        np.testing.assert_array_equal(arrays_in(found)["features"], [[1], [2], [3]])
        found = trainerd.from_parquet([self.write("n.parquet", {"id": [1, 2, 3], "label": [[1, 0], None, [0, 1]]}), edges], self.folder / "several",
                                      draw=(1, 0, 0))
        np.testing.assert_array_equal(arrays_in(found)["labels"], np.array([[1, 0], [np.nan, np.nan], [0, 1]]))

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
        for paths, kind, words in (([nodes, edges, far], trainerd.DataError, f"column 'source' of the edges: 9 (row 2 of '{far}') is not the name of a node"),
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
