"""A graph as arrays, and its npy folder (docs/data.md): checked, written under a temporary name, then renamed."""
from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, TypedDict, Unpack

from .arrays import Array, load_array, np
from .errors import CannotCreate, DataError, MissingInput, UsageError
from .names import CLASS_NAMES, NODE_NAMES, RELATION_NAMES, TYPE_NAMES, classes_of
from .tensors import Rows

# The splits by trainerd's names, and PyG's and DGL's masks of them.
SPLITS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
SPLIT_FILES = {"train": ("train_idx", "train_mask"), "valid": ("valid_idx", "val_mask", "valid_mask"), "test": ("test_idx", "test_mask")}
TYPES_MOST = 65535
CLASSES_MOST = 2**31 - 2
PIECE = 1 << 20  # values that are converted or checked at a time

# What conversions write: a folder that has nothing else may be replaced.
_OURS = re.compile(r"(edges|labels|(feat_(t\d+_)?(indptr|indices|data))|feat_t\d+|features|edge_weight|edge_attr|edge_type|node_type"
                   r"|(train|valid|test)_idx|(train|val|test)_mask|(valid|test)_(edges(_negative)?|edge_type|tails_negative)|node_names)\.npy"
                   r"|(meta|class_names|relation_names|type_names)\.json")


@dataclass
class Graph:
    """Arrays of one graph. Several node types are numbered one after another.

    edges [2, E] · labels [N] or [N, C], None: none; texts are classes · features [N, F] · edge_attr [E, D] or [E]: features of
    edges · type_features {type: rows of its nodes} · splits {"train": node numbers, or a mask [N] or [N, splits]} ·
    nodes: N, if neither labels nor features have it · held_out {"valid_edges": [2, n], ...}: of HeldOut
    node_names, relation_names, type_names: of nodes, relations and node types in the order of their numbers
    words {"labels": "data.y"}: the caller's names of the arrays, for messages
    """

    edges: Array
    labels: Array | None = None
    features: Array | Rows | None = None
    edge_weight: Array | None = None
    edge_attr: Array | None = None
    edge_type: Array | None = None
    node_type: Array | None = None
    relations: int | None = None
    type_features: dict[int, Array | Rows] = field(default_factory=dict)
    splits: dict[str, Array] = field(default_factory=dict)
    nodes: int | None = None
    node_names: Array | None = None
    relation_names: list[str] | None = None
    type_names: list[str] | None = None
    held_out: dict[str, Array] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def place(self, array: str) -> str:
        """The caller's name of an array that is missing or empty, in brackets."""
        return f" ({self.words[array]})" if array in self.words else ""

    @contextmanager
    def naming(self, array: str) -> Iterator[None]:
        """Errors begin with the caller's name of the array."""
        try:
            yield
        except DataError as error:
            raise DataError(f"{self.words[array]}: {error.reason}" if array in self.words else error.reason) from None


class HeldOut(TypedDict, total=False):
    """Edges held out of a graph for the prediction of links, and what they are ranked among, in files of these names.

    valid_edges, test_edges                    pairs of nodes [2, n], heads and tails
    valid_edges_negative, test_edges_negative  pairs without an edge [2, m], for all of a split's edges; default: drawn
    valid_tails_negative, test_tails_negative  instead k tails for the head of each edge [n, k]
    valid_edge_type, test_edge_type          relations of the edges [n], for a decoder that reads them
    """

    valid_edges: Any
    test_edges: Any
    valid_edges_negative: Any
    test_edges_negative: Any
    valid_tails_negative: Any
    test_tails_negative: Any
    valid_edge_type: Any
    test_edge_type: Any


class Options(TypedDict, total=False):
    """Options of every conversion.

    name          the data set's, in messages and results; default: the folder's
    numbers       regression (train.loss = "mse", "mae", "huber"): labels are numbers, not classes
    classes       names of the classes in the order of their numbers; default: labels that are texts, in alphabetical
                  order. A graph for the predictions of a trained model needs the model's: `Result(run).class_names()`
    draw          draw the splits: shares of the labelled nodes of each class, (0.6, 0.2, 0.2), for training,
                  validation and test
    seed          of the drawn splits; default: 1
    predict_only  labels and training nodes may be missing: the graph is for predictions, or for links, as a graph with edges
                  that are held out is
    overwrite     replace an existing folder, if it has only files of conversions
    """

    name: str | None
    numbers: bool
    classes: Sequence[str] | None
    draw: Sequence[float] | None
    seed: int
    predict_only: bool
    overwrite: bool


