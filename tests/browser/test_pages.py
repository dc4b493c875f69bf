"""The web page in a real Chromium, on a real head with a real worker."""

from pathlib import Path

import pytest
import requests
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from pit_protocol import API_PREFIX
from tests.browser.conftest import PASSWORD, PHONE, WIDE, Browser, change
from tests.support.clusters.local import Cluster, eventually

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)> \u202egnirts 🎉"
TICKS = "for i in $(seq 3000); do echo tick $i; sleep 0.05; done"


def test_a_job_is_submitted_watched_and_stopped(browser: Browser, cluster: Cluster) -> None:
    first = cluster.run("true")
    browser.open(f"/run?code={first}")
    browser.sees("could start now", "#check")
    browser.type("#processes", "2")
    browser.sees("2 processes each with", "#check")
    browser.type("#title", "ticks")
    browser.type("#command", TICKS)
    browser.click("#run button.main")
    browser.sees("ticks", "h1")
    browser.sees("tick 9", "#log")
    browser.sees("worker 1", "#log")
    browser.sees("running", ".pill")
    browser.click("button.danger")
    browser.once(lambda: browser.driver.switch_to.alert).accept()
    browser.sees("stopped", ".pill")
    browser.sees("complete", "#follow")
    assert "by " in browser.text("#story")


def test_a_branch_of_a_repository_runs(browser: Browser, cluster: Cluster) -> None:
    browser.open("/run")
    browser.type("#remote", f"file://{cluster.project.path.parent / 'origin.git'}")
    browser.type("#ref", "main")
    browser.type("#title", "from a branch")
    browser.click("#run button.main")
    browser.sees("from a branch", "h1")
    browser.sees("committed", "#log")
    browser.sees("succeeded", ".pill")


def test_a_log_is_found_in_followed_and_never_run(browser: Browser, cluster: Cluster) -> None:
    shown = r"\033]0;taken\007\033[31mred\033[0m <b>bold</b> \033[2J50%%\r100%% \u202e done"
    number = cluster.run(f"seq 3000; head -c 200000 /dev/zero | tr '\\0' x; printf '\\n{shown}\\n'")
    cluster.wait(number)
    browser.open(f"/jobs/{number}")
    browser.sees("100%", "#log")
    text = browser.text("#log")
    assert "50%" not in text and "taken" not in text, "a rewritten line shows its last version alone"
    assert browser.driver.title.startswith(f"{number} ")
    browser.click("#follow")
    browser.type("#search-text", "2999" + Keys.ENTER)
    browser.sees("1 lines", "#matches")
    browser.click("#matches button")
    browser.once(lambda: "since=" in browser.driver.current_url)
    browser.click("#log-begin")
    browser.sees("accepted", "#log")
    browser.sees("\n3\n", "#log")


def test_hostile_titles_are_text(browser: Browser, cluster: Cluster) -> None:
    number = int(cluster.json("run", HOSTILE, "-d", "true")["number"])
    cluster.wait(number)
    for path in ("/", "/jobs", f"/jobs/{number}", "/nodes", "/run"):
        browser.open(path)
        browser.find("h1")
        assert browser.driver.find_elements(By.CSS_SELECTOR, "main img") == []
    browser.open(f"/jobs/{number}")
    assert "<script>alert(1)</script>" in browser.text("h1")


def test_the_results_of_a_sweep_are_a_table_and_plots(browser: Browser, cluster: Cluster) -> None:
    command = 'echo "loss=$x" > "$RESULT_FILE"; test "$x" != 3'
    number = cluster.run(command, "[]", "--sweep", "x=3,1,2")
    cluster.wait(number)
    browser.open("/jobs")
    browser.sees("3 of 3 ended, 1 failed", f"#row-{number}")
    browser.open(f"/jobs/{number}/results")
    browser.sees("best", "#results tr.best")
    assert f"{number}.1" in browser.text("#results tr.best")
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, ".plot2d circle")) == 3


