"""What the server of processes imports once, and each call then has: see :mod:`tests.attack.commands`."""

import contextlib
import io

import onnxruntime  # noqa: F401
import pytorch_lightning  # noqa: F401
import safetensors.torch  # noqa: F401
import tensorboard.summary  # noqa: F401
import torch
import yaml  # noqa: F401

import tests.attack.commands  # noqa: F401
from fourierscale.cli import main

torch.set_num_threads(1)
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    main(["predict", "scalenet-mnist", "no such file"])
