"""Job files that came with trainerd, to begin a job with: in the wheel, where `make install` puts them, or in a checkout."""
from __future__ import annotations

import contextlib
import re
from pathlib import Path

from ..errors import MissingInput

PACKAGE = Path(__file__).resolve().parents[1]
SYSTEM = (Path("/usr/local/share/trainerd/configs"), Path("/usr/share/trainerd/configs"))
NAME = re.compile(r"[\w-]+", re.ASCII)
TEXT_BYTES_MOST = 64 << 10


def folders(programs: str) -> list[Path]:
    """Where they may be; `programs` is the path of one of trainerd's programs. A checkout's is the last: above a package that pip has
    installed is another one's folder."""
    return [PACKAGE / "configs", Path(programs).resolve().parents[1] / "share/trainerd/configs", *SYSTEM, PACKAGE.parents[1] / "configs"]


def listed(programs: str) -> dict[str, Path]:
    """The job files of the first folder that has quickstart.toml, by their names without the ending."""
    found = next((folder for folder in folders(programs) if (folder / "quickstart.toml").is_file()), None)
    return {} if found is None else {file.stem: file for file in sorted(found.glob("*.toml")) if NAME.fullmatch(file.stem)}


def text_of(programs: str, name: str) -> str:
    file = listed(programs).get(name)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file is not None and file.stat().st_size <= TEXT_BYTES_MOST:
            return file.read_text(encoding="utf-8")
    raise MissingInput(f"there is no job file '{name[:100]}'")
