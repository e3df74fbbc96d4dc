"""Folders of sources that are not the user's."""

from __future__ import annotations

import os
import pathlib

import torch

OF_TORCH = os.path.dirname(torch.__file__) + os.sep
OF_LOWTIDE = str(pathlib.Path(__file__).resolve().parents[2]) + os.sep
