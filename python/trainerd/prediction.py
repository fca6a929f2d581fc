"""Predictions of a trained model on the same or another graph (docs/predict.md), by a daemon or by `trainerd --predict` here."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .client import Client
from .errors import MissingInput
from .programs import Child, find_program
from .results import Result
from .sources import Source
from .toml_text import job_text, settings_of

DONE = "results in "  # the end of a job's last line


def predict(run: str | os.PathLike[str] | Result, data: Any, *, client: Client | None = None, name: str | None = None,
            embeddings: str | None = None, output: str | os.PathLike[str] | None = None, set: Mapping[str, Any] | Sequence[str] | None = None,
            program: str | os.PathLike[str] | None = None, timeout: float | None = None) -> Result:
    """Predict, wait, and return the result: `.predictions()`, `.logits()`, `.embeddings()`, `.json["metrics"]`.

    run         a training's result or its folder, whose best weights are used, or a file of weights in it
    data        a data folder's path, a graph of PyTorch Geometric or DGL, a dict of arrays, or a dict: the [dataset] section of a job file
    client      the daemon that runs it; default: `trainerd --predict` on this machine
    name        of the job; default: the training's
    embeddings  a layer, by the name of its weights ("convs.0"), or its activation ("acts.0"): also write its output for each node
    output      the folder to write; default: runs/<name>-predict-<time> or, under a daemon, -<job>
    set         further settings of the job: {"workers.count": 2, "partition.parts": 4}
    program     of the program trainerd; default: that in $TRAINERD_BIN, in this package, or on PATH
    timeout     seconds, after which the prediction is stopped and TimeoutError raised
    """
    model = os.path.abspath(run.folder if isinstance(run, Result) else os.path.expanduser(run))
    if not os.path.exists(model):
        raise MissingInput(f"'{model}': No such file or directory, expected the folder of a training's results, or a file of weights in it")
    folder = Path(model if os.path.isdir(model) else os.path.dirname(model))
    job: dict[str, Any] = {"name": name or Result(folder).json.get("name", "model")}
    if output is not None or embeddings is not None:
        given = (("dir", None if output is None else os.path.expanduser(output)), ("embeddings", embeddings))
        job["output"] = {key: value for key, value in given if value is not None}
    if client is None:
        with Source(data, predict_only=True) as source:
            job["dataset"] = source.section
            return predict_here(model, job, settings_of(set), program, timeout)
    with tempfile.TemporaryDirectory(prefix="trainerd-predict-") as temporary, Source(data, Path(temporary, "data"), predict_only=True) as source:
        job["dataset"] = source.section
        submitted = client.submit(job, predict=model, set=set)
        try:
            return submitted.wait(timeout)
        except (TimeoutError, KeyboardInterrupt):
            submitted.cancel()  # it must not run on without its data
            submitted.wait(check=False)
            raise


def predict_here(model: str, job: dict[str, Any], settings: list[str], program: str | os.PathLike[str] | None, timeout: float | None) -> Result:
    found = find_program(given=program)
    with tempfile.TemporaryDirectory(prefix="trainerd-predict-") as temporary:
        file = Path(temporary, "predict.toml")
        file.write_text(job_text(job), encoding="utf-8")
        child = Child(found, ["--predict", model, "--config", str(file), *(word for setting in settings for word in ("--set", setting))])
        try:
            if not child.wait(timeout):
                raise TimeoutError(f"the prediction has not ended after {timeout:g} s, and is stopped")
        except BaseException:
            child.stop()
            raise
        return Result(os.path.abspath(child.result(temporary).rpartition(DONE)[2]))
