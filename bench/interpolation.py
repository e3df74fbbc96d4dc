"""How far times and workspaces that are interpolated from a half and a quarter of a size are from
those measured at it: models of the zoo, by `lowtide max-batch` and `max-length`.
"""

import argparse
import pathlib
import sys
import tempfile

from lowtide_command import Failed, lowtide

from report import Table

# Model, and the size that is predicted; small enough for a laptop.
BATCHES = {"mlp": 4096, "vgg16": 8, "resnet18": 16, "resnet50": 16, "mobilenet": 16,
           "mobilenetv2": 16, "densenet121": 8, "inceptionv3": 8, "unet": 4, "fcn8": 4, "segnet": 4,
           "lstm": 64, "gpt": 4, "vit-small": 16}
LENGTHS = {"gpt": 512}
COLUMNS = ("model", "what", "size", "step_error", "median_op_error", "peak_error")
AMPLE = "1TB"  # no size is too large, so that the one predicted is that of --limit


def measure(command, model, size, profile, threads):
    options = ["--batch", 1] if command == "max-length" else []
    found = lowtide(command, "--model", model, *options, "--budget", AMPLE, "--limit", size,
                    "--start", max(1, size // 4), "--strategy", "keep-all", "--no-run",
                    "--profile", profile, "--threads", threads)
    error = found["interpolation"]
    return (model, found["what"], found["size"], error["step"], error["median_op"], error["peak"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="some of them, separated by commas [all]")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    chosen = arguments.models.split(",") if arguments.models else [*BATCHES]
    cases = [("max-batch", model, size) for model, size in BATCHES.items() if model in chosen]
    cases += [("max-length", model, size) for model, size in LENGTHS.items() if model in chosen]
    table, failures = Table("interpolation", COLUMNS, key=2), []
    for command, model, size in cases:
        with tempfile.TemporaryDirectory() as folder:  # all is measured now, on the same machine
            try:
                table.add(*measure(command, model, size, pathlib.Path(folder) / "profile.json",
                                   arguments.threads))
            except Failed as failed:
                print(f"{model}: {failed}", flush=True)
                failures.append(model)
    table.close()
    sys.exit(f"failed: {', '.join(failures)}" if failures else 0)


if __name__ == "__main__":
    main()
