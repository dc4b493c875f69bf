"""Users are told of what becomes of their jobs, by the channels that they have set up."""

import hashlib
import hmac
import logging
from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from pit_server.context import Head
from pit_server.db.models import Notification, Secret
from pit_server.services.notifications import outbox
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_submission, ended, running
from tests.support.servers.receivers import MailReceiver, WebReceiver

KEY = "correct horse battery"
BOT = "123456:abcdefghijklmnopqrstuvwxyz-_"


@pytest.fixture
def hooked(anna: Person, web: WebReceiver, send: Callable[..., None]) -> Person:
    """A user with a webhook that has had its first message."""
    anna.ok(anna.patch("/users/me", **{"notify.webhook": f"{web.url}/hook", "notify.key": KEY}))
    send()
    assert [each.json["event"] for each in web.got] == ["hello"]
    web.got.clear()
    return anna


def test_a_webhook_is_signed_and_names_the_job(
    hooked: Person, web: WebReceiver, send: Callable[..., None], run_job: Callable[..., int]
) -> None:
    number = run_job(7, notify="done,failed")
    send()
    (got,) = web.got
    assert (got.path, got.headers["Pit-Event"]) == ("/hook", "failed")
    record = got.json
    assert (record["job"], record["event"], record["outcome"]) == (number, "failed", "failed")
    assert record["id"] == got.headers["Pit-Delivery"]
    assert record["text"] == f"job {number} failed: First light"
    assert "7" in record["reason"]
    stamp, mac = (part.partition("=")[2] for part in got.headers["Pit-Signature"].split(","))
    assert mac == hmac.new(KEY.encode(), stamp.encode() + b"." + got.body, hashlib.sha256).hexdigest()


def test_only_chosen_events_are_told_and_a_job_may_choose_its_own(
    hooked: Person, web: WebReceiver, send: Callable[..., None], run_job: Callable[..., int]
) -> None:
    run_job()
    hooked.ok(hooked.patch("/users/me", notify="done,failed"))
    mine = run_job()
    run_job(notify="none")
    started = run_job(notify="started")
    late = run_job(3)
    send()
    told = [(each.json["job"], each.json["event"]) for each in web.got]
    assert told == [(mine, "done"), (started, "started"), (late, "failed")]
    assert hooked.job(mine)["options"]["notify"] == "done,failed"


@ONE_DATABASE
def test_the_events_of_a_job_can_be_changed(
    hooked: Person,
    web: WebReceiver,
    send: Callable[..., None],
    a_placed_job: Callable[..., int],
    node: Worker,
) -> None:
    number = a_placed_job()
    hooked.ok(hooked.patch(f"/jobs/{number}", notify="stopped"))
    (process,) = node.orders()
    node.beat(running(process))
    hooked.stop(number)
    node.beat(ended(process, 143))
    send()
    assert [each.json["event"] for each in web.got] == ["stopped"]


@ONE_DATABASE
def test_an_array_tells_once(
    hooked: Person,
    web: WebReceiver,
    send: Callable[..., None],
    a_placed_job: Callable[..., int],
    node: Worker,
) -> None:
    number = a_placed_job(array="0-2", notify="done,failed")
    processes = list(node.orders())
    node.beat(*(running(each) for each in processes))
    node.beat(*(ended(each, code) for each, code in zip(processes, (0, 1, 0), strict=True)))
    send()
    assert [(each.json["job"], each.json["event"]) for each in web.got] == [(number, "failed")]


def test_mail_slack_and_telegram(
    anna: Person, web: WebReceiver, mail: MailReceiver, send: Callable[..., None], run_job: Callable[..., int]
) -> None:
    channels = {"notify.mail": "yes", "notify.slack": f"{web.url}/slack", "notify.telegram": f"{BOT}/-42"}
    anna.ok(anna.patch("/users/me", email="anna@lab.example", **channels))
    send(smtp_url=mail.url)
    web.got.clear(), mail.got.clear()
    number = run_job(title="Long\u202e run", notify="done")
    send(smtp_url=mail.url)
    (letter,) = mail.got
    assert letter["Subject"] == f"job {number} succeeded: Long  run"
    assert set(mail.recipients) == {"anna@lab.example"}
    assert f"pit log {number}" in letter.get_content()
    slack, telegram = sorted(web.got, key=lambda each: each.path, reverse=True)
    assert slack.path == "/slack" and slack.json["text"].startswith(f"job {number} succeeded")
    assert telegram.path == f"/bot{BOT}/sendMessage" and telegram.json["chat_id"] == "-42"
    assert anna.ok(anna.get("/me"))["channels"] == ["mail", "slack", "telegram"]


def test_what_fails_is_tried_again_later_and_shown(
    hooked: Person,
    web: WebReceiver,
    send: Callable[..., None],
    run_job: Callable[..., int],
    at: Callable[[float], None],
) -> None:
    web.status = 503
    first, second = run_job(notify="done"), run_job(notify="done")
    send()
    assert len(web.got) == 1  # what is behind waits with it
    (line,) = hooked.ok(hooked.get("/me"))["outbox"]
    assert line.startswith("webhook: 2 to send; 127.0.0.1 answered 503; next try in ")
    at(1000)
    send()
    assert len(web.got) == 2
    web.status = 200
    at(2000)
    send()
    assert [each.json["job"] for each in web.got] == [first, first, first, second]
    assert len({each.json["id"] for each in web.got[:3]}) == 1
    assert hooked.ok(hooked.get("/me"))["outbox"] == []