def test_an_admin_approves_a_user(browser: Browser, cluster: Cluster) -> None:
    wanted = {"name": "newcomer", "full_name": "New Comer", "email": "", "password": PASSWORD}
    answer = requests.post(f"{browser.url}{API_PREFIX}/users", json=wanted, timeout=30)
    assert answer.status_code == 202, answer.text
    browser.open("/admin")
    browser.click("button[aria-label='Approve newcomer']")
    browser.sees("Nobody waits", "#approvals")
    assert cluster.get("/users/newcomer")["state"] == "active"
    browser.sign_in("newcomer")
    assert "Admin" not in browser.text("header")
    browser.open("/admin")
    browser.sees("Only admins may do this")


def test_an_admin_drains_a_node(browser: Browser, cluster: Cluster) -> None:
    browser.open("/nodes")
    browser.click("button[aria-label^=Drain]")
    browser.sees("draining", "#nodes table")
    browser.click("button[aria-label^=Resume]")
    browser.sees("online", "#nodes table")


def test_a_session_that_ends_in_mid_form_loses_nothing(browser: Browser, cluster: Cluster) -> None:
    job = cluster.run("true")
    browser.open("/run")
    browser.sees("could start now", "#check")
    browser.type("#title", "typed before")
    browser.find(f"#code option[value='{job}']").click()
    browser.once(lambda: not browser.driver.find_element(By.ID, "repository").is_displayed())
    for token in cluster.get("/tokens")["tokens"]:
        if token["label"] == "web page":
            change(cluster, "DELETE", f"/tokens/{token['id']}")
    # By script, because the check of the request may have opened the dialog already, which takes clicks.
    browser.driver.execute_script("document.getElementById('run').requestSubmit()")
    browser.type("#again-password", PASSWORD)
    browser.click("#sign-in-again button.main")
    browser.sees("typed before", "h1")


def test_everything_is_reached_by_keys(browser: Browser, cluster: Cluster) -> None:
    cluster.run("true")
    browser.open("/")
    body = browser.find("body")
    body.send_keys(Keys.TAB)
    assert browser.driver.switch_to.active_element.text == "Skip to the content"
    body.send_keys("g", "j")
    browser.sees("Jobs", "h1")
    browser.find("body").send_keys("j")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.once(lambda: browser.driver.current_url.rsplit("/", 1)[1].replace(".", "").isdigit())
    browser.find("body").send_keys("?")
    browser.sees("search", "#keys")


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", PHONE)])
def test_pages_are_accessible(browser: Browser, cluster: Cluster, scheme: str, size: tuple[int, int]) -> None:
    number = cluster.run("printf '\\033[31mred\\033[0m \\033[90mgrey\\033[0m\\n'")
    cluster.wait(number)
    browser.prefer(scheme)
    browser.resize(size)
    paths = ["/", "/jobs", f"/jobs/{number}", f"/jobs/{number}/code", f"/jobs/{number}/files"]
    for path in (*paths, f"/jobs/{number}/results", "/nodes", "/cluster", "/run", "/admin", "/sign-in"):
        browser.open(path)
        browser.find("h1")
        if path == f"/jobs/{number}":
            browser.sees("grey", "#log")
        browser.driver.execute_script(AXE.read_text())
        found = browser.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then((r) => done(r.violations.map((v) => "
            "`${v.id}: ${v.nodes.map((n) => n.target + ' ' + n.failureSummary).join('; ')}`)))"
        )
        assert found == [], path
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.driver.execute_script(wide) <= 0, f"{path} scrolls sideways"


def test_a_page_survives_a_restart_of_the_head_and_says_so(browser: Browser, cluster: Cluster) -> None:
    number = cluster.run(TICKS)
    browser.open(f"/jobs/{number}")
    browser.sees("tick 3", "#log")
    cluster.kill("head")
    browser.sees("head not reachable", "#live")
    assert cluster.pit("up").code == 0
    browser.sees("live, updated", "#live")
    last = max(int(line.split()[-1]) for line in browser.text("#log").splitlines() if "tick" in line)
    eventually(lambda: f"tick {last + 20}" in browser.text("#log"))
    change(cluster, "POST", f"/jobs/{number}/stop")
    browser.sees("stopped", ".pill")
