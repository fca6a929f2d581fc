"""Run the tests of a folder, and say how many there were: run.py FOLDER[:K/N] [PATTERN]

With K/N the K-th, K+N-th, … of them, from 0 on: N runs side by side have all. The package under test is the installed one, not the source beside this file. Closing line: tests: N passed, N failed, N skipped.
"""
import pathlib
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent


def tests(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    """Class after class."""
    return [test for part in suite for test in ([part] if isinstance(part, unittest.TestCase) else tests(part))]


def main() -> int:
    sys.path.insert(0, str(HERE))
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{sys.argv[2]}*"] if len(sys.argv) > 2 else None
    name, _, share = sys.argv[1].partition(":")
    first, step = (int(word) for word in (share or "0/1").split("/"))
    suite = unittest.TestSuite(tests(loader.discover(str(HERE / name), top_level_dir=str(HERE / name)))[first::step])
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
