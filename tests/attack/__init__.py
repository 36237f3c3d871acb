"""Random and damaged input for everything that promises something; see the README."""

from tests.attack.disk import Disk
from tests.attack.files import Files
from tests.attack.frame import Part
from tests.attack.kills import Kills
from tests.attack.layers import Layers
from tests.attack.models import Models
from tests.attack.pairs import Pairs
from tests.attack.server import Server
from tests.attack.threads import Threads

PARTS: dict[str, type[Part]] = {
    part.name: part for part in (Layers, Models, Files, Pairs, Kills, Disk, Server, Threads)
}
