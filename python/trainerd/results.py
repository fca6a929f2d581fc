"""A job's results: result.json, metrics.jsonl, arrays and weights of its folder.

JSON needs only the standard library, arrays need NumPy, tables pandas.
"""
from __future__ import annotations

import html
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .errors import DataError, MissingInput, TrainerdError
from .fields import Epoch
from .sources import is_in_memory

if TYPE_CHECKING:
    from .arrays import Array


def table_of(epochs: list[Epoch]) -> Any:
    """Epochs as a pandas.DataFrame with a row for each; unchanged if pandas is missing."""
    try:
        import pandas
    except ImportError:
        return epochs
    return pandas.DataFrame(epochs)


def epochs_of(path: Path, is_growing: bool = False) -> list[Epoch]:
    """The lines of a metrics.jsonl; where a job still writes it, without a last one that is not whole."""
    epochs = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = list(file)
    except OSError as error:
        raise MissingInput(f"cannot open '{path}': {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if is_growing and not line.endswith("\n"):
            break
        try:
            epoch = json.loads(line)
        except ValueError as error:
            raise DataError(f"'{path}', line {number}: {error}, expected a JSON object") from error
        if not isinstance(epoch, dict):
            raise DataError(f"'{path}', line {number}: expected a JSON object")
        epochs.append(cast(Epoch, epoch))
    return epochs


def newest_run(folder: str | os.PathLike[str]) -> Path:
    """The metrics.jsonl of an output folder; without one that of the newest run that has not succeeded in it."""
    path = Path(folder, "metrics.jsonl")
    runs = [] if path.exists() else sorted(Path(folder).glob(".run-*/metrics.jsonl"), key=os.path.getmtime)
    return runs[-1] if runs else path


class Result:
    """A job's results. `json` is result.json as a dict, `folder` where the other files are."""

    def __init__(self, folder: str | os.PathLike[str], json: dict[str, Any] | None = None, data: Any = None) -> None:
        """Read `folder`/result.json, or use the given contents (for a job that ran on another machine). data: the graph
        that `train` had, for `embeddings`; default: the data folder of the job."""
        self.folder = Path(folder).expanduser()
        self._data = data
        self.json = _object_of(self.folder / "result.json") if json is None else json

    def __repr__(self) -> str:
        return f"Result('{self.folder}', {self.json.get('state')}, test {self.test_metric})"

    def _repr_html_(self) -> str:
        """For notebooks: metrics of the best and the last weights, and the curves."""
        def text(value: Any) -> str:
            return "" if value is None else f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))
        def numbered(epoch: Any) -> dict[str, Any]:
            """From 1, as the curves below."""
            return {**epoch, "epoch": epoch["epoch"] + 1} if "epoch" in epoch else dict(epoch)
        columns = ("epoch", "loss", "valid_loss", "train_metric", "valid_metric", "test_metric")
        heading = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in ("weights", *columns))
        rows = "".join(f"<tr><th>{name}</th>{''.join(f'<td>{text(epoch.get(key))}</td>' for key in columns)}</tr>"
                       for name, epoch in (("best", numbered(self.best)), ("last", numbered(self.last))))
        where = html.escape(f"{self.json.get('name')}: {str(self.json.get('state')).lower()}, {self.json.get('metric')}, {self.folder}")
        curves = self._curves()
        return f"<p>{where}</p><table><tr>{heading}</tr>{rows}</table>{curves}"

    def _curves(self) -> str:
        from .curves import svg_of
        try:
            return svg_of(self)
        except TrainerdError as error:  # of another machine, of a prediction, or without matplotlib
            return f"<p>{html.escape(str(error))}</p>"

    def plot(self) -> Any:
        """Loss and metrics over the epochs: a figure of matplotlib, which notebooks show; `savefig("curves.svg")` writes it."""
        from .curves import plot
        return plot(self)

    def to_pyg(self) -> Any:
        """The trained model as a torch.nn.Module of PyTorch Geometric's layers, with the best weights (`pyg_model`)."""
        from .pyg import pyg_model
        return pyg_model(self)

    def _path(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            elsewhere = "" if self.folder.is_dir() else ": the folder is not on this machine"
            raise MissingInput(f"'{path}' is not there{elsewhere}")
        return path

    @property
    def best(self) -> Epoch:
        """The epoch whose weights are in best.safetensors: epoch, loss, valid_loss, train_metric, valid_metric,
        test_metric; with train.metrics also each by its name: valid_roc_auc."""
        return cast(Epoch, self.json.get("best") or {})

    @property
    def last(self) -> Epoch:
        """The last epoch, with the fields of `best`; its weights are in model.safetensors."""
        return cast(Epoch, self.json.get("last") or {})

    @property
    def test_metric(self) -> float | None:
        """The test metric of the best weights; for a prediction that of the graph's test nodes. None: without test
        nodes."""
        of_prediction = cast("dict[str, Any]", self.json.get("metrics") or {})
        return self.best.get("test_metric") if self.best else of_prediction.get("test")

    @property
    def data(self) -> Any:
        """The graph that the job had: that in memory which `train` was given, or else the job's [dataset] section."""
        return self.json["job"]["dataset"] if self._data is None else self._data

    @property
    def job_text(self) -> str:
        """A job file for the same job."""
        return str(self.json.get("job_text", ""))

    def epochs(self) -> list[Epoch]:
        """metrics.jsonl: a dict for each epoch."""
        return epochs_of(self._path("metrics.jsonl"))

    def metrics(self) -> Any:
        """metrics.jsonl as a pandas.DataFrame, or as a list of dicts where pandas is missing."""
        return table_of(self.epochs())

    def array(self, name: str) -> Array:
        """The array in `folder`/`name`."""
        from .arrays import load_array
        return load_array(self._path(name))

    def logits(self) -> Array:
        """float32 [N, C], rows in the order of the graph's nodes: of the best weights."""
        return self.array("logits.npy")

    def probabilities(self) -> Array:
        """float32 [N, C]: what `logits` gives as probabilities of the classes, of several labels per node of each. From
        probabilities.npy, where output.probabilities has asked for it."""
        from .nodes import probabilities_of
        dataset = self.json.get("dataset", {})
        if "outputs" in dataset:
            raise DataError(f"'{self.folder}' is of regression or of links: numbers have no probabilities, expected a job with classes")
        if (self.folder / "probabilities.npy").is_file():
            return self.array("probabilities.npy")
        return probabilities_of(self.logits(), bool(dataset.get("multi_label"))).astype("float32")

    def predictions(self) -> Array:
        """Each node's class, int64 [N]; with several labels uint8 [N, C]; for regression float32 [N], or [N, C] of several
        numbers. Of a training those of its best weights."""
        if (self.folder / "predictions.npy").is_file():
            return self.array("predictions.npy")
        dataset = self.json.get("dataset", {})
        if self.json.get("job", {}).get("task", {}).get("kind") == "link":
            raise DataError(f"'{self.folder}' is of links, which have no class: trainerd.predict(result, data, pairs=...) has their scores")
        logits = self.logits()
        if "outputs" in dataset:
            return logits[:, 0] if logits.shape[1] == 1 else logits
        return (logits > 0).astype("uint8") if dataset.get("multi_label") else logits.argmax(1).astype("int64")

    def class_names(self) -> list[str] | None:
        """The classes' names in the order of their numbers, if the training's data has names."""
        return cast("list[str] | None", self.json.get("dataset", {}).get("class_names"))

    def columns(self, data: str | os.PathLike[str] | None = None) -> dict[str, Array]:
        """The columns of `table`, without pandas."""
        from .nodes import node_columns
        dataset = self.json.get("dataset", {})
        if data is None and self._data is not None and is_in_memory(self._data):
            from .data import graph_of
            return node_columns(self.logits(), dataset, graph_of(self._data))
        folder = dataset.get("path") if data is None else os.path.expanduser(data)
        if data is not None and not os.path.isdir(folder):
            raise MissingInput(f"'{folder}' is not there, expected the data folder")
        return node_columns(self.logits(), dataset, folder if folder is not None and os.path.isdir(folder) else None)

    def table(self, data: str | os.PathLike[str] | None = None) -> Any:
        """A pandas.DataFrame with a row for each node: id, class, probability, and p_<class> of each class. With
        several labels: <label> (0 or 1) and p_<label>; for regression: value.

        id is the node's name if the data folder, or the graph in memory, has names, else its number; with several node
        types the number within its `type`. data: the data folder, if it has moved since the job ran.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingInput("a table needs pandas: pip install pandas; Result.columns() does without") from error
        return pandas.DataFrame(self.columns(data))

    def embeddings(self, layer: str | None = None, data: Any = None) -> Array:
        """float32 [N, columns]: the best weights' output of a layer for each node of the graph that the job had, or of `data`. The
        layer's name is that of its weights, "convs.0", before norm and activation, or "acts.0" after its activation. Without a layer: the one
        that output.embeddings of a prediction names."""
        if layer is None:
            return self.array("embeddings.npy")
        from .prediction import predict
        data = self.data if data is None else data
        with tempfile.TemporaryDirectory(prefix="trainerd-embeddings-") as temporary:
            return predict(self, data, embeddings=layer, output=os.path.join(temporary, "out")).embeddings()

    def weights(self, name: str = "best.safetensors") -> dict[str, Array]:
        """The weights by the names of PyTorch Geometric's modules; "model.safetensors" has those of the last epoch."""
        from .arrays import load_safetensors
        return load_safetensors(self._path(name))


def _object_of(path: Path) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except ValueError as error:
        raise DataError(f"'{path}': {error}, expected JSON") from error
    except OSError as error:
        raise MissingInput(f"'{path}': {error.strerror}, expected the folder of a job's results") from error
    if not isinstance(value, dict):
        raise DataError(f"'{path}' is not a JSON object")
    return value
