"""The main job in a few minutes: shipped weights measured, two nets trained on the spot, one page with the results."""

from fourierscale.lab.demo.lines import ResultLine, result_lines
from fourierscale.lab.demo.report import write_report
from fourierscale.lab.demo.stages import Demo, DemoSettings, Entry, Listener, run_demo

__all__ = ["Demo", "DemoSettings", "Entry", "Listener", "ResultLine", "result_lines", "run_demo", "write_report"]
