"""Messages to users survive the head: each arrives, and one that arrives twice says so by its id."""

from collections.abc import Callable

from tests.faults.conftest import BOTH_DATABASES
from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster
from tests.support.servers.receivers import WebReceiver, web_receiver

LOOPBACK_ALLOWED = {"PIT_HEAD_GIT_PROTOCOLS": "https,http", "PIT_HEAD_GIT_LOCAL_HOSTS": "127.0.0.1"}


def start(cluster: Cluster, crash_at: str = "") -> None:
    cluster.start_head(crash_at, **LOOPBACK_ALLOWED)


def messages(receiver: WebReceiver, event: str) -> list[str]:
    return [each.json["id"] for each in receiver.got if each.json["event"] == event]


@BOTH_DATABASES
def test_a_head_that_dies_around_a_delivery_sends_it_again(a_cluster: Callable[..., Cluster]) -> None:
    cluster = a_cluster("n0")
    with web_receiver() as receiver:
        start(cluster)
        cluster.nodes["n0"].start()
        cluster.nodes["n0"].await_state("online")
        channel = {"notify.webhook": f"{receiver.url}/hook", "notify.key": "correct horse battery"}
        assert cluster.call("PATCH", "/users/me", json={"set": channel}).status_code == 200
        eventually(lambda: messages(receiver, "hello") and not cluster.get("/me")["outbox"])
        number = cluster.run_gated()
        assert cluster.call("PATCH", f"/jobs/{number}", json={"set": {"notify": "done"}}).status_code == 200
        cluster.kill_head()
        start(cluster, "before:notify")  # it has sent, but not noted that
        cluster.ledger.open_gate("go")
        cluster.await_crash()
        assert len(messages(receiver, "done")) == 1
        start(cluster, "after:notify")
        cluster.await_crash()
        start(cluster)
        cluster.await_end(number)
        sent = messages(receiver, "done")
        assert len(sent) == 2 and len(set(sent)) == 1
        assert cluster.get("/me")["outbox"] == []