def write_graph(graph: Graph, folder: str | os.PathLike[str], **options: Unpack[Options]) -> Path:
    """Check the graph and write its folder atomically. Returns its path."""
    target = Path(os.path.realpath(os.path.expanduser(folder)))
    _check_target(target, bool(options.get("overwrite")))
    arrays, objects = _files_of(graph, options, target.name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise CannotCreate(f"cannot create '{target}': '{error.filename}': {error.strerror}") from error
    try:
        for file, values in arrays.items():
            with open(aside / f"{file}.npy", "wb") as opened:
                _save(opened, values)
                _sync(opened)
        for file, value in objects.items():
            with open(aside / f"{file}.json", "wb") as opened:
                opened.write(_json(value))
                _sync(opened)
        aside.chmod(0o777 & ~_umask())
        _rename(aside, target)
    except OSError as error:
        raise CannotCreate(f"cannot create '{target}': {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Path(os.path.expanduser(folder))


def _save(file: IO[bytes], values: Array | As) -> None:
    """An array as .npy. Values of another type are written piece by piece: no second array is made."""
    if isinstance(values, As):
        of = values.values
        header: Any = np.lib.format
        header.write_array_header_1_0(file, {"descr": values.dtype.str, "fortran_order": False, "shape": of.shape})
        for row in of:
            for begin in range(0, len(row), PIECE):
                row[begin:begin + PIECE].astype(values.dtype).tofile(file)
    else:
        np.save(file, np.ascontiguousarray(values))


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def hold_graph(graph: Graph, folder: str | os.PathLike[str], open_files: ExitStack, **options: Unpack[Options]) -> None:
    """Check the graph and keep its files in memory, and links to them in the new folder, until `open_files` are closed: a
    copy in the memory of the machine, not of this process, which also ends with the process. If it would take more
    than half of the memory that is free, the folder is a copy on disk.
    """
    arrays, objects = _files_of(graph, options, "data")
    if 2 * sum(_bytes(values) for values in arrays.values()) > memory_free():
        write_graph(graph, folder, **options)
        return
    os.mkdir(folder)
    for name, content in (*((f"{file}.npy", values) for file, values in arrays.items()),
                          *((f"{file}.json", value) for file, value in objects.items())):
        file = open_files.enter_context(os.fdopen(os.memfd_create(name, os.MFD_CLOEXEC), "wb"))
        if name.endswith(".npy"):
            _save(file, content)
        else:
            file.write(_json(content))
        file.flush()
        os.symlink(f"/proc/{os.getpid()}/fd/{file.fileno()}", Path(folder, name))


def read_graph(folder: str | os.PathLike[str]) -> Graph:
    """Edges, their weights, labels and splits of an npy folder; nothing else of it is read. A file of several splits has them all."""
    home = Path(os.path.expanduser(folder))

    def array(*names: str) -> Array | None:
        found = next((home / f"{name}.npy" for name in names if (home / f"{name}.npy").is_file()), None)
        values = None if found is None else load_array(found)
        return values.astype(bool) if values is not None and found is not None and found.stem.endswith("_mask") else values
    edges, indptr, indices = array("edges"), array("indptr"), array("indices")
    if edges is None and indptr is not None and indices is not None:
        edges = np.stack([indices, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))])
    if edges is None:
        raise MissingInput(f"'{home}' has neither edges.npy nor indptr.npy and indices.npy, expected an npy folder, as conversions write")
    splits = {name: values for name, files in SPLIT_FILES.items() if (values := array(*files)) is not None}
    return Graph(edges, array("labels"), edge_weight=array("edge_weight"), splits=splits)


def split_nodes(values: Array, n: int, name: str, split: int = 0) -> Array:
    """Node numbers of numbers or a mask; of several splits (a row of numbers for each, or a column of a mask) of this one."""
    if values.ndim == 2 and values.shape[1] > 1:
        of_mask = values.dtype == bool
        if not 0 <= split < values.shape[of_mask]:
            raise DataError(f"there are {values.shape[of_mask]} splits, counted from 0, and dataset.split is {split}")
        values = values[:, split] if of_mask else values[split][values[split] >= 0]
    return _split(values, n, name)[f"{name}_idx"]