@ONE_DATABASE
def test_after_a_day_a_message_is_given_up_and_that_is_shown(
    hooked: Person,
    web: WebReceiver,
    send: Callable[..., None],
    run_job: Callable[..., int],
    at: Callable[[float], None],
) -> None:
    web.status = 500
    run_job(notify="done")
    send()
    at(25 * 3600)
    send()
    assert hooked.ok(hooked.get("/me"))["outbox"] == ["webhook: 1 given up; the last: 127.0.0.1 answered 500"]


@ONE_DATABASE
def test_a_head_that_dies_after_sending_sends_again_with_the_same_id(
    hooked: Person,
    web: WebReceiver,
    send: Callable[..., None],
    run_job: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    head: Head,
) -> None:
    run_job(notify="done")
    send()
    with head.database.write() as session:  # as it was when the head died
        session.execute(update(Notification).values(ended_at=None, is_sent=False, tries=0))
    send()
    ids = [each.json["id"] for each in web.got if each.json["event"] == "done"]
    assert len(ids) == 2 and len(set(ids)) == 1


@pytest.mark.threat("S24")
@ONE_DATABASE
def test_a_webhook_cannot_reach_the_head_itself(
    hooked: Person, web: WebReceiver, send: Callable[..., None], run_job: Callable[..., int]
) -> None:
    run_job(notify="done")
    send(git_local_hosts="")
    assert web.got == []
    (line,) = hooked.ok(hooked.get("/me"))["outbox"]
    assert "the head does not connect to 127.0.0.1" in line


@ONE_DATABASE
def test_a_webhook_is_not_redirected(
    hooked: Person, web: WebReceiver, send: Callable[..., None], run_job: Callable[..., int]
) -> None:
    web.status, web.redirect = 307, f"{web.url}/elsewhere"
    run_job(notify="done")
    send()
    assert [each.path for each in web.got] == ["/hook"]


@ONE_DATABASE
def test_secrets_of_channels_are_sealed_and_never_told(
    anna: Person,
    root: Person,
    head: Head,
    web: WebReceiver,
    send: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hunter2-hunter2-hunter2"
    web.status = 500
    anna.ok(anna.patch("/users/me", **{"notify.slack": f"{web.url}/{secret}", "notify.key": secret}))
    send()
    with head.database.read() as session:
        stored = [*session.execute(select(Secret.sealed)).scalars()]
        stored += [str(row) for row in session.execute(select(Notification.__table__))]
    shown = [anna.get("/me").text, root.get("/users/anna").text, root.get("/audit").text, caplog.text]
    assert [text for text in (*stored, *shown) if secret in text] == []
    assert anna.ok(anna.get("/me"))["git"] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"notify": "done,perhaps"}, "'perhaps' is not one of"),
        ({"notify.pigeon": "yes"}, "there is no channel 'pigeon'"),
        ({"notify.mail": "yes"}, "has no e-mail address"),
        ({"notify.webhook": "ftp://example.org/x"}, "is not a URL of http or https"),
        ({"notify.webhook": "https://me:word@example.org/x"}, "is not a URL of http or https"),
        ({"notify.webhook": "https://example.org/x"}, "needs notify.key"),
        ({"notify.key": "short"}, "16 to 200 characters"),
        ({"notify.telegram": "chat"}, "does not name a bot and a chat"),
    ],
)
@ONE_DATABASE
def test_a_channel_that_cannot_work_is_refused(anna: Person, given: dict[str, str], message: str) -> None:
    answer = anna.patch("/users/me", **given)
    assert answer.status_code == 422
    assert message in answer.json["message"]


@ONE_DATABASE
def test_a_job_cannot_ask_for_what_nobody_would_get(anna: Person, node: Worker) -> None:
    answer = anna.post("/jobs", json=a_submission(notify="done"))
    assert (answer.status_code, answer.json["code"]) == (422, "no_channel")


@ONE_DATABASE
def test_the_outbox_is_bounded(
    hooked: Person,
    web: WebReceiver,
    head: Head,
    run_job: Callable[..., int],
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 2)
    monkeypatch.setattr(outbox, "MOST_ENDED", 1)
    for _ in range(4):
        run_job(notify="done")
    send()
    assert len(web.got) == 2
    with head.database.read() as session:
        assert len(session.execute(select(Notification.id)).all()) == 1


@ONE_DATABASE
def test_a_channel_that_is_removed_gets_nothing(
    hooked: Person, web: WebReceiver, send: Callable[..., None], run_job: Callable[..., int]
) -> None:
    run_job(notify="done")
    hooked.ok(hooked.patch("/users/me", **{"notify.webhook": ""}))
    send()
    assert (web.got, hooked.ok(hooked.get("/me"))["channels"]) == ([], [])
