"""What the scripts that compare trainerd with PyTorch Geometric share: a job run from a dict of keys, and a data folder that files may be
added to."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import trainerd


def run_job(keys: dict[str, Any], folder: Path) -> Any:
    """Write keys as the job file folder.toml, train, and return the trainerd.Result in folder."""
    lines: dict[str, list[str]] = {}
    for key, value in {**keys, "output.dir": str(folder)}.items():
        section, name = key.split(".")
        lines.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    file = folder.with_suffix(".toml")
    file.write_text("\n".join(line for section, own in lines.items() for line in (f"[{section}]", *own)) + "\n")
    done = subprocess.run([ROOT / "build/bin/trainerd", "--config", file], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{Path(sys.argv[0]).name}: {file}: exit code {done.returncode}\n{done.stderr[-1000:]}")
    return trainerd.Result(folder)


def link_data(source: Path, folder: Path) -> None:
    """Make the folder, with links to the files of a data folder."""
    folder.mkdir()
    for path in source.glob("*.*"):
        (folder / path.name).symlink_to(path)