def memory_free() -> int:
    """Bytes that this machine has free, or that are left of its control group's limit."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    try:
        limit, used = (Path("/sys/fs/cgroup", name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        return min(free, int(limit) - int(used))
    except (OSError, ValueError):  # no control groups of version 2, or no limit
        return free


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise CannotCreate(f"'{target}' is not a folder")
    files = sorted(path.name for path in target.iterdir())
    others = [file for file in files if not _OURS.fullmatch(file)]
    if files and not overwrite:
        raise CannotCreate(f"'{target}' already exists, expected a new or an empty folder; overwrite=True (--overwrite) replaces it")
    if others:
        raise CannotCreate(f"'{target}' has {others[0]}, which no conversion writes: it is not replaced")


def _rename(aside: Path, target: Path) -> None:
    """An older folder is renamed first. Between the two renamings the folder is missing, but it is never
    incomplete."""
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        os.replace(target, old)
    os.replace(aside, target)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


# --- the files ---

class As(NamedTuple):
    """A matrix to be written as another type."""

    values: Array
    dtype: Any


def _bytes(values: Array | As) -> int:
    return values.values.size * values.dtype.itemsize if isinstance(values, As) else values.nbytes


def _integers(values: Array, what: str) -> Array:
    if values.dtype.kind not in "iub":
        raise DataError(f"{what} have type {values.dtype}, expected whole numbers")
    return values


def _floats(values: Array, what: str) -> Array:
    """float16 stays, all other numbers become float32; they are finite."""
    if values.dtype.kind not in "fiub":
        raise DataError(f"{what} have type {values.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        numbers = values if values.dtype == np.float16 else values.astype(np.float32, copy=False)
    rows = max(1, PIECE // max(1, numbers[:1].size))
    for begin in range(0, len(numbers), rows):
        is_finite = np.isfinite(numbers[begin:begin + rows])
        if not is_finite.all():
            row, *columns = np.argwhere(~is_finite)[0].tolist()
            raise DataError(f"{what} are not all finite in float32, the first at {[begin + row, *columns]}")
    return numbers


def _edges(edges: Array, n: int, what: str = "edges") -> As:
    if edges.ndim != 2 or edges.shape[0] != 2:
        turned = ": it is transposed" if edges.ndim == 2 and edges.shape[1] == 2 else ""
        raise DataError(f"{what} have shape {list(edges.shape)}, expected [2, any]{turned}")
    return _nodes(edges, n, what)


def _nodes(nodes: Array, n: int, what: str) -> As:
    if nodes.size and (_integers(nodes, what).min() < 0 or nodes.max() >= n):
        raise DataError(f"{what} name nodes {nodes.min()} to {nodes.max()}, expected 0 to {n - 1}")
    return As(nodes, np.dtype(np.int32 if n < 2**31 else np.int64))


def _held_arrays(graph: Graph, n: int) -> dict[str, Array | As]:
    arrays: dict[str, Array | As] = {}
    for name, nodes in graph.held_out.items():
        edges = graph.held_out.get(f"{name.partition('_')[0]}_edges")
        if edges is None:
            raise DataError(f"{name} are given without {name.partition('_')[0]}_edges")
        if name.endswith("_type"):
            arrays[name] = _types(nodes, edges.shape[1], "held-out edge")
        elif "tails" not in name:
            arrays[name] = _edges(nodes, n, name)
        elif nodes.ndim != 2 or nodes.shape[0] != edges.shape[1]:
            raise DataError(f"{name} have shape {list(nodes.shape)}, expected [{edges.shape[1]}, any]: a row for each of the edges")
        else:
            arrays[name] = _nodes(nodes, n, name)
    return arrays


_HINT = 'numbers to be predicted need loss="mse" of train, or numbers=True (--numbers) of a conversion'


def _labels(labels: Array, numbers: bool) -> Array:
    """Classes as int32 [N], -1 for unlabelled nodes; several columns as float32 rows; regression targets as
    float32."""
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "fiub":
        raise DataError(f"labels have shape {list(labels.shape)} and type {labels.dtype}, expected numbers [nodes] or [nodes, classes]")
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim == 2 or numbers:
        return labels.astype(np.float32)
    known = labels[~np.isnan(labels)] if labels.dtype.kind == "f" else labels
    if known.size and (known.min() < -1 or known.max() > CLASSES_MOST):
        raise DataError(f"labels are {known.min()} to {known.max()}, expected classes from 0 to {CLASSES_MOST}, -1 for none; {_HINT}")
    if labels.dtype.kind != "f":
        return labels.astype(np.int32)
    if (known % 1 != 0).any():
        raise DataError(f"the labels are no whole numbers, expected classes; {_HINT}")
    return np.where(np.isnan(labels), -1, labels).astype(np.int32)


def _types(types: Array, n: int, what: str) -> Array:
    if types.shape != (n,):
        raise DataError(f"{what} types have shape {list(types.shape)}, expected one for each of {n} {what}s")
    if n and (_integers(types, f"{what} types").min() < 0 or types.max() > TYPES_MOST):
        raise DataError(f"{what} types are {types.min()} to {types.max()}, expected 0 to {TYPES_MOST}")
    return types.astype(np.int32)


def _features(value: Array | Rows, n: int, name: str, prefix: str) -> dict[str, Array]:
    """One dense array, or the three of rows of non-zeros."""
    shape = value.shape
    if len(shape) != 2 or shape[0] != n:
        raise DataError(f"{name} have shape {list(shape)}, expected [{n}, any]: a row for each node")
    if isinstance(value, Rows):
        return {f"{prefix}_indptr": value.indptr, f"{prefix}_indices": value.indices.astype(np.int32), f"{prefix}_data": _floats(value.data, name)}
    return {"features" if prefix == "feat" else prefix: _floats(value, name)}


def _split(values: Array, n: int, name: str) -> dict[str, Array]:
    """Node numbers, also of a mask; several splits stay a mask with a column for each."""
    if values.dtype == bool:
        if values.ndim not in (1, 2) or values.shape[0] != n:
            raise DataError(f"the {name} mask has shape {list(values.shape)}, expected [{n}] or [{n}, splits]")
        if values.ndim == 2 and values.shape[1] > 1:
            return {SPLITS[name]: values}
        values = np.flatnonzero(values)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values  # of np.argwhere, torch.nonzero
    if values.ndim != 1 or (values.size and (_integers(values, f"{name} nodes").min() < 0 or values.max() >= n)):
        raise DataError(f"{name} nodes have shape {list(values.shape)}"
                        + (f" and are {values.min()} to {values.max()}" if values.size else "") + f", expected numbers from 0 to {n - 1}")
    return {f"{name}_idx": values.astype(np.int64)}


def node_count(graph: Graph, default: int | None = None) -> int:
    """default: of a graph that does not say it."""
    for rows in (graph.labels, graph.features, graph.node_type):
        if rows is not None:
            return int(rows.shape[0])
    found = default if graph.nodes is None else graph.nodes
    if found is None:
        raise DataError("the graph has neither labels nor features nor a number of nodes")
    return found


def _may_lack_labels(graph: Graph, options: Options) -> bool:
    return bool(options.get("predict_only")) or bool(graph.held_out)


def _labels_of(graph: Graph, options: Options) -> tuple[Array | None, list[str] | None]:
    """Labels as they are written, and the classes' names, if the labels are texts or `classes` is given."""
    given = options.get("classes")
    if graph.labels is None:
        if not _may_lack_labels(graph, options):
            raise DataError(f"the graph has no labels{graph.place('labels')}; predict_only (--predict-only) writes a graph for predictions, or for links")
        return None, None if given is None else list(given)
    with graph.naming("labels"):
        labels, names = classes_of(graph.labels, given)
        written = _labels(labels, bool(options.get("numbers")))
    n_class = written.shape[1] if written.ndim == 2 else 0 if written.dtype.kind == "f" else int(written.max(initial=-1)) + 1
    if names is not None and (n_class > len(names) or (written.ndim == 2 and n_class < len(names))):
        raise DataError(f"there are {len(names)} names of classes, and labels of {n_class}")
    return written, names


