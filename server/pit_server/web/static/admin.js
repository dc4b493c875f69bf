// Forms of admins that need more than one call or show an answer.
"use strict";
{
  document.getElementById("add-node")?.addEventListener("pit-done", (event) => {
    const place = document.getElementById("join-line");
    const line = `PIT_WORKER_JOIN_CODE=${event.detail.join_code} ${place.dataset.join}`;
    place.querySelector("code").textContent = line;
    place.querySelector("button").dataset.copy = line;
    place.querySelector("time").dataset.at = event.detail.expires_at;
    place.hidden = false;
    pit.showTimes(place);
  });

  document.addEventListener("submit", async (event) => {
    if (event.target.id !== "membership") return;
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const path = `/api/v1/users/${encodeURIComponent(form.get("user"))}/groups/${encodeURIComponent(form.get("group"))}`;
      await pit.call(event.submitter.value, path);
      pit.say("Saved");
      pit.refresh();
    } catch (error) {
      pit.say(error.message, true);
    }
  });
}
