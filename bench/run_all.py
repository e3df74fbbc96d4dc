"""Runs every benchmark, one after the other; each also runs alone."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BENCHMARKS = ["keep_all_vs_eager.py", "predicted_overhead.py", "zoo_budgets.py", "scaling.py"]


def main():
    failed = [name for name in BENCHMARKS
              if subprocess.run([sys.executable, HERE / name]).returncode != 0]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
