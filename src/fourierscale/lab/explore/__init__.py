"""A page to play with: draw or drop an image, slide over resolution, see what two nets make of it."""

from fourierscale.lab.explore.page import build_page
from fourierscale.lab.explore.server import ExploreServer, serve
from fourierscale.lab.explore.static import write_page
from fourierscale.lab.explore.viewer import LookError, Net, Viewer

__all__ = ["ExploreServer", "LookError", "Net", "Viewer", "build_page", "serve", "write_page"]
