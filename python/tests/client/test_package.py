"""What `import trainerd` finds, and what it shows."""
import subprocess
import sys
import unittest

import trainerd
from daemon import ROOT


class APackage(unittest.TestCase):
    def test_shows_what_it_has_and_no_more(self) -> None:
        shown = dir(trainerd)
        self.assertEqual(shown, sorted(trainerd.__all__))
        self.assertTrue({"Client", "Lost", "from_pyg", "load_into_pyg"} <= set(shown))
        self.assertTrue(issubclass(trainerd.Lost, trainerd.Unavailable))

    def test_is_found_in_the_checkout_s_root_where_a_folder_has_its_name(self) -> None:
        for options in ((), ("-S",)):  # with and without the installed package
            done = subprocess.run([sys.executable, *options, "-m", "trainerd", "--version"], cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, f"trainerd {trainerd.__version__} (Python package)\n"), done.stderr)
        code = "import trainerd, trainerd.errors; print(trainerd.Client().patience, trainerd.errors is trainerd.errors)"
        done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "60.0 True\n", done.stderr)
