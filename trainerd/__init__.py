"""Python that is started in the root of this repository takes this folder of C files for the package `trainerd`, which is in
python/trainerd: this file loads that one in its place, so that `python3 -m trainerd` is the same here as where it is installed."""
import importlib.util
import pathlib
import sys

_package = pathlib.Path(__file__).resolve().parents[1] / "python" / "trainerd"
_spec = importlib.util.spec_from_file_location(__name__, _package / "__init__.py", submodule_search_locations=[str(_package)])
sys.modules[__name__] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[__name__])