def _edge_arrays(graph: Graph, n_edge: int) -> dict[str, Array]:
    """Arrays of edges other than their ends."""
    arrays = {}
    if graph.edge_weight is not None:
        with graph.naming("edge_weight"):
            weights = graph.edge_weight
            if weights.size != n_edge:
                raise DataError(f"edge weights have shape {list(weights.shape)}, expected one for each of {n_edge} edges")
            arrays["edge_weight"] = _floats(weights.reshape(-1), "edge weights").astype(np.float32, copy=False)
            if n_edge and arrays["edge_weight"].min() < 0:
                raise DataError(f"edge weights go down to {arrays['edge_weight'].min()}, expected 0 or more")
    if graph.edge_attr is not None:
        with graph.naming("edge_attr"):
            shape = graph.edge_attr.shape
            if len(shape) not in (1, 2) or shape[0] != n_edge or 0 in shape[1:]:
                raise DataError(f"features of edges have shape {list(shape)}, expected [{n_edge}, any] or [{n_edge}]: a row for each edge")
            arrays["edge_attr"] = _floats(graph.edge_attr, "features of edges").astype(np.float32, copy=False)
    if graph.edge_type is not None:
        with graph.naming("edge_type"):
            arrays["edge_type"] = _types(graph.edge_type.reshape(-1), n_edge, "edge")
    return arrays


