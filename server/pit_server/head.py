"""The head as one value: what requests and duties work with."""

from dataclasses import dataclass

from pit_server.bells import Bells
from pit_server.db.database import Database
from pit_server.duties.scheduling import Scheduling
from pit_server.duties.watching import Watching
from pit_server.services.registration import Door
from pit_server.services.room import Room
from pit_server.settings import Settings
from pit_server.store.paths import DataRoot


@dataclass(frozen=True)
class Head:
    settings: Settings
    bells: Bells
    database: Database
    data: DataRoot
    scheduling: Scheduling
    watching: Watching
    door: Door
    cluster: str  # id of the cluster, made once
    room: Room
