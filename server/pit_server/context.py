"""The head as one value, shared by requests and background threads."""

from dataclasses import dataclass

from pit_protocol.system.retention_clock import RetentionClock
from pit_server.background.estimating import Estimating
from pit_server.background.job_space import JobSpace
from pit_server.background.node_watch import NodeWatch
from pit_server.background.scheduling import Scheduling
from pit_server.db.database import Database
from pit_server.services.files.quota import Quotas
from pit_server.services.jobs.records.delays import DelayFacts
from pit_server.services.nodes.order_specs import OrderSpecs
from pit_server.services.sessions.registry import ProcessSessions
from pit_server.services.users.callers import Callers
from pit_server.services.users.registration import Authentication
from pit_server.services.users.request_limits import RequestLimits
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.wakeups import Wakeups


@dataclass(frozen=True)
class Head:
    settings: Settings
    wakeups: Wakeups
    database: Database
    data: DataRoot
    scheduling: Scheduling
    estimating: Estimating
    node_watch: NodeWatch
    auth: Authentication
    cluster: str  # the cluster's id
    quotas: Quotas
    job_space: JobSpace
    request_limits: RequestLimits
    callers: Callers
    order_specs: OrderSpecs
    process_sessions: ProcessSessions
    clock: RetentionClock  # for the age of data that may be deleted

    @property
    def delay_facts(self) -> DelayFacts:
        return DelayFacts(
            self.scheduling.reasons,
            self.node_watch.lost_in_s,
            self.scheduling.fresh.find,
            self.estimating.ranges,
        )
