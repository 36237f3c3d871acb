"""The commands of ``fourierscale`` that train and use models, one file each."""

from fourierscale.commands.audit import audit
from fourierscale.commands.bench import bench
from fourierscale.commands.demo import demo
from fourierscale.commands.evaluate import evaluate
from fourierscale.commands.explore import explore
from fourierscale.commands.export import export
from fourierscale.commands.models import models
from fourierscale.commands.predict import predict
from fourierscale.commands.train import train

__all__ = ["COMMANDS"]

COMMANDS = (demo, train, evaluate, audit, predict, export, models, bench, explore)
