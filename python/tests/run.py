"""Run the tests of a folder, and say how many there were: run.py FOLDER [PATTERN]

The package under test is the installed one, not the source beside this file. Closing line: tests: N passed, N failed, N skipped.
"""
import pathlib
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent


def main() -> int:
    sys.path.insert(0, str(HERE))
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{sys.argv[2]}*"] if len(sys.argv) > 2 else None
    suite = loader.discover(str(HERE / sys.argv[1]), top_level_dir=str(HERE / sys.argv[1]))
    warnings.simplefilter("default")
    warnings.filterwarnings("ignore", module="test_", message="(?s).*edges have no reverse")  # of drawn graphs
    result = unittest.TextTestRunner(verbosity=1, warnings="").run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    for test, why in result.skipped:
        print(f"skipped: {test}: {why}")
    print(f"tests: {result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    return int(failed != 0 or (result.testsRun == 0 and len(sys.argv) == 2))


if __name__ == "__main__":
    sys.exit(main())
