"""Writes what an installed lowtide would declare to other packages, for one used from the checkout.

Its argument is the site-packages folder in which lowtide.pth points to the checkout.
"""

import pathlib
import sys
import tomllib

PROJECT = pathlib.Path(__file__).resolve().parents[1] / "pyproject.toml"


def entry_points(project):
    """The text of entry_points.txt."""
    groups = tomllib.loads(project.read_text())["project"]["entry-points"]
    return "".join(f"[{group}]\n" + "".join(f"{name} = {target}\n"
                                            for name, target in named.items())
                   for group, named in groups.items())


def main():
    folder = pathlib.Path(sys.argv[1]) / "lowtide-0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: lowtide\nVersion: 0\n")
    (folder / "entry_points.txt").write_text(entry_points(PROJECT))


if __name__ == "__main__":
    main()