def _drawn(labels: Array | None, shares: Sequence[float], seed: int) -> dict[str, Array]:
    """Splits of the labelled nodes: these shares of each class, in a random order by the seed."""
    if len(shares) != len(SPLITS) or min(shares) < 0 or not 0 < shares[0] or sum(shares) > 1 + 1e-9:
        raise UsageError(f"draw is {tuple(shares)}, expected shares of training, validation and test nodes, at most 1 in all: (0.6, 0.2, 0.2)")
    if labels is None:
        raise DataError("draw takes nodes that have a label, and the graph has no labels")
    of_classes = labels.ndim == 1 and labels.dtype.kind == "i"
    known = labels >= 0 if of_classes else ~np.isnan(labels).all(1) if labels.ndim == 2 else ~np.isnan(labels)
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(known))
    kind = labels[nodes] if of_classes else np.zeros(len(nodes), np.int64)
    nodes = nodes[np.argsort(kind, kind="stable")]
    # By the place of a node among those of its class, 0 to 1.
    until = np.cumsum(shares)
    of_class = (np.searchsorted(until, (np.arange(n) + 0.5) / n).astype(np.int8) for n in np.bincount(kind))
    splits = np.concatenate([np.zeros(0, np.int8), *of_class])
    return {name: np.sort(nodes[splits == k]) for k, name in enumerate(SPLITS)}


def _split_arrays(graph: Graph, n: int, labels: Array | None, options: Options) -> dict[str, Array]:
    shares = options.get("draw")
    splits = graph.splits if shares is None else _drawn(labels, shares, options.get("seed", 1))
    arrays: dict[str, Array] = {}
    for name, values in splits.items():
        with graph.naming(name):
            arrays |= _split(values, n, name)
    if not _may_lack_labels(graph, options) and not any(arrays[file].any() if file == "train_mask" else arrays[file].size
                                                   for file in ("train_idx", "train_mask") if file in arrays):
        raise DataError(f"the graph has no training nodes{graph.place('train')}, expected a train mask or split; draw=(0.6, 0.2, 0.2) (--draw 0.6,0.2,0.2) draws "
                        "one; predict_only (--predict-only) writes a graph for predictions, or for links")
    return arrays


def _files_of(graph: Graph, options: Options, name: str) -> tuple[dict[str, Array | As], dict[str, Any]]:
    """Every array by the name of its file, and every JSON file's contents; `name`: the data set's, unless options have one."""
    unknown = sorted(options.keys() - Options.__annotations__.keys())
    if unknown:
        raise UsageError(f"'{unknown[0]}' is not an option, expected one of {', '.join(Options.__annotations__)}")
    n = node_count(graph)
    counts = {graph.words.get(name, name): int(of.shape[0]) for name, of in (("labels", graph.labels), ("features", graph.features)) if of is not None}
    expected = n if graph.nodes is None else graph.nodes
    if any(count != expected for count in counts.values()):
        raise DataError(f"the graph has {expected} nodes, but {' and '.join(f'{name} of {count}' for name, count in counts.items())}")
    with graph.naming("edges"):
        arrays: dict[str, Array | As] = {"edges": _edges(graph.edges, n)}
    meta: dict[str, Any] = {"name": options.get("name") or name, "nodes": n}
    labels, class_names = _labels_of(graph, options)
    if labels is not None:
        arrays["labels"] = labels
    if class_names is not None:
        meta["classes"] = len(class_names)
    if graph.features is not None:
        with graph.naming("features"):
            arrays |= _features(graph.features, n, "features", "feat")
        meta["features"] = int(graph.features.shape[1])
    arrays |= _edge_arrays(graph, graph.edges.shape[1])
    if graph.relations is not None:
        meta["relations"] = graph.relations
    if graph.node_type is not None:
        arrays["node_type"] = _types(graph.node_type, n, "node")
        sparse = {}
        for k, rows in graph.type_features.items():
            arrays |= _features(rows, int((graph.node_type == k).sum()), f"features of node type {k}", f"feat_t{k}")
            if isinstance(rows, Rows):
                sparse[str(k)] = {"features": rows.shape[1]}
        if sparse:
            meta["features"] = sparse
    arrays |= _split_arrays(graph, n, labels, options)
    arrays |= _held_arrays(graph, n)
    if graph.node_names is not None:
        arrays[NODE_NAMES] = graph.node_names
    names = {CLASS_NAMES: class_names, RELATION_NAMES: graph.relation_names, TYPE_NAMES: graph.type_names}
    return arrays, {"meta": meta, **{file: of for file, of in names.items() if of is not None}}
